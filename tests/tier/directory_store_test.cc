// SPDX-License-Identifier: Apache-2.0
// Folders: what they do in their own way; store_test.cc has what all stores do.
#include "tier/directory_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <functional>

#include "stores.h"
#include "tier/directory_usage.h"
#include "tier/record.h"

namespace kvc {
namespace {

using test::digest_of;
using test::flip;
using test::kPageBytes;
using test::open_directory;
using test::Pages;

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

std::string subfolder_of(uint64_t key) {
  return std::string(page_path(test::kFingerprint, digest_of(key)).text, 2);
}

// A number that must be counted anew does not have what is removed any more.
TEST(DirectoryStore, ARemovedPageIsTakenOffOnce) {
  const test::Folder folder;
  uint64_t other = 2;
  while (subfolder_of(other) != subfolder_of(1)) ++other;
  const PageStorePtr store = open_directory(folder / "d", 4, 64);
  Pages pages(*store);
  for (const uint64_t key : {uint64_t{1}, other}) ASSERT_EQ(pages.put(digest_of(key), 64), KVC_PAGE_OK);
  std::filesystem::resize_file((folder / "d/") + subfolder_of(1) + "/usage", 0);
  EXPECT_EQ(pages.remove(digest_of(1)), KVC_PAGE_OK);
  EXPECT_EQ(store->stats().pages, 1u);
  EXPECT_GT(store->stats().bytes, 0u);
}

// A part was renamed, and another writer has its name by the time that its lock is free.
struct RenamingFiles final : Files {
  std::function<void()> after_lock;
  int lock(int file) override {
    const int error = Files::lock(file);
    if (is_part && after_lock) std::exchange(after_lock, nullptr)();
    return error;
  }
  int open(int at, const char* path, int flags, unsigned mode) override {
    is_part = std::strstr(path, ".part") != nullptr && (flags & O_CREAT) == 0;
    return Files::open(at, path, flags, mode);
  }
  bool is_part = false;
};

TEST(DirectoryStore, APartOfTheSameNameIsNotThatOfADeadWriter) {
  const test::Folder folder;
  ASSERT_NE(open_directory(folder / "d", 4, 64), nullptr);
  const std::string sub = (folder / "d/") + subfolder_of(1), part = sub + "/7-0.part";
  std::filesystem::create_directory(sub);
  std::ofstream(part) << "dead";
  RenamingFiles files;
  RenamingFiles others;
  OpenFile alive(others);
  files.after_lock = [&] {
    std::filesystem::rename(part, sub + "/moved");
    ASSERT_EQ(alive.open(AT_FDCWD, part.c_str(), O_RDWR | O_CREAT, 0600), 0);
    ASSERT_EQ(others.lock(alive.fd()), 0);
  };
  PageStorePtr store;
  ASSERT_EQ(open_directory_store(default_env(), files, test::directory_config(folder / "d", 4, 64), &store),
            KVC_OK);
  EXPECT_TRUE(std::filesystem::exists(part));
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

// A page gets its name when the listing of its subfolder has passed it.
struct LateFiles final : Files {
  std::string subfolder;
  std::function<void()> after_list;
  int list(int at, void* data, void (*each)(void* data, const char* name)) override {
    const int error = Files::list(at, data, each);
    struct stat listed, wanted;
    if (after_list && fstat(at, &listed) == 0 && stat(subfolder.c_str(), &wanted) == 0 &&
        listed.st_ino == wanted.st_ino)
      std::exchange(after_list, nullptr)();
    return error;
  }
};

TEST(DirectoryStore, CountsAPageThatComesWhileItCounts) {
  const test::Folder folder;
  const std::string path = folder / "d", aside = folder / "aside";
  ASSERT_EQ(Pages(*open_directory(path, 8)).put(digest_of(1), kPageBytes), KVC_PAGE_OK);
  LateFiles files;
  files.subfolder = path + "/" + subfolder_of(1);
  std::string page;
  for (const auto& entry : std::filesystem::directory_iterator(files.subfolder))
    if (entry.path().filename() != "usage") page = entry.path();
  std::filesystem::rename(page, aside);
  std::filesystem::resize_file(files.subfolder + "/usage", 0);
  const timespec long_ago[2] = {{1000000000, 0}, {1000000000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, files.subfolder.c_str(), long_ago, 0), 0);
  files.after_list = [&] { std::filesystem::rename(aside, page); };
  PageStorePtr store;
  ASSERT_EQ(open_directory_store(default_env(), files, test::directory_config(path, 8, kPageBytes), &store),
            KVC_OK);
  EXPECT_EQ(store->stats().pages, 1u);
}

TEST(DirectoryStore, CountsWhatIsThereWhenItIsOpened) {
  const test::Folder folder;
  const std::string path = folder / "d";
  {
    const PageStorePtr store = open_directory(path, 8);
    for (uint64_t i = 0; i < 5; ++i) Pages(*store).put(digest_of(i), kPageBytes);
  }
  const auto cut = [&](uint64_t size) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.path().filename() == "usage") std::filesystem::resize_file(entry.path(), size);
  };
  cut(3);
  PageStorePtr store = open_directory(path, 8);
  EXPECT_EQ(store->stats().recovered, 5u);
  cut(0);
  EXPECT_EQ(store->stats().pages, 5u);
  EXPECT_EQ(Pages(*store).put(digest_of(5), kPageBytes), KVC_PAGE_OK) << "counted again";
  EXPECT_EQ(store->stats().pages, 6u);
  // With less room it removes the oldest.
  store = open_directory(path, 2);
  EXPECT_LE(store->stats().pages, 2u);
  EXPECT_LE(store->stats().bytes, store->stats().capacity_bytes);
}

// The times of files go by ticks of the kernel, some milliseconds long: within one the order of two is open.
void make_older(const std::string& folder) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".page")
      std::filesystem::last_write_time(entry, entry.last_write_time() - std::chrono::seconds(1));
}

