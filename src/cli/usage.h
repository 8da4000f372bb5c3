// SPDX-License-Identifier: Apache-2.0
// Texts of wrong usage: what was given, what may be given, and the name that was probably meant.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Error;
class Option;
}  // namespace CLI

namespace kvcli {

/// The name that is most like `word`: it begins with it, or differs in a few letters. Empty: none is.
std::string closest(const std::string& word, const std::vector<std::string>& names);

/// The allowed values of an option; empty if it has no list of them.
std::vector<std::string> choices(const CLI::Option& option);

/// The text of an error of the parser, for CLI::App::failure_message.
std::string usage_error(const CLI::App* app, const CLI::Error& error);

}  // namespace kvcli
