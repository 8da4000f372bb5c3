// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_STORAGE_HPP
#define KVCACHE_STORAGE_HPP

/// @file kvcache/storage.hpp
/// Storages and their attention. Parameters are the structs of kvcache/storage.h and kvcache/attention.h.
///
///     kvc::Storage storage(config);              // as many blocks as the manager has
///     kvc::Stream stream("cuda:0");
///     storage.copy(m.take_pending(room).copies, stream);
///     storage.store(rows, stream);               // enqueues; store(rows) is done on return
///     storage.attend(attention, stream);
///     stream.synchronize();
///
/// Failures throw kvc::Error. Owners may be destroyed in any order: a storage waits for the work enqueued on
/// it, a stream for the work enqueued in it.

#include <kvcache/attention.h>
#include <kvcache/rebuild.h>
#include <kvcache/resize.h>
#include <kvcache/speculation.h>
#include <kvcache/storage.h>

#include <kvcache/device.hpp>

namespace kvc {
inline namespace cpp {

/// Keys and values of a pool's blocks, and attention over them; move-only. Any thread may call any function.
/// The caller or a stream orders calls that touch the same bytes. Rows, queries and results must stay valid
/// until the stream has done the work.
class Storage {
 public:
  /// Creates a storage. External memory must outlive it.
  explicit Storage(const kvc_storage_config& config) : s_(ask<kvc_storage*>(kvc_storage_create, &config)) {}
  kvc_storage* get() const noexcept { return s_.get(); }  ///< For C functions.

  /// Bytes of one block, and of all.
  struct Size {
    uint64_t block_bytes;  ///< All layers.
    uint64_t slab_bytes;   ///< Of num_blocks.
  };
  /// The memory that a storage needs.
  static Size size(const kvc_storage_config& config) {
    Size size{};
    check(kvc_storage_size(&config, &size.block_bytes, &size.slab_bytes));
    return size;
  }
  /// The bytes of a block, or of a part of it; returns the used part of `room`.
  Span<kvc_run> runs(int32_t block, Span<kvc_run> room, const kvc_selection* part = nullptr) const {
    return {room.data(), ask<size_t>(kvc_storage_runs, get(), block, part, room.data(), room.size())};
  }
  /// As kvc_storage_properties, kvc_storage_view, kvc_storage_store, and so on.
  ///@{
  kvc_storage_info info() const { return ask<kvc_storage_info>(kvc_storage_properties, get()); }
  kvc_view view(int32_t plane, uint32_t layer) const {
    return ask<kvc_view>(kvc_storage_view, get(), plane, layer);
  }
  void store(const kvc_rows& rows, const Stream& s = {}) { check(kvc_storage_store(get(), &rows, s.get())); }
  void gather(const kvc_rows& r, const Stream& s = {}) const {
    check(kvc_storage_gather(get(), &r, s.get()));
  }
  void measure(const kvc_rows& rows, kvc_quant_metrics* keys, kvc_quant_metrics* values) const {
    check(kvc_storage_measure(get(), &rows, keys, values));
  }
  void copy(Copies c, const Stream& s = {}) {
    check(kvc_storage_copy_blocks(get(), c.data(), c.size(), s.get()));
  }
  void copy_tokens(const Storage& from, Span<const kvc_token_copy> c) {
    check(kvc_storage_copy_tokens(from.get(), get(), c.data(), c.size()));
  }
  void move_tokens(Span<const kvc_token_copy> m) {
    check(kvc_storage_move_tokens(get(), m.data(), m.size()));
  }
  void zero(Blocks b, const Stream& s = {}) {
    check(kvc_storage_zero_blocks(get(), b.data(), b.size(), s.get()));
  }
  void quantize(Blocks b, const Stream& s = {}) {
    check(kvc_storage_quantize_blocks(get(), b.data(), b.size(), s.get()));
  }
  /// Returns the memory that was freed, of the device and of the host.
  uint64_t trim() {
    uint64_t device_bytes = 0, host_bytes = 0;
    check(kvc_storage_trim(get(), &device_bytes, &host_bytes));
    return device_bytes + host_bytes;
  }
  /// Gives the memory of unused blocks back (kvc_storage_discard_blocks). Returns its bytes.
  uint64_t discard_blocks(uint64_t first_block, uint64_t num_blocks) {
    return ask<uint64_t>(kvc_storage_discard_blocks, get(), first_block, num_blocks);
  }
  void swap_out(Copies c, Span<uint8_t> pages, uint64_t page_bytes = 0, const Stream& s = {}) {
    check(kvc_storage_swap_out(get(), c.data(), c.size(), pages.data(), pages.size(), page_bytes, s.get()));
  }
  void swap_in(Copies c, Span<const uint8_t> pages, uint64_t page_bytes = 0, const Stream& s = {}) {
    check(kvc_storage_swap_in(get(), c.data(), c.size(), pages.data(), pages.size(), page_bytes, s.get()));
  }
  void attend(const kvc_attention& a, const Stream& s = {}) const {
    check(kvc_storage_attend(get(), &a, s.get()));
  }
  kvc_attention_info explain(const kvc_attention& a) const {
    return ask<kvc_attention_info>(kvc_storage_explain, get(), &a);
  }
  void key_bounds(uint32_t layer, Blocks b, uint16_t* bounds, const Stream& s = {}) const {
    check(kvc_storage_key_bounds(get(), layer, b.data(), b.size(), bounds, s.get()));
  }
  void select_blocks(const kvc_attention& a, const kvc_block_choice& c, const Stream& s = {}) const {
    check(kvc_storage_select_blocks(get(), &a, &c, s.get()));
  }
  void set_attention(kvc_attention_kernel kernel, void* user_data = nullptr) {
    check(kvc_storage_set_attention(get(), kernel, user_data));
  }
  ///@}

 private:
  Owner<kvc_storage, kvc_storage_destroy> s_;
};

}  // namespace cpp
}  // namespace kvc

#endif  // KVCACHE_STORAGE_HPP
