// SPDX-License-Identifier: Apache-2.0
// Every system call of a fixed series of calls fails once, in each way: the item concerned may be lost,
// nothing else, and no bytes are ever wrong; not now, and not when the store is opened again.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "stores.h"

namespace kvc {
namespace {

using test::digest_of;
using test::Fault;
using test::FaultyFiles;
using test::kOddPageBytes;
using test::Pages;

constexpr uint64_t kRoom = 6;

struct FaultyKind {
  const char* name;
  std::function<kvc_status(Files&, const std::string&, PageStorePtr*)> open;
};

kvc_status slab(Files& files, const std::string& path, PageStorePtr* out, bool direct, bool sync,
                bool engine = false) {
  SlabConfig config = test::slab_config(path, kRoom, kOddPageBytes);
  config.direct = direct, config.sync = sync;
  config.io = engine ? SlabConfig::Io::kEngine : SlabConfig::Io::kThreads;
  config.engine = test::test_engine(files);
  return open_slab_store(default_env(), files, config, out);
}
const FaultyKind kFaultyKinds[] = {
    {"Slab", [](Files& f, const std::string& p, PageStorePtr* out) { return slab(f, p, out, false, false); }},
    {"SlabDirectSync",
     [](Files& f, const std::string& p, PageStorePtr* out) { return slab(f, p, out, true, true); }},
    {"SlabEngine",
     [](Files& f, const std::string& p, PageStorePtr* out) { return slab(f, p, out, false, false, true); }},
    {"SlabEngineDirectSync",
     [](Files& f, const std::string& p, PageStorePtr* out) { return slab(f, p, out, true, true, true); }},
    {"DirectorySync",
     [](Files& f, const std::string& p, PageStorePtr* out) {
       DirectoryConfig config = test::directory_config(p, kRoom, kOddPageBytes);
       config.sync = true;
       return open_directory_store(default_env(), f, config, out);
     }},
};

class Faults : public testing::TestWithParam<std::tuple<FaultyKind, Fault>> {
 protected:
  kvc_status open(Files& files, const std::string& path, PageStorePtr* out) {
    return std::get<0>(GetParam()).open(files, path, out);
  }
};

// What the store must know of each page after a call.
enum class Known : uint8_t { kNo, kYes, kPerhaps };

struct Series {
  PageStore& store;
  Pages& pages;
  FaultyFiles& files;
  std::map<uint64_t, Known> known = {};

