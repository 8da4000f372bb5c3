// SPDX-License-Identifier: Apache-2.0
// Conformance group C: allocation, references and eviction; exact victims where the order is the promise.
#include <algorithm>
#include <random>
#include <set>

#include "calls.h"
#include "conformance/fixture.h"
#include "event_calls.h"

namespace conformance {
namespace {

TEST(Eviction, NeverCachedFirstThenDeepestOfTheOldest) {  // C19
  Cache c(shape(10, B));
  const Admitted old_one = c.compute(text(1, 5 * B + 2)), new_one = c.compute(text(2, 3 * B));
  const Ids a = c.table(old_one.id), b = c.table(new_one.id);
  ASSERT_EQ(a.size(), 6u);
  ASSERT_EQ(b.size(), 3u);
  c.free(old_one.id);
  c.free(new_one.id);
  // The tail was never cached; it was freed last of the uncached ones, so it comes before the block that was
  // never used.
  const Ids victims = c.drain();
  const Ids expected = {a[5], 9, a[4], a[3], a[2], a[1], a[0], b[2], b[1], b[0]};
  EXPECT_EQ(victims, expected);
  EXPECT_EQ(c.stats().evictions, 8u);
}

TEST(Eviction, AHitMakesItsBlocksTheYoungest) {
  Cache c(shape(4, B));
  const Tokens a = text(1, 2 * B), b = text(2, 2 * B);
  c.store(a);
  c.store(b);
  c.probe(a);  // reading does not count as use
  const Admitted again = c.allocate(a + text(3, 0));
  EXPECT_EQ(again.cached, B);
  c.free(again.id);
  // b is the oldest now, then a: its second block was evicted for the readmission's own block, its first is
  // the youngest.
  EXPECT_EQ(c.hit(b), B);
  EXPECT_EQ(c.evict(2), 2u);
  EXPECT_EQ(c.whole_hit(b), 0u);
  EXPECT_EQ(c.whole_hit(a), B);
}

TEST(Eviction, AReusedBlockForgetsItsIdentity) {  // C20
  Cache c(shape(1, B));
  const Tokens old_text = text(1, B);
  c.store(old_text);
  EXPECT_EQ(c.whole_hit(old_text), B);
  const Admitted r = c.compute(text(2, B - 1));
  EXPECT_EQ(c.whole_hit(old_text), 0u);
  EXPECT_EQ(c.block(c.table(r.id)[0]).published, 0u);
  c.free(r.id);
  EXPECT_EQ(c.whole_hit(old_text), 0u);
  EXPECT_EQ(c.stats().blocks_free, 1u);
}

TEST(Eviction, ARequestNeverEvictsItsOwnHit) {  // C21
  for (const bool a_is_oldest : {true, false}) {
    Cache c(shape(2, B));
    const Tokens a = text(1, B), b = text(2, B);
    c.store(a_is_oldest ? a : b);
    c.store(a_is_oldest ? b : a);
    const Admitted r = c.allocate(a + text(3, 2));
    EXPECT_EQ(r.cached, B);
    EXPECT_EQ(c.whole_hit(a), B);
    EXPECT_EQ(c.whole_hit(b), 0u);
  }
}

TEST(Eviction, TheOtherCopyIsStillFoundWhenOneGoes) {  // C22
  Cache c(shape(4, B));
  const Tokens tokens = text(1, B + 1);
  const Admitted r0 = c.compute(tokens), r1 = c.compute(tokens, request_config(KVC_REQUEST_NO_READ));
  const int32_t b0 = c.table(r0.id)[0], b1 = c.table(r1.id)[0];
  EXPECT_EQ(c.block(b0).num_copies, 2u);
  c.free(r0.id);
  EXPECT_EQ(c.evict(1), 1u);  // the idle one goes, the held one stays
  EXPECT_EQ(c.block(b0).published, 0u);
  EXPECT_EQ(c.block(b1).num_copies, 1u);
  EXPECT_EQ(c.hit(tokens), B);
  c.free(r1.id);
  EXPECT_EQ(c.hit(tokens), B);
  EXPECT_EQ(c.evict(1), 1u);
  EXPECT_EQ(c.hit(tokens), 0u);
  EXPECT_EQ(c.stats().nodes_used, 0u);
}

TEST(Eviction, EvictingMoreThanThereIsIsNoError) {  // C23
  Cache c(shape(4, 4));
  EXPECT_EQ(c.evict(100), 0u);
  c.store(text(1, 8));
  EXPECT_EQ(c.evict(100), 2u);
  EXPECT_EQ(c.evict(100), 0u);
  EXPECT_EQ(c.stats().evictions, 2u);
  EXPECT_EQ(c.stats().blocks_free, 4u);
}

TEST(Eviction, PinnedBlocksAreNeverTaken) {  // C24
  for (const int pins : {1, 2, 5}) {
    Cache c(shape(2, B));
    const Tokens tokens = text(1, 2 * B);
    c.store(tokens);
    std::vector<uint64_t> ids;
    for (int i = 0; i < pins; ++i) {
      const Admitted pin = c.pin(tokens);
      EXPECT_EQ(pin.cached, 2 * B);
      ids.push_back(pin.id);
    }
    EXPECT_EQ(c.stats().blocks_pinned, 2u);
    EXPECT_EQ(c.block(0).pins, static_cast<uint32_t>(pins));
    Admitted refused;
    for (int i = 0; i < pins; ++i) {
      EXPECT_REFUSED(c, KVC_ERROR_NO_SPACE, c.try_allocate(text(2, 1), &refused));
      EXPECT_EQ(c.evict(10), 0u);
      c.unpin(ids[static_cast<size_t>(i)]);
    }
    EXPECT_EQ(c.whole_hit(tokens), 2 * B);
    c.allocate(text(2, 1));
    EXPECT_EQ(c.whole_hit(tokens), B);
  }
}

TEST(Eviction, PinningMovesExactlyItsPathAndADoubledUnpinIsAnError) {  // C25
  Cache c(shape(12, B));
  const Tokens shared = text(1, 2 * B), a = shared + text(2, 2 * B), b = shared + text(3, 3 * B);
  c.store(a);
  c.store(b);
  EXPECT_EQ(c.stats().blocks_cached, 7u);
  const Admitted pin_a = c.pin(a), pin_b = c.pin(b);
  EXPECT_EQ(c.stats().blocks_cached, 0u);
  EXPECT_EQ(c.stats().blocks_pinned, 7u);
  c.unpin(pin_a.id);
  EXPECT_EQ(c.stats().blocks_cached, 2u);
  EXPECT_EQ(c.stats().blocks_pinned, 5u);
  EXPECT_REFUSED(c, KVC_ERROR_NOT_FOUND, kvc_manager_unpin_prefix(c.get(), pin_a.id));
  c.unpin(pin_b.id);
  EXPECT_EQ(c.stats().blocks_cached, 7u);
  uint64_t pin = 77, pinned = 77;
  EXPECT_REFUSED(c, KVC_ERROR_NOT_FOUND, c.try_pin(text(9, 8), &pin, &pinned));
  EXPECT_EQ(pin, 77u);
}

TEST(Eviction, AFixedTraceHasItsVictims) {  // C28, the policy that exists
  const uint32_t block = 1;
  Cache c(shape(4, block));
  const auto one = [](int32_t which) { return text(which, 1); };
  for (int32_t which : {1, 2, 3, 4}) c.store(one(which));
  c.acquire_prefix(one(1));  // a use, as long as the hold is given back
  EXPECT_EQ(c.release({0}), KVC_OK);
  EXPECT_EQ(c.whole_hit(one(2)), 1u);  // not a use
  const Admitted p = c.pin(one(3));
  c.unpin(p.id);
  // Order now: 2, 4, 1, 3.
  c.store(one(5));
  EXPECT_EQ(c.whole_hit(one(2)), 0u);
  EXPECT_EQ(c.whole_hit(one(4)), 1u);
  c.store(one(6));
  EXPECT_EQ(c.whole_hit(one(4)), 0u);
  EXPECT_EQ(c.whole_hit(one(1)), 1u);
  c.store(one(7));
  EXPECT_EQ(c.whole_hit(one(1)), 0u);
  c.store(one(8));
  EXPECT_EQ(c.whole_hit(one(3)), 0u);
  for (int32_t which : {5, 6, 7, 8}) EXPECT_EQ(c.whole_hit(one(which)), 1u);
}

TEST(Eviction, AnUnknownPolicyIsRefused) {  // C28
  kvc_manager_config config = shape(4);
  config.policy = 3;
  kvc_manager* m = nullptr;
  EXPECT_EQ(kvc_manager_create(&config, &m), KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(m, nullptr);
}

TEST(Eviction, SlotsStayAlignedAndDisjointWhilePagesChurn) {  // C29
  for (const uint32_t block : {4u, 8u}) {
    Cache c(shape(6, block));
    for (int32_t round = 0; round < 12; ++round) {
      const Admitted a = c.compute(text(round, 2 * block + 1)), b = c.compute(text(100 + round, block + 2));
      std::set<int64_t> seen;
      for (const Admitted& r : {a, b}) {
        const kvc_request_info info = c.request(r.id);
        std::vector<int64_t> slots(info.capacity);
        ASSERT_EQ(kvc_manager_export_slots(c.get(), r.id, 0, 0, info.capacity, slots.data(), 8), KVC_OK);
        const Ids table = c.table(r.id);
        for (size_t t = 0; t < slots.size(); ++t) {
          EXPECT_EQ(slots[t], int64_t(table[t / block]) * block + int64_t(t % block));
          EXPECT_TRUE(seen.insert(slots[t]).second);
        }
      }
      c.free(a.id);
      c.free(b.id);
    }
    EXPECT_GT(c.stats().evictions, 20u);
  }
}

TEST(Reset, SucceedsWithLiveRequestsAndNothingOldIsHit) {  // C30
  kvc_manager_config config = shape(20, 4);
  config.event_capacity = 64;
  Cache c(config);
  const Tokens old_text = text(1, 12), live_text = text(2, 12);
  c.store(old_text);
  const Admitted live = c.compute(live_text);
  const Ids held = c.table(live.id);
  EXPECT_EQ(c.whole_hit(live_text), 12u);
  c.reset_all();
  EXPECT_EQ(c.whole_hit(old_text), 0u);
  EXPECT_EQ(c.whole_hit(live_text), 0u);
  EXPECT_EQ(c.table(live.id), held);
  EXPECT_EQ(c.stats().epoch, 1u);
  EXPECT_EQ(c.stats().blocks_free, 17u);
  EXPECT_EQ(c.stats().blocks_cached, 0u);

  c.append(live.id, text(3, 5));  // it goes on and ends, but publishes nothing more
  c.commit(live.id, 17);
  EXPECT_EQ(c.whole_hit(live_text + text(3, 5)), 0u);
  const Admitted fresh = c.compute(live_text);  // the new epoch works
  EXPECT_EQ(fresh.cached, 0u);
  EXPECT_EQ(c.whole_hit(live_text), 12u);
  c.free(live.id);
  EXPECT_EQ(c.whole_hit(live_text), 12u);
  c.free(fresh.id);
  EXPECT_EQ(c.stats().blocks_cached, 3u);

  std::vector<kvc_event> events(64);
  uint64_t cursor = 0;
  size_t count = 0;
  ASSERT_EQ(poll_events(c.get(), &cursor, events.data(), sizeof(kvc_event), 64, &count, nullptr, 0), KVC_OK);
  events.resize(count);
  EXPECT_EQ(
      std::count_if(events.begin(), events.end(), [](auto& e) { return e.kind == KVC_EVENT_ALL_CLEARED; }),
      1);
}

TEST(Reset, OfOneNamespaceLeavesTheOthers) {
  Cache c(shape(20, 4));
  const uint64_t a = c.open("a"), b = c.open("b");
  const Tokens tokens = text(1, 12);
  for (uint64_t ns : {uint64_t{0}, a, b}) c.store(tokens, request_config(0, ns));
  c.reset_namespace(a);
  EXPECT_EQ(c.whole_hit(tokens, a), 0u);
  EXPECT_EQ(c.whole_hit(tokens, b), 12u);
  EXPECT_EQ(c.whole_hit(tokens), 12u);
  c.reset_all();
  EXPECT_EQ(c.whole_hit(tokens, b), 0u);
  EXPECT_EQ(c.whole_hit(tokens), 0u);
}

TEST(Raw, PublishingTheSameBlocksAgainChangesNothing) {  // C31
  Cache c(shape(6, B));
  const Tokens tokens = text(1, 2 * B);
  const Ids blocks = c.acquire(2);
  EXPECT_EQ(c.publish(tokens, blocks), KVC_OK);
  const uint64_t digest = c.digest();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(c.publish(tokens, blocks), KVC_OK);
  EXPECT_EQ(c.digest(), digest);
  EXPECT_EQ(c.whole_hit(tokens), 2 * B);
  EXPECT_REFUSED(c, KVC_ERROR_BUSY, c.publish(text(2, 2 * B), blocks));
  EXPECT_EQ(c.release(blocks), KVC_OK);
  EXPECT_EQ(c.stats().blocks_cached, 2u);
  const Admitted r = c.compute(text(3, 6));
  c.commit(r.id, 6);  // the same commit again
  EXPECT_EQ(c.request(r.id).num_committed, 6u);
  c.free(r.id);
  EXPECT_EQ(c.available(), 6u);
}

TEST(Raw, TheSumHoldsThroughRandomTraffic) {  // C32
  Cache c(shape(64, 4));
  std::mt19937 random(7);
  std::vector<Ids> held;
  uint64_t sum = 0;
  for (int i = 0; i < 3000; ++i) {
    if (random() % 2 && !held.empty()) {
      const size_t at = random() % held.size();
      sum -= held[at].size();
      EXPECT_EQ(c.release(held[at]), KVC_OK);
      held.erase(held.begin() + static_cast<ptrdiff_t>(at));
    } else {
      const size_t want = random() % 9;
      Ids got;
      const kvc_status status = c.try_acquire(want, &got);
      EXPECT_EQ(status, sum + want <= 64 ? KVC_OK : KVC_ERROR_NO_SPACE);
      if (status == KVC_OK && want > 0) held.push_back(got), sum += want;
    }
    ASSERT_EQ(c.stats().blocks_reserved, sum);
  }
  for (const Ids& ids : held) EXPECT_EQ(c.release(ids), KVC_OK);
  Ids all;
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_acquire(65, &all));
  all = c.acquire(64);
  EXPECT_EQ(std::set<int32_t>(all.begin(), all.end()).size(), 64u);
}

TEST(Raw, FragmentationCannotRefuseWhatFits) {
  Cache c(shape(64, 4));
  const Ids all = c.acquire(64);
  Ids even;
  for (size_t i = 0; i < all.size(); i += 2) even.push_back(all[i]);
  EXPECT_EQ(c.release(even), KVC_OK);
  EXPECT_EQ(c.acquire(32).size(), 32u);
}

TEST(Raw, WrongIdsAreErrorsAndChangeNothing) {  // C33
  Cache c(shape(8, 4));
  const Ids mine = c.acquire(2);
  EXPECT_EQ(c.release({mine[0]}), KVC_OK);
  EXPECT_REFUSED(c, KVC_ERROR_NOT_HELD, c.release({mine[0]}));
  EXPECT_REFUSED(c, KVC_ERROR_NOT_HELD, c.release({mine[1], mine[1]}));
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.release({8}));
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.release({-2}));
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.release({mine[1], 2147483647}));
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.publish(text(1, 4), {-2}));
  EXPECT_REFUSED(c, KVC_ERROR_NOT_HELD, c.publish(text(1, 4), {mine[0]}));
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.publish(text(1, 3), {mine[1]}));
  EXPECT_EQ(c.release({-1, mine[1], -1}), KVC_OK);
  EXPECT_EQ(c.stats().blocks_free, 8u);
}

}  // namespace
}  // namespace conformance
