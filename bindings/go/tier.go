// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// TierPriority is what the threads of a tier take first.
type TierPriority uint32

// Priorities.
const (
	TierDefault  TierPriority = iota // TierLoad for Exists and Get, TierStore for Put and Remove.
	TierLoad                         // A request waits for it.
	TierPrefetch                     // A request will want it. Refused if three quarters of the tier's jobs are taken.
	TierStore                        // Nobody waits for it. Refused if half of the tier's jobs are taken.
)

// TierConfig says which tier to open: kvc_tier_config. URL and PageBytes have no default.
type TierConfig struct {
	URL           string   // "memory:?bytes=64GiB", "slab:/path?bytes=1TiB", "dir:/path?bytes=1TiB", or "NAME:..." of a plug-in.
	Fingerprint   [32]byte // Of all pages: PageInfo.Fingerprint. Pages of another one are misses. Not 0.
	PageBytes     uint64   // Of the largest page.
	MaxStoreBytes uint64   // Bytes of puts that wait; 0 = 1 GiB. Puts beyond are refused.
}

// JobOptions are options of a job of a Tier. nil = all zero.
type JobOptions struct {
	Priority    TierPriority
	Timeout     time.Duration // Pages that are not begun within it end with PageTimeout. 0 = no limit.
	Lease       time.Duration // Exists: hits stay at least so long from now on. 0 = no lease.
	NowNs       uint64        // Time of the caller, for leases; 0 = CLOCK_MONOTONIC.
	Runs        []Run         // Get: only these bytes of each page, one behind the other, ascending: Storage.PageRuns. nil = all.
	PageBytes   uint64        // Get with Runs: bytes of a whole page; 0 = TierConfig.PageBytes.
	Generations []uint64      // Get: of leases, one for each page; nil = any.
}

// JobResult is the end of a job. Each slice has an entry for each page.
type JobResult struct {
	NumOK        int
	Results      []PageResult
	Generations  []uint64 // Of the pages that were found or written.
	LeaseUntilNs []uint64 // Exists: the page stays until then; 0 = nothing is promised.
}

// Tier is a store of pages by key: kvc_tier. Any goroutine may use it. A call returns when its job has ended: to do something else meanwhile, let
// a goroutine call it.
type Tier struct {
	mu        sync.RWMutex // As a Manager's.
	c, waits  uintptr
	offloads  offloads // One at most: it polls the tier.
	pageBytes uint64
}

// OpenTier opens a tier. Errors: ErrInvalidArgument (the text names the part of the URL; a file of another size, or for smaller pages), ErrNotFound and
// ErrUnsupported (a plug-in), ErrBusy (another process has the file), ErrLimit (the disk is full), ErrOutOfMemory, ErrDevice.
func OpenTier(config TierConfig) (*Tier, error) {
	t, fingerprint := &Tier{pageBytes: config.PageBytes}, config.Fingerprint // whose memory has no Go pointer
	if err := native.Kvc_tier_create(config.URL, fingerprint[:], config.PageBytes, config.MaxStoreBytes, &t.c); err != nil {
		return nil, err
	}
	atomic.AddInt64(&liveObjects, 1)
	runtime.SetFinalizer(t, (*Tier).Close)
	if err := native.Kvc_waits_make(&t.waits); err != nil {
		t.Close()
		return nil, &Error{Status: C.KVC_ERROR_LIMIT, Text: "no descriptor for an eventfd; close some"}
	}
	return t, nil
}

// Close waits for calls in other goroutines and frees the tier; it closes an Offload that has it. Closing again does nothing.
func (t *Tier) Close() error {
	t.offloads.lock(&t.mu)
	defer t.mu.Unlock()
	if t.c != 0 {
		C.kvc_tier_destroy((*C.kvc_tier)(*(*unsafe.Pointer)(unsafe.Pointer(&t.c))))
		native.Kvc_waits_free(t.waits)
		t.c, t.waits = 0, 0
		atomic.AddInt64(&liveObjects, -1)
	}
	return nil
}

func (t *Tier) call(function func(c uintptr) error) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.c == 0 {
		return ErrClosed
	}
	return function(t.c)
}

// own is call, unless an Offload has the tier.
func (t *Tier) own(function func(c uintptr) error) error {
	return t.call(func(c uintptr) error {
		if t.offloads.any() {
			return errLent
		}
		return function(c)
	})
}

// lend gives the tier to an offload.
func (t *Tier) lend(o *offload) (uintptr, error) {
	t.mu.Lock() // waits for jobs
	defer t.mu.Unlock()
	if t.c == 0 {
		return 0, ErrClosed
	}
	if t.offloads.any() {
		return 0, errLent
	}
	t.offloads.add(o)
	return t.c, nil
}

