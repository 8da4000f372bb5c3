// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

namespace kvc {

Arena::~Arena() {
  while (chunks_ != nullptr) {
    Chunk* next = chunks_->next;
    memory_.release(chunks_, chunks_->size, kSmallest);
    chunks_ = next;
  }
}

bool Arena::add_chunk(size_t payload) {
  size_t size;
  if (!checked_add(payload, kSmallest, &size)) return false;
  void* memory = memory_.allocate(size, kSmallest);
  if (memory == nullptr) return false;
  // What is left of the old chunk serves the classes that it still holds.
  while (end_ - bump_ >= static_cast<ptrdiff_t>(kSmallest)) {
    size_t piece = next_power_of_two(static_cast<size_t>(end_ - bump_));
    if (piece > static_cast<size_t>(end_ - bump_)) piece >>= 1;
    release(bump_, piece);
    bump_ += piece;
  }
  auto* chunk = static_cast<Chunk*>(memory);
  chunk->next = chunks_;
  chunk->size = size;
  chunks_ = chunk;
  bump_ = static_cast<char*>(memory) + kSmallest;
  end_ = static_cast<char*>(memory) + size;
  return true;
}

void* Arena::allocate(size_t rounded_size) {
  Free*& head = free_[class_of(rounded_size)];
  if (head != nullptr) {
    void* buffer = head;
    head = head->next;
    return buffer;
  }
  if (static_cast<size_t>(end_ - bump_) < rounded_size &&
      !add_chunk(rounded_size < kChunk ? kChunk : rounded_size)) {
    return nullptr;
  }
  void* buffer = bump_;
  bump_ += rounded_size;
  return buffer;
}

void Arena::release(void* buffer, size_t rounded_size) {
  auto* entry = static_cast<Free*>(buffer);
  Free*& head = free_[class_of(rounded_size)];
  entry->next = head;
  head = entry;
}

}  // namespace kvc
