// SPDX-License-Identifier: Apache-2.0
#include "cpu/stream.h"

#include <exception>

namespace kvc {

Stream* Stream::create(const Env& env) {
  auto* stream = new (std::nothrow) Stream(env);
  if (stream == nullptr) return nullptr;
  try {
    stream->thread_ = std::thread([stream] { stream->work(); });
  } catch (const std::exception&) {  // no thread, or no memory for one
    delete stream;
    return nullptr;
  }
  return stream;
}

void Stream::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
  drop();
}

void Stream::drop() {
  if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void* Stream::allocate(size_t* bytes) {
  const std::lock_guard lock(mutex_);
  *bytes = Arena::rounded(*bytes);
  return arena_.allocate(*bytes);
}

void Stream::submit(Task* task) {
  {
    const std::lock_guard lock(mutex_);
    task->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = task;
    last_ = task;
    ++num_submitted_;
  }
  wake_.notify_one();
}

// Tasks in the queue may still use the old memory, which therefore stays in the arena. All old pieces
// together are smaller than the current one.
void* Stream::scratch(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > scratch_bytes_) {
    const size_t rounded = Arena::rounded(bytes);
    void* larger = arena_.allocate(rounded);
    if (larger == nullptr) return nullptr;
    scratch_ = larger;
    scratch_bytes_ = rounded;
  }
  return scratch_;
}

uint64_t Stream::end() {
  const std::lock_guard lock(mutex_);
  return num_submitted_;
}

bool Stream::passed(uint64_t place) {
  const std::lock_guard lock(mutex_);
  return num_done_ >= place;
}

void Stream::wait(uint64_t place) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return num_done_ >= place; });
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return first_ != nullptr || closing_; });
    if (first_ == nullptr) return;
    Task* const task = first_;
    first_ = task->next;
    lock.unlock();
    const size_t bytes = task->bytes;
    task->run(task);
    lock.lock();
    arena_.release(task, bytes);
    ++num_done_;
    done_.notify_all();
  }
}

Event::~Event() {
  if (place_.stream != nullptr) place_.stream->drop();
}

void Event::record(Stream& stream) {
  stream.hold();
  Place old{&stream, stream.end()};
  {
    const std::lock_guard lock(mutex_);
    std::swap(place_, old);
  }
  if (old.stream != nullptr) old.stream->drop();
}

Event::Place Event::place() {
  const std::lock_guard lock(mutex_);
  if (place_.stream != nullptr) place_.stream->hold();
  return place_;
}

bool Event::passed() {
  const Place at = place();
  if (at.stream == nullptr) return true;
  const bool result = at.stream->passed(at.number);
  at.stream->drop();
  return result;
}

void Event::wait() {
  const Place at = place();
  if (at.stream == nullptr) return;
  at.stream->wait(at.number);
  at.stream->drop();
}

bool Event::delay(Stream& stream) {
  struct Wait : Stream::Task {
    Place place;
  };
  const Place at = place();
  if (at.stream == nullptr) return true;
  Wait* task = nullptr;
  const bool needed = at.stream != &stream && !at.stream->passed(at.number);
  if (needed) task = stream.make<Wait>(0);
  if (task == nullptr) {
    at.stream->drop();
    return !needed;
  }
  task->place = at;
  task->run = [](Stream::Task* self) {
    const Place until = static_cast<Wait*>(self)->place;
    until.stream->wait(until.number);
    until.stream->drop();
  };
  stream.submit(task);
  return true;
}

}  // namespace kvc
