// SPDX-License-Identifier: Apache-2.0
// The step: batches whose items stand or fall alone, fences, rows that persist, and what it refuses as a
// whole.
#include <kvcache/step.h>

#include <algorithm>

#include "conformance/fixture.h"

namespace conformance {
namespace {

// A step with its own arrays; set the inputs, then run().
struct Step {
  std::vector<uint64_t> frees, preempts, truncates, lengths, requests, committed, extend, admit;
  std::vector<Tokens> prompts;  // of admissions with id 0
  std::vector<int32_t> ids;     // of all extended tokens; empty: slots only
  uint64_t retired = 0;
  uint32_t flags = 0;
  std::vector<kvc_status> status;
  std::vector<uint64_t> admitted, cached, num_blocks;
  std::vector<int64_t> slots;
  std::vector<kvc_block_copy> copies;
  std::vector<kvc_table_change> changes;
  std::vector<int32_t> rows, tables = std::vector<int32_t>(2 * 8 * 8, -1);  // two groups
  kvc_step step{};

  kvc_status run(Cache& c) {
    std::vector<uint64_t> extend_offsets = {0}, admit_offsets = {0};
    Tokens prompt_tokens;
    for (uint64_t n : extend) extend_offsets.push_back(extend_offsets.back() + n);
    for (const Tokens& p : prompts) {
      prompt_tokens.insert(prompt_tokens.end(), p.begin(), p.end());
      admit_offsets.push_back(prompt_tokens.size());
    }
    const size_t items = requests.size() + admit.size();
    status.assign(frees.size() + preempts.size() + truncates.size() + items, -1);
    admitted.assign(admit.size(), 77), cached.assign(admit.size(), 77), num_blocks.assign(2 * items, 77);
    slots.assign(2 * extend_offsets.back(), -77), copies.assign(2 * requests.size(), {}),
        changes.assign(64, {});
    step = kvc_step{};
    step.struct_size = sizeof step;
    step.flags = flags, step.fill_id = -1, step.retired_step = retired;
    step.num_frees = frees.size(), step.frees = frees.data();
    step.num_preempts = preempts.size(), step.preempts = preempts.data();
    step.num_truncates = truncates.size(), step.truncates = truncates.data(),
    step.truncate_lengths = lengths.data();
    step.num_requests = requests.size(), step.requests = requests.data();
    if (!committed.empty()) step.committed = committed.data();
    if (!extend.empty()) step.extend_offsets = extend_offsets.data();
    if (!ids.empty()) step.extend_tokens = ids.data();
    step.num_admissions = admit.size(), step.admit_requests = admit.data();
    step.admit_offsets = admit_offsets.data(), step.admit_tokens = prompt_tokens.data();
    step.num_rows = 8, step.row_stride = 8, step.block_tables = tables.data();
    if (!rows.empty()) step.rows = rows.data();
    step.slot_capacity = extend_offsets.back(), step.slots = slots.data();
    step.copy_capacity = copies.size(), step.copies = copies.data();
    step.change_capacity = changes.size(), step.changes = changes.data();
    step.status = status.data(), step.admitted = admitted.data(), step.cached = cached.data(),
    step.num_blocks = num_blocks.data();
    const kvc_status result = c.verify(kvc_manager_step(c.get(), &step));
    num_blocks.resize(items), copies.resize(step.num_copies), changes.resize(step.num_changes);
    return result;
  }
  Ids row(size_t index, size_t count) const {
    return Ids(tables.begin() + static_cast<ptrdiff_t>(8 * index),
               tables.begin() + static_cast<ptrdiff_t>(8 * index + count));
  }
};

TEST(Steps, EqualPromptsOfOneBatchDoNotShareBeforeTheyAreWritten) {
  Cache c(shape(20, B));
  const Tokens prompt = text(1, 2 * B + 1);
  Step s;
  s.admit = {0, 0, 0}, s.prompts = {prompt, prompt, prompt};
  ASSERT_EQ(s.run(c), KVC_OK);
  EXPECT_EQ(s.status, std::vector<kvc_status>(3, KVC_OK));
  EXPECT_EQ(s.cached, std::vector<uint64_t>(3, 0));
  Ids all;
  for (uint64_t id : s.admitted)
    for (int32_t block : c.table(id)) all.push_back(block);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());