TEST(DirectoryStore, HasOneBoundForAllFingerprints) {
  const test::Folder folder;
  const std::string path = folder / "d";
  constexpr uint64_t kRoom = 8;
  uint64_t evictions = 0;
  for (uint64_t version = 0; version < 4; ++version) {
    PageStorePtr store;
    DirectoryConfig config = test::directory_config(path, kRoom, kPageBytes);
    config.fingerprint = digest_of(1000 + version);
    if (version != 0) make_older(path);
    ASSERT_EQ(open_directory_store(default_env(), system_files(), config, &store), KVC_OK)
        << kvc_last_error();
    EXPECT_EQ(store->stats().recovered, 0u) << "of this fingerprint";
    Pages pages(*store);
    EXPECT_EQ(pages.get(digest_of(1), kPageBytes), KVC_PAGE_MISS) << "that of another one";
    for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(pages.put(digest_of(i), kPageBytes), KVC_PAGE_OK);
    for (uint64_t i = 0; i < 6; ++i)
      EXPECT_EQ(pages.get(digest_of(i), kPageBytes), KVC_PAGE_OK) << "the old ones went first";
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
      open_directory_store(default_env(), files, test::directory_config(files.path, 100, kPageBytes), &store),
      KVC_OK)
      << kvc_last_error();
  Pages pages(*store);
  for (uint64_t i = 0; i < 40; ++i) {
    ASSERT_EQ(pages.put(digest_of(i), kPageBytes), KVC_PAGE_OK) << i;
    ASSERT_EQ(pages.get(digest_of(i), kPageBytes), KVC_PAGE_OK) << i;
  }
  EXPECT_EQ(store->stats().pages, 4u);
  EXPECT_EQ(store->stats().disk_evictions, 36u);
  EXPECT_EQ(store->stats().evictions, 0u);
  files.pages = 0;  // others have taken all
  for (uint64_t i = 40; i < 60; ++i) EXPECT_EQ(pages.put(digest_of(i), kPageBytes), KVC_PAGE_NO_SPACE);
  EXPECT_EQ(store->stats().pages, 3u) << "it did not help, so it was done once";
  files.pages = 10;
  for (uint64_t i = 40; i < 60; ++i)
    EXPECT_EQ(pages.put(digest_of(i), kPageBytes), KVC_PAGE_OK) << "there is room again";
  EXPECT_EQ(store->stats().pages, 10u);
}

