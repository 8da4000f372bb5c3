// SPDX-License-Identifier: Apache-2.0
// Host arrays of a call, which the device gets as one packed copy.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/operations.h"

namespace kvc::gpu {

class HostArrays {
 public:
  // place() replaces the host's address by that of the copy. NULL stays NULL.
  template <typename T>
  void add(T*& host, size_t count) {
    uint64_t stride = count;
    add(host, 1, count, stride);
  }
  // Rows of `count` elements, `stride` apart; the copies lie side by side.
  template <typename T>
  void add(T*& host, size_t rows, size_t count, uint64_t& stride) {
    if (host == nullptr) return;
    add_bytes(&host, reinterpret_cast<const char*>(host), rows, count * sizeof(T), stride * sizeof(T));
    stride = count;
  }

  // All that are host arrays of a call: backend/operations.h.
  template <typename... Call>
  void add_all(Call&&... call) {
    for_each_host_array(call..., [this](auto&&... array) { add(array...); });
  }

  uint64_t bytes() const { return bytes_; }  // of the copy
  // Bytes [begin, end) of the copy to `to`.
  void pack(uint64_t begin, uint64_t end, char* to) const;
  // The copy lies at `on_device`.
  void place(const char* on_device) const;

 private:
  struct Array {
    void* place;  // of the pointer to it
    const char* data;
    size_t rows, row_bytes, stride;
    uint64_t offset;  // in the copy
  };
  static constexpr size_t kMost = 10;

  void add_bytes(void* place, const char* data, size_t rows, size_t row_bytes, size_t stride);

  Array arrays_[kMost];
  size_t count_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace kvc::gpu
