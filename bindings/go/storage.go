// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// DType is the type of stored keys and values.
type DType int32

// Stored types; 0 is Float32.
const (
	Float32    DType = C.KVC_FLOAT32
	Float16    DType = C.KVC_FLOAT16
	BFloat16   DType = C.KVC_BFLOAT16
	Float8E4M3 DType = C.KVC_FLOAT8_E4M3
	Float8E5M2 DType = C.KVC_FLOAT8_E5M2
	Int8       DType = C.KVC_INT8
	Int4       DType = C.KVC_INT4
)

// Bits returns the bits of one element, without scales: 4 for Int4. ErrInvalidArgument for a type that does not exist.
func (d DType) Bits() (int, error) {
	var bits uint64
	err := native.Kvc_dtype_bits(int32(d), &bits)
	return int(bits), err
}

// StorageConfig is the shape, type and place of a storage: kvc_storage_config. Only the first four fields have no default.
type StorageConfig struct {
	NumBlocks                    uint64 // As many as the manager's pool.
	NumLayers, NumHeads, HeadDim uint32
	VHeadDim                     uint32 // 0 = HeadDim.
	BlockSize                    uint32 // 0 = 16.
	DType                        DType
	Layout, Flags                uint32 // KVC_LAYOUT_*, KVC_STORAGE_*.
	ScaleGroup, Alignment        uint32
	NumThreads                   uint32 // Threads of one call, the caller included; 0 = 1.
	KScale, VScale               float32
	ChannelTokens                uint32 // With KVC_STORAGE_CHANNEL_KEYS: tokens that share a scale.
	ResidualBlocks               uint32 // With KVC_STORAGE_CHANNEL_KEYS: residual blocks per layer; 0 = 64.
	// External memory, aligned to Alignment; nil = memory of the library. It must not be Go memory: take it from mmap or C, and release it after
	// Close. The storage keeps the slice until then.
	Memory []byte
}

// ConfigFromShortfin reads the text of the config.json that sharktank exports for Shortfin: the configuration of a manager, and that of a storage for
// each device. A block id of the manager means the same page on every device. Each device has some of the layers, in ascending order.
// ErrInvalidArgument names the field, its value and the fix.
func ConfigFromShortfin(json []byte) (Config, []StorageConfig, error) {
	manager, storages := C.kvc_manager_config{struct_size: C.sizeof_kvc_manager_config}, []StorageConfig{}
	for devices := uint64(1); uint64(len(storages)) < devices; {
		c := C.kvc_storage_config{struct_size: C.sizeof_kvc_storage_config}
		if err := native.Kvc_config_from_shortfin(json, uint32(len(storages)), asByte(&manager), asByte(&c), &devices); err != nil {
			return Config{}, nil, err
		}
		storages = append(storages, StorageConfig{NumBlocks: uint64(c.num_blocks), NumLayers: uint32(c.num_layers), NumHeads: uint32(c.num_heads),
			HeadDim: uint32(c.head_dim), BlockSize: uint32(c.block_size), DType: DType(c.dtype), Layout: uint32(c.layout)})
	}
	return Config{NumBlocks: uint64(manager.num_blocks), BlockSize: uint32(manager.block_size), MaxRequestTokens: uint64(manager.max_request_tokens)},
		storages, nil
}

func (config *StorageConfig) c() *C.kvc_storage_config {
	return &C.kvc_storage_config{struct_size: C.sizeof_kvc_storage_config, num_blocks: C.uint64_t(config.NumBlocks),
		num_layers: C.uint32_t(config.NumLayers), num_heads: C.uint32_t(config.NumHeads), head_dim: C.uint32_t(config.HeadDim),
		v_head_dim: C.uint32_t(config.VHeadDim), block_size: C.uint32_t(config.BlockSize), dtype: C.int32_t(config.DType),
		layout: C.uint32_t(config.Layout), flags: C.uint32_t(config.Flags), scale_group: C.uint32_t(config.ScaleGroup),
		alignment: C.uint32_t(config.Alignment), num_threads: C.uint32_t(config.NumThreads), k_scale: C.float(config.KScale),
		v_scale: C.float(config.VScale), channel_tokens: C.uint32_t(config.ChannelTokens), residual_blocks: C.uint32_t(config.ResidualBlocks)}
}

// StorageSize returns the bytes of one block, and of all blocks, of such a storage.
func StorageSize(config StorageConfig) (block, slab uint64, err error) {
	err = native.Kvc_storage_size(asByte(config.c()), &block, &slab)
	return
}

