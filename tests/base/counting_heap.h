// SPDX-License-Identifier: Apache-2.0
// An Env whose memory is counted, checked and made to fail on demand. Every release must name the size and
// alignment of its allocation. Fresh memory is filled with a pattern, so that whoever relies on zeroes shows
// it. Thread-safe.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "base/env.h"

namespace kvc {

class CountingHeap {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;

  CountingHeap() = default;
  CountingHeap(const CountingHeap&) = delete;
  CountingHeap& operator=(const CountingHeap&) = delete;
  ~CountingHeap() { EXPECT_EQ(bytes_, 0u) << blocks_.size() << " allocations were not returned"; }

  Env env() {
    Env env = default_env();
    env.allocator_data = this;
    env.allocate = allocate;
    env.release = release;
    return env;
  }
  // Fails the allocation that follows `after` more successful ones, once; kNever = none.
  void fail_after(uint64_t after) { fail_at_ = after == kNever ? kNever : calls_ + after; }
  void fail_always(bool always) { always_ = always; }

  uint64_t calls() const { return calls_; }        // allocations asked for
  uint64_t failures() const { return failures_; }  // of those, refused
  uint64_t bytes() const { return bytes_; }        // allocated now

 private:
  struct Piece {
    size_t size, alignment;
  };

  static void* allocate(void* data, size_t size, size_t alignment) {
    auto& heap = *static_cast<CountingHeap*>(data);
    const std::lock_guard lock(heap.mutex_);
    if (heap.calls_++ == heap.fail_at_ || heap.always_) {
      ++heap.failures_;
      return nullptr;
    }
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment < sizeof(void*) ? sizeof(void*) : alignment, size) != 0)
      return nullptr;
    std::memset(memory, 0xa5, size);
    heap.blocks_[memory] = {size, alignment};
    heap.bytes_ += size;
    return memory;
  }

  static void release(void* data, void* memory, size_t size, size_t alignment) {
    auto& heap = *static_cast<CountingHeap*>(data);
    const std::lock_guard lock(heap.mutex_);
    const auto found = heap.blocks_.find(memory);
    ASSERT_NE(found, heap.blocks_.end()) << "released twice or never allocated";
    EXPECT_EQ(found->second.size, size);
    EXPECT_EQ(found->second.alignment, alignment);
    heap.bytes_ -= found->second.size;
    heap.blocks_.erase(found);
    std::free(memory);
  }

  std::mutex mutex_;
  std::map<void*, Piece> blocks_;
  uint64_t calls_ = 0, failures_ = 0, bytes_ = 0;
  uint64_t fail_at_ = kNever;
  bool always_ = false;
};

}  // namespace kvc
