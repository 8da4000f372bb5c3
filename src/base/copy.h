// SPDX-License-Identifier: Apache-2.0
// Copies of bytes, past the caches if the caller wants: what moves more than they hold should not read its
// target first, nor push out what others need. Smaller copies are better left in the cache.
#pragma once
#include <cstddef>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace kvc {

// Of a whole call, from which on it goes past the caches.
inline constexpr size_t kStreamBytes = size_t{4} << 20;

inline bool can_stream(const void* to, size_t bytes) {
#if defined(__SSE2__)
  return reinterpret_cast<size_t>(to) % 16 == 0 && bytes % 64 == 0;
#else
  return (static_cast<void>(to), static_cast<void>(bytes), false);
#endif
}

#if defined(__SSE2__)
inline void stream_line(char* to, const char* from) {
  const auto* in = reinterpret_cast<const __m128i*>(from);
  auto* out = reinterpret_cast<__m128i*>(to);
  const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1), c = _mm_loadu_si128(in + 2),
                d = _mm_loadu_si128(in + 3);
  _mm_stream_si128(out, a);
  _mm_stream_si128(out + 1, b);
  _mm_stream_si128(out + 2, c);
  _mm_stream_si128(out + 3, d);
}
#endif

// Copies, past the caches if `stream` and alignment allow. Streamed bytes are seen by other threads only
// after the copying thread's stream_fence().
inline void copy_bytes(char* to, const char* from, size_t bytes, bool stream) {
#if defined(__SSE2__)
  if (stream && can_stream(to, bytes)) {
    // Four pages at once: more requests to memory are under way than one stream of lines makes.
    constexpr size_t kPage = 4096, kPages = 4;
    size_t done = 0;
    for (; done + kPages * kPage <= bytes; done += kPages * kPage) {
      for (size_t i = done; i < done + kPage; i += 64) {
        for (size_t page = 0; page < kPages; ++page)
          stream_line(to + i + page * kPage, from + i + page * kPage);
      }
    }
    for (; done < bytes; done += 64) stream_line(to + done, from + done);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

inline void stream_fence(bool stream) {
#if defined(__SSE2__)
  if (stream) _mm_sfence();
#else
  static_cast<void>(stream);
#endif
}

}  // namespace kvc
