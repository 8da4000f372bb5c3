// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import "github.com/libkvcache/libkvcache/bindings/go/internal/native"

// Attention is queries and the keys that they attend to: kvc_attention. Request r has queries QOffsets[r] .. QOffsets[r+1]-1. They are the last
// of its KVLens[r] tokens, or begin at position QStarts[r].
type Attention struct {
	Layer, NumQHeads uint32
	Q, Out           []float32 // [queries][NumQHeads][HeadDim]; [queries][NumQHeads][VHeadDim].

	// Elements from one query of Q to the next, and from one head to the next, if Q is a part of a larger array, such as the output of a fused
	// QKV projection. Q begins with the first row; elements after the last row are not read. 0 = contiguous.
	QTokenStride, QHeadStride int
	// The same for Out, whose rows must not overlap. Gaps between them are not written.
	OutTokenStride, OutHeadStride int

	LSE                     []float32 // [queries][NumQHeads], or nil.
	QOffsets, KVLens        []uint64  // [requests + 1], [requests].
	QStarts                 []uint64  // [requests], or nil.
	BlockTables             []int32   // [requests][entries].
	Scale, SoftCap          float32   // 0 = 1 / sqrt(HeadDim); 0 = none.
	Window, Sinks           uint64
	NotCausal               bool
	AllowBF16               bool      // Float32 and float16 queries may be computed like bfloat16 ones: faster on some CPUs.
	AlibiSlopes             []float32 // [NumQHeads], or nil.
	SinkLogits              []float32 // [NumQHeads] learned logits (gpt-oss), -infinity = none; or nil.
	Mask                    []byte    // Bits, the lowest of a byte first, or nil: see kvc_attention.mask and TreeMask.
	MaskOffsets, MaskStarts []uint64  // [requests]; MaskStarts may be nil.
	BlockMask               []byte    // [requests][NumHeads][bytes], of SelectBlocks, or nil.
	SharedTokens            uint64    // Number of first tokens that lie in the same blocks for all requests.
	Launch                  *Launch   // How a GPU runs it; nil = defaults.
}

// Launch is how a GPU runs attention: kvc_attention_launch. The CPU ignores it.
type Launch struct {
	// [AttentionInfo.PlanBytes], or nil. The first of several layers with the same lengths writes its plan, the partition of the work, into it;
	// the other layers reuse it with Planned.
	Plan      []byte
	Planned   bool
	Workspace []byte // [AttentionInfo.WorkspaceBytes] (SelectBlocks: SelectionBytes) for intermediate results; nil = memory of the library.
}

// c is a launch as C takes it.
func (l *Launch) c() (c *byte, plan, workspace []byte) {
	if l == nil {
		return nil, nil, nil
	}
	launch := &C.kvc_attention_launch{struct_size: C.sizeof_kvc_attention_launch}
	if l.Planned {
		launch.flags = C.KVC_LAUNCH_PLANNED
	}
	return asByte(launch), l.Plan, l.Workspace
}

func (a *Attention) c(s *Storage, outputs bool) (*C.kvc_attention, error) {
	requests, entries, maskStride, err := a.check(s, outputs)
	if err != nil {
		return nil, err
	}
	c := &C.kvc_attention{struct_size: C.sizeof_kvc_attention, num_requests: C.size_t(requests), table_stride: C.size_t(entries),
		layer: C.uint32_t(a.Layer), num_q_heads: C.uint32_t(a.NumQHeads), scale: C.float(a.Scale), soft_cap: C.float(a.SoftCap),
		window: C.uint64_t(a.Window), sinks: C.uint64_t(a.Sinks), block_mask_stride: C.size_t(maskStride),
		shared_tokens: C.uint64_t(a.SharedTokens), q_token_stride: C.int64_t(a.QTokenStride), q_head_stride: C.int64_t(a.QHeadStride),
		out_token_stride: C.int64_t(a.OutTokenStride), out_head_stride: C.int64_t(a.OutHeadStride)}
	if a.NotCausal {
		c.flags |= C.KVC_ATTENTION_NOT_CAUSAL
	}
	if a.AllowBF16 {
		c.flags |= C.KVC_ATTENTION_ALLOW_BF16
	}
	return c, nil
}

// Attend computes paged attention: prefill and decode, any mix of requests.
func (s *Storage) Attend(a *Attention) error {
	c, err := a.c(s, true)
	if err != nil {
		return err
	}
	launch, plan, workspace := a.Launch.c()
	return s.call(func(handle uintptr) error {
		return native.Kvc_storage_attend(handle, asByte(c), asBytes(a.Q), asBytes(a.Out), asBytes(a.LSE), a.QOffsets, a.QStarts, a.KVLens,
			a.BlockTables, asBytes(a.AlibiSlopes), asBytes(a.SinkLogits), a.Mask, a.MaskOffsets, a.MaskStarts, a.BlockMask, launch, plan,
			workspace, 0)
	})
}

// AttentionInfo is how Attend would run a call: kvc_attention_info.
type AttentionInfo struct {
	Kernels, Keys, Values              string
	NumWorkers                         uint32
	Sparse                             bool
	NumPieces, NumSplits, ScratchBytes uint64
	SharedTokens, PlanBytes            uint64
	WorkspaceBytes, SelectionBytes     uint64
}

