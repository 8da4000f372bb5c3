// SPDX-License-Identifier: Apache-2.0
// Files that are damaged: each bit of a manifest, a sample of the bits of data, files that are cut or
// exchanged. And files of version 1 of the format, which every later version must read.
#include <filesystem>
#include <fstream>
#include <functional>

#include "checkpoint/manifest.h"
#include "golden.h"
#include "world.h"

namespace kvc {
namespace {

using test::Engine;
using test::Folder;
using test::Form;
using test::read_file;
using test::Spoken;
using test::write_file;
namespace fs = std::filesystem;

Form small() {
  Form form;
  form.num_blocks = 16;
  return form;
}
Spoken spoken() {
  Spoken out;
  out.tokens = test::tokens_of(5, 14);
  kvc_extra_key key = {};
  key.first_token = 2, key.num_tokens = 5, key.digest[3] = 1;
  out.keys.push_back(key);
  out.tenant = 1;
  return out;
}

class Damage : public testing::Test {
 protected:
  Damage()
      : path_(folder_ / "c"),
        manifest_(path_ + "/00000000000000000001.kvcm"),
        data_(path_ + "/00000000000000000001.kvcd") {
    Engine old(small());
    old.begin(spoken());
    Spoken other;
    other.tokens = test::tokens_of(6, 9);
    old.run(other);
    old.save(path_, KVC_CHECKPOINT_REQUESTS);
    content_ = old.content();
  }
  // The text has the name of the file.
  void expect_refused(const std::string& file, const std::string& what) {
    kvc_checkpoint_info info = {};
    info.struct_size = sizeof info;
    const kvc_status status = kvc_checkpoint_validate(path_.c_str(), 1, &info);
    ASSERT_TRUE(status == KVC_ERROR_CORRUPT || status == KVC_ERROR_UNSUPPORTED) << what << ": " << status;
    ASSERT_NE(std::strstr(kvc_last_error(), file.c_str()), nullptr) << what << ": " << kvc_last_error();
  }
  void expect_no_restore(Engine& fresh, const std::string& file, const std::string& what) {
    kvc_checkpoint_info info;
    const uint64_t before = fresh.digest();
    const kvc_status status = fresh.restore(fresh.config(path_, KVC_CHECKPOINT_REQUESTS), &info);
    ASSERT_TRUE(status == KVC_ERROR_CORRUPT || status == KVC_ERROR_UNSUPPORTED) << what << ": " << status;
    ASSERT_NE(std::strstr(kvc_last_error(), file.c_str()), nullptr) << what << ": " << kvc_last_error();
    ASSERT_EQ(fresh.digest(), before) << what;
    fresh.check();
  }

