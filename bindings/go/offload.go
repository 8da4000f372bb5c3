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

// OffloadConfig says what to offload where: kvc_offload_config. Tiers and Pages have no default. The manager has events (Config.EventCapacity), and groups
// with full attention, windows or chunks alone.
type OffloadConfig struct {
	Storages []*Storage // One for each group; nil = there are no bytes, sizes alone count: for simulations.
	// PageSizes has, without Storages, the bytes of a page of each group.
	PageSizes       []uint64
	Tiers           []*Tier    // 1 to 8, fastest first. The Offload polls them: until it is closed, jobs of your own fail with ErrBusy.
	Pages           PageConfig // Names of model and weights. Each storage has whole pages.
	Policy          OffloadPolicy
	NoPromote       bool          // What was loaded from one tier is not stored in the others.
	NumPages        uint32        // Staging pages in memory of the host; 0 = 64. Loads keep a quarter of them.
	MaxLookups      uint32        // Requests at one time; 0 = 16.
	MaxLookupBlocks uint32        // Blocks of a prompt beyond its hit that are looked up; 0 = 1024.
	CleanBlocks     uint32        // OffloadBeforeEviction: blocks of each pool at each poll; 0 = 64.
	Timeout         time.Duration // Of each job of a tier; 0 = 10 s.
	Hold            time.Duration // How long loaded blocks wait for the admission; 0 = 1 s.
	// Time that the engine takes to compute a token of a prompt. A load that is expected to take longer is not begun. 0 = everything is loaded.
	ComputeNsPerToken float64
	MinLoadTokens     uint64        // A load of fewer tokens is not begun; 0 = each is.
	Retry             time.Duration // How long a tier that fails is left alone; 0 = 1 s.
}

// offload is the object of the library. What it uses knows it, and it refers to nothing, so that a finalizer may run.
type offload struct {
	mu    sync.RWMutex // As a Manager's.
	one   sync.Mutex   // Held by every call but Wait: they must not overlap.
	c     uintptr
	alive int32                     // It is made, or being made.
	user  atomic.Pointer[Scheduler] // That was made with it and is open; it ends before.
}

func (o *offload) end() {
	for o.mu.Lock(); o.user.Load() != nil; o.mu.Lock() {
		user := o.user.Load()
		o.mu.Unlock()
		user.Close()
	}
	defer o.mu.Unlock()
	if o.c != 0 {
		C.kvc_offload_destroy((*C.kvc_offload)(*(*unsafe.Pointer)(unsafe.Pointer(&o.c))))
		o.c = 0
		atomic.AddInt64(&liveObjects, -1)
	}
	atomic.StoreInt32(&o.alive, 0)
}

// offloads are those that use an object. They end before it.
type offloads struct{ all sync.Map }

func (o *offloads) add(used *offload) { o.all.Store(used, nil) }

// any says whether one of them is alive.
func (o *offloads) any() (found bool) {
	o.all.Range(func(used, _ any) bool {
		if found = atomic.LoadInt32(&used.(*offload).alive) != 0; !found {
			o.all.Delete(used)
		}
		return !found
	})
	return found
}

// lock ends them all and locks the object. They are added with the lock, for reading or writing.
func (o *offloads) lock(mu *sync.RWMutex) {
	for mu.Lock(); o.any(); mu.Lock() {
		mu.Unlock()
		o.all.Range(func(used, _ any) bool { used.(*offload).end(); return true })
	}
}

// errLent is the error of a tier's own jobs while an Offload has it.
var errLent = &Error{Status: C.KVC_ERROR_BUSY, Text: "the tier is an Offload's, which polls it; close that first"}

// Offload copies cached blocks of a manager to tiers, and brings them back before a request that needs them is admitted: kvc_offload.
//
//	offload.Lookup(request, 0)                                    // of a new or preempted request
//	// in the engine's loop:
//	offload.Poll(0)
//	info, err := offload.Query(request)
//	if info.State == OffloadReady || info.State == OffloadNone { m.AdmitRequest(request) }
//
// No call but Wait waits. Any goroutine may call it; one call is made at a time. A page that fails, is missing or does not check shortens the prefix that is
// loaded; the rest is computed as ever. nowNs is the caller's time, which never goes back; 0 = CLOCK_MONOTONIC.
type Offload struct {
	inner *offload
	kept  OffloadConfig // What it uses, and
	m     *Manager      // the manager: alive as long as it is.
}

