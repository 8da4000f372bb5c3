// SPDX-License-Identifier: Apache-2.0
#include "tier/tier.h"

#include <kvcache/metrics.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/status.h"

namespace kvc {
namespace {

// Jobs that may be there before one of this priority comes.
uint32_t share_of(TierPriority priority, uint32_t max_jobs) {
  return max_jobs - max_jobs * static_cast<uint32_t>(priority) / 4;
}

// Of a server that was asked: an item that it has failed or not done in time says nothing good of it.
Breaker::Answer answer_of(const kvc_tier_item* items, size_t num_items) {
  for (size_t i = 0; i < num_items; ++i) {
    const int32_t result = items[i].result;
    if (result == KVC_PAGE_FAILED || result == KVC_PAGE_TIMEOUT || result == KVC_PAGE_UNAVAILABLE)
      return Breaker::Answer::kBad;
  }
  return Breaker::Answer::kGood;
}

kvc_status check_tier_items(const TierJob& job) {
  for (size_t i = 0; i < job.num_items; ++i) {
    const kvc_tier_item& item = job.items[i];
    if (item.bytes > PTRDIFF_MAX)
      return invalid("items[%zu].bytes is %llu; no memory has more than 2^63 - 1", i,
                     static_cast<ull>(item.bytes));
    if (item.reserved != 0) return invalid("items[%zu].reserved is %u; set it to 0", i, item.reserved);
    if ((job.kind == TierJobKind::kGet || job.kind == TierJobKind::kPut) && item.data == nullptr &&
        item.bytes != 0)
      return invalid("items[%zu].data is NULL", i);
    if (job.kind != TierJobKind::kGet || item.runs == nullptr) continue;
    uint64_t end = 0;
    for (size_t r = 0; r < item.num_runs; ++r) {
      const kvc_run& run = item.runs[r];
      if (run.offset < end || run.offset > item.bytes || run.bytes > item.bytes - run.offset)
        return invalid(
            "items[%zu].runs[%zu]: [%llu, + %llu) is not behind the run before it and in a page of %llu "
            "bytes",
            i, r, static_cast<ull>(run.offset), static_cast<ull>(run.bytes), static_cast<ull>(item.bytes));
      end = run.offset + run.bytes;
    }
  }
  return KVC_OK;
}

}  // namespace

Tier::Tier(const Env& env, PageStorePtr store, const TierOptions& options)
    : options_(options),
      memory_(env),
      store_(std::move(store)),
      reads_(options.probe_ns),
      writes_(options.probe_ns) {}

kvc_status Tier::create(const Env& env, PageStorePtr store, const TierOptions& options,
                        std::unique_ptr<Tier>* out) {
  if (options.max_jobs == 0 || options.max_jobs > (1u << 20) || options.num_threads > 256)
    return invalid("a tier has 1 to 2^20 jobs and up to 256 threads, not %u and %u", options.max_jobs,
                   options.num_threads);
  TierOptions own = options;
  if (own.clock_ns == nullptr) own.clock_ns = monotonic_ns;
  std::unique_ptr<Tier> tier(new (std::nothrow) Tier(env, std::move(store), own));
  if (tier == nullptr || !tier->entries_.create(tier->memory_, own.max_jobs) ||
      !tier->threads_.create(tier->memory_, own.num_threads))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a tier of %u jobs", own.max_jobs);
  for (int32_t i = 0; i < static_cast<int32_t>(own.max_jobs); ++i) tier->append(tier->unused_, i);
  tier->event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (tier->event_fd_ < 0) return fail(KVC_ERROR_LIMIT, "no descriptor for an eventfd; close some");
  for (uint32_t i = 0; i < own.num_threads; ++i) {
    try {
      tier->threads_[i] = new std::thread([raw = tier.get(), i] { raw->work(i); });
    } catch (const std::exception&) {
      return fail(KVC_ERROR_OUT_OF_MEMORY, "no thread %u of %u for a tier", i, own.num_threads);
    }
  }
  *out = std::move(tier);
  return KVC_OK;
}

Tier::~Tier() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    for (List& list : lists_) {
      while (list.first >= 0) end_rest(list.first, KVC_PAGE_CANCELLED);
    }
  }
  wake_.notify_all();
  for (size_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i] == nullptr) continue;
    threads_[i]->join();
    delete threads_[i];
  }
  if (event_fd_ >= 0) ::close(event_fd_);
}

