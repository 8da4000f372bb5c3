// SPDX-License-Identifier: Apache-2.0
// Files of tiers, read without a tier: slabs of any size, which the tier rounds down to whole slots; pages;
// damage; and files that are something else.
#include "tier/page_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "stores.h"
#include "tier/description.h"
#include "tier/slab_format.h"

namespace kvc {
namespace {

using test::digest_of;
using test::Folder;
using test::Pages;

kvc_status describe(const std::string& path, bool validate, kvc_page_file_info* info) {
  *info = {};
  return describe_page_file(system_files(), path.c_str(), validate, info);
}

void flip_byte(const std::string& path, uint64_t offset) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 1));
}

TEST(PageFile, ReadsASlabOfAnySize) {
  const Folder folder;
  const std::string path = folder / "slab";
  uint64_t sizes = 0;
  for (const uint64_t page_bytes : {100u, 4096u, 5000u, 12288u}) {
    for (uint64_t more = 0; more < 3 * 4096; more += 617) {  // beyond what ten slots take
      SCOPED_TRACE(testing::Message() << page_bytes << " + " << more);
      SlabConfig config = test::slab_config(path, 10, page_bytes);
      config.bytes += more;
      std::filesystem::remove(path);
      uint64_t slots = 0;
      {
        PageStorePtr store;
        ASSERT_EQ(open_slab_store(default_env(), system_files(), config, &store), KVC_OK) << kvc_last_error();
        for (uint64_t i = 0; i < 7; ++i)
          ASSERT_EQ(Pages(*store).put(digest_of(i), page_bytes - i), KVC_PAGE_OK);
        slots = store->stats().capacity_pages;
      }
      kvc_page_file_info info;
      ASSERT_EQ(describe(path, true, &info), KVC_OK) << kvc_last_error();
      EXPECT_EQ(info.kind, uint32_t{KVC_PAGE_FILE_SLAB});
      EXPECT_EQ(info.file_bytes, std::filesystem::file_size(path));
      EXPECT_LE(info.file_bytes, config.bytes);
      sizes += info.file_bytes != config.bytes;
      EXPECT_EQ(info.page_bytes, page_bytes);
      EXPECT_EQ(info.num_slots, slots);
      EXPECT_GE(slots, 10u);
      EXPECT_EQ(info.num_pages, 7u);
      EXPECT_EQ(info.stored_bytes, 7 * page_bytes - 21);
      EXPECT_EQ(info.bad_headers + info.bad_pages, 0u);
      EXPECT_EQ(std::memcmp(info.fingerprint, test::kFingerprint.bytes, 32), 0);
    }
  }
  EXPECT_GT(sizes, 20u) << "few sizes were rounded";
}

