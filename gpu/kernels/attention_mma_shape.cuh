// SPDX-License-Identifier: Apache-2.0
// Sizes and shared memory of MmaWorker (attention_mma.cuh) for a stored type and a head dim.
#pragma once
#include "kernels/attention_mma_rows.cuh"
#include "kernels/attention_scales.cuh"

namespace kvc::gpu {

template <int32_t kDtype_, uint32_t kDim_, bool kDecode_>
struct MmaShape {
  static constexpr int32_t kDtype = kDtype_;
  static constexpr uint32_t kDim = kDim_;
  static constexpr bool kDecode = kDecode_;
  static constexpr bool kBfloat = kDtype == KVC_BFLOAT16;  // else operands are fp16
  static constexpr bool kQuantized = kDtype != KVC_BFLOAT16 && kDtype != KVC_FLOAT16;
  static constexpr uint32_t kBits = dtype_bits(kDtype);
  static constexpr uint32_t kRowBytes = kDim * kBits / 8;

  // Decode: one tile of 16 rows; each warp has some of the tokens. Prefill: each warp has rows of its own.
  static constexpr uint32_t kRowWarps = kDecode ? 1 : kDim == 256 ? 8 : 4;
  static constexpr uint32_t kTokenWarps = !kDecode ? 1 : kQuantized ? 2 : 4;
  static constexpr uint32_t kRowTiles = kDecode || kDim == 256 ? 1 : 2;  // of 16 rows, of a warp
  static constexpr uint32_t kThreads = kRowWarps * kTokenWarps * 32;
  static constexpr uint32_t kRows = kRowWarps * kRowTiles * 16;
  static constexpr uint32_t kWarpTokens = kAttentionTile / kTokenWarps;
  // Tokens per update of the softmax: as registers allow.
  static constexpr uint32_t kStepTokens = kDecode ? kWarpTokens : kDtype == KVC_FLOAT8_E5M2 ? 16 : 32;

  static constexpr uint32_t kTileBytes = 2 * kAttentionTile * kRowBytes;  // keys and values
  // A multiprocessor has 64 KiB or more in flight. Quantized rows need more instructions per byte: for them
  // more resident blocks hide latency better than a third stage.
  static constexpr uint32_t kStages = !kDecode || (kQuantized && kTileBytes == 16u << 10) ? 2 : 3;
  static constexpr uint32_t kRingTiles = kStages + 1;  // tiles whose tokens are known

  // Shared memory.
  static constexpr uint32_t kQ = 0;
  static constexpr uint32_t kTiles = kQ + kRows * kDim * 2;
  static constexpr uint32_t kTokens = kTiles + kStages * kTileBytes;
  static constexpr uint32_t kScales = kTokens + TokenRing<kRingTiles>::kBytes;
  static constexpr uint32_t kRowInfo = kScales + (kQuantized ? ScaleRing<kRingTiles>::kBytes : 0);  // [kRows]
  static constexpr uint32_t kSharedBytes = kRowInfo + kRows * sizeof(MmaRow);
  // Resident blocks of a multiprocessor with 228 KiB of shared memory and 64K registers. A block also needs
  // 1 KiB for the system, and its PartWalk.
  static constexpr uint32_t registers() { return !kDecode || kDim == 256 ? 255 : kDim == 128 ? 168 : 128; }
  static constexpr uint32_t blocks() {
    constexpr uint32_t kByShared = (228u << 10) / (kSharedBytes + 1024 + sizeof(PartWalk));
    constexpr uint32_t kByRegisters = (64u << 10) / (kThreads * registers());
    constexpr uint32_t kMost = kByShared < kByRegisters ? kByShared : kByRegisters;
    return kMost == 0 ? 1 : kMost;
  }
  static constexpr uint32_t kBlocks = blocks();

  // What a lane loads at once of a quantized row: a quarter of a key, an eighth of a value, at most 16 bytes.
  static constexpr uint32_t kKeyBytes = kRowBytes / 4 < 16 ? kRowBytes / 4 : 16;
  static constexpr uint32_t kValueBytes = kRowBytes / 8 < 16 ? kRowBytes / 8 : 16;

  // 16-byte chunks are swizzled within their row, against bank conflicts.
  static constexpr uint32_t kChunks = kRowBytes / 16;
  static KVC_DEVICE uint32_t key_chunk(uint32_t token, uint32_t chunk) {
    if constexpr (!kQuantized) return chunk ^ (token & 7);
    return kRowBytes >= 128 ? chunk ^ ((token & 1) << 2) : chunk;
  }
  static KVC_DEVICE uint32_t value_chunk(uint32_t token, uint32_t chunk) {
    if constexpr (!kQuantized) return chunk ^ (token & 7);
    return chunk ^ ((token & 6) & (kChunks - 1));
  }

  // The element of a key at position x of the K dimension of Q K^T.
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
  // The element of a value in column n of a tile of P V.
  static KVC_DEVICE uint32_t value_element(uint32_t tile, uint32_t n) {
    if constexpr (!kQuantized) return 8 * tile + n;
    constexpr uint32_t kElements = kValueBytes * 8 / kBits;
    return (tile / kElements * 8 + n) * kElements + tile % kElements;
  }
};

}  // namespace kvc::gpu
