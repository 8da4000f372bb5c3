// SPDX-License-Identifier: Apache-2.0
// What every store does, and each kind does in its own way.
#include "tier/store.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "stores.h"

namespace kvc {
namespace {

using test::digest_of;
using test::kPageBytes;
using test::open_directory;
using test::open_memory;
using test::open_slab;
using test::page_of;
using test::Pages;

// A store of each kind, with room for `pages` pages.
struct Kind {
  const char* name;
  bool has_order;
  std::function<PageStorePtr(const test::Folder&, uint64_t pages)> open;
};

const Kind kKinds[] = {
    {"Memory", true, [](const test::Folder&, uint64_t pages) { return open_memory(pages); }},
    {"Slab", true, [](const test::Folder& at, uint64_t pages) { return open_slab(at / "s", pages); }},
    {"SlabDirect", true,
     [](const test::Folder& at, uint64_t pages) { return open_slab(at / "s", pages, kPageBytes, true); }},
    {"Directory", false,
     [](const test::Folder& at, uint64_t pages) { return open_directory(at / "d", pages); }},
};

class Store : public testing::TestWithParam<Kind> {
 protected:
  PageStorePtr open(uint64_t pages) { return GetParam().open(folder_, pages); }
  test::Folder folder_;
};
// Those that lease, and that evict in an order that follows from the calls.
class SlotStores : public Store {};

TEST_P(Store, GivesBackWhatWasPut) {
  const PageStorePtr store = open(16);
  Pages pages(*store);
  const size_t sizes[] = {1, 7, 64, 4095, 4096, 4097, kPageBytes};
  for (size_t i = 0; i < std::size(sizes); ++i) {
    EXPECT_EQ(pages.exists(digest_of(i)), KVC_PAGE_MISS);
    EXPECT_EQ(pages.get(digest_of(i), sizes[i]), KVC_PAGE_MISS);
    EXPECT_EQ(pages.put(digest_of(i), sizes[i]), KVC_PAGE_OK);
    EXPECT_EQ(pages.put(digest_of(i), sizes[i]), KVC_PAGE_OK) << "it is there already";
    EXPECT_EQ(pages.exists(digest_of(i)), KVC_PAGE_OK);
  }
  for (size_t i = 0; i < std::size(sizes); ++i) {
    EXPECT_EQ(pages.get(digest_of(i), sizes[i]), KVC_PAGE_OK);
    EXPECT_EQ(pages.get(digest_of(i), sizes[i] + 1), KVC_PAGE_MISS) << "of another size";
  }
  EXPECT_EQ(store->stats().pages, std::size(sizes));
  EXPECT_EQ(pages.remove(digest_of(3)), KVC_PAGE_OK);
  EXPECT_EQ(pages.remove(digest_of(3)), KVC_PAGE_MISS);
  EXPECT_EQ(pages.get(digest_of(3), sizes[3]), KVC_PAGE_MISS);
  EXPECT_EQ(pages.put(digest_of(100), kPageBytes + 1), KVC_PAGE_NO_SPACE) << "larger than a page";
  EXPECT_EQ(store->stats().pages, std::size(sizes) - 1);
}

TEST_P(Store, ReadsRunsOfAPage) {
  const PageStorePtr store = open(2);
  const Digest256 key = digest_of(1);
  ASSERT_EQ(Pages(*store).put(key, kPageBytes), KVC_PAGE_OK);
  const kvc_run runs[] = {{0, 10}, {10, 1}, {100, 0}, {4000, 900}, {4999, 1}};
  std::vector<char> out(912, 0), page = page_of(key, kPageBytes), right;
  for (const kvc_run& run : runs)
    right.insert(right.end(), page.begin() + static_cast<ptrdiff_t>(run.offset),
                 page.begin() + static_cast<ptrdiff_t>(run.offset + run.bytes));
  kvc_tier_item item = {};
  set_key(&item, key), item.data = out.data(), item.bytes = kPageBytes, item.runs = runs, item.num_runs = 5;
  store->get({0, 0, 0}, &item, 1);
  EXPECT_EQ(item.result, KVC_PAGE_OK);
  EXPECT_EQ(out, right);
  EXPECT_EQ(wanted_bytes(item), right.size());
}

TEST_P(Store, ReplacesAPageOfAnotherSize) {
  const PageStorePtr store = open(4);
  Pages pages(*store);
  for (const size_t bytes : {size_t{2048}, kPageBytes, size_t{100}}) {
    SCOPED_TRACE(bytes);
    EXPECT_EQ(pages.put(digest_of(1), bytes), KVC_PAGE_OK);
    EXPECT_EQ(pages.get(digest_of(1), bytes), KVC_PAGE_OK);
    EXPECT_EQ(pages.get(digest_of(1), bytes + 1), KVC_PAGE_MISS);
  }
  EXPECT_EQ(pages.put_many(1, 4, kPageBytes), std::vector<int32_t>(4, KVC_PAGE_OK)) << "in a batch, too";
  for (uint64_t i = 1; i <= 4; ++i) EXPECT_EQ(pages.get(digest_of(i), kPageBytes), KVC_PAGE_OK) << i;
  EXPECT_EQ(store->stats().evictions, 0u);
}

TEST_P(SlotStores, KeepAPageOfAnotherSizeWhileItIsLeased) {
  const PageStorePtr store = open(4);
  Pages pages(*store, 100), later(*store, 200);
  ASSERT_EQ(pages.put(digest_of(1), 2048), KVC_PAGE_OK);
  ASSERT_EQ(pages.exists(digest_of(1), 50), KVC_PAGE_OK);
  EXPECT_EQ(pages.put(digest_of(1), kPageBytes), KVC_PAGE_PENDING);
  EXPECT_EQ(pages.get(digest_of(1), 2048), KVC_PAGE_OK);
  EXPECT_EQ(later.put(digest_of(1), kPageBytes), KVC_PAGE_OK);
  EXPECT_EQ(later.get(digest_of(1), kPageBytes), KVC_PAGE_OK);
}

TEST_P(Store, NeverExceedsItsRoom) {
  const PageStorePtr store = open(8);
  Pages pages(*store);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(pages.put(digest_of(i), kPageBytes), KVC_PAGE_OK);
    EXPECT_EQ(pages.get(digest_of(i), kPageBytes), KVC_PAGE_OK) << "the last one is there";
    const StoreStats stats = store->stats();
    EXPECT_LE(stats.pages, 8u);
    EXPECT_LE(stats.bytes, stats.capacity_bytes);
  }
  EXPECT_GE(store->stats().evictions, 92u);
}

TEST_P(SlotStores, EvictsTheLeastRecentlyUsed) {
  const PageStorePtr store = open(3);
  Pages pages(*store);
  for (uint64_t i = 0; i < 3; ++i) pages.put(digest_of(i), 8);
  EXPECT_EQ(pages.get(digest_of(0), 8), KVC_PAGE_OK);
  EXPECT_EQ(pages.put(digest_of(1), 8), KVC_PAGE_OK);  // used, too
  EXPECT_EQ(pages.exists(digest_of(2)), KVC_PAGE_OK);  // not used
  pages.put(digest_of(3), 8);
  EXPECT_EQ(pages.exists(digest_of(2)), KVC_PAGE_MISS);
  EXPECT_EQ(pages.exists(digest_of(0)), KVC_PAGE_OK);
  EXPECT_EQ(pages.exists(digest_of(1)), KVC_PAGE_OK);
}

TEST_P(SlotStores, KeepsWhatIsLeasedUntilTheLeaseEnds) {
  const PageStorePtr store = open(2);
  Pages early(*store, 1000), late(*store, 2000);
  uint64_t generation = 0;
  early.put(digest_of(0), 8);
  early.put(digest_of(1), 8);
  EXPECT_EQ(early.exists(digest_of(0), 1000, &generation), KVC_PAGE_OK);
  EXPECT_EQ(early.exists(digest_of(1), 999), KVC_PAGE_OK);
  EXPECT_EQ(early.put(digest_of(2), 8), KVC_PAGE_NO_SPACE);
  EXPECT_EQ(early.remove(digest_of(0)), KVC_PAGE_PENDING);
  EXPECT_EQ(early.get(digest_of(0), 8, generation), KVC_PAGE_OK);
  Pages between(*store, 1999);
  EXPECT_EQ(between.put(digest_of(2), 8), KVC_PAGE_OK) << "1 is not leased any more";
  EXPECT_EQ(between.exists(digest_of(0)), KVC_PAGE_OK);
  EXPECT_EQ(late.remove(digest_of(0)), KVC_PAGE_OK);
  EXPECT_EQ(late.put(digest_of(0), 8), KVC_PAGE_OK);
  EXPECT_EQ(late.get(digest_of(0), 8, generation), KVC_PAGE_EXPIRED) << "another page by that key";
  EXPECT_EQ(late.get(digest_of(0), 8), KVC_PAGE_OK);
}

TEST_P(Store, OfRandomCallsEqualsAMap) {
  const PageStorePtr store = open(24);
  Pages pages(*store);
  std::mt19937_64 random(test::test_seed());
  // Key -> time of its last use; the store has a page if and only if it is here, where it has an order.
  std::map<uint64_t, uint64_t> model;
  for (uint64_t time = 1; time <= 6000; ++time) {
    const uint64_t number = random() % 48;
    const Digest256 key = digest_of(number);
    const size_t bytes = 1 + number * 97 % kPageBytes;
    const bool known = model.count(number) != 0;
    switch (random() % 4) {
      case 0: {
        const int32_t result = pages.exists(key);
        if (GetParam().has_order) {
          EXPECT_EQ(result, known ? KVC_PAGE_OK : KVC_PAGE_MISS);
        }
        break;
      }
      case 1: {
        const int32_t result = pages.get(key, bytes);
        if (GetParam().has_order) {
          EXPECT_EQ(result, known ? KVC_PAGE_OK : KVC_PAGE_MISS);
        } else if (!known) {
          EXPECT_EQ(result, KVC_PAGE_MISS) << "never put, or removed";
        }
        if (known) model[number] = time;
        break;
      }
      case 2: {
        EXPECT_EQ(pages.put(key, bytes), KVC_PAGE_OK);
        if (!known && model.size() == 24 && GetParam().has_order) {
          auto oldest = model.begin();
          for (auto i = model.begin(); i != model.end(); ++i)
            if (i->second < oldest->second) oldest = i;
          model.erase(oldest);
        }
        model[number] = time;
        break;
      }
      default: {
        const int32_t result = pages.remove(key);
        if (GetParam().has_order) {
          EXPECT_EQ(result, known ? KVC_PAGE_OK : KVC_PAGE_MISS);
        }
        model.erase(number);
      }
    }
    if (GetParam().has_order) {
      ASSERT_EQ(store->stats().pages, model.size()) << "at " << time;
    }
  }
  EXPECT_EQ(pages.wrong, 0u);
}

constexpr uint64_t kSecond = 1000000000, kLife = 100 * kSecond;

// A store whose pages live for 100 seconds, by the time of the calls or of the files.
struct TimedFiles final : Files {
  int64_t now = ::time(nullptr);
  int64_t time() override { return now; }
};

class Expiry : public testing::TestWithParam<const char*> {
 protected:
  void open() {
    store_.reset();
    const std::string path = folder_ / "t", kind = GetParam();
    kvc_status status;
    if (kind == "memory") {
      status = make_memory_store(default_env(), 8 * 5056, kPageBytes, &store_, SlotPolicy::kLru, kLife);
    } else if (kind == "slab") {
      SlabConfig config = test::slab_config(path, 8, kPageBytes);
      config.ttl_ns = kLife;
      status = open_slab_store(default_env(), files_, config, &store_);
    } else {
      DirectoryConfig config = test::directory_config(path, 8, kPageBytes);
      config.ttl_s = kLife / kSecond;
      status = open_directory_store(default_env(), files_, config, &store_);
    }
    ASSERT_EQ(status, KVC_OK) << kvc_last_error();
  }
  // Calls that come `seconds` after the start.
  Pages at(int64_t seconds) {
    files_.now = start_ + seconds;
    return Pages(*store_, static_cast<uint64_t>(1000 + seconds) * kSecond);
  }

