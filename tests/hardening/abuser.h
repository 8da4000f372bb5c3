// SPDX-License-Identifier: Apache-2.0
// Calls one manager with bad arguments: every call answers an error code or does what it should; a refused
// one leaves the digest as it was.
#pragma once
#include <gtest/gtest.h>
#include <kvcache/events.h>
#include <kvcache/prefix.h>

#include "calls.h"
#include "hardening/abuse_arguments.h"
#include "hardening/recording.h"

namespace kvc::test {

class Abuser : private BadArguments {
 public:
  // Shapes of the manager's groups.
  static constexpr int kShapes = 9;
  explicit Abuser(uint64_t seed, int shape = 0) : BadArguments(seed) {
    kvc_group_config full = {}, window = {};
    full.struct_size = window.struct_size = sizeof full;
    window.kind = KVC_GROUP_SLIDING_WINDOW;
    window.window_tokens = shape == 1 || shape == 2 ? 1 : shape == 3 ? 6 : UINT64_MAX;
    window.num_sink_tokens = shape == 2 ? 3 : 0;
    window.retention_tokens = shape == 3 ? 8 : 0;
    if (shape == 5 || shape == 6) {
      window.kind = KVC_GROUP_CHUNKED_LOCAL;
      window.window_tokens = 0, window.chunk_tokens = shape == 5 ? 8 : 5;
    }
    if (shape == 7) window.kind = KVC_GROUP_STATE, window.window_tokens = 0, window.retention_tokens = 8;
    if (shape == 8) window = {}, window.struct_size = sizeof window, full.kind = KVC_GROUP_CROSS;
    const kvc_group_config groups[] = {window, full};  // calls of external blocks mostly name the first
    kvc_manager_config config = {};
    config.struct_size = sizeof config;
    config.num_blocks = kBlocks, config.max_blocks = kBlocks + 8, config.block_size = 4,
    config.max_quotas = 2, config.max_requests = kRequests, config.seed = 1;
    config.max_request_tokens = kMaxTokens, config.vocab_size = 50, config.event_capacity = 32;
    config.flags = KVC_MANAGER_ZERO_CROSS_NAMESPACE | KVC_MANAGER_HINTS | KVC_MANAGER_HEADROOM |
                   KVC_MANAGER_FILLS | (shape % 4 == 0 ? KVC_MANAGER_PARTIAL_REUSE : 0);
    if (shape == 7) config.flags &= ~uint32_t{KVC_MANAGER_HEADROOM | KVC_MANAGER_FILLS};
    if (shape != 0) config.groups = groups, config.num_groups = shape == 1 ? 1 : 2;
    expect_ok(kvc_manager_create(&config, &other_));
    config.record_bytes = record_bytes();
    expect_ok(kvc_manager_create(&config, &m_));
    for (int i = 0; i < 3; ++i) {  // ids of another manager
      uint64_t id = 0, pinned = 0;
      const int32_t tokens[9] = {1, 2, 3, 4, 5, 6, 7, 8, i};
      kvc_request_config options = {};
      options.struct_size = sizeof options;
      options.slots = 8;  // a state group has a state at their end
      expect_ok(
          kvc_manager_allocate_request(other_, PROMPT(0, tokens, 9, nullptr, 0), &options, &id, nullptr));
      expect_ok(kvc_manager_commit_tokens(other_, id, 8));
      known_.push_back(id);
      expect_ok(kvc_manager_pin_prefix(other_, PROMPT(0, tokens, 8, nullptr, 0), &id, &pinned));
      known_.push_back(id);
      expect_ok(kvc_manager_open_namespace(other_, identity(i), &id));
      known_.push_back(id);
    }
    digest_ = digest();
  }
  ~Abuser() {
    expect_replay(m_);
    kvc_manager_destroy(m_);
    kvc_manager_destroy(other_);
  }
  Abuser(const Abuser&) = delete;
  Abuser& operator=(const Abuser&) = delete;

  void run(uint64_t calls) {
    for (uint64_t i = 0; i < calls && !::testing::Test::HasFailure(); ++i) {
      const int kind = static_cast<int>(random_.below(kKinds));
      const kvc_status status = call(kind);
      ++(status == KVC_OK ? done[kind] : refused[kind]);
      const uint64_t now = digest();
      if (status != KVC_OK) {
        ASSERT_EQ(now, digest_) << "call " << i << " of kind " << kind
                                << " was refused and changed something";
      }
      ASSERT_TRUE(status >= KVC_OK && status <= KVC_ERROR_NEVER_FITS && status != KVC_ERROR_DEVICE &&
                  status != KVC_ERROR_INTERNAL && status != KVC_ERROR_CORRUPT &&
                  status != KVC_ERROR_OUT_OF_MEMORY)
          << "call " << i << " of kind " << kind << ": " << kvc_last_error();
      digest_ = now;
      if (i % 256 != 0) continue;
      ASSERT_EQ(kvc_manager_check(m_), KVC_OK) << "call " << i << ": " << kvc_last_error();
    }
    ASSERT_EQ(kvc_manager_check(m_), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_manager_check(other_), KVC_OK) << kvc_last_error();
  }

  static constexpr int kKinds = 29;
  uint64_t done[kKinds] = {}, refused[kKinds] = {};

 private:
  void expect_ok(kvc_status status) { EXPECT_EQ(status, KVC_OK) << kvc_last_error(); }
  uint64_t digest() {
    uint64_t value = 0;
    expect_ok(kvc_manager_digest(m_, &value));
    return value;
  }
  kvc_status call(int kind);  // abuser.cc
  kvc_status call_step();
  kvc_status call_hint();
  kvc_status call_prompt();

  kvc_manager *m_ = nullptr, *other_ = nullptr;
  uint64_t digest_ = 0, number_ = 0, cursor_ = 0, time_ = 10;
  int64_t slots_[kRoom] = {};
  uint64_t ids_[kRoom] = {};
  kvc_block_copy copies_[kRoom] = {};
  kvc_event events_[64] = {};
};

}  // namespace kvc::test
