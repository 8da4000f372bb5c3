// SPDX-License-Identifier: Apache-2.0
// Where the rows of queries and results lie: in a fused QKV, head by head, with gaps of any size. What lies
// between rows is NaN for queries, and results do not touch it.
#include "gpu/attention_device.h"

namespace kvc::gpu::test {
namespace {

using AttentionStrides = KernelTest;
using kvc::test::Rows;

// Kernels of every kind, and how far their results may be cut.
std::vector<Options> strided_stores() {
  std::vector<Options> all{{.k_dim = 16, .v_dim = 16}, {.q_dtype = KVC_FLOAT16, .k_dim = 24, .v_dim = 9}};
  if (!kHasMma) return all;
  all.push_back({.dtype = KVC_BFLOAT16, .q_dtype = KVC_BFLOAT16});
  all.push_back({.dtype = KVC_INT8, .q_dtype = KVC_FLOAT16, .asymmetric = true, .k_dim = 128, .v_dim = 128});
  all.push_back(latent_options(KVC_FLOAT16));
  all.back().group = 5;
  return all;
}

TEST_F(AttentionStrides, OfQueries) {
  for (Options o : strided_stores()) {
    for (const Rows rows : {Rows::kFused, Rows::kPadded, Rows::kHeadMajor, Rows::kOverlapping}) {
      o.q_rows = rows;
      o.kv_lens = {150, 40, 9}, o.q_lens = {1, 20, 3};
      const AttentionPath path = path_of(o);
      EXPECT_EQ(path, kHasMma && o.dtype != KVC_FLOAT32 ? AttentionPath::kMma : AttentionPath::kPlain)
          << describe(o);
      expect_device_right(o);
    }
  }
}

// Of 16 bits they are written in pairs by tensor cores.
TEST_F(AttentionStrides, OfResults) {
  for (Options o : strided_stores()) {
    for (const Rows rows : {Rows::kFused, Rows::kPadded, Rows::kHeadMajor}) {
      o.out_rows = rows;
      const AttentionPath path = path_of(o);
      EXPECT_EQ(path, kHasMma && o.dtype != KVC_FLOAT32 && rows != Rows::kPadded ? AttentionPath::kMma
                                                                                 : AttentionPath::kPlain)
          << describe(o);
      if (random() % 4 == 0) {  // parts of fixed length
        o.kv_lens = {2100, 40}, o.q_lens = {1, 9};
        expect_device_right(o, {.invariant = true});
      } else {
        o.kv_lens = {150, 40, 9, 0}, o.q_lens = {1, 20, 3, 1};
        expect_device_right(o, {.multiprocessors = random() % 2 == 0 ? 1u : 13u});
      }
    }
  }
}

TEST_F(AttentionStrides, OfResultsThatAreOddAreTheReasonForThePlainKernel) {
  if (!kHasMma) GTEST_SKIP() << "no tensor cores in waves of 64";
  const Options options{.dtype = KVC_BFLOAT16, .q_dtype = KVC_BFLOAT16};
  Case c(options);
  AttentionArgs args = scalars_of(c.args());
  const AttentionLimits limits = limits_of(c.args(), {});
  EXPECT_EQ(configure_attention(args, limits).support.reason, nullptr);
  for (uint64_t* const stride : {&args.out_token_stride, &args.out_head_stride}) {
    ++*stride;
    const AttentionSupport support = configure_attention(args, limits).support;
    EXPECT_EQ(support.path, AttentionPath::kPlain);
    EXPECT_STREQ(support.reason, "results of 16 bits with odd strides");
    args.out_dtype = KVC_FLOAT32;
    EXPECT_EQ(configure_attention(args, limits).support.path, AttentionPath::kMma);
    args.out_dtype = 0;
    --*stride;
  }
}

}  // namespace
}  // namespace kvc::gpu::test
