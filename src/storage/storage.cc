// SPDX-License-Identifier: Apache-2.0
#include "storage/storage.h"

#include <algorithm>
#include <new>

#include "base/copy.h"
#include "layout/parts.h"
#include "storage/host_memory.h"
#include "storage/rows.h"

namespace kvc {
namespace {

constexpr size_t kTokensPerPiece = 64;      // of one thread's share of a store or gather
constexpr size_t kBytesPerPiece = 1 << 18;  // of a copy

// Slots of tokens [begin, end).
const int64_t* slots_of(const kvc_backend_rows& rows, uint32_t block_size, size_t begin, size_t end,
                        int64_t* buffer) {
  if (rows.slots != nullptr) return rows.slots + begin;
  for (size_t t = begin; t < end; ++t) {
    buffer[t - begin] = slot_of(rows, block_size, t);
  }
  return buffer;
}

// Of keys or values in layer `layer` of the call, from token `begin` on.
RowArray array_of(const kvc_backend_rows& rows, bool keys, uint32_t layer, size_t begin) {
  RowArray array{static_cast<char*>(keys ? rows.k : rows.v), rows.dtype,
                 keys ? rows.k_token_stride : rows.v_token_stride,
                 keys ? rows.k_head_stride : rows.v_head_stride,
                 keys ? Rotary{rows.rotary}.from(begin) : Rotary{}};
  const int64_t first =
      layer * (keys ? rows.k_layer_stride : rows.v_layer_stride) + static_cast<int64_t>(begin) * array.token;
  array.data += first * static_cast<int64_t>(dtype_bits(rows.dtype) / 8);
  return array;
}

}  // namespace

Storage* Storage::create(const Layout& layout, const Env& env, const kvc_backend_memory& slab, bool zeroed,
                         size_t num_threads, const ExternalThreads& parallel, uint32_t residual_blocks) {
  auto* storage = new (std::nothrow) Storage(layout, env, slab);
  if (storage == nullptr) return nullptr;
  if (!storage->workers_.start(num_threads, parallel)) {
    delete storage;
    return nullptr;
  }
  const bool empty = slab.kind != KVC_MEMORY_EXTERNAL;
  if (layout.channel_tokens != 0 &&
      !storage->residual_keys_.emplace().create(storage->layout_, storage->slab(), storage->memory_,
                                                residual_blocks, num_threads, empty)) {
    delete storage;
    return nullptr;
  }
  if (zeroed) {  // by all threads: the pages are touched here
    const size_t pieces = ceil_div(layout.slab_bytes, kBytesPerPiece);
    storage->workers_.for_each(pieces, [&](size_t i, size_t) {
      const size_t begin = i * kBytesPerPiece;
      std::memset(storage->slab() + begin, 0, std::min<size_t>(kBytesPerPiece, layout.slab_bytes - begin));
    });
  }
  return storage;
}

void Storage::destroy(Storage* storage) {
  release_memory(storage->slab_);
  delete storage;
}

void Storage::add_pending() {
  const std::lock_guard lock(pending_mutex_);
  ++num_pending_;
}

void Storage::wait() {
  std::unique_lock lock(pending_mutex_);
  none_pending_.wait(lock, [&] { return num_pending_ == 0; });
}

void Storage::drop_pending() {
  const std::lock_guard lock(pending_mutex_);  // held while notifying: afterwards the storage may be gone
  if (--num_pending_ == 0) none_pending_.notify_all();
}

void Storage::store(const kvc_backend_rows& rows) {
  if (rows.num_tokens == 0) return;  // the arrays may be NULL then
  if (!residual_keys_) return move(rows, true, true, rows.v != nullptr);
  const auto lock = lock_if_residual<std::unique_lock>();
  for (uint32_t l = 0; l < rows.num_layers; ++l)
    residual_keys_->store(rows.first_layer + l, array_of(rows, true, l, 0), rows, workers_);
  move(rows, true, false, true);
}

void Storage::gather(const kvc_backend_rows& rows) {
  const auto lock = read_lock();
  move(rows, false, true, rows.v != nullptr);
}

void Storage::measure(const kvc_backend_rows& rows, bool keys, QuantMeter* meter) {
  const auto lock = read_lock();
  int64_t buffer[kTokensPerPiece];
  for (uint32_t l = 0; l < rows.num_layers; ++l) {
    for (size_t begin = 0; begin < rows.num_tokens; begin += kTokensPerPiece) {
      const size_t end = std::min(begin + kTokensPerPiece, rows.num_tokens);
      measure_rows(stored(), keys, rows.first_layer + l, array_of(rows, keys, l, begin),
                   slots_of(rows, layout_.block_size, begin, end, buffer), end - begin, meter);
    }
  }
}

void Storage::move(const kvc_backend_rows& rows, bool store, bool keys_too, bool values_too) {
  const size_t pieces = ceil_div(rows.num_tokens, kTokensPerPiece);
  const size_t kinds = size_t{keys_too} + size_t{values_too};
  const uint64_t bytes = rows.num_tokens * rows.num_layers * uint64_t{layout_.num_heads} *
                         (uint64_t{layout_.k.row_bytes} + layout_.v.row_bytes);
  const bool stream = bytes >= kStreamBytes;
  workers_.for_each(rows.num_layers * kinds * pieces, [&](size_t i, size_t) {
    const size_t piece = i % pieces;
    const bool keys = keys_too && i / pieces % kinds == 0;
    const auto layer = static_cast<uint32_t>(i / pieces / kinds);
    const size_t begin = piece * kTokensPerPiece;
    const size_t end = std::min(begin + kTokensPerPiece, rows.num_tokens);
    int64_t buffer[kTokensPerPiece];
    const int64_t* slots = slots_of(rows, layout_.block_size, begin, end, buffer);
    const RowArray array = array_of(rows, keys, layer, begin);
    if (store) {
      store_rows(layout_, slab(), keys, rows.first_layer + layer, array, slots, end - begin, stream);
    } else {
      gather_rows(stored(), keys, rows.first_layer + layer, array, slots, end - begin, stream);
    }
  });
}

template <typename Function>
void Storage::for_each_part(uint64_t block, Function&& function) {
  const BlockParts parts = block_parts(layout_);
  for (uint64_t i = 0; i < parts.count; ++i) function(block * parts.block + i * parts.part, parts.bytes);
}

void Storage::copy_blocks(const kvc_block_copy* copies, size_t count) {
  const auto lock = lock_if_residual<std::unique_lock>();
  const bool stream = count * layout_.block_bytes >= kStreamBytes;
  for (size_t i = 0; i < count; ++i) {
    const auto source = static_cast<uint64_t>(copies[i].source);
    const auto destination = static_cast<uint64_t>(copies[i].destination);
    if (source == destination) continue;
    if (residual_keys_) residual_keys_->copy(source, destination);
    const uint64_t from = layout_.k.offset(0, source, 0, 0), to = layout_.k.offset(0, destination, 0, 0);
    for_each_part(source, [&](uint64_t at, uint64_t bytes) {
      copy_bytes(slab() + at - from + to, slab() + at, bytes, stream);
    });
  }
  stream_fence(stream);
}

void Storage::swap_blocks(const kvc_backend_swap& swap) {
  const auto lock = lock_if_residual<std::unique_lock>();
  for (size_t i = 0; residual_keys_ && i < swap.num_copies; ++i) {
    if (swap.out != 0)
      residual_keys_->quantize(static_cast<uint64_t>(swap.copies[i].source));
    else
      residual_keys_->replace(static_cast<uint64_t>(swap.copies[i].destination));
  }
  const BlockParts parts = block_parts(layout_);
  const size_t pieces = ceil_div(layout_.block_bytes, kBytesPerPiece);
  const bool stream = swap.num_copies * layout_.block_bytes >= kStreamBytes;
  workers_.for_each(swap.num_copies * pieces, [&](size_t i, size_t) {
    const kvc_block_copy& copy = swap.copies[i / pieces];
    const auto block = static_cast<uint64_t>(swap.out != 0 ? copy.source : copy.destination);
    const auto page = static_cast<uint64_t>(swap.out != 0 ? copy.destination : copy.source);
    const uint64_t begin = i % pieces * kBytesPerPiece;
    const uint64_t end = std::min<uint64_t>(begin + kBytesPerPiece, layout_.block_bytes);
    for (uint64_t at = begin; at < end;) {  // from part to part
      const uint64_t inside = at % parts.bytes, bytes = std::min(end - at, parts.bytes - inside);
      char* const in_slab = slab() + block * parts.block + at / parts.bytes * parts.part + inside;
      char* const in_page = swap.pages + page * swap.page_bytes + at;
      copy_bytes(swap.out != 0 ? in_page : in_slab, swap.out != 0 ? in_slab : in_page, bytes, stream);
      at += bytes;
    }
    stream_fence(stream);
  });
}

void Storage::quantize_blocks(const int32_t* blocks, size_t count) {
  if (!residual_keys_) return;
  const auto lock = lock_if_residual<std::unique_lock>();
  for (size_t i = 0; i < count; ++i) residual_keys_->quantize(static_cast<uint64_t>(blocks[i]));
}

bool Storage::is_residual(uint64_t block) {
  const auto lock = read_lock();
  return residual_keys_ && residual_keys_->is_residual(block);
}

void Storage::zero_blocks(const int32_t* blocks, size_t count) {
  const auto lock = lock_if_residual<std::unique_lock>();
  for (size_t i = 0; i < count; ++i) {
    if (residual_keys_) residual_keys_->clear(static_cast<uint64_t>(blocks[i]));
    for_each_part(static_cast<uint64_t>(blocks[i]),
                  [&](uint64_t at, uint64_t bytes) { std::memset(slab() + at, 0, bytes); });
  }
}

Storage::Scratch::Scratch(Storage& storage, size_t bytes) : storage_(storage) {
  const std::lock_guard lock(storage.scratch_mutex_);
  if (storage.spare_.size() >= bytes) {
    buffer_.swap(storage.spare_);
  } else if (!buffer_.create(storage.memory_, bytes)) {
    return;
  }
}

size_t Storage::trim() {
  const std::lock_guard lock(scratch_mutex_);
  Array<char> gone;
  gone.swap(spare_);
  return gone.size();
}

Storage::Scratch::~Scratch() {
  const std::lock_guard lock(storage_.scratch_mutex_);
  if (buffer_.size() > storage_.spare_.size()) buffer_.swap(storage_.spare_);
  Array<char> gone;  // the smaller one is released under the lock
  gone.swap(buffer_);
}

}  // namespace kvc
