// SPDX-License-Identifier: Apache-2.0
// The portable path takes 8 bytes a step from 8 tables. The instructions have a latency of 3 cycles, so long
// inputs are summed as three lanes at once, which a table for "append a lane of zero bytes" joins. Carry-less
// products take the bytes 256 at a time to the same remainder (Gopal et al., "Fast CRC Computation for
// Generic Polynomials Using PCLMULQDQ").
#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__) && (!defined(__clang__) || defined(__ARM_FEATURE_CRC32))
#define KVC_CRC32C_ARM 1  // Clang shows the intrinsics only when the whole file may use them
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace kvc {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;  // reflected
constexpr size_t kLine = 64;

using CrcTable = std::array<uint32_t, 256>;

constexpr std::array<CrcTable, 8> make_step_tables() {
  std::array<CrcTable, 8> out = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    out[0][i] = crc;
  }
  for (size_t t = 1; t < 8; ++t)
    for (size_t i = 0; i < 256; ++i) out[t][i] = (out[t - 1][i] >> 8) ^ out[0][out[t - 1][i] & 255];
  return out;
}
constexpr std::array<CrcTable, 8> kWordTables = make_step_tables();

uint64_t load_word(const uint8_t* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// Here and below the register is the complement of the sum.
uint32_t sum_by_tables(uint32_t crc, const uint8_t* data, size_t size) noexcept {
  for (; size >= 8; data += 8, size -= 8) {
    const uint64_t word = load_word(data) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kWordTables[7 - i][word >> (8 * i) & 255];
  }
  for (; size > 0; ++data, --size) crc = (crc >> 8) ^ kWordTables[0][(crc ^ *data) & 255];
  return crc;
}

#if defined(__x86_64__) || defined(KVC_CRC32C_ARM)
#define KVC_CRC32C_INSTRUCTIONS 1

// Product of two polynomials modulo the CRC's; bit 31 is the coefficient of x^0.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

constexpr uint32_t power_of_x(size_t exponent) {
  uint32_t out = 1u << 31;
  for (uint32_t x = 1u << 30; exponent != 0; exponent /= 2, x = multiply(x, x))
    if (exponent % 2 != 0) out = multiply(out, x);
  return out;
}

template <size_t kLane>
constexpr std::array<CrcTable, 4> make_lane_tables() {
  static_assert(kLane % kLine == 0);
  constexpr uint32_t shift = power_of_x(8 * kLane);
  std::array<CrcTable, 4> out = {};
  for (uint32_t t = 0; t < 4; ++t)
    for (uint32_t i = 0; i < 256; ++i) out[t][i] = multiply(shift, i << (8 * t));
  return out;
}
template <size_t kLane>
constexpr std::array<CrcTable, 4> kLaneTables = make_lane_tables<kLane>();

template <size_t kLane>
uint32_t append_lane(uint32_t crc) {
  const auto& tables = kLaneTables<kLane>;
  return tables[0][crc & 255] ^ tables[1][crc >> 8 & 255] ^ tables[2][crc >> 16 & 255] ^ tables[3][crc >> 24];
}

#if defined(__x86_64__)
#define KVC_CRC32C_TARGET __attribute__((target("sse4.2")))
KVC_CRC32C_TARGET inline uint32_t add_word(uint32_t crc, uint64_t word) {
  return static_cast<uint32_t>(_mm_crc32_u64(crc, word));
}
KVC_CRC32C_TARGET inline uint32_t add_octet(uint32_t crc, uint8_t byte) { return _mm_crc32_u8(crc, byte); }
// To a multiple of 16 bytes, past the caches.
KVC_CRC32C_TARGET inline void copy_line(uint8_t* to, const uint8_t* from) {
  for (size_t i = 0; i < kLine; i += sizeof(__m128i))
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
}
inline void store_fence() { _mm_sfence(); }
bool have_crc32c() { return __builtin_cpu_supports("sse4.2") != 0; }
#else
#if defined(__clang__)
#define KVC_CRC32C_TARGET
#else
#define KVC_CRC32C_TARGET __attribute__((target("+crc")))
#endif
KVC_CRC32C_TARGET inline uint32_t add_word(uint32_t crc, uint64_t word) { return __crc32cd(crc, word); }
KVC_CRC32C_TARGET inline uint32_t add_octet(uint32_t crc, uint8_t byte) { return __crc32cb(crc, byte); }
inline void copy_line(uint8_t* to, const uint8_t* from) { std::memcpy(to, from, kLine); }
inline void store_fence() {}
bool have_crc32c() {
  constexpr unsigned long kHwcapCrc32 = 1ul << 7;
  return (getauxval(AT_HWCAP) & kHwcapCrc32) != 0;
}
#endif

// With kCopy each line also goes to `to` when it has been summed: memory is read once. Short lanes leave the
// loads and stores of a page nearly in order; they are fetched ahead and stored past the caches, which is as
// fast as memcpy.
template <bool kCopy>
KVC_CRC32C_TARGET uint32_t sum_by_instructions(uint32_t crc, const uint8_t* data, size_t size,
                                               [[maybe_unused]] uint8_t* to) noexcept {
  constexpr size_t kLane = kCopy ? 256 : 2048, kAhead = 12 * kLane;
  size_t at = 0;
  for (; size - at >= 3 * kLane; at += 3 * kLane) {
    uint32_t second = 0, third = 0;
    for (size_t line = at; line < at + kLane; line += kLine) {
      if constexpr (kCopy)
        for (size_t lane = 0; lane < 3; ++lane) __builtin_prefetch(data + line + lane * kLane + kAhead);
      for (size_t i = line; i < line + kLine; i += 8) {
        const uint64_t words[] = {load_word(data + i), load_word(data + i + kLane),
                                  load_word(data + i + 2 * kLane)};
        crc = add_word(crc, words[0]);
        second = add_word(second, words[1]);
        third = add_word(third, words[2]);
      }
      if constexpr (kCopy)
        for (size_t lane = 0; lane < 3; ++lane)
          copy_line(to + line + lane * kLane, data + line + lane * kLane);
    }
    crc = append_lane<kLane>(append_lane<kLane>(crc) ^ second) ^ third;
  }
  if constexpr (kCopy) {
    store_fence();
    std::memcpy(to + at, data + at, size - at);
  }
  for (; size - at >= 8; at += 8) crc = add_word(crc, load_word(data + at));
  for (; at < size; ++at) crc = add_octet(crc, data[at]);
  return crc;
}

#if defined(__x86_64__)
#define KVC_CRC32C_PRODUCTS 1
#define KVC_PRODUCTS_TARGET __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))
bool have_products() {
  return have_crc32c() && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
}

// The factors that move 16 bytes over kBytes others: of their first 8 bytes and of their last ones. A product
// of reflected halves is 33 bits off.
template <size_t kBytes>
KVC_PRODUCTS_TARGET inline __m512i factors() {
  constexpr uint32_t first = power_of_x(8 * kBytes + 31), last = power_of_x(8 * kBytes - 33);
  return _mm512_set4_epi32(0, static_cast<int>(last), 0, static_cast<int>(first));
}
// What `bytes` add to others that are so far behind them.
KVC_PRODUCTS_TARGET inline __m512i move_over(__m512i bytes, __m512i by, __m512i others) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(bytes, by, 0x00),
                                   _mm512_clmulepi64_epi128(bytes, by, 0x11), others, kXorOfThree);
}

