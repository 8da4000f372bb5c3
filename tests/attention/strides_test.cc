// SPDX-License-Identifier: Apache-2.0
// Where queries and results lie changes no bit of the results, and nothing between the rows of results is
// written, in each of the ways that results take: by few rows and many, by splits, past the caches.
#include <iterator>

#include "attention/expect.h"
#include "base/copy.h"

namespace kvc::test {
namespace {

constexpr Rows kQueryRows[] = {Rows::kContiguous, Rows::kFused, Rows::kPadded, Rows::kHeadMajor};

std::vector<Options> stores() {
  return {
      {.dtype = KVC_FLOAT32},
      {.dtype = KVC_BFLOAT16, .q_dtype = KVC_BFLOAT16, .tiled = true},
      {.dtype = KVC_BFLOAT16, .q_dtype = KVC_BFLOAT16},
      {.dtype = KVC_FLOAT16, .q_dtype = KVC_FLOAT16, .k_dim = 80, .v_dim = 48},
      {.dtype = KVC_FLOAT32, .q_dtype = KVC_BFLOAT16, .latent = true, .k_dim = 96, .heads = 1, .group = 20},
      {.dtype = KVC_INT8, .q_dtype = KVC_BFLOAT16, .hadamard = true},
      {.dtype = KVC_INT4, .q_dtype = KVC_FLOAT16, .group = 3}};
}

// The same problem with rows elsewhere: the same bits, by one worker and by several.
void expect_same_bits(const Options& contiguous) {
  for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
    for (const size_t workers : {1, 3}) {
      Case plain(contiguous);
      plain.run(kernels, workers);
      for (size_t rows = 0; rows < std::size(kQueryRows); ++rows) {
        Options o = contiguous;
        o.q_rows = kQueryRows[rows], o.out_rows = kQueryRows[(rows + 1) % std::size(kQueryRows)];
        Case c(o);
        c.run(kernels, workers);
        EXPECT_EQ(c.lse(), plain.lse()) << kernels->name << ": " << describe(o);
        EXPECT_EQ(c.num_bytes_beside_rows(), 0u) << kernels->name << ": " << describe(o);
        for (size_t r = 0; r < o.q_lens.size(); ++r) {
          for (uint64_t query = 0; query < o.q_lens[r]; ++query)
            ASSERT_EQ(c.output(r, query), plain.output(r, query)) << kernels->name << ": " << describe(o);
        }
      }
    }
  }
}

TEST(AttentionStrides, ChangeNoBitOfTheResults) {
  for (Options o : stores()) {
    o.kv_lens = {900, 33, 40}, o.q_lens = {1, 3, 20};  // splits, few rows, many
    ASSERT_NO_FATAL_FAILURE(expect_same_bits(o));
    o.kv_lens = {130}, o.q_lens = {40};
    ASSERT_NO_FATAL_FAILURE(expect_same_bits(o));
  }
}

TEST(AttentionStrides, BesideAllRulesOfWhatIsSeen) {
  for (Options o : stores()) {
    for (const Rows rows : kQueryRows) {
      o.q_rows = o.out_rows = rows;
      o.kv_lens = {100, 31, 0}, o.q_lens = {3, 17, 2};
      o.window = 20, o.sinks = 3, o.soft_cap = 5, o.alibi = true;
      expect_right(o);
      o.alibi = false, o.soft_cap = 0, o.mask_percent = 40, o.block_percent = 60;
      expect_right(o, test_seed(), 3);
      o.mask_percent = o.block_percent = 0, o.window = 0;
    }
  }
}

TEST(AttentionStrides, RowsOfQueriesMayOverlap) {
  for (Options o : stores()) {
    o.q_rows = Rows::kOverlapping, o.out_rows = Rows::kPadded;
    o.kv_lens = {100, 31}, o.q_lens = {3, 17};
    expect_right(o);
  }
}

// Results of 4 MiB and more are written past the caches, whole lines of them, if they lie at whole lines.
TEST(AttentionStrides, LargeResultsLeaveWhatLiesBetween) {
  for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16}) {
    Options o{.dtype = dtype, .q_dtype = dtype, .k_dim = 32, .group = 16, .kv_lens = {129}, .q_lens = {129}};
    for (const uint32_t bytes : {1024u, 1040u}) {
      o.v_dim = bytes * 8 / dtype_bits(dtype);
      ASSERT_GE(size_t{129} * o.heads * o.group * bytes, kStreamBytes);
      for (const Rows rows : {Rows::kFused, Rows::kPadded}) {
        o.out_rows = rows;
        expect_right(o);
      }
    }
  }
}

}  // namespace
}  // namespace kvc::test
