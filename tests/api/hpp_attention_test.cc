// SPDX-License-Identifier: Apache-2.0
// kvcache/storage.hpp: attention, the choice of blocks, kernels of others and the error of quantization.
#include <algorithm>
#include <limits>

#include "api/hpp_storage.h"

namespace hpp {
namespace {

TEST(HppAttention, AttendsToAllOrToTheBestBlocks) {
  kvc::Storage s(config());
  for (int32_t block = 0; block < 4; ++block) fill(s, block, static_cast<float>(block));
  Question question;
  s.attend(question.a);
  EXPECT_LT(question.out[0], -1.5f) << "larger keys weigh more";
  EXPECT_GT(question.out[0], -3);
  EXPECT_EQ(s.explain(question.a).sparse, 0u);

  const kvc::Stream stream("cpu");
  std::vector<uint16_t> bounds(kBlocks * 2 * 2 * kDim);
  uint8_t mask[2] = {};
  auto choice = kvc::make<kvc_block_choice>();
  choice.top_k = 2, choice.bounds = bounds.data(), choice.block_mask = mask, choice.block_mask_stride = 1;
  std::fill(question.q.begin(), question.q.end(), -1.0f);
  s.key_bounds(0, question.table, bounds.data(), stream);
  s.select_blocks(question.a, choice, stream);
  question.a.block_mask = mask, question.a.block_mask_stride = 1;
  s.attend(question.a, stream);
  stream.synchronize();
  EXPECT_EQ(mask[0], 0b1001) << "the smallest key, and the block of the query";
  EXPECT_NEAR(question.out[0], 0, 0.1);
  EXPECT_EQ(s.explain(question.a).sparse, 1u);
}

TEST(HppAttention, QueriesOfAFusedProjectionAndSinkLogits) {
  kvc::Storage s(config());
  for (int32_t block = 0; block < 4; ++block) fill(s, block, static_cast<float>(block));
  Question question;
  s.attend(question.a);
  const std::vector<float> dense = question.out;
  std::vector<float> fused(2 * kRow, -100.0f);
  for (size_t head = 0; head < 2; ++head)
    std::copy_n(question.q.begin() + static_cast<ptrdiff_t>(head * kDim), kDim,
                fused.begin() + static_cast<ptrdiff_t>(head * 2 * kDim));
  const float sinks[] = {-std::numeric_limits<float>::infinity(), 1e6f};
  question.a.q = fused.data(), question.a.q_head_stride = 2 * kDim, question.a.sink_logits = sinks;
  s.attend(question.a);
  EXPECT_EQ(question.out[0], dense[0]);
  EXPECT_EQ(question.out[kDim], 0.0f) << "nothing but the sink";
  EXPECT_EQ(s.explain(question.a).workspace_bytes, 0u);
  expect_error(KVC_ERROR_INVALID_ARGUMENT, "q_head_stride -1", [&] {
    question.a.q_head_stride = -1;
    s.attend(question.a);
  });
}

TEST(HppAttention, OtherKernelsAndQuantizedRows) {
  kvc::Storage s(config(KVC_INT8, KVC_STORAGE_CHANNEL_KEYS));
  Rows rows({0, 1}, 3);
  s.store(rows.rows);
  s.quantize(std::vector<int32_t>{0});
  auto keys = kvc::make<kvc_quant_metrics>(), values = keys;
  s.measure(rows.rows, &keys, &values);
  EXPECT_EQ(keys.elements, 2u * kRow);
  EXPECT_LT(values.max_error, 0.02);

  kvc::Storage plain(config());
  Question question;
  int calls = 0;
  const auto count = [](void* data, const kvc_attention*, const kvc_view*, const kvc_view*,
                        void*) -> kvc_status { return ++*static_cast<int*>(data), KVC_OK; };
  plain.set_attention(count, &calls);
  plain.attend(question.a);
  plain.set_attention(nullptr);
  plain.attend(question.a);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(question.out[0], 0);
}

}  // namespace
}  // namespace hpp
