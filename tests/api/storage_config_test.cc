// SPDX-License-Identifier: Apache-2.0
// Which configurations of storages are refused.
#include <cmath>
#include <limits>
#include <string>

#include "api/storage.h"

namespace kvc::test {
namespace {

TEST(Storage, BadConfigurationsAreRefusedWithAText) {
  const auto refused = [](auto&& change, kvc_status status = KVC_ERROR_INVALID_ARGUMENT) {
    kvc_storage_config c = base_config();
    change(c);
    kvc_storage* s = nullptr;
    EXPECT_EQ(kvc_storage_create(&c, &s), status) << kvc_last_error();
    EXPECT_EQ(s, nullptr);
    EXPECT_NE(std::string(kvc_last_error()), "");
  };
  using Config = kvc_storage_config;
  refused([](Config& c) { c.struct_size = 8; });
  refused([](Config& c) { c.struct_size = 5000; });
  refused([](Config& c) { c.num_blocks = 0; });
  refused([](Config& c) { c.num_blocks = uint64_t{1} << 31; });
  refused([](Config& c) { c.num_layers = 0; });
  refused([](Config& c) { c.num_heads = 0; });
  refused([](Config& c) { c.head_dim = 0; });
  refused([](Config& c) { c.head_dim = 8193; });
  refused([](Config& c) { c.block_size = (1u << 20) + 1; });
  refused([](Config& c) { c.block_size = UINT32_MAX; });
  refused([](Config& c) { c.dtype = KVC_INT8, c.block_size = 1025, c.flags = KVC_STORAGE_CHANNEL_KEYS; },
          KVC_ERROR_UNSUPPORTED);
  refused([](Config& c) { c.dtype = KVC_INT32; });
  refused([](Config& c) { c.dtype = 77; });
  refused([](Config& c) { c.layout = 5; });
  refused([](Config& c) { c.alignment = 48; });
  refused([](Config& c) { c.alignment = 8; });
  refused([](Config& c) { c.num_threads = 257; });
  refused([](Config& c) { c.memory_kind = 7; });
  refused([](Config& c) { c.memory_kind = KVC_MEMORY_MANAGED; }, KVC_ERROR_UNSUPPORTED);
  refused([](Config& c) { c.scale_group = 8; });
  refused([](Config& c) { c.flags = KVC_STORAGE_ASYMMETRIC; });
  refused([](Config& c) { c.flags = KVC_STORAGE_LATENT, c.v_head_dim = 21; });
  refused([](Config& c) { c.flags = 1u << 31; }, KVC_ERROR_UNSUPPORTED);
  refused([](Config& c) { c.k_scale = 1; });
  const float bad_scales[] = {-1, 1e-31f, 1e31f, std::nanf(""), std::numeric_limits<float>::infinity()};
  for (const float bad : bad_scales) {
    refused([&](Config& c) { c.dtype = KVC_FLOAT8_E4M3, c.k_scale = bad; });
    refused([&](Config& c) { c.dtype = KVC_FLOAT8_E4M3, c.v_scale = bad; });
  }
  refused([](Config& c) { c.dtype = KVC_FLOAT8_E4M3, c.k_scale = 1, c.scale_group = 8; });
  refused([](Config& c) { c.dtype = KVC_FLOAT8_E4M3, c.v_scale = 1, c.flags = KVC_STORAGE_LATENT; });
  refused([](Config& c) { c.dtype = KVC_INT8, c.k_scale = 1; });
  refused([](Config& c) { c.dtype = KVC_INT8, c.v_scale = 1; });
  refused([](Config& c) { c.dtype = KVC_INT8, c.k_scale = c.v_scale = 1, c.flags = KVC_STORAGE_ASYMMETRIC; });
  refused(
      [](Config& c) { c.dtype = KVC_INT8, c.k_scale = c.v_scale = 1, c.flags = KVC_STORAGE_CHANNEL_KEYS; });
  refused([](Config& c) { c.dtype = KVC_INT8, c.channel_tokens = 4; });
  refused([](Config& c) { c.dtype = KVC_INT8, c.residual_blocks = 4; });
  refused([](Config& c) { c.dtype = KVC_INT8, c.flags = KVC_STORAGE_CHANNEL_KEYS, c.channel_tokens = 3; });
  refused(
      [](Config& c) { c.dtype = KVC_INT8, c.flags = KVC_STORAGE_CHANNEL_KEYS, c.residual_blocks = 65536; });
  refused([](Config& c) { c.flags = KVC_STORAGE_CHANNEL_KEYS; }, KVC_ERROR_UNSUPPORTED);
  refused([](Config& c) { c.dtype = KVC_FLOAT8_E4M3, c.flags = KVC_STORAGE_CHANNEL_KEYS; },
          KVC_ERROR_UNSUPPORTED);
  refused([](Config& c) { c.dtype = KVC_INT8, c.flags = KVC_STORAGE_CHANNEL_KEYS | KVC_STORAGE_LATENT; },
          KVC_ERROR_UNSUPPORTED);
  refused([](Config& c) { c.dtype = KVC_INT4, c.flags = KVC_STORAGE_HADAMARD; }, KVC_ERROR_UNSUPPORTED);
  refused([](Config& c) { c.head_dim = c.v_head_dim = 16, c.flags = KVC_STORAGE_HADAMARD; },
          KVC_ERROR_UNSUPPORTED);
  refused([](Config& c) { c.dtype = KVC_INT4, c.head_dim = 16, c.flags = KVC_STORAGE_HADAMARD; },
          KVC_ERROR_UNSUPPORTED);
  refused(
      [](Config& c) {
        c.dtype = KVC_INT8, c.head_dim = c.v_head_dim = 16,
        c.flags = KVC_STORAGE_HADAMARD | KVC_STORAGE_LATENT;
      },
      KVC_ERROR_UNSUPPORTED);
  refused([](Config& c) { c.dtype = KVC_INT8, c.scale_group = 3; });
  refused([](Config& c) { c.reserved = 1; }, KVC_ERROR_UNSUPPORTED);
  refused([](Config& c) { c.memory_kind = KVC_MEMORY_EXTERNAL; });
  refused([](Config& c) { c.device = "nowhere"; }, KVC_ERROR_NOT_FOUND);
  kvc_allocator incomplete = {};
  refused([&](Config& c) { c.allocator = &incomplete; });
  refused([](Config& c) { c.num_blocks = 0, c.memory_fraction = -0.5f; });
  refused([](Config& c) { c.num_blocks = 0, c.memory_fraction = 1.5f; });
  refused([](Config& c) { c.num_blocks = 0, c.memory_fraction = std::nanf(""); });
  refused([](Config& c) { c.memory_fraction = 0.5f; });
  refused([](Config& c) { c.num_blocks = 0, c.memory_fraction = 1e-12f; }, KVC_ERROR_OUT_OF_MEMORY);
  alignas(64) static char memory[1 << 16];
  refused(
      [](Config& c) { c.num_blocks = 0, c.memory_fraction = 0.5f, c.memory = memory, c.memory_size = 1; });
  refused([](Config& c) { c.memory = memory, c.memory_size = 1; });
  refused([](Config& c) { c.memory = memory + 1, c.memory_size = sizeof memory - 1; });
  refused(
      [](Config& c) { c.memory = memory, c.memory_size = sizeof memory, c.memory_kind = KVC_MEMORY_HOST; });
  const auto tiled = [&](auto&& change) {
    refused(
        [&](Config& c) {
          c.flags = KVC_STORAGE_TILED_KEYS, c.block_size = 16, c.dtype = KVC_BFLOAT16;
          change(c);
        },
        KVC_ERROR_UNSUPPORTED);
  };
  tiled([](Config& c) { c.block_size = 24; });
  tiled([](Config& c) { c.layout = KVC_LAYOUT_LBNHC; });
  tiled([](Config& c) { c.head_dim = 21; });
  tiled([](Config& c) { c.dtype = KVC_INT8; });
  tiled([](Config& c) { c.flags |= KVC_STORAGE_LATENT; });
  refused([](Config& c) {
    c.num_blocks = INT32_MAX, c.num_layers = c.num_heads = 65536, c.head_dim = 8192, c.block_size = 1024;
  });
  EXPECT_EQ(kvc_storage_create(nullptr, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  kvc_storage_destroy(nullptr);
}

TEST(Storage, SizesOfBadConfigurationsAreRefused) {
  kvc_storage_config c = base_config();
  uint64_t block = 9, slab = 9;
  c.head_dim = 0;
  EXPECT_EQ(kvc_storage_size(&c, &block, &slab), KVC_ERROR_INVALID_ARGUMENT);
  c = base_config();
  c.dtype = KVC_INT64;
  EXPECT_EQ(kvc_storage_size(&c, &block, &slab), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_size(nullptr, &block, &slab), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(block == 9 && slab == 9);
  c = base_config();
  ASSERT_EQ(kvc_storage_size(&c, &block, nullptr), KVC_OK);
  ASSERT_EQ(kvc_storage_size(&c, nullptr, &slab), KVC_OK);
  EXPECT_EQ(slab, block * c.num_blocks);
  c.num_blocks = 0;  // how large a block would be
  uint64_t of_none = 9;
  ASSERT_EQ(kvc_storage_size(&c, &of_none, &slab), KVC_OK);
  EXPECT_EQ(of_none, block);
  EXPECT_EQ(slab, 0u);
}

}  // namespace
}  // namespace kvc::test
