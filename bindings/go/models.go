// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
// #include <stdlib.h>
import "C"

import (
	"math"
	"unsafe"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// Model is what the KV cache of a model depends on: kvc_model. Use a preset (FindModel), or fill it in.
type Model struct {
	Name                                                string
	NumLayers, NumQHeads, NumKVHeads, HeadDim, VHeadDim uint32
	LatentDim, RopeDim, VocabSize                       uint32
	MaxContext, WindowTokens                            uint64
	WindowLayers                                        []uint32 // Layers with the window; none, with WindowTokens = all.
	RopeTheta, RopeLocalTheta, RopeFactor               float64
	RopeOriginalContext                                 uint64
	RopeScaling, RopeFlags                              uint32 // KVC_ROPE_*, KVC_MODEL_ROPE_*.
	RopeLowRotations, RopeHighRotations                 float64
	RopeAttentionFactor                                 float64
	WindowKind                                          uint32   // What WindowTokens is: 0 or 1 = a sliding window, 2 = chunks.
	StateLayers                                         []uint32 // Layers with a recurrent state in place of keys and values.
	ConvElements, RecurrentElements                     uint64   // Elements of the state of one of them.
	CrossTokens                                         uint64   // Encoder tokens that NumCrossLayers layers read.
	NumCrossLayers, CrossKVHeads, CrossHeadDim          uint32
}

// layerBits has a bit for each layer.
type layerBits = [C.KVC_MODEL_MAX_LAYERS / 64]C.uint64_t

func setLayers(field string, layers []uint32, bits *layerBits) error {
	for _, layer := range layers {
		if layer >= C.KVC_MODEL_MAX_LAYERS {
			return invalid("%s has layer %d; a model has at most %d layers", field, layer, C.KVC_MODEL_MAX_LAYERS)
		}
		bits[layer/64] |= 1 << (layer % 64)
	}
	return nil
}

func layersOf(bits *layerBits) (layers []uint32) {
	for layer := uint32(0); layer < C.KVC_MODEL_MAX_LAYERS; layer++ {
		if bits[layer/64]>>(layer%64)&1 != 0 {
			layers = append(layers, layer)
		}
	}
	return layers
}

func newModel() *C.kvc_model { return &C.kvc_model{struct_size: C.sizeof_kvc_model} }

func (m *Model) c() (*C.kvc_model, error) {
	c := newModel()
	c.num_layers, c.num_q_heads, c.num_kv_heads = C.uint32_t(m.NumLayers), C.uint32_t(m.NumQHeads), C.uint32_t(m.NumKVHeads)
	c.head_dim, c.v_head_dim, c.latent_dim, c.rope_dim = C.uint32_t(m.HeadDim), C.uint32_t(m.VHeadDim), C.uint32_t(m.LatentDim), C.uint32_t(m.RopeDim)
	c.vocab_size, c.max_context, c.window_tokens = C.uint32_t(m.VocabSize), C.uint64_t(m.MaxContext), C.uint64_t(m.WindowTokens)
	if err := setLayers("WindowLayers", m.WindowLayers, &c.window_layers); err != nil {
		return nil, err
	}
	if err := setLayers("StateLayers", m.StateLayers, &c.state_layers); err != nil {
		return nil, err
	}
	c.conv_elements, c.recurrent_elements, c.cross_tokens = C.uint64_t(m.ConvElements), C.uint64_t(m.RecurrentElements), C.uint64_t(m.CrossTokens)
	c.num_cross_layers, c.cross_kv_heads, c.cross_head_dim = C.uint32_t(m.NumCrossLayers), C.uint32_t(m.CrossKVHeads), C.uint32_t(m.CrossHeadDim)
	c.rope_theta, c.rope_local_theta, c.rope_factor = C.double(m.RopeTheta), C.double(m.RopeLocalTheta), C.double(m.RopeFactor)
	c.rope_original_context, c.rope_scaling, c.rope_flags = C.uint64_t(m.RopeOriginalContext), C.uint32_t(m.RopeScaling), C.uint32_t(m.RopeFlags)
	c.rope_low_rotations, c.rope_high_rotations = C.double(m.RopeLowRotations), C.double(m.RopeHighRotations)
	c.rope_attention_factor, c.window_kind = C.double(m.RopeAttentionFactor), C.uint32_t(m.WindowKind)
	return c, nil
}

func goModel(c *C.kvc_model) *Model {
	m := &Model{Name: C.GoString(&c.name[0]), NumLayers: uint32(c.num_layers), NumQHeads: uint32(c.num_q_heads), NumKVHeads: uint32(c.num_kv_heads),
		HeadDim: uint32(c.head_dim), VHeadDim: uint32(c.v_head_dim), LatentDim: uint32(c.latent_dim), RopeDim: uint32(c.rope_dim),
		VocabSize: uint32(c.vocab_size), MaxContext: uint64(c.max_context), WindowTokens: uint64(c.window_tokens), RopeTheta: float64(c.rope_theta),
		RopeLocalTheta: float64(c.rope_local_theta), RopeFactor: float64(c.rope_factor), RopeOriginalContext: uint64(c.rope_original_context),
		RopeScaling: uint32(c.rope_scaling), RopeFlags: uint32(c.rope_flags), RopeLowRotations: float64(c.rope_low_rotations),
		RopeHighRotations: float64(c.rope_high_rotations), RopeAttentionFactor: float64(c.rope_attention_factor), WindowKind: uint32(c.window_kind),
		ConvElements: uint64(c.conv_elements), RecurrentElements: uint64(c.recurrent_elements), CrossTokens: uint64(c.cross_tokens),
		NumCrossLayers: uint32(c.num_cross_layers), CrossKVHeads: uint32(c.cross_kv_heads), CrossHeadDim: uint32(c.cross_head_dim)}
	m.WindowLayers, m.StateLayers = layersOf(&c.window_layers), layersOf(&c.state_layers)
	return m
}

// FindModel returns the preset with this name, alias or repository, or the registered model of this name. The text of ErrNotFound has the nearest
// names.
func FindModel(name string) (*Model, error) {
	c := newModel()
	if err := native.Kvc_model_find(name, asByte(c)); err != nil {
		return nil, err
	}
	return goModel(c), nil
}

// Register registers a copy of the model under its Name: FindModel and Models know it from now on, in the whole process. It replaces the registered
// model of that name. ErrInvalidArgument for the name of a preset, a name that is not 1 to 63 printable ASCII characters without spaces, and fields
// out of range; ErrLimit if 256 others are registered.
func (m *Model) Register() error {
	c, err := m.c()
	if err != nil {
		return err
	}
	if len(m.Name) >= len(c.name) {
		return invalid("Name has %d bytes; at most %d", len(m.Name), len(c.name)-1)
	}
	for i := 0; i < len(m.Name); i++ {
		c.name[i] = C.char(m.Name[i])
	}
	return native.Kvc_model_register(asByte(c))
}

// ModelFromConfig reads the text of a Hugging Face config.json. ErrInvalidArgument names the field, its value and the fix.
func ModelFromConfig(json []byte) (*Model, error) {
	c := newModel()
	if err := native.Kvc_model_from_config(json, asByte(c)); err != nil {
		return nil, err
	}
	return goModel(c), nil
}

// Models returns all presets, and then the registered models.
func Models() ([]*Model, error) {
	models := make([]*Model, native.Kvc_model_count())
	for i := range models {
		c := newModel()
		if err := native.Kvc_model_get(uint64(i), asByte(c)); err != nil {
			return nil, err
		}
		models[i] = goModel(c)
	}
	return models, nil
}

// NoRetention as MemoryQuery.RetentionTokens or Group.RetentionTokens: hits end only at the ends of prompts and requests.
const NoRetention uint64 = C.KVC_NO_RETENTION

// MemoryQuery is the question of EstimateMemory, and the memory of a manager: kvc_memory_query. Zero is the default of every field.
type MemoryQuery struct {
	Tokens, NumSequences, BudgetBytes, ChunkTokens                              uint64
	DType                                                                       DType // 0 = Float32.
	BlockSize, ScaleGroup, Asymmetric, TensorScales, ChannelKeys, ChannelTokens uint32
	MemoryFraction                                                              float32 // Instead of BudgetBytes: this part of the free memory of Device.
	Device                                                                      string  // "" = "cpu".
	CheckpointTokens                                                            uint64  // Of models with a state: tokens between copies of it; 0 = no copies.
	RetentionTokens                                                             uint64  // Of models with windows or chunks: as in a Group; 0 = BlockSize, NoRetention = none.
	ConvDType, RecurrentDType                                                   DType   // Types of a state; 0 = DType, or BFloat16 if a state has no such type.
}

// c fills a query in C memory. The model and the text of the device are in C memory too; free releases all of them.
func (query *MemoryQuery) c(m *Model) (c *C.kvc_memory_query, free func(), err error) {
	model, err := m.c()
	if err != nil {
		return nil, nil, err
	}
	own := (*C.kvc_model)(C.calloc(1, C.sizeof_kvc_model))
	*own = *model
	c = (*C.kvc_memory_query)(C.calloc(1, C.sizeof_kvc_memory_query))
	*c = C.kvc_memory_query{struct_size: C.sizeof_kvc_memory_query, model: own, tokens: C.uint64_t(query.Tokens), num_sequences: C.uint64_t(query.NumSequences),
		budget_bytes: C.uint64_t(query.BudgetBytes), chunk_tokens: C.uint64_t(query.ChunkTokens), dtype: C.int32_t(query.DType),
		block_size: C.uint32_t(query.BlockSize), scale_group: C.uint32_t(query.ScaleGroup), asymmetric: C.uint32_t(query.Asymmetric),
		tensor_scales: C.uint32_t(query.TensorScales), channel_keys: C.uint32_t(query.ChannelKeys), channel_tokens: C.uint32_t(query.ChannelTokens),
		memory_fraction: C.float(query.MemoryFraction), checkpoint_tokens: C.uint64_t(query.CheckpointTokens), conv_dtype: C.int32_t(query.ConvDType),
		recurrent_dtype: C.int32_t(query.RecurrentDType), retention_tokens: C.uint64_t(query.RetentionTokens)}
	if query.Device != "" {
		c.device = C.CString(query.Device)
	}
	return c, func() {
		C.free(unsafe.Pointer(c.device))
		C.free(unsafe.Pointer(own))
		C.free(unsafe.Pointer(c))
	}, nil
}

// EstimateMemory computes the memory of sequences and, with a budget, what fits.
func (m *Model) EstimateMemory(query MemoryQuery) (estimate MemoryEstimate, err error) {
	c, free, err := query.c(m)
	if err != nil {
		return
	}
	defer free()
	estimate.size = uint64(unsafe.Sizeof(estimate))
	return estimate, native.Kvc_estimate_memory(asByte(c.model), asByte(c), asByte(&estimate))
}

// RopeFrequencies returns the radians per position of each pair of a layer's rotary embedding, and the attention factor for RopeTable:
// kvc_model_rope. length: tokens of the sequence, for dynamic scaling. factors: from the model's config.json, for LongRoPE; else nil.
func (m *Model) RopeFrequencies(layer uint32, length uint64, factors []float64) (frequencies []float64, attentionFactor float64, err error) {
	dim := m.RopeDim
	if dim == 0 {
		dim = m.HeadDim
	}
	model, err := m.c()
	if err == nil {
		err = check(optional("factors", factors, uint64(dim/2)))
	}
	if err != nil {
		return
	}
	if dim > maxRopeElements {
		return nil, 0, invalid("RopeDim or HeadDim is %d; at most %d", dim, maxRopeElements)
	}
	frequencies, factor := make([]float64, dim/2), []float64{0}
	err = native.Kvc_model_rope(asByte(model), layer, length, asBytes(factors), asBytes(frequencies), asBytes(factor))
	return frequencies, factor[0], err
}

// RopeTable returns the cosines and sines of positions for ApplyRope and StoreRotated: [positions][2][pairs].
func RopeTable(frequencies []float64, attentionFactor float64, positions []int64) ([]float32, error) {
	length := product(2, uint64(len(frequencies)), uint64(len(positions)))
	if length > math.MaxInt/4 {
		return nil, invalid("a table of %d positions and %d frequencies is too large for memory", len(positions), len(frequencies))
	}
	table := make([]float32, length)
	return table, native.Kvc_rope_table(asBytes(frequencies), attentionFactor, positions, asBytes(table))
}

// RopeRows are rows that ApplyRope rotates.
type RopeRows struct {
	X                     []float32 // [tokens][NumHeads][HeadDim].
	NumHeads, HeadDim     uint32
	RopeDim, FirstElement uint32  // Elements that rotate (0 = HeadDim), and the first of them.
	Interleaved           bool    // Elements 2 i and 2 i + 1 form a pair, instead of i and i + RopeDim / 2.
	Rows                  []int64 // [tokens] row of the table for each token; nil = row t for token t.
}

// ApplyRope rotates queries or keys in place. ErrInvalidArgument for a row outside the table; then nothing is changed.
func ApplyRope(rows *RopeRows, table []float32) error {
	tokens, err := checkRopeRows(rows, table)
	if err != nil {
		return err
	}
	c := &C.kvc_rope_rows{struct_size: C.sizeof_kvc_rope_rows, num_heads: C.uint32_t(rows.NumHeads), head_dim: C.uint32_t(rows.HeadDim),
		rope_dim: C.uint32_t(rows.RopeDim), first_element: C.uint32_t(rows.FirstElement)}
	if rows.Interleaved {
		c.flags = C.KVC_ROPE_ROWS_INTERLEAVED
	}
	return native.Kvc_rope_apply(asByte(c), asBytes(rows.X), tokens, asBytes(table), rows.Rows)
}
