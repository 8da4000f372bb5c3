// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import "libkvcache/bindings/go/internal/native"

// Attention is queries and what they attend to: kvc_attention. Request r has queries QOffsets[r] .. QOffsets[r+1]-1, the last tokens of
// its KVLens[r], or from position QStarts[r] on.
type Attention struct {
	Layer, NumQHeads        uint32
	Q, Out                  []float32 // [queries][NumQHeads][HeadDim]; [queries][NumQHeads][VHeadDim].
	LSE                     []float32 // [queries][NumQHeads], or nil.
	QOffsets, KVLens        []uint64  // [requests + 1], [requests].
	QStarts                 []uint64  // [requests], or nil.
	BlockTables             []int32   // [requests][entries].
	Scale, SoftCap          float32   // 0 = 1 / sqrt(HeadDim); 0 = none.
	Window, Sinks           uint64
	NotCausal               bool
	AlibiSlopes             []float32 // [NumQHeads], or nil.
	Mask                    []byte    // Bits, the lowest of a byte first, or nil: see kvc_attention.mask and TreeMask.
	MaskOffsets, MaskStarts []uint64  // [requests]; MaskStarts may be nil.
	BlockMask               []byte    // [requests][NumHeads][bytes], of SelectBlocks, or nil.
	SharedTokens            uint64    // So many first tokens lie in the same blocks for all requests.
	Schedule                []byte    // [AttentionPlan.ScheduleBytes], or nil: where the first of several layers leaves who does what.
	Scheduled               bool      // Schedule is as an earlier layer has left it.
}

type arrayLength struct {
	name           string
	length, wanted int
}

// check compares all lengths with those that the struct says, and returns what they follow from.
func (a *Attention) check(s *Storage, outputs bool) (requests, entries, maskStride int, err error) {
	requests = len(a.KVLens)
	if err = want("QOffsets", len(a.QOffsets), requests+1); err != nil {
		return
	}
	heads := int(a.QOffsets[requests]) * int(a.NumQHeads)
	if requests > 0 {
		entries = len(a.BlockTables) / requests
		maskStride = len(a.BlockMask) / (requests * int(s.info.num_heads))
	}
	lengths := []arrayLength{{"Q", len(a.Q), heads * int(s.info.head_dim)}, {"BlockTables", len(a.BlockTables), requests * entries},
		{"BlockMask", len(a.BlockMask), requests * int(s.info.num_heads) * maskStride}}
	if outputs {
		lengths = append(lengths, arrayLength{"Out", len(a.Out), heads * int(s.info.v_head_dim)})
	}
	if a.LSE != nil {
		lengths = append(lengths, arrayLength{"LSE", len(a.LSE), heads})
	}
	if a.QStarts != nil {
		lengths = append(lengths, arrayLength{"QStarts", len(a.QStarts), requests})
	}
	if a.AlibiSlopes != nil {
		lengths = append(lengths, arrayLength{"AlibiSlopes", len(a.AlibiSlopes), int(a.NumQHeads)})
	}
	if a.Mask != nil {
		lengths = append(lengths, arrayLength{"MaskOffsets", len(a.MaskOffsets), requests})
	}
	if a.MaskStarts != nil {
		lengths = append(lengths, arrayLength{"MaskStarts", len(a.MaskStarts), requests})
	}
	for _, array := range lengths {
		if err = want(array.name, array.length, array.wanted); err != nil {
			return
		}
	}
	for r := 0; r < requests; r++ {
		if blocks := (int(a.KVLens[r]) + int(s.info.block_size) - 1) / int(s.info.block_size); a.BlockMask != nil && maskStride*8 < blocks {
			err = want("a row of BlockMask", maskStride*8, blocks)
			return
		}
		if a.Mask == nil {
			continue
		}
		start := uint64(0)
		if a.MaskStarts != nil {
			start = a.MaskStarts[r]
		}
		if bits := a.MaskOffsets[r] + (a.QOffsets[r+1]-a.QOffsets[r])*(a.KVLens[r]-start); bits > uint64(len(a.Mask))*8 {
			err = want("Mask, in bits,", len(a.Mask)*8, int(bits))
			return
		}
	}
	return
}

