// SPDX-License-Identifier: Apache-2.0
// Engines (manager, storage, tier, offload) that are killed at any time: whoever starts next has all that was
// flushed, and no wrong byte. The verifier trusts nothing: it computes each loaded byte from the tokens.
// And engines that fork, or end and begin again.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "offload/scene.h"
#include "seed.h"
#include "tier/stores.h"

namespace kvc::test {
namespace {

constexpr size_t kPrompts = 24;
// Each fork copies the shadow memory of the address sanitizer.
#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kSparser = 4;
#else
constexpr uint64_t kSparser = 1;
#endif

// Prompts that share prefixes: those of one family have their first blocks in common.
std::vector<int32_t> prompt_of(size_t i) {
  std::vector<int32_t> tokens = tokens_of(1000 * static_cast<int32_t>(i / 4), (4 + i % 4 * 2) * kBlock + 1);
  for (size_t t = 3 * kBlock; t < tokens.size(); ++t) tokens[t] += 100 * static_cast<int32_t>(i % 4);
  return tokens;
}

// What a child has got done, in memory that it shares.
struct Progress {
  std::atomic<uint64_t> served, flushes, loaded_pages, is_flushed[kPrompts];
};

struct KilledEngine {
  const char* name;
  const char* url;  // %s is a path
  // Whether all prompts have room, in the pool and in the tier: then nothing that was flushed may be lost.
  bool has_room;
};

const KilledEngine kKilledEngines[] = {{"Slab", "slab:%s?bytes=16MiB", true},
                                       {"SlabDirect", "slab:%s?bytes=16MiB&direct=1", true},
                                       {"Folder", "dir:%s?bytes=16MiB", true},
                                       {"FullSlab", "slab:%s?bytes=128KiB", false}};

class KilledEngines : public ::testing::TestWithParam<KilledEngine> {
 protected:
  KilledEngines() {
    progress_ = static_cast<Progress*>(
        mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    const std::string path = folder_ / "kv";
    if (std::string(GetParam().url).starts_with("dir")) mkdir(path.c_str(), 0700);
    char url[512];
    std::snprintf(url, sizeof url, GetParam().url, path.c_str());
    config_.url = url;
    config_.num_blocks = GetParam().has_room ? 256 : 24;
  }
  ~KilledEngines() override { munmap(progress_, sizeof(Progress)); }

  // A child serves prompts, and flushes now and then, until it is killed.
  pid_t start(uint64_t seed) {
    const pid_t child = fork();
    if (child != 0) return child;
    Scene scene(config_);
    if (HasFailure()) _exit(3);
    std::mt19937_64 random(seed);
    std::vector<size_t> served;
    for (;;) {
      const size_t at = random() % kPrompts;
      scene.serve(prompt_of(at));
      served.push_back(at);
      scene.poll();
      if (scene.wrong_pages != 0) _exit(4);
      if (random() % 4 == 0) {
        if (scene.flush() != 0) _exit(5);
        const kvc_offload_tier_stats tier = scene.tier();
        const kvc_offload_stats all = scene.stats();
        const bool dropped = tier.failed_stores + tier.refused_stores + all.dropped_blocks +
                             all.dropped_events + all.gone_blocks;
        if (GetParam().has_room && dropped) _exit(6);
        for (const size_t done : served) progress_->is_flushed[done] = 1;
        served.clear();
        ++progress_->flushes;
      }
      if (HasFailure()) _exit(7);
      ++progress_->served;
    }
  }

  // What a new life finds.
  void check() {
    Scene scene(config_);
    ASSERT_FALSE(HasFailure());
    for (size_t i = 0; i < kPrompts; ++i) {
      const std::vector<int32_t> tokens = prompt_of(i);
      const uint64_t cached = scene.serve(tokens);
      if (GetParam().has_room && progress_->is_flushed[i] != 0) {
        EXPECT_EQ(cached, tokens.size() / kBlock * kBlock) << "prompt " << i << " was flushed";
      }
      EXPECT_EQ(kvc_manager_reset_all(scene.manager), KVC_OK);
    }
    ASSERT_EQ(scene.wrong_pages, 0u);
    progress_->loaded_pages += scene.tier().loaded_pages;
    if (GetParam().has_room) return;
    EXPECT_EQ(scene.flush(), 0u);
  }

  const Folder folder_;
  SceneConfig config_;
  Progress* progress_;
};

// KVC_TEST_KILLS: how often (24), of each kind.
TEST_P(KilledEngines, LoseNothingThatWasFlushedAndLoadNoWrongByte) {
  const char* given = getenv("KVC_TEST_KILLS");
  const uint64_t kills = given != nullptr ? strtoull(given, nullptr, 0) : 24 / kSparser;
  std::mt19937_64 random(test_seed());
  for (uint64_t i = 0; i < kills; ++i) {
    SCOPED_TRACE(i);
    progress_->served = 0;
    const pid_t child = start(random());
    const uint64_t until = random() % 32;  // 0: while it starts
    while (progress_->served < until) {
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, WNOHANG), 0) << "it ended by itself: " << WEXITSTATUS(status);
      sched_yield();
    }
    for (uint64_t spin = random() % 20000; spin > 0; --spin) asm volatile("");
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << WEXITSTATUS(status);
    check();
    if (HasFailure()) return;
  }
  EXPECT_GT(progress_->loaded_pages, kills);
  EXPECT_GT(progress_->flushes, kills / 4);
  std::printf("%s: %llu kills, %llu flushes, %llu pages loaded, 0 wrong\n", GetParam().name,
              static_cast<unsigned long long>(kills), static_cast<unsigned long long>(progress_->flushes),
              static_cast<unsigned long long>(progress_->loaded_pages));
}

INSTANTIATE_TEST_SUITE_P(Kinds, KilledEngines, ::testing::ValuesIn(kKilledEngines),
                         [](const auto& at) { return at.param.name; });

class Restart : public ::testing::Test {
 protected:
  std::string url(const char* more = "") const { return "slab:" + (folder_ / "kv") + "?bytes=4MiB" + more; }
  // A child that lives until end().
  pid_t fork_one() {
    EXPECT_EQ(pipe(pipe_), 0);
    const pid_t child = fork();
    if (child != 0) {
      ::close(pipe_[0]);
      return child;
    }
    ::close(pipe_[1]);
    char byte;
    static_cast<void>(!::read(pipe_[0], &byte, 1));
    _exit(0);
  }
  void end(pid_t child) {
    ::close(pipe_[1]);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }

