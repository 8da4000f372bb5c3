// SPDX-License-Identifier: Apache-2.0
// What stores of files have in common: locks, names and bytes of the disk.
#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "stores.h"

namespace kvc {
namespace {

using test::digest_of;
using test::kPageBytes;
using test::Pages;

// A file system without locks; with `sync`, what has reached the disk.
struct OtherFiles final : Files {
  int lock_error = 0, sync_error = 0;
  std::set<std::pair<dev_t, ino_t>> synced;
  int lock(int file) override { return lock_error != 0 ? lock_error : Files::lock(file); }
  int sync(int file) override {
    struct stat status;
    if (fstat(file, &status) == 0) synced.insert({status.st_dev, status.st_ino});
    return sync_error;
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
  EXPECT_EQ(open_slab_store(default_env(), files, test::slab_config(slab, 2, kPageBytes), &store),
            KVC_ERROR_DEVICE);
  EXPECT_NE(strstr(kvc_last_error(), "ENOLCK: its file system has no locks"), nullptr) << kvc_last_error();
  struct stat made;
  EXPECT_NE(stat(slab.c_str(), &made), 0) << "a slab that is refused has made nothing";
  EXPECT_EQ(open_directory_store(default_env(), files, test::directory_config(pages, 2, kPageBytes), &store),
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
    SlabConfig slab_config = test::slab_config(slab, 2, kPageBytes);
    slab_config.sync = true;
    PageStorePtr store;
    ASSERT_EQ(open_slab_store(default_env(), files, slab_config, &store), KVC_OK) << kvc_last_error();
    EXPECT_TRUE(files.has(slab) && files.has(real));
    files.synced.clear();
    DirectoryConfig config = test::directory_config(pages, 2, kPageBytes);
    config.sync = true;
    ASSERT_EQ(open_directory_store(default_env(), files, config, &store), KVC_OK) << kvc_last_error();
    EXPECT_TRUE(files.has(pages) && files.has(real));
  }
}

// A peer that does not sync has made the subfolder.
TEST(StoresOfFiles, WithSyncHaveTheNamesOfSubfoldersOnTheDisk) {
  const test::Folder folder;
  const std::string path = folder / "d";
  OtherFiles files;
  DirectoryConfig config = test::directory_config(path, 20, kPageBytes);
  config.sync = true;
  PageStorePtr store;
  ASSERT_EQ(open_directory_store(default_env(), files, config, &store), KVC_OK) << kvc_last_error();
  const PageStorePtr peer = test::open_directory(path, 20);
  ASSERT_EQ(Pages(*peer).put(digest_of(0), kPageBytes), KVC_PAGE_OK);
  std::vector<uint64_t> same;  // that share the subfolder
  for (uint64_t i = 1; same.size() < 3; ++i)
    if (page_path(test::kFingerprint, digest_of(i)).subfolder() ==
        page_path(test::kFingerprint, digest_of(0)).subfolder())
      same.push_back(i);
  Pages pages(*store);
  files.synced.clear();
  files.sync_error = -EIO;
  EXPECT_EQ(pages.put(digest_of(same[0]), kPageBytes), KVC_PAGE_FAILED);
  files.sync_error = 0;
  files.synced.clear();
  EXPECT_EQ(pages.put(digest_of(same[1]), kPageBytes), KVC_PAGE_OK);
  EXPECT_TRUE(files.has(path)) << "which has the name of the subfolder";
  files.synced.clear();
  EXPECT_EQ(pages.put(digest_of(same[2]), kPageBytes), KVC_PAGE_OK);
  EXPECT_FALSE(files.has(path)) << "once is enough";
  ASSERT_NE(std::filesystem::remove_all(path + "/" + page_path(test::kFingerprint, digest_of(0)).text[0] +
                                        page_path(test::kFingerprint, digest_of(0)).text[1]),
            0u);
  EXPECT_EQ(pages.put(digest_of(same[2]), kPageBytes), KVC_PAGE_OK);
  EXPECT_TRUE(files.has(path)) << "a new one";
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
  DirectoryConfig config = test::directory_config(files.path, 100, kPageBytes);
  config.keep_free = 8 * 4096;
  PageStorePtr store;
  ASSERT_EQ(open_directory_store(default_env(), files, config, &store), KVC_OK) << kvc_last_error();
  Pages pages(*store);
  uint64_t free = 0;
  for (uint64_t i = 0; i < 30; ++i) {
    ASSERT_EQ(pages.put(digest_of(i), kPageBytes), KVC_PAGE_OK) << i;
    files.free_bytes(0, &free);
    ASSERT_GE(free, config.keep_free);
  }
  EXPECT_EQ(store->stats().pages, 6u);
  files.sectors = 12;  // others take eight more
  EXPECT_EQ(pages.put(digest_of(30), kPageBytes), KVC_PAGE_OK);
  files.free_bytes(0, &free);
  EXPECT_GE(free, config.keep_free);
  EXPECT_EQ(store->stats().pages, 2u);
  files.sectors = 4;
  EXPECT_EQ(pages.put(digest_of(31), kPageBytes), KVC_PAGE_NO_SPACE);
  EXPECT_EQ(store->stats().pages, 0u);
  files.sectors = 20;
  EXPECT_EQ(pages.put(digest_of(31), kPageBytes), KVC_PAGE_OK);

  const std::string path = folder / "s";
  SlabConfig slab = test::slab_config(path, 4, kPageBytes);
  slab.keep_free = 8 * 4096;
  files.sectors = 8 + slab.bytes / 4096 - 2;
  EXPECT_EQ(open_slab_store(default_env(), files, slab, &store), KVC_ERROR_LIMIT);
  EXPECT_NE(strstr(kvc_last_error(), "keep_free, 32768"), nullptr) << kvc_last_error();
  files.sectors += 4;
  EXPECT_EQ(open_slab_store(default_env(), files, slab, &store), KVC_OK) << kvc_last_error();
  store.reset();
  files.sectors = 0;
  EXPECT_EQ(open_slab_store(default_env(), files, slab, &store), KVC_OK) << "it has its bytes";
  EXPECT_EQ(Pages(*store).put(digest_of(1), kPageBytes), KVC_PAGE_OK);
  store.reset();
  SlabConfig other = test::slab_config(path, 3, kPageBytes);
  other.keep_free = slab.keep_free;
  other.replaces = true;
  EXPECT_EQ(open_slab_store(default_env(), files, other, &store), KVC_ERROR_LIMIT);
  EXPECT_EQ(open_slab_store(default_env(), files, slab, &store), KVC_OK) << kvc_last_error();
  EXPECT_EQ(store->stats().recovered, 1u) << "a refusal empties no slab";
  store.reset();
  files.sectors = 8 + 2;  // of the page in the folder
  EXPECT_EQ(open_slab_store(default_env(), files, other, &store), KVC_OK) << "the bytes of the old one";
}

}  // namespace
}  // namespace kvc
