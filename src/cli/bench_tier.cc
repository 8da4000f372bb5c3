// SPDX-License-Identifier: Apache-2.0
// A round is: raw puts, puts, raw gets, gets, exists of all and, beside gets, of one, and a remove of all.
// Figures are medians of the rounds, in which the tier and the raw side take turns, so that other work on the
// machine hits both. Every page that a get gave is compared. The JSON keys are an interface: add keys, do not
// rename them.
#include "cli/bench_tier.h"

#include <kvcache/tier.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "cli/errors.h"
#include "cli/estimate.h"
#include "cli/library.h"
#include "cli/machine.h"
#include "cli/raw_store.h"
#include "cli/table.h"

namespace kvcli {
namespace {

using Tier = kvc::Owner<kvc_tier, kvc_tier_destroy>;

constexpr uint64_t kDefaultBytes = uint64_t{1} << 30;
constexpr int kLeastRounds = 3;
constexpr uint64_t kLoads = 64;  // that run while exists is asked for one page

/// Of all pages, aligned as direct I/O needs it.
class Pages {
 public:
  explicit Pages(uint64_t bytes)
      : data_(static_cast<char*>(aligned_alloc(4096, (bytes + 4095) / 4096 * 4096))) {
    if (data_ == nullptr) throw LibraryError("no memory for the pages; give fewer --pages");
    std::memset(data_, 0, bytes);
  }
  ~Pages() { free(data_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  char* data() { return data_; }

 private:
  char* data_;
};

/// Seconds of each round; empty: not measured.
struct Rounds {
  std::vector<double> put, get, raw_put, raw_get, exists;
};

class TierBench {
 public:
  explicit TierBench(const TierBenchOptions& options)
      : url_(options.url),
        page_bytes_(parse_bytes(options.page_bytes)),
        tier_(open(options.pages)),
        pages_(choose(options.pages)),
        from_(page_bytes_ * pages_),
        to_(page_bytes_ * pages_),
        items_(pages_) {
    const std::string threads = parameter_of(url_, "threads", url_.rfind("memory:", 0) == 0 ? "2" : "4");
    threads_ = std::max(1u, static_cast<uint32_t>(std::strtoul(threads.c_str(), nullptr, 10)));
    depth_ = options.depth != 0
                 ? options.depth
                 : static_cast<uint32_t>(std::clamp<uint64_t>((uint64_t{8} << 20) / page_bytes_, 1, 32));
    uint64_t state = 1;
    for (uint64_t i = 0; i + 8 <= page_bytes_ * pages_; i += 8) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::memcpy(from_.data() + i, &state, 8);
    }
    raw_ = make_raw_store({url_, page_bytes_, pages_, threads_, depth_});
  }

  void run(uint32_t seconds) {
    Stopwatch watch;
    watch.start();
    do {
      round();
      watch.stop();
      watch.start();
    } while (++rounds_ < kLeastRounds || watch.seconds() < seconds);
    stats_ = ask<kvc_tier_stats>(kvc_tier_read_stats, tier_.get());
  }
  bool right() const { return wrong_ == 0 && not_done_ == 0; }
  nlohmann::ordered_json json() const;

 private:
  /// As many pages as asked for, or 1 GiB of them, or what the tier has room for.
  uint64_t choose(uint64_t asked) const {
    const uint64_t room = ask<kvc_tier_stats>(kvc_tier_read_stats, tier_.get()).capacity_pages;
    if (room != 0 && asked > room)
      throw InputError("--pages " + std::to_string(asked) + ": the tier has room for " +
                       std::to_string(room) + " of these pages; give fewer, or more bytes to the tier");
    const uint64_t wanted = asked != 0 ? asked : std::max<uint64_t>(1, kDefaultBytes / page_bytes_);
    return room == 0 ? wanted : std::min(wanted, room);
  }

  kvc_tier* open(uint64_t pages) const {
    auto config = make<kvc_tier_config>();
    std::memcpy(config.fingerprint, "kvcache bench tier", 18);  // its pages are of no model
    config.url = url_.c_str();
    config.page_bytes = page_bytes_;
    config.max_store_bytes = std::max(page_bytes_ * std::max<uint64_t>(pages, 1), kDefaultBytes);
    kvc_tier* tier = nullptr;
    const kvc_status status = kvc_tier_create(&config, &tier);
    if (status == KVC_ERROR_INVALID_ARGUMENT) throw InputError(kvc_last_error());
    check(status);
    return tier;
  }

  /// Items of pages 0 to count - 1 of this round.
  void fill(uint32_t kind, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      items_[i] = {};
      const uint64_t number = static_cast<uint64_t>(rounds_) * pages_ + i + 1;
      const uint64_t words[4] = {number * 0x9E3779B97F4A7C15u, number, ~number, number << 32 | number >> 32};
      std::memcpy(items_[i].key, words, sizeof words);
      items_[i].data = (kind == KVC_TIER_PUT ? from_ : to_).data() + i * page_bytes_;
      items_[i].bytes = page_bytes_;
    }
  }
  uint64_t submit(uint32_t kind, kvc_tier_item* items, uint64_t count) {
    auto own = make<kvc_tier_job>();
    own.items = items;
    own.num_items = count;
    own.kind = kind;
    uint64_t id = 0;
    check(kvc_tier_submit(tier_.get(), &own, &id));
    return id;
  }

