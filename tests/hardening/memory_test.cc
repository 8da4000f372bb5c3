// SPDX-License-Identifier: Apache-2.0
// Each allocation of each public function fails in turn, alone and with all that follow: the function says
// OUT_OF_MEMORY or does without, nothing has changed, no output is written, the same call then succeeds, and
// nothing is lost. A function that the table calls allocating must have allocations to fail, another one
// none.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "hardening/every_call.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KVC_NO_INTERPOSITION 1
#endif
#endif
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KVC_NO_INTERPOSITION 1
#endif

namespace {

std::atomic<int64_t> countdown_{-1}, refused_{0}, live_{0};
std::atomic<bool> sticky_{false};

#ifndef KVC_NO_INTERPOSITION
// The present allocation is one that fails.
bool refuse() {
  if (countdown_.load(std::memory_order_relaxed) < 0) return false;
  if (countdown_.fetch_sub(1) > 0) return false;
  if (sticky_) countdown_ = 0;
  ++refused_;
  errno = ENOMEM;
  return true;
}

void* counted(void* memory) {
  if (memory != nullptr) ++live_;
  return memory;
}
#endif

}  // namespace

#ifndef KVC_NO_INTERPOSITION
#define EXPORT extern "C" __attribute__((visibility("default")))
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);
}
EXPORT void* malloc(size_t size) { return refuse() ? nullptr : counted(__libc_malloc(size)); }
EXPORT void* calloc(size_t count, size_t size) {
  return refuse() ? nullptr : counted(__libc_calloc(count, size));
}
EXPORT void* realloc(void* memory, size_t size) {
  if (refuse()) return nullptr;
  void* const result = __libc_realloc(memory, size);
  if (memory == nullptr && result != nullptr) ++live_;
  return result;
}
EXPORT void* memalign(size_t alignment, size_t size) {
  return refuse() ? nullptr : counted(__libc_memalign(alignment, size));
}
EXPORT void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
EXPORT int posix_memalign(void** memory, size_t alignment, size_t size) {
  void* const result = memalign(alignment, size);
  if (result == nullptr) return ENOMEM;
  *memory = result;
  return 0;
}
EXPORT void free(void* memory) {
  if (memory != nullptr) --live_;
  __libc_free(memory);
}
#endif

namespace kvc::test {
namespace {

constexpr size_t kLength = 34000;  // tokens of a prompt: more than the arena of a new manager holds

class Memory : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef KVC_NO_INTERPOSITION
    GTEST_SKIP() << "malloc belongs to the sanitizer";
#endif
  }

  // Allocation `k` of the call fails. False: it has no such one.
  bool fail_one(const Call& call, int64_t k, bool sticky) {
    int64_t live = live_;
    const bool failed = run_and_fail(call, k, sticky);
    if (live_ !=
        live) {  // a first time may leave something with the C library, like a stack for the next thread
      live = live_;
      run_and_fail(call, k, sticky);
    }
    EXPECT_EQ(live_, live) << "allocations are lost";
    return failed;
  }

  bool run_and_fail(const Call& call, int64_t k, bool sticky) {
    bool failed = false;
    {
      Scene scene(kLength);
      EXPECT_TRUE(!call.prepare || call.prepare(scene));
      const uint64_t before = scene.digest();
      const std::vector<uint64_t> outputs = scene.outputs();
      refused_ = 0, sticky_ = sticky, countdown_ = k;
      kvc_status status = call.run(scene);
      countdown_ = -1;
      failed = refused_ != 0;
      EXPECT_TRUE(scene.sound());
      if (status != KVC_OK) {
        EXPECT_TRUE(failed);
        EXPECT_EQ(status, KVC_ERROR_OUT_OF_MEMORY) << kvc_last_error();
        EXPECT_EQ(scene.digest(), before);
        EXPECT_EQ(scene.outputs(), outputs);
        status = call.run(scene);
      }
      EXPECT_EQ(status, KVC_OK) << kvc_last_error();
      EXPECT_TRUE(scene.sound());
    }
    return failed;
  }
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
