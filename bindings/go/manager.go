// SPDX-License-Identifier: Apache-2.0

// Package kvcache manages the KV cache of an LLM inference engine. It decides which block of memory holds which tokens, what
// requests share, and what is evicted. It is a layer over libkvcache; the header kvcache.h is the manual, and meaning and units
// are the same here.
//
// Any goroutine may call a Manager. One goroutine at a time drives a request or a Step. A failed call changes nothing; errors.Is
// tells why it failed. Slices are used in place during the call and never kept.
//
// Building needs an installed libkvcache that pkg-config finds.
package kvcache

// #cgo pkg-config: kvcache
// #include <kvcache.h>
// #include <stdlib.h>
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// Group is a group of layers with one block table per request. With WindowTokens a query reads the last WindowTokens tokens, itself
// included, and the first NumSinkTokens; with ChunkTokens the earlier tokens of its chunk of so many tokens, and itself. With State a block
// holds the recurrent state (Mamba, linear attention) after some number of tokens: after c tokens the one at position (c - 1) / BlockSize of
// the table; a step from c to e tokens reads it there and writes the new one at (e - 1) / BlockSize; only steps' ends have blocks; a commit
// that ends at a multiple of BlockSize publishes the state there, and hits end at such checkpoints (RequestInfo.NextCheckpoint). With none of
// them: full attention.
type Group struct {
	WindowTokens, RetentionTokens uint64
	NumSinkTokens, Pool           uint32
	ChunkTokens                   uint64
	State                         bool
	MaxCheckpoints                uint64 // With State: cached states at most; the group needs a pool of its own. 0 = as many as fit.
	Cross                         bool
}

// Config is the shape of a manager: kvc_manager_config. Only the blocks have no default: set NumBlocks, Pools, or Model and Memory.
type Config struct {
	NumBlocks        uint64      // Blocks of the only pool.
	Pools            []uint64    // Blocks of each pool, instead of NumBlocks.
	Model            *Model      // With Memory, instead of NumBlocks and Groups: the blocks and groups that a model has within a budget.
	Memory           MemoryQuery // The budget of Model: BudgetBytes or MemoryFraction, and the type of keys and values.
	Groups           []Group     // nil = one group with full attention.
	BlockSize        uint32      // Tokens per block; 0 = 16.
	VocabSize        uint32      // Token ids must be below this; 0 = only non-negative.
	MaxNodes         uint64      // Prefix positions to remember; 0 = enough for the blocks.
	MaxRequests      uint64      // 0 = 1024.
	MaxRequestTokens uint64      // 0 = 2^24.
	EventCapacity    uint64      // Events that Events can read; 0 = none.
	Seed             uint64      // Secret of the table hash; 0 = random. It never changes a result.
	WatermarkBlocks  uint64      // Blocks that an admission must leave available.
	NullBlock        bool        // Block id 0 is reserved for the engine.
	NoPrefixCache    bool        // Publish nothing.
	// TakePending lists the blocks to clear: those that move from one namespace to another, or all that are handed out.
	ZeroCrossNamespace, ZeroAlways bool
	TouchMemory                    bool // Take all memory from the system now, not when it is first used.
	Fills                          bool // Follow which request computes which tokens: RequestOptions.WaitUntilNs, ShareFilling, FailStep.
	Hints                          bool // Evict by priorities before the policy: SetPriority, EndSession, SetPrefixPriority.

	Policy Policy // Which cached block is evicted first.
	// PolicyWeight is what a doubling of the uses is worth, in pools (PolicyFrequency; 0 .. 1000, 0 = 1), or how much longer whole positions
	// stay than fragments (PolicyFragmentation; 0 = as PolicyLRU .. 1 = all fragments leave first).
	PolicyWeight  float64
	PolicyHistory uint64 // PolicyFrequency: evicted positions whose uses are remembered; 0 = 4 * blocks.
	MaxQuotas     uint32 // Namespaces that may have a quota (SetQuota), at most 63.
	// MaxBlocks are the blocks to which Resize may enlarge each pool; nil = as many as they have. Room costs addresses, not memory.
	MaxBlocks   []uint64
	Headroom    bool   // Remember how many tokens ended requests got, for RequestOptions.Headroom and ExpectedTokens.
	RecordBytes uint64 // Room for a log of the calls (TakeLog), at least 4096; 0 = no log.
	// PartialReuse lets hits end inside a block: the cached block that shares most of the tokens after the hit is copied (Step.Copies, TakePending).
	PartialReuse bool
}

