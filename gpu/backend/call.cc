// SPDX-License-Identifier: Apache-2.0
#include "backend/call.h"

#include <algorithm>

#include "backend/memory.h"
#include "kernels/upload.h"

namespace kvc::gpu {
namespace {

constexpr uint64_t kMaxPackets = 8;  // beyond that, one copy is faster

// Streams for calls without one. They live as long as the process; there are as many as calls at one time.
struct OwnStreams {
  std::mutex mutex;
  std::vector<DeviceStream*> idle;
};
OwnStreams& own_streams() {
  static auto* const all = new OwnStreams;
  return *all;
}

kvc_status borrow(uint32_t device, DeviceStream** stream) {
  OwnStreams& own = own_streams();
  {
    const std::lock_guard lock(own.mutex);
    const auto found =
        std::find_if(own.idle.begin(), own.idle.end(), [&](auto* s) { return s->device() == device; });
    if (found != own.idle.end()) {
      *stream = *found;
      own.idle.erase(found);
      return KVC_OK;
    }
  }
  return DeviceStream::create(device, stream);
}

void bring_back(DeviceStream* stream) {
  OwnStreams& own = own_streams();
  const std::lock_guard lock(own.mutex);
  own.idle.push_back(stream);
}

constexpr uint64_t round_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

CallMemory::~CallMemory() {
  for (DeviceStream* stream : streams_) stream->drop();
}

void CallMemory::note(DeviceStream& stream) {
  const std::lock_guard lock(mutex_);
  if (std::find(streams_.begin(), streams_.end(), &stream) != streams_.end()) return;
  std::erase_if(streams_, [](DeviceStream* other) {
    const bool ended = other->ended();
    if (ended) other->drop();
    return ended;
  });
  streams_.push_back(&stream);
  stream.hold();
}

void CallMemory::wait() {
  const std::lock_guard lock(mutex_);
  for (DeviceStream* stream : streams_) stream->finish();
}

Call::~Call() {
  if (block_.data != nullptr) memory_.workspace.give(block_);
  if (own_ && stream_ != nullptr) bring_back(stream_);
}

kvc_status Call::begin() {
  KVC_TRY(on_.status());
  if (own_) return borrow(device_, &stream_);
  KVC_TRY(stream_->find_capture(&capture_));
  memory_.note(*stream_);
  return KVC_OK;
}

kvc_status Call::find(const void* memory, const char* name, void** on_device) {
  return find_address(device_, memory, name, on_device);
}

kvc_status Call::send(char* to) {
  const uint64_t bytes = arrays_.bytes();
  if (capture_ == 0 && bytes > kMaxPackets * kPacketBytes) {
    Staging::Piece piece;
    KVC_TRY(memory_.staging.take(bytes, &piece));
    arrays_.pack(0, bytes, piece.data);
    const runtime::Error error = runtime::copy(to, piece.data, bytes, stream());
    memory_.staging.give(piece, stream());
    return check(error, "a copy to the device");
  }
  for (uint64_t at = 0; at < bytes; at += kPacketBytes) {
    Packet packet;
    const auto part = static_cast<uint32_t>(std::min<uint64_t>(kPacketBytes, bytes - at));
    arrays_.pack(at, at + part, reinterpret_cast<char*>(packet.bytes));
    KVC_TRY(check(gpu::upload(packet, to + at, part, stream()), "a launch"));
  }
  return KVC_OK;
}

uint64_t Call::needed(uint64_t workspace, const HostArrays& arrays) {
  return round_up(workspace, kWorkspaceAlignment) + arrays.bytes();
}

kvc_status Call::upload(uint64_t workspace, char* given) {
  const uint64_t bytes = needed(workspace, arrays_);
  if (bytes == 0) return KVC_OK;
  workspace_ = given;
  if (given == nullptr) {
    KVC_TRY(memory_.workspace.take(*stream_, capture_, bytes, &block_));
    workspace_ = block_.data;
  }
  char* const copies = workspace_ + (bytes - arrays_.bytes());
  KVC_TRY(send(copies));
  arrays_.place(copies);
  return KVC_OK;
}

kvc_status Call::end(runtime::Error error, const char* doing) {
  KVC_TRY(check(error, doing));
  return own_ ? stream_->synchronize() : kvc_status{KVC_OK};
}

}  // namespace kvc::gpu
