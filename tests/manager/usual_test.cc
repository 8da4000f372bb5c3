// SPDX-License-Identifier: Apache-2.0
// The short path of usual decode steps does what the general one does: two managers get the same steps, and
// one of them, without the array num_blocks, never takes the short path.
#include <gtest/gtest.h>
#include <kvcache/inspect.h>
#include <kvcache/manager.h>
#include <kvcache/step.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

#include "../rounds.h"
#include "../seed.h"

namespace {

constexpr size_t kRequests = 12, kStride = 6, kBlock = 4, kLongest = 30;

class Side {
 public:
  Side(bool short_path, uint64_t blocks, uint64_t longest) : short_path_(short_path) {
    kvc_manager_config config = {};
    config.struct_size = sizeof config;
    config.num_blocks = blocks, config.block_size = kBlock, config.max_request_tokens = longest;
    config.max_requests = 2 * kRequests, config.event_capacity = 64, config.seed = 7, config.vocab_size = 9;
    EXPECT_EQ(kvc_manager_create(&config, &manager), KVC_OK) << kvc_last_error();
    for (size_t i = 0; i < kRequests; ++i) rows[i] = static_cast<int32_t>(i);
  }
  ~Side() { kvc_manager_destroy(manager); }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  void allocate(size_t i, const std::vector<int32_t>& text, uint64_t lookahead, const kvc_extra_key* key) {
    kvc_prompt prompt = {};
    prompt.struct_size = sizeof prompt;
    prompt.tokens = text.data(), prompt.num_tokens = text.size();
    prompt.keys = key, prompt.num_keys = key != nullptr;
    kvc_request_config options = {};
    options.struct_size = sizeof options;
    options.lookahead = lookahead;
    uint64_t cached = 0;
    if (kvc_manager_allocate_request(manager, &prompt, &options, &ids[i], &cached) != KVC_OK) ids[i] = 0;
  }
  kvc_request_info info(size_t i) const {
    kvc_request_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_manager_request_info(manager, ids[i], &info), KVC_OK);
    return info;
  }
  void run() {
    step = {};
    step.struct_size = sizeof step;
    step.num_requests = kRequests, step.requests = ids, step.committed = committed;
    step.extend_offsets = offsets, step.extend_tokens = tokens;
    step.num_rows = kRequests, step.row_stride = kStride, step.rows = rows, step.block_tables = tables[0];
    step.slots = slots, step.slot_capacity = 4 * kRequests, step.status = status, step.fill_id = -1;
    step.num_blocks = short_path_ ? num_blocks : nullptr;
    step.copies = copies, step.copy_capacity = kRequests;
    step.changes = changes, step.change_capacity = kRequests * kStride;
    call = kvc_manager_step(manager, &step);
    EXPECT_EQ(kvc_manager_retire_step(manager, step.step_id), KVC_OK);
    EXPECT_EQ(kvc_manager_check(manager), KVC_OK) << kvc_last_error();
  }

  kvc_manager* manager = nullptr;
  uint64_t ids[kRequests] = {}, committed[kRequests] = {}, offsets[kRequests + 1] = {}, num_blocks[kRequests];
  int32_t rows[kRequests], tokens[4 * kRequests] = {}, tables[kRequests][kStride] = {};
  int64_t slots[4 * kRequests] = {};
  kvc_status status[kRequests] = {}, call = KVC_OK;
  kvc_block_copy copies[kRequests];
  kvc_table_change changes[kRequests * kStride];
  kvc_step step;

 private:
  const bool short_path_;
};

void expect_equal(const Side& a, const Side& b) {
  ASSERT_EQ(a.call, b.call) << kvc_last_error();
  uint64_t digests[2];
  ASSERT_EQ(kvc_manager_digest(a.manager, &digests[0]), KVC_OK);
  ASSERT_EQ(kvc_manager_digest(b.manager, &digests[1]), KVC_OK);
  ASSERT_EQ(digests[0], digests[1]);
  ASSERT_TRUE(std::equal(std::begin(a.status), std::end(a.status), b.status));
  ASSERT_TRUE(std::equal(a.slots, a.slots + a.step.num_slots, b.slots));
  ASSERT_EQ(a.step.num_changes, b.step.num_changes);
  for (size_t i = 0; i < a.step.num_changes; ++i) {
    const kvc_table_change &x = a.changes[i], &y = b.changes[i];
    ASSERT_TRUE(x.row == y.row && x.column == y.column && x.block == y.block) << i;
  }
  for (size_t r = 0; r < kRequests; ++r)
    ASSERT_TRUE(std::equal(a.tables[r], a.tables[r] + kStride, b.tables[r])) << r;
}

