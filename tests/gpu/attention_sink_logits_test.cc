// SPDX-License-Identifier: Apache-2.0
// Sink logits on the device: they count in the denominator and in lse, once, whichever kernels run and
// however the work is cut.
#include <cmath>
#include <limits>

#include "gpu/attention_device.h"

namespace kvc::gpu::test {
namespace {

using AttentionSinkLogits = KernelTest;

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Kernels of every kind: plain, tensor cores of every stored type, latent rows.
std::vector<Options> sink_stores() {
  std::vector<Options> all{{.k_dim = 16, .v_dim = 16}};
  if (!kHasMma) return all;
  for (const int32_t stored :
       {KVC_FLOAT16, KVC_BFLOAT16, KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2, KVC_INT8, KVC_INT4}) {
    all.push_back({.dtype = stored,
                   .q_dtype = stored == KVC_FLOAT16 ? KVC_FLOAT16 : KVC_BFLOAT16,
                   .asymmetric = stored == KVC_INT4});
  }
  for (const int32_t stored : {KVC_BFLOAT16, KVC_FLOAT8_E4M3}) {
    all.push_back(latent_options(stored));
    all.back().group = 9;
  }
  return all;
}

// One of each kind, for what takes long.
std::vector<Options> some_sink_stores() {
  std::vector<Options> some;
  for (const Options& o : sink_stores()) {
    const bool codes = o.dtype != KVC_BFLOAT16;
    if (o.latent ? codes : o.dtype == KVC_FLOAT32 || !codes || o.dtype == KVC_INT4) some.push_back(o);
  }
  return some;
}

// Of few rows and of many; whole pieces, parts of contexts, and parts of fixed length.
struct Cut {
  std::vector<uint64_t> kv_lens, q_lens;
  DeviceOptions device;
};
std::vector<Cut> cuts() {
  return {{{100, 31, 5, 0}, {1, 20, 2, 1}, {.multiprocessors = 1}},
          {{400, 3, 150}, {1, 1, 9}, {.multiprocessors = 13}},
          {{2100, 40}, {1, 9}, {.invariant = true}}};
}
// One in each run.
Cut any_cut(std::mt19937& random) {
  const std::vector<Cut> all = cuts();
  return all[random() % all.size()];
}

TEST_F(AttentionSinkLogits, CountOnceHoweverTheWorkIsCut) {
  for (Options o : sink_stores()) {
    for (const Cut& cut : cuts()) {
      o.kv_lens = cut.kv_lens, o.q_lens = cut.q_lens, o.sink_logits = true;
      expect_device_right(o, cut.device);
    }
  }
}

TEST_F(AttentionSinkLogits, GoWithEveryRule) {
  for (Options o : sink_stores()) {
    if (o.latent) continue;
    o.kv_lens = {100, 31, 233, 0}, o.q_lens = {3, 17, 1, 2}, o.sink_logits = true;
    o.soft_cap = 5, o.alibi = true, o.q_scale = 5;  // which leave the sink logits alone
    expect_device_right(o);
    o.soft_cap = 0, o.alibi = false, o.q_scale = 1;
    o.window = 20, o.sinks = 3;
    expect_device_right(o);
    o.window = 0, o.sinks = 0, o.mask_percent = 1;  // of most rows nothing
    expect_device_right(o);
    o.mask_percent = 0, o.block_percent = 30;
    expect_device_right(o);
  }
}

// Everything that the case's results are, with this sink logit for all heads.
struct SinkResults {
  std::vector<char> out;
  std::vector<float> lse;
};
SinkResults results_with(Case& c, float sink, const DeviceOptions& device) {
  std::fill(c.sink_logits().begin(), c.sink_logits().end(), sink);
  c.run_by([&](const kvc::AttentionArgs& args) { attend_on_device(args, device); });
  return {c.out(), c.lse()};
}

TEST_F(AttentionSinkLogits, MayBeFarAboveOrBelowEveryLogit) {
  for (Options o : some_sink_stores()) {
    for (const Cut& cut : {any_cut(random)}) {
      o.kv_lens = cut.kv_lens, o.q_lens = cut.q_lens, o.sink_logits = true;
      Case c(o);
      const SinkResults none = results_with(c, kNone, cut.device);
      for (const float sink : {-1e4f, -60.0f, 60.0f, 1e4f}) {
        const SinkResults found = results_with(c, sink, cut.device);
        if (sink < 0) {  // of what rows see nothing is lost
          EXPECT_EQ(found.out, none.out) << describe(o) << ", " << sink;
        } else if (sink < 100) {
          c.run_reference();
          EXPECT_LE(c.distance(), o.q_dtype == KVC_FLOAT32 ? 1e-4 : 1e-2) << describe(o);
        } else {
          EXPECT_EQ(c.output(0, 0), std::vector<float>(c.output(0, 0).size())) << describe(o);
        }
        for (size_t row = 0; row < found.lse.size(); ++row)
          EXPECT_EQ(found.lse[row], std::max(none.lse[row], sink)) << describe(o);
      }
      c.args().sink_logits = nullptr;
      const SinkResults without = results_with(c, kNone, cut.device);
      EXPECT_EQ(without.out, none.out) << describe(o);
      EXPECT_EQ(without.lse, none.lse) << describe(o);
    }
  }
}

TEST_F(AttentionSinkLogits, AreTheLseOfRowsThatSeeNothing) {
  for (Options o : sink_stores()) {
    o.kv_lens = {0, 4, 20}, o.q_lens = {2, 7, 1};  // three queries of the second lie before its first token
    o.sink_logits = true;
    Case c(o);
    c.run_by([](const kvc::AttentionArgs& args) { attend_on_device(args, {}); });
    for (const size_t query : {0, 1, 2, 4}) {
      for (size_t h = 0; h < c.sink_logits().size(); ++h)
        EXPECT_EQ(c.lse()[query * c.sink_logits().size() + h], c.sink_logits()[h]) << describe(o);
    }
    for (const float x : c.output(0, 0)) EXPECT_EQ(x, 0);
    for (const float x : c.output(1, 2)) EXPECT_EQ(x, 0);
  }
}

// A NaN in a query is that of its row, which no sink logit hides.
TEST_F(AttentionSinkLogits, LeaveNaN) {
  for (Options o : some_sink_stores()) {
    for (const Cut& cut : {any_cut(random)}) {
      o.kv_lens = cut.kv_lens, o.q_lens = cut.q_lens, o.sink_logits = true;
      for (const float sink : {-60.0f, 60.0f, 1e4f}) {
        Case c(o);
        const kvc::AttentionArgs& args = c.args();
        const uint64_t at = 2 * args.q_token_stride + args.q_head_stride + 5;  // query 2, head 1
        auto* q = static_cast<char*>(const_cast<void*>(args.q));
        write_element(o.q_dtype, std::numeric_limits<float>::quiet_NaN(), q + at * dtype_bits(o.q_dtype) / 8);
        const SinkResults found = results_with(c, sink, cut.device);
        for (size_t row = 0; row < found.lse.size(); ++row)
          ASSERT_EQ(std::isnan(found.lse[row]), row == 2 * args.num_q_heads + 1) << describe(o);
      }
    }
  }
}

}  // namespace
}  // namespace kvc::gpu::test
