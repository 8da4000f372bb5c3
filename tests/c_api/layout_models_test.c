/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the structs of models and rotary embedding. See layout.h. */
#include <kvcache/model.h>
#include <stdio.h>

#include "layout.h"

SIZE(kvc_rope_rows, 88);
AT(kvc_rope_rows, struct_size, 0);
AT(kvc_rope_rows, x, 8);
AT(kvc_rope_rows, num_tokens, 16);
AT(kvc_rope_rows, table, 24);
AT(kvc_rope_rows, table_rows, 32);
AT(kvc_rope_rows, table_row, 40);
AT(kvc_rope_rows, num_heads, 48);
AT(kvc_rope_rows, head_dim, 52);
AT(kvc_rope_rows, rope_dim, 56);
AT(kvc_rope_rows, first_element, 60);
AT(kvc_rope_rows, dtype, 64);
AT(kvc_rope_rows, flags, 68);
AT(kvc_rope_rows, token_stride, 72);
AT(kvc_rope_rows, head_stride, 80);

SIZE(kvc_model, 352);
AT(kvc_model, struct_size, 0);
AT(kvc_model, name, 8);
AT(kvc_model, num_layers, 72);
AT(kvc_model, num_q_heads, 76);
AT(kvc_model, num_kv_heads, 80);
AT(kvc_model, head_dim, 84);
AT(kvc_model, v_head_dim, 88);
AT(kvc_model, latent_dim, 92);
AT(kvc_model, rope_dim, 96);
AT(kvc_model, vocab_size, 100);
AT(kvc_model, max_context, 104);
AT(kvc_model, window_tokens, 112);
AT(kvc_model, window_layers, 120);
AT(kvc_model, rope_theta, 184);
AT(kvc_model, rope_local_theta, 192);
AT(kvc_model, rope_factor, 200);
AT(kvc_model, rope_original_context, 208);
AT(kvc_model, rope_scaling, 216);
AT(kvc_model, rope_flags, 220);
AT(kvc_model, rope_low_rotations, 224);
AT(kvc_model, rope_high_rotations, 232);
AT(kvc_model, rope_attention_factor, 240);
AT(kvc_model, window_kind, 248);
AT(kvc_model, num_cross_layers, 252);
AT(kvc_model, state_layers, 256);
AT(kvc_model, conv_elements, 320);
AT(kvc_model, recurrent_elements, 328);
AT(kvc_model, cross_tokens, 336);
AT(kvc_model, cross_kv_heads, 344);
AT(kvc_model, cross_head_dim, 348);

SIZE(kvc_memory_query, 112);
AT(kvc_memory_query, struct_size, 0);
AT(kvc_memory_query, model, 8);
AT(kvc_memory_query, tokens, 16);
AT(kvc_memory_query, num_sequences, 24);
AT(kvc_memory_query, budget_bytes, 32);
AT(kvc_memory_query, chunk_tokens, 40);
AT(kvc_memory_query, dtype, 48);
AT(kvc_memory_query, block_size, 52);
AT(kvc_memory_query, scale_group, 56);
AT(kvc_memory_query, asymmetric, 60);
AT(kvc_memory_query, tensor_scales, 64);
AT(kvc_memory_query, channel_keys, 68);
AT(kvc_memory_query, channel_tokens, 72);
AT(kvc_memory_query, memory_fraction, 76);
AT(kvc_memory_query, device, 80);
AT(kvc_memory_query, checkpoint_tokens, 88);
AT(kvc_memory_query, conv_dtype, 96);
AT(kvc_memory_query, recurrent_dtype, 100);
AT(kvc_memory_query, retention_tokens, 104);

SIZE(kvc_memory_estimate, 192);
AT(kvc_memory_estimate, struct_size, 0);
AT(kvc_memory_estimate, bytes_per_token, 8);
AT(kvc_memory_estimate, full_block_bytes, 16);
AT(kvc_memory_estimate, window_block_bytes, 24);
AT(kvc_memory_estimate, full_blocks, 32);
AT(kvc_memory_estimate, window_blocks, 40);
AT(kvc_memory_estimate, sequence_bytes, 48);
AT(kvc_memory_estimate, total_bytes, 56);
AT(kvc_memory_estimate, max_tokens, 64);
AT(kvc_memory_estimate, max_sequences, 72);
AT(kvc_memory_estimate, num_full_layers, 80);
AT(kvc_memory_estimate, num_window_layers, 84);
AT(kvc_memory_estimate, residual_bytes, 88);
AT(kvc_memory_estimate, budget_bytes, 96);
AT(kvc_memory_estimate, pool_blocks, 104);
AT(kvc_memory_estimate, window_pool_blocks, 112);
AT(kvc_memory_estimate, state_block_bytes, 120);
AT(kvc_memory_estimate, cross_block_bytes, 128);
AT(kvc_memory_estimate, state_blocks, 136);
AT(kvc_memory_estimate, cross_blocks, 144);
AT(kvc_memory_estimate, state_pool_blocks, 152);
AT(kvc_memory_estimate, cross_pool_blocks, 160);
AT(kvc_memory_estimate, num_state_layers, 168);
AT(kvc_memory_estimate, num_cross_layers, 172);
AT(kvc_memory_estimate, num_pools, 176);
AT(kvc_memory_estimate, window_pool, 180);
AT(kvc_memory_estimate, state_pool, 184);
AT(kvc_memory_estimate, cross_pool, 188);

int main(void) {
  puts("the layout is as frozen");
  return 0;
}
