// SPDX-License-Identifier: Apache-2.0
// Processes that are killed while they write, at each system call, in the middle of a write, and at any time:
// whoever opens the store next finds every page whose put had ended, and no wrong byte. And processes that
// share a folder, or want to share a slab.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <functional>
#include <random>

#include "stores.h"
#include "tier/open_tier.h"

namespace kvc {
namespace {

using test::digest_of;
using test::Fault;
using test::FaultyFiles;
using test::kOddPageBytes;
using test::Pages;

constexpr uint64_t kSharedRoom = 8;
// Each fork copies the shadow memory of the address sanitizer.
#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kSparser = 5;
#else
constexpr uint64_t kSparser = 1;
#endif

struct KilledKind {
  const char* name;
  bool keeps_order;
  size_t group;  // pages of a put
  std::function<kvc_status(Files&, const std::string&, PageStorePtr*)> open;
};

const KilledKind kKilledKinds[] = {
    {"Slab", true, 1,
     [](Files& files, const std::string& path, PageStorePtr* out) {
       return open_slab_store(default_env(), files, test::slab_config(path, kSharedRoom, kOddPageBytes), out);
     }},
    {"SlabDirect", true, 1,
     [](Files& files, const std::string& path, PageStorePtr* out) {
       SlabConfig config = test::slab_config(path, kSharedRoom, kOddPageBytes);
       config.direct = true;
       return open_slab_store(default_env(), files, config, out);
     }},
    {"SlabEngine", true, 4,
     [](Files& files, const std::string& path, PageStorePtr* out) {
       SlabConfig config = test::slab_config(path, kSharedRoom, kOddPageBytes);
       config.io = SlabConfig::Io::kEngine, config.engine = test::test_engine(files);
       return open_slab_store(default_env(), files, config, out);
     }},
    {"SlabUring", true, 4,
     [](Files& files, const std::string& path, PageStorePtr* out) {
       SlabConfig config = test::slab_config(path, kSharedRoom, kOddPageBytes);
       config.direct = true;
       config.io = SlabConfig::Io::kAuto, config.engine = test::uring();
       return open_slab_store(default_env(), files, config, out);
     }},
    {"Directory", false, 1,
     [](Files& files, const std::string& path, PageStorePtr* out) {
       return open_directory_store(default_env(), files,
                                   test::directory_config(path, kSharedRoom, kOddPageBytes), out);
     }},
};

// What a child has got done, in memory that it shares.
struct Progress {
  std::atomic<uint64_t> puts, removes, going;
};

class Killed : public testing::TestWithParam<KilledKind> {
 protected:
  Killed() {
    progress_ = static_cast<Progress*>(
        mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~Killed() override { munmap(progress_, sizeof(Progress)); }

  // A child puts pages first, first + 1, ... and removes each fourth again, until it is killed.
  pid_t start(const std::string& path, uint64_t first, Fault fault, uint64_t at, uint64_t count) {
    progress_->puts = progress_->removes = progress_->going = 0;
    const pid_t child = fork();
    if (child != 0) return child;
    FaultyFiles files;
    files.set(fault, at);
    PageStorePtr store;
    if (GetParam().open(files, path, &store) != KVC_OK) _exit(3);
    Pages pages(*store);
    const size_t group = GetParam().group;
    for (uint64_t done = 0; done < count; done += group) {
      progress_->going = done + group;
      for (const int32_t result : pages.put_many(first + done, group, kOddPageBytes))
        if (result != KVC_PAGE_OK) _exit(4);
      progress_->puts = done + group;
      for (uint64_t i = done; i < done + group; ++i) {
        if (pages.get(digest_of(first + i), kOddPageBytes) != KVC_PAGE_OK) _exit(5);
        if (i % 4 != 3) continue;
        if (pages.remove(digest_of(first + i)) != KVC_PAGE_OK) _exit(6);
        progress_->removes = i + 1;
      }
    }
    _exit(0);
  }

  // What must be there after a child was killed; kSharedRoom pages are, but the oldest.
  void check(const std::string& path, uint64_t first) {
    PageStorePtr store;
    ASSERT_EQ(GetParam().open(system_files(), path, &store), KVC_OK) << kvc_last_error();
    Pages pages(*store);
    EXPECT_LE(store->stats().pages, kSharedRoom);
    EXPECT_LE(store->stats().bytes, store->stats().capacity_bytes);
    // The latest ones that had ended must be there: the child may have evicted for the one it was writing,
    // and a folder evicts by a clock of some milliseconds.
    const uint64_t puts = progress_->puts;
    for (uint64_t i = 0; i < progress_->going + 4; ++i) {
      const int32_t result = pages.get(digest_of(first + i), kOddPageBytes);
      if (i % 4 == 3 && i < progress_->removes) {
        EXPECT_EQ(result, KVC_PAGE_MISS) << "removed";
      } else if (i % 4 != 3 && i < puts && i + 5 > puts && GetParam().keeps_order) {
        EXPECT_EQ(result, KVC_PAGE_OK) << i << " of " << puts;
      } else if (i >= progress_->going) {
        EXPECT_EQ(result, KVC_PAGE_MISS) << "never put";
      }
    }
    ASSERT_EQ(pages.wrong, 0u);
    for (uint64_t i = 0; i < kSharedRoom; ++i) {
      EXPECT_EQ(pages.put(digest_of(1u << 20 | i), kOddPageBytes), KVC_PAGE_OK);
      EXPECT_EQ(pages.get(digest_of(1u << 20 | i), kOddPageBytes), KVC_PAGE_OK);
    }
  }

  Progress* progress_;
};

// Each child goes on with what the one before has left.
TEST_P(Killed, AtEachSystemCallLosesNothingThatWasPut) {
  uint64_t killed = 0;
  for (const Fault fault : {Fault::kKill, Fault::kKillInWrite}) {
    const test::Folder folder;
    const std::string path = folder / "store";
    for (uint64_t at = 0; at < 130; at += kSparser) {
      SCOPED_TRACE(at);
      const uint64_t first = (static_cast<uint64_t>(fault) * 1000 + at) * 1000;
      const pid_t child = start(path, first, fault, at, 48 * GetParam().group);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0)
          << WEXITSTATUS(status);
      killed += WIFSIGNALED(status);
      check(path, first);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GE(killed, 250 / kSparser);
}

// KVC_TEST_KILLS: how often (250), of each kind.
TEST_P(Killed, AtAnyTimeLosesNothingThatWasPut) {
  const char* given = getenv("KVC_TEST_KILLS");
  const uint64_t kills = given != nullptr ? strtoull(given, nullptr, 0) : 250 / kSparser;
  std::mt19937_64 random(test::test_seed());
  const test::Folder folder;
  const std::string path = folder / "store";
  for (uint64_t i = 0; i < kills; ++i) {
    SCOPED_TRACE(i);
    const uint64_t first = i * 1000000;
    const pid_t child = start(path, first, Fault::kNone, 0, UINT64_MAX);
    const uint64_t until = random() % 24;
    while (progress_->going <= until) {
      int status;
      ASSERT_EQ(waitpid(child, &status, WNOHANG), 0) << "it ended by itself";
      sched_yield();
    }
    for (uint64_t spin = random() % 2000; spin > 0; --spin) asm volatile("");
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    check(path, first);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Killed, testing::ValuesIn(kKilledKinds),
                         [](const auto& at) { return at.param.name; });

TEST(Processes, OneHasASlabAtATime) {
  const test::Folder folder;
  const std::string path = folder / "slab";
  PageStorePtr store;
  ASSERT_EQ(kKilledKinds[0].open(system_files(), path, &store), KVC_OK);
  const auto in_child = [&] {
    const pid_t child = fork();
    if (child == 0) {
      PageStorePtr other;
      _exit(kKilledKinds[0].open(system_files(), path, &other));
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(in_child(), KVC_ERROR_BUSY);
  store.reset();
  EXPECT_EQ(in_child(), KVC_OK);
}

// Forks a process that does `work` and then waits to be killed; returns when the work is done.
pid_t fork_working(const std::function<void()>& work) {
  int ready[2];
  if (pipe(ready) != 0) abort();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // also if a sanitizer ends the test while it is stopped
    work();
    if (::write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  ::close(ready[1]);
  char x;
  EXPECT_EQ(::read(ready[0], &x, 1), 1);
  ::close(ready[0]);
  return child;
}

// Takes the locks of a folder, and keeps them until this process ends.
void lock_folder(const std::string& path) {
  static const test::HeldFolder held(path);
  if (!held.has_all()) _exit(4);
}

void end(pid_t child) {
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

// As a data loader does that outlives the engine which has forked it.
TEST(Processes, AChildThatAnEngineHasForkedKeepsNoLockOfIt) {
  for (const bool is_slab : {true, false}) {
    SCOPED_TRACE(is_slab);
    const test::Folder folder;
    const std::string path = folder / "store";
    const auto open = [&](PageStorePtr* out) {
      return is_slab ? open_slab_store(default_env(), system_files(),
                                       test::slab_config(path, kSharedRoom, kOddPageBytes), out)
                     : open_directory_store(default_env(), system_files(),
                                            test::directory_config(path, kSharedRoom, kOddPageBytes), out);
    };
    auto* const helper = static_cast<std::atomic<pid_t>*>(
        mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    const pid_t engine = fork_working([&] {
      static PageStorePtr store;
      if (open(&store) != KVC_OK) _exit(3);
      if (!is_slab) lock_folder(path);
      if (fork() == 0) {
        *helper = getpid();
        _exit(static_cast<int>(sleep(600)));
      }
      while (*helper == 0) sched_yield();  // until then the child has not come out of fork()
    });
    end(engine);
    PageStorePtr store;
    EXPECT_EQ(open(&store), KVC_OK) << kvc_last_error();
    if (store != nullptr) {
      EXPECT_EQ(Pages(*store).put(digest_of(1), kOddPageBytes), KVC_PAGE_OK);
    }
    if (!is_slab) {
      EXPECT_TRUE(test::HeldFolder(path).has_all()) << "the child has a lock";
    }
    ASSERT_NE(*helper, 0);
    kill(*helper, SIGKILL);  // its parent has ended: init waits for it
    munmap(helper, sizeof(pid_t));
  }
}

// The peer has the locks of all subfolders, which no peer has that is stopped anywhere.
TEST(Processes, OneThatIsStoppedWithTheFolderHoldsUpNobody) {
  const test::Folder folder;
  const std::string path = folder / "pages";
  const std::string url = "dir:" + path + "?bytes=64KiB";
  const auto open = [&](std::unique_ptr<Tier>* tier) {
    ASSERT_EQ(
        open_tier(default_env(), system_files(), url.c_str(), {test::kFingerprint, kOddPageBytes}, {}, tier),
        KVC_OK)
        << kvc_last_error();
  };
  std::unique_ptr<Tier> tier;
  open(&tier);
  const pid_t peer = fork_working([&] { lock_folder(path); });
  ASSERT_EQ(kill(peer, SIGSTOP), 0);
  std::vector<kvc_tier_item> items(8);
  std::vector<char> data(items.size() * kOddPageBytes);
  const auto run = [&](TierJobKind kind, uint64_t first) {
    for (size_t i = 0; i < items.size(); ++i) {
      items[i] = {};
      set_key(&items[i], digest_of(first + i));
      items[i].data = data.data() + i * kOddPageBytes, items[i].bytes = kOddPageBytes;
    }
    TierJob job = {};
    job.kind = kind, job.items = items.data(), job.num_items = items.size();
    uint64_t id = 0;
    TierCompletion done = {};
    EXPECT_EQ(tier->submit(job, &id), KVC_OK);
    tier->drain();  // would never end
    EXPECT_EQ(tier->poll(&done, 1), 1u);
    return done.num_ok;
  };
  for (uint64_t first = 0; first < 80; first += 8) {
    EXPECT_EQ(run(TierJobKind::kPut, first), 8u);
    EXPECT_GE(run(TierJobKind::kExists, first), 1u);
    EXPECT_GE(run(TierJobKind::kGet, first), 1u);
    EXPECT_LE(test::used_by_pages(path).bytes, 65536u) << "the bound holds all the same";
  }
  EXPECT_LE(tier->stats().store.bytes, 65536u);
  EXPECT_EQ(tier->stats().store.failures, 0u);
  tier.reset();
  open(&tier);
  EXPECT_EQ(tier->stats().store.recovered, test::used_by_pages(path).pages);
  EXPECT_GE(run(TierJobKind::kRemove, 72), 1u);
  end(peer);
  EXPECT_EQ(run(TierJobKind::kPut, 100), 8u);
  tier.reset();
  open(&tier);
  EXPECT_EQ(tier->stats().store.bytes, test::used_by_pages(path).bytes);
}

TEST(Processes, ShareAFolderAndItsRoom) {
  const test::Folder folder;
  const std::string path = folder / "pages";
  const DirectoryConfig config = test::directory_config(path, 20, kOddPageBytes);
  constexpr int kProcesses = 4;
  pid_t children[kProcesses];
  for (int p = 0; p < kProcesses; ++p) {
    children[p] = fork();
    if (children[p] != 0) continue;
    PageStorePtr store;
    if (open_directory_store(default_env(), system_files(), config, &store) != KVC_OK) _exit(3);
    Pages pages(*store);
    std::mt19937_64 random(test::test_seed() + static_cast<uint64_t>(p));
    for (int i = 0; i < 500; ++i) {
      const Digest256 key = digest_of(random() % 40);
      const int32_t result = random() % 8 == 0   ? pages.remove(key)
                             : random() % 2 == 0 ? pages.get(key, kOddPageBytes)
                                                 : pages.put(key, kOddPageBytes);
      if (result != KVC_PAGE_OK && result != KVC_PAGE_MISS) _exit(4);
    }
    _exit(pages.wrong == 0 ? 0 : 5);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
    EXPECT_NE(entry.path().extension(), ".part");
  // A page that came while another process had the lock of its subfolder is counted by whoever opens the
  // folder.
  const FolderUsage left = test::used_by_pages(path);
  EXPECT_LE(left.bytes, config.bytes + kProcesses * (config.bytes / 20));
  PageStorePtr store;
  ASSERT_EQ(open_directory_store(default_env(), system_files(), config, &store), KVC_OK);
  const FolderUsage used = test::used_by_pages(path);
  EXPECT_LE(used.bytes, config.bytes);
  EXPECT_EQ(store->stats().bytes, used.bytes);
  EXPECT_EQ(store->stats().pages, used.pages);
}

}  // namespace
}  // namespace kvc
