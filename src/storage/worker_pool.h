// SPDX-License-Identifier: Apache-2.0
// Threads that work on a call together with the caller, one call at a time. Between calls they sleep, but
// only after a while, since the layers of a model follow each other closely. Or the threads of the library's
// user. Any thread may call run().
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace kvc {

// The user's threads: kvc_storage_config.parallel_for. No function: there are none.
struct ExternalThreads {
  void (*parallel_for)(void* context, size_t count, void (*job)(void* data, size_t i, size_t worker),
                       void* data) = nullptr;
  void* context = nullptr;
};

class WorkerPool {
 public:
  using Job = void (*)(void* data, size_t i, size_t worker);

  // Starts num_workers - 1 threads, unless the user's threads do the work; false: the system has none left.
  [[nodiscard]] bool start(size_t num_workers, const ExternalThreads& external = {});
  ~WorkerPool();

  size_t num_workers() const { return num_workers_; }
  // Runs job(data, i, worker) for all i < count, worker < num_workers(), and returns when all are done. Jobs
  // must not throw.
  void run(size_t count, Job job, void* data);
  // The same for a callable job(i, worker).
  template <typename Function>
  void for_each(size_t count, Function&& function) {
    run(
        count,
        [](void* data, size_t i, size_t worker) {
          (*static_cast<std::remove_reference_t<Function>*>(data))(i, worker);
        },
        const_cast<void*>(static_cast<const void*>(&function)));
  }

 private:
  void work(size_t worker);

  size_t num_workers_ = 1;
  ExternalThreads external_;
  std::vector<std::thread> threads_;
  std::mutex callers_;  // one call at a time
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  Job job_ = nullptr;
  void* data_ = nullptr;
  size_t count_ = 0;
  std::atomic<size_t> next_{0};
  // Written under mutex_, read without it by those who are about to sleep.
  std::atomic<uint64_t> call_{0};   // number of the call that workers take part in
  std::atomic<size_t> working_{0};  // threads that have not finished it
  bool stop_ = false;
};

}  // namespace kvc
