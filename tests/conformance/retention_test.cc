// SPDX-License-Identifier: Apache-2.0
// Hints and registered prompts: exact victims, what ends a hint, and what is refused.
#include <kvcache.h>

#include <cstring>

#include "calls.h"
#include "conformance/fixture.h"

namespace conformance {
namespace {

kvc_manager_config hinted(uint64_t blocks) {
  kvc_manager_config c = shape(blocks, B);
  c.flags = KVC_MANAGER_HINTS;
  return c;
}

class Hinted : public Cache {
 public:
  using Cache::Cache;
  kvc_status try_priority(uint64_t id, uint64_t begin, uint64_t count, uint32_t priority,
                          uint64_t until = 0) {
    return verify(kvc_manager_set_priority(get(), id, begin, count, priority, until));
  }
  void priority(uint64_t id, uint64_t begin, uint64_t count, uint32_t value, uint64_t until = 0) {
    EXPECT_EQ(try_priority(id, begin, count, value, until), KVC_OK) << kvc_last_error();
  }
  void time(uint64_t now) { EXPECT_EQ(verify(kvc_manager_set_time(get(), now)), KVC_OK) << kvc_last_error(); }
  void end_session(uint64_t id, uint64_t shared = 0) {
    EXPECT_EQ(verify(kvc_manager_end_session(get(), id, shared)), KVC_OK) << kvc_last_error();
  }
  uint64_t keep(const Tokens& tokens, uint32_t value, uint64_t until = 0, uint64_t begin = 0) {
    uint64_t hinted = 77;
    EXPECT_EQ(verify(kvc_manager_set_prefix_priority(
                  get(), PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), begin, value, until, &hinted)),
              KVC_OK)
        << kvc_last_error();
    return hinted;
  }
  uint64_t demote(const Tokens& tokens, uint64_t begin = 0) {
    uint64_t demoted = 77;
    EXPECT_EQ(
        verify(kvc_manager_set_prefix_priority(get(), PROMPT(0, tokens.data(), tokens.size(), nullptr, 0),
                                               begin, KVC_PRIORITY_DEMOTED, 0, &demoted)),
        KVC_OK)
        << kvc_last_error();
    return demoted;
  }
  kvc_status try_register(const char* name, const Tokens& tokens, uint64_t* pinned, uint64_t ns = 0) {
    return verify(kvc_manager_register_prompt(get(), name,
                                              PROMPT(ns, tokens.data(), tokens.size(), nullptr, 0), pinned));
  }
  uint64_t name(const char* name, const Tokens& tokens, uint64_t ns = 0) {
    uint64_t pinned = 77;
    EXPECT_EQ(try_register(name, tokens, &pinned, ns), KVC_OK) << kvc_last_error();
    return pinned;
  }
  kvc_status try_allocate_from_prompt(const char* name, const Tokens& tail, Admitted* out) {
    return verify(kvc_manager_allocate_from_prompt(get(), name, tail.data(), tail.size(), nullptr, &out->id,
                                                   &out->cached));
  }
  Admitted allocate_from_prompt(const char* name, const Tokens& tail) {
    Admitted out;
    EXPECT_EQ(try_allocate_from_prompt(name, tail, &out), KVC_OK) << kvc_last_error();
    return out;
  }
  kvc_status unregister(const char* name) { return verify(kvc_manager_unregister_prompt(get(), name)); }
  std::string names() {
    char room[512];
    size_t size = 77;
    EXPECT_EQ(kvc_manager_list_prompts(get(), room, sizeof room, &size), KVC_OK);
    return std::string(room, size);
  }
};

bool says(const char* part) { return std::strstr(kvc_last_error(), part) != nullptr; }

// Stores a text of 2 blocks and returns the second's and the first's block, the order in which they leave.
Ids stored(Hinted& c, int32_t which) {
  const Admitted a = c.compute(text(which, 2 * B));
  const Ids table = c.table(a.id);
  c.free(a.id);
  return {table[1], table[0]};
}
Ids operator+(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Retention, TheLowestPriorityLeavesFirst) {
  Hinted c(hinted(8));
  const Ids low = stored(c, 1), usual = stored(c, 2), high = stored(c, 3), higher = stored(c, 4);
  EXPECT_EQ(c.keep(text(4, 2 * B), 100), 2 * B);
  EXPECT_EQ(c.keep(text(3, 2 * B), 99), 2 * B);
  EXPECT_EQ(c.keep(text(1, 2 * B), 0), 2 * B);
  EXPECT_EQ(c.keep(text(9, 2 * B), 100), 0u);  // not cached
  EXPECT_EQ(c.drain(), low + usual + high + higher);
}

TEST(Retention, DemotedBlocksLeaveBeforePriorityZero) {
  Hinted c(hinted(6));
  const Ids zero = stored(c, 1), usual = stored(c, 2), demoted = stored(c, 3);
  c.keep(text(1, 2 * B), 0);
  EXPECT_EQ(c.demote(text(3, 2 * B)), 2 * B);
  EXPECT_EQ(c.drain(), demoted + zero + usual);
}

TEST(Retention, ARangeIsOfThePositionsWhoseLastTokenIsInIt) {
  Hinted c(hinted(4));
  const Admitted a = c.allocate(text(1, 4 * B));
  c.priority(a.id, 1, 2 * B, 80);  // tokens 1 .. 8 have the last tokens of positions 0 and 1
  c.commit(a.id, 4 * B);
  const Ids t = c.table(a.id);
  c.free(a.id);
  EXPECT_EQ(c.drain(), (Ids{t[3], t[2], t[1], t[0]}));
  for (const int32_t block : t) EXPECT_EQ(c.release({block}), KVC_OK);
  const Admitted b = c.compute(text(2, 4 * B));
  c.priority(b.id, 2 * B, UINT64_MAX, 80);  // published already, and the later half stays
  const Ids u = c.table(b.id);
  c.free(b.id);
  EXPECT_EQ(c.drain(), (Ids{u[1], u[0], u[3], u[2]}));
}

TEST(Retention, GeneratedTokensTakeTheHintOfAnOpenRange) {
  Hinted c(hinted(4));
  const Admitted a = c.compute(text(1, 2 * B));
  c.priority(a.id, 2 * B, UINT64_MAX, 0);
  c.append(a.id, text(7, 2 * B));
  c.commit(a.id, 4 * B);
  const Ids t = c.table(a.id);
  c.free(a.id);
  c.keep(text(1, 2 * B), 0);  // now equal: the later one goes behind
  EXPECT_EQ(c.drain(), (Ids{t[3], t[2], t[1], t[0]}));
}

TEST(Retention, TheLatestHintWinsAndNoHintLeavesItAsItIs) {
  Hinted c(hinted(5));
  stored(c, 1);
  stored(c, 2);
  c.keep(text(1, 2 * B), 10);
  c.keep(text(1, 2 * B), 90);
  const Admitted again = c.compute(text(1, 2 * B));  // without a hint
  c.free(again.id);
  EXPECT_EQ(c.evict(2), 2u);
  EXPECT_EQ(c.whole_hit(text(1, 2 * B)), 2 * B);
  EXPECT_EQ(c.whole_hit(text(2, 2 * B)), 0u);
}

TEST(Retention, AHitAtALaterAdmissionTakesTheRangeAgain) {
  Hinted c(hinted(6));
  const Admitted a = c.compute(text(1, 2 * B + 1));
  c.priority(a.id, 0, 2 * B, 90);
  c.preempt(a.id);
  c.keep(text(1, 2 * B), 0);
  EXPECT_EQ(c.admit(a.id), 2 * B);
  c.free(a.id);
  stored(c, 2);
  EXPECT_EQ(c.evict(2), 2u);
  EXPECT_EQ(c.whole_hit(text(1, 2 * B)), 2 * B);
}

TEST(Retention, AHintEndsWithItsTime) {
  Hinted c(hinted(6));
  const Ids first = stored(c, 1), second = stored(c, 2), third = stored(c, 3);
  c.keep(text(1, 2 * B), 90, 100);
  c.keep(text(2, 2 * B), 10, 50);
  c.time(99);  // the second is as the third now, and just came
  EXPECT_EQ(c.drain(), third + second + first);
  for (const Ids& ids : {first, second, third})
    for (const int32_t block : ids) EXPECT_EQ(c.release({block}), KVC_OK);
  const Ids old = stored(c, 4), young = stored(c, 5);
  c.keep(text(4, 2 * B), 90, 200);
  kvc_step step = sized<kvc_step>();
  step.now_ns = 200;
  EXPECT_EQ(kvc_manager_step(c.get(), &step), KVC_OK) << kvc_last_error();
  EXPECT_EQ(kvc_manager_retire_step(c.get(), step.step_id), KVC_OK);
  EXPECT_EQ(c.evict(2), 2u);
  EXPECT_EQ(c.whole_hit(text(5, 2 * B)), 0u);
  EXPECT_EQ(c.whole_hit(text(4, 2 * B)), 2 * B);
}

TEST(Retention, HintsOfOneTimeEndInTheOrderInWhichTheyWereSet) {
  Hinted c(hinted(8));
  const Ids a = stored(c, 1), b = stored(c, 2), d = stored(c, 3);
  for (const int32_t which : {2, 3, 1}) c.keep(text(which, 2 * B), 90, 70);
  c.time(60);
  c.time(70);
  EXPECT_EQ(c.evict(6), 6u);
  const Ids order = c.drain();  // FREE is last in, first out
  EXPECT_EQ(Ids(order.begin(), order.begin() + 6), (Ids{a[1], a[0], d[1], d[0], b[1], b[0]}));
}

TEST(Retention, TheTimeNeverGoesBackAndAHintEndsLater) {
  Hinted c(hinted(4));
  const Admitted a = c.allocate(text(1, B));
  c.time(10);
  c.time(10);
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_set_time(c.get(), 9));
  EXPECT_TRUE(says("9") && says("10") && says("monotonic")) << kvc_last_error();
  kvc_step step = sized<kvc_step>();
  step.now_ns = 3;
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(c.get(), &step));
  EXPECT_EQ(step.step_id, 0u);
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.try_priority(a.id, 0, B, 50, 10));
  EXPECT_TRUE(says("until_ns is 10") && says("later")) << kvc_last_error();
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.try_priority(a.id, 0, B, 101));
  EXPECT_TRUE(says("101") && says("100")) << kvc_last_error();
  uint64_t demoted = 77;
  const Tokens whole = text(1, B);
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT,
                 kvc_manager_set_prefix_priority(c.get(), PROMPT(0, whole.data(), B, nullptr, 0), 0,
                                                 KVC_PRIORITY_DEMOTED, 11, &demoted));
  EXPECT_TRUE(says("until_ns is 11") && says("give 0")) << kvc_last_error();
  EXPECT_EQ(demoted, 77u);
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.try_priority(a.id, 0, B, KVC_PRIORITY_DEMOTED));
  c.priority(a.id, 0, B, 50, 11);
  c.free(a.id);
}

