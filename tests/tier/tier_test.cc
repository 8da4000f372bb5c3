// SPDX-License-Identifier: Apache-2.0
// The queue of a tier: what is done in which order, what is refused, when a job ends and how one hears of it.
#include "tier/tier.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <functional>
#include <thread>

#include "stores.h"
#include "tier/open_tier.h"

namespace kvc {
namespace {

using test::digest_of;
using test::page_of;

uint64_t fake_now = 0;
uint64_t fake_clock() { return fake_now; }

// Says what it was asked for; the calls can be held back.
class ToldStore final : public PageStore {
 public:
  std::vector<std::string> told;
  std::mutex gate;
  std::atomic<int> inside{0}, puts_inside{0}, most_puts{0};
  std::function<void(const char* what)> during;
  bool has_table = false;

  bool knows_pages() const override { return has_table; }
  void exists(const StoreCall& call, kvc_tier_item* items, size_t n) override {
    tell("exists", call, items, n);
  }
  void get(const StoreCall& call, kvc_tier_item* items, size_t n) override { tell("get", call, items, n); }
  void put(const StoreCall& call, kvc_tier_item* items, size_t n) override {
    const int now = ++puts_inside;
    if (now > most_puts) most_puts = now;
    tell("put", call, items, n);
    --puts_inside;
  }
  void remove(const StoreCall& call, kvc_tier_item* items, size_t n) override {
    tell("remove", call, items, n);
  }
  StoreStats stats() override { return {}; }

 private:
  void tell(const char* what, const StoreCall&, kvc_tier_item* items, size_t n) {
    ++inside;
    {
      const std::lock_guard lock(gate);
      told.push_back(what + (" " + std::to_string(items[0].bytes)) +
                     (n > 1 ? "+" + std::to_string(n - 1) : ""));
    }
    if (during) during(what);
    for (size_t i = 0; i < n; ++i) items[i].result = KVC_PAGE_OK;
    --inside;
  }
};

class TierQueue : public testing::Test {
 protected:
  void create(uint32_t threads, uint32_t max_jobs = 64, uint64_t max_store_bytes = 1000) {
    auto own = std::make_unique<ToldStore>();
    store_ = own.get();
    TierOptions options;
    options.num_threads = threads;
    options.max_jobs = max_jobs;
    options.max_store_bytes = max_store_bytes;
    options.clock_ns = fake_clock;
    fake_now = 1000;
    ASSERT_EQ(Tier::create(default_env(), std::move(own), options, &tier_), KVC_OK) << kvc_last_error();
  }
  // `bytes` names the items.
  kvc_status submit(TierJobKind kind, TierPriority priority, kvc_tier_item* items, size_t count,
                    uint64_t tag = 0, uint64_t timeout = 0) {
    TierJob job = {};
    job.kind = kind, job.priority = priority, job.items = items, job.num_items = count, job.tag = tag;
    job.timeout_ns = timeout;
    return tier_->submit(job, &id_);
  }
  static std::vector<kvc_tier_item> items(size_t count, uint64_t bytes) {
    static char buffer[1];
    std::vector<kvc_tier_item> out(count);
    for (size_t i = 0; i < count; ++i) out[i].bytes = bytes + i, out[i].data = buffer;
    return out;
  }
  bool readable() const {
    pollfd poll_fd = {tier_->event_fd(), POLLIN, 0};
    return poll(&poll_fd, 1, 0) == 1;
  }

