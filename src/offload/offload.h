// SPDX-License-Identifier: Apache-2.0
// Offload: copies what a manager has published to tiers, and brings it back as cached blocks before a request
// that needs it is admitted. The engine's thread calls; nothing waits.
//
// A store: a published block becomes a candidate (store_queue.h), is copied to a staging page, and the page
// is put into the tiers that do not have it, with others by one job. The block is not held meanwhile: a copy
// is right if the block was at its position, which one serial names for ever, before and after, and has not
// come there in between. With a stream, the copy is ordered before all that the engine enqueues later.
//
// A tier that fails is left alone for a while (tiers.h), and pages that it was found to have are given up.
// A call of a store may never end: a lookup that gets nothing for timeout_ns, by the time of the machine,
// goes on without; the staging page of the call and the place of the lookup stay in use.
//
// A load: the pages beyond a prompt's hit are asked for, tier by tier; the hit is held, blocks are taken,
// pages are read and checked by the tier and copied in; then the blocks are published, as an engine with its
// own tables does it (kvcache/external.h). Whatever fails shortens the prefix that is published. So a load
// changes the manager by recorded calls alone, and no request can be left with a block that has wrong bytes.
//
// offload.cc is polled and ends jobs, store.cc stores, load.cc loads; stages.h is where pages wait, lookups.h
// what loads know.
#pragma once
#include <kvcache/external.h>
#include <kvcache/offload.h>

#include <algorithm>
#include <memory>

#include "base/memory.h"
#include "manager/offload_view.h"
#include "observe/latencies.h"
#include "offload/known_pages.h"
#include "offload/lookups.h"
#include "offload/stages.h"
#include "offload/store_queue.h"
#include "offload/tiers.h"

namespace kvc {

// The calls of a manager that a load makes: those of the C API, which a log records.
struct ManagerCalls {
  kvc_manager* manager;
  decltype(&kvc_manager_acquire_prefix) acquire_prefix;
  decltype(&kvc_manager_acquire_blocks) acquire_blocks;
  decltype(&kvc_manager_publish_blocks) publish_blocks;
  decltype(&kvc_manager_unpublish_blocks) unpublish_blocks;
  decltype(&kvc_manager_release_blocks) release_blocks;
};

struct OffloadCounters {
  uint64_t published;                        // blocks seen
  uint64_t dropped_events, dropped_queue;    // candidates that were not seen, or had no room
  uint64_t gone;                             // left their position before they were copied
  uint64_t lookups, gate_refusals, no_room;  // loads that were not begun
  uint64_t loads, short_loads;               // begun; that published less than was found
  uint64_t loaded_tokens, failed_publications;
};

struct OffloadOptions {
  uint32_t policy, flags;
  size_t num_stages, max_lookups, max_lookup_blocks, clean_blocks;
  uint64_t timeout_ns, hold_ns;
  double compute_ns_per_token;  // 0: everything found is loaded
  uint64_t min_load_tokens, retry_ns;
  const Latencies* latencies;  // KVC_LATENCY_LOAD; null: not measured
};

class Offload {
 public:
  static kvc_status create(const Env& env, const ManagerCalls& calls, const OffloadView& view,
                           const OffloadGroup* groups, Tier* const* tiers, size_t num_tiers,
                           const OffloadOptions& options, std::unique_ptr<Offload>* out);
  ~Offload();  // waits for the tiers' jobs
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  kvc_status poll(uint64_t now_ns, void* stream);
  // Polls until nothing more can be stored, at most so long. *left: blocks that are not.
  kvc_status flush(uint64_t now_ns, uint64_t timeout_ns, void* stream, uint64_t* left);

  // At most so many tokens beyond the hit.
  kvc_status load(uint64_t request, uint64_t max_tokens, uint64_t now_ns);
  // State NONE: it is not looked up.
  kvc_status query(uint64_t request, kvc_offload_info* info) const;
  kvc_status cancel(uint64_t request);
  // Makes the request's published blocks candidates.
  kvc_status store_request(uint64_t request, uint64_t* num_blocks);

  const OffloadCounters& counters() const { return counters_; }
  const OffloadTiers& tiers() const { return tiers_; }
  const Lookups& lookups() const { return lookups_; }
  const StoreQueue& queue() const { return queue_; }
  size_t num_busy_stages() const { return stages_.num_busy(); }
  void* device_backend() const { return const_cast<kvc_backend*>(stages_.backend()); }

 private:
  Offload(const Env& env, const ManagerCalls& calls, const OffloadView& view, const OffloadOptions& options);
  kvc_status build(const OffloadGroup* groups, Tier* const* tiers, size_t num_tiers);

  // offload.cc
  bool move(void* stream);
  bool is_moving();
  size_t num_busy_stores();
  bool end_jobs();
  void end_job(size_t tier, const TierCompletion& completion);

  // store.cc
  void follow_events();
  void clean();
  void add_candidate(const StoredBlock& block);
  size_t take_unknown(size_t most, StoredBlock* some, Digest256* keys);
  bool store_candidates(void* stream);
  void begin_puts();
  void put(uint32_t first_stage, uint32_t count, size_t tier);
  void end_put(uint32_t stage, size_t tier);

  // load.cc
  size_t num_groups() const { return view_.shape().num_token_groups; }
  kvc_status begin(Lookup& lookup);
  void hash_piece(Lookup& lookup);
  bool follow_other(Lookup& lookup);
  void ask(Lookup& lookup);
  void end_ask(Lookup& lookup);
  void conclude(Lookup& lookup);
  bool passes_gate(const Lookup& lookup);
  void begin_load(Lookup& lookup);
  bool hold_hit(Lookup& lookup);
  bool take_blocks(Lookup& lookup);
  bool get_pages(Lookup& lookup);
  void end_get(uint32_t stage, size_t tier);
  void put_in(uint32_t stage, void* stream);
  bool hangs(const Lookup& lookup) const;
  void give_up(Lookup& lookup);
  bool publish(Lookup& lookup, size_t end);
  void finish_load(Lookup& lookup);
  void keep(Lookup& lookup, size_t positions);
  void settle(Lookup& lookup, uint32_t reason);
  void cancel_jobs(Lookup& lookup);
  void free_lookup(Lookup& lookup);
  void advance(Lookup& lookup);

  const Env env_;
  const ManagerCalls calls_;
  const OffloadView view_;
  const OffloadOptions options_;
  Memory memory_;
  OffloadGroup groups_[kMaxGroups] = {};
  bool flushing_ = false;  // what a queue refuses is offered again
  Stages stages_;
  KnownPages known_;
  OffloadTiers tiers_;
  Lookups lookups_;
  StoreQueue queue_;

  uint64_t cursor_ = 0;       // of the events
  Array<StoredBlock> found_;  // of one call

  Array<int32_t> publication_;  // of one call
  uint64_t slow_loads_ = 0;     // expected to be slower than computing
  OffloadCounters counters_ = {};
};

}  // namespace kvc
