// SPDX-License-Identifier: Apache-2.0
// Completions for shells. The scripts in completions/ call `kvcache __complete <word>...`, so they need no
// list of options.
#pragma once
#include <ostream>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace kvcli {

/// `words` are those after the command's name; the last one, which may be empty, is at the cursor. Writes one
/// completion per line; the line ":files" stands for file names.
void print_completions(CLI::App& app, const std::vector<std::string>& words, std::ostream& out);

}  // namespace kvcli
