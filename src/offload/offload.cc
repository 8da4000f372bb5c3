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

constexpr uint64_t kNsPerMs = 1000000;

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
  for (size_t t = 0; t < tiers_.size(); ++t) tiers_[t].drain();  // they still use the staging pages
  while (end_jobs()) continue;
  for (size_t i = 0; i < lookups_.size(); ++i) {
    if (lookups_[i].state != LookupState::kFree) keep(lookups_[i], 0);
  }
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
      !queue_.create(memory_, num_ids, queue) || !found_.create(memory_, found))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the tables of an offload of %llu blocks",
                ull(num_ids));
  KVC_TRY(lookups_.create(memory_, view_.shape(), options_.max_lookups, options_.max_lookup_blocks));
  if (!publication_.create(memory_, lookups_.max_positions()))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu lookups of %zu blocks", options_.max_lookups,
                options_.max_lookup_blocks);
  KVC_TRY(tiers_.create(tiers, num_tiers, options_.retry_ns, options_.timeout_ns));
  cursor_ = view_.next_event();
  return KVC_OK;
}

void Offload::end_job(size_t tier, const TierCompletion& completion) {
  const auto index = static_cast<uint32_t>(completion.tag);
  const auto count = static_cast<uint32_t>(
      (completion.tag & ~(OffloadTiers::kOfExists | OffloadTiers::kIsProbe)) >> OffloadTiers::kNumberAt);
  const bool is_exists = (completion.tag & OffloadTiers::kOfExists) != 0;
  const bool is_get = !is_exists && stages_[index].state == Stage::State::kGetting;
  const bool given_up =
      is_exists ? lookups_[index].state != LookupState::kAsking : is_get && stages_[index].given_up;
  if (given_up) {  // it was told already, or says nothing
    tiers_.end_given_up(tier);
  } else {
    const TierJobKind kind = is_exists ? TierJobKind::kExists
                             : is_get  ? TierJobKind::kGet
                                       : TierJobKind::kPut;
    tiers_.judge(tier, kind, (completion.tag & OffloadTiers::kIsProbe) != 0,
                 is_exists ? lookups_.items_of(lookups_[index]) : &stages_.item(index, tier), count);
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
  for (size_t t = 0; t < tiers_.size(); ++t) {
    size_t got;
    do {
      got = tiers_[t].run(some, kPiece);
      for (size_t i = 0; i < got; ++i) end_job(t, some[i]);
      any = any || got != 0;
    } while (got == kPiece);
  }
  return any;
}

kvc_status Offload::poll(uint64_t now_ns, void* stream) {
  tiers_.advance(now_ns);
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
  tiers_.advance(now_ns);
  const uint64_t begun = monotonic_ns();
  flushing_ = true;
  for (;;) {
    const bool stored = move(stream);
    const bool all_seen = (options_.policy & KVC_OFFLOAD_WRITE_THROUGH) == 0 || cursor_ == view_.next_event();
    *left = queue_.size() + num_busy_stores();
    const bool is_full = queue_.room() == 0;
    const bool can_go_on = stored || is_moving() || !(all_seen || is_full);
    if (!can_go_on || (all_seen && *left == 0)) break;
    const uint64_t waited = monotonic_ns() - begun;
    if (waited >= timeout_ns) break;
    // Copies of a device make nothing readable, and who waits for a tier polls at deadlines.
    const uint64_t ms = std::min<uint64_t>((timeout_ns - waited) / kNsPerMs + 1, stream != nullptr ? 1 : 10);
    pollfd readable = {tiers_.event_fd(), POLLIN, 0};
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
      (queue_.size() != 0 || stages_.num_busy() != 0 || lookups_.num_active() != 0)) {
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
    again = (again || stored) && tiers_.any_without_threads();
  }
  return any;
}

}  // namespace kvc
