// SPDX-License-Identifier: Apache-2.0
// Bounds of keys are those of the CPU, of the blocks that are named alone.
#include "gpu/storage.h"

namespace kvc::gpu::test {
namespace {

using BoundsTest = KernelTest;

TEST_F(BoundsTest, BoundsOfKeysAreThoseOfTheCpu) {
  Sample sample;
  for (const uint32_t layout : kLayouts)
    for (const int32_t dtype : kStoredTypes)
      for (const uint32_t flags : {0u, uint32_t{KVC_STORAGE_TILED_KEYS}, uint32_t{KVC_STORAGE_LATENT},
                                   uint32_t{KVC_STORAGE_HADAMARD}, uint32_t{KVC_STORAGE_ASYMMETRIC}}) {
        if (!sample.takes_next()) continue;
        kvc_storage_config c = kvc::test::base_config();
        c.layout = layout, c.dtype = dtype, c.flags = flags;
        c.block_size = random() % 2 != 0 ? 16 : 1 + static_cast<uint32_t>(random() % 16);
        if (flags == KVC_STORAGE_HADAMARD) c.head_dim = 32;
        if (flags == KVC_STORAGE_LATENT) c.num_heads = 1;
        std::optional<Pair> pair = Pair::make(c, random);  // of random bytes
        if (!pair) continue;
        if (random() % 2 != 0) {  // or of common keys
          Rows rows(pair->info(), KVC_FLOAT32, kvc::test::shuffled_slots(random, pair->info()), 3);
          fill_any(random, KVC_FLOAT32, rows.k);
          fill_any(random, KVC_FLOAT32, rows.v);
          DeviceRows device(rows, pair->layout());
          ASSERT_EQ(kvc_storage_store(pair->cpu(), &rows.rows, nullptr), KVC_OK) << kvc_last_error();
          ASSERT_EQ(store_rows(pair->layout(), pair->slab(), device.rows(), nullptr), 0);
        }
        const kvc_storage_info info = pair->info();
        std::vector<uint16_t> bounds(info.num_blocks * info.num_heads * 2 * info.head_dim);
        for (uint16_t& x : bounds) x = static_cast<uint16_t>(random());
        DeviceArray<uint16_t> device_bounds(bounds);
        std::vector<int32_t> blocks = {5, 0, 6, 2};
        blocks.resize(random() % 5);
        DeviceArray<int32_t> list(blocks);
        const auto layer = static_cast<uint32_t>(random() % 3);
        ASSERT_EQ(
            kvc_storage_key_bounds(pair->cpu(), layer, blocks.data(), blocks.size(), bounds.data(), nullptr),
            KVC_OK)
            << kvc_last_error();
        ASSERT_EQ(find_key_bounds(pair->layout(), pair->slab(), layer, list.data(), blocks.size(),
                                  device_bounds.data(), nullptr),
                  0);
        ASSERT_EQ(device_bounds.get(), bounds) << text_of(c);
      }
}

}  // namespace
}  // namespace kvc::gpu::test
