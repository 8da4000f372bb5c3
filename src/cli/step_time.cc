// SPDX-License-Identifier: Apache-2.0
// A table is a grid: each number of tokens with each context. Between its points times are interpolated, and
// beyond its last ones the last slope goes on; below its first ones the first time holds.
#include "cli/step_time.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/errors.h"
#include "cli/lists.h"

namespace kvcli {
namespace {

constexpr double kMostUs = 1e9;
constexpr double kMostStepTokens = 1e12;
constexpr size_t kMostEntries = 100'000;
constexpr const char* kColumns[] = {"tokens", "context", "us"};

/// The place of x among rising points: the interval that begins at `low`, and the part of it before x.
struct Place {
  size_t low, high;
  double part;
};
Place place(const std::vector<double>& points, double x) {
  if (points.size() == 1 || x <= points[0]) return {0, 0, 0};
  const auto above = std::upper_bound(points.begin() + 1, points.end() - 1, x);
  const auto high = static_cast<size_t>(above - points.begin());
  return {high - 1, high, (x - points[high - 1]) / (points[high] - points[high - 1])};
}

[[noreturn]] void refuse_table(const std::string& where, const std::string& what) {
  throw InputError(where + ": " + what + "; give tokens, context and us of each measured step");
}

void sort_unique(std::vector<double>& points) {
  std::ranges::sort(points);
  points.erase(std::unique(points.begin(), points.end()), points.end());
}

}  // namespace

StepTime StepTime::parse(const std::string& spec) {
  StepTime out;
  if (spec.empty()) return out;
  if (spec.find('=') == std::string::npos) {
    out.read(spec);
    return out;
  }
  const std::pair<const char*, double*> keys[] = {
      {"fixed_us", &out.fixed_us}, {"token_us", &out.token_us}, {"context_us", &out.context_us}};
  for (const std::string& item : split_list("--step-model", spec)) {
    const size_t equals = std::min(item.find('='), item.size());
    const auto key = std::ranges::find(keys, item.substr(0, equals),
                                       [](const auto& each) { return std::string(each.first); });
    if (key == std::end(keys) || equals == item.size())
      throw InputError("--step-model has " + item +
                       "; give fixed_us=X, token_us=X and context_us=X with commas between them, or "
                       "the name of a file with tokens, context and us");
    *key->second =
        parse_number<double>("--step-model: " + item.substr(0, equals), item.substr(equals + 1), 0, kMostUs);
  }
  return out;
}

void StepTime::add(double tokens, double context, double us, const std::string& where) {
  const double values[] = {tokens, context, us};
  for (size_t i = 0; i < 3; ++i) {
    const double most = i == 2 ? kMostUs : kMostStepTokens;
    if (!(values[i] >= 0 && values[i] <= most))  // NaN too
      throw InputError(where + ": " + kColumns[i] + " is " + number_text(values[i]) + "; give 0 to " +
                       number_text(most));
  }
  if (entries_.size() == kMostEntries)
    throw InputError(where + ": more than 100000 measured times; give fewer");
  entries_.push_back({tokens, context, us});
}

void StepTime::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw InputError("--step-model is " + path + ": " + std::strerror(errno) +
                     "; give a readable file of measured times, or fixed_us=X,token_us=X,context_us=X");
  if (path.ends_with(".json")) {
    read_json(file, path);
  } else {
    read_csv(file, path);
  }
  make_grid(path);
}

void StepTime::read_json(std::istream& in, const std::string& path) {
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_array()) refuse_table(path, "not a JSON array");
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string where = path + ": entry " + std::to_string(i);
    double values[3];
    for (size_t k = 0; k < 3; ++k) {
      const auto& entry = json[i];
      if (!entry.is_object() || !entry.contains(kColumns[k]) || !entry[kColumns[k]].is_number())
        refuse_table(where, std::string("no number \"") + kColumns[k] + "\"");
      values[k] = entry[kColumns[k]].get<double>();
    }
    add(values[0], values[1], values[2], where);
  }
}

void StepTime::read_csv(std::istream& in, const std::string& path) {
  std::string line;
  for (size_t number = 1; std::getline(in, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || (number == 1 && line == "tokens,context,us")) continue;
    const std::string where = path + ":" + std::to_string(number);
    double values[3] = {};
    const char* at = line.data();
    const char* const end = at + line.size();
    for (size_t k = 0; k < 3; ++k) {
      const auto [after, error] = std::from_chars(at, end, values[k]);
      const bool right = error == std::errc() && (k == 2 ? after == end : after != end && *after == ',');
      if (!right) refuse_table(where, '"' + line.substr(0, 40) + "\" is not tokens,context,us");
      at = after + 1;
    }
    add(values[0], values[1], values[2], where);
  }
}

void StepTime::make_grid(const std::string& path) {
  if (entries_.empty()) throw InputError(path + ": no measured times; give tokens, context and us of each");
  for (const Entry& entry : entries_) {
    tokens_.push_back(entry.tokens);
    contexts_.push_back(entry.context);
  }
  sort_unique(tokens_);
  sort_unique(contexts_);
  const size_t width = contexts_.size();
  if (tokens_.size() > entries_.size() / width + 1 || tokens_.size() * width != entries_.size())
    throw InputError(path + ": " + std::to_string(entries_.size()) + " times of " +
                     counted(tokens_.size(), "number") + " of tokens and " + counted(width, "context") +
                     "; give one for each of the " + grouped(tokens_.size() * width) + " pairs");
  table_.assign(entries_.size(), -1);
  for (const Entry& entry : entries_) {
    const auto t = static_cast<size_t>(std::ranges::lower_bound(tokens_, entry.tokens) - tokens_.begin());
    const auto c =
        static_cast<size_t>(std::ranges::lower_bound(contexts_, entry.context) - contexts_.begin());
    if (table_[t * width + c] >= 0)
      throw InputError(path + ": two times for " + number_text(entry.tokens) + " tokens and a context of " +
                       number_text(entry.context) + "; give one");
    table_[t * width + c] = entry.us;
  }
  entries_.clear();
}

uint64_t StepTime::device_ns(uint64_t tokens, uint64_t context) const {
  const auto t = static_cast<double>(tokens), c = static_cast<double>(context);
  double us = 0;
  if (table_.empty()) {
    us = fixed_us + token_us * t + context_us * c;
  } else {
    const Place row = place(tokens_, t), column = place(contexts_, c);
    const auto in_row = [&](size_t r) {
      const double* const times = table_.data() + r * contexts_.size();
      return times[column.low] + (times[column.high] - times[column.low]) * column.part;
    };
    us = in_row(row.low) + (in_row(row.high) - in_row(row.low)) * row.part;
  }
  return static_cast<uint64_t>(std::llround(std::clamp(us * 1000, 1.0, kMostUs * 1e6)));
}

}  // namespace kvcli
