// SPDX-License-Identifier: Apache-2.0
// The list of moves, and the moves inside a storage, overlapping ones too.
#include <gtest/gtest.h>
#include <kvcache/storage.h>

#include <string>

#include "speculation/drafted.h"

namespace kvc::test {
namespace {

bool operator==(const kvc_token_copy& a, const kvc_token_copy& b) {
  return a.group == b.group && a.source == b.source && a.destination == b.destination &&
         a.offset == b.offset && a.new_offset == b.new_offset && a.num_tokens == b.num_tokens;
}

// A comb: the path 1, 3, 4, 5 of request 1; request 0 is a chain, all of which is accepted.
struct Scene {
  Drafted drafts;
  Verdict verdict{drafts};
  std::vector<uint64_t> starts{10, 6};
  std::vector<int32_t> tables{1, 2, 3, 4, 7, 8, 9, 5};
  kvc_draft_tables where = {sizeof where, 3, 4, starts.data(), tables.data(), 4};
  std::vector<kvc_token_copy> moves{8};
  size_t count = 99;

  Scene() {
    drafts.node(1, -1), drafts.node(2, 0);
    drafts.end_request();
    drafts.node(1, -1), drafts.node(2, -1), drafts.node(3, 1), drafts.node(4, 1), drafts.node(5, 3),
        drafts.node(6, 4);
    drafts.end_request();
    verdict.path = {0, 1, 1, 3, 4, 5, -1, -1}, verdict.num_accepted = {2, 4};
  }
  kvc_status list(size_t capacity) {
    const kvc_drafts c = drafts.c();
    const kvc_verdict of = verdict.c();
    return kvc_verdict_moves(&c, &of, &where, moves.data(), capacity, &count);
  }
};

TEST(Moves, BringThePathTogetherInItsBlocks) {
  Scene s;
  ASSERT_EQ(s.list(8), KVC_OK) << kvc_last_error();
  // Nodes 1, 3, 4, 5 are at positions 7, 9, 10, 11 and go to 6, 7, 8, 9; blocks 8 and 9 hold positions 4
  // .. 11.
  ASSERT_EQ(s.count, 3u);
  EXPECT_TRUE(s.moves[0] == (kvc_token_copy{3, 8, 8, 3, 2, 1}));
  EXPECT_TRUE(s.moves[1] == (kvc_token_copy{3, 9, 8, 1, 3, 1}));
  EXPECT_TRUE(s.moves[2] == (kvc_token_copy{3, 9, 9, 2, 0, 2})) << "two that stay together";
}

TEST(Moves, AskForRoom) {
  Scene s;
  EXPECT_EQ(s.list(2), KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(s.count, 3u);
  EXPECT_EQ(s.moves[0].num_tokens, 0u) << "nothing is written";
}

TEST(Moves, RefusePathsThatAreNoneAndTablesWithoutBlocks) {
  Scene s;
  s.verdict.path[3] = 4;
  EXPECT_EQ(s.list(8), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(kvc_last_error(),
               "request 1: entry 1 of its path is node 4, which is no child of node 1; pass the verdict of "
               "these drafts");
  s.verdict.path[3] = 3, s.verdict.num_accepted[1] = 7;
  EXPECT_EQ(s.list(8), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(kvc_last_error(), "request 1: num_accepted is 7 of 6 nodes");
  s.verdict.num_accepted[1] = 4, s.tables[6] = -1;
  EXPECT_EQ(s.list(8), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(kvc_last_error(),
               "request 1: its table has no block for position 9; give it lookahead slots for all nodes");
  s.tables[6] = 9, s.where.table_stride = 2;
  EXPECT_EQ(s.list(8), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(kvc_last_error(), "request 1: position 9 is past the 2 blocks of its table");
  s.where.table_stride = 4, s.where.block_size = 0;
  EXPECT_EQ(s.list(8), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(s.count, 99u);
}

struct Stored {
  explicit Stored(int32_t dtype) {
    kvc_storage_config config = {};
    config.struct_size = sizeof config, config.num_blocks = 3, config.block_size = 4, config.num_layers = 2;
    config.num_heads = 2, config.head_dim = 8, config.v_head_dim = 4, config.dtype = dtype;
    EXPECT_EQ(kvc_storage_create(&config, &storage), KVC_OK) << kvc_last_error();
    for (size_t i = 0; i < 2 * 12 * 16; ++i) k.push_back(static_cast<float>(i % 97) / 8 - 3);
    for (size_t i = 0; i < 2 * 12 * 8; ++i) v.push_back(static_cast<float>(i % 89) / 8 - 3);
    kvc_rows rows = all(k, v);
    EXPECT_EQ(kvc_storage_store(storage, &rows, nullptr), KVC_OK) << kvc_last_error();
    EXPECT_EQ(kvc_storage_gather(storage, &rows, nullptr), KVC_OK) << kvc_last_error();
  }
  ~Stored() { kvc_storage_destroy(storage); }
  kvc_rows all(std::vector<float>& keys, std::vector<float>& values) {
    kvc_rows rows = {};
    rows.struct_size = sizeof rows, rows.k = keys.data(), rows.v = values.data(), rows.num_tokens = 12;
    rows.num_layers = 2, rows.block_table = table, rows.block_table_size = 3;
    return rows;
  }
  void expect_moved(const std::vector<kvc_token_copy>& moves) {
    for (const kvc_token_copy& move : moves) {
      for (uint32_t t = 0; t < move.num_tokens; ++t) {
        const uint32_t from = static_cast<uint32_t>(move.source) * 4 + move.offset + t;
        const uint32_t to = static_cast<uint32_t>(move.destination) * 4 + move.new_offset + t;
        for (uint32_t layer = 0; layer < 2; ++layer) {
          std::copy_n(k.begin() + (layer * 12 + from) * 16, 16, k.begin() + (layer * 12 + to) * 16);
          std::copy_n(v.begin() + (layer * 12 + from) * 8, 8, v.begin() + (layer * 12 + to) * 8);
        }
      }
    }
    ASSERT_EQ(kvc_storage_move_tokens(storage, moves.data(), moves.size()), KVC_OK) << kvc_last_error();
    std::vector<float> keys(k.size()), values(v.size());
    kvc_rows rows = all(keys, values);
    ASSERT_EQ(kvc_storage_gather(storage, &rows, nullptr), KVC_OK);
    EXPECT_EQ(keys, k);
    EXPECT_EQ(values, v);
  }
  kvc_storage* storage = nullptr;
  const int32_t table[3] = {0, 1, 2};
  std::vector<float> k, v;
};

TEST(MovedTokens, TakeTheirBytesAndScalesInOrder) {
  for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16, KVC_FLOAT8_E4M3, KVC_INT8, KVC_INT4}) {
    SCOPED_TRACE(dtype);
    Stored s(dtype);
    s.expect_moved({{0, 0, 0, 1, 0, 3}, {0, 1, 0, 0, 3, 1}, {9, 2, 1, 0, 1, 3}, {0, 1, 2, 0, 0, 4}});
  }
}

TEST(MovedTokens, AreRefusedAsAWhole) {
  Stored s(KVC_FLOAT32);
  const kvc_token_copy good = {0, 0, 1, 0, 0, 1};
  for (const kvc_token_copy& bad :
       {kvc_token_copy{0, 3, 0, 0, 0, 1}, kvc_token_copy{0, 0, -1, 0, 0, 1}, kvc_token_copy{0, 0, 1, 3, 0, 2},
        kvc_token_copy{0, 0, 1, 0, 4, 1}, kvc_token_copy{0, 0, 1, UINT32_MAX, 0, 2}}) {
    const kvc_token_copy moves[] = {good, bad};
    EXPECT_EQ(kvc_storage_move_tokens(s.storage, moves, 2), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(kvc_last_error()).rfind("move 1: ", 0), 0u) << kvc_last_error();
  }
  s.expect_moved({});
  kvc_storage_config config = {};
  config.struct_size = sizeof config, config.num_blocks = 2, config.num_layers = 1, config.num_heads = 1;
  config.head_dim = 16, config.flags = KVC_STORAGE_TILED_KEYS;
  kvc_storage* tiled = nullptr;
  ASSERT_EQ(kvc_storage_create(&config, &tiled), KVC_OK) << kvc_last_error();
  EXPECT_EQ(kvc_storage_move_tokens(tiled, &good, 1), KVC_ERROR_UNSUPPORTED);
  kvc_storage_destroy(tiled);
}

}  // namespace
}  // namespace kvc::test
