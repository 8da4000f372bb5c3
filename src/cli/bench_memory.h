// SPDX-License-Identifier: Apache-2.0
// Memory and a stream of a device for `kvcache bench`. The CPU is the device NULL and has no stream.
#pragma once
#include <algorithm>
#include <cstddef>
#include <kvcache/device.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "cli/library.h"

namespace kvcli {

using Stream = kvc::Owner<kvc_stream, kvc_stream_destroy>;

inline Stream create_stream(const char* device) {
  return Stream(device == nullptr ? nullptr : ask<kvc_stream*>(kvc_stream_create, device));
}

/// Memory that the host writes and the device reads.
inline uint32_t shared_kind(const char* device) {
  return device == nullptr ? KVC_MEMORY_HOST : KVC_MEMORY_PINNED;
}
/// The fastest memory of the device.
inline uint32_t own_kind(const char* device) {
  return device == nullptr ? KVC_MEMORY_HOST : KVC_MEMORY_DEVICE;
}

using BenchMemory = kvc::Memory;

/// In pieces, since an upload is staged in pinned memory until it has arrived.
inline void upload(kvc_stream* stream, const char* from, char* to, size_t bytes) {
  constexpr size_t kPiece = size_t{1} << 20;
  for (size_t at = 0; at < bytes; at += kPiece) {
    const kvc_upload piece = {from + at, to + at, std::min(kPiece, bytes - at)};
    auto update = make<kvc_table_update>();
    update.uploads = &piece;
    update.num_uploads = 1;
    check(kvc_stream_update_tables(stream, &update));
    check(kvc_stream_synchronize(stream));
  }
}

/// By kvc_storage_swap_out, or kvc_storage_swap_in.
inline void swap_blocks(kvc_storage* storage, const std::vector<kvc_block_copy>& copies, bool out,
                        void* pages, size_t bytes, kvc_stream* stream) {
  check(out ? kvc_storage_swap_out(storage, copies.data(), copies.size(), pages, bytes, 0, stream)
            : kvc_storage_swap_in(storage, copies.data(), copies.size(), pages, bytes, 0, stream));
}

}  // namespace kvcli
