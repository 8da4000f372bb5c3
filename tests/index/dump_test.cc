// SPDX-License-Identifier: Apache-2.0
// Dumps: all that matters comes back, and nothing of a dump that is short, changed, or made up.
#include "base/crc32c.h"
#include "index_peer.h"
#include "property/random.h"
#include "seed.h"

namespace kvc::test {
namespace {

std::vector<uint8_t> dump_of(PrefixIndex& index) {
  size_t size = 0, again = 0;
  EXPECT_EQ(KVC_ERROR_BUFFER_TOO_SMALL, index.dump(nullptr, 0, &size));
  std::vector<uint8_t> bytes(size);
  EXPECT_EQ(KVC_ERROR_BUFFER_TOO_SMALL, index.dump(bytes.data(), size - 1, &again));
  EXPECT_EQ(KVC_OK, index.dump(bytes.data(), size, &again));
  EXPECT_EQ(size, again);
  return bytes;
}

void fill(PrefixIndex& index) {
  for (uint64_t worker = 1; worker <= 6; ++worker) {
    ASSERT_EQ(KVC_OK, index.add_worker(worker, "a name", worker));
    for (uint32_t medium = 0; medium < 3; ++medium) {
      std::vector<kvc_event> events;
      for (uint64_t i = 0; i < 30; ++i)
        if (i % worker != medium)
          events.push_back(event_of(events.size(), KVC_EVENT_STORED, i, i % 3 * worker));
      ASSERT_EQ(KVC_OK, index.apply(worker, medium, events.data(), events.size(), worker, nullptr));
    }
  }
  ASSERT_EQ(KVC_OK, index.remove_worker(3));  // a place between others
  const kvc_event late = event_of(99, KVC_EVENT_STORED, 70);
  ASSERT_EQ(KVC_OK, index.apply(5, 1, &late, 1, 0, nullptr));
}

std::vector<uint64_t> whole_prompt() {
  std::vector<uint64_t> blocks(30);
  for (uint64_t i = 0; i < 30; ++i) blocks[i] = i;
  return blocks;
}

void set_sum(std::vector<uint8_t>* bytes) {
  const uint32_t sum = crc32c(bytes->data(), bytes->size() - 4);
  std::memcpy(bytes->data() + bytes->size() - 4, &sum, 4);
}

void expect_empty(const PrefixIndex& index) {
  const kvc_index_stats stats = stats_of(index);
  EXPECT_EQ(0u, stats.num_workers);
  EXPECT_EQ(0u, stats.num_blocks);
  EXPECT_EQ(0u, stats.num_holdings);
  EXPECT_EQ(0u, stats.num_sets);
}

TEST(IndexDump, BringsBackWorkersStreamsAndBlocks) {
  IndexPeer from, to;
  fill(from.index);
  const auto bytes = dump_of(from.index);
  EXPECT_EQ(bytes, dump_of(from.index));
  ASSERT_EQ(KVC_OK, to.index.load_dump(bytes.data(), bytes.size()));
  EXPECT_EQ(bytes, dump_of(to.index));
  for (uint64_t worker : {1, 2, 4, 5, 6}) {
    for (uint32_t medium = 0; medium < 3; ++medium)
      EXPECT_EQ(keys_of(from.index, worker, medium), keys_of(to.index, worker, medium));
    const kvc_index_worker before = info_of(from.index, worker), after = info_of(to.index, worker);
    EXPECT_STREQ(before.name, after.name);
    EXPECT_EQ(before.last_heard_ns, after.last_heard_ns);
    for (uint32_t medium = 0; medium < 3; ++medium) {
      EXPECT_EQ(before.next_sequence[medium], after.next_sequence[medium]);
      EXPECT_EQ(before.is_stale[medium], after.is_stale[medium]);
      EXPECT_EQ(before.num_blocks[medium], after.num_blocks[medium]);
    }
  }
  EXPECT_EQ(match(from.index, whole_prompt()), match(to.index, whole_prompt()));
  EXPECT_EQ(stats_of(from.index).num_holdings, stats_of(to.index).num_holdings);
  EXPECT_EQ(KVC_ERROR_BUSY, to.index.load_dump(bytes.data(), bytes.size()));
  for (uint64_t worker : {1, 2, 4, 5, 6}) EXPECT_EQ(KVC_OK, to.index.remove_worker(worker));
  expect_empty(to.index);
}

TEST(IndexDump, AnEmptyIndexHasOne) {
  IndexPeer from, to;
  const auto bytes = dump_of(from.index);
  EXPECT_EQ(KVC_OK, to.index.load_dump(bytes.data(), bytes.size()));
  expect_empty(to.index);
}

TEST(IndexDump, AResyncThatADumpInterruptsMustBeginAgain) {
  IndexPeer from, to;
  ASSERT_EQ(KVC_OK, from.index.add_worker(1, nullptr, 0));
  ASSERT_EQ(KVC_OK, from.index.begin_resync(1, 0));
  const auto bytes = dump_of(from.index);
  ASSERT_EQ(KVC_OK, to.index.load_dump(bytes.data(), bytes.size()));
  EXPECT_EQ(1u, info_of(to.index, 1).is_stale[0]);
  EXPECT_EQ(KVC_ERROR_BUSY, to.index.end_resync(1, 0, 5));
  EXPECT_EQ(KVC_OK, to.index.begin_resync(1, 0));
  EXPECT_EQ(KVC_OK, to.index.end_resync(1, 0, 5));
  EXPECT_EQ(0u, info_of(to.index, 1).is_stale[0]);
}

TEST(IndexDump, ShortAndForeignBytesAreRefused) {
  IndexPeer from, to;
  fill(from.index);
  auto bytes = dump_of(from.index);
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_EQ(KVC_ERROR_INVALID_ARGUMENT, to.index.load_dump(bytes.data(), size)) << size;
  }
  const std::string text(200, 'x');
  EXPECT_EQ(KVC_ERROR_INVALID_ARGUMENT, to.index.load_dump(text.data(), text.size()));
  bytes[8] = 9;
  EXPECT_EQ(KVC_ERROR_UNSUPPORTED, to.index.load_dump(bytes.data(), bytes.size())) << "a version to come";
  expect_empty(to.index);
}

TEST(IndexDump, AnyChangedByteIsNoticed) {
  IndexPeer from, to;
  fill(from.index);
  auto bytes = dump_of(from.index);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= 0x10;
    ASSERT_NE(KVC_OK, to.index.load_dump(bytes.data(), bytes.size())) << i;
    bytes[i] ^= 0x10;
  }
  expect_empty(to.index);
  EXPECT_EQ(KVC_OK, to.index.load_dump(bytes.data(), bytes.size()));
}

