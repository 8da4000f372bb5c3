// SPDX-License-Identifier: Apache-2.0
#include "cli/complete.h"

#include <kvcache/model.h>

#include <CLI/CLI.hpp>

#include "cli/library.h"
#include "cli/replay.h"
#include "cli/usage.h"

namespace kvcli {
namespace {

using Words = std::vector<std::string>;

Words model_names() {
  Words names;
  for (size_t i = 0; i < kvc_model_count(); ++i) {
    names.emplace_back(ask<kvc_model>(kvc_model_get, i).name);
  }
  return names;
}

/// Possible values of an option or positional argument.
Words values(const CLI::Option& option) {
  Words found = choices(option);
  const std::string name = option.get_name();
  if (!found.empty()) return found;
  if (name == "MODEL" || name == "--model") found = model_names();
  if (name == "--policies") found = policy_names();
  if (name == "MODEL" || name == "--model" || name == "TRACE" || name == "PATH" || name == "FOLDER" ||
      name == "--output" || name == "--log" || name == "--record" || name == "--replay" ||
      name == "--step-model" || name == "--html")
    found.emplace_back(":files");
  return found;
}

CLI::App* subcommand_of(CLI::App& app, const std::string& name) {
  for (CLI::App* subcommand : app.get_subcommands({})) {
    if (subcommand->get_name() == name) return subcommand;
  }
  return nullptr;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

}  // namespace

void print_completions(CLI::App& app, const Words& words, std::ostream& out) {
  CLI::App* at = &app;
  const CLI::Option* open = nullptr;  // The option whose value comes next.
  size_t positionals = 0;             // Given already.
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (open != nullptr) {
      open = nullptr;
    } else if (words[i].size() > 1 && words[i][0] == '-') {
      const CLI::Option* option = at->get_option_no_throw(words[i]);
      if (option != nullptr && takes_value(*option)) open = option;
    } else if (CLI::App* subcommand = subcommand_of(*at, words[i]); subcommand != nullptr) {
      at = subcommand;
    } else {
      ++positionals;
    }
  }

  const std::string current = words.empty() ? "" : words.back();
  Words found;
  if (open != nullptr) {
    found = values(*open);
  } else if (!current.empty() && current[0] == '-') {
    for (const CLI::Option* option : at->get_options()) {
      for (const std::string& name : option->get_lnames()) found.push_back("--" + name);
      for (const std::string& name : option->get_snames()) found.push_back("-" + name);
    }
  } else {
    for (const CLI::App* subcommand : at->get_subcommands({})) found.push_back(subcommand->get_name());
    for (const CLI::Option* option : at->get_options()) {
      if (option->get_positional() && positionals-- == 0) found = values(*option);
    }
  }
  for (const std::string& word : found) {
    if (word == ":files" || word.compare(0, current.size(), current) == 0) out << word << '\n';
  }
}

}  // namespace kvcli
