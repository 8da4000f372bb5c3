// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func near(t *testing.T, got, wanted, tolerance float64) {
	t.Helper()
	if math.Abs(got-wanted) > tolerance {
		t.Fatal(got, "is not", wanted)
	}
}

func TestBitsOfTypes(t *testing.T) {
	for dtype, wanted := range map[DType]int{0: 32, Float32: 32, Float16: 16, BFloat16: 16, Float8E4M3: 8, Float8E5M2: 8, Int8: 8, Int4: 4} {
		bits, err := dtype.Bits()
		must(t, err)
		equal(t, bits, wanted)
	}
	if _, err := DType(12).Bits(); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "dtype is 12") {
		t.Fatal(err)
	}
}

func TestPresetsAndMemory(t *testing.T) {
	models, err := Models()
	must(t, err)
	if len(models) < 40 {
		t.Fatal(len(models))
	}
	for _, model := range models {
		found, err := FindModel(model.Name)
		must(t, err)
		equal(t, found.NumLayers, model.NumLayers)
		estimate, err := model.EstimateMemory(MemoryQuery{Tokens: 4096})
		must(t, err)
		equal(t, int(estimate.NumFullLayers+estimate.NumWindowLayers+estimate.NumStateLayers), int(model.NumLayers))
		equal(t, int(estimate.NumStateLayers), len(model.StateLayers))
		equal(t, estimate.NumCrossLayers, model.NumCrossLayers)
		windowed := model.WindowTokens != 0 && len(model.WindowLayers) == 0
		equal(t, windowed || int(estimate.NumWindowLayers) == len(model.WindowLayers), true)
	}
	llama, err := FindModel("meta-llama/Llama-3.1-8B")
	must(t, err)
	estimate, err := llama.EstimateMemory(MemoryQuery{DType: Float16, Tokens: 8192, BudgetBytes: 1 << 34})
	must(t, err)
	equal(t, estimate.BytesPerToken, uint64(2*32*8*128*2))
	equal(t, estimate.TotalBytes, 8192*estimate.BytesPerToken)
	equal(t, estimate.MaxSequences, (1<<34)/estimate.TotalBytes)
	own := &Model{NumLayers: 4, NumKVHeads: 1, HeadDim: 8, MaxContext: 64, WindowTokens: 16, WindowLayers: []uint32{1, 3}}
	estimate, err = own.EstimateMemory(MemoryQuery{DType: Int8})
	must(t, err)
	equal(t, estimate.NumWindowLayers, uint32(2))
	own = &Model{NumLayers: 4, NumKVHeads: 1, HeadDim: 8, MaxContext: 64, StateLayers: []uint32{0, 2}, ConvElements: 30, RecurrentElements: 70,
		NumCrossLayers: 4, CrossTokens: 100, CrossKVHeads: 2, CrossHeadDim: 8}
	estimate, err = own.EstimateMemory(MemoryQuery{DType: BFloat16, CheckpointTokens: 16, RecurrentDType: Float32, BudgetBytes: 1 << 20})
	must(t, err)
	equal(t, estimate.StateBlockBytes, uint64(2*(30*2+70*4)))
	equal(t, estimate.StateBlocks, uint64(2+4))
	equal(t, estimate.CrossBlocks, uint64(7))
	equal(t, estimate.CrossBlockBytes, uint64(4*2*2*8*2*16))
	equal(t, estimate.NumPools, uint32(3))
	equal(t, estimate.StatePool+estimate.CrossPool, uint32(1+2))
	equal(t, estimate.StatePoolBlocks > 0 && estimate.CrossPoolBlocks > 0, true)
	if _, err = (&Model{StateLayers: []uint32{512}}).EstimateMemory(MemoryQuery{}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	config := `{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
		"vocab_size": 128256, "max_position_embeddings": 131072, "_name_or_path": "mine"}`
	read, err := ModelFromConfig([]byte(config))
	if err != nil || read.Name != "mine" || read.NumKVHeads != 8 || read.HeadDim != 128 || read.MaxContext != 131072 {
		t.Errorf("%+v, %v", read, err)
	}
	for _, bad := range []string{"", "{", config[:len(config)-1]} {
		if _, err := ModelFromConfig([]byte(bad)); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "not JSON") {
			t.Error(bad, err)
		}
	}
	read.Name = "own/llama"
	must(t, read.Register())
	found, err := FindModel("OWN/llama")
	if err != nil || found.Name != "own/llama" || found.MaxContext != 131072 {
		t.Errorf("%+v, %v", found, err)
	}
	own.Name = "own/Llama"
	must(t, own.Register())
	if found, err = FindModel("own/llama"); err != nil || found.NumLayers != 4 || len(found.StateLayers) != 2 {
		t.Errorf("%+v, %v", found, err)
	}
	if all, err := Models(); err != nil || all[len(all)-1].Name != "own/Llama" || len(all) != len(models)+1 {
		t.Error(all, err)
	}
	for name, text := range map[string]string{"phi-4": "means the preset phi-4", "": "0 bytes", "a b": "spaces", strings.Repeat("x", 64): "at most 63"} {
		own.Name = name
		if err := own.Register(); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), text) {
			t.Error(name, err)
		}
	}
	if _, err := FindModel("llama-3.1-8c"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "llama-3.1-8b") {
		t.Fatal(err)
	}
	if _, err := (&Model{}).EstimateMemory(MemoryQuery{}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
}

