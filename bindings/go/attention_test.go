// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"math"
	"syscall"
	"testing"
)

// sparseSetup is a storage with 8 full blocks of one request and a question of one query to it.
func sparseSetup(t *testing.T, memory []byte) (*Storage, *Attention) {
	const tokens, heads, dim = 32, 2, 16
	s, err := NewStorage(StorageConfig{NumBlocks: 8, NumLayers: 1, NumHeads: heads, HeadDim: dim, BlockSize: 4, DType: Float32, Memory: memory})
	must(t, err)
	slots := make([]int64, tokens)
	table := make([]int32, 8)
	for i := range slots {
		slots[i] = int64(i)
		table[i/4] = int32(i / 4)
	}
	must(t, s.Store(0, 1, randoms(tokens*heads*dim), randoms(tokens*heads*dim), slots))
	return s, &Attention{NumQHeads: 4, Q: randoms(4 * dim), Out: make([]float32, 4*dim), LSE: make([]float32, 4), QOffsets: []uint64{0, 1},
		KVLens: []uint64{tokens}, BlockTables: table}
}

func out(t *testing.T, s *Storage, a *Attention) []float32 {
	t.Helper()
	must(t, s.Attend(a))
	return append([]float32(nil), a.Out...)
}

// TestRowsOfLargerArrays has queries and results apart, in each order of tokens and heads.
func TestRowsOfLargerArrays(t *testing.T) {
	s, a := sparseSetup(t, nil)
	defer s.Close()
	const tokens, heads, dim, guard = 3, 4, 16, float32(-777)
	a.QOffsets, a.LSE, a.Q, a.Out = []uint64{0, tokens}, nil, randoms(tokens*heads*dim), make([]float32, tokens*heads*dim)
	dense := out(t, s, a)
	for _, strides := range [][4]int{{(heads + 4) * dim, 0, heads*dim + 5, 0}, {0, dim + 3, 0, dim + 1}, {dim, tokens * dim, dim + 1, tokens*(dim+1) - 1},
		{(heads + 4) * dim, dim, heads * dim, dim}} {
		b := *a
		b.QTokenStride, b.QHeadStride, b.OutTokenStride, b.OutHeadStride = strides[0], strides[1], strides[2], strides[3]
		b.Q, b.Out = make([]float32, 400), make([]float32, 400)
		for i := range b.Q {
			b.Q[i], b.Out[i] = float32(math.NaN()), guard
		}
		row := func(token, head, tokenStride, headStride int) int {
			if headStride == 0 {
				headStride = dim
			}
			if tokenStride == 0 {
				tokenStride = heads * headStride
			}
			return token*tokenStride + head*headStride
		}
		for i := 0; i < tokens*heads; i++ {
			copy(b.Q[row(i/heads, i%heads, strides[0], strides[1]):], a.Q[i*dim:(i+1)*dim])
		}
		if _, err := s.Explain(&b); err != nil {
			t.Fatal(err)
		}
		must(t, s.Attend(&b))
		written := 0
		for i := 0; i < tokens*heads; i++ {
			first := row(i/heads, i%heads, strides[2], strides[3])
			equal(t, b.Out[first:first+dim], dense[i*dim:(i+1)*dim])
		}
		for _, x := range b.Out {
			if x != guard {
				written++
			}
		}
		equal(t, written, tokens*heads*dim)
		last := row(tokens-1, heads-1, strides[0], strides[1]) + dim
		b.Q = b.Q[:last]
		must(t, s.Attend(&b))
		b.Q = b.Q[:last-1]
		refused(t, s.Attend(&b))
	}
	for _, strides := range [][4]int{{-1, 0, 0, 0}, {0, -dim, 0, 0}, {0, 0, -1, 0}, {0, 0, 0, -1}, {math.MaxInt, 0, 0, 0}, {0, math.MaxInt, 0, 0},
		{math.MaxInt/2 + 1, math.MaxInt/3 + 1, 0, 0}, {0, 0, 1, 0}, {0, 0, heads*dim - 1, 0}, {0, 0, 0, dim - 1}, {0, 0, 0, math.MaxInt}} {
		b := *a
		b.Q, b.Out = make([]float32, 400), make([]float32, 400)
		b.QTokenStride, b.QHeadStride, b.OutTokenStride, b.OutHeadStride = strides[0], strides[1], strides[2], strides[3]
		refused(t, s.Attend(&b))
	}
}

