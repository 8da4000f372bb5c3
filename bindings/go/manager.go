// SPDX-License-Identifier: Apache-2.0

// Package kvcache manages the KV cache of an LLM inference engine: which block of memory holds which tokens, what requests
// share, what is evicted. It is a layer over libkvcache, whose header kvcache.h is the manual; meaning and units are the same.
//
// Any goroutine may call a Manager; one request, and one Step, is driven by one goroutine at a time. A failed call changes
// nothing; errors.Is tells why it failed. Slices are used in place for the time of the call and never kept.
//
// Building needs libkvcache installed where pkg-config finds it.
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

	"libkvcache/bindings/go/internal/native"
)

// Group is a set of layers with one block table per request. WindowTokens 0 is full attention, else a sliding window that
// reads so many tokens, the query's own included, and the first NumSinkTokens.
type Group struct {
	WindowTokens, RetentionTokens uint64
	NumSinkTokens, Pool           uint32
}

// Config is the shape of a manager. Everything but NumBlocks (or Pools) has a default.
type Config struct {
	NumBlocks        uint64   // Blocks of the only pool.
	Pools            []uint64 // Or of each pool.
	Groups           []Group  // Default: one with full attention.
	BlockSize        uint32   // Tokens per block; 0 = 16.
	VocabSize        uint32   // Token ids must be below this; 0 = only non-negative.
	MaxNodes         uint64   // Prefix positions remembered.
	MaxRequests      uint64   // 0 = 1024.
	MaxRequestTokens uint64   // 0 = 2^24.
	EventCapacity    uint64   // Events kept for Events; 0 = none.
	Seed             uint64   // Of the table hash; 0 = random. Never changes a result.
	WatermarkBlocks  uint64   // An admission must leave so many blocks.
	NullBlock        bool     // Block 0 is the engine's.
	NoPrefixCache    bool     // Never publish.
	ZeroForeign      bool     // Blocks that change namespace are told by TakeZeroBlocks.
	ZeroAlways       bool     // All blocks that are handed out are.
}

// Manager owns blocks and requests. Make one with New, end it with Close.
type Manager struct {
	mu    sync.RWMutex // Held for reading by every call: Close waits for them.
	c     uintptr
	steps sync.Map // Those to destroy before the manager.
}

// Request is the id of a request, valid until it is freed.
type Request uint64

// New makes a manager. Errors: ErrInvalidArgument, ErrUnsupported, ErrOutOfMemory.
func New(config Config) (*Manager, error) {
	// In C memory, since it points to arrays.
	c := (*C.kvc_manager_config)(C.calloc(1, C.sizeof_kvc_manager_config))
	defer C.free(unsafe.Pointer(c))
	c.struct_size = C.sizeof_kvc_manager_config
	c.num_blocks, c.block_size, c.vocab_size = C.uint64_t(config.NumBlocks), C.uint32_t(config.BlockSize), C.uint32_t(config.VocabSize)
	c.max_nodes, c.max_requests = C.uint64_t(config.MaxNodes), C.uint64_t(config.MaxRequests)
	c.max_request_tokens, c.event_capacity = C.uint64_t(config.MaxRequestTokens), C.uint64_t(config.EventCapacity)
	c.seed, c.watermark_blocks = C.uint64_t(config.Seed), C.uint64_t(config.WatermarkBlocks)
	if config.NullBlock {
		c.flags |= C.KVC_MANAGER_NULL_BLOCK
	}
	if config.NoPrefixCache {
		c.flags |= C.KVC_MANAGER_NO_PREFIX_CACHE
	}
	if config.ZeroForeign {
		c.flags |= C.KVC_MANAGER_ZERO_FOREIGN
	}
	if config.ZeroAlways {
		c.flags |= C.KVC_MANAGER_ZERO_ALWAYS
	}
	if n := len(config.Pools); n > 0 {
		c.pools, c.num_pools = (*C.kvc_pool_config)(C.calloc(C.size_t(n), C.sizeof_kvc_pool_config)), C.size_t(n)
		defer C.free(unsafe.Pointer(c.pools))
		for i, blocks := range config.Pools {
			unsafe.Slice(c.pools, n)[i] = C.kvc_pool_config{C.sizeof_kvc_pool_config, C.uint64_t(blocks)}
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
			if group.WindowTokens > 0 {
				to.kind = C.KVC_GROUP_SLIDING_WINDOW
			}
		}
	}
	var address uintptr
	if err := native.Kvc_manager_create(asByte(c), &address); err != nil {
		return nil, err
	}
	m := &Manager{c: address}
	atomic.AddInt64(&liveObjects, 1)
	runtime.SetFinalizer(m, (*Manager).Close)
	return m, nil
}

