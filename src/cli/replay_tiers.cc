// SPDX-License-Identifier: Apache-2.0
#include "cli/replay_tiers.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "cli/errors.h"
#include "cli/estimate.h"
#include "cli/options.h"

namespace kvcli {
namespace {

const std::vector<std::string>& tier_policies() {
  static const std::vector<std::string> names{"write-through", "second-use", "before-eviction"};
  return names;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The URL of a tier of the same size that has no bytes.
std::string model_of(const std::string& url) {
  const size_t at = url.find("bytes=");
  if (at == std::string::npos)
    throw InputError("--tiers " + url + ": bytes is missing, such as ?bytes=64GiB");
  return "sizes:?threads=0&" + url.substr(at, url.find('&', at) - at);
}

}  // namespace

kvc_page_config replayed_pages() {
  auto pages = make<kvc_page_config>();
  pages.model = "replay", pages.model_size = 6;
  pages.weights = "1", pages.weights_size = 1;
  return pages;
}

void add_tier_options(CLI::App& command, TierOptions& options) {
  CLI::Option* const tiers = command.add_option(
      "--tiers", options.urls,
      "Tiers below the pool, such as memory:?bytes=64GiB,slab:/path?bytes=1TiB: what is evicted comes back");
  command
      .add_flag("--tier-bytes", options.bytes, "Open these tiers, and do their I/O; else sizes alone count")
      ->needs(tiers);
  command
      .add_option("--block-bytes", options.block_bytes,
                  "With --tiers: bytes of a block; --model tells its own")
      ->capture_default_str()
      ->excludes("--model");
  add_choice(command, "--tier-policy", options.policy, "With --tiers: which blocks are stored",
             tier_policies())
      ->capture_default_str();
  command
      .add_option("--compute-us", options.compute_us_per_token,
                  "With --tiers: microseconds to compute a prompt token, for the time that loads save")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command
      .add_option("--tier-gb-per-s", options.gb_per_s,
                  "With --tiers: bandwidth of each, 10^9 bytes a second, separated by commas")
      ->capture_default_str();
  for (const char* other : {"--verify", "--data", "--partial", "--samples", "--log"}) tiers->excludes(other);
}

ReplayTiers::ReplayTiers(kvc_manager* manager, size_t num_groups, const TierOptions& options)
    : options_(options), urls_(split(options.urls)) {
  for (const std::string& text : split(options.gb_per_s)) {
    try {
      gb_per_s_.push_back(std::stod(text));
    } catch (const std::exception&) {
      gb_per_s_.push_back(0);
    }
    if (!(gb_per_s_.back() > 0))
      throw InputError("--tier-gb-per-s is " + options.gb_per_s + "; it must be numbers above 0");
  }
  std::vector<uint64_t> page_bytes = options.group_bytes;
  if (page_bytes.empty()) page_bytes.assign(num_groups, parse_bytes(options.block_bytes));
  std::vector<kvc_tier*> tiers;
  for (const std::string& url : urls_) {
    const std::string opened = options.bytes ? url : model_of(url);
    auto config = make<kvc_tier_config>();
    std::memcpy(config.fingerprint, "kvcache replay", 14);  // its pages are of no model
    config.url = opened.c_str();
    config.page_bytes = std::ranges::max(page_bytes);
    tiers.push_back(ask<kvc_tier*>(kvc_tier_create, &config));
    tiers_.emplace_back(tiers.back());
  }
  const kvc_page_config pages = replayed_pages();
  auto config = make<kvc_offload_config>();
  config.manager = manager;
  config.page_bytes = page_bytes.data();
  config.tiers = tiers.data();
  config.num_tiers = tiers.size();
  config.pages = &pages;
  config.policy =
      uint32_t{1} << (std::ranges::find(tier_policies(), options.policy) - tier_policies().begin());
  config.max_lookups = 2;
  config.max_lookup_blocks = 1 << 15;
  offload_.reset(ask<kvc_offload*>(kvc_offload_create, &config));
}

/// Until a tier has done something.
void ReplayTiers::wait() const {
  int32_t fd = -1;
  check(kvc_offload_event_fd(offload_.get(), &fd));
  pollfd entry = {fd, POLLIN, 0};
  ::poll(&entry, 1, 10);
}

void ReplayTiers::load(uint64_t request) {
  watch_.start();
  check(kvc_offload_lookup(offload_.get(), request, ++now_));
  for (;;) {
    const auto info = ask<kvc_offload_info>(kvc_offload_query, offload_.get(), request);
    if (info.state == KVC_OFFLOAD_READY || info.state == KVC_OFFLOAD_NONE) break;
    check(kvc_offload_poll(offload_.get(), ++now_, nullptr));
    if (!options_.bytes) continue;
    watch_.stop();
    wait();
    watch_.start();
  }
  watch_.stop();
}

void ReplayTiers::cancel(uint64_t request) {
  watch_.start();
  const kvc_status status = kvc_offload_cancel(offload_.get(), request);
  watch_.stop();
  check(status);
}

void ReplayTiers::poll() {
  watch_.start();
  const kvc_status status = kvc_offload_poll(offload_.get(), ++now_, nullptr);
  watch_.stop();
  check(status);
}

void ReplayTiers::report(ReplayResult& result) {
  const auto stats = ask<kvc_offload_stats>(kvc_offload_read_stats, offload_.get());
  result.loaded_tokens = stats.loaded_tokens;
  result.offload_seconds = watch_.seconds();
  result.ttft_saved_seconds = static_cast<double>(stats.loaded_tokens) * options_.compute_us_per_token / 1e6;
  for (uint32_t t = 0; t < urls_.size(); ++t) {
    const auto tier = ask<kvc_offload_tier_stats>(kvc_offload_read_tier_stats, offload_.get(), t);
    result.tiers.push_back({urls_[t], tier.hits, tier.misses, tier.loaded_bytes, tier.stored_bytes,
                            tier.failed_loads, tier.refused_stores + tier.failed_stores});
    result.ttft_saved_seconds -=
        static_cast<double>(tier.loaded_bytes) / (gb_per_s_[std::min<size_t>(t, gb_per_s_.size() - 1)] * 1e9);
  }
}

}  // namespace kvcli