  ToldStore* store_ = nullptr;
  std::unique_ptr<Tier> tier_;
  uint64_t id_ = 0;
};

TEST_F(TierQueue, DoesLoadsBeforePrefetchesBeforeStores) {
  create(0);
  auto a = items(2, 10), b = items(2, 20), c = items(2, 30), d = items(2, 40);
  ASSERT_EQ(submit(TierJobKind::kPut, TierPriority::kStore, a.data(), 2, 1), KVC_OK);
  ASSERT_TRUE(tier_->run_one());
  ASSERT_EQ(submit(TierJobKind::kGet, TierPriority::kPrefetch, b.data(), 2, 2), KVC_OK);
  ASSERT_TRUE(tier_->run_one());
  ASSERT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, c.data(), 2, 3), KVC_OK);
  ASSERT_EQ(submit(TierJobKind::kExists, TierPriority::kLoad, d.data(), 2, 4), KVC_OK);
  while (tier_->run_one()) continue;
  const std::vector<std::string> right = {"put 10",      "get 20", "get 30", "get 31",
                                          "exists 40+1", "get 21", "put 11"};
  EXPECT_EQ(store_->told, right);
  TierCompletion done[8];
  EXPECT_TRUE(readable());
  ASSERT_EQ(tier_->poll(done, 3), 3u);
  EXPECT_TRUE(readable()) << "one more";
  ASSERT_EQ(tier_->poll(done + 3, 5), 1u);
  EXPECT_FALSE(readable());
  EXPECT_EQ(done[0].tag, 3u);
  EXPECT_EQ(done[1].tag, 4u);
  EXPECT_EQ(done[2].tag, 2u);
  EXPECT_EQ(done[3].tag, 1u);
  EXPECT_EQ(done[3].num_ok, 2u);
  const TierStats stats = tier_->stats();
  EXPECT_EQ(stats.kinds[static_cast<size_t>(TierJobKind::kGet)].items, 4u);
  EXPECT_EQ(stats.kinds[static_cast<size_t>(TierJobKind::kGet)].bytes, 20u + 21 + 30 + 31);
  EXPECT_EQ(stats.kinds[static_cast<size_t>(TierJobKind::kPut)].bytes, 10u + 11);
}

// Whoever does the work need not be told that it is done, but of what he leaves.
TEST_F(TierQueue, RunsWhatWaitsAndTellsOfWhatIsLeft) {
  create(0);
  auto some = items(5, 10);
  const auto add = [&](size_t i) {
    ASSERT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, &some[i], 1, i), KVC_OK);
  };
  TierCompletion done[8];
  EXPECT_EQ(tier_->run(done, 8), 0u);
  for (size_t i = 0; i < 3; ++i) add(i);  // without a deadline
  store_->during = [&](const char*) { EXPECT_FALSE(readable()); };
  EXPECT_EQ(tier_->run(done, 2), 2u);
  EXPECT_EQ(done[0].tag, 0u);
  EXPECT_EQ(done[1].tag, 1u);
  EXPECT_TRUE(readable()) << "one is left";
  EXPECT_EQ(tier_->run(done, 8), 1u);
  EXPECT_FALSE(readable());
  store_->during = nullptr;
  add(3);
  ASSERT_TRUE(tier_->run_one());
  EXPECT_TRUE(readable());
  add(4);
  EXPECT_EQ(tier_->run(done, 8), 2u) << "one that was done, and one that waits";
  EXPECT_FALSE(readable());
}

TEST_F(TierQueue, RefusesStoresFirstAndLoadsLast) {
  create(0, 8);
  auto some = items(64, 1);
  size_t at = 0;
  const auto add = [&](TierPriority priority) { return submit(TierJobKind::kGet, priority, &some[at++], 1); };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(add(TierPriority::kStore), KVC_OK);
  EXPECT_EQ(add(TierPriority::kStore), KVC_ERROR_LIMIT);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(add(TierPriority::kPrefetch), KVC_OK);
  EXPECT_EQ(add(TierPriority::kPrefetch), KVC_ERROR_LIMIT);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(add(TierPriority::kLoad), KVC_OK);
  EXPECT_EQ(add(TierPriority::kLoad), KVC_ERROR_LIMIT);
  EXPECT_NE(strstr(kvc_last_error(), "max_jobs"), nullptr);
  TierStats stats = tier_->stats();
  for (const uint64_t refused : stats.refused_jobs) EXPECT_EQ(refused, 1u);
  EXPECT_EQ(stats.waiting_jobs, 8u);
  tier_->drain();
  EXPECT_EQ(add(TierPriority::kLoad), KVC_ERROR_LIMIT) << "the completions were not taken";
  TierCompletion done[8];
  EXPECT_EQ(tier_->poll(done, 8), 8u);
  EXPECT_EQ(add(TierPriority::kStore), KVC_OK);
  tier_->drain();  // the items are the tier's until then
}

