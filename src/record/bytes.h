// SPDX-License-Identifier: Apache-2.0
// Numbers as bytes: 7 bits a byte, the lowest first; signed ones alternate (0, -1, 1, -2, ...). Neither side
// passes its end: the writer says that there was no room, the reader that something was missing or malformed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kvc {

class ByteWriter {
 public:
  ByteWriter(unsigned char* begin, unsigned char* end) : at_(begin), end_(end) {}

  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<unsigned char>(value | 0x80));
    byte(static_cast<unsigned char>(value));
  }
  void signed_number(int64_t value) {
    number(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
  }
  void bytes(const void* data, size_t size) {
    if (size > static_cast<size_t>(end_ - at_)) return overflow();
    if (size != 0) std::memcpy(at_, data, size);
    at_ += size;
  }

  unsigned char* at() const { return at_; }
  bool overflowed() const { return overflowed_; }

 private:
  void byte(unsigned char value) {
    if (at_ == end_) return overflow();
    *at_++ = value;
  }
  void overflow() { overflowed_ = true, end_ = at_; }

  unsigned char *at_, *end_;
  bool overflowed_ = false;
};

class ByteReader {
 public:
  ByteReader(const unsigned char* begin, const unsigned char* end) : at_(begin), end_(end) {}

  uint64_t number() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && at_ != end_; shift += 7) {
      const unsigned char next = *at_++;
      if (shift == 63 && next > 1) break;
      value |= uint64_t{next & 0x7Fu} << shift;
      if (next < 0x80) return value;
    }
    fail();
    return 0;
  }
  int64_t signed_number() {
    const uint64_t value = number();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  void bytes(void* out, size_t size) {
    if (size > left()) return fail();
    if (size != 0) std::memcpy(out, at_, size);
    at_ += size;
  }
  // The next `size` bytes apart.
  ByteReader part(uint64_t size) {
    if (size > left()) fail(), size = 0;
    const ByteReader out(at_, at_ + size);
    at_ += size;
    return out;
  }

  const unsigned char* at() const { return at_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  bool failed() const { return failed_; }
  void fail() { failed_ = true, end_ = at_; }

 private:
  const unsigned char *at_, *end_;
  bool failed_ = false;
};

}  // namespace kvc
