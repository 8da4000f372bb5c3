// SPDX-License-Identifier: Apache-2.0
// Streams of emulated devices: queues, each with a thread, that do one piece of work after the other; and
// capture, in which work is listed instead, to be replayed. Thread-safe.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace kvc::gpu::host {

using Work = std::function<void()>;

struct Graph {
  std::vector<Work> work;
};

// One capture, by all streams that take part.
struct Capture {
  uint64_t id;
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  std::atomic<bool> broken{false}, ended{false};
};

class Stream {
 public:
  explicit Stream(uint32_t device) : device_(device), thread_([this] { run(); }) {}
  ~Stream();  // after what is enqueued

  uint32_t device() const { return device_; }
  // False: the stream captures, and this cannot be captured; the capture is broken.
  bool enqueue(Work work);
  bool wait_all();
  uint64_t end();  // number of what was enqueued last
  bool passed(uint64_t number);
  void wait(uint64_t number);
  void hold();
  void let_go();

  void begin_capture(std::shared_ptr<Capture> capture);
  std::shared_ptr<Capture> capture();

 private:
  void run();
  bool captures();  // with the lock

  const uint32_t device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  uint64_t submitted_ = 0, done_ = 0;
  uint32_t holds_ = 0;
  bool closing_ = false;
  std::shared_ptr<Capture> capture_;
  std::thread thread_;
};

// Whether any capture is under way, by any stream.
bool captures_exist();
// Marks all captures as broken: something happened that no capture survives.
void break_captures();

}  // namespace kvc::gpu::host
