// SPDX-License-Identifier: Apache-2.0
// kvc_manager_compact: which blocks move, that tables and bytes follow, and when it is refused. Random
// sequences with it are compared with a model in tests/property.
#include <gtest/gtest.h>
#include <kvcache/external.h>
#include <kvcache/manager.h>
#include <kvcache/prefix.h>
#include <kvcache/step.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "api/storage.h"
#include "calls.h"

namespace {

using ManagerPtr = std::unique_ptr<kvc_manager, kvc::test::Destroyer<kvc_manager_destroy>>;

constexpr uint32_t kBlock = 4;

ManagerPtr make_manager(uint64_t num_blocks, const kvc_group_config* group = nullptr) {
  kvc_manager_config c = {};
  c.struct_size = sizeof c;
  c.num_blocks = num_blocks, c.block_size = kBlock, c.seed = 1;
  if (group != nullptr) c.groups = group, c.num_groups = 1;
  kvc_manager* m = nullptr;
  EXPECT_EQ(kvc_manager_create(&c, &m), KVC_OK) << kvc_last_error();
  return ManagerPtr(m);
}

uint64_t allocate(kvc_manager* m, int32_t first_token, size_t blocks) {
  std::vector<int32_t> tokens(blocks * kBlock);
  std::iota(tokens.begin(), tokens.end(), first_token);
  uint64_t request = 0, cached = 0;
  EXPECT_EQ(kvc_manager_allocate_request(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                         &request, &cached),
            KVC_OK)
      << kvc_last_error();
  EXPECT_EQ(kvc_manager_commit_tokens(m, request, tokens.size()), KVC_OK);
  return request;
}

std::vector<int32_t> table_of(kvc_manager* m, uint64_t request) {
  std::vector<int32_t> table(64);
  EXPECT_EQ(kvc_manager_export_tables(m, &request, 1, 0, -1, table.data(), table.size()), KVC_OK);
  while (!table.empty() && table.back() == -1) table.pop_back();
  return table;
}

std::vector<kvc_block_copy> compact(kvc_manager* m, size_t capacity = 64) {
  std::vector<kvc_block_copy> moves(capacity);
  size_t count = 77;
  EXPECT_EQ(kvc_manager_compact(m, 0, moves.data(), capacity, &count), KVC_OK) << kvc_last_error();
  EXPECT_EQ(kvc_manager_check(m), KVC_OK) << kvc_last_error();
  moves.resize(count);
  return moves;
}

uint64_t digest(kvc_manager* m) {
  uint64_t value = 0;
  EXPECT_EQ(kvc_manager_digest(m, &value), KVC_OK);
  return value;
}

TEST(Compact, ContentsMoveDownAndRowsAreTheSameBytes) {
  const ManagerPtr m = make_manager(16);
  kvc_storage_config c = {};
  c.struct_size = sizeof c;
  c.num_blocks = 16, c.num_layers = 3, c.num_heads = 2, c.head_dim = 8, c.block_size = kBlock;
  c.dtype = KVC_INT8;
  kvc_storage* s = nullptr;
  ASSERT_EQ(kvc_storage_create(&c, &s), KVC_OK);
  const kvc::test::StoragePtr owner(s);

  const uint64_t gone = allocate(m.get(), 1000, 6), stays = allocate(m.get(), 2000, 4);
  uint64_t shares = 0;
  ASSERT_EQ(kvc_manager_fork_request(m.get(), stays, &shares), KVC_OK);
  const uint64_t cached = allocate(m.get(), 3000, 3);
  ASSERT_EQ(kvc_manager_free_request(m.get(), cached), KVC_OK);
  ASSERT_EQ(kvc_manager_free_request(m.get(), gone), KVC_OK);
  size_t evicted = 0;
  ASSERT_EQ(kvc_manager_evict_blocks(m.get(), -1, 3, &evicted), KVC_OK);  // those of `cached`: older
  ASSERT_EQ(evicted, 3u);
  const std::vector<int32_t> before = table_of(m.get(), stays);
  ASSERT_EQ(before, (std::vector<int32_t>{6, 7, 8, 9}));

  std::vector<float> k(3 * 16 * 2 * 8), v(k.size()), rows(k.size()), values(k.size());
  for (size_t i = 0; i < k.size(); ++i) k[i] = static_cast<float>(i % 97), v[i] = -k[i];
  kvc_rows r = {};
  r.struct_size = sizeof r;
  r.k = k.data(), r.v = v.data(), r.num_tokens = 16, r.num_layers = 3;
  r.block_table = before.data(), r.block_table_size = before.size();
  ASSERT_EQ(kvc_storage_store(s, &r, nullptr), KVC_OK);
  r.k = rows.data(), r.v = values.data();
  ASSERT_EQ(kvc_storage_gather(s, &r, nullptr), KVC_OK);
  const std::vector<float> old_rows = rows, old_values = values;

  // 10 .. 15 are free, and 0 .. 5 cached: nothing to do. Then there is.
  EXPECT_TRUE(compact(m.get()).empty());
  ASSERT_EQ(kvc_manager_evict_blocks(m.get(), -1, 6, &evicted), KVC_OK);
  const std::vector<kvc_block_copy> moves = compact(m.get());
  ASSERT_EQ(moves.size(), 4u);
  const std::vector<int32_t> after = table_of(m.get(), stays);
  EXPECT_EQ(after, (std::vector<int32_t>{3, 2, 1, 0}));
  EXPECT_EQ(table_of(m.get(), shares), after);
  for (const kvc_block_copy& move : moves) {
    const auto at = std::find(before.begin(), before.end(), move.source) - before.begin();
    EXPECT_EQ(after[static_cast<size_t>(at)], move.destination);
  }
  ASSERT_EQ(kvc_storage_copy_blocks(s, moves.data(), moves.size(), nullptr), KVC_OK);
  ASSERT_EQ(kvc_storage_zero_blocks(s, before.data(), before.size(), nullptr), KVC_OK);  // nobody looks there
  std::fill(rows.begin(), rows.end(), 0.0f), std::fill(values.begin(), values.end(), 0.0f);
  r.block_table = after.data();
  ASSERT_EQ(kvc_storage_gather(s, &r, nullptr), KVC_OK);
  EXPECT_EQ(rows, old_rows);
  EXPECT_EQ(values, old_values);
  // What moved is still found, and the lowest free block comes next.
  EXPECT_EQ(table_of(m.get(), allocate(m.get(), 2000, 5)), (std::vector<int32_t>{3, 2, 1, 0, 4}));
}

TEST(Compact, BlocksWithPinsOrExternalHoldsStay) {
  const ManagerPtr m = make_manager(12);
  int32_t external[2] = {-1, -1};
  const uint64_t gone = allocate(m.get(), 1000, 6);
  ASSERT_EQ(kvc_manager_acquire_blocks(m.get(), 0, external, 2), KVC_OK);
  const uint64_t pinned = allocate(m.get(), 2000, 1), plain = allocate(m.get(), 3000, 1);
  ASSERT_EQ(table_of(m.get(), pinned), (std::vector<int32_t>{8}));
  ASSERT_EQ(table_of(m.get(), plain), (std::vector<int32_t>{9}));
  const int32_t tokens[] = {2000, 2001, 2002, 2003};
  uint64_t pin = 0, num_pinned = 0;
  ASSERT_EQ(kvc_manager_pin_prefix(m.get(), PROMPT(0, tokens, 4, nullptr, 0), &pin, &num_pinned), KVC_OK);
  ASSERT_EQ(kvc_manager_free_request(m.get(), gone), KVC_OK);
  size_t evicted = 0;
  ASSERT_EQ(kvc_manager_evict_blocks(m.get(), -1, 6, &evicted), KVC_OK);
  const std::vector<kvc_block_copy> moves = compact(m.get());
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].source, 9);
  EXPECT_EQ(moves[0].destination, 0);
  EXPECT_EQ(table_of(m.get(), pinned), (std::vector<int32_t>{8}));
  ASSERT_EQ(kvc_manager_unpin_prefix(m.get(), pin), KVC_OK);
  ASSERT_EQ(kvc_manager_release_blocks(m.get(), external, 2), KVC_OK);
  EXPECT_EQ(compact(m.get()).size(), 1u);
  EXPECT_EQ(table_of(m.get(), pinned), (std::vector<int32_t>{1}));
}

