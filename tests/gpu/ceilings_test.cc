// SPDX-License-Identifier: Apache-2.0
// The kernels that benchmarks measure a device by do what they are timed for.
#include "bench/ceilings.h"

#include "gpu/device.h"

namespace kvc::gpu::test {
namespace {

using CeilingsTest = KernelTest;

TEST_F(CeilingsTest, CopyIsWhole) {
  for (const uint64_t bytes : {16u, 4096u, 32768u + 16u, 300000u}) {
    std::vector<char> values(bytes);
    for (char& x : values) x = static_cast<char>(random());
    DeviceArray<char> from(values), to(bytes);
    EXPECT_EQ(bench::launch_copy(to.data(), from.data(), bytes, 2, nullptr), 0);
    EXPECT_EQ(to.get(), values) << bytes;
  }
}

TEST_F(CeilingsTest, ReadSeesEveryWord) {
  for (const uint64_t words : {4u, 8196u, 70000u}) {
    std::vector<uint32_t> values(words);
    DeviceArray<uint32_t> from(values), to(std::vector<uint32_t>(4, 7));
    EXPECT_EQ(bench::launch_read(from.data(), words * 4, to.data(), 2, nullptr), 0);
    EXPECT_EQ(to.get()[0], 7u);
    values[random() % words] = bench::kSumThatIsWritten;
    from.set(values);
    EXPECT_EQ(bench::launch_read(from.data(), words * 4, to.data(), 2, nullptr), 0);
    EXPECT_EQ(to.get()[0], bench::kSumThatIsWritten) << words;
  }
}

TEST_F(CeilingsTest, ProductsAreCountedWhereThereAreAny) {
  EXPECT_EQ(bench::product_flops(2, 3) != 0, kHasMma);
  DeviceArray<float> unused(std::vector<float>(1, 7.0f));
  EXPECT_EQ(bench::launch_products(unused.data(), 2, 3, nullptr), 0);
  EXPECT_EQ(unused.get()[0], 7.0f);
}

}  // namespace
}  // namespace kvc::gpu::test
