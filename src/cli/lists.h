// SPDX-License-Identifier: Apache-2.0
// Options whose value is a list with commas.
#pragma once

#include <charconv>
#include <string>
#include <vector>

#include "cli/errors.h"
#include "cli/table.h"

namespace kvcli {

inline std::vector<std::string> split_list(const char* option, const std::string& text) {
  std::vector<std::string> items;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(',', begin);
    items.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
    if (items.back().empty())
      throw InputError(std::string(option) + " is \"" + text + "\"; give values with one comma between them");
  }
  return items;
}

/// A number of `option` from `least` to `most`, without anything after it.
template <typename T>
T parse_number(const std::string& option, const std::string& text, T least, T most) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= least && number <= most)
    return number;
  throw InputError(option + " has " + text + "; each value is from " + number_text(least) + " to " +
                   number_text(most));
}

template <typename T>
std::vector<T> number_list(const char* option, const std::string& text, T least, T most) {
  std::vector<T> numbers;
  for (const std::string& item : split_list(option, text))
    numbers.push_back(parse_number<T>(option, item, least, most));
  return numbers;
}

}  // namespace kvcli
