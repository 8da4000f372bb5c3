// SPDX-License-Identifier: Apache-2.0
// Slabs: what they do in their own way; store_test.cc has what all stores do.
#include "tier/slab_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <map>

#include "stores.h"
#include "tier/slab_format.h"
#include "tier/slot_index.h"

namespace kvc {
namespace {

using test::digest_of;
using test::flip;
using test::kPageBytes;
using test::open_slab;
using test::Pages;

TEST(SlabStore, KeepsPagesInOrderWhenItIsOpenedAgain) {
  for (const bool direct : {false, true}) {
    const test::Folder folder;
    {
      const PageStorePtr store = open_slab(folder / "s", 4, kPageBytes, direct);
      for (uint64_t i = 0; i < 6; ++i) Pages(*store).put(digest_of(i), kPageBytes);
      Pages(*store).remove(digest_of(4));
    }
    const uint64_t size = std::filesystem::file_size(folder / "s");
    const PageStorePtr store = open_slab(folder / "s", 4, kPageBytes, direct);
    Pages pages(*store);
    EXPECT_EQ(store->stats().recovered, 3u);
    EXPECT_EQ(pages.exists(digest_of(4)), KVC_PAGE_MISS);
    for (const uint64_t i : {2u, 3u, 5u}) EXPECT_EQ(pages.exists(digest_of(i)), KVC_PAGE_OK);
    pages.put(digest_of(6), kPageBytes);
    pages.put(digest_of(7), kPageBytes);  // evicts the oldest
    EXPECT_EQ(pages.exists(digest_of(2)), KVC_PAGE_MISS);
    for (const uint64_t i : {3u, 5u, 6u, 7u}) EXPECT_EQ(pages.get(digest_of(i), kPageBytes), KVC_PAGE_OK);
    EXPECT_EQ(std::filesystem::file_size(folder / "s"), size) << "it never grows";
    EXPECT_LE(size, test::slab_config("", 4, kPageBytes).bytes);
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

// Between the making of a file and its lock somebody else opens it.
struct OvertakenLock final : Files {
  std::function<void()> before_lock;
  int lock(int file) override {
    if (before_lock) std::exchange(before_lock, nullptr)();
    return Files::lock(file);
  }
};

TEST(SlabStore, WhoIsOvertakenLeavesTheFileToTheOther) {
  const test::Folder folder;
  const std::string path = folder / "s";
  const SlabConfig config = test::slab_config(path, 4, kPageBytes);
  PageStorePtr winner, loser;
  OvertakenLock files;
  files.before_lock = [&] {
    winner = open_slab(path, 4);
    EXPECT_EQ(Pages(*winner).put(digest_of(1), kPageBytes), KVC_PAGE_OK);
  };
  EXPECT_EQ(open_slab_store(default_env(), files, config, &loser), KVC_ERROR_BUSY);
  ASSERT_NE(winner, nullptr);
  winner.reset();
  EXPECT_EQ(Pages(*open_slab(path, 4)).exists(digest_of(1)), KVC_PAGE_OK);
}

// Whatever refuses it: a new one leaves no file, one that was to be replaced keeps its pages.
TEST(SlabStore, ARefusalMakesAndChangesNothing) {
  const test::Folder folder;
  const std::string path = folder / "s";
  const SlabConfig first = test::slab_config(path, 4, kPageBytes);
  SlabConfig other = test::slab_config(path, 8, 2 * kPageBytes);
  other.replaces = true;
  Env poor = default_env();
  poor.allocate = [](void*, size_t, size_t) -> void* { return nullptr; };
  for (const bool is_there : {false, true}) {
    if (is_there) {
      const PageStorePtr store = open_slab(path, 4);
      ASSERT_EQ(Pages(*store).put(digest_of(1), kPageBytes), KVC_PAGE_OK);
    }
    PageStorePtr store;
    EXPECT_EQ(open_slab_store(poor, system_files(), other, &store), KVC_ERROR_OUT_OF_MEMORY);
    SlabConfig ring = other;
    ring.io = SlabConfig::Io::kEngine, ring.engine = test::test_engine(system_files());
    test::engine_status = KVC_ERROR_UNSUPPORTED;
    EXPECT_EQ(open_slab_store(default_env(), system_files(), ring, &store), KVC_ERROR_UNSUPPORTED);
    test::engine_status = KVC_OK;
    SlabConfig huge = other;
    huge.keep_free = uint64_t{1} << 60;
    EXPECT_EQ(open_slab_store(default_env(), system_files(), huge, &store), KVC_ERROR_LIMIT);
    EXPECT_EQ(std::filesystem::exists(path), is_there);
    if (!is_there) continue;
    ASSERT_EQ(open_slab_store(default_env(), system_files(), first, &store), KVC_OK) << kvc_last_error();
    EXPECT_EQ(Pages(*store).get(digest_of(1), kPageBytes), KVC_PAGE_OK);
  }
}

// A signal comes before the end of each call that reserves more than this, and the disk takes its work back.
TEST(SlabStore, IsReservedThroughSignals) {
  struct Interrupted final : Files {
    const uint64_t most = 100 << 10;
    int tries = 0;
    int allocate(int file, uint64_t offset, uint64_t size) override {
      if (++tries > 1000) return -EIO;
      return size > most ? -EINTR : Files::allocate(file, offset, size);
    }
  } files;
  const test::Folder folder;
  const std::string path = folder / "s";
  const SlabConfig config = test::slab_config(path, 200, kPageBytes);
  ASSERT_GT(config.bytes, 10 * files.most);
  PageStorePtr store;
  ASSERT_EQ(open_slab_store(default_env(), files, config, &store), KVC_OK) << kvc_last_error();
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  const uint64_t bytes = make_slab(config.bytes, kPageBytes).bytes;
  EXPECT_EQ(static_cast<uint64_t>(status.st_size), bytes);
  EXPECT_GE(static_cast<uint64_t>(status.st_blocks) * 512, bytes);
}

// A disk that loses what one thread writes, and tells each open file once. Another thread syncs in between.
struct LosingFiles final : Files {
  uint64_t lost = 0;             // times
  std::map<int, uint64_t> told;  // of them, by open file
  bool loses = false;
  std::function<void()> before_sync;
  int open(int folder, const char* path, int flags, unsigned mode) override {
    const int file = Files::open(folder, path, flags, mode);
    told[file] = lost;
    return file;
  }
  int64_t write(int file, const void* data, size_t size, uint64_t offset) override {
    if (size >= kPageBytes && std::exchange(loses, false)) ++lost;
    return Files::write(file, data, size, offset);
  }
  int sync(int file) override {
    if (before_sync) std::exchange(before_sync, nullptr)();
    return std::exchange(told[file], lost) == lost ? 0 : -EIO;
  }
};

TEST(SlabStore, TellsEachThreadWhatTheDiskHasLost) {
  const test::Folder folder;
  const std::string path = folder / "s";
  LosingFiles files;
  SlabConfig config = test::slab_config(path, 4, kPageBytes);
  config.sync = true;
  config.workers = 2;
  PageStorePtr store;
  ASSERT_EQ(open_slab_store(default_env(), files, config, &store), KVC_OK) << kvc_last_error();
  const auto put = [&](uint32_t worker, uint64_t number) {
    std::vector<char> page = test::page_of(digest_of(number), kPageBytes);
    kvc_tier_item item = {};
    set_key(&item, digest_of(number)), item.data = page.data(), item.bytes = kPageBytes;
    store->put({0, 0, worker}, &item, 1);
    return item.result;
  };
  EXPECT_EQ(put(0, 1), KVC_PAGE_OK);
  files.loses = true;
  files.before_sync = [&] { put(0, 2); };
  EXPECT_EQ(put(1, 3), KVC_PAGE_FAILED) << "what it wrote is lost";
  EXPECT_EQ(Pages(*store).exists(digest_of(3)), KVC_PAGE_MISS);
  EXPECT_EQ(put(1, 3), KVC_PAGE_OK);
}

TEST(SlabStore, RefusesWhatIsNotItsOwn) {
  const test::Folder folder;
  const std::string path = folder / "s";
  PageStorePtr store = open_slab(path, 2), other;
  SlabConfig config = test::slab_config(path, 2, kPageBytes);
  const auto open = [&] { return open_slab_store(default_env(), system_files(), config, &other); };
  EXPECT_EQ(open(), KVC_ERROR_BUSY) << "in use";
  store.reset();
  config = test::slab_config(path, 3, kPageBytes);
  EXPECT_EQ(open(), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(strstr(kvc_last_error(), "sizes do not change"), nullptr);
  config = test::slab_config(path, 2, kPageBytes + 1);
  EXPECT_EQ(open(), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(strstr(kvc_last_error(), "pages of at most 5000 bytes, not of 5001"), nullptr)
      << kvc_last_error();
  config = test::slab_config(path, 2, kPageBytes);
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
  SlabConfig config = test::slab_config(path, 2, kPageBytes);
  config.replaces = true;
  ASSERT_EQ(open(config), KVC_OK) << kvc_last_error();
  ASSERT_EQ(Pages(*store).put(digest_of(1), kPageBytes), KVC_PAGE_OK);
  ASSERT_EQ(open(config), KVC_OK);
  EXPECT_EQ(store->stats().recovered, 1u) << "it matches";
  SlabConfig other = test::slab_config(path, 2, 2 * kPageBytes),
             larger = test::slab_config(path, 5, 3 * kPageBytes);
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
    EXPECT_EQ(pages.get(digest_of(1), kPageBytes), KVC_PAGE_MISS);
    EXPECT_EQ(pages.put(digest_of(1), kPageBytes), KVC_PAGE_OK);
    EXPECT_EQ(pages.get(digest_of(1), kPageBytes), KVC_PAGE_OK);
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
    EXPECT_EQ(Pages(*store).put(digest_of(1), kPageBytes), KVC_PAGE_OK);
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
  const auto open = [&](uint64_t fingerprint, uint64_t page_bytes = kPageBytes) {
    store.reset();
    SlabConfig config = test::slab_config(path, 8, kPageBytes);
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
      EXPECT_EQ(Pages(*store).get(digest_of(i), kPageBytes), KVC_PAGE_MISS);
      EXPECT_EQ(Pages(*store).remove(digest_of(i)), KVC_PAGE_MISS);
      ASSERT_EQ(Pages(*store).put(digest_of(i), kPageBytes - of), KVC_PAGE_OK);
    }
  }
  for (uint64_t round = 0; round < 4; ++round) {
    const uint64_t of = round % 2;
    open(of, 100);
    EXPECT_EQ(store->stats().recovered, 3u);
    EXPECT_EQ(store->stats().pages, 6u);
    for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(Pages(*store).get(digest_of(i), kPageBytes - of), KVC_PAGE_OK);
  }
  // What is new takes the places of the oldest, whosever they are: those of the first one.
  for (uint64_t i = 10; i < 15; ++i) ASSERT_EQ(Pages(*store).put(digest_of(i), kPageBytes), KVC_PAGE_OK);
  EXPECT_EQ(store->stats().evictions, 3u);
  open(0);
  EXPECT_EQ(store->stats().recovered, 0u);
  EXPECT_EQ(store->stats().pages, 8u);
  open(1);
  EXPECT_EQ(store->stats().recovered, 8u);
  for (uint64_t i = 10; i < 15; ++i) EXPECT_EQ(Pages(*store).get(digest_of(i), kPageBytes), KVC_PAGE_OK);
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
    SlabConfig config = test::slab_config(path, 2, kPageBytes);
    config.direct = true;
    PageStorePtr store;
    ASSERT_EQ(open_slab_store(default_env(), files, config, &store), KVC_OK) << kvc_last_error();
    EXPECT_EQ(Pages(*store).put(digest_of(1), kPageBytes), KVC_PAGE_OK);
    EXPECT_EQ(Pages(*store).get(digest_of(1), kPageBytes), KVC_PAGE_OK);
    EXPECT_GE(store->stats().fallbacks, 1u);
    EXPECT_EQ(store->stats().failures, 0u);
  }
}

TEST(SlabStore, RefusesAFileThatOthersMayWriteTo) {
  const test::Folder folder;
  const std::string path = folder / "s";
  PageStorePtr store = open_slab(path, 2);
  store.reset();
  for (const mode_t mode : {0660, 0602}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_EQ(open_slab_store(default_env(), system_files(), test::slab_config(path, 2, kPageBytes), &store),
              KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(strstr(kvc_last_error(), "chmod go-w"), nullptr) << kvc_last_error();
  }
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(open_slab_store(default_env(), system_files(), test::slab_config(path, 2, kPageBytes), &store),
            KVC_OK);
}

}  // namespace
}  // namespace kvc
