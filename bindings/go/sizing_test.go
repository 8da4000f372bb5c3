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

func TestAClosedWorkloadIsRefused(t *testing.T) {
	w, err := NewWorkload(0, 4)
	must(t, err)
	must(t, w.Close())
	must(t, w.Close())
	if err := w.Record(1, 1); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}
