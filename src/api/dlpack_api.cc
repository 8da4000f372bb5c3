// SPDX-License-Identifier: Apache-2.0
// Planes as DLPack tensors, each of which keeps its storage's memory.
#include <kvcache/device.h>

#include <new>

#include "api/dlpack.h"
#include "api/storage_handle.h"

using namespace kvc;

namespace {

struct Export {
  DlManagedTensor managed;  // first: consumers see this alone
  kvc_view view;            // holds its shape
  int64_t strides[4];
};

uint8_t type_code(int32_t dtype) {
  switch (dtype) {
    case KVC_INT8:
      return kDlInt;
    case KVC_UINT8:
      return kDlUint;
    case KVC_BFLOAT16:
      return kDlBfloat;
    case KVC_FLOAT8_E4M3:
      return kDlFloat8E4m3fn;
    case KVC_FLOAT8_E5M2:
      return kDlFloat8E5m2;
    default:
      return kDlFloat;
  }
}

// Memory on a device, or host memory, which for a device with memory of its own is pinned.
kvc_status find_dl_device(const kvc_storage& s, int32_t* type, int32_t* id) {
  kvc_backend_device device = {};
  KVC_TRY(s.backend->properties(s.device, &device));
  const bool pinned = s.info.memory_kind == KVC_MEMORY_PINNED;
  *type = device.dlpack_device + (pinned ? kDlPinned : 0);
  *id = pinned || device.dlpack_device == kDlCpu ? 0 : static_cast<int32_t>(s.device);
  return KVC_OK;
}

void end_export(DlManagedTensor* self) {
  release_storage(static_cast<kvc_storage*>(self->context));
  delete reinterpret_cast<Export*>(self);
}

}  // namespace

extern "C" kvc_status kvc_storage_export_dlpack(kvc_storage* s, int32_t plane, uint32_t layer,
                                                void** tensor) {
  kvc_view view;
  KVC_TRY(kvc_storage_view(s, plane, layer, &view));
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(tensor);
    int32_t device_type, device_id;
    KVC_TRY(find_dl_device(*s, &device_type, &device_id));
    auto* made = new (std::nothrow) Export{};
    if (made == nullptr) return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes", sizeof(Export));
    const uint32_t bits = dtype_bits(view.dtype);  // rows and blocks begin at whole elements
    made->view = view;
    for (int i = 0; i < view.ndim; ++i) made->strides[i] = view.strides[i] / (bits / 8);
    made->managed = {{view.data, device_type, device_id, view.ndim, type_code(view.dtype),
                      static_cast<uint8_t>(bits), 1, made->view.shape, made->strides, 0},
                     s,
                     end_export};
    s->num_users.fetch_add(1, std::memory_order_relaxed);
    *tensor = &made->managed;
    return KVC_OK;
  });
}
