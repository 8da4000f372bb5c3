// SPDX-License-Identifier: Apache-2.0
// Folders and streams that somebody else has made: files with holes take no memory, and links are followed
// to a folder only.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/crc32c.h"
#include "calls_with_files.h"
#include "checkpoint/data_file.h"

namespace kvc {
namespace {

using test::Engine;
using test::Folder;
using test::Form;
using test::read_file;
using test::say;
using test::says;
using test::write_file;
namespace fs = std::filesystem;

constexpr uint64_t kTerabyte = uint64_t{1} << 40;
constexpr const char* kManifest = "00000000000000000001.kvcm";
constexpr const char* kData = "00000000000000000001.kvcd";

// The manifest says that it is so long, behind a right checksum.
std::string of_size(std::string manifest, uint64_t bytes) {
  std::memcpy(manifest.data() + 32, &bytes, sizeof bytes);
  const uint32_t crc = crc32c(manifest.data(), 124);
  std::memcpy(manifest.data() + 124, &crc, sizeof crc);
  return manifest;
}

// Counts what is read.
class Counted : public Files {
 public:
  int64_t read(int file, void* data, size_t size, uint64_t offset) override {
    bytes += size;
    return Files::read(file, data, size, offset);
  }
  std::atomic<uint64_t> bytes{0};
};

class Hostile : public testing::Test {
 protected:
  Hostile() {
    engine.run(say(1, 30));
    engine.save(path);
  }
  kvc_status restore(Files& files) {
    Engine fresh(Form{});
    test::Calls calls(fresh, path);
    kvc_checkpoint_info info;
    const uint64_t before = fresh.digest();
    const kvc_status status = calls.restore(files, &info);
    if (status != KVC_OK) {
      EXPECT_EQ(fresh.digest(), before);
    }
    return status;
  }

  const Folder folder;
  const std::string path = folder / "c", manifest = path + "/" + kManifest, data = path + "/" + kData;
  Engine engine{Form{}};
};

TEST_F(Hostile, AManifestOfHolesTakesNoMemory) {
  const std::string whole = read_file(manifest);
  for (const bool knows : {false, true}) {
    SCOPED_TRACE(knows);
    write_file(manifest, knows ? of_size(whole, kTerabyte) : whole);
    if (truncate(manifest.c_str(), static_cast<off_t>(kTerabyte)) != 0) GTEST_SKIP() << std::strerror(errno);
    Counted files;
    EXPECT_EQ(restore(files), KVC_ERROR_CORRUPT) << kvc_last_error();
    EXPECT_TRUE(says(kManifest)) << kvc_last_error();
    EXPECT_LE(files.bytes, 40u << 20);
    EXPECT_EQ(kvc_checkpoint_validate(path.c_str(), 0, nullptr), KVC_ERROR_CORRUPT);
  }
}

TEST_F(Hostile, AStreamOfHolesTakesNoMemory) {
  const int fd = memfd_create("stream", MFD_CLOEXEC);
  kvc_checkpoint_config config = engine.config("");
  config.folder = nullptr, config.flags = 0;
  ASSERT_EQ(kvc_checkpoint_save_stream(engine.m, engine.storages.data(), 1, &config, fd, nullptr), KVC_OK);
  struct Trailer {
    char magic[8];
    uint32_t version, bytes;
    uint64_t data_bytes, manifest_bytes;
    char rest[28];
    uint32_t crc;
  } trailer;
  const off_t size = lseek(fd, 0, SEEK_CUR);
  ASSERT_EQ(pread(fd, &trailer, 64, size - 64), 64);
  std::string bytes(trailer.manifest_bytes, '\0');
  const auto at = static_cast<off_t>(trailer.data_bytes);
  ASSERT_EQ(pread(fd, bytes.data(), bytes.size(), at), static_cast<ssize_t>(bytes.size()));
  bytes = of_size(bytes, kTerabyte);
  ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), at), static_cast<ssize_t>(bytes.size()));
  trailer.manifest_bytes = kTerabyte;
  trailer.crc = crc32c(&trailer, 60);
  ASSERT_EQ(pwrite(fd, &trailer, 64, at + static_cast<off_t>(kTerabyte)), 64);
  ASSERT_EQ(lseek(fd, 0, SEEK_SET), 0);
  Engine fresh(Form{});
  EXPECT_EQ(kvc_checkpoint_restore_stream(fresh.m, fresh.storages.data(), 1, &config, fd, nullptr, 0, nullptr,
                                          0, nullptr),
            KVC_ERROR_CORRUPT)
      << kvc_last_error();
  EXPECT_TRUE(says("descriptor")) << kvc_last_error();
  close(fd);
}

