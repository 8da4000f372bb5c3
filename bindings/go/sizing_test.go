// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"math"
	"testing"
)

// workload makes one with fuzzed settings and uses it.
func (f *fuzzer) workload(use func(*Workload) error) error {
	w, err := NewWorkload(f.number(), uint32(f.oneOf(0, 2, 65536, 1)))
	if err != nil {
		return err
	}
	defer w.Close()
	if use == nil {
		return nil
	}
	return use(w)
}

// sizer is the same for a Sizer.
func (f *fuzzer) sizer(use func(*Sizer) error) error {
	s, err := NewSizer(SizerConfig{Mode: SizingMode(f.small(3)), MinBlocks: f.oneOf(0, 1, 9, 1<<40), MaxBlocks: f.oneOf(0, 9, 1<<40),
		Headroom: []float64{0, 0.5, -1, math.NaN()}[f.Intn(4)], LogCapacity: uint32(f.oneOf(0, 1, 1<<31))})
	if err != nil {
		return err
	}
	defer s.Close()
	if use == nil {
		return nil
	}
	return use(s)
}

func TestWorkloadsForecastAndSizersDecide(t *testing.T) {
	const second = 1000000000
	w, err := NewWorkload(second, 4)
	must(t, err)
	for i := uint64(1); i < 5; i++ {
		must(t, w.Record(i*second, float64(10*i)))
	}
	value, err := w.Predict(second)
	must(t, err)
	info, err := w.Read()
	must(t, err)
	if math.Abs(value-50) > 1e-9 || info.NumObservations != 4 || info.Peak != 40 {
		t.Fatal(value, info)
	}
	must(t, w.Close())
	must(t, w.Close())
	if err := w.Record(9*second, 1); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}

	s, err := NewSizer(SizerConfig{Mode: SizingPredictive, NumBlocks: 10, MaxBlocks: 100, LeadTimeNs: second})
	must(t, err)
	defer s.Close()
	_, err = s.Decide(second, 10)
	must(t, err)
	decision, err := s.Decide(2*second, 20)
	must(t, err)
	logged, err := s.ReadLog(1)
	must(t, err)
	if decision != logged || decision.ToBlocks != 30 || decision.Basis != SizingByForecast || decision.Action != SizingGrow {
		t.Fatal(decision, logged)
	}
	if _, err := NewSizer(SizerConfig{Mode: 3}); !errors.Is(err, ErrUnsupported) {
		t.Fatal(err)
	}
}
