// SPDX-License-Identifier: Apache-2.0
#include "reply.h"

#include <algorithm>

namespace kvc_redis {
namespace {

// All of the text is one number, without needless zeros. Of at most 18 digits, so that it fits.
bool parse_number(const char* text, size_t bytes, int64_t* out) {
  const bool negative = bytes > 0 && text[0] == '-';
  if (negative) ++text, --bytes;
  if (bytes == 0 || bytes > 18 || (text[0] == '0' && (bytes > 1 || negative))) return false;
  int64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    value = value * 10 + (text[i] - '0');
  }
  *out = negative ? -value : value;
  return true;
}

}  // namespace

bool ReplyReader::fill(Source& source) {
  if (at_ == end_) at_ = end_ = 0;
  if (end_ == sizeof buffer_) {
    std::memmove(buffer_, buffer_ + at_, end_ - at_);
    end_ -= at_;
    at_ = 0;
  }
  iovec part = {buffer_ + end_, sizeof buffer_ - end_};
  const size_t count = source.read(&part, 1);
  end_ += count;
  return count > 0;
}

bool ReplyReader::read_line(Source& source, const char** line, size_t* bytes) {
  for (size_t seen = 0;;) {
    const char* const begin = buffer_ + at_;
    const size_t have = end_ - at_;
    if (have > seen) {
      const void* const end = std::memchr(begin + seen, '\r', have - seen);
      const size_t length =
          end == nullptr ? have : static_cast<size_t>(static_cast<const char*>(end) - begin);
      if (length > kMaxLine || std::memchr(begin + seen, '\n', length - seen) != nullptr) return garbage();
      if (length + 1 < have) {  // and what is behind it
        if (begin[length + 1] != '\n') return garbage();
        *line = begin;
        *bytes = length;
        at_ += length + 2;
        return true;
      }
      seen = length;
    }
    if (!fill(source)) return false;
  }
}

bool ReplyReader::next(Source& source, Reply* out) {
  if (is_garbage_) return false;
  const char* line = nullptr;
  size_t bytes = 0;
  if (!read_line(source, &line, &bytes)) return false;
  if (bytes == 0) return garbage();
  *out = {ReplyKind::kStatus, 0, line + 1, bytes - 1};
  switch (line[0]) {
    case '+':
      return true;
    case '-':
      out->kind = ReplyKind::kError;
      return true;
    case ':':
      out->kind = ReplyKind::kInteger;
      return parse_number(line + 1, bytes - 1, &out->number) || garbage();
    case '$':
      if (!parse_number(line + 1, bytes - 1, &out->number) || out->number < -1) return garbage();
      out->kind = out->number < 0 ? ReplyKind::kNil : ReplyKind::kBulk;
      return true;
    default:
      return garbage();
  }
}

bool ReplyReader::read_bulk(Source& source, void* a, size_t a_bytes, void* b, size_t b_bytes) {
  iovec parts[3] = {{a, a_bytes}, {b, b_bytes}, {nullptr, 0}};
  int first = 0;
  const auto advance = [&](size_t count) {  // what is beyond both parts is left
    for (; first < 2; ++first) {
      const size_t some = std::min(count, parts[first].iov_len);
      parts[first].iov_base = static_cast<char*>(parts[first].iov_base) + some;
      parts[first].iov_len -= some;
      count -= some;
      if (parts[first].iov_len > 0) return size_t{0};
    }
    return count;
  };
  while (first < 2 && at_ < end_) {
    const size_t some = std::min(end_ - at_, parts[first].iov_len);
    if (some > 0) std::memcpy(parts[first].iov_base, buffer_ + at_, some);
    at_ += some;
    advance(some);
  }
  if (first < 2) at_ = end_ = 0;
  advance(0);  // parts of no bytes
  while (first < 2) {
    parts[2] = {buffer_, sizeof buffer_};
    const size_t count = source.read(parts + first, 3 - first);
    if (count == 0) return false;
    end_ = advance(count);
  }
  return read_end(source);
}

bool ReplyReader::skip_bulk(Source& source, uint64_t bytes) {
  for (;;) {
    const size_t some = std::min<uint64_t>(end_ - at_, bytes);
    at_ += some;
    bytes -= some;
    if (bytes == 0) return read_end(source);
    if (!fill(source)) return false;
  }
}

bool ReplyReader::read_end(Source& source) {
  while (end_ - at_ < 2)
    if (!fill(source)) return false;
  if (buffer_[at_] != '\r' || buffer_[at_ + 1] != '\n') return garbage();
  at_ += 2;
  return true;
}

}  // namespace kvc_redis
