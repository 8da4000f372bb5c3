// SPDX-License-Identifier: Apache-2.0
// By hand: a tier beside what it stands on, in one run.
//
//   kvcache_tier_bench URL [PAGE_BYTES [PAGES [ROUNDS]]]
//
// memory: beside memcpy between the same buffers; slab and dir: beside pread and pwrite of a plain file by as
// many threads, with O_DIRECT if the URL says so. Prints the best of the rounds. Every page is compared.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tier/open_tier.h"

namespace kvc {
namespace {

double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Digest256 key_of(uint64_t number) {
  Sha256 sha;
  sha.update(&number, sizeof number);
  return sha.finish();
}

class Bench {
 public:
  Bench(Tier& tier, uint64_t page_bytes, uint64_t pages, uint32_t threads)
      : tier_(tier), page_bytes_(page_bytes), pages_(pages), threads_(threads), items_(pages) {
    from_ = static_cast<char*>(aligned_alloc(4096, page_bytes * pages));
    to_ = static_cast<char*>(aligned_alloc(4096, page_bytes * pages));
    uint64_t state = 1;
    for (uint64_t i = 0; i < page_bytes * pages; i += 8) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::memcpy(from_ + i, &state, 8);
    }
    std::memset(to_, 0, page_bytes * pages);
  }
  ~Bench() { free(from_), free(to_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  double call(TierJobKind kind, uint64_t first_key) {
    for (uint64_t i = 0; i < pages_; ++i) {
      items_[i] = {};
      items_[i].key = key_of(first_key + i);
      items_[i].data = (kind == TierJobKind::kPut ? from_ : to_) + i * page_bytes_;
      items_[i].bytes = page_bytes_;
    }
    return seconds([&] {
      TierJob job = {};
      job.kind = kind, job.items = items_.data(), job.num_items = pages_;
      uint64_t id = 0;
      if (tier_.submit(job, &id) != KVC_OK) {
        fprintf(stderr, "%s\n", kvc_last_error());
        exit(1);
      }
      TierCompletion done;
      pollfd ready = {tier_.event_fd(), POLLIN, 0};
      while (tier_.poll(&done, 1) == 0) poll(&ready, 1, -1);
      if (done.num_ok != pages_) ++incomplete_;
    });
  }
  uint64_t wrong() const {
    uint64_t count = 0;
    for (uint64_t i = 0; i < pages_; ++i)
      count += std::memcmp(from_ + i * page_bytes_, to_ + i * page_bytes_, page_bytes_) != 0;
    return count;
  }
  uint64_t incomplete() const { return incomplete_; }
  // Pages by all threads, as the tier does them.
  double raw(const std::function<void(uint64_t page)>& one) {
    return seconds([&] {
      std::atomic<uint64_t> next{0};
      std::vector<std::thread> threads;
      for (uint32_t t = 0; t < threads_; ++t)
        threads.emplace_back([&] {
          for (uint64_t i; (i = next++) < pages_;) one(i);
        });
      for (std::thread& thread : threads) thread.join();
    });
  }
  char* from(uint64_t page) { return from_ + page * page_bytes_; }
  char* to(uint64_t page) { return to_ + page * page_bytes_; }

 private:
  Tier& tier_;
  const uint64_t page_bytes_, pages_;
  const uint32_t threads_;
  std::vector<PageItem> items_;
  char *from_, *to_;
  uint64_t incomplete_ = 0;
};

int run(const std::string& url, uint64_t page_bytes, uint64_t pages, int rounds) {
  std::unique_ptr<Tier> tier;
  if (open_tier(default_env(), system_files(), url.c_str(), {key_of(0), page_bytes}, &tier) != KVC_OK) {
    fprintf(stderr, "%s\n", kvc_last_error());
    return 1;
  }
  const bool memory = url.rfind("memory:", 0) == 0;
  const size_t at = url.find("threads=");
  const auto threads = static_cast<uint32_t>(at != std::string::npos ? atoi(url.c_str() + at + 8)
                                             : memory                ? 2
                                                                     : 4);
  Bench bench(*tier, page_bytes, pages, threads);
  int file = -1;
  std::string path;
  std::vector<char> slots;
  if (memory) {
    slots.assign(page_bytes * pages, 0);
  } else {
    path = url.substr(url.find(':') + 1, url.find('?') - url.find(':') - 1) + ".raw";
    const bool direct = url.find("direct=1") != std::string::npos;
    file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | (direct ? O_DIRECT : 0), 0600);
    if (file < 0 || posix_fallocate(file, 0, static_cast<off_t>(page_bytes * pages)) != 0)
      return perror(path.c_str()), 1;
  }
  double put = 1e9, get = 1e9, raw_put = 1e9, raw_get = 1e9, exists = 1e9;
  uint64_t wrong = 0;
  const auto keep_least = [](double* best, double value) { *best = value < *best ? value : *best; };
  std::atomic<int> failures{0};
  for (int r = 0; r < rounds; ++r) {
    const auto first = static_cast<uint64_t>(r) * pages + 1;
    keep_least(&raw_put, bench.raw([&](uint64_t i) {
      if (memory) {
        std::memcpy(&slots[i * page_bytes], bench.from(i), page_bytes);
      } else if (pwrite(file, bench.from(i), page_bytes, static_cast<off_t>(i * page_bytes)) < 0) {
        ++failures;
      }
    }));
    keep_least(&put, bench.call(TierJobKind::kPut, first));
    keep_least(&raw_get, bench.raw([&](uint64_t i) {
      if (memory) {
        std::memcpy(bench.to(i), &slots[i * page_bytes], page_bytes);
      } else if (pread(file, bench.to(i), page_bytes, static_cast<off_t>(i * page_bytes)) < 0) {
        ++failures;
      }
    }));
    std::memset(bench.to(0), 0, page_bytes * pages);
    keep_least(&get, bench.call(TierJobKind::kGet, first));
    wrong += bench.wrong();
    keep_least(&exists, bench.call(TierJobKind::kExists, first));
    bench.call(TierJobKind::kRemove, first);  // later rounds write where something was, as the raw ones do
  }
  if (file >= 0) close(file), unlink(path.c_str());
  const double gigabytes = static_cast<double>(page_bytes * pages) / 1e9;
  printf(
      "{\"page_bytes\": %llu, \"pages\": %llu, \"put_gb_per_s\": %.2f, \"raw_put_gb_per_s\": %.2f, "
      "\"get_gb_per_s\": %.2f, \"raw_get_gb_per_s\": %.2f, \"put_of_raw\": %.2f, \"get_of_raw\": %.2f, "
      "\"exists_per_s\": %.0f, \"wrong_pages\": %llu, \"incomplete_jobs\": %llu, \"raw_failures\": %d}\n",
      static_cast<unsigned long long>(page_bytes), static_cast<unsigned long long>(pages), gigabytes / put,
      gigabytes / raw_put, gigabytes / get, gigabytes / raw_get, raw_put / put, raw_get / get,
      static_cast<double>(pages) / exists, static_cast<unsigned long long>(wrong),
      static_cast<unsigned long long>(bench.incomplete()), failures.load());
  return wrong == 0 && bench.incomplete() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kvc

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "kvcache_tier_bench URL [PAGE_BYTES [PAGES [ROUNDS]]]\n");
    return 2;
  }
  const uint64_t page_bytes = argc > 2 ? strtoull(argv[2], nullptr, 0) : 2u << 20;
  const uint64_t pages = argc > 3 ? strtoull(argv[3], nullptr, 0) : 256;
  return kvc::run(argv[1], page_bytes, pages, argc > 4 ? atoi(argv[4]) : 5);
}
