/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of a tier whose pages are of no model: those of a test. For C11 and C++. */
#ifndef KVC_TESTS_TIER_CONFIG_H
#define KVC_TESTS_TIER_CONFIG_H

#include <kvcache/tier.h>
#include <string.h>

static inline kvc_tier_config test_tier_config(const char* url, uint64_t page_bytes) {
  kvc_tier_config config;
  memset(&config, 0, sizeof config);
  config.struct_size = sizeof config;
  config.url = url;
  config.page_bytes = page_bytes;
  memcpy(config.fingerprint, "the pages of a test", 20);
  return config;
}

#endif /* KVC_TESTS_TIER_CONFIG_H */
