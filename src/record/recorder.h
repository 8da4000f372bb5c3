// SPDX-License-Identifier: Apache-2.0
// The log of one manager: a bounded buffer of calls. A call is written while its lock is held: begin(), its
// inputs, the call itself, its results, keep(). What does not fit ends the recording.
#pragma once
#include <kvcache/record.h>

#include <mutex>

#include "base/memory.h"
#include "record/bytes.h"
#include "record/log.h"

namespace kvc {

class Recorder {
 public:
  explicit Recorder(const Env& env) : memory_(env) {}
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  [[nodiscard]] bool create(size_t capacity) { return buffer_.create(memory_, capacity); }

  size_t capacity() const { return buffer_.size(); }

  // Everything below is done by who holds it.
  std::mutex& mutex() { return mutex_; }

  // Where the next call may be written: behind room for its length.
  ByteWriter begin() {
    const size_t start = used_ + kLongestLength < buffer_.size() ? used_ + kLongestLength : buffer_.size();
    return {buffer_.data() + start, buffer_.data() + (lost_ == 0 ? buffer_.size() : start)};
  }
  // Adds the configuration or a call. One that had no room, or `lost`, ends the recording.
  void keep_config(const ByteWriter& written) { keep(written); }
  void keep_call(const ByteWriter& written, bool lost);

  // As kvc_manager_take_log.
  kvc_status take(void* out, size_t capacity, size_t* size);
  void describe(kvc_log_info* out);

 private:
  static constexpr size_t kLongestLength = 10;

  bool keep(const ByteWriter& written);
  bool has_news() const { return used_ != 0 || lost_ != told_lost_; }

  std::mutex mutex_;
  Memory memory_;
  Array<unsigned char> buffer_;
  size_t used_ = 0;
  uint64_t calls_ = 0, taken_calls_ = 0, lost_ = 0, told_lost_ = 0, previous_ = 0;
};

}  // namespace kvc
