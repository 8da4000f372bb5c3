// SPDX-License-Identifier: Apache-2.0
// What every store does, and each kind does in its own way.
#include "tier/store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "stores.h"
#include "tier/directory_usage.h"
#include "tier/record.h"
#include "tier/slab_format.h"
#include "tier/slot_index.h"

namespace kvc {
namespace {

using test::digest_of;
using test::page_of;
using test::Pages;

constexpr size_t kBytes = 5000;  // no multiple of a sector

// A store of each kind, with room for `pages` pages.
struct Kind {
  const char* name;
  bool has_order;
  std::function<PageStorePtr(const test::Folder&, uint64_t pages)> open;
};

PageStorePtr opened(kvc_status status, PageStorePtr& store) {
  EXPECT_EQ(status, KVC_OK) << kvc_last_error();
  return std::move(store);
}

PageStorePtr open_memory(uint64_t pages, size_t page_bytes = kBytes) {
  PageStorePtr out;
  return opened(make_memory_store(default_env(), pages * ((page_bytes + 63) / 64 * 64), page_bytes, &out),
                out);
}
PageStorePtr open_slab(const std::string& path, uint64_t pages, size_t page_bytes = kBytes,
                       bool direct = false) {
  PageStorePtr out;
  SlabConfig config = test::slab_config(path, pages, page_bytes);
  config.direct = direct;
  return opened(open_slab_store(default_env(), system_files(), config, &out), out);
}
PageStorePtr open_directory(const std::string& path, uint64_t pages, size_t page_bytes = kBytes) {
  PageStorePtr out;
  const DirectoryConfig config = test::directory_config(path, pages, page_bytes);
  return opened(open_directory_store(default_env(), system_files(), config, &out), out);
}

const Kind kKinds[] = {
    {"Memory", true, [](const test::Folder&, uint64_t pages) { return open_memory(pages); }},
    {"Slab", true, [](const test::Folder& at, uint64_t pages) { return open_slab(at / "s", pages); }},
    {"SlabDirect", true,
     [](const test::Folder& at, uint64_t pages) { return open_slab(at / "s", pages, kBytes, true); }},
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
  const size_t sizes[] = {1, 7, 64, 4095, 4096, 4097, kBytes};
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
  EXPECT_EQ(pages.put(digest_of(100), kBytes + 1), KVC_PAGE_NO_SPACE) << "larger than a page";
  EXPECT_EQ(store->stats().pages, std::size(sizes) - 1);
}

TEST_P(Store, ReadsRunsOfAPage) {
  const PageStorePtr store = open(2);
  const Digest256 key = digest_of(1);
  ASSERT_EQ(Pages(*store).put(key, kBytes), KVC_PAGE_OK);
  const kvc_run runs[] = {{0, 10}, {10, 1}, {100, 0}, {4000, 900}, {4999, 1}};
  std::vector<char> out(912, 0), page = page_of(key, kBytes), right;
  for (const kvc_run& run : runs)
    right.insert(right.end(), page.begin() + static_cast<ptrdiff_t>(run.offset),
                 page.begin() + static_cast<ptrdiff_t>(run.offset + run.bytes));
  kvc_tier_item item = {};
  set_key(&item, key), item.data = out.data(), item.bytes = kBytes, item.runs = runs, item.num_runs = 5;
  store->get({0, 0, 0}, &item, 1);
  EXPECT_EQ(item.result, KVC_PAGE_OK);
  EXPECT_EQ(out, right);
  EXPECT_EQ(wanted_bytes(item), right.size());
}

TEST_P(Store, ReplacesAPageOfAnotherSize) {
  const PageStorePtr store = open(4);
  Pages pages(*store);
  for (const size_t bytes : {size_t{2048}, kBytes, size_t{100}}) {
    SCOPED_TRACE(bytes);
    EXPECT_EQ(pages.put(digest_of(1), bytes), KVC_PAGE_OK);
    EXPECT_EQ(pages.get(digest_of(1), bytes), KVC_PAGE_OK);
    EXPECT_EQ(pages.get(digest_of(1), bytes + 1), KVC_PAGE_MISS);
  }
  EXPECT_EQ(pages.put_many(1, 4, kBytes), std::vector<int32_t>(4, KVC_PAGE_OK)) << "in a batch, too";
  for (uint64_t i = 1; i <= 4; ++i) EXPECT_EQ(pages.get(digest_of(i), kBytes), KVC_PAGE_OK) << i;
  EXPECT_EQ(store->stats().evictions, 0u);
}

TEST_P(SlotStores, KeepAPageOfAnotherSizeWhileItIsLeased) {
  const PageStorePtr store = open(4);
  Pages pages(*store, 100), later(*store, 200);
  ASSERT_EQ(pages.put(digest_of(1), 2048), KVC_PAGE_OK);
  ASSERT_EQ(pages.exists(digest_of(1), 50), KVC_PAGE_OK);
  EXPECT_EQ(pages.put(digest_of(1), kBytes), KVC_PAGE_PENDING);
  EXPECT_EQ(pages.get(digest_of(1), 2048), KVC_PAGE_OK);
  EXPECT_EQ(later.put(digest_of(1), kBytes), KVC_PAGE_OK);
  EXPECT_EQ(later.get(digest_of(1), kBytes), KVC_PAGE_OK);
}

TEST_P(Store, NeverExceedsItsRoom) {
  const PageStorePtr store = open(8);
  Pages pages(*store);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(pages.put(digest_of(i), kBytes), KVC_PAGE_OK);
    EXPECT_EQ(pages.get(digest_of(i), kBytes), KVC_PAGE_OK) << "the last one is there";
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
    const size_t bytes = 1 + number * 97 % kBytes;
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
      status = make_memory_store(default_env(), 8 * 5056, kBytes, &store_, SlotPolicy::kLru, kLife);
    } else if (kind == "slab") {
      SlabConfig config = test::slab_config(path, 8, kBytes);
      config.ttl_ns = kLife;
      status = open_slab_store(default_env(), files_, config, &store_);
    } else {
      DirectoryConfig config = test::directory_config(path, 8, kBytes);
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
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(at(0).put(digest_of(i), kBytes), KVC_PAGE_OK);
  EXPECT_EQ(at(99).exists(digest_of(0)), KVC_PAGE_OK);
  EXPECT_EQ(at(99).get(digest_of(1), kBytes), KVC_PAGE_OK) << "its life begins anew";
  EXPECT_EQ(at(102).exists(digest_of(0)), KVC_PAGE_MISS);
  EXPECT_EQ(at(102).get(digest_of(0), kBytes), KVC_PAGE_MISS);
  if (std::string(GetParam()) != "dir") {
    EXPECT_EQ(at(102).get(digest_of(1), kBytes), KVC_PAGE_OK) << "used at 99";
    EXPECT_EQ(store_->stats().expired, 3u);
    EXPECT_EQ(store_->stats().pages, 1u) << "a get or put removes what is over";
  }
  EXPECT_EQ(at(102).put(digest_of(0), kBytes), KVC_PAGE_OK);
  EXPECT_EQ(at(102).put(digest_of(2), kBytes), KVC_PAGE_OK);
  at(0);  // files that are written now are of now
  EXPECT_EQ(Pages(*store_).get(digest_of(0), kBytes), KVC_PAGE_OK);
  EXPECT_EQ(Pages(*store_).get(digest_of(2), kBytes), KVC_PAGE_OK);
}

INSTANTIATE_TEST_SUITE_P(Of, Expiry, testing::Values("memory", "slab", "dir"),
                         [](const auto& at) { return std::string(at.param); });

TEST_P(Expiry, LeavesWhatIsLeased) {
  if (std::string(GetParam()) == "dir") GTEST_SKIP() << "it has no leases";
  open();
  ASSERT_EQ(at(0).put(digest_of(0), kBytes), KVC_PAGE_OK);
  ASSERT_EQ(at(0).put(digest_of(1), kBytes), KVC_PAGE_OK);
  EXPECT_EQ(at(90).exists(digest_of(0), 60 * kSecond), KVC_PAGE_OK);
  EXPECT_EQ(at(140).get(digest_of(1), kBytes), KVC_PAGE_MISS);
  EXPECT_EQ(at(140).exists(digest_of(0)), KVC_PAGE_OK);
  EXPECT_EQ(store_->stats().pages, 1u);
  EXPECT_EQ(at(160).exists(digest_of(0)), KVC_PAGE_MISS);
}

TEST_P(Expiry, IsNoMatterForWhoTellsNoTime) {
  if (std::string(GetParam()) == "dir") GTEST_SKIP() << "files have times";
  open();
  Pages pages(*store_);
  ASSERT_EQ(pages.put(digest_of(0), kBytes), KVC_PAGE_OK);
  EXPECT_EQ(pages.get(digest_of(0), kBytes), KVC_PAGE_OK);
  EXPECT_EQ(at(0).get(digest_of(0), kBytes), KVC_PAGE_OK) << "the first time that is told";
  EXPECT_EQ(at(99).exists(digest_of(0)), KVC_PAGE_OK);
}

TEST_P(Expiry, BeginsAnewForASlabAndGoesOnForAFolder) {
  if (std::string(GetParam()) == "memory") GTEST_SKIP() << "it does not outlive the process";
  const bool is_slab = std::string(GetParam()) == "slab";
  open();
  ASSERT_EQ(at(0).put(digest_of(0), kBytes), KVC_PAGE_OK);
  files_.now = start_ + 300;
  open();
  EXPECT_EQ(store_->stats().recovered, is_slab ? 1u : 0u);
  EXPECT_EQ(store_->stats().expired, is_slab ? 0u : 1u);
  EXPECT_EQ(store_->stats().bytes, is_slab ? kBytes : 0u);
  EXPECT_EQ(at(300).exists(digest_of(0)), is_slab ? KVC_PAGE_OK : KVC_PAGE_MISS);
  EXPECT_EQ(at(401).get(digest_of(0), kBytes), KVC_PAGE_MISS);
  open();
  EXPECT_EQ(store_->stats().pages, 0u) << "it does not come back";
}

INSTANTIATE_TEST_SUITE_P(Kinds, SlotStores, testing::Values(kKinds[0], kKinds[1], kKinds[2]),
                         [](const auto& at) { return at.param.name; });
INSTANTIATE_TEST_SUITE_P(Kinds, Store, testing::ValuesIn(kKinds),
                         [](const auto& at) { return at.param.name; });

// ---- memory

// Remembers the largest piece it gave: the pages.
struct Heap {
  char* pages = nullptr;
  size_t bytes = 0;
  bool refuses = false;
};
Env watched(Heap* heap) {
  Env env = default_env();
  env.allocator_data = heap;
  env.allocate = [](void* data, size_t size, size_t alignment) -> void* {
    auto* to = static_cast<Heap*>(data);
    if (to->refuses) return nullptr;
    void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (size > to->bytes) to->pages = static_cast<char*>(memory), to->bytes = size;
    return memory;
  };
  env.release = [](void*, void* memory, size_t, size_t) { std::free(memory); };
  return env;
}

TEST(MemoryStore, EachFlippedBitIsAMiss) {
  Heap heap;
  PageStorePtr store;
  ASSERT_EQ(make_memory_store(watched(&heap), 1024, 256, &store), KVC_OK);
  ASSERT_EQ(heap.bytes, 1024u);
  Pages pages(*store);
  for (size_t bit = 0; bit < 8 * 256; ++bit) {
    const Digest256 key = digest_of(bit);
    ASSERT_EQ(pages.put(key, 256), KVC_PAGE_OK);
    const std::vector<char> right = page_of(key, 256);
    char* at = heap.pages;
    while (std::memcmp(at, right.data(), 256) != 0) ASSERT_LT(at += 256, heap.pages + 1024);
    at[bit / 8] = static_cast<char>(at[bit / 8] ^ 1 << bit % 8);
    ASSERT_EQ(pages.get(key, 256), KVC_PAGE_MISS);
    ASSERT_EQ(pages.exists(key), KVC_PAGE_MISS) << "it does not come back";
  }
  EXPECT_EQ(store->stats().bad_payloads, 8u * 256);
}

TEST(MemoryStore, SaysWhatIsWrong) {
  PageStorePtr store;
  Heap heap;
  EXPECT_EQ(make_memory_store(default_env(), 100, 101, &store), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(make_memory_store(default_env(), 100, 0, &store), KVC_ERROR_INVALID_ARGUMENT);
  heap.refuses = true;
  EXPECT_EQ(make_memory_store(watched(&heap), 1024, 256, &store), KVC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(make_memory_store(default_env(), UINT64_MAX, 1, &store), KVC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(store, nullptr);
}

// ---- slab

void flip(const std::string& path, uint64_t bit) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  char byte = 0;
  ASSERT_EQ(::pread(file, &byte, 1, static_cast<off_t>(bit / 8)), 1);
  byte = static_cast<char>(byte ^ 1 << bit % 8);
  ASSERT_EQ(::pwrite(file, &byte, 1, static_cast<off_t>(bit / 8)), 1);
  ::close(file);
}

TEST(SlabStore, KeepsPagesInOrderWhenItIsOpenedAgain) {
  for (const bool direct : {false, true}) {
    const test::Folder folder;
    {
      const PageStorePtr store = open_slab(folder / "s", 4, kBytes, direct);
      for (uint64_t i = 0; i < 6; ++i) Pages(*store).put(digest_of(i), kBytes);
      Pages(*store).remove(digest_of(4));
    }
    const uint64_t size = std::filesystem::file_size(folder / "s");
    const PageStorePtr store = open_slab(folder / "s", 4, kBytes, direct);
    Pages pages(*store);
    EXPECT_EQ(store->stats().recovered, 3u);
    EXPECT_EQ(pages.exists(digest_of(4)), KVC_PAGE_MISS);
    for (const uint64_t i : {2u, 3u, 5u}) EXPECT_EQ(pages.exists(digest_of(i)), KVC_PAGE_OK);
    pages.put(digest_of(6), kBytes);
    pages.put(digest_of(7), kBytes);  // evicts the oldest
    EXPECT_EQ(pages.exists(digest_of(2)), KVC_PAGE_MISS);
    for (const uint64_t i : {3u, 5u, 6u, 7u}) EXPECT_EQ(pages.get(digest_of(i), kBytes), KVC_PAGE_OK);
    EXPECT_EQ(std::filesystem::file_size(folder / "s"), size) << "it never grows";
    EXPECT_LE(size, test::slab_config("", 4, kBytes).bytes);
  }
}

TEST(SlabStore, EachFlippedBitOfAHeaderOrPayloadIsAMiss) {
  const test::Folder folder;
  const std::string path = folder / "s";
  open_slab(path, 2, 64);
  constexpr uint64_t kHeaders = kSector, kPayloads = 2 * kSector;
  for (uint64_t bit = 0; bit < 8 * (128 + 64); ++bit) {
    {
      const PageStorePtr store = open_slab(path, 2, 64);
      ASSERT_EQ(Pages(*store).put(digest_of(1), 64), KVC_PAGE_OK);
    }
    const bool in_header = bit < 8 * 128;
    flip(path, in_header ? 8 * kHeaders + bit : 8 * kPayloads + bit - 8 * 128);
    const PageStorePtr store = open_slab(path, 2, 64);
    Pages pages(*store);
    ASSERT_EQ(pages.get(digest_of(1), 64), KVC_PAGE_MISS) << bit;
    EXPECT_EQ(store->stats().bad_headers, in_header ? 1u : 0u);
    EXPECT_EQ(store->stats().bad_payloads, in_header ? 0u : 1u);
    ASSERT_EQ(pages.put(digest_of(1), 64), KVC_PAGE_OK);
    ASSERT_EQ(pages.get(digest_of(1), 64), KVC_PAGE_OK);
    ASSERT_EQ(pages.remove(digest_of(1)), KVC_PAGE_OK);
  }
}

TEST(SlabStore, RefusesWhatIsNotItsOwn) {
  const test::Folder folder;
  const std::string path = folder / "s";
  PageStorePtr store = open_slab(path, 2), other;
  SlabConfig config = test::slab_config(path, 2, kBytes);
  const auto open = [&] { return open_slab_store(default_env(), system_files(), config, &other); };
  EXPECT_EQ(open(), KVC_ERROR_BUSY) << "in use";
  store.reset();
  config = test::slab_config(path, 3, kBytes);
  EXPECT_EQ(open(), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(strstr(kvc_last_error(), "sizes do not change"), nullptr);
  config = test::slab_config(path, 2, kBytes + 1);
  EXPECT_EQ(open(), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(strstr(kvc_last_error(), "pages of at most 5000 bytes, not of 5001"), nullptr)
      << kvc_last_error();
  config = test::slab_config(path, 2, kBytes);
  for (uint64_t bit = 0; bit < 8 * 128; ++bit) {  // each bit of its description
    flip(path, bit);
    EXPECT_NE(open(), KVC_OK) << bit;
    flip(path, bit);
  }
  EXPECT_EQ(open(), KVC_OK) << kvc_last_error();
  other.reset();

  const std::string text = folder / "text", link = folder / "link";
  FILE* file = fopen(text.c_str(), "w");
  fputs("not a slab, and precious", file);
  fclose(file);
  config.path = text.c_str();
  EXPECT_EQ(open(), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(std::filesystem::file_size(text), 24u);
  ASSERT_EQ(symlink(path.c_str(), link.c_str()), 0);
  config.path = link.c_str();
  EXPECT_NE(open(), KVC_OK) << "a link";
  const std::string none = folder / "none/s";
  config.path = none.c_str();
  EXPECT_EQ(open(), KVC_ERROR_NOT_FOUND);
  config.path = path.c_str();
  config.bytes = 4096;
  EXPECT_EQ(open(), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(other, nullptr);
}

TEST(SlabStore, ReplacesASlabThatDoesNotMatchIfItIsAskedTo) {
  const test::Folder folder;
  const std::string path = folder / "s";
  PageStorePtr store;
  const auto open = [&](const SlabConfig& config) {
    store.reset();
    return open_slab_store(default_env(), system_files(), config, &store);
  };
  SlabConfig config = test::slab_config(path, 2, kBytes);
  config.replaces = true;
  ASSERT_EQ(open(config), KVC_OK) << kvc_last_error();
  ASSERT_EQ(Pages(*store).put(digest_of(1), kBytes), KVC_PAGE_OK);
  ASSERT_EQ(open(config), KVC_OK);
  EXPECT_EQ(store->stats().recovered, 1u) << "it matches";
  SlabConfig other = test::slab_config(path, 2, 2 * kBytes), larger = test::slab_config(path, 5, 3 * kBytes);
  other.replaces = larger.replaces = true;
  for (const SlabConfig& next : {other, larger, config}) {
    PageStorePtr second;
    EXPECT_EQ(open_slab_store(default_env(), system_files(), next, &second), KVC_ERROR_BUSY) << "in use";
    SlabConfig refuses = next;
    refuses.replaces = false;
    EXPECT_EQ(open(refuses), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(strstr(kvc_last_error(), "on_mismatch=replace"), nullptr) << kvc_last_error();
    ASSERT_EQ(open(next), KVC_OK) << kvc_last_error();
    EXPECT_EQ(store->stats().recovered, 0u);
    Pages pages(*store);
    EXPECT_EQ(pages.get(digest_of(1), kBytes), KVC_PAGE_MISS);
    EXPECT_EQ(pages.put(digest_of(1), kBytes), KVC_PAGE_OK);
    EXPECT_EQ(pages.get(digest_of(1), kBytes), KVC_PAGE_OK);
    EXPECT_EQ(std::filesystem::file_size(path), make_slab(next.bytes, next.page_bytes).bytes);
  }
  for (uint64_t k = 0; k < 20; ++k) {  // each system call fails
    SCOPED_TRACE(k);
    const SlabConfig& next = k % 2 == 0 ? other : larger;
    test::FaultyFiles files;
    files.set(test::Fault::kEio, k);
    PageStorePtr broken;
    store.reset();
    if (open_slab_store(default_env(), files, next, &broken) != KVC_OK) {
      EXPECT_EQ(files.hits, 1u) << kvc_last_error();
    }
    broken.reset();
    ASSERT_EQ(open(next), KVC_OK) << kvc_last_error();
    EXPECT_EQ(store->stats().recovered, 0u);
    EXPECT_EQ(Pages(*store).put(digest_of(1), kBytes), KVC_PAGE_OK);
  }
  const std::string text = folder / "text";
  FILE* file = fopen(text.c_str(), "w");
  fputs("not a slab, and precious", file);
  fclose(file);
  config.path = text.c_str();
  EXPECT_EQ(open(config), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(std::filesystem::file_size(text), 24u);
}

// Two models, or two revisions of one, take turns with a slab.
TEST(SlabStore, KeepsThePagesOfOtherFingerprintsUntilTheyGiveWay) {
  const test::Folder folder;
  const std::string path = folder / "s";
  PageStorePtr store;
  const auto open = [&](uint64_t fingerprint, uint64_t page_bytes = kBytes) {
    store.reset();
    SlabConfig config = test::slab_config(path, 8, kBytes);
    config.page_bytes = page_bytes;
    config.fingerprint = digest_of(1000 + fingerprint);
    ASSERT_EQ(open_slab_store(default_env(), system_files(), config, &store), KVC_OK) << kvc_last_error();
  };
  for (uint64_t of = 0; of < 2; ++of) {
    open(of);
    EXPECT_EQ(store->stats().recovered, 0u);
    EXPECT_EQ(store->stats().pages, of * 3);
    // The same keys, and other bytes: their sizes.
    for (uint64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(Pages(*store).exists(digest_of(i)), KVC_PAGE_MISS) << "that of another one";
      EXPECT_EQ(Pages(*store).get(digest_of(i), kBytes), KVC_PAGE_MISS);
      EXPECT_EQ(Pages(*store).remove(digest_of(i)), KVC_PAGE_MISS);
      ASSERT_EQ(Pages(*store).put(digest_of(i), kBytes - of), KVC_PAGE_OK);
    }
  }
  for (uint64_t round = 0; round < 4; ++round) {
    const uint64_t of = round % 2;
    open(of, 100);
    EXPECT_EQ(store->stats().recovered, 3u);
    EXPECT_EQ(store->stats().pages, 6u);
    for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(Pages(*store).get(digest_of(i), kBytes - of), KVC_PAGE_OK);
  }
  // What is new takes the places of the oldest, whosever they are: those of the first one.
  for (uint64_t i = 10; i < 15; ++i) ASSERT_EQ(Pages(*store).put(digest_of(i), kBytes), KVC_PAGE_OK);
  EXPECT_EQ(store->stats().evictions, 3u);
  open(0);
  EXPECT_EQ(store->stats().recovered, 0u);
  EXPECT_EQ(store->stats().pages, 8u);
  open(1);
  EXPECT_EQ(store->stats().recovered, 8u);
  for (uint64_t i = 10; i < 15; ++i) EXPECT_EQ(Pages(*store).get(digest_of(i), kBytes), KVC_PAGE_OK);
}

// What an allocator has given, and the most of it at a time.
struct Meter {
  size_t bytes = 0, most = 0;
};
Env metered(Meter* meter) {
  Env env = default_env();
  env.allocator_data = meter;
  env.allocate = [](void* data, size_t size, size_t alignment) -> void* {
    auto* to = static_cast<Meter*>(data);
    to->bytes += size;
    to->most = std::max(to->most, to->bytes);
    return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  };
  env.release = [](void* data, void* memory, size_t size, size_t) {
    if (memory != nullptr) static_cast<Meter*>(data)->bytes -= size;
    std::free(memory);
  };
  return env;
}

TEST(SlabStore, OpensWithFewBytesASlotBesideItsIndex) {
  constexpr uint64_t kSlots = 8192;
  const test::Folder folder;
  const std::string path = folder / "s";
  open_slab(path, kSlots, 64);
  Meter index_meter, meter;
  {
    Memory memory(metered(&index_meter));
    SlotIndex index;
    ASSERT_TRUE(index.create(memory, kSlots));
  }
  PageStorePtr store;
  ASSERT_EQ(open_slab_store(metered(&meter), system_files(), test::slab_config(path, kSlots, 64), &store),
            KVC_OK)
      << kvc_last_error();
  ASSERT_EQ(store->stats().capacity_pages, kSlots);
  EXPECT_LE(meter.most, index_meter.most + 32 * kSlots);
}

TEST(SlabStore, WithoutDirectIoGoesThroughThePageCache) {
  struct NoDirect final : Files {
    bool when_opened = false;
    int64_t write(int file, const void* data, size_t size, uint64_t offset) override {
      return is_direct(file) ? -EINVAL : Files::write(file, data, size, offset);
    }
    int64_t read(int file, void* data, size_t size, uint64_t offset) override {
      return is_direct(file) ? -EINVAL : Files::read(file, data, size, offset);
    }
    int open(int folder, const char* path, int flags, unsigned mode) override {
      return when_opened && (flags & O_DIRECT) != 0 ? -EINVAL : Files::open(folder, path, flags, mode);
    }
    static bool is_direct(int file) { return (::fcntl(file, F_GETFL) & O_DIRECT) != 0; }
  } files;
  for (const bool when_opened : {false, true}) {
    files.when_opened = when_opened;
    const test::Folder folder;
    const std::string path = folder / "s";
    SlabConfig config = test::slab_config(path, 2, kBytes);
    config.direct = true;
    PageStorePtr store;
    ASSERT_EQ(open_slab_store(default_env(), files, config, &store), KVC_OK) << kvc_last_error();
    EXPECT_EQ(Pages(*store).put(digest_of(1), kBytes), KVC_PAGE_OK);
    EXPECT_EQ(Pages(*store).get(digest_of(1), kBytes), KVC_PAGE_OK);
    EXPECT_GE(store->stats().fallbacks, 1u);
    EXPECT_EQ(store->stats().failures, 0u);
  }
}

// A file system without locks; with `sync`, what has reached the disk.
struct OtherFiles final : Files {
  int lock_error = 0;
  std::set<std::pair<dev_t, ino_t>> synced;
  int lock(int file) override { return lock_error != 0 ? lock_error : Files::lock(file); }
  int sync(int file) override {
    struct stat status;
    if (fstat(file, &status) == 0) synced.insert({status.st_dev, status.st_ino});
    return 0;
  }
  bool has(const std::string& path) const {
    struct stat status;
    return stat(path.c_str(), &status) == 0 && synced.count({status.st_dev, status.st_ino}) != 0;
  }
};

TEST(StoresOfFiles, SayThatAFileSystemHasNoLocks) {
  const test::Folder folder;
  const std::string slab = folder / "s", pages = folder / "d";
  OtherFiles files;
  files.lock_error = -ENOLCK;
  PageStorePtr store;
  EXPECT_EQ(open_slab_store(default_env(), files, test::slab_config(slab, 2, kBytes), &store),
            KVC_ERROR_DEVICE);
  EXPECT_NE(strstr(kvc_last_error(), "ENOLCK: its file system has no locks"), nullptr) << kvc_last_error();
  EXPECT_EQ(open_directory_store(default_env(), files, test::directory_config(pages, 2, kBytes), &store),
            KVC_ERROR_DEVICE);
  EXPECT_NE(strstr(kvc_last_error(), "ENOLCK: its file system has no locks"), nullptr) << kvc_last_error();
}

TEST(StoresOfFiles, WithSyncHaveTheirNamesOnTheDisk) {
  for (const bool by_link : {false, true}) {
    const test::Folder folder;
    const std::string real = folder / "real", link = folder / "link";
    ASSERT_EQ(mkdir(real.c_str(), 0700), 0);
    ASSERT_EQ(symlink(real.c_str(), link.c_str()), 0);
    const std::string slab = (by_link ? link : real) + "/s", pages = (by_link ? link : real) + "/d/";
    OtherFiles files;
    SlabConfig slab_config = test::slab_config(slab, 2, kBytes);
    slab_config.sync = true;
    PageStorePtr store;
    ASSERT_EQ(open_slab_store(default_env(), files, slab_config, &store), KVC_OK) << kvc_last_error();
    EXPECT_TRUE(files.has(slab) && files.has(real));
    files.synced.clear();
    DirectoryConfig config = test::directory_config(pages, 2, kBytes);
    config.sync = true;
    ASSERT_EQ(open_directory_store(default_env(), files, config, &store), KVC_OK) << kvc_last_error();
    EXPECT_TRUE(files.has(pages) && files.has(real));
  }
}

TEST(SlabStore, RefusesAFileThatOthersMayWriteTo) {
  const test::Folder folder;
  const std::string path = folder / "s";
  PageStorePtr store = open_slab(path, 2);
  store.reset();
  for (const mode_t mode : {0660, 0602}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_EQ(open_slab_store(default_env(), system_files(), test::slab_config(path, 2, kBytes), &store),
              KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(strstr(kvc_last_error(), "chmod go-w"), nullptr) << kvc_last_error();
  }
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(open_slab_store(default_env(), system_files(), test::slab_config(path, 2, kBytes), &store),
            KVC_OK);
}

// ---- folder

TEST(DirectoryStore, EachFlippedBitIsAMiss) {
  const test::Folder folder;
  const PageStorePtr store = open_directory(folder / "d", 4, 64);
  Pages pages(*store);
  for (uint64_t bit = 0; bit < 8 * (128 + 64); ++bit) {
    ASSERT_EQ(pages.put(digest_of(1), 64), KVC_PAGE_OK);
    std::string path;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "d"))
      if (entry.path().extension() == ".page") path = entry.path().string();
    flip(path, bit);
    ASSERT_EQ(pages.get(digest_of(1), 64), KVC_PAGE_MISS) << bit;
    ASSERT_FALSE(std::filesystem::exists(path)) << "it is of no use to anybody";
  }
  EXPECT_EQ(store->stats().pages, 0u);
  EXPECT_EQ(store->stats().bytes, 0u);
}

TEST(DirectoryStore, ReadsOnlyItsOwnKindOfFile) {
  const test::Folder folder;
  const PageStorePtr store = open_directory(folder / "d", 4, 64);
  Pages pages(*store);
  std::string path;
  const auto put = [&] {
    EXPECT_EQ(pages.put(digest_of(1), 64), KVC_PAGE_OK);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "d"))
      if (entry.path().extension() == ".page") path = entry.path().string();
  };
  put();
  for (uint64_t size = 0; size < 192; size += 13) {
    std::filesystem::resize_file(path, size);
    EXPECT_EQ(pages.get(digest_of(1), 64), KVC_PAGE_MISS) << size;
    put();
  }
  std::filesystem::rename(path, folder / "kept");
  std::filesystem::create_symlink(folder / "kept", path);
  EXPECT_NE(pages.get(digest_of(1), 64), KVC_PAGE_OK) << "a link";
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(pages.get(digest_of(1), 64), KVC_PAGE_OK) << "a pipe, which must not be waited for";
  std::filesystem::remove(path);
  // The record of another key under this one's name.
  pages.put(digest_of(2), 64);
  std::string other;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "d"))
    if (entry.path().extension() == ".page") other = entry.path().string();
  std::filesystem::rename(other, path);
  EXPECT_EQ(pages.get(digest_of(1), 64), KVC_PAGE_MISS);
}

TEST(DirectoryStore, CountsWhatIsThereWhenItIsOpened) {
  const test::Folder folder;
  const std::string path = folder / "d";
  {
    const PageStorePtr store = open_directory(path, 8);
    for (uint64_t i = 0; i < 5; ++i) Pages(*store).put(digest_of(i), kBytes);
  }
  std::string usage;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
    if (entry.path().filename() == "usage") usage = entry.path().string();
  std::filesystem::resize_file(usage, 3);
  PageStorePtr store = open_directory(path, 8);
  EXPECT_EQ(store->stats().recovered, 5u);
  std::filesystem::resize_file(usage, 0);
  EXPECT_EQ(store->stats().pages, 5u) << "counted again";
  // With less room it removes the oldest.
  store = open_directory(path, 2);
  EXPECT_LE(store->stats().pages, 2u);
  EXPECT_LE(store->stats().bytes, store->stats().capacity_bytes);
}

TEST(DirectoryStore, HasOneBoundForAllFingerprints) {
  const test::Folder folder;
  const std::string path = folder / "d";
  constexpr uint64_t kRoom = 8;
  uint64_t evictions = 0;
  for (uint64_t version = 0; version < 4; ++version) {
    PageStorePtr store;
    DirectoryConfig config = test::directory_config(path, kRoom, kBytes);
    config.fingerprint = digest_of(1000 + version);
    ASSERT_EQ(open_directory_store(default_env(), system_files(), config, &store), KVC_OK)
        << kvc_last_error();
    EXPECT_EQ(store->stats().recovered, 0u) << "of this fingerprint";
    Pages pages(*store);
    EXPECT_EQ(pages.get(digest_of(1), kBytes), KVC_PAGE_MISS) << "that of another one";
    for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(pages.put(digest_of(i), kBytes), KVC_PAGE_OK);
    for (uint64_t i = 0; i < 6; ++i)
      EXPECT_EQ(pages.get(digest_of(i), kBytes), KVC_PAGE_OK) << "the old ones went first";
    evictions += store->stats().evictions;
    uint64_t used = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.path().extension() == ".page") used += DirectoryUsage::charged(entry.file_size());
    EXPECT_LE(used, config.bytes);
    EXPECT_EQ(store->stats().bytes, used) << "of the whole place";
  }
  EXPECT_GE(evictions, 3 * 6 - kRoom);
}

// A disk that is full when there are so many pages.
struct SmallDisk final : Files {
  std::string path;
  uint64_t pages = 0;
  int64_t write(int file, const void* data, size_t size, uint64_t offset) override {
    uint64_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      count += entry.path().extension() == ".page";
    return count >= pages && size > sizeof(RecordHeader) ? -ENOSPC : Files::write(file, data, size, offset);
  }
};

TEST(DirectoryStore, GivesWayToAFullDiskAsLongAsThatHelps) {
  const test::Folder folder;
  SmallDisk files;
  files.path = folder / "d";
  files.pages = 4;
  PageStorePtr store;
  ASSERT_EQ(
      open_directory_store(default_env(), files, test::directory_config(files.path, 100, kBytes), &store),
      KVC_OK)
      << kvc_last_error();
  Pages pages(*store);
  for (uint64_t i = 0; i < 40; ++i) {
    ASSERT_EQ(pages.put(digest_of(i), kBytes), KVC_PAGE_OK) << i;
    ASSERT_EQ(pages.get(digest_of(i), kBytes), KVC_PAGE_OK) << i;
  }
  EXPECT_EQ(store->stats().pages, 4u);
  EXPECT_EQ(store->stats().disk_evictions, 36u);
  EXPECT_EQ(store->stats().evictions, 0u);
  files.pages = 0;  // others have taken all
  for (uint64_t i = 40; i < 60; ++i) EXPECT_EQ(pages.put(digest_of(i), kBytes), KVC_PAGE_NO_SPACE);
  EXPECT_EQ(store->stats().pages, 3u) << "it did not help, so it was done once";
  files.pages = 10;
  for (uint64_t i = 40; i < 60; ++i)
    EXPECT_EQ(pages.put(digest_of(i), kBytes), KVC_PAGE_OK) << "there is room again";
  EXPECT_EQ(store->stats().pages, 10u);
}

// A disk of so many sectors, of which others take some.
struct SharedDisk final : Files {
  std::string path;
  uint64_t sectors = 0;
  int free_bytes(int, uint64_t* out) override {
    uint64_t used = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.path().extension() == ".page") used += DirectoryUsage::charged(entry.file_size()) / 4096;
    *out = used < sectors ? (sectors - used) * 4096 : 0;
    return 0;
  }
};

TEST(StoresOfFiles, LeaveTheDiskWhatOthersKeep) {
  const test::Folder folder;
  SharedDisk files;
  files.path = folder / "d";
  files.sectors = 20;  // of two a page
  DirectoryConfig config = test::directory_config(files.path, 100, kBytes);
  config.reserve_free = 8 * 4096;
  PageStorePtr store;
  ASSERT_EQ(open_directory_store(default_env(), files, config, &store), KVC_OK) << kvc_last_error();
  Pages pages(*store);
  uint64_t free = 0;
  for (uint64_t i = 0; i < 30; ++i) {
    ASSERT_EQ(pages.put(digest_of(i), kBytes), KVC_PAGE_OK) << i;
    files.free_bytes(0, &free);
    ASSERT_GE(free, config.reserve_free);
  }
  EXPECT_EQ(store->stats().pages, 6u);
  files.sectors = 12;  // others take eight more
  EXPECT_EQ(pages.put(digest_of(30), kBytes), KVC_PAGE_OK);
  files.free_bytes(0, &free);
  EXPECT_GE(free, config.reserve_free);
  EXPECT_EQ(store->stats().pages, 2u);
  files.sectors = 4;
  EXPECT_EQ(pages.put(digest_of(31), kBytes), KVC_PAGE_NO_SPACE);
  EXPECT_EQ(store->stats().pages, 0u);
  files.sectors = 20;
  EXPECT_EQ(pages.put(digest_of(31), kBytes), KVC_PAGE_OK);

  const std::string path = folder / "s";
  SlabConfig slab = test::slab_config(path, 4, kBytes);
  slab.reserve_free = 8 * 4096;
  files.sectors = 8 + slab.bytes / 4096 - 2;
  EXPECT_EQ(open_slab_store(default_env(), files, slab, &store), KVC_ERROR_LIMIT);
  EXPECT_NE(strstr(kvc_last_error(), "reserve_free, 32768"), nullptr) << kvc_last_error();
  files.sectors += 4;
  EXPECT_EQ(open_slab_store(default_env(), files, slab, &store), KVC_OK) << kvc_last_error();
  store.reset();
  files.sectors = 0;
  EXPECT_EQ(open_slab_store(default_env(), files, slab, &store), KVC_OK) << "it has its bytes";
  EXPECT_EQ(Pages(*store).put(digest_of(1), kBytes), KVC_PAGE_OK);
  store.reset();
  SlabConfig other = test::slab_config(path, 3, kBytes);
  other.reserve_free = slab.reserve_free;
  other.replaces = true;
  EXPECT_EQ(open_slab_store(default_env(), files, other, &store), KVC_ERROR_LIMIT);
  EXPECT_EQ(open_slab_store(default_env(), files, slab, &store), KVC_OK) << kvc_last_error();
  EXPECT_EQ(store->stats().recovered, 1u) << "a refusal empties no slab";
  store.reset();
  files.sectors = 8 + 2;  // of the page in the folder
  EXPECT_EQ(open_slab_store(default_env(), files, other, &store), KVC_OK) << "the bytes of the old one";
}

// A folder that another process has locked as often as it is asked for.
class LockedFiles : public Files {
 public:
  int lock(int file) override {
    if (!taken) return Files::lock(file);
    ++tries;
    return -EWOULDBLOCK;
  }
  bool taken = false;
  int tries = 0;
};

// A store of a folder with one page.
class LockedDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    open();
    EXPECT_EQ(Pages(*store_).put(digest_of(1), kBytes), KVC_PAGE_OK);
  }
  void open() {
    store_.reset();
    const std::string path = folder_ / "d";
    const DirectoryConfig config = test::directory_config(path, 4, kBytes);
    ASSERT_EQ(open_directory_store(default_env(), files_, config, &store_), KVC_OK) << kvc_last_error();
  }