TEST_F(TierQueue, BoundsTheBytesThatWaitToBeStored) {
  create(0, 64, 1000);
  auto a = items(2, 400), b = items(1, 300), c = items(1, 199);
  EXPECT_EQ(submit(TierJobKind::kPut, TierPriority::kStore, a.data(), 2), KVC_OK);  // 801
  EXPECT_EQ(submit(TierJobKind::kPut, TierPriority::kStore, b.data(), 1), KVC_ERROR_LIMIT);
  EXPECT_EQ(submit(TierJobKind::kPut, TierPriority::kStore, c.data(), 1), KVC_OK);
  EXPECT_EQ(tier_->stats().waiting_store_bytes, 1000u);
  EXPECT_EQ(tier_->stats().refused_bytes, 1u);
  ASSERT_TRUE(tier_->run_one());
  EXPECT_EQ(tier_->stats().waiting_store_bytes, 600u);
  EXPECT_EQ(submit(TierJobKind::kPut, TierPriority::kStore, b.data(), 1), KVC_OK);
  EXPECT_TRUE(tier_->cancel(id_));
  EXPECT_EQ(tier_->stats().waiting_store_bytes, 600u);
  tier_->drain();
  EXPECT_EQ(tier_->stats().waiting_store_bytes, 0u);
}

TEST_F(TierQueue, EndsWhatWasNotBegunByItsDeadline) {
  create(0);
  auto a = items(3, 10), b = items(1, 20), c = items(1, 30);
  ASSERT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, a.data(), 3, 1, 50), KVC_OK);
  ASSERT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, b.data(), 1, 2, 100), KVC_OK);
  ASSERT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, c.data(), 1, 3, UINT64_MAX), KVC_OK);
  fake_now = 1049;
  ASSERT_TRUE(tier_->run_one());
  TierCompletion done[4];
  EXPECT_EQ(tier_->poll(done, 4), 0u);
  fake_now = 1050;
  ASSERT_EQ(tier_->poll(done, 4), 1u) << "nobody has to work for that";
  EXPECT_EQ(done[0].tag, 1u);
  EXPECT_EQ(done[0].num_ok, 1u);
  EXPECT_EQ(a[0].result, KVC_PAGE_OK);
  EXPECT_EQ(a[1].result, KVC_PAGE_TIMEOUT);
  EXPECT_EQ(a[2].result, KVC_PAGE_TIMEOUT);
  fake_now = 1100;
  tier_->drain();
  ASSERT_EQ(tier_->poll(done, 4), 2u);
  EXPECT_EQ(b[0].result, KVC_PAGE_TIMEOUT);
  EXPECT_EQ(c[0].result, KVC_PAGE_OK);
  EXPECT_EQ(tier_->stats().kinds[1].results[static_cast<size_t>(KVC_PAGE_TIMEOUT)], 3u);
}

TEST_F(TierQueue, CancelsWhatWasNotBegun) {
  create(0);
  auto a = items(3, 10), b = items(1, 20);
  ASSERT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, a.data(), 3, 1), KVC_OK);
  const uint64_t first = id_;
  ASSERT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, b.data(), 1, 2), KVC_OK);
  ASSERT_TRUE(tier_->run_one());
  EXPECT_TRUE(tier_->cancel(first));
  EXPECT_FALSE(tier_->cancel(first));
  EXPECT_FALSE(tier_->cancel(0));
  EXPECT_FALSE(tier_->cancel(UINT64_MAX));
  TierCompletion done[4];
  ASSERT_EQ(tier_->poll(done, 4), 1u);
  EXPECT_EQ(done[0].job, first);
  EXPECT_EQ(done[0].num_ok, 1u);
  EXPECT_EQ(a[1].result, KVC_PAGE_CANCELLED);
  EXPECT_FALSE(tier_->cancel(first)) << "an old id";
  tier_->drain();
  EXPECT_EQ(b[0].result, KVC_PAGE_OK);
}

