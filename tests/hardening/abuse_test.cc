// SPDX-License-Identifier: Apache-2.0
// Random misuse of a manager (abuser.h), while other managers come and go.
//   --calls N   (default 2 * 10^5 times KVC_TEST_ROUNDS)     --seed S
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "hardening/abuser.h"
#include "rounds.h"

namespace {

using kvc::test::Abuser;

uint64_t calls_ = kvc::test::rounds<uint64_t>(200000), seed_ = 1;

TEST(Abuse, RandomCallsAreRefusedWithoutEffectOrAreFine) {
  std::atomic<bool> stop{false};
  std::thread others([&] {  // other managers end while this one works
    while (!stop) {
      Abuser abuser(7);
      abuser.run(200);
    }
  });
  uint64_t done = 0, refused = 0, done_of[Abuser::kKinds] = {}, refused_of[Abuser::kKinds] = {};
  for (int shape = 0; shape < Abuser::kShapes && !HasFailure(); ++shape) {
    Abuser abuser(seed_ + static_cast<uint64_t>(shape) * 1000003, shape);
    abuser.run(calls_ / Abuser::kShapes);
    for (int kind = 0; kind < Abuser::kKinds; ++kind)
      done_of[kind] += abuser.done[kind], refused_of[kind] += abuser.refused[kind];
  }
  stop = true;
  others.join();
  for (int kind = 0; kind < Abuser::kKinds; ++kind) {
    EXPECT_GT(done_of[kind], calls_ / 2000) << "kind " << kind;
    EXPECT_GT(refused_of[kind], calls_ / 2000) << "kind " << kind;
    done += done_of[kind], refused += refused_of[kind];
  }
  std::printf("%llu calls done, %llu refused, seed %llu\n", static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(refused), static_cast<unsigned long long>(seed_));
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--calls") == 0) calls_ = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seed") == 0) seed_ = std::strtoull(argv[i + 1], nullptr, 10);
  }
  return RUN_ALL_TESTS();
}
