// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 after FIPS 180-4: section 4.1.2 (functions), 4.2.2 (constants), 5.1.1 (padding), 6.2.2 (block
// function). Beside the scalar block function there is one with SHA-NI for x86-64 and one with the SHA2
// instructions for aarch64.
#include "base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__) && (!defined(__clang__) || defined(__ARM_FEATURE_SHA2))
#define KVC_SHA256_ARM 1  // Clang shows the intrinsics only when the whole file may use them
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

namespace kvc {
namespace {

// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(64) constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// First 32 bits of the fractional parts of the square roots of the first 8 primes.
constexpr uint32_t kInitial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

constexpr size_t kBlockBytes = 64;
constexpr size_t kLengthBytes = 8;  // the message length in bits, at the end of the padding

uint32_t load_big_endian(const uint8_t* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return __builtin_bswap32(word);
}

void store_big_endian(uint8_t* bytes, uint32_t word) {
  word = __builtin_bswap32(word);
  std::memcpy(bytes, &word, sizeof word);
}

void blocks_scalar(uint32_t* state, const uint8_t* blocks, size_t num_blocks) noexcept {
  for (; num_blocks > 0; --num_blocks, blocks += kBlockBytes) {
    uint32_t w[64];
    for (size_t t = 0; t < 16; ++t) w[t] = load_big_endian(blocks + 4 * t);
    for (size_t t = 16; t < 64; ++t) {
      const uint32_t sigma0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
      const uint32_t sigma1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
      w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (size_t t = 0; t < 64; ++t) {
      const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t choose = (e & f) ^ (~e & g);
      const uint32_t t1 = h + sum1 + choose + kRound[t] + w[t];
      const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
      h = g, g = f, f = e, e = d + t1;
      d = c, c = b, b = a, a = t1 + sum0 + majority;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
  }
}

#if defined(__x86_64__)
#define KVC_SHA256_INSTRUCTIONS 1

bool have_instructions() {
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_SSSE3) || !(ecx & bit_SSE4_1)) return false;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & (1u << 29)) != 0;  // CPUID.7.0:EBX.SHA
}

// The instructions keep the state as {F,E,B,A} and {H,G,D,C} (lowest lane first) and do two rounds each: one
// turns the second vector into the new first one, the old first one being the new second. A round waits for
// the one before, so two messages beside each other take little longer than one.
template <int kMessages>
__attribute__((target("sha,sse4.1,ssse3"), always_inline)) inline void rounds_of(
    uint32_t* const (&states)[kMessages], const uint8_t* const (&first)[kMessages], size_t num_blocks) {
  const __m128i swap_bytes = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i abef[kMessages], cdgh[kMessages];
#pragma GCC unroll 2
  for (int m = 0; m < kMessages; ++m) {
    const __m128i dcba = _mm_loadu_si128(reinterpret_cast<const __m128i*>(states[m]));
    const __m128i hgfe = _mm_loadu_si128(reinterpret_cast<const __m128i*>(states[m] + 4));
    const __m128i badc = _mm_shuffle_epi32(dcba, 0xb1);  // lanes B,A,D,C
    const __m128i efgh = _mm_shuffle_epi32(hgfe, 0x1b);  // lanes H,G,F,E
    abef[m] = _mm_alignr_epi8(badc, efgh, 8);            // lanes F,E,B,A
    cdgh[m] = _mm_blend_epi16(efgh, badc, 0xf0);         // lanes H,G,D,C
  }
  for (size_t at = 0; num_blocks > 0; --num_blocks, at += kBlockBytes) {
    __m128i abef_before[kMessages], cdgh_before[kMessages], words[kMessages][4];
#pragma GCC unroll 2
    for (int m = 0; m < kMessages; ++m) abef_before[m] = abef[m], cdgh_before[m] = cdgh[m];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {  // rounds 4i .. 4i+3
      const __m128i constants = _mm_load_si128(reinterpret_cast<const __m128i*>(kRound + 4 * i));
#pragma GCC unroll 2
      for (int m = 0; m < kMessages; ++m) {
        __m128i(&w)[4] = words[m];
        __m128i& now = w[i % 4];  // holds the words of 16 rounds ago until it is replaced
        if (i < 4) {
          now = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first[m] + at + 16 * i));
          now = _mm_shuffle_epi8(now, swap_bytes);
        } else {
          const __m128i back1 = w[(i + 3) % 4], back2 = w[(i + 2) % 4], back3 = w[(i + 1) % 4];
          now = _mm_sha256msg1_epu32(now, back3);
          now = _mm_add_epi32(now, _mm_alignr_epi8(back1, back2, 4));
          now = _mm_sha256msg2_epu32(now, back1);
        }
        const __m128i sum = _mm_add_epi32(now, constants);
        cdgh[m] = _mm_sha256rnds2_epu32(cdgh[m], abef[m], sum);
        abef[m] = _mm_sha256rnds2_epu32(abef[m], cdgh[m], _mm_shuffle_epi32(sum, 0x0e));
      }
    }
#pragma GCC unroll 2
    for (int m = 0; m < kMessages; ++m) {
      abef[m] = _mm_add_epi32(abef[m], abef_before[m]);
      cdgh[m] = _mm_add_epi32(cdgh[m], cdgh_before[m]);
    }
  }
