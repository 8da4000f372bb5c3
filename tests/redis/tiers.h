// SPDX-License-Identifier: Apache-2.0
// A tier of the public interface for tests: one job at a time, pages that say which they are.
#pragma once
#include <gtest/gtest.h>
#include <kvcache/tier.h>
#include <poll.h>

#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace kvc_redis_test {

constexpr uint64_t kMs = 1000000;
constexpr uint64_t kPatience = 20000 * kMs;  // for a server that is well

inline uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

inline void set_key(uint8_t* key, uint64_t number) {
  for (uint64_t i = 0; i < 4; ++i) {
    const uint64_t word = mix(number * 4 + i + 1);
    std::memcpy(key + 8 * i, &word, 8);
  }
}

// Of this number and size alone.
inline std::string page_of(uint64_t number, uint64_t bytes) {
  std::string out(bytes, 0);
  uint64_t state = mix(number + 77);
  for (size_t i = 0; i < out.size(); ++i) {
    if (i % 8 == 0) state = mix(state + i);
    out[i] = static_cast<char>(state >> i % 8 * 8);
  }
  return out;
}

inline std::string redis_key(uint64_t number, const std::string& prefix = "kv") {
  uint8_t key[32];
  set_key(key, number);
  std::string out = prefix + "1:";
  for (const uint8_t byte : key) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

inline const char* name_of(int32_t result) {
  static const char* const kNames[] = {"WAITING",  "OK",     "MISS",    "PENDING",   "EXPIRED",
                                       "NO_SPACE", "FAILED", "TIMEOUT", "CANCELLED", "UNAVAILABLE"};
  return result >= 0 && result < 10 ? kNames[result] : "?";
}

class TestTier {
 public:
  explicit TestTier(const std::string& url, uint64_t page_bytes = 4096, uint8_t model = 1)
      : page_bytes_(page_bytes) {
    kvc_tier_config config = {};
    config.struct_size = sizeof config;
    config.url = url.c_str();
    config.page_bytes = page_bytes;
    config.fingerprint[0] = model;
    status_ = kvc_tier_create(&config, &tier_);
    EXPECT_EQ(status_, KVC_OK) << kvc_last_error();
  }
  ~TestTier() { kvc_tier_destroy(tier_); }
  TestTier(const TestTier&) = delete;
  TestTier& operator=(const TestTier&) = delete;

  bool is_open() const { return tier_ != nullptr; }

  // Ends, or the test fails: a job never hangs.
  void run(uint32_t kind, std::vector<kvc_tier_item>& items, uint64_t timeout_ns) {
    kvc_tier_job job = {};
    job.struct_size = sizeof job;
    job.items = items.data();
    job.num_items = items.size();
    job.kind = kind;
    job.timeout_ns = timeout_ns;
    uint64_t id = 0;
    ASSERT_EQ(kvc_tier_submit(tier_, &job, &id), KVC_OK) << kvc_last_error();
    int32_t fd = -1;
    ASSERT_EQ(kvc_tier_event_fd(tier_, &fd), KVC_OK);
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      kvc_tier_completion completion;
      size_t count = 0;
      ASSERT_EQ(kvc_tier_poll(tier_, &completion, 1, &count), KVC_OK);
      if (count == 1) break;
      pollfd ready = {fd, POLLIN, 0};
      ::poll(&ready, 1, 10);
      if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(60)) {
        ADD_FAILURE() << "a job hangs";
        std::abort();  // its items are on our stack
      }
    }
    const auto took = std::chrono::steady_clock::now() - begin;
    slowest_ns_ = std::max(slowest_ns_, static_cast<uint64_t>(std::chrono::nanoseconds(took).count()));
  }

  int32_t put(uint64_t number, uint64_t bytes = 0, uint64_t timeout_ns = kPatience) {
    std::string page = page_of(number, bytes == 0 ? page_bytes_ : bytes);
    std::vector<kvc_tier_item> items = {item_of(number, page)};
    run(KVC_TIER_PUT, items, timeout_ns);
    return items[0].result;
  }

  // A page that is not the one is a failure, whatever else the test wants.
  int32_t get(uint64_t number, uint64_t bytes = 0, uint64_t timeout_ns = kPatience) {
    std::string page(bytes == 0 ? page_bytes_ : bytes, 0);
    std::vector<kvc_tier_item> items = {item_of(number, page)};
    run(KVC_TIER_GET, items, timeout_ns);
    if (items[0].result == KVC_PAGE_OK && page != page_of(number, page.size()))
      ADD_FAILURE() << "wrong bytes of page " << number;
    return items[0].result;
  }

  std::vector<int32_t> exists(const std::vector<uint64_t>& numbers, uint64_t timeout_ns = kPatience) {
    return many(KVC_TIER_EXISTS, numbers, timeout_ns);
  }
  std::vector<int32_t> remove(const std::vector<uint64_t>& numbers, uint64_t timeout_ns = kPatience) {
    return many(KVC_TIER_REMOVE, numbers, timeout_ns);
  }

  kvc_tier_stats stats() {
    kvc_tier_stats out = {};
    out.struct_size = sizeof out;
    EXPECT_EQ(kvc_tier_read_stats(tier_, &out), KVC_OK);
    return out;
  }

  // Of a server that is well and holds `stored` of the pages up to `num_numbers`, no others.
  void operate_at_random(std::set<uint64_t>& stored, uint64_t num_numbers, int count, uint64_t seed) {
    uint64_t state = seed;
    for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
      state = mix(state + 1);
      const uint64_t number = state % num_numbers;
      const int32_t expected = stored.count(number) != 0 ? KVC_PAGE_OK : KVC_PAGE_MISS;
      switch (state >> 32 & 3) {
        case 0:
          EXPECT_EQ(put(number), KVC_PAGE_OK);
          stored.insert(number);
          break;
        case 1:
          EXPECT_EQ(get(number), expected) << number;
          break;
        case 2: {
          std::vector<uint64_t> numbers;
          for (uint64_t n = 0; n < num_numbers; ++n) numbers.push_back((number + n) % num_numbers);
          const std::vector<int32_t> found = exists(numbers);
          for (size_t n = 0; n < numbers.size(); ++n)
            EXPECT_EQ(found[n] == KVC_PAGE_OK, stored.count(numbers[n]) != 0) << name_of(found[n]);
          break;
        }
        default:
          EXPECT_EQ(remove({number}), std::vector<int32_t>{KVC_PAGE_OK});
          stored.erase(number);
      }
    }
  }

  kvc_tier* raw() { return tier_; }
  uint64_t slowest_ns() const { return slowest_ns_; }
  void reset_slowest() { slowest_ns_ = 0; }

  static kvc_tier_item item_of(uint64_t number, std::string& page) {
    kvc_tier_item item = {};
    set_key(item.key, number);
    item.data = page.data();
    item.bytes = page.size();
    return item;
  }

 private:
  std::vector<int32_t> many(uint32_t kind, const std::vector<uint64_t>& numbers, uint64_t timeout_ns) {
    std::string none;
    std::vector<kvc_tier_item> items;
    for (const uint64_t number : numbers) items.push_back(item_of(number, none));
    for (kvc_tier_item& item : items) item.data = nullptr;
    run(kind, items, timeout_ns);
    std::vector<int32_t> out;
    for (const kvc_tier_item& item : items) out.push_back(item.result);
    return out;
  }

  const uint64_t page_bytes_;
  kvc_tier* tier_ = nullptr;
  kvc_status status_ = KVC_OK;
  uint64_t slowest_ns_ = 0;
};

}  // namespace kvc_redis_test
