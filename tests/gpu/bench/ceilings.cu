// SPDX-License-Identifier: Apache-2.0
#include "bench/ceilings.h"

namespace kvc::gpu::bench {
namespace {

// Registers for all vectors in flight: with 8 blocks there are 32 for a thread, and copies go through the
// stack.
constexpr uint32_t kThreads = 256, kBlocksPerProcessor = 4, kInFlight = 8;
constexpr uint64_t kPerBlock = uint64_t{kThreads} * kInFlight;

struct alignas(16) Vector {
  uint32_t words[4];
};

struct MemoryArgs {
  const Vector* from;
  Vector* to;
  uint64_t vectors;
};

KVC_KERNEL(kThreads, kBlocksPerProcessor)
read_all(KVC_ARGUMENT(MemoryArgs) args) {
  uint32_t sum = 0;
  for (uint64_t first = blockIdx.x * kPerBlock + threadIdx.x; first < args.vectors;
       first += gridDim.x * kPerBlock) {
    Vector data[kInFlight] = {};
#pragma unroll
    for (uint32_t i = 0; i < kInFlight; ++i) {
      const uint64_t at = first + uint64_t{i} * kThreads;
      if (at < args.vectors) data[i] = load_once(args.from + at);
    }
#pragma unroll
    for (uint32_t i = 0; i < kInFlight; ++i)
      for (uint32_t w = 0; w < 4; ++w) sum += data[i].words[w];
  }
  if (sum == kSumThatIsWritten) args.to[0].words[0] = sum;
}

KVC_KERNEL(kThreads, kBlocksPerProcessor)
copy_all(KVC_ARGUMENT(MemoryArgs) args) {
  for (uint64_t first = blockIdx.x * kPerBlock + threadIdx.x; first < args.vectors;
       first += gridDim.x * kPerBlock) {
    Vector data[kInFlight];
#pragma unroll
    for (uint32_t i = 0; i < kInFlight; ++i) {
      const uint64_t at = first + uint64_t{i} * kThreads;
      if (at < args.vectors) data[i] = load_once(args.from + at);
    }
#pragma unroll
    for (uint32_t i = 0; i < kInFlight; ++i) {
      const uint64_t at = first + uint64_t{i} * kThreads;
      if (at < args.vectors) store_once(args.to + at, data[i]);
    }
  }
}

constexpr uint32_t kProductBlocks = 2, kSums = 8;  // independent ones, so that none waits for the one before

struct ProductArgs {
  float* unused;
  uint32_t steps;
};

// Operands are different in every lane, between 0.5 and 2 with either sign: what is all the same takes less
// power.
template <bool kRunnable = kHasMma>
KVC_KERNEL(kThreads, kProductBlocks)
multiply(KVC_ARGUMENT(ProductArgs) args) {
#if !defined(KVC_GPU_HIP)  // which has no such products
  if constexpr (kRunnable) {
    uint32_t a[4], b[kSums][2], seed = blockIdx.x * kThreads + threadIdx.x + 1;
    const auto pair = [&] {
      seed = seed * 1664525u + 1013904223u;
      return (seed & 0x80FF80FFu) | 0x3F003F00u;
    };
    float d[kSums][4] = {};
    for (uint32_t& x : a) x = pair();
    for (auto& both : b)
      for (uint32_t& x : both) x = pair();
    for (uint32_t step = 0; step < args.steps; ++step) {
#pragma unroll
      for (uint32_t i = 0; i < kSums; ++i) mma_bf16(d[i], a, b[i]);
    }
    float sum = 0;
    for (const auto& tile : d)
      for (const float x : tile) sum += x;
    if (sum == 1.2345678f) args.unused[0] = sum;
  }
#endif
}

uint32_t blocks_of(uint64_t vectors, uint32_t processors) {
  const uint64_t blocks = (vectors + kPerBlock - 1) / kPerBlock,
                 most = uint64_t{processors} * kBlocksPerProcessor;
  return static_cast<uint32_t>(blocks < most ? blocks : most);
}

}  // namespace

int launch_read(const void* from, uint64_t bytes, void* sum, uint32_t processors, Stream stream) {
  const MemoryArgs args{static_cast<const Vector*>(from), static_cast<Vector*>(sum), bytes / 16};
  return launch(read_all, Grid{blocks_of(args.vectors, processors)}, kThreads, 0, stream, args);
}

int launch_copy(void* to, const void* from, uint64_t bytes, uint32_t processors, Stream stream) {
  const MemoryArgs args{static_cast<const Vector*>(from), static_cast<Vector*>(to), bytes / 16};
  return launch(copy_all, Grid{blocks_of(args.vectors, processors)}, kThreads, 0, stream, args);
}

uint64_t product_flops(uint32_t processors, uint32_t steps) {
  constexpr uint64_t kProduct = 2 * 16 * 8 * 16;  // operations of one, which a wave does together
  return kHasMma ? uint64_t{processors} * kProductBlocks * (kThreads / 32) * kSums * kProduct * steps : 0;
}

int launch_products(float* unused, uint32_t processors, uint32_t steps, Stream stream) {
  return launch(multiply<>, Grid{processors * kProductBlocks}, kThreads, 0, stream,
                ProductArgs{unused, steps});
}

}  // namespace kvc::gpu::bench
