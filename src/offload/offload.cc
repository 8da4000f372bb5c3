// SPDX-License-Identifier: Apache-2.0
#include "offload/offload.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "base/status.h"

namespace kvc {
namespace {

constexpr uint64_t kOfExists = uint64_t{1} << 63;  // a tag: the kind of job, a number of stages, and an index
constexpr int kNumberAt = 32;

}  // namespace

Offload::Offload(const Env& env, const ManagerCalls& calls, const OffloadView& view,
                 const OffloadOptions& options)
    : env_(env), calls_(calls), view_(view), options_(options), memory_(env) {}

Offload::~Offload() {
  for (size_t i = 0; i < lookups_.size(); ++i) {
    if (lookups_[i].state != LookupState::kFree) settle(lookups_[i], KVC_OFFLOAD_CANCELLED);
  }
  for (uint32_t i = 0; i < stages_.size(); ++i) {  // the storages' streams still write to them
    Stage& stage = stages_[i];
    const bool copying = stage.state == Stage::State::kCopyingOut || stage.state == Stage::State::kCopyingIn;
    if (copying) static_cast<void>(stages_.backend()->event_synchronize(stage.event));
  }
  for (size_t t = 0; t < num_tiers_; ++t) tiers_[t]->drain();  // they still use the staging pages
  while (end_jobs()) continue;
  for (size_t i = 0; i < lookups_.size(); ++i) {
    if (lookups_[i].state != LookupState::kFree) keep(lookups_[i], 0);
  }
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

kvc_status Offload::create(const Env& env, const ManagerCalls& calls, const OffloadView& view,
                           const OffloadGroup* groups, Tier* const* tiers, size_t num_tiers,
                           const OffloadOptions& options, std::unique_ptr<Offload>* out) {
  std::unique_ptr<Offload> made(new (std::nothrow) Offload(env, calls, view, options));
  if (made == nullptr) return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for an offload");
  KVC_TRY(made->build(groups, tiers, num_tiers));
  *out = std::move(made);
  return KVC_OK;
}

kvc_status Offload::build(const OffloadGroup* groups, Tier* const* tiers, size_t num_tiers) {
  for (size_t g = 0; g < num_groups(); ++g) groups_[g] = groups[g];
  KVC_TRY(stages_.create(memory_, groups_, num_groups(), num_tiers, options_.num_stages));
  const uint64_t num_ids = view_.shape().num_ids;
  const size_t queue = std::min<uint64_t>(std::max<uint64_t>(num_ids, 1024), 1u << 20);
  const size_t found = std::max<size_t>(num_ids, 4096);  // no request has more blocks
  if (!known_.create(memory_, std::min<uint64_t>(4 * num_ids + 65536, 1u << 24)) ||
      !candidates_.create(memory_, queue) || !marks_.create(memory_, num_ids) ||
      !found_.create(memory_, found))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the tables of an offload of %llu blocks",
                ull(num_ids));
  KVC_TRY(build_lookups());
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0) return fail(KVC_ERROR_LIMIT, "no epoll descriptor: %s", std::strerror(errno));
  for (size_t t = 0; t < num_tiers; ++t) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u64 = t;
    if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, tiers[t]->event_fd(), &event) != 0)
      return fail(KVC_ERROR_LIMIT, "tier %zu: epoll_ctl: %s", t, std::strerror(errno));
    tiers_[t] = tiers[t];
    runs_tiers_ = runs_tiers_ || tiers[t]->options().num_threads == 0;
  }
  num_tiers_ = num_tiers;
  cursor_ = view_.next_event();
  return KVC_OK;
}

kvc_status Offload::submit(size_t tier, TierJobKind kind, TierPriority priority, kvc_tier_item* items,
                           size_t count, uint64_t tag, uint64_t* id) {
  uint64_t lease;
  if (__builtin_mul_overflow(options_.timeout_ns, 2u, &lease)) lease = UINT64_MAX;
  return tiers_[tier]->submit(
      {kind, priority, items, count, now_ns_, kind == TierJobKind::kExists ? lease : 0, options_.timeout_ns,
       tag | uint64_t{count} << kNumberAt | (kind == TierJobKind::kExists ? kOfExists : 0)},
      id);
}

void Offload::end_job(size_t tier, const TierCompletion& completion) {
  const auto index = static_cast<uint32_t>(completion.tag);
  if ((completion.tag & kOfExists) != 0) return end_ask(lookups_[index]);
  if (stages_[index].state == Stage::State::kGetting) return end_get(index, tier);
  const auto end = index + static_cast<uint32_t>(completion.tag >> kNumberAt);
  for (uint32_t i = index; i < end; ++i) end_put(i, tier);
}

// Takes what the tiers have done; true: there was something.
bool Offload::end_jobs() {
  constexpr size_t kPiece = 64;
  TierCompletion some[kPiece];
  bool any = false;
  for (size_t t = 0; t < num_tiers_; ++t) {
    size_t got;
    do {
      got = tiers_[t]->run(some, kPiece);
      for (size_t i = 0; i < got; ++i) end_job(t, some[i]);
      any = any || got != 0;
    } while (got == kPiece);
  }
  return any;
}

kvc_status Offload::poll(uint64_t now_ns, void* stream) {
  now_ns_ = std::max(now_ns_, now_ns);
  follow_events();
  if ((options_.policy & KVC_OFFLOAD_BEFORE_EVICTION) != 0) clean();
  if (stream == nullptr && stages_.backend() != nullptr &&
      num_candidates_ != 0) {  // what the engine has enqueued comes first
    for (size_t g = 0; g < num_groups(); ++g) groups_[g].backend->storage_wait(groups_[g].storage);
  }
  for (bool again = true; again;) {
    again = end_jobs();
    for (uint32_t i = 0; i < stages_.size() && stages_.num_busy() != 0; ++i) {
      const Stage::State state = stages_[i].state;
      if (state == Stage::State::kGetting && stages_[i].jobs == 0) put_in(i, stream);
      if (state != Stage::State::kCopyingOut && state != Stage::State::kCopyingIn) continue;
      const Stages::Progress progress = stages_.progress_of(i);
      if (progress == Stages::Progress::kWorking) continue;
      if (state == Stage::State::kCopyingOut && progress == Stages::Progress::kDone) {
        stages_.make_page(i, groups_[stages_[i].group]);
      } else {
        stages_.give_back(i);
      }
    }
    for (size_t i = 0; i < lookups_.size(); ++i) {
      if (lookups_[i].state != LookupState::kFree) advance(lookups_[i]);
    }
    const bool stored = store_candidates(stream);
    begin_puts();
    again = (again || stored) && runs_tiers_;
  }
  return KVC_OK;
}

}  // namespace kvc
