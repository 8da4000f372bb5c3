// SPDX-License-Identifier: Apache-2.0
#include "events/msgpack.h"

namespace kvc {

const char* pack_kind_name(PackKind kind) {
  static constexpr const char* kNames[] = {"nil",     "a boolean",   "an integer", "a negative integer",
                                           "a float", "a text",      "bytes",      "an array",
                                           "a map",   "an extension"};
  return kNames[static_cast<size_t>(kind)];
}

bool PackReader::number(size_t bytes, PackValue* value) {
  if (left() < bytes) return false;
  value->kind = PackKind::kUnsigned;
  value->number = fixed(bytes);
  return true;
}

bool PackReader::signed_number(size_t bytes, PackValue* value) {
  if (!number(bytes, value)) return false;
  const int shift = 64 - 8 * static_cast<int>(bytes);
  const int64_t number = static_cast<int64_t>(value->number << shift) >> shift;
  if (number < 0) value->kind = PackKind::kNegative;
  value->number = static_cast<uint64_t>(number);
  return true;
}

bool PackReader::content(PackKind kind, uint64_t size, PackValue* value) {
  if (left() < size) return false;
  value->kind = kind;
  value->data = at_;
  value->size = size;
  at_ += size;
  return true;
}

// A length, and as many bytes; of an extension one more, which is its type.
bool PackReader::run(PackKind kind, size_t length_bytes, PackValue* value) {
  if (left() < length_bytes) return false;
  const uint64_t size = fixed(length_bytes);
  return content(kind, size + (kind == PackKind::kExt), value);
}

bool PackReader::entries(PackKind kind, uint64_t count, PackValue* value) {
  if (left() / (kind == PackKind::kMap ? 2 : 1) < count) return false;
  value->kind = kind;
  value->number = count;
  return true;
}

bool PackReader::next(PackValue* value) {
  const uint8_t* const start = at_;
  *value = {};
  if (read(value)) return true;
  at_ = start;
  return false;
}

bool PackReader::read(PackValue* value) {
  if (at_ == end_) return false;
  const uint8_t tag = *at_++;
  if (tag < 0x80 || tag >= 0xe0) {
    value->kind = tag < 0x80 ? PackKind::kUnsigned : PackKind::kNegative;
    value->number = tag < 0x80 ? tag : static_cast<uint64_t>(static_cast<int8_t>(tag));
    return true;
  }
  if (tag < 0x90) return entries(PackKind::kMap, tag & 0x0f, value);
  if (tag < 0xa0) return entries(PackKind::kArray, tag & 0x0f, value);
  if (tag < 0xc0) return content(PackKind::kText, tag & 0x1f, value);
  return read_tagged(tag, value);
}

bool PackReader::real(size_t bytes, PackValue* value) {
  if (left() < bytes) return false;
  value->kind = PackKind::kReal;
  const uint64_t bits = fixed(bytes);
  value->real = bytes == 4 ? std::bit_cast<float>(static_cast<uint32_t>(bits)) : std::bit_cast<double>(bits);
  return true;
}

bool PackReader::read_tagged(uint8_t tag, PackValue* value) {
  const size_t wide = size_t{1} << (tag & 3);  // 1, 2, 4, 8 where the tags of a kind begin at a multiple of 4
  switch (tag) {
    case 0xc0:
      value->kind = PackKind::kNil;
      return true;
    case 0xc2:
    case 0xc3:
      value->kind = PackKind::kBool;
      value->number = tag & 1;
      return true;
    case 0xc4:
    case 0xc5:
    case 0xc6:
      return run(PackKind::kBytes, wide, value);
    case 0xc7:
    case 0xc8:
    case 0xc9:
      return run(PackKind::kExt, size_t{1} << (tag - 0xc7), value);
    case 0xca:
    case 0xcb:
      return real(tag == 0xca ? 4 : 8, value);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
      return number(wide, value);
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
      return signed_number(wide, value);
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
      return content(PackKind::kExt, (size_t{1} << (tag - 0xd4)) + 1, value);
    case 0xd9:
    case 0xda:
    case 0xdb:
      return run(PackKind::kText, size_t{1} << (tag - 0xd9), value);
    case 0xdc:
    case 0xdd:
    case 0xde:
    case 0xdf: {
      const size_t bytes = (tag & 1) == 0 ? 2 : 4;
      return left() >= bytes && entries(tag < 0xde ? PackKind::kArray : PackKind::kMap, fixed(bytes), value);
    }
    default:  // 0xc1, which there is not
      return false;
  }
}

bool PackReader::skip() {
  const uint8_t* const start = at_;
  uint64_t waiting[kDepth] = {1};  // values of each array and map that are still to come
  for (int depth = 0; depth >= 0;) {
    if (waiting[depth] == 0) {
      --depth;
      continue;
    }
    --waiting[depth];
    PackValue value;
    bool good = next(&value);
    if (good && (value.kind == PackKind::kArray || value.kind == PackKind::kMap)) {
      good = ++depth < kDepth;
      if (good) waiting[depth] = value.kind == PackKind::kMap ? 2 * value.number : value.number;
    }
    if (!good) {
      at_ = start;
      return false;
    }
  }
  return true;
}

}  // namespace kvc
