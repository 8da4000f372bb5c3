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

// OpenCurve starts to measure the hit rate of block queries that x blocks under LRU would have, for all x at once: of a namespace, as if it had the
// cache alone, or of AllNamespaces, all of them in one cache. Errors: ErrNotFound, ErrBusy (it has a curve), ErrLimit (64 curves), ErrInvalidArgument,
// ErrUnsupported (no prefix cache).
func (m *Manager) OpenCurve(namespace Namespace, config CurveConfig) error {
	config.size = uint64(unsafe.Sizeof(config))
	return m.call(func(address uintptr) error {
		return native.Kvc_manager_open_curve(address, uint64(namespace), asByte(&config))
	})
}

// HitRates returns the share of the block queries that caches of these sizes would answer. The sizes ascend.
func (m *Manager) HitRates(namespace Namespace, numBlocks []uint64) ([]float64, error) {
	rates := make([]float64, len(numBlocks))
	err := m.call(func(c uintptr) error {
		return native.Kvc_manager_read_curve(c, uint64(namespace), numBlocks, asBytes(rates))
	})
	if err != nil {
		return nil, err
	}
	return rates, nil
}

// object is what Workload and Sizer have in common: an address that Close frees after the calls in flight.
type object struct {
	mu sync.RWMutex
	c  uintptr
}

func (o *object) call(function func(c uintptr) error) error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.c == 0 {
		return ErrClosed
	}
	return function(o.c)
}

func (o *object) close(destroy func(c unsafe.Pointer)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.c != 0 {
		destroy(*(*unsafe.Pointer)(unsafe.Pointer(&o.c)))
		o.c = 0
		atomic.AddInt64(&liveObjects, -1)
	}
	return nil
}

// Workload follows one number over time. Any goroutine may call it. Create it with NewWorkload, free it with Close.
type Workload struct{ object }

// NewWorkload creates a workload. halfLifeNs: age at which an observation counts half; 0 = 60 s. window: last observations for mean and
// variance, 2 .. 65536; 0 = 64.
func NewWorkload(halfLifeNs uint64, window uint32) (*Workload, error) {
	c := &C.kvc_workload_config{struct_size: C.sizeof_kvc_workload_config, half_life_ns: C.uint64_t(halfLifeNs), window: C.uint32_t(window)}
	var address uintptr
	if err := native.Kvc_workload_create(asByte(c), &address); err != nil {
		return nil, err
	}
	w := &Workload{object{c: address}}
	atomic.AddInt64(&liveObjects, 1)
	runtime.SetFinalizer(w, (*Workload).Close)
	return w, nil
}

// Close frees the workload. Closing again does nothing.
func (w *Workload) Close() error {
	return w.close(func(c unsafe.Pointer) { C.kvc_workload_destroy((*C.kvc_workload)(c)) })
}

// Predict forecasts the value horizonNs after the last observation.
func (w *Workload) Predict(horizonNs uint64) (float64, error) {
	value := make([]float64, 1)
	err := w.call(func(c uintptr) error { return native.Kvc_workload_predict(c, horizonNs, asBytes(value)) })
	return value[0], err
}

// Sizer decides on a number of blocks. Any goroutine may call it. Create it with NewSizer, free it with Close.
type Sizer struct{ object }

// NewSizer creates a sizer. Errors: ErrInvalidArgument, ErrUnsupported (mode), ErrOutOfMemory.
func NewSizer(config SizerConfig) (*Sizer, error) {
	config.size = uint64(unsafe.Sizeof(config))
	var address uintptr
	if err := native.Kvc_sizer_create(asByte(&config), &address); err != nil {
		return nil, err
	}
	s := &Sizer{object{c: address}}
	atomic.AddInt64(&liveObjects, 1)
	runtime.SetFinalizer(s, (*Sizer).Close)
	return s, nil
}

// Close frees the sizer. Closing again does nothing.
func (s *Sizer) Close() error {
	return s.close(func(c unsafe.Pointer) { C.kvc_sizer_destroy((*C.kvc_sizer)(c)) })
}
