// SPDX-License-Identifier: Apache-2.0
// portable.h as HIP, without asynchronous copies and tensor cores.
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
inline constexpr uint32_t kWave = 64;  // of the host's pass, which may not use it
#endif

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
KVC_DEVICE T shuffle_xor(T value, uint32_t mask) {
  return __shfl_xor(value, static_cast<int>(mask), static_cast<int>(kWave));
}
template <typename T>
KVC_DEVICE T shuffle_up(T value, uint32_t distance) {
  return __shfl_up(value, distance, static_cast<int>(kWave));
}
KVC_DEVICE uint64_t ballot(bool predicate) { return __ballot(predicate); }

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

KVC_DEVICE void atomic_add(uint32_t* at, uint32_t value) { atomicAdd(at, value); }
KVC_DEVICE void atomic_max(uint32_t* at, uint32_t value) { atomicMax(at, value); }

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
KVC_DEVICE float greater(float a, float b) { return fmaxf(a, b); }
KVC_DEVICE float exp2_fast(float x) { return exp2f(x); }
KVC_DEVICE float log2_fast(float x) { return __log2f(x); }
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

inline constexpr bool kHasMma = false;

}  // namespace kvc::gpu
