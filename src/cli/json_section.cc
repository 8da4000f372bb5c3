// SPDX-License-Identifier: Apache-2.0
#include "cli/json_section.h"

#include <cmath>

#include "cli/errors.h"

namespace kvcli {

using nlohmann::json;

namespace {

constexpr int kMaxDepth = 64;

}  // namespace

std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() <= 40 ? text : text.substr(0, 40) + "...";
}

json parse_json(const std::string& text, const std::string& source, const std::string& fix) {
  const auto check_depth = [&](int depth, json::parse_event_t, json&) {
    if (depth > kMaxDepth) {
      throw InputError(source + ": nested deeper than " + std::to_string(kMaxDepth) + " levels; " + fix);
    }
    return true;
  };
  try {
    return json::parse(text, check_depth);
  } catch (const json::exception& error) {
    throw InputError(source + ": not JSON (" + std::string(error.what()).substr(0, 160) + "); " + fix);
  }
}

const json* Section::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Section::fail(const std::string& key, const std::string& what, const std::string& fix) const {
  throw InputError(source_ + ": \"" + prefix_ + key + "\" " + what + "; " + fix);
}

uint64_t Section::whole(const char* key, uint64_t low, uint64_t high) const {
  const std::string fix = "give a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  const json* value = find(key);
  if (value == nullptr) fail(key, has(key) ? "is null" : "is missing", fix);
  if (!value->is_number_unsigned()) fail(key, "is " + shown(*value), fix);
  const auto number = value->get<uint64_t>();
  if (number < low || number > high) fail(key, "is " + std::to_string(number), fix);
  return number;
}

uint64_t Section::whole_or(const char* key, uint64_t low, uint64_t high, uint64_t fallback) const {
  return fallback != kRequired && find(key) == nullptr ? fallback : whole(key, low, high);
}

double Section::positive_or(const char* key, double fallback) const {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  const double number = value->is_number() ? value->get<double>() : 0;
  if (!(number > 0) || !std::isfinite(number)) fail(key, "is " + shown(*value), "give a number above 0");
  return number;
}

bool Section::flag_or(const char* key, bool fallback) const {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) fail(key, "is " + shown(*value), "give true or false");
  return value->get<bool>();
}

const std::string* Section::text(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_string()) fail(key, "is " + shown(*value), "give a string");
  return value->get_ptr<const std::string*>();
}

}  // namespace kvcli