  const Folder folder_;
  const std::vector<int32_t> tokens_ = tokens_of(100, 10 * kBlock + 1);
  int pipe_[2] = {-1, -1};
};

// The child of the fork lives on, beyond the parent's engine: neither the load nor the file is its business.
TEST_F(Restart, AForkDuringALoadChangesNothing) {
  for (const uint32_t threads : {0, 2}) {
    SceneConfig config;
    config.threads = threads;
    config.open_store = [&](uint64_t page_bytes, PageStorePtr* out) {
      const std::string path = folder_ / "kv";
      SlabConfig slab = slab_config(path, 64, page_bytes);
      slab.workers = std::max(threads, 1u);
      return open_slab_store(default_env(), system_files(), slab, out);
    };
    std::atomic<pid_t> child{-1};
    {
      Scene scene(config);
      ASSERT_FALSE(HasFailure());
      scene.store_and_evict(tokens_);
      std::atomic<int> gets{0};
      scene.weather[0].before = [&](TierJobKind kind) {
        if (kind == TierJobKind::kGet && gets++ == 4) child = fork_one();
      };
      EXPECT_EQ(scene.serve(tokens_), 10u * kBlock);
      ASSERT_GT(child, 0);
      EXPECT_EQ(scene.wrong_pages, 0u);
      EXPECT_EQ(scene.last.reason, uint32_t{KVC_OFFLOAD_LOADED});
      scene.weather[0].before = nullptr;
      scene.settle();
      EXPECT_EQ(scene.held_blocks(), 0u);
      scene.check();
    }
    {
      Scene again(config);  // while the child of the fork lives
      ASSERT_FALSE(HasFailure());
      EXPECT_EQ(again.serve(tokens_), 10u * kBlock);
      EXPECT_EQ(again.wrong_pages, 0u);
    }
    end(child);
  }
}

TEST_F(Restart, QuantizedBlocksComeBackByteForByte) {
  for (const int32_t dtype : {KVC_INT8, KVC_INT4, KVC_FLOAT8_E4M3, KVC_BFLOAT16, KVC_FLOAT32}) {
    SceneConfig config;
    config.url = url("&on_mismatch=replace");
    config.dtype = dtype;
    if (dtype == KVC_FLOAT8_E4M3) config.scale_group = 4;
    bool is_new = true;
    for (const int32_t layout : {KVC_LAYOUT_LBHNC, KVC_LAYOUT_LBHNC, KVC_LAYOUT_BLNHC, KVC_LAYOUT_BHLNC}) {
      config.layout = layout;
      Scene scene(config);
      ASSERT_FALSE(HasFailure());
      EXPECT_EQ(scene.serve(tokens_), is_new ? 0u : 10u * kBlock)
          << "dtype " << dtype << " layout " << layout;
      EXPECT_EQ(scene.wrong_pages, 0u);
      EXPECT_EQ(scene.checked_pages, is_new ? 0u : 10u);
      EXPECT_EQ(scene.flush(), 0u);
      is_new = false;
    }
  }
}

// Other weights have other keys in the same place, and a slab of theirs is refused.
TEST_F(Restart, OtherWeightsTypesAndShapesFindNothing) {
  SceneConfig config;
  config.url = "dir:" + (folder_ / "kv") + "?bytes=4MiB";
  mkdir((folder_ / "kv").c_str(), 0700);
  {
    Scene scene(config);
    ASSERT_FALSE(HasFailure());
    scene.serve(tokens_);
    ASSERT_EQ(scene.flush(), 0u);
  }
  SceneConfig other = config;
  other.weights = "x";
  EXPECT_EQ(Scene(other).serve(tokens_), 0u);
  other = config;
  other.dtype = KVC_BFLOAT16;
  EXPECT_EQ(Scene(other).serve(tokens_), 0u);
  EXPECT_EQ(Scene(config).serve(tokens_), 10u * kBlock);
}

}  // namespace
}  // namespace kvc::test
