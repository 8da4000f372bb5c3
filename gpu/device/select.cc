// SPDX-License-Identifier: Apache-2.0
// Choosing blocks of a storage for attention.
#include "kernels/select.h"

#include "device/attention_args.h"
#include "device/device_storage.h"

namespace kvc::gpu {
namespace {

// Of the call's arrays those that are looked at.
kvc_attention arrays_read(const kvc_attention& attention) {
  kvc_attention read = attention;
  read.out = nullptr;
  read.lse = nullptr;
  read.alibi_slopes = read.sink_logits = nullptr;
  read.mask = read.block_mask = nullptr;
  read.mask_offsets = read.mask_starts = nullptr;
  return read;
}

}  // namespace

uint64_t DeviceStorage::selection_bytes(const kvc_attention& attention) const {
  const kvc_attention read = arrays_read(attention);
  const AttentionLimits limits = limits_of(device_, read);
  SelectionArgs args = {};
  args.attention = args_of(layout_, static_cast<const char*>(address_), read);
  const uint64_t workspace = selection_workspace_bytes(args, limits);
  HostArrays arrays;
  list_host_arrays(layout_, read, limits, &arrays, &args.attention);
  return Call::needed(workspace, arrays);
}

kvc_status DeviceStorage::select_blocks(const kvc_attention& attention, const kvc_block_choice& choice,
                                        DeviceStream* stream) {
  const kvc_attention read = arrays_read(attention);
  const AttentionLimits limits = limits_of(device_, read);
  SelectionArgs args = {args_of(layout_, static_cast<const char*>(address_), read),
                        choice.bounds,
                        choice.top_k,
                        choice.sink_blocks,
                        choice.recent_blocks,
                        choice.block_mask,
                        choice.block_mask_stride};
  KVC_TRY(check_workspace(read, selection_bytes(attention), "selection_bytes"));
  char* given = static_cast<char*>(read.workspace);
  Call call(device_, memory_, stream);
  KVC_TRY(call.begin());
  KVC_TRY(call.address(args.bounds, "kvc_block_choice.bounds"));
  KVC_TRY(call.address(args.block_mask, "kvc_block_choice.block_mask"));
  KVC_TRY(call.address(given, "kvc_attention.workspace"));
  KVC_TRY(find_arrays(read, call, &args.attention));
  list_host_arrays(layout_, read, limits, &call.arrays(), &args.attention);
  KVC_TRY(call.upload(selection_workspace_bytes(args, limits), given));
  return call.end(launch_selection(args, limits, call.workspace(), call.stream()), "choosing blocks");
}

}  // namespace kvc::gpu
