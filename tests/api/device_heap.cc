// SPDX-License-Identifier: Apache-2.0
// Most GPUs refuse rows in ordinary host memory, and the tests have theirs in vectors. Where the memory of
// KVC_TEST_DEVICE is not the host's, `new` takes from memory that is registered with it.
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>

#include "api/device.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these have a `new` of their own

namespace {

constexpr size_t kBytes = size_t{256} << 20, kSmallest = 64;

// Pieces of powers of two, each behind its size; what is freed serves the next one of that size.
class Heap {
 public:
  void start(char* memory) {
    const std::lock_guard lock(mutex_);
    begin_ = next_ = memory;
  }
  bool owns(const void* piece) const {
    return begin_ != nullptr && piece >= begin_ && piece < begin_ + kBytes;
  }
  void* take(size_t bytes) {  // nullptr: not from here
    const std::lock_guard lock(mutex_);
    if (begin_ == nullptr || bytes > kBytes / 2) return nullptr;
    const size_t size = std::bit_ceil(bytes + kSmallest);
    const auto order = static_cast<size_t>(std::countr_zero(size));
    if (Piece* piece = free_[order]; piece != nullptr) {
      free_[order] = piece->next;
      return piece;
    }
    if (size > static_cast<size_t>(begin_ + kBytes - next_)) return nullptr;
    char* piece = next_ + kSmallest;
    next_ += size;
    *reinterpret_cast<size_t*>(piece - kSmallest) = order;
    return piece;
  }
  void give(void* memory) {
    const std::lock_guard lock(mutex_);
    const size_t order = *reinterpret_cast<size_t*>(static_cast<char*>(memory) - kSmallest);
    auto* piece = static_cast<Piece*>(memory);
    piece->next = free_[order];
    free_[order] = piece;
  }

 private:
  struct Piece {
    Piece* next;
  };
  std::mutex mutex_;
  char *begin_ = nullptr, *next_ = nullptr;
  Piece* free_[64] = {};
};

constinit Heap heap;

class DeviceHeap : public testing::Environment {
  void SetUp() override {
    if (kvc::test::shares_host_memory()) return;
    void* memory = std::aligned_alloc(size_t{2} << 20, kBytes);
    ASSERT_NE(memory, nullptr);
    ASSERT_EQ(kvc_device_register(kvc::test::device(), memory, kBytes), KVC_OK) << kvc_last_error();
    heap.start(static_cast<char*>(memory));  // for good: objects with static lifetime may be in it
  }
};

const testing::Environment* const environment = testing::AddGlobalTestEnvironment(new DeviceHeap);

}  // namespace

void* operator new(size_t bytes) {
  void* memory = heap.take(bytes);
  if (memory == nullptr) memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  if (heap.owns(memory))
    heap.give(memory);
  else
    std::free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

#endif