void Tier::append(List& list, int32_t index) {
  Entry& entry = at(index);
  entry.before = list.last;
  entry.after = -1;
  (list.last < 0 ? list.first : at(list.last).after) = index;
  list.last = index;
}

void Tier::remove(List& list, int32_t index) {
  const Entry& entry = at(index);
  (entry.before < 0 ? list.first : at(entry.before).after) = entry.after;
  (entry.after < 0 ? list.last : at(entry.after).before) = entry.before;
}

kvc_status Tier::submit(const TierJob& job, uint64_t* id) {
  if (job.kind > TierJobKind::kRemove || job.priority > TierPriority::kStore)
    return invalid("a job of kind %u and priority %u; kinds are 0 to 3, priorities 0 to 2",
                   static_cast<unsigned>(job.kind), static_cast<unsigned>(job.priority));
  if (job.num_items == 0 || job.items == nullptr) return invalid("a job without items");
  KVC_TRY(check_tier_items(job));
  uint64_t bytes = 0;
  for (size_t i = 0; job.kind == TierJobKind::kPut && i < job.num_items; ++i)
    if (__builtin_add_overflow(bytes, job.items[i].bytes, &bytes)) bytes = UINT64_MAX;
  const uint64_t now = options_.clock_ns();
  std::unique_lock lock(mutex_);
  if (bytes > options_.max_store_bytes - waiting_store_bytes_ || bytes == UINT64_MAX) {
    ++stats_.refused_bytes;
    return fail(
        KVC_ERROR_LIMIT,
        "%llu bytes wait to be stored, and %llu more exceed max_store_bytes, %llu; submit them later, or "
        "raise it",
        static_cast<ull>(waiting_store_bytes_), static_cast<ull>(bytes),
        static_cast<ull>(options_.max_store_bytes));
  }
  const uint32_t used = used_;
  if (used >= share_of(job.priority, options_.max_jobs)) {
    ++stats_.refused_jobs[static_cast<size_t>(job.priority)];
    return fail(
        KVC_ERROR_LIMIT,
        "%u jobs wait, run or were not polled; max_jobs is %u, of which this priority gets %u; poll, or "
        "raise it (jobs= of the URL)",
        used, options_.max_jobs, share_of(job.priority, options_.max_jobs));
  }
  const int32_t index = take_unused();
  Entry& entry = at(index);
  entry = {};
  entry.job = job;
  entry.begun_ns = now;
  entry.id = next_id_++ << 20 | static_cast<uint64_t>(index);
  if (job.timeout_ns != 0 && __builtin_add_overflow(now, job.timeout_ns, &entry.deadline_ns))
    entry.deadline_ns = 0;
  if (entry.deadline_ns != 0) ++to_poll_, ++num_timed_;
  entry.bytes = bytes;
  entry.state = State::kWaiting;
  for (size_t i = 0; i < job.num_items; ++i) job.items[i].result = KVC_PAGE_WAITING;
  waiting_store_bytes_ += bytes;
  ++stats_.kinds[static_cast<size_t>(job.kind)].jobs;
  *id = entry.id;
  if (job.kind == TierJobKind::kExists && options_.num_threads != 0 && store_->knows_pages()) {
    answer(index, lock);
    return KVC_OK;
  }
  append(list_of(entry), index);
  entry.listed = true;
  lock.unlock();
  wake_.notify_one();
  return KVC_OK;
}

int32_t Tier::take_unused() {
  ++used_;
  if (unused_.first < 0) {
    const std::lock_guard done(done_mutex_);
    std::swap(unused_, polled_);
  }
  const int32_t index = unused_.first;
  remove(unused_, index);
  return index;
}

// Does a job of kExists, which needs no I/O, in the thread that submits it.
void Tier::answer(int32_t index, std::unique_lock<std::mutex>& lock) {
  Entry& entry = at(index);
  entry.state = State::kRunning;
  entry.next = entry.job.num_items;
  const TierJob job = entry.job;
  ++active_;
  lock.unlock();
  for (size_t first = 0; first < job.num_items; first += kManyItems)
    perform(job, 0, first, std::min(kManyItems, job.num_items - first), 0);
  lock.lock();
  --active_;
  finish(index);
}

bool Tier::cancel(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<int32_t>(id & ((1u << 20) - 1));
  if (static_cast<size_t>(index) >= entries_.size() || at(index).id != id || !at(index).listed) return false;
  end_rest(index, KVC_PAGE_CANCELLED);
  return true;
}

