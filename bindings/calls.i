// SPDX-License-Identifier: Apache-2.0
// Calls of kvcache.h whose arrays stand apart from their counts or inside structs, under the same names with each
// array beside its own count. Nothing else happens here: values are checked by the library, lengths of arrays
// whose need follows from other arguments by the hand-written layers.

%rename(kvc_manager_open_namespace) open_namespace;
%rename(kvc_manager_export_tables) export_tables;
%rename(kvc_manager_export_slots) export_slots;
%rename(kvc_manager_poll_events) poll_events;
%rename(kvc_storage_store) store;
%rename(kvc_storage_gather) gather;
%rename(kvc_storage_measure) measure;
%rename(kvc_storage_attend) attend;
%rename(kvc_storage_explain) explain;
%rename(kvc_storage_select_blocks) select_blocks;
%rename(kvc_storage_key_bounds) key_bounds;
%rename(kvc_storage_swap_out) swap_out;
%rename(kvc_storage_swap_in) swap_in;
%rename(kvc_attention_merge) merge;
%rename(kvc_tree_mask) tree_mask;
%rename(kvc_estimate_memory) estimate_memory;
%rename(kvc_model_rope) model_rope;
%rename(kvc_rope_table) rope_table;
%rename(kvc_rope_apply) rope_apply;
%rename(kvc_quantize) quantize;
%rename(kvc_dequantize) dequantize;
%rename(kvc_storage_adopt) storage_adopt;
%rename(kvc_manager_step) run_step;
%rename(kvc_step_use) step_use;
%rename(kvc_step_num_failed) step_num_failed;