TEST(Retention, ARequestHasEightRanges) {
  Hinted c(hinted(64));
  const Admitted a = c.allocate(text(1, 20 * B));
  for (uint64_t i = 0; i < 8; ++i) c.priority(a.id, 2 * i * B, B, 50);
  EXPECT_REFUSED(c, KVC_ERROR_LIMIT, c.try_priority(a.id, 18 * B, B, 50));
  EXPECT_TRUE(says("8 hinted ranges") && says("covers")) << kvc_last_error();
  c.priority(a.id, 18 * B + 1, 2, 50);  // of no position: no hint
  c.priority(a.id, 0, 4 * B, 50);       // replaces two
  c.priority(a.id, 18 * B, B, 50);
  EXPECT_REFUSED(c, KVC_ERROR_LIMIT, c.try_priority(a.id, 19 * B, B, 50));
  c.free(a.id);
}

TEST(Retention, AnEndedSessionLosesItsPrivateTailFirst) {
  Hinted c(hinted(8));
  const Tokens head = text(1, 2 * B);
  const Admitted a = c.compute(head + text(2, 2 * B)), b = c.compute(head + text(3, 2 * B));
  const Ids ta = c.table(a.id), tb = c.table(b.id);
  c.end_session(a.id);
  c.free(b.id);
  c.free(a.id);  // the last use, but nobody comes back
  EXPECT_EQ(c.evict(2), 2u);
  EXPECT_EQ(c.whole_hit(head + text(2, 2 * B)), 2 * B);  // the head is shared
  EXPECT_EQ(c.whole_hit(head + text(3, 2 * B)), 4 * B);
}

