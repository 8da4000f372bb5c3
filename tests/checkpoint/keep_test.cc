// SPDX-License-Identifier: Apache-2.0
// What is kept when old checkpoints are removed: never less than was asked for, whatever is damaged, and
// wherever the machine ends.
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "calls_with_files.h"

namespace kvc {
namespace {

using test::Engine;
using test::Folder;
using test::Form;
using test::ids_of;
using test::say;
using test::says;
namespace fs = std::filesystem;

std::string name_of(const std::string& folder, uint64_t id, const char* ending) {
  char name[64];
  std::snprintf(name, sizeof name, "/%020llu%s", ull(id), ending);
  return folder + name;
}

class Keep : public testing::Test {
 protected:
  kvc_checkpoint_info save(uint32_t keep_last, uint32_t flags = 0) {
    engine.run(say(++saves, 30));
    kvc_checkpoint_config config = engine.config(path, flags);
    config.keep_last = keep_last;
    kvc_checkpoint_info info;
    EXPECT_EQ(engine.save(config, &info), KVC_OK) << kvc_last_error();
    return info;
  }
  void spoil(uint64_t id) { std::ofstream(name_of(path, id, ".kvcm")) << "no manifest"; }

  const Folder folder;
  const std::string path = folder / "c";
  Engine engine{Form{}};
  uint64_t saves = 0;
};

TEST_F(Keep, CountsOnlyCheckpointsThatCanBeRead) {
  for (int i = 0; i < 3; ++i) save(0, KVC_CHECKPOINT_FULL);
  spoil(2), spoil(3);
  uint64_t bytes = 7;
  EXPECT_EQ(kvc_checkpoint_collect(path.c_str(), 1, &bytes), KVC_ERROR_CORRUPT);
  EXPECT_TRUE(says("00000000000000000002.kvcm") && says("remove the checkpoint by its id, 2"))
      << kvc_last_error();
  EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{1, 2, 3})) << "the last good one stays";
  EXPECT_EQ(bytes, 7u);
  for (const uint64_t id : {1u, 2u, 3u}) EXPECT_TRUE(fs::exists(name_of(path, id, ".kvcd")));
  Engine fresh(Form{});
  fresh.restore(path, 0, 1);
  // A save counts itself and the good one.
  EXPECT_EQ(save(2).not_removed, 2u) << "the data files of the damaged ones";
  EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(save(2).not_removed, 3u);
  EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{2, 3, 4, 5}));
  // The way out that the text names.
  for (const uint64_t id : {2u, 3u}) EXPECT_EQ(kvc_checkpoint_remove(path.c_str(), id), KVC_OK);
  EXPECT_EQ(kvc_checkpoint_collect(path.c_str(), 2, &bytes), KVC_OK) << kvc_last_error();
  for (const uint64_t id : {1u, 2u, 3u}) EXPECT_FALSE(fs::exists(name_of(path, id, ".kvcd"))) << id;
  for (const uint64_t id : {4u, 5u})
    EXPECT_EQ(kvc_checkpoint_validate(path.c_str(), id, nullptr), KVC_OK) << kvc_last_error();
}

TEST_F(Keep, ACompactionCountsOnlyCheckpointsThatCanBeRead) {
  for (int i = 0; i < 3; ++i) save(0, KVC_CHECKPOINT_FULL);
  spoil(2);
  kvc_checkpoint_config config = engine.config(path);
  config.id = 3, config.keep_last = 2;
  kvc_checkpoint_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_checkpoint_compact(&config, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{1, 2, 4}));
  EXPECT_EQ(info.not_removed, 2u);
}

TEST_F(Keep, ACompactionDoesNotCountWhatItReplaces) {
  for (int i = 0; i < 3; ++i) save(0, KVC_CHECKPOINT_FULL);
  kvc_checkpoint_config config = engine.config(path);
  config.keep_last = 2;
  ASSERT_EQ(kvc_checkpoint_compact(&config, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{2, 4}));
}

