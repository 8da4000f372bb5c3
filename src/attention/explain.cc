// SPDX-License-Identifier: Apache-2.0
// What a call of attention would do: its plan and its kernels, by name.
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

kvc_backend_attention_info explain_attention(const AttentionArgs& args, size_t num_workers) {
  const AttentionShape shape = find_shape(*args.layout, args.num_q_heads);
  kvc_backend_attention_info info = {};
  info.kernels = chosen_kernels().name;
  info.keys = name_of(shape.k_source);
  info.values = name_of(shape.v_source);
  info.num_workers = static_cast<uint32_t>(num_workers);
  info.sparse = args.block_mask != nullptr;
  PieceWalk walk(args, shape, find_split(args, shape, num_workers));
  for (Piece piece; walk.next(&piece); ++info.num_pieces) info.num_splits += piece.splits;
  info.scratch_bytes = num_workers * attention_scratch_bytes(*args.layout, args.num_q_heads);
  return info;
}

}  // namespace kvc
