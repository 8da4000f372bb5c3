// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"math"
	"math/rand"
	"strings"
	"testing"
)

const shortfinConfig = `{"module_name": "module", "max_seq_len": 8192, "attn_head_dim": 64, "transformer_block_count": 6, "top_k": null,
	"paged_kv_cache": {"attention_head_count_kv": 4, "block_seq_stride": 16, "device_block_count": 128, "kv_cache_dtype": "bfloat16",
	"paged_kv_block_size_elements_per_device": [32768, 16384]}}`

func TestShortfinConfig(t *testing.T) {
	config, storages, err := ConfigFromShortfin([]byte(shortfinConfig))
	must(t, err)
	if config.NumBlocks != 128 || config.BlockSize != 16 || config.MaxRequestTokens != 8192 || len(storages) != 2 {
		t.Fatal(config, storages)
	}
	m, err := New(config)
	must(t, err)
	must(t, m.Close())
	s, err := NewStorage(storages[1])
	must(t, err)
	onDevice, onHost, err := s.Trim()
	must(t, err)
	equal(t, onDevice+onHost, uint64(0)) // No call has left anything.
	must(t, s.Close())
	for i, layers := range []uint32{4, 2} {
		equal(t, storages[i].NumLayers, layers)
		block, slab, err := StorageSize(storages[i])
		must(t, err)
		equal(t, block, uint64(layers)*2*4*64*16*2)
		equal(t, slab, 128*block)
	}
	if _, _, err := ConfigFromShortfin([]byte(strings.Replace(shortfinConfig, "bfloat16", "int3", 1))); !errors.Is(err, ErrInvalidArgument) ||
		!strings.Contains(err.Error(), "kv_cache_dtype") {
		t.Fatal(err)
	}
}

func randoms(n int) []float32 {
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(rand.NormFloat64())
	}
	return values
}

// TestStoreRotatesKeysAsApplyRope stores keys of which a part rotates, and the same keys rotated before.
func TestStoreRotatesKeysAsApplyRope(t *testing.T) {
	const tokens, heads, dim = 3, 2, 8
	s, err := NewStorage(StorageConfig{NumBlocks: 4, NumLayers: 1, NumHeads: heads, HeadDim: dim, BlockSize: 4, DType: Float32})
	must(t, err)
	defer s.Close()
	k, v, slots := randoms(tokens*heads*dim), randoms(tokens*heads*dim), []int64{9, 2, 14}
	gotK, gotV := make([]float32, len(k)), make([]float32, len(v))
	for _, rope := range []KeyRope{{}, {RopeDim: 4, FirstElement: 4}, {Interleaved: true, Rows: []int64{4, 0, 4}}, {RopeDim: 6, Interleaved: true}} {
		pairs := dim / 2
		if rope.RopeDim != 0 {
			pairs = int(rope.RopeDim) / 2
		}
		rope.Table, err = RopeTable([]float64{1, 0.1, 0.01, 0.001}[:pairs], 1, []int64{1, 2, 3, 40, 500})
		must(t, err)
		rotated := append([]float32(nil), k...)
		must(t, ApplyRope(&RopeRows{X: rotated, NumHeads: heads, HeadDim: dim, RopeDim: rope.RopeDim, FirstElement: rope.FirstElement,
			Interleaved: rope.Interleaved, Rows: rope.Rows}, rope.Table))
		must(t, s.StoreRotated(0, 1, k, v, slots, &rope))
		must(t, s.Gather(0, 1, gotK, gotV, slots))
		equal(t, gotK, rotated)
		equal(t, gotV, v)
	}
	table, err := RopeTable([]float64{1, 1, 1, 1}, 1, []int64{1, 2, 3})
	must(t, err)
	for i, rope := range []KeyRope{{Table: table[:2*dim]}, {Table: table, Rows: []int64{0, 1, 3}}, {Table: table, Rows: []int64{0}}, {Rows: slots},
		{Table: table, RopeDim: 3}, {Table: table, FirstElement: 2}} {
		if err := s.StoreRotated(0, 1, k, v, slots, &rope); !errors.Is(err, ErrInvalidArgument) {
			t.Error(i, err)
		}
	}
}