// Close frees the manager with all its requests and steps, once calls in other goroutines have returned. Closing again
// does nothing.
func (m *Manager) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.c != 0 {
		m.steps.Range(func(step, _ any) bool {
			step.(*Step).destroy()
			return true
		})
		C.kvc_manager_destroy((*C.kvc_manager)(*(*unsafe.Pointer)(unsafe.Pointer(&m.c))))
		m.c = 0
		atomic.AddInt64(&liveObjects, -1)
	}
	return nil
}

// call runs a function on the open manager and keeps Close out meanwhile.
func (m *Manager) call(function func(c uintptr) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.c == 0 {
		return ErrClosed
	}
	return function(m.c)
}

// Stats never waits for the manager's lock.
func (m *Manager) Stats() (stats Stats, err error) {
	stats.size = uint64(unsafe.Sizeof(stats))
	err = m.call(func(c uintptr) error { return native.Kvc_manager_stats(c, asByte(&stats)) })
	return stats, err
}

// Usage is the part of the blocks that is held, neither free nor merely cached: 0 .. 1.
func (m *Manager) Usage() (float64, error) {
	stats, err := m.Stats()
	if err != nil {
		return 0, err
	}
	return 1 - float64(stats.BlocksFree+stats.BlocksCached)/float64(stats.BlocksTotal), nil
}

// Properties are what the manager was made with, defaults filled in.
func (m *Manager) Properties() (properties Properties, err error) {
	properties.size = uint64(unsafe.Sizeof(properties))
	err = m.call(func(c uintptr) error { return native.Kvc_manager_properties(c, asByte(&properties)) })
	return properties, err
}

// PoolInfo are the counts of a pool.
func (m *Manager) PoolInfo(pool uint32) (info PoolInfo, err error) {
	info.size = uint64(unsafe.Sizeof(info))
	err = m.call(func(c uintptr) error { return native.Kvc_manager_pool_info(c, pool, asByte(&info)) })
	return info, err
}

// BlockInfo is the state of a block.
func (m *Manager) BlockInfo(block int32) (info BlockInfo, err error) {
	info.size = uint64(unsafe.Sizeof(info))
	err = m.call(func(c uintptr) error { return native.Kvc_manager_block_info(c, block, asByte(&info)) })
	return info, err
}

// Digest is a hash of the state: equal call sequences give equal digests anywhere.
func (m *Manager) Digest() (digest uint64, err error) {
	err = m.call(func(c uintptr) error { return native.Kvc_manager_digest(c, &digest) })
	return digest, err
}

// Check tests every invariant; ErrCorrupt says which one is broken.
func (m *Manager) Check() error {
	return m.call(native.Kvc_manager_check)
}

// RetireStep says that the kernels of all steps up to this one have finished.
func (m *Manager) RetireStep(stepID uint64) error {
	return m.call(func(c uintptr) error { return native.Kvc_manager_retire_step(c, stepID) })
}

// Version of the library: major * 10000 + minor * 100 + patch.
func Version() uint32 { return uint32(C.kvc_version()) }
