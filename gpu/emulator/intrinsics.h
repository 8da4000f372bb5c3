// SPDX-License-Identifier: Apache-2.0
// portable.h on the emulator. KVC_GPU_WAVE, 32 or 64, is what kernels are compiled for.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/emulator.h"

#ifndef KVC_GPU_WAVE
#define KVC_GPU_WAVE 32
#endif

#define KVC_KERNEL(threads, blocks) void
#define KVC_ARGUMENT(type) const type
#define KVC_DEVICE inline
#define KVC_HOST_DEVICE inline
#define KVC_SHARED(type, name, count)                                          \
  type* const name = static_cast<type*>(::kvc::gpu::emulator::shared_variable( \
      ::kvc::gpu::key_of([] {}), sizeof(type) * (count), alignof(type) < 16 ? 16 : alignof(type)))
#define KVC_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::kvc::gpu::emulator::dynamic_shared())

namespace kvc::gpu {

inline constexpr uint32_t kWave = KVC_GPU_WAVE;
static_assert(kWave == 32 || kWave == 64);
using emulator::Place;

// An address for each place in the source.
template <typename Lambda>
const void* key_of(Lambda) {
  static const char key = 0;
  return &key;
}

template <typename... P, typename... A>
int launch(void (*kernel)(P...), Grid grid, uint32_t threads, size_t shared_bytes, Stream stream, A... args) {
  return emulator::launch({{grid.x, grid.y, grid.z}, threads, kWave, shared_bytes}, stream,
                          [=] { kernel(static_cast<P>(args)...); });
}

// ---- barriers, and what lanes tell each other ----

inline void sync_block(Place place = Place::current()) { emulator::sync_block(place); }
inline void sync_wave(Place place = Place::current()) { emulator::exchange("", 0, place); }

// What all lanes of the wave hand in: [lane].
template <typename T>
class Exchanged {
 public:
  Exchanged(const T& mine, const Place& place) : all_(emulator::exchange(&mine, sizeof mine, place)) {
    static_assert(sizeof(T) <= emulator::kMaxExchange);
  }
  T operator[](uint32_t lane) const {
    T value;
    std::memcpy(&value, all_ + lane * emulator::kMaxExchange, sizeof value);
    return value;
  }

 private:
  const unsigned char* all_;
};

template <typename T>
T shuffle_xor(T value, uint32_t mask, Place place = Place::current()) {
  return Exchanged<T>(value, place)[(threadIdx.x ^ mask) % kWave];
}
// From the lane `distance` below; the lowest ones keep their own.
template <typename T>
T shuffle_up(T value, uint32_t distance, Place place = Place::current()) {
  const uint32_t own = threadIdx.x % kWave;
  return Exchanged<T>(value, place)[own < distance ? own : own - distance];
}
inline uint64_t ballot(bool predicate, Place place = Place::current()) {
  const Exchanged<bool> all(predicate, place);
  uint64_t mask = 0;
  for (uint32_t i = 0; i < kWave; ++i) mask |= uint64_t{all[i]} << i;
  return mask;
}

// ---- memory ----

template <typename T>
T load_once(const T* at) {
  return *at;
}
template <typename T>
void store_once(T* at, const T& value) {
  *at = value;
}

inline void copy_async(void* to, const void* from, uint32_t valid = 16) {
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % 16 != 0)
    emulator::fault("an asynchronous copy is not aligned to 16");
  emulator::copy_async(to, from, 16, valid);
}
inline void commit_async() { emulator::commit_async(); }
template <int kGroups>
void wait_async() {
  emulator::wait_async(kGroups);
}

// One thread of the system runs a launch, but other launches may run beside it.
inline void atomic_add(uint32_t* at, uint32_t value) { __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
inline void atomic_max(uint32_t* at, uint32_t value) {
  uint32_t seen = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (seen < value &&
         !__atomic_compare_exchange_n(at, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

// ---- arithmetic; these sources are compiled without contraction ----

// A NaN that arithmetic makes has the bits that CUDA gives it; processors keep those of the operand.
inline float canonical(float x) { return x == x ? x : std::bit_cast<float>(0x7FFFFFFFu); }
inline float mul_rn(float a, float b) { return canonical(a * b); }
inline float add_rn(float a, float b) { return canonical(a + b); }
inline float sub_rn(float a, float b) { return canonical(a - b); }
inline float div_rn(float a, float b) { return canonical(a / b); }
inline float greater(float a, float b) { return a > b || b != b ? a : b; }
// As wrong as those of devices may be: 2^-22 of the result, to either side; but where they are exact.
inline float approximate(float exact, float x) {
  if (exact == std::rint(exact) || x == std::rint(x)) return exact;
  const float error = (std::bit_cast<uint32_t>(x) * 2654435761u >> 31) != 0 ? 0x1p-22f : -0x1p-22f;
  return exact + exact * error;
}
inline float exp2_fast(float x) { return approximate(std::exp2(x), x); }
inline float log2_fast(float x) { return approximate(std::log2(x), x); }
inline uint32_t float_bits(float x) { return std::bit_cast<uint32_t>(x); }
inline float bits_float(uint32_t x) { return std::bit_cast<float>(x); }
inline uint32_t multiply_high(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((uint64_t{a} * b) >> 32);
}
inline uint64_t multiply_high(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(a) * b) >> 64);
}

}  // namespace kvc::gpu

#include "emulator/matrix.h"