// A call of the store fails, and before it another process puts a file in the place of the store's own one.
struct OvertakenFiles final : Files {
  std::string path;                                     // of the folder
  const char *at_close = nullptr, *at_write = nullptr;  // the end of the name that is replaced

  bool replace(const char* end) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (end == nullptr || entry.path().extension() != end) continue;
      const std::string name = entry.path().string(), copy = path + "/copy";
      std::filesystem::copy_file(name, copy);
      std::filesystem::rename(copy, name);
      return true;
    }
    return false;
  }
  int close(int file) override {
    struct stat status;
    const bool is_page = fstat(file, &status) == 0 && static_cast<uint64_t>(status.st_size) > kPageBytes;
    const bool fails = is_page && replace(at_close);
    const int error = Files::close(file);
    return fails ? -EIO : error;
  }
  int64_t write(int file, const void* data, size_t size, uint64_t offset) override {
    return size == kPageBytes && replace(at_write) ? -EIO : Files::write(file, data, size, offset);
  }
};

TEST(DirectoryStore, RemovesNoFileThatAnotherProcessHasPutInThePlaceOfItsOwn) {
  const test::Folder folder;
  OvertakenFiles files;
  files.path = folder / "d";
  PageStorePtr store;
  ASSERT_EQ(
      open_directory_store(default_env(), files, test::directory_config(files.path, 8, kPageBytes), &store),
      KVC_OK)
      << kvc_last_error();
  Pages pages(*store);
  files.at_close = ".page";
  EXPECT_EQ(pages.put(digest_of(1), kPageBytes), KVC_PAGE_FAILED);
  files.at_close = nullptr;
  EXPECT_EQ(pages.get(digest_of(1), kPageBytes), KVC_PAGE_OK) << "the other one's";
  EXPECT_EQ(pages.remove(digest_of(1)), KVC_PAGE_OK);
  files.at_write = ".part";
  EXPECT_EQ(pages.put(digest_of(2), kPageBytes), KVC_PAGE_FAILED);
  files.at_write = nullptr;
  size_t num_parts = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(files.path))
    num_parts += entry.path().extension() == ".part";
  EXPECT_EQ(num_parts, 1u) << "the other one's";
}

// Counts how often locks are tried.
class CountedFiles : public Files {
 public:
  int lock(int file) override { return ++tries, Files::lock(file); }
  int tries = 0;
};

// A store of a folder with a page, and then a peer that keeps the locks of all its subfolders.
class HeldDirectory : public ::testing::Test {
 protected:
  static constexpr uint64_t kRoom = 8;
  void SetUp() override {
    open();
    EXPECT_EQ(Pages(*store_).put(digest_of(1), kPageBytes), KVC_PAGE_OK);
    peer_ = std::make_unique<test::HeldFolder>(path_);
    ASSERT_TRUE(peer_->has_all());
  }
  void open() {
    store_.reset();
    const DirectoryConfig config = test::directory_config(path_, kRoom, kPageBytes);
    ASSERT_EQ(open_directory_store(default_env(), files_, config, &store_), KVC_OK) << kvc_last_error();
  }

  const test::Folder folder_;
  const std::string path_ = folder_ / "d";
  CountedFiles files_;
  PageStorePtr store_;
  std::unique_ptr<test::HeldFolder> peer_;
};

TEST_F(HeldDirectory, IsReadAndToldOfWithoutALock) {
  files_.tries = 0;
  Pages pages(*store_);
  EXPECT_EQ(pages.exists(digest_of(1)), KVC_PAGE_OK);
  EXPECT_EQ(pages.get(digest_of(1), kPageBytes), KVC_PAGE_OK);
  EXPECT_EQ(store_->stats().pages, 1u);
  EXPECT_EQ(store_->stats().bytes, 2 * 4096u);
  EXPECT_EQ(files_.tries, 0);
}