TEST(PageFile, CountsWhatIsDamagedInASlab) {
  const Folder folder;
  const std::string path = folder / "slab";
  {
    PageStorePtr store;
    ASSERT_EQ(open_slab_store(default_env(), system_files(), test::slab_config(path, 10, 5000), &store),
              KVC_OK);
    for (uint64_t i = 0; i < 7; ++i) ASSERT_EQ(Pages(*store).put(digest_of(i), 5000), KVC_PAGE_OK);
  }
  SlabHeader slab;
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&slab), sizeof slab);
  kvc_page_file_info info;
  flip_byte(path, slab.payloads_at + 2 * slab.stride + 4999);
  ASSERT_EQ(describe(path, false, &info), KVC_OK);
  EXPECT_EQ(info.num_pages, 7u);
  EXPECT_EQ(info.bad_pages, 0u) << "payloads were not to be read";
  ASSERT_EQ(describe(path, true, &info), KVC_OK);
  EXPECT_EQ(info.bad_pages, 1u);
  flip_byte(path, slab.headers_at + 5 * sizeof(RecordHeader) + 9);
  ASSERT_EQ(describe(path, true, &info), KVC_OK);
  EXPECT_EQ(info.num_pages, 6u);
  EXPECT_EQ(info.bad_headers, 1u);
  EXPECT_EQ(info.bad_pages, 1u);
  // As a tier opens it: its maker was killed before all bytes were reserved, or there are some behind its
  // end.
  const uint64_t bytes = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, bytes + 4096);
  ASSERT_EQ(describe(path, true, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(info.num_pages, 6u);
  EXPECT_EQ(info.bad_pages, 1u);
  std::filesystem::resize_file(path, slab.payloads_at + slab.stride);
  ASSERT_EQ(describe(path, true, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(info.num_pages, 6u);
  EXPECT_EQ(info.bad_pages, 5u) << "the first one is whole";
  std::filesystem::resize_file(path, slab.headers_at + sizeof(RecordHeader) + 1);
  ASSERT_EQ(describe(path, true, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(info.num_pages, 1u);
  std::filesystem::resize_file(path, sizeof slab);
  ASSERT_EQ(describe(path, true, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(info.num_pages, 0u);
  PageStorePtr store;
  EXPECT_EQ(open_slab_store(default_env(), system_files(), test::slab_config(path, 10, 5000), &store), KVC_OK)
      << kvc_last_error();
  store.reset();
  flip_byte(path, offsetof(SlabHeader, page_bytes));
  EXPECT_EQ(describe(path, false, &info), KVC_ERROR_CORRUPT);
}

// Pages of three fingerprints in a slab, the first with two more.
class PageFileOfSeveral : public testing::Test {
 protected:
  void SetUp() override {
    for (uint64_t of = 0; of < 3; ++of) {
      SlabConfig config = test::slab_config(path_, 10, 5000);
      config.fingerprint = digest_of(100 + of);
      PageStorePtr store;
      ASSERT_EQ(open_slab_store(default_env(), system_files(), config, &store), KVC_OK) << kvc_last_error();
      for (uint64_t i = 0; i < (of == 0 ? 4u : 2u); ++i)
        ASSERT_EQ(Pages(*store).put(digest_of(i), 5000), KVC_PAGE_OK);
    }
  }
  // Pages by fingerprint.
  std::map<std::string, uint64_t> parts(bool validate, uint64_t* bad) {
    std::map<std::string, uint64_t> out;
    *bad = 0;
    for (uint32_t number = 0;; ++number) {
      kvc_page_file_info info = {};
      const kvc_status status =
          describe_page_file_part(system_files(), path_.c_str(), number, validate, &info);
      if (status != KVC_OK) {
        EXPECT_EQ(status, KVC_ERROR_NOT_FOUND);
        return out;
      }
      EXPECT_EQ(info.stored_bytes, 5000 * info.num_pages);
      out[std::string(reinterpret_cast<const char*>(info.fingerprint), 32)] = info.num_pages;
      *bad += info.bad_pages;
    }
  }
  static std::string name(uint64_t of) {
    const Digest256 digest = digest_of(100 + of);
    return std::string(reinterpret_cast<const char*>(digest.bytes), 32);
  }
  const Folder folder_;
  const std::string path_ = folder_ / "slab";
};

TEST_F(PageFileOfSeveral, FingerprintsIsReadByEach) {
  uint64_t bad = 0;
  const std::map<std::string, uint64_t> all = {{name(0), 4}, {name(1), 2}, {name(2), 2}};
  EXPECT_EQ(parts(true, &bad), all);
  EXPECT_EQ(bad, 0u);
  kvc_page_file_info info;
  ASSERT_EQ(describe(path_, true, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(info.num_pages, 8u);
  static constexpr uint8_t kNone[32] = {};
  EXPECT_EQ(std::memcmp(info.fingerprint, kNone, 32), 0) << "it has several";
  SlabHeader slab;
  std::ifstream(path_, std::ios::binary).read(reinterpret_cast<char*>(&slab), sizeof slab);
  flip_byte(path_, slab.payloads_at + 5 * slab.stride);
  EXPECT_EQ(parts(true, &bad), all);
  EXPECT_EQ(bad, 1u);
}

TEST_F(PageFileOfSeveral, FingerprintsLosesThoseOfOne) {
  uint64_t bad = 0;
  kvc_page_file_info info = {};
  const auto purge = [&](uint64_t of) {
    info = {};
    return purge_page_file(system_files(), path_.c_str(), digest_of(100 + of), &info);
  };
  SlabConfig config = test::slab_config(path_, 10, 5000);
  config.fingerprint = digest_of(101);
  PageStorePtr store;
  ASSERT_EQ(open_slab_store(default_env(), system_files(), config, &store), KVC_OK);
  EXPECT_EQ(purge(0), KVC_ERROR_BUSY);
  store.reset();
  OpenFile file(system_files());
  ASSERT_EQ(file.open(AT_FDCWD, path_.c_str(), O_RDWR), 0);
  for (const uint64_t of : {0u, 1u})
    ASSERT_EQ(write_slab_description(system_files(), file.fd(), digest_of(100 + of), "model: \"a\"\n"), 0);
  ASSERT_EQ(purge(0), KVC_OK) << kvc_last_error();
  const std::vector<PageDescription> left = read_slab_descriptions(system_files(), file.fd());
  ASSERT_EQ(left.size(), 1u) << "that of the pages has gone with them";
  EXPECT_EQ(left[0].fingerprint, digest_of(101));
  EXPECT_EQ(info.num_pages, 4u);
  EXPECT_EQ(info.stored_bytes, 4 * 5000u);
  ASSERT_EQ(purge(7), KVC_OK);
  EXPECT_EQ(info.num_pages, 0u);
  EXPECT_EQ(parts(true, &bad), (std::map<std::string, uint64_t>{{name(1), 2}, {name(2), 2}}));
  ASSERT_EQ(open_slab_store(default_env(), system_files(), config, &store), KVC_OK);
  EXPECT_EQ(store->stats().recovered, 2u);
  EXPECT_EQ(store->stats().pages, 4u);
  for (uint64_t i = 0; i < 2; ++i) EXPECT_EQ(Pages(*store).get(digest_of(i), 5000), KVC_PAGE_OK);
}

TEST(PageFile, ReadsAPageOfAFolder) {
  const Folder folder;
  const std::string path = folder / "pages";
  PageStorePtr store;
  ASSERT_EQ(
      open_directory_store(default_env(), system_files(), test::directory_config(path, 4, 5000), &store),
      KVC_OK);
  ASSERT_EQ(Pages(*store).put(digest_of(7), 4321), KVC_PAGE_OK);
  std::string file;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
    if (entry.path().extension() == ".page") file = entry.path().string();
  kvc_page_file_info info;
  ASSERT_EQ(describe(file, true, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(info.kind, uint32_t{KVC_PAGE_FILE_PAGE});
  EXPECT_EQ(info.page_bytes, 4321u);
  EXPECT_EQ(info.num_pages, 1u);
  EXPECT_EQ(info.bad_pages, 0u);
  EXPECT_EQ(std::memcmp(info.key, digest_of(7).bytes, 32), 0);
  flip_byte(file, info.file_bytes - 1);
  ASSERT_EQ(describe(file, true, &info), KVC_OK);
  EXPECT_EQ(info.bad_pages, 1u);
  flip_byte(file, 20);
  EXPECT_EQ(describe(file, true, &info), KVC_ERROR_CORRUPT);
}

TEST(PageFile, RefusesWhatIsSomethingElse) {
  const Folder folder;
  kvc_page_file_info info;
  EXPECT_EQ(describe(folder / "nothing", false, &info), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(describe(folder / "nothing/at/all", false, &info), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(describe(folder / ".", false, &info), KVC_ERROR_UNSUPPORTED) << "a folder";
  EXPECT_EQ(describe("/dev/null", false, &info), KVC_ERROR_UNSUPPORTED);
  for (const size_t size : {0u, 1u, 127u, 128u, 5000u}) {
    std::ofstream(folder / "text", std::ios::binary) << std::string(size, 'x');
    EXPECT_EQ(describe(folder / "text", true, &info), KVC_ERROR_UNSUPPORTED) << size;
  }
}

}  // namespace
}  // namespace kvc