  const test::Folder folder_;
  LockedFiles files_;
  PageStorePtr store_;
};

TEST_F(LockedDirectory, TellsItsStateWithoutWaitingForTheFolder) {
  files_.taken = true;
  EXPECT_EQ(store_->stats().pages, 1u) << "as it was seen last";
  EXPECT_EQ(store_->stats().bytes, 2 * 4096u);
  EXPECT_EQ(files_.tries, 2) << "once each";
}

TEST_F(LockedDirectory, WaitsOnceForAPeerThatHasTheFolderAndGivesUp) {
  Pages pages(*store_);
  files_.taken = true;
  EXPECT_EQ(pages.put(digest_of(2), kBytes), KVC_PAGE_TIMEOUT);
  const int first = std::exchange(files_.tries, 0);
  EXPECT_GT(first, 1);
  for (uint64_t i = 3; i < 20; ++i) EXPECT_EQ(pages.put(digest_of(i), kBytes), KVC_PAGE_TIMEOUT);
  EXPECT_EQ(pages.remove(digest_of(1)), KVC_PAGE_TIMEOUT);
  EXPECT_EQ(files_.tries, 18) << "once each";
  EXPECT_EQ(pages.get(digest_of(1), kBytes), KVC_PAGE_OK) << "who reads needs no lock";
  EXPECT_EQ(store_->stats().failures, 0u);
  open();
  EXPECT_EQ(store_->stats().pages, 1u) << "as it was noted last";
  Pages again(*store_);
  EXPECT_EQ(again.get(digest_of(1), kBytes), KVC_PAGE_OK);
  files_.taken = false;
  EXPECT_EQ(again.put(digest_of(2), kBytes), KVC_PAGE_OK);
  EXPECT_EQ(again.get(digest_of(2), kBytes), KVC_PAGE_OK);
}

TEST(DirectoryStore, SaysWhatIsWrong) {
  const test::Folder folder;
  PageStorePtr store;
  const std::string none = folder / "none/d", open = folder / "open";
  const auto status = [&](const DirectoryConfig& config) {
    return open_directory_store(default_env(), system_files(), config, &store);
  };
  EXPECT_EQ(status(test::directory_config(none, 8, kBytes)), KVC_ERROR_NOT_FOUND);
  ASSERT_EQ(mkdir(open.c_str(), 0700), 0);
  const DirectoryConfig others = test::directory_config(open, 8, kBytes);
  for (const mode_t mode : {0777, 0702, 0720}) {
    ASSERT_EQ(chmod(open.c_str(), mode), 0);
    EXPECT_EQ(status(others), KVC_ERROR_INVALID_ARGUMENT) << mode;
    EXPECT_NE(strstr(kvc_last_error(), "chmod go-w"), nullptr) << kvc_last_error();
  }
  ASSERT_EQ(chmod(open.c_str(), 0755), 0);
  EXPECT_EQ(status(others), KVC_OK) << kvc_last_error();
  store.reset();
  for (const auto& entry : std::filesystem::directory_iterator(open))
    ASSERT_EQ(chmod(entry.path().c_str(), 0770), 0);
  EXPECT_EQ(status(others), KVC_ERROR_INVALID_ARGUMENT) << "the folder of the fingerprint";
  DirectoryConfig small = test::directory_config(none, 8, kBytes);
  small.bytes = kBytes;
  EXPECT_EQ(status(small), KVC_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace kvc