  Step next;  // committed and admitted in one step: the newcomer hits
  next.requests = s.admitted, next.committed = {2 * B + 1, 2 * B + 1, 2 * B + 1};
  next.admit = {0}, next.prompts = {prompt};
  next.retired = s.step.step_id;
  ASSERT_EQ(next.run(c), KVC_OK);
  EXPECT_EQ(next.cached, std::vector<uint64_t>{2 * B});
  EXPECT_EQ(c.stats().duplicates, 4u);
}

TEST(Steps, AnInvalidIdInTheMiddleFailsAlone) {
  Cache c(shape(40, B));
  const Admitted a = c.compute(text(1, 6)), b = c.compute(text(2, 6)), d = c.compute(text(3, 6)),
                 dead = c.compute(text(4, 6));
  c.free(dead.id);
  Step s;
  s.frees = {dead.id, d.id};
  s.requests = {a.id, dead.id, b.id}, s.committed = {6, 6, 6}, s.extend = {3, 2, 3},
  s.ids = {1, 2, 3, 4, 5, 6, 7, 8};
  s.admit = {0, dead.id, 0}, s.prompts = {text(5, 3), {}, text(6, 3)};
  ASSERT_EQ(s.run(c), KVC_OK);
  EXPECT_EQ(s.status, (std::vector<kvc_status>{KVC_ERROR_NOT_FOUND, KVC_OK, KVC_OK, KVC_ERROR_NOT_FOUND,
                                               KVC_OK, KVC_OK, KVC_ERROR_NOT_FOUND, KVC_OK}));
  EXPECT_EQ(c.request(a.id).num_tokens, 9u);
  EXPECT_EQ(c.request(b.id).num_tokens, 9u);
  EXPECT_EQ(s.admitted[1], 0u);
  EXPECT_NE(s.admitted[2], 0u);
  EXPECT_EQ(s.slots[3], -1);
  EXPECT_EQ(s.slots[4], -1);
  const Ids ta = c.table(a.id);
  EXPECT_EQ(s.slots[0], ta[1] * int64_t{B} + 2);
  EXPECT_EQ(s.slots[2], ta[2] * int64_t{B});
  EXPECT_EQ(s.row(0, 3), ta);
  EXPECT_EQ(s.row(2, 3), c.table(b.id));
}

TEST(Steps, OfARequestNamedTwiceTheFirstItemCounts) {
  const uint32_t large = 64;
  const std::vector<std::vector<uint64_t>> counts = {{1, 1}, {2, 1}, {1, 2}, {0, 1}, {1, 0}};
  for (const std::vector<uint64_t>& extend : counts) {
    Cache c(shape(20, large));
    const Admitted r = c.compute(text(1, 20));
    Step before;  // from here on single tokens stay inside the block, and there is memory for them
    before.requests = {r.id};
    for (int i = 0; i < 8; ++i) {
      before.extend = {1}, before.ids = {7}, before.rows = {0};
      ASSERT_EQ(before.run(c), KVC_OK);
    }
    Step s;
    s.requests = {r.id, r.id}, s.rows = {0, 0}, s.extend = extend, s.ids = Tokens(extend[0] + extend[1], 7);
    s.tables = before.tables;
    ASSERT_EQ(s.run(c), KVC_OK);
    EXPECT_EQ(s.status[0], KVC_OK) << extend[0] << ", " << extend[1];
    EXPECT_EQ(s.status[1], KVC_ERROR_INVALID_ARGUMENT) << extend[0] << ", " << extend[1];
    EXPECT_EQ(c.request(r.id).num_tokens, 28 + extend[0]);
  }
}

TEST(Steps, AFailedExtensionLeavesItsCommit) {
  Cache c(shape(3, B));
  const Admitted r = c.allocate(text(1, 2 * B)), other = c.allocate(text(2, B));
  Step s;
  s.requests = {r.id, other.id}, s.committed = {2 * B, B + 1}, s.extend = {1, 0}, s.ids = {9};
  ASSERT_EQ(s.run(c), KVC_OK);
  EXPECT_EQ(s.status, (std::vector<kvc_status>{KVC_ERROR_NO_SPACE, KVC_ERROR_INVALID_ARGUMENT}));
  EXPECT_EQ(c.request(r.id).num_committed, 2u * B);
  EXPECT_EQ(c.request(r.id).num_tokens, 2u * B);
  EXPECT_EQ(c.whole_hit(text(1, 2 * B)), 2u * B);
  EXPECT_EQ(c.request(other.id).num_committed, 0u);
}

TEST(Steps, ARowFromBeforeAPreemptionIsWrittenAgain) {
  Cache c(shape(4, 8));
  const Admitted a = c.allocate(text(1, 2));
  Step s;
  s.requests = {a.id}, s.committed = {2}, s.extend = {1}, s.ids = {9}, s.rows = {0};
  ASSERT_EQ(s.run(c), KVC_OK);
  const int32_t before = s.tables[0];
  ASSERT_EQ(kvc_manager_retire_step(c.get(), s.step.step_id), KVC_OK);
  ASSERT_EQ(kvc_manager_preempt_request(c.get(), a.id), KVC_OK);
  c.allocate(text(2, 2));  // takes the block that the row still shows
  ASSERT_EQ(kvc_manager_admit_request(c.get(), a.id, nullptr), KVC_OK);
  s.rows = {-1}, s.committed = {3};
  ASSERT_EQ(s.run(c), KVC_OK);
  s.rows = {0}, s.committed = {4};
  ASSERT_EQ(s.run(c), KVC_OK);
  EXPECT_EQ(s.status, (std::vector<kvc_status>{KVC_OK}));
  int32_t now = -1;
  ASSERT_EQ(kvc_manager_export_tables(c.get(), &a.id, 1, 0, -1, &now, 1), KVC_OK);
  EXPECT_NE(now, before);
  EXPECT_EQ(s.tables[0], now);
}

TEST(Steps, AllCommitsComeBeforeAnyExtension) {
  {  // What the last request's window returns is there for the first one's extension.
    Cache c(shape(5, B), {window_group(2)});
    const Admitted a = c.compute(text(1, B)), b = c.allocate(text(2, 4 * B));
    Step s;
    s.requests = {a.id, b.id}, s.committed = {B, 4 * B}, s.extend = {1, 0}, s.ids = {9};
    ASSERT_EQ(s.run(c), KVC_OK);
    EXPECT_EQ(s.status, (std::vector<kvc_status>{KVC_OK, KVC_OK}));
  }
  {  // What the last request commits is a duplicate of a block that only the first one's extension evicts.
    Cache c(shape(3, B));
    c.store(text(2, B));
    const Admitted a = c.compute(text(1, B)), b = c.allocate(text(2, B), request_config(KVC_REQUEST_NO_READ));
    Step s;
    s.requests = {a.id, b.id}, s.committed = {B, B}, s.extend = {1, 0}, s.ids = {9};
    ASSERT_EQ(s.run(c), KVC_OK);
    EXPECT_EQ(s.status, (std::vector<kvc_status>{KVC_OK, KVC_OK}));
    EXPECT_EQ(c.stats().duplicates, 1u);
  }
}

TEST(Steps, ReleasedBlocksReturnWhenTheStepBeforeIsRetired) {
  Cache c(shape(4, B));
  Step one;
  one.admit = {0}, one.prompts = {text(1, 4 * B)};
  ASSERT_EQ(one.run(c), KVC_OK);
  EXPECT_EQ(one.step.step_id, 1u);
  Step two;  // step 1 is in flight: what is freed may still be written
  two.frees = one.admitted, two.admit = {0}, two.prompts = {text(2, 2 * B)};
  ASSERT_EQ(two.run(c), KVC_OK);
  EXPECT_EQ(two.status, (std::vector<kvc_status>{KVC_OK, KVC_ERROR_AGAIN}));
  EXPECT_EQ(two.step.num_refused, 1u);
  EXPECT_EQ(two.step.shortage_blocks, 2u);
  EXPECT_EQ(c.stats().blocks_fenced, 4u);
  EXPECT_EQ(c.block(0).state, static_cast<uint32_t>(KVC_BLOCK_FENCED));
  Admitted r;
  EXPECT_REFUSED(c, KVC_ERROR_AGAIN, c.try_allocate(text(2, 2 * B), &r));
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_allocate(text(2, 5 * B), &r));  // waiting would not help
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_retire_step(c.get(), 3));
  ASSERT_EQ(c.verify(kvc_manager_retire_step(c.get(), 1)), KVC_OK);
  EXPECT_EQ(c.stats().blocks_fenced, 0u);
  EXPECT_EQ(c.allocate(text(2, 2 * B)).cached, 0u);
}