// TestSinkLogitsTakeTheirShare compares with the results without them.
func TestSinkLogitsTakeTheirShare(t *testing.T) {
	s, a := sparseSetup(t, nil)
	defer s.Close()
	dense, lse := out(t, s, a), append([]float32(nil), a.LSE...)
	a.SinkLogits, a.Launch = []float32{1.5, float32(math.Inf(-1)), 4, -2}, &Launch{Workspace: make([]byte, 3)}
	for i, x := range out(t, s, a) {
		share := 1 / (1 + math.Exp(float64(a.SinkLogits[i/16]-lse[i/16])))
		near(t, float64(x), float64(dense[i])*share, 1e-5)
	}
	for h, x := range a.LSE {
		near(t, float64(x), math.Log(math.Exp(float64(lse[h]))+math.Exp(float64(a.SinkLogits[h]))), 1e-5)
	}
	info, err := s.Explain(a)
	must(t, err)
	equal(t, info.WorkspaceBytes+info.SelectionBytes, uint64(0)) // of the CPU
	for _, bad := range [][]float32{{0, 0, 0}, {0, 0, 0, float32(math.NaN())}, {0, float32(math.Inf(1)), 0, 0}} {
		a.SinkLogits = bad
		refused(t, s.Attend(a))
	}
}

