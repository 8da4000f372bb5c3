// SPDX-License-Identifier: Apache-2.0
// Headers of records: each flipped bit makes one that is not a record. Records of version 1, byte for byte:
// every later version must read them.
#include "tier/record.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "golden.h"
#include "stores.h"

namespace kvc {
namespace {

using test::digest_of;
using test::page_of;
using test::Pages;

void write_file(const std::string& path, const void* data, size_t size, size_t offset = 0, size_t whole = 0) {
  std::fstream file(
      path, std::ios::binary | std::ios::in | std::ios::out | (whole != 0 ? std::ios::trunc : std::ios::in));
  if (whole != 0) {
    file.seekp(static_cast<std::streamoff>(whole - 1));
    file.put(0);
  }
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
}

TEST(Record, IsOneOnlyWithItsFingerprintAndSize) {
  const RecordHeader header = make_record(digest_of(1), digest_of(2), 3, 100, 5);
  EXPECT_TRUE(is_record(header, digest_of(2), 100));
  EXPECT_FALSE(is_record(header, digest_of(3), 100));
  EXPECT_FALSE(is_record(header, digest_of(2), 99));
}

TEST(Record, EachFlippedBitMakesItNone) {
  RecordHeader header = make_record(digest_of(1), digest_of(2), 3, 100, 5);
  auto* bytes = reinterpret_cast<unsigned char*>(&header);
  for (size_t bit = 0; bit < 8 * sizeof header; ++bit) {
    bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    EXPECT_FALSE(is_record(header, digest_of(2), UINT64_MAX)) << bit;
    bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
  }
  EXPECT_TRUE(is_record(header, digest_of(2), UINT64_MAX));
}

TEST(Record, OfVersion1IsReadFromAFolder) {
  const test::Folder folder;
  const std::string path = folder / "pages";
  PageStorePtr store;
  const DirectoryConfig config = test::directory_config(path, 4, 64);
  ASSERT_EQ(open_directory_store(default_env(), system_files(), config, &store), KVC_OK) << kvc_last_error();
  ASSERT_EQ(Pages(*store).put(digest_of(7), 64), KVC_PAGE_OK);
  std::string written;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
    if (entry.path().extension() == ".page") written = entry.path().string();
  std::ifstream file(written, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const std::vector<char> golden(std::begin(test::kGoldenPage), std::end(test::kGoldenPage));
  if (getenv("KVC_PRINT_GOLDEN") != nullptr) {
    for (size_t i = 0; i < bytes.size(); ++i) printf("%d,%s", bytes[i], i % 20 == 19 ? "\n" : " ");
    printf("\n");
  }
  EXPECT_EQ(bytes, golden) << "a record that is written otherwise needs another version";
  write_file(written, golden.data(), golden.size(), 0, golden.size());
  EXPECT_EQ(Pages(*store).get(digest_of(7), 64), KVC_PAGE_OK);
}

TEST(Record, OfVersion1IsReadFromASlab) {
  const test::Folder folder;
  const std::string path = folder / "slab";
  const SlabConfig config = test::slab_config(path, 2, 64);
  std::ofstream(path).put(0);
  write_file(path, test::kGoldenSlab, sizeof test::kGoldenSlab, 0, 16384);
  write_file(path, test::kGoldenSlabRecord, sizeof test::kGoldenSlabRecord, 4096 + 128);
  write_file(path, page_of(digest_of(7), 64).data(), 64, 8192 + 4096);
  const auto open = [&] {
    PageStorePtr store;
    EXPECT_EQ(open_slab_store(default_env(), system_files(), config, &store), KVC_OK) << kvc_last_error();
    return store;
  };
  if (getenv("KVC_PRINT_GOLDEN") != nullptr) {
    std::filesystem::remove(path);
    PageStorePtr store = open();
    Pages(*store).put(digest_of(6), 64);
    Pages(*store).put(digest_of(7), 64);
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    for (const size_t from : {size_t{0}, size_t{4096 + 128}}) {
      for (size_t i = 0; i < 128; ++i) printf("%d,%s", bytes[from + i], i % 20 == 19 ? "\n" : " ");
      printf("\n\n");
    }
    return;
  }
  const PageStorePtr store = open();
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->stats().recovered, 1u);
  EXPECT_EQ(Pages(*store).get(digest_of(7), 64), KVC_PAGE_OK);
}

TEST(Record, OfASlabOfVersion1IsRefusedByName) {
  const test::Folder folder;
  const std::string path = folder / "slab";
  SlabConfig config = test::slab_config(path, 2, 64);
  std::ofstream(path).put(0);
  write_file(path, test::kGoldenSlabV1, sizeof test::kGoldenSlabV1, 0, 16384);
  write_file(path, test::kGoldenSlabRecord, sizeof test::kGoldenSlabRecord, 4096 + 128);
  PageStorePtr store;
  EXPECT_EQ(open_slab_store(default_env(), system_files(), config, &store), KVC_ERROR_UNSUPPORTED);
  EXPECT_NE(strstr(kvc_last_error(), "its version is 1, this library reads 2"), nullptr) << kvc_last_error();
  config.replaces = true;
  ASSERT_EQ(open_slab_store(default_env(), system_files(), config, &store), KVC_OK) << kvc_last_error();
  EXPECT_EQ(store->stats().pages, 0u);
}

}  // namespace
}  // namespace kvc
