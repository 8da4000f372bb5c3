// SPDX-License-Identifier: Apache-2.0
#include "index/workers.h"

#include <bit>

namespace kvc {

bool shows_restart(const EventStream& stream, uint64_t sequence, uint64_t time) {
  if (sequence >= stream.seen) return false;
  if (sequence == 0) return stream.has_first == 0 || time != stream.first_time;
  if (sequence + 1 == stream.next && stream.order_time != EventStream::kNoTime)
    return time != stream.order_time;
  return time > stream.last_time;
}

Admission admit(EventStream& stream, uint64_t sequence, uint64_t time) {
  if (sequence != stream.next && sequence < stream.seen) return Admission::kKnown;
  if (sequence == 0) {
    stream.first_time = time;
    stream.has_first = 1;
  }
  if (sequence >= stream.seen) {
    stream.seen = sequence + 1;
    if (stream.last_time == EventStream::kNoTime || stream.last_time < time) stream.last_time = time;
  }
  if (sequence != stream.next) {
    if (stream.next != 0 && stream.order_time == EventStream::kNoTime) stream.needs_list = 1;
    return Admission::kAhead;
  }
  ++stream.next;
  stream.order_time = time;
  return Admission::kInOrder;
}

bool Workers::create(Memory& memory, uint32_t max_workers, uint32_t max_units, uint32_t num_media) {
  num_media_ = num_media;
  unit_bits_ = std::bit_ceil(num_media);
  const size_t per_word = 64 / unit_bits_;
  const size_t units = ceil_div(max_units, per_word) * per_word;
  return workers_.create(memory, max_workers) &&
         worker_heads_.create(memory, next_power_of_two(max_workers)) && units_.create(memory, units) &&
         unit_heads_.create(memory, next_power_of_two(units)) && counts_.create(memory, units * unit_bits_);
}

uint32_t Workers::find(uint64_t id) const {
  uint32_t at = const_cast<Workers*>(this)->worker_head(id);
  while (at != 0 && workers_[at - 1].id != id) at = workers_[at - 1].next;
  return at - 1;
}

uint32_t Workers::add(uint64_t id, const char* name, uint64_t now_ns) {
  const uint32_t made = free_workers_ != 0 ? free_workers_ : ++used_workers_;
  IndexedWorker& worker = workers_[made - 1];
  if (made == free_workers_) free_workers_ = worker.next;
  std::memset(worker.name, 0, sizeof worker.name);
  if (name != nullptr) std::memcpy(worker.name, name, strnlen(name, sizeof worker.name - 1));
  std::memset(worker.streams, 0, sizeof worker.streams);
  worker.last_heard_ns = now_ns;
  worker.next = worker_head(id);
  worker_head(id) = made;
  store(worker.id, id);
  store(worker.flags, IndexedWorker::kLive);
  ++num_workers_;
  return made - 1;
}

void Workers::remove(uint32_t gone) {
  IndexedWorker& worker = workers_[gone];
  store(worker.flags, 0);
  for (uint32_t unit = 0; unit < used_units_; ++unit) {
    if (units_[unit].worker != gone) continue;
    give_up(unit);
    store(assignments_, assignments_ + 1);
    store(units_[unit].worker, kNone);
  }
  uint32_t* link = &worker_head(worker.id);
  while (*link != gone + 1) link = &workers_[*link - 1].next;
  *link = worker.next;
  worker.next = free_workers_;
  free_workers_ = gone + 1;
  --num_workers_;
}

void Workers::publish_flags(uint32_t worker) {
  uint32_t flags = IndexedWorker::kLive;
  for (uint32_t medium = 0; medium < num_media_; ++medium)
    if (workers_[worker].streams[medium].is_stale()) flags |= IndexedWorker::kStale;
  store(workers_[worker].flags, flags);
}

uint32_t Workers::find_unit(uint32_t worker, uint64_t namespace_id) const {
  uint32_t at = const_cast<Workers*>(this)->unit_head(worker, namespace_id);
  while (at != 0 && (units_[at - 1].worker != worker || units_[at - 1].namespace_id != namespace_id))
    at = units_[at - 1].next;
  return at - 1;
}

bool Workers::has_blocks(uint32_t unit) const {
  for (uint32_t medium = 0; medium < num_media_; ++medium)
    if (counts_[holder(unit, medium)] != 0) return true;
  return false;
}

void Workers::give_up(uint32_t unit) {
  uint32_t* link = &unit_head(units_[unit].worker, units_[unit].namespace_id);
  while (*link != unit + 1) link = &units_[*link - 1].next;
  *link = units_[unit].next;
}

void Workers::link(uint32_t unit, uint32_t worker, uint64_t namespace_id) {
  units_[unit].namespace_id = namespace_id;
  store(units_[unit].worker, worker);
  units_[unit].next = unit_head(worker, namespace_id);
  unit_head(worker, namespace_id) = unit + 1;
}

void Workers::reset() {
  store(assignments_, assignments_ + 1);
  for (uint32_t unit = 0; unit < used_units_; ++unit) store(units_[unit].worker, kNone);
  used_units_ = hand_ = 0;
  used_workers_ = free_workers_ = 0;
}

bool Workers::owns_all(uint32_t word, uint64_t bits) const {
  if (bits == 0 || word >= counts_.size() / 64) return false;
  for (; bits != 0; bits &= bits - 1) {
    const uint32_t holder = word * 64 + static_cast<uint32_t>(__builtin_ctzll(bits));
    const uint32_t unit = holder / unit_bits_;
    if (unit >= used_units_ || units_[unit].worker == kNone || holder % unit_bits_ >= num_media_)
      return false;
  }
  return true;
}

void Workers::append_unit(uint32_t worker, uint64_t namespace_id) {
  if (worker == kNone) {
    store(units_[used_units_++].worker, kNone);
  } else {
    link(used_units_++, worker, namespace_id);
  }
}

uint32_t Workers::unit(uint32_t worker, uint64_t namespace_id) {
  const uint32_t found = find_unit(worker, namespace_id);
  if (found != kNone) return found;
  if (used_units_ < units_.size()) {
    link(used_units_, worker, namespace_id);
    return used_units_++;
  }
  for (uint32_t tried = 0; tried < used_units_; ++tried) {
    hand_ = hand_ + 1 < used_units_ ? hand_ + 1 : 0;
    if (has_blocks(hand_)) continue;
    if (units_[hand_].worker != kNone) give_up(hand_);
    store(assignments_, assignments_ + 1);
    link(hand_, worker, namespace_id);
    return hand_;
  }
  return kNone;
}

}  // namespace kvc