TEST_F(HeldDirectory, TakesPagesAndKeepsToItsBound) {
  Pages pages(*store_);
  files_.tries = 0;
  for (uint64_t i = 2; i < 6; ++i) EXPECT_EQ(pages.put(digest_of(i), kPageBytes), KVC_PAGE_OK);
  EXPECT_LE(files_.tries, 4 * (8 + 1)) << "a few tries each, and the lock of the part";
  for (uint64_t i = 6; i < 100; ++i) {
    ASSERT_EQ(pages.put(digest_of(i), kPageBytes), KVC_PAGE_OK) << i;
    ASSERT_EQ(pages.get(digest_of(i), kPageBytes), KVC_PAGE_OK) << i;
    const FolderUsage used = test::used_by_pages(path_);
    ASSERT_LE(used.bytes, store_->stats().capacity_bytes);
    ASSERT_EQ(store_->stats().bytes, used.bytes);
    ASSERT_EQ(store_->stats().pages, used.pages);
  }
  EXPECT_EQ(store_->stats().evictions, 99 - kRoom);
  EXPECT_EQ(pages.remove(digest_of(99)), KVC_PAGE_OK);
  EXPECT_EQ(pages.exists(digest_of(99)), KVC_PAGE_MISS);
  EXPECT_EQ(store_->stats().pages, kRoom - 1);
  EXPECT_EQ(store_->stats().failures, 0u);
}

TEST_F(HeldDirectory, OpensAndClosesAndIsCountedWhenThePeerIsGone) {
  for (uint64_t i = 2; i < 5; ++i) EXPECT_EQ(Pages(*store_).put(digest_of(i), kPageBytes), KVC_PAGE_OK);
  open();
  EXPECT_EQ(store_->stats().recovered, 4u);
  EXPECT_EQ(store_->stats().pages, 4u) << "by what was counted here";
  EXPECT_EQ(Pages(*store_).put(digest_of(5), kPageBytes), KVC_PAGE_OK);
  PageStorePtr other;
  ASSERT_EQ(open_directory_store(default_env(), system_files(),
                                 test::directory_config(path_, kRoom, kPageBytes), &other),
            KVC_OK);
  EXPECT_EQ(Pages(*other).put(digest_of(6), kPageBytes), KVC_PAGE_OK);
  EXPECT_EQ(store_->stats().pages, 5u) << "what others did without the lock is not known yet";
  peer_.reset();
  store_.reset();  // both write what they know
  other.reset();
  EXPECT_EQ(open_directory(path_, kRoom)->stats().pages, 6u);
}

// What was added without the lock is in the file after the next change with it.
TEST_F(HeldDirectory, CountsASubfolderAgainWhenItGetsTheLock) {
  Pages pages(*store_);
  uint64_t numbers[2], found = 0;  // of pages beside that of SetUp(), whose number is in the file
  for (uint64_t i = 2; found < 2; ++i)
    if (page_path(test::kFingerprint, digest_of(i)).subfolder() ==
        page_path(test::kFingerprint, digest_of(1)).subfolder())
      numbers[found++] = i;
  EXPECT_EQ(pages.put(digest_of(numbers[0]), kPageBytes), KVC_PAGE_OK);
  peer_.reset();
  EXPECT_EQ(pages.put(digest_of(numbers[1]), kPageBytes), KVC_PAGE_OK);
  EXPECT_EQ(store_->stats().pages, 3u);
  const std::string usage =
      path_ + "/" + std::string(page_path(test::kFingerprint, digest_of(1)).text, 2) + "/usage";
  uint64_t noted[2] = {};  // bytes and pages
  OpenFile file(system_files());
  ASSERT_EQ(file.open(AT_FDCWD, usage.c_str(), O_RDONLY), 0);
  ASSERT_EQ(read_fully(system_files(), file.fd(), noted, sizeof noted, 0), 0);
  EXPECT_EQ(noted[0], 3 * 2 * 4096u);
  EXPECT_EQ(noted[1], 3u);
}

