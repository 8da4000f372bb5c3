// SPDX-License-Identifier: Apache-2.0
// Every system call of a save, a compaction, a removal and a restore fails once, in each way: the last
// checkpoint that was there stays, whole; the manager is as it was; and nothing that is read is wrong.
#include "calls_with_files.h"

namespace kvc {
namespace {

using test::Calls;
using test::Engine;
using test::Fault;
using test::FaultyFiles;
using test::Folder;
using test::Form;
using test::say;

// A folder with a checkpoint after each of the first prompts.
struct Saves {
  explicit Saves(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) add(i);
  }
  void add(uint64_t prompt) {
    engine.run(say(prompt, 30));
    EXPECT_EQ(calls.save(system_files(), &info), KVC_OK) << kvc_last_error();
    contents.push_back(engine.content());
  }

  const Folder folder;
  const std::string path = folder / "c";
  Engine engine{Form{}};
  Calls calls{engine, path};
  kvc_checkpoint_info info = {};
  std::vector<std::string> contents;
};

class FaultsOfFiles : public testing::TestWithParam<Fault> {
 protected:
  bool harmless() const { return GetParam() == Fault::kEintr || GetParam() == Fault::kShort; }
};

// What is in the folder is one of these contents, and all of it is right.
void check_folder(const std::string& path, const std::vector<std::string>& contents, bool several = false) {
  std::vector<uint64_t> ids;
  ASSERT_EQ(list_checkpoints(system_files(), path.c_str(), &ids), KVC_OK) << kvc_last_error();
  ASSERT_FALSE(ids.empty());
  for (const uint64_t id : ids) {
    kvc_checkpoint_info info = {};
    ASSERT_EQ(describe_checkpoint(system_files(), path.c_str(), id, true, &info), KVC_OK) << kvc_last_error();
    Engine fresh(Form{});
    fresh.restore(path, 0, id);
    fresh.check();
    for (uint64_t i = 0; i < 4; ++i) fresh.check_pages(say(i, 30), 0);
    ASSERT_EQ(fresh.wrong, 0u);
    const bool known = std::find(contents.begin(), contents.end(), fresh.content()) != contents.end();
    EXPECT_TRUE(known) << id;
  }
  EXPECT_TRUE(several || ids.size() <= 4);
}

TEST_P(FaultsOfFiles, OfASaveLeaveTheLastCheckpoint) {
  uint64_t failed = 0;
  for (uint64_t k = 0;; ++k) {
    SCOPED_TRACE(k);
    Saves saves(1);
    auto& [folder, path, engine, calls, info, contents] = saves;
    engine.run(say(1, 30));
    contents.push_back(engine.content());
    const uint64_t before = engine.digest();
    FaultyFiles files;
    files.set(GetParam(), k);
    calls.options.keep_last = 1;
    const kvc_status status = calls.save(files, &info);
    EXPECT_EQ(engine.digest(), before);
    engine.check();
    if (status != KVC_OK) {
      ++failed;
      EXPECT_EQ(files.hits, 1u) << kvc_last_error();
      EXPECT_FALSE(harmless()) << kvc_last_error();
      EXPECT_EQ(status, GetParam() == Fault::kEnospc ? KVC_ERROR_LIMIT : KVC_ERROR_DEVICE)
          << kvc_last_error();
    } else if (files.hits == 0) {
      EXPECT_EQ(info.not_removed, 0u);
    }
    check_folder(path, contents);
    if (HasFatalFailure()) return;
    // What is left behind does not disturb the next one.
    calls.options.keep_last = 0;
    saves.add(2);
    check_folder(path, contents);
    if (files.hits == 0) {
      EXPECT_GT(k, 15u) << "so few calls?";
      break;
    }
  }
  EXPECT_EQ(failed != 0, !harmless());
}

TEST_P(FaultsOfFiles, OfACompactionAndARemovalLoseNothing) {
  for (uint64_t k = 0;; ++k) {
    SCOPED_TRACE(k);
    Saves saves(3);
    auto& [folder, path, engine, calls, info, contents] = saves;
    FaultyFiles files;
    files.set(GetParam(), k);
    info = {};
    const kvc_status compacted = compact_checkpoint(files, calls.options, &info);
    const bool was_removed = remove_checkpoint(files, path.c_str(), 2) == KVC_OK;
    if (compacted != KVC_OK || !was_removed) {
      EXPECT_FALSE(harmless()) << kvc_last_error();
    }
    check_folder(path, contents);
    if (HasFatalFailure()) return;
    std::vector<uint64_t> ids;
    ASSERT_EQ(list_checkpoints(system_files(), path.c_str(), &ids), KVC_OK);
    Engine fresh(Form{});
    fresh.restore(path);
    EXPECT_EQ(fresh.content(), contents[2]) << "the newest content is there";
    EXPECT_EQ(ids.front(), 1u);
    if (files.hits == 0) {
      EXPECT_GT(k, 25u) << "so few calls?";
      break;
    }
  }
}

TEST_P(FaultsOfFiles, OfARestoreChangeNothing) {
  Saves saves(3);
  uint64_t failed = 0;
  for (uint64_t k = 0;; ++k) {
    SCOPED_TRACE(k);
    Engine fresh(Form{});
    Calls calls(fresh, saves.path);
    const uint64_t before = fresh.digest();
    FaultyFiles files;
    files.set(GetParam(), k);
    const kvc_status status = calls.restore(files, &saves.info);
    fresh.check();
    if (status != KVC_OK) {
      ++failed;
      EXPECT_FALSE(harmless()) << kvc_last_error();
      EXPECT_EQ(fresh.digest(), before);
      ASSERT_EQ(calls.restore(system_files(), &saves.info), KVC_OK) << kvc_last_error();
    }
    EXPECT_EQ(fresh.digest(), saves.engine.digest());
    for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(fresh.check_pages(say(i, 30), 0), 7u);
    ASSERT_EQ(fresh.wrong, 0u);
    if (files.hits == 0) {
      EXPECT_GT(k, 10u) << "so few calls?";
      break;
    }
  }
  EXPECT_EQ(failed != 0, !harmless());
}

INSTANTIATE_TEST_SUITE_P(Kinds, FaultsOfFiles,
                         testing::Values(Fault::kEio, Fault::kEnospc, Fault::kShort, Fault::kEintr),
                         [](const auto& at) {
                           return std::string(at.param == Fault::kEio      ? "Eio"
                                              : at.param == Fault::kEnospc ? "Enospc"
                                              : at.param == Fault::kShort  ? "Short"
                                                                           : "Eintr");
                         });

TEST(FaultsOfManyFiles, GiveNoWrongByte) {
  for (const Fault fault : {Fault::kEio, Fault::kShort, Fault::kEintr}) {
    for (const uint64_t every : {2u, 3u, 5u, 7u, 11u}) {
      Saves saves(1);
      auto& [folder, path, engine, calls, info, contents] = saves;
      FaultyFiles files;
      files.set(fault, 1, every);
      for (uint64_t i = 1; i < 4; ++i) {
        engine.run(say(i, 30));
        contents.push_back(engine.content());
        static_cast<void>(calls.save(files, &info));
        if (i == 2) static_cast<void>(compact_checkpoint(files, calls.options, &info));
      }
      EXPECT_GT(files.hits, 3u);
      check_folder(path, contents, true);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace kvc
