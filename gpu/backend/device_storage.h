// SPDX-License-Identifier: Apache-2.0
// A storage on a device: its slab, and the operations of kvc_backend on it. The library has checked
// arguments; this checks that the device can do the work. Thread-safe as kvc_storage.
#pragma once
#include "backend/call.h"
#include "layout/layout.h"

namespace kvc::gpu {

class DeviceStorage {
 public:
  static kvc_status create(uint32_t device, const kvc_backend_storage& config, DeviceStorage** storage);
  static void destroy(DeviceStorage* storage);  // with nothing enqueued; the slab goes back to its owner

  void wait() { memory_.wait(); }
  kvc_status trim(uint64_t* device_bytes, uint64_t* host_bytes);
  kvc_status move_rows(const kvc_backend_rows& rows, bool store, DeviceStream* stream);
  kvc_status measure(const kvc_backend_rows& rows, kvc_backend_errors* keys, kvc_backend_errors* values);
  kvc_status copy_blocks(const kvc_block_copy* copies, size_t count, DeviceStream* stream);
  kvc_status zero_blocks(const int32_t* blocks, size_t count, DeviceStream* stream);
  kvc_status swap_blocks(const kvc_backend_swap& swap, DeviceStream* stream);
  kvc_status key_bounds(uint32_t layer, const int32_t* blocks, size_t count, uint16_t* bounds,
                        DeviceStream* stream);
  kvc_status attend(const kvc_backend_attention& attention, DeviceStream* stream);
  kvc_status explain(const kvc_backend_attention& attention, kvc_backend_attention_info* info);
  kvc_status select_blocks(const kvc_backend_attention& attention, const kvc_backend_selection& selection,
                           DeviceStream* stream);

 private:
  DeviceStorage(uint32_t device, const Layout& layout, const kvc_backend_memory& slab)
      : device_(device), layout_(layout), slab_(slab), memory_(device) {}
  kvc_status clear();
  // Workspace of select_blocks().
  uint64_t selection_bytes(const kvc_backend_attention& attention) const;
  // Replaces the caller's addresses by the device's.
  kvc_status find_rows(Call& call, kvc_backend_rows* rows) const;

  const uint32_t device_;
  const Layout layout_;
  const kvc_backend_memory slab_;
  void* address_ = nullptr;  // of the slab, on the device
  CallMemory memory_;
};

}  // namespace kvc::gpu