// NewOffload makes an Offload. Errors: ErrInvalidArgument, ErrUnsupported (groups, no events, storages with parts of pages), ErrBusy (a tier has an Offload),
// ErrLimit, ErrOutOfMemory, ErrClosed.
func NewOffload(m *Manager, config OffloadConfig) (*Offload, error) {
	config.Storages, config.Tiers = append([]*Storage(nil), config.Storages...), append([]*Tier(nil), config.Tiers...)
	o := &Offload{&offload{alive: 1}, config, m}
	o.inner.mu.Lock() // whoever closes what it uses waits until it is made
	err := o.create()
	o.inner.mu.Unlock()
	if err != nil {
		o.inner.end()
		return nil, err
	}
	atomic.AddInt64(&liveObjects, 1)
	runtime.SetFinalizer(o, (*Offload).Close)
	return o, nil
}

func (o *Offload) create() error {
	config, p, flags := &o.kept, &o.kept.Pages, uint32(0)
	if config.NoPromote {
		flags = C.KVC_OFFLOAD_NO_PROMOTE
	}
	properties, err := o.m.Properties()
	if err == nil {
		err = config.check(uint64(properties.NumGroups))
	}
	tiers := make([]uintptr, len(config.Tiers))
	for i := 0; i < len(tiers) && err == nil; i++ {
		tiers[i], err = config.Tiers[i].lend(o.inner)
	}
	if err != nil {
		return err
	}
	return o.m.call(func(c uintptr) error {
		return withStorages(config.Storages, func(storages []uintptr) error {
			o.m.offloads.add(o.inner)
			for _, s := range config.Storages {
				s.offloads.add(o.inner)
			}
			return native.Kvc_offload_create(c, storages, config.PageSizes, tiers, p.Model, p.Weights, p.Numerics, p.NumLayers, p.NumHeads, p.FirstLayer,
				p.FirstHead, uint32(config.Policy), flags, config.NumPages, config.MaxLookups, config.MaxLookupBlocks, config.CleanBlocks,
				uint64(config.Timeout), uint64(config.Hold), config.ComputeNsPerToken, config.MinLoadTokens, uint64(config.Retry),
				&o.inner.c)
		})
	})
}

// check compares the lengths of the slices.
func (config *OffloadConfig) check(groups uint64) error {
	for i, s := range config.Storages {
		if s == nil {
			return invalid("Storages[%d] is nil; it must have a storage for each of the %d groups", i, groups)
		}
	}
	for i, t := range config.Tiers {
		if t == nil {
			return invalid("Tiers[%d] is nil", i)
		}
	}
	if config.Timeout < 0 || config.Hold < 0 || config.Retry < 0 {
		return invalid("Timeout is %v, Hold %v, Retry %v; none may be negative", config.Timeout, config.Hold, config.Retry)
	}
	if len(config.Storages) != 0 {
		return check(of("Storages", config.Storages, groups))
	}
	return check(of("PageSizes", config.PageSizes, groups))
}

// Close ends all work and gives the tiers back: it waits for calls in other goroutines, and for jobs that tiers have begun. Blocks that wait to be stored are
// not; call Poll until Stats has no WaitingBlocks and BusyPages before. Closing again does nothing.
func (o *Offload) Close() error {
	o.inner.end()
	return nil
}

func (o *Offload) call(function func(c uintptr) error) error {
	o.inner.one.Lock()
	defer o.inner.one.Unlock()
	return o.open(function)
}

func (o *Offload) open(function func(c uintptr) error) error {
	defer runtime.KeepAlive(o)
	o.inner.mu.RLock()
	defer o.inner.mu.RUnlock()
	if o.inner.c == 0 {
		return ErrClosed
	}
	return function(o.inner.c)
}

func clock(nowNs uint64) uint64 {
	if nowNs == 0 {
		return native.Kvc_clock()
	}
	return nowNs
}

// Wait returns when a tier has done something, or the timeout is over: then Poll. Close waits for it.
func (o *Offload) Wait(timeout time.Duration) error {
	const longest = math.MaxInt32 * time.Millisecond
	if timeout < 0 || timeout > longest {
		return invalid("timeout is %v; it must be 0 to %v", timeout, longest)
	}
	milliseconds := int32((timeout + time.Millisecond - 1) / time.Millisecond)
	return o.open(func(c uintptr) error { native.Kvc_offload_wait(c, milliseconds); return nil })
}

// Poll moves everything on: it takes what tiers have done, stores blocks, loads pages. Your work on the storages is done when you call it. Before it, execute
// the copies and moves that the manager has asked for.
func (o *Offload) Poll(nowNs uint64) error {
	return o.call(func(c uintptr) error { return native.Kvc_offload_poll(c, clock(nowNs), 0) })
}

// Lookup begins to look for the tokens of a waiting request beyond its hit, and to load them. It does nothing if that is under way, and ends by itself when
// the request is admitted or freed. ErrNotFound, ErrBusy (it is admitted), ErrLimit (MaxLookups), ErrOutOfMemory: admit the request as ever.
func (o *Offload) Lookup(request Request, nowNs uint64) error {
	return o.call(func(c uintptr) error { return native.Kvc_offload_lookup(c, uint64(request), clock(nowNs)) })
}