// Two that put at one time share no lock: each has that of its subfolder.
TEST_F(HeldDirectory, HoldsUpNoOtherSubfolder) {
  peer_.reset();
  const FolderPath held = page_path(test::kFingerprint, digest_of(2));
  const std::string usage = path_ + "/" + std::string(held.text, 2) + "/usage";
  OpenFile lock(system_files());
  ASSERT_EQ(lock.open(AT_FDCWD, usage.c_str(), O_RDWR), 0);
  ASSERT_EQ(system_files().lock(lock.fd()), 0);
  Pages pages(*store_);
  const PageStorePtr other = open_directory(path_, kRoom);
  uint64_t free = 3;
  while (page_path(test::kFingerprint, digest_of(free)).subfolder() == held.subfolder()) ++free;
  files_.tries = 0;
  EXPECT_EQ(pages.put(digest_of(free), kPageBytes), KVC_PAGE_OK);
  EXPECT_EQ(files_.tries, 2) << "of the subfolder and of the part: at once";
  EXPECT_EQ(other->stats().pages, 2u) << "counted";
  EXPECT_EQ(pages.put(digest_of(2), kPageBytes), KVC_PAGE_OK);
  EXPECT_EQ(other->stats().pages, 2u) << "counted later";
  lock.reset();
  store_.reset();
  EXPECT_EQ(other->stats().pages, 3u);
}

