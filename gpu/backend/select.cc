// SPDX-License-Identifier: Apache-2.0
// Choosing blocks of a storage for attention.
#include "kernels/select.h"

#include "backend/attention_args.h"
#include "backend/device_storage.h"

namespace kvc::gpu {
namespace {

// Of the call's arrays those that are looked at.
kvc_attention arrays_read(const kvc_backend_attention& attention) {
  kvc_attention read = attention;
  read.out = nullptr;
  read.lse = nullptr;
  read.alibi_slopes = read.sink_logits = nullptr;
  read.mask = read.block_mask = nullptr;
  read.mask_offsets = read.mask_starts = nullptr;
  return read;
}

// A choice before anything of it is enqueued, without the caller's kvc_block_choice.
struct Work {
  AttentionLimits limits;
  SelectionArgs args;     // with the caller's addresses
  uint64_t kernel_bytes;  // of workspace that kernels use
  uint64_t bytes;         // with the copies of host arrays
};

Work plan_work(const Layout& layout, const void* slab, uint32_t device, const kvc_attention& read) {
  Work work = {};
  work.limits = limits_of(device, read);
  work.args.attention = args_of(layout, static_cast<const char*>(slab), read);
  work.kernel_bytes = selection_workspace_bytes(work.args, work.limits);
  AttentionArgs listed = work.args.attention;
  HostArrays arrays;
  list_host_arrays(layout, read, work.limits, &arrays, &listed);
  work.bytes = Call::needed(work.kernel_bytes, arrays);
  return work;
}

}  // namespace

uint64_t DeviceStorage::selection_bytes(const kvc_backend_attention& attention) const {
  return plan_work(layout_, address_, device_, arrays_read(attention)).bytes;
}

kvc_status DeviceStorage::select_blocks(const kvc_backend_attention& attention,
                                        const kvc_block_choice& choice, DeviceStream* stream) {
  const kvc_attention read = arrays_read(attention);
  const Work work = plan_work(layout_, address_, device_, read);
  KVC_TRY(check_workspace(read, work.bytes, "selection_bytes"));
  SelectionArgs args = {work.args.attention,     choice.bounds,        choice.top_k,
                        choice.sink_blocks,      choice.recent_blocks, choice.block_mask,
                        choice.block_mask_stride};
  char* given = static_cast<char*>(read.workspace);
  Call call(device_, memory_, stream);
  KVC_TRY(call.begin());
  KVC_TRY(call.address(args.bounds, "kvc_block_choice.bounds"));
  KVC_TRY(call.address(args.block_mask, "kvc_block_choice.block_mask"));
  KVC_TRY(call.address(given, "kvc_attention_launch.workspace"));
  KVC_TRY(find_arrays(read, call, &args.attention));
  list_host_arrays(layout_, read, work.limits, &call.arrays(), &args.attention);
  KVC_TRY(call.upload(work.kernel_bytes, given));
  return call.end(launch_selection(args, work.limits, call.workspace(), call.stream()), "choosing blocks");
}

}  // namespace kvc::gpu
