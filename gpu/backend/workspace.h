// SPDX-License-Identifier: Apache-2.0
// Device memory for one call at a time, in size classes, kept for later calls. The next call in the same
// stream may use it at once; a call in another stream only if the streams are ordered. Memory that was used
// during a capture belongs to the graph: only later calls in the same stream and capture get it again, since
// other streams of the capture are branches that may run at the same time. Thread-safe.
#pragma once
#include <mutex>
#include <vector>

#include "backend/device_stream.h"

namespace kvc::gpu {

class Workspace {
 public:
  struct Block {
    char* data;
    uint64_t bytes;
    DeviceStream* last;  // held; nullptr = never used
    uint64_t capture;    // 0 = none
  };

  explicit Workspace(uint32_t device) : device_(device) {}
  ~Workspace();  // nothing uses any of it
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // The device is current.
  kvc_status take(DeviceStream& stream, uint64_t capture, uint64_t bytes, Block* block);
  void give(const Block& block);
  // Frees the idle blocks that no capture has used, after the work that uses them, and returns their bytes.
  // The device is current.
  uint64_t trim();

 private:
  kvc_status grow(DeviceStream& stream, uint64_t capture, uint64_t bytes, Block* block);

  const uint32_t device_;
  std::mutex mutex_;
  std::vector<Block> idle_;  // with room for all
  size_t num_blocks_ = 0;
};

}  // namespace kvc::gpu
