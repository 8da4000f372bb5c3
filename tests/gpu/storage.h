// SPDX-License-Identifier: Apache-2.0
// A storage of the CPU and the same bytes on the device; rows for both.
#pragma once
#include <optional>
#include <string>

#include "api/storage.h"
#include "api/storage_handle.h"
#include "gpu/device.h"
#include "kernels/kernels.h"

namespace kvc::gpu::test {

using kvc::test::info_of;
using kvc::test::kLayouts;
using kvc::test::Rows;
using kvc::test::StoragePtr;

inline constexpr int32_t kStoredTypes[] = {KVC_FLOAT32,     KVC_FLOAT16, KVC_BFLOAT16, KVC_FLOAT8_E4M3,
                                           KVC_FLOAT8_E5M2, KVC_INT8,    KVC_INT4};
inline constexpr int32_t kOutsideTypes[] = {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16};

template <typename List>
auto pick(std::mt19937& random, const List& list) {
  return std::data(list)[random() % std::size(list)];
}

// Floats of every kind: mostly of one size, now and then anything that has such bits, NaNs and infinities
// too, unless they have to be finite.
inline void fill_any(std::mt19937& random, int32_t dtype, std::vector<char>& rows, bool finite = false) {
  const auto kind = static_cast<uint32_t>(random() % (finite ? 2 : 4));
  std::normal_distribution<float> normal(0, kind == 0 ? 1e-3f : 10.0f);
  constexpr uint32_t kSpecial[] = {0,          0x80000000, 0x7F800000, 0xFF800000, 0x7FC01234, 0xFF812345,
                                   0x00000001, 0x7F7FFFFF, 0xFF7FFFFF, 0x00800000, 0x33000000, 0x43E80000};
  const size_t bytes = kvc::test::width(dtype);
  for (size_t i = 0; i + bytes <= rows.size(); i += bytes) {
    const float value = normal(random);
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (kind >= 2 && random() % 16 == 0)
      bits = random() % 2 != 0 ? pick(random, kSpecial) : static_cast<uint32_t>(random());
    if (kind == 3 && random() % 64 < 60) bits &= 0x80000000;  // rows of zeros, almost
    if (dtype == KVC_FLOAT32) {
      std::memcpy(&rows[i], &bits, 4);
    } else {
      // Of fp16 too the exponent is that of a common number, unless anything goes.
      auto half = static_cast<uint16_t>(bits >> 16);
      if (dtype == KVC_FLOAT16 && kind < 2)
        half = static_cast<uint16_t>((half & 0x83FFu) | (random() % 12 + 8) << 10);
      std::memcpy(&rows[i], &half, 2);
    }
  }
}

// Rows in the device's memory.
class DeviceRows {
 public:
  DeviceRows(const Rows& host, const Layout& layout)
      : k_(host.k), v_(host.v), slots_(host.slots), table_(table_of(host.rows)) {
    EXPECT_EQ(read_rows(layout, &host.rows, RowsUse::kStore, &rows_), KVC_OK) << kvc_last_error();
    rows_.k = k_.data();
    if (rows_.v != nullptr) rows_.v = v_.data();
    if (rows_.slots != nullptr) rows_.slots = slots_.data();
    if (rows_.block_table != nullptr)
      rows_.block_table = table_.data() + (rows_.block_table - host.rows.block_table);
  }
  kvc_backend_rows& rows() { return rows_; }
  std::vector<char> k() { return k_.get(); }
  std::vector<char> v() { return v_.get(); }

 private:
  static std::vector<int32_t> table_of(const kvc_rows& rows) {
    return {rows.block_table, rows.block_table + (rows.block_table == nullptr ? 0 : rows.block_table_size)};
  }

  DeviceArray<char> k_, v_;
  DeviceArray<int64_t> slots_;
  DeviceArray<int32_t> table_;
  kvc_backend_rows rows_;
};

class Pair {
 public:
  // Storages of this configuration are refused: no pair.
  static std::optional<Pair> make(const kvc_storage_config& config, std::mt19937& random) {
    kvc_storage* storage = nullptr;
    if (kvc_storage_create(&config, &storage) != KVC_OK) return std::nullopt;
    return Pair(StoragePtr(storage), random);
  }

  const Layout& layout() const { return cpu_->layout; }
  kvc_storage_info info() const { return info_of(cpu_.get()); }
  kvc_storage* cpu() { return cpu_.get(); }
  char* slab() { return slab_->data(); }
  std::vector<char> cpu_bytes() { return kvc::test::bytes_of(cpu_.get()); }
  std::vector<char> device_bytes() { return slab_->get(); }
  // Nothing, or where the slabs differ first.
  std::string difference() {
    const std::vector<char> a = cpu_bytes(), b = device_bytes();
    const auto at = static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
    if (at == a.size()) return "";
    const auto text = [at](const std::vector<char>& bytes) {
      return std::to_string(static_cast<unsigned char>(bytes[at]));
    };
    return "byte " + std::to_string(at) + " of the slab is " + text(b) + " instead of " + text(a);
  }
  // New bytes for both.
  void fill(std::mt19937& random) {
    const kvc_storage_info now = info();
    char* bytes = static_cast<char*>(now.data);
    for (uint64_t i = 0; i < now.slab_bytes; i += 4) {  // blocks are aligned to more
      const auto word = static_cast<uint32_t>(random());
      std::memcpy(bytes + i, &word, 4);
    }
    slab_->set(cpu_bytes());
  }

 private:
  Pair(StoragePtr cpu, std::mt19937& random) : cpu_(std::move(cpu)) {
    slab_ = std::make_unique<DeviceArray<char>>(info().slab_bytes);
    fill(random);
  }

  StoragePtr cpu_;
  std::unique_ptr<DeviceArray<char>> slab_;
};

inline std::string text_of(const kvc_storage_config& c) {
  std::string text;
  const auto add = [&](const char* name, auto value) {
    text += std::string(" ") + name + " " + std::to_string(value);
  };
  add("layout", c.layout), add("dtype", c.dtype), add("heads", c.num_heads), add("dim", c.head_dim);
  add("v_dim", c.v_head_dim), add("block", c.block_size), add("flags", c.flags), add("group", c.scale_group);
  add("k_scale", c.k_scale), add("layers", c.num_layers), add("blocks", c.num_blocks);
  return text;
}

}  // namespace kvc::gpu::test
