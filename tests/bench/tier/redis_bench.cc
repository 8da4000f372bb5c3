// SPDX-License-Identifier: Apache-2.0
// By hand: a tier of a Redis server beside a program that calls hiredis alone, in one run, with as many
// threads and connections, in alternating rounds.
//
//   kvcache_redis_bench redis://HOST:PORT[?...] [PAGE_BYTES [PAGES [ROUNDS [THREADS]]]]
//
// HOST is a name or address without a password. hiredis sends a value that lies in one piece and does not
// copy a reply out of where it reads it to; the tier computes and checks CRC-32C too. Every page is compared.
// Prints the medians of the rounds as JSON, and the medians of the ratios of each round.
#include <hiredis/hiredis.h>
#include <kvcache/plugin.h>
#include <kvcache/tier.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../../tier_config.h"

namespace {

using std::string;

[[noreturn]] void die(const char* what) {
  fprintf(stderr, "kvcache_redis_bench: %s\n", what);
  exit(1);
}

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

struct Options {
  string url, host;
  int port = 6379;
  uint64_t page_bytes = 2 << 20, pages = 64;
  uint64_t rounds = 9;
  uint32_t threads = 2;
};

double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options), wrong_pages_(0) {
    pages_.resize(options.pages);
    uint64_t state = 1;
    for (string& page : pages_) {
      page.resize(options.page_bytes + KVC_PAGE_HEADER_BYTES);
      for (size_t i = 0; i + 8 <= page.size(); i += 8) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        std::memcpy(&page[i], &state, 8);
      }
    }
    back_.resize(options.pages, string(options.page_bytes, 0));
    for (uint32_t i = 0; i < options.threads; ++i) {
      connections_.push_back(redisConnect(options.host.c_str(), options.port));
      if (connections_.back() == nullptr || connections_.back()->err != 0) die("no connection");
    }
    const string url = options.url + (options.url.find('?') == string::npos ? "?" : "&") +
                       "threads=" + std::to_string(options.threads);
    const kvc_tier_config config = test_tier_config(url.c_str(), options.page_bytes);
    if (kvc_tier_create(&config, &tier_) != KVC_OK) die(kvc_last_error());
  }
  ~Bench() {
    kvc_tier_destroy(tier_);
    for (redisContext* connection : connections_) redisFree(connection);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // GB/s. Of hiredis, whose values have the size of the tier's.
  double raw(bool puts) {
    std::atomic<uint64_t> next{0};
    const auto work = [&](redisContext* connection) {
      for (uint64_t i; (i = next++) < options_.pages;) {
        const string key = "raw:" + std::to_string(i);
        const string& page = pages_[i];
        const char* const words[] = {puts ? "SET" : "GET", key.data(), page.data()};
        const size_t sizes[] = {3, key.size(), page.size()};
        auto* reply = static_cast<redisReply*>(
            redisCommandArgv(connection, puts ? 3 : 2, const_cast<const char**>(words), sizes));
        if (reply == nullptr || reply->type == REDIS_REPLY_ERROR) die("hiredis failed");
        if (!puts && (static_cast<size_t>(reply->len) != page.size() || reply->str[9] != page[9]))
          ++wrong_pages_;
        freeReplyObject(reply);
      }
    };
    return rate(seconds([&] {
      std::vector<std::thread> threads;
      for (redisContext* connection : connections_) threads.emplace_back(work, connection);
      for (std::thread& thread : threads) thread.join();
    }));
  }

  double tier(bool puts) {
    std::vector<kvc_tier_item> items(options_.pages);
    for (uint64_t i = 0; i < options_.pages; ++i) {
      std::memcpy(items[i].key, &i, sizeof i);
      items[i].data = puts ? pages_[i].data() : back_[i].data();
      items[i].bytes = options_.page_bytes;
    }
    const double took = seconds([&] {
      kvc_tier_job job = {};
      job.struct_size = sizeof job;
      job.items = items.data();
      job.num_items = items.size();
      job.kind = puts ? KVC_TIER_PUT : KVC_TIER_GET;
      uint64_t id = 0;
      int32_t fd = -1;
      if (kvc_tier_submit(tier_, &job, &id) != KVC_OK || kvc_tier_event_fd(tier_, &fd) != KVC_OK)
        die(kvc_last_error());
      kvc_tier_completion done;
      size_t count = 0;
      pollfd ready = {fd, POLLIN, 0};
      while (kvc_tier_poll(tier_, &done, 1, &count) == KVC_OK && count == 0) poll(&ready, 1, -1);
    });
    for (uint64_t i = 0; i < options_.pages; ++i) {
      if (items[i].result != KVC_PAGE_OK) die("the tier failed");
      if (puts) continue;
      wrong_pages_ += std::memcmp(back_[i].data(), pages_[i].data(), options_.page_bytes) != 0;
      std::memset(back_[i].data(), 0, options_.page_bytes);
    }
    return rate(took);
  }

  uint64_t wrong_pages() const { return wrong_pages_; }

 private:
  double rate(double took) const {
    return static_cast<double>(options_.pages * options_.page_bytes) / took / 1e9;
  }

  const Options options_;
  std::vector<string> pages_, back_;
  std::vector<redisContext*> connections_;
  kvc_tier* tier_ = nullptr;
  std::atomic<uint64_t> wrong_pages_;
};

