// SPDX-License-Identifier: Apache-2.0
// Requests beyond the bounds that memory was sized for, as a replay of a graph may bring them: their results
// are NaN, those of the others are right, and nothing else is touched (on emulated devices all memory is
// between guards).
#include <cmath>

#include "gpu/attention_device.h"

namespace kvc::gpu::test {
namespace {

using AttentionBoundsTest = KernelTest;

constexpr uint64_t kHuge[] = {uint64_t{1} << 31, uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}};

struct Lengths {
  std::vector<uint64_t> kv_lens, q_offsets;

  // Whether memory has room for request r.
  bool holds(size_t r, const AttentionBounds& bounds) const {
    const uint64_t first = q_offsets[r], end = q_offsets[r + 1];
    return end >= first && end <= bounds.total_queries && end - first <= bounds.max_queries &&
           kv_lens[r] <= bounds.max_kv_len;
  }
};

Lengths lengths_of(const Options& options) {
  Lengths lengths{options.kv_lens, {0}};
  for (const uint64_t queries : options.q_lens)
    lengths.q_offsets.push_back(lengths.q_offsets.back() + queries);
  return lengths;
}

struct BoundedResults {
  std::vector<float> out, lse;
  size_t heads, dim;

  bool is_nan(uint64_t query) const {
    const auto none = [](float x) { return !std::isnan(x); };
    const auto* row = out.data() + query * heads * dim;
    return std::none_of(row, row + heads * dim, none) &&
           std::none_of(lse.begin() + static_cast<ptrdiff_t>(query * heads),
                        lse.begin() + static_cast<ptrdiff_t>((query + 1) * heads), none);
  }
  // Cut into other parts, sums are rounded in another order.
  bool is_near(const BoundedResults& other, uint64_t query, float limit) const {
    for (size_t i = query * heads * dim; i < (query + 1) * heads * dim; ++i) {
      if (!(std::abs(out[i] - other.out[i]) <= limit)) return false;
    }
    return true;
  }
};

BoundedResults results_of(Case& c, DeviceCall& call) {
  c.run_by([&](const kvc::AttentionArgs& args) { call.results(args.out, args.lse); });
  EXPECT_EQ(c.num_bytes_beside_rows(), 0u);
  return {rows_of(c), c.lse(), c.args().num_q_heads, c.args().layout->v_dim};
}

// Kernels of every kind, few and many rows, parts of contexts and whole ones.
std::vector<Options> bounded_kinds() {
  std::vector<Options> all;
  for (const int32_t stored : kernel_types()) {
    const bool plain = stored == KVC_FLOAT32;
    const uint32_t dim = plain ? 8 : 64;
    const int32_t q_dtype = plain ? KVC_FLOAT32 : KVC_BFLOAT16;
    all.push_back(with_extras({.dtype = stored,
                               .q_dtype = q_dtype,
                               .k_dim = dim,
                               .v_dim = dim,
                               .kv_lens = {400, 90, 5, 150},
                               .q_lens = {1, 30, 0, 2}}));
    all.push_back(with_extras({.dtype = stored,
                               .q_dtype = q_dtype,
                               .k_dim = dim,
                               .v_dim = dim,
                               .kv_lens = {300, 300, 7},
                               .q_lens = {1, 1, 1}}));
  }
  return all;
}

// What a request goes beyond, each by a little and by far.
std::vector<Lengths> beyond(const Lengths& good, const AttentionBounds& bounds, std::mt19937& random) {
  std::vector<Lengths> all;
  const size_t n = good.kv_lens.size();
  for (size_t r = 0; r < n; ++r) {
    Lengths long_context = good;
    long_context.kv_lens[r] = random() % 2 == 0 ? bounds.max_kv_len + 1 : kHuge[random() % 4];
    all.push_back(long_context);
  }
  Lengths many_queries = good;
  many_queries.q_offsets[n] = bounds.total_queries + 1 + random() % 100;
  all.push_back(many_queries);
  many_queries.q_offsets[n] = kHuge[random() % 4];
  all.push_back(many_queries);
  Lengths one_has_all = good;
  std::fill(one_has_all.q_offsets.begin() + 1, one_has_all.q_offsets.end(), bounds.total_queries);
  all.push_back(one_has_all);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(std::min<size_t>(rounds(1), 4));
  return all;
}

TEST_F(AttentionBoundsTest, SpoilTheRowsOfTheirRequestsAlone) {
  for (const Options& options : bounded_kinds()) {
    for (const bool invariant : {false, true}) {
      Case c(options);
      DeviceCall call(c.args(), {.invariant = invariant});
      call.poison();
      ASSERT_EQ(call.launch(), 0);
      const BoundedResults own = results_of(c, call);
      const Lengths good = lengths_of(options);
      for (const Lengths& lengths : beyond(good, call.limits(), random)) {
        call.set_lengths(lengths.kv_lens, lengths.q_offsets);
        call.poison();
        ASSERT_EQ(call.launch(), 0);
        const BoundedResults found = results_of(c, call);
        for (size_t r = 0; r < lengths.kv_lens.size(); ++r) {
          for (uint64_t q = lengths.q_offsets[r];
               q < std::min(lengths.q_offsets[r + 1], good.q_offsets.back()); ++q) {
            const bool right =
                lengths.holds(r, call.limits()) ? found.is_near(own, q, 0.03f) : found.is_nan(q);
            EXPECT_TRUE(right) << describe(options) << ", invariant " << invariant << ", request " << r
                               << ", query " << q;
          }
        }
      }
    }
  }
}

// Offsets that decrease, queries of two requests: nobody can say what is right, and nothing else is touched.
TEST_F(AttentionBoundsTest, NoLengthsLeadOutOfMemory) {
  for (const Options& options : bounded_kinds()) {
    for (int round = 0; round < 8; ++round) {
      Case c(options);
      DeviceCall call(c.args(), {.invariant = round % 3 == 0});
      Lengths lengths = lengths_of(options);
      const uint64_t total = lengths.q_offsets.back(), longest = call.limits().max_kv_len;
      for (uint64_t& offset : lengths.q_offsets) {
        if (random() % 2 == 0) offset = random() % 4 == 0 ? kHuge[random() % 4] : random() % (total + 3);
      }
      for (uint64_t& len : lengths.kv_lens) {
        if (random() % 4 == 0) len = random() % 2 == 0 ? longest + random() % 200 : kHuge[random() % 4];
      }
      // Tables have what the case's own queries see.
      for (size_t r = 0; r < lengths.kv_lens.size(); ++r) {
        const uint64_t most = options.q_lens[r] == 0 ? 0 : options.kv_lens[r];
        if (lengths.kv_lens[r] <= longest) lengths.kv_lens[r] = std::min(lengths.kv_lens[r], most);
      }
      call.set_lengths(lengths.kv_lens, lengths.q_offsets);
      call.poison();
      ASSERT_EQ(call.launch(), 0);
      synchronize();
    }
  }
}

TEST_F(AttentionBoundsTest, BehindASharedPrefixToo) {
  for (Options options : bounded_kinds()) {
    options.shared = true;
    for (uint64_t& len : options.kv_lens) len = std::max(len, uint64_t{80});
    Case c(options);
    DeviceCall call(c.args(), {});
    const std::vector<uint64_t> group = {0, options.kv_lens.size()}, prefix = {32};
    call.poison();
    ASSERT_EQ(call.launch_by_groups(group, prefix), 0);
    const BoundedResults own = results_of(c, call);
    const Lengths good = lengths_of(options);
    for (const Lengths& lengths : beyond(good, call.limits(), random)) {
      call.set_lengths(lengths.kv_lens, lengths.q_offsets);
      call.poison_results();
      ASSERT_EQ(call.launch_by_groups(group, prefix), 0);
      const BoundedResults found = results_of(c, call);
      for (size_t r = 0; r < lengths.kv_lens.size(); ++r) {
        for (uint64_t q = lengths.q_offsets[r]; q < std::min(lengths.q_offsets[r + 1], good.q_offsets.back());
             ++q) {
          const bool right = lengths.holds(r, call.limits()) ? found.is_near(own, q, 0.03f) : found.is_nan(q);
          EXPECT_TRUE(right) << describe(options) << ", request " << r << ", query " << q;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvc::gpu::test
