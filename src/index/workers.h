// SPDX-License-Identifier: Apache-2.0
// The workers of an index, their streams, and their units. A unit is a namespace of a worker: it has a holder
// for each medium, adjacent bits of one word, so that a match tells the media of 64 holders in one step.
//
// A place of a worker or a unit that gets another owner counts in assignments(): a reader that finds the same
// count before and after has read no place that changed hands.
//
// One writer; readers call what says so. create() takes all memory.
#pragma once
#include <kvcache/index.h>

#include "base/memory.h"
#include "index/shared_word.h"

namespace kvc {

// The events of one medium of a worker: which of them were applied.
struct EventStream {
  static constexpr uint64_t kNoTime = UINT64_MAX;
  uint64_t next;        // all events before were applied
  uint64_t seen;        // after the newest event that was applied
  uint64_t first_time;  // of event 0, if has_first
  uint64_t last_time;   // the latest of its events; kNoTime: not known since a resync
  uint64_t order_time;  // of event next - 1; the same
  uint32_t has_first;
  uint32_t needs_list;  // no replay can complete it
  uint32_t is_resyncing;
  uint32_t padding;

  bool is_stale() const { return next != seen || needs_list != 0 || is_resyncing != 0; }
};

enum class Admission {
  kInOrder,  // apply
  kAhead,    // apply; events before it are missing
  kKnown     // it was applied, or will be when those before it have come
};

// Whether an event shows that its stream has begun again. An old event that comes again has an old time, and
// events 0 and next - 1 the time that they had. The first event 0 behind others counts as a restart, as
// nothing tells whether they are of the same stream. In doubt (a lost event, and a clock that went back) it
// says yes, which costs a resync and no wrong answer.
bool shows_restart(const EventStream& stream, uint64_t sequence, uint64_t time);
// Notes an event and says what to do with it.
Admission admit(EventStream& stream, uint64_t sequence, uint64_t time);

struct IndexedWorker {
  static constexpr uint32_t kLive = 1, kStale = 2;  // flags
  uint64_t id;
  uint64_t last_heard_ns;
  uint32_t flags;  // 0 = a free place
  uint32_t next;   // in its chain, or the next free place; an index + 1
  char name[64];
  EventStream streams[KVC_INDEX_MAX_MEDIA];
};

class Workers {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  [[nodiscard]] bool create(Memory& memory, uint32_t max_workers, uint32_t max_units, uint32_t num_media);

  uint32_t num_media() const { return num_media_; }
  uint32_t unit_bits() const { return unit_bits_; }  // num_media, rounded up to a power of two
  uint32_t max_holders() const { return static_cast<uint32_t>(counts_.size()); }
  uint32_t num_workers() const { return num_workers_; }
  uint32_t max_workers() const { return static_cast<uint32_t>(workers_.size()); }
  uint32_t max_units() const { return static_cast<uint32_t>(units_.size()); }
  bool is_full() const { return num_workers_ == workers_.size(); }

  uint32_t find(uint64_t id) const;  // kNone: no such worker
  uint32_t add(uint64_t id, const char* name, uint64_t now_ns);
  void remove(uint32_t worker);  // its units have no blocks
  uint32_t limit() const { return used_workers_; }
  IndexedWorker& operator[](uint32_t worker) { return workers_[worker]; }
  const IndexedWorker& operator[](uint32_t worker) const { return workers_[worker]; }
  void publish_flags(uint32_t worker);  // after a change of its streams

  // The unit of a namespace, made if it is new. kNone: there are max_units with blocks.
  uint32_t unit(uint32_t worker, uint64_t namespace_id);
  uint32_t find_unit(uint32_t worker, uint64_t namespace_id) const;
  uint32_t num_units() const { return used_units_; }
  uint32_t owner_of(uint32_t unit) const { return units_[unit].worker; }  // kNone: nobody's
  uint64_t namespace_of(uint32_t unit) const { return units_[unit].namespace_id; }
  // For a load. reset(): there are no workers; places are given out from the first one again.
  void reset();
  void append_unit(uint32_t worker, uint64_t namespace_id);
  bool owns_all(uint32_t word, uint64_t bits) const;  // bits of units with a worker, and of media

  uint32_t holder(uint32_t unit, uint32_t medium) const { return unit * unit_bits_ + medium; }
  uint32_t& count(uint32_t holder) { return counts_[holder]; }  // blocks
  uint32_t count(uint32_t holder) const { return counts_[holder]; }

  // ---- readers
  uint64_t assignments() const { return load(assignments_); }
  // Id and flags of the worker that has this holder.
  uint64_t owner(uint32_t holder, uint32_t* flags) const {
    const uint32_t worker = load(units_[holder / unit_bits_].worker);
    if (worker == kNone) return *flags = 0, 0;
    *flags = load(workers_[worker].flags);
    return load(workers_[worker].id);
  }

 private:
  struct Unit {
    uint64_t namespace_id;
    uint32_t worker;
    uint32_t next;  // in its chain; an index + 1
  };
  uint32_t& worker_head(uint64_t id) { return worker_heads_[bucket(id, 0, worker_heads_.size())]; }
  uint32_t& unit_head(uint32_t worker, uint64_t namespace_id) {
    return unit_heads_[bucket(namespace_id, worker + 1, unit_heads_.size())];
  }
  static size_t bucket(uint64_t a, uint64_t b, size_t size) {
    const uint64_t x = (a ^ b << 40 ^ b) * 0x9E3779B97F4A7C15u;
    return (x ^ x >> 32) & (size - 1);
  }
  bool has_blocks(uint32_t unit) const;
  void give_up(uint32_t unit);  // takes it out of its chain
  void link(uint32_t unit, uint32_t worker, uint64_t namespace_id);

  Array<IndexedWorker> workers_;
  Array<uint32_t> worker_heads_;
  Array<Unit> units_;
  Array<uint32_t> unit_heads_;
  Array<uint32_t> counts_;  // by holder
  uint64_t assignments_ = 0;
  uint32_t num_media_ = 0, unit_bits_ = 1;
  uint32_t num_workers_ = 0, used_workers_ = 0, free_workers_ = 0;
  uint32_t used_units_ = 0, hand_ = 0;
};

}  // namespace kvc