void Tier::end_rest(int32_t index, int32_t result) {
  Entry& entry = at(index);
  for (; entry.next < entry.job.num_items; ++entry.next) entry.job.items[entry.next].result = result;
  waiting_store_bytes_ -= entry.bytes;
  entry.bytes = 0;
  remove(list_of(entry), index);
  entry.listed = false;
  if (entry.running == 0) finish(index);
}

void Tier::expire() {
  const uint64_t now = options_.clock_ns();
  for (List& list : lists_) {
    for (int32_t i = list.first, next; i >= 0; i = next) {
      next = at(i).after;
      if (at(i).deadline_ns != 0 && at(i).deadline_ns <= now) end_rest(i, KVC_PAGE_TIMEOUT);
    }
  }
}

void Tier::finish(int32_t index) {
  Entry& entry = at(index);
  auto& kind = stats_.kinds[static_cast<size_t>(entry.job.kind)];
  for (size_t i = 0; i < entry.job.num_items; ++i) {
    const kvc_tier_item& item = entry.job.items[i];
    // The caller could have written to it.
    const bool known = item.result >= 0 && item.result < static_cast<int32_t>(kNumPageResults);
    entry.num_ok += item.result == KVC_PAGE_OK;
    ++kind.results[known ? static_cast<size_t>(item.result) : size_t{KVC_PAGE_FAILED}];
    if (item.result == KVC_PAGE_OK && entry.job.kind == TierJobKind::kGet) kind.bytes += wanted_bytes(item);
    if (item.result == KVC_PAGE_OK && entry.job.kind == TierJobKind::kPut) kind.bytes += item.bytes;
  }
  kind.items += entry.job.num_items;
  if (options_.latencies != nullptr) {
    Histogram* const latency =
        options_.latencies->find(KVC_LATENCY_TIER_EXISTS + static_cast<uint32_t>(entry.job.kind));
    if (latency != nullptr) latency->record(options_.clock_ns() - entry.begun_ns);
  }
  idle_.notify_all();
  const std::lock_guard done(done_mutex_);
  entry.state = State::kDone;
  ++to_poll_;
  append(done_, index);
  if (!quiet_) signal();
}

// With done_mutex_.
void Tier::signal() {
  if (!is_watched_ || signalled_) return;
  static_cast<void>(eventfd_write(event_fd_, 1));
  signalled_ = true;
}

size_t Tier::poll(TierCompletion* out, size_t capacity) {
  if (to_poll_ == 0) return 0;  // engines ask at every step
  if (num_timed_ != 0) {
    const std::lock_guard lock(mutex_);
    expire();
  }
  return take(out, capacity);
}

size_t Tier::take(TierCompletion* out, size_t capacity) {
  const std::lock_guard done(done_mutex_);
  size_t count = 0;
  while (count < capacity && done_.first >= 0) {
    const int32_t index = done_.first;
    remove(done_, index);
    Entry& entry = at(index);
    out[count++] = {entry.id, entry.job.tag, entry.num_ok};
    const bool timed = entry.deadline_ns != 0;
    num_timed_ -= timed;
    to_poll_ -= timed ? 2 : 1;
    entry.state = State::kUnused;
    append(polled_, index);
    --used_;
  }
  if (done_.first >= 0) {
    signal();
  } else if (signalled_) {
    eventfd_t ignored;
    static_cast<void>(eventfd_read(event_fd_, &ignored));
    signalled_ = false;
  }
  return count;
}

int Tier::event_fd() {
  const std::lock_guard done(done_mutex_);
  const bool was_watched = std::exchange(is_watched_, true);
  if (!was_watched && done_.first >= 0) signal();
  return event_fd_;
}

int32_t Tier::next_job() const {
  for (size_t p = 0; p < kNumPriorities; ++p) {
    const bool stores = p == static_cast<size_t>(TierPriority::kStore);
    if (stores && active_stores_ + 1 >= options_.num_threads && options_.num_threads > 1) break;
    if (lists_[p].first >= 0) return lists_[p].first;
  }
  return -1;
}

size_t Tier::share_of_items(const TierJob& job, size_t left) const {
  if (job.kind == TierJobKind::kExists || job.kind == TierJobKind::kRemove) return std::min(left, kManyItems);
  const size_t threads = std::max(options_.num_threads, 1u);
  return std::min({left, store_->batch(), (job.num_items + threads - 1) / threads});
}