// What the rows of this step must show, and their lengths.
void expect_rows(const Side& side) {
  for (size_t i = 0; i < kRequests; ++i) {
    if (side.ids[i] == 0) continue;
    int32_t row[kLongest / kBlock + 2];
    ASSERT_EQ(kvc_manager_export_tables(side.manager, &side.ids[i], 1, 0, -1, row, std::size(row)), KVC_OK);
    size_t length = 0;
    while (length < std::size(row) && row[length] >= 0) ++length;
    ASSERT_EQ(side.num_blocks[i], length);
    if (side.rows[i] < 0 || length > kStride) continue;
    ASSERT_TRUE(std::equal(row, row + kStride, side.tables[side.rows[i]])) << i;
  }
}

TEST(UsualStepTest, TheShortPathDoesWhatTheGeneralOneDoes) {
  std::mt19937_64 random(kvc::test::test_seed());
  const auto one_in = [&](uint64_t n) { return random() % n == 0; };
  for (int episode = 0; episode < kvc::test::rounds(8); ++episode) {
    // The longest request ends before the row, or behind it.
    const uint64_t blocks = 20 + random() % 60, longest = one_in(2) ? kLongest : kStride * kBlock - 7;
    Side quick(true, blocks, longest), slow(false, blocks, longest);
    Side* const sides[] = {&quick, &slow};
    for (int round = 0; round < 120; ++round) {
      for (size_t i = 0; i < kRequests; ++i) {
        if (quick.ids[i] != 0 && !one_in(25)) continue;
        std::vector<int32_t> prompt(1 + random() % 9, static_cast<int32_t>(random() % 2));
        const uint64_t lookahead = one_in(3) ? 1 + random() % 3 : 0;
        const kvc_extra_key key = {
            .first_token = 0, .num_tokens = 1 + random() % prompt.size(), .digest = {1}};
        const bool has_key = one_in(5);
        for (Side* side : sides) {
          if (side->ids[i] != 0) {
            EXPECT_EQ(kvc_manager_free_request(side->manager, side->ids[i]), KVC_OK);
          }
          side->allocate(i, prompt, lookahead, has_key ? &key : nullptr);
        }
        ASSERT_EQ(quick.ids[i] == 0, slow.ids[i] == 0);
      }
      const size_t other = random() % kRequests;
      const bool truncates = one_in(20), resets = one_in(60);
      uint64_t offset = 0;
      for (size_t i = 0; i < kRequests; ++i) {
        const kvc_request_info info = quick.ids[i] == 0 ? kvc_request_info{} : quick.info(i);
        const uint64_t behind = one_in(8) ? std::min<uint64_t>(1, info.num_tokens - info.num_committed) : 0;
        const uint64_t count = one_in(10) ? random() % 4 : 1;
        const int32_t row = one_in(15) ? -1 : static_cast<int32_t>(i);
        for (Side* side : sides) {
          side->committed[i] = std::min(info.num_tokens, info.capacity) - behind;
          side->offsets[i] = offset, side->rows[i] = row;
        }
        for (uint64_t t = 0; t < count; ++t, ++offset)
          quick.tokens[offset] = slow.tokens[offset] =
              one_in(200) ? 9 : static_cast<int32_t>(random() % 3 == 0);
      }
      for (Side* side : sides) {
        side->offsets[kRequests] = offset;
        if (truncates && side->ids[other] != 0) {
          EXPECT_EQ(kvc_manager_truncate_request(side->manager, side->ids[other], 1), KVC_OK);
          side->committed[other] = 1;
        }
        if (resets) {
          EXPECT_EQ(kvc_manager_reset_all(side->manager), KVC_OK);
        }
        side->run();
      }
      ASSERT_NO_FATAL_FAILURE(expect_equal(quick, slow)) << "episode " << episode << ", round " << round;
      ASSERT_NO_FATAL_FAILURE(expect_rows(quick)) << "episode " << episode << ", round " << round;
    }
  }
}

}  // namespace
