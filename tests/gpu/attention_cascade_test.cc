// SPDX-License-Identifier: Apache-2.0
// Requests that share a prefix, which is read once for all of them: the same results as without.
#include "gpu/attention_device.h"

namespace kvc::gpu::test {
namespace {

using AttentionCascade = KernelTest;
using kvc::test::Rows;

constexpr char kGuard = '\x7b';  // what results hold before

void expect_cascade_right(const Options& asked, const std::vector<uint64_t>& group_offsets,
                          const std::vector<uint64_t>& prefix_lens) {
  const Options options = with_extras(asked);
  Case c(options);
  c.run_reference();
  DeviceCall call(c.args(), {});
  call.poison();
  EXPECT_EQ(call.launch_by_groups(group_offsets, prefix_lens), 0);
  c.run_by([&](const kvc::AttentionArgs& args) { call.results(args.out, args.lse); });
  EXPECT_LE(c.distance(), options.q_dtype == KVC_FLOAT32 ? 1e-5 : 4e-3) << describe(options);
  EXPECT_LE(c.lse_distance(), 1e-3) << describe(options);
  EXPECT_EQ(c.num_bytes_beside_rows(), 0u) << describe(options);
}

std::vector<Options> shared_stores() {
  std::vector<Options> all{{.k_dim = 16, .v_dim = 16}};
  if (!kHasMma) return all;
  all.push_back({.dtype = KVC_BFLOAT16, .q_dtype = KVC_BFLOAT16});
  all.push_back({.dtype = KVC_FLOAT8_E4M3, .q_dtype = KVC_FLOAT16});
  return all;
}

TEST_F(AttentionCascade, OneGroup) {
  for (Options o : shared_stores()) {
    o.kv_lens = {150, 130, 200, 113}, o.q_lens = {1, 5, 20, 1}, o.shared = true;
    for (const uint64_t prefix : {0u, 16u, 112u}) expect_cascade_right(o, {0, 4}, {prefix});
  }
}

TEST_F(AttentionCascade, SeveralGroupsAndRequestsOfTheirOwn) {
  for (Options o : shared_stores()) {
    o.kv_lens = {150, 130, 200, 113}, o.q_lens = {1, 5, 3, 1}, o.shared = true, o.soft_cap = 8;
    expect_cascade_right(o, {0, 1, 3, 4}, {80, 96, 0});
    expect_cascade_right(o, {0, 2, 4}, {100, 7});  // prefixes need not end with a block
  }
}

TEST_F(AttentionCascade, SinkLogitsCountOnce) {
  for (Options o : shared_stores()) {
    o.kv_lens = {150, 130, 200, 113}, o.q_lens = {1, 5, 20, 1}, o.shared = true, o.sink_logits = true;
    for (const uint64_t prefix : {0u, 112u}) expect_cascade_right(o, {0, 4}, {prefix});
    o.kv_lens[1] = 0, o.q_lens[1] = 2;  // of nothing
    expect_cascade_right(o, {0, 1, 2, 4}, {16, 0, 112});
  }
}

TEST_F(AttentionCascade, ResultsLieAnywhere) {
  for (Options o : shared_stores()) {
    o.kv_lens = {150, 130, 200, 113}, o.q_lens = {1, 5, 20, 1}, o.shared = true;
    for (const Rows rows : {Rows::kFused, Rows::kPadded, Rows::kHeadMajor}) {
      o.q_rows = o.out_rows = rows;
      expect_cascade_right(o, {0, 4}, {112});
    }
  }
}

// There is room for more queries than a replay may bring.
TEST_F(AttentionCascade, WhatLiesBehindTheLastQueryIsNotWritten) {
  for (Options o : shared_stores()) {
    o.kv_lens = {150, 130, 200}, o.q_lens = {3, 5, 2}, o.shared = true;
    Case c(o);
    DeviceCall call(c.args(), {});
    call.poison();
    const std::vector<uint64_t> offsets{0, 1, 3, 4};
    call.set_lengths(o.kv_lens, offsets);
    EXPECT_EQ(call.launch_by_groups({0, 3}, {112}), 0);
    c.args().q_offsets = offsets.data();
    c.run_reference();
    c.run_by([&](const kvc::AttentionArgs& args) { call.results(args.out, args.lse); });
    const size_t heads = c.args().num_q_heads;
    for (size_t row = 0; row < 4 * heads; ++row) EXPECT_NEAR(c.lse()[row], c.expected_lse()[row], 1e-3);
    for (size_t row = 4 * heads; row < c.lse().size(); ++row) EXPECT_EQ(c.lse()[row], kUntouched);
    for (size_t i = 4 * heads * o.v_dim * dtype_bits(o.q_dtype) / 8; i < c.out().size(); ++i)
      ASSERT_EQ(c.out()[i], kGuard) << "byte " << i;
  }
}

TEST_F(AttentionCascade, ATreeBehindThePrefix) {
  for (Options o : shared_stores()) {
    o.kv_lens = {150, 130}, o.q_lens = {9, 14}, o.shared = true, o.tree = true, o.tail = true;
    expect_cascade_right(o, {0, 2}, {112});
  }
}

TEST_F(AttentionCascade, WhatItCannotDoIsSaid) {
  const Options plain{.kv_lens = {50}, .q_lens = {1}};
  Options window = plain, alibi = plain, blocks = plain, mask = plain, whole = plain;
  window.window = 20, alibi.alibi = true, blocks.block_percent = 50, mask.mask_percent = 50,
  whole.causal = false;
  for (const Options& o : {window, alibi, blocks, mask, whole}) {
    Case c(o);
    DeviceCall call(c.args(), {});
    EXPECT_EQ(call.launch_by_groups({0, 1}, {16}), -1) << describe(o);
  }
}

}  // namespace
}  // namespace kvc::gpu::test
