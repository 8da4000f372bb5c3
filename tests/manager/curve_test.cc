// SPDX-License-Identifier: Apache-2.0
// Miss-ratio curves against the manager itself: what a curve says of a size is what a manager of that size
// does.
#include <gtest/gtest.h>
#include <kvcache/sizing.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "manager/manager_peer.h"

namespace kvc {
namespace {

constexpr uint32_t kBlock = 4;
using Ids = std::vector<int32_t>;

struct Turn {
  Ids prompt, output;
};

// Conversations below one system prompt. No length is a multiple of the block size: a prompt whose last block
// is full computes that block again.
std::vector<Turn> conversations(uint64_t seed, size_t count, size_t num_sessions) {
  std::mt19937_64 random(seed);
  std::vector<Ids> sessions(num_sessions);
  std::vector<Turn> turns(count);
  const auto extend = [&](Ids& ids, size_t most) {
    size_t n = 1 + random() % most;
    if ((ids.size() + n) % kBlock == 0) ++n;
    for (size_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>(random() % 1'000'000));
  };
  for (Turn& turn : turns) {
    Ids& session = sessions[random() % num_sessions];
    if (session.size() > 150 || session.empty()) session = tokens_from(7, 9);
    extend(session, 20);
    turn.prompt = session;
    extend(session, 9);
    turn.output.assign(session.begin() + static_cast<std::ptrdiff_t>(turn.prompt.size()), session.end());
  }
  return turns;
}

class ManagerCurveTest : public ::testing::Test {
 protected:
  kvc_manager_config config(uint64_t num_blocks) {
    kvc_manager_config config = {};
    config.num_blocks = num_blocks;
    config.block_size = kBlock;
    config.max_requests = 8;
    return config;
  }
  void open(kvc_manager* m, uint64_t ns = KVC_ALL_NAMESPACES, double rate = 1, uint64_t max_blocks = 500) {
    const kvc_curve_config curve = {sizeof curve, rate, 0, max_blocks, 0};
    ASSERT_EQ(kvc_manager_open_curve(m, ns, &curve), KVC_OK) << last_error();
  }
  uint64_t admit(kvc_manager* m, const Ids& prompt, uint64_t ns = 0, uint32_t flags = 0) {
    const kvc_prompt tokens = {sizeof tokens, ns, prompt.data(), prompt.size(), nullptr, 0};
    kvc_request_config request = {};
    request.struct_size = sizeof request;
    request.flags = flags;
    uint64_t id = 0;
    EXPECT_EQ(kvc_manager_allocate_request(m, &tokens, &request, &id, nullptr), KVC_OK) << last_error();
    EXPECT_EQ(kvc_manager_commit_tokens(m, id, prompt.size()), KVC_OK);
    return id;
  }
  void run(kvc_manager* m, const Turn& turn, uint64_t ns = 0, uint32_t flags = 0) {
    const uint64_t id = admit(m, turn.prompt, ns, flags);
    uint64_t known = turn.prompt.size();
    for (const int32_t token : turn.output) {
      ASSERT_EQ(kvc_manager_append_tokens(m, id, &token, 1), KVC_OK) << last_error();
      ASSERT_EQ(kvc_manager_commit_tokens(m, id, ++known), KVC_OK);
    }
    ASSERT_EQ(kvc_manager_free_request(m, id), KVC_OK);
  }
  double read(kvc_manager* m, uint64_t blocks, uint64_t ns = KVC_ALL_NAMESPACES) {
    double rate = -1;
    EXPECT_EQ(kvc_manager_read_curve(m, ns, &blocks, 1, &rate), KVC_OK) << last_error();
    return rate;
  }
  kvc_curve_info info(kvc_manager* m, uint64_t ns = KVC_ALL_NAMESPACES) {
    kvc_curve_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_manager_curve_info(m, ns, &info), KVC_OK) << last_error();
    return info;
  }
  kvc_stats stats(kvc_manager* m) {
    kvc_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(kvc_manager_read_stats(m, &stats), KVC_OK);
    return stats;
  }
  double hit_rate(kvc_manager* m) {
    const kvc_stats now = stats(m);
    return static_cast<double>(now.block_hits) / static_cast<double>(now.block_queries);
  }
};

TEST_F(ManagerCurveTest, SaysWhatAManagerOfThatSizeDoes) {
  const auto turns = conversations(1, 500, 10);
  const ManagerOf measured(config(90));
  open(measured.m);
  for (const Turn& turn : turns) run(measured.m, turn);
  EXPECT_EQ(info(measured.m).queries, static_cast<double>(stats(measured.m).block_queries));
  double before = 0;
  for (const uint64_t blocks : {60u, 75u, 90u, 120u, 180u, 250u, 400u}) {
    const ManagerOf real(config(blocks));
    for (const Turn& turn : turns) run(real.m, turn);
    // The last block of a request is never full, so one block of the pool caches nothing.
    EXPECT_DOUBLE_EQ(read(measured.m, blocks - 1), hit_rate(real.m)) << blocks;
    EXPECT_GT(hit_rate(real.m), before) << blocks;
    before = hit_rate(real.m);
  }
}

TEST_F(ManagerCurveTest, ManyTokensAtOnceFeedItAsSingleOnesDo) {
  const auto turns = conversations(2, 60, 4);
  const ManagerOf a(config(300)), b(config(300));
  open(a.m), open(b.m);
  for (const Turn& turn : turns) {
    run(a.m, turn);
    const uint64_t id = admit(b.m, turn.prompt);
    ASSERT_EQ(kvc_manager_append_tokens(b.m, id, turn.output.data(), turn.output.size()), KVC_OK);
    ASSERT_EQ(kvc_manager_commit_tokens(b.m, id, turn.prompt.size() + turn.output.size()), KVC_OK);
    ASSERT_EQ(kvc_manager_free_request(b.m, id), KVC_OK);
  }
  for (const uint64_t blocks : {20u, 50u, 100u, 299u})
    EXPECT_DOUBLE_EQ(read(a.m, blocks), read(b.m, blocks)) << blocks;
}

TEST_F(ManagerCurveTest, NamespacesAreApart) {
  const auto turns = conversations(3, 80, 4);
  const ManagerOf both(config(400)), alone(config(400));
  const kvc_namespace_config tenant = {sizeof tenant, nullptr, nullptr, "t", 0, 0, 1};
  uint64_t ns = 0;
  ASSERT_EQ(kvc_manager_open_namespace(both.m, &tenant, &ns), KVC_OK);
  open(both.m, ns), open(both.m), open(both.m, 0);
  open(alone.m, 0);
  for (const Turn& turn : turns) {
    run(both.m, turn), run(both.m, turn, ns), run(both.m, turn, ns);
    run(alone.m, turn);
  }
  for (const uint64_t blocks : {20u, 60u, 300u}) {
    EXPECT_DOUBLE_EQ(read(both.m, blocks, 0), read(alone.m, blocks, 0));
    EXPECT_GT(read(both.m, blocks, ns), read(both.m, blocks, 0));
    EXPECT_LE(read(both.m, blocks), read(both.m, blocks, ns));
  }
  EXPECT_EQ(info(both.m).queries, info(both.m, ns).queries + info(both.m, 0).queries);
  // Closing the namespace closes its curve, and takes its blocks out of the common one.
  const uint64_t samples = info(both.m).num_samples, own = info(both.m, ns).num_samples;
  const uint64_t bytes = stats(both.m).metadata_bytes;
  ASSERT_EQ(kvc_manager_close_namespace(both.m, ns), KVC_OK) << last_error();
  EXPECT_EQ(info(both.m).num_samples, samples - own);
  EXPECT_LT(stats(both.m).metadata_bytes, bytes);
  double rate;
  const uint64_t one = 1;
  EXPECT_EQ(kvc_manager_read_curve(both.m, ns, &one, 1, &rate), KVC_ERROR_NOT_FOUND);
}

TEST_F(ManagerCurveTest, AdmissionsAgainDoNotCount) {
  const ManagerOf manager(config(100));
  open(manager.m);
  const Ids prompt = tokens_from(1, 21);
  const uint64_t id = admit(manager.m, prompt);
  ASSERT_EQ(kvc_manager_preempt_request(manager.m, id), KVC_OK);
  ASSERT_EQ(kvc_manager_admit_request(manager.m, id, nullptr), KVC_OK);
  EXPECT_EQ(info(manager.m).queries, 5);
  ASSERT_EQ(kvc_manager_free_request(manager.m, id), KVC_OK);
  run(manager.m, {prompt, {}}, 0, KVC_REQUEST_RESUMED);
  EXPECT_EQ(info(manager.m).queries, 5);
  run(manager.m, {prompt, {}});
  EXPECT_EQ(info(manager.m).queries, 10);
  EXPECT_DOUBLE_EQ(read(manager.m, 99), 0.5);
}

TEST_F(ManagerCurveTest, QueriesThatARequestForbidsMissAtEverySize) {
  const ManagerOf manager(config(100));
  open(manager.m);
  const Turn turn = {tokens_from(1, 21), {}};
  run(manager.m, turn);
  run(manager.m, turn, 0, KVC_REQUEST_NO_READ);
  EXPECT_EQ(info(manager.m).queries, 10);
  EXPECT_EQ(read(manager.m, 99), 0);
  run(manager.m, {tokens_from(900, 21), {}}, 0, KVC_REQUEST_NO_WRITE);
  EXPECT_EQ(info(manager.m).num_samples, 5u);  // it stores nothing
}

TEST_F(ManagerCurveTest, AResetEmptiesTheStackAndKeepsTheCounts) {
  const ManagerOf manager(config(100));
  open(manager.m);
  const Turn turn = {tokens_from(1, 21), {}};
  run(manager.m, turn), run(manager.m, turn);
  ASSERT_EQ(kvc_manager_reset_namespace(manager.m, 0), KVC_OK);
  EXPECT_EQ(info(manager.m).num_samples, 0u);
  run(manager.m, turn);
  EXPECT_EQ(info(manager.m).queries, 15);
  EXPECT_EQ(read(manager.m, 99), 5.0 / 15);
  ASSERT_EQ(kvc_manager_reset_all(manager.m), KVC_OK);
  EXPECT_EQ(info(manager.m).num_samples, 0u);
}

TEST_F(ManagerCurveTest, WindowsAreMeasuredAsFullAttention) {
  const kvc_group_config groups[2] = {full_group(), window_group(8)};
  kvc_manager_config two = config(0);
  kvc_pool_config pools[2] = {{sizeof(kvc_pool_config), 200, 0}, {sizeof(kvc_pool_config), 200, 0}};
  kvc_group_config placed[2] = {groups[0], groups[1]};
  placed[1].pool = 1;
  two.groups = placed, two.num_groups = 2, two.pools = pools, two.num_pools = 2;
  const ManagerOf windows(two), full(config(200));
  open(windows.m), open(full.m);
  for (const Turn& turn : conversations(4, 60, 4)) run(windows.m, turn), run(full.m, turn);
  for (const uint64_t blocks : {30u, 100u, 199u})
    EXPECT_DOUBLE_EQ(read(windows.m, blocks), read(full.m, blocks));
}

TEST_F(ManagerCurveTest, ASeedMakesASampleRepeatable) {
  const auto turns = conversations(5, 200, 10);
  double rates[2];
  for (double& rate : rates) {
    const ManagerOf manager(config(300));  // seed 1
    open(manager.m, KVC_ALL_NAMESPACES, 0.25);
    for (const Turn& turn : turns) run(manager.m, turn);
    EXPECT_LT(info(manager.m).sampled, info(manager.m).queries / 2);
    rate = read(manager.m, 100);
  }
  EXPECT_EQ(rates[0], rates[1]);
}

TEST_F(ManagerCurveTest, ItChangesNoStateAndGivesItsMemoryBack) {
  const auto turns = conversations(6, 100, 5);
  const ManagerOf plain(config(80)), measured(config(80));
  const uint64_t bytes = stats(measured.m).metadata_bytes;
  open(measured.m);
  EXPECT_EQ(stats(measured.m).metadata_bytes, bytes + info(measured.m).bytes);
  for (const Turn& turn : turns) run(plain.m, turn), run(measured.m, turn);
  uint64_t a = 0, b = 1;
  ASSERT_EQ(kvc_manager_digest(plain.m, &a), KVC_OK);
  ASSERT_EQ(kvc_manager_digest(measured.m, &b), KVC_OK);
  EXPECT_EQ(a, b);
  ASSERT_EQ(kvc_manager_close_curve(measured.m, KVC_ALL_NAMESPACES), KVC_OK);
  EXPECT_EQ(stats(measured.m).metadata_bytes, stats(plain.m).metadata_bytes);
}

TEST_F(ManagerCurveTest, BadCallsAreRefused) {
  const ManagerOf manager(config(100));
  const auto refused = [&](std::function<void(kvc_curve_config&)> change, kvc_status status,
                           uint64_t ns = KVC_ALL_NAMESPACES) {
    kvc_curve_config curve = {sizeof curve, 0.5, 0, 100, 0};
    change(curve);
    EXPECT_EQ(kvc_manager_open_curve(manager.m, ns, &curve), status) << last_error();
  };
  refused([](auto& c) { c.sample_rate = -0.1; }, KVC_ERROR_INVALID_ARGUMENT);
  refused([](auto& c) { c.sample_rate = 1.1; }, KVC_ERROR_INVALID_ARGUMENT);
  refused([](auto& c) { c.sample_rate = std::nan(""); }, KVC_ERROR_INVALID_ARGUMENT);
  refused([](auto& c) { c.max_samples = (1 << 24) + 1; }, KVC_ERROR_INVALID_ARGUMENT);
  refused([](auto& c) { c.max_blocks = uint64_t{1} << 32; }, KVC_ERROR_INVALID_ARGUMENT);
  refused([](auto&) {}, KVC_ERROR_NOT_FOUND, 12345);
  refused([](auto&) {}, KVC_OK);
  refused([](auto&) {}, KVC_ERROR_BUSY);
  double rates[2] = {-1, -1};
  const uint64_t falling[2] = {5, 4}, large = 101, equal[2] = {5, 5};
  EXPECT_EQ(kvc_manager_read_curve(manager.m, KVC_ALL_NAMESPACES, falling, 2, rates),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_read_curve(manager.m, KVC_ALL_NAMESPACES, &large, 1, rates),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(last_error()), "num_blocks[0] is 101; the curve goes up to 100, its max_blocks");
  EXPECT_EQ(rates[0], -1);
  EXPECT_EQ(kvc_manager_read_curve(manager.m, KVC_ALL_NAMESPACES, equal, 2, rates), KVC_OK);
  EXPECT_EQ(kvc_manager_read_curve(manager.m, KVC_ALL_NAMESPACES, nullptr, 0, nullptr), KVC_OK);
  EXPECT_EQ(kvc_manager_read_curve(manager.m, 0, &large, 1, rates), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_manager_close_curve(manager.m, KVC_ALL_NAMESPACES), KVC_OK);
  EXPECT_EQ(kvc_manager_close_curve(manager.m, KVC_ALL_NAMESPACES), KVC_ERROR_NOT_FOUND);

  kvc_manager_config uncached = config(100);
  uncached.flags = KVC_MANAGER_NO_PREFIX_CACHE;
  const ManagerOf without(uncached);
  const kvc_curve_config curve = {sizeof curve, 0, 0, 0, 0};
  EXPECT_EQ(kvc_manager_open_curve(without.m, KVC_ALL_NAMESPACES, &curve), KVC_ERROR_UNSUPPORTED);
}

TEST_F(ManagerCurveTest, AManagerHas64Curves) {
  const ManagerOf manager(config(100));
  for (int i = 0; i < KVC_MAX_CURVES; ++i) {
    const std::string name = std::to_string(i);
    const kvc_namespace_config tenant = {sizeof tenant, nullptr, nullptr, name.data(), 0, 0, name.size()};
    uint64_t ns = 0;
    ASSERT_EQ(kvc_manager_open_namespace(manager.m, &tenant, &ns), KVC_OK);
    open(manager.m, ns, 0.1, 100);
  }
  const kvc_curve_config curve = {sizeof curve, 0, 0, 0, 0};
  EXPECT_EQ(kvc_manager_open_curve(manager.m, KVC_ALL_NAMESPACES, &curve), KVC_ERROR_LIMIT);
}

TEST_F(ManagerCurveTest, WithoutSettingsTheSamplesAreBounded) {
  const ManagerOf manager(config(100'000));
  const kvc_curve_config curve = {sizeof curve, 0, 0, 0, 0};
  ASSERT_EQ(kvc_manager_open_curve(manager.m, KVC_ALL_NAMESPACES, &curve), KVC_OK);
  const kvc_curve_info now = info(manager.m);
  EXPECT_GE(now.max_blocks, 790'000u);
  EXPECT_NEAR(static_cast<double>(now.max_samples), 16000, 2);
  EXPECT_LT(now.bytes, 1u << 20);
}

}  // namespace
}  // namespace kvc
