// SPDX-License-Identifier: Apache-2.0
// Leaves a server alone that has failed: after kFailures calls in a row without an answer nothing is sent to
// it until `probe_ns` have passed; then one call tries, and its success ends the outage. Calls that were made
// before the outage began may end during it: their answer ends it, too. Not thread-safe.
#pragma once
#include <cstdint>

namespace kvc {

class Breaker {
 public:
  static constexpr uint32_t kFailures = 3;
  enum class Turn : uint8_t { kNot, kCall, kProbe };
  enum class Answer : uint8_t { kNone, kGood, kBad };  // kNone: the server was not asked

  explicit Breaker(uint64_t probe_ns) : probe_ns_(probe_ns) {}

  bool takes(uint64_t now_ns) const { return !open_ || (!probing_ && now_ns >= retry_at_ns_); }
  // Whether a call may be made now. If so, its end must be told.
  Turn begin(uint64_t now_ns) {
    if (!open_) return Turn::kCall;
    if (!takes(now_ns)) return Turn::kNot;
    probing_ = true;
    return Turn::kProbe;
  }
  void end(Turn turn, Answer answer, uint64_t now_ns) {
    if (turn == Turn::kProbe) probing_ = false;
    if (answer == Answer::kNone) return;
    if (answer == Answer::kGood) {
      failures_ = 0;
      open_ = false;
      return;
    }
    if (open_) {
      retry_at_ns_ = now_ns + probe_ns_;
    } else if (++failures_ >= kFailures) {
      ++outages_;
      open_ = true;
      retry_at_ns_ = now_ns + probe_ns_;
    }
  }
  bool available() const { return !open_; }
  uint64_t outages() const { return outages_; }

 private:
  uint64_t probe_ns_;
  uint64_t retry_at_ns_ = 0, outages_ = 0;
  uint32_t failures_ = 0;
  bool open_ = false, probing_ = false;
};

}  // namespace kvc