// A page of 64 GiB, of which only the first bytes are there.
TEST_F(Hostile, APageOfHolesTakesNoMemoryToValidate) {
  Manifest made;
  const std::string whole = read_file(manifest);
  ASSERT_EQ(decode_manifest("m", whole.data(), whole.size(), &made), KVC_OK);
  constexpr uint64_t kLarge = uint64_t{1} << 36;
  made.pages[0].offset = kDataHeaderBytes, made.pages[0].stored_bytes = kLarge;
  made.files[0].bytes = kDataHeaderBytes + kLarge;
  if (truncate(data.c_str(), static_cast<off_t>(made.files[0].bytes)) != 0)
    GTEST_SKIP() << std::strerror(errno);
  // Nobody waits for 64 GiB of zeroes.
  class Broken : public Files {
   public:
    int64_t read(int file, void* to, size_t size, uint64_t offset) override {
      most = std::max<uint64_t>(most, size);
      return offset > (64u << 20) ? -EIO : Files::read(file, to, size, offset);
    }
    uint64_t most = 0;
  } files;
  CheckpointFolder there(files, path.c_str());
  ASSERT_EQ(there.open(CheckpointFolder::For::kRead), KVC_OK) << kvc_last_error();
  DataReader reader(there, made);
  ASSERT_EQ(reader.open(), KVC_OK) << kvc_last_error();
  EXPECT_EQ(reader.check_pages({0}), KVC_ERROR_DEVICE);
  EXPECT_TRUE(says(kData)) << kvc_last_error();
  EXPECT_LE(files.most, kPieceBytes);
}

// ---- links

TEST_F(Hostile, ALinkToAFolderIsThatFolder) {
  const std::string link = folder / "link";
  fs::create_directory_symlink(path, link);
  for (const std::string& where : {link, link + "/"}) {
    kvc_checkpoint_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_checkpoint_read_info(where.c_str(), 0, &info), KVC_OK) << kvc_last_error();
    engine.run(say(2, 30));
    EXPECT_GT(engine.save(where).id, 1u);
    kvc_checkpoint_needs needs = {};
    needs.struct_size = sizeof needs;
    const kvc_checkpoint_config config = engine.config(where);
    EXPECT_EQ(kvc_checkpoint_measure(engine.m, engine.storages.data(), 1, &config, &needs), KVC_OK)
        << kvc_last_error();
    EXPECT_EQ(needs.new_pages, 0u);
    Engine fresh(Form{});
    fresh.restore(where);
    EXPECT_EQ(fresh.content(), engine.content());
  }
}

TEST_F(Hostile, LinksInAFolderAreNotFollowed) {
  const std::string victim = folder / "victim";
  const std::string bytes = "somebody's";
  for (const char* const name : {kManifest, kData}) {
    const std::string file = path + "/" + name, away = folder / "away";
    fs::rename(file, away);
    fs::create_symlink(away, file);
    EXPECT_NE(restore(system_files()), KVC_OK);
    EXPECT_TRUE(says(name)) << kvc_last_error();
    EXPECT_NE(kvc_checkpoint_validate(path.c_str(), 1, nullptr), KVC_OK);
    EXPECT_TRUE(says(name)) << kvc_last_error();
    fs::remove(file);
    fs::rename(away, file);
  }
  EXPECT_EQ(restore(system_files()), KVC_OK) << kvc_last_error();
  for (const char* const name : {"lock", "00000000000000000002.kvcm.part", "00000000000000000002.kvcd.part",
                                 "00000000000000000002.kvcj.part"}) {
    SCOPED_TRACE(name);
    write_file(victim, bytes);
    const std::string file = path + "/" + name;
    fs::remove(file);
    fs::create_symlink(victim, file);
    engine.run(say(3, 30));
    kvc_checkpoint_info info;
    const kvc_status status = engine.save(engine.config(path), &info);
    EXPECT_EQ(read_file(victim), bytes) << "nothing outside the folder is written";
    if (status != KVC_OK) {
      EXPECT_TRUE(says(std::strcmp(name, "lock") == 0 ? "lock" : "00000000000000000002")) << kvc_last_error();
      fs::remove(file);
      EXPECT_EQ(engine.save(engine.config(path), &info), KVC_OK) << kvc_last_error();
    }
    ASSERT_EQ(kvc_checkpoint_remove(path.c_str(), info.id), KVC_OK) << kvc_last_error();
    std::ofstream(path + "/lock", std::ios::trunc);  // the next one has the id 2, too
  }
}

}  // namespace
}  // namespace kvc