TEST_F(Keep, AnIdIsNotGivenAgain) {
  for (int i = 0; i < 3; ++i) save(0);
  for (const uint64_t id : {3u, 2u, 1u}) ASSERT_EQ(kvc_checkpoint_remove(path.c_str(), id), KVC_OK);
  EXPECT_EQ(save(0).id, 4u);
  ASSERT_EQ(kvc_checkpoint_remove(path.c_str(), 4), KVC_OK) << kvc_last_error();
  EXPECT_EQ(save(0).id, 5u);
  std::ofstream(path + "/lock") << "no id at all";  // then only what is there counts
  EXPECT_EQ(save(0).id, 6u);
}

// The calls that wait for the disk, and those that remove, by the names of the files.
class Disk : public Files {
 public:
  int open(int folder, const char* path, int flags, unsigned mode) override {
    const int file = Files::open(folder, path, flags, mode);
    if (file >= 0) names_[file] = path;
    return file;
  }
  int sync(int file) override {
    calls.push_back("sync " + names_[file]);
    return fails ? -EIO : 0;
  }
  int remove(int folder, const char* path) override {
    const int result = Files::remove(folder, path);
    if (result == 0) calls.push_back("remove " + std::string(path));
    return result;
  }
  // Whether `name` is on the disk before anything, or `other`, is removed.
  bool has(const std::string& name, const std::string& other = "") const {
    for (const std::string& call : calls) {
      if (call == "sync " + name) return true;
      if (call.rfind("remove " + other, 0) == 0) return false;
    }
    return false;
  }
  std::vector<std::string> calls;
  bool fails = false;

 private:
  std::map<int, std::string> names_;
};

TEST_F(Keep, NothingGoesBeforeWhatReplacesItIsOnTheDisk) {
  save(0), save(0);
  const std::string old = name_of("", 1, ".kvcm").substr(1);
  for (const bool fails : {true, false}) {
    SCOPED_TRACE(fails);
    test::Calls calls(engine, path);
    calls.options.flags = KVC_CHECKPOINT_NO_SYNC, calls.options.keep_last = 1;
    engine.run(say(++saves, 30));
    Disk disk;
    disk.fails = fails;
    kvc_checkpoint_info info;
    ASSERT_EQ(calls.save(disk, &info), KVC_OK) << kvc_last_error();
    if (fails) {
      EXPECT_EQ(info.not_removed, 2u);
      EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{1, 2, 3})) << "what may not be replaced stays";
      continue;
    }
    EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{4}));
    EXPECT_TRUE(disk.has(name_of("", 4, ".kvcm").substr(1), old));
    for (const uint64_t id : {1u, 2u, 3u, 4u})
      EXPECT_TRUE(disk.has(name_of("", id, ".kvcd").substr(1), old)) << id;
    EXPECT_TRUE(disk.has(path + "/.", old)) << "the names";
  }
}

// It stands on data files of saves that did not wait for the disk.
TEST_F(Keep, ASaveThatWaitsForTheDiskWaitsForAllThatItNeeds) {
  save(0), save(0);
  for (const char* const where : {"c", "new"}) {
    const std::string here = folder / where;
    test::Calls calls(engine, here);
    Disk disk;
    kvc_checkpoint_info info;
    engine.run(say(++saves, 30));
    ASSERT_EQ(calls.save(disk, &info), KVC_OK) << kvc_last_error();
    for (uint64_t id = 1; id <= info.id; ++id) {
      const std::string name = name_of("", id, ".kvcd").substr(1);
      EXPECT_TRUE(disk.has(name) || disk.has(name + ".part")) << id;
    }
    EXPECT_TRUE(disk.has(folder / ".")) << "the folder has its name for good";
  }
  test::Calls calls(engine, folder / "third");
  calls.options.flags = KVC_CHECKPOINT_NO_SYNC;
  Disk disk;
  kvc_checkpoint_info info;
  ASSERT_EQ(calls.save(disk, &info), KVC_OK) << kvc_last_error();
  for (const std::string& call : disk.calls) EXPECT_NE(call.rfind("sync", 0), 0u) << call;
}

