// SPDX-License-Identifier: Apache-2.0
// What a shell may offer while a command line is being typed. The scripts in completions/ ask for it by
// `kvcache __complete <word>...`, so that they know no option themselves and never grow stale.
#pragma once
#include <ostream>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace kvcli {

/// `words`: those after the command's name, the last one being the word at the cursor (which may be empty).
/// Writes what it could become, one a line; the line ":files" stands for names of files.
void print_completions(CLI::App& app, const std::vector<std::string>& words, std::ostream& out);

}  // namespace kvcli
