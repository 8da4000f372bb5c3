// SPDX-License-Identifier: Apache-2.0
#include "offload/offload.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "base/status.h"

namespace kvc {
namespace {

// A tag: the kind of job, whether it is a probe, a number of items, and an index.
constexpr uint64_t kOfExists = uint64_t{1} << 63, kIsProbe = uint64_t{1} << 62;
constexpr int kNumberAt = 32;
constexpr uint64_t kNsPerMs = 1000000;

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
  if (epoll_fd_ < 0)
    return fail(KVC_ERROR_LIMIT, "no epoll descriptor: %s; close some files", std::strerror(errno));
  for (size_t t = 0; t < num_tiers; ++t) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u64 = t;
    if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, tiers[t]->event_fd(), &event) != 0)
      return fail(KVC_ERROR_LIMIT, "tier %zu: epoll_ctl: %s", t, std::strerror(errno));
    tiers_[t] = tiers[t];
    health_[t].gets = health_[t].puts = Breaker(options_.retry_ns);
    runs_tiers_ = runs_tiers_ || tiers[t]->options().num_threads == 0;
  }
  num_tiers_ = num_tiers;
  cursor_ = view_.next_event();
  return KVC_OK;
}

kvc_status Offload::submit(size_t tier, TierJobKind kind, TierPriority priority, kvc_tier_item* items,
                           size_t count, uint64_t tag, uint64_t* id) {
  Health& health = health_[tier];
  const bool is_exists = kind == TierJobKind::kExists;
  Breaker after = health.of(kind);  // a question says too little to be a probe
  const Breaker::Turn turn = is_exists ? Breaker::Turn::kCall : after.begin(now_ns_);
  const bool is_probe = turn == Breaker::Turn::kProbe;
  uint64_t lease;
  if (__builtin_mul_overflow(options_.timeout_ns, 2u, &lease)) lease = UINT64_MAX;
  KVC_TRY(tiers_[tier]->submit(
      {kind, priority, items, count, now_ns_, is_exists ? lease : 0, options_.timeout_ns,
       tag | uint64_t{count} << kNumberAt | (is_exists ? kOfExists : 0) | (is_probe ? kIsProbe : 0)},
      id));
  health.of(kind) = after;
  health.probing = health.probing || (is_probe && kind == TierJobKind::kGet);
  ++health.jobs;
  return KVC_OK;
}

// A job has ended.
void Offload::judge(size_t tier, TierJobKind kind, bool is_probe, const kvc_tier_item* items, size_t count) {
  Health& health = health_[tier];
  health.of(kind).end(is_probe ? Breaker::Turn::kProbe : Breaker::Turn::kCall, answer_of(items, count, kind),
                      now_ns_);
  health.probing = health.probing && !(is_probe && kind == TierJobKind::kGet);
  --health.jobs;
}

void Offload::end_job(size_t tier, const TierCompletion& completion) {
  const auto index = static_cast<uint32_t>(completion.tag);
  const auto count = static_cast<uint32_t>((completion.tag & ~(kOfExists | kIsProbe)) >> kNumberAt);
  const bool is_exists = (completion.tag & kOfExists) != 0;
  const bool is_get = !is_exists && stages_[index].state == Stage::State::kGetting;
  const bool given_up =
      is_exists ? lookups_[index].state != LookupState::kAsking : is_get && stages_[index].given_up;
  if (given_up) {  // it was told already, or says nothing
    --health_[tier].jobs;
  } else {
    const TierJobKind kind = is_exists ? TierJobKind::kExists
                             : is_get  ? TierJobKind::kGet
                                       : TierJobKind::kPut;
    judge(tier, kind, (completion.tag & kIsProbe) != 0,
          is_exists ? items_of(lookups_[index]) : &stages_.item(index, tier), count);
  }
  if (is_exists) return end_ask(lookups_[index]);
  if (is_get) return end_get(index, tier);
  const uint32_t end = index + count;
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
  if ((options_.policy & KVC_OFFLOAD_BEFORE_EVICTION) != 0) clean();
  move(stream);
  return KVC_OK;
}

// Whether a stage is in use that somebody waits for.
bool Offload::is_moving() {
  for (uint32_t i = 0; i < stages_.size() && stages_.num_busy() != 0; ++i) {
    const Stage& stage = stages_[i];
    const bool given_up = stage.state == Stage::State::kGetting && stage.given_up;
    if (stage.state != Stage::State::kFree && !given_up) return true;
  }
  return false;
}

size_t Offload::num_busy_stores() {
  size_t busy = 0;
  for (uint32_t i = 0; i < stages_.size(); ++i) {
    const Stage::State state = stages_[i].state;
    busy += state == Stage::State::kCopyingOut || state == Stage::State::kPacked ||
            state == Stage::State::kPutting;
  }
  return busy;
}

kvc_status Offload::flush(uint64_t now_ns, uint64_t timeout_ns, void* stream, uint64_t* left) {
  now_ns_ = std::max(now_ns_, now_ns);
  const uint64_t begun = monotonic_ns();
  flushing_ = true;
  for (;;) {
    const bool stored = move(stream);
    const bool all_seen = (options_.policy & KVC_OFFLOAD_WRITE_THROUGH) == 0 || cursor_ == view_.next_event();
    *left = num_candidates_ + num_busy_stores();
    const bool is_full = num_candidates_ == candidates_.size();
    const bool can_go_on = stored || is_moving() || !(all_seen || is_full);
    if (!can_go_on || (all_seen && *left == 0)) break;
    const uint64_t waited = monotonic_ns() - begun;
    if (waited >= timeout_ns) break;
    // Copies of a device make nothing readable, and who waits for a tier polls at deadlines.
    const uint64_t ms = std::min<uint64_t>((timeout_ns - waited) / kNsPerMs + 1, stream != nullptr ? 1 : 10);
    pollfd readable = {epoll_fd_, POLLIN, 0};
    if (!stored && (all_seen || is_full)) static_cast<void>(::poll(&readable, 1, static_cast<int>(ms)));
  }
  flushing_ = false;
  return KVC_OK;
}

// True: blocks were copied.
bool Offload::move(void* stream) {
  bool any = false;
  follow_events();
  // What the engine has enqueued comes first, and copies of polls that had a stream.
  if (stream == nullptr && stages_.backend() != nullptr &&
      (num_candidates_ != 0 || stages_.num_busy() != 0 || num_active_lookups() != 0)) {
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
    any = any || stored;
    again = (again || stored) && runs_tiers_;
  }
  return any;
}

}  // namespace kvc
