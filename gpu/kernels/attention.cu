// SPDX-License-Identifier: Apache-2.0
// The host's part of attention: which kernels run, with which memory, in which order.
#include <algorithm>

#include "base/carver.h"
#include "base/checked.h"
#include "kernels/attention.h"
#include "kernels/attention_make_plan.cuh"
#include "kernels/attention_merge.cuh"
#include "kernels/attention_mma.h"
#include "kernels/attention_plain.cuh"

namespace kvc::gpu {
namespace {

constexpr uint32_t kPlainRows = 8;

// A hash of all that the host knows about a plan and its arrays.
uint64_t key_of(const AttentionArgs& args, const Plan& plan) {
  const uint64_t words[] = {args.num_requests,
                            args.num_heads,
                            args.num_q_heads,
                            args.causal,
                            args.window,
                            args.sinks,
                            args.q_starts != nullptr,
                            args.kv_starts != nullptr,
                            plan.tile_rows,
                            plan.invariant,
                            plan.num_blocks,
                            plan.min_rows,
                            plan.max_rows,
                            plan.max_pieces,
                            plan.max_parts};
  uint64_t key = 0x9E3779B97F4A7C15;
  for (const uint64_t word : words) {
    key = (key ^ word) * 0xD6E8FEB86659FD93;
    key ^= key >> 32;
  }
  return key;
}

// Takes the arrays of a plan from the memory of `shared` and `workspace`, if there is any.
void take_arrays(const AttentionArgs& args, Plan* plan, Carver<16>* shared, Carver<16>* workspace) {
  shared->take(&plan->totals.words, 3);
  shared->take(&plan->first_piece, uint64_t{args.num_requests} + 1);
  shared->take(&plan->first_unit, plan->max_pieces + 1);
  shared->take(&plan->request_of, plan->max_pieces);
  workspace->take(&plan->part_out, plan->max_parts * plan->tile_rows * args.v_dim);
  workspace->take(&plan->part_lse, plan->max_parts * plan->tile_rows);
}

template <uint32_t kRows>
int launch_plain(const AttentionArgs& args, const Plan& plan, Stream stream) {
  return launch(attend_plain<kRows>, {plan.num_blocks}, kPlainThreads,
                PlainShared<kRows>::bytes(args.k_dim, args.v_dim), stream, args, plan);
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

// Shared memory of a block, with that of for_each_part().
uint64_t needed(const MmaKernel& kernel) { return kernel.shared_bytes + sizeof(PartWalk); }

// Why tensor cores cannot be used, or nullptr.
const char* why_not_mma(const AttentionArgs& args, const AttentionLimits& limits) {
  if (limits.has_mma == 0) return "the device has no mma.m16n8k16";
  if (args.q_dtype != KVC_BFLOAT16 && args.q_dtype != KVC_FLOAT16) return "queries of 32 bits";
  if (args.k.dtype == KVC_BFLOAT16 && args.q_dtype != KVC_BFLOAT16) return "float16 queries, bfloat16 keys";
  if (args.k.element_tile != 0 || args.v.element_tile != 0) return "tiled keys";
  if (args.hadamard != 0) return "rows with the Hadamard transform";
  if (reinterpret_cast<uintptr_t>(args.out) % 4 != 0) return "results that are not aligned to 4";
  if (args.out_dtype != KVC_FLOAT32 && (args.out_token_stride | args.out_head_stride) % 2 != 0)
    return "results of 16 bits with odd strides";  // elements are written two at a time
  if (!is_aligned(args.k) || !is_aligned(args.v)) return "rows that are not aligned to 16";
  const char* const no_kernel = "no kernel for this stored type and these head dims";
  const char* const too_large = "too little shared memory";
  const char* const several_scales = "several scales per row";
  if (args.latent != 0) {
    const MmaKernel kernel = latent_kernel(args.k.dtype, args.k_dim, args.v_dim);
    if (kernel.launch == nullptr) return no_kernel;
    if (is_quantized(args.k.dtype)) {
      if (args.q_dtype != KVC_BFLOAT16) return "float16 queries of 8-bit latent rows";
      if (args.asymmetric != 0) return "latent rows with offsets";
      if (args.scale_group != 0 && args.scale_group < args.k_dim) return several_scales;
    }
    return needed(kernel) > limits.shared_bytes ? too_large : nullptr;
  }
  const MmaKernel decode = mma_kernel(args.k.dtype, args.k_dim, true);
  const MmaKernel prefill = mma_kernel(args.k.dtype, args.k_dim, false);
  if (decode.launch == nullptr || args.v_dim != args.k_dim) return no_kernel;
  if (args.scale_group != 0 && args.scale_group < args.k_dim) return several_scales;
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

Plan make_class(const AttentionArgs& args, const AttentionLimits& limits, uint32_t tile_rows,
                uint64_t min_rows, uint64_t max_rows, uint32_t blocks) {
  const uint64_t group = args.num_q_heads / args.num_heads;
  Plan plan = {};
  plan.tile_rows = tile_rows;
  plan.bounds = limits;
  plan.is_first = min_rows == 1;
  plan.min_rows = min_rows;
  plan.max_rows = max_rows;
  plan.invariant = limits.invariant;
  plan.num_blocks = limits.num_multiprocessors * blocks;
  plan.max_pieces = max_rows <= tile_rows ? args.num_requests
                                          : limits.total_queries * group / tile_rows + args.num_requests;
  plan.max_parts = 2 * uint64_t{plan.num_blocks};
  if (limits.invariant != 0) {
    // Sinks may add a tile to those of the length. Requests of many rows have no parts.
    const uint64_t tiles = ceil_div(limits.max_kv_len, kAttentionTile) + 1;
    const uint64_t pieces = args.num_requests * ceil_div(kDecodeRows, tile_rows);
    plan.max_parts = min_rows > kDecodeRows ? 0 : pieces * args.num_heads * ceil_div(tiles, kInvariantTiles);
    if (plan.max_parts != 0) {
      // Parts are numbered by units, those of requests without parts included.
      plan.max_parts += plan.max_pieces * args.num_heads;
    }
  }
  plan.totals.key = key_of(args, plan);
  return plan;
}

}  // namespace

MmaKernel mma_kernel(int32_t dtype, uint32_t dim, bool decode) {
  switch (dtype) {
    case KVC_BFLOAT16:
      return mma_kernel_of<KVC_BFLOAT16>(dim, decode);
    case KVC_FLOAT16:
      return mma_kernel_of<KVC_FLOAT16>(dim, decode);
    case KVC_FLOAT8_E4M3:
      return mma_kernel_of<KVC_FLOAT8_E4M3>(dim, decode);
    case KVC_FLOAT8_E5M2:
      return mma_kernel_of<KVC_FLOAT8_E5M2>(dim, decode);
    case KVC_INT8:
      return mma_kernel_of<KVC_INT8>(dim, decode);
    case KVC_INT4:
      return mma_kernel_of<KVC_INT4>(dim, decode);
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

AttentionConfig configure_attention(const AttentionArgs& args, const AttentionLimits& limits) {
  AttentionConfig config = {};
  config.support = find_support(args, limits);
  config.limits = limits;
  if (config.support.path == AttentionPath::kUnsupported) return config;
  const uint64_t group = args.num_q_heads / args.num_heads;
  Plan* plans = config.plans.of_class;
  config.num_classes = 1;
  if (config.support.path == AttentionPath::kPlain) {
    const bool many =
        PlainShared<kPlainRows>::bytes(args.k_dim, args.v_dim) + sizeof(PartWalk) <= limits.shared_bytes;
    config.plain_rows = many ? kPlainRows : 1;
    plans[0] = make_class(args, limits, config.plain_rows, 1, ~uint64_t{0}, 2);
  } else if (args.latent != 0) {
    const MmaKernel kernel = config.kernels[0] = latent_kernel(args.k.dtype, args.k_dim, args.v_dim);
    plans[0] = make_class(args, limits, kernel.rows, 1, ~uint64_t{0}, kernel.blocks);
  } else {
    const MmaKernel decode = config.kernels[0] = mma_kernel(args.k.dtype, args.k_dim, true);
    plans[0] = make_class(args, limits, decode.rows, 1, kDecodeRows, decode.blocks);
    if (limits.max_queries * group > kDecodeRows) {
      const MmaKernel prefill = config.kernels[1] = mma_kernel(args.k.dtype, args.k_dim, false);
      plans[1] = make_class(args, limits, prefill.rows, kDecodeRows + 1, ~uint64_t{0}, prefill.blocks);
      config.num_classes = 2;
    }
  }
  Carver<16> shared(nullptr), workspace(nullptr);
  for (uint32_t i = 0; i < config.num_classes; ++i) take_arrays(args, &plans[i], &shared, &workspace);
  config.plan_bytes = shared.used();
  config.workspace_bytes = workspace.used();
  return config;
}

int launch_attention(const AttentionConfig& config, const AttentionArgs& args, const AttentionMemory& memory,
                     Stream stream) {
  if (args.num_requests == 0) return 0;
  Plans plans = config.plans;
  Carver<16> shared(memory.plan), workspace(memory.workspace);
  for (uint32_t i = 0; i < config.num_classes; ++i)
    take_arrays(args, &plans.of_class[i], &shared, &workspace);
  if (memory.planned == 0) {
    const int error = launch(make_plan, {config.num_classes}, kPlanThreads, 0, stream, args, plans);
    if (error != 0) return error;
  }
  uint64_t pieces = 1, elements = 1;  // elements: of a piece
  for (uint32_t i = 0; i < config.num_classes; ++i) {
    const Plan& plan = plans.of_class[i];
    pieces = std::max(pieces, plan.max_pieces);
    elements = std::max(elements, uint64_t{plan.tile_rows} * args.v_dim);
    const int error = config.support.path == AttentionPath::kMma
                          ? config.kernels[i].launch(args, plan, stream)
                      : config.plain_rows == 1 ? launch_plain<1>(args, plan, stream)
                                               : launch_plain<kPlainRows>(args, plan, stream);
    if (error != 0) return error;
  }
  const uint64_t most = 8 * uint64_t{config.limits.num_multiprocessors};
  const uint64_t blocks = std::min(pieces * args.num_heads, most);
  // A few results of many parts are split by elements, to keep more of the device busy.
  const uint64_t shares = std::min(ceil_div(elements, kMergeThreads * kMergeElements), most / blocks);
  return launch(merge_parts,
                {static_cast<uint32_t>(blocks), config.num_classes, static_cast<uint32_t>(shares)},
                kMergeThreads, 0, stream, args, plans);
}

int launch_merge(const MergeArgs& args, Stream stream) {
  if (args.num_rows == 0) return 0;
  constexpr uint64_t kMostBlocks = 4096;
  return launch(merge_rows, {static_cast<uint32_t>(std::min(args.num_rows, kMostBlocks))}, kMergeThreads, 0,
                stream, args);
}

}  // namespace kvc::gpu
