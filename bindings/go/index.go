// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
// #include <kvcache/index.h>
import "C"

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// AllMedia stands for all media of a worker.
const AllMedia uint32 = 0xFFFFFFFF

const maxMedia = C.KVC_INDEX_MAX_MEDIA

// IndexConfig is kvc_index_config, with its defaults for 0.
type IndexConfig struct {
	MaxBlocks     uint64 // Blocks at a time; a block counts once, however many workers have it; 0 = 2^20.
	TTLNs         uint64 // Expire removes workers that are silent for longer; 0 = none.
	MaxWorkers    uint32 // Up to 1024; 0 = 256.
	NumMedia      uint32 // Kinds of memory of a worker, up to 8; 0 = 4.
	MaxNamespaces uint32 // With blocks, of all workers together; 0 = 16 * MaxWorkers.
	Group         uint32 // The group whose events count.
	HideStale     bool   // Matches leave out workers of which events are missing.
}

// IndexApplied is what Index.Apply has done: kvc_index_applied.
type IndexApplied struct {
	size                           uint64
	Applied, Ignored, NextSequence uint64 // NextSequence: the first event that is missing; replay from the one before.
	isStale, Restarts              uint32
}

// IsStale says whether events are missing before the newest one.
func (a IndexApplied) IsStale() bool { return a.isStale != 0 }

// IndexMatch says how many blocks of a prompt a worker has, from the first one to the first gap.
type IndexMatch struct {
	Worker uint64
	Blocks uint32   // In any medium.
	Media  []uint32 // In each medium alone.
}

// IndexWorker describes a worker of an Index; the slices have an entry for each medium.
type IndexWorker struct {
	Name                    string
	LastHeardNs             uint64
	NumBlocks, NextSequence []uint64
	IsStale                 []bool
}

// Index says which worker has how much of a prompt cached. Any goroutine may call it; matches never wait for other calls. Create it with NewIndex,
// free it with Close.
type Index struct {
	object
	maxWorkers, numMedia uint64
}

// NewIndex creates an index. Errors: ErrInvalidArgument, ErrOutOfMemory.
func NewIndex(config IndexConfig) (*Index, error) {
	c := &C.kvc_index_config{struct_size: C.sizeof_kvc_index_config, max_blocks: C.uint64_t(config.MaxBlocks), ttl_ns: C.uint64_t(config.TTLNs),
		max_workers: C.uint32_t(config.MaxWorkers), num_media: C.uint32_t(config.NumMedia), max_namespaces: C.uint32_t(config.MaxNamespaces),
		group: C.uint32_t(config.Group)}
	if config.HideStale {
		c.flags = C.KVC_INDEX_HIDE_STALE
	}
	var address uintptr
	if err := native.Kvc_index_create(asByte(c), &address); err != nil {
		return nil, err
	}
	i := &Index{object: object{c: address}, maxWorkers: uint64(config.MaxWorkers), numMedia: uint64(config.NumMedia)}
	if i.maxWorkers == 0 {
		i.maxWorkers = 256
	}
	if i.numMedia == 0 {
		i.numMedia = 4
	}
	atomic.AddInt64(&liveObjects, 1)
	runtime.SetFinalizer(i, (*Index).Close)
	return i, nil
}

// Close frees the index. Closing again does nothing.
func (i *Index) Close() error {
	return i.close(func(c unsafe.Pointer) { C.kvc_index_destroy((*C.kvc_index)(c)) })
}

// AddWorker adds a worker, whose streams begin at sequence 0. The name has at most 63 bytes. Errors: ErrBusy (the index has it), ErrLimit.
func (i *Index) AddWorker(worker uint64, name string, nowNs uint64) error {
	return i.call(func(c uintptr) error { return native.Kvc_index_add_worker(c, worker, name, nowNs) })
}

// Apply applies events of one medium of a worker, as Manager.Events gives them.
func (i *Index) Apply(worker uint64, medium uint32, events []Event, nowNs uint64) (applied IndexApplied, err error) {
	applied.size = uint64(unsafe.Sizeof(applied))
	err = i.call(func(c uintptr) error {
		return native.Kvc_index_apply(c, worker, medium, asBytes(events), nowNs, asByte(&applied))
	})
	return applied, err
}

