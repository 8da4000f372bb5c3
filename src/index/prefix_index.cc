// SPDX-License-Identifier: Apache-2.0
#include "index/prefix_index.h"

#include <kvcache/manager.h>

#include "base/status.h"

namespace kvc {
namespace {

bool clears(uint32_t kind) { return kind == KVC_EVENT_NAMESPACE_CLEARED || kind == KVC_EVENT_ALL_CLEARED; }

}  // namespace

bool PrefixIndex::create(Memory& memory, const kvc_index_config& config) {
  memory_ = &memory;
  ttl_ns_ = config.ttl_ns;
  group_ = config.group;
  flags_ = config.flags;
  // Sets are at most as many as blocks. Words behind the first of a set: more than a set can have, so that
  // eviction always makes room.
  const size_t words = config.max_blocks * 4 + HolderSets::kMaxWords * 4;
  return table_.create(memory, config.max_blocks) && sets_.create(memory, config.max_blocks + 2, words) &&
         workers_.create(memory, config.max_workers, config.max_namespaces, config.num_media) &&
         doomed_.create(memory, workers_.max_holders() / 64);
}

kvc_status PrefixIndex::find_worker(uint64_t id, uint32_t* worker) const {
  *worker = workers_.find(id);
  if (*worker != Workers::kNone) return KVC_OK;
  return fail(KVC_ERROR_NOT_FOUND, "the index has no worker %llu; add it first", ull(id));
}

kvc_status PrefixIndex::check_medium(uint32_t medium, bool allows_all) const {
  if (medium < num_media() || (allows_all && medium == kAllMedia)) return KVC_OK;
  return invalid("medium is %u; give 0 .. %u (num_media is %u)", medium, num_media() - 1, num_media());
}

kvc_status PrefixIndex::add_worker(uint64_t id, const char* name, uint64_t now_ns) {
  if (workers_.find(id) != Workers::kNone)
    return fail(KVC_ERROR_BUSY, "the index has a worker %llu; remove it first, or give another number",
                ull(id));
  if (name != nullptr && strnlen(name, sizeof IndexedWorker::name) == sizeof IndexedWorker::name)
    return invalid("name is longer than %zu bytes; shorten it", sizeof IndexedWorker::name - 1);
  if (workers_.is_full())
    return fail(KVC_ERROR_LIMIT,
                "the index has %u workers, its max_workers; remove one, or set max_workers higher",
                workers_.num_workers());
  workers_.add(id, name, now_ns);
  return KVC_OK;
}

void PrefixIndex::remove_at(uint32_t worker) {
  store(workers_[worker].flags, 0);  // matches leave it out from now on
  forget_worker(worker, kAllMedia);
  workers_.remove(worker);
}

kvc_status PrefixIndex::remove_worker(uint64_t id) {
  uint32_t worker;
  KVC_TRY(find_worker(id, &worker));
  remove_at(worker);
  return KVC_OK;
}

kvc_status PrefixIndex::touch_worker(uint64_t id, uint64_t now_ns) {
  uint32_t worker;
  KVC_TRY(find_worker(id, &worker));
  set_heard(worker, now_ns);
  return KVC_OK;
}

uint64_t PrefixIndex::expire(uint64_t now_ns) {
  uint64_t removed = 0;
  if (ttl_ns_ == 0) return 0;
  for (uint32_t worker = 0; worker < workers_.limit(); ++worker) {
    const IndexedWorker& at = workers_[worker];
    if (at.flags == 0 || now_ns <= at.last_heard_ns || now_ns - at.last_heard_ns <= ttl_ns_) continue;
    remove_at(worker);
    ++removed;
  }
  counts_.expired_workers += removed;
  return removed;
}

kvc_status PrefixIndex::apply(uint64_t id, uint32_t medium, const kvc_event* events, size_t num_events,
                              uint64_t now_ns, kvc_index_applied* applied) {
  uint32_t worker;
  KVC_TRY(find_worker(id, &worker));
  KVC_TRY(check_medium(medium, false));
  for (size_t i = 0; i < num_events; ++i) {
    if (events[i].kind != KVC_EVENT_STORED && events[i].kind != KVC_EVENT_REMOVED && !clears(events[i].kind))
      return invalid("events[%zu].kind is %u; give 1, 2, 4 or 5: stored, removed, namespace or all cleared",
                     i, events[i].kind);
    if (events[i].sequence == UINT64_MAX)
      return invalid("events[%zu].sequence is 2^64 - 1; no stream has so many", i);
  }
  set_heard(worker, now_ns);
  kvc_index_applied done = {};
  EventStream& stream = workers_[worker].streams[medium];
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < num_events; ++i) {
    const kvc_event& event = events[i];
    if (i + kAhead < num_events) table_.prefetch_head(BlockKey::of(events[i + kAhead].digest));
    if (i + kAhead / 2 < num_events) table_.prefetch_entry(BlockKey::of(events[i + kAhead / 2].digest));
    if (stream.is_resyncing == 0) {
      if (shows_restart(stream, event.sequence, event.time_ns)) {
        restart(worker, medium);
        ++done.restarts;
      }
      const bool was_whole = stream.next == stream.seen;
      const Admission admission = admit(stream, event.sequence, event.time_ns);
      if (admission == Admission::kKnown) {
        ++done.ignored;
        continue;
      }
      counts_.gaps += was_whole && admission == Admission::kAhead;
    }
    ++done.applied;
    if ((event.group != group_ || event.block < 0) && !clears(event.kind)) continue;
    if (change(worker, medium, {event.kind, event.namespace_id, BlockKey::of(event.digest)})) continue;
    stream.needs_list = 1;
    ++counts_.dropped_events;
  }
  workers_.publish_flags(worker);
  done.next_sequence = stream.next;
  done.is_stale = stream.is_stale();
  counts_.applied_events += done.applied;
  counts_.ignored_events += done.ignored;
  if (applied != nullptr) *applied = done;
  return KVC_OK;
}

