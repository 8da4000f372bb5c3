// SPDX-License-Identifier: Apache-2.0
// Attention of the device against the CPU's reference over shapes: stored types, dims, groups, block sizes,
// lengths around every edge of a block and a tile, decode and prefill, numbers of parts.
#include "gpu/attention_device.h"

namespace kvc::gpu::test {
namespace {

using AttentionShapes = KernelTest;

constexpr int32_t kStored[] = {KVC_FLOAT32,     KVC_FLOAT16, KVC_BFLOAT16, KVC_FLOAT8_E4M3,
                               KVC_FLOAT8_E5M2, KVC_INT8,    KVC_INT4};
constexpr int32_t kFast[] = {KVC_FLOAT16, KVC_BFLOAT16, KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2, KVC_INT8, KVC_INT4};

TEST_F(AttentionShapes, EveryStoredTypeWithEveryQueryType) {
  for (const int32_t stored : kStored) {
    for (const int32_t q_dtype : {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16}) {
      expect_device_right(
          {.dtype = stored, .q_dtype = q_dtype, .group = 4, .kv_lens = {77, 130}, .q_lens = {1, 6}});
    }
  }
}

TEST_F(AttentionShapes, EveryTypeOnTensorCoresAtEveryDim) {
  for (const int32_t stored : kFast) {
    for (const uint32_t dim : {64u, 128u, 256u}) {
      for (const bool asymmetric : {false, true}) {
        if (asymmetric && stored != KVC_INT8 && stored != KVC_INT4) continue;
        const Options options{.dtype = stored,
                              .q_dtype = stored == KVC_FLOAT16 ? KVC_FLOAT16 : KVC_BFLOAT16,
                              .asymmetric = asymmetric,
                              .k_dim = dim,
                              .v_dim = dim,
                              .heads = 1,
                              .group = 3,
                              .kv_lens = {77, 100, 9},
                              .q_lens = {1, 7, 6}};
        expect_device_right(options);
        EXPECT_EQ(path_of(options), kHasMma ? AttentionPath::kMma : AttentionPath::kPlain)
            << describe(options);
      }
    }
  }
}

TEST_F(AttentionShapes, OneScaleOfAllRows) {
  for (const int32_t stored : {KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2, KVC_INT8, KVC_INT4}) {
    for (const int32_t q_dtype : {KVC_FLOAT32, KVC_BFLOAT16}) {
      for (const uint64_t queries : {1u, 20u}) {
        expect_device_right({.dtype = stored,
                             .q_dtype = q_dtype,
                             .factor = 0.03f,
                             .kv_lens = {100, 30},
                             .q_lens = {queries, queries}});
      }
    }
  }
}

TEST_F(AttentionShapes, AnyDimAndGroup) {
  Sample sample;
  for (const int32_t stored : {KVC_FLOAT32, KVC_BFLOAT16, KVC_INT4}) {
    for (const uint32_t dim : {1u, 20u, 80u, 192u}) {
      for (const uint32_t group : {1u, 3u, 9u}) {
        if (!sample.takes_next()) continue;
        expect_device_right(
            {.dtype = stored, .k_dim = dim, .v_dim = dim, .group = group, .kv_lens = {70}, .q_lens = {2}});
      }
    }
  }
  expect_device_right({.k_dim = 192, .v_dim = 128, .kv_lens = {50}, .q_lens = {2}});
  expect_device_right({.dtype = KVC_BFLOAT16, .k_dim = 128, .v_dim = 72, .kv_lens = {50}, .q_lens = {2}});
  for (const uint32_t group : {1u, 2u, 5u, 8u, 16u, 17u, 40u}) {
    expect_device_right(
        {.dtype = KVC_BFLOAT16, .q_dtype = KVC_BFLOAT16, .group = group, .kv_lens = {70}, .q_lens = {1}});
  }
}

TEST_F(AttentionShapes, LatentRows) {
  for (const int32_t stored :
       {KVC_FLOAT32, KVC_BFLOAT16, KVC_FLOAT16, KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2, KVC_INT8, KVC_INT4}) {
    for (const uint32_t group : {1u, 18u, 33u}) {
      Options options = latent_options(stored, {39, 66, 0}, {1, 2, 1});
      options.group = group;
      expect_device_right(options);
      const bool fast = kHasMma && stored != KVC_FLOAT32 && stored != KVC_INT4;
      EXPECT_EQ(path_of(options), fast ? AttentionPath::kMma : AttentionPath::kPlain) << describe(options);
    }
  }
  for (const uint64_t length : {31u, 32u, 33u, 64u, 97u, 300u}) {
    Options options = latent_options(length % 3 == 0 ? KVC_FLOAT8_E4M3 : KVC_BFLOAT16, {length, 200}, {1, 3});
    options.group = 16;
    options.window = length == 300 ? 100 : 0, options.sinks = 7;
    options.soft_cap = length == 97 ? 5.0f : 0.0f;
    options.mask_percent = length == 64 ? 50 : 0, options.tail = length == 64;
    expect_device_right(options, {.multiprocessors = length % 2 != 0 ? 1u : 3u});
  }
}

TEST_F(AttentionShapes, LatentRowsOfCodes) {
  // Many tiles in a part, with a scale of each row.
  for (const int32_t stored : {KVC_FLOAT8_E5M2, KVC_INT8}) {
    Options options = latent_options(stored, {700, 1, 450}, {1, 1, 2});
    options.block_size = 24;
    expect_device_right(options, {.multiprocessors = 1});
  }
  for (const int32_t stored : {KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2, KVC_INT8}) {
    Options options = latent_options(stored, {100}, {2});
    options.factor = 0.03f;
    expect_device_right(options);
  }
  // Codes without tensor cores: float16 queries, and several scales per row.
  Options codes = latent_options(KVC_FLOAT8_E4M3, {66}, {2});
  codes.q_dtype = KVC_FLOAT16;
  expect_device_right(codes);
  EXPECT_EQ(path_of(codes), AttentionPath::kPlain);
  codes.q_dtype = KVC_BFLOAT16;
  codes.scale_group = 64;
  expect_device_right(codes);
  EXPECT_EQ(path_of(codes), AttentionPath::kPlain);
}

TEST_F(AttentionShapes, TiledKeys) {
  for (const int32_t stored : {KVC_FLOAT32, KVC_BFLOAT16}) {
    expect_device_right({.dtype = stored, .tiled = true, .kv_lens = {39, 66}, .q_lens = {1, 2}});
    expect_device_right({.dtype = stored, .tiled = true, .block_size = 32, .kv_lens = {139}, .q_lens = {3}});
  }
}

// Plain and tensor core kernels, decode and prefill, blocks smaller and larger than a tile.
TEST_F(AttentionShapes, EveryLengthAroundTheEdgesOfBlocksAndTiles) {
  for (const int32_t stored : {KVC_FLOAT32, KVC_BFLOAT16}) {
    for (const uint32_t block_size : {1u, 16u, 24u, 128u}) {
      std::vector<uint64_t> lengths{0, 1, 15, 17, 63, 64, 65, 128, 129};
      for (const uint64_t queries : {1u, 3u, 17u}) {
        Options options{.dtype = stored,
                        .q_dtype = stored,
                        .token_major = false,
                        .heads = 1,
                        .block_size = block_size,
                        .kv_lens = lengths,
                        .q_lens = std::vector<uint64_t>(lengths.size(), queries)};
        options.causal = queries != 3;
        expect_device_right(options);
      }
    }
  }
}

TEST_F(AttentionShapes, RowsOfManyTiles) {
  for (const int32_t stored : {KVC_BFLOAT16, KVC_FLOAT8_E4M3}) {
    for (const uint64_t queries : {31u, 32u, 33u, 64u, 65u, 129u}) {
      expect_device_right({.dtype = stored,
                           .q_dtype = KVC_BFLOAT16,
                           .heads = 1,
                           .kv_lens = {queries + 30},
                           .q_lens = {queries}});
    }
  }
}

TEST_F(AttentionShapes, ScalesPerGroupOfElements) {
  for (const int32_t stored : {KVC_INT8, KVC_INT4, KVC_FLOAT8_E4M3}) {
    for (const uint32_t scale_group : {16u, 24u, 1000u}) {
      for (const bool asymmetric : {false, true}) {
        if (asymmetric && stored == KVC_FLOAT8_E4M3) continue;
        expect_device_right({.dtype = stored,
                             .q_dtype = KVC_BFLOAT16,
                             .token_major = scale_group == 24,
                             .scale_group = scale_group,
                             .asymmetric = asymmetric,
                             .kv_lens = {77, 130},
                             .q_lens = {1, 3}});
      }
    }
  }
}

TEST_F(AttentionShapes, AnyNumberOfParts) {
  for (const int32_t stored : kernel_types()) {
    for (const uint32_t multiprocessors : {1u, 2u, 13u}) {
      for (const uint64_t queries : {1u, 9u}) {
        const uint32_t dim = stored == KVC_FLOAT32 ? 16 : 64;
        expect_device_right({.dtype = stored,
                             .q_dtype = stored == KVC_FLOAT32 ? KVC_FLOAT32 : KVC_BFLOAT16,
                             .k_dim = dim,
                             .v_dim = dim,
                             .kv_lens = {250, 3, 0, 400},
                             .q_lens = {queries, 1, 1, queries}},
                            {.multiprocessors = multiprocessors});
      }
    }
  }
}

TEST_F(AttentionShapes, LittleSharedMemory) {
  // One row at a time, and no tensor cores.
  const DeviceOptions device{.shared_bytes = 16 << 10};
  const Options options{.dtype = KVC_BFLOAT16, .k_dim = 512, .v_dim = 512, .kv_lens = {70}, .q_lens = {2}};
  EXPECT_EQ(path_of(options, device), AttentionPath::kPlain);
  expect_device_right(options, device);
  Options large = options;
  large.k_dim = large.v_dim = 4096;
  EXPECT_EQ(path_of(large, device), AttentionPath::kUnsupported);
}

// Tensor cores write two results of 16 bits at once.
TEST_F(AttentionShapes, ResultsThatBeginAnywhere) {
  const Options options{.dtype = KVC_BFLOAT16,
                        .q_dtype = KVC_BFLOAT16,
                        .k_dim = 64,
                        .v_dim = 64,
                        .kv_lens = {70},
                        .q_lens = {2}};
  for (const uint32_t offset : {2u, 4u}) {
    Case c(options);
    DeviceCall call(c.args(), {.out_offset = offset});
    EXPECT_EQ(call.path(), kHasMma && offset == 4 ? AttentionPath::kMma : AttentionPath::kPlain);
    expect_device_right(options, {.out_offset = offset});
  }
}

TEST_F(AttentionShapes, NothingToDo) {
  expect_device_right({.kv_lens = {}, .q_lens = {}});
  expect_device_right({.dtype = KVC_BFLOAT16, .q_dtype = KVC_BFLOAT16, .kv_lens = {5, 70}, .q_lens = {0, 0}});
}

}  // namespace
}  // namespace kvc::gpu::test