func TestMasksHideWhatTheySay(t *testing.T) {
	s, a := sparseSetup(t, nil)
	defer s.Close()
	dense := out(t, s, a)
	bounds := make([]uint16, 8*2*2*16)
	must(t, s.KeyBounds(0, a.BlockTables, bounds))
	all, err := s.SelectBlocks(a, BlockChoice{Bounds: bounds, TopK: 8})
	must(t, err)
	equal(t, string(all), "\xff\xff")
	sparse := *a
	sparse.BlockMask = all
	equal(t, out(t, s, &sparse), dense)
	sparse.BlockMask, err = s.SelectBlocks(a, BlockChoice{Bounds: bounds, TopK: 2, SinkBlocks: 1})
	must(t, err)
	for head, row := range sparse.BlockMask {
		if row&0x81 != 0x81 || row != 0x81 {
			t.Fatal(head, row) // the first and the last block are the two
		}
	}
	byNumber := string(sparse.BlockMask)
	byRatio, err := s.SelectBlocks(a, BlockChoice{Bounds: bounds, Ratio: 0.25, SinkBlocks: 1}) // 2 of 8
	must(t, err)
	equal(t, string(byRatio), byNumber)
	for _, threshold := range []float64{math.Inf(1), 1e300} {
		all, err = s.SelectBlocks(a, BlockChoice{Bounds: bounds, Threshold: threshold})
		must(t, err)
		equal(t, string(all), "\xff\xff")
	}
	some, err := s.SelectBlocks(a, BlockChoice{Bounds: bounds, Threshold: 1e-6})
	must(t, err)
	equal(t, string(some) != "\xff\xff" && some[0]&0x80 != 0, true)
	for _, bad := range []BlockChoice{{Ratio: math.NaN()}, {Ratio: 1.5}, {Threshold: -1}, {TopK: 1, Ratio: 0.5}, {}} {
		bad.Bounds = bounds
		_, err = s.SelectBlocks(a, bad)
		refused(t, err)
	}
	few := out(t, s, &sparse)
	bits := *a // the same, token by token
	bits.Mask, bits.MaskOffsets = []byte{0x0f, 0, 0, 0xf0}, []uint64{0}
	for i, x := range out(t, s, &bits) {
		near(t, float64(x), float64(few[i]), 1e-5)
	}
	info, err := s.Explain(&sparse)
	must(t, err)
	equal(t, info.Sparse && info.NumWorkers == 1 && info.Kernels != "", true)
	info, err = s.Explain(a)
	must(t, err)
	equal(t, info.Sparse, false)

	for i, change := range []func(a *Attention){
		func(a *Attention) { a.BlockMask = all[:1] },
		func(a *Attention) { a.KVLens, a.BlockMask = []uint64{36}, all },
		func(a *Attention) { a.Mask = make([]byte, 4) },
		func(a *Attention) { a.Mask, a.MaskOffsets = make([]byte, 3), []uint64{0} },
		func(a *Attention) { a.MaskStarts = []uint64{0, 0} },
		func(a *Attention) { a.QStarts = []uint64{} },
	} {
		bad := *a
		change(&bad)
		if err := s.Attend(&bad); !errors.Is(err, ErrInvalidArgument) {
			t.Error(i, err)
		}
	}
	if _, err := s.SelectBlocks(a, BlockChoice{Bounds: bounds}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
}

func TestPartsMergeIntoTheWhole(t *testing.T) {
	s, a := sparseSetup(t, nil)
	defer s.Close()
	whole := out(t, s, a)
	lse := append([]float32(nil), a.LSE...)
	outs, lses := []float32{}, []float32{}
	for part := 0; part < 2; part++ {
		half := *a
		half.KVLens, half.BlockTables, half.NotCausal = []uint64{16}, a.BlockTables[4*part:4*part+4], true
		outs = append(outs, out(t, s, &half)...)
		lses = append(lses, half.LSE...)
	}
	merged, mergedLSE := make([]float32, len(whole)), make([]float32, 4)
	must(t, MergeAttention(outs, lses, 2, 16, merged, mergedLSE))
	for i := range whole {
		near(t, float64(merged[i]), float64(whole[i]), 1e-5)
	}
	near(t, float64(mergedLSE[3]), float64(lse[3]), 1e-5)
	if err := MergeAttention(outs[1:], lses, 2, 16, merged, nil); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	mask, depths, err := TreeMask([]int32{-1, 0, 0, 1})
	must(t, err)
	equal(t, depths, []int32{0, 1, 1, 2})
	equal(t, mask, []byte{0x31, 0xb5})
	if _, _, err := TreeMask([]int32{0}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
}

func TestExternalMemoryAndPropertiesOfAStorage(t *testing.T) {
	block, slab, err := StorageSize(StorageConfig{NumBlocks: 8, NumLayers: 1, NumHeads: 2, HeadDim: 16, BlockSize: 4, DType: Float32})
	must(t, err)
	memory, err := syscall.Mmap(-1, 0, int(slab), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	must(t, err)
	defer syscall.Munmap(memory)
	s, a := sparseSetup(t, memory)
	out(t, s, a)
	equal(t, &s.Slab()[0] == &memory[0], true)
	runs, err := s.Runs(3)
	must(t, err)
	total := uint64(0)
	for _, run := range runs {
		total += run.Bytes
	}
	equal(t, total, block)
	k := make([]float32, 4*2*16)
	v := make([]float32, 4*2*16)
	must(t, s.Gather(0, 1, k, v, []int64{0, 1, 2, 3}))
	keys, values, err := s.Measure(0, 1, k, v, []int64{0, 1, 2, 3})
	must(t, err)
	equal(t, keys.MSE == 0 && values.MaxError == 0 && keys.Elements == 128 && keys.Ratio == 0.5, true)
	must(t, s.QuantizeBlocks([]int32{0}))
	must(t, s.Close())
	equal(t, s.Slab() == nil, true)
	if _, err := NewStorage(StorageConfig{NumBlocks: 9, NumLayers: 1, NumHeads: 2, HeadDim: 16, BlockSize: 4, DType: Float32, Memory: memory}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	equal(t, BuildInfo() != "", true)
	info, err := Device("cpu")
	must(t, err)
	equal(t, info.MemoryBytes > 0 && info.NumProcessors > 0, true)
	if _, err := Device("none"); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}

func TestBlocksAreForgottenByTheirIDs(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 8, BlockSize: 4})
	r, _, err := m.AllocateRequest(sequence(0, 13), nil)
	must(t, err)
	must(t, m.CommitTokens(r, 12))
	table, err := m.BlockTable(r, 0)
	must(t, err)
	count, err := m.UnpublishBlocks([]int32{table[1], -1, table[3]})
	must(t, err)
	equal(t, count, 1)
	info, err := m.Probe(0, sequence(0, 13), nil)
	must(t, err)
	equal(t, info.NumCached, uint64(4))
	must(t, m.Check())
}

// C ignores the stride of a single head, so two queries are 16 elements apart, not 8.
func TestTheHeadStrideOfOneHeadSaysNothing(t *testing.T) {
	s, err := NewStorage(StorageConfig{NumBlocks: 1, NumLayers: 1, NumHeads: 1, HeadDim: 16, DType: Float32})
	must(t, err)
	defer s.Close()
	a := Attention{NumQHeads: 1, Q: make([]float32, 32), QOffsets: []uint64{0, 2}, KVLens: []uint64{2}, BlockTables: []int32{0}, OutHeadStride: 8}
	a.Out = make([]float32, 8+16)
	if err := s.Attend(&a); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	a.Out = make([]float32, 32)
	must(t, s.Attend(&a))
}
