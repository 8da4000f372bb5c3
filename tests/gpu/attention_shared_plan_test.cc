// SPDX-License-Identifier: Apache-2.0
// One plan for several calls: the same bits as with one of their own; and what is not a plan of the
// call, whatever it is, gives NaN and touches nothing else (on emulated devices all memory is between
// guards).
#include <cmath>

#include "gpu/attention_device.h"

namespace kvc::gpu::test {
namespace {

using AttentionSharedPlan = KernelTest;

struct PlanResults {
  std::vector<float> out, lse;
  bool operator==(const PlanResults& other) const { return out == other.out && lse == other.lse; }
};

PlanResults plan_results(Case& c, DeviceCall& call) {
  c.run_by([&](const kvc::AttentionArgs& args) { call.results(args.out, args.lse); });
  EXPECT_EQ(c.num_bytes_beside_rows(), 0u);
  return {rows_of(c), c.lse()};
}

PlanResults launch(Case& c, DeviceCall& call, bool planned) {
  call.poison_results();
  EXPECT_EQ(call.launch(planned), 0);
  return plan_results(c, call);
}

bool is_nan(float x) { return std::isnan(x); }
void expect_all_nan(const PlanResults& results, const std::string& what) {
  EXPECT_TRUE(std::all_of(results.out.begin(), results.out.end(), is_nan)) << what;
  EXPECT_TRUE(std::all_of(results.lse.begin(), results.lse.end(), is_nan)) << what;
}

// Kernels of every kind, few and many rows, parts of contexts and whole ones.
std::vector<Options> kinds() {
  std::vector<Options> all;
  for (const int32_t stored : kernel_types()) {
    const bool plain = stored == KVC_FLOAT32;
    all.push_back(with_extras({.dtype = stored,
                               .q_dtype = plain ? KVC_FLOAT32 : KVC_BFLOAT16,
                               .k_dim = plain ? 8u : 64u,
                               .v_dim = plain ? 8u : 64u,
                               .kv_lens = {400, 90, 5, 150},
                               .q_lens = {1, 30, 0, 2}}));
  }
  return all;
}

// And rows of many tiles, and latent ones of codes.
std::vector<Options> more_kinds() {
  std::vector<Options> all = kinds();
  Options many{.dtype = KVC_BFLOAT16, .q_dtype = KVC_BFLOAT16, .group = 12};
  many.kv_lens = {100, 70, 5, 30}, many.q_lens = all[0].q_lens;
  all.push_back(many);
  Options latent = latent_options(KVC_FLOAT8_E4M3, many.kv_lens, many.q_lens);
  latent.group = 3;
  all.push_back(latent);
  return all;
}

TEST_F(AttentionSharedPlan, GivesTheSameBits) {
  for (const Options& options : more_kinds()) {
    for (const bool invariant : {false, true}) {
      Case c(options);
      DeviceCall call(c.args(), {.invariant = invariant});
      call.poison();
      const PlanResults own = launch(c, call, false);
      const std::vector<char> made = call.plan().get();
      EXPECT_TRUE(launch(c, call, true) == own) << describe(options);
      EXPECT_TRUE(launch(c, call, true) == own) << describe(options);
      EXPECT_EQ(call.plan().get(), made) << "is only read";
    }
  }
}

// Where rows lie, and sink logits, are a layer's own.
TEST_F(AttentionSharedPlan, OfALayerWithOtherStridesAndSinkLogitsGivesTheSameBits) {
  for (const Options& options : kinds()) {
    Options other = options;
    other.sink_logits = !options.sink_logits;
    other.q_rows = kvc::test::Rows::kPadded;
    other.out_rows =
        options.out_rows == kvc::test::Rows::kFused ? kvc::test::Rows::kHeadMajor : kvc::test::Rows::kFused;
    Case first(options), c(other);
    DeviceCall making(first.args(), {}), call(c.args(), {});
    making.poison();
    EXPECT_EQ(making.launch(), 0);
    call.poison();
    const PlanResults own = launch(c, call, false);
    ASSERT_EQ(call.plan().size(), making.plan().size());
    call.plan().set(making.plan().get());
    EXPECT_TRUE(launch(c, call, true) == own) << describe(options) << "; " << describe(other);
  }
}

TEST_F(AttentionSharedPlan, GivesTheSameBitsBehindASharedPrefix) {
  for (Options o : kinds()) {
    o.kv_lens = {150, 130, 200, 113}, o.q_lens = {1, 5, 20, 1}, o.shared = true;
    Case c(o);
    DeviceCall call(c.args(), {});
    call.poison();
    const auto by_groups = [&](bool planned) {
      call.poison_results();
      EXPECT_EQ(call.launch_by_groups({0, 4}, {112}, planned), 0);
      return plan_results(c, call);
    };
    const PlanResults own = by_groups(false);
    EXPECT_TRUE(by_groups(true) == own) << describe(o);
    call.plan().set(std::vector<char>(call.plan().size(), '\x11'));
    expect_all_nan(by_groups(true), describe(o));
  }
}

TEST_F(AttentionSharedPlan, WhatNoCallHasMadeGivesNaN) {
  for (const Options& options : kinds()) {
    for (const bool invariant : {false, true}) {
      Case c(options);
      DeviceCall call(c.args(), {.invariant = invariant});
      std::vector<char> bytes(call.plan().size());
      for (const int kind : {0, 0xff, 1, 2}) {
        for (char& byte : bytes) byte = static_cast<char>(kind == 1 ? random() : static_cast<uint32_t>(kind));
        call.plan().set(bytes);
        expect_all_nan(launch(c, call, true), describe(options));
      }
    }
  }
}

// Whatever the lengths are: of windows that are longer than all contexts the pieces are the same.
TEST_F(AttentionSharedPlan, OfOtherArgumentsGivesNaN) {
  for (const Options& options : kinds()) {
    Case c(options);
    DeviceCall call(c.args(), {});
    call.poison();
    EXPECT_EQ(call.launch(), 0);
    const AttentionArgs made = call.args();
    const auto expect_refused = [&](const char* what, auto&& change) {
      change(call.args());
      expect_all_nan(launch(c, call, true), what);
      call.args() = made;
    };
    expect_refused("window", [](AttentionArgs& a) { a.window = 1000; });
    expect_refused("causal", [](AttentionArgs& a) { a.causal = 0; });
    expect_refused("heads", [](AttentionArgs& a) { a.num_heads = 1; });
    call.args().window = 100;
    EXPECT_EQ(call.launch(), 0);
    call.args().sinks = 4;
    expect_all_nan(launch(c, call, true), "sinks");
  }
}

// Each row is right, NaN, or not written.
TEST_F(AttentionSharedPlan, OfOtherLengthsGivesNothingWrong) {
  size_t right = 0, spoiled = 0;
  for (const Options& options : more_kinds()) {
    const bool is_long = options.latent || options.group > 3;
    for (int round = 0; round < (is_long ? 4 : 8); ++round) {
      const bool invariant = round % 2 == 1;
      Case c(options);
      DeviceCall call(c.args(), {.invariant = invariant});
      const std::vector<uint64_t> all_lengths(options.kv_lens), all_offsets{0, 1, 31, 31, 33};
      std::vector<uint64_t> lengths(all_lengths), offsets(all_offsets);
      for (size_t r = 0; r < lengths.size(); ++r) {
        const uint64_t queries = random() % (options.q_lens[r] + 1);
        offsets[r + 1] = offsets[r] + queries;
        if (random() % 2 == 0) lengths[r] = queries + random() % (all_lengths[r] - queries + 1);
      }
      const bool made_of_fewer = round % 4 < 2;
      call.poison();
      if (made_of_fewer) call.set_lengths(lengths, offsets);
      EXPECT_EQ(call.launch(), 0);
      const std::vector<uint64_t>& now = made_of_fewer ? all_lengths : lengths;
      const std::vector<uint64_t>& queries_now = made_of_fewer ? all_offsets : offsets;
      c.args().kv_lens = now.data(), c.args().q_offsets = queries_now.data();
      call.set_lengths(now, queries_now);
      const PlanResults results = launch(c, call, true);
      c.run_reference();
      const uint32_t dim = c.args().layout->v_dim;
      for (size_t row = 0; row < queries_now.back() * c.args().num_q_heads; ++row) {
        const float lse = results.lse[row];
        if (lse == kUntouched) continue;
        ++(is_nan(lse) ? spoiled : right);
        for (uint32_t e = 0; is_nan(lse) && e < dim; ++e) ASSERT_TRUE(is_nan(results.out[row * dim + e]));
        if (is_nan(lse)) continue;
        const float wanted = c.expected_lse()[row];
        ASSERT_TRUE(lse == wanted || std::abs(lse - wanted) < 1e-3f) << lse << ", not " << wanted;
      }
      for (size_t row = queries_now.back() * c.args().num_q_heads; row < results.lse.size(); ++row)
        ASSERT_EQ(results.lse[row], kUntouched) << "beyond the last query";
    }
  }
  EXPECT_GT(right, 0u);
  EXPECT_GT(spoiled, 0u);
}

}  // namespace
}  // namespace kvc::gpu::test
