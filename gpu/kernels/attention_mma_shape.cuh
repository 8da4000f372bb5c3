// SPDX-License-Identifier: Apache-2.0
// How attend_mma (attention_mma.cuh) is cut for a stored type and a head dim, and where its shared memory
// lies.
#pragma once
#include "kernels/attention_mma_rows.cuh"
#include "kernels/attention_scales.cuh"

namespace kvc::gpu {

template <int32_t kDtype_, uint32_t kDim_, bool kDecode_>
struct MmaShape {
  static constexpr int32_t kDtype = kDtype_;
  static constexpr uint32_t kDim = kDim_;
  static constexpr bool kDecode = kDecode_;
  static constexpr bool kBfloat = kDtype == KVC_BFLOAT16;  // else the products are of halves
  static constexpr bool kQuantized = kDtype != KVC_BFLOAT16 && kDtype != KVC_FLOAT16;
  static constexpr uint32_t kBits = dtype_bits(kDtype);
  static constexpr uint32_t kRowBytes = kDim * kBits / 8;

  // Decode: one tile of 16 rows, whose tokens the warps share. Prefill: warps with rows of their own.
  static constexpr uint32_t kRowWarps = kDecode ? 1 : kDim == 256 ? 8 : 4;
  static constexpr uint32_t kTokenWarps = !kDecode ? 1 : kQuantized ? 2 : 4;
  static constexpr uint32_t kRowTiles = kDecode || kDim == 256 ? 1 : 2;  // of 16 rows, of a warp
  static constexpr uint32_t kThreads = kRowWarps * kTokenWarps * 32;
  static constexpr uint32_t kRows = kRowWarps * kRowTiles * 16;
  static constexpr uint32_t kWarpTokens = kAttentionTile / kTokenWarps;
  // Between two updates of the softmax: what registers hold.
  static constexpr uint32_t kStepTokens = kDecode ? kWarpTokens : kDtype == KVC_FLOAT8_E5M2 ? 16 : 32;

  static constexpr uint32_t kTileBytes = 2 * kAttentionTile * kRowBytes;  // keys and values
  // Together the blocks of a multiprocessor have 64 KiB or more on their way. Coded rows take more
  // instructions for a byte, and more blocks, which hide each other's latency, are worth more to them than a
  // third stage.
  static constexpr uint32_t kStages = !kDecode || (kQuantized && kTileBytes == 16u << 10) ? 2 : 3;
  static constexpr uint32_t kRingTiles = kStages + 1;  // tiles whose tokens are known

  // Shared memory.
  static constexpr uint32_t kQ = 0;
  static constexpr uint32_t kTiles = kQ + kRows * kDim * 2;
  static constexpr uint32_t kTokens = kTiles + kStages * kTileBytes;
  static constexpr uint32_t kScales = kTokens + TokenRing<kRingTiles>::kBytes;
  static constexpr uint32_t kRowInfo = kScales + (kQuantized ? ScaleRing<kRingTiles>::kBytes : 0);  // [kRows]
  static constexpr uint32_t kSharedBytes = kRowInfo + kRows * sizeof(MmaRow);
  // Of a multiprocessor of 228 KiB and 64K registers. A block has 1 KiB that is the system's, and its
  // PartWalk; a thread so many registers, or a few less.
  static constexpr uint32_t registers() { return !kDecode || kDim == 256 ? 255 : kDim == 128 ? 168 : 128; }
  static constexpr uint32_t blocks() {
    constexpr uint32_t kByShared = (228u << 10) / (kSharedBytes + 1024 + sizeof(PartWalk));
    constexpr uint32_t kByRegisters = (64u << 10) / (kThreads * registers());
    constexpr uint32_t kMost = kByShared < kByRegisters ? kByShared : kByRegisters;
    return kMost == 0 ? 1 : kMost;
  }
  static constexpr uint32_t kBlocks = blocks();

  // Elements that a lane loads at once of a row of keys and of values, for quantized rows: a quarter and an
  // eighth of the row, but no more than 16 bytes.
  static constexpr uint32_t kKeyBytes = kRowBytes / 4 < 16 ? kRowBytes / 4 : 16;
  static constexpr uint32_t kValueBytes = kRowBytes / 8 < 16 ? kRowBytes / 8 : 16;

  // 16-byte chunks are permuted within their row so that lanes meet different banks.
  static constexpr uint32_t kChunks = kRowBytes / 16;
  static KVC_DEVICE uint32_t key_chunk(uint32_t token, uint32_t chunk) {
    if constexpr (!kQuantized) return chunk ^ (token & 7);
    return kRowBytes >= 128 ? chunk ^ ((token & 1) << 2) : chunk;
  }
  static KVC_DEVICE uint32_t value_chunk(uint32_t token, uint32_t chunk) {
    if constexpr (!kQuantized) return chunk ^ (token & 7);
    return chunk ^ ((token & 6) & (kChunks - 1));
  }

  // Which element of the keys stands at position x of the products' inner dimension.
  static KVC_DEVICE uint32_t key_element(uint32_t x) {
    if constexpr (!kQuantized) return x;
    const uint32_t step = x / 16, quad = x % 8 / 2, pair = x % 16 / 8, i = x % 2;
    const uint32_t words = kKeyBytes / 4;
    if constexpr (kBits == 8) {
      return (step / words * 4 + quad) * kKeyBytes + step % words * 4 + 2 * pair + i;
    } else {
      const uint32_t word = step / 2;
      return ((word / words * 4 + quad) * kKeyBytes + word % words * 4) * 2 + 2 * (step % 2) + pair + 4 * i;
    }
  }
  // Which element of the values stands in column n of the products' tile of 8 columns.
  static KVC_DEVICE uint32_t value_element(uint32_t tile, uint32_t n) {
    if constexpr (!kQuantized) return 8 * tile + n;
    constexpr uint32_t kElements = kValueBytes * 8 / kBits;
    return (tile / kElements * 8 + n) * kElements + tile % kElements;
  }
};

}  // namespace kvc::gpu
