// SPDX-License-Identifier: Apache-2.0
// A progress line on standard error, if that is a terminal.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>

namespace kvcli {

class Progress {
 public:
  explicit Progress(uint64_t total) : total_(total), visible_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (drawn_) std::fputs("\r\033[K", stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(uint64_t done, size_t live) {
    if (!visible_ || ++calls_ % 256 != 0) return;  // Reads the clock rarely: a round takes a microsecond.
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    drawn_ = true;
    std::fprintf(stderr, "\r\033[Kreplay: %llu of %llu requests admitted, %zu live",
                 static_cast<unsigned long long>(done), static_cast<unsigned long long>(total_), live);
  }

 private:
  uint64_t total_;
  uint64_t calls_ = 0;
  std::chrono::steady_clock::time_point last_{};
  bool visible_;
  bool drawn_ = false;
};

}  // namespace kvcli
