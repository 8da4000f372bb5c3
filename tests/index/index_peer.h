// SPDX-License-Identifier: Apache-2.0
// An index with its memory, and shorthands for events and matches.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/env.h"
#include "index/prefix_index.h"

namespace kvc::test {

inline kvc_index_config small_config() {
  kvc_index_config config = {};
  config.struct_size = sizeof config;
  config.max_blocks = 4096;
  config.max_workers = 16;
  config.num_media = 3;
  config.max_namespaces = 64;
  return config;
}

struct IndexPeer {
  explicit IndexPeer(const kvc_index_config& config = small_config()) : memory(default_env()) {
    EXPECT_TRUE(index.create(memory, config));
  }
  Memory memory;
  PrefixIndex index;
};

// A digest that stands for block `number`. Only its first 16 bytes count.
inline std::vector<uint8_t> digest_of(uint64_t number) {
  std::vector<uint8_t> digest(32);
  uint64_t x = number + 1;
  for (size_t i = 0; i < 4; ++i) {
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    x ^= x >> 31;
    std::memcpy(digest.data() + 8 * i, &x, 8);
  }
  return digest;
}

inline std::vector<uint8_t> digests_of(const std::vector<uint64_t>& numbers) {
  std::vector<uint8_t> all;
  for (const uint64_t number : numbers) {
    const auto one = digest_of(number);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

inline kvc_event event_of(uint64_t sequence, uint32_t kind, uint64_t block, uint64_t namespace_id = 0,
                          uint64_t time = 1) {
  kvc_event event = {};
  event.sequence = sequence;
  event.time_ns = time;
  event.kind = kind;
  event.namespace_id = namespace_id;
  std::memcpy(event.digest, digest_of(block).data(), 32);
  return event;
}

// Matched blocks per worker: any medium, then each.
using Matches = std::map<uint64_t, std::vector<uint32_t>>;

inline Matches match(PrefixIndex& index, const std::vector<uint64_t>& numbers) {
  const auto digests = digests_of(numbers);
  const size_t columns = 1 + index.num_media();
  std::vector<uint64_t> ids(KVC_INDEX_MAX_WORKERS);
  std::vector<uint32_t> matched(ids.size() * columns);
  size_t count = 0;
  EXPECT_EQ(KVC_OK,
            index.match(digests.data(), numbers.size(), ids.data(), matched.data(), ids.size(), &count));
  Matches out;
  for (size_t i = 0; i < count; ++i)
    EXPECT_TRUE(out.emplace(ids[i], std::vector<uint32_t>(matched.data() + i * columns,
                                                          matched.data() + (i + 1) * columns))
                    .second)
        << "worker " << ids[i] << " twice";
  return out;
}

using Keys = std::set<std::pair<uint64_t, uint64_t>>;

inline Keys keys_of(const PrefixIndex& index, uint64_t worker, uint32_t medium) {
  Keys keys;
  index.each_block(worker, medium,
                   [&](BlockKey key) { EXPECT_TRUE(keys.emplace(key.low, key.high).second); });
  return keys;
}

inline std::pair<uint64_t, uint64_t> key_of(uint64_t number) {
  const BlockKey key = BlockKey::of(digest_of(number).data());
  return {key.low, key.high};
}

inline kvc_index_stats stats_of(const PrefixIndex& index) {
  kvc_index_stats stats = {};
  index.read_stats(&stats);
  return stats;
}

inline kvc_index_worker info_of(const PrefixIndex& index, uint64_t worker) {
  kvc_index_worker info = {};
  EXPECT_EQ(KVC_OK, index.worker_info(worker, &info));
  return info;
}

}  // namespace kvc::test
