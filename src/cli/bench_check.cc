// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "cli/bench_memory.h"

namespace kvcli {
namespace {

void add(double error, BenchCheck* check) {
  ++check->rows;
  if (std::isnan(error) || error > check->max_error)
    check->max_error = error;  // NaN stays: no number is larger
}

// Floats that host and device exchange.
BenchMemory shared_floats(const char* device, size_t count) {
  return BenchMemory(device, shared_kind(device), std::max<size_t>(count, 1) * sizeof(float));
}

}  // namespace

void compare_rows(const std::vector<float>& found, const std::vector<float>& expected, size_t width,
                  BenchCheck* check) {
  if (found.size() != expected.size()) throw LibraryError("a check compares rows of different numbers");
  for (size_t first = 0; first < found.size(); first += width) {
    double distance = 0, norm = 0;
    for (size_t i = first; i < first + width; ++i) {
      const double difference = double{found[i]} - double{expected[i]};
      distance += difference * difference;
      norm += double{expected[i]} * double{expected[i]};
    }
    add(distance == 0 ? 0 : std::sqrt(distance / norm), check);
  }
}

void compare_bytes(const char* found, const char* expected, size_t bytes, BenchCheck* check) {
  size_t different = 0;
  for (size_t i = 0; i < bytes; ++i) different += found[i] != expected[i] ? 1 : 0;
  add(static_cast<double>(different) / static_cast<double>(bytes), check);
}

std::vector<uint64_t> some_of(uint64_t count) {
  std::vector<uint64_t> some = {0, count / 3, count - 1};
  some.erase(std::unique(some.begin(), some.end()), some.end());
  return some;
}

BenchArray::BenchArray(const char* device, void* data, uint64_t rows, uint32_t heads, uint32_t dim,
                       int32_t dtype)
    : device_(device), heads_(heads), dim_(dim) {
  const uint64_t row_bytes = uint64_t{heads} * dim * (dtype == KVC_FLOAT32 ? 4 : 2);
  if (row_bytes % 16 != 0)
    throw InputError("--check needs tokens whose rows are a multiple of 16 bytes, and these have " +
                     std::to_string(row_bytes) + ": give another --head-dim, or leave --check out");
  auto config = make<kvc_storage_config>();
  config.num_blocks = rows;
  config.num_layers = config.num_heads = 1;
  config.block_size = heads;
  config.head_dim = dim;
  config.dtype = dtype;
  config.flags = KVC_STORAGE_LATENT;
  config.alignment = 16;
  config.memory = data;
  config.memory_size = rows * row_bytes;
  config.device = device;
  storage_.reset(ask<kvc_storage*>(kvc_storage_create, &config));
}

void BenchArray::move(const std::vector<uint64_t>& rows, bool out, std::vector<float>* values) {
  const BenchMemory memory = shared_floats(device_, values->size());
  if (!out) std::memcpy(memory.data(), values->data(), values->size() * sizeof(float));
  const std::vector<int32_t> table(rows.begin(), rows.end());
  auto all = make<kvc_rows>();
  all.k = memory.data();
  all.num_tokens = rows.size() * heads_;
  all.dtype = KVC_FLOAT32;
  all.block_table = table.data();
  all.block_table_size = table.size();
  check(out ? kvc_storage_gather(storage_.get(), &all, nullptr)
            : kvc_storage_store(storage_.get(), &all, nullptr));
  if (out) std::memcpy(values->data(), memory.data(), values->size() * sizeof(float));
}

std::vector<float> BenchArray::read(const std::vector<uint64_t>& rows) {
  std::vector<float> values(rows.size() * heads_ * dim_);
  move(rows, true, &values);
  return values;
}

void BenchArray::spoil(const std::vector<uint64_t>& rows) {
  std::vector<float> values(rows.size() * heads_ * dim_, std::numeric_limits<float>::quiet_NaN());
  move(rows, false, &values);
}

BenchRows gather_floats(const char* device, kvc_storage* storage, uint32_t layer,
                        const std::vector<int64_t>& slots) {
  const auto info = ask<kvc_storage_info>(kvc_storage_properties, storage);
  const bool latent = (info.flags & KVC_STORAGE_LATENT) != 0;
  BenchRows found;
  found.keys.resize(slots.size() * info.num_heads * info.head_dim);
  found.values.resize(latent ? 0 : slots.size() * info.num_heads * info.v_head_dim);
  const BenchMemory k = shared_floats(device, found.keys.size()),
                    v = shared_floats(device, found.values.size());
  auto rows = make<kvc_rows>();
  rows.k = k.data();
  rows.v = latent ? nullptr : v.data();
  rows.num_tokens = slots.size();
  rows.first_layer = layer;
  rows.dtype = KVC_FLOAT32;
  rows.slots = slots.data();
  check(kvc_storage_gather(storage, &rows, nullptr));
  std::copy_n(k.data<float>(), found.keys.size(), found.keys.begin());
  std::copy_n(v.data<float>(), found.values.size(), found.values.begin());
  return found;
}

}  // namespace kvcli
