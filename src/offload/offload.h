// SPDX-License-Identifier: Apache-2.0
// Offload: copies what a manager has published to tiers, and brings it back as cached blocks before a request
// that needs it is admitted. The engine's thread calls; nothing waits.
//
// A store: a published block becomes a candidate (candidates_), is copied to a staging page, and the page is
// put into the tiers that do not have it, with others by one job. The block is not held meanwhile: a copy is
// right if the block was at its position, which one serial names for ever, before and after, and has not come
// there in between. With a stream, the copy is ordered before all that the engine enqueues later.
//
// A tier whose gets fail three times in a row is left alone for a while, by the caller's clock: nothing is
// asked of it or stored there, and pages that it was found to have are given up. Then one get tries it again.
// Puts that fail end puts alone: what can only be read is read. A call of a store may never end: a lookup
// that gets nothing for timeout_ns, by the time of the machine, goes on without; the staging page of the call
// and the place of the lookup stay in use.
//
// A load: the pages beyond a prompt's hit are asked for, tier by tier; the hit is held, blocks are taken,
// pages are read and checked by the tier and copied in; then the blocks are published, as an engine with its
// own tables does it (kvcache/external.h). Whatever fails shortens the prefix that is published. So a load
// changes the manager by recorded calls alone, and no request can be left with a block that has wrong bytes.
//
// offload.cc is polled and ends jobs, store.cc stores, load.cc loads, stages.h is where pages wait.
#pragma once
#include <kvcache/external.h>
#include <kvcache/offload.h>

#include <algorithm>
#include <memory>

#include "base/memory.h"
#include "manager/offload_view.h"
#include "observe/latencies.h"
#include "offload/known_pages.h"
#include "offload/stages.h"
#include "tier/tier.h"

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

struct OffloadOptions {
  uint32_t policy, flags;
  size_t num_stages, max_lookups, max_lookup_blocks, clean_blocks;
  uint64_t timeout_ns, hold_ns;
  double compute_ns_per_token;  // 0: everything found is loaded
  uint64_t min_load_tokens, retry_ns;
  const Latencies* latencies;  // KVC_LATENCY_LOAD; null: not measured
};

struct TierCounters {
  uint64_t hits, misses, loaded_pages, loaded_bytes, stored_pages, stored_bytes;
  uint64_t failed_loads;   // a page that was found was not got
  uint64_t refused_loads;  // by the tier's queue; tried again
  uint64_t refused_stores, failed_stores;
  double ns_per_byte;  // of loads, moving average; 0 = not measured
};

struct OffloadCounters {
  uint64_t published;                        // blocks seen
  uint64_t dropped_events, dropped_queue;    // candidates that were not seen, or had no room
  uint64_t gone;                             // left their position before they were copied
  uint64_t lookups, gate_refusals, no_room;  // loads that were not begun
  uint64_t loads, short_loads;               // begun; that published less than was found
  uint64_t loaded_tokens, failed_publications;
};

class Offload {
 public:
  static kvc_status create(const Env& env, const ManagerCalls& calls, const OffloadView& view,
                           const OffloadGroup* groups, Tier* const* tiers, size_t num_tiers,
                           const OffloadOptions& options, std::unique_ptr<Offload>* out);
  ~Offload();  // waits for the tiers' jobs
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  int event_fd() const { return epoll_fd_; }
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
  const TierCounters& tier_counters(size_t tier) const { return of_tier_[tier]; }
  uint64_t outages(size_t tier) const { return health_[tier].gets.outages() + health_[tier].puts.outages(); }
  bool available(size_t tier) const {
    return health_[tier].gets.available() && health_[tier].puts.available();
  }
  size_t num_tiers() const { return num_tiers_; }
  size_t num_candidates() const { return num_candidates_; }
  size_t num_busy_stages() const { return stages_.num_busy(); }
  size_t num_busy_lookups() const;
  void* device_backend() const { return const_cast<kvc_backend*>(stages_.backend()); }

 private:
  enum class LookupState : uint8_t { kFree, kAsking, kFollowing, kLoading, kReady, kEnding };
  enum class PageState : uint8_t { kUnknown, kFound, kGetting, kLoaded, kFailed };
  struct LookupPage {
    uint64_t generation;
    int32_t block;
    uint8_t tier;  // kNoTier = none has it
    PageState state;
    uint16_t reserved;

    static constexpr uint8_t kNoTier = UINT8_MAX;
    bool is_found() const { return tier != kNoTier; }
  };
  // A lookup and the load that follows it. Pages of position p and group g are at (p - first) * groups + g.
  struct Lookup {
    LookupState state;
    uint32_t reason;
    uint64_t request, exists_job;
    uint64_t max_tokens;
    uint64_t begun_ns, hold_until;
    uint64_t moved_ns;  // by the time of the machine: when a tier was asked, or gave something
    uint32_t tier;      // that is asked, of the positions from `asked` on
    uint32_t leader;    // that is followed, by this request:
    uint64_t leader_request;
    size_t outstanding;  // gets
    // Positions: the first that is looked up, and how many were asked for before, are now, and can be.
    size_t first, asked, count, most;
    size_t end;   // positions that a load ends at
    size_t held;  // positions of the hit that are held
    size_t next;  // page to get
    uint64_t found_tokens, loaded_tokens;
    bool is_asking;  // a question has not ended, which may be given up: it writes to the items
    bool failed;
    bool doubtful;     // a page was known and is gone
    Digest256 digest;  // of the last position that has keys
    OffloadView::Prompt prompt;
  };