TEST(Compact, AFewMovesAtATimeEndWhereAllAtOnceEnd) {
  const ManagerPtr at_once = make_manager(32), in_parts = make_manager(32);
  for (kvc_manager* m : {at_once.get(), in_parts.get()}) {
    const uint64_t gone = allocate(m, 1000, 10);
    allocate(m, 2000, 9);
    ASSERT_EQ(kvc_manager_free_request(m, gone), KVC_OK);
    ASSERT_EQ(kvc_manager_reset_all(m), KVC_OK);  // what is cached is stale: free, not worth a move
  }
  EXPECT_EQ(compact(at_once.get()).size(), 9u);
  size_t moves = 0;
  for (size_t more; (more = compact(in_parts.get(), 2).size()) != 0;) moves += more;
  EXPECT_EQ(moves, 9u);
  EXPECT_EQ(digest(at_once.get()), digest(in_parts.get()));
  EXPECT_TRUE(compact(at_once.get()).empty());
}

TEST(Compact, IsRefusedWhileAnybodyMayStillWrite) {
  const ManagerPtr m = make_manager(16);
  const uint64_t gone = allocate(m.get(), 1000, 4), stays = allocate(m.get(), 2000, 2);
  kvc_block_copy moves[8] = {};
  size_t count = 77;
  kvc_step step = {};
  step.struct_size = sizeof step;
  ASSERT_EQ(kvc_manager_step(m.get(), &step), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_manager_free_request(m.get(), gone), KVC_OK);
  uint64_t before = digest(m.get());
  EXPECT_EQ(kvc_manager_compact(m.get(), 0, moves, 8, &count), KVC_ERROR_BUSY);
  EXPECT_EQ(digest(m.get()), before);
  ASSERT_EQ(kvc_manager_retire_step(m.get(), step.step_id), KVC_OK);

  uint64_t child = 0;
  const int32_t token = 5;
  ASSERT_EQ(kvc_manager_truncate_request(m.get(), stays, 6), KVC_OK);
  ASSERT_EQ(kvc_manager_fork_request(m.get(), stays, &child), KVC_OK);
  ASSERT_EQ(kvc_manager_append_tokens(m.get(), child, &token, 1), KVC_OK);  // asks for a copy
  before = digest(m.get());
  EXPECT_EQ(kvc_manager_compact(m.get(), 0, moves, 8, &count), KVC_ERROR_BUSY);
  EXPECT_EQ(digest(m.get()), before);
  EXPECT_EQ(count, 77u);
  ASSERT_EQ(take_copies(m.get(), moves, 8, &count), KVC_OK);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(kvc_manager_compact(m.get(), 1, moves, 8, &count), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_compact(m.get(), 0, nullptr, 8, &count), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_compact(m.get(), 0, moves, 8, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_compact(nullptr, 0, moves, 8, &count), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_compact(m.get(), 0, moves, 8, &count), KVC_OK) << kvc_last_error();
  EXPECT_EQ(count, 0u) << "the first four are cached";
}

// A sink block moves below positions that have left the window since the row was written.
TEST(Compact, TheNextStepListsTheChangesAndNeedsNoMoreRoomThanTheTable) {
  kvc_group_config group = {};
  group.struct_size = sizeof group;
  group.kind = KVC_GROUP_SLIDING_WINDOW, group.window_tokens = kBlock, group.num_sink_tokens = 1;
  const ManagerPtr m = make_manager(64, &group);
  int32_t external[4];
  ASSERT_EQ(kvc_manager_acquire_blocks(m.get(), 0, external, 4), KVC_OK);
  std::vector<int32_t> tokens(8 * kBlock, 3);
  uint64_t request = 0;
  ASSERT_EQ(kvc_manager_allocate_request(m.get(), PROMPT(0, tokens.data(), tokens.size(), nullptr, 0),
                                         nullptr, &request, nullptr),
            KVC_OK);
  ASSERT_EQ(kvc_manager_release_blocks(m.get(), external, 4), KVC_OK);
  constexpr size_t kStride = 60, kChanges = 20;
  std::vector<int32_t> row(kStride, -9), shadow(kStride, -9);
  kvc_table_change changes[kChanges];
  const uint64_t extend[] = {0, 1};
  const int32_t token = 7;
  kvc_status status = -1;
  kvc_step step = {};
  step.struct_size = sizeof step;
  step.fill_id = -1;
  step.num_requests = step.num_rows = 1, step.row_stride = kStride, step.change_capacity = kChanges;
  step.requests = &request, step.extend_offsets = extend, step.extend_tokens = &token;
  step.status = &status, step.block_tables = row.data(), step.changes = changes;
  int64_t slot = -1;
  step.slots = &slot, step.slot_capacity = 1;
  kvc_block_copy copy;
  step.copies = &copy, step.copy_capacity = 1;
  const auto run = [&] {
    step.retired_step = step.step_id;
    ASSERT_EQ(kvc_manager_step(m.get(), &step), KVC_OK) << kvc_last_error();
    ASSERT_EQ(status, KVC_OK);
    for (size_t i = 0; i < step.num_changes; ++i)
      shadow[static_cast<size_t>(changes[i].column)] = changes[i].block;
  };
  run();
  ASSERT_EQ(kvc_manager_retire_step(m.get(), step.step_id), KVC_OK);
  ASSERT_EQ(kvc_manager_commit_tokens(m.get(), request, tokens.size()), KVC_OK);
  EXPECT_GE(compact(m.get()).size(), 2u);
  run();
  const std::vector<int32_t> table = table_of(m.get(), request);
  EXPECT_LT(*std::max_element(table.begin(), table.end()), 4);
  for (size_t j = 0; j < table.size(); ++j) {
    EXPECT_EQ(row[j], table[j]) << j;
    EXPECT_EQ(shadow[j], table[j]) << j;
  }
  EXPECT_EQ(slot, int64_t{table.back()} * kBlock + 1);
}

}  // namespace
