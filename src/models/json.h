// SPDX-License-Identifier: Apache-2.0
// A JSON reader without a tree: a value is a part of the text, which must outlive it.
#pragma once
#include <kvcache/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace kvc {

class Json {
 public:
  // Checks the whole text. INVALID_ARGUMENT: not JSON (RFC 8259), or nested deeper than 64 levels.
  static kvc_status parse(std::string_view text, Json* out);

  Json() = default;
  bool is_null() const { return text_ == "null"; }
  bool is_object() const { return text_.front() == '{'; }
  bool is_array() const { return text_.front() == '['; }
  bool is_string() const { return text_.front() == '"'; }

  // A boolean, a whole number from 0 to 2^64 - 1, a finite number; nothing if it is not one.
  std::optional<bool> boolean() const;
  std::optional<uint64_t> whole() const;
  std::optional<double> number() const;

  // Of a string: whether it equals `ascii`; and its first characters, with '?' for other than printable
  // ASCII.
  bool says(std::string_view ascii) const;
  std::string printable(size_t most) const;

  // Of an object: the last member with this name.
  std::optional<Json> member(std::string_view name) const;
  // Calls function(name, value) for each member or element until it returns false. Elements have no name.
  template <typename Function>
  void each(Function&& function) const;
  size_t size() const;

  // A short form for error texts.
  std::string shown() const;

 private:
  explicit Json(std::string_view text) : text_(text) {}
  bool next(size_t* at, Json* name, Json* value) const;

  std::string_view text_ = "null";
};

template <typename Function>
void Json::each(Function&& function) const {
  Json name, value;
  for (size_t at = 1; next(&at, &name, &value);)
    if (!function(name, value)) return;
}

// An object and its position. Reads values with type and range checked. A wrong value sets the error text of
// the thread and throws Refused.
class Section {
 public:
  struct Refused {};
  static constexpr uint64_t kRequired = 0;  // As a fallback: the value is required.

  explicit Section(Json object, std::string prefix = "") : object_(object), prefix_(std::move(prefix)) {}

  // Nothing if the value is missing or null.
  std::optional<Json> find(const char* key) const;
  bool has(const char* key) const { return object_.member(key).has_value(); }
  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& fix) const;
  [[noreturn]] void refuse(const std::string& key, const Json& value, const std::string& fix) const {
    fail(key, "is " + value.shown(), fix);
  }

  // From `least` to `most`.
  uint64_t whole(const char* key, uint64_t most, uint64_t fallback = kRequired, uint64_t least = 1) const;
  uint32_t whole32(const char* key, uint32_t most, uint64_t fallback = kRequired) const {
    return static_cast<uint32_t>(whole(key, most, fallback));
  }
  double positive_or(const char* key, double fallback) const;
  bool flag_or(const char* key, bool fallback) const;
  std::optional<Json> text(const char* key) const;
  std::optional<Section> section(const char* key) const;

 private:
  Json object_;
  std::string prefix_;
};

}  // namespace kvc
