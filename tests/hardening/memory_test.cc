// SPDX-License-Identifier: Apache-2.0
// Each allocation of each public function fails in turn, alone and with all that follow: the function says
// OUT_OF_MEMORY or does without, nothing has changed, no output is written, the same call then succeeds, and
// nothing is lost. A function that the table calls allocating must have allocations to fail, another one
// none.
#include <gtest/gtest.h>

#include <cstdio>

#include "hardening/every_call.h"
#include "hardening/heap.h"

namespace kvc::test {
namespace {

constexpr size_t kLength = 34000;  // tokens of a prompt: more than the arena of a new manager holds

class Memory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!heap::is_ours()) GTEST_SKIP() << "malloc belongs to the sanitizer";
  }

  // Allocation `k` of the call fails. False: it has no such one.
  bool fail_one(const Call& call, int64_t k, bool sticky) {
    int64_t live = heap::live();
    const bool failed = run_and_fail(call, k, sticky);
    if (heap::live() !=
        live) {  // a first time may leave the C library something, like a stack for later threads
      live = heap::live();
      run_and_fail(call, k, sticky);
    }
    EXPECT_EQ(heap::live(), live) << "allocations are lost";
    return failed;
  }

  bool run_and_fail(const Call& call, int64_t k, bool sticky) {
    bool failed = false;
    {
      Scene scene(kLength);
      EXPECT_TRUE(!call.prepare || call.prepare(scene));
      if (k == 0 && !sticky) before_ = scene.digest();  // that of each scene, which takes long
      const std::vector<uint64_t> outputs = scene.outputs();
      heap::fail(k, sticky);
      kvc_status status = call.run(scene);
      failed = heap::stop_failing() != 0;
      EXPECT_TRUE(scene.sound());
      if (status != call.answer) {
        EXPECT_TRUE(failed);
        EXPECT_EQ(status, KVC_ERROR_OUT_OF_MEMORY) << kvc_last_error();
        EXPECT_EQ(scene.digest(), before_);
        EXPECT_EQ(scene.outputs(), outputs);
        status = call.run(scene);
      }
      EXPECT_EQ(status, call.answer) << kvc_last_error();
      EXPECT_TRUE(scene.sound());
    }
    return failed;
  }

  uint64_t before_ = 0;  // the state of a scene that is prepared for the call
};

TEST_F(Memory, EachAllocationOfEachFunctionMayFail) {
  { const Scene warm_up(kLength); }  // what the C library keeps for itself
  int64_t total = 0;
  std::string wrong;
  for (const Call& call : every_call()) {
    int64_t points[2] = {};
    for (const bool sticky : {false, true}) {
      SCOPED_TRACE(call.name() + (sticky ? ", from one allocation on" : ", one allocation"));
      while (fail_one(call, points[sticky], sticky)) ++points[sticky];
      ASSERT_FALSE(HasFailure()) << "allocation " << points[sticky];
    }
    std::printf("%-50s %3lld, sticky %3lld\n", call.name().c_str(), static_cast<long long>(points[0]),
                static_cast<long long>(points[1]));
    total += points[0] + points[1];
    if ((points[0] != 0) != call.allocates) wrong += " " + call.name();
  }
  EXPECT_EQ(wrong, "") << "the table says otherwise of these";
  std::printf("%lld failures in all\n", static_cast<long long>(total));
}

}  // namespace
}  // namespace kvc::test
