/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the structs of devices, storages, quantization and attention. See layout.h. */
#include <kvcache/attention.h>
#include <kvcache/device.h>
#include <kvcache/storage.h>
#include <stdio.h>

#include "layout.h"

SIZE(kvc_device_info, 72);
AT(kvc_device_info, struct_size, 0);
AT(kvc_device_info, memory_bytes, 8);
AT(kvc_device_info, memory_kinds, 16);
AT(kvc_device_info, num_processors, 20);
AT(kvc_device_info, free_bytes, 24);
AT(kvc_device_info, name, 32);
AT(kvc_device_info, architecture, 40);
AT(kvc_device_info, dlpack_device, 48);
AT(kvc_device_info, flags, 52);
AT(kvc_device_info, swap_out_kernel_bytes, 56);
AT(kvc_device_info, swap_in_kernel_bytes, 64);

SIZE(kvc_backend_info, 40);
AT(kvc_backend_info, struct_size, 0);
AT(kvc_backend_info, path, 8);
AT(kvc_backend_info, architectures, 16);
AT(kvc_backend_info, remark, 24);
AT(kvc_backend_info, num_devices, 32);
AT(kvc_backend_info, reserved, 36);

SIZE(kvc_memory_handle, 128);
AT(kvc_memory_handle, bytes, 0);
AT(kvc_memory_handle, device, 8);
AT(kvc_memory_handle, data, 24);

SIZE(kvc_storage_config, 136);
AT(kvc_storage_config, struct_size, 0);
AT(kvc_storage_config, num_blocks, 8);
AT(kvc_storage_config, num_layers, 16);
AT(kvc_storage_config, num_heads, 20);
AT(kvc_storage_config, head_dim, 24);
AT(kvc_storage_config, v_head_dim, 28);
AT(kvc_storage_config, block_size, 32);
AT(kvc_storage_config, dtype, 36);
AT(kvc_storage_config, layout, 40);
AT(kvc_storage_config, flags, 44);
AT(kvc_storage_config, scale_group, 48);
AT(kvc_storage_config, alignment, 52);
AT(kvc_storage_config, num_threads, 56);
AT(kvc_storage_config, memory_kind, 60);
AT(kvc_storage_config, memory, 64);
AT(kvc_storage_config, memory_size, 72);
AT(kvc_storage_config, allocator, 80);
AT(kvc_storage_config, device, 88);
AT(kvc_storage_config, parallel_for, 96);
AT(kvc_storage_config, parallel_context, 104);
AT(kvc_storage_config, k_scale, 112);
AT(kvc_storage_config, v_scale, 116);
AT(kvc_storage_config, channel_tokens, 120);
AT(kvc_storage_config, residual_blocks, 124);
AT(kvc_storage_config, memory_fraction, 128);
AT(kvc_storage_config, reserved, 132);

SIZE(kvc_upload, 24);
AT(kvc_upload, from, 0);
AT(kvc_upload, to, 8);
AT(kvc_upload, bytes, 16);

SIZE(kvc_table_update, 136);
AT(kvc_table_update, struct_size, 0);
AT(kvc_table_update, uploads, 8);
AT(kvc_table_update, num_uploads, 16);
AT(kvc_table_update, changes, 24);
AT(kvc_table_update, num_changes, 32);
AT(kvc_table_update, tables, 40);
AT(kvc_table_update, group_stride, 48);
AT(kvc_table_update, row_stride, 56);
AT(kvc_table_update, positions_of, 64);
AT(kvc_table_update, positions, 72);
AT(kvc_table_update, slots, 80);
AT(kvc_table_update, num_slots, 88);
AT(kvc_table_update, lengths, 96);
AT(kvc_table_update, csr_offsets, 104);
AT(kvc_table_update, csr_blocks, 112);
AT(kvc_table_update, csr_last_tokens, 120);
AT(kvc_table_update, num_rows, 128);
AT(kvc_table_update, block_size, 132);

SIZE(kvc_storage_info, 120);
AT(kvc_storage_info, struct_size, 0);
AT(kvc_storage_info, data, 8);
AT(kvc_storage_info, slab_bytes, 16);
AT(kvc_storage_info, block_bytes, 24);
AT(kvc_storage_info, token_bytes, 32);
AT(kvc_storage_info, num_blocks, 40);
AT(kvc_storage_info, num_layers, 48);
AT(kvc_storage_info, num_heads, 52);
AT(kvc_storage_info, head_dim, 56);
AT(kvc_storage_info, v_head_dim, 60);
AT(kvc_storage_info, block_size, 64);
AT(kvc_storage_info, dtype, 68);
AT(kvc_storage_info, layout, 72);
AT(kvc_storage_info, flags, 76);
AT(kvc_storage_info, scale_group, 80);
AT(kvc_storage_info, alignment, 84);
AT(kvc_storage_info, memory_kind, 88);
AT(kvc_storage_info, reserved, 92);
AT(kvc_storage_info, residual_bytes, 96);
AT(kvc_storage_info, k_scale, 104);
AT(kvc_storage_info, v_scale, 108);
AT(kvc_storage_info, channel_tokens, 112);
AT(kvc_storage_info, residual_blocks, 116);

SIZE(kvc_quant_metrics, 64);
AT(kvc_quant_metrics, struct_size, 0);
AT(kvc_quant_metrics, elements, 8);
AT(kvc_quant_metrics, bytes, 16);
AT(kvc_quant_metrics, fp16_bytes, 24);
AT(kvc_quant_metrics, ratio, 32);
AT(kvc_quant_metrics, mse, 40);
AT(kvc_quant_metrics, snr_db, 48);
AT(kvc_quant_metrics, max_error, 56);