TEST(Retention, TheFirstTokensOfAnEndedSessionMayStay) {
  Hinted c(hinted(6));
  const Ids older = stored(c, 9);
  const Admitted a = c.compute(text(1, 4 * B));
  c.end_session(a.id, 2 * B + 1);
  c.free(a.id);
  EXPECT_EQ(c.evict(3), 3u);
  EXPECT_EQ(c.whole_hit(text(1, 4 * B)), 2 * B);
  EXPECT_EQ(c.whole_hit(text(9, 2 * B)), B);
}

TEST(Retention, AnEndedSessionMayWait) {
  Hinted c(hinted(6));
  const Admitted a = c.compute(text(1, 2 * B));
  c.end_session(a.id);
  c.preempt(a.id);
  stored(c, 2);
  c.keep(text(2, 2 * B), 0);
  c.free(a.id);
  EXPECT_EQ(c.evict(2), 2u);
  EXPECT_EQ(c.whole_hit(text(1, 2 * B)), 0u);
  EXPECT_EQ(c.whole_hit(text(2, 2 * B)), 2 * B);
}

TEST(Retention, AHitTakesADemotionBack) {
  Hinted c(hinted(8));
  stored(c, 1);
  stored(c, 2);
  EXPECT_EQ(c.demote(text(1, 2 * B)), 2 * B);
  EXPECT_EQ(c.store(text(1, 2 * B) + text(3, 1)), 2 * B);
  EXPECT_EQ(c.evict(2), 2u);
  EXPECT_EQ(c.whole_hit(text(1, 2 * B)), 2 * B);
  EXPECT_EQ(c.whole_hit(text(2, 2 * B)), 0u);
}

