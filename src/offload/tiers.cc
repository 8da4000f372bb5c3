// SPDX-License-Identifier: Apache-2.0
#include "offload/tiers.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/status.h"

namespace kvc {
namespace {

// What the results of a job say of its tier. An index in memory says nothing of the disk, a job that was
// cancelled nothing at all, and so does a put that waited too long: gets go first.
Breaker::Answer answer_of(const kvc_tier_item* items, size_t count, TierJobKind kind) {
  const bool is_put = kind == TierJobKind::kPut;
  Breaker::Answer answer = Breaker::Answer::kNone;
  for (size_t i = 0; i < count; ++i) {
    const int32_t result = items[i].result;
    if (result == KVC_PAGE_FAILED || result == KVC_PAGE_UNAVAILABLE || result == KVC_PAGE_NO_SPACE)
      return Breaker::Answer::kBad;
    if (result == KVC_PAGE_TIMEOUT && !is_put) return Breaker::Answer::kBad;
    if (result != KVC_PAGE_CANCELLED && result != KVC_PAGE_TIMEOUT && kind != TierJobKind::kExists)
      answer = Breaker::Answer::kGood;
  }
  return answer;
}

}  // namespace

OffloadTiers::~OffloadTiers() {
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

kvc_status OffloadTiers::create(Tier* const* tiers, size_t num_tiers, uint64_t retry_ns,
                                uint64_t timeout_ns) {
  timeout_ns_ = timeout_ns;
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0)
    return fail(KVC_ERROR_LIMIT, "no epoll descriptor: %s; close some files", std::strerror(errno));
  for (size_t t = 0; t < num_tiers; ++t) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u64 = t;
    if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, tiers[t]->event_fd(), &event) != 0)
      return fail(KVC_ERROR_LIMIT, "tier %zu: epoll_ctl: %s", t, std::strerror(errno));
    tiers_[t] = tiers[t];
    health_[t].gets = health_[t].puts = Breaker(retry_ns);
    runs_tiers_ = runs_tiers_ || tiers[t]->options().num_threads == 0;
  }
  count_ = num_tiers;
  return KVC_OK;
}

kvc_status OffloadTiers::submit(size_t tier, TierJobKind kind, TierPriority priority, kvc_tier_item* items,
                                size_t count, uint64_t tag, uint64_t* id) {
  Health& health = health_[tier];
  const bool is_exists = kind == TierJobKind::kExists;
  Breaker after = health.of(kind);  // a question says too little to be a probe
  const Breaker::Turn turn = is_exists ? Breaker::Turn::kCall : after.begin(now_ns_);
  const bool is_probe = turn == Breaker::Turn::kProbe;
  uint64_t lease;
  if (__builtin_mul_overflow(timeout_ns_, 2u, &lease)) lease = UINT64_MAX;
  KVC_TRY(tiers_[tier]->submit(
      {kind, priority, items, count, now_ns_, is_exists ? lease : 0, timeout_ns_,
       tag | uint64_t{count} << kNumberAt | (is_exists ? kOfExists : 0) | (is_probe ? kIsProbe : 0)},
      id));
  health.of(kind) = after;
  health.probing = health.probing || (is_probe && kind == TierJobKind::kGet);
  ++health.jobs;
  return KVC_OK;
}

// A job has ended.
void OffloadTiers::judge(size_t tier, TierJobKind kind, bool is_probe, const kvc_tier_item* items,
                         size_t count) {
  Health& health = health_[tier];
  health.of(kind).end(is_probe ? Breaker::Turn::kProbe : Breaker::Turn::kCall, answer_of(items, count, kind),
                      now_ns_);
  health.probing = health.probing && !(is_probe && kind == TierJobKind::kGet);
  --health.jobs;
}

void OffloadTiers::give_up(size_t tier, bool was_probe) {
  health_[tier].gets.end(was_probe ? Breaker::Turn::kProbe : Breaker::Turn::kCall, Breaker::Answer::kBad,
                         now_ns_);
  if (was_probe) health_[tier].probing = false;
}

}  // namespace kvc