void run(const Options& options) {
  Bench bench(options);
  std::vector<double> rates[4], ratios[2];
  for (uint64_t round = 0; round <= options.rounds; ++round) {
    double now[4];
    for (int i = 0; i < 4; ++i) {
      const bool puts = i < 2, is_raw = (static_cast<uint64_t>(i) + round) % 2 == 0;  // who begins alternates
      now[(puts ? 0 : 2) + is_raw] = is_raw ? bench.raw(puts) : bench.tier(puts);
    }
    if (round == 0) continue;  // warms up
    for (int i = 0; i < 4; ++i) rates[i].push_back(now[i]);
    for (int i = 0; i < 2; ++i) ratios[i].push_back(now[2 * i] / now[2 * i + 1]);
  }
  printf(
      "{\"page_bytes\": %llu, \"pages\": %llu, \"threads\": %u, \"rounds\": %llu, \"put_gb_per_s\": %.3f, "
      "\"raw_put_gb_per_s\": %.3f, \"put_ratio\": %.3f, \"get_gb_per_s\": %.3f, \"raw_get_gb_per_s\": %.3f, "
      "\"get_ratio\": %.3f, \"wrong_pages\": %llu}\n",
      static_cast<unsigned long long>(options.page_bytes), static_cast<unsigned long long>(options.pages),
      options.threads, static_cast<unsigned long long>(options.rounds), median(rates[0]), median(rates[1]),
      median(ratios[0]), median(rates[2]), median(rates[3]), median(ratios[1]),
      static_cast<unsigned long long>(bench.wrong_pages()));
  if (bench.wrong_pages() != 0) die("wrong pages");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc < 2 || std::strncmp(argv[1], "redis://", 8) != 0)
    die("give redis://HOST:PORT [PAGE_BYTES [PAGES [ROUNDS [THREADS]]]]");
  options.url = argv[1];
  const string place = options.url.substr(8, options.url.find_first_of("/?", 8) - 8);
  options.host = place.substr(0, place.find(':'));
  if (place.find(':') != string::npos) options.port = atoi(place.c_str() + place.find(':') + 1);
  if (argc > 2) options.page_bytes = strtoull(argv[2], nullptr, 10);
  if (argc > 3) options.pages = strtoull(argv[3], nullptr, 10);
  if (argc > 4) options.rounds = strtoull(argv[4], nullptr, 10);
  if (argc > 5) options.threads = static_cast<uint32_t>(strtoul(argv[5], nullptr, 10));
  if (options.page_bytes < 16 || options.pages == 0 || options.rounds == 0 || options.threads == 0)
    die("all numbers are at least 1, and PAGE_BYTES at least 16");
  run(options);
}
