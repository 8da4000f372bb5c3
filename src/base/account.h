// SPDX-License-Identifier: Apache-2.0
// An allocator that counts: the bytes that one object has from its allocator, and the most that it has had.
// It lives as long as the memory. Thread-safe if its allocator is.
#pragma once
#include <atomic>

#include "base/env.h"

namespace kvc {

class Account {
 public:
  explicit Account(const Env& env) : inner_(env) {}
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  // The same world, with memory that is counted here. (env.cc)
  Env env();

  void add(uint64_t bytes) {
    const uint64_t now = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    uint64_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }
  void subtract(uint64_t bytes) { bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t peak_bytes() const { return peak_.load(std::memory_order_relaxed); }
  const Env& inner() const { return inner_; }

 private:
  const Env inner_;
  std::atomic<uint64_t> bytes_{0}, peak_{0};
};

}  // namespace kvc