// Manager is the block manager. Create it with New, free it with Close.
type Manager struct {
	mu       sync.RWMutex // Held for reading by every call: Close waits for them.
	c        uintptr
	owned    sync.Map // Steps, schedulers and publishers, to destroy before the manager.
	offloads offloads
}

// Request is the id of a request, valid until it is freed.
type Request uint64

// New creates a manager. Errors: ErrInvalidArgument, ErrUnsupported, ErrOutOfMemory.
func New(config Config) (*Manager, error) {
	return create(config, native.Kvc_manager_create)
}

// create makes a manager by a call that takes its configuration and writes its address.
func create(config Config, call func(config *byte, address *uintptr) error) (*Manager, error) {
	// In C memory, because it points to arrays.
	c := (*C.kvc_manager_config)(C.calloc(1, C.sizeof_kvc_manager_config))
	defer C.free(unsafe.Pointer(c))
	c.struct_size = C.sizeof_kvc_manager_config
	c.num_blocks, c.block_size, c.vocab_size = C.uint64_t(config.NumBlocks), C.uint32_t(config.BlockSize), C.uint32_t(config.VocabSize)
	c.max_nodes, c.max_requests = C.uint64_t(config.MaxNodes), C.uint64_t(config.MaxRequests)
	c.max_request_tokens, c.event_capacity = C.uint64_t(config.MaxRequestTokens), C.uint64_t(config.EventCapacity)
	c.policy, c.policy_weight, c.policy_history = C.uint32_t(config.Policy), C.double(config.PolicyWeight), C.uint64_t(config.PolicyHistory)
	c.seed, c.watermark_blocks = C.uint64_t(config.Seed), C.uint64_t(config.WatermarkBlocks)
	c.max_quotas, c.record_bytes = C.uint32_t(config.MaxQuotas), C.uint64_t(config.RecordBytes)
	if config.NullBlock {
		c.flags |= C.KVC_MANAGER_NULL_BLOCK
	}
	if config.NoPrefixCache {
		c.flags |= C.KVC_MANAGER_NO_PREFIX_CACHE
	}
	if config.ZeroCrossNamespace {
		c.flags |= C.KVC_MANAGER_ZERO_CROSS_NAMESPACE
	}
	if config.TouchMemory {
		c.flags |= C.KVC_MANAGER_TOUCH_MEMORY
	}
	if config.Hints {
		c.flags |= C.KVC_MANAGER_HINTS
	}
	if config.Fills {
		c.flags |= C.KVC_MANAGER_FILLS
	}
	if config.Headroom {
		c.flags |= C.KVC_MANAGER_HEADROOM
	}
	if config.PartialReuse {
		c.flags |= C.KVC_MANAGER_PARTIAL_REUSE
	}
	if config.ZeroAlways {
		c.flags |= C.KVC_MANAGER_ZERO_ALWAYS
	}
	pools := len(config.Pools)
	if pools == 0 {
		pools = 1
	}
	if n := len(config.MaxBlocks); n != 0 && n != pools {
		return nil, invalid("MaxBlocks has %d entries for %d pools; give one for each, or none", n, pools)
	}
	if len(config.Pools) == 0 && len(config.MaxBlocks) == 1 {
		c.max_blocks = C.uint64_t(config.MaxBlocks[0])
	}
	if n := len(config.Pools); n > 0 {
		c.pools, c.num_pools = (*C.kvc_pool_config)(C.calloc(C.size_t(n), C.sizeof_kvc_pool_config)), C.size_t(n)
		defer C.free(unsafe.Pointer(c.pools))
		for i, blocks := range config.Pools {
			pool := C.kvc_pool_config{struct_size: C.sizeof_kvc_pool_config, num_blocks: C.uint64_t(blocks)}
			if config.MaxBlocks != nil {
				pool.max_blocks = C.uint64_t(config.MaxBlocks[i])
			}
			unsafe.Slice(c.pools, n)[i] = pool
		}
	}
	if n := len(config.Groups); n > 0 {
		c.groups, c.num_groups = (*C.kvc_group_config)(C.calloc(C.size_t(n), C.sizeof_kvc_group_config)), C.size_t(n)
		defer C.free(unsafe.Pointer(c.groups))
		for i, group := range config.Groups {
			to := &unsafe.Slice(c.groups, n)[i]
			to.struct_size, to.pool = C.sizeof_kvc_group_config, C.uint32_t(group.Pool)
			to.window_tokens, to.retention_tokens = C.uint64_t(group.WindowTokens), C.uint64_t(group.RetentionTokens)
			to.num_sink_tokens = C.uint32_t(group.NumSinkTokens)
			to.chunk_tokens, to.max_checkpoints = C.uint64_t(group.ChunkTokens), C.uint64_t(group.MaxCheckpoints)
			if group.State {
				to.kind = C.KVC_GROUP_STATE
			} else if group.Cross {
				to.kind = C.KVC_GROUP_CROSS
			} else if group.WindowTokens > 0 {
				to.kind = C.KVC_GROUP_SLIDING_WINDOW
			} else if group.ChunkTokens > 0 {
				to.kind = C.KVC_GROUP_CHUNKED_LOCAL
			}
		}
	}
	if config.Model != nil {
		memory, free, err := config.Memory.c(config.Model)
		if err != nil {
			return nil, err
		}
		defer free()
		c.memory = memory
	} else if config.Memory != (MemoryQuery{}) {
		return nil, invalid("Memory is set and Model is nil; set both, or NumBlocks")
	}
	var address uintptr
	if err := call(asByte(c), &address); err != nil {
		return nil, err
	}
	m := &Manager{c: address}
	atomic.AddInt64(&liveObjects, 1)
	runtime.SetFinalizer(m, (*Manager).Close)
	return m, nil
}

