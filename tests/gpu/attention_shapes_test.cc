// SPDX-License-Identifier: Apache-2.0
// Attention of the device against the CPU's reference over shapes: stored types, dims, groups, block sizes,
// lengths around every edge of a block and a tile, decode and prefill, parts of any number.
#include "gpu/attention_device.h"

namespace kvc::gpu::test {
namespace {

using AttentionShapes = KernelTest;

constexpr int32_t kStored[] = {KVC_FLOAT32,     KVC_FLOAT16,     KVC_BFLOAT16, KVC_FLOAT8_E4M3,
                               KVC_FLOAT8_E5M2, KVC_INT8,        KVC_INT4};

TEST_F(AttentionShapes, EveryStoredTypeWithEveryQueryType) {
  for (const int32_t stored : kStored) {
    for (const int32_t q_dtype : {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16}) {
      for (const uint32_t dim : {64u, 128u}) {
        expect_right({.dtype = stored,
                      .q_dtype = q_dtype,
                      .k_dim = dim,
                      .v_dim = dim,
                      .group = 4,
                      .kv_lens = {77, 130},
                      .q_lens = {1, 6}});
      }
    }
  }
}

TEST_F(AttentionShapes, LargeHeadDims) {
  for (const int32_t stored : {KVC_BFLOAT16, KVC_FLOAT8_E4M3, KVC_INT4}) {
    expect_right({.dtype = stored,
                  .q_dtype = KVC_BFLOAT16,
                  .k_dim = 256,
                  .v_dim = 256,
                  .heads = 1,
                  .group = 3,
                  .kv_lens = {77, 100},
                  .q_lens = {1, 7}});
  }
}

}  // namespace
}  // namespace kvc::gpu::test
