// SPDX-License-Identifier: Apache-2.0
// Options of the command by their kind: a number within a range, one of several words.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

namespace kvcli {

/// An option for a whole number from 1 to `most`.
template <typename T>
CLI::Option* add_number(CLI::App& app, const char* name, T& value, const char* text,
                        std::type_identity_t<T> most) {
  return app.add_option(name, value, text)->check(CLI::Range(T{1}, most));
}

/// An option for one of `choices`.
inline CLI::Option* add_choice(CLI::App& app, const char* name, std::string& value, const char* text,
                               const std::vector<std::string>& choices) {
  return app.add_option(name, value, text)->check(CLI::IsMember(choices));
}

/// --retention of the commands with a --model, which is there before.
inline void add_retention(CLI::App& app, std::optional<uint64_t>& value) {
  app.add_option(
         "--retention", value,
         "With --model: windows and chunks also keep what hits need that end at multiples of this many "
         "tokens; 0 = only at ends of prompts and requests [the block size]")
      ->needs("--model");
}

}  // namespace kvcli
