// SPDX-License-Identifier: Apache-2.0
// kvc_stream_update_tables on emulated devices.
#include "api/emulated.h"

namespace kvc::test {
namespace {

class GpuTables : public OnEmulatedDevices {};

TEST_F(GpuTables, FollowAStepsChanges) {
  const EngineStream engine("emulated:1", 1);
  constexpr size_t kRows = 3, kStride = 4, kTokens = 5;
  DeviceMemory tables("emulated:1", kRows * kStride * 4), rows("emulated:1", kTokens * 4),
      positions("emulated:1", kTokens * 8), slots("emulated:1", kTokens * 8),
      lengths("emulated:1", kRows * 4), offsets("emulated:1", (kRows + 1) * 4),
      blocks("emulated:1", kRows * kStride * 4), last("emulated:1", kRows * 4);
  std::vector<int32_t> table(kRows * kStride, -1), row = {0, 0, 1, 2, 2}, length = {17, 0, 40};
  std::vector<int64_t> position = {15, 16, 0, 39, -1};
  std::vector<kvc_upload> uploads = {{table.data(), tables.data, table.size() * 4},
                                     {row.data(), rows.data, row.size() * 4},
                                     {position.data(), positions.data, position.size() * 8},
                                     {length.data(), lengths.data, length.size() * 4}};
  std::vector<kvc_table_change> changes = {
      {0, 0, 0, 7}, {0, 0, 1, 9}, {0, 2, 0, 3}, {0, 2, 1, 4}, {0, 2, 2, 8}};
  kvc_table_update u = {};
  u.struct_size = sizeof u;
  u.uploads = uploads.data(), u.num_uploads = uploads.size();
  u.changes = changes.data(), u.num_changes = changes.size();
  u.tables = tables.as<int32_t>(), u.row_stride = kStride;
  u.positions_of = rows.as<int32_t>(), u.positions = positions.as<int64_t>(), u.slots = slots.as<int64_t>();
  u.num_slots = kTokens, u.lengths = lengths.as<int32_t>(), u.csr_offsets = offsets.as<int32_t>();
  u.csr_blocks = blocks.as<int32_t>(), u.csr_last_tokens = last.as<int32_t>();
  u.num_rows = kRows, u.block_size = 16;
  control()->hold(engine.handle);
  ASSERT_EQ(kvc_stream_update_tables(engine.stream.get(), &u), KVC_OK) << kvc_last_error();
  uploads.clear(), changes.assign(changes.size(), {}), table.assign(table.size(), 99), length.assign(3, 99);
  control()->let_go(engine.handle);
  ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
  const auto expect = [](const auto* found, std::vector<int64_t> wanted) {
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(found[i], wanted[i]) << i;
  };
  expect(tables.as<int32_t>(), {7, 9, -1, -1, -1, -1, -1, -1, 3, 4, 8, -1});
  expect(slots.as<int64_t>(), {7 * 16 + 15, 9 * 16, -1, 8 * 16 + 7, -1});
  expect(offsets.as<int32_t>(), {0, 2, 2, 5});
  expect(blocks.as<int32_t>(), {7, 9, 3, 4, 8});
  expect(last.as<int32_t>(), {1, 0, 8});

  kvc_stream* cpu = nullptr;
  ASSERT_EQ(kvc_stream_create("cpu", &cpu), KVC_OK);
  EXPECT_EQ(kvc_stream_update_tables(cpu, &u), KVC_ERROR_UNSUPPORTED);
  kvc_stream_destroy(cpu);
}

TEST_F(GpuTables, ThatDoNotFitAreRefused) {
  const EngineStream engine("emulated:1", 1);
  constexpr size_t kStride = 4;
  DeviceMemory memory("emulated:1", 4096);
  kvc_upload upload = {"here", memory.as<char>() + 2048, 4};
  kvc_table_change change = {0, 0, 0, 5};
  kvc_table_update good = {};
  good.struct_size = sizeof good;
  good.uploads = &upload, good.num_uploads = 1, good.changes = &change, good.num_changes = 1;
  good.tables = memory.as<int32_t>(), good.row_stride = kStride, good.block_size = 16;
  good.positions = memory.as<int64_t>() + 32, good.slots = memory.as<int64_t>() + 64, good.num_slots = 1;
  good.lengths = memory.as<int32_t>() + 256, good.csr_offsets = good.csr_blocks = memory.as<int32_t>() + 320;
  good.num_rows = 1;
  const auto refused = [&](auto&& spoil, kvc_status status = KVC_ERROR_INVALID_ARGUMENT) {
    kvc_table_update bad = good;
    spoil(bad);
    EXPECT_EQ(kvc_stream_update_tables(engine.stream.get(), &bad), status);
    upload = {"here", memory.as<char>() + 2048, 4};
    change = {0, 0, 0, 5};
  };
  using U = kvc_table_update;
  refused([](U& u) { u.struct_size = 8; });
  refused([](U& u) { u.uploads = nullptr; });
  refused([](U& u) { u.num_uploads = 9; });
  refused([&](U&) { upload.from = nullptr; });
  refused([&](U&) { upload.to = nullptr; });
  refused([](U& u) { u.changes = nullptr; });
  refused([](U& u) { u.tables = nullptr; });
  refused([](U& u) { u.positions = nullptr; });
  refused([](U& u) { u.slots = nullptr; });
  refused([](U& u) { u.lengths = nullptr; });
  refused([](U& u) { u.csr_offsets = nullptr; });
  refused([](U& u) { u.csr_blocks = nullptr; });
  refused([&](U&) { change.group = -1; });
  refused([&](U&) { change.row = -1; });
  refused([&](U&) { change.column = -1; });
  refused([&](U&) { change.column = kStride; });
  refused([](U& u) { u.block_size = 0; });
  refused([](U& u) { u.block_size = 1025; });
  EXPECT_EQ(kvc_stream_update_tables(nullptr, &good), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_stream_update_tables(engine.stream.get(), nullptr), KVC_ERROR_INVALID_ARGUMENT);
  good.num_slots = good.num_rows = 0, good.block_size = 0;  // not read then
  EXPECT_EQ(kvc_stream_update_tables(engine.stream.get(), &good), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
  EXPECT_EQ(memory.as<int32_t>()[0], 5);
  EXPECT_EQ(std::memcmp(memory.as<char>() + 2048, "here", 4), 0);
}

}  // namespace
}  // namespace kvc::test
