// SPDX-License-Identifier: Apache-2.0
// A storage of the CPU and the same one on the device, with the same bytes to begin with.
#pragma once
#include <optional>

#include "api/storage.h"
#include "api/storage_handle.h"
#include "gpu/device.h"
#include "kernels/kernels.h"

namespace kvc::gpu::test {

using kvc::test::info_of;
using kvc::test::Rows;

// Rows in the device's memory.
class DeviceRows {
 public:
  explicit DeviceRows(const Rows& host, const Layout& layout)
      : k_(host.k), v_(host.v), slots_(host.slots), rows_(host.rows), table_(table_of(host.rows)) {
    rows_.k = k_.data();
    rows_.v = host.rows.v == nullptr ? nullptr : v_.data();
    if (host.rows.slots != nullptr) rows_.slots = slots_.data();
    rows_.block_table = table_.data();
    if (rows_.num_layers == 0) rows_.num_layers = 1;
    complete(&rows_.k_head_stride, &rows_.k_token_stride, &rows_.k_layer_stride, layout.k_dim, layout);
    complete(&rows_.v_head_stride, &rows_.v_token_stride, &rows_.v_layer_stride, layout.v_dim, layout);
  }
  kvc_rows& rows() { return rows_; }
  std::vector<char> k() { return k_.get(); }
  std::vector<char> v() { return v_.get(); }

 private:
  static std::vector<int32_t> table_of(const kvc_rows& rows) {
    return {rows.block_table, rows.block_table + (rows.block_table == nullptr ? 0 : rows.block_table_size)};
  }
  void complete(int64_t* head, int64_t* token, int64_t* layer, uint32_t dim, const Layout& layout) {
    if (*head == 0) *head = dim;
    if (*token == 0) *token = *head * layout.num_heads;
    if (*layer == 0) *layer = *token * static_cast<int64_t>(rows_.num_tokens);
  }

  DeviceArray<char> k_, v_;
  DeviceArray<int64_t> slots_;
  kvc_rows rows_;
  DeviceArray<int32_t> table_;
};

class Pair {
 public:
  Pair(const kvc_storage_config& config, std::mt19937& random) : cpu(kvc::test::make(config)) {
    const kvc_storage_info info = info_of(cpu.get());
    char* bytes = static_cast<char*>(info.data);
    for (uint64_t i = 0; i < info.slab_bytes; ++i) bytes[i] = static_cast<char>(random());
    slab.emplace(kvc::test::bytes_of(cpu.get()));
  }
  const Layout& layout() const { return cpu->layout; }
  kvc_storage_info info() const { return info_of(cpu.get()); }
  void expect_equal(const std::string& what) {
    EXPECT_TRUE(kvc::test::bytes_of(cpu.get()) == slab->get()) << what << ": the slabs differ";
  }

  kvc::test::StoragePtr cpu;
  std::optional<DeviceArray<char>> slab;
};

}  // namespace kvc::gpu::test