func (a *Attention) c(s *Storage, outputs bool) (*C.kvc_attention, error) {
	requests, entries, maskStride, err := a.check(s, outputs)
	if err != nil {
		return nil, err
	}
	c := &C.kvc_attention{struct_size: C.sizeof_kvc_attention, num_requests: C.size_t(requests), table_stride: C.size_t(entries),
		layer: C.uint32_t(a.Layer), num_q_heads: C.uint32_t(a.NumQHeads), scale: C.float(a.Scale), soft_cap: C.float(a.SoftCap),
		window: C.uint64_t(a.Window), sinks: C.uint64_t(a.Sinks), block_mask_stride: C.size_t(maskStride),
		shared_tokens: C.uint64_t(a.SharedTokens)}
	if a.NotCausal {
		c.flags = C.KVC_ATTENTION_NOT_CAUSAL
	}
	if a.Scheduled {
		c.flags |= C.KVC_ATTENTION_SCHEDULED
	}
	return c, nil
}

// Attend computes paged attention, prefill and decode in any mix.
func (s *Storage) Attend(a *Attention) error {
	c, err := a.c(s, true)
	if err != nil {
		return err
	}
	return s.call(func(handle uintptr) error {
		return native.Kvc_storage_attend(handle, asByte(c), asBytes(a.Q), asBytes(a.Out), asBytes(a.LSE), a.QOffsets, a.QStarts, a.KVLens,
			a.BlockTables, asBytes(a.AlibiSlopes), a.Mask, a.MaskOffsets, a.MaskStarts, a.BlockMask, a.Schedule, 0)
	})
}

// AttentionPlan is how Attend would compute something: kvc_attention_plan.
type AttentionPlan struct {
	Kernels, Keys, Values              string
	NumWorkers                         uint32
	Sparse                             bool
	NumPieces, NumSplits, ScratchBytes uint64
	SharedTokens, ScheduleBytes        uint64
}

// Explain says how Attend would compute this, and computes nothing. Out may be nil.
func (s *Storage) Explain(a *Attention) (plan AttentionPlan, err error) {
	c, err := a.c(s, false)
	if err != nil {
		return
	}
	answer := C.kvc_attention_plan{struct_size: C.sizeof_kvc_attention_plan}
	err = s.call(func(handle uintptr) error {
		return native.Kvc_storage_explain(handle, asByte(c), asBytes(a.Q), nil, nil, a.QOffsets, a.QStarts, a.KVLens, a.BlockTables,
			asBytes(a.AlibiSlopes), a.Mask, a.MaskOffsets, a.MaskStarts, a.BlockMask, a.Schedule, asByte(&answer))
	})
	return AttentionPlan{C.GoString(&answer.kernels[0]), C.GoString(&answer.keys[0]), C.GoString(&answer.values[0]), uint32(answer.num_workers),
		answer.sparse != 0, uint64(answer.num_pieces), uint64(answer.num_splits), uint64(answer.scratch_bytes),
		uint64(answer.shared_tokens), uint64(answer.schedule_bytes)}, err
}

// KeyBounds writes the largest and smallest of each element over the keys of full blocks: float16 bits [NumBlocks][NumHeads][2][HeadDim],
// of which the entries of `blocks` are written.
func (s *Storage) KeyBounds(layer uint32, blocks []int32, bounds []uint16) error {
	if err := want("bounds", len(bounds), s.boundsLength()); err != nil {
		return err
	}
	return s.call(func(c uintptr) error { return native.Kvc_storage_key_bounds(c, layer, blocks, asBytes(bounds), 0) })
}

func (s *Storage) boundsLength() int {
	return int(s.info.num_blocks) * int(s.info.num_heads) * 2 * int(s.info.head_dim)
}

