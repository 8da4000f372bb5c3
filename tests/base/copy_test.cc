// SPDX-License-Identifier: Apache-2.0
// Copies of every length and alignment give the bytes and touch no others.
#include "base/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace kvc {
namespace {

// Lines, pages and groups of four pages are copied in different orders.
TEST(Copy, EveryLengthAndPlaceGivesTheBytesAndNoOthers) {
  constexpr size_t kMost = 3 * 4 * 4096 + 256, kMargin = 64;
  std::mt19937 random(5);
  std::vector<char> from(kMost + kMargin);
  for (char& byte : from) byte = static_cast<char>(random());
  std::vector<char> room(kMost + 4 * kMargin);
  char* const aligned = room.data() + kMargin - reinterpret_cast<size_t>(room.data()) % kMargin + kMargin;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{64}, size_t{100}, size_t{4096}, size_t{4 * 4096 - 64}, size_t{4 * 4096},
        size_t{4 * 4096 + 64}, size_t{4 * 4096 + 1}, size_t{2 * 4 * 4096}, kMost}) {
    for (const bool stream : {false, true}) {
      for (const size_t shift_to : {size_t{0}, size_t{16}, size_t{1}}) {
        for (const size_t shift_from : {size_t{0}, size_t{3}}) {
          SCOPED_TRACE(std::to_string(bytes) + (stream ? " streamed to " : " to ") +
                       std::to_string(shift_to) + " from " + std::to_string(shift_from));
          std::fill(room.begin(), room.end(), '\x5a');
          char* const to = aligned + shift_to;
          copy_bytes(to, from.data() + shift_from, bytes, stream);
          stream_fence(stream);
          ASSERT_EQ(std::memcmp(to, from.data() + shift_from, bytes), 0);
          for (const char* at = room.data(); at != room.data() + room.size(); ++at) {
            if (at == to) at += bytes;
            ASSERT_EQ(*at, '\x5a') << at - to;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvc
