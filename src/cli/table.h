// SPDX-License-Identifier: Apache-2.0
// Tables for people, and texts of numbers.
#pragma once

#include <cstdint>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <string>

namespace kvcli {

/// 1,234,567
inline std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

/// 0.5, 1, 1000
inline std::string number_text(double number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

/// 0.50 with 2 digits
inline std::string fixed(double number, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << number;
  return text.str();
}

/// "1 layer", "2 layers"
inline std::string counted(uint64_t number, const char* noun) {
  return grouped(number) + ' ' + noun + (number == 1 ? "" : "s");
}

inline std::string hex(const uint8_t* bytes, size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < size; ++i) out += {kDigits[bytes[i] >> 4], kDigits[bytes[i] & 15]};
  return out;
}

inline void row(std::ostream& out, const char* name, const std::string& value, const std::string& note = "") {
  out << "  " << std::left << std::setw(22) << name << std::right << std::setw(26) << value;
  if (!note.empty()) out << "   " << note;
  out << '\n';
}

}  // namespace kvcli
