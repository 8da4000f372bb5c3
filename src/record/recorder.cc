// SPDX-License-Identifier: Apache-2.0
#include "record/recorder.h"

namespace kvc {

bool Recorder::keep(const ByteWriter& written) {
  unsigned char* const tail = buffer_.data() + used_;
  if (written.overflowed() || used_ + kLongestLength >= buffer_.size()) return false;
  const auto size = static_cast<size_t>(written.at() - (tail + kLongestLength));
  ByteWriter length(tail, tail + kLongestLength);
  length.number(size);
  std::memmove(length.at(), tail + kLongestLength, size);
  used_ += static_cast<size_t>(length.at() - tail) + size;
  return true;
}

void Recorder::keep_call(const ByteWriter& written, bool lost) {
  if (lost_ == 0 && !lost && keep(written))
    ++calls_;
  else
    ++lost_;
}

kvc_status Recorder::take(void* out, size_t capacity, size_t* size) {
  if (!has_news()) {
    *size = 0;
    return KVC_OK;
  }
  const size_t needed = sizeof(LogHeader) + used_;
  *size = needed;
  if (capacity < needed) {
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "the log has %zu bytes, capacity is %zu; give room for them",
                needed, capacity);
  }
  LogHeader header = {};
  header.first_call = taken_calls_;
  header.num_calls = calls_ - taken_calls_;
  header.lost_calls = lost_;
  header.size = used_;
  header.previous = previous_;
  seal(&header, buffer_.data());
  std::memcpy(out, &header, sizeof header);
  std::memcpy(static_cast<unsigned char*>(out) + sizeof header, buffer_.data(), used_);
  previous_ = header.checksum;
  taken_calls_ = calls_;
  told_lost_ = lost_;
  used_ = 0;
  return KVC_OK;
}

void Recorder::describe(kvc_log_info* out) {
  out->capacity = buffer_.size();
  out->bytes = has_news() ? sizeof(LogHeader) + used_ : 0;
  out->calls = calls_;
  out->lost_calls = lost_;
}

}  // namespace kvc
