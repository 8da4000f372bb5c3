// SPDX-License-Identifier: Apache-2.0
// JSON without a tree: a value is the piece of the text that it is written in, so that reading a hostile text
// takes no memory. The text must outlive its values.
#pragma once
#include <kvcache.h>

#include <optional>
#include <string>
#include <string_view>

namespace kvc {

class Json {
 public:
  // Checks the whole text. INVALID_ARGUMENT: it is not JSON (RFC 8259), or nested deeper than 64 levels.
  static kvc_status parse(std::string_view text, Json* out);

  Json() = default;
  bool is_null() const { return text_ == "null"; }
  bool is_object() const { return text_.front() == '{'; }
  bool is_array() const { return text_.front() == '['; }
  bool is_string() const { return text_.front() == '"'; }

  // Of a boolean, a whole number from 0 to 2^64 - 1, a finite number: nothing if it is something else.
  std::optional<bool> boolean() const;
  std::optional<uint64_t> whole() const;
  std::optional<double> number() const;

  // Of a string: whether it says this, and its characters with '?' in place of what is no printable ASCII.
  bool says(std::string_view ascii) const;
  std::string printable(size_t most) const;

  // Of an object: the last member of this name.
  std::optional<Json> member(std::string_view name) const;
  // Calls function(name, value) for each member, or for each element with a name that is null, until it
  // returns false.
  template <typename Function>
  void each(Function&& function) const;
  size_t size() const;

  // For an error text: short whatever it is.
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

// An object, and where it is. Values are taken out with their type and range checked; what is wrong is thrown
// as Refused, after the error text of the thread has been set.
class Section {
 public:
  struct Refused {};
  static constexpr uint64_t kRequired = 0;  // As the fallback of whole_or: there is none.

  explicit Section(Json object, std::string prefix = "") : object_(object), prefix_(std::move(prefix)) {}

  // The value; nothing if it is missing or null.
  std::optional<Json> find(const char* key) const;
  bool has(const char* key) const { return object_.member(key).has_value(); }
  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& fix) const;

  uint64_t whole(const char* key, uint64_t low, uint64_t high) const;
  uint64_t whole_or(const char* key, uint64_t low, uint64_t high, uint64_t fallback) const;
  double positive_or(const char* key, double fallback) const;
  bool flag_or(const char* key, bool fallback) const;
  std::optional<Json> text(const char* key) const;
  std::optional<Section> section(const char* key) const;

 private:
  Json object_;
  std::string prefix_;
};

}  // namespace kvc
