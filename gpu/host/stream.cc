// SPDX-License-Identifier: Apache-2.0
#include "host/stream.h"

#include <algorithm>

namespace kvc::gpu::host {
namespace {

std::mutex captures_mutex;
std::vector<std::weak_ptr<Capture>> running;

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
    capture_->graph->work.push_back(std::move(work));
    return !capture_->broken;
  }
  queue_.push_back(std::move(work));
  ++submitted_;
  changed_.notify_all();
  return true;
}

bool Stream::wait_all() {
  std::unique_lock lock(mutex_);
  if (captures()) {
    capture_->broken = true;
    return false;
  }
  changed_.wait(lock, [&] { return done_ == submitted_; });
  return true;
}

uint64_t Stream::end() {
  const std::lock_guard lock(mutex_);
  return submitted_;
}

bool Stream::passed(uint64_t number) {
  const std::lock_guard lock(mutex_);
  return done_ >= number;
}

void Stream::wait(uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= number; });
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

void Stream::begin_capture(std::shared_ptr<Capture> capture) {
  {
    const std::lock_guard lock(captures_mutex);
    running.push_back(capture);
  }
  const std::lock_guard lock(mutex_);
  capture_ = std::move(capture);
}

std::shared_ptr<Capture> Stream::capture() {
  const std::lock_guard lock(mutex_);
  return captures() ? capture_ : nullptr;
}

bool Stream::captures() {
  if (capture_ != nullptr && capture_->ended) capture_ = nullptr;
  return capture_ != nullptr;
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
  }
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
