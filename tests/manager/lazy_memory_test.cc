// SPDX-License-Identifier: Apache-2.0
// A manager takes memory from the system at creation up to a bound, then when it first uses it, and works
// beyond what it has used so far.
#include <gtest/gtest.h>
#include <kvcache/events.h>
#include <kvcache/external.h>
#include <kvcache/fills.h>
#include <kvcache/prefix.h>
#include <kvcache/quota.h>
#include <kvcache/record.h>
#include <kvcache/resize.h>
#include <kvcache/retention.h>
#include <kvcache/sizing.h>
#include <kvcache/step.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <numeric>
#include <vector>

#include "calls.h"
#include "manager/manager_peer.h"

namespace {
bool has_advice = true;
}

// As a system that knows no huge pages.
extern "C" __attribute__((visibility("default"))) int madvise(void* memory, size_t size,
                                                              int advice) noexcept {
  if (has_advice) return static_cast<int>(syscall(SYS_madvise, memory, size, advice));
  errno = EINVAL;
  return -1;
}

namespace kvc {
namespace {

class WithoutAdvice {
 public:
  WithoutAdvice() { has_advice = false; }
  WithoutAdvice(const WithoutAdvice&) = delete;
  WithoutAdvice& operator=(const WithoutAdvice&) = delete;
  ~WithoutAdvice() { has_advice = true; }
};

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

kvc_stats stats_of(kvc_manager* m) {
  kvc_stats stats = {};
  stats.struct_size = sizeof stats;
  EXPECT_EQ(kvc_manager_read_stats(m, &stats), KVC_OK);
  return stats;
}

// What a manager of so many blocks has of the system at creation, in parts of all that it may have.
double resident_part(uint64_t num_blocks, uint32_t flags = 0) {
  kvc_manager_config config = {};
  config.num_blocks = num_blocks, config.seed = 1, config.flags = flags;
  const uint64_t before = resident_bytes();
  const ManagerOf made(config);
  const uint64_t after = resident_bytes();
  return static_cast<double>(after - before) / static_cast<double>(stats_of(made.m).metadata_bytes);
}

// With 4 million blocks: the hash table, 32 MiB, and 64 MiB of each array, of 704 MiB.
TEST(LazyMemory, APoolBeginsWithTheFirstPartOfItsArrays) {
  EXPECT_GT(resident_part(300'000), 0.9);
  EXPECT_GT(resident_part(4'000'000), 0.25);
  EXPECT_LT(resident_part(4'000'000), 0.4);
}

TEST(LazyMemory, AllOfItIsTouchedIfAsked) {
  EXPECT_GT(resident_part(2'000'000, KVC_MANAGER_TOUCH_MEMORY), 0.9);
}

TEST(LazyMemory, NoHugePagesAreNeeded) {
  const WithoutAdvice without;
  EXPECT_GT(resident_part(300'000), 0.9);
  EXPECT_LT(resident_part(4'000'000), 0.4);
}

// The calls that first publish into a pool take nothing from the system.
TEST(LazyMemory, FirstUseOfAPoolTouchesNothing) {
  kvc_manager_config config = {};
  config.num_blocks = 300'000, config.seed = 1;
  const ManagerOf made(config);
  std::vector<int32_t> tokens(16'384);
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto publish = [&](int32_t first) {
    tokens[0] = first;
    uint64_t id = 0;
    ASSERT_EQ(kvc_manager_allocate_request(made.m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0),
                                           nullptr, &id, nullptr),
              KVC_OK);
    ASSERT_EQ(kvc_manager_commit_tokens(made.m, id, tokens.size()), KVC_OK);
    ASSERT_EQ(kvc_manager_free_request(made.m, id), KVC_OK);
  };
  publish(0);
  const uint64_t before = resident_bytes();
  for (int32_t i = 1; i < 290; ++i) publish(i);
  EXPECT_LT(resident_bytes() - before, 4u << 20) << "of 50 MiB";
  EXPECT_GT(stats_of(made.m).published_blocks, 290'000u);
}

// With the largest curves, ring and log no call touches more of them than what they hold.
TEST(LazyMemory, NoCallWalksWhatACurveTheRingOrTheLogCouldHold) {
  kvc_manager_config config = {};
  config.num_blocks = 40, config.max_blocks = 60, config.block_size = 4, config.seed = 1;
  config.event_capacity = 1 << 24, config.record_bytes = uint64_t{1} << 32, config.max_quotas = 2;
  config.flags = KVC_MANAGER_HINTS | KVC_MANAGER_FILLS | KVC_MANAGER_HEADROOM | KVC_MANAGER_PARTIAL_REUSE |
                 KVC_MANAGER_ZERO_CROSS_NAMESPACE;
  const ManagerOf large(config);
  kvc_manager* const m = large.m;
  uint64_t ns = 0;
  kvc_namespace_config tenant = {};
  tenant.struct_size = sizeof tenant, tenant.tenant = "a", tenant.tenant_size = 1;
  ASSERT_EQ(kvc_manager_open_namespace(m, &tenant, &ns), KVC_OK);
  kvc_curve_config curve = {};
  curve.struct_size = sizeof curve, curve.sample_rate = 1,
  curve.max_blocks = 1 << 24;  // as many samples: the most
  for (const uint64_t of : {uint64_t{KVC_ALL_NAMESPACES}, ns, uint64_t{0}})
    ASSERT_EQ(kvc_manager_open_curve(m, of, &curve), KVC_OK) << kvc_last_error();
  const uint64_t before = resident_bytes();
  std::vector<int32_t> tokens(30);
  std::iota(tokens.begin(), tokens.end(), 0);
  std::vector<kvc_event> events(8);
  std::vector<unsigned char> log(1 << 16);
  uint64_t now = 0;
  for (int round = 0; round < 3; ++round) {
    for (const uint64_t of : {uint64_t{0}, ns}) {
      uint64_t id = 0, other = 0, pin = 0, count = 0, cursor = 0, at = 0;
      size_t size = 0;
      int32_t blocks[8];
      uint64_t ids[8];
      kvc_block_copy copies[64];
      kvc_pending_work work = {sizeof work, copies, 64, 0, nullptr, 0, 0};
      std::vector<int32_t> zeros(64);
      work.zero_blocks = zeros.data(), work.zero_capacity = zeros.size();
      const auto prompt = PROMPT(of, tokens.data(), tokens.size(), nullptr, 0);
      ASSERT_EQ(kvc_manager_allocate_request(m, prompt, nullptr, &id, nullptr), KVC_OK);
      ASSERT_EQ(kvc_manager_commit_tokens(m, id, tokens.size()), KVC_OK);
      ASSERT_EQ(kvc_manager_pin_prefix(m, prompt, &pin, &count), KVC_OK);
      ASSERT_EQ(kvc_manager_preempt_request(m, id), KVC_OK);
      ASSERT_EQ(kvc_manager_admit_request(m, id, &count), KVC_OK);
      ASSERT_EQ(kvc_manager_truncate_request(m, id, 5), KVC_OK);
      kvc_probe_info probe = {};
      probe.struct_size = sizeof probe;
      ASSERT_EQ(kvc_manager_probe(m, prompt, &probe), KVC_OK);
      ASSERT_EQ(kvc_manager_append_tokens(m, id, tokens.data(), 9), KVC_OK);
      ASSERT_EQ(kvc_manager_reserve_tokens(m, id, 20), KVC_OK);
      ASSERT_EQ(kvc_manager_commit_tokens(m, id, 14), KVC_OK);
      ASSERT_EQ(kvc_manager_fork_request(m, id, &other), KVC_OK);
      ASSERT_EQ(kvc_manager_append_tokens(m, other, tokens.data(), 1), KVC_OK);
      ASSERT_EQ(kvc_manager_take_pending(m, &work), KVC_OK);
      ASSERT_EQ(kvc_manager_set_priority(m, id, 0, 8, 50, 0), KVC_OK);
      ASSERT_EQ(kvc_manager_end_session(m, other, 0), KVC_OK);
      ASSERT_EQ(kvc_manager_list_requests(m, ids, 8, &size), KVC_OK);
      ASSERT_EQ(kvc_manager_free_request(m, other), KVC_OK);
      ASSERT_EQ(kvc_manager_free_request(m, id), KVC_OK);
      ASSERT_EQ(kvc_manager_unpin_prefix(m, pin), KVC_OK);
      ASSERT_EQ(kvc_manager_set_time(m, ++now), KVC_OK);
      ASSERT_EQ(kvc_manager_set_prefix_priority(m, prompt, 0, 60, now + 1, &count), KVC_OK);
      ASSERT_EQ(kvc_manager_set_prefix_priority(m, prompt, 8, KVC_PRIORITY_DEMOTED, 0, &count), KVC_OK);
      ASSERT_EQ(kvc_manager_register_prompt(m, "p", prompt, &count), KVC_OK);
      ASSERT_EQ(kvc_manager_allocate_from_prompt(m, "p", tokens.data(), 3, nullptr, &id, &count), KVC_OK);
      ASSERT_EQ(kvc_manager_free_request(m, id), KVC_OK);
      ASSERT_EQ(kvc_manager_unregister_prompt(m, "p"), KVC_OK);
      ASSERT_EQ(kvc_manager_acquire_prefix(m, prompt, 0, blocks, 8, &size), KVC_OK);
      ASSERT_EQ(kvc_manager_release_blocks(m, blocks, size), KVC_OK);
      ASSERT_EQ(kvc_manager_acquire_blocks(m, 0, blocks, 2), KVC_OK);
      const auto own = PROMPT(of, tokens.data() + 5, 8, nullptr, 0);
      ASSERT_EQ(kvc_manager_publish_blocks(m, own, 0, blocks, 2), KVC_OK) << kvc_last_error();
      ASSERT_EQ(kvc_manager_unpublish_blocks(m, blocks, 1, &count), KVC_OK);
      ASSERT_EQ(kvc_manager_release_blocks(m, blocks, 2), KVC_OK);
      ASSERT_EQ(kvc_manager_take_pending(m, &work), KVC_OK);
      ASSERT_EQ(kvc_manager_set_quota(m, ns, 0, 4, 40), KVC_OK);
      ASSERT_EQ(kvc_manager_compact(m, 0, copies, 64, &size), KVC_OK) << kvc_last_error();
      ASSERT_EQ(kvc_manager_resize(m, 0, 50 + now % 2, copies, 64, &size), KVC_OK) << kvc_last_error();
      ASSERT_EQ(kvc_manager_evict_blocks(m, -1, 2, &size), KVC_OK);
      ASSERT_EQ(kvc_manager_drop_prefix(m, prompt, &count), KVC_OK);
      kvc_event_batch batch = {sizeof batch, events.data(), sizeof(kvc_event), events.size(), 0, nullptr, 0};
      ASSERT_EQ(kvc_manager_poll_events(m, &cursor, &batch), KVC_OK);
      cursor = 0;
      ASSERT_EQ(kvc_manager_list_prefixes(m, &cursor, &at, &batch), KVC_OK);
      ASSERT_EQ(kvc_manager_take_log(m, log.data(), log.size(), &size), KVC_OK);
      kvc_curve_info info = {};
      info.struct_size = sizeof info;
      ASSERT_EQ(kvc_manager_curve_info(m, of, &info), KVC_OK);
      double rate = 0;
      ASSERT_EQ(kvc_manager_read_curve(m, of, &info.max_blocks, 1, &rate), KVC_OK);
      kvc_step step = {};
      step.struct_size = sizeof step;
      ASSERT_EQ(kvc_manager_step(m, &step), KVC_OK);
      ASSERT_EQ(kvc_manager_fail_step(m, step.step_id, ids, 8, &size), KVC_OK);
      ASSERT_EQ(kvc_manager_retire_step(m, step.step_id), KVC_OK);
    }
    for (const uint64_t of : {ns, uint64_t{0}}) ASSERT_EQ(kvc_manager_reset_namespace(m, of), KVC_OK);
    for (int twice = 0; twice < 2; ++twice) ASSERT_EQ(kvc_manager_reset_all(m), KVC_OK);
    ASSERT_EQ(kvc_manager_check(m), KVC_OK) << kvc_last_error();
  }
  constexpr uint64_t kSome = 64u << 20;  // some large pages, while a curve has 1.2 GB
  EXPECT_LT(resident_bytes() - before, kSome);
  ASSERT_EQ(kvc_manager_close_namespace(m, ns), KVC_OK);
  EXPECT_LT(resident_bytes() - before, kSome);
  ASSERT_EQ(kvc_manager_close_curve(m, KVC_ALL_NAMESPACES), KVC_OK);
}

// Whether a part of the state was never used is no part of the state.
TEST(LazyMemory, NothingElseDependsOnWhatWasUsed) {
  kvc_manager_config config = {};
  config.num_blocks = 3000, config.seed = 1, config.block_size = 1;
  config.max_blocks = 4'000'000,
  config.max_nodes = 4000;  // so creation prepares 1,572 blocks and 786 positions
  const ManagerOf a(config);
  ASSERT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
  kvc_block_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_manager_block_info(a.m, 2999, &info), KVC_OK);
  EXPECT_EQ(info.state, uint32_t{KVC_BLOCK_FREE});
  EXPECT_EQ(info.group, -1);
  EXPECT_EQ(info.published, 0u);
  const int32_t last = 2999;
  uint64_t unpublished = 7;
  EXPECT_EQ(kvc_manager_unpublish_blocks(a.m, &last, 1, &unpublished), KVC_OK);
  EXPECT_EQ(unpublished, 0u);
  EXPECT_EQ(kvc_manager_release_blocks(a.m, &last, 1), KVC_ERROR_NOT_HELD);

  uint64_t fresh = 0, used = 0;
  ASSERT_EQ(kvc_manager_digest(a.m, &fresh), KVC_OK);
  std::vector<int32_t> tokens(2500), row(2500);
  std::iota(tokens.begin(), tokens.end(), 0);
  uint64_t request = 0;
  ASSERT_EQ(kvc_manager_allocate_request(a.m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                         &request, nullptr),
            KVC_OK);
  ASSERT_EQ(kvc_manager_export_tables(a.m, &request, 1, 0, -1, row.data(), row.size()), KVC_OK);
  EXPECT_EQ(row, tokens) << "blocks in the order of their ids";
  ASSERT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_manager_commit_tokens(a.m, request, tokens.size()), KVC_OK);
  ASSERT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
  EXPECT_EQ(stats_of(a.m).published_blocks, 2500u);
  ASSERT_EQ(kvc_manager_free_request(a.m, request), KVC_OK);
  size_t moves = 0;
  ASSERT_EQ(kvc_manager_compact(a.m, 0, nullptr, 0, &moves), KVC_OK);
  ASSERT_EQ(kvc_manager_digest(a.m, &used), KVC_OK);
  EXPECT_NE(fresh, used);
  ASSERT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
}

}  // namespace
}  // namespace kvc
