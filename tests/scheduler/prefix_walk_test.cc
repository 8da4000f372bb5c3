// SPDX-License-Identifier: Apache-2.0
// The depth-first order of waiting requests against one that divides them block by block.
#include "scheduler/prefix_walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/memory.h"
#include "property/random.h"

namespace kvc::test {
namespace {

using Prompts = std::vector<std::vector<int>>;  // blocks

// Prompts stand for the manager, and their numbers, from 1 on, for requests.
uint64_t key_of(kvc_manager* manager, uint64_t request, size_t num_blocks) {
  const std::vector<int>& prompt = reinterpret_cast<Prompts*>(manager)->at(request - 1);
  EXPECT_GE(num_blocks, 1u);
  EXPECT_LE(num_blocks, prompt.size());
  uint64_t key = 1;
  for (size_t i = 0; i < num_blocks; ++i) key = key * 31 + static_cast<uint64_t>(prompt[i]) + 7;
  return key;
}

std::vector<uint32_t> expected_order(const Prompts& prompts, const std::vector<uint32_t>& some,
                                     size_t depth) {
  std::map<int, std::vector<uint32_t>> parts;
  std::vector<uint32_t> here, order;
  for (const uint32_t i : some) {
    if (prompts[i].size() == depth) {
      here.push_back(i);
    } else {
      parts[prompts[i][depth]].push_back(i);
    }
  }
  std::vector<std::vector<uint32_t>> sorted;
  for (const auto& [block, part] : parts) sorted.push_back(part);
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
  });
  for (const auto& part : sorted) {
    const std::vector<uint32_t> inside = expected_order(prompts, part, depth + 1);
    order.insert(order.end(), inside.begin(), inside.end());
  }
  order.insert(order.end(), here.begin(), here.end());
  return order;
}

TEST(PrefixWalkTest, WalksLikeOneThatDividesBlockByBlock) {
  constexpr size_t kMost = 128;
  Memory memory{default_env()};
  Prompts prompts;
  PrefixWalk walk;
  ASSERT_TRUE(walk.create(memory, kMost, reinterpret_cast<kvc_manager*>(&prompts), key_of));
  Random random(1);
  for (int round = 0; round < 2000 && !HasFailure(); ++round) {
    prompts.clear();
    const uint64_t most_blocks = random.between(1, 40), kinds = random.between(1, 4);
    const size_t count = random.between(0, round % 20 == 0 ? kMost : 12);
    for (size_t i = 0; i < count; ++i) {
      std::vector<int> prompt;
      if (i != 0 && random.chance(70)) {  // goes on from a part of an earlier one
        prompt = prompts[random.below(i)];
        prompt.resize(random.below(prompt.size() + 1));
      }
      for (uint64_t more = random.below(most_blocks); more != 0 && prompt.size() < most_blocks; --more)
        prompt.push_back(static_cast<int>(random.below(kinds)));
      prompts.push_back(prompt);
    }
    walk.begin();
    std::vector<uint32_t> all, order(count);
    for (uint32_t i = 0; i < count; ++i) {
      walk.add(i + 1, prompts[i].size());
      all.push_back(i);
    }
    walk.walk(order.data());
    EXPECT_EQ(order, expected_order(prompts, all, 0)) << "round " << round;
  }
}

}  // namespace
}  // namespace kvc::test