KVC_PRODUCTS_TARGET uint32_t sum_by_products(uint32_t crc, const uint8_t* data, size_t size) noexcept {
  constexpr size_t kAtOnce = 4 * kLine;
  if (size < 2 * kAtOnce) return sum_by_instructions<false>(crc, data, size, nullptr);
  const auto load = [&](size_t at) KVC_PRODUCTS_TARGET { return _mm512_loadu_si512(data + at); };
  __m512i lines[4] = {load(0), load(kLine), load(2 * kLine), load(3 * kLine)};
  lines[0] = _mm512_xor_si512(lines[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  const __m512i over_all = factors<kAtOnce>(), over_line = factors<kLine>();
  size_t at = kAtOnce;
  for (; size - at >= kAtOnce; at += kAtOnce)
    for (size_t i = 0; i < 4; ++i) lines[i] = move_over(lines[i], over_all, load(at + i * kLine));
  for (size_t i = 0; i < 3; ++i) lines[i + 1] = move_over(lines[i], over_line, lines[i + 1]);
  uint64_t words[kLine / sizeof(uint64_t)];  // have the remainder of all before `at`
  _mm512_storeu_si512(words, lines[3]);
  crc = 0;
  for (const uint64_t word : words) crc = add_word(crc, word);
  return sum_by_instructions<false>(crc, data + at, size - at, nullptr);
}
#endif

#else
bool have_crc32c() { return false; }
#endif
#if !defined(KVC_CRC32C_PRODUCTS)
bool have_products() { return false; }
#endif

}  // namespace

bool crc32c_supports(Crc32cPath path) noexcept {
  static const bool instructions = have_crc32c(), products = have_products();
  return path == Crc32cPath::kTables || (path == Crc32cPath::kProducts ? products : instructions);
}

uint32_t crc32c_by(Crc32cPath path, const void* data, size_t size, uint32_t before) noexcept {
  const auto* bytes = static_cast<const uint8_t*>(data);
#if defined(KVC_CRC32C_PRODUCTS)
  if (path == Crc32cPath::kProducts) return ~sum_by_products(~before, bytes, size);
#endif
#if defined(KVC_CRC32C_INSTRUCTIONS)
  if (path == Crc32cPath::kInstructions) return ~sum_by_instructions<false>(~before, bytes, size, nullptr);
#endif
  static_cast<void>(path);
  return ~sum_by_tables(~before, bytes, size);
}

uint32_t crc32c(const void* data, size_t size, uint32_t before) noexcept {
  static const Crc32cPath path = crc32c_supports(Crc32cPath::kProducts)       ? Crc32cPath::kProducts
                                 : crc32c_supports(Crc32cPath::kInstructions) ? Crc32cPath::kInstructions
                                                                              : Crc32cPath::kTables;
  return crc32c_by(path, data, size, before);
}

uint32_t crc32c_copy(void* to, const void* from, size_t size, uint32_t before) noexcept {
#if defined(KVC_CRC32C_INSTRUCTIONS)
  if (size != 0 && crc32c_supports(Crc32cPath::kInstructions) && reinterpret_cast<size_t>(to) % 16 == 0)
    return ~sum_by_instructions<true>(~before, static_cast<const uint8_t*>(from), size,
                                      static_cast<uint8_t*>(to));
#endif
  if (size != 0) std::memcpy(to, from, size);
  return crc32c(to, size, before);
}

}  // namespace kvc
