// SPDX-License-Identifier: Apache-2.0
// Objects of a JSON file that a user gives: values are taken out with their type and range checked, and an
// InputError names the file, the key, what it is and what it should be.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace kvcli {

/// A value for an error text: short whatever it is.
std::string shown(const nlohmann::json& value);

/// `source` and `fix` are for errors. Deep nesting is refused: nothing that is read here has it, and it costs
/// most.
nlohmann::json parse_json(const std::string& text, const std::string& source,
                          const std::string& fix = "give the config.json of a model");

/// One JSON object, and where it is.
class Section {
 public:
  static constexpr uint64_t kRequired = 0;  ///< Default of whole_or: there is none.

  Section(const nlohmann::json& object, std::string source, std::string prefix = "")
      : object_(object), source_(std::move(source)), prefix_(std::move(prefix)) {}

  /// The value, or null for one that is missing or null.
  const nlohmann::json* find(const char* key) const;
  bool has(const char* key) const { return object_.contains(key); }
  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& fix) const;

  uint64_t whole(const char* key, uint64_t low, uint64_t high) const;
  uint64_t whole_or(const char* key, uint64_t low, uint64_t high, uint64_t fallback) const;
  double positive_or(const char* key, double fallback) const;
  bool flag_or(const char* key, bool fallback) const;
  const std::string* text(const char* key) const;  ///< Null if it is missing.

  Section inner(const char* key, const nlohmann::json& object) const {
    return Section(object, source_, prefix_ + key + ".");
  }

 private:
  const nlohmann::json& object_;
  std::string source_;
  std::string prefix_;
};

}  // namespace kvcli