// BlockChoice is how SelectBlocks picks: the TopK blocks with the highest bounds, with the first SinkBlocks and the last RecentBlocks (0 = 1).
type BlockChoice struct {
	Bounds                         []uint16 // Of KeyBounds.
	TopK, SinkBlocks, RecentBlocks uint64
}

// SelectBlocks picks the blocks that each KV head of each request reads: a BlockMask. Out, LSE, Mask and BlockMask are not used.
func (s *Storage) SelectBlocks(a *Attention, choice BlockChoice) ([]byte, error) {
	own := *a
	own.Mask, own.BlockMask, own.LSE = nil, nil, nil
	c, err := own.c(s, false)
	if err != nil {
		return nil, err
	}
	if err := want("Bounds", len(choice.Bounds), s.boundsLength()); err != nil {
		return nil, err
	}
	stride := (int(c.table_stride) + 7) / 8
	picked := make([]byte, len(a.KVLens)*int(s.info.num_heads)*stride)
	struct_ := C.kvc_block_choice{struct_size: C.sizeof_kvc_block_choice, top_k: C.uint64_t(choice.TopK), sink_blocks: C.uint64_t(choice.SinkBlocks),
		recent_blocks: C.uint64_t(choice.RecentBlocks), block_mask_stride: C.size_t(stride)}
	return picked, s.call(func(handle uintptr) error {
		return native.Kvc_storage_select_blocks(handle, asByte(c), asBytes(a.Q), nil, nil, a.QOffsets, a.QStarts, a.KVLens, a.BlockTables,
			asBytes(a.AlibiSlopes), nil, nil, nil, nil, nil, asByte(&struct_), asBytes(choice.Bounds), picked, 0)
	})
}

// MergeAttention merges attention over disjoint sets of keys: outs [partials][rows][vDim] and lses [partials][rows] of the same queries
// become out [rows][vDim] and lse [rows] (or nil) over all keys.
func MergeAttention(outs, lses []float32, partials, vDim int, out, lse []float32) error {
	rows := 0
	if vDim > 0 {
		rows = len(out) / vDim
	}
	for _, array := range []arrayLength{{"out", len(out), rows * vDim}, {"outs", len(outs), partials * rows * vDim}, {"lses", len(lses), partials * rows}} {
		if err := want(array.name, array.length, array.wanted); err != nil {
			return err
		}
	}
	if lse != nil {
		if err := want("lse", len(lse), rows); err != nil {
			return err
		}
	}
	return native.Kvc_attention_merge(asBytes(outs), asBytes(lses), uint64(partials), uint64(rows), uint32(vDim), C.KVC_FLOAT32, asBytes(out), asBytes(lse))
}

// TreeMask is the Mask of a tree of draft tokens, with MaskStarts at its first position, and the depth of each node: each parent below its
// node, -1 = hangs on the last token before the tree.
func TreeMask(parents []int32) (mask []byte, depths []int32, err error) {
	mask, depths = make([]byte, (len(parents)*len(parents)+7)/8), make([]int32, len(parents))
	return mask, depths, native.Kvc_tree_mask(parents, mask, 0, depths)
}

// DeviceInfo is what a device is: kvc_device_info.
type DeviceInfo struct {
	Name, Architecture                string // "" = not known.
	MemoryBytes, FreeBytes            uint64 // 0 = not known.
	MemoryKinds, NumProcessors, Flags uint32
}

// Device describes a device, such as "cpu". ErrNotFound, whose text says which there are.
func Device(name string) (DeviceInfo, error) {
	info := &C.kvc_device_info{struct_size: C.sizeof_kvc_device_info}
	err := native.Kvc_device_properties(name, asByte(info))
	if err != nil {
		return DeviceInfo{}, err
	}
	return DeviceInfo{C.GoString(info.name), C.GoString(info.architecture), uint64(info.memory_bytes), uint64(info.free_bytes),
		uint32(info.memory_kinds), uint32(info.num_processors), uint32(info.flags)}, nil
}