// NamespaceRoot returns the identity of a namespace, as Manager.OpenNamespace has it, without a manager. A part that is nil is absent.
func NamespaceRoot(model, adapter, tenant []byte) (root [32]byte, err error) {
	err = native.Kvc_index_root(model, adapter, tenant, root[:])
	return root, err
}

// PrefixDigests returns what Manager.PositionDigests gives for a prompt without extra keys, without a manager. A nil root is the default namespace.
func PrefixDigests(root *[32]byte, tokens []int32, blockSize uint32) ([][32]byte, error) {
	return grown(func(room [][32]byte) (count uint64, err error) {
		err = native.Kvc_index_digests(rootBytes(root), tokens, blockSize, asBytes(room), &count)
		return count, err
	})
}

// Match returns how many blocks of a prompt each worker has, for the workers that have the first one, in no particular order.
func (i *Index) Match(digests [][32]byte) ([]IndexMatch, error) {
	return i.match(func(c uintptr, workers []uint64, matched []byte, count *uint64) error {
		return native.Kvc_index_match(c, asBytes(digests), workers, matched, count)
	})
}

// MatchTokens is the same from the tokens of a prompt without extra keys.
func (i *Index) MatchTokens(root *[32]byte, tokens []int32, blockSize uint32) ([]IndexMatch, error) {
	return i.match(func(c uintptr, workers []uint64, matched []byte, count *uint64) error {
		return native.Kvc_index_match_tokens(c, rootBytes(root), tokens, blockSize, workers, matched, count)
	})
}

func (i *Index) match(find func(c uintptr, workers []uint64, matched []byte, count *uint64) error) ([]IndexMatch, error) {
	workers, matched, count := make([]uint64, i.maxWorkers), make([]uint32, i.maxWorkers*(1+i.numMedia)), uint64(0)
	if err := i.call(func(c uintptr) error { return find(c, workers, asBytes(matched), &count) }); err != nil {
		return nil, err
	}
	matches := make([]IndexMatch, count)
	for n := range matches {
		row := matched[uint64(n)*(1+i.numMedia) : uint64(n+1)*(1+i.numMedia)]
		matches[n] = IndexMatch{workers[n], row[0], row[1:]}
	}
	return matches, nil
}

func rootBytes(root *[32]byte) []byte {
	if root == nil {
		return nil
	}
	return root[:]
}

// Workers returns the numbers of all workers.
func (i *Index) Workers() ([]uint64, error) {
	workers, count := make([]uint64, i.maxWorkers), uint64(0)
	err := i.call(func(c uintptr) error { return native.Kvc_index_list_workers(c, workers, &count) })
	return workers[:count], err
}

// Worker describes a worker. ErrNotFound: the index does not have it.
func (i *Index) Worker(worker uint64) (IndexWorker, error) {
	name, numbers := make([]byte, 64), make([]uint64, 1+3*maxMedia)
	if err := i.call(func(c uintptr) error { return native.Kvc_index_worker_info(c, worker, name, numbers) }); err != nil {
		return IndexWorker{}, err
	}
	text, _, _ := bytes.Cut(name, []byte{0})
	of := func(column uint64) []uint64 { return numbers[1+column*maxMedia : 1+column*maxMedia+i.numMedia] }
	stale := make([]bool, i.numMedia)
	for m, value := range of(2) {
		stale[m] = value != 0
	}
	return IndexWorker{string(text), numbers[0], of(0), of(1), stale}, nil
}

// Dump returns the workers, their streams and all blocks, for Load.
func (i *Index) Dump() ([]byte, error) {
	return grown(func(room []byte) (count uint64, err error) {
		err = i.call(func(c uintptr) error { return native.Kvc_index_dump(c, room, &count) })
		return count, err
	})
}

// Load loads a dump into an index without workers, with the same NumMedia and Group. Errors: ErrBusy, ErrInvalidArgument (no dump, or damaged),
// ErrUnsupported (another version), ErrLimit (no room).
func (i *Index) Load(dump []byte) error {
	return i.call(func(c uintptr) error { return native.Kvc_index_load(c, dump) })
}
