// SPDX-License-Identifier: Apache-2.0
// Requests with encoders in which each allocation fails in turn: the call says OUT_OF_MEMORY and changes
// nothing, and the same call then succeeds.
#include <functional>

#include "base/counting_heap.h"
#include "cross/scene.h"

namespace kvc::test {
namespace {

// The end digest.
uint64_t run(CountingHeap& heap, uint64_t* refused) {
  kvc_manager_config shape = {};
  shape.num_blocks = 30000, shape.max_requests = 8, shape.event_capacity = 16;
  uint64_t after = 0;
  {
    Decoder d(shape, 2, heap.env());
    if (d.m == nullptr) return ++*refused, 0;
    const std::vector<int32_t> tokens = tokens_from(1, 4000);
    const kvc_request_config config = hearing(1, 9000);
    const kvc_request_config last = hearing(0, 12000);
    uint64_t a = 0, b = 0, c = 0, p = 0;
    const std::vector<std::function<kvc_status()>> calls = {
        [&] {
          return kvc_manager_allocate_request(d.m, PROMPT(0, tokens.data(), 4000, nullptr, 0), &config, &a,
                                              nullptr);
        },
        [&] { return kvc_manager_commit_tokens(d.m, a, 4000); },
        [&] { return kvc_manager_fork_request(d.m, a, &c); },
        [&] {
          return kvc_manager_create_request(d.m, PROMPT(0, tokens.data(), 3000, nullptr, 0), &config, &b);
        },
        [&] { return kvc_manager_admit_request(d.m, b, nullptr); },
        [&] { return kvc_manager_append_tokens(d.m, c, tokens.data(), 4000); },
        [&] { return kvc_manager_commit_tokens(d.m, c, 8000); },
        [&] { return kvc_manager_truncate_request(d.m, b, 10); },
        [&] { return kvc_manager_preempt_request(d.m, a); },
        [&] { return kvc_manager_admit_request(d.m, a, nullptr); },
        [&] {
          return kvc_manager_allocate_request(d.m, PROMPT(0, tokens.data(), 10, nullptr, 0), &last, &p,
                                              nullptr);
        },
        [&] { return kvc_manager_commit_tokens(d.m, p, 10); },
    };
    for (size_t i = 0; i < calls.size(); ++i) {
      const uint64_t before = d.digest(), failures = heap.failures();
      kvc_status status = calls[i]();
      if (heap.failures() != failures && status != KVC_OK) {
        EXPECT_EQ(status, KVC_ERROR_OUT_OF_MEMORY) << i << ": " << kvc_last_error();
        EXPECT_EQ(d.digest(), before) << "call " << i << " failed and changed something";
        d.check();
        ++*refused;
        status = calls[i]();
      }
      EXPECT_EQ(status, KVC_OK) << i << ": " << kvc_last_error();
    }
    after = d.digest();
  }
  EXPECT_EQ(heap.bytes(), 0u);
  return after;
}

TEST(FailingCross, EachAllocationMayFailOnceWithoutAnyEffect) {
  uint64_t reference = 0, allocations = 0, refused = 0;
  {
    CountingHeap heap;
    reference = run(heap, &refused);
    allocations = heap.calls();
    ASSERT_EQ(refused, 0u);
  }
  for (uint64_t k = 0; k < allocations; ++k) {
    CountingHeap heap;
    heap.fail_after(k);
    const uint64_t digest = run(heap, &refused);
    EXPECT_TRUE(digest == reference || digest == 0) << "allocation " << k;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(refused, allocations / 2);
}

}  // namespace
}  // namespace kvc::test
