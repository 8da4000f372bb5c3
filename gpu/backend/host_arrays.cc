// SPDX-License-Identifier: Apache-2.0
#include "backend/host_arrays.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace kvc::gpu {

void HostArrays::add_bytes(void* place, const char* data, size_t rows, size_t row_bytes, size_t stride) {
  constexpr uint64_t kAlignment = 16;
  assert(count_ < kMost);
  arrays_[count_++] = {place, data, rows, row_bytes, stride, bytes_};
  bytes_ += (rows * row_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void HostArrays::pack(uint64_t begin, uint64_t end, char* to) const {
  for (size_t i = 0; i < count_; ++i) {
    const Array& array = arrays_[i];
    const uint64_t first = std::max(begin, array.offset);
    const uint64_t last = std::min(end, array.offset + array.rows * array.row_bytes);
    for (uint64_t at = first; at < last;) {
      const uint64_t row = (at - array.offset) / array.row_bytes,
                     inside = (at - array.offset) % array.row_bytes;
      const uint64_t bytes = std::min(last - at, array.row_bytes - inside);
      std::memcpy(to + (at - begin), array.data + row * array.stride + inside, bytes);
      at += bytes;
    }
  }
}

void HostArrays::place(const char* on_device) const {
  for (size_t i = 0; i < count_; ++i) {
    const char* const at = on_device + arrays_[i].offset;
    std::memcpy(arrays_[i].place, &at, sizeof at);
  }
}

}  // namespace kvc::gpu