  /// Seconds of one job of all pages.
  double job(uint32_t kind) {
    fill(kind, pages_);
    Stopwatch watch;
    watch.start();
    submit(kind, items_.data(), pages_);
    pollfd ready = {ask<int32_t>(kvc_tier_event_fd, tier_.get()), POLLIN, 0};
    kvc_tier_completion done;
    for (size_t count = 0; count == 0;) {
      if (poll(&ready, 1, -1) < 0) continue;
      check(kvc_tier_poll(tier_.get(), &done, 1, &count));
    }
    watch.stop();
    not_done_ += pages_ - done.num_ok;
    return watch.seconds();
  }

  /// Asks for one page again and again while some are loaded, and keeps the seconds of each answer.
  void exists_beside_loads() {
    const uint64_t count = std::min(pages_, kLoads);
    fill(KVC_TIER_GET, count);
    kvc_tier_item one = items_[0];
    const uint64_t loads = submit(KVC_TIER_GET, items_.data(), count);
    bool loading = true, waiting = false;
    kvc_tier_completion done;
    for (Stopwatch watch; loading || waiting;) {
      if (loading && !waiting) {
        watch.start();
        submit(KVC_TIER_EXISTS, &one, 1);
        waiting = true;
      }
      size_t got = 0;
      check(kvc_tier_poll(tier_.get(), &done, 1, &got));
      if (got == 0) continue;
      if (done.job == loads) {
        loading = false;
        not_done_ += count - done.num_ok;
        continue;
      }
      exists_seconds_.push_back(watch.stop());
      waiting = false;
    }
  }

  /// Seconds of the same by the raw store, with as many threads.
  double raw(bool write) {
    std::atomic<uint64_t> next{0};
    std::atomic<bool> failed{false};
    const uint64_t share = std::min<uint64_t>(depth_, (pages_ + threads_ - 1) / threads_);
    std::vector<std::thread> threads;
    Stopwatch watch;
    watch.start();
    for (uint32_t t = 0; t < threads_; ++t)
      threads.emplace_back([&, t] {
        for (uint64_t first; (first = next.fetch_add(share)) < pages_ && !failed;) {
          char* const data = (write ? from_ : to_).data() + first * page_bytes_;
          if (!raw_->move(t, write, first, std::min(share, pages_ - first), data)) failed = true;
        }
      });
    for (std::thread& thread : threads) thread.join();
    watch.stop();
    if (failed) throw LibraryError("the raw side failed: " + raw_->name());
    return watch.seconds();
  }

  void round() {
    if (raw_ != nullptr) rounds_of_.raw_put.push_back(raw(true));
    rounds_of_.put.push_back(job(KVC_TIER_PUT));
    if (raw_ != nullptr) rounds_of_.raw_get.push_back(raw(false));
    std::memset(to_.data(), 0, page_bytes_ * pages_);
    rounds_of_.get.push_back(job(KVC_TIER_GET));
    for (uint64_t i = 0; i < pages_; ++i)
      wrong_ += items_[i].result == KVC_PAGE_OK &&
                std::memcmp(from_.data() + i * page_bytes_, to_.data() + i * page_bytes_, page_bytes_) != 0;
    rounds_of_.exists.push_back(job(KVC_TIER_EXISTS));
    exists_beside_loads();
    job(KVC_TIER_REMOVE);  // the next round writes where something was, as the raw side does
  }