TEST(Retention, WhatOthersUseIsNotDemoted) {
  Hinted c(hinted(16));
  const Tokens head = text(1, 2 * B);
  c.store(head + text(2, 2 * B));
  c.store(head + text(3, 2 * B));
  EXPECT_EQ(c.demote(head), 0u);  // leads to both
  EXPECT_EQ(c.demote(head + text(2, 2 * B), 3 * B), B);
  EXPECT_EQ(c.demote(head + text(2, 2 * B)), 2 * B);  // down to the head
  const Admitted pin = c.pin(head + text(3, 2 * B));
  EXPECT_EQ(c.demote(head + text(3, 2 * B)), 0u);
  c.unpin(pin.id);
  const Admitted reader = c.allocate(head + text(3, 2 * B));
  EXPECT_EQ(c.demote(head + text(3, 2 * B)), B);  // only the last position is not held
  c.free(reader.id);
  EXPECT_EQ(c.demote(head + text(3, 2 * B)), 2 * B);
}

TEST(Retention, AHintEndsWithTheLastBlock) {
  Hinted c(hinted(4));
  stored(c, 1);
  c.keep(text(1, 2 * B), 90);
  EXPECT_EQ(c.drop(text(1, 2 * B)), 2u);
  stored(c, 1);
  stored(c, 2);
  EXPECT_EQ(c.evict(2), 2u);
  EXPECT_EQ(c.whole_hit(text(1, 2 * B)), 0u);
}

