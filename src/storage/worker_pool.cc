// SPDX-License-Identifier: Apache-2.0
#include "storage/worker_pool.h"

#include <chrono>
#include <system_error>

namespace kvc {
namespace {

// Waits for a condition that another thread will soon make true, for as long as waking up a thread takes.
template <typename Condition>
void spin(Condition&& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
  while (!condition() && std::chrono::steady_clock::now() < end) {
#ifdef __SSE2__
    __builtin_ia32_pause();
#endif
  }
}

}  // namespace

bool WorkerPool::start(size_t num_workers, const ExternalThreads& external) {
  num_workers_ = num_workers;
  external_ = external;
  if (external.parallel_for != nullptr) return true;
  try {
    threads_.reserve(num_workers - 1);
    for (size_t i = 1; i < num_workers; ++i) threads_.emplace_back([this, i] { work(i); });
  } catch (const std::exception&) {  // what has started ends with the pool
    return false;
  }
  return true;
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(size_t count, Job job, void* data) {
  if (count <= 1 || num_workers_ == 1) {
    for (size_t i = 0; i < count; ++i) job(data, i, 0);
    return;
  }
  if (external_.parallel_for != nullptr) return external_.parallel_for(external_.context, count, job, data);
  const std::lock_guard one(callers_);
  {
    const std::lock_guard lock(mutex_);
    job_ = job;
    data_ = data;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    working_ = threads_.size();
    ++call_;
  }
  wake_.notify_all();
  for (size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count;) job(data, i, 0);
  spin([&] { return working_.load(std::memory_order_relaxed) == 0; });
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return working_ == 0; });
}

void WorkerPool::work(size_t worker) {
  uint64_t seen = 0;
  for (;;) {
    spin([&] { return call_.load(std::memory_order_relaxed) != seen; });
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return stop_ || call_ != seen; });
    if (stop_) return;
    seen = call_;
    const Job job = job_;
    void* const data = data_;
    const size_t count = count_;
    lock.unlock();
    for (size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count;) job(data, i, worker);
    lock.lock();
    if (--working_ == 0) idle_.notify_one();
  }
}

}  // namespace kvc
