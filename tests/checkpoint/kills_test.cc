// SPDX-License-Identifier: Apache-2.0
// Processes that are killed while they save, compact, remove, collect and restore: at each system call, in
// the middle of each write, and at any time. Every checkpoint whose save had ended is there, and every one
// that is there is whole and right.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

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

// Each fork copies the shadow memory of the address sanitizer.
#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kSparser = 5;
#else
constexpr uint64_t kSparser = 1;
#endif

// A checkpoint whose save had ended.
struct Saved {
  uint32_t id;        // 0: none
  uint32_t contents;  // index of its content
};

// What children tell, in memory that they share with the test.
struct Progress {
  static constexpr uint64_t kMost = 1 << 16;
  std::atomic<uint64_t> count;  // of contents that a save has begun with
  std::atomic<Saved> saved;     // the last one; in one piece, as a kill may come between two
  static_assert(std::atomic<Saved>::is_always_lock_free);
  char contents[kMost][32];
};

class Kills : public testing::Test {
 protected:
  Kills() {
    progress_ = static_cast<Progress*>(mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
  ~Kills() override { munmap(progress_, sizeof(Progress)); }

  pid_t start(const std::string& path, uint64_t seed, Fault fault, uint64_t at, uint64_t rounds) {
    const pid_t child = fork();
    if (child != 0) return child;
    FaultyFiles files;
    files.set(fault, at);
    Engine engine(form());
    Calls calls(engine, path);
    std::mt19937_64 random(seed);
    for (uint64_t i = 0; i < rounds; ++i) {
      engine.run(say(random() % kPrompts, 30));
      const uint64_t index = progress_->count % Progress::kMost;
      std::memcpy(progress_->contents[index], engine.content().data(), 32);
      ++progress_->count;
      kvc_checkpoint_info info;
      calls.options.keep_last = static_cast<uint32_t>(random() % 3 + (i % 2));
      calls.options.flags = random() % 4 == 0 ? KVC_CHECKPOINT_FULL : 0;
      if (calls.save(files, &info) != KVC_OK) _exit(3);
      progress_->saved = Saved{static_cast<uint32_t>(info.id), static_cast<uint32_t>(index)};
      calls.options.flags = 0;
      info = {};
      if (i % 3 == 2) {
        calls.options.keep_last = 2;
        if (compact_checkpoint(files, calls.options, &info) != KVC_OK) _exit(4);
        progress_->saved = Saved{static_cast<uint32_t>(info.id), static_cast<uint32_t>(index)};
      }
      if (i % 4 == 3) {
        std::vector<uint64_t> ids;
        if (list_checkpoints(files, path.c_str(), &ids) != KVC_OK) _exit(5);
        if (ids.size() > 1 && remove_checkpoint(files, path.c_str(), ids[0]) != KVC_OK) _exit(6);
      }
      uint64_t removed = 0;
      if (i % 5 == 1 && collect_checkpoints(files, path.c_str(), 2, &removed) != KVC_OK) _exit(7);
      if (i % 5 == 4) {
        Engine fresh(form());
        Calls restores(fresh, path);
        if (restores.restore(files, &info) != KVC_OK) _exit(8);
      }
    }
    _exit(0);
  }

  bool is_known(const uint8_t* content) const {
    for (uint64_t i = 0; i < std::min<uint64_t>(progress_->count, Progress::kMost); ++i) {
      if (std::memcmp(progress_->contents[i], content, 32) == 0) return true;
    }
    return false;
  }

  void check(const std::string& path) {
    const Saved saved = progress_->saved;
    if (saved.id == 0) return;  // nothing had ended
    std::vector<uint64_t> ids;
    ASSERT_EQ(list_checkpoints(system_files(), path.c_str(), &ids), KVC_OK) << kvc_last_error();
    ASSERT_FALSE(ids.empty());
    EXPECT_GE(ids.back(), saved.id) << "a checkpoint is lost";
    for (const uint64_t id : ids) {
      kvc_checkpoint_info info = {};
      ASSERT_EQ(describe_checkpoint(system_files(), path.c_str(), id, true, &info), KVC_OK)
          << kvc_last_error();
      ASSERT_TRUE(is_known(info.content)) << id;
      if (id == saved.id) {
        EXPECT_EQ(std::memcmp(info.content, progress_->contents[saved.contents], 32), 0);
      }
    }
    Engine fresh(form());
    const kvc_checkpoint_info restored = fresh.restore(path);
    EXPECT_EQ(fresh.content(), std::string(reinterpret_cast<const char*>(restored.content), 32));
    uint64_t found = 0;
    for (uint64_t i = 0; i < kPrompts; ++i) found += fresh.check_pages(say(i, 30), 0);
    EXPECT_EQ(found, restored.num_blocks);
    ASSERT_EQ(fresh.wrong, 0u);
  }

  static Form form() {
    Form out;
    out.num_blocks = 40;
    return out;
  }
  static constexpr uint64_t kPrompts = 12;
  Progress* progress_;
};

// Each child goes on with what the one before has left.
TEST_F(Kills, AtEachSystemCallLoseNothing) {
  uint64_t killed = 0;
  for (const Fault fault : {Fault::kKill, Fault::kKillInWrite}) {
    const Folder folder;
    const std::string path = folder / "c";
    progress_->saved = Saved{};
    for (uint64_t at = 0; at < (fault == Fault::kKill ? 160u : 24u); at += kSparser) {
      SCOPED_TRACE(at);
      const pid_t child = start(path, at, fault, at, 8);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0)
          << WEXITSTATUS(status);
      killed += WIFSIGNALED(status);
      check(path);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GE(killed, 170 / kSparser);
}

// KVC_TEST_KILLS: how often (150).
TEST_F(Kills, AtAnyTimeLoseNothing) {
  const char* given = getenv("KVC_TEST_KILLS");
  const uint64_t kills = given != nullptr ? strtoull(given, nullptr, 0) : 150 / kSparser;
  std::mt19937_64 random(test::test_seed());
  const Folder folder;
  const std::string path = folder / "c";
  uint64_t ended = 0;
  for (uint64_t i = 0; i < kills; ++i) {
    SCOPED_TRACE(i);
    const pid_t child = start(path, random(), Fault::kNone, 0, 1 << 20);
    usleep(static_cast<useconds_t>(2000 + random() % 30000));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    ended += progress_->saved.load().id != 0;
    check(path);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(ended, 0u);
  if (kills > 1000) printf("%llu kills, %llu saves begun\n", ull(kills), ull(progress_->count));
}

}  // namespace
}  // namespace kvc