#pragma GCC unroll 2
  for (int m = 0; m < kMessages; ++m) {
    const __m128i abef_up = _mm_shuffle_epi32(abef[m], 0x1b);  // lanes A,B,E,F
    const __m128i cdgh_up = _mm_shuffle_epi32(cdgh[m], 0x1b);  // lanes C,D,G,H
    _mm_storeu_si128(reinterpret_cast<__m128i*>(states[m]), _mm_unpacklo_epi64(abef_up, cdgh_up));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(states[m] + 4), _mm_unpackhi_epi64(abef_up, cdgh_up));
  }
}

__attribute__((target("sha,sse4.1,ssse3"))) void blocks_instructions(uint32_t* state, const uint8_t* blocks,
                                                                     size_t num_blocks) noexcept {
  rounds_of<1>({state}, {blocks}, num_blocks);
}

__attribute__((target("sha,sse4.1,ssse3"))) void two_instructions(uint32_t* state, const uint8_t* block,
                                                                  uint32_t* other_state,
                                                                  const uint8_t* other_block) noexcept {
  rounds_of<2>({state, other_state}, {block, other_block}, 1);
}

#elif defined(KVC_SHA256_ARM)
#define KVC_SHA256_INSTRUCTIONS 1

bool have_instructions() {
  constexpr unsigned long kHwcapSha2 = 1ul << 6;
  return (getauxval(AT_HWCAP) & kHwcapSha2) != 0;
}

#if !defined(__clang__)
__attribute__((target("+crypto")))
#endif
void blocks_instructions(uint32_t* state, const uint8_t* blocks, size_t num_blocks) noexcept {
  uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
  for (; num_blocks > 0; --num_blocks, blocks += kBlockBytes) {
    const uint32x4_t abcd_before = abcd, efgh_before = efgh;
    uint32x4_t w[4];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {  // rounds 4i .. 4i+3
      uint32x4_t& now = w[i % 4];   // holds the words of 16 rounds ago until it is replaced
      if (i < 4) {
        now = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(blocks + 16 * i)));
      } else {
        const uint32x4_t back1 = w[(i + 3) % 4], back2 = w[(i + 2) % 4], back3 = w[(i + 1) % 4];
        now = vsha256su1q_u32(vsha256su0q_u32(now, back3), back2, back1);
      }
      const uint32x4_t sum = vaddq_u32(now, vld1q_u32(kRound + 4 * i));
      const uint32x4_t abcd_old = abcd;
      abcd = vsha256hq_u32(abcd, efgh, sum);
      efgh = vsha256h2q_u32(efgh, abcd_old, sum);
    }
    abcd = vaddq_u32(abcd, abcd_before);
    efgh = vaddq_u32(efgh, efgh_before);
  }
  vst1q_u32(state, abcd);
  vst1q_u32(state + 4, efgh);
}

void two_instructions(uint32_t* state, const uint8_t* block, uint32_t* other_state,
                      const uint8_t* other_block) noexcept {
  blocks_instructions(state, block, 1);
  blocks_instructions(other_state, other_block, 1);
}

#else
bool have_instructions() { return false; }
#endif

bool have_instructions_cached() {
  static const bool have = have_instructions();  // asking the CPU is slow in virtual machines
  return have;
}

void store_digest(const uint32_t* state, Digest256* digest) {
  for (size_t i = 0; i < 8; ++i) store_big_endian(digest->bytes + 4 * i, state[i]);
}

}  // namespace

bool Sha256::supports(Sha256Path path) noexcept {
  return path == Sha256Path::kScalar || have_instructions_cached();
}

