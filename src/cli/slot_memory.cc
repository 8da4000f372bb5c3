// SPDX-License-Identifier: Apache-2.0
#include "cli/slot_memory.h"

#include <cstdlib>
#include <new>
#include <vector>

#include "cli/library.h"

namespace kvcli {
namespace {

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};

class ArrayMemory : public SlotMemory {
 public:
  explicit ArrayMemory(uint64_t num_slots)  // pages are mapped when they are touched
      : memory_(static_cast<uint64_t*>(std::calloc(num_slots, sizeof(uint64_t)))) {
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  void write(std::span<const int64_t> slots, std::span<const uint64_t> values) override {
    for (size_t i = 0; i < slots.size(); ++i) memory_[static_cast<size_t>(slots[i])] = values[i];
  }
  void read(std::span<const int64_t> slots, std::span<uint64_t> values) override {
    for (size_t i = 0; i < slots.size(); ++i) values[i] = memory_[static_cast<size_t>(slots[i])];
  }

 private:
  std::unique_ptr<uint64_t[], FreeDeleter> memory_;
};

/// One layer, one head, keys and values of two floats each: the bits of the number and their complement.
class StorageMemory : public SlotMemory {
 public:
  StorageMemory(uint64_t num_blocks, uint32_t block_size) {
    auto config = make<kvc_storage_config>();
    config.num_blocks = num_blocks;
    config.num_layers = config.num_heads = 1;
    config.head_dim = 2;
    config.block_size = block_size;
    config.dtype = KVC_FLOAT32;
    storage_.reset(ask<kvc_storage*>(kvc_storage_create, &config));
  }
  void write(std::span<const int64_t> slots, std::span<const uint64_t> values) override {
    keys_.assign(values.begin(), values.end());
    inverse_.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) inverse_[i] = ~values[i];
    const kvc_rows rows = rows_of(slots);
    check(kvc_storage_store(storage_.get(), &rows, nullptr));
  }
  void read(std::span<const int64_t> slots, std::span<uint64_t> values) override {
    keys_.resize(slots.size());
    inverse_.resize(slots.size());
    const kvc_rows rows = rows_of(slots);
    check(kvc_storage_gather(storage_.get(), &rows, nullptr));
    for (size_t i = 0; i < slots.size(); ++i) values[i] = keys_[i] == ~inverse_[i] ? keys_[i] : 0;
  }

 private:
  kvc_rows rows_of(std::span<const int64_t> slots) {
    auto rows = make<kvc_rows>();
    rows.k = keys_.data();
    rows.v = inverse_.data();
    rows.slots = slots.data();
    rows.num_tokens = slots.size();
    return rows;
  }

  Storage storage_;
  std::vector<uint64_t> keys_, inverse_;
};

}  // namespace

std::unique_ptr<SlotMemory> make_array_memory(uint64_t num_blocks, uint32_t block_size) {
  return std::make_unique<ArrayMemory>(num_blocks * block_size);
}

std::unique_ptr<SlotMemory> make_storage_memory(uint64_t num_blocks, uint32_t block_size) {
  return std::make_unique<StorageMemory>(num_blocks, block_size);
}

}  // namespace kvcli
