// SPDX-License-Identifier: Apache-2.0
// A fixed workload in which each allocation fails in turn, creation included: the call says OUT_OF_MEMORY and
// leaves the state's digest as it was, the same call then succeeds, the end state is that of a run without
// failures, and at the end every byte has gone back.
#include <gtest/gtest.h>
#include <kvcache/external.h>
#include <kvcache/prefix.h>
#include <kvcache/step.h>

#include <functional>
#include <string>
#include <vector>

#include "base/counting_heap.h"
#include "calls.h"
#include "manager/manager_peer.h"

namespace kvc {
namespace {

constexpr size_t kPrompt = 8000;

struct Workload {
  struct Call {
    std::string name;
    std::function<kvc_status()> run;
  };

  Workload() {
    for (uint64_t i = 0; i < kPrompt; i += 2) keys.push_back(key_over(i, 1, static_cast<uint8_t>(i)));
    const auto add = [this](std::string name, std::function<kvc_status()> run) {
      calls.push_back({std::move(name), run});
    };
    for (int i = 0; i < 20; ++i) {
      add("open_namespace", [this, i] {
        const std::string model = std::to_string(i) + std::string(5000, 'm');
        kvc_namespace_config config = {};
        config.struct_size = sizeof config;
        config.model = model.data();
        config.model_size = model.size();
        return kvc_manager_open_namespace(m, &config, &ns);
      });
    }
    add("allocate a", [this] {
      return kvc_manager_allocate_request(m, PROMPT(0, tokens.data(), kPrompt, keys.data(), keys.size()),
                                          nullptr, &a, nullptr);
    });
    add("commit a", [this] { return kvc_manager_commit_tokens(m, a, kPrompt); });
    add("create b", [this] {
      return kvc_manager_create_request(m, PROMPT(ns, tokens.data(), kPrompt, keys.data(), keys.size()),
                                        nullptr, &b);
    });
    add("append to waiting b", [this] { return kvc_manager_append_tokens(m, b, tokens.data(), 3000); });
    add("admit b", [this] { return kvc_manager_admit_request(m, b, nullptr); });
    add("commit b", [this] { return kvc_manager_commit_tokens(m, b, 10500); });
    add("reserve b", [this] { return kvc_manager_reserve_tokens(m, b, 20000); });
    add("truncate b", [this] { return kvc_manager_truncate_request(m, b, 5001); });
    add("append to b", [this] { return kvc_manager_append_tokens(m, b, tokens.data(), 2000); });
    add("commit b", [this] { return kvc_manager_commit_tokens(m, b, 5003); });
    add("fork b", [this] { return kvc_manager_fork_request(m, b, &c); });
    add("append to the fork", [this] { return kvc_manager_append_tokens(m, c, tokens.data(), 5000); });
    add("preempt a", [this] { return kvc_manager_preempt_request(m, a); });
    add("check", [this] { return kvc_manager_check(m); });
    add("pin", [this] {
      uint64_t length;
      return kvc_manager_pin_prefix(m, PROMPT(0, tokens.data(), kPrompt, keys.data(), keys.size()), &pin,
                                    &length);
    });
    add("admit a", [this] { return kvc_manager_admit_request(m, a, nullptr); });
    add("probe", [this] {
      kvc_probe_info info = {};
      info.struct_size = sizeof info;
      return kvc_manager_probe(m, PROMPT(ns, tokens.data(), kPrompt, nullptr, 0), &info);
    });
    add("acquire", [this] { return kvc_manager_acquire_blocks(m, 0, external, 64); });
    add("publish", [this] {
      return kvc_manager_publish_blocks(m, PROMPT(0, tokens.data() + 1, 4000, keys.data(), 1), 0, external,
                                        64);
    });
    add("step_create", [this] {
      kvc_step_limits limits = {};
      limits.struct_size = sizeof limits;
      limits.max_requests = 100;
      limits.max_rows = 100;
      limits.row_stride = 100;
      kvc_step* step;
      const kvc_status status = kvc_step_create(m, &limits, &step);
      if (status == KVC_OK) kvc_step_destroy(step);
      return status;
    });
    add("free c", [this] { return kvc_manager_free_request(m, c); });
    add("preempt b", [this] { return kvc_manager_preempt_request(m, b); });
    add("free a", [this] { return kvc_manager_free_request(m, a); });
    add("append to waiting b again", [this] { return kvc_manager_append_tokens(m, b, tokens.data(), 9000); });
  }

