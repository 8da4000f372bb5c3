// SPDX-License-Identifier: Apache-2.0
// What tests of partial reuse share, beside what those of resizing do: admissions, and the pairs that they
// leave.
#pragma once
#include "resize/scene.h"

namespace kvc::test {

inline kvc_manager_config partial_config(uint64_t num_blocks) {
  kvc_manager_config config = config_of(num_blocks);
  config.flags = KVC_MANAGER_PARTIAL_REUSE;
  return config;
}

inline std::vector<int32_t> joined(std::vector<int32_t> tokens, const std::vector<int32_t>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

struct Admitted {
  uint64_t id = 0, cached = 0;
};
inline Admitted admit(kvc_manager* m, const std::vector<int32_t>& tokens,
                      const kvc_request_config* config = nullptr, uint64_t ns = 0) {
  Admitted made;
  EXPECT_EQ(kvc_manager_allocate_request(m, PROMPT(ns, tokens.data(), tokens.size(), nullptr, 0), config,
                                         &made.id, &made.cached),
            KVC_OK)
      << kvc_last_error();
  return made;
}

// What a prompt would hit.
inline uint64_t hit(kvc_manager* m, const std::vector<int32_t>& tokens) {
  kvc_probe_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_manager_probe(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), &info), KVC_OK);
  return info.num_cached;
}

inline kvc_request_info info_of(kvc_manager* m, uint64_t request) {
  kvc_request_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_manager_request_info(m, request, &info), KVC_OK);
  return info;
}

// Takes the pending copies.
inline std::vector<kvc_block_copy> pairs(kvc_manager* m) {
  std::vector<kvc_block_copy> copies(1024);
  size_t count = 0;
  EXPECT_EQ(take_copies(m, copies.data(), copies.size(), &count), KVC_OK) << kvc_last_error();
  copies.resize(count);
  return copies;
}

}  // namespace kvc::test
