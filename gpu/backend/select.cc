// SPDX-License-Identifier: Apache-2.0
// Chooses blocks of a storage for attention.
#include "kernels/select.h"

#include <kvcache/attention.h>

#include "backend/attention_args.h"
#include "backend/device_storage.h"

namespace kvc::gpu {
namespace {

// A call before anything of it is enqueued, without the kvc_backend_selection.
struct Work {
  AttentionLimits limits;
  SelectionArgs args;     // with the caller's addresses
  uint64_t kernel_bytes;  // of workspace that kernels use
  uint64_t bytes;         // with the copies of host arrays
};

Work prepare(const Layout& layout, const void* slab, uint32_t device,
             const kvc_backend_attention& attention) {
  Work work = {};
  work.limits = limits_of(device, attention);
  work.args.attention = args_of(layout, slab, attention);
  work.kernel_bytes = selection_workspace_bytes(work.args, work.limits);
  kvc_backend_attention listed = attention;
  HostArrays arrays;
  list_host_arrays(layout, &arrays, &listed);
  work.bytes = Call::needed(work.kernel_bytes, arrays);
  return work;
}

}  // namespace

uint64_t DeviceStorage::selection_bytes(const kvc_backend_attention& attention) const {
  return prepare(layout_, address_, device_, selection_part(attention)).bytes;
}

kvc_status DeviceStorage::select_blocks(const kvc_backend_attention& attention,
                                        const kvc_backend_selection& selection, DeviceStream* stream) {
  const Work work = prepare(layout_, address_, device_, attention);
  KVC_TRY(check_workspace(attention, work.bytes, "selection_bytes"));
  SelectionArgs args = {selection, work.args.attention};
  char* given = static_cast<char*>(attention.workspace);
  Call call(device_, memory_, stream);
  KVC_TRY(call.begin());
  KVC_TRY(call.address(args.bounds, "kvc_block_choice.bounds"));
  KVC_TRY(call.address(args.block_mask, "kvc_block_choice.block_mask"));
  KVC_TRY(call.address(given, "kvc_attention_launch.workspace"));
  KVC_TRY(find_arrays(layout_, call, &args.attention));
  KVC_TRY(call.upload(work.kernel_bytes, given));
  return call.end(launch_selection(args, work.limits, call.workspace(), call.stream()), "choosing blocks");
}

}  // namespace kvc::gpu