void PrefixIndex::restart(uint32_t worker, uint32_t medium) {
  EventStream& stream = workers_[worker].streams[medium];
  ++counts_.restarts;
  stream = {};
  forget_worker(worker, medium);
}

kvc_status PrefixIndex::begin_resync(uint64_t id, uint32_t medium) {
  uint32_t worker;
  KVC_TRY(find_worker(id, &worker));
  KVC_TRY(check_medium(medium, true));
  for (uint32_t m = 0; m < num_media(); ++m) {
    if (medium != m && medium != kAllMedia) continue;
    workers_[worker].streams[m].is_resyncing = 1;
    workers_[worker].streams[m].needs_list = 0;
  }
  workers_.publish_flags(worker);
  forget_worker(worker, medium);
  return KVC_OK;
}

kvc_status PrefixIndex::end_resync(uint64_t id, uint32_t medium, uint64_t next_sequence) {
  uint32_t worker;
  KVC_TRY(find_worker(id, &worker));
  KVC_TRY(check_medium(medium, true));
  const auto ends = [&](uint32_t m) { return medium == m || medium == kAllMedia; };
  for (uint32_t m = 0; m < num_media(); ++m)
    if (ends(m) && workers_[worker].streams[m].is_resyncing == 0)
      return fail(KVC_ERROR_BUSY, "no resync of medium %u of worker %llu has begun; begin it first", m,
                  ull(id));
  for (uint32_t m = 0; m < num_media(); ++m) {
    if (!ends(m)) continue;
    EventStream& stream = workers_[worker].streams[m];
    stream.next = stream.seen = next_sequence;
    stream.last_time = stream.order_time = EventStream::kNoTime;
    stream.is_resyncing = 0;
  }
  workers_.publish_flags(worker);
  return KVC_OK;
}

// ---- changes

bool PrefixIndex::change(uint32_t worker, uint32_t medium, const IndexChange& change) {
  if (change.kind == KVC_EVENT_STORED) return store_block(worker, medium, change);
  if (change.kind == KVC_EVENT_REMOVED)
    remove_block(worker, medium, change);
  else if (change.kind == KVC_EVENT_ALL_CLEARED)
    forget_worker(worker, medium);
  else
    clear(worker, medium, change.namespace_id);
  return true;
}

void PrefixIndex::give(BlockTable::Index entry, SetId set) {
  const SetId before = table_.set_of(entry);
  if (set == HolderSets::kEmpty) {
    table_.remove(entry);
  } else {
    table_.change(entry, set);
  }
  sets_.release(before);  // no block shows it to a reader any more
}

bool PrefixIndex::store_block(uint32_t worker, uint32_t medium, const IndexChange& change) {
  const uint32_t unit = workers_.unit(worker, change.namespace_id);
  if (unit == Workers::kNone) return false;
  const uint32_t holder = workers_.holder(unit, medium);
  const BlockTable::Index entry = table_.look_up(change.key);
  const SetId before = entry == 0 ? HolderSets::kEmpty : table_.set_of(entry);
  if (entry != 0) {
    if (sets_.contains(before, holder)) return table_.mark(entry), true;
    if (!sets_.takes(before, holder)) return false;
  }
  SetId after;
  while ((after = sets_.with(before, holder)) == HolderSets::kNoRoom)
    if (!evict(entry)) return false;
  if (entry != 0) {
    give(entry, after);
  } else {
    if (table_.is_full()) evict(0);
    table_.insert(change.key, after);
  }
  ++workers_.count(holder);
  ++holdings_;
  return true;
}

