// SPDX-License-Identifier: Apache-2.0
// The plug-in "uring", and slabs on systems that have no io_uring, forbid it, or take it away meanwhile: they
// give the same results. And in which order a slab writes.
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstddef>
#include <functional>
#include <utility>

#include "stores.h"
#include "tier/open_tier.h"
#include "tier/slab_format.h"

namespace kvc {
namespace {

using test::digest_of;
using test::Pages;

constexpr size_t kBytes = 8192;

class Uring : public testing::Test {
 protected:
  void SetUp() override {
    if (test::uring() == nullptr) GTEST_SKIP() << "there is no io_uring: " << kvc_last_error();
  }
};

TEST_F(Uring, MovesEachOperationAndTellsWhichFailed) {
  const kvc_io_engine* engine = test::uring();
  const test::Folder folder;
  const int file = open((folder / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  void* queue = nullptr;
  ASSERT_EQ(engine->open(8, &queue), KVC_OK) << kvc_last_error();
  char from[8][64], to[8][64];
  for (int round = 0; round < 100; ++round) {
    kvc_io io[8];
    for (uint32_t i = 0; i < 8; ++i) {
      std::memset(from[i], round + static_cast<int>(i), sizeof from[i]);
      io[i] = {from[i], 64, i * 64, 0, i == 3 ? -1 : file, 1};
    }
    engine->transfer(queue, io, 8);
    for (uint32_t i = 0; i < 8; ++i) {
      EXPECT_EQ(io[i].result, i == 3 ? -EBADF : 64);
      io[i] = {to[i], 64, i == 7 ? 7 * 64 + 32 : i * 64, 0, file, 0};
    }
    engine->transfer(queue, io, 8);
    for (uint32_t i = 0; i < 8; ++i) {
      EXPECT_EQ(io[i].result, i == 7 ? 32 : 64) << "the file ends";
      if (i == 3) continue;
      EXPECT_EQ(std::memcmp(from[i], to[i], i == 7 ? 32 : 64), 0);
    }
  }
  kvc_io many[9];
  for (uint32_t i = 0; i < 9; ++i) many[i] = {to[0], 1, 0, 0, file, 0};
  engine->transfer(queue, many, 9);
  EXPECT_EQ(many[7].result, 1);
  EXPECT_EQ(many[8].result, -EAGAIN) << "more than its depth";
  engine->close(queue);
  close(file);
}

TEST_F(Uring, RefusesADepthThatIsNone) {
  void* queue = nullptr;
  EXPECT_EQ(test::uring()->open(0, &queue), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(test::uring()->open(1u << 20, &queue), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("1 to 4096"), std::string::npos) << kvc_last_error();
}

// From here on this process cannot make this system call.
void forbid(uint32_t call, uint32_t error) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof code / sizeof code[0], code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(77);
}

// Runs it in a child. False: the system cannot forbid calls.
bool in_child(const std::function<bool()>& test) {
  const pid_t child = fork();
  if (child == 0) _exit(test() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return false;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "in the child";
  return true;
}

kvc_status open_slab_url(const std::string& path, const char* parameters, std::unique_ptr<Tier>* out) {
  const std::string url = "slab:" + path + "?bytes=1MiB&threads=0" + parameters;
  return open_tier(default_env(), system_files(), url.c_str(), {test::kFingerprint, kBytes}, {}, out);
}

bool puts_and_gets(Tier& tier) {
  std::vector<std::vector<char>> pages;
  std::vector<kvc_tier_item> items(20);
  for (uint64_t i = 0; i < items.size(); ++i) {
    pages.push_back(test::page_of(digest_of(i), kBytes));
    set_key(&items[i], digest_of(i)), items[i].data = pages[i].data(), items[i].bytes = kBytes;
  }
  for (const TierJobKind kind : {TierJobKind::kPut, TierJobKind::kGet}) {
    TierJob job = {};
    job.kind = kind, job.items = items.data(), job.num_items = items.size();
    uint64_t id;
    if (kind == TierJobKind::kGet)
      for (auto& page : pages) std::fill(page.begin(), page.end(), 0);
    if (tier.submit(job, &id) != KVC_OK) return false;
    tier.drain();
    for (const kvc_tier_item& item : items)
      if (item.result != KVC_PAGE_OK) return false;
  }
  for (uint64_t i = 0; i < items.size(); ++i)
    if (pages[i] != test::page_of(digest_of(i), kBytes)) return false;
  return tier.stats().store.failures == 0;
}

TEST_F(Uring, ThatIsForbiddenLeavesTheSameResultsWithOneWarning) {
  struct Case {
    uint32_t call, error;
  };
  for (const Case& c : {Case{SYS_io_uring_setup, EPERM}, Case{SYS_io_uring_setup, ENOSYS},
                        Case{SYS_io_uring_setup, ENOMEM}, Case{SYS_io_uring_enter, EPERM}}) {
    SCOPED_TRACE(std::to_string(c.call) + " " + strerror(static_cast<int>(c.error)));
    const test::Folder folder;
    const bool can = in_child([&] {
      std::unique_ptr<Tier> tier;
      forbid(c.call, c.error);
      if (open_slab_url(folder / "slab", "&direct=1&io=uring", &tier) == KVC_OK) return false;
      const std::string text = kvc_last_error();
      if (text.find("io=threads") == std::string::npos) return false;
      if (open_slab_url(folder / "slab", "&direct=1", &tier) != KVC_OK) return false;
      if (tier->stats().store.uses_uring || tier->stats().store.fallbacks != 1) return false;
      return puts_and_gets(*tier) && tier->stats().store.fallbacks == 1;
    });
    if (!can) GTEST_SKIP() << "no seccomp";
  }
}

TEST_F(Uring, ThatIsTakenAwayLeavesTheSameResults) {
  const test::Folder folder;
  const bool can = in_child([&] {
    std::unique_ptr<Tier> tier;
    if (open_slab_url(folder / "slab", "&direct=1&io=uring", &tier) != KVC_OK) return false;
    if (!tier->stats().store.uses_uring) return false;
    forbid(SYS_io_uring_enter, EPERM);
    return puts_and_gets(*tier) && tier->stats().store.fallbacks > 0;
  });
  if (!can) GTEST_SKIP() << "no seccomp";
}

// From here on the limits of locked memory bind this process too, whoever started it.
bool give_up_ipc_lock() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, sets) != 0) return false;
  sets[0].effective &= ~(1u << CAP_IPC_LOCK);
  return syscall(SYS_capset, &header, sets) == 0;
}

// Some versions of Linux count a ring, without any buffer, as locked memory.
bool rings_are_locked_memory() {
  io_uring_params parameters = {};
  const long ring = syscall(SYS_io_uring_setup, 32, &parameters);
  if (ring >= 0) close(static_cast<int>(ring));
  return ring < 0 && errno == ENOMEM;
}

TEST_F(Uring, WithoutLockedMemoryWorksOrSaysWhatToRaise) {
  const test::Folder folder;
  in_child([&] {
    const rlimit none = {0, 0};
    std::unique_ptr<Tier> tier;
    if (!give_up_ipc_lock() || setrlimit(RLIMIT_MEMLOCK, &none) != 0) return false;
    const bool refused = rings_are_locked_memory();
    const kvc_status status = open_slab_url(folder / "slab", "&direct=1&io=uring", &tier);
    if (!refused) return status == KVC_OK && puts_and_gets(*tier);
    const std::string text = kvc_last_error();
    if (status != KVC_ERROR_OUT_OF_MEMORY || text.find("RLIMIT_MEMLOCK (it is 0 bytes") == std::string::npos)
      return false;
    return open_slab_url(folder / "slab", "&direct=1", &tier) == KVC_OK && !tier->stats().store.uses_uring &&
           tier->stats().store.fallbacks == 1 && puts_and_gets(*tier);
  });
}

TEST_F(Uring, DoesWhatThreadsDo) {
  for (const char* parameters :
       {"&direct=1&io=uring", "&direct=1&io=threads", "&io=uring", "&io=threads", ""}) {
    const test::Folder folder;
    std::unique_ptr<Tier> tier;
    ASSERT_EQ(open_slab_url(folder / "slab", parameters, &tier), KVC_OK) << kvc_last_error();
    EXPECT_EQ(tier->stats().store.uses_uring, strstr(parameters, "uring") != nullptr) << parameters;
    EXPECT_TRUE(puts_and_gets(*tier)) << parameters;
  }
}

TEST(SlabIoParameter, IsNamedIfItIsWrong) {
  const test::Folder folder;
  std::unique_ptr<Tier> tier;
  EXPECT_EQ(open_slab_url(folder / "slab", "&io=magic", &tier), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("io is 'magic'; it is auto, uring or threads"),
            std::string::npos)
      << kvc_last_error();
  const std::string url = "dir:" + (folder / "pages") + "?bytes=1MiB&io=uring";
  EXPECT_EQ(open_tier(default_env(), system_files(), url.c_str(), {test::kFingerprint, kBytes}, {}, &tier),
            KVC_ERROR_INVALID_ARGUMENT);
}

TEST(SlabEngine, ThatDoesNotOpenIsAWarningOrAnError) {
  const test::Folder folder;
  const std::string path = folder / "slab";
  SlabConfig config = test::slab_config(path, 4, kBytes);
  config.direct = true;
  config.io = SlabConfig::Io::kAuto, config.engine = test::test_engine(system_files());
  PageStorePtr store;
  for (const kvc_status status : {KVC_ERROR_OUT_OF_MEMORY, KVC_ERROR_UNSUPPORTED, KVC_OK}) {
    test::engine_status = status;
    test::engine_flags = 0;
    ASSERT_EQ(open_slab_store(default_env(), system_files(), config, &store), KVC_OK) << kvc_last_error();
    EXPECT_EQ(store->stats().uses_uring, status == KVC_OK);
    EXPECT_EQ(store->stats().fallbacks, status == KVC_OK ? 0u : 1u);
    Pages pages(*store);
    EXPECT_EQ(pages.put(digest_of(1), kBytes), KVC_PAGE_OK);
    EXPECT_EQ(pages.get(digest_of(1), kBytes), KVC_PAGE_OK);
    EXPECT_EQ(test::engine_flags & O_NONBLOCK, 0) << "io_uring would not wait";
    store.reset();
  }
  config.io = SlabConfig::Io::kEngine;
  for (const int status : {int{KVC_ERROR_OUT_OF_MEMORY}, 4711, -1}) {
    test::engine_status = static_cast<kvc_status>(status);
    EXPECT_EQ(open_slab_store(default_env(), system_files(), config, &store),
              status == KVC_ERROR_OUT_OF_MEMORY ? KVC_ERROR_OUT_OF_MEMORY : KVC_ERROR_DEVICE);
  }
  test::engine_status = KVC_OK;
}

// What is written, in order: z = zeroes over a header, h = a header, p = a payload, each with its slot; s =
// sync.
struct ToldFiles final : Files {
  SlabHeader slab = {};
  std::string told;
  int64_t write(int file, const void* data, size_t size, uint64_t offset) override {
    if (offset >= slab.payloads_at && slab.stride != 0) {
      told += " p" + std::to_string((offset - slab.payloads_at) / slab.stride);
    } else if (offset >= slab.headers_at && slab.stride != 0) {
      static constexpr RecordHeader kNone = {};
      for (size_t at = 0; at < size; at += sizeof kNone)
        told += (std::memcmp(static_cast<const char*>(data) + at, &kNone, sizeof kNone) == 0 ? " z" : " h") +
                std::to_string((offset + at - slab.headers_at) / sizeof kNone);
      told += ";";
    }
    return Files::write(file, data, size, offset);
  }
  int sync(int) override {
    told += " s";
    return 0;
  }
};

TEST(SlabOrder, IsClearThenPayloadThenHeader) {
  for (const bool engine : {false, true}) {
    const test::Folder folder;
    const std::string path = folder / "slab";
    ToldFiles files;
    SlabConfig config = test::slab_config(path, 4, kBytes);
    config.sync = true;
    config.io = engine ? SlabConfig::Io::kEngine : SlabConfig::Io::kThreads;
    config.engine = test::test_engine(files);
    const auto take = [&] { return std::exchange(files.told, ""); };
    PageStorePtr store;
    ASSERT_EQ(open_slab_store(default_env(), files, config, &store), KVC_OK) << kvc_last_error();
    EXPECT_EQ(take(), " s s") << "the file and its name";
    files.slab = make_slab(config.bytes, config.page_bytes);
    const std::string payloads = engine ? " p3 p2 p1 p0" : " p0 p1 p2 p3";
    Pages pages(*store);
    pages.put_many(0, 4, kBytes);
    EXPECT_EQ(take(), payloads + " s h0 h1 h2 h3; s") << "nothing is to be cleared";
    pages.put_many(4, 4, kBytes);
    EXPECT_EQ(take(), " z0 z1 z2 z3; s" + payloads + " s h0 h1 h2 h3; s");
    for (const uint64_t i : {4, 6}) EXPECT_EQ(pages.remove(digest_of(i)), KVC_PAGE_OK);
    EXPECT_EQ(take(), " z0; z2;");
    pages.put_many(8, 2, kBytes);
    EXPECT_EQ(take(), (engine ? " p0 p2" : " p2 p0") + std::string(" s h0; h2; s"));
    store.reset();
    ASSERT_EQ(open_slab_store(default_env(), files, config, &store), KVC_OK) << kvc_last_error();
    take();
    Pages(*store).put_many(10, 4, kBytes);
    EXPECT_EQ(take().rfind(" z0 z1 z2 z3; s p", 0), 0u) << "what was there before is cleared, too";
  }
}

// The same page twice in a batch, more pages than slots, and a page that is removed twice.
TEST(SlabBatch, IsWhatItsItemsAreOneByOne) {
  const test::Folder folder;
  const std::string path = folder / "slab";
  PageStorePtr store;
  ASSERT_EQ(open_slab_store(default_env(), system_files(), test::slab_config(path, 4, kBytes), &store),
            KVC_OK);
  ASSERT_GT(store->batch(), 10u);
  const uint64_t numbers[] = {1, 2, 1, 3, 4, 5, 6, 5, 7};
  std::vector<std::vector<char>> pages;
  std::vector<kvc_tier_item> items(std::size(numbers));
  for (size_t i = 0; i < items.size(); ++i) {
    pages.push_back(test::page_of(digest_of(numbers[i]), kBytes));
    set_key(&items[i], digest_of(numbers[i])), items[i].data = pages[i].data(), items[i].bytes = kBytes;
  }
  store->put({0, 0, 0}, items.data(), items.size());
  for (const kvc_tier_item& item : items) EXPECT_EQ(item.result, KVC_PAGE_OK);
  EXPECT_EQ(store->stats().evictions, 3u);
  EXPECT_EQ(store->stats().pages, 4u);
  store->get({0, 0, 0}, items.data(), items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_EQ(items[i].result, numbers[i] <= 3 ? KVC_PAGE_MISS : KVC_PAGE_OK) << numbers[i];
    EXPECT_EQ(pages[i], test::page_of(digest_of(numbers[i]), kBytes));
  }
  store->remove({0, 0, 0}, &items[5], 3);
  EXPECT_EQ(items[5].result, KVC_PAGE_OK);
  EXPECT_EQ(items[6].result, KVC_PAGE_OK);
  EXPECT_EQ(items[7].result, KVC_PAGE_MISS) << "it is removed already";
}

}  // namespace
}  // namespace kvc
