// SPDX-License-Identifier: Apache-2.0
// Replies of a server (RESP2), strictly: what is not exactly one of the five kinds that the commands here may
// get is garbage, after which nothing of the connection can be trusted. A bulk string goes to where the
// caller wants it, without a copy in between, and none of its bytes is taken before its length is known.
#pragma once
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kvc_redis {

// Where replies come from.
class Source {
 public:
  // Reads at least one byte; 0 = it cannot, and knows why.
  virtual size_t read(iovec* parts, int num_parts) = 0;

 protected:
  ~Source() = default;
};

enum class ReplyKind { kStatus, kError, kInteger, kBulk, kNil };

struct Reply {
  ReplyKind kind;
  int64_t number;    // of kInteger; bytes of kBulk, which wait to be read
  const char* text;  // of kStatus and kError, valid until the next call
  size_t text_bytes;

  bool is_text(const char* other) const {
    return text_bytes == std::strlen(other) && std::memcmp(text, other, text_bytes) == 0;
  }
  bool has_code(const char* code) const {  // an error is "CODE and a text"
    const size_t length = std::strlen(code);
    return kind == ReplyKind::kError && text_bytes >= length && std::memcmp(text, code, length) == 0 &&
           (text_bytes == length || text[length] == ' ');
  }
};

class ReplyReader {
 public:
  // The next reply, of a bulk string its length alone. False: the source failed, or is_garbage().
  bool next(Source& source, Reply* out);
  // The bulk string, which has exactly so many bytes: first `a`, then `b`.
  bool read_bulk(Source& source, void* a, size_t a_bytes, void* b, size_t b_bytes);
  bool skip_bulk(Source& source, uint64_t bytes);

  bool is_garbage() const { return is_garbage_; }
  bool is_empty() const { return at_ == end_; }  // nothing was sent that is not yet read
  void reset() { at_ = end_ = 0, is_garbage_ = false; }

 private:
  static constexpr size_t kMaxLine = 1024;  // error texts

  bool fill(Source& source);
  bool read_line(Source& source, const char** line, size_t* bytes);
  bool read_end(Source& source);
  bool garbage() { return is_garbage_ = true, false; }

  size_t at_ = 0, end_ = 0;  // unread bytes of the buffer
  bool is_garbage_ = false;
  char buffer_[16384];
};

}  // namespace kvc_redis