  test::Folder folder_;
  TimedFiles files_;
  const int64_t start_ = files_.now;
  PageStorePtr store_;
};

TEST_P(Expiry, EndsPagesThatNobodyUsed) {
  open();
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(at(0).put(digest_of(i), kPageBytes), KVC_PAGE_OK);
  EXPECT_EQ(at(99).exists(digest_of(0)), KVC_PAGE_OK);
  EXPECT_EQ(at(99).get(digest_of(1), kPageBytes), KVC_PAGE_OK) << "its life begins anew";
  EXPECT_EQ(at(102).exists(digest_of(0)), KVC_PAGE_MISS);
  EXPECT_EQ(at(102).get(digest_of(0), kPageBytes), KVC_PAGE_MISS);
  if (std::string(GetParam()) != "dir") {
    EXPECT_EQ(at(102).get(digest_of(1), kPageBytes), KVC_PAGE_OK) << "used at 99";
    EXPECT_EQ(store_->stats().expired, 3u);
    EXPECT_EQ(store_->stats().pages, 1u) << "a get or put removes what is over";
  }
  EXPECT_EQ(at(102).put(digest_of(0), kPageBytes), KVC_PAGE_OK);
  EXPECT_EQ(at(102).put(digest_of(2), kPageBytes), KVC_PAGE_OK);
  at(0);  // files that are written now are of now
  EXPECT_EQ(Pages(*store_).get(digest_of(0), kPageBytes), KVC_PAGE_OK);
  EXPECT_EQ(Pages(*store_).get(digest_of(2), kPageBytes), KVC_PAGE_OK);
}

INSTANTIATE_TEST_SUITE_P(Of, Expiry, testing::Values("memory", "slab", "dir"),
                         [](const auto& at) { return std::string(at.param); });

TEST_P(Expiry, LeavesWhatIsLeased) {
  if (std::string(GetParam()) == "dir") GTEST_SKIP() << "it has no leases";
  open();
  ASSERT_EQ(at(0).put(digest_of(0), kPageBytes), KVC_PAGE_OK);
  ASSERT_EQ(at(0).put(digest_of(1), kPageBytes), KVC_PAGE_OK);
  EXPECT_EQ(at(90).exists(digest_of(0), 60 * kSecond), KVC_PAGE_OK);
  EXPECT_EQ(at(140).get(digest_of(1), kPageBytes), KVC_PAGE_MISS);
  EXPECT_EQ(at(140).exists(digest_of(0)), KVC_PAGE_OK);
  EXPECT_EQ(store_->stats().pages, 1u);
  EXPECT_EQ(at(160).exists(digest_of(0)), KVC_PAGE_MISS);
}

TEST_P(Expiry, IsNoMatterForWhoTellsNoTime) {
  if (std::string(GetParam()) == "dir") GTEST_SKIP() << "files have times";
  open();
  Pages pages(*store_);
  ASSERT_EQ(pages.put(digest_of(0), kPageBytes), KVC_PAGE_OK);
  EXPECT_EQ(pages.get(digest_of(0), kPageBytes), KVC_PAGE_OK);
  EXPECT_EQ(at(0).get(digest_of(0), kPageBytes), KVC_PAGE_OK) << "the first time that is told";
  EXPECT_EQ(at(99).exists(digest_of(0)), KVC_PAGE_OK);
}

TEST_P(Expiry, BeginsAnewForASlabAndGoesOnForAFolder) {
  if (std::string(GetParam()) == "memory") GTEST_SKIP() << "it does not outlive the process";
  const bool is_slab = std::string(GetParam()) == "slab";
  open();
  ASSERT_EQ(at(0).put(digest_of(0), kPageBytes), KVC_PAGE_OK);
  files_.now = start_ + 300;
  open();
  EXPECT_EQ(store_->stats().recovered, is_slab ? 1u : 0u);
  EXPECT_EQ(store_->stats().expired, is_slab ? 0u : 1u);
  EXPECT_EQ(store_->stats().bytes, is_slab ? kPageBytes : 0u);
  EXPECT_EQ(at(300).exists(digest_of(0)), is_slab ? KVC_PAGE_OK : KVC_PAGE_MISS);
  EXPECT_EQ(at(401).get(digest_of(0), kPageBytes), KVC_PAGE_MISS);
  open();
  EXPECT_EQ(store_->stats().pages, 0u) << "it does not come back";
}

INSTANTIATE_TEST_SUITE_P(Kinds, SlotStores, testing::Values(kKinds[0], kKinds[1], kKinds[2]),
                         [](const auto& at) { return at.param.name; });
INSTANTIATE_TEST_SUITE_P(Kinds, Store, testing::ValuesIn(kKinds),
                         [](const auto& at) { return at.param.name; });

}  // namespace
}  // namespace kvc
