// SPDX-License-Identifier: Apache-2.0
// The host's side of attention: which kernels, with which workspace, in which order.
#include "kernels/attention.h"
#include "kernels/attention_make_schedule.cuh"
#include "kernels/attention_merge.cuh"
#include "kernels/attention_mma.h"
#include "kernels/attention_plain.cuh"
#include "kernels/carver.h"

namespace kvc::gpu {
namespace {

constexpr uint32_t kPlainRows = 8;

uint64_t ceil_of(uint64_t n, uint64_t d) { return (n + d - 1) / d; }
uint64_t at_most_of(uint64_t a, uint64_t b) { return a < b ? a : b; }

// Of all that the host knows of what a schedule holds and where.
uint64_t key_of(const AttentionArgs& args, const Schedule& schedule) {
  const uint64_t words[] = {
      args.num_requests,  args.num_heads,      args.num_q_heads,         args.causal,
      args.window,        args.sinks,          args.q_starts != nullptr, args.kv_starts != nullptr,
      schedule.tile_rows, schedule.invariant,  schedule.num_blocks,      schedule.min_rows,
      schedule.max_rows,  schedule.max_pieces, schedule.max_slots};
  uint64_t key = 0x9E3779B97F4A7C15;
  for (const uint64_t word : words) {
    key = (key ^ word) * 0xD6E8FEB86659FD93;
    key ^= key >> 32;
  }
  return key;
}

// The arrays of a schedule, where the memory begins that `shared` and `workspace` carve up, if it is there.
void take_arrays(const AttentionArgs& args, Schedule* schedule, Carver* shared, Carver* workspace) {
  shared->take(&schedule->totals.words, 3);
  shared->take(&schedule->first_piece, uint64_t{args.num_requests} + 1);
  shared->take(&schedule->first_unit, schedule->max_pieces + 1);
  shared->take(&schedule->request_of, schedule->max_pieces);
  workspace->take(&schedule->part_out, schedule->max_slots * schedule->tile_rows * args.v_dim);
  workspace->take(&schedule->part_lse, schedule->max_slots * schedule->tile_rows);
}

template <uint32_t kRows>
int launch_plain(const AttentionArgs& args, const Schedule& schedule, Stream stream) {
  return launch(attend_plain<kRows>, {schedule.num_blocks}, kPlainThreads,
                PlainShared<kRows>::bytes(args.k_dim, args.v_dim), stream, args, schedule);
}

AttentionPlane describe_plane(const Plane& plane, const char* slab, uint32_t layer) {
  AttentionPlane out = {};
  if (!plane.exists()) return out;
  out.data = slab + plane.base + layer * plane.layer;
  out.block = plane.block;
  out.head = plane.head;
  out.token = plane.token;
  out.dtype = plane.dtype;
  out.element_tile = plane.element_tile;
  return out;
}

bool is_aligned(const AttentionPlane& plane) {
  return (reinterpret_cast<uintptr_t>(plane.data) | plane.block | plane.head | plane.token) % 16 == 0;
}

// Shared memory of a block, with what for_each_part() has.
uint64_t needed(const MmaKernel& kernel) { return kernel.shared_bytes + sizeof(PartWalk); }

// Why tensor cores cannot be used, or nullptr.
const char* why_not_mma(const AttentionArgs& args, const AttentionLimits& limits) {
  if (limits.has_mma == 0) return "the device has no mma.m16n8k16";
  if (args.q_dtype != KVC_BFLOAT16 && args.q_dtype != KVC_FLOAT16) return "queries of 32 bits";
  if (args.k.dtype == KVC_BFLOAT16 && args.q_dtype != KVC_BFLOAT16) return "float16 queries, bfloat16 keys";
  if (args.k.element_tile != 0 || args.v.element_tile != 0) return "tiled keys";
  if (args.hadamard != 0) return "rotated rows";
  if (reinterpret_cast<uintptr_t>(args.out) % 4 != 0) return "results that are not aligned to 4";
  if (args.out_dtype != KVC_FLOAT32 && (args.out_token_stride | args.out_head_stride) % 2 != 0)
    return "results of 16 bits with odd strides";  // elements are written two at a time
  if (!is_aligned(args.k) || !is_aligned(args.v)) return "rows that are not aligned to 16";
  const char* const no_kernel = "no kernel for this stored type and these head dims";
  const char* const too_large = "too little shared memory";
  if (args.latent != 0) {
    const MmaKernel kernel = latent_kernel(args.k.dtype, args.k_dim, args.v_dim);
    if (kernel.launch == nullptr) return no_kernel;
    return needed(kernel) > limits.shared_bytes ? too_large : nullptr;
  }
  const MmaKernel decode = mma_kernel(args.k.dtype, args.k_dim, true);
  const MmaKernel prefill = mma_kernel(args.k.dtype, args.k_dim, false);
  if (decode.launch == nullptr || args.v_dim != args.k_dim) return no_kernel;
  if (args.scale_group != 0 && args.scale_group < args.k_dim) return "several scales per row";
  if (args.k.block != args.v.block || args.k.head != args.v.head || args.k.token != args.v.token)
    return "keys and values with different strides";
  if (needed(decode) > limits.shared_bytes || needed(prefill) > limits.shared_bytes) return too_large;
  return nullptr;
}

AttentionSupport find_support(const AttentionArgs& args, const AttentionLimits& limits) {
  if (args.channel_tokens != 0) return {AttentionPath::kUnsupported, "keys with a scale per channel"};
  if (args.kv_starts != nullptr && args.window != 0 && args.sinks != 0)
    return {AttentionPath::kUnsupported, "sinks in a part of a context"};
  if (PlainShared<1>::bytes(args.k_dim, args.v_dim) + sizeof(PartWalk) > limits.shared_bytes)
    return {AttentionPath::kUnsupported, "rows larger than the shared memory of the device"};
  const char* reason = why_not_mma(args, limits);
  return {reason == nullptr ? AttentionPath::kMma : AttentionPath::kPlain, reason};
}

Schedule make_class(const AttentionArgs& args, const AttentionLimits& limits, uint32_t tile_rows,
                    uint64_t min_rows, uint64_t max_rows, uint32_t blocks) {
  const uint64_t group = args.num_q_heads / args.num_heads;
  Schedule schedule = {};
  schedule.tile_rows = tile_rows;
  schedule.bounds = limits;
  schedule.is_first = min_rows == 1;
  schedule.min_rows = min_rows;
  schedule.max_rows = max_rows;
  schedule.invariant = limits.invariant;
  schedule.num_blocks = limits.num_multiprocessors * blocks;
  schedule.max_pieces = max_rows <= tile_rows ? args.num_requests
                                              : limits.total_queries * group / tile_rows + args.num_requests;
  schedule.max_slots = 2 * uint64_t{schedule.num_blocks};
  if (limits.invariant != 0) {
    // Sinks may add a tile to those of the length. Requests of many rows have no parts.
    const uint64_t tiles = ceil_of(limits.max_kv_len, kAttentionTile) + 1;
    const uint64_t pieces = args.num_requests * ceil_of(kDecodeRows, tile_rows);
    schedule.max_slots =
        min_rows > kDecodeRows ? 0 : pieces * args.num_heads * ceil_of(tiles, kInvariantTiles);
    if (schedule.max_slots != 0) {
      // Slots are numbered by units, those of requests without parts included.
      schedule.max_slots += schedule.max_pieces * args.num_heads;
    }
  }
  schedule.totals.key = key_of(args, schedule);
  return schedule;
}

}  // namespace

MmaKernel mma_kernel(int32_t dtype, uint32_t dim, bool decode) {
  switch (dtype) {
    case KVC_BFLOAT16:
      return mma_kernel_bf16(dim, decode);
    case KVC_FLOAT16:
      return mma_kernel_fp16(dim, decode);
    case KVC_FLOAT8_E4M3:
      return mma_kernel_e4m3(dim, decode);
    case KVC_FLOAT8_E5M2:
      return mma_kernel_e5m2(dim, decode);
    case KVC_INT8:
      return mma_kernel_int8(dim, decode);
    case KVC_INT4:
      return mma_kernel_int4(dim, decode);
    default:
      return {};
  }
}

void describe_storage(const Layout& layout, const char* slab, uint32_t layer, AttentionArgs* args) {
  args->k = describe_plane(layout.k, slab, layer);
  args->v = describe_plane(layout.v, slab, layer);
  args->k_scale = describe_plane(layout.k_scale, slab, layer);
  args->v_scale = describe_plane(layout.v_scale, slab, layer);
  args->num_heads = layout.num_heads;
  args->block_size = small_divisor(layout.block_size);
  args->k_dim = layout.k_dim;
  args->v_dim = layout.v_dim;
  args->latent = layout.latent ? 1 : 0;
  args->scale_group = layout.k_scale.exists() ? layout.scale_group : 0;
  args->asymmetric = layout.asymmetric ? 1 : 0;
  args->hadamard = layout.hadamard ? 1 : 0;
  args->channel_tokens = layout.channel_tokens;
  args->k_factor = layout.k_factor;
  args->v_factor = layout.v_factor;
}

AttentionPlan plan_attention(const AttentionArgs& args, const AttentionLimits& limits) {
  AttentionPlan plan = {};
  plan.support = find_support(args, limits);
  plan.limits = limits;
  if (plan.support.path == AttentionPath::kUnsupported) return plan;
  const uint64_t group = args.num_q_heads / args.num_heads;
  Schedule* schedules = plan.schedules.of_class;
  plan.num_classes = 1;
  if (plan.support.path == AttentionPath::kPlain) {
    const bool many =
        PlainShared<kPlainRows>::bytes(args.k_dim, args.v_dim) + sizeof(PartWalk) <= limits.shared_bytes;
    plan.plain_rows = many ? kPlainRows : 1;
    schedules[0] = make_class(args, limits, plan.plain_rows, 1, ~uint64_t{0}, 2);
  } else if (args.latent != 0) {
    const MmaKernel kernel = plan.kernels[0] = latent_kernel(args.k.dtype, args.k_dim, args.v_dim);
    schedules[0] = make_class(args, limits, kernel.rows, 1, ~uint64_t{0}, kernel.blocks);
  } else {
    const MmaKernel decode = plan.kernels[0] = mma_kernel(args.k.dtype, args.k_dim, true);
    schedules[0] = make_class(args, limits, decode.rows, 1, kDecodeRows, decode.blocks);
    if (limits.max_queries * group > kDecodeRows) {
      const MmaKernel prefill = plan.kernels[1] = mma_kernel(args.k.dtype, args.k_dim, false);
      schedules[1] = make_class(args, limits, prefill.rows, kDecodeRows + 1, ~uint64_t{0}, prefill.blocks);
      plan.num_classes = 2;
    }
  }
  Carver shared(nullptr), workspace(nullptr);
  for (uint32_t i = 0; i < plan.num_classes; ++i) take_arrays(args, &schedules[i], &shared, &workspace);
  plan.plan_bytes = shared.used();
  plan.workspace_bytes = workspace.used();
  return plan;
}

int launch_attention(const AttentionPlan& plan, const AttentionArgs& args, const AttentionMemory& memory,
                     Stream stream) {
  if (args.num_requests == 0) return 0;
  Schedules schedules = plan.schedules;
  Carver shared(memory.schedule), workspace(memory.workspace);
  for (uint32_t i = 0; i < plan.num_classes; ++i)
    take_arrays(args, &schedules.of_class[i], &shared, &workspace);
  if (memory.scheduled == 0) {
    const int error = launch(make_schedule, {plan.num_classes}, kScheduleThreads, 0, stream, args, schedules);
    if (error != 0) return error;
  }
  uint64_t pieces = 1;
  for (uint32_t i = 0; i < plan.num_classes; ++i) {
    const Schedule& schedule = schedules.of_class[i];
    pieces = schedule.max_pieces > pieces ? schedule.max_pieces : pieces;
    const int error = plan.support.path == AttentionPath::kMma
                          ? plan.kernels[i].launch(args, schedule, stream)
                      : plan.plain_rows == 1 ? launch_plain<1>(args, schedule, stream)
                                             : launch_plain<kPlainRows>(args, schedule, stream);
    if (error != 0) return error;
  }
  const uint64_t most = 8 * uint64_t{plan.limits.num_multiprocessors};
  const uint64_t blocks = at_most_of(pieces * args.num_heads, most);
  // A few results of many parts keep more of the device busy by the row.
  const uint64_t shares = at_most_of(ceil_of(kDecodeRows * args.v_dim, kMergeThreads), most / blocks);
  return launch(merge_parts, {static_cast<uint32_t>(blocks), plan.num_classes, static_cast<uint32_t>(shares)},
                kMergeThreads, 0, stream, args, schedules);
}

int launch_merge(const MergeArgs& args, Stream stream) {
  if (args.num_rows == 0) return 0;
  constexpr uint64_t kMostBlocks = 4096;
  return launch(merge_rows, {static_cast<uint32_t>(at_most_of(args.num_rows, kMostBlocks))}, kMergeThreads, 0,
                stream, args);
}

}  // namespace kvc::gpu
