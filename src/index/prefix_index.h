// SPDX-License-Identifier: Apache-2.0
// The index of a router: events of many workers in, matched blocks per worker and medium out.
//
// A block is an entry of the table with a set of holders; a holder is a (worker, namespace, medium). To
// forget holders (a restart, a reset, a worker that is gone), one walk over the entries takes their bits out
// of all sets; the end of a namespace without blocks costs nothing.
//
// One writer at a time; match() by any number of threads beside it, without waiting. create() takes all
// memory.
#pragma once
#include "index/block_table.h"
#include "index/workers.h"

namespace kvc {

// A change of what a worker has, from whatever source.
struct IndexChange {
  uint32_t kind;  // KVC_EVENT_*
  uint64_t namespace_id;
  BlockKey key;  // of STORED and REMOVED
};

class PrefixIndex {
 public:
  static constexpr uint32_t kAllMedia = KVC_INDEX_ALL_MEDIA;

  // All fields of the config are set.
  [[nodiscard]] bool create(Memory& memory, const kvc_index_config& config);

  // ---- the writer
  kvc_status add_worker(uint64_t id, const char* name, uint64_t now_ns);
  kvc_status remove_worker(uint64_t id);
  kvc_status touch_worker(uint64_t id, uint64_t now_ns);
  uint64_t expire(uint64_t now_ns);  // workers removed
  kvc_status apply(uint64_t id, uint32_t medium, const kvc_event* events, size_t num_events, uint64_t now_ns,
                   kvc_index_applied* applied);
  kvc_status begin_resync(uint64_t id, uint32_t medium);
  kvc_status end_resync(uint64_t id, uint32_t medium, uint64_t next_sequence);

  kvc_status worker_info(uint64_t id, kvc_index_worker* info) const;
  kvc_status list_workers(uint64_t* ids, size_t capacity, size_t* count) const;
  void read_stats(kvc_index_stats* stats) const;

  kvc_status dump(void* data, size_t capacity, size_t* size);
  kvc_status load_dump(const void* data, size_t size);

  // ---- any thread
  uint32_t num_media() const { return workers_.num_media(); }
  // `digests` [num_blocks][32]; other arguments as kvc_index_match.
  kvc_status match(const uint8_t* digests, size_t num_blocks, uint64_t* ids, uint32_t* matched,
                   size_t capacity, size_t* count);
  kvc_status match_tokens(const uint8_t* root, const int32_t* tokens, uint32_t block_size, size_t num_blocks,
                          uint64_t* ids, uint32_t* matched, size_t capacity, size_t* count);

  // ---- tests: every key of a worker's medium, in no particular order
  template <typename Each>
  void each_block(uint64_t id, uint32_t medium, Each&& each) const {
    const uint32_t worker = workers_.find(id);
    for (BlockTable::Index entry = 1; entry < table_.limit(); ++entry)
      for (uint32_t unit = 0; unit < workers_.num_units(); ++unit)
        if (workers_.owner_of(unit) == worker &&
            sets_.contains(table_.set_of(entry), workers_.holder(unit, medium)))
          each(table_.key_of(entry));
  }

 private:
  friend class MatchWalk;
  class Writer;
  class Reader;

  kvc_status find_worker(uint64_t id, uint32_t* worker) const;
  kvc_status check_medium(uint32_t medium, bool allows_all) const;
  // False: there was no room for it.
  bool change(uint32_t worker, uint32_t medium, const IndexChange& change);
  bool store_block(uint32_t worker, uint32_t medium, const IndexChange& change);
  void remove_block(uint32_t worker, uint32_t medium, const IndexChange& change);
  void clear(uint32_t worker, uint32_t medium, uint64_t namespace_id);
  // Forgets what a worker has, in a medium or in all.
  void forget_worker(uint32_t worker, uint32_t medium);
  void remove_at(uint32_t worker);
  bool doom(uint32_t holder);  // false: it has no blocks
  void forget_doomed();
  void restart(uint32_t worker, uint32_t medium);
  size_t dump_size() const;
  kvc_status load_workers(Reader& reader, uint32_t num_workers, uint32_t num_units);
  kvc_status load_sets(Reader& reader, uint32_t num_sets, SetId* loaded, uint32_t* num_loaded);
  kvc_status load_blocks(Reader& reader, uint64_t num_blocks, const SetId* loaded, uint32_t num_loaded);
  kvc_status load_parts(Reader& reader);

  void give(BlockTable::Index entry, SetId set);  // `set` comes with a reference
  bool evict(BlockTable::Index except);
  // One block more or less of each holder.
  void count_in(SetId set) { count(set, 1); }
  void count_out(SetId set) { count(set, -1); }
  void count(SetId set, int change);
  void set_heard(uint32_t worker, uint64_t now_ns) {
    if (workers_[worker].last_heard_ns < now_ns) workers_[worker].last_heard_ns = now_ns;
  }

  BlockTable table_;
  HolderSets sets_;
  Workers workers_;
  Array<uint64_t> doomed_;  // holders to forget; zero between calls
  Memory* memory_ = nullptr;
  uint64_t ttl_ns_ = 0;
  uint32_t group_ = 0, flags_ = 0;
  uint64_t holdings_ = 0;
  kvc_index_stats counts_ = {};
};

}  // namespace kvc
