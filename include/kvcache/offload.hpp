// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_OFFLOAD_HPP
#define KVCACHE_OFFLOAD_HPP

/// @file kvcache/offload.hpp
/// Offload. Parameters are the structs of kvcache/offload.h.
///
///     auto config = kvc::make<kvc_offload_config>();   // manager, storages, tiers, pages, policy
///     kvc::Offload offload(config);
///     offload.lookup(request.id(), now_ns);            // of a new or preempted request
///     offload.poll(now_ns);                            // in the engine's loop
///     if (offload.is_ready(request.id())) admit(request);
///
/// Failures throw kvc::Error, except a lookup for which there is no room. Destroy an offload before its
/// manager, storages and tiers.

#include <kvcache/offload.h>

#include <kvcache/types.hpp>

namespace kvc {
inline namespace cpp {

/// Blocks of a manager in tiers; move-only. Calls must not overlap.
class Offload {
 public:
  /// Makes an offload.
  explicit Offload(const kvc_offload_config& config) : o_(ask<kvc_offload*>(kvc_offload_create, &config)) {}
  kvc_offload* get() const noexcept { return o_.get(); }  ///< For C functions.

  /// Begins to look for a waiting request, and to load at most so many tokens (0: no bound). False: there is
  /// no room now; admit it as ever.
  bool lookup(uint64_t request, uint64_t now_ns, uint64_t max_tokens = 0) {
    const kvc_status status = kvc_offload_load(get(), request, max_tokens, now_ns);
    if (status == KVC_ERROR_LIMIT) return false;
    check(status);
    return true;
  }
  /// Whether it is time to admit the request.
  bool is_ready(uint64_t request) const {
    const uint32_t state = query(request).state;
    return state == KVC_OFFLOAD_NONE || state == KVC_OFFLOAD_READY;
  }
  /// Polls until all is stored, at most so long. Returns the blocks that are left.
  uint64_t flush(uint64_t now_ns, uint64_t timeout_ns = UINT64_MAX, kvc_stream* stream = nullptr) {
    return ask<uint64_t>(kvc_offload_flush, get(), now_ns, timeout_ns, stream);
  }
  /// Stores the blocks of an admitted request. Returns how many it has.
  uint64_t store_request(uint64_t request) {
    return ask<uint64_t>(kvc_offload_store_request, get(), request);
  }
  /// As kvc_offload_poll, kvc_offload_query, and so on.
  ///@{
  void poll(uint64_t now_ns, kvc_stream* stream = nullptr) { check(kvc_offload_poll(get(), now_ns, stream)); }
  kvc_offload_info query(uint64_t request) const {
    return ask<kvc_offload_info>(kvc_offload_query, get(), request);
  }
  void cancel(uint64_t request) { check(kvc_offload_cancel(get(), request)); }
  int event_fd() const { return ask<int32_t>(kvc_offload_event_fd, get()); }
  kvc_offload_stats stats() const { return ask<kvc_offload_stats>(kvc_offload_read_stats, get()); }
  kvc_offload_tier_stats tier_stats(uint32_t tier = 0) const {
    return ask<kvc_offload_tier_stats>(kvc_offload_read_tier_stats, get(), tier);
  }
  ///@}

 private:
  Owner<kvc_offload, kvc_offload_destroy> o_;
};

}  // namespace cpp
}  // namespace kvc

#endif  // KVCACHE_OFFLOAD_HPP
