// SPDX-License-Identifier: Apache-2.0
// Inputs and results of the calls of kvcache/offload.h. The offload is of sizes alone; it is made for a call
// and ended by clean(), because it holds blocks of the manager and has the scene's tier for itself.
#pragma once
#include <kvcache/offload.h>
#include <kvcache/page.h>

namespace kvc::test {

struct OffloadScene {
  static constexpr uint64_t kPageBytes = 64;

  kvc_tier* tiers[1] = {};
  const uint64_t page_bytes[1] = {kPageBytes};
  kvc_offload_config config = {};
  kvc_offload *offload = nullptr, *made = nullptr;
  kvc_offload_info info = {};
  kvc_offload_stats stats = {};
  kvc_offload_tier_stats tier_stats = {};
  uint64_t num_blocks = 0, num_left = 0;
  int32_t fd = -1;

  OffloadScene() = default;
  OffloadScene(const OffloadScene&) = delete;
  ~OffloadScene() { clean(); }
  void bind(kvc_manager* manager, kvc_tier* tier, const kvc_page_config* pages) {
    tiers[0] = tier;
    config.struct_size = sizeof config;
    config.manager = manager, config.page_bytes = page_bytes, config.pages = pages;
    config.tiers = tiers, config.num_tiers = 1;
    config.policy = KVC_OFFLOAD_WRITE_THROUGH | KVC_OFFLOAD_SECOND_USE | KVC_OFFLOAD_BEFORE_EVICTION;
    config.num_pages = 4, config.max_lookups = 1;
    info.struct_size = sizeof info, stats.struct_size = sizeof stats;
    tier_stats.struct_size = sizeof tier_stats;
  }
  bool open() { return kvc_offload_create(&config, &offload) == KVC_OK; }
  void clean() {
    kvc_offload_destroy(offload);
    kvc_offload_destroy(made);
    offload = made = nullptr;
  }
};

}  // namespace kvc::test