%inline %{
/* A part that is NULL is absent, one of no bytes is present and empty. */
static kvc_status open_namespace(kvc_manager *m, const char *model, size_t model_size, const char *adapter, size_t adapter_size,
                                 const char *tenant, size_t tenant_size, uint64_t *namespace_id) {
  kvc_namespace_config config = {sizeof config, model, adapter, tenant, model_size, adapter_size, tenant_size};
  return kvc_manager_open_namespace(m, &config, namespace_id);
}

/* num_entries is num_requests * row_stride. */
static kvc_status export_tables(kvc_manager *m, const uint64_t *requests, size_t num_requests, uint32_t group, int32_t fill_id,
                                int32_t *tables, size_t num_entries) {
  return kvc_manager_export_tables(m, requests, num_requests, group, fill_id, tables, num_requests ? num_entries / num_requests : 0);
}

static kvc_status export_slots(kvc_manager *m, uint64_t request, uint32_t group, uint64_t first_token, int64_t *slots, size_t num_slots) {
  return kvc_manager_export_slots(m, request, group, first_token, num_slots, slots, sizeof *slots);
}

/* `next` is the cursor to go on with. Without room for tokens they are not wanted. */
static kvc_status poll_events(kvc_manager *m, uint64_t cursor, kvc_event *events, size_t capacity, int32_t *tokens, size_t token_capacity,
                              uint64_t *next, size_t *count) {
  *next = cursor;
  return kvc_manager_poll_events(m, next, events, sizeof *events, capacity, count, token_capacity ? tokens : NULL, token_capacity);
}

/* With what the new requests ask for, where it is not NULL: a config and an offset into the keys for each admission. The step keeps none of it. */
static kvc_status run_step(kvc_manager *m, kvc_step *step, const kvc_request_config *configs, const kvc_extra_key *keys, size_t num_keys,
                           const uint64_t *key_offsets, size_t num_key_offsets) {
  step->admit_configs = configs, step->admit_keys = keys, step->admit_key_offsets = key_offsets;
  (void)num_keys, (void)num_key_offsets;
  const kvc_status status = kvc_manager_step(m, step);
  step->admit_configs = NULL, step->admit_keys = NULL, step->admit_key_offsets = NULL;
  return status;
}

/* Takes an optional array of a step away (as NULL does in C) or back into use. */
static kvc_status step_use(kvc_step *step, int32_t array, int32_t used) {
  kvc_view view;
  const kvc_status status = kvc_step_view(step, array, &view);
  if (status != KVC_OK) return status;
  void *data = used ? view.data : NULL;
  switch (array) {
    case KVC_STEP_COMMITTED: step->committed = (const uint64_t *)data; break;
    case KVC_STEP_COMMIT_OFFSETS: step->commit_offsets = (const uint64_t *)data; break;
    case KVC_STEP_EXTEND_OFFSETS: step->extend_offsets = (const uint64_t *)data; break;
    case KVC_STEP_EXTEND_TOKENS: step->extend_tokens = (const int32_t *)data; break;
    case KVC_STEP_ADMIT_REQUESTS: step->admit_requests = (const uint64_t *)data; break;
    case KVC_STEP_ADMIT_OFFSETS: step->admit_offsets = (const uint64_t *)data; break;
    case KVC_STEP_ROWS: step->rows = (const int32_t *)data; break;
    case KVC_STEP_BLOCK_TABLES: step->block_tables = (int32_t *)data; break;
    case KVC_STEP_SLOTS: step->slots = (int64_t *)data; break;
    case KVC_STEP_CHANGES: step->changes = (kvc_table_change *)data; break;
    default: return kvc_step_view(step, -1, &view);
  }
  return KVC_OK;
}

/* Number of items of the last run whose status is not KVC_OK. Counts that were raised since that run cannot lead past the array. */
static size_t step_num_failed(const kvc_step *step) {
  kvc_view status;
  size_t failed = 0, items = step->num_frees + step->num_preempts + step->num_truncates + step->num_requests + step->num_admissions;
  if (kvc_step_view(step, KVC_STEP_STATUS, &status) != KVC_OK) return 0;
  if (items > (size_t)status.shape[0]) items = (size_t)status.shape[0];
  for (size_t i = 0; i < items; ++i) failed += step->status[i] != KVC_OK;
  return failed;
}

/* Tokens lie at `slots`, or without slots at the positions from rows->first_token on in the block table. The type of k
   and v is rows->dtype; their lengths are in bytes. */
#define KVC_ROWS(CONST)                                                                                                                      \
  size_t length, CONST char *k, size_t k_bytes, CONST char *v, size_t v_bytes, const int64_t *slots, size_t num_slots,                       \
      const int32_t *block_table, size_t block_table_size
#define KVC_WITH_ROWS(rows)                                                                                                                  \
  kvc_rows full = *(rows);                                                                                                                   \
  full.k = (void *)k, full.v = (void *)v, full.num_tokens = length;                                                                          \
  full.slots = slots, full.block_table = block_table, full.block_table_size = block_table_size;                                              \
  (void)k_bytes, (void)v_bytes, (void)num_slots

/* With angle_table, keys turn on their way: rows->rope_dim is not 0 then. */
static kvc_status store(kvc_storage *s, const kvc_rows *rows, KVC_ROWS(const), const char *angle_table, size_t angle_table_bytes,
                        const int64_t *table_row, size_t num_table_rows, kvc_stream *stream) {
  KVC_WITH_ROWS(rows);
  full.rope_table = (const float *)angle_table, full.rope_rows = table_row;
  full.rope_table_rows = rows->rope_dim ? angle_table_bytes / (sizeof(float) * rows->rope_dim) : 0;
  (void)num_table_rows;
  return kvc_storage_store(s, &full, stream);
}
static kvc_status gather(kvc_storage *s, const kvc_rows *rows, KVC_ROWS(), kvc_stream *stream) {
  KVC_WITH_ROWS(rows);
  return kvc_storage_gather(s, &full, stream);
}
static kvc_status measure(kvc_storage *s, const kvc_rows *rows, KVC_ROWS(const), kvc_quant_metrics *keys, kvc_quant_metrics *values) {
  KVC_WITH_ROWS(rows);
  return kvc_storage_measure(s, &full, keys, values);
}

/* What a kvc_attention points to. Lengths in bytes where the element type is the struct's. */
#define KVC_ATTENTION_ARRAYS                                                                                                                 \
  const char *q, size_t q_bytes, char *out, size_t out_bytes, char *lse, size_t lse_bytes, const uint64_t *q_offsets, size_t num_q_offsets,  \
      const uint64_t *q_starts, size_t num_q_starts, const uint64_t *kv_lens, size_t num_kv_lens, const int32_t *block_tables,               \
      size_t num_entries, const char *alibi_slopes, size_t alibi_bytes, const char *sink_logits, size_t sink_bytes, const char *mask,        \
      size_t mask_bytes, const uint64_t *mask_offsets, size_t num_mask_offsets, const uint64_t *mask_starts, size_t num_mask_starts,         \
      const char *block_mask, size_t block_mask_bytes, char *schedule, size_t schedule_bytes, char *workspace, size_t workspace_bytes
#define KVC_WITH_ARRAYS(attention)                                                                                                           \
  kvc_attention full = *(attention);                                                                                                         \
  full.q = q, full.out = out, full.lse = (float *)lse, full.q_offsets = q_offsets, full.q_starts = q_starts, full.kv_lens = kv_lens;         \
  full.block_tables = block_tables, full.alibi_slopes = (const float *)alibi_slopes, full.sink_logits = (const float *)sink_logits;          \
  full.mask = (const uint8_t *)mask, full.mask_offsets = mask_offsets, full.mask_starts = mask_starts;                                       \
  full.block_mask = (const uint8_t *)block_mask, full.schedule = schedule, full.schedule_bytes = schedule_bytes;                             \
  full.workspace = workspace, full.workspace_bytes = workspace_bytes;                                                                        \
  (void)q_bytes, (void)out_bytes, (void)lse_bytes, (void)num_q_offsets, (void)num_q_starts, (void)num_kv_lens, (void)num_entries;            \
  (void)alibi_bytes, (void)sink_bytes, (void)mask_bytes, (void)num_mask_offsets, (void)num_mask_starts, (void)block_mask_bytes

static kvc_status attend(kvc_storage *s, const kvc_attention *attention, KVC_ATTENTION_ARRAYS, kvc_stream *stream) {
  KVC_WITH_ARRAYS(attention);
  return kvc_storage_attend(s, &full, stream);
}
static kvc_status explain(kvc_storage *s, const kvc_attention *attention, KVC_ATTENTION_ARRAYS, kvc_attention_plan *plan) {
  KVC_WITH_ARRAYS(attention);
  return kvc_storage_explain(s, &full, plan);
}
static kvc_status select_blocks(kvc_storage *s, const kvc_attention *attention, KVC_ATTENTION_ARRAYS, const kvc_block_choice *choice,
                                const char *bounds, size_t bounds_bytes, char *picked, size_t picked_bytes, kvc_stream *stream) {
  KVC_WITH_ARRAYS(attention);
  kvc_block_choice own = *choice;
  own.bounds = (const uint16_t *)bounds, own.block_mask = (uint8_t *)picked;
  (void)bounds_bytes, (void)picked_bytes;
  return kvc_storage_select_blocks(s, &full, &own, stream);
}

static kvc_status swap_out(kvc_storage *s, const kvc_block_copy *copies, size_t num_copies, char *new_pages, size_t new_pages_bytes,
                           uint64_t page_bytes, kvc_stream *stream) {
  return kvc_storage_swap_out(s, copies, num_copies, new_pages, new_pages_bytes, page_bytes, stream);
}
static kvc_status swap_in(kvc_storage *s, const kvc_block_copy *copies, size_t num_copies, const char *pages, size_t pages_bytes,
                          uint64_t page_bytes, kvc_stream *stream) {
  return kvc_storage_swap_in(s, copies, num_copies, pages, pages_bytes, page_bytes, stream);
}

static kvc_status key_bounds(kvc_storage *s, uint32_t layer, const int32_t *blocks, size_t num_blocks, char *bounds, size_t bounds_bytes,
                             kvc_stream *stream) {
  (void)bounds_bytes;
  return kvc_storage_key_bounds(s, layer, blocks, num_blocks, (uint16_t *)bounds, stream);
}

/* outs: [num_partials][num_rows][v_dim]. */
static kvc_status merge(const char *outs, size_t outs_bytes, const char *lses, size_t lses_bytes, size_t num_partials, size_t num_rows,
                        uint32_t v_dim, int32_t dtype, char *out, size_t out_bytes, char *lse, size_t lse_bytes) {
  (void)outs_bytes, (void)lses_bytes, (void)out_bytes, (void)lse_bytes;
  return kvc_attention_merge(outs, (const float *)lses, num_partials, num_rows, v_dim, dtype, out, (float *)lse);
}

static kvc_status tree_mask(const int32_t *parents, size_t num_nodes, char *bits, size_t bits_bytes, uint64_t first_bit, int32_t *depths,
                            size_t num_depths) {
  (void)bits_bytes, (void)num_depths;
  return kvc_tree_mask(parents, num_nodes, (uint8_t *)bits, first_bit, depths);
}

static kvc_status estimate_memory(const kvc_model *model, const kvc_memory_query *query, kvc_memory_estimate *estimate) {
  kvc_memory_query full = *query;
  full.model = model;
  return kvc_estimate_memory(&full, estimate);
}

/* Lengths in bytes; attention_factor is one double. */
static kvc_status model_rope(const kvc_model *model, uint32_t layer, uint64_t length, const char *factors, size_t factors_bytes,
                             char *frequencies, size_t frequencies_bytes, char *attention_factor, size_t attention_factor_bytes,
                             size_t *count) {
  (void)factors_bytes, (void)attention_factor_bytes;
  return kvc_model_rope(model, layer, length, (const double *)factors, (double *)frequencies, frequencies_bytes / sizeof(double), count,
                        (double *)attention_factor);
}

/* Without positions: 0, 1, 2, ... as far as there is room for angles. */
static kvc_status rope_table(const char *turns, size_t turns_bytes, double factor, const int64_t *positions, size_t num_positions,
                             char *angles, size_t angles_bytes) {
  const size_t num_frequencies = turns_bytes / sizeof(double);
  if (!positions && num_frequencies) num_positions = angles_bytes / (2 * num_frequencies * sizeof(float));
  return kvc_rope_table((const double *)turns, num_frequencies, factor, positions, num_positions, (float *)angles);
}

static kvc_status rope_apply(const kvc_rope_rows *rows, char *x, size_t x_bytes, size_t count, const char *angle_table,
                             size_t angle_table_bytes, const int64_t *table_row, size_t num_table_rows) {
  kvc_rope_rows full = *rows;
  const size_t row = sizeof(float) * (rows->rope_dim ? rows->rope_dim : rows->head_dim);
  full.x = x, full.num_tokens = count, full.table = (const float *)angle_table, full.table_row = table_row;
  full.table_rows = row ? angle_table_bytes / row : 0;
  (void)x_bytes, (void)num_table_rows;
  return kvc_rope_apply(&full);
}

static kvc_status quantize(const kvc_quant_format *format, const char *floats, size_t floats_bytes, size_t rows, size_t dim,
                           char *new_codes, size_t new_codes_bytes, char *new_scales, size_t new_scales_bytes) {
  (void)floats_bytes, (void)new_codes_bytes, (void)new_scales_bytes;
  return kvc_quantize(format, (const float *)floats, rows, dim, new_codes, (float *)new_scales);
}
static kvc_status dequantize(const kvc_quant_format *format, const char *codes, size_t codes_bytes, const char *scales, size_t scales_bytes,
                             size_t rows, size_t dim, char *new_floats, size_t new_floats_bytes) {
  (void)codes_bytes, (void)scales_bytes, (void)new_floats_bytes;
  return kvc_dequantize(format, codes, (const float *)scales, rows, dim, (float *)new_floats);
}

/* kvc_storage_create over memory that outlives the storage and its exported tensors. */
static kvc_status storage_adopt(const kvc_storage_config *config, char *memory, size_t memory_bytes, kvc_storage **storage) {
  kvc_storage_config full = *config;
  full.memory = memory, full.memory_size = memory_bytes;
  return kvc_storage_create(&full, storage);
}
%}
