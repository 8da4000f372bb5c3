// SPDX-License-Identifier: Apache-2.0
// Conformance group E: events that a router can trust and recompute, and counters that count each request
// once.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "calls.h"
#include "conformance/fixture.h"
#include "conformance/sha256.h"
#include "event_calls.h"

namespace conformance {
namespace {

struct Event {
  kvc_event e;
  Tokens tokens;
};

// Everything since the cursor, with tokens.
std::vector<Event> poll(Cache& c, uint64_t* cursor) {
  std::vector<Event> out;
  for (;;) {
    std::vector<kvc_event> events(16);
    Tokens tokens(16 * 16);
    size_t count = 0;
    EXPECT_EQ(poll_events(c.get(), cursor, events.data(), sizeof(kvc_event), events.size(), &count,
                          tokens.data(), tokens.size()),
              KVC_OK)
        << kvc_last_error();
    if (count == 0) return out;
    size_t used = 0;
    for (size_t i = 0; i < count; ++i) {
      out.push_back(
          {events[i], Tokens(tokens.begin() + static_cast<ptrdiff_t>(used),
                             tokens.begin() + static_cast<ptrdiff_t>(used + events[i].num_tokens))});
      used += events[i].num_tokens;
    }
  }
}

kvc_manager_config with_events(uint64_t blocks, uint32_t block, uint64_t events = 1024) {
  kvc_manager_config config = shape(blocks, block);
  config.event_capacity = events;
  return config;
}

Digest recompute(const Event& event) {
  std::vector<uint8_t> bytes;
  const auto word = [&](uint32_t v) {
    for (int i = 0; i < 32; i += 8) bytes.push_back(static_cast<uint8_t>(v >> i));
  };
  for (int32_t token : event.tokens) word(static_cast<uint32_t>(token));
  bytes.insert(bytes.end(), event.e.parent_digest, event.e.parent_digest + 32);
  const bool plain =
      std::all_of(event.e.extra_digest, event.e.extra_digest + 32, [](uint8_t b) { return b == 0; });
  if (!plain) bytes.insert(bytes.end(), event.e.extra_digest, event.e.extra_digest + 32);
  word(event.e.num_tokens + (plain ? 0 : 1u << 31));
  return sha256(bytes);
}

Digest digest_of(const uint8_t (&bytes)[32]) {
  Digest out;
  std::memcpy(out.data(), bytes, 32);
  return out;
}

TEST(Events, TheOwnHashIsSha256) {
  const std::string abc = "abc";
  const Digest d = sha256(std::vector<uint8_t>(abc.begin(), abc.end()));
  const uint8_t start[] = {0xba, 0x78, 0x16, 0xbf}, end[] = {0xf2, 0x00, 0x15, 0xad};
  EXPECT_EQ(std::memcmp(d.data(), start, 4), 0);
  EXPECT_EQ(std::memcmp(d.data() + 28, end, 4), 0);
}

TEST(Events, StoringAPrefixNamesEachParent) {  // C36
  Cache c(with_events(10, B));
  uint64_t cursor = 0;
  const Tokens tokens = text(1, 3 * B + 2);
  c.compute(tokens);
  const std::vector<Event> events = poll(c, &cursor);
  ASSERT_EQ(events.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i].e.kind, static_cast<uint32_t>(KVC_EVENT_STORED));
    EXPECT_EQ(events[i].e.sequence, i);
    EXPECT_EQ(events[i].e.num_tokens, B);
    EXPECT_EQ(events[i].e.token_offset, i * B);
    EXPECT_EQ(events[i].tokens, Tokens(tokens.begin() + static_cast<ptrdiff_t>(i * B),
                                       tokens.begin() + static_cast<ptrdiff_t>((i + 1) * B)));
    EXPECT_EQ(events[i].e.parent_node, i ? events[i - 1].e.node : 0u);
    EXPECT_TRUE(i == 0 || std::memcmp(events[i].e.parent_digest, events[i - 1].e.digest, 32) == 0);
    EXPECT_GT(events[i].e.time_ns, 1700000000000000000u) << "since 1970, not since the machine began";
  }
  EXPECT_TRUE(poll(c, &cursor).empty());
  uint64_t another = 0;  // readers are independent
  EXPECT_EQ(poll(c, &another).size(), 3u);
}

