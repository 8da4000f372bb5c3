// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_DEVICE_HPP
#define KVCACHE_DEVICE_HPP

/// @file kvcache/device.hpp
/// Owners of device memory, registrations, events and streams. See kvcache/device.h.

#include <kvcache/device.h>

#include <kvcache/types.hpp>

namespace kvc {
inline namespace cpp {

/// Memory of a device for rows, queries, results and pages. Frees itself. Empty by default and after a move.
class Memory {
 public:
  Memory() = default;  ///< Empty.
  /// By kvc_device_allocate; `kind` is KVC_MEMORY_*.
  Memory(const char* device, uint32_t kind, uint64_t bytes)
      : Memory(ask<void*>(kvc_device_allocate, device, kind, bytes), bytes) {}
  /// Takes ownership of memory from kvc_device_reserve_addresses or kvc_device_import_memory.
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

/// Registers host memory of the caller with a device for the lifetime of this object. Empty by default and
/// after a move.
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

/// A point in a stream that the host or other streams wait for; move-only. Any thread may call any function.
class Event {
 public:
  /// Creates an event that is not recorded.
  explicit Event(const char* device) : e_(ask<kvc_stream_event*>(kvc_stream_event_create, device)) {}
  kvc_stream_event* get() const noexcept { return e_.get(); }  ///< For C functions.
  /// As kvc_stream_event_query, and so on.
  ///@{
  bool done() const { return ask<int32_t>(kvc_stream_event_query, get()) != 0; }
  void synchronize() const { check(kvc_stream_event_synchronize(get())); }
  ///@}

 private:
  Owner<kvc_stream_event, kvc_stream_event_destroy> e_;
};

/// A queue of work on a device; move-only. A default Stream, or one that was moved from, is no stream: calls
/// with it are done on return. Any thread may call any function.
class Stream {
 public:
  Stream() = default;  ///< No stream.
  /// Creates a stream.
  explicit Stream(const char* device) : s_(ask<kvc_stream*>(kvc_stream_create, device)) {}
  /// Wraps a stream of the device's runtime. The caller keeps it.
  static Stream adopt(const char* device, void* handle, uint32_t flags = 0) {
    Stream adopted;
    adopted.s_.reset(ask<kvc_stream*>(kvc_stream_adopt, device, handle, flags));
    return adopted;
  }
  kvc_stream* get() const noexcept { return s_.get(); }  ///< For C functions.
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
  Owner<kvc_stream, kvc_stream_destroy> s_;
};

}  // namespace cpp
}  // namespace kvc

#endif  // KVCACHE_DEVICE_HPP
