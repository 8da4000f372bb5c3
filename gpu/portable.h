// SPDX-License-Identifier: Apache-2.0
// The language of kernel sources. One source compiles with nvcc, as HIP, and as plain C++ for the emulator
// (emulator/emulator.h), on which tests run it. Everything is in kvc::gpu:
//
//   KVC_KERNEL(threads, blocks) name(args)   a kernel for blocks of `threads`, at least `blocks` resident
//   KVC_ARGUMENT(type) args                  its one argument, which stays in constant memory
//   KVC_DEVICE, KVC_HOST_DEVICE              inlined functions of the device; of host and device
//   KVC_SHARED(type, name, count)            `name` points to `count` elements that the block shares
//   KVC_DYNAMIC_SHARED(type, name)           the bytes that launch() was given, aligned to 16
//   launch(kernel, grid, threads, shared, stream, args...)    0, or the runtime's error code
//   threadIdx.x, blockIdx.x/y/z, gridDim.x/y/z, blockDim.x    blocks are one-dimensional
//   kWave, lane(), wave()                    threads that step together: 32 or 64
//   sync_block(), sync_wave()                barriers: all threads of the block or wave come to the same one
//   shuffle_xor(), shuffle_up(), ballot()    across the wave; all lanes take part
//   mma_bf16(), mma_fp16(), load_matrix()    (kHasMma) mma.m16n8k16 and ldmatrix of tensor cores
//   copy_async(), commit_async(), wait_async<n>()             (kHasMma) 16 bytes from global to shared memory
//   load_once(), store_once()                memory that is not read again soon
//   atomic_add(), atomic_max()
//   greater(a, b)                            of a NaN and a number, the number
//   half_of_float(), e4m3_of_float(), ...    (KVC_GPU_HAS_HALF, KVC_GPU_HAS_FP8) the device's conversions
//   mul_rn(), add_rn(), sub_rn(), div_rn()   each rounded by itself, never contracted: as on the CPU
//
// The geometry of a launch never depends on kWave, and kWave is in no kernel's template arguments: the host
// side of HIP does not know it. `threads` is a multiple of 64.
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__HIP__)
#define KVC_GPU_HIP 1
#elif defined(__CUDACC__)
#define KVC_GPU_CUDA 1
#endif

namespace kvc::gpu {

using Stream = void*;  // cudaStream_t, hipStream_t, or whatever emulator::set_enqueue() understands

struct Grid {
  uint32_t x = 1, y = 1, z = 1;
};

}  // namespace kvc::gpu

#if defined(KVC_GPU_CUDA)
#include "cuda/intrinsics.h"
#elif defined(KVC_GPU_HIP)
#include "hip/intrinsics.h"
#else
#include "emulator/intrinsics.h"
#endif

namespace kvc::gpu {

KVC_DEVICE uint32_t lane() { return threadIdx.x % kWave; }
KVC_DEVICE uint32_t wave() { return threadIdx.x / kWave; }

// Over teams of `width` neighbouring lanes, a power of two up to kWave; each lane gets the result.
template <typename T, typename Combine>
KVC_DEVICE T team_reduce(T value, uint32_t width, Combine combine) {
  for (uint32_t mask = width / 2; mask != 0; mask /= 2) value = combine(value, shuffle_xor(value, mask));
  return value;
}
template <typename T>
KVC_DEVICE T team_max(T value, uint32_t width) {
  return team_reduce(value, width, [](T a, T b) { return a < b ? b : a; });
}
KVC_DEVICE float team_greatest(float value, uint32_t width) { return team_reduce(value, width, greater); }
template <typename T>
KVC_DEVICE T team_min(T value, uint32_t width) {
  return team_reduce(value, width, [](T a, T b) { return b < a ? b : a; });
}
template <typename T>
KVC_DEVICE T team_sum(T value, uint32_t width) {
  return team_reduce(value, width, [](T a, T b) { return a + b; });
}

}  // namespace kvc::gpu
