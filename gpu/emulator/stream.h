// SPDX-License-Identifier: Apache-2.0
// Streams of emulated devices: queues with a thread each, which run work in order; and capture, which turns
// work into nodes of a graph. Thread-safe.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "emulator/graph.h"

namespace kvc::gpu::host {

class Stream;

// One capture, by all streams that take part.
struct Capture {
  uint64_t id;
  const Stream* origin;  // in which it began, and has to end
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::atomic<bool> broken{false}, ended{false};
};

// The place of a stream in a capture: its next work comes after these nodes.
struct Point {
  std::shared_ptr<Capture> capture;  // nullptr = in none
  Nodes after;
};

class Stream {
 public:
  explicit Stream(uint32_t device) : device_(device), thread_([this] { run(); }) {}
  ~Stream();  // after what is enqueued

  uint32_t device() const { return device_; }
  // False: the capture that the stream takes part in is broken.
  bool enqueue(Work work);
  // False: the stream is being captured, and now the capture is broken.
  bool wait_all();
  void hold();
  void let_go();

  void begin_capture(uint64_t id);
  // nullptr: something could not be captured, it began in another stream, or a stream that took part was not
  // joined: what it did comes before nothing that the origin did or waited for.
  std::shared_ptr<Graph> end_capture();
  Point point();
  // What the stream does next comes after an event that was recorded there, too; a stream that is not being
  // captured takes part from now on. False: it is part of another capture, and now both are broken.
  bool join(const Point& event);

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
  Point point_;
  std::thread thread_;
};

// Waits until no work is left in any stream of the device.
void wait_for_device(uint32_t device);

// Whether any stream is being captured.
bool captures_exist();
// Marks all captures as broken.
void break_captures();

}  // namespace kvc::gpu::host