Sha256::BlocksFunction Sha256::function_of([[maybe_unused]] Sha256Path path) noexcept {
#if defined(KVC_SHA256_INSTRUCTIONS)
  if (path == Sha256Path::kInstructions && have_instructions_cached()) return blocks_instructions;
#endif
  return blocks_scalar;
}

Sha256::Sha256() noexcept : Sha256(Sha256Path::kInstructions) {}

Sha256::Sha256(Sha256Path path) noexcept : blocks_(function_of(path)) { reset(); }

void Sha256::reset() noexcept {
  total_ = 0;
  std::memcpy(state_, kInitial, sizeof state_);
}

void Sha256::update(const void* data, size_t size) noexcept {
  if (size == 0) return;
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  const size_t used = total_ % kBlockBytes;
  total_ += size;
  if (used > 0) {
    const size_t part = std::min(size, kBlockBytes - used);
    std::memcpy(buffer_ + used, bytes, part);
    bytes += part;
    size -= part;
    if (used + part < kBlockBytes) return;
    blocks_(state_, buffer_, 1);
  }
  const size_t whole = size / kBlockBytes;
  if (whole > 0) blocks_(state_, bytes, whole);
  const size_t rest = size % kBlockBytes;
  if (rest > 0) std::memcpy(buffer_, bytes + whole * kBlockBytes, rest);
}

Digest256 Sha256::finish() noexcept {
  const uint64_t bits = total_ * 8;  // modulo 2^64, as the standard's limit allows
  size_t used = total_ % kBlockBytes;
  buffer_[used++] = 0x80;
  if (used > kBlockBytes - kLengthBytes) {
    std::memset(buffer_ + used, 0, kBlockBytes - used);
    blocks_(state_, buffer_, 1);
    used = 0;
  }
  std::memset(buffer_ + used, 0, kBlockBytes - kLengthBytes - used);
  store_big_endian(buffer_ + kBlockBytes - 8, static_cast<uint32_t>(bits >> 32));
  store_big_endian(buffer_ + kBlockBytes - 4, static_cast<uint32_t>(bits));
  blocks_(state_, buffer_, 1);
  Digest256 digest;
  store_digest(state_, &digest);
  reset();
  return digest;
}

size_t Sha256Pipeline::pad(uint8_t* rest, size_t used, uint64_t message_bytes) noexcept {
  const size_t bytes = (used + 1 + kLengthBytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  rest[used] = 0x80;
  std::memset(rest + used + 1, 0, bytes - used - 1 - kLengthBytes);
  const uint64_t bits = message_bytes * 8;
  store_big_endian(rest + bytes - 8, static_cast<uint32_t>(bits >> 32));
  store_big_endian(rest + bytes - 4, static_cast<uint32_t>(bits));
  return bytes;
}

Sha256Pipeline::Sha256Pipeline(Sha256Path path) noexcept
    : instructions_(path == Sha256Path::kInstructions && have_instructions_cached()) {}

void Sha256Pipeline::begin(const void* data, size_t size) noexcept {
  std::memcpy(next_, kInitial, sizeof next_);
  blocks(next_, static_cast<const uint8_t*>(data), size / kBlockBytes);
}

Digest256 Sha256Pipeline::finish(const uint8_t* rest, size_t rest_bytes, const void* next,
                                 size_t next_bytes) noexcept {
  uint32_t state[8];
  std::memcpy(state, next_, sizeof state);
  std::memcpy(next_, kInitial, sizeof next_);
  const auto* begun = static_cast<const uint8_t*>(next);
  size_t num_rest = rest_bytes / kBlockBytes, num_begun = next_bytes / kBlockBytes;
#if defined(KVC_SHA256_INSTRUCTIONS)
  for (; instructions_ && num_rest != 0 && num_begun != 0; --num_rest, --num_begun) {
    two_instructions(state, rest, next_, begun);
    rest += kBlockBytes, begun += kBlockBytes;
  }
#endif
  blocks(state, rest, num_rest);
  blocks(next_, begun, num_begun);
  Digest256 digest;
  store_digest(state, &digest);
  return digest;
}

void Sha256Pipeline::blocks(uint32_t* state, const uint8_t* data, size_t num_blocks) const noexcept {
  if (num_blocks == 0) return;
#if defined(KVC_SHA256_INSTRUCTIONS)
  if (instructions_) return blocks_instructions(state, data, num_blocks);
#endif
  blocks_scalar(state, data, num_blocks);
}

}  // namespace kvc
