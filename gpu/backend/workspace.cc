// SPDX-License-Identifier: Apache-2.0
#include "backend/workspace.h"

#include <algorithm>

#include "backend/size_class.h"

namespace kvc::gpu {
namespace {

void use(Workspace::Block* block, DeviceStream& stream) {
  if (block->last == &stream) return;
  if (block->last != nullptr) block->last->drop();
  stream.hold();
  block->last = &stream;
}

}  // namespace

Workspace::~Workspace() {
  const OnDevice on(device_);
  for (const Block& block : idle_) {
    static_cast<void>(runtime::release(block.data));
    if (block.last != nullptr) block.last->drop();
  }
}

kvc_status Workspace::take(DeviceStream& stream, uint64_t capture, uint64_t bytes, Block* block) {
  bytes = size_class(bytes);
  const std::lock_guard lock(mutex_);
  for (Block& idle : idle_) {
    if (idle.bytes != bytes || idle.capture != capture) continue;
    // In a graph, other streams are branches that may run at the same time.
    const bool free = idle.last == &stream || (capture == 0 && (idle.last == nullptr || idle.last->ended()));
    if (!free) continue;
    *block = idle;
    idle = idle_.back();
    idle_.pop_back();
    use(block, stream);
    return KVC_OK;
  }
  return grow(stream, capture, bytes, block);
}

kvc_status Workspace::grow(DeviceStream& stream, uint64_t capture, uint64_t bytes, Block* block) {
  idle_.reserve(num_blocks_ + 1);
  void* memory = nullptr;
  const runtime::Error error = runtime::allocate(bytes, &memory);
  if (error == 0) {
    *block = {static_cast<char*>(memory), bytes, nullptr, capture};
    use(block, stream);
    ++num_blocks_;
    return KVC_OK;
  }
  if (!runtime::is_out_of_memory(error) || capture != 0) return report(error, "an allocation of workspace");
  for (Block& idle : idle_) {  // of another stream, after the work there
    if (idle.bytes < bytes || idle.capture != 0 || !idle.last->order_before(stream)) continue;
    *block = idle;
    idle = idle_.back();
    idle_.pop_back();
    use(block, stream);
    return KVC_OK;
  }
  return report(error, "an allocation of workspace");
}

void Workspace::give(const Block& block) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(block);
}

uint64_t Workspace::trim() {
  std::vector<Block> unused;
  {
    const std::lock_guard lock(mutex_);
    unused.reserve(idle_.size());
    std::erase_if(idle_, [&](const Block& block) {
      if (block.capture == 0) unused.push_back(block);
      return block.capture == 0;
    });
    num_blocks_ -= unused.size();
  }
  uint64_t bytes = 0;
  for (const Block& block : unused) {  // without the lock: the first waits for the device
    if (runtime::release(block.data) == 0) bytes += block.bytes;
    block.last->drop();
  }
  return bytes;
}

}  // namespace kvc::gpu