TEST_F(TierQueue, RefusesBadJobsBeforeAnythingHappens) {
  create(0);
  auto a = items(2, 100);
  a[1].result = KVC_PAGE_MISS;
  EXPECT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, a.data(), 0), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, nullptr, 1), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(submit(static_cast<TierJobKind>(4), TierPriority::kLoad, a.data(), 1),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(submit(TierJobKind::kGet, static_cast<TierPriority>(3), a.data(), 1), KVC_ERROR_INVALID_ARGUMENT);
  const kvc_run runs[][2] = {{{0, 101}, {}}, {{100, 2}, {}}, {{UINT64_MAX, 2}, {}}, {{5, 5}, {9, 1}}};
  for (const auto& bad : runs) {
    a[0].runs = bad, a[0].num_runs = 2;
    EXPECT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, a.data(), 2), KVC_ERROR_INVALID_ARGUMENT);
  }
  a[0].runs = nullptr;
  a[1].data = nullptr;
  EXPECT_EQ(submit(TierJobKind::kPut, TierPriority::kStore, a.data(), 2), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(a[1].result, KVC_PAGE_MISS);
  EXPECT_EQ(tier_->stats().waiting_jobs, 0u);
  TierOptions options;
  std::unique_ptr<Tier> out;
  options.max_jobs = 0;
  EXPECT_EQ(Tier::create(default_env(), nullptr, options, &out), KVC_ERROR_INVALID_ARGUMENT);
  options.max_jobs = 1, options.num_threads = 257;
  EXPECT_EQ(Tier::create(default_env(), nullptr, options, &out), KVC_ERROR_INVALID_ARGUMENT);
}

TEST_F(TierQueue, ThreadsLeaveOneOfThemForLoads) {
  create(3, 64, UINT64_MAX);
  std::mutex hold;
  hold.lock();
  store_->during = [&](const char* what) {
    if (*what != 'p') return;
    const std::lock_guard lock(hold);
  };
  std::vector<kvc_tier_item> stores = items(6, 1), load = items(1, 10);
  ASSERT_EQ(submit(TierJobKind::kPut, TierPriority::kStore, stores.data(), 6, 1), KVC_OK);
  while (store_->inside < 2) std::this_thread::yield();
  ASSERT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, load.data(), 1, 2), KVC_OK);
  TierCompletion done[2];
  while (tier_->poll(done, 2) == 0) std::this_thread::yield();
  EXPECT_EQ(done[0].tag, 2u) << "while the stores are held back";
  hold.unlock();
  tier_->drain();
  EXPECT_EQ(store_->most_puts, 2);
  EXPECT_EQ(tier_->poll(done, 2), 1u);
}

TEST_F(TierQueue, AnswersFromATableInTheThreadThatAsks) {
  create(2);
  store_->has_table = true;
  std::atomic<bool> let_go{false};
  std::thread::id asked_in;
  store_->during = [&](const char* what) {
    if (strcmp(what, "exists") == 0) asked_in = std::this_thread::get_id();
    while (strcmp(what, "exists") != 0 && !let_go) std::this_thread::yield();
  };
  auto a = items(2, 10), b = items(300, 20);
  ASSERT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, a.data(), 2, 1), KVC_OK);  // all threads are busy
  ASSERT_EQ(submit(TierJobKind::kExists, TierPriority::kLoad, b.data(), b.size(), 2), KVC_OK);
  EXPECT_EQ(asked_in, std::this_thread::get_id());
  EXPECT_FALSE(tier_->cancel(id_));
  TierCompletion done[4];
  ASSERT_EQ(tier_->poll(done, 4), 1u);
  EXPECT_EQ(done[0].tag, 2u);
  EXPECT_EQ(done[0].num_ok, 300u);
  let_go = true;
  tier_->drain();
  ASSERT_EQ(tier_->poll(done, 4), 1u);
  EXPECT_EQ(done[0].tag, 1u);
  EXPECT_EQ(tier_->stats().kinds[static_cast<size_t>(TierJobKind::kExists)].items, 300u);
}

// A submit wakes one thread, which wakes the next: one that slept on would be missed here.
TEST_F(TierQueue, AJobOfSeveralItemsWakesAllThreads) {
  constexpr int kThreads = 4;
  create(kThreads);
  for (int round = 0; round < 200; ++round) {
    const int before = store_->inside;
    ASSERT_EQ(before, 0);
    store_->during = [&](const char*) {
      while (store_->inside < kThreads && store_->most_puts == 0) std::this_thread::yield();
      store_->most_puts = 1;  // all of them were there
    };
    store_->most_puts = 0;
    auto a = items(kThreads, 10);
    ASSERT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, a.data(), kThreads), KVC_OK);
    tier_->drain();
    TierCompletion done[4];
    ASSERT_EQ(tier_->poll(done, 4), 1u);
    ASSERT_EQ(done[0].num_ok, static_cast<uint64_t>(kThreads));
  }
}