TEST(Steps, ASynchronousEngineNeverSeesAFence) {
  Cache c(shape(4, B));
  std::vector<uint64_t> live;
  uint64_t done = 0;
  for (int32_t i = 0; i < 20; ++i) {
    Step s;
    s.retired = done, s.frees = live, s.admit = {0}, s.prompts = {text(i, 4 * B)};
    ASSERT_EQ(s.run(c), KVC_OK);
    EXPECT_EQ(s.status.back(), KVC_OK);
    EXPECT_EQ(c.stats().blocks_fenced, 0u);
    done = s.step.step_id, live = s.admitted;
  }
}

TEST(Steps, AgainNeedsEveryPoolToBeFilledByItsFences) {
  Cache c(shape(0, B), {full_group(0), full_group(1)}, {8, 3});
  Step one;
  one.admit = {0}, one.prompts = {text(1, 3 * B)};
  ASSERT_EQ(one.run(c), KVC_OK);
  ASSERT_EQ(c.verify(kvc_manager_free_request(c.get(), one.admitted[0])), KVC_OK);
  Admitted r;
  EXPECT_REFUSED(c, KVC_ERROR_AGAIN, c.try_allocate(text(2, 3 * B), &r));
  // Pool 0 would be filled by its fences, pool 1 never: waiting would be for ever.
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_allocate(text(2, 6 * B), &r));
  ASSERT_EQ(kvc_manager_retire_step(c.get(), 1), KVC_OK);
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_allocate(text(2, 6 * B), &r));
  c.allocate(text(2, 3 * B));
}

