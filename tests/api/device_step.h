// SPDX-License-Identifier: Apache-2.0
// A decode step of three requests over a storage whose layers hold different numbers, on a device or on the
// CPU.
#pragma once
#include <algorithm>

#include "api/emulated.h"
#include "attention_call.h"

namespace kvc::test {

inline constexpr uint32_t kLayers = 3;
inline constexpr size_t kRequests = 3, kStride = 2;

struct Step {
  explicit Step(const char* device = "emulated") : storage(make(config_of(device))) {
    for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 13) / 8;
    for (std::vector<float>& out : outs) out.resize(q.size());
    a.q = q.data(), a.q_offsets = offsets, a.kv_lens = lens, a.block_tables = tables;
    a.table_stride = kStride, a.num_requests = kRequests, a.num_q_heads = 2 * kHeads;
    if (std::string(device) == "emulated") store_rows();
  }
  void store_rows() {
    std::vector<int64_t> slots(kBlocks * kBlock);
    for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
    ValueRows rows(slots.size() * kLayers);
    for (size_t i = 0; i < rows.k.size(); ++i) {
      rows.k[i] = static_cast<float>(i * 7 % 19) / 4 - 2;
      rows.v[i] = static_cast<float>(i * 5 % 23) / 4 - 2;
    }
    rows.rows.slots = slots.data(), rows.rows.num_tokens = slots.size(), rows.rows.num_layers = kLayers;
    EXPECT_EQ(kvc_storage_store(storage.get(), &rows.rows, nullptr), KVC_OK) << kvc_last_error();
  }
  static kvc_storage_config config_of(const char* device) {
    kvc_storage_config c = small_config(device);
    c.num_layers = kLayers;
    return c;
  }
  kvc_attention_info plan() {
    kvc_attention_info found = {};
    found.struct_size = sizeof found;
    EXPECT_EQ(kvc_storage_explain(storage.get(), &a, &found), KVC_OK) << kvc_last_error();
    return found;
  }
  void give_memory() {
    memory.resize(plan().plan_bytes / 8 + 2, ~uint64_t{0});
    a.run.plan = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.data()) + 15) / 16 * 16);
    a.run.plan_bytes = plan().plan_bytes;
  }
  // All layers; those after the first one by its plan, if there is memory for it.
  void attend(kvc_stream* stream) {
    for (a.layer = 0; a.layer < kLayers; ++a.layer) {
      a.out = outs[a.layer].data();
      const uint32_t flags = a.run.flags;
      if (a.run.plan != nullptr && a.layer != 0) a.run.flags |= KVC_LAUNCH_PLANNED;
      ASSERT_EQ(kvc_storage_attend(storage.get(), &a, stream), KVC_OK) << kvc_last_error();
      a.run.flags = flags;
    }
    a.layer = 0;
  }
  void clear() {
    for (std::vector<float>& out : outs) std::fill(out.begin(), out.end(), -99.0f);
  }

  const StoragePtr storage;
  std::vector<float> q = std::vector<float>(kRequests * 2 * kHeads * kDim), outs[kLayers];
  uint64_t offsets[kRequests + 1] = {0, 1, 2, 3}, lens[kRequests] = {17, 20, 32};
  int32_t tables[kRequests * kStride] = {4, 1, 4, 2, 4, 3};
  std::vector<uint64_t> memory;
  AttentionCall a;
};

}  // namespace kvc::test