TEST(Events, AConsumerCanRecomputeEveryDigest) {  // C37
  Cache c(with_events(40, B), {full_group(), window_group(2 * B)});
  uint64_t cursor = 0;
  const uint64_t ns = c.open("model", "adapter", "tenant");
  const Tokens tokens = text(1, 3 * B + 1);
  const Keys keys = {span(5, 4, 9)};
  c.store(tokens);
  c.store(tokens, request_config(0, ns));
  c.store(tokens, request_config(), keys);
  std::map<uint64_t, std::set<Digest>> roots, digests;
  std::set<uint32_t> groups;
  bool with_key = false;
  for (const Event& event : poll(c, &cursor)) {
    if (event.e.kind != KVC_EVENT_STORED) continue;
    EXPECT_EQ(recompute(event), digest_of(event.e.digest));
    if (event.e.token_offset == 0) roots[event.e.namespace_id].insert(digest_of(event.e.parent_digest));
    digests[event.e.namespace_id].insert(digest_of(event.e.digest));
    groups.insert(event.e.group);
    // The key [5, 9) lies over blocks 1 and 2, at offsets 1 and -3.
    std::vector<uint8_t> extra;
    const int64_t offset = event.e.token_offset == B ? 1 : -3;
    for (int i = 0; i < 64; i += 8) extra.push_back(static_cast<uint8_t>(static_cast<uint64_t>(offset) >> i));
    for (int i = 0; i < 64; i += 8) extra.push_back(static_cast<uint8_t>(uint64_t{4} >> i));
    extra.insert(extra.end(), keys[0].digest, keys[0].digest + 32);
    if (digest_of(event.e.extra_digest) != Digest{}) {
      with_key = true;
      EXPECT_GT(event.e.token_offset, 0u);
      EXPECT_EQ(digest_of(event.e.extra_digest), sha256(extra));
    }
  }
  EXPECT_TRUE(with_key);
  EXPECT_EQ(groups, (std::set<uint32_t>{0, 1}));
  EXPECT_EQ(roots[0].size(), 1u);
  EXPECT_EQ(roots[ns].size(), 1u);
  for (const Digest& digest : digests[0]) EXPECT_EQ(digests[ns].count(digest), 0u);
  EXPECT_EQ(digests[0].size(), 5u);  // three plain ones, two more under the key
  EXPECT_EQ(digests[ns].size(), 3u);
}