// Explain describes how Attend would run a call, and runs nothing. Out may be nil.
func (s *Storage) Explain(a *Attention) (info AttentionInfo, err error) {
	c, err := a.c(s, false)
	if err != nil {
		return
	}
	launch, plan, workspace := a.Launch.c()
	answer := C.kvc_attention_info{struct_size: C.sizeof_kvc_attention_info}
	err = s.call(func(handle uintptr) error {
		return native.Kvc_storage_explain(handle, asByte(c), asBytes(a.Q), nil, nil, a.QOffsets, a.QStarts, a.KVLens, a.BlockTables,
			asBytes(a.AlibiSlopes), asBytes(a.SinkLogits), a.Mask, a.MaskOffsets, a.MaskStarts, a.BlockMask, launch, plan, workspace,
			asByte(&answer))
	})
	return AttentionInfo{C.GoString(&answer.kernels[0]), C.GoString(&answer.keys[0]), C.GoString(&answer.values[0]), uint32(answer.num_workers),
		answer.sparse != 0, uint64(answer.num_pieces), uint64(answer.num_splits), uint64(answer.scratch_bytes),
		uint64(answer.shared_tokens), uint64(answer.plan_bytes), uint64(answer.workspace_bytes), uint64(answer.selection_bytes)}, err
}

// KeyBounds computes the largest and smallest value of each element over the keys of full blocks: float16 bits
// [NumBlocks][NumHeads][2][HeadDim], of which only the entries of `blocks` are written.
func (s *Storage) KeyBounds(layer uint32, blocks []int32, bounds []uint16) error {
	if err := s.checkBounds(bounds); err != nil {
		return err
	}
	return s.call(func(c uintptr) error { return native.Kvc_storage_key_bounds(c, layer, blocks, asBytes(bounds), 0) })
}

// BlockChoice is how SelectBlocks picks. Exactly one of TopK, Ratio and Threshold is not 0.
type BlockChoice struct {
	Bounds       []uint16 // From KeyBounds.
	TopK         uint64   // So many blocks with the highest bounds.
	SinkBlocks   uint64   // Always the first blocks.
	RecentBlocks uint64   // Always the last blocks; 0 = 1.
	Ratio        float64  // This part of the blocks that a query can see, above 0, at most 1; rounded up.
	Threshold    float64  // All blocks whose bound is at most this below the largest one of some query, in logits. Infinity = all.
}

// SelectBlocks picks the blocks that each KV head of each request reads. It returns a BlockMask. Out, LSE, Mask, BlockMask and SinkLogits are
// not used. Launch.Workspace needs AttentionInfo.SelectionBytes.
func (s *Storage) SelectBlocks(a *Attention, choice BlockChoice) ([]byte, error) {
	own := *a
	own.Mask, own.BlockMask, own.LSE, own.SinkLogits = nil, nil, nil, nil
	c, err := own.c(s, false)
	if err != nil {
		return nil, err
	}
	if err := s.checkBounds(choice.Bounds); err != nil {
		return nil, err
	}
	stride := (int(c.table_stride) + 7) / 8
	picked := make([]byte, len(a.KVLens)*int(s.info.num_heads)*stride)
	struct_ := C.kvc_block_choice{struct_size: C.sizeof_kvc_block_choice, top_k: C.uint64_t(choice.TopK), sink_blocks: C.uint64_t(choice.SinkBlocks),
		recent_blocks: C.uint64_t(choice.RecentBlocks), block_mask_stride: C.size_t(stride), ratio: C.double(choice.Ratio),
		threshold: C.double(choice.Threshold)}
	launch, plan, workspace := a.Launch.c()
	return picked, s.call(func(handle uintptr) error {
		return native.Kvc_storage_select_blocks(handle, asByte(c), asBytes(a.Q), nil, nil, a.QOffsets, a.QStarts, a.KVLens, a.BlockTables,
			asBytes(a.AlibiSlopes), nil, nil, nil, nil, nil, launch, plan, workspace, asByte(&struct_), asBytes(choice.Bounds), picked, 0)
	})
}

// MergeAttention merges partial results of the same queries over disjoint sets of keys, outs [partials][rows][vDim] and lses
// [partials][rows], into out [rows][vDim] and lse [rows] (or nil) over all keys.
func MergeAttention(outs, lses []float32, partials, vDim int, out, lse []float32) error {
	rows, err := checkMerge(outs, lses, partials, vDim, out, lse)
	if err != nil {
		return err
	}
	return native.Kvc_attention_merge(asBytes(outs), asBytes(lses), uint64(partials), rows, uint32(vDim), C.KVC_FLOAT32, asBytes(out), asBytes(lse))
}

// TreeMask returns the Mask of a tree of draft tokens, with MaskStarts at its first position, and the depth of each node. Each parent is less
// than its node; -1 = the last token before the tree.
func TreeMask(parents []int32) (mask []byte, depths []int32, err error) {
	if err = checkTree(parents); err != nil {
		return
	}
	mask, depths = make([]byte, (len(parents)*len(parents)+7)/8), make([]int32, len(parents))
	return mask, depths, native.Kvc_tree_mask(parents, mask, 0, depths)
}

// DeviceInfo has the properties of a device: kvc_device_info.
type DeviceInfo struct {
	Name, Architecture                string // "" = unknown.
	MemoryBytes, FreeBytes            uint64 // 0 = unknown.
	MemoryKinds, NumProcessors, Flags uint32
}

// Device returns the properties of a device, such as "cpu". The text of ErrNotFound lists the devices.
func Device(name string) (DeviceInfo, error) {
	info := &C.kvc_device_info{struct_size: C.sizeof_kvc_device_info}
	err := native.Kvc_device_read_info(name, asByte(info))
	if err != nil {
		return DeviceInfo{}, err
	}
	return DeviceInfo{C.GoString(info.name), C.GoString(info.architecture), uint64(info.memory_bytes), uint64(info.free_bytes),
		uint32(info.memory_kinds), uint32(info.num_processors), uint32(info.flags)}, nil
}
