// SPDX-License-Identifier: Apache-2.0
// What the attention problem of a test is like, in words for failures.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attention/attention.h"
#include "seed.h"

namespace kvc::test {

// Where the rows of queries or results lie.
enum class Rows {
  kContiguous,
  kFused,        // those of a token side by side; then room for its keys and values
  kPadded,       // gaps of an odd number of elements between all rows
  kHeadMajor,    // a head's rows of all tokens, then those of the next head; gaps
  kOverlapping,  // queries alone
};

struct Options {
  int32_t dtype = KVC_FLOAT32;  // stored
  int32_t q_dtype = KVC_FLOAT32;
  bool tiled = false, tiled_values = false;
  bool token_major = false;  // heads of a token side by side, and gaps between rows
  bool latent = false;
  uint32_t scale_group = 0;  // quantized: 0 = the whole row
  float factor = 0;          // quantized: the scale of all rows, which then have none of their own
  bool asymmetric = false;
  bool hadamard = false;  // quantized: rows are stored rotated
  uint32_t k_dim = 64, v_dim = 64, heads = 2, group = 2, block_size = 16;
  std::vector<uint64_t> kv_lens{33}, q_lens{1};
  std::vector<uint64_t> q_starts{};  // empty = not given
  bool causal = true;
  bool allow_bf16 = false;
  uint64_t window = 0, sinks = 0;
  float soft_cap = 0;
  bool alibi = false;
  bool shared = false;    // later requests read the blocks of the first one where they have that many
  int mask_percent = 0;   // of bits set; 0 = no bit mask
  bool tree = false;      // bit mask: the last q_len positions are a random tree
  bool tail = false;      // bit mask: of the last q_len positions alone
  int block_percent = 0;  // of blocks that a KV head reads; 0 = no block mask
  float q_scale = 1;
  bool sink_logits = false;  // of some heads none
  Rows q_rows = Rows::kContiguous, out_rows = Rows::kContiguous;
};

// Rows as MLA stores them: one head of 576 elements, the first 512 of which are the values.
inline Options latent_options(int32_t dtype, std::vector<uint64_t> kv_lens = {33},
                              std::vector<uint64_t> q_lens = {1}) {
  return {.dtype = dtype,
          .q_dtype = KVC_BFLOAT16,
          .latent = true,
          .k_dim = 576,
          .v_dim = 512,
          .heads = 1,
          .kv_lens = std::move(kv_lens),
          .q_lens = std::move(q_lens)};
}

inline std::string describe(const Options& o) {
  std::string text = std::string(dtype_name(o.dtype)) + (o.tiled ? " tiled" : "") +
                     (o.tiled_values ? " tiled-v" : "") + (o.token_major ? " token-major" : "") +
                     (o.latent ? " latent" : "") + (o.asymmetric ? " asymmetric" : "") +
                     (o.hadamard ? " rotated" : "") +
                     (o.factor != 0 ? " factor " + std::to_string(o.factor) : "") +
                     (o.scale_group != 0 ? " scale group " + std::to_string(o.scale_group) : "") + ", q " +
                     dtype_name(o.q_dtype) + ", dims " + std::to_string(o.k_dim) + "/" +
                     std::to_string(o.v_dim) + ", heads " + std::to_string(o.heads) + " x " +
                     std::to_string(o.group) + ", blocks of " + std::to_string(o.block_size) + ", lengths";
  for (size_t r = 0; r < o.kv_lens.size(); ++r) {
    text += " " + std::to_string(o.q_lens[r]) + "/" + std::to_string(o.kv_lens[r]);
  }
  if (o.causal) text += ", causal";
  if (o.allow_bf16) text += ", may round";
  if (o.window != 0) text += ", window " + std::to_string(o.window) + "+" + std::to_string(o.sinks);
  if (o.soft_cap != 0) text += ", soft cap";
  if (o.alibi) text += ", alibi";
  if (o.tree) text += ", tree";
  if (o.mask_percent != 0) text += ", mask " + std::to_string(o.mask_percent) + " %";
  if (o.tail) text += " of the tail";
  if (o.block_percent != 0) text += ", blocks " + std::to_string(o.block_percent) + " %";
  if (o.sink_logits) text += ", sink logits";
  constexpr const char* kRows[] = {"contiguous", "fused", "padded", "head-major", "overlapping"};
  if (o.q_rows != Rows::kContiguous) text += std::string(", q ") + kRows[static_cast<int>(o.q_rows)];
  if (o.out_rows != Rows::kContiguous) text += std::string(", out ") + kRows[static_cast<int>(o.out_rows)];
  return text;
}

}  // namespace kvc::test