TEST(Steps, AHitOnAFencedBlockTakesItOutOfTheFence) {
  Cache c(shape(8, B));
  Step one;
  one.admit = {0}, one.prompts = {text(1, 2 * B)};
  ASSERT_EQ(one.run(c), KVC_OK);
  Step two;
  two.retired = 1, two.requests = one.admitted, two.committed = {2 * B};
  ASSERT_EQ(two.run(c), KVC_OK);
  Step three;
  three.frees = one.admitted, three.admit = {0}, three.prompts = {text(1, 2 * B) + text(2, 1)};
  ASSERT_EQ(three.run(c), KVC_OK);
  EXPECT_EQ(three.cached, std::vector<uint64_t>{2 * B});
  EXPECT_EQ(c.stats().blocks_fenced, 0u);
}

TEST(Steps, TheFirstRefusalStopsLaterAdmissionsUnlessAsked) {
  for (const bool go_on : {false, true}) {
    Cache c(shape(4, B));
    Step s;
    s.flags = go_on ? uint32_t{KVC_STEP_ADMIT_PAST_REFUSAL} : 0u;
    s.admit = {0, 0, 0}, s.prompts = {text(1, 2 * B), text(2, 3 * B), text(3, B)};
    ASSERT_EQ(s.run(c), KVC_OK);
    EXPECT_EQ(s.status,
              (std::vector<kvc_status>{KVC_OK, KVC_ERROR_NO_SPACE, go_on ? KVC_OK : KVC_ERROR_SKIPPED}));
    EXPECT_EQ(s.step.num_refused, go_on ? 1u : 2u);
    EXPECT_EQ(s.step.shortage_blocks, 1u);
    EXPECT_EQ(s.admitted[1], 0u);
    EXPECT_EQ(c.stats().live_requests, go_on ? 2u : 1u);
    EXPECT_EQ(c.stats().waiting_requests, 0u);
  }
}

