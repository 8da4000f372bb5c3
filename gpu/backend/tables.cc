// SPDX-License-Identifier: Apache-2.0
#include "backend/tables.h"

#include <kvcache/device.h>

#include "backend/call.h"
#include "backend/devices.h"
#include "kernels/kernels.h"

namespace kvc::gpu {
namespace {

// Of all updates on a device; it lives as long as the process.
CallMemory& memory_of(uint32_t device) {
  static std::mutex mutex;
  static CallMemory* all[Devices::kMost] = {};
  const std::lock_guard lock(mutex);
  if (all[device] == nullptr) all[device] = new CallMemory(device);
  return *all[device];
}

kvc_status enqueue(Call& call, const kvc_backend_table_update& u) {
  const kvc_table_change* changes = u.changes;
  const char* sent[KVC_BACKEND_MAX_UPLOADS];
  for (size_t i = 0; i < u.num_uploads; ++i) {
    sent[i] = static_cast<const char*>(u.uploads[i].from);
    call.arrays().add(sent[i], u.uploads[i].bytes);
  }
  call.arrays().add(changes, u.num_changes);
  KVC_TRY(call.upload());
  runtime::Error error = 0;
  for (size_t i = 0; i < u.num_uploads && error == 0; ++i) {
    if (u.uploads[i].bytes != 0)
      error = runtime::copy(u.uploads[i].to, sent[i], u.uploads[i].bytes, call.stream());
  }
  if (error == 0 && u.num_changes != 0)
    error =
        apply_table_changes(u.tables, u.group_stride, u.row_stride, changes, u.num_changes, call.stream());
  if (error == 0 && u.num_slots != 0) {
    error = build_slots(u.tables, u.row_stride, u.positions_of, u.positions, u.num_slots, u.block_size,
                        u.slots, call.stream());
  }
  if (error == 0 && u.num_rows != 0) {
    error = build_csr(u.tables, u.row_stride, u.lengths, u.num_rows, u.block_size, u.csr_offsets,
                      u.csr_blocks, u.csr_last_tokens, call.stream());
  }
  return call.end(error, "updating tables");
}

}  // namespace

kvc_status update_tables(DeviceStream& stream, const kvc_backend_table_update& update) {
  kvc_backend_table_update u = update;
  kvc_upload uploads[KVC_BACKEND_MAX_UPLOADS];
  Call call(stream.device(), memory_of(stream.device()), &stream);
  KVC_TRY(call.begin());
  for (size_t i = 0; i < u.num_uploads; ++i) {
    uploads[i] = u.uploads[i];
    if (uploads[i].bytes != 0) KVC_TRY(call.address(uploads[i].to, "kvc_upload.to"));
  }
  u.uploads = uploads;
  KVC_TRY(call.address(u.tables, "kvc_table_update.tables"));
  KVC_TRY(call.address(u.positions_of, "kvc_table_update.positions_of"));
  KVC_TRY(call.address(u.positions, "kvc_table_update.positions"));
  KVC_TRY(call.address(u.slots, "kvc_table_update.slots"));
  KVC_TRY(call.address(u.lengths, "kvc_table_update.lengths"));
  KVC_TRY(call.address(u.csr_offsets, "kvc_table_update.csr_offsets"));
  KVC_TRY(call.address(u.csr_blocks, "kvc_table_update.csr_blocks"));
  KVC_TRY(call.address(u.csr_last_tokens, "kvc_table_update.csr_last_tokens"));
  return enqueue(call, u);
}

}  // namespace kvc::gpu
