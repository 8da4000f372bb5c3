// SPDX-License-Identifier: Apache-2.0
// What kvc_storage_* refuses, and that it changes nothing then.
#include <cstdlib>

#include "api/storage.h"
#include "attention_call.h"

namespace kvc::test {
namespace {

TEST(Storage, ValuesOfLatentRowsAreRefused) {
  kvc_storage_config c = base_config();
  c.flags = KVC_STORAGE_LATENT;
  const StoragePtr s = make(c);
  Rows rows(info_of(s.get()), KVC_FLOAT32, {1, 2}, 1);
  ASSERT_EQ(kvc_storage_store(s.get(), &rows.rows, nullptr), KVC_OK) << kvc_last_error();
  const std::vector<char> before = bytes_of(s.get());
  rows.rows.v = rows.v.data();
  EXPECT_EQ(kvc_storage_store(s.get(), &rows.rows, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(bytes_of(s.get()), before);
}

TEST(Storage, RunsOfASelectionThatGoesPastTheBlockAreRefused) {
  const StoragePtr s = make(base_config());  // 3 layers, 2 heads, 4 tokens
  kvc_run runs[16];
  for (const kvc_selection& past :
       {kvc_selection{0, 4, 0, 2, 0, 4}, kvc_selection{4, 0, 0, 2, 0, 4}, kvc_selection{0, 3, 1, 2, 0, 4},
        kvc_selection{0, 3, 0, 2, 1, 4}, kvc_selection{1, UINT32_MAX, 0, 2, 0, 4}}) {
    size_t count = 99;
    EXPECT_EQ(kvc_storage_runs(s.get(), 1, &past, runs, 16, &count), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(count, 99u);
  }
  const kvc_selection part = {2, 1, 1, 1, 1, 2};  // keys and values of one head
  size_t count = 0;
  ASSERT_EQ(kvc_storage_runs(s.get(), 1, &part, runs, 16, &count), KVC_OK) << kvc_last_error();
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(runs[0].bytes, 2u * 20 * 4);
  EXPECT_EQ(runs[1].bytes, 2u * 12 * 4);
}

TEST(Storage, BadCallsChangeNothing) {
  std::mt19937 random(11);
  const StoragePtr s = make(base_config());
  const kvc_storage_info info = info_of(s.get());
  Rows good(info, KVC_FLOAT32, {1, 2, 3}, 1);
  good.fill(random);
  ASSERT_EQ(kvc_storage_store(s.get(), &good.rows, nullptr), KVC_OK);
  const std::vector<char> before = bytes_of(s.get());
  good.fill(random);
  const auto refused = [&](auto&& change, kvc_status status = KVC_ERROR_INVALID_ARGUMENT) {
    kvc_rows rows = good.rows;
    change(rows);
    const std::vector<char> k = good.k;
    EXPECT_EQ(kvc_storage_store(s.get(), &rows, nullptr), status);
    EXPECT_EQ(kvc_storage_gather(s.get(), &rows, nullptr), status);
    kvc_quant_metrics keys = {sizeof keys, 9, 9, 9, 9, 9, 9, 9};
    EXPECT_EQ(kvc_storage_measure(s.get(), &rows, &keys, nullptr), status);
    EXPECT_EQ(keys.bytes, 9u);
    EXPECT_EQ(bytes_of(s.get()), before);
    EXPECT_EQ(good.k, k);
  };
  const int64_t late[] = {1, 2, 28}, negative[] = {1, -2, 3}, least[] = {1, INT64_MIN, 3};
  const int32_t table[] = {0, 7};
  refused([&](kvc_rows& r) { r.slots = late; });
  refused([&](kvc_rows& r) { r.slots = negative; });
  refused([&](kvc_rows& r) { r.slots = least; });
  refused([&](kvc_rows& r) { r.slots = nullptr; });
  refused([&](kvc_rows& r) {
    r.slots = nullptr, r.block_table = table, r.block_table_size = 2, r.first_token = 2;
  });
  refused([&](kvc_rows& r) {
    r.slots = nullptr, r.block_table = table, r.block_table_size = 1, r.first_token = 2;
  });
  refused([&](kvc_rows& r) {
    r.slots = nullptr, r.block_table = table, r.block_table_size = 2, r.first_token = UINT64_MAX;
  });
  refused([&](kvc_rows& r) { r.k = nullptr; });
  refused([&](kvc_rows& r) { r.v = nullptr; });
  refused([&](kvc_rows& r) { r.first_layer = 3; });
  refused([&](kvc_rows& r) { r.num_layers = 4; });
  refused([&](kvc_rows& r) { r.dtype = KVC_INT8; });
  for (int64_t kvc_rows::*const stride :
       {&kvc_rows::k_layer_stride, &kvc_rows::k_token_stride, &kvc_rows::k_head_stride,
        &kvc_rows::v_layer_stride, &kvc_rows::v_token_stride, &kvc_rows::v_head_stride}) {
    for (const int64_t beyond : {INT64_MAX, INT64_MIN, int64_t{1} << 60, -(int64_t{1} << 60)})
      refused([&](kvc_rows& r) { r.*stride = beyond; });
  }
  refused([&](kvc_rows& r) { r.k_layer_stride = r.k_token_stride = r.k_head_stride = int64_t{1} << 58; });
  refused([&](kvc_rows& r) { r.struct_size = 4; });
  refused([&](kvc_rows& r) { r.flags = 1u << 31; }, KVC_ERROR_UNSUPPORTED);
  if (device() == nullptr) {
    refused([](kvc_rows& r) { r.flags = KVC_ROWS_ON_DEVICE; }, KVC_ERROR_UNSUPPORTED);
    refused(
        [&](kvc_rows& r) {
          r.slots = nullptr, r.block_table = table, r.block_table_size = 2, r.flags = KVC_ROWS_ON_DEVICE;
        },
        KVC_ERROR_UNSUPPORTED);
  }
  EXPECT_EQ(kvc_storage_store(nullptr, &good.rows, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  const kvc_block_copy copies[] = {{0, 1}, {0, 7}};
  EXPECT_EQ(kvc_storage_copy_blocks(s.get(), copies, 2, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  const int32_t blocks[] = {0, -1};
  EXPECT_EQ(kvc_storage_zero_blocks(s.get(), blocks, 2, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_quantize_blocks(s.get(), blocks, 2, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_quantize_blocks(s.get(), nullptr, 2, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_quantize_blocks(s.get(), blocks, 1, nullptr), KVC_OK) << "nothing to quantize";
  kvc_quant_metrics short_one = {8, 9, 9, 9, 9, 9, 9, 9};
  EXPECT_EQ(kvc_storage_measure(s.get(), &good.rows, nullptr, &short_one), KVC_ERROR_INVALID_ARGUMENT);
  kvc_run runs[2];
  size_t count = 99;
  EXPECT_EQ(kvc_storage_runs(s.get(), 7, nullptr, runs, 2, &count), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(count, 99u);
  EXPECT_EQ(kvc_storage_runs(s.get(), 1, nullptr, runs, 2, &count), KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(count, 3u) << "one per layer";
  kvc_view view = {};
  for (const int32_t plane : {-1, 4})
    EXPECT_EQ(kvc_storage_view(s.get(), plane, 0, &view), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_view(s.get(), 0, 3, &view), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(view.data, nullptr);
  EXPECT_EQ(bytes_of(s.get()), before);
}

struct Failing {
  size_t left;
  int64_t live = 0;
};
void* failing_allocate(void* data, size_t size, size_t alignment) {
  auto* failing = static_cast<Failing*>(data);
  if (failing->left == 0) return nullptr;
  --failing->left;
  void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  failing->live += memory != nullptr;
  return memory;
}
void failing_release(void* data, void* memory, size_t, size_t) {
  --static_cast<Failing*>(data)->live;
  std::free(memory);
}

TEST(Storage, NoMemoryForScratchIsAnError) {
  Failing failing = {100};
  kvc_allocator allocator = {sizeof allocator, &failing, failing_allocate, failing_release};
  kvc_storage_config c = base_config();
  c.allocator = &allocator;
  kvc_storage* s = nullptr;
  ASSERT_EQ(kvc_storage_create(&c, &s), KVC_OK) << kvc_last_error();
  const std::vector<float> q(c.num_heads * c.head_dim);
  std::vector<float> out(c.num_heads * 8192, 3.0f);
  const std::vector<uint16_t> bounds(c.num_blocks * c.num_heads * 2 * c.head_dim);
  std::vector<uint8_t> mask(c.num_heads, 5);
  const uint64_t offsets[] = {0, 1}, length = 2 * c.block_size;
  const int32_t table[] = {0, 1};
  AttentionCall a;
  a.q = q.data(), a.out = out.data(), a.num_requests = 1, a.q_offsets = offsets, a.kv_lens = &length;
  a.block_tables = table, a.table_stride = 2, a.num_q_heads = c.num_heads;
  kvc_block_choice choice = {};
  choice.struct_size = sizeof choice;
  choice.bounds = bounds.data(), choice.top_k = 1, choice.block_mask = mask.data(),
  choice.block_mask_stride = 1;
  failing.left = 0;
  EXPECT_EQ(kvc_storage_attend(s, &a, nullptr), KVC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kvc_storage_select_blocks(s, &a, &choice, nullptr), KVC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(out, std::vector<float>(out.size(), 3.0f));
  EXPECT_EQ(mask, std::vector<uint8_t>(mask.size(), 5));
  failing.left = 1;
  EXPECT_EQ(kvc_storage_select_blocks(s, &a, &choice, nullptr), KVC_OK) << kvc_last_error();
  kvc_storage_destroy(s);
  EXPECT_EQ(failing.live, 0);
}

class AllocationFailure : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Storage, AllocationFailure, ::testing::Values(0, KVC_STORAGE_CHANNEL_KEYS));

TEST_P(AllocationFailure, LeaksNothing) {
  for (size_t k = 0;; ++k) {
    Failing failing = {k};
    kvc_allocator allocator = {sizeof allocator, &failing, failing_allocate, failing_release};
    kvc_storage_config c = base_config();
    c.allocator = &allocator;
    c.dtype = KVC_INT8, c.flags = GetParam();
    kvc_storage* s = nullptr;
    const kvc_status status = kvc_storage_create(&c, &s);
    if (status == KVC_OK) {
      EXPECT_GE(k, 2u);
      kvc_storage_destroy(s);
    } else {
      EXPECT_EQ(status, KVC_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(s, nullptr);
    }
    EXPECT_EQ(failing.live, 0);
    if (status == KVC_OK) break;
    ASSERT_LT(k, 10u);
  }
}

}  // namespace
}  // namespace kvc::test
