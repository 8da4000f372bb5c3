// SPDX-License-Identifier: Apache-2.0
// How long a hit is: the longest length that every group can serve, against the definition of
// docs/SEMANTICS.md by brute force over all residency patterns; and which positions a hit and a boundary
// need.
#include <gtest/gtest.h>

#include <vector>

#include "manager/manager_peer.h"
#include "prefix/ordered.h"

namespace kvc {
namespace {

struct Window {
  uint64_t block_size, window, sink_blocks;

  // floor(max(0, t - W + 1) / B), W at least 2
  uint64_t lowest(uint64_t tokens) const {
    const int64_t kept = window == 1 ? 2 : static_cast<int64_t>(window);
    const auto first = static_cast<int64_t>(tokens) - kept + 1;
    return first < 0 ? 0 : static_cast<uint64_t>(first) / block_size;
  }
  bool serves(size_t length, const uint32_t* residents, uint32_t bit) const {
    for (size_t j = 0; j < length; ++j) {
      const bool needed = j < sink_blocks || j >= lowest(length * block_size);
      if (needed && (residents[j] & bit) == 0) return false;
    }
    return true;
  }
};

kvc_manager_config config_of(uint32_t block_size, const std::vector<kvc_group_config>& groups) {
  kvc_manager_config config = {};
  config.num_blocks = 4;
  config.max_requests = 1;
  config.block_size = block_size;
  config.groups = groups.data();
  config.num_groups = groups.size();
  return config;
}

TEST(LongestWindow, EqualsBruteForceOnAllResidencyPatterns) {
  uint64_t cases = 0, shortened = 0;
  for (const uint32_t block_size : {1u, 2u, 4u}) {
    for (uint32_t window = 1; window <= 20; ++window) {
      for (uint32_t sink_tokens = 0; sink_tokens <= 3; ++sink_tokens) {
        const std::vector<kvc_group_config> groups = {window_group(window, sink_tokens)};
        ManagerOf manager(config_of(block_size, groups));
        const ManagerPeer peer(manager.m);
        const Window plain{block_size, window, (sink_tokens + block_size - 1) / block_size};
        for (size_t positions = 0; positions <= 10; ++positions) {
          for (uint32_t pattern = 0; pattern < 1u << positions; ++pattern) {
            uint32_t residents[10];
            for (size_t j = 0; j < positions; ++j) residents[j] = pattern >> j & 1;
            size_t best = positions;
            while (!plain.serves(best, residents, 1)) --best;
            ASSERT_EQ(peer.matcher().longest_window(0, positions, residents), best)
                << "block size " << block_size << ", window " << window << ", sinks " << sink_tokens << ", "
                << positions << " positions, pattern " << pattern;
            ++cases;
            shortened += best != positions;
          }
        }
      }
    }
  }
  EXPECT_EQ(cases, 3u * 20 * 4 * 2047);
  EXPECT_GT(shortened, cases / 2);
}

// Every chunk and block size: what lies in the chunk of the hit's end decides.
TEST(LongestWindow, OfChunksEqualsBruteForceOnAllResidencyPatterns) {
  uint64_t shortened = 0, without_blocks = 0;
  for (const uint32_t block_size : {1u, 2u, 4u}) {
    for (uint32_t chunk = 1; chunk <= 20; ++chunk) {
      const std::vector<kvc_group_config> groups = {chunk_group(chunk)};
      ManagerOf manager(config_of(block_size, groups));
      const ManagerPeer peer(manager.m);
      for (size_t positions = 0; positions <= 10; ++positions) {
        for (uint32_t pattern = 0; pattern < 1u << positions; ++pattern) {
          uint32_t residents[10];
          for (size_t j = 0; j < positions; ++j) residents[j] = pattern >> j & 1;
          const auto serves = [&](size_t length) {
            const uint64_t end = length * block_size, begin = end - end % chunk;
            for (size_t j = 0; j < length; ++j) {
              const bool read = (j + 1) * block_size > begin;  // its last token lies in the chunk
              if (read && residents[j] == 0) return false;
              EXPECT_EQ(peer.matcher().needs_position(0, j, length), read);
            }
            return true;
          };
          size_t best = positions;
          while (!serves(best)) --best;
          ASSERT_EQ(peer.matcher().longest_window(0, positions, residents), best)
              << "block size " << block_size << ", chunk " << chunk << ", " << positions
              << " positions, pattern " << pattern;
          shortened += best != positions;
          without_blocks += best != 0 && residents[best - 1] == 0;
        }
      }
    }
  }
  EXPECT_GT(shortened, 10000u);
  EXPECT_GT(without_blocks, 10000u);
}

// One full and two window groups together, with spans that no hit may end in.
TEST(LongestCommon, EqualsBruteForceForHybridModels) {
  struct Hybrid {
    uint32_t block_size;
    uint64_t first_window, second_window;
    uint32_t sinks;
  };
  const std::vector<std::vector<kvc_extra_key>> spans = {{},
                                                         {key_over(0, 3)},
                                                         {key_over(1, 4), key_over(5, 2)},
                                                         {key_over(3, 6)},
                                                         {key_over(2, 2), key_over(4, 2)},
                                                         {key_over(2, 6), key_over(3, 1), key_over(7, 3)}};
  uint64_t shortened = 0;
  for (const Hybrid& hybrid :
       {Hybrid{1, 2, 3, 0}, Hybrid{2, 3, 7, 2}, Hybrid{2, 5, 2, 0}, Hybrid{4, 6, 9, 1}}) {
    const std::vector<kvc_group_config> groups = {window_group(hybrid.first_window, hybrid.sinks),
                                                  full_group(), window_group(hybrid.second_window)};
    ManagerOf manager(config_of(hybrid.block_size, groups));
    const ManagerPeer peer(manager.m);
    const uint64_t size = hybrid.block_size;
    const Window first{size, hybrid.first_window, (hybrid.sinks + size - 1) / size};
    const Window second{size, hybrid.second_window, 0};
    for (const auto& keys : spans) {
      const Ordered ordered(keys);
      constexpr size_t kPositions = 5;
      for (uint32_t pattern = 0; pattern < 1u << (3 * kPositions); ++pattern) {
        uint32_t residents[kPositions];
        for (size_t j = 0; j < kPositions; ++j) residents[j] = pattern >> (3 * j) & 7;
        const auto serves = [&](size_t length) {
          for (size_t j = 0; j < length; ++j) {
            if ((residents[j] & 2) == 0) return false;
          }
          for (const kvc_extra_key& key : keys) {
            const uint64_t end = length * size;
            if (key.first_token < end && end < key.first_token + key.num_tokens) return false;
          }
          return first.serves(length, residents, 1) && second.serves(length, residents, 4);
        };
        size_t best = kPositions;
        while (!serves(best)) --best;
        ASSERT_EQ(peer.matcher().longest_common(kPositions, residents, ordered.list(), 7), best)
            << "pattern " << pattern;
        shortened += best != kPositions && best != 0;
      }
    }
  }
  EXPECT_GT(shortened, 1000u);
}

TEST(NeedsPosition, IsTheWindowBeforeTheEndAndTheSinks) {
  for (const uint32_t block_size : {1u, 3u, 4u}) {
    for (const uint32_t window : {1u, 2u, 4u, 5u, 9u}) {
      const std::vector<kvc_group_config> groups = {full_group(), window_group(window, 2)};
      ManagerOf manager(config_of(block_size, groups));
      const ManagerPeer peer(manager.m);
      const Window plain{block_size, window, (2 + block_size - 1) / block_size};
      for (size_t length = 0; length < 12; ++length) {
        for (size_t j = 0; j < length; ++j) {
          EXPECT_TRUE(peer.matcher().needs_position(0, j, length));
          EXPECT_EQ(peer.matcher().needs_position(1, j, length),
                    j < plain.sink_blocks || j >= plain.lowest(length * block_size));
        }
      }
    }
  }
}

// Boundaries: the prompt's end and every multiple of retention_tokens.
TEST(ServesBoundary, IsTheWindowBeforeABoundary) {
  constexpr uint32_t kBlock = 4;
  for (const uint32_t window : {1u, 3u, 4u, 5u, 8u, 11u, 17u}) {
    for (const uint64_t retention : {0u, 4u, 8u, 20u}) {
      const std::vector<kvc_group_config> groups = {window_group(window, 1, retention)};
      ManagerOf manager(config_of(kBlock, groups));
      const ManagerPeer peer(manager.m);
      const Window plain{kBlock, window, 1};
      for (uint32_t prompt = 0; prompt < 40; ++prompt) {
        Request request = {};
        request.prompt_len = prompt;
        for (size_t j = 0; j < 12; ++j) {
          bool expected = j < 1;
          const auto consider = [&](uint64_t b) { expected |= plain.lowest(b) <= j && j < b / kBlock; };
          if (prompt != 0) consider((prompt - 1) / kBlock * kBlock);
          for (uint64_t b = retention; retention != 0 && b <= 100; b += retention) consider(b);
          EXPECT_EQ(peer.serves_boundary(request, 0, j), expected)
              << "window " << window << ", retention " << retention << ", prompt " << prompt << ", position "
              << j;
        }
      }
    }
  }
}

TEST(Divider, DividesExactly) {
  for (uint32_t divisor = 1; divisor <= 1024; ++divisor) {
    const Divider by(divisor);
    for (const uint32_t n :
         {0u, 1u, divisor - 1, divisor, divisor + 1, 999999u, (1u << 30) - 1, 1u << 30, UINT32_MAX}) {
      ASSERT_EQ(by.divide(n), n / divisor) << n << " / " << divisor;
      ASSERT_EQ(by.remainder(n), n % divisor) << n << " % " << divisor;
      if (n <= 1u << 30) {
        ASSERT_EQ(by.divide_up(n), (n + divisor - 1) / divisor);
      }
    }
  }
}

}  // namespace
}  // namespace kvc