  uint64_t disk_evictions() {
    files.is_paused = true;
    const uint64_t out = store.stats().disk_evictions;
    files.is_paused = false;
    return out;
  }
  void put(uint64_t number) {
    const uint64_t hits = files.hits, evictions = disk_evictions();
    const int32_t result = pages.put(digest_of(number), kOddPageBytes);
    if (const uint64_t now = disk_evictions(); now != evictions) {  // one gave way to a full disk
      EXPECT_TRUE(files.fault == Fault::kEnospc || files.fault == Fault::kEdquot);
      EXPECT_EQ(now, evictions + 1);
      for (auto& [other, what] : known)
        if (what == Known::kYes) what = Known::kPerhaps;
    }
    if (result == KVC_PAGE_OK) {
      if (known[number] == Known::kNo || hits == files.hits) known[number] = Known::kYes;
    } else {
      EXPECT_GT(files.hits, hits) << "without a fault it does not fail";
      EXPECT_TRUE(result == KVC_PAGE_FAILED || result == KVC_PAGE_NO_SPACE);
      if (known[number] == Known::kNo) known[number] = Known::kPerhaps;
    }
  }
  void get(uint64_t number) {
    const uint64_t hits = files.hits;
    const int32_t result = pages.get(digest_of(number), kOddPageBytes);
    if (hits == files.hits) {
      if (known[number] == Known::kYes) {
        EXPECT_EQ(result, KVC_PAGE_OK) << number;
      }
      if (known[number] == Known::kNo) {
        EXPECT_EQ(result, KVC_PAGE_MISS) << number;
      }
    } else if (result == KVC_PAGE_MISS && known[number] == Known::kYes) {
      ADD_FAILURE() << "a fault in reading is no reason to forget the page";
    }
  }
  void remove(uint64_t number) {
    const uint64_t hits = files.hits;
    const int32_t result = pages.remove(digest_of(number));
    if (result == KVC_PAGE_OK) {
      known[number] = Known::kNo;
    } else if (hits != files.hits) {
      known[number] = Known::kPerhaps;
    }
  }
};

TEST_P(Faults, OfEachSystemCallLoseAtMostTheItem) {
  const Fault fault = std::get<1>(GetParam());
  const bool must_not_fail = fault == Fault::kEintr || fault == Fault::kShort;
  uint64_t failing_calls = 0;
  for (uint64_t k = 0;; ++k) {
    SCOPED_TRACE(k);
    const test::Folder folder;
    const std::string path = folder / "store";
    FaultyFiles files;
    files.set(fault, k);
    PageStorePtr store;
    kvc_status status = open(files, path, &store);
    if (status != KVC_OK) {
      ASSERT_EQ(files.hits, 1u) << kvc_last_error();
      ASSERT_EQ(store, nullptr);
      ++failing_calls;
      status = open(files, path, &store);  // now without a fault
      ASSERT_EQ(status, KVC_OK) << kvc_last_error();
    }
    Pages pages(*store);
    Series series = {*store, pages, files};
    for (uint64_t i = 0; i < 4; ++i) series.put(i);
    for (uint64_t i = 0; i < 5; ++i) series.get(i);
    series.remove(1);
    series.get(1);
    series.put(4);
    series.put(1);
    for (uint64_t i = 0; i < 5; ++i) series.get(i);
    const bool over = files.hits == 0;
    if (must_not_fail && store->stats().failures == 0) {
      for (uint64_t i = 0; i < 5; ++i) EXPECT_NE(series.known[i], Known::kPerhaps);
    }
    files.set(Fault::kNone, 0);
    store.reset();
    ASSERT_EQ(open(files, path, &store), KVC_OK) << kvc_last_error();
    Pages again(*store);
    Series after = {*store, again, files, series.known};
    for (uint64_t i = 0; i < 5; ++i) after.get(i);
    // And it has all its room.
    for (uint64_t i = 10; i < 10 + kRoom; ++i) {
      EXPECT_EQ(again.put(digest_of(i), kOddPageBytes), KVC_PAGE_OK);
      EXPECT_EQ(again.get(digest_of(i), kOddPageBytes), KVC_PAGE_OK);
    }
    EXPECT_LE(store->stats().bytes, store->stats().capacity_bytes);
    ASSERT_EQ(pages.wrong + again.wrong, 0u);
    if (over) {
      EXPECT_GT(k, 25u) << "so few calls?";
      break;
    }
  }
  if (!must_not_fail) {
    EXPECT_GT(failing_calls, 0u);
  }
}

TEST_P(Faults, OfEveryThirdSystemCallGiveNoWrongByte) {
  const Fault fault = std::get<1>(GetParam());
  for (const uint64_t every : {2u, 3u, 5u, 7u, 11u}) {
    const test::Folder folder;
    const std::string path = folder / "store";
    FaultyFiles files;
    PageStorePtr store;
    ASSERT_EQ(open(files, path, &store), KVC_OK) << kvc_last_error();
    Pages pages(*store);
    files.set(fault, 0, every);
    for (uint64_t i = 0; i < 600; ++i) {
      const uint64_t number = i * 2654435761u % 10;
      if (i % 7 == 6) {
        pages.remove(digest_of(number));
      } else if (i % 2 == 0) {
        pages.put(digest_of(number), kOddPageBytes);
      } else {
        pages.get(digest_of(number), kOddPageBytes);
      }
    }
    EXPECT_GT(files.hits, 10u);
    files.set(Fault::kNone, 0);
    for (int round = 0; round < 2; ++round) {
      store.reset();
      ASSERT_EQ(open(files, path, &store), KVC_OK) << kvc_last_error();
      Pages again(*store);
      for (uint64_t i = 0; i < 10; ++i) again.get(digest_of(i), kOddPageBytes);
      EXPECT_EQ(again.wrong + pages.wrong, 0u);
      EXPECT_LE(store->stats().bytes, store->stats().capacity_bytes);
      for (uint64_t i = 10; i < 20; ++i) EXPECT_EQ(again.put(digest_of(i), kOddPageBytes), KVC_PAGE_OK);
    }
  }
}

// Without `sync`, whose failure is one of all.
TEST(SlabFaults, OfOneItemAreNotThoseOfItsNeighbours) {
  for (const bool engine : {false, true}) {
    for (const Fault fault : {Fault::kEio, Fault::kEnospc, Fault::kEdquot, Fault::kShort, Fault::kEintr}) {
      bool over = false;
      for (uint64_t k = 0; !over; ++k) {
        SCOPED_TRACE(k);
        const test::Folder folder;
        const std::string path = folder / "store";
        FaultyFiles files;
        PageStorePtr store;
        ASSERT_EQ(slab(files, path, &store, true, false, engine), KVC_OK) << kvc_last_error();
        Pages pages(*store);
        pages.put_many(0, kRoom, kOddPageBytes);
        files.set(fault, k);
        const std::vector<int32_t> results = pages.put_many(100, kRoom, kOddPageBytes);  // each evicts one
        over = files.hits == 0;
        files.set(Fault::kNone, 0);
        size_t failed = 0;
        for (const int32_t result : results) {
          EXPECT_TRUE(result == KVC_PAGE_OK || result == KVC_PAGE_FAILED) << result;
          failed += result != KVC_PAGE_OK;
        }
        EXPECT_LE(failed, fault == Fault::kShort || fault == Fault::kEintr ? 0u : 1u);
        for (int round = 0; round < 2; ++round) {
          Pages again(*store);
          for (uint64_t i = 0; i < kRoom; ++i) {
            const int32_t result = again.get(digest_of(100 + i), kOddPageBytes);
            EXPECT_EQ(result, results[i] == KVC_PAGE_OK ? KVC_PAGE_OK : KVC_PAGE_MISS) << i;
          }
          EXPECT_EQ(again.wrong, 0u);
          store.reset();
          ASSERT_EQ(slab(files, path, &store, true, false, engine), KVC_OK) << kvc_last_error();
        }
      }
    }
  }
}

const char* name_of(Fault fault) {
  return fault == Fault::kEio      ? "Eio"
         : fault == Fault::kEnospc ? "Enospc"
         : fault == Fault::kEdquot ? "Edquot"
         : fault == Fault::kEnolck ? "Enolck"
         : fault == Fault::kShort  ? "Short"
                                   : "Eintr";
}

INSTANTIATE_TEST_SUITE_P(Kinds, Faults,
                         testing::Combine(testing::ValuesIn(kFaultyKinds),
                                          testing::Values(Fault::kEio, Fault::kEnospc, Fault::kEdquot,
                                                          Fault::kEnolck, Fault::kShort, Fault::kEintr)),
                         [](const auto& at) {
                           return std::string(std::get<0>(at.param).name) + name_of(std::get<1>(at.param));
                         });

}  // namespace
}  // namespace kvc