// Storage is memory for the keys and values of a manager's blocks: kvc_storage. Any goroutine may use it; the caller orders calls that touch
// the same bytes.
type Storage struct {
	mu       sync.RWMutex // As a Manager's.
	c        uintptr
	offloads offloads
	info     C.kvc_storage_info
	memory   []byte // The config's, in use until Close.
}

// NewStorage creates a storage. Errors: ErrInvalidArgument, ErrUnsupported, ErrOutOfMemory.
func NewStorage(config StorageConfig) (*Storage, error) {
	var c uintptr
	if err := native.Kvc_storage_adopt(asByte(config.c()), config.Memory, &c); err != nil {
		return nil, err
	}
	info := C.kvc_storage_info{struct_size: C.sizeof_kvc_storage_info}
	err := native.Kvc_storage_properties(c, asByte(&info))
	s := &Storage{c: c, info: info, memory: config.Memory}
	atomic.AddInt64(&liveObjects, 1)
	runtime.SetFinalizer(s, (*Storage).Close)
	return s, err
}

// Close frees the memory, and closes Offloads that use it. It waits for calls in other goroutines. Closing again does nothing.
func (s *Storage) Close() error {
	s.offloads.lock(&s.mu)
	defer s.mu.Unlock()
	if s.c != 0 {
		C.kvc_storage_destroy((*C.kvc_storage)(*(*unsafe.Pointer)(unsafe.Pointer(&s.c))))
		s.c, s.memory = 0, nil
		atomic.AddInt64(&liveObjects, -1)
	}
	return nil
}

func (s *Storage) call(function func(c uintptr) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.c == 0 {
		return ErrClosed
	}
	return function(s.c)
}

// Bytes returns the bytes of one block, and of all blocks.
func (s *Storage) Bytes() (block, slab uint64) {
	return uint64(s.info.block_bytes), uint64(s.info.slab_bytes)
}

// rows is the struct of a call, after a check of the lengths of its arrays.
func (s *Storage) rows(firstLayer, layers uint32, k, v []float32, slots []int64) (*C.kvc_rows, error) {
	if layers == 0 {
		layers = 1
	}
	return &C.kvc_rows{struct_size: C.sizeof_kvc_rows, first_layer: C.uint32_t(firstLayer), num_layers: C.uint32_t(layers)},
		s.checkRows(layers, k, v, slots)
}

// Store writes keys [layers][tokens][heads][HeadDim] and values [layers][tokens][heads][VHeadDim] (nil for latent attention) of layers from
// firstLayer on (0 layers = 1) to the slots of the tokens; slot -1 skips a token. It writes all tokens or none.
func (s *Storage) Store(firstLayer, layers uint32, k, v []float32, slots []int64) error {
	return s.StoreRotated(firstLayer, layers, k, v, slots, nil)
}

// KeyRope is how StoreRotated rotates keys.
type KeyRope struct {
	Table                 []float32 // From RopeTable; nil = keys are stored unchanged.
	RopeDim, FirstElement uint32    // Elements that rotate (0 = HeadDim), and the first of them.
	Interleaved           bool      // Elements 2 i and 2 i + 1 form a pair, instead of i and i + RopeDim / 2.
	Rows                  []int64   // [tokens] row of the table for each token; nil = row t for token t.
}

// StoreRotated is Store, with the keys rotated as ApplyRope would rotate them; k does not change. Without a rope, or without a table in it, keys
// are stored unchanged. ErrInvalidArgument for a row outside the table, also of a skipped token.
func (s *Storage) StoreRotated(firstLayer, layers uint32, k, v []float32, slots []int64, rope *KeyRope) error {
	rows, err := s.rows(firstLayer, layers, k, v, slots)
	if err != nil {
		return err
	}
	if rope == nil {
		rope = &KeyRope{}
	}
	rows.rope_dim, rows.rope_first_element = C.uint32_t(rope.RopeDim), C.uint32_t(rope.FirstElement)
	if rope.RopeDim == 0 {
		rows.rope_dim = s.info.head_dim
	}
	if err := checkRope(rope.Table, uint32(rows.rope_dim), rope.Rows, uint64(len(slots))); err != nil {
		return err
	}
	if rope.Interleaved {
		rows.flags = C.KVC_ROWS_ROPE_INTERLEAVED
	}
	return s.call(func(c uintptr) error {
		return native.Kvc_storage_store(c, asByte(rows), uint64(len(slots)), asBytes(k), asBytes(v), slots, nil, asBytes(rope.Table), rope.Rows, 0)
	})
}

