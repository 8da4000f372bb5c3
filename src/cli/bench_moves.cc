// SPDX-License-Identifier: Apache-2.0
// Stores, gathers, copies and swaps of a BenchSubject.
#include <algorithm>
#include <cstring>
#include <optional>

#include "cli/bench_dtype.h"
#include "cli/bench_rope.h"
#include "cli/bench_subject.h"

namespace kvcli {

BenchTimes BenchSubject::move(Move what) {
  const BenchMemory k = row_memory(device_, tokens()), v = row_memory(device_, tokens());
  kvc_rows rows = rows_of(row_dtype(dtype_), tokens(), k, v);
  const std::vector<BenchBlocks> blocks = sampled_blocks();
  const bool checks = options_.check && what != Move::kRotateThenStore, gathers = what == Move::kGather;
  std::optional<BenchArray> arrays[2];  // keys and values that are gathered
  if (!gathers) check(kvc_storage_gather(storage_.get(), &rows, nullptr));  // stored again below
  if (checks && !gathers) clear(blocks);
  std::vector<uint64_t> sampled;
  for (const BenchBlocks& block : blocks)
    for (uint64_t t = block.first * options_.block_size;
         t < std::min((block.first + 1) * options_.block_size, tokens()); ++t)
      sampled.push_back(t);
  if (checks && gathers) {
    arrays[0].emplace(device_, rows.k, tokens(), options_.kv_heads, options_.head_dim, rows.dtype);
    if (rows.v != nullptr)
      arrays[1].emplace(device_, rows.v, tokens(), options_.kv_heads, value_dim(), rows.dtype);
    for (auto& array : arrays)
      if (array) array->spoil(sampled);
  }
  // As in an engine, indices lie on the device: host indices would need another launch.
  const BenchMemory table = place(table_);
  if (stream_ != nullptr) {
    rows.flags = KVC_ROWS_ON_DEVICE;
    rows.block_table = table.data<int32_t>();
  }
  std::vector<int64_t> positions(options_.rope ? tokens() : 0);
  for (size_t t = 0; t < positions.size(); ++t) positions[t] = static_cast<int64_t>(t % options_.context);
  std::optional<BenchMemory> all_angles, device_positions;
  kvc_rope_rows keys{};
  if (options_.rope) {
    device_positions.emplace(place(positions));
    rotate_by(all_angles.emplace(angles()).data<float>(), options_, device_positions->data(), &rows);
    keys = keys_of(rows, options_);
    if (what == Move::kRotateThenStore) rows.rope_table = nullptr;
  }
  const BenchTimes times = time([&](uint32_t call) {
    rows.first_layer = layer_of(call);
    if (what == Move::kRotateThenStore) check(kvc_rope_apply(&keys));
    check(gathers ? kvc_storage_gather(storage_.get(), &rows, stream_.get())
                  : kvc_storage_store(storage_.get(), &rows, stream_.get()));
  });
  if (!checks) return times;
  if (!gathers) {
    compare_stored(blocks, store_on_the_cpu(blocks));
    return times;
  }
  BenchRows found;
  if (arrays[0]) found.keys = arrays[0]->read(sampled);
  if (arrays[1]) found.values = arrays[1]->read(sampled);
  std::vector<int64_t> slots(sampled.size());
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
  const BenchReference reference(config_, *source_, blocks, layers_ - 1, 1);
  compare(found, gather_floats(nullptr, reference.storage(), 0, slots));
  return times;
}

BenchTimes BenchSubject::copy() {
  std::vector<kvc_block_copy> copies;
  for (size_t i = 0; i + 1 < table_.size(); i += 2) copies.push_back({table_[i], table_[i + 1]});
  if (copies.empty()) throw InputError("--context must be at least two blocks");
  // A call copies all layers of half the blocks.
  const double calls = static_cast<double>(table_.size()) / static_cast<double>(copies.size());
  const BenchTimes times = time([&](uint32_t call) {
    if (layer_of(call) != 0) return;
    check(kvc_storage_copy_blocks(storage_.get(), copies.data(), copies.size(), stream_.get()));
  });
  if (options_.check) {  // each destination equals its source now
    std::vector<BenchBlocks> sources, copied;
    for (const uint64_t i : some_of(copies.size())) {
      sources.push_back({2 * i, 1});
      copied.push_back({2 * i + 1, 1});
    }
    compare_stored(copied, BenchReference(config_, *source_, sources, layers_ - 1, 1));
  }
  return {times.seconds * calls, times.enqueue_seconds * calls};
}

BenchTimes BenchSubject::swap(bool out) {
  std::vector<kvc_block_copy> copies(table_.size());
  const size_t bytes = table_.size() * info_.block_bytes;
  const BenchMemory pages(device_, shared_kind(device_), bytes);
  const auto run = [&](bool outward, kvc_stream* stream) {
    swap_blocks(storage_.get(), copies, outward, pages.data(), bytes, stream);
  };
  for (size_t i = 0; i < copies.size(); ++i) copies[i] = {table_[i], static_cast<int32_t>(i)};
  run(true, nullptr);  // writes the pages, and lets the device do its measurement
  if (!out)
    for (kvc_block_copy& copy : copies) std::swap(copy.source, copy.destination);
  const std::vector<BenchBlocks> blocks = sampled_blocks();
  if (options_.check && !out) clear(blocks);
  if (options_.check && out)
    for (const BenchBlocks& block : blocks)
      std::memset(pages.data() + block.first * info_.block_bytes, 0xA5, info_.block_bytes);
  const BenchTimes times = time([&](uint32_t call) {
    if (layer_of(call) == 0) run(out, stream_.get());  // all layers at once
  });
  if (!options_.check) return times;
  if (!out) {
    compare_stored(blocks, BenchReference(config_, *source_, blocks, layers_ - 1, 1));
    return times;
  }
  const BenchReference reference(config_, *source_, blocks, 0, layers_);
  const BenchMemory expected(nullptr, KVC_MEMORY_HOST, blocks.size() * info_.block_bytes);
  std::vector<kvc_block_copy> all;
  for (const int32_t i : reference.table()) all.push_back({i, i});
  swap_blocks(reference.storage(), all, true, expected.data(), blocks.size() * info_.block_bytes, nullptr);
  for (size_t i = 0; i < blocks.size(); ++i)
    compare_bytes(pages.data<char>() + blocks[i].first * info_.block_bytes,
                  expected.data<char>() + i * info_.block_bytes, info_.block_bytes, &checked_);
  return times;
}

std::vector<BenchBlocks> BenchSubject::sampled_blocks() const {
  std::vector<BenchBlocks> blocks;
  for (const uint64_t i : some_of((tokens() + options_.block_size - 1) / options_.block_size))
    blocks.push_back({i, 1});
  return blocks;
}

void BenchSubject::clear(const std::vector<BenchBlocks>& blocks) {
  std::vector<int32_t> ids(blocks.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = table_[blocks[i].first];
  check(kvc_storage_zero_blocks(storage_.get(), ids.data(), ids.size(), nullptr));
}

// As move(): gathers rows and stores them again, with rotated keys or not.
BenchReference BenchSubject::store_on_the_cpu(const std::vector<BenchBlocks>& blocks) const {
  BenchReference reference(config_, *source_, blocks, 0, 1);
  const size_t tokens = blocks.size() * options_.block_size;
  const BenchMemory k = row_memory(nullptr, tokens), v = row_memory(nullptr, tokens);
  kvc_rows rows = rows_of(row_dtype(dtype_), tokens, k, v);
  rows.block_table = reference.table().data();
  rows.block_table_size = reference.table().size();
  check(kvc_storage_gather(reference.storage(), &rows, nullptr));
  std::vector<float> table;
  std::vector<int64_t> positions;
  if (options_.rope) {
    table = rope_angles(options_);
    for (const BenchBlocks& block : blocks)
      for (uint64_t t = block.first * options_.block_size; t < (block.first + 1) * options_.block_size; ++t)
        positions.push_back(static_cast<int64_t>(t % options_.context));
    rotate_by(table.data(), options_, positions.data(), &rows);
  }
  check(kvc_storage_store(reference.storage(), &rows, nullptr));
  return reference;
}

void BenchSubject::compare_stored(const std::vector<BenchBlocks>& blocks, const BenchReference& reference) {
  std::vector<int64_t> slots, expected;
  for (size_t i = 0; i < blocks.size(); ++i)
    for (uint32_t offset = 0; offset < options_.block_size; ++offset) {
      if (blocks[i].first * options_.block_size + offset >= tokens()) break;
      slots.push_back(int64_t{table_[blocks[i].first]} * options_.block_size + offset);
      expected.push_back(static_cast<int64_t>(i * options_.block_size + offset));
    }
  compare(gather_floats(device_, storage_.get(), layers_ - 1, slots),
          gather_floats(nullptr, reference.storage(), 0, expected));
}

// Results must be equal bit by bit: the limit stays 0.
void BenchSubject::compare(const BenchRows& found, const BenchRows& expected) {
  compare_rows(found.keys, expected.keys, options_.head_dim, &checked_);
  compare_rows(found.values, expected.values, value_dim(), &checked_);
}

}  // namespace kvcli