TEST(Retention, ARebuildKeepsWhatWouldLeaveLast) {
  Hinted c(hinted(6));
  stored(c, 1);
  stored(c, 2);
  stored(c, 3);
  c.keep(text(1, 2 * B), 90);
  c.demote(text(3, 2 * B));
  for (const uint64_t blocks : {2, 4, 6}) {
    kvc_manager_config config = hinted(blocks);
    std::vector<kvc_token_copy> copies(64);
    kvc_rebuild rebuild = sized<kvc_rebuild>();
    rebuild.copies = copies.data(), rebuild.copy_capacity = copies.size();
    kvc_manager* made = nullptr;
    ASSERT_EQ(kvc_manager_rebuild(c.get(), &config, &rebuild, &made), KVC_OK) << kvc_last_error();
    for (const int32_t which : {1, 2, 3}) {
      kvc_probe_info info = sized<kvc_probe_info>();
      const Tokens tokens = text(which, 2 * B) + text(9, 1);
      ASSERT_EQ(kvc_manager_probe(made, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), &info), KVC_OK);
      EXPECT_EQ(info.num_cached, uint64_t(which) * 2 <= blocks ? 2 * B : 0) << which << " of " << blocks;
    }
    kvc_manager_destroy(made);
  }
}

TEST(Retention, WithoutTheFlagHintsAreRefused) {
  Hinted c(shape(4, B));
  const Admitted a = c.allocate(text(1, B));
  EXPECT_REFUSED(c, KVC_ERROR_UNSUPPORTED, c.try_priority(a.id, 0, B, 50));
  EXPECT_TRUE(says("create the manager with hints")) << kvc_last_error();
  EXPECT_REFUSED(c, KVC_ERROR_UNSUPPORTED, kvc_manager_end_session(c.get(), a.id, 0));
  uint64_t count = 77;
  const Tokens tokens = text(1, B);
  EXPECT_REFUSED(c, KVC_ERROR_UNSUPPORTED,
                 kvc_manager_set_prefix_priority(c.get(), PROMPT(0, tokens.data(), B, nullptr, 0), 0,
                                                 KVC_PRIORITY_DEMOTED, 0, &count));
  EXPECT_REFUSED(
      c, KVC_ERROR_UNSUPPORTED,
      kvc_manager_set_prefix_priority(c.get(), PROMPT(0, tokens.data(), B, nullptr, 0), 0, 50, 0, &count));
  EXPECT_EQ(count, 77u);
  c.time(5);  // the time passes without hints too
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_set_time(c.get(), 4));
  c.free(a.id);
}

// ---- registered prompts

// Heads that leave before their tails keep their nodes. When none is left, tails leave: nobody can hit them.
TEST(Retention, TailsWithoutAHeadDoNotEndPublishing) {
  Hinted c(hinted(512));
  for (int i = 1; i <= 300; ++i) {
    const Admitted a = c.allocate(text(i, 8 * B));
    c.priority(a.id, 0, 4 * B, 10);
    c.commit(a.id, 8 * B);
    c.free(a.id);
    EXPECT_EQ(c.probe(text(i, 8 * B + 1)).num_cached, 8 * B) << i;
  }
  EXPECT_EQ(c.stats().unpublished_blocks, 0u);
}

