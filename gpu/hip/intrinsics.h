// SPDX-License-Identifier: Apache-2.0
// portable.h as HIP. Asynchronous copies are done at once; tensor cores are those of CDNA2 and later.
#pragma once
#include <hip/hip_runtime.h>

#define KVC_KERNEL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)
#define KVC_ARGUMENT(type) const type
#define KVC_DEVICE __device__ __forceinline__
#define KVC_HOST_DEVICE __host__ __device__ __forceinline__
#define KVC_SHARED(type, name, count) __shared__ __attribute__((aligned(16))) type name[count]
#define KVC_DYNAMIC_SHARED(type, name)                                               \
  extern __shared__ __attribute__((aligned(16))) unsigned char kvc_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(kvc_dynamic_shared)

namespace kvc::gpu {

#if defined(__AMDGCN_WAVEFRONT_SIZE)
inline constexpr uint32_t kWave = __AMDGCN_WAVEFRONT_SIZE;
#else
inline constexpr uint32_t kWave = 64;    // of the host's pass, which may not use it
#endif
using WaveMask = uint64_t;

template <typename... P, typename... A>
int launch(void (*kernel)(P...), Grid grid, uint32_t threads, size_t shared_bytes, Stream stream, A... args) {
  const void* function = reinterpret_cast<const void*>(kernel);
  const hipError_t error = [&](P... values) {
    void* pointers[] = {&values...};
    return hipLaunchKernel(function, dim3(grid.x, grid.y, grid.z), dim3(threads), pointers, shared_bytes,
                           static_cast<hipStream_t>(stream));
  }(static_cast<P>(args)...);
  if (error != hipSuccess) static_cast<void>(hipGetLastError());  // which others would take for theirs
  return static_cast<int>(error);
}

// ---- barriers, and what lanes tell each other ----

KVC_DEVICE void sync_block() { __syncthreads(); }
KVC_DEVICE void sync_wave() {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
}
template <typename T>
KVC_DEVICE T shuffle(T value, uint32_t from) {
  return __shfl(value, static_cast<int>(from), static_cast<int>(kWave));
}
template <typename T>
KVC_DEVICE T shuffle_xor(T value, uint32_t mask) {
  return __shfl_xor(value, static_cast<int>(mask), static_cast<int>(kWave));
}
template <typename T>
KVC_DEVICE T shuffle_up(T value, uint32_t distance) {
  return __shfl_up(value, distance, static_cast<int>(kWave));
}
template <typename T>
KVC_DEVICE T shuffle_down(T value, uint32_t distance) {
  return __shfl_down(value, distance, static_cast<int>(kWave));
}
KVC_DEVICE WaveMask ballot(bool predicate) { return __ballot(predicate); }
KVC_DEVICE uint32_t count_bits(WaveMask mask) { return static_cast<uint32_t>(__popcll(mask)); }

// ---- memory ----

// Vectors of the compiler's own, for it has nontemporal accesses of these.
template <typename T>
KVC_DEVICE T load_once(const T* at) {
  T value;
  if constexpr (sizeof(T) == 16) {
    using Raw = uint32_t __attribute__((ext_vector_type(4)));
    const Raw raw = __builtin_nontemporal_load(reinterpret_cast<const Raw*>(at));
    __builtin_memcpy(&value, &raw, sizeof value);
  } else {
    value = *at;
  }
  return value;
}
template <typename T>
KVC_DEVICE void store_once(T* at, const T& value) {
  if constexpr (sizeof(T) == 16) {
    using Raw = uint32_t __attribute__((ext_vector_type(4)));
    Raw raw;
    __builtin_memcpy(&raw, &value, sizeof value);
    __builtin_nontemporal_store(raw, reinterpret_cast<Raw*>(at));
  } else {
    *at = value;
  }
}

inline constexpr bool kHasAsyncCopy = false;
KVC_DEVICE void copy_async(void* to, const void* from, uint32_t valid = 16) {
  uint32_t words[4] = {};
  if (valid == 16) {
    const uint4 raw = *static_cast<const uint4*>(from);
    __builtin_memcpy(words, &raw, sizeof words);
  } else {
    for (uint32_t i = 0; i < valid; ++i)
      reinterpret_cast<unsigned char*>(words)[i] = static_cast<const unsigned char*>(from)[i];
  }
  *static_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}
KVC_DEVICE void commit_async() {}
template <int kGroups>
KVC_DEVICE void wait_async() {}

KVC_DEVICE int32_t atomic_add(int32_t* at, int32_t value) { return atomicAdd(at, value); }
KVC_DEVICE uint32_t atomic_add(uint32_t* at, uint32_t value) { return atomicAdd(at, value); }
KVC_DEVICE int32_t atomic_max(int32_t* at, int32_t value) { return atomicMax(at, value); }
KVC_DEVICE uint32_t atomic_max(uint32_t* at, uint32_t value) { return atomicMax(at, value); }

// ---- arithmetic ----

KVC_DEVICE float mul_rn(float a, float b) {
#pragma clang fp contract(off)
  return a * b;
}
KVC_DEVICE float add_rn(float a, float b) {
#pragma clang fp contract(off)
  return a + b;
}
KVC_DEVICE float sub_rn(float a, float b) {
#pragma clang fp contract(off)
  return a - b;
}
KVC_DEVICE float div_rn(float a, float b) { return a / b; }
KVC_DEVICE float fma_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
KVC_DEVICE float greater(float a, float b) { return fmaxf(a, b); }
KVC_DEVICE float exp2_fast(float x) { return exp2f(x); }
KVC_DEVICE float log2_fast(float x) { return __log2f(x); }
KVC_DEVICE float tanh_fast(float x) { return tanhf(x); }
KVC_DEVICE uint32_t float_bits(float x) { return __float_as_uint(x); }
KVC_DEVICE float bits_float(uint32_t x) { return __uint_as_float(x); }
KVC_DEVICE uint32_t multiply_high(uint32_t a, uint32_t b) { return __umulhi(a, b); }
KVC_DEVICE uint64_t multiply_high(uint64_t a, uint64_t b) { return __umul64hi(a, b); }

// ---- conversions ----

#define KVC_GPU_HAS_HALF 1
KVC_DEVICE uint32_t half_of_float(float x) {
  const auto half = static_cast<_Float16>(x);
  uint16_t bits;
  __builtin_memcpy(&bits, &half, sizeof bits);
  return bits;
}
KVC_DEVICE float float_of_half(uint32_t bits) {
  const auto raw = static_cast<uint16_t>(bits);
  _Float16 half;
  __builtin_memcpy(&half, &raw, sizeof half);
  return static_cast<float>(half);
}

// ---- tensor cores ----

inline constexpr bool kHasMma = false;
#if defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
#define KVC_HIP_MFMA 1
#endif
#if defined(KVC_HIP_MFMA)
inline constexpr bool kHasMfma = true;
#else
inline constexpr bool kHasMfma = false;  // nor does the host's pass know of any
#endif

template <bool kBfloat>
KVC_DEVICE void mfma_16x16x16(float (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[2]) {
#if defined(KVC_HIP_MFMA)
  using Floats = float __attribute__((ext_vector_type(4)));
  using Shorts = short __attribute__((ext_vector_type(4)));
  using Halves = _Float16 __attribute__((ext_vector_type(4)));
  Floats sum = {d[0], d[1], d[2], d[3]};
  if constexpr (kBfloat) {
    Shorts x, y;
    __builtin_memcpy(&x, a, sizeof x);
    __builtin_memcpy(&y, b, sizeof y);
    sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, sum, 0, 0, 0);
  } else {
    Halves x, y;
    __builtin_memcpy(&x, a, sizeof x);
    __builtin_memcpy(&y, b, sizeof y);
    sum = __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, sum, 0, 0, 0);
  }
  for (int i = 0; i < 4; ++i) d[i] = sum[i];
#endif
}

}  // namespace kvc::gpu
