// SPDX-License-Identifier: Apache-2.0
// Digests as names of files: 64 lower-case hexadecimal digits. Pure functions.
#pragma once
#include "base/sha256.h"

namespace kvc {

// The digits and a zero behind them.
inline void write_hex(const Digest256& digest, char* out) {
  for (const uint8_t byte : digest.bytes) {
    *out++ = "0123456789abcdef"[byte >> 4];
    *out++ = "0123456789abcdef"[byte & 15];
  }
  *out = 0;
}

// Whether a text begins with the digits of a digest.
[[nodiscard]] inline bool read_hex(const char* text, Digest256* out) {
  const auto value = [](char digit) {
    return digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
  };
  for (uint8_t& byte : out->bytes) {
    const int high = value(text[0]), low = high < 0 ? -1 : value(text[1]);
    if (low < 0) return false;
    byte = static_cast<uint8_t>(high * 16 + low);
    text += 2;
  }
  return true;
}

}  // namespace kvc