TEST_F(TierQueue, TheDescriptorIsReadableForWhatEndedBeforeItWasAskedFor) {
  create(0);
  auto a = items(1, 10), b = items(1, 20);
  ASSERT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, a.data(), 1), KVC_OK);
  ASSERT_TRUE(tier_->run_one());
  EXPECT_TRUE(readable());
  TierCompletion done[4];
  ASSERT_EQ(tier_->poll(done, 4), 1u);
  EXPECT_FALSE(readable());
  ASSERT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, b.data(), 1), KVC_OK);
  ASSERT_TRUE(tier_->run_one());
  EXPECT_TRUE(readable());
}

// More jobs than entries, polled while threads end others.
TEST_F(TierQueue, PolledJobsAreUsedAgain) {
  create(2, 8);
  TierCompletion done[8];
  for (int round = 0; round < 1000; ++round) {
    auto a = items(8, 10);
    for (auto& item : a)
      ASSERT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, &item, 1, 0, round % 2 ? 1000 : 0), KVC_OK);
    size_t polled = 0;
    while (polled < 8) polled += tier_->poll(done, 3);
    ASSERT_EQ(polled, 8u);
  }
  const TierStats stats = tier_->stats();
  EXPECT_EQ(stats.waiting_jobs + stats.running_jobs + stats.done_jobs, 0u);
}

TEST_F(TierQueue, EndsWithJobsInIt) {
  create(2, 64, UINT64_MAX);
  std::vector<kvc_tier_item> some = items(1000, 1);
  for (size_t i = 0; i < 10; ++i)
    ASSERT_EQ(submit(TierJobKind::kPut, TierPriority::kLoad, &some[i * 100], 100), KVC_OK);
  tier_.reset();
  for (const kvc_tier_item& item : some)
    EXPECT_TRUE(item.result == KVC_PAGE_OK || item.result == KVC_PAGE_CANCELLED);
}

// ---- by name

