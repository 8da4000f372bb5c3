// SPDX-License-Identifier: Apache-2.0
// The index with bytes that nobody has checked. The first byte says what the others are: 0 a dump; 1 a dump
// whose size and sum are made right, so that what it says is reached; else calls, a byte of kind and a few of
// arguments each, with events whose every field is the input's. Whatever comes, each number of the index adds
// up, a dump of it loads, and nothing is left of workers that are removed.
#include <kvcache/events.h>
#include <kvcache/index.h>

#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "fuzz/target.h"

namespace {

constexpr uint32_t kMedia = 2;
constexpr size_t kMaxWorkers = 4;

struct Input {
  const uint8_t* at;
  size_t left;
  uint8_t byte() {
    if (left == 0) return 0;
    --left;
    return *at++;
  }
  template <typename T>
  T number() {
    T value = 0;
    const size_t size = left < sizeof value ? left : sizeof value;
    std::memcpy(&value, at, size);
    at += size, left -= size;
    return value;
  }
};

kvc_index* make() {
  kvc_index_config config = {};
  config.struct_size = sizeof config;
  config.max_blocks = 24, config.max_workers = kMaxWorkers, config.num_media = kMedia,
  config.max_namespaces = 32;
  config.ttl_ns = 100;
  kvc_index* index = nullptr;
  FUZZ_REQUIRE(kvc_index_create(&config, &index) == KVC_OK, kvc_last_error());
  return index;
}

std::vector<uint8_t> dump_of(kvc_index* index) {
  size_t size = 0;
  kvc_index_dump(index, nullptr, 0, &size);
  std::vector<uint8_t> bytes(size);
  FUZZ_REQUIRE(kvc_index_dump(index, bytes.data(), bytes.size(), &size) == KVC_OK, kvc_last_error());
  return bytes;
}

// Removes all workers, after which nothing is left.
void check_and_destroy(kvc_index* index) {
  kvc_index_stats stats = {};
  stats.struct_size = sizeof stats;
  uint64_t workers[kMaxWorkers], blocks = 0;
  size_t count = 0;
  FUZZ_REQUIRE(kvc_index_list_workers(index, workers, kMaxWorkers, &count) == KVC_OK, kvc_last_error());
  FUZZ_REQUIRE(kvc_index_read_stats(index, &stats) == KVC_OK, kvc_last_error());
  for (size_t i = 0; i < count; ++i) {
    kvc_index_worker info = {};
    info.struct_size = sizeof info;
    FUZZ_REQUIRE(kvc_index_worker_info(index, workers[i], &info) == KVC_OK, kvc_last_error());
    for (uint32_t medium = 0; medium < kMedia; ++medium) blocks += info.num_blocks[medium];
  }
  FUZZ_REQUIRE(blocks == stats.num_holdings, "the blocks of the workers are not the holdings");
  FUZZ_REQUIRE(stats.num_blocks <= 24 && stats.num_sets <= stats.num_blocks, "more blocks than max_blocks");
  const std::vector<uint8_t> dump = dump_of(index);
  kvc_index* copy = make();
  FUZZ_REQUIRE(kvc_index_load(copy, dump.data(), dump.size()) == KVC_OK, kvc_last_error());
  FUZZ_REQUIRE(dump_of(copy).size() == dump.size(), "the dump came back as another one");
  kvc_index_destroy(copy);
  for (size_t i = 0; i < count; ++i)
    FUZZ_REQUIRE(kvc_index_remove_worker(index, workers[i]) == KVC_OK, kvc_last_error());
  FUZZ_REQUIRE(kvc_index_read_stats(index, &stats) == KVC_OK, kvc_last_error());
  FUZZ_REQUIRE(stats.num_blocks == 0 && stats.num_holdings == 0 && stats.num_sets == 0, "something is left");
  kvc_index_destroy(index);
}

void load(const uint8_t* data, size_t size, bool repairs) {
  std::vector<uint8_t> bytes(data, data + size);
  if (repairs && size >= 52) {
    const uint64_t length = size;
    std::memcpy(bytes.data() + 40, &length, sizeof length);
    const uint32_t sum = kvc::crc32c(bytes.data(), size - 4);
    std::memcpy(bytes.data() + size - 4, &sum, sizeof sum);
  }
  kvc_index* index = make();
  kvc_index_load(index, bytes.data(), bytes.size());
  check_and_destroy(index);
}

void call(kvc_index* index, Input& in) {
  const uint8_t kind = in.byte();
  const uint64_t worker = in.byte() % 5;
  switch (kind % 8) {
    case 0:
      kvc_index_add_worker(index, worker, nullptr, in.byte());
      break;
    case 1:
      kvc_index_remove_worker(index, worker);
      break;
    case 2:
      kvc_index_begin_resync(index, worker, kind & 8 ? KVC_INDEX_ALL_MEDIA : kind >> 4);
      break;
    case 3:
      kvc_index_end_resync(index, worker, kind & 8 ? KVC_INDEX_ALL_MEDIA : kind >> 4, in.number<uint64_t>());
      break;
    case 4:
      kvc_index_expire(index, in.number<uint64_t>(), nullptr);
      break;
    case 5: {
      uint8_t digests[4 * 32] = {};
      for (size_t i = 0; i < 4; ++i) digests[32 * i] = in.byte() % 32;
      uint64_t workers[kMaxWorkers];
      uint32_t matched[kMaxWorkers * (1 + kMedia)];
      size_t count = 0;
      FUZZ_REQUIRE(kvc_index_match(index, digests, 4, workers, matched, kMaxWorkers, &count) == KVC_OK ||
                       count > kMaxWorkers,
                   kvc_last_error());
      break;
    }
    default: {
      kvc_event events[3] = {};
      const size_t count = kind / 8 % 4;
      for (size_t i = 0; i < count; ++i) {
        events[i].kind = in.byte() % 5;
        events[i].sequence = kind & 128 ? in.number<uint64_t>() : in.byte();
        events[i].time_ns = in.byte();
        events[i].namespace_id = in.byte() < 250 ? worker % 3 : in.number<uint64_t>();
        events[i].digest[0] = in.byte() % 32;
      }
      kvc_index_apply(index, worker, kind >> 6, events, sizeof *events, count, in.byte(), nullptr);
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] < 2) {
    load(data + 1, size - 1, data[0] == 1);
    return 0;
  }
  kvc_index* index = make();
  for (Input in{data + 1, size - 1}; in.left != 0;) call(index, in);
  check_and_destroy(index);
  return 0;
}
