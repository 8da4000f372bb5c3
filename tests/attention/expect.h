// SPDX-License-Identifier: Apache-2.0
// What every way of attention must keep, whichever instruction set: few rows and many are tested by the same.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>

#include "attention/case.h"

namespace kvc::test {

// Runs the case with every available instruction set against the reference.
inline void expect_right(const Options& options, uint64_t seed = test_seed(), size_t workers = 1) {
  Case c(options, seed);
  c.run_reference();
  // Stored elements are exact to the kernels. Integers meet queries and probabilities of 16 bits. Results of
  // 16 bits are rounded, and so are the probabilities of bfloat16 queries. Over bfloat16 keys queries keep 16
  // bits, an error that grows with the logits.
  const double scale = std::max(1.0, static_cast<double>(options.q_scale) / 10);
  const double limit = options.q_dtype != KVC_FLOAT32 || options.allow_bf16 ? 4e-3
                       : is_quantized(options.dtype)                        ? 5e-4
                                                                            : 2e-5 * scale;
  for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
    c.run(kernels, workers);
    EXPECT_LE(c.distance(), limit) << kernels->name << ": " << describe(options) << ", seed " << seed;
    EXPECT_LE(c.lse_distance(), 1e-3) << kernels->name << ": " << describe(options) << ", seed " << seed;
    EXPECT_EQ(c.num_bytes_beside_rows(), 0u) << kernels->name << ": " << describe(options);
  }
}

// The first 4 of 9 queries must not notice what the last 5 tokens hold, which they do not see, not even NaN.
inline void expect_later_tokens_unseen(Options o) {
  o.q_lens = {9};
  const uint64_t kv_len = o.kv_lens[0];
  for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
    for (const bool poison : {false, true}) {
      Case c(o);
      c.run(kernels);
      std::vector<std::vector<float>> before;
      for (uint64_t q = 0; q < 4; ++q) before.push_back(c.output(0, q));
      for (uint64_t j = kv_len - 5; j < kv_len; ++j) c.fill_token(0, j, poison);
      c.run(kernels);
      for (uint64_t q = 0; q < 4; ++q)
        EXPECT_EQ(c.output(0, q), before[q]) << kernels->name << ": " << describe(o);
      EXPECT_EQ(std::isnan(c.output(0, 8)[0]), poison) << "a NaN that is seen must show";
    }
  }
}

// NaN or infinity in a query is that of its own head's row: pairs and integers made of rows know nothing of
// others. Queries are floats.
inline void expect_bad_query_alone(const Options& o) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Case c(o);
    c.query(1, 2)[5] = bad;
    for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
      c.run(kernels);
      for (uint64_t query = 0; query < o.q_lens[0]; ++query) {
        const std::vector<float> out = c.output(0, query);
        for (uint32_t e = 0; e < out.size(); ++e) {
          ASSERT_EQ(std::isnan(out[e]), query == 1 && e / o.v_dim == 2)
              << kernels->name << ": query " << query << ", element " << e << " is " << out[e] << ": "
              << describe(o);
        }
      }
    }
  }
}

}  // namespace kvc::test