TEST(TierUrl, NamesTheKindThePathAndTheParameters) {
  const test::Folder folder;
  const TierPages pages = {test::kFingerprint, 64};
  std::unique_ptr<Tier> tier;
  const auto open = [&](const std::string& url) {
    tier.reset();
    return open_tier(default_env(), system_files(), url.c_str(), pages, {}, &tier);
  };
  const std::string files = "?bytes=16KiB&sync=1&threads=1";
  ASSERT_EQ(open("memory:?bytes=1MiB&threads=3&jobs=5"), KVC_OK) << kvc_last_error();
  EXPECT_EQ(tier->stats().store.capacity_bytes, 1u << 20);
  ASSERT_EQ(open("slab:" + (folder / "slab") + files + "&direct=1"), KVC_OK) << kvc_last_error();
  EXPECT_LE(std::filesystem::file_size(folder / "slab"), 16384u);
  ASSERT_EQ(open("dir:" + (folder / "dir") + files), KVC_OK) << kvc_last_error();
  EXPECT_EQ(tier->stats().store.capacity_bytes, 16384u);
  for (const char* bad :
       {"memory:", "memory:?bytes=", "memory:?bytes=x", "memory:?bytes=1KB", "memory:?bytes=-1",
        "memory:?bytes=99999999999999999999", "memory:?bytes=16777216TiB", "memory:/x?bytes=1MiB",
        "memory:?bytes=1MiB&direct=1", "memory:?bytes=1MiB&threads=257", "slab:?bytes=1MiB",
        "memory:?bytes=1MiB&jobs=0", "memory:?bytes=1MiB&jobs=1KiB", "slab:/x?bytes=1MiB&direct=2",
        "memory:?bytes=1MiB&more", "memory:?bytes=63"})
    EXPECT_EQ(open(bad), KVC_ERROR_INVALID_ARGUMENT) << bad;
  // Any other name is one of a plug-in.
  for (const char* none : {"nowhere://host", "nowhere", "file:/x?bytes=1MiB"}) {
    EXPECT_EQ(open(none), KVC_ERROR_NOT_FOUND) << none;
    EXPECT_NE(strstr(kvc_last_error(), "memory, slab and dir"), nullptr) << kvc_last_error();
    EXPECT_NE(strstr(kvc_last_error(), "KVC_PLUGIN_PATH"), nullptr) << kvc_last_error();
  }
  for (const char* bad :
       {"", ":", "/a/path", "Memory:?bytes=1MiB", "me mory:", "nameofsixteenabc:", "memory", "my-store:x"})
    EXPECT_EQ(open(bad), KVC_ERROR_INVALID_ARGUMENT) << bad;
  EXPECT_EQ(open(std::string(4095, 'x')), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(open("nowhere:" + std::string(4087, 'x')), KVC_ERROR_NOT_FOUND) << "the longest";
  EXPECT_EQ(open("nowhere:" + std::string(4088, 'x')), KVC_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(open("dir:" + (folder / "dir") + files + "&keep_free=1KiB"), KVC_OK) << kvc_last_error();
  EXPECT_EQ(open("slab:" + (folder / "full") + files + "&keep_free=1048576TiB"), KVC_ERROR_LIMIT);
  EXPECT_EQ(open("memory:?bytes=1MiB&keep_free=1KiB"), KVC_ERROR_INVALID_ARGUMENT);
  for (const char* what : {"refuse", "replace"})
    EXPECT_EQ(open("slab:" + (folder / "m") + files + "&on_mismatch=" + what), KVC_OK) << kvc_last_error();
  EXPECT_EQ(open("slab:" + (folder / "m") + files + "&on_mismatch=keep"), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(open("dir:" + (folder / "dir") + files + "&on_mismatch=replace"), KVC_ERROR_INVALID_ARGUMENT);
  for (const char* ttl : {"90", "90s", "30m", "12h", "7d", "0"})
    for (const char* kind : {"memory:?bytes=1MiB", "sizes:?bytes=1MiB"})
      EXPECT_EQ(open(std::string(kind) + "&ttl=" + ttl), KVC_OK) << kvc_last_error();
  for (const char* ttl : {"", "d", "7w", "-1", "7 d", "36601d", "18446744073709551615", "1KiB"}) {
    EXPECT_EQ(open(std::string("memory:?bytes=1MiB&ttl=") + ttl), KVC_ERROR_INVALID_ARGUMENT) << ttl;
    EXPECT_NE(strstr(kvc_last_error(), "such as 90, 90s, 30m, 12h or 7d"), nullptr) << kvc_last_error();
  }
  for (const char* policy : {"lru", "frequency"})
    EXPECT_EQ(open(std::string("memory:?bytes=1MiB&policy=") + policy), KVC_OK) << kvc_last_error();
  tier.reset();
  EXPECT_EQ(open("memory:?bytes=1MiB&policy=mru"), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(open("dir:" + (folder / "dir") + files + "&policy=frequency"), KVC_ERROR_UNSUPPORTED);
  EXPECT_NE(strstr(kvc_last_error(), "policy=lru"), nullptr);
  ASSERT_EQ(open("dir:" + (folder / "dir") + files + "&policy=lru"), KVC_OK) << kvc_last_error();
  tier.reset();
  EXPECT_EQ(open("slab:" + std::string(5000, 'x')), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(tier, nullptr);
}

// A caller who forgets it would get pages of one model for those of another.
TEST(TierUrl, NeedsAFingerprint) {
  const test::Folder folder;
  std::unique_ptr<Tier> tier;
  const std::string urls[] = {"memory:?bytes=1MiB", "slab:" + (folder / "s") + "?bytes=1MiB",
                              "dir:" + (folder / "d") + "?bytes=1MiB", "example:"};
  for (const std::string& url : urls) {
    EXPECT_EQ(open_tier(default_env(), system_files(), url.c_str(), {{}, 64}, {}, &tier),
              KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(strstr(kvc_last_error(), "kvc_storage_page_properties (model"), nullptr) << kvc_last_error();
    EXPECT_EQ(open_tier(default_env(), system_files(), url.c_str(), {test::kFingerprint, 64}, {}, &tier),
              KVC_OK)
        << kvc_last_error();
  }
  EXPECT_EQ(open_tier(default_env(), system_files(), "sizes:?bytes=1MiB", {{}, 64}, {}, &tier), KVC_OK);
}

TEST(TierUrl, IsNotShownWithItsPassword) {
  std::unique_ptr<Tier> tier;
  for (const char* url : {"nowhere://user:secret@host/0", "nowhere://:secret@host?threads=300",
                          "nowhere://:se@cret@host?jobs=0&x=a@b", "nowhere://:se?cret@host?jobs=0"}) {
    EXPECT_NE(open_tier(default_env(), system_files(), url, {test::kFingerprint, 64}, {}, &tier), KVC_OK);
    EXPECT_EQ(strstr(kvc_last_error(), "cret"), nullptr) << kvc_last_error();
    EXPECT_NE(strstr(kvc_last_error(), "nowhere://...@host"), nullptr) << kvc_last_error();
  }
}

// ---- with a real store, in threads

// A get of runs is checked in a buffer of its worker and copied from there: there must be one worker 0.
TEST(TierThreads, SeveralCallersOfRunOneGetTheirOwnPages) {
  const test::Folder folder;
  constexpr size_t kBytes = 64 << 10;
  constexpr uint64_t kPages = 16;
  const std::string url = "slab:" + (folder / "s") + "?bytes=4MiB&threads=0&direct=1";
  std::unique_ptr<Tier> tier;
  ASSERT_EQ(open_tier(default_env(), system_files(), url.c_str(), {test::kFingerprint, kBytes}, {}, &tier),
            KVC_OK)
      << kvc_last_error();
  for (uint64_t i = 0; i < kPages; ++i) {
    std::vector<char> page = page_of(digest_of(i), kBytes);
    kvc_tier_item item = {};
    set_key(&item, digest_of(i)), item.data = page.data(), item.bytes = kBytes;
    TierJob job = {};
    job.kind = TierJobKind::kPut, job.priority = TierPriority::kStore, job.items = &item, job.num_items = 1;
    uint64_t id = 0;
    ASSERT_EQ(tier->submit(job, &id), KVC_OK);
    tier->drain();
    TierCompletion done = {};
    ASSERT_EQ(tier->poll(&done, 1), 1u);
    ASSERT_EQ(item.result, KVC_PAGE_OK);
  }
  constexpr size_t kCallers = 4;
  std::vector<std::atomic<uint64_t>> ends(kCallers);
  std::atomic<uint64_t> wrong{0}, hits{0};
  const auto call = [&](size_t caller) {
    static constexpr kvc_run kHalves[] = {{0, kBytes / 2}, {kBytes / 2, kBytes / 2}};
    std::vector<char> out(kBytes);
    for (uint64_t j = 0; j < 200; ++j) {
      const Digest256 key = digest_of((j * 7 + caller * 5) % kPages);
      kvc_tier_item item = {};
      set_key(&item, key), item.data = out.data(), item.bytes = kBytes;
      item.runs = kHalves, item.num_runs = 2;
      TierJob job = {};
      job.items = &item, job.num_items = 1, job.tag = caller, job.kind = TierJobKind::kGet;
      uint64_t id = 0;
      const uint64_t before = ends[caller];
      if (tier->submit(job, &id) != KVC_OK) continue;
      while (ends[caller] == before) {
        tier->run_one();
        TierCompletion done[4];
        for (size_t i = tier->poll(done, 4); i-- > 0;) ++ends[done[i].tag];
      }
      hits += item.result == KVC_PAGE_OK;
      wrong += item.result == KVC_PAGE_OK && out != page_of(key, kBytes);
    }
  };
  std::vector<std::thread> threads;
  for (size_t c = 0; c < kCallers; ++c) threads.emplace_back(call, c);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(hits, kCallers * 200);
  EXPECT_EQ(tier->stats().store.bad_payloads, 0u);
}

TEST(TierThreads, NeverMixPages) {
  for (const int kind : {0, 1, 2}) {
    const test::Folder folder;
    const std::string path = folder / "store";
    constexpr size_t kBytes = 3000;
    constexpr uint32_t kWorkers = 4;
    PageStorePtr store;
    if (kind == 0) {
      ASSERT_EQ(make_memory_store(default_env(), 16 * kBytes, kBytes, &store), KVC_OK);
    } else if (kind == 1) {
      SlabConfig config = test::slab_config(path, 16, kBytes);
      config.workers = kWorkers, config.direct = true;
      ASSERT_EQ(open_slab_store(default_env(), system_files(), config, &store), KVC_OK);
    } else {
      DirectoryConfig config = test::directory_config(path, 16, kBytes);
      config.workers = kWorkers;
      ASSERT_EQ(open_directory_store(default_env(), system_files(), config, &store), KVC_OK);
    }
    TierOptions options;
    options.num_threads = kWorkers;
    options.max_jobs = 256;
    std::unique_ptr<Tier> tier;
    ASSERT_EQ(Tier::create(default_env(), std::move(store), options, &tier), KVC_OK) << kvc_last_error();
    constexpr int kCallers = 4;
    constexpr uint64_t kJobs = 60;
    constexpr size_t kItems = 8;
    std::atomic<uint64_t> hits{0}, wrong{0}, ended{0}, refused{0};
    std::atomic<int> callers{kCallers};
    // Each caller has jobs of its own; whoever polls tells it through the tag that one has ended.
    std::vector<std::atomic<uint64_t>> ends(kCallers);
    const auto call = [&](size_t caller) {
      uint64_t random = caller * 7919 + test::test_seed();
      const auto draw = [&] {
        return random = random * 6364136223846793005u + 1442695040888963407u, random >> 33;
      };
      std::vector<kvc_tier_item> items(kItems);
      std::vector<std::vector<char>> data(kItems, std::vector<char>(kBytes));
      for (uint64_t j = 0; j < kJobs; ++j) {
        TierJob job = {};
        job.kind = static_cast<TierJobKind>(draw() % 8 == 0 ? 3 : draw() % 3);
        job.priority = job.kind == TierJobKind::kPut ? TierPriority::kStore : TierPriority::kLoad;
        job.items = items.data(), job.num_items = kItems, job.tag = caller;
        job.now_ns = j, job.lease_ns = 1;
        for (size_t i = 0; i < kItems; ++i) {
          items[i] = {};
          set_key(&items[i], digest_of(draw() % 40));
          items[i].bytes = kBytes;
          if (job.kind == TierJobKind::kPut) data[i] = page_of(key_of(items[i]), kBytes);
          items[i].data = data[i].data();
        }
        const uint64_t before = ends[caller];
        uint64_t id = 0;
        if (tier->submit(job, &id) != KVC_OK) {
          ++refused;
          continue;
        }
        if (draw() % 4 == 0) tier->cancel(id);
        while (ends[caller] == before) std::this_thread::yield();
        for (size_t i = 0; i < kItems; ++i) {
          EXPECT_NE(items[i].result, KVC_PAGE_WAITING);
          if (job.kind != TierJobKind::kGet || items[i].result != KVC_PAGE_OK) continue;
          ++hits;
          wrong += data[i] != page_of(key_of(items[i]), kBytes);
        }
      }
      --callers;
    };
    std::vector<std::thread> threads;
    for (size_t c = 0; c < kCallers; ++c) threads.emplace_back(call, c);
    while (callers != 0) {
      pollfd poll_fd = {tier->event_fd(), POLLIN, 0};
      poll(&poll_fd, 1, 1);
      TierCompletion done[4];
      for (size_t i = tier->poll(done, 4); i-- > 0;) ++ends[done[i].tag], ++ended;
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(ended + refused, kCallers * kJobs);
    EXPECT_EQ(wrong, 0u);
    EXPECT_GT(hits, 0u);
    const TierStats stats = tier->stats();
    EXPECT_EQ(stats.store.bad_payloads + stats.store.bad_headers + stats.store.failures, 0u) << kind;
    EXPECT_EQ(stats.waiting_jobs + stats.running_jobs + stats.done_jobs, 0u);
    EXPECT_EQ(stats.waiting_store_bytes, 0u);
  }
}

}  // namespace
}  // namespace kvc
