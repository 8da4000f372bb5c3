// SPDX-License-Identifier: Apache-2.0
// Tables, slots and lists that kernels build equal those written down here.
#include "gpu/device.h"
#include "kernels/divide.h"
#include "kernels/kernels.h"

namespace kvc::gpu::test {
namespace {

using IndicesTest = KernelTest;

struct DivideArgs {
  const uint64_t* in;
  uint64_t* out;
  uint64_t count;
  Divisor by;
  SmallDivisor small;
};
KVC_KERNEL(64, 1) divide_all(KVC_ARGUMENT(DivideArgs) args) {
  for (uint64_t i = threadIdx.x; i < args.count; i += 64) {
    args.out[2 * i] = args.by.divide(args.in[i]);
    args.out[2 * i + 1] = args.small.divide(static_cast<uint32_t>(args.in[i] % (uint64_t{1} << 31)));
  }
}

TEST_F(IndicesTest, DivisionByMultiplicationIsDivision) {
  std::vector<uint64_t> divisors = {1, 2, 3, 5, 7, 16, 17, 640, 1024, 65535, 65537, uint64_t{1} << 31};
  for (int i = 0; i < 50; ++i) divisors.push_back(1 + random() % (uint64_t{1} << (1 + random() % 31)));
  for (const uint64_t d : divisors) {
    std::vector<uint64_t> in = {0,
                                1,
                                d - 1,
                                d,
                                d + 1,
                                2 * d - 1,
                                INT64_MAX,
                                (uint64_t{1} << 31) - 1,
                                INT64_MAX / d * d,
                                INT64_MAX / d * d - 1};
    for (int i = 0; i < 100; ++i) in.push_back((uint64_t{random()} << 32 | random()) >> (1 + random() % 63));
    DeviceArray<uint64_t> from(in), to(2 * in.size());
    const DivideArgs args{from.data(), to.data(), in.size(), divisor(d),
                          small_divisor(static_cast<uint32_t>(d))};
    ASSERT_EQ(launch(divide_all, {1}, 64, 0, nullptr, args), 0);
    const std::vector<uint64_t> out = to.get();
    for (size_t i = 0; i < in.size(); ++i) {
      ASSERT_EQ(out[2 * i], in[i] / d) << in[i] << " / " << d;
      ASSERT_EQ(out[2 * i + 1], in[i] % (uint64_t{1} << 31) / d) << in[i] << " / " << d;
    }
  }
}

TEST_F(IndicesTest, ChangesReachTheirEntriesAlone) {
  constexpr size_t kGroups = 2, kRows = 5, kStride = 37;
  std::vector<int32_t> tables(kGroups * kRows * kStride);
  for (int32_t& x : tables) x = static_cast<int32_t>(random() % 1000);
  DeviceArray<int32_t> device(tables);
  for (const size_t count : {0u, 1u, 300u}) {
    std::vector<kvc_table_change> changes;
    std::vector<size_t> order(tables.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i = 0; i < count; ++i) {
      const size_t at = order[i];
      changes.push_back({static_cast<int32_t>(at / (kRows * kStride)),
                         static_cast<int32_t>(at / kStride % kRows), static_cast<int32_t>(at % kStride),
                         static_cast<int32_t>(random() % 1000)});
      tables[at] = changes.back().block;
    }
    DeviceArray<kvc_table_change> list(changes);
    ASSERT_EQ(apply_table_changes(device.data(), kRows * kStride, kStride, list.data(), count, nullptr), 0);
    EXPECT_EQ(device.get(), tables);
  }
}

TEST_F(IndicesTest, SlotsFollowPositionsThroughTheTable) {
  constexpr uint32_t kRows = 7;
  constexpr uint64_t kStride = 11;
  for (const uint32_t block_size : {1u, 16u, 17u, 1024u})
    for (const size_t tokens : {0u, 1u, 255u, 256u, 257u, 3000u})
      for (const bool with_rows : {false, true}) {
        std::vector<int32_t> table(kRows * kStride), rows(tokens);
        std::vector<int64_t> positions(tokens), expected(tokens);
        for (int32_t& x : table) x = random() % 8 == 0 ? -1 : static_cast<int32_t>(random() % INT32_MAX);
        for (size_t t = 0; t < tokens; ++t) {
          rows[t] = static_cast<int32_t>(random() % kRows);
          positions[t] = static_cast<int64_t>(random() % (kStride * block_size + 5)) - 2;
          const auto position = static_cast<uint64_t>(positions[t]);
          expected[t] = -1;
          if (positions[t] < 0 || position / block_size >= kStride) continue;
          const int64_t block =
              table[(with_rows ? static_cast<size_t>(rows[t]) : 0) * kStride + position / block_size];
          if (block >= 0) expected[t] = block * block_size + static_cast<int64_t>(position % block_size);
        }
        DeviceArray<int32_t> device_table(table), device_rows(rows);
        DeviceArray<int64_t> device_positions(positions), slots(tokens);
        ASSERT_EQ(build_slots(device_table.data(), kStride, with_rows ? device_rows.data() : nullptr,
                              device_positions.data(), tokens, block_size, slots.data(), nullptr),
                  0);
        ASSERT_EQ(slots.get(), expected);
      }
}

TEST_F(IndicesTest, ListsWithoutGaps) {
  for (const uint32_t block_size : {1u, 16u, 17u, 1024u})
    for (const uint32_t num_rows : {0u, 1u, 256u, 257u, 520u})
      for (const bool with_last : {false, true}) {
        const uint64_t stride = 1 + random() % 40;
        std::vector<int32_t> table(num_rows * stride), lengths(num_rows), offsets = {0}, blocks, last;
        for (int32_t& x : table) x = static_cast<int32_t>(random());
        for (uint32_t r = 0; r < num_rows; ++r) {
          const int64_t sizes[] = {0,
                                   1,
                                   block_size - 1,
                                   block_size,
                                   block_size + 1,
                                   static_cast<int64_t>(stride * block_size),
                                   static_cast<int64_t>(random() % (stride * block_size + 1))};
          const int64_t length =
              std::min<int64_t>(sizes[random() % 7], static_cast<int64_t>(stride * block_size));
          const int64_t count = (length + block_size - 1) / block_size;
          lengths[r] = static_cast<int32_t>(length);
          for (int64_t i = 0; i < count; ++i) blocks.push_back(table[r * stride + static_cast<uint64_t>(i)]);
          offsets.push_back(static_cast<int32_t>(blocks.size()));
          last.push_back(static_cast<int32_t>(count == 0 ? 0 : length - (count - 1) * block_size));
        }
        DeviceArray<int32_t> device_table(table), device_lengths(lengths), device_offsets(num_rows + 1),
            device_blocks(blocks.size()), device_last(num_rows);
        ASSERT_EQ(build_csr(device_table.data(), stride, device_lengths.data(), num_rows, block_size,
                            device_offsets.data(), device_blocks.data(),
                            with_last ? device_last.data() : nullptr, nullptr),
                  0);
        ASSERT_EQ(device_offsets.get(), offsets);
        ASSERT_EQ(device_blocks.get(), blocks);
        if (with_last) {
          ASSERT_EQ(device_last.get(), last);
        }
      }
}

}  // namespace
}  // namespace kvc::gpu::test
