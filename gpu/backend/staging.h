// SPDX-License-Identifier: Apache-2.0
// Pinned host memory for host arrays that are too large for the arguments of a launch. A piece is reused only
// after its copy is done; that is asked, never waited for. Thread-safe.
#pragma once
#include <mutex>
#include <vector>

#include "backend/error.h"

namespace kvc::gpu {

class Staging {
 public:
  struct Piece {
    char* data;
    uint64_t bytes;
    runtime::Event copied;
  };

  explicit Staging(uint32_t device) : device_(device) {}
  ~Staging();  // nothing uses any of it
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // The device is current.
  kvc_status take(uint64_t bytes, Piece* piece);
  void give(const Piece& piece, runtime::Stream stream);  // after the copy was enqueued there
  uint64_t trim();  // frees the pieces whose copy is done; returns their bytes

 private:
  const uint32_t device_;
  std::mutex mutex_;
  std::vector<Piece> idle_;  // with room for all
  size_t num_pieces_ = 0;
};

}  // namespace kvc::gpu