TEST(DirectoryStore, EvictsTheOldestWhereverTheyAre) {
  const test::Folder folder;
  const std::string path = folder / "d";
  const auto set_age = [&](uint64_t number, time_t age) {
    const std::string file = path + "/" + page_path(test::kFingerprint, digest_of(number)).text;
    const timespec times[2] = {{0, UTIME_OMIT}, {::time(nullptr) - age, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  };
  {
    const PageStorePtr store = open_directory(path, 6);
    for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(Pages(*store).put(digest_of(i), kPageBytes), KVC_PAGE_OK);
  }
  const uint64_t order[] = {4, 1, 5, 0, 3, 2};  // the oldest first
  for (uint64_t i = 0; i < 6; ++i) set_age(order[i], static_cast<time_t>(6000 - 1000 * i));
  const PageStorePtr store = open_directory(path, 6);
  Pages pages(*store);
  EXPECT_EQ(pages.get(digest_of(1), kPageBytes), KVC_PAGE_OK) << "that is a use";
  for (const uint64_t gone : {4u, 5u, 0u, 3u, 2u}) {
    EXPECT_EQ(pages.exists(digest_of(gone)), KVC_PAGE_OK) << gone;
    EXPECT_EQ(pages.put(digest_of(10 + gone), kPageBytes), KVC_PAGE_OK);
    EXPECT_EQ(pages.exists(digest_of(gone)), KVC_PAGE_MISS) << gone;
  }
  EXPECT_EQ(pages.exists(digest_of(1)), KVC_PAGE_OK);
}

// Parts of writers that have ended go when a subfolder is counted; those of living ones stay.
TEST(DirectoryStore, CollectsThePartsOfWhoeverWasKilled) {
  const test::Folder folder;
  const std::string path = folder / "d";
  open_directory(path, 4);
  ASSERT_EQ(mkdir((path + "/ab").c_str(), 0700), 0);
  OpenFile dead(system_files()), living(system_files());
  ASSERT_EQ(dead.open(AT_FDCWD, (path + "/ab/1-0.part").c_str(), O_RDWR | O_CREAT, 0600), 0);
  ASSERT_EQ(living.open(AT_FDCWD, (path + "/ab/1-1.part").c_str(), O_RDWR | O_CREAT, 0600), 0);
  ASSERT_EQ(system_files().truncate(living.fd(), 8192), 0);
  ASSERT_EQ(system_files().lock(living.fd()), 0);
  const PageStorePtr store = open_directory(path, 4);
  EXPECT_FALSE(std::filesystem::exists(path + "/ab/1-0.part"));
  EXPECT_TRUE(std::filesystem::exists(path + "/ab/1-1.part"));
  EXPECT_EQ(store->stats().bytes, 8192u);
}

TEST(DirectoryStore, RefusesAFolderOfAnotherVersion) {
  const test::Folder folder;
  const std::string path = folder / "d";
  const auto open = [&] {
    PageStorePtr store;
    return open_directory_store(default_env(), system_files(), test::directory_config(path, 4, kPageBytes),
                                &store);
  };
  const auto write = [&](const char* name, const char* text) {
    FILE* file = fopen((path + "/" + name).c_str(), "w");
    fputs(text, file);
    fclose(file);
  };
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  write("usage", "of version 1");
  EXPECT_EQ(open(), KVC_ERROR_UNSUPPORTED);
  EXPECT_NE(strstr(kvc_last_error(), "its version is 1, this library reads 2; give another path"), nullptr)
      << kvc_last_error();
  std::filesystem::remove(path + "/usage");
  for (const char* text : {"", "kvcache fol", "kvcache folder 2\n"}) {  // its maker was killed
    write("format", text);
    EXPECT_EQ(open(), KVC_OK) << text << kvc_last_error();
    EXPECT_EQ(std::filesystem::file_size(path + "/format"), 17u);
  }
  for (const char* text :
       {"kvcache folder 3\n", "kvcache folder 2\nmore", "x", "kvcache folder 20000000000000000\n"}) {
    write("format", text);
    EXPECT_EQ(open(), KVC_ERROR_UNSUPPORTED) << text;
    EXPECT_NE(strstr(kvc_last_error(), "version 2, which this library reads"), nullptr) << kvc_last_error();
  }
}

// The system refuses to list a folder, or says that it is another user's.
struct RefusingFiles final : Files {
  int list_error = 0;
  bool is_foreign = false;
  int list(int folder, void* data, void (*each)(void*, const char*)) override {
    return list_error != 0 ? list_error : Files::list(folder, data, each);
  }
  int status(int file, struct stat* out) override {
    const int error = Files::status(file, out);
    if (is_foreign && S_ISDIR(out->st_mode)) out->st_uid = geteuid() + 1;
    return error;
  }
};

TEST(DirectoryStore, SaysWhoRefusesIt) {
  const test::Folder folder;
  const std::string path = folder / "d";
  { EXPECT_EQ(Pages(*open_directory(path, 4)).put(digest_of(1), kPageBytes), KVC_PAGE_OK); }
  RefusingFiles files;
  PageStorePtr store;
  const auto status = [&] {
    return open_directory_store(default_env(), files, test::directory_config(path, 4, kPageBytes), &store);
  };
  files.list_error = -EPERM;
  EXPECT_EQ(status(), KVC_ERROR_DEVICE) << "that is not the mode of a subfolder";
  EXPECT_NE(strstr(kvc_last_error(), "Operation not permitted"), nullptr) << kvc_last_error();
  files.list_error = 0;
  files.is_foreign = true;
  EXPECT_EQ(status(), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(strstr(kvc_last_error(), "the owner of it is user"), nullptr) << kvc_last_error();
  files.is_foreign = false;
  EXPECT_EQ(status(), KVC_OK) << kvc_last_error();
}

TEST(DirectoryStore, SaysWhatIsWrong) {
  const test::Folder folder;
  PageStorePtr store;
  const std::string none = folder / "none/d", open = folder / "open";
  const auto status = [&](const DirectoryConfig& config) {
    return open_directory_store(default_env(), system_files(), config, &store);
  };
  EXPECT_EQ(status(test::directory_config(none, 8, kPageBytes)), KVC_ERROR_NOT_FOUND);
  ASSERT_EQ(mkdir(open.c_str(), 0700), 0);
  const DirectoryConfig others = test::directory_config(open, 8, kPageBytes);
  for (const mode_t mode : {0777, 0702, 0720}) {
    ASSERT_EQ(chmod(open.c_str(), mode), 0);
    EXPECT_EQ(status(others), KVC_ERROR_INVALID_ARGUMENT) << mode;
    EXPECT_NE(strstr(kvc_last_error(), "chmod go-w"), nullptr) << kvc_last_error();
  }
  ASSERT_EQ(chmod(open.c_str(), 0755), 0);
  EXPECT_EQ(status(others), KVC_OK) << kvc_last_error();
  store.reset();
  ASSERT_EQ(status(others), KVC_OK);
  ASSERT_EQ(Pages(*store).put(digest_of(1), kPageBytes), KVC_PAGE_OK);
  store.reset();
  for (const auto& entry : std::filesystem::directory_iterator(open))
    EXPECT_EQ(chmod(entry.path().c_str(), 0770), 0);
  EXPECT_EQ(status(others), KVC_ERROR_INVALID_ARGUMENT) << "a subfolder";
  EXPECT_NE(strstr(kvc_last_error(), "one of its subfolders"), nullptr) << kvc_last_error();
  DirectoryConfig small = test::directory_config(none, 8, kPageBytes);
  small.bytes = kPageBytes;
  EXPECT_EQ(status(small), KVC_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace kvc
