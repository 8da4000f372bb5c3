// SPDX-License-Identifier: Apache-2.0
// Stores by kernels leave the same bytes as those of the CPU.
#include "gpu/storage.h"

namespace kvc::gpu::test {
namespace {

using StoreTest = KernelTest;

TEST_F(StoreTest, EveryLayoutAndTypeGivesTheBytesOfTheCpu) {
  for (const uint32_t layout : kvc::test::kLayouts)
    for (const int32_t stored :
         {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16, KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2, KVC_INT8, KVC_INT4})
      for (const int32_t outside : {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16}) {
        kvc_storage_config c = kvc::test::base_config();
        c.layout = layout, c.dtype = stored;
        c.head_dim = random() % 2 != 0 ? 32 : 20;
        Pair pair(c, random);
        std::vector<int64_t> slots = kvc::test::shuffled_slots(random, pair.info());
        slots.resize(random() % slots.size());
        if (slots.size() > 2) slots[1] = -1;
        Rows rows(pair.info(), outside, slots, 3);
        rows.fill(random);
        ASSERT_EQ(kvc_storage_store(pair.cpu.get(), &rows.rows, nullptr), KVC_OK) << kvc_last_error();
        DeviceRows device(rows, pair.layout());
        ASSERT_EQ(store_rows(pair.layout(), pair.slab->data(), device.rows(), nullptr, nullptr), 0);
        pair.expect_equal("layout " + std::to_string(layout) + " stored " + std::to_string(stored) +
                          " from " + std::to_string(outside));
      }
}

}  // namespace
}  // namespace kvc::gpu::test