// TestAttentionOverAManagersTables stores a prompt where the manager says and compares one query's attention with plain sums.
func TestAttentionOverAManagersTables(t *testing.T) {
	const tokens, heads, dim = 11, 2, 32
	m := newManager(t, Config{NumBlocks: 8, BlockSize: 4})
	s, err := NewStorage(StorageConfig{NumBlocks: 8, NumLayers: 2, NumHeads: heads, HeadDim: dim, BlockSize: 4, DType: Float32})
	must(t, err)
	defer s.Close()
	r, _, err := m.AllocateRequest(sequence(0, tokens), nil)
	must(t, err)
	slots := make([]int64, tokens)
	must(t, m.Slots(r, 0, 0, slots))
	k, v := randoms(2*tokens*heads*dim), randoms(2*tokens*heads*dim)
	must(t, s.Store(0, 2, k, v, slots))
	gotK, gotV := make([]float32, len(k)), make([]float32, len(v))
	must(t, s.Gather(0, 2, gotK, gotV, slots))
	equal(t, gotK, k)
	equal(t, gotV, v)

	table, err := m.BlockTable(r, 0)
	must(t, err)
	q, out := randoms(4*dim), make([]float32, 4*dim)
	attention := &Attention{Layer: 1, NumQHeads: 4, Q: q, Out: out, LSE: make([]float32, 4), QOffsets: []uint64{0, 1}, KVLens: []uint64{tokens},
		BlockTables: table}
	must(t, s.Attend(attention))
	layer := tokens * heads * dim
	for h := 0; h < 4; h++ {
		sum, expected := 0.0, make([]float64, dim)
		for j := 0; j < tokens; j++ {
			row := layer + (j*heads+h/2)*dim
			logit := 0.0
			for e := 0; e < dim; e++ {
				logit += float64(q[h*dim+e]) * float64(k[row+e])
			}
			weight := math.Exp(logit / math.Sqrt(dim))
			sum += weight
			for e := range expected {
				expected[e] += weight * float64(v[row+e])
			}
		}
		for e := range expected {
			if math.Abs(expected[e]/sum-float64(out[h*dim+e])) > 1e-4 {
				t.Fatal(h, e, expected[e]/sum, out[h*dim+e])
			}
		}
		if math.Abs(math.Log(sum)-float64(attention.LSE[h])) > 1e-4 {
			t.Fatal(attention.LSE[h], math.Log(sum))
		}
	}

	info, err := s.Explain(attention)
	must(t, err)
	again := *attention
	again.Out, again.Launch = make([]float32, 4*dim), &Launch{Plan: make([]byte, info.PlanBytes+16), Planned: true}
	must(t, s.Attend(&again)) // The CPU ignores the plan.
	equal(t, again.Out, out)

	must(t, s.CopyBlocks([]BlockCopy{{table[0], 7}}))
	moved := []int64{28, 29, 30, 31}
	must(t, s.Gather(0, 1, gotK[:4*heads*dim], gotV[:4*heads*dim], moved))
	equal(t, gotK[:4*heads*dim], k[:4*heads*dim])
	blockBytes, _ := s.Bytes()
	pages := make([]byte, 2*blockBytes)
	must(t, s.SwapOut([]BlockCopy{{7, 1}}, pages, 0))
	must(t, s.ZeroBlocks([]int32{7}))
	must(t, s.SwapIn([]BlockCopy{{1, 7}}, pages, 0))
	must(t, s.Gather(0, 1, gotK[:4*heads*dim], gotV[:4*heads*dim], moved))
	equal(t, gotK[:4*heads*dim], k[:4*heads*dim])
	must(t, s.ZeroBlocks([]int32{7}))
	must(t, s.Gather(0, 1, gotK[:4*heads*dim], gotV[:4*heads*dim], moved))
	equal(t, gotK[:heads*dim], make([]float32, heads*dim))

	for i, call := range []func() error{
		func() error { return s.Store(0, 2, k[1:], v, slots) },
		func() error { return s.Store(0, 2, k, v[1:], slots) },
		func() error { return s.Store(2, 1, k[:layer], v[:layer], slots) },
		func() error { return s.Gather(0, 2, k, v, append(slots, 0)) },
		func() error { return s.SwapOut([]BlockCopy{{0, 2}}, pages, 0) },
		func() error { return s.SwapIn([]BlockCopy{{1, 6}, {0, 6}}, pages, 0) },
		func() error { a := *attention; a.SharedTokens = tokens; return s.Attend(&a) },
		func() error { a := *attention; a.Out = out[1:]; return s.Attend(&a) },
		func() error { a := *attention; a.LSE = out[:1]; return s.Attend(&a) },
		func() error { a := *attention; a.QOffsets = []uint64{0}; return s.Attend(&a) },
		func() error { a := *attention; a.KVLens = []uint64{99}; return s.Attend(&a) },
	} {
		if err := call(); !errors.Is(err, ErrInvalidArgument) {
			t.Error(i, err)
		}
	}
	block, slab := s.Bytes()
	equal(t, slab, 8*block)
	must(t, s.Close())
	if err := s.ZeroBlocks([]int32{0}); err != ErrClosed {
		t.Fatal(err)
	}
}
