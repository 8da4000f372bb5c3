// SPDX-License-Identifier: Apache-2.0
// A progress line on standard error, if that is a terminal: how far a replay or simulation is, and how long
// the rest takes if it goes on like this.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "cli/table.h"

namespace kvcli {

/// ", 1:05 left" if `done` of `total` took so many seconds; empty while that says little.
inline std::string time_left(uint64_t done, uint64_t total, double passed) {
  if (done == 0 || passed < 0.3) return "";
  const auto seconds =
      static_cast<unsigned long long>(passed / static_cast<double>(done) * static_cast<double>(total - done));
  char text[48];
  std::snprintf(text, sizeof text, ", %llu:%02llu left", seconds / 60, seconds % 60);
  return text;
}

class Progress {
 public:
  explicit Progress(uint64_t total, bool wanted = true, const char* command = "replay")
      : total_(total), command_(command), visible_(wanted && isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (drawn_) std::fputs("\r\033[K", stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(uint64_t done, size_t live) {
    if (!visible_ || ++calls_ % 256 != 0) return;  // Reads the clock rarely: a round takes a microsecond.
    const Clock::time_point now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    drawn_ = true;
    std::fprintf(stderr, "\r\033[K%s: %s of %s requests, %zu live%s", command_, grouped(done).c_str(),
                 grouped(total_).c_str(), live,
                 time_left(done, total_, std::chrono::duration<double>(now - begin_).count()).c_str());
  }

 private:
  using Clock = std::chrono::steady_clock;

  uint64_t total_;
  const char* command_;
  uint64_t calls_ = 0;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_{};
  bool visible_;
  bool drawn_ = false;
};

}  // namespace kvcli
