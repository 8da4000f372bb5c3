// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "attention/attention.h"
#include "attention/isa.h"
#include "attention/plan.h"

namespace kvc {
namespace {

const char* name_of(Source source) {
  switch (source) {
    case Source::kRows:
      return "rows";
    case Source::kTiles:
      return "tiles";
    case Source::kKeys:
      return "keys";
    case Source::kConverted:
      break;
  }
  return "converted";
}

}  // namespace

kvc_attention_info explain_attention(const AttentionArgs& args, size_t num_workers) {
  const Shape shape = find_shape(*args.layout, args.num_q_heads);
  kvc_attention_info plan = {};
  std::snprintf(plan.kernels, sizeof plan.kernels, "%s", chosen_kernels().name);
  std::snprintf(plan.keys, sizeof plan.keys, "%s", name_of(shape.k_source));
  std::snprintf(plan.values, sizeof plan.values, "%s", name_of(shape.v_source));
  plan.num_workers = static_cast<uint32_t>(num_workers);
  plan.sparse = args.block_mask != nullptr;
  PieceWalk walk(args, shape, find_split(args, shape, num_workers));
  for (Piece piece; walk.next(&piece); ++plan.num_pieces) plan.num_splits += piece.splits;
  plan.scratch_bytes = num_workers * attention_scratch_bytes(*args.layout, args.num_q_heads);
  return plan;
}

}  // namespace kvc