TEST(Events, DigestsAreTheSameInEveryManager) {
  Digest seen[2];
  for (int i = 0; i < 2; ++i) {
    kvc_manager_config config = with_events(10, 4);
    config.seed = static_cast<uint64_t>(i) * 77;
    Cache c(config);
    uint64_t cursor = 0;
    c.store(text(1, 4), request_config(0, c.open("m", nullptr, i == 0 ? "t" : "t")));
    const std::vector<Event> events = poll(c, &cursor);
    ASSERT_EQ(events.size(), 1u);
    seen[i] = digest_of(events[0].e.digest);
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(Events, ThereAreNoneWhenOffOrWhenNothingChanges) {  // C38
  Cache off(shape(10, 4));
  off.store(text(1, 9));
  uint64_t cursor = 0;
  size_t count = 0;
  kvc_event event;
  EXPECT_EQ(poll_events(off.get(), &cursor, &event, sizeof event, 1, &count, nullptr, 0),
            KVC_ERROR_UNSUPPORTED);

  Cache on(with_events(10, 4));
  const Admitted r = on.allocate(text(1, 9));
  on.commit(r.id, 0);
  on.commit(r.id, 3);
  on.probe(text(1, 9));
  EXPECT_TRUE(poll(on, &cursor).empty());
  on.commit(r.id, 4);
  EXPECT_EQ(poll(on, &cursor).size(), 1u);
  on.commit(r.id, 4);
  on.allocate(text(1, 9));
  EXPECT_TRUE(poll(on, &cursor).empty());
  uint64_t future = 99;
  EXPECT_EQ(poll_events(on.get(), &future, &event, sizeof event, 1, &count, nullptr, 0),
            KVC_ERROR_INVALID_ARGUMENT);
  cursor = 0;
  EXPECT_EQ(poll_events(on.get(), &cursor, &event, sizeof event - 8, 1, &count, nullptr, 0),
            KVC_ERROR_INVALID_ARGUMENT);
}

TEST(Events, RemovedOnlyWhenTheLastCopyGoes) {
  Cache c(with_events(4, B));
  uint64_t cursor = 0;
  const Tokens tokens = text(1, B + 1);
  const Admitted a = c.compute(tokens), b = c.compute(tokens, request_config(KVC_REQUEST_NO_READ));
  EXPECT_EQ(poll(c, &cursor).size(), 1u);  // stored once
  c.free(a.id);
  EXPECT_EQ(c.evict(1), 1u);
  EXPECT_TRUE(poll(c, &cursor).empty());
  EXPECT_EQ(c.hit(tokens), B);
  c.free(b.id);
  EXPECT_EQ(c.evict(1), 1u);
  const std::vector<Event> removed = poll(c, &cursor);
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].e.kind, static_cast<uint32_t>(KVC_EVENT_REMOVED));
  EXPECT_EQ(removed[0].tokens, first(tokens, B));
}

TEST(Events, ReplayedTheyAreTheIndex) {
  const uint32_t small = 2;
  Cache c(with_events(8, small, 4096));
  uint64_t cursor = 0;
  std::set<std::pair<uint64_t, Tokens>> index;  // of the replay: namespace and chained digest as tokens
  std::map<Digest, Tokens> chain;
  const uint64_t ns = c.open("x");
  uint64_t stored = 0, removed = 0, cleared = 0;
  const auto replay = [&] {
    for (const Event& event : poll(c, &cursor)) {
      if (event.e.kind == KVC_EVENT_ALL_CLEARED || event.e.kind == KVC_EVENT_NAMESPACE_CLEARED) {
        ++cleared;
        std::erase_if(index, [&](auto& entry) {
          return event.e.kind == KVC_EVENT_ALL_CLEARED || entry.first == event.e.namespace_id;
        });
        continue;
      }
      const Digest parent = digest_of(event.e.parent_digest);
      const Tokens path = (event.e.token_offset ? chain.at(parent) : Tokens{}) + event.tokens;
      chain[digest_of(event.e.digest)] = path;
      if (event.e.kind == KVC_EVENT_STORED) {
        ++stored;
        EXPECT_TRUE(index.insert({event.e.namespace_id, path}).second);
      } else {
        ++removed;
        EXPECT_EQ(index.erase({event.e.namespace_id, path}), 1u);
      }
    }
  };
  for (int32_t i = 0; i < 60; ++i) {
    const Tokens tokens = text(i % 7, 2 + static_cast<size_t>(i % 5)) + text(50 + i % 3, 4);
    const uint64_t space = i % 2 ? ns : 0;
    c.store(tokens, request_config(i % 11 == 0 ? KVC_REQUEST_NO_READ : 0, space));
    if (i % 13 == 0) c.drop(tokens);
    if (i == 30) c.reset_namespace(ns);
    if (i == 45) c.reset_all();
    replay();
    EXPECT_EQ(index.size(), c.stats().blocks_cached);  // every block here is idle, each position has one copy
    for (int32_t j = 0; j < 7; ++j)
      for (uint64_t s : {uint64_t{0}, ns}) {
        uint64_t blocks = 0;
        const Tokens probe = text(j, 6);
        while (blocks < 3 && index.count({s, first(probe, (blocks + 1) * small)})) ++blocks;
        EXPECT_EQ(c.whole_hit(probe, s), blocks * small);
      }
  }
  EXPECT_GT(stored, 40u);
  EXPECT_GT(removed, 20u);
  EXPECT_EQ(cleared, 2u);
}