TEST(Steps, AdmissionsAreMadeAllOrNone) {
  for (const uint64_t blocks : {5u, 6u}) {
    Cache c(shape(blocks, B));
    c.store(text(1, 2 * B));
    const uint64_t waiting = [&] {
      uint64_t id = 0;
      const Tokens tokens = text(3, B);
      EXPECT_EQ(kvc_manager_create_request(c.get(), PROMPT(0, tokens.data(), tokens.size(), nullptr, 0),
                                           nullptr, &id),
                KVC_OK);
      return id;
    }();
    c.store(text(4, B));  // cached later than what the step hits
    const uint64_t before = c.digest();
    Step s;  // the second and the third have two blocks of the hit in common, which the first must not evict
    s.flags = KVC_STEP_ADMIT_ALL_OR_NONE;
    s.admit = {0, 0, 0, waiting},
    s.prompts = {text(2, B), text(1, 2 * B) + text(5, 1), text(1, 2 * B) + text(6, 1), {}};
    ASSERT_EQ(s.run(c), KVC_OK);
    if (blocks == 6) {
      EXPECT_EQ(s.status, std::vector<kvc_status>(4, KVC_OK));
      EXPECT_EQ(s.cached, (std::vector<uint64_t>{0, 2 * B, 2 * B, 0}));
      EXPECT_EQ(c.table(s.admitted[1])[1], c.table(s.admitted[2])[1]);
      EXPECT_EQ(s.admitted[3], waiting);
      EXPECT_EQ(c.available(), 0u);
      for (const uint64_t id : s.admitted) c.free(id);
      continue;
    }
    EXPECT_EQ(s.status, (std::vector<kvc_status>{KVC_ERROR_SKIPPED, KVC_ERROR_SKIPPED, KVC_ERROR_SKIPPED,
                                                 KVC_ERROR_NO_SPACE}));
    EXPECT_EQ(s.step.num_refused, 4u);
    EXPECT_EQ(s.step.shortage_blocks, 1u);
    EXPECT_EQ(s.admitted, std::vector<uint64_t>(4, 0));
    EXPECT_EQ(kvc_manager_retire_step(c.get(), s.step.step_id), KVC_OK);
    EXPECT_EQ(c.digest(), before);
    Step never;
    never.flags = KVC_STEP_ADMIT_ALL_OR_NONE;
    never.admit = {waiting, 0, waiting}, never.prompts = {{}, text(7, 6 * B), {}};
    ASSERT_EQ(never.run(c), KVC_OK);
    EXPECT_EQ(never.status,
              (std::vector<kvc_status>{KVC_ERROR_SKIPPED, KVC_ERROR_NEVER_FITS, KVC_ERROR_BUSY}));
    EXPECT_EQ(kvc_manager_retire_step(c.get(), never.step.step_id), KVC_OK);
    EXPECT_EQ(c.digest(), before);
    EXPECT_EQ(c.admit(waiting), 0u);
  }
}

