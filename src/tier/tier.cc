// SPDX-License-Identifier: Apache-2.0
#include "tier/tier.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <exception>
#include <new>

#include "base/status.h"

namespace kvc {
namespace {

uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// Jobs that may be there before one of this priority comes.
uint32_t share_of(TierPriority priority, uint32_t max_jobs) {
  return max_jobs - max_jobs * static_cast<uint32_t>(priority) / 4;
}

kvc_status check_tier_items(const TierJob& job) {
  for (size_t i = 0; i < job.num_items; ++i) {
    const PageItem& item = job.items[i];
    if (item.bytes > PTRDIFF_MAX) return invalid("items[%zu].bytes is %llu", i, static_cast<ull>(item.bytes));
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
    : options_(options), memory_(env), store_(std::move(store)) {}

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
      while (list.first >= 0) end_rest(list.first, PageResult::kCancelled);
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
    return invalid("a job of kind %u and priority %u", static_cast<unsigned>(job.kind),
                   static_cast<unsigned>(job.priority));
  if (job.num_items == 0 || job.items == nullptr) return invalid("a job without items");
  KVC_TRY(check_tier_items(job));
  uint64_t bytes = 0;
  for (size_t i = 0; job.kind == TierJobKind::kPut && i < job.num_items; ++i)
    if (__builtin_add_overflow(bytes, job.items[i].bytes, &bytes)) bytes = UINT64_MAX;
  const uint64_t now = options_.clock_ns();
  std::unique_lock lock(mutex_);
  if (bytes > options_.max_store_bytes - waiting_store_bytes_ || bytes == UINT64_MAX) {
    ++stats_.refused_bytes;
    return fail(KVC_ERROR_LIMIT, "%llu bytes wait to be stored, and %llu more exceed max_store_bytes, %llu",
                static_cast<ull>(waiting_store_bytes_), static_cast<ull>(bytes),
                static_cast<ull>(options_.max_store_bytes));
  }
  if (used_ >= share_of(job.priority, options_.max_jobs)) {
    ++stats_.refused_jobs[static_cast<size_t>(job.priority)];
    return fail(KVC_ERROR_LIMIT,
                "%u jobs wait, run or were not polled; max_jobs is %u, of which this priority gets %u", used_,
                options_.max_jobs, share_of(job.priority, options_.max_jobs));
  }
  ++used_;
  const int32_t index = unused_.first;
  remove(unused_, index);
  Entry& entry = at(index);
  entry = {};
  entry.job = job;
  entry.id = next_id_++ << 20 | static_cast<uint64_t>(index);
  if (job.timeout_ns != 0 && __builtin_add_overflow(now, job.timeout_ns, &entry.deadline_ns))
    entry.deadline_ns = 0;
  entry.bytes = bytes;
  entry.state = State::kWaiting;
  entry.listed = true;
  for (size_t i = 0; i < job.num_items; ++i) job.items[i].result = PageResult::kWaiting;
  append(list_of(entry), index);
  waiting_store_bytes_ += bytes;
  ++stats_.kinds[static_cast<size_t>(job.kind)].jobs;
  *id = entry.id;
  lock.unlock();
  if (job.num_items == 1) {
    wake_.notify_one();
  } else {
    wake_.notify_all();
  }
  return KVC_OK;
}

bool Tier::cancel(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<int32_t>(id & ((1u << 20) - 1));
  if (static_cast<size_t>(index) >= entries_.size() || at(index).id != id || !at(index).listed) return false;
  end_rest(index, PageResult::kCancelled);
  return true;
}

void Tier::end_rest(int32_t index, PageResult result) {
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
      if (at(i).deadline_ns != 0 && at(i).deadline_ns <= now) end_rest(i, PageResult::kTimeout);
    }
  }
}

void Tier::finish(int32_t index) {
  Entry& entry = at(index);
  auto& kind = stats_.kinds[static_cast<size_t>(entry.job.kind)];
  for (size_t i = 0; i < entry.job.num_items; ++i) {
    const PageItem& item = entry.job.items[i];
    ++kind.results[static_cast<size_t>(item.result)];
    if (item.result == PageResult::kOk && entry.job.kind == TierJobKind::kGet)
      kind.bytes += wanted_bytes(item);
    if (item.result == PageResult::kOk && entry.job.kind == TierJobKind::kPut) kind.bytes += item.bytes;
  }
  kind.items += entry.job.num_items;
  entry.state = State::kDone;
  if (done_.first < 0) static_cast<void>(eventfd_write(event_fd_, 1));
  append(done_, index);
  idle_.notify_all();
}

size_t Tier::poll(TierCompletion* out, size_t capacity) {
  const std::lock_guard lock(mutex_);
  expire();
  size_t count = 0;
  while (count < capacity && done_.first >= 0) {
    const int32_t index = done_.first;
    remove(done_, index);
    Entry& entry = at(index);
    TierCompletion& completion = out[count++];
    completion = {entry.id, entry.job.tag, 0};
    for (size_t i = 0; i < entry.job.num_items; ++i)
      completion.num_ok += entry.job.items[i].result == PageResult::kOk;
    entry = {};
    append(unused_, index);
    --used_;
  }
  eventfd_t ignored;
  if (done_.first < 0) static_cast<void>(eventfd_read(event_fd_, &ignored));
  return count;
}

int32_t Tier::next_job() const {
  for (size_t p = 0; p < kNumPriorities; ++p) {
    const bool stores = p == static_cast<size_t>(TierPriority::kStore);
    if (stores && active_stores_ + 1 >= options_.num_threads && options_.num_threads > 1) break;
    if (lists_[p].first >= 0) return lists_[p].first;
  }
  return -1;
}

// Takes some items of the most urgent job and does them without the lock. False: there are none.
bool Tier::claim(uint32_t worker, std::unique_lock<std::mutex>& lock) {
  const int32_t index = next_job();
  if (index < 0) return false;
  Entry& entry = at(index);
  if (entry.deadline_ns != 0 && entry.deadline_ns <= options_.clock_ns()) {
    end_rest(index, PageResult::kTimeout);
    return true;
  }
  const TierJob job = entry.job;
  const bool many = job.kind == TierJobKind::kExists || job.kind == TierJobKind::kRemove;
  const size_t first = entry.next, left = job.num_items - first;
  const size_t count = many && left > kManyItems ? kManyItems : many ? left : 1;
  entry.next += count;
  entry.state = State::kRunning;
  ++entry.running;
  if (job.kind == TierJobKind::kPut) {
    entry.bytes -= job.items[first].bytes;
    waiting_store_bytes_ -= job.items[first].bytes;
  }
  if (entry.next == job.num_items) {
    remove(list_of(entry), index);
    entry.listed = false;
  }
  const bool store = job.priority == TierPriority::kStore;
  ++active_;
  active_stores_ += store;
  lock.unlock();
  perform(job, first, count, worker);
  lock.lock();
  --active_;
  active_stores_ -= store;
  if (--entry.running == 0 && !entry.listed) finish(index);
  idle_.notify_all();
  return true;
}

void Tier::perform(const TierJob& job, size_t first, size_t count, uint32_t worker) {
  const StoreCall call = {job.now_ns, job.lease_ns, worker};
  PageItem* items = job.items + first;
  switch (job.kind) {
    case TierJobKind::kExists:
      return store_->exists(call, items, count);
    case TierJobKind::kGet:
      return store_->get(call, items, count);
    case TierJobKind::kPut:
      return store_->put(call, items, count);
    case TierJobKind::kRemove:
      return store_->remove(call, items, count);
  }
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
  std::unique_lock lock(mutex_);
  return options_.num_threads == 0 && claim(0, lock);
}

void Tier::drain() {
  while (run_one()) continue;
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] {
    for (const List& list : lists_)
      if (list.first >= 0) return false;
    return active_ == 0;
  });
}

TierStats Tier::stats() {
  const StoreStats store = store_->stats();
  const std::lock_guard lock(mutex_);
  TierStats out = stats_;
  out.store = store;
  for (size_t i = 0; i < entries_.size(); ++i) {
    out.waiting_jobs += entries_[i].state == State::kWaiting;
    out.running_jobs += entries_[i].state == State::kRunning;
    out.done_jobs += entries_[i].state == State::kDone;
  }
  out.waiting_store_bytes = waiting_store_bytes_;
  return out;
}

}  // namespace kvc
