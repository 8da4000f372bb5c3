// SPDX-License-Identifier: Apache-2.0
// portable.h with nvcc: sm_80 and newer.
#pragma once
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define KVC_KERNEL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)
#define KVC_ARGUMENT(type) const __grid_constant__ type
#define KVC_DEVICE __device__ __forceinline__
#define KVC_HOST_DEVICE __host__ __device__ __forceinline__
#define KVC_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define KVC_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char kvc_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(kvc_dynamic_shared)

namespace kvc::gpu {

inline constexpr uint32_t kWave = 32;

// Lets a kernel have so many bytes of dynamic shared memory, static ones beside them. It gets all that the
// device has for it, so that no thread takes from another's launch what that has asked for.
inline cudaError_t allow_shared(const void* function, size_t bytes) {
  constexpr size_t kLittle = size_t{16} << 10;  // that several blocks of a multiprocessor find in any case
  if (bytes <= kLittle) return cudaSuccess;
  cudaFuncAttributes found;
  cudaError_t error = cudaFuncGetAttributes(&found, function);
  if (error != cudaSuccess || (static_cast<size_t>(found.maxDynamicSharedSizeBytes) >= bytes &&
                               found.preferredShmemCarveout == cudaSharedmemCarveoutMaxShared))
    return error;
  int device = 0, most = 0;
  error = cudaGetDevice(&device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               most - static_cast<int>(found.sharedSizeBytes));
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);  // the blocks of a multiprocessor need it
}

template <typename... P, typename... A>
int launch(void (*kernel)(P...), Grid grid, uint32_t threads, size_t shared_bytes, Stream stream, A... args) {
  const void* function = reinterpret_cast<const void*>(kernel);
  cudaError_t error = allow_shared(function, shared_bytes);
  if (error == cudaSuccess) {
    error = [&](P... values) {
      void* pointers[] = {&values...};
      return cudaLaunchKernel(function, dim3(grid.x, grid.y, grid.z), dim3(threads), pointers, shared_bytes,
                              static_cast<cudaStream_t>(stream));
    }(static_cast<P>(args)...);
  }
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());  // which others would take for theirs
  return static_cast<int>(error);
}

// ---- barriers, and what lanes tell each other ----

inline constexpr uint32_t kAllLanes = 0xFFFFFFFFu;
KVC_DEVICE void sync_block() { __syncthreads(); }
KVC_DEVICE void sync_wave() { __syncwarp(); }
template <typename T>
KVC_DEVICE T shuffle_xor(T value, uint32_t mask) {
  return __shfl_xor_sync(kAllLanes, value, static_cast<int>(mask));
}
template <typename T>
KVC_DEVICE T shuffle_up(T value, uint32_t distance) {
  return __shfl_up_sync(kAllLanes, value, distance);
}
KVC_DEVICE uint32_t ballot(bool predicate) { return __ballot_sync(kAllLanes, predicate); }

// ---- memory ----

template <typename T>
KVC_DEVICE T load_once(const T* at) {
  T value;
  if constexpr (sizeof(T) == 16) {
    const uint4 raw = __ldcs(reinterpret_cast<const uint4*>(at));
    __builtin_memcpy(&value, &raw, sizeof value);
  } else if constexpr (sizeof(T) == 8) {
    const uint2 raw = __ldcs(reinterpret_cast<const uint2*>(at));
    __builtin_memcpy(&value, &raw, sizeof value);
  } else {
    value = *at;
  }
  return value;
}
template <typename T>
KVC_DEVICE void store_once(T* at, const T& value) {
  if constexpr (sizeof(T) == 16) {
    uint4 raw;
    __builtin_memcpy(&raw, &value, sizeof value);
    __stcs(reinterpret_cast<uint4*>(at), raw);
  } else if constexpr (sizeof(T) == 8) {
    uint2 raw;
    __builtin_memcpy(&raw, &value, sizeof value);
    __stcs(reinterpret_cast<uint2*>(at), raw);
  } else {
    *at = value;
  }
}

KVC_DEVICE uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
KVC_DEVICE void copy_async(void* to, const void* from, uint32_t valid = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(valid)
               : "memory");
}
KVC_DEVICE void commit_async() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kGroups>
KVC_DEVICE void wait_async() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

KVC_DEVICE void atomic_add(uint32_t* at, uint32_t value) { atomicAdd(at, value); }
KVC_DEVICE void atomic_max(uint32_t* at, uint32_t value) { atomicMax(at, value); }

// ---- arithmetic ----

KVC_DEVICE float mul_rn(float a, float b) { return __fmul_rn(a, b); }
KVC_DEVICE float add_rn(float a, float b) { return __fadd_rn(a, b); }
KVC_DEVICE float sub_rn(float a, float b) { return __fsub_rn(a, b); }
KVC_DEVICE float div_rn(float a, float b) { return __fdiv_rn(a, b); }
KVC_DEVICE float greater(float a, float b) { return fmaxf(a, b); }
KVC_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
KVC_DEVICE float log2_fast(float x) { return __log2f(x); }
KVC_DEVICE uint32_t float_bits(float x) { return __float_as_uint(x); }
KVC_DEVICE float bits_float(uint32_t x) { return __uint_as_float(x); }
KVC_DEVICE uint32_t multiply_high(uint32_t a, uint32_t b) { return __umulhi(a, b); }
KVC_DEVICE uint64_t multiply_high(uint64_t a, uint64_t b) { return __umul64hi(a, b); }

// ---- conversions ----

#define KVC_GPU_HAS_HALF 1
KVC_DEVICE uint32_t half_of_float(float x) { return __half_as_ushort(__float2half_rn(x)); }
KVC_DEVICE float float_of_half(uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define KVC_GPU_HAS_FP8 1
KVC_DEVICE uint32_t e4m3_of_float(float x) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return pair & 0xFFu;
}
KVC_DEVICE uint32_t e5m2_of_float(float x) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return pair & 0xFFu;
}
KVC_DEVICE float float_of_e4m3(uint32_t bits) {
  uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<unsigned short>(bits)));
  return float_of_half(halves & 0xFFFFu);
}
#endif

// ---- tensor cores ----

inline constexpr bool kHasMma = true;

KVC_DEVICE void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
KVC_DEVICE void mma_fp16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <bool kTransposed = false>
KVC_DEVICE void load_matrix(uint32_t (&f)[4], const void* row) {
  const uint32_t at = shared_address(row);
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                 : "r"(at)
                 : "memory");
  }
}

}  // namespace kvc::gpu