// Exists asks which pages are there. It may lease them: JobOptions.Lease.
func (t *Tier) Exists(keys [][32]byte, options *JobOptions) (JobResult, error) {
	return t.do(TierExists, TierLoad, keys, nil, options)
}

// Get reads pages, one behind the other. What is read is checked by key, fingerprint and checksum; a page whose result is not PageOK has undefined
// bytes. ErrLimit: the queue has no room.
func (t *Tier) Get(keys [][32]byte, pages []byte, options *JobOptions) (JobResult, error) {
	return t.do(TierGet, TierLoad, keys, pages, options)
}

// Put writes pages of equal size, one behind the other. ErrLimit: the queue, or MaxStoreBytes.
func (t *Tier) Put(keys [][32]byte, pages []byte, options *JobOptions) (JobResult, error) {
	return t.do(TierPut, TierStore, keys, pages, options)
}

// Remove forgets pages.
func (t *Tier) Remove(keys [][32]byte, options *JobOptions) (JobResult, error) {
	return t.do(TierRemove, TierStore, keys, nil, options)
}

func (t *Tier) do(kind TierKind, priority TierPriority, keys [][32]byte, pages []byte, options *JobOptions) (result JobResult, err error) {
	if options == nil {
		options = &JobOptions{}
	}
	pageBytes, err := checkJob(kind, keys, pages, options, t.pageBytes)
	if err != nil {
		return JobResult{}, err
	}
	if options.Priority != TierDefault {
		priority = options.Priority
	}
	result = JobResult{Results: make([]PageResult, len(keys)), Generations: make([]uint64, len(keys)), LeaseUntilNs: make([]uint64, len(keys))}
	copy(result.Generations, options.Generations)
	results := int32s(result.Results)
	var ok uint64
	err = t.own(func(c uintptr) error {
		return native.Kvc_tier_do(c, t.waits, uint32(kind), uint32(priority-1), asBytes(keys), pages, asBytes(options.Runs), pageBytes, options.NowNs,
			uint64(options.Lease), uint64(options.Timeout), results, result.Generations, result.LeaseUntilNs, &ok)
	})
	if err != nil {
		return JobResult{}, err
	}
	result.NumOK = int(ok)
	return result, nil
}

// checkJob compares the lengths of the slices, and returns the bytes of a whole page, 0 for those of its part of `pages`.
func checkJob(kind TierKind, keys [][32]byte, pages []byte, options *JobOptions, pageBytes uint64) (uint64, error) {
	if options.Timeout < 0 || options.Lease < 0 {
		return 0, invalid("Timeout is %v, Lease %v; neither may be negative", options.Timeout, options.Lease)
	}
	if kind == TierExists || kind == TierRemove {
		return 0, nil
	}
	if len(keys) == 0 {
		return 0, invalid("keys has no elements; it needs 1 or more")
	}
	rows, err := wholeRows("pages", pages, uint64(len(keys)))
	if err != nil || kind == TierPut {
		return 0, err
	}
	if options.Generations != nil {
		err = check(of("Generations", options.Generations, uint64(len(keys))))
	}
	if options.Runs == nil {
		return 0, err
	}
	needed := uint64(0)
	for _, run := range options.Runs {
		if needed += run.Bytes; needed < run.Bytes {
			needed = math.MaxUint64
		}
	}
	if needed > rows {
		return 0, invalid("pages has %d bytes for a page; the runs have %d", rows, needed)
	}
	if options.PageBytes != 0 {
		pageBytes = options.PageBytes
	}
	return pageBytes, err
}

// Drain waits until nothing waits or runs; with threads=0 it does the work.
func (t *Tier) Drain() error { return t.own(native.Kvc_tier_drain) }

// InspectPageFile reads the headers of a file of a tier, and with validate all pages too. While a tier has a slab open, what it is just writing may be
// counted as bad. Errors: ErrNotFound, ErrUnsupported (neither a slab nor a page, or of a newer format), ErrCorrupt (the file's own header does not check),
// ErrDevice, ErrOutOfMemory.
func InspectPageFile(path string, validate bool) (info PageFileInfo, err error) {
	info.size = uint64(unsafe.Sizeof(info))
	pages := int32(0)
	if validate {
		pages = 1
	}
	err = native.Kvc_page_file_read_info(path, pages, asByte(&info))
	return info, err
}

// OpenPlugin opens a plug-in before a tier names it. path: its file, or the only folder to search; "" = the folders of KVC_PLUGIN_PATH, then the
// folder of the library. ErrNotFound (the text lists what was searched), ErrUnsupported (another version), ErrBusy (open from another path).
func OpenPlugin(name, path string) error { return native.Kvc_plugin_open(name, path) }

// int32s is the same memory as numbers of C.
func int32s(results []PageResult) []int32 {
	if len(results) == 0 {
		return nil
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(&results[0])), len(results))
}
