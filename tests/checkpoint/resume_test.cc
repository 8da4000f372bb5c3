// SPDX-License-Identifier: Apache-2.0
// Saves that are cut short, by a kill or a full disk, go on where they stopped; a save says before what it
// needs; collecting removes what nobody needs; and no save holds the lock for longer than an admission.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "calls_with_files.h"
#include "plugin/plugins.h"

namespace kvc {
namespace {

using test::Calls;
using test::Engine;
using test::Fault;
using test::FaultyFiles;
using test::Folder;
using test::Form;
using test::say;
using test::Spoken;
namespace fs = std::filesystem;

constexpr uint64_t kSavedPrompts = 6, kPages = 24;

Form large_pages() {  // of 512 KiB: several pieces of a data file
  Form form;
  form.num_layers = 64, form.num_heads = 8, form.head_dim = 64, form.num_blocks = 40;
  form.smooth = true;
  return form;
}
void fill(Engine& engine) {
  for (uint64_t i = 0; i < kSavedPrompts; ++i) engine.run(say(i, 17));
}
void check_restored(const Engine& old, const std::string& path) {
  EXPECT_EQ(kvc_checkpoint_validate(path.c_str(), 0, nullptr), KVC_OK) << kvc_last_error();
  Engine fresh(old.form);
  fresh.restore(path);
  fresh.check();
  EXPECT_EQ(fresh.content(), old.content());
  for (uint64_t i = 0; i < kSavedPrompts; ++i) EXPECT_EQ(fresh.check_pages(say(i, 17), 0), 4u);
  ASSERT_EQ(fresh.wrong, 0u);
}
kvc_checkpoint_needs needs_of(Engine& engine, const kvc_checkpoint_config& config) {
  kvc_checkpoint_needs needs = {};
  needs.struct_size = sizeof needs;
  EXPECT_EQ(kvc_checkpoint_measure(engine.m, engine.storages.data(), engine.storages.size(), &config, &needs),
            KVC_OK)
      << kvc_last_error();
  return needs;
}
size_t count_files(const std::string& folder, const char* part) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    count += entry.path().filename().string().find(part) != std::string::npos;
  return count;
}

struct SaveCase {
  const char *name, *codec;
  uint32_t flags;
  uint64_t step;  // of the calls of the system
};
class CutShort : public testing::TestWithParam<SaveCase> {
 protected:
  // A save that is killed at its call number `at`. False: it came to its end before.
  bool kill_save(Engine& engine, const std::string& path, Fault fault, uint64_t at) {
    const pid_t child = fork();
    if (child == 0) {
      FaultyFiles files;
      files.set(fault, at);
      Calls calls(engine, path);
      if (std::strcmp(GetParam().codec, "none") != 0) calls.options.codec = GetParam().codec;
      calls.options.flags = GetParam().flags;
      kvc_checkpoint_info info;
      _exit(calls.save(files, &info) == KVC_OK ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status);
  }
};

TEST_P(CutShort, SavesGoOnWhereTheyStopped) {
  const kvc_plugin* plugin = nullptr;
  if (std::strcmp(GetParam().codec, "none") != 0 && open_plugin(GetParam().codec, nullptr, &plugin) != KVC_OK)
    GTEST_SKIP() << kvc_last_error();
  Engine old(large_pages());
  fill(old);
  const uint64_t step = GetParam().step;
  uint64_t resumed = 0, whole = 0, saves = 0;
  for (const Fault fault : {Fault::kKill, Fault::kKillInWrite}) {
    for (uint64_t at = 0;; at += step) {
      SCOPED_TRACE(at);
      const Folder folder;
      const std::string path = folder / "c";
      const bool killed = kill_save(old, path, fault, at);
      if (!killed) break;
      kvc_checkpoint_config config = old.config(path, GetParam().flags);
      config.codec = GetParam().codec;
      const kvc_checkpoint_needs needs = needs_of(old, config);
      kvc_checkpoint_info info;
      ASSERT_EQ(old.save(config, &info), KVC_OK) << kvc_last_error();
      ++saves;
      EXPECT_EQ(info.num_pages, kPages);
      if (info.id == 1) {
        EXPECT_EQ(info.new_pages, kPages);
        EXPECT_EQ(needs.new_pages, kPages - info.resumed_pages);
        EXPECT_EQ(info.num_files, 1u);
        if (GetParam().flags != 0) {
          EXPECT_EQ(info.resumed_pages, 0u) << "a full save takes nothing from before";
        }
        EXPECT_LE(info.written_bytes, needs.new_bytes);
        resumed += info.resumed_pages;
        whole += info.resumed_pages == kPages;
      } else {
        EXPECT_EQ(info.new_pages, info.id == 2 && GetParam().flags == 0 ? 0u : kPages)
            << "its manifest was there";
      }
      EXPECT_EQ(count_files(path, ".part"), 0u);
      check_restored(old, path);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(saves, 5u);
  EXPECT_TRUE(resumed > kPages || GetParam().flags != 0) << resumed;
  EXPECT_TRUE(whole != 0 || step != 1 || GetParam().flags != 0) << "killed before the manifest had its name";
}

INSTANTIATE_TEST_SUITE_P(Kinds, CutShort,
                         testing::Values(SaveCase{"Plain", "none", 0, 1},
                                         SaveCase{"Full", "none", KVC_CHECKPOINT_FULL, 3},
                                         SaveCase{"Zstd", "zstd", 0, 3}),
                         [](const auto& at) { return std::string(at.param.name); });

// A disk with room for so many bytes.
class SmallDisk : public Files {
 public:
  explicit SmallDisk(uint64_t room, uint64_t free = UINT64_MAX) : room_(room), free_(free) {}
  int64_t write(int file, const void* data, size_t size, uint64_t offset) override {
    ++writes;
    if (room_ < size) return -ENOSPC;
    room_ -= size;
    return Files::write(file, data, size, offset);
  }
  int free_bytes(int, uint64_t* out) override {
    *out = free_;
    return 0;
  }
  int64_t read(int file, void* data, size_t size, uint64_t offset) override {
    if (size > largest_read) largest_read = size;
    return Files::read(file, data, size, offset);
  }
  std::atomic<uint64_t> writes{0}, largest_read{0};

 private:
  std::atomic<uint64_t> room_;
  const uint64_t free_;
};

TEST(AFullDisk, LeavesWhatFitsForTheNextSave) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(large_pages());
  fill(old);
  const uint64_t before = old.digest();
  Calls calls(old, path);
  SmallDisk disk(9 << 20);
  kvc_checkpoint_info info;
  ASSERT_EQ(calls.save(disk, &info), KVC_ERROR_LIMIT);
  EXPECT_NE(std::strstr(kvc_last_error(), "errno 28"), nullptr) << kvc_last_error();
  EXPECT_EQ(old.digest(), before);
  EXPECT_EQ(count_files(path, ".kvcm"), 0u);
  EXPECT_EQ(count_files(path, ".part"), 2u);
  info = old.save(path);
  EXPECT_GE(info.resumed_pages, 6u);
  EXPECT_LT(info.written_bytes, (kPages - info.resumed_pages) * old.info.page_bytes + (1 << 20));
  check_restored(old, path);
}

// The journal says what there is until a new one is whole.
TEST(AFullDisk, TakesNothingOfWhatIsLeft) {
  Engine old(large_pages());
  fill(old);
  const Folder folder;
  const std::string path = folder / "c";
  Calls calls(old, path);
  kvc_checkpoint_info info;
  SmallDisk disk(9 << 20);
  ASSERT_EQ(calls.save(disk, &info), KVC_ERROR_LIMIT);
  const uint64_t bytes = fs::file_size(path + "/00000000000000000001.kvcj.part");
  EXPECT_GT(bytes, 6 * 64u);
  SmallDisk full(0);
  ASSERT_EQ(calls.save(full, &info), KVC_ERROR_LIMIT);
  EXPECT_EQ(fs::file_size(path + "/00000000000000000001.kvcj.part"), bytes);
  EXPECT_EQ(count_files(path, ".part"), 2u) << "nothing else is left";
  EXPECT_GE(old.save(path).resumed_pages, 6u);
  check_restored(old, path);
  EXPECT_EQ(count_files(path, ".part"), 0u);
}

TEST(ASave, ThatCannotFitIsRefusedBeforeItWrites) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(large_pages());
  fill(old);
  const kvc_checkpoint_needs needs = needs_of(old, old.config(path));
  EXPECT_FALSE(fs::exists(path)) << "measuring makes nothing";
  Calls calls(old, path);
  kvc_checkpoint_info info;
  SmallDisk disk(UINT64_MAX, needs.new_bytes - 1);
  ASSERT_EQ(calls.save(disk, &info), KVC_ERROR_LIMIT);
  for (const uint64_t number : {needs.new_bytes, needs.new_bytes - 1})
    EXPECT_NE(std::string(kvc_last_error()).find(std::to_string(number)), std::string::npos)
        << kvc_last_error();
  EXPECT_NE(std::strstr(kvc_last_error(), "free 1 more"), nullptr) << kvc_last_error();
  EXPECT_EQ(disk.writes, 0u);
  EXPECT_EQ(count_files(path, "."), 0u) << "there is a lock and nothing else";
  SmallDisk enough(UINT64_MAX, needs.new_bytes);
  ASSERT_EQ(calls.save(enough, &info), KVC_OK) << kvc_last_error();
}

TEST(Measuring, TellsWhatASaveWrites) {
  const Folder folder;
  const std::string path = folder / "c";
  for (const bool large : {true, false}) {
    Engine old(large ? large_pages() : Form{});
    for (uint64_t i = 0; i < kSavedPrompts; ++i) {
      old.run(say(i, 17));
      const std::string here = path + (large ? "large" : "");
      const kvc_checkpoint_needs needs = needs_of(old, old.config(here));
      const uint64_t before = old.digest();
      const kvc_checkpoint_info saved = old.save(here);
      EXPECT_EQ(old.digest(), before);
      EXPECT_EQ(needs.num_pages, saved.num_pages);
      EXPECT_EQ(needs.new_pages, saved.new_pages);
      EXPECT_GE(needs.new_bytes, saved.written_bytes);
      EXPECT_LE(needs.new_bytes, saved.written_bytes + saved.written_bytes / 100 + 32768);
      EXPECT_GE(needs.full_bytes, saved.page_bytes);
      EXPECT_LE(needs.full_bytes, saved.page_bytes + saved.page_bytes / 50 + 65536);
      EXPECT_GT(needs.free_bytes, 0u);
    }
  }
  Engine old(Form{});
  kvc_checkpoint_needs needs = {};
  needs.struct_size = sizeof needs;
  const std::string deep = folder / "a/b";
  const kvc_checkpoint_config config = old.config(deep);
  EXPECT_EQ(kvc_checkpoint_measure(old.m, old.storages.data(), 1, &config, &needs), KVC_ERROR_NOT_FOUND);
}

// What is damaged of it is written again.
TEST(WhatIsLeft, IsNotBelieved) {
  Engine old(large_pages());
  fill(old);
  for (const int what : {0, 1, 2, 3, 4}) {
    SCOPED_TRACE(what);
    const Folder folder;
    const std::string path = folder / "c", part = path + "/00000000000000000001.kvcd.part",
                      journal = path + "/00000000000000000001.kvcj.part";
    Calls calls(old, path);
    SmallDisk disk(9 << 20);
    kvc_checkpoint_info info;
    ASSERT_EQ(calls.save(disk, &info), KVC_ERROR_LIMIT);
    const auto change = [](const std::string& name, std::streamoff at) {
      std::fstream file(name, std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(at);
      file.put('\x5b');
    };
    if (what == 0) change(part, 4096 + 100);        // a page
    if (what == 1) change(part, 100);               // the header
    if (what == 2) change(journal, 64 + 5);         // a key
    if (what == 3) fs::resize_file(part, 3 << 20);  // most pages
    if (what == 4) change(journal, 20);             // the name of the codec
    const uint64_t most = fs::exists(part) ? (fs::file_size(journal) - 64) / 64 : 0;
    info = old.save(path);
    if (what == 0 || what == 2) {
      EXPECT_EQ(info.resumed_pages, most - 1);
    }
    if (what == 1 || what == 4) {
      EXPECT_EQ(info.resumed_pages, 0u);
    }
    if (what == 3) {
      EXPECT_LT(info.resumed_pages, 6u);
    }
    check_restored(old, path);
    if (HasFatalFailure()) return;
  }
}

// It may have come from anywhere: what it says to have takes no memory.
TEST(WhatIsLeft, OfHolesTakesNoMemory) {
  Engine old(large_pages());
  fill(old);
  const Folder folder;
  const std::string path = folder / "c";
  Calls calls(old, path);
  SmallDisk disk(9 << 20), enough(UINT64_MAX);
  kvc_checkpoint_info info;
  ASSERT_EQ(calls.save(disk, &info), KVC_ERROR_LIMIT);
  fs::resize_file(path + "/00000000000000000001.kvcj.part", 64 << 20);
  ASSERT_EQ(calls.save(enough, &info), KVC_OK) << kvc_last_error();
  EXPECT_GE(info.resumed_pages, 6u);
  EXPECT_LE(enough.largest_read, 2u << 20);
  check_restored(old, path);
}

// Another rank has pages of the same keys and size, and other heads in them.
TEST(WhatIsLeft, OfOtherHeadsIsNotTaken) {
  Engine old(large_pages());
  fill(old);
  old.pages.num_heads = 2 * old.form.num_heads;
  const Folder folder;
  const std::string path = folder / "c";
  Calls calls(old, path);
  SmallDisk disk(9 << 20);
  kvc_checkpoint_info info;
  ASSERT_EQ(calls.save(disk, &info), KVC_ERROR_LIMIT);
  old.pages.first_head = old.form.num_heads;
  EXPECT_EQ(old.save(path).resumed_pages, 0u);
  EXPECT_EQ(kvc_checkpoint_validate(path.c_str(), 0, nullptr), KVC_OK) << kvc_last_error();
}

TEST(WhatIsLeft, OutlivesTheCheckpointBeforeIt) {
  Engine old(large_pages());
  const Folder folder;
  const std::string path = folder / "c";
  old.run(say(0, 17));
  old.save(path);
  fill(old);
  Calls calls(old, path);
  SmallDisk disk(9 << 20);
  kvc_checkpoint_info info;
  ASSERT_EQ(calls.save(disk, &info), KVC_ERROR_LIMIT);
  ASSERT_EQ(kvc_checkpoint_remove(path.c_str(), 1), KVC_OK) << kvc_last_error();
  EXPECT_GE(old.save(path).resumed_pages, 6u);
  check_restored(old, path);
  EXPECT_EQ(count_files(path, ".part"), 0u);
}

TEST(Collecting, RemovesWhatNobodyNeeds) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(large_pages());
  old.run(say(0, 17));
  old.save(path);
  fill(old);
  old.save(path);
  Engine other(large_pages());
  for (uint64_t i = 20; i < 26; ++i) other.run(say(i, 17));
  Calls calls(other, path);
  calls.options.weights = "others";
  kvc_checkpoint_info info;
  SmallDisk disk(9 << 20);
  ASSERT_EQ(calls.save(disk, &info), KVC_ERROR_LIMIT);
  EXPECT_EQ(count_files(path, ".part"), 2u);
  EXPECT_EQ(kvc_checkpoint_remove(path.c_str(), 1), KVC_OK) << kvc_last_error();
  EXPECT_EQ(count_files(path, ".part"), 2u) << "removing makes room for the save that goes on";
  std::ofstream(path + "/00000000000000000099.kvcd") << "nobody's";
  uint64_t bytes = 0;
  ASSERT_EQ(kvc_checkpoint_collect(path.c_str(), 0, &bytes), KVC_OK) << kvc_last_error();
  EXPECT_GT(bytes, 4u << 20);
  EXPECT_EQ(count_files(path, ".part"), 0u);
  EXPECT_EQ(count_files(path, ".kvcd"), 2u) << "the second checkpoint needs both";
  check_restored(old, path);
  old.save(path);
  ASSERT_EQ(kvc_checkpoint_collect(path.c_str(), 1, &bytes), KVC_OK);
  EXPECT_EQ(count_files(path, ".kvcm"), 1u);
  check_restored(old, path);
  EXPECT_EQ(kvc_checkpoint_collect((folder / "none").c_str(), 0, &bytes), KVC_ERROR_NOT_FOUND);
  EXPECT_FALSE(fs::exists(folder / "none"));
}

// Counted, not timed: what a save visits under one hold.
TEST(TheLongestHold, IsThatOfOneAdmissionAtMost) {
  const Folder folder;
  for (const uint32_t blocks : {1u, 16u, 64u, 500u}) {  // of a prompt
    SCOPED_TRACE(blocks);
    Form form;
    form.num_blocks = 4000, form.max_quotas = 4;
    Engine old(form);
    for (uint64_t i = 0; i < 3900 / blocks; ++i) {
      Spoken spoken = say(i, blocks * form.block_size + 1);
      spoken.tenant = static_cast<uint32_t>(i % 3);
      old.run(spoken);
    }
    const kvc_checkpoint_info saved = old.save(folder / std::to_string(blocks).c_str());
    EXPECT_GT(saved.num_blocks, 3000u);
    EXPECT_GT(saved.longest_hold, 0u);
    EXPECT_GE(saved.longest_admission, blocks);
    EXPECT_LE(saved.longest_hold, std::max<uint64_t>(saved.longest_admission, 64));
    if (blocks >= 64) {
      EXPECT_LE(saved.longest_hold, saved.longest_admission);
    }
  }
}

}  // namespace
}  // namespace kvc