void PrefixIndex::remove_block(uint32_t worker, uint32_t medium, const IndexChange& change) {
  const uint32_t unit = workers_.find_unit(worker, change.namespace_id);
  const BlockTable::Index entry = unit == Workers::kNone ? 0 : table_.look_up(change.key);
  if (entry == 0) return;
  const uint32_t holder = workers_.holder(unit, medium);
  const SetId before = table_.set_of(entry);
  if (!sets_.contains(before, holder)) return;
  SetId after;
  while ((after = sets_.without(before, holder)) == HolderSets::kNoRoom)
    if (!evict(entry)) break;
  if (after == HolderSets::kNoRoom) after = HolderSets::kEmpty;  // forgets the block rather than lie
  if (after == HolderSets::kEmpty) {
    count_out(before);
  } else {
    --workers_.count(holder);
    --holdings_;
  }
  give(entry, after);
}

void PrefixIndex::count(SetId set, int change) {
  for (const HolderSets::Word* at = sets_.first(set); at != nullptr; at = sets_.next(*at))
    for (uint64_t bits = at->bits; bits != 0; bits &= bits - 1) {
      workers_.count(at->word * 64 + static_cast<uint32_t>(__builtin_ctzll(bits))) +=
          static_cast<uint32_t>(change);
      holdings_ += static_cast<uint64_t>(static_cast<int64_t>(change));
    }
}

bool PrefixIndex::evict(BlockTable::Index except) {
  const BlockTable::Index victim = table_.choose_victim(except);
  if (victim == 0) return false;
  count_out(table_.set_of(victim));
  give(victim, HolderSets::kEmpty);
  ++counts_.evicted_blocks;
  return true;
}

// ---- forgetting

bool PrefixIndex::doom(uint32_t holder) {
  if (workers_.count(holder) == 0) return false;
  doomed_[holder / 64] |= uint64_t{1} << holder % 64;
  return true;
}

void PrefixIndex::clear(uint32_t worker, uint32_t medium, uint64_t namespace_id) {
  const uint32_t unit = workers_.find_unit(worker, namespace_id);
  if (unit != Workers::kNone && doom(workers_.holder(unit, medium))) forget_doomed();
}

void PrefixIndex::forget_worker(uint32_t worker, uint32_t medium) {
  bool any = false;
  for (uint32_t unit = 0; unit < workers_.num_units(); ++unit) {
    if (workers_.owner_of(unit) != worker) continue;
    for (uint32_t m = 0; m < num_media(); ++m)
      if (m == medium || medium == kAllMedia) any |= doom(workers_.holder(unit, m));
  }
  if (any) forget_doomed();
}

void PrefixIndex::forget_doomed() {
  SetId known = HolderSets::kEmpty;
  bool known_is_hit = false;
  for (BlockTable::Index entry = 1; entry < table_.limit(); ++entry) {
    const SetId before = table_.set_of(entry);
    if (before == HolderSets::kEmpty) continue;
    if (before != known) {
      known = before;
      known_is_hit = sets_.touches(before, doomed_.data());
    }
    if (!known_is_hit) continue;
    SetId after;
    while ((after = sets_.strip(before, doomed_.data())) == HolderSets::kNoRoom)
      if (!evict(entry)) break;
    if (after == HolderSets::kNoRoom) after = HolderSets::kEmpty;
    count_out(before);
    count_in(after);
    give(entry, after);
    known = HolderSets::kEmpty;  // `before` may be another set now
  }
  for (size_t word = 0; word < doomed_.size(); ++word) doomed_[word] = 0;
}

// ---- reports

kvc_status PrefixIndex::worker_info(uint64_t id, kvc_index_worker* info) const {
  uint32_t worker;
  KVC_TRY(find_worker(id, &worker));
  const IndexedWorker& at = workers_[worker];
  std::memcpy(info->name, at.name, sizeof info->name);
  info->last_heard_ns = at.last_heard_ns;
  for (uint32_t m = 0; m < num_media(); ++m) {
    info->next_sequence[m] = at.streams[m].next;
    info->is_stale[m] = at.streams[m].is_stale();
  }
  for (uint32_t unit = 0; unit < workers_.num_units(); ++unit) {
    if (workers_.owner_of(unit) != worker) continue;
    for (uint32_t m = 0; m < num_media(); ++m)
      info->num_blocks[m] += workers_.count(workers_.holder(unit, m));
  }
  return KVC_OK;
}

kvc_status PrefixIndex::list_workers(uint64_t* ids, size_t capacity, size_t* count) const {
  if (capacity < workers_.num_workers()) {
    *count = workers_.num_workers();
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "room for %zu workers, and the index has %u", capacity,
                workers_.num_workers());
  }
  size_t written = 0;
  for (uint32_t worker = 0; worker < workers_.limit(); ++worker)
    if (workers_[worker].flags != 0) ids[written++] = workers_[worker].id;
  *count = written;
  return KVC_OK;
}

void PrefixIndex::read_stats(kvc_index_stats* stats) const {
  *stats = counts_;
  stats->num_workers = workers_.num_workers();
  stats->num_blocks = table_.num_blocks();
  stats->num_holdings = holdings_;
  stats->num_sets = sets_.num_sets();
  stats->bytes_allocated = memory_->bytes();
  stats->bytes_used = table_.bytes_used() + sets_.bytes_used();
}

}  // namespace kvc
