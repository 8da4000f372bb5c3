// SPDX-License-Identifier: Apache-2.0
#include "backend/staging.h"

#include <bit>

namespace kvc::gpu {

Staging::~Staging() {
  const OnDevice on(device_);
  for (const Piece& piece : idle_) {
    static_cast<void>(runtime::destroy_event(piece.copied));
    static_cast<void>(runtime::release_pinned(piece.data));
  }
}

kvc_status Staging::take(uint64_t bytes, Piece* piece) {
  bytes = std::bit_ceil(bytes);
  const std::lock_guard lock(mutex_);
  for (Piece& idle : idle_) {
    bool done = false;
    if (idle.bytes < bytes || runtime::query(idle.copied, &done) != 0 || !done) continue;
    *piece = idle;
    idle = idle_.back();
    idle_.pop_back();
    return KVC_OK;
  }
  idle_.reserve(num_pieces_ + 1);
  void* memory = nullptr;
  runtime::Event event;
  KVC_TRY(check(runtime::create_event(&event), "making an event"));
  if (const runtime::Error error = runtime::allocate_pinned(bytes, &memory); error != 0) {
    static_cast<void>(runtime::destroy_event(event));
    return report(error, "an allocation of pinned memory");
  }
  *piece = {static_cast<char*>(memory), bytes, event};
  ++num_pieces_;
  return KVC_OK;
}

void Staging::give(const Piece& piece, runtime::Stream stream) {
  static_cast<void>(runtime::record(piece.copied, stream));
  const std::lock_guard lock(mutex_);
  idle_.push_back(piece);
}

uint64_t Staging::trim() {
  uint64_t bytes = 0;
  const std::lock_guard lock(mutex_);
  num_pieces_ -= std::erase_if(idle_, [&](const Piece& piece) {
    bool done = false;
    if (runtime::query(piece.copied, &done) != 0 || !done) return false;
    static_cast<void>(runtime::destroy_event(piece.copied));
    static_cast<void>(runtime::release_pinned(piece.data));
    bytes += piece.bytes;
    return true;
  });
  return bytes;
}

}  // namespace kvc::gpu
