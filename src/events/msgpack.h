// SPDX-License-Identifier: Apache-2.0
// MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md): what batches of events are written
// in. The writer gives the shortest form of each value, but for wide_map(), into memory that has room for it.
// The reader takes every form, reads nothing behind its input, and says where it stopped.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace kvc {

template <typename T>
inline T big_endian(T value) {
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
  return value;
}

class PackWriter {
 public:
  // Most bytes of a value.
  static constexpr size_t kInteger = 9, kHead = 5;
  static size_t text_bytes(std::string_view text) { return kHead + text.size(); }

  explicit PackWriter(uint8_t* out) : at_(out) {}
  uint8_t* at() const { return at_; }

  void nil() { *at_++ = 0xc0; }
  void real(double value) {
    *at_++ = 0xcb;
    fixed(std::bit_cast<uint64_t>(value));
  }
  void integer(uint64_t value) {
    if (value < 0x80) {
      *at_++ = static_cast<uint8_t>(value);
    } else if (value <= UINT8_MAX) {
      *at_++ = 0xcc;
      *at_++ = static_cast<uint8_t>(value);
    } else if (value <= UINT16_MAX) {
      *at_++ = 0xcd;
      fixed(static_cast<uint16_t>(value));
    } else if (value <= UINT32_MAX) {
      *at_++ = 0xce;
      fixed(static_cast<uint32_t>(value));
    } else {
      *at_++ = 0xcf;
      fixed(value);
    }
  }
  void signed_integer(int64_t value) {
    if (value >= 0) return integer(static_cast<uint64_t>(value));
    if (value >= -32) {
      *at_++ = static_cast<uint8_t>(value);
    } else if (value >= INT8_MIN) {
      *at_++ = 0xd0;
      *at_++ = static_cast<uint8_t>(value);
    } else if (value >= INT16_MIN) {
      *at_++ = 0xd1;
      fixed(static_cast<uint16_t>(value));
    } else if (value >= INT32_MIN) {
      *at_++ = 0xd2;
      fixed(static_cast<uint32_t>(value));
    } else {
      *at_++ = 0xd3;
      fixed(static_cast<uint64_t>(value));
    }
  }
  void array(uint32_t count) { head(count, 0x90, 0xdc, 16); }
  void map(uint32_t count) { head(count, 0x80, 0xde, 16); }
  // With a count of two bytes whatever it is.
  void wide_map(uint16_t count) {
    *at_++ = 0xde;
    fixed(count);
  }
  void text(std::string_view value) {
    const auto size = static_cast<uint32_t>(value.size());
    if (size < 32 || size > UINT8_MAX) {
      head(size, 0xa0, 0xda, 32);
    } else {
      *at_++ = 0xd9;
      *at_++ = static_cast<uint8_t>(size);
    }
    raw(value.data(), size);
  }
  void bytes(const void* data, uint32_t size) {
    if (size <= UINT8_MAX) {
      *at_++ = 0xc4;
      *at_++ = static_cast<uint8_t>(size);
    } else if (size <= UINT16_MAX) {
      *at_++ = 0xc5;
      fixed(static_cast<uint16_t>(size));
    } else {
      *at_++ = 0xc6;
      fixed(size);
    }
    raw(data, size);
  }

 private:
  template <typename T>
  void fixed(T value) {
    value = big_endian(value);
    std::memcpy(at_, &value, sizeof value);
    at_ += sizeof value;
  }
  void raw(const void* data, size_t size) {
    if (size != 0) std::memcpy(at_, data, size);
    at_ += size;
  }
  // Below `short_end` the count is a part of `small`; `wide` has 16 bits behind it, and the next tag 32.
  void head(uint32_t count, uint8_t small, uint8_t wide, uint32_t short_end) {
    if (count < short_end) {
      *at_++ = static_cast<uint8_t>(small | count);
    } else if (count <= UINT16_MAX) {
      *at_++ = wide;
      fixed(static_cast<uint16_t>(count));
    } else {
      *at_++ = static_cast<uint8_t>(wide + 1);
      fixed(count);
    }
  }

  uint8_t* at_;
};

enum class PackKind : uint8_t { kNil, kBool, kUnsigned, kNegative, kReal, kText, kBytes, kArray, kMap, kExt };

const char* pack_kind_name(PackKind kind);

// The head of a value; of a text, bytes or an extension also what is in it.
struct PackValue {
  PackKind kind;
  uint64_t number;  // kUnsigned, kBool: the value; kNegative: its two's complement; kArray, kMap: entries
  double real;
  const uint8_t* data;  // kText, kBytes, kExt: in the input
  size_t size;

  std::string_view text() const { return {reinterpret_cast<const char*>(data), size}; }
};

class PackReader {
 public:
  static constexpr int kDepth = 16;  // arrays and maps in each other, at most, of what is skipped

  PackReader(const void* data, size_t size)
      : begin_(static_cast<const uint8_t*>(data)), at_(begin_), end_(begin_ + size) {}

  const uint8_t* at() const { return at_; }
  size_t offset() const { return static_cast<size_t>(at_ - begin_); }
  size_t left() const { return static_cast<size_t>(end_ - at_); }

  // Reads the next value, of an array or map the head alone. False: the input ends in it, an array or map
  // says more entries than bytes are left, or there is no such value; nothing is read then.
  [[nodiscard]] bool next(PackValue* value);
  // Passes over the next value with all that it holds.
  [[nodiscard]] bool skip();
  // Reads an integer from 0 to UINT32_MAX; false if the next value is another one, which is not read then.
  [[nodiscard]] bool small(uint32_t* value) {
    if (at_ == end_) return false;
    const uint8_t tag = *at_;
    if (tag < 0x80) {
      *value = tag;
      ++at_;
      return true;
    }
    const unsigned wide = tag - 0xccu;  // 8, 16, 32 bits
    if (wide > 2 || left() < 1 + (size_t{1} << wide)) return false;
    *value = 0;
    for (size_t i = 0; i < size_t{1} << wide; ++i) *value = *value << 8 | at_[1 + i];
    at_ += 1 + (size_t{1} << wide);
    return true;
  }

 private:
  uint64_t fixed(size_t bytes) {  // which are left
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | *at_++;
    return value;
  }
  bool number(size_t bytes, PackValue* value);
  bool signed_number(size_t bytes, PackValue* value);
  bool run(PackKind kind, size_t length_bytes, PackValue* value);
  bool content(PackKind kind, uint64_t size, PackValue* value);
  bool entries(PackKind kind, uint64_t count, PackValue* value);
  bool read(PackValue* value);
  bool read_tagged(uint8_t tag, PackValue* value);
  bool real(size_t bytes, PackValue* value);

  const uint8_t* begin_;
  const uint8_t* at_;
  const uint8_t* end_;
};

}  // namespace kvc
