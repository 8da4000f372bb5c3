// SPDX-License-Identifier: Apache-2.0
// What a query sees on the device: windows, sinks, soft cap, ALiBi, bit and tree masks, block masks, explicit
// positions, empty rows. What nobody sees is poisoned (attention/case.h).
#include "gpu/attention_device.h"

namespace kvc::gpu::test {
namespace {

using AttentionRules = KernelTest;

std::vector<Options> ruled_stores() {
  std::vector<Options> all{{.k_dim = 16, .v_dim = 16}, {.dtype = KVC_FLOAT8_E4M3, .block_size = 4}};
  if (!kHasMma) return all;
  all.push_back({.dtype = KVC_BFLOAT16, .q_dtype = KVC_BFLOAT16});
  all.push_back({.dtype = KVC_INT8, .q_dtype = KVC_FLOAT16, .asymmetric = true});
  all.push_back({.dtype = KVC_FLOAT8_E4M3, .q_dtype = KVC_BFLOAT16, .block_size = 4});
  return all;
}

TEST_F(AttentionRules, WindowAndSinks) {
  for (Options o : ruled_stores()) {
    for (const uint64_t window : {1, 33, 500}) {
      for (const uint64_t sinks : {0, 70}) {
        o.window = window, o.sinks = sinks;
        o.kv_lens = {5, 150, 233}, o.q_lens = {2, 17, 1};
        o.causal = window != 33;
        expect_device_right(o);
      }
    }
  }
}

TEST_F(AttentionRules, WindowOfAnySizeDoesNotOverflow) {
  for (const uint64_t window : {uint64_t{1} << 63, ~uint64_t{0}}) {
    for (Options o : ruled_stores()) {
      o.kv_lens = {70}, o.q_lens = {3}, o.window = window, o.sinks = ~uint64_t{0};
      expect_device_right(o);
    }
  }
}

TEST_F(AttentionRules, SoftCapAndAlibi) {
  for (Options o : ruled_stores()) {
    o.kv_lens = {100, 31}, o.q_lens = {3, 17};
    for (const float cap : {5.0f, 50.0f}) {
      o.soft_cap = cap, o.alibi = cap > 5;
      o.q_scale = 5;
      expect_device_right(o);
    }
    o.soft_cap = 0, o.q_scale = 1;
    expect_device_right(o);
  }
}

TEST_F(AttentionRules, BitMaskAndTree) {
  for (Options o : ruled_stores()) {
    o.kv_lens = {100, 31, 16, 0}, o.q_lens = {3, 17, 1, 2};
    for (const int percent : {1, 50, 100}) {
      o.mask_percent = percent;
      o.causal = percent != 50;
      expect_device_right(o);
    }
    o.tree = true, o.causal = false;
    expect_device_right(o);
    o.window = 20;
    expect_device_right(o);
  }
}

TEST_F(AttentionRules, AMaskOfTheTailHidesNothingBeforeIt) {
  for (Options o : ruled_stores()) {
    o.kv_lens = {100, 31, 16, 233, 64, 0}, o.q_lens = {3, 17, 1, 20, 64, 2}, o.tail = true;
    o.mask_percent = 50;
    expect_device_right(o);
    o.mask_percent = 0, o.tree = true, o.window = 20, o.sinks = 3;
    expect_device_right(o);
  }
}

TEST_F(AttentionRules, ABlockMaskPerHead) {
  for (Options o : ruled_stores()) {
    for (const uint32_t block_size : {o.block_size, 24u}) {
      o.block_size = block_size;
      o.kv_lens = {5, 150, 200, 0}, o.q_lens = {2, 1, 9, 1};
      for (const int percent : {5, 50, 100}) {
        o.block_percent = percent;
        o.window = percent == 50 ? 70 : 0, o.sinks = 5;
        o.mask_percent = percent == 5 ? 80 : 0;
        expect_device_right(o);
      }
      o.mask_percent = 0;
    }
  }
}

TEST_F(AttentionRules, ExplicitPositions) {
  for (Options o : ruled_stores()) {
    o.kv_lens = {100, 100, 100, 30}, o.q_lens = {5, 5, 20, 3}, o.q_starts = {0, 60, 2000, 28};
    expect_device_right(o);
    o.window = 10, o.sinks = 2;
    expect_device_right(o);
    o.causal = false, o.alibi = true;
    o.q_starts[2] = 150;  // a logit of a thousand has no five digits behind the point in float32
    expect_device_right(o);
  }
}

TEST_F(AttentionRules, SharedBlocks) {
  for (Options o : ruled_stores()) {
    o.kv_lens = {150, 130, 200}, o.q_lens = {1, 5, 40}, o.shared = true;
    expect_device_right(o);
  }
}

TEST_F(AttentionRules, RowsThatSeeNothingAreZeroAndMinusInfinity) {
  for (Options o : ruled_stores()) {
    o.kv_lens = {0, 4, 20}, o.q_lens = {2, 7, 1};  // three queries of the second lie before its first token
    Case c(o);
    c.run_by([](const kvc::AttentionArgs& args) { attend_on_device(args, {}); });
    EXPECT_EQ(c.num_empty_rows(), 5u * o.heads * o.group);
    for (const float x : c.output(0, 0)) EXPECT_EQ(x, 0);
    for (const float x : c.output(1, 2)) EXPECT_EQ(x, 0);
  }
}

}  // namespace
}  // namespace kvc::gpu::test
