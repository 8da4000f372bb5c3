// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func refused(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrInvalidArgument) {
		t.Fatal("not refused as an invalid argument:", err)
	}
}

func smallStorage(t *testing.T, config StorageConfig) *Storage {
	t.Helper()
	s, err := NewStorage(config)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// TestMaskOffsetsOutsideOfTheMask has offsets that come back to a small number of bits when they are added up in 64 bits.
func TestMaskOffsetsOutsideOfTheMask(t *testing.T) {
	s, a := sparseSetup(t, nil)
	defer s.Close()
	for _, offset := range []uint64{1, 1 << 35, 1 << 63, math.MaxUint64 - 7, math.MaxUint64} {
		bad := *a
		bad.Mask, bad.MaskOffsets = make([]byte, 4), []uint64{offset}
		refused(t, s.Attend(&bad))
		_, err := s.Explain(&bad)
		refused(t, err)
	}
	bad := *a
	bad.Mask, bad.MaskOffsets, bad.MaskStarts = make([]byte, 4), []uint64{0}, []uint64{33}
	refused(t, s.Attend(&bad))
}

// TestQueriesWhoseSizeOverflows asks for 2^64 + 2^20 elements of Q and Out: in 64 bits, 2^20.
func TestQueriesWhoseSizeOverflows(t *testing.T) {
	const requests, heads, dim, queries = 482, 65536, 272, (1<<44 + 1) / 17
	s := smallStorage(t, StorageConfig{NumBlocks: 1, NumLayers: 1, NumHeads: 1, HeadDim: dim, BlockSize: 1, DType: Float32})
	a := &Attention{NumQHeads: heads, Q: make([]float32, 1<<20), Out: make([]float32, 1<<20), QOffsets: make([]uint64, requests+1),
		QStarts: make([]uint64, requests), KVLens: make([]uint64, requests), BlockTables: make([]int32, requests)}
	for r := 0; r < requests; r++ {
		a.QOffsets[r+1] = queries * uint64(r+1) / requests
		a.KVLens[r] = 1
	}
	refused(t, s.Attend(a))
}

// TestSizesThatGrowWithoutTheirArrays asks for results, of empty or short arrays, that no memory holds.
func TestSizesThatGrowWithoutTheirArrays(t *testing.T) {
	_, _, err := TreeMask(make([]int32, 1<<22)) // 2 TiB of bits
	refused(t, err)
	codes, scales, err := Quantize(QuantFormat{DType: Int8, Channels: true}, nil, 1<<50)
	must(t, err)
	equal(t, len(codes)+len(scales), 0)
	_, _, err = Quantize(QuantFormat{DType: Int8}, nil, -1)
	refused(t, err)
	_, _, err = (&Model{NumLayers: 1, NumKVHeads: 1, HeadDim: math.MaxUint32, RopeTheta: 1}).RopeFrequencies(0, 1, nil)
	refused(t, err)
	for _, wrong := range [][2]int{{-1, 4}, {1 << 62, 4}, {1, 0}, {1, -1}, {1, 1<<32 + 4}} {
		refused(t, MergeAttention(nil, nil, wrong[0], wrong[1], make([]float32, 4), nil))
	}
	refused(t, MergeAttention(nil, nil, 1, 1<<32+4, nil, nil))
}

// TestTablesAreWhole: a table that is there has a row for each position, and rows of block tables have one length.
func TestTablesAreWhole(t *testing.T) {
	s := smallStorage(t, StorageConfig{NumBlocks: 1, NumLayers: 1, NumHeads: 1, HeadDim: 4, DType: Float32})
	k := randoms(4)
	refused(t, s.StoreRotated(0, 1, k, k, []int64{0}, &KeyRope{Table: []float32{}})) // was stored without being rotated
	refused(t, s.StoreRotated(0, 1, k, k, []int64{0}, &KeyRope{Table: make([]float32, 6)}))
	must(t, s.StoreRotated(0, 1, k, k, []int64{0}, nil))
	m := newManager(t, Config{NumBlocks: 4})
	a, _, err := m.AllocateRequest(sequence(0, 20), nil)
	must(t, err)
	refused(t, m.ExportTables([]Request{a, a}, 0, -1, make([]int32, 5)))
	must(t, m.ExportTables([]Request{a, a}, 0, -1, make([]int32, 4)))
	refused(t, m.ExportTables(nil, 0, -1, make([]int32, 5)))
	_, err = (&Model{NumLayers: 1, NumKVHeads: 1, HeadDim: 4, WindowTokens: 8, WindowLayers: []uint32{512}}).EstimateMemory(MemoryQuery{Tokens: 8})
	refused(t, err) // was a window in every layer
	must(t, m.Close())
	if err := m.ExportTables(nil, 0, -1, nil); err != ErrClosed {
		t.Fatal(err)
	}
}

// collect runs what is forgotten to its end; it says whether that came true.
func collect(condition func() bool) bool {
	for i := 0; i < 20 && !condition(); i++ {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	return condition()
}

// TestMemoryLivesAsLongAsItsUsers forgets a config whose memory a storage uses, and a storage whose slab is in use.
func TestMemoryLivesAsLongAsItsUsers(t *testing.T) {
	var freed int32
	config := StorageConfig{NumBlocks: 1, NumLayers: 1, NumHeads: 1, HeadDim: 4, DType: Float32}
	open := func() *Storage {
		memory := new([1 << 16]byte) // begins with a page; of Go only to see when it goes
		runtime.SetFinalizer(memory, func(*[1 << 16]byte) { atomic.StoreInt32(&freed, 1) })
		own := config
		own.Memory = memory[:]
		s, err := NewStorage(own)
		must(t, err)
		return s
	}
	s := open()
	gone := func() bool { return atomic.LoadInt32(&freed) != 0 }
	equal(t, collect(gone), false)
	must(t, s.ZeroBlocks([]int32{0}))
	must(t, s.Close())
	equal(t, collect(gone), true)

	alive := atomic.LoadInt64(&liveObjects)
	fewer := func() bool { return atomic.LoadInt64(&liveObjects) <= alive }
	forget := func(use func(s *Storage)) {
		s, err := NewStorage(config)
		must(t, err)
		use(s)
	}
	forget(func(*Storage) {})
	equal(t, collect(fewer), true)
	var slab []byte
	forget(func(s *Storage) { slab = s.Slab() })
	equal(t, collect(fewer), false)
	for i := range slab {
		slab[i] = 1
	}
}

// TestCloseBesideCalls closes steps, storages and managers while other goroutines use them.
func TestCloseBesideCalls(t *testing.T) {
	for round := 0; round < 50; round++ {
		m := newManager(t, Config{NumBlocks: 16, BlockSize: 4})
		step, err := m.NewStep(StepLimits{MaxRequests: 1, MaxTokens: 4, MaxRows: 1, RowStride: 8, MaxAdmissions: 1, MaxPromptTokens: 8})
		must(t, err)
		s, a := sparseSetup(t, nil)
		var users sync.WaitGroup
		use := func(call func() error) {
			users.Add(1)
			go func() {
				defer users.Done()
				for {
					if err := call(); err == ErrClosed {
						return
					} else if err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		use(step.Run)
		use(func() error { step.Row(0, 0); return step.Run() })
		use(func() error { return s.Attend(a) })
		use(func() error { _, err := s.Runs(0); return err })
		use(m.Check)
		time.Sleep(time.Duration(round%5) * 100 * time.Microsecond)
		var closers sync.WaitGroup
		for _, end := range []func() error{step.Close, s.Close, step.Close, func() error {
			if round%2 == 0 {
				return m.Close()
			}
			return nil
		}} {
			closers.Add(1)
			go func(end func() error) { defer closers.Done(); end() }(end)
		}
		closers.Wait()
		must(t, m.Close())
		users.Wait()
		equal(t, step.Slots == nil && step.BlockTables == nil && step.Frees == nil && step.Status == nil && step.Row(0, 0) == nil, true)
	}
}

// TestNegativeNumbersAreRefusedAsWritten: no text shows a number near 2^64, and no call takes one as "all".
func TestNegativeNumbersAreRefusedAsWritten(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 4})
	r, _, err := m.AllocateRequest(sequence(0, 20), nil)
	must(t, err)
	must(t, m.CommitTokens(r, 20))
	must(t, m.FreeRequest(r))
	r, _, err = m.AllocateRequest(sequence(100, 20), nil)
	must(t, err)
	before, err := m.Digest()
	must(t, err)
	_, evicted := m.EvictBlocks(-1, -1)
	s, err := m.NewStep(StepLimits{MaxRequests: 1, RowStride: 2})
	must(t, err)
	results := map[string]error{"maxBlocks": evicted, "firstToken": m.Slots(r, 0, -1, make([]int64, 1)), "capacity": m.ReserveTokens(r, -1),
		"committed": m.CommitTokens(r, -1), "tokens": m.TruncateRequest(r, -1)}
	for name, count := range map[string]*int{"NumFrees": &s.NumFrees, "NumPreempts": &s.NumPreempts, "NumTruncates": &s.NumTruncates,
		"NumRequests": &s.NumRequests, "NumAdmissions": &s.NumAdmissions} {
		*count = -1
		results[name] = s.Run()
		*count = 0
	}
	l := StepLimits{}
	for name, limit := range map[string]*int{"MaxFrees": &l.MaxFrees, "MaxRequests": &l.MaxRequests, "MaxAdmissions": &l.MaxAdmissions,
		"MaxTokens": &l.MaxTokens, "MaxPromptTokens": &l.MaxPromptTokens, "MaxRows": &l.MaxRows, "RowStride": &l.RowStride, "MaxChanges": &l.MaxChanges} {
		*limit = -1
		_, results[name] = m.NewStep(l)
		*limit = 0
	}
	for name, err := range results {
		refused(t, err)
		equal(t, err.Error(), name+" is -1; it must not be negative")
	}
	after, err := m.Digest()
	must(t, err)
	equal(t, after, before)
}
