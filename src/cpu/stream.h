// SPDX-License-Identifier: Apache-2.0
// Streams of the CPU: a queue of tasks, and a thread that runs them in order. Streams run in parallel. An
// Event marks a place in a stream; another stream or the host can wait until it is reached.
//
// A task waits only for tasks that were submitted before it, so that waiting always ends. In a steady state
// nothing is allocated: tasks come from the stream's arena. Thread-safe, except close().
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

#include "base/arena.h"

namespace kvc {

class Stream {
 public:
  // Work in the queue; its data follows this header. run() releases what the task holds.
  struct Task {
    void (*run)(Task* task);
    Task* next;
    size_t bytes;
  };

  static Stream* create(const Env& env);  // nullptr: no memory, or no thread
  // Waits for the queue and ends the thread. passed() and wait() still work afterwards.
  void close();

  // A task of type T with `extra` bytes behind it, to be filled and submitted; nullptr: no memory.
  template <typename T>
  T* make(size_t extra) {
    static_assert(std::is_base_of_v<Task, T> && std::is_trivially_destructible_v<T> && alignof(T) <= 64);
    size_t bytes = sizeof(T) + extra;
    void* memory = allocate(&bytes);
    if (memory == nullptr) return nullptr;
    T* task = new (memory) T{};
    task->bytes = bytes;
    return task;
  }
  void submit(Task* task);
  // At least `bytes` bytes, aligned to 64, which the tasks of this stream use in turn until close(). nullptr:
  // no memory.
  void* scratch(size_t bytes);

  // Places: the number of tasks up to there.
  uint64_t end();
  bool passed(uint64_t place);
  void wait(uint64_t place);

  void hold() { holders_.fetch_add(1, std::memory_order_relaxed); }
  void drop();

 private:
  explicit Stream(const Env& env) : memory_(env), arena_(memory_) {}
  void* allocate(size_t* bytes);  // rounds it up
  void work();

  std::atomic<uint32_t> holders_{1};  // the owner, and places in the stream
  std::mutex mutex_;                  // all that follows
  std::condition_variable wake_, done_;
  Memory memory_;
  Arena arena_;
  Task* first_ = nullptr;
  Task* last_ = nullptr;
  uint64_t num_submitted_ = 0, num_done_ = 0;
  void* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

// The place in a stream where the event was last recorded; passed if never recorded.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  void record(Stream& stream);
  bool passed();
  void wait();
  // Later work of `stream` waits for the event. False: no memory.
  [[nodiscard]] bool delay(Stream& stream);

 private:
  struct Place {
    Stream* stream;  // held; nullptr = none
    uint64_t number;
  };
  Place place();  // with a hold of its own

  std::mutex mutex_;
  Place place_ = {nullptr, 0};
};

}  // namespace kvc