  const std::string url_;
  const uint64_t page_bytes_;
  Tier tier_;
  const uint64_t pages_;
  Pages from_, to_;
  std::vector<kvc_tier_item> items_;
  std::unique_ptr<RawStore> raw_;
  uint32_t threads_ = 1, depth_ = 1;
  int rounds_ = 0;
  uint64_t wrong_ = 0, not_done_ = 0;
  Rounds rounds_of_;
  std::vector<double> exists_seconds_;  // of one page each, beside loads
  kvc_tier_stats stats_ = {};
};

nlohmann::ordered_json TierBench::json() const {
  const double gigabytes = static_cast<double>(page_bytes_ * pages_) / 1e9;
  const auto rate = [&](const std::vector<double>& seconds) -> nlohmann::ordered_json {
    return seconds.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(gigabytes / median(seconds));
  };
  const auto ratio = [](const std::vector<double>& raw,
                        const std::vector<double>& own) -> nlohmann::ordered_json {
    return raw.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(median(raw) / median(own));
  };
  nlohmann::ordered_json json;
  json["bench"] = "tier";
  json["hardware"] = processor_name();
  json["url"] = url_;
  json["page_bytes"] = page_bytes_;
  json["pages"] = pages_;
  json["threads"] = threads_;
  json["depth"] = depth_;
  json["rounds"] = rounds_;
  json["raw"] = raw_ == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(raw_->name());
  json["put_gb_per_s"] = rate(rounds_of_.put);
  json["raw_put_gb_per_s"] = rate(rounds_of_.raw_put);
  json["put_ratio"] = ratio(rounds_of_.raw_put, rounds_of_.put);
  json["get_gb_per_s"] = rate(rounds_of_.get);
  json["raw_get_gb_per_s"] = rate(rounds_of_.raw_get);
  json["get_ratio"] = ratio(rounds_of_.raw_get, rounds_of_.get);
  json["exists_per_s"] = static_cast<double>(pages_) / median(rounds_of_.exists);
  std::vector<double> sorted = exists_seconds_;
  std::sort(sorted.begin(), sorted.end());
  json["exists_us_beside_loads"] = 1e6 * sorted[sorted.size() / 2];
  json["exists_us_beside_loads_p99"] = 1e6 * sorted[sorted.size() * 99 / 100];
  json["wrong_pages"] = wrong_;
  json["not_done"] = not_done_;
  json["uses_uring"] = stats_.uses_uring != 0;
  json["fallbacks"] = stats_.fallbacks;
  return json;
}

}  // namespace

bool print_tier_bench(const TierBenchOptions& options, bool as_json, std::ostream& out) {
  if (options.url.empty()) throw InputError("bench tier: no URL; give one, such as memory:?bytes=4GiB");
  TierBench bench(options);
  bench.run(options.seconds);
  const nlohmann::ordered_json json = bench.json();
  if (as_json) {
    out << json.dump(2) << '\n';
    return bench.right();
  }
  const auto line = [&](const char* what, const char* own, const char* raw, const char* ratio) {
    out << "  " << what << fixed(json[own], 2) << " GB/s";
    if (!json[raw].is_null())
      out << "; the raw side " << fixed(json[raw], 2) << ": " << fixed(json[ratio], 2) << " of it";
    out << '\n';
  };
  out << "tier " << options.url << ", " << counted(json["pages"], "page") << " of "
      << grouped(json["page_bytes"]) << " bytes\n  " << std::string(json["hardware"]) << "\n  "
      << (json["uses_uring"] ? "io_uring" : "no io_uring")
      << "; raw side: " << (json["raw"].is_null() ? "none is known" : std::string(json["raw"])) << '\n';
  line("put ", "put_gb_per_s", "raw_put_gb_per_s", "put_ratio");
  line("get ", "get_gb_per_s", "raw_get_gb_per_s", "get_ratio");
  out << "  " << grouped(static_cast<uint64_t>(double{json["exists_per_s"]})) << " keys/s of exists, "
      << fixed(json["exists_us_beside_loads"], 1) << " us for one beside " << kLoads << " loads\n  "
      << counted(json["wrong_pages"], "wrong page") << ", " << counted(json["not_done"], "item")
      << " not done\n";
  return bench.right();
}

}  // namespace kvcli