  Offload(const Env& env, const ManagerCalls& calls, const OffloadView& view, const OffloadOptions& options);
  kvc_status build(const OffloadGroup* groups, Tier* const* tiers, size_t num_tiers);
  kvc_status build_lookups();

  struct Health {
    Breaker gets{0}, puts{0};
    uint32_t jobs;  // that have not ended
    bool probing;   // one of them is a get that tries the tier again
    Breaker& of(TierJobKind kind) { return kind == TierJobKind::kPut ? puts : gets; }
  };
  // Whether gets, or puts, would be sent to a tier now.
  bool gives(size_t tier) const { return takes(health_[tier].gets); }
  bool stores(size_t tier) const { return gives(tier) && takes(health_[tier].puts); }
  bool takes(Breaker copy) const { return copy.begin(now_ns_) != Breaker::Turn::kNot; }

  // offload.cc
  bool move(void* stream);
  bool is_moving();
  size_t num_busy_stores();
  bool end_jobs();
  void end_job(size_t tier, const TierCompletion& completion);
  void judge(size_t tier, TierJobKind kind, bool is_probe, const kvc_tier_item* items, size_t count);
  kvc_status submit(size_t tier, TierJobKind kind, TierPriority priority, kvc_tier_item* items, size_t count,
                    uint64_t tag, uint64_t* id);

  // store.cc
  void follow_events();
  void clean();
  void add_candidate(const StoredBlock& block);
  void forget(const StoredBlock& block);
  size_t take_unknown(size_t most, StoredBlock* some, Digest256* keys);
  bool store_candidates(void* stream);
  void begin_puts();
  void put(uint32_t first_stage, uint32_t count, size_t tier);
  void end_put(uint32_t stage, size_t tier);

  // load.cc
  size_t num_groups() const { return view_.shape().num_token_groups; }
  Lookup* find(uint64_t request);
  size_t index_of(const Lookup& lookup) const { return static_cast<size_t>(&lookup - lookups_.data()); }
  LookupPage* pages_of(const Lookup& l) { return pages_.data() + index_of(l) * pages_per_lookup_; }
  Digest256* keys_of(const Lookup& l) { return keys_.data() + index_of(l) * pages_per_lookup_; }
  kvc_tier_item* items_of(const Lookup& l) { return items_.data() + index_of(l) * pages_per_lookup_; }
  int32_t* blocks_of(const Lookup& l, size_t group) {
    return blocks_.data() + (index_of(l) * num_groups() + group) * max_positions_;
  }
  kvc_prompt prompt_of(const Lookup& lookup, size_t positions) const;
  bool needed(size_t group, size_t position, size_t end) const;
  kvc_status begin(Lookup& lookup);
  Digest256 hash(const Lookup& lookup, size_t begin, size_t end, Digest256 at);
  void hash_piece(Lookup& lookup);
  bool follow_other(Lookup& lookup);
  void ask(Lookup& lookup);
  void end_ask(Lookup& lookup);
  void conclude(Lookup& lookup);
  size_t first_hole(const Lookup& lookup, size_t end, PageState state);
  size_t longest(const Lookup& lookup, size_t end, PageState state);
  bool passes_gate(const Lookup& lookup);
  void begin_load(Lookup& lookup);
  bool hold_hit(Lookup& lookup);
  bool take_blocks(Lookup& lookup);
  bool get_pages(Lookup& lookup);
  void end_get(uint32_t stage, size_t tier);
  void put_in(uint32_t stage, void* stream);
  size_t num_active_lookups() const;
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
  static constexpr size_t kMaxTiers = kMaxOffloadTiers;
  Tier* tiers_[kMaxTiers] = {};
  size_t num_tiers_ = 0;
  Health health_[kMaxTiers] = {};
  bool runs_tiers_ = false;  // one has no threads
  bool flushing_ = false;    // what a queue refuses is offered again
  int epoll_fd_ = -1;
  uint64_t now_ns_ = 0;
  Stages stages_;
  KnownPages known_;

  Array<StoredBlock> candidates_;  // a ring
  size_t first_candidate_ = 0, num_candidates_ = 0;
  uint64_t cursor_ = 0;       // of the events
  Array<uint64_t> marks_;     // by block: the serial of the position for which it was taken up
  Array<StoredBlock> found_;  // of one call

  Array<Lookup> lookups_;
  size_t pages_per_lookup_ = 0, max_positions_ = 0;
  Array<LookupPage> pages_;
  Array<Digest256> keys_;
  Array<kvc_tier_item> items_;
  Array<int32_t> blocks_, tokens_;
  Array<int32_t> publication_;  // of one call
  Array<ExtraKey> extra_keys_;
  mutable Array<kvc_extra_key> plain_keys_;  // of one call
  uint64_t slow_loads_ = 0;                  // expected to be slower than computing
  OffloadCounters counters_ = {};
  TierCounters of_tier_[kMaxTiers] = {};
};

}  // namespace kvc