TEST(Prompts, SurviveFullChurnFromTheFirstUseOn) {
  Hinted c(shape(8, B));
  const Tokens system = text(1, 3 * B + 2);
  EXPECT_EQ(c.name("system", system), 0u);
  const Admitted a = c.allocate_from_prompt("system", text(2, B));
  EXPECT_EQ(a.cached, 0u);
  c.commit(a.id, 4 * B + 2);
  c.free(a.id);
  EXPECT_EQ(c.stats().blocks_pinned, 3u);
  for (int32_t i = 10; i < 20; ++i) c.store(text(i, 5 * B));
  EXPECT_EQ(c.allocate_from_prompt("system", text(3, 1)).cached, 3 * B);
}

TEST(Prompts, PinWhatIsCachedAndGrowAtAPreemption) {
  Hinted c(shape(8, B));
  c.store(text(1, 2 * B));
  EXPECT_EQ(c.name("a", text(1, 4 * B)), 2 * B);
  EXPECT_EQ(c.stats().blocks_pinned, 2u);
  const Admitted a = c.allocate_from_prompt("a", {});
  EXPECT_EQ(a.cached, 2 * B);
  c.commit(a.id, 3 * B + 1);
  c.preempt(a.id);
  EXPECT_EQ(c.stats().blocks_pinned, 3u);
  EXPECT_EQ(c.admit(a.id), 3 * B);
  c.commit(a.id, 4 * B);
  c.free(a.id);
  EXPECT_EQ(c.stats().blocks_pinned, 4u);
  EXPECT_EQ(c.unregister("a"), KVC_OK);
  EXPECT_EQ(c.stats().blocks_pinned, 0u);
  EXPECT_EQ(c.whole_hit(text(1, 4 * B)), 4 * B);  // cached like any other
}

TEST(Prompts, AllPinnedAnswersNoSpaceAtOnce) {
  Hinted c(shape(4, B));
  c.store(text(1, 4 * B));
  EXPECT_EQ(c.name("all", text(1, 4 * B)), 4 * B);
  Admitted a;
  EXPECT_REFUSED(c, KVC_ERROR_NO_SPACE, c.try_allocate(text(2, B), &a));
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_allocate_from_prompt("all", text(2, 1), &a));
  EXPECT_EQ(c.evict(4), 0u);
  EXPECT_EQ(c.unregister("all"), KVC_OK);
  c.store(text(2, B));
}

TEST(Prompts, AResetGivesUpThePin) {
  Hinted c(shape(4, B));
  c.store(text(1, 4 * B));
  c.name("a", text(1, 4 * B));
  c.reset_all();
  EXPECT_EQ(c.stats().blocks_free, 4u);
  const Admitted a = c.allocate_from_prompt("a", {});
  EXPECT_EQ(a.cached, 0u);
  c.commit(a.id, 4 * B);
  c.reset_all();  // in its life: it publishes nothing more, and nothing is pinned
  c.free(a.id);
  EXPECT_EQ(c.stats().blocks_free, 4u);
  const Admitted b = c.allocate_from_prompt("a", {});
  c.commit(b.id, 4 * B);
  c.free(b.id);
  EXPECT_EQ(c.stats().blocks_pinned, 4u);
}

TEST(Prompts, NamesAreUniqueAndKnown) {
  Hinted c(shape(8, B));
  uint64_t pinned = 77;
  Admitted a;
  c.name("one", text(1, B));
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.try_register("one", text(2, B), &pinned));
  EXPECT_TRUE(says("\"one\"")) << kvc_last_error();
  EXPECT_REFUSED(c, KVC_ERROR_NOT_FOUND, c.unregister("two"));
  EXPECT_TRUE(says("\"two\"")) << kvc_last_error();
  EXPECT_REFUSED(c, KVC_ERROR_NOT_FOUND, c.try_allocate_from_prompt("on", {}, &a));
  const std::string longest(255, 'x');
  c.name(longest.c_str(), text(1, B));
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.try_register((longest + "x").c_str(), text(1, B), &pinned));
  EXPECT_TRUE(says("255")) << kvc_last_error();
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.try_register("", text(1, B), &pinned));
  EXPECT_EQ(pinned, 77u);
  EXPECT_EQ(c.names(), std::string("one\0", 4) + longest + std::string(1, '\0'));
  EXPECT_EQ(c.unregister("one"), KVC_OK);
  EXPECT_REFUSED(c, KVC_ERROR_NOT_FOUND, c.unregister("one"));
  c.name("one", text(2, B));
  size_t size = 0;
  EXPECT_EQ(kvc_manager_list_prompts(c.get(), nullptr, 0, &size), KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(size, 4 + 256u);
}

