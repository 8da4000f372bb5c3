// SPDX-License-Identifier: Apache-2.0
// The memory of the content oracle: 64 bits per slot, 0 = never written. Either an array, or the keys and
// values of a kvc_storage, so that bytes go through the library. Callers give valid slots.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace kvcli {

class SlotMemory {
 public:
  virtual ~SlotMemory() = default;
  virtual void write(std::span<const int64_t> slots, std::span<const uint64_t> values) = 0;
  virtual void read(std::span<const int64_t> slots, std::span<uint64_t> values) = 0;
};

std::unique_ptr<SlotMemory> make_array_memory(uint64_t num_blocks, uint32_t block_size);
/// A slot whose key and value disagree reads as 0.
std::unique_ptr<SlotMemory> make_storage_memory(uint64_t num_blocks, uint32_t block_size);

}  // namespace kvcli
