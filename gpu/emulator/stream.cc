// SPDX-License-Identifier: Apache-2.0
#include "emulator/stream.h"

#include <algorithm>

namespace kvc::gpu::host {
namespace {

std::mutex captures_mutex;
std::vector<std::weak_ptr<Capture>> running;

// Pieces of work in the streams of each device.
struct Pending {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t count[8] = {};

  void add(uint32_t device, int64_t number) {
    const std::lock_guard lock(mutex);
    count[device] += static_cast<uint64_t>(number);
    if (count[device] == 0) changed.notify_all();
  }
};
Pending& pending() {
  static auto* const all = new Pending;  // streams outlive static objects
  return *all;
}

}  // namespace

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    holds_ = 0;
  }
  changed_.notify_all();
  thread_.join();
}

bool Stream::enqueue(Work work) {
  const std::lock_guard lock(mutex_);
  if (captures()) {
    point_.after = {point_.capture->graph->add(std::move(work), point_.after)};
    return !point_.capture->broken;
  }
  pending().add(device_, 1);
  queue_.push_back(std::move(work));
  ++submitted_;
  changed_.notify_all();
  return true;
}

bool Stream::wait_all() {
  std::unique_lock lock(mutex_);
  if (captures()) {
    point_.capture->broken = true;
    return false;
  }
  changed_.wait(lock, [&] { return done_ == submitted_; });
  return true;
}

void Stream::hold() {
  const std::lock_guard lock(mutex_);
  ++holds_;
}

void Stream::let_go() {
  {
    const std::lock_guard lock(mutex_);
    --holds_;
  }
  changed_.notify_all();
}

void Stream::begin_capture(uint64_t id) {
  auto capture = std::make_shared<Capture>();
  capture->id = id;
  capture->origin = this;
  {
    const std::lock_guard lock(captures_mutex);
    running.push_back(capture);
  }
  const std::lock_guard lock(mutex_);
  point_ = {std::move(capture), {}};
}

std::shared_ptr<Graph> Stream::end_capture() {
  const std::lock_guard lock(mutex_);
  if (!captures()) return nullptr;
  Capture& capture = *point_.capture;
  if (capture.origin != this) {
    capture.broken = true;
    return nullptr;
  }
  capture.ended = true;
  return capture.broken || !capture.graph->ends_with(point_.after) ? nullptr : capture.graph;
}

Point Stream::point() {
  const std::lock_guard lock(mutex_);
  return captures() ? point_ : Point{};
}

bool Stream::join(const Point& event) {
  const std::lock_guard lock(mutex_);
  if (!captures()) {
    point_ = event;
    return true;
  }
  if (point_.capture != event.capture) {
    point_.capture->broken = event.capture->broken = true;
    return false;
  }
  for (const size_t node : event.after) {
    if (std::find(point_.after.begin(), point_.after.end(), node) == point_.after.end())
      point_.after.push_back(node);
  }
  return true;
}

bool Stream::captures() {
  if (point_.capture != nullptr && point_.capture->ended) point_ = {};
  return point_.capture != nullptr;
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return (holds_ == 0 && !queue_.empty()) || (closing_ && queue_.empty()); });
    if (queue_.empty()) return;
    const Work work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
    ++done_;
    changed_.notify_all();
    pending().add(device_, -1);
  }
}

void wait_for_device(uint32_t device) {
  std::unique_lock lock(pending().mutex);
  pending().changed.wait(lock, [&] { return pending().count[device] == 0; });
}

bool captures_exist() {
  const std::lock_guard lock(captures_mutex);
  std::erase_if(running, [](const auto& weak) {
    const auto capture = weak.lock();
    return capture == nullptr || capture->ended;
  });
  return !running.empty();
}

void break_captures() {
  const std::lock_guard lock(captures_mutex);
  for (const auto& weak : running) {
    if (const auto capture = weak.lock()) capture->broken = true;
  }
}

}  // namespace kvc::gpu::host