SIZE(kvc_quant_format, 24);
AT(kvc_quant_format, struct_size, 0);
AT(kvc_quant_format, dtype, 8);
AT(kvc_quant_format, flags, 12);
AT(kvc_quant_format, group, 16);
AT(kvc_quant_format, scale, 20);

SIZE(kvc_rows, 160);
AT(kvc_rows, struct_size, 0);
AT(kvc_rows, k, 8);
AT(kvc_rows, v, 16);
AT(kvc_rows, num_tokens, 24);
AT(kvc_rows, first_layer, 32);
AT(kvc_rows, num_layers, 36);
AT(kvc_rows, dtype, 40);
AT(kvc_rows, flags, 44);
AT(kvc_rows, k_layer_stride, 48);
AT(kvc_rows, k_token_stride, 56);
AT(kvc_rows, k_head_stride, 64);
AT(kvc_rows, v_layer_stride, 72);
AT(kvc_rows, v_token_stride, 80);
AT(kvc_rows, v_head_stride, 88);
AT(kvc_rows, slots, 96);
AT(kvc_rows, block_table, 104);
AT(kvc_rows, block_table_size, 112);
AT(kvc_rows, first_token, 120);
AT(kvc_rows, rope_table, 128);
AT(kvc_rows, rope_rows, 136);
AT(kvc_rows, rope_table_rows, 144);
AT(kvc_rows, rope_dim, 152);
AT(kvc_rows, rope_first_element, 156);

SIZE(kvc_attention, 224);
AT(kvc_attention, struct_size, 0);
AT(kvc_attention, q, 8);
AT(kvc_attention, out, 16);
AT(kvc_attention, lse, 24);
AT(kvc_attention, num_requests, 32);
AT(kvc_attention, q_offsets, 40);
AT(kvc_attention, q_starts, 48);
AT(kvc_attention, kv_lens, 56);
AT(kvc_attention, block_tables, 64);
AT(kvc_attention, table_stride, 72);
AT(kvc_attention, layer, 80);
AT(kvc_attention, num_q_heads, 84);
AT(kvc_attention, dtype, 88);
AT(kvc_attention, flags, 92);
AT(kvc_attention, scale, 96);
AT(kvc_attention, soft_cap, 100);
AT(kvc_attention, window, 104);
AT(kvc_attention, sinks, 112);
AT(kvc_attention, alibi_slopes, 120);
AT(kvc_attention, mask, 128);
AT(kvc_attention, mask_offsets, 136);
AT(kvc_attention, mask_starts, 144);
AT(kvc_attention, block_mask, 152);
AT(kvc_attention, block_mask_stride, 160);
AT(kvc_attention, shared_tokens, 168);
AT(kvc_attention, sink_logits, 176);
AT(kvc_attention, q_token_stride, 184);
AT(kvc_attention, q_head_stride, 192);
AT(kvc_attention, out_token_stride, 200);
AT(kvc_attention, out_head_stride, 208);
AT(kvc_attention, launch, 216);

SIZE(kvc_run, 16);
AT(kvc_run, offset, 0);
AT(kvc_run, bytes, 8);

SIZE(kvc_selection, 24);
AT(kvc_selection, first_layer, 0);
AT(kvc_selection, num_layers, 4);
AT(kvc_selection, first_head, 8);
AT(kvc_selection, num_heads, 12);
AT(kvc_selection, first_token, 16);
AT(kvc_selection, num_tokens, 20);

SIZE(kvc_block_choice, 72);
AT(kvc_block_choice, struct_size, 0);
AT(kvc_block_choice, bounds, 8);
AT(kvc_block_choice, top_k, 16);
AT(kvc_block_choice, sink_blocks, 24);
AT(kvc_block_choice, recent_blocks, 32);
AT(kvc_block_choice, block_mask, 40);
AT(kvc_block_choice, block_mask_stride, 48);
AT(kvc_block_choice, ratio, 56);
AT(kvc_block_choice, threshold, 64);

SIZE(kvc_attention_launch, 72);
AT(kvc_attention_launch, struct_size, 0);
AT(kvc_attention_launch, flags, 8);
AT(kvc_attention_launch, reserved, 12);
AT(kvc_attention_launch, total_queries, 16);
AT(kvc_attention_launch, max_queries, 24);
AT(kvc_attention_launch, max_kv_len, 32);
AT(kvc_attention_launch, plan, 40);
AT(kvc_attention_launch, plan_bytes, 48);
AT(kvc_attention_launch, workspace, 56);
AT(kvc_attention_launch, workspace_bytes, 64);

SIZE(kvc_attention_partials, 48);
AT(kvc_attention_partials, struct_size, 0);
AT(kvc_attention_partials, outs, 8);
AT(kvc_attention_partials, lses, 16);
AT(kvc_attention_partials, num_partials, 24);
AT(kvc_attention_partials, num_rows, 32);
AT(kvc_attention_partials, v_dim, 40);
AT(kvc_attention_partials, dtype, 44);

SIZE(kvc_attention_info, 120);
AT(kvc_attention_info, struct_size, 0);
AT(kvc_attention_info, kernels, 8);
AT(kvc_attention_info, keys, 24);
AT(kvc_attention_info, values, 40);
AT(kvc_attention_info, num_workers, 56);
AT(kvc_attention_info, sparse, 60);
AT(kvc_attention_info, num_pieces, 64);
AT(kvc_attention_info, num_splits, 72);
AT(kvc_attention_info, scratch_bytes, 80);
AT(kvc_attention_info, shared_tokens, 88);
AT(kvc_attention_info, plan_bytes, 96);
AT(kvc_attention_info, workspace_bytes, 104);
AT(kvc_attention_info, selection_bytes, 112);

int main(void) {
  puts("the layout is as frozen");
  return 0;
}
