// SPDX-License-Identifier: Apache-2.0
// Storages whose keys have a scale per channel, for their tests.
#pragma once
#include <cstring>

#include "api/storage.h"

namespace kvc::test {

inline float bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  std::memcpy(&x, &bits, 4);
  return x;
}

inline kvc_storage_config channel_config(int32_t dtype = KVC_INT8, uint32_t flags = 0) {
  kvc_storage_config c = base_config();
  c.dtype = dtype;
  c.flags = KVC_STORAGE_CHANNEL_KEYS | flags;
  return c;
}

inline std::vector<int64_t> slots_of_block(int64_t block, int64_t begin, int64_t end,
                                           int64_t block_size = 4) {
  std::vector<int64_t> slots;
  for (int64_t t = begin; t < end; ++t) slots.push_back(block * block_size + t);
  return slots;
}

inline void store(kvc_storage* s, const Rows& rows) {
  ASSERT_EQ(kvc_storage_store(s, &rows.rows, nullptr), KVC_OK) << kvc_last_error();
}

inline bool is_residual(kvc_storage* s, int32_t block) {
  kvc_run runs[64];
  size_t count;
  return kvc_storage_runs(s, block, nullptr, runs, 64, &count) == KVC_ERROR_BUSY;
}

// Keys of all slots in one layer, as float.
inline std::vector<float> keys_of(kvc_storage* s, uint32_t layer) {
  const kvc_storage_info info = info_of(s);
  Rows out(info, KVC_FLOAT32, slots_of_block(0, 0, static_cast<int64_t>(info.num_blocks * info.block_size)),
           1);
  out.rows.first_layer = layer;
  EXPECT_EQ(kvc_storage_gather(s, &out.rows, nullptr), KVC_OK);
  const auto* k = reinterpret_cast<const float*>(out.k.data());
  return {k, k + out.k.size() / 4};
}

}  // namespace kvc::test