  const Folder folder_;
  const std::string path_, manifest_, data_;
  std::string content_;
};

TEST_F(Damage, OfEachBitOfAManifestIsFound) {
  const std::string whole = read_file(manifest_);
  Engine fresh(small());
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    Manifest manifest;
    const kvc_status status = decode_manifest("m", bytes.data(), bytes.size(), &manifest);
    ASSERT_TRUE(status == KVC_ERROR_CORRUPT || status == KVC_ERROR_UNSUPPORTED) << bit;
    if (bit % 97 != 0) continue;
    write_file(manifest_, bytes);
    expect_refused(manifest_, std::to_string(bit));
    expect_no_restore(fresh, manifest_, std::to_string(bit));
    if (HasFatalFailure()) return;
  }
  write_file(manifest_, whole);
  EXPECT_EQ(kvc_checkpoint_validate(path_.c_str(), 1, nullptr), KVC_OK) << kvc_last_error();
}

TEST_F(Damage, OfAnyBitOfDataIsFound) {
  const std::string whole = read_file(data_);
  Engine fresh(small());
  std::mt19937_64 random(test::test_seed());
  for (size_t i = 0; i < 400; ++i) {
    std::string bytes = whole;
    const size_t bit = i < 64 ? i : random() % (bytes.size() * 8);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    write_file(data_, bytes);
    expect_refused(data_, std::to_string(bit));
    if (HasFatalFailure()) return;
    // The zeroes behind the pages are no concern of a restore.
    if (bit / 8 < 4096 + 5 * fresh.info.page_bytes && i % 4 == 0)
      expect_no_restore(fresh, data_, std::to_string(bit));
  }
  write_file(data_, whole);
  fresh.restore(path_);
  EXPECT_EQ(fresh.content(), content_);
}

TEST_F(Damage, OfCutFilesIsFound) {
  for (const std::string& file : {manifest_, data_}) {
    const std::string whole = read_file(file);
    Engine fresh(small());
    for (size_t size = 0; size < whole.size(); size += size < 700 ? 13 : 997) {
      write_file(file, whole.substr(0, size));
      expect_refused(file, std::to_string(size));
      expect_no_restore(fresh, file, std::to_string(size));
      if (HasFatalFailure()) return;
    }
    write_file(file, whole + std::string(4096, '\0'));
    expect_refused(file, "longer");
    expect_no_restore(fresh, file, "longer");
    write_file(file, whole);
  }
}

TEST_F(Damage, OfExchangedFilesIsFound) {
  Engine old(small()), fresh(small());
  Spoken other;
  other.tokens = test::tokens_of(9, 20);
  old.run(other);
  old.save(path_, KVC_CHECKPOINT_FULL);
  const std::string second = path_ + "/00000000000000000002.kvc", whole = read_file(data_);
  fs::copy_file(second + "d", data_, fs::copy_options::overwrite_existing);
  expect_refused(data_, "another data file");
  ASSERT_EQ(kvc_checkpoint_remove(path_.c_str(), 2), KVC_OK);  // a restore takes the newest
  expect_no_restore(fresh, data_, "another data file");
  write_file(data_, whole);
  old.save(path_, KVC_CHECKPOINT_FULL);  // 3
  const std::string third = path_ + "/00000000000000000003.kvc";
  fs::copy_file(third + "m", manifest_, fs::copy_options::overwrite_existing);
  expect_refused(manifest_, "another manifest");
  ASSERT_EQ(kvc_checkpoint_remove(path_.c_str(), 3), KVC_OK);
  expect_no_restore(fresh, manifest_, "another manifest");
}

TEST_F(Damage, OfAMissingDataFileIsFound) {
  fs::remove(data_);
  Engine fresh(small());
  expect_refused(data_, "missing");
  expect_no_restore(fresh, data_, "missing");
  kvc_checkpoint_config config = fresh.config(path_);
  EXPECT_EQ(kvc_checkpoint_compact(&config, nullptr), KVC_ERROR_CORRUPT);
  EXPECT_NE(std::strstr(kvc_last_error(), data_.c_str()), nullptr) << kvc_last_error();
}

// The manifest is right in itself: it has been made so.
TEST_F(Damage, OfWhatAManifestSaysIsToldWithItsName) {
  const std::string whole = read_file(manifest_);
  const auto change = [&](const std::function<void(Manifest&)>& how) {
    Manifest manifest;
    ASSERT_EQ(decode_manifest("m", whole.data(), whole.size(), &manifest), KVC_OK);
    how(manifest);
    write_file(manifest_, encode_manifest(manifest));
  };
  const auto refused = [&](bool validates, kvc_status status, const char* word) {
    Engine fresh(small());
    const uint64_t before = fresh.digest();
    const auto told = [&](kvc_status is) {
      EXPECT_EQ(is, status);
      for (const char* const part : {manifest_.c_str(), word})
        EXPECT_NE(std::strstr(kvc_last_error(), part), nullptr) << kvc_last_error();
    };
    kvc_checkpoint_info info;
    told(fresh.restore(fresh.config(path_, KVC_CHECKPOINT_REQUESTS), &info));
    EXPECT_EQ(fresh.digest(), before);
    const kvc_checkpoint_config config = fresh.config(path_);
    told(kvc_checkpoint_compact(&config, nullptr));
    if (validates) told(kvc_checkpoint_validate(path_.c_str(), 0, nullptr));
    EXPECT_TRUE(fs::exists(data_));
  };
  const auto compress = [](Manifest& manifest, const char* codec) {
    manifest.codecs[0] = codec;
    manifest.pages[0].compressed = 1, --manifest.pages[0].stored_bytes;
  };
  change([&](Manifest& manifest) { compress(manifest, "nosuch"); });
  refused(false, KVC_ERROR_NOT_FOUND, "nosuch");
  change([&](Manifest& manifest) { compress(manifest, ""); });
  refused(false, KVC_ERROR_CORRUPT, "compressed by no codec");
  change([&](Manifest& manifest) { manifest.pages[0].key.bytes[5] ^= 1; });
  refused(true, KVC_ERROR_CORRUPT, "page 0 has the key of another prefix");
  change([&](Manifest& manifest) { manifest.content.bytes[5] ^= 1; });
  EXPECT_EQ(kvc_checkpoint_validate(path_.c_str(), 0, nullptr), KVC_ERROR_CORRUPT);
  EXPECT_NE(std::strstr(kvc_last_error(), manifest_.c_str()), nullptr) << kvc_last_error();
}

TEST_F(Damage, OfTheNewestDoesNotStopSaves) {
  write_file(manifest_, "no manifest");
  Engine old(small());
  old.run(spoken());
  const kvc_checkpoint_info saved = old.save(path_);
  EXPECT_EQ(saved.id, 2u);
  EXPECT_EQ(saved.new_pages, 3u);
  Engine fresh(small());
  fresh.restore(path_);
  EXPECT_EQ(fresh.digest(), old.digest());
  EXPECT_TRUE(fs::exists(data_)) << "nobody knows whether the damaged one needs it";
}

// What cannot be read any more must not spoil what is saved from now on.
TEST_F(Damage, OfADataFileIsNotBuiltUpon) {
  const std::string whole = read_file(data_);
  for (const std::string& bytes :
       {std::string(), whole.substr(0, whole.size() - 4096), std::string(4096, 'x') + whole.substr(4096)}) {
    if (bytes.empty()) {
      fs::remove(data_);
    } else {
      write_file(data_, bytes);
    }
    Engine old(small());
    old.run(spoken());
    kvc_checkpoint_info info;
    EXPECT_NE(old.save(old.config(path_, KVC_CHECKPOINT_INCREMENT), &info), KVC_OK);
    const kvc_checkpoint_info saved = old.save(path_);
    EXPECT_EQ(saved.new_pages, 3u) << bytes.size();
    Engine fresh(small());
    fresh.restore(path_);
    EXPECT_EQ(fresh.digest(), old.digest());
    ASSERT_EQ(kvc_checkpoint_remove(path_.c_str(), saved.id), KVC_OK);
  }
}

TEST_F(Damage, OfANewerFormatIsToldAsSuch) {
  std::string bytes = read_file(manifest_);
  bytes[8] = 3;
  Manifest manifest;
  EXPECT_EQ(decode_manifest("m", bytes.data(), bytes.size(), &manifest), KVC_ERROR_CORRUPT) << "the checksum";
}

// ---- version 1

const std::string kGolden = std::string(kGoldenFolder) + "/golden_v1";

TEST(FormatVersion1, IsRead) {
  Engine fresh(small());
  const kvc_checkpoint_info restored = fresh.restore(kGolden, KVC_CHECKPOINT_REQUESTS);
  EXPECT_EQ(restored.num_pages, 5u);
  EXPECT_EQ(restored.num_requests, 1u);
  EXPECT_EQ(restored.num_namespaces, 1u);
  EXPECT_EQ(fresh.content(), std::string(reinterpret_cast<const char*>(restored.content), 32));
  fresh.tenants.push_back(fresh.namespace_pairs[0].new_id);
  EXPECT_EQ(fresh.check_pages(spoken(), 0), 3u);
  EXPECT_EQ(fresh.wrong, 0u);
  EXPECT_EQ(kvc_checkpoint_validate(kGolden.c_str(), 0, nullptr), KVC_OK) << kvc_last_error();
}

TEST_F(Damage, ThereIsNoneInWhatIsWrittenNow) {
  if (const char* golden = getenv("KVC_TEST_WRITE_GOLDEN"); golden != nullptr) {
    fs::copy_file(manifest_, std::string(golden) + "/00000000000000000001.kvcm");
    fs::copy_file(data_, std::string(golden) + "/00000000000000000001.kvcd");
  }
  // The bytes of version 1 are what this version writes, but for the id of the request, which has the tag of
  // its manager, and for its committed tokens, which were not kept.
  EXPECT_TRUE(read_file(data_) == read_file(kGolden + "/00000000000000000001.kvcd"));
  const std::string now = read_file(manifest_), then = read_file(kGolden + "/00000000000000000001.kvcm");
  Manifest a, b;
  ASSERT_EQ(decode_manifest("now", now.data(), now.size(), &a), KVC_OK);
  ASSERT_EQ(decode_manifest("then", then.data(), then.size(), &b), KVC_OK) << kvc_last_error();
  for (Manifest* manifest : {&a, &b}) {
    for (auto& request : manifest->contents.requests) request.id = 0, request.committed = 0;
    for (auto& ns : manifest->contents.namespaces) ns.id = 0;
  }
  EXPECT_TRUE(encode_manifest(a) == encode_manifest(b));
}

}  // namespace
}  // namespace kvc
