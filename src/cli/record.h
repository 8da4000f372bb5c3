// SPDX-License-Identifier: Apache-2.0
// Logs of calls (kvcache/record.h): a replay of a trace writes one, and `replay --log` makes its calls again.
#pragma once
#include <kvcache/types.h>

#include <fstream>
#include <iosfwd>
#include <string>
#include <vector>

namespace kvcli {

/// The file to which the log of a manager goes. Throws InputError if it cannot be written.
class LogFile {
 public:
  static constexpr uint64_t kRecordBytes = uint64_t{64} << 20;  // More than one round of a replay logs.

  explicit LogFile(const std::string& path);

  /// Appends what was logged, once it is much.
  void drain(kvc_manager* manager);
  /// Appends the rest, with the digest of the manager.
  void finish(kvc_manager* manager);

 private:
  void take(kvc_manager* manager, uint64_t size);

  const std::string path_;
  std::ofstream file_;
  std::vector<char> bytes_;
};

/// Replays a log and prints what came of it: true without a mismatch and lost calls. Throws InputError if the
/// log cannot be read.
bool replay_log(const std::string& path, bool json, std::ostream& out);

}  // namespace kvcli
