// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_TIER_HPP
#define KVCACHE_TIER_HPP

/// @file kvcache/tier.hpp
/// Tiers and pages. Parameters are the structs of kvcache/tier.h and kvcache/page.h.
///
///     kvc::Tier tier("slab:/data/kv?bytes=1TiB&direct=1", info);   // info = kvc::page_info(storage, names)
///     kvc::TierJob job(KVC_TIER_GET, items);
///     uint64_t id = tier.submit(job);
///     ::poll(&readable, 1, -1);                  // of tier.event_fd()
///     for (const kvc_tier_completion& end : tier.poll(room)) use(end.user_data);
///
/// Failures throw kvc::Error, except a queue without room (submit). What an item came to is its result.

#include <kvcache/page.h>
#include <kvcache/plugin.h>
#include <kvcache/tier.h>

#include <kvcache/storage.hpp>
#include <string>

namespace kvc {
inline namespace cpp {

/// A batch of items (kvc_tier_job). Refers to them; they and their buffers must stay until the job has ended.
class TierJob : public kvc_tier_job {
 public:
  /// Of items, with the fields of the base at 0: set them as needed.
  TierJob(uint32_t job_kind, Span<kvc_tier_item> job_items) : kvc_tier_job(make<kvc_tier_job>()) {
    kind = job_kind, items = job_items.data(), num_items = job_items.size();
    priority = job_kind == KVC_TIER_PUT ? KVC_TIER_STORE : KVC_TIER_LOAD;
  }
};

/// A store of pages behind a queue of jobs; move-only. Any thread may call any function.
class Tier {
 public:
  /// Opens the tier that the URL names, for pages as `info` says.
  Tier(const std::string& url, const kvc_page_info& info) : Tier(config(url, info)) {}
  /// Opens a tier.
  explicit Tier(const kvc_tier_config& config) : t_(ask<kvc_tier*>(kvc_tier_create, &config)) {}
  kvc_tier* get() const noexcept { return t_.get(); }  ///< For C functions.

  /// Enqueues a job and returns its id, or 0: the queue has no room now.
  uint64_t submit(const kvc_tier_job& job) {
    uint64_t id = 0;
    const kvc_status status = kvc_tier_submit(get(), &job, &id);
    if (status == KVC_ERROR_LIMIT) return 0;
    check(status);
    return id;
  }
  /// Cancels items that are not begun. False: there are none.
  bool cancel(uint64_t id) {
    const kvc_status status = kvc_tier_cancel(get(), id);
    if (status == KVC_ERROR_NOT_FOUND) return false;
    check(status);
    return true;
  }
  /// Takes completions; returns the used part of `room`.
  Span<kvc_tier_completion> poll(Span<kvc_tier_completion> room) {
    return {room.data(), ask<size_t>(kvc_tier_poll, get(), room.data(), room.size())};
  }
  /// As kvc_tier_event_fd, kvc_tier_run_one, and so on.
  ///@{
  int event_fd() const { return ask<int32_t>(kvc_tier_event_fd, get()); }
  bool run_one() { return ask<int32_t>(kvc_tier_run_one, get()) != 0; }
  void drain() { check(kvc_tier_drain(get())); }
  kvc_tier_stats stats() const { return ask<kvc_tier_stats>(kvc_tier_read_stats, get()); }
  kvc_tier_counts counts(uint32_t kind) const {
    return ask<kvc_tier_counts>(kvc_tier_read_counts, get(), kind);
  }
  ///@}

 private:
  static kvc_tier_config config(const std::string& url, const kvc_page_info& info) {
    auto config = make<kvc_tier_config>();
    config.url = url.c_str(), config.page_bytes = info.page_bytes;
    for (size_t i = 0; i < sizeof config.fingerprint; ++i) config.fingerprint[i] = info.fingerprint[i];
    return config;
  }
  Owner<kvc_tier, kvc_tier_destroy> t_;
};

/// As kvc_storage_page_properties, kvc_storage_page_runs and so on.
///@{
inline kvc_page_info page_info(const Storage& s, const kvc_page_config& config) {
  return ask<kvc_page_info>(kvc_storage_page_properties, s.get(), &config);
}
inline Span<kvc_run> page_runs(const Storage& s, const kvc_page_config& config, Span<kvc_run> room) {
  return {room.data(), ask<size_t>(kvc_storage_page_runs, s.get(), &config, room.data(), room.size())};
}
inline void pack_pages(const Storage& s, Blocks b, Span<uint8_t> pages, uint64_t stride = 0) {
  check(kvc_storage_pack_pages(s.get(), b.data(), b.size(), pages.data(), pages.size(), stride));
}
inline void unpack_pages(Storage& s, Blocks b, Span<const uint8_t> pages, uint64_t stride = 0) {
  check(kvc_storage_unpack_pages(s.get(), b.data(), b.size(), pages.data(), pages.size(), stride));
}
///@}
/// Opens a plug-in of your choice (kvc_plugin_open).
inline void open_plugin(const std::string& name, const std::string& path) {
  check(kvc_plugin_open(name.c_str(), path.c_str()));
}

}  // namespace cpp
}  // namespace kvc

#endif  // KVCACHE_TIER_HPP