// Close frees the manager with all its requests, steps, schedulers and Offloads. It waits for calls in other goroutines. Closing again does nothing.
func (m *Manager) Close() error {
	m.offloads.lock(&m.mu)
	defer m.mu.Unlock()
	if m.c != 0 {
		m.owned.Range(func(object, _ any) bool {
			object.(interface{ destroy() }).destroy()
			return true
		})
		C.kvc_manager_destroy((*C.kvc_manager)(*(*unsafe.Pointer)(unsafe.Pointer(&m.c))))
		m.c = 0
		atomic.AddInt64(&liveObjects, -1)
	}
	return nil
}

// call runs a function on the open manager. Close waits for it.
func (m *Manager) call(function func(c uintptr) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.c == 0 {
		return ErrClosed
	}
	return function(m.c)
}

// Usage is the part of the blocks that is held (neither free nor cached): 0 .. 1.
func (m *Manager) Usage() (float64, error) {
	stats, err := m.Stats()
	if err != nil {
		return 0, err
	}
	return 1 - float64(stats.BlocksFree+stats.BlocksCached)/float64(stats.BlocksTotal), nil
}

// FailStep states that the kernels of a step in flight, and of all later ones, did not write their blocks. Requests that hold such a block are
// preempted, in the order of their admissions; it returns them. Errors: ErrInvalidArgument (no step in flight), ErrUnsupported (without Config.Fills).
func (m *Manager) FailStep(stepID uint64) ([]Request, error) {
	return grown(func(room []Request) (count uint64, err error) {
		ids := unsafe.Slice((*uint64)(unsafe.Pointer(&room[0])), len(room))
		err = m.call(func(c uintptr) error { return native.Kvc_manager_fail_step(c, stepID, ids, &count) })
		return count, err
	})
}

// Version is the version of the library: major * 10000 + minor * 100 + patch.
func Version() uint32 { return uint32(C.kvc_version()) }