TEST(Events, ClosingANamespaceTellsThatItsContentsWent) {
  Cache c(with_events(10, 4));
  uint64_t cursor = 0;
  const uint64_t ns = c.open("x");
  c.store(text(1, 8), request_config(0, ns));
  EXPECT_EQ(poll(c, &cursor).size(), 2u);
  EXPECT_EQ(kvc_manager_close_namespace(c.get(), ns), KVC_OK);
  const std::vector<Event> events = poll(c, &cursor);
  ASSERT_GE(events.size(), 1u);
  EXPECT_EQ(events[0].e.kind, static_cast<uint32_t>(KVC_EVENT_NAMESPACE_CLEARED));
  EXPECT_EQ(events[0].e.namespace_id, ns);
}

TEST(Events, AReaderThatWasLateSeesTheGap) {
  Cache c(with_events(64, 1, 8));
  uint64_t cursor = 0;
  c.store(text(1, 30));
  std::vector<Event> events = poll(c, &cursor);
  ASSERT_FALSE(events.empty());
  EXPECT_GT(events.front().e.sequence, 0u);
  EXPECT_LE(events.size(), 8u);
  EXPECT_EQ(events.back().e.sequence, 29u);
  for (size_t i = 1; i < events.size(); ++i) EXPECT_EQ(events[i].e.sequence, events[i - 1].e.sequence + 1);
}

TEST(Counters, EachAdmissionIsCountedOnce) {  // C39
  Cache c(shape(8, B));
  const Tokens tokens = text(1, 4 * B);
  c.store(tokens);
  kvc_stats s = c.stats();
  EXPECT_EQ(s.admissions, 1u);
  EXPECT_EQ(s.prompt_tokens, 4u * B);
  EXPECT_EQ(s.cached_tokens, 0u);
  EXPECT_EQ(s.block_queries, 3u);
  EXPECT_EQ(s.block_hits, 0u);

  const Admitted r = c.allocate(tokens);
  s = c.stats();
  EXPECT_EQ(s.admissions, 2u);
  EXPECT_EQ(s.cached_tokens, 3u * B);
  EXPECT_EQ(s.block_queries, 6u);
  EXPECT_EQ(s.block_hits, 3u);

  c.preempt(r.id);  // readmissions are counted apart
  EXPECT_EQ(c.admit(r.id), 3u * B);
  c.free(r.id);
  const Admitted resumed = c.allocate(tokens, request_config(KVC_REQUEST_RESUMED));
  s = c.stats();
  EXPECT_EQ(s.admissions, 2u);
  EXPECT_EQ(s.readmissions, 2u);
  EXPECT_EQ(s.preemptions, 1u);
  EXPECT_EQ(s.block_queries, 6u);

  c.probe(tokens);  // neither do questions count
  Admitted refused;
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_allocate(tokens + text(2, 5 * B), &refused));  // nor failures
  s = c.stats();
  EXPECT_EQ(s.refusals, 1u);
  EXPECT_EQ(s.admissions, 2u);
  EXPECT_EQ(s.block_queries, 6u);
  EXPECT_EQ(s.prompt_tokens, 8u * B);
  c.free(resumed.id);
  EXPECT_EQ(c.allocate({}).cached, 0u);  // an empty prompt asks for nothing
  EXPECT_EQ(c.stats().block_queries, 6u);
}

TEST(Counters, RefusalsAreThoseOfAdmissionsAndExtensions) {
  Cache c(shape(2, 4));
  Ids none;
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_acquire(3, &none));
  EXPECT_EQ(c.stats().refusals, 0u);
  const Admitted r = c.allocate(text(1, 8));
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_append(r.id, {1}));
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_reserve(r.id, 9));
  EXPECT_EQ(c.stats().refusals, 2u);
}

