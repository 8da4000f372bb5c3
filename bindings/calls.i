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
%rename(kvc_storage_attend) attend;
%rename(kvc_step_use) step_use;

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

/* Tokens lie at `slots`, or without slots at the positions from rows->first_token on in the block table. The type of k
   and v is rows->dtype; their lengths are in bytes. */
static kvc_status store(kvc_storage *s, const kvc_rows *rows, size_t length, const char *k, size_t k_bytes, const char *v, size_t v_bytes,
                        const int64_t *slots, size_t num_slots, const int32_t *block_table, size_t block_table_size, void *stream) {
  kvc_rows full = *rows;
  full.k = (void *)k, full.v = (void *)v, full.num_tokens = length;
  full.slots = slots, full.block_table = block_table, full.block_table_size = block_table_size;
  (void)k_bytes, (void)v_bytes, (void)num_slots;
  return kvc_storage_store(s, &full, stream);
}
static kvc_status gather(kvc_storage *s, const kvc_rows *rows, size_t length, char *k, size_t k_bytes, char *v, size_t v_bytes,
                         const int64_t *slots, size_t num_slots, const int32_t *block_table, size_t block_table_size, void *stream) {
  kvc_rows full = *rows;
  full.k = k, full.v = v, full.num_tokens = length;
  full.slots = slots, full.block_table = block_table, full.block_table_size = block_table_size;
  (void)k_bytes, (void)v_bytes, (void)num_slots;
  return kvc_storage_gather(s, &full, stream);
}

static kvc_status attend(kvc_storage *s, const kvc_attention *attention, const char *q, size_t q_bytes, char *out, size_t out_bytes, char *lse,
                         size_t lse_bytes, const uint64_t *q_offsets, size_t num_q_offsets, const uint64_t *q_starts, size_t num_q_starts,
                         const uint64_t *kv_lens, size_t num_kv_lens, const int32_t *block_tables, size_t num_entries,
                         const char *alibi_slopes, size_t alibi_bytes, const char *mask, size_t mask_bytes, const uint64_t *mask_offsets,
                         size_t num_mask_offsets, void *stream) {
  kvc_attention full = *attention;
  full.q = q, full.out = out, full.lse = (float *)lse, full.q_offsets = q_offsets, full.q_starts = q_starts, full.kv_lens = kv_lens;
  full.block_tables = block_tables, full.alibi_slopes = (const float *)alibi_slopes, full.mask = (const uint8_t *)mask;
  full.mask_offsets = mask_offsets;
  (void)q_bytes, (void)out_bytes, (void)lse_bytes, (void)num_q_offsets, (void)num_q_starts, (void)num_kv_lens, (void)num_entries;
  (void)alibi_bytes, (void)mask_bytes, (void)num_mask_offsets;
  return kvc_storage_attend(s, &full, stream);
}
%}

// A model's layers with a window, one at a time.
%extend kvc_model {
  int has_window(uint32_t layer) {
    return layer < KVC_MODEL_MAX_LAYERS && ($self->window_layers[layer / 64] >> (layer % 64) & 1);
  }
  void set_window(uint32_t layer) {
    if (layer < KVC_MODEL_MAX_LAYERS) $self->window_layers[layer / 64] |= UINT64_C(1) << (layer % 64);
  }
}