func TestABudgetSizesAManager(t *testing.T) {
	llama, err := FindModel("llama-3.1-8b")
	must(t, err)
	for _, config := range []Config{
		{Model: llama, Memory: MemoryQuery{DType: BFloat16, BudgetBytes: 8 << 30}},
		{Model: llama, Memory: MemoryQuery{DType: BFloat16, MemoryFraction: 0.25, Device: "cpu"}},
	} {
		m, err := New(config)
		must(t, err)
		properties, err := m.Properties()
		must(t, err)
		if config.Memory.BudgetBytes != 0 {
			equal(t, properties.NumBlocks, uint64(4096))
		}
		equal(t, properties.NumBlocks > 0, true)
		must(t, m.Close())
	}
	for text, config := range map[string]Config{
		"the budget is 5 bytes":            {Model: llama, Memory: MemoryQuery{BudgetBytes: 5}},
		"beside num_blocks 8":              {NumBlocks: 8, Model: llama, Memory: MemoryQuery{BudgetBytes: 8 << 30}},
		"Memory is set and Model is nil":   {Memory: MemoryQuery{BudgetBytes: 8 << 30}},
		"set num_blocks, pools, or memory": {},
		"no device \"cpu:7\"":              {Model: llama, Memory: MemoryQuery{MemoryFraction: 0.5, Device: "cpu:7"}},
		"WindowLayers has layer 5000000":   {Model: &Model{WindowLayers: []uint32{5000000}}},
	} {
		_, err := New(config)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Fatal(text, "is not in", err)
		}
	}
}

func TestRopeTurnsPairsByPositionTimesFrequency(t *testing.T) {
	model := &Model{NumLayers: 1, NumKVHeads: 1, HeadDim: 4, MaxContext: 64, RopeTheta: 100}
	frequencies, factor, err := model.RopeFrequencies(0, 0, nil)
	must(t, err)
	equal(t, factor, 1.0)
	near(t, frequencies[1], 0.1, 1e-12)
	table, err := RopeTable(frequencies, factor, []int64{7, 3})
	must(t, err)
	x := []float32{1, 2, 3, 4, 5, 6, 7, 8}
	must(t, ApplyRope(&RopeRows{X: x[:4], NumHeads: 1, HeadDim: 4, Rows: []int64{1}}, table))
	near(t, float64(x[0]), math.Cos(3)-3*math.Sin(3), 1e-5)
	near(t, float64(x[3]), 4*math.Cos(0.3)+2*math.Sin(0.3), 1e-5)
	must(t, ApplyRope(&RopeRows{X: x[4:], NumHeads: 1, HeadDim: 4, Interleaved: true}, table))
	near(t, float64(x[5]), 6*math.Cos(7)+5*math.Sin(7), 1e-5)
	for i, call := range []func() error{
		func() error { return ApplyRope(&RopeRows{X: x[:4], NumHeads: 1, HeadDim: 4, Rows: []int64{2}}, table) },
		func() error { return ApplyRope(&RopeRows{X: x[:5], NumHeads: 1, HeadDim: 4}, table) },
		func() error { return ApplyRope(&RopeRows{X: x, NumHeads: 1, HeadDim: 4, Rows: []int64{0}}, table) },
		func() error { _, _, err := model.RopeFrequencies(1, 0, nil); return err },
		func() error { _, _, err := model.RopeFrequencies(0, 0, []float64{1}); return err },
	} {
		if err := call(); !errors.Is(err, ErrInvalidArgument) {
			t.Error(i, err)
		}
	}
}

func TestWhatIsQuantizedComesBack(t *testing.T) {
	x := randoms(6 * 21)
	for _, format := range []QuantFormat{{DType: Int8}, {DType: Int8, Group: 8, Asymmetric: true}, {DType: Int8, Channels: true},
		{DType: Int4, Group: 8}, {DType: Float8E4M3}} {
		codes, scales, err := Quantize(format, x, 21)
		must(t, err)
		back := make([]float32, len(x))
		must(t, Dequantize(format, codes, scales, 21, back))
		for i := range x {
			near(t, float64(back[i]), float64(x[i]), 0.7)
		}
		again, _, err := Quantize(format, back, 21)
		must(t, err)
		equal(t, string(again), string(codes))
		if err := Dequantize(format, codes[1:], scales, 21, back); !errors.Is(err, ErrInvalidArgument) {
			t.Fatal(err)
		}
	}
	codes, scales, err := Quantize(QuantFormat{DType: Int8, Scale: 0.5}, []float32{1, -2, 300}, 3)
	must(t, err)
	equal(t, len(scales), 0)
	equal(t, string(codes), "\x02\xfc\x7f")
	if _, _, err := Quantize(QuantFormat{DType: Float32}, x, 21); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
}