// Whoever builds a tree of the events finds each parent in it, also that of positions without a block: the
// first ones of a prompt in a manager of states, and those of a prefix of which the last blocks alone are
// published.
class Tree {
 public:
  void take(const std::vector<Event>& events) {
    for (const Event& event : events) {
      const kvc_event& e = event.e;
      EXPECT_NE(e.kind, uint32_t{KVC_EVENT_ALL_CLEARED});
      if (e.kind == KVC_EVENT_STORED) {
        EXPECT_TRUE(e.parent_node == 0 || !there_[e.parent_node].empty()) << "event " << e.sequence;
        EXPECT_TRUE(there_[e.node].insert(e.group).second) << "event " << e.sequence;
        blocks_[e.token_offset] = e.block;
      } else {
        EXPECT_EQ(there_[e.node].erase(e.group), 1u) << "event " << e.sequence;
        if (there_[e.node].empty()) blocks_.erase(e.token_offset);
      }
    }
  }
  // Offsets of positions with a block, and of those without.
  std::set<uint64_t> offsets(bool with_block) const {
    std::set<uint64_t> out;
    for (const auto& [offset, block] : blocks_)
      if ((block >= 0) == with_block) out.insert(offset);
    return out;
  }

 private:
  std::map<uint64_t, std::set<uint32_t>> there_;
  std::map<uint64_t, int32_t> blocks_;
};
using Offsets = std::set<uint64_t>;

TEST(Events, EachParentIsToldOfBeforeInAManagerOfStates) {
  kvc_group_config states = full_group();
  states.kind = KVC_GROUP_STATE;
  Cache c(with_events(50, 16), {states});
  Tree tree;
  uint64_t cursor = 0;
  RequestOptions options = request_config();
  options.slots = 64;
  const Admitted a = c.allocate(text(1, 200), options);
  for (const uint64_t end : {64u, 128u, 200u}) {
    EXPECT_EQ(c.try_reserve(a.id, end), KVC_OK);
    c.commit(a.id, end);
    tree.take(poll(c, &cursor));
  }
  EXPECT_EQ(tree.offsets(true), Offsets{});  // the last state is none of a whole block
  EXPECT_EQ(tree.offsets(false), (Offsets{0, 16, 32, 48, 64, 80, 96, 112}));
  c.free(a.id);
  tree.take(poll(c, &cursor));
  EXPECT_LT(tree.offsets(false).size(), 8u)
      << "nothing is known any more; the last ones are taken back later";
}

TEST(Events, EachParentIsToldOfBeforeWhereTheFirstBlocksAreMissing) {
  Cache c(with_events(50, 16));
  Tree tree;
  uint64_t cursor = 0;
  Ids blocks;
  ASSERT_EQ(c.try_acquire(2, &blocks), KVC_OK);
  ASSERT_EQ(c.publish(text(1, 80), {-1, -1, -1, blocks[0], blocks[1]}), KVC_OK);
  tree.take(poll(c, &cursor));
  EXPECT_EQ(tree.offsets(true), (Offsets{48, 64}));
  EXPECT_EQ(tree.offsets(false), (Offsets{0, 16, 32}));
  const Admitted a = c.allocate(text(1, 80));  // computes them
  c.commit(a.id, 80);
  tree.take(poll(c, &cursor));
  EXPECT_EQ(tree.offsets(true), (Offsets{0, 16, 32, 48, 64}));
  c.free(a.id);
  c.drop(text(1, 48));  // a hole again
  tree.take(poll(c, &cursor));
  EXPECT_EQ(tree.offsets(true), (Offsets{48, 64}));
  EXPECT_EQ(tree.offsets(false), (Offsets{0, 16, 32}));
  EXPECT_EQ(c.release(blocks), KVC_OK);
  c.evict(50);
  tree.take(poll(c, &cursor));
  EXPECT_EQ(tree.offsets(true), Offsets{});
  EXPECT_EQ(tree.offsets(false), Offsets{});
}

}  // namespace
}  // namespace conformance