  // The end digest. Failures are expected only while the heap refuses.
  uint64_t run(CountingHeap& heap, uint64_t* refused_calls) {
    kvc_manager_config config = {};
    config.struct_size = sizeof config;
    config.num_blocks = 16000;
    config.block_size = 2;
    config.max_requests = 8;
    config.max_request_tokens = 40000;
    config.event_capacity = 16;
    config.policy = KVC_POLICY_FREQUENCY;  // which takes the most memory
    config.seed = 1;
    kvc_status status = create_manager(&config, heap.env(), &m);
    if (status != KVC_OK) {
      EXPECT_EQ(status, KVC_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(m, nullptr);
      EXPECT_EQ(heap.bytes(), 0u) << "a failed creation keeps nothing";
      ++*refused_calls;
      EXPECT_EQ(create_manager(&config, heap.env(), &m), KVC_OK);
    }
    uint64_t before = 0, after = 0;
    for (const Call& call : calls) {
      EXPECT_EQ(kvc_manager_digest(m, &before), KVC_OK);
      const uint64_t failures = heap.failures();
      status = call.run();
      if (heap.failures() != failures && status != KVC_OK) {
        EXPECT_EQ(status, KVC_ERROR_OUT_OF_MEMORY) << call.name << ": " << last_error();
        EXPECT_EQ(kvc_manager_digest(m, &after), KVC_OK);
        EXPECT_EQ(after, before) << call.name << " failed and changed something";
        EXPECT_EQ(kvc_manager_check(m), KVC_OK) << call.name << ": " << last_error();
        ++*refused_calls;
        status = call.run();
      }
      EXPECT_EQ(status, KVC_OK) << call.name << ": " << last_error();
    }
    EXPECT_EQ(kvc_manager_digest(m, &after), KVC_OK);
    kvc_manager_destroy(m);
    m = nullptr;
    EXPECT_EQ(heap.bytes(), 0u);
    return after;
  }

  kvc_manager* m = nullptr;
  std::vector<Call> calls;
  std::vector<int32_t> tokens = tokens_from(1, 9000);
  std::vector<kvc_extra_key> keys;
  uint64_t ns = 0, a = 0, b = 0, c = 0, pin = 0;
  int32_t external[64] = {};
};

TEST(FailingMemory, EachAllocationMayFailOnceWithoutAnyEffect) {
  uint64_t reference, allocations, refused = 0;
  {
    CountingHeap heap;
    reference = Workload().run(heap, &refused);
    allocations = heap.calls();
    ASSERT_EQ(refused, 0u);
  }
  ASSERT_GT(allocations, 40u) << "the workload allocates too little to show anything";
  for (uint64_t k = 0; k < allocations; ++k) {
    CountingHeap heap;
    heap.fail_after(k);
    EXPECT_EQ(Workload().run(heap, &refused), reference) << "allocation " << k;
    EXPECT_EQ(heap.failures(), 1u);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(refused, allocations / 2);
}

// An append that answers KVC_OK has given every known token a slot, however the allocator behaved meanwhile.
TEST(FailingMemory, AnAppendWhoseTailCannotGrowIsRefusedAndNotHalfDone) {
  CountingHeap heap;
  Workload work;
  kvc_manager_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = 20000;
  config.block_size = 1;
  config.max_requests = 2;
  config.seed = 1;
  ASSERT_EQ(create_manager(&config, heap.env(), &work.m), KVC_OK);
  uint64_t id = 0;
  ASSERT_EQ(kvc_manager_allocate_request(work.m, PROMPT(0, nullptr, 0, nullptr, 0), nullptr, &id, nullptr),
            KVC_OK);
  uint64_t refused = 0;
  for (int i = 0; i < 2000; ++i) {
    heap.fail_after(0);
    kvc_status status = kvc_manager_append_tokens(work.m, id, work.tokens.data(), 9);
    refused += status != KVC_OK;
    if (status != KVC_OK) {
      ASSERT_EQ(status, KVC_ERROR_OUT_OF_MEMORY);
      status = kvc_manager_append_tokens(work.m, id, work.tokens.data(), 9);
    }
    ASSERT_EQ(status, KVC_OK) << last_error();
    kvc_request_info info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(kvc_manager_request_info(work.m, id, &info), KVC_OK);
    ASSERT_EQ(info.num_tokens, 9u * (static_cast<uint64_t>(i) + 1));
    ASSERT_EQ(info.capacity, info.num_tokens) << "known tokens without slots";
  }
  EXPECT_GT(refused, 0u);
  kvc_manager_destroy(work.m);
}

}  // namespace
}  // namespace kvc
