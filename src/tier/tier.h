// SPDX-License-Identifier: Apache-2.0
// A tier: a store of pages behind a queue of jobs. A job is a batch of one kind; it has a deadline, a result
// an item, and ends as a completion, for which an eventfd is readable. Its items and their buffers are the
// tier's until then. Threads take items in the order loads, prefetches, stores, as many at once as the store
// likes (PageStore::batch) and as leaves a share for each thread; stores never take the last thread.
//
// The queue is bounded in jobs and in bytes that wait to be stored; what has no room is refused, and counted
// by reason. Stores get half of the jobs, prefetches three quarters, so that stores are refused first and
// loads last. Nothing is allocated after creation. Thread-safe, except destruction, which cancels what waits
// and waits for the rest.
//
// Without threads the caller does the work (run_one), item by item in that order: equal calls give equal
// results.
//
// Threads that are all busy notice no deadline: whoever waits for the eventfd polls at the deadline, too.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/memory.h"
#include "observe/latencies.h"
#include "tier/breaker.h"
#include "tier/store.h"

namespace kvc {

enum class TierJobKind : uint8_t { kExists, kGet, kPut, kRemove };
inline constexpr size_t kNumJobKinds = 4;
enum class TierPriority : uint8_t { kLoad, kPrefetch, kStore };
inline constexpr size_t kNumPriorities = 3;

struct TierOptions {
  uint32_t num_threads = 4;                      // 0: run_one() does the work
  uint32_t max_jobs = 1024;                      // waiting, running, or completed and not polled
  uint64_t max_store_bytes = uint64_t{1} << 30;  // of puts that wait
  uint64_t probe_ns = 1000000000;                // of remote stores: between tries after failures
  uint64_t (*clock_ns)() = nullptr;              // of deadlines, probes, latencies; null: CLOCK_MONOTONIC
  const Latencies* latencies = nullptr;          // KVC_LATENCY_TIER_*; null: not measured
};

struct TierJob {
  TierJobKind kind;
  TierPriority priority;
  kvc_tier_item* items;
  size_t num_items;
  uint64_t now_ns;      // the caller's clock, for leases and times to live
  uint64_t lease_ns;    // of kExists
  uint64_t timeout_ns;  // items that are not begun by then are not done; 0: never
  uint64_t tag;         // the caller's
};

struct TierCompletion {
  uint64_t job, tag;
  uint64_t num_ok;  // items with KVC_PAGE_OK
};

struct TierStats {
  struct Kind {
    uint64_t jobs, items, bytes, results[kNumPageResults];  // by KVC_PAGE_*; bytes of OK
  } kinds[kNumJobKinds];
  uint64_t refused_jobs[kNumPriorities];  // because of max_jobs
  uint64_t refused_bytes;                 // stores, because of max_store_bytes
  uint64_t waiting_jobs, running_jobs, done_jobs, waiting_store_bytes;
  uint64_t outages;
  bool available;
  StoreStats store;
};

class Tier {
 public:
  static kvc_status create(const Env& env, PageStorePtr store, const TierOptions& options,
                           std::unique_ptr<Tier>* out);
  ~Tier();
  Tier(const Tier&) = delete;
  Tier& operator=(const Tier&) = delete;

  // INVALID_ARGUMENT, or LIMIT: the queue is full, and the reason is counted.
  kvc_status submit(const TierJob& job, uint64_t* id);
  // Items that are not begun are not done. False: there is no such job, or it has ended.
  bool cancel(uint64_t id);
  // Takes completions, oldest first, and ends waiting jobs whose time is over. The eventfd is readable as
  // long as there are any.
  size_t poll(TierCompletion* out, size_t capacity);
  // With no threads: does all that waits, then polls. The eventfd is left alone, unless there is more than
  // `capacity`.
  size_t run(TierCompletion* out, size_t capacity);
  int event_fd();
  // With no threads: does the next item or batch of items. False: nothing waits.
  bool run_one();
  // Until nothing waits or runs.
  void drain();
  TierStats stats();
  const TierOptions& options() const { return options_; }
  bool has_bytes() const { return store_->has_bytes(); }
  // Of the store.
  void describe(const std::string& text) { store_->describe(text); }
  std::string difference(const std::string& text) { return store_->difference(text); }

 private:
  static constexpr size_t kManyItems = 256;  // of exists and remove, at once
  enum class State : uint8_t { kUnused, kWaiting, kRunning, kDone };
  // Waiting jobs are in the list of their priority; running ones with items left stay there.
  struct Entry {
    TierJob job;
    uint64_t id, begun_ns, deadline_ns, bytes, num_ok;
    size_t next;       // item
    uint32_t running;  // threads that work on it
    int32_t before, after;
    State state;
    bool listed;
  };
  struct List {
    int32_t first = -1, last = -1;
  };

  Tier(const Env& env, PageStorePtr store, const TierOptions& options);
  void work(uint32_t worker);
  int32_t take_unused();
  void answer(int32_t index, std::unique_lock<std::mutex>& lock);
  bool claim(uint32_t worker, std::unique_lock<std::mutex>& lock);
  size_t take(TierCompletion* out, size_t capacity);
  void signal();
  int32_t next_job() const;
  size_t share_of_items(const TierJob& job, size_t left) const;
  Breaker& breaker_of(TierJobKind kind) {
    return kind == TierJobKind::kPut || kind == TierJobKind::kRemove ? writes_ : reads_;
  }
  Breaker::Turn turn_of(TierJobKind kind);
  // False: a remote store had nothing to ask its server for.
  bool perform(const TierJob& job, uint64_t deadline_ns, size_t first, size_t count, uint32_t worker);
  void end_rest(int32_t index, int32_t result);  // of items that are not begun
  void expire();
  void finish(int32_t index);
  void append(List& list, int32_t index);
  void remove(List& list, int32_t index);
  List& list_of(const Entry& entry) { return lists_[static_cast<size_t>(entry.job.priority)]; }
  Entry& at(int32_t index) { return entries_[static_cast<size_t>(index)]; }
  const Entry& at(int32_t index) const { return entries_[static_cast<size_t>(index)]; }

  const TierOptions options_;
  Memory memory_;
  PageStorePtr store_;
  int event_fd_ = -1;
  std::mutex caller_;  // taken before mutex_ by run_one(): there is one worker 0
  // What has ended. Taken after mutex_, and alone by poll(), which never waits for a thread that works.
  std::mutex done_mutex_;
  List done_, polled_;                   // polled: unused from then on
  bool signalled_ = false;               // the eventfd is readable
  bool is_watched_ = false;              // somebody has the eventfd: who only polls pays for no system calls
  std::atomic<uint32_t> used_ = 0;       // entries
  std::atomic<uint32_t> num_timed_ = 0;  // jobs with a deadline that were not polled
  std::atomic<uint32_t> to_poll_ = 0;    // jobs that have ended, plus num_timed_
  std::mutex mutex_;                     // all below, and entries that have not ended
  std::condition_variable wake_, idle_;
  Array<Entry> entries_;
  List lists_[kNumPriorities], unused_;
  uint64_t next_id_ = 1, waiting_store_bytes_ = 0;
  bool quiet_ = false;          // run() takes what has ended
  uint32_t active_ = 0;         // threads with items
  uint32_t active_stores_ = 0;  // of them, on jobs of the least priority
  bool closing_ = false;
  Breaker reads_, writes_;  // of a remote store: what only refuses writes is read
  TierStats stats_ = {};
  Array<std::thread*> threads_;
};

}  // namespace kvc