TEST(Prompts, AreUsersOfTheirNamespaceAndLimited) {
  kvc_manager_config config = shape(8, B);
  config.max_requests = 20;
  Hinted c(config);
  const uint64_t ns = c.open("model");
  c.name("a", text(1, B), ns);
  EXPECT_REFUSED(c, KVC_ERROR_BUSY, kvc_manager_close_namespace(c.get(), ns));
  EXPECT_TRUE(says("registered prompts")) << kvc_last_error();
  for (int i = 1; i < 20; ++i) c.name(std::to_string(i).c_str(), text(1, B));
  uint64_t pinned = 77;
  EXPECT_REFUSED(c, KVC_ERROR_LIMIT, c.try_register("more", text(1, B), &pinned));
  EXPECT_EQ(c.unregister("a"), KVC_OK);
  EXPECT_EQ(kvc_manager_close_namespace(c.get(), ns), KVC_OK);
}

TEST(Prompts, ARequestOutlivesItsPromptAndANewOneOfTheSameName) {
  Hinted c(shape(8, B));
  c.name("a", text(1, 2 * B));
  const Admitted a = c.allocate_from_prompt("a", text(2, B));
  EXPECT_EQ(c.unregister("a"), KVC_OK);
  c.name("a", text(1, 2 * B));
  c.commit(a.id, 3 * B);
  c.free(a.id);  // was acquired by the old one
  EXPECT_EQ(c.stats().blocks_pinned, 0u);
}

// Where chunks begin, a hit needs no block. What is pinned hits all the same, whatever is evicted.
TEST(Pins, AtTheBeginningOfAChunkHoldTheLastBlockBefore) {
  Cache c(shape(8, 2), {chunk_group(4, 4)});
  Ids blocks;
  ASSERT_EQ(c.try_acquire(4, &blocks), KVC_OK);
  ASSERT_EQ(c.publish(text(1, 8), blocks), KVC_OK);
  ASSERT_EQ(c.release(blocks), KVC_OK);
  uint64_t pin = 0, pinned = 0;
  ASSERT_EQ(c.try_pin(text(1, 8), &pin, &pinned), KVC_OK);
  EXPECT_EQ(pinned, 8u);
  EXPECT_EQ(c.stats().blocks_pinned, 1u);
  EXPECT_EQ(c.evict(100), 3u);
  EXPECT_EQ(c.probe(text(1, 9)).num_cached, 8u);
  c.unpin(pin);
  c.evict(100);
  EXPECT_EQ(c.probe(text(1, 9)).num_cached, 0u);
}

TEST(Pins, WithoutABlockToHoldPinNothing) {
  Cache c(shape(8, 2), {chunk_group(6, 6)});
  Ids blocks;
  ASSERT_EQ(c.try_acquire(1, &blocks), KVC_OK);
  ASSERT_EQ(c.publish(text(1, 10), {-1, -1, -1, -1, blocks[0]}), KVC_OK);  // the chunk lacks its first block
  ASSERT_EQ(c.probe(text(1, 11)).num_cached, 6u);
  uint64_t pin = 0, pinned = 77;
  EXPECT_EQ(c.try_pin(text(1, 10), &pin, &pinned), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(pinned, 77u);
}

}  // namespace
}  // namespace conformance