TEST(IndexDump, BytesWithARightSumThatLieLeaveAnEmptyIndexOrASoundOne) {
  IndexPeer from;
  fill(from.index);
  const auto good = dump_of(from.index);
  Random random(test_seed());
  int loaded = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    auto bytes = good;
    for (uint64_t n = random.between(1, 3); n-- > 0;) {
      const size_t at = random.chance(50) ? random.below(bytes.size()) : random.below(48);
      bytes[at] = static_cast<uint8_t>(random.chance(50) ? random.next() : bytes[at] ^ 1u << random.below(8));
    }
    if (random.chance(10)) {  // shorter, and it says so
      bytes.resize(random.between(52, bytes.size()));
      const uint64_t size = bytes.size();
      std::memcpy(bytes.data() + 40, &size, 8);
    }
    set_sum(&bytes);
    IndexPeer to;
    if (to.index.load_dump(bytes.data(), bytes.size()) != KVC_OK) {
      ++refused;
      expect_empty(to.index);
      ASSERT_EQ(KVC_OK, to.index.load_dump(good.data(), good.size())) << "it can be used as before";
    } else {
      ++loaded;
      match(to.index, whole_prompt());
    }
    std::vector<uint64_t> ids(16);
    size_t count = 0;
    ASSERT_EQ(KVC_OK, to.index.list_workers(ids.data(), ids.size(), &count));
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(KVC_OK, to.index.remove_worker(ids[i]));
    expect_empty(to.index);
  }
  EXPECT_GT(loaded, 100);
  EXPECT_GT(refused, 100);
}

TEST(IndexDump, ASmallerIndexSaysWhatToSet) {
  IndexPeer from;
  fill(from.index);
  const auto bytes = dump_of(from.index);
  for (int what = 0; what < 5; ++what) {
    kvc_index_config config = small_config();
    if (what == 0) config.max_blocks = 10;
    if (what == 1) config.max_workers = 4;
    if (what == 2) config.max_namespaces = 16;
    if (what == 3) config.num_media = 2;
    if (what == 4) config.group = 1;
    IndexPeer to(config);
    const kvc_status status = to.index.load_dump(bytes.data(), bytes.size());
    EXPECT_EQ(what < 3 ? KVC_ERROR_LIMIT : KVC_ERROR_INVALID_ARGUMENT, status) << what;
    expect_empty(to.index);
  }
}

}  // namespace
}  // namespace kvc::test