TEST(Steps, RowsKeepWhatDidNotChangeAndChangesListTheRest) {
  const uint32_t small = 2;
  Cache c(shape(30, small));
  Step s;
  s.admit = {0, 0}, s.prompts = {text(1, 3), text(2, 5)};
  ASSERT_EQ(s.run(c), KVC_OK);
  EXPECT_EQ(s.changes.size(), 5u);
  EXPECT_EQ(s.num_blocks, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(s.row(0, 2), c.table(s.admitted[0]));
  EXPECT_EQ(s.row(1, 3), c.table(s.admitted[1]));
  EXPECT_EQ(s.row(0, 8)[2], -1);
  const std::vector<uint64_t> live = s.admitted;
  std::fill(s.tables.begin(), s.tables.end(), -55);  // what the library does not write stays
  Step next;
  next.tables = s.tables, next.retired = 1;
  next.requests = live, next.committed = {3, 5}, next.extend = {1, 2}, next.ids = {7, 8, 9};
  ASSERT_EQ(next.run(c), KVC_OK);
  ASSERT_EQ(next.changes.size(), 1u);
  EXPECT_EQ(next.changes[0].row, 1);
  EXPECT_EQ(next.changes[0].column, 3);
  EXPECT_EQ(next.changes[0].block, c.table(live[1])[3]);
  EXPECT_EQ(next.row(1, 8)[3], c.table(live[1])[3]);
  EXPECT_EQ(std::count(next.tables.begin(), next.tables.end(), -55), 127);
  Step moved;  // other rows, and then all of them again because their memory was lost
  moved.retired = 2, moved.requests = live, moved.rows = {4, 5};
  ASSERT_EQ(moved.run(c), KVC_OK);
  EXPECT_EQ(moved.row(4, 2), c.table(live[0]));
  EXPECT_EQ(moved.row(5, 4), c.table(live[1]));
  Step again;
  again.retired = 3, again.requests = live, again.rows = {4, 5}, again.flags = KVC_STEP_WHOLE_ROWS;
  ASSERT_EQ(again.run(c), KVC_OK);
  EXPECT_EQ(again.row(4, 2), c.table(live[0]));
  EXPECT_EQ(again.row(5, 4), c.table(live[1]));
  EXPECT_EQ(again.changes.size(), 6u);
}

TEST(Steps, StructuralFaultsChangeNothing) {
  Cache c(shape(10, B));
  const Admitted r = c.compute(text(1, 6));
  Step s;
  s.requests = {r.id}, s.committed = {6}, s.extend = {3}, s.ids = {1, 2, 3}, s.retired = 5;
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, s.run(c));  // a step of the future
  s.retired = 0, s.rows = {8};
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, s.run(c));  // no such row
  s.rows = {-2};
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, s.run(c));
  s.rows = {-1};
  ASSERT_EQ(s.run(c), KVC_OK);  // -1 writes none
  EXPECT_EQ(std::count(s.tables.begin(), s.tables.end(), -1), 128);
  EXPECT_EQ(s.step.step_id, 1u);  // the failed ones were not issued

  kvc_step short_of_slots{};
  short_of_slots.struct_size = sizeof short_of_slots;
  const uint64_t offsets[] = {0, 2};
  kvc_status status = -1;
  int64_t slots[2] = {-77, -77};
  kvc_block_copy copy;
  short_of_slots.num_requests = 1, short_of_slots.requests = &r.id, short_of_slots.extend_offsets = offsets;
  short_of_slots.slots = slots, short_of_slots.slot_capacity = 1, short_of_slots.status = &status;
  short_of_slots.copies = &copy, short_of_slots.copy_capacity = 1;
  EXPECT_REFUSED(c, KVC_ERROR_BUFFER_TOO_SMALL, kvc_manager_step(c.get(), &short_of_slots));
  EXPECT_EQ(short_of_slots.num_slots, 2u);
  EXPECT_EQ(slots[0], -77);
  const uint64_t falling[] = {0, 2};
  const uint64_t wrong[] = {1, 0};
  short_of_slots.slot_capacity = 2, short_of_slots.extend_offsets = wrong;
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(c.get(), &short_of_slots));
  short_of_slots.extend_offsets = falling;
  EXPECT_EQ(c.verify(kvc_manager_step(c.get(), &short_of_slots)), KVC_OK);
  EXPECT_EQ(status, KVC_OK);
}

TEST(Steps, CopiesOfAStepAreHeldUntilItIsRetired) {
  Cache c(shape(10, B));
  const Admitted parent = c.compute(text(1, 6));
  const uint64_t child = c.fork(parent.id);
  const int32_t shared = c.table(parent.id)[1];
  Step s;
  s.requests = {child}, s.extend = {1}, s.ids = {9}, s.frees = {parent.id};
  ASSERT_EQ(s.run(c), KVC_OK);
  // The parent is freed first, so the child is alone and writes in place.
  EXPECT_TRUE(s.copies.empty());
  EXPECT_EQ(c.table(child)[1], shared);

  const uint64_t second = c.fork(child);
  ASSERT_EQ(kvc_manager_retire_step(c.get(), 1), KVC_OK);
  Step next;
  next.requests = {second}, next.extend = {1}, next.ids = {8};
  c.commit(child, 7);
  ASSERT_EQ(next.run(c), KVC_OK);
  ASSERT_EQ(next.copies.size(), 1u);
  EXPECT_EQ(next.copies[0].source, shared);
  c.free(child);
  const Ids rest = c.drain();
  EXPECT_EQ(std::count(rest.begin(), rest.end(), shared), 0);
  ASSERT_EQ(c.verify(kvc_manager_retire_step(c.get(), 2)), KVC_OK);
  const Ids after = c.drain();
  EXPECT_EQ(std::count(after.begin(), after.end(), shared), 1);
}

}  // namespace
}  // namespace conformance