// Gather reads keys and values from the slots of the tokens. Parameters as for Store; the rows of tokens with slot -1 stay unchanged.
func (s *Storage) Gather(firstLayer, layers uint32, k, v []float32, slots []int64) error {
	rows, err := s.rows(firstLayer, layers, k, v, slots)
	if err != nil {
		return err
	}
	return s.call(func(c uintptr) error {
		return native.Kvc_storage_gather(c, asByte(rows), uint64(len(slots)), asBytes(k), asBytes(v), slots, nil, 0)
	})
}

// CopyBlocks copies blocks in all layers, in order: the copies of TakePending and Step.Copies.
func (s *Storage) CopyBlocks(copies []BlockCopy) error {
	return s.call(func(c uintptr) error { return native.Kvc_storage_copy_blocks(c, asBytes(copies), 0) })
}

// SwapOut copies blocks to pages: (block, page) pairs. A page holds all layers of a block. Page p begins at pages[p*pageBytes] (0 = the bytes
// of a block), aligned to 16.
func (s *Storage) SwapOut(copies []BlockCopy, pages []byte, pageBytes uint64) error {
	return s.call(func(c uintptr) error { return native.Kvc_storage_swap_out(c, asBytes(copies), pages, pageBytes, 0) })
}

// SwapIn copies pages of SwapOut to any blocks of a storage of the same configuration: (page, block) pairs.
func (s *Storage) SwapIn(copies []BlockCopy, pages []byte, pageBytes uint64) error {
	return s.call(func(c uintptr) error { return native.Kvc_storage_swap_in(c, asBytes(copies), pages, pageBytes, 0) })
}

// ZeroBlocks clears blocks in all layers, scales included.
func (s *Storage) ZeroBlocks(blocks []int32) error {
	return s.call(func(c uintptr) error { return native.Kvc_storage_zero_blocks(c, blocks, 0) })
}

// QuantizeBlocks quantizes the residual blocks among these, with KVC_STORAGE_CHANNEL_KEYS. Call it before their bytes leave the slab.
func (s *Storage) QuantizeBlocks(blocks []int32) error {
	return s.call(func(c uintptr) error { return native.Kvc_storage_quantize_blocks(c, blocks, 0) })
}

// Trim gives back memory that calls have left for later calls: scratch memory on the CPU; on a GPU the idle pieces of workspace, and of pinned memory
// for copies of index arrays. It returns the bytes of device memory and of host memory. Blocks stay as they are, and so does what captured graphs use.
func (s *Storage) Trim() (deviceBytes, hostBytes uint64, err error) {
	err = s.call(func(c uintptr) error { return native.Kvc_storage_trim(c, &deviceBytes, &hostBytes) })
	return
}

// Run is a range of bytes of the slab.
type Run struct{ Offset, Bytes uint64 }

// Runs lists the bytes of a block in the slab, ascending, with adjacent runs joined.
func (s *Storage) Runs(block int32) ([]Run, error) {
	return grown(func(room []Run) (count uint64, err error) {
		err = s.call(func(c uintptr) error { return native.Kvc_storage_runs(c, block, nil, asBytes(room), &count) })
		return count, err
	})
}

// Slab returns the bytes of all blocks in place. Do not use it after Close. The slice may outlive the storage: after a call of Slab only Close
// frees the storage, not the garbage collector.
func (s *Storage) Slab() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.c == 0 {
		return nil
	}
	runtime.SetFinalizer(s, nil)
	return unsafe.Slice((*byte)(s.info.data), int(s.info.slab_bytes))
}

// Metrics is the measured cost and error of stored rows: kvc_quant_metrics.
type Metrics struct {
	size                        uint64
	Elements, Bytes, FP16Bytes  uint64
	Ratio, MSE, SNRdB, MaxError float64
}

// Measure compares keys and values, as Store takes them, with the stored ones. values is empty for latent attention.
func (s *Storage) Measure(firstLayer, layers uint32, k, v []float32, slots []int64) (keys, values Metrics, err error) {
	rows, err := s.rows(firstLayer, layers, k, v, slots)
	if err != nil {
		return
	}
	keys.size, values.size = uint64(unsafe.Sizeof(keys)), uint64(unsafe.Sizeof(values))
	of := asByte(&values)
	if s.info.flags&C.KVC_STORAGE_LATENT != 0 {
		of = nil
	}
	err = s.call(func(c uintptr) error {
		return native.Kvc_storage_measure(c, asByte(rows), uint64(len(slots)), asBytes(k), asBytes(v), slots, nil, asByte(&keys), of)
	})
	return
}
