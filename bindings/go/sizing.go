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

// CurveConfig is how a miss-ratio curve is measured: kvc_curve_config. All zeros: sizes up to 8 times the blocks of the manager, 16,000 samples.
type CurveConfig struct {
	SampleRate float64 // Share of the blocks to follow, up to 1, which is exact; 0 = what MaxSamples allows.
	MaxSamples uint64  // 0 = 16,000; without a limit if SampleRate is set.
	MaxBlocks  uint64  // Largest size to ask for; 0 = 8 times the blocks of the manager.
	HalfLife   uint64  // After so many block queries earlier ones count half; 0 = all count alike.
}

// OpenCurve starts to measure the hit rate of block queries that x blocks under LRU would have, for all x at once, of a namespace
// alone or of AllNamespaces together in one cache. Errors: ErrNotFound, ErrBusy (it has a curve), ErrLimit (64 curves), ErrInvalidArgument, ErrUnsupported (no prefix cache).
func (m *Manager) OpenCurve(namespace Namespace, config CurveConfig) error {
	c := &C.kvc_curve_config{struct_size: C.sizeof_kvc_curve_config, sample_rate: C.double(config.SampleRate), max_samples: C.uint64_t(config.MaxSamples),
		max_blocks: C.uint64_t(config.MaxBlocks), half_life: C.uint64_t(config.HalfLife)}
	return m.call(func(address uintptr) error {
		return native.Kvc_manager_open_curve(address, uint64(namespace), asByte(c))
	})
}

// CloseCurve ends a curve and frees its memory.
func (m *Manager) CloseCurve(namespace Namespace) error {
	return m.call(func(c uintptr) error { return native.Kvc_manager_close_curve(c, uint64(namespace)) })
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

// Curve returns what a curve has seen.
func (m *Manager) Curve(namespace Namespace) (info CurveInfo, err error) {
	info.size = uint64(unsafe.Sizeof(info))
	err = m.call(func(c uintptr) error { return native.Kvc_manager_curve_info(c, uint64(namespace), asByte(&info)) })
	return info, err
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

// Record adds an observation, later than the last one. The value is finite and at most 1e15 in size.
func (w *Workload) Record(nowNs uint64, value float64) error {
	return w.call(func(c uintptr) error { return native.Kvc_workload_record(c, nowNs, value) })
}

// Read returns the figures so far.
func (w *Workload) Read() (info WorkloadInfo, err error) {
	info.size = uint64(unsafe.Sizeof(info))
	err = w.call(func(c uintptr) error { return native.Kvc_workload_read_info(c, asByte(&info)) })
	return info, err
}

// Predict forecasts the value horizonNs after the last observation.
func (w *Workload) Predict(horizonNs uint64) (float64, error) {
	value := make([]float64, 1)
	err := w.call(func(c uintptr) error { return native.Kvc_workload_predict(c, horizonNs, asBytes(value)) })
	return value[0], err
}

// SizingMode says which number a decision stands on.
type SizingMode uint32

// Modes: the last need; the forecast at LeadTimeNs; the larger of both if the need is bursty, else the forecast if the trend is significant, else
// the level.
const (
	SizingReactive   SizingMode = C.KVC_SIZING_REACTIVE
	SizingPredictive SizingMode = C.KVC_SIZING_PREDICTIVE
	SizingHybrid     SizingMode = C.KVC_SIZING_HYBRID
)

// Values of SizingDecision.Action, Basis and Reason.
const (
	SizingKeep       uint32 = C.KVC_SIZING_KEEP
	SizingGrow       uint32 = C.KVC_SIZING_GROW
	SizingShrink     uint32 = C.KVC_SIZING_SHRINK
	SizingByLast     uint32 = C.KVC_SIZING_BY_LAST
	SizingByForecast uint32 = C.KVC_SIZING_BY_FORECAST
	SizingByLevel    uint32 = C.KVC_SIZING_BY_LEVEL
	SizingNeed       uint32 = C.KVC_SIZING_NEED
	SizingHysteresis uint32 = C.KVC_SIZING_HYSTERESIS
	SizingCooldown   uint32 = C.KVC_SIZING_COOLDOWN
	SizingLimit      uint32 = C.KVC_SIZING_LIMIT
)

// SizerConfig is how a Sizer decides: kvc_sizer_config, with its defaults for 0.
type SizerConfig struct {
	Mode                                 SizingMode
	MinBlocks, MaxBlocks, NumBlocks      uint64
	LeadTimeNs, CooldownNs, HalfLifeNs   uint64
	Headroom, Hysteresis, BurstThreshold float64
	Window, LogCapacity                  uint32
}

// SizingDecision is one decision, with all numbers that it stands on: kvc_sizing_decision.
type SizingDecision struct {
	size                                              uint64
	Number, NowNs, FromBlocks, ToBlocks               uint64
	Action, Reason, Basis                             uint32
	Mode                                              SizingMode
	Needed, Level, Trend, Forecast, Variation, Wanted float64
}

// Sizer decides on a number of blocks. Any goroutine may call it. Create it with NewSizer, free it with Close.
type Sizer struct{ object }

// NewSizer creates a sizer. Errors: ErrInvalidArgument, ErrUnsupported (mode), ErrOutOfMemory.
func NewSizer(config SizerConfig) (*Sizer, error) {
	c := &C.kvc_sizer_config{struct_size: C.sizeof_kvc_sizer_config, mode: C.uint32_t(config.Mode), min_blocks: C.uint64_t(config.MinBlocks),
		max_blocks: C.uint64_t(config.MaxBlocks), num_blocks: C.uint64_t(config.NumBlocks), lead_time_ns: C.uint64_t(config.LeadTimeNs),
		cooldown_ns: C.uint64_t(config.CooldownNs), half_life_ns: C.uint64_t(config.HalfLifeNs), headroom: C.double(config.Headroom),
		hysteresis: C.double(config.Hysteresis), burst_threshold: C.double(config.BurstThreshold), window: C.uint32_t(config.Window),
		log_capacity: C.uint32_t(config.LogCapacity)}
	var address uintptr
	if err := native.Kvc_sizer_create(asByte(c), &address); err != nil {
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

// Decide decides on the size for an interval that has ended, logs the decision, and takes its size as the present one.
func (s *Sizer) Decide(nowNs uint64, neededBlocks float64) (decision SizingDecision, err error) {
	decision.size = uint64(unsafe.Sizeof(decision))
	err = s.call(func(c uintptr) error { return native.Kvc_sizer_decide(c, nowNs, neededBlocks, asByte(&decision)) })
	return decision, err
}

// ReadLog returns a decision by its number. ErrNotFound: it is not made yet, or no longer in the log.
func (s *Sizer) ReadLog(number uint64) (decision SizingDecision, err error) {
	decision.size = uint64(unsafe.Sizeof(decision))
	err = s.call(func(c uintptr) error { return native.Kvc_sizer_read_log(c, number, asByte(&decision)) })
	return decision, err
}
