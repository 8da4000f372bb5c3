// SPDX-License-Identifier: Apache-2.0
#include "cli/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>

namespace kvcli {
namespace {

using Words = std::vector<std::string>;

/// Letters to insert, remove, replace or exchange with their neighbour.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, row);
  }
  return last[b.size()];
}

std::string did_you_mean(const std::string& word, const Words& names) {
  const std::string name = closest(word, names);
  return name.empty() ? "" : "; did you mean " + name + "?";
}

std::string one_of(const Words& names) { return "one of " + CLI::detail::join(names, ", "); }

Words command_names(const CLI::App& app) {
  Words names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

Words option_names(const CLI::App& command) {
  Words names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string unknown_command(const CLI::App& app, const Words& extras) {
  const Words names = command_names(app);
  if (extras.empty()) return "no command; give " + one_of(names);
  if (extras[0].rfind('-', 0) == 0)
    return "no option " + extras[0] + " before the command, which is " + one_of(names);
  if (extras[0] == "plot") return "plot is a command of the Python package: python -m kvcache plot";
  const std::string meant = did_you_mean(extras[0], names);
  return "no command " + extras[0] + (meant.empty() ? "; give " + one_of(names) : meant);
}

std::string unknown_argument(const CLI::App& command, const std::string& word) {
  if (word.rfind('-', 0) != 0) return "one argument too many: " + word;
  return "no option " + word + did_you_mean(word.substr(0, word.find('=')), option_names(command));
}

/// "from 1 to 1024", from a type such as UINT:UINT in [1 - 1024]; empty without a range.
std::string range(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find(" in ["), middle = type.find(" - ", open), close = type.find(']', open);
  if (open == std::string::npos || middle == std::string::npos || close == std::string::npos) return "";
  return "from " + type.substr(open + 5, middle - open - 5) + " to " +
         type.substr(middle + 3, close - middle - 3);
}

/// An option whose value is wrong or missing.
std::string bad_value(const CLI::Option& option, const std::string& name) {
  const Words allowed = choices(option);
  const std::string wanted = !allowed.empty() ? one_of(allowed) : range(option);
  const std::string must = wanted.empty() ? "" : "; it must be " + wanted;
  if (option.results().empty())
    return name + (option.get_positional() ? " is missing" : " needs a value") + must;
  if (option.results().size() > 1) return name + " is given more than once";
  const std::string& given = option.results().back();
  return name + " is " + given + (must.empty() ? ", which is no number" : must) +
         did_you_mean(given, allowed);
}

std::string text_of(const CLI::App& app, const CLI::App& command, const CLI::Error& error) {
  const auto kind = static_cast<CLI::ExitCodes>(error.get_exit_code());
  std::string text = error.what();
  const Words extras = app.remaining(true);
  if (&command == &app) return unknown_command(app, extras);
  // An unknown option first: its value may look like a wrong argument.
  const auto option = std::find_if(extras.begin(), extras.end(),
                                   [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  if (option != extras.end()) return unknown_argument(command, *option);
  if (kind == CLI::ExitCodes::ExtrasError && !extras.empty()) return unknown_argument(command, extras[0]);
  if (kind == CLI::ExitCodes::ExcludesError) return text + ": leave one out";
  for (const CLI::Option* each : command.get_options()) {
    const std::string name = each->get_name();
    const bool named = text.rfind(name + ": ", 0) == 0 || text.rfind(name + " is required", 0) == 0 ||
                       text.find(": " + name + " = ") != std::string::npos;
    if (named) return bad_value(*each, name);
  }
  return text;
}

}  // namespace

std::string closest(const std::string& word, const Words& names) {
  std::string best;
  size_t least = std::max<size_t>(word.size() / 3, 1) + 1;  // letters that may differ, and one
  for (const std::string& name : names) {
    const bool begins = word.size() > 2 && name.rfind(word, 0) == 0;
    const size_t letters = begins ? 0 : distance(word, name);
    if (letters < least) best = name, least = letters;
  }
  return best;
}

Words choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();  // TEXT:{a,b}
  const size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

std::string usage_error(const CLI::App* app, const CLI::Error& error) {
  const std::vector<CLI::App*> commands = app->get_subcommands();
  const bool in_command = !commands.empty() && app->remaining(false).empty();
  const CLI::App& command = in_command ? *commands.front() : *app;
  const std::string name = in_command ? "kvcache " + command.get_name() : "kvcache";
  return "kvcache: " + text_of(*app, command, error) + "\nRun '" + name + " --help' for help.\n";
}

}  // namespace kvcli
