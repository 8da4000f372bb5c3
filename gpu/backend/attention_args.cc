// SPDX-License-Identifier: Apache-2.0
#include "backend/attention_args.h"

#include <kvcache/attention.h>

#include "backend/devices.h"

namespace kvc::gpu {

AttentionArgs args_of(const Layout& layout, const void* slab, const kvc_backend_attention& attention) {
  AttentionArgs args = {};
  static_cast<kvc_backend_attention&>(args) = attention;
  describe_storage(layout, static_cast<const char*>(slab), attention.layer, &args);
  return args;
}

AttentionLimits limits_of(uint32_t device, const kvc_backend_attention& a) {
  const runtime::Properties& properties = devices().properties[device];
  return {{a.total_queries, a.max_queries, a.max_kv_len},
          properties.num_processors,
          properties.shared_bytes,
          properties.has_mma ? 1u : 0u,
          a.invariant};
}

kvc_status find_arrays(const Layout& layout, Call& call, kvc_backend_attention* args) {
  KVC_TRY(call.address(args->q, "kvc_attention.q"));
  KVC_TRY(call.address(args->out, "kvc_attention.out"));
  KVC_TRY(call.address(args->lse, "kvc_attention.lse"));
  KVC_TRY(call.address(args->mask, "kvc_attention.mask"));
  KVC_TRY(call.address(args->block_mask, "kvc_attention.block_mask"));
  if (args->on_device == 0) {
    list_host_arrays(layout, &call.arrays(), args);
    return KVC_OK;
  }
  KVC_TRY(call.address(args->q_offsets, "kvc_attention.q_offsets"));
  KVC_TRY(call.address(args->q_starts, "kvc_attention.q_starts"));
  KVC_TRY(call.address(args->kv_lens, "kvc_attention.kv_lens"));
  KVC_TRY(call.address(args->block_tables, "kvc_attention.block_tables"));
  KVC_TRY(call.address(args->alibi_slopes, "kvc_attention.alibi_slopes"));
  KVC_TRY(call.address(args->sink_logits, "kvc_attention.sink_logits"));
  KVC_TRY(call.address(args->mask_offsets, "kvc_attention.mask_offsets"));
  return call.address(args->mask_starts, "kvc_attention.mask_starts");
}

void list_host_arrays(const Layout& layout, HostArrays* arrays, kvc_backend_attention* args) {
  if (args->on_device == 0) arrays->add_all(*args, layout.block_size);
}

kvc_status check_workspace(const kvc_backend_attention& a, uint64_t needed, const char* needed_by) {
  using ull = unsigned long long;
  if (a.workspace == nullptr) {
    if (a.workspace_bytes == 0) return KVC_OK;
    return refuse(KVC_ERROR_INVALID_ARGUMENT,
                  "kvc_attention_launch.workspace_bytes is %llu and workspace is NULL; give both or neither",
                  ull{a.workspace_bytes});
  }
  if (reinterpret_cast<uintptr_t>(a.workspace) % kWorkspaceAlignment != 0) {
    return refuse(KVC_ERROR_INVALID_ARGUMENT, "kvc_attention_launch.workspace is %p; a multiple of %llu",
                  a.workspace, ull{kWorkspaceAlignment});
  }
  if (a.workspace_bytes >= needed) return KVC_OK;
  return refuse(KVC_ERROR_INVALID_ARGUMENT,
                "kvc_attention_launch.workspace_bytes is %llu; this call needs %llu: kvc_attention_info.%s",
                ull{a.workspace_bytes}, ull{needed}, needed_by);
}

}  // namespace kvc::gpu
