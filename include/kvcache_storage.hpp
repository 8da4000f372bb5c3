// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_STORAGE_HPP
#define KVCACHE_STORAGE_HPP

/// @file kvcache_storage.hpp
/// libkvcache for C++17, continued: owners of storages, streams, events, memory of devices and registrations
/// of other memory with them. Parameters are the structs of kvcache.h, which says what they mean.
///
///     kvc::Storage storage(config);              // as many blocks as the manager has
///     kvc::Stream stream("cuda:0");
///     storage.copy(m.take_copies(room), stream);
///     storage.store(rows, stream);               // enqueues; store(rows) is done on return
///     storage.attend(attention, stream);
///     stream.synchronize();
///
/// Failures throw kvc::Error. The owners may go in any order: a storage waits for what is enqueued on it, a
/// stream for what is enqueued in it.

#include <kvcache.hpp>

namespace kvc {
inline namespace cpp {

using Blocks = Span<const int32_t>;         ///< Block ids.
using Copies = Span<const kvc_block_copy>;  ///< Copies of blocks, in order.

/// Memory of a device, for rows, queries, results and pages, given back at its end. Default-made or moved
/// from it is empty.
class Memory {
 public:
  Memory() = default;  ///< Empty.
  /// By kvc_device_allocate; `kind` is KVC_MEMORY_*.
  Memory(const char* device, uint32_t kind, uint64_t bytes)
      : Memory(ask<void*>(kvc_device_allocate, device, kind, bytes), bytes) {}
  /// Takes over what kvc_device_reserve or kvc_device_import_memory gave.
  Memory(void* data, uint64_t bytes) noexcept : data_(data), size_(bytes) {}
  /// Its first element; null if it is empty.
  template <class T = uint8_t>
  T* data() const noexcept {
    return static_cast<T*>(data_.get());
  }
  size_t size() const noexcept { return data_ ? size_ : 0; }  ///< Bytes.

 private:
  struct Release {
    void operator()(void* memory) const noexcept { kvc_device_release(memory); }
  };
  std::unique_ptr<void, Release> data_;
  size_t size_ = 0;
};

/// Foreign host memory that a device reads and writes itself, until its end; the memory stays the caller's.
/// Default-made or moved from it is empty.
class Registration {
 public:
  Registration() = default;  ///< Empty.
  /// By kvc_device_register.
  Registration(const char* device, void* memory, uint64_t bytes)
      : memory_(nullptr, Unregister{device == nullptr ? "cpu" : device}), size_(bytes) {
    check(kvc_device_register(device, memory, bytes));
    memory_.reset(memory);
  }
  /// Its first element; null if it is empty.
  template <class T = uint8_t>
  T* data() const noexcept {
    return static_cast<T*>(memory_.get());
  }
  size_t size() const noexcept { return memory_ ? size_ : 0; }  ///< Bytes.

 private:
  struct Unregister {
    std::string device;
    void operator()(void* memory) const noexcept { kvc_device_unregister(device.c_str(), memory); }
  };
  std::unique_ptr<void, Unregister> memory_;
  size_t size_ = 0;
};

/// A place in a stream, for which the host or other streams wait; move-only. Any thread may call any
/// function.
class Event {
 public:
  /// Not recorded yet.
  explicit Event(const char* device) : e_(ask<kvc_stream_event*>(kvc_stream_event_create, device)) {}
  kvc_stream_event* get() const noexcept { return e_.get(); }  ///< For calls of kvcache.h.
  /// As kvc_stream_event_query, and so on.
  ///@{
  bool done() const { return ask<int32_t>(kvc_stream_event_query, get()) != 0; }
  void synchronize() const { check(kvc_stream_event_synchronize(get())); }
  ///@}

 private:
  std::unique_ptr<kvc_stream_event, Destroy> e_;
};

/// A queue of a device; move-only. Default-made or moved from it is none: what is given it is done on return.
/// Any thread may call any function.
class Stream {
 public:
  Stream() = default;  ///< None.
  /// A new one.
  explicit Stream(const char* device) : s_(ask<kvc_stream*>(kvc_stream_create, device)) {}
  /// One of the device's runtime, which stays the caller's.
  static Stream adopt(const char* device, void* handle, uint32_t flags = 0) {
    Stream adopted;
    adopted.s_.reset(ask<kvc_stream*>(kvc_stream_adopt, device, handle, flags));
    return adopted;
  }
  kvc_stream* get() const noexcept { return s_.get(); }  ///< For calls of kvcache.h.
  /// As kvc_stream_synchronize, and so on.
  ///@{
  void synchronize() const { check(kvc_stream_synchronize(get())); }
  void record(Event& event) const { check(kvc_stream_event_record(event.get(), get())); }
  void wait(const Event& event) const { check(kvc_stream_wait_event(get(), event.get())); }
  void update_tables(const kvc_table_update& update) const {
    check(kvc_stream_update_tables(get(), &update));
  }
  void* handle() const { return ask<void*>(kvc_stream_handle, get()); }
  ///@}

 private:
  std::unique_ptr<kvc_stream, Destroy> s_;
};

/// Keys and values of a pool's blocks, and attention over them; move-only. Any thread may call any function;
/// calls that touch the same bytes are ordered by the caller or a stream. Rows, queries and results must live
/// until the stream has done the work.
class Storage {
 public:
  /// As configured; where the memory is the caller's, it must outlive this.
  explicit Storage(const kvc_storage_config& config) : s_(ask<kvc_storage*>(kvc_storage_create, &config)) {}
  kvc_storage* get() const noexcept { return s_.get(); }  ///< For calls of kvcache.h.

  /// Bytes of one block, and of all.
  struct Size {
    uint64_t block_bytes;  ///< All layers.
    uint64_t slab_bytes;   ///< Of num_blocks.
  };
  /// What a storage would need.
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
  void zero(Blocks b, const Stream& s = {}) {
    check(kvc_storage_zero_blocks(get(), b.data(), b.size(), s.get()));
  }
  void seal(Blocks b, const Stream& s = {}) {
    check(kvc_storage_seal_blocks(get(), b.data(), b.size(), s.get()));
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
  kvc_attention_plan explain(const kvc_attention& a) const {
    return ask<kvc_attention_plan>(kvc_storage_explain, get(), &a);
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
  std::unique_ptr<kvc_storage, Destroy> s_;
};

}  // namespace cpp
}  // namespace kvc

#endif  // KVCACHE_STORAGE_HPP