// ---- many files

TEST_F(Keep, ACheckpointHasFewFilesUnlessAnIncrementIsDemanded) {
  Form form;
  form.num_blocks = 400;
  Engine many(form);
  uint64_t most = 0;
  bool anew = false;
  const std::string other = folder / "other";
  constexpr uint64_t kSaves = 200;
  for (uint64_t i = 0; i < kSaves; ++i) {
    many.run(say(i, 5));
    kvc_checkpoint_config config = many.config(other, i == 0 ? 0u : uint32_t{KVC_CHECKPOINT_INCREMENT});
    kvc_checkpoint_needs needs = {};
    needs.struct_size = sizeof needs;
    ASSERT_EQ(kvc_checkpoint_measure(many.m, many.storages.data(), 1, &config, &needs), KVC_OK);
    kvc_checkpoint_info info;
    ASSERT_EQ(many.save(config, &info), KVC_OK) << kvc_last_error();
    ASSERT_EQ(info.num_files, i + 1);
    ASSERT_GE(needs.new_bytes, info.written_bytes) << "files have names, too";
    if (i >= 100) continue;
    ASSERT_EQ(many.save(many.config(path), &info), KVC_OK) << kvc_last_error();
    most = std::max(most, info.num_files);
    anew = anew || (i != 0 && info.num_files == 1);
  }
  EXPECT_EQ(most, 64u);
  EXPECT_TRUE(anew);
  // A process with few descriptors reads all of them.
  kvc_checkpoint_info info = {};
  info.struct_size = sizeof info;
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  close(next);
  const rlimit few = {static_cast<rlim_t>(next) + 12, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  Engine fresh(form);
  fresh.restore(other);
  EXPECT_EQ(kvc_checkpoint_validate(other.c_str(), 0, nullptr), KVC_OK) << kvc_last_error();
  const kvc_checkpoint_config config = many.config(other);
  EXPECT_EQ(kvc_checkpoint_compact(&config, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(info.num_files, 1u);
  EXPECT_EQ(fresh.content(), many.content());
  for (uint64_t i = 0; i < kSaves; ++i) EXPECT_EQ(fresh.check_pages(say(i, 5), 0), 1u);
  EXPECT_EQ(fresh.wrong, 0u);
  EXPECT_EQ(kvc_checkpoint_validate(other.c_str(), 0, nullptr), KVC_OK) << kvc_last_error();
}

// ---- a writer beside a reader

// After each list of the folder, so many times, somebody saves and keeps only that.
class Overtaken : public Files {
 public:
  Overtaken(std::function<void()> save, int times) : save_(std::move(save)), times_(times) {}
  int list(int file, void* data, void (*each)(void*, const char*)) override {
    const int result = Files::list(file, data, each);
    if (times_-- > 0) save_();
    return result;
  }

 private:
  const std::function<void()> save_;
  int times_;
};

TEST_F(Keep, AReaderOfTheNewestFindsOneBesideAWriter) {
  save(0);
  for (const bool validate : {false, true}) {
    for (const int times : {1, 5, 1000}) {
      Overtaken files([this] { save(1, KVC_CHECKPOINT_FULL); }, times);
      kvc_checkpoint_info info = {};
      const kvc_status status = describe_checkpoint(files, path.c_str(), 0, validate, &info);
      EXPECT_EQ(status, times == 1000 ? KVC_ERROR_BUSY : KVC_OK) << kvc_last_error();
      if (status == KVC_OK) {
        EXPECT_EQ(info.id, saves);
      }
    }
  }
}

}  // namespace
}  // namespace kvc