// Whether a call of a remote store may be made. A server that does not even read is not written to.
Breaker::Turn Tier::turn_of(TierJobKind kind) {
  const uint64_t now = options_.clock_ns();
  Breaker& breaker = breaker_of(kind);
  return &breaker == &writes_ && !reads_.takes(now) ? Breaker::Turn::kNot : breaker.begin(now);
}

// Takes some items of the most urgent job and does them without the lock. False: there are none.
bool Tier::claim(uint32_t worker, std::unique_lock<std::mutex>& lock) {
  const int32_t index = next_job();
  if (index < 0) return false;
  Entry& entry = at(index);
  if (entry.deadline_ns != 0 && entry.deadline_ns <= options_.clock_ns()) {
    end_rest(index, KVC_PAGE_TIMEOUT);
    return true;
  }
  const TierJob job = entry.job;
  const size_t first = entry.next;
  const size_t count = share_of_items(job, job.num_items - first);
  entry.next += count;
  entry.state = State::kRunning;
  ++entry.running;
  for (size_t i = first; job.kind == TierJobKind::kPut && i < first + count; ++i) {
    entry.bytes -= job.items[i].bytes;
    waiting_store_bytes_ -= job.items[i].bytes;
  }
  if (entry.next == job.num_items) {
    remove(list_of(entry), index);
    entry.listed = false;
  }
  const bool store = job.priority == TierPriority::kStore;
  ++active_;
  active_stores_ += store;
  const bool remote = store_->is_remote();
  const Breaker::Turn turn = remote ? turn_of(job.kind) : Breaker::Turn::kCall;
  if (turn == Breaker::Turn::kNot) {
    for (size_t i = first; i < first + count; ++i) job.items[i].result = KVC_PAGE_UNAVAILABLE;
  } else {
    const uint64_t deadline_ns = entry.deadline_ns;
    const bool more = next_job() >= 0;
    lock.unlock();
    if (more) wake_.notify_one();
    const bool asked = perform(job, deadline_ns, first, count, worker);
    lock.lock();
    if (remote) {
      const Breaker::Answer answer = asked ? answer_of(job.items + first, count) : Breaker::Answer::kNone;
      breaker_of(job.kind).end(turn, answer, options_.clock_ns());
    }
  }
  --active_;
  active_stores_ -= store;
  if (--entry.running == 0 && !entry.listed) finish(index);
  idle_.notify_all();
  return true;
}

bool Tier::perform(const TierJob& job, uint64_t deadline_ns, size_t first, size_t count, uint32_t worker) {
  bool asked = false;
  const StoreCall call = {job.now_ns, job.lease_ns, worker, deadline_ns, &asked};
  kvc_tier_item* items = job.items + first;
  switch (job.kind) {
    case TierJobKind::kExists:
      store_->exists(call, items, count);
      break;
    case TierJobKind::kGet:
      store_->get(call, items, count);
      break;
    case TierJobKind::kPut:
      store_->put(call, items, count);
      break;
    case TierJobKind::kRemove:
      store_->remove(call, items, count);
      break;
  }
  return asked;
}

void Tier::work(uint32_t worker) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are for the engine's threads
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (!claim(worker, lock)) wake_.wait(lock);
  }
}

bool Tier::run_one() {
  if (options_.num_threads != 0) return false;
  const std::lock_guard worker(caller_);
  std::unique_lock lock(mutex_);
  return claim(0, lock);
}

size_t Tier::run(TierCompletion* out, size_t capacity) {
  if (options_.num_threads != 0) return poll(out, capacity);
  const std::lock_guard worker(caller_);
  std::unique_lock lock(mutex_);
  quiet_ = true;
  while (claim(0, lock)) continue;
  quiet_ = false;
  return take(out, capacity);
}

void Tier::drain() {
  while (run_one()) continue;
  if (options_.num_threads == 0) return;  // what another caller ran has ended, too
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] {
    for (const List& list : lists_)
      if (list.first >= 0) return false;
    return active_ == 0;
  });
}

TierStats Tier::stats() {
  const StoreStats store = store_->stats();
  const std::scoped_lock lock(mutex_, done_mutex_);
  TierStats out = stats_;
  out.store = store;
  for (size_t i = 0; i < entries_.size(); ++i) {
    out.waiting_jobs += entries_[i].state == State::kWaiting;
    out.running_jobs += entries_[i].state == State::kRunning;
    out.done_jobs += entries_[i].state == State::kDone;
  }
  out.waiting_store_bytes = waiting_store_bytes_;
  out.outages = reads_.outages() + writes_.outages();
  out.available = reads_.available() && writes_.available();
  return out;
}

}  // namespace kvc
