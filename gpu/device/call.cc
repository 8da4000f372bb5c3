// SPDX-License-Identifier: Apache-2.0
#include "device/call.h"

#include <algorithm>

#include "device/memory.h"
#include "kernels/upload.h"

namespace kvc::gpu {
namespace {

constexpr uint64_t kWorkspaceAlignment = 256;
constexpr uint64_t kMaxPackets = 8;  // beyond that, one copy is faster

// Streams for calls without one. They live as long as the process: their number is that of calls at one time.
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

void Call::add(const Array& array) {
  Array& mine = arrays_[num_arrays_++];
  mine = array;
  mine.offset = array_bytes_;
  array_bytes_ += round_up(array.rows * array.row_bytes, 16);
}

kvc_status Call::find(const void* memory, const char* name, void** on_device) {
  return find_address(device_, memory, name, on_device);
}

// Bytes [begin, end) of all arrays, one after the other, to `to`.
void Call::pack(uint64_t begin, uint64_t end, char* to) const {
  for (size_t i = 0; i < num_arrays_; ++i) {
    const Array& array = arrays_[i];
    const uint64_t first = std::max(begin, array.offset);
    const uint64_t last = std::min(end, array.offset + array.rows * array.row_bytes);
    for (uint64_t at = first; at < last;) {
      const uint64_t row = (at - array.offset) / array.row_bytes,
                     inside = (at - array.offset) % array.row_bytes;
      const uint64_t bytes = std::min(last - at, array.row_bytes - inside);
      std::memcpy(to + (at - begin), array.data + row * array.stride + inside, bytes);
      at += bytes;
    }
  }
}

kvc_status Call::send(char* to, uint64_t bytes) {
  if (capture_ == 0 && bytes > kMaxPackets * kPacketBytes) {
    Staging::Piece piece;
    KVC_TRY(memory_.staging.take(bytes, &piece));
    pack(0, bytes, piece.data);
    const runtime::Error error = runtime::copy(to, piece.data, bytes, stream());
    memory_.staging.give(piece, stream());
    return check(error, "a copy to the device");
  }
  for (uint64_t at = 0; at < bytes; at += kPacketBytes) {
    Packet packet;
    const auto part = static_cast<uint32_t>(std::min<uint64_t>(kPacketBytes, bytes - at));
    pack(at, at + part, reinterpret_cast<char*>(packet.bytes));
    KVC_TRY(check(gpu::upload(packet, to + at, part, stream()), "a launch"));
  }
  return KVC_OK;
}

kvc_status Call::upload(uint64_t workspace) {
  const uint64_t before = workspace == 0 ? 0 : round_up(workspace, kWorkspaceAlignment);
  if (before + array_bytes_ == 0) return KVC_OK;
  KVC_TRY(memory_.workspace.take(*stream_, capture_, before + array_bytes_, &block_));
  KVC_TRY(send(block_.data + before, array_bytes_));
  for (size_t i = 0; i < num_arrays_; ++i) {
    const char* const on_device = block_.data + before + arrays_[i].offset;
    std::memcpy(arrays_[i].place, &on_device, sizeof on_device);
  }
  return KVC_OK;
}

kvc_status Call::end(runtime::Error error, const char* doing) {
  KVC_TRY(check(error, doing));
  return own_ ? stream_->synchronize() : kvc_status{KVC_OK};
}

}  // namespace kvc::gpu
