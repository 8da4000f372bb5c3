// SPDX-License-Identifier: Apache-2.0
// Calls whose arrays are inside structs, under the same names with each array as a parameter of its own: SWIG has
// typemaps for parameters, and Go may not pass Go pointers inside structs. Nothing else happens here: the library
// checks values, and the hand-written layers check the lengths of arrays that have no count of their own.

// The call of the library is not wrapped; the one below is, under its name.
%define KVC_INSTEAD(CALL, NAME)
%ignore CALL;
%rename(CALL) NAME;
%enddef
KVC_INSTEAD(kvc_manager_open_namespace, open_namespace)
KVC_INSTEAD(kvc_manager_create_request, create_request)
KVC_INSTEAD(kvc_manager_allocate_request, allocate_request)
KVC_INSTEAD(kvc_manager_probe, probe)
KVC_INSTEAD(kvc_manager_pin_prefix, pin_prefix)
KVC_INSTEAD(kvc_manager_drop_prefix, drop_prefix)
KVC_INSTEAD(kvc_manager_acquire_prefix, acquire_prefix)
KVC_INSTEAD(kvc_manager_set_prefix_priority, set_prefix_priority)
KVC_INSTEAD(kvc_manager_demote_prefix, demote_prefix)
KVC_INSTEAD(kvc_manager_register_prompt, register_prompt)
KVC_INSTEAD(kvc_manager_list_prompts, list_prompts)
KVC_INSTEAD(kvc_manager_take_log, take_log)
KVC_INSTEAD(kvc_log_replay, log_replay)
KVC_INSTEAD(kvc_manager_publish_blocks, publish_blocks)
KVC_INSTEAD(kvc_manager_export_tables, export_tables)
KVC_INSTEAD(kvc_manager_export_slots, export_slots)
KVC_INSTEAD(kvc_manager_take_pending, take_pending)
KVC_INSTEAD(kvc_manager_rebuild, rebuild)
KVC_INSTEAD(kvc_manager_poll_events, poll_events)
KVC_INSTEAD(kvc_manager_list_prefixes, list_prefixes)
KVC_INSTEAD(kvc_manager_step, run_step)
KVC_INSTEAD(kvc_storage_store, store)
KVC_INSTEAD(kvc_storage_gather, gather)
KVC_INSTEAD(kvc_storage_measure, measure)
KVC_INSTEAD(kvc_storage_attend, attend)
KVC_INSTEAD(kvc_storage_explain, explain)
KVC_INSTEAD(kvc_storage_select_blocks, select_blocks)
KVC_INSTEAD(kvc_attention_merge, merge)
KVC_INSTEAD(kvc_estimate_memory, estimate_memory)
KVC_INSTEAD(kvc_rope_apply, rope_apply)
%rename(kvc_storage_adopt) storage_adopt;
%rename(kvc_step_use) step_use;
%rename(kvc_step_num_failed) step_num_failed;

%inline %{
/* A part that is NULL is absent. A part of no bytes is present and empty. */
static kvc_status open_namespace(kvc_manager *m, const char *model, size_t model_size, const char *adapter, size_t adapter_size,
                                 const char *tenant, size_t tenant_size, uint64_t *namespace_id) {
  kvc_namespace_config config = {sizeof config, model, adapter, tenant, model_size, adapter_size, tenant_size};
  return kvc_manager_open_namespace(m, &config, namespace_id);
}

/* The fields of a kvc_prompt. */
#define KVC_PROMPT uint64_t namespace_id, const int32_t *tokens, size_t num_tokens, const kvc_extra_key *keys, size_t num_keys
#define KVC_THE_PROMPT &(kvc_prompt){sizeof(kvc_prompt), namespace_id, tokens, num_tokens, keys, num_keys}

static kvc_status create_request(kvc_manager *m, KVC_PROMPT, const kvc_request_config *config, uint64_t *request) {
  return kvc_manager_create_request(m, KVC_THE_PROMPT, config, request);
}
static kvc_status allocate_request(kvc_manager *m, KVC_PROMPT, const kvc_request_config *config, uint64_t *request, uint64_t *num_cached) {
  return kvc_manager_allocate_request(m, KVC_THE_PROMPT, config, request, num_cached);
}
static kvc_status probe(kvc_manager *m, KVC_PROMPT, kvc_probe_info *info) { return kvc_manager_probe(m, KVC_THE_PROMPT, info); }
static kvc_status pin_prefix(kvc_manager *m, KVC_PROMPT, uint64_t *pin, uint64_t *num_pinned) {
  return kvc_manager_pin_prefix(m, KVC_THE_PROMPT, pin, num_pinned);
}
static kvc_status drop_prefix(kvc_manager *m, KVC_PROMPT, uint64_t *num_dropped) {
  return kvc_manager_drop_prefix(m, KVC_THE_PROMPT, num_dropped);
}
static kvc_status set_prefix_priority(kvc_manager *m, KVC_PROMPT, uint64_t first_token, uint32_t priority, uint64_t until_ns,
                                      uint64_t *num_hinted) {
  return kvc_manager_set_prefix_priority(m, KVC_THE_PROMPT, first_token, priority, until_ns, num_hinted);
}
static kvc_status demote_prefix(kvc_manager *m, KVC_PROMPT, uint64_t first_token, uint64_t *num_demoted) {
  return kvc_manager_demote_prefix(m, KVC_THE_PROMPT, first_token, num_demoted);
}
static kvc_status register_prompt(kvc_manager *m, const char *name, KVC_PROMPT, uint64_t *num_pinned) {
  return kvc_manager_register_prompt(m, name, KVC_THE_PROMPT, num_pinned);
}
/* `count` is in bytes. */
static kvc_status list_prompts(kvc_manager *m, char *names, size_t capacity, size_t *count) {
  return kvc_manager_list_prompts(m, names, capacity, count);
}
static kvc_status take_log(kvc_manager *m, char *log, size_t capacity, size_t *count) { return kvc_manager_take_log(m, log, capacity, count); }
static kvc_status log_replay(const char *log, size_t size, kvc_replay_info *info) { return kvc_log_replay(log, size, info); }
static kvc_status acquire_prefix(kvc_manager *m, KVC_PROMPT, uint32_t group, int32_t *blocks, size_t capacity, size_t *count) {
  return kvc_manager_acquire_prefix(m, KVC_THE_PROMPT, group, blocks, capacity, count);
}
static kvc_status publish_blocks(kvc_manager *m, KVC_PROMPT, uint32_t group, const int32_t *blocks, size_t num_blocks) {
  return kvc_manager_publish_blocks(m, KVC_THE_PROMPT, group, blocks, num_blocks);
}

/* num_entries is num_requests * row_stride. */
static kvc_status export_tables(kvc_manager *m, const uint64_t *requests, size_t num_requests, uint32_t group, int32_t fill_id,
                                int32_t *tables, size_t num_entries) {
  return kvc_manager_export_tables(m, requests, num_requests, group, fill_id, tables, num_requests ? num_entries / num_requests : 0);
}

static kvc_status export_slots(kvc_manager *m, uint64_t request, uint32_t group, uint64_t first_token, int64_t *slots, size_t num_slots) {
  return kvc_manager_export_slots(m, request, group, first_token, num_slots, slots, sizeof *slots);
}

static kvc_status take_pending(kvc_manager *m, kvc_block_copy *copies, size_t capacity, int32_t *zero_blocks, size_t zero_capacity,
                               size_t *num_copies, size_t *num_zero_blocks) {
  kvc_pending_work work = {sizeof work, copies, capacity, 0, zero_blocks, zero_capacity, 0};
  const kvc_status status = kvc_manager_take_pending(m, &work);
  *num_copies = work.num_copies, *num_zero_blocks = work.num_zero_blocks;
  return status;
}

static kvc_status rebuild(kvc_manager *m, const kvc_manager_config *config, kvc_token_copy *copies, size_t capacity, kvc_namespace_pair *pairs,
                          size_t pair_capacity, kvc_manager **manager, size_t *num_copies, size_t *num_pairs) {
  kvc_rebuild work = {sizeof work, copies, capacity, 0, pairs, pair_capacity, 0, 0};
  const kvc_status status = kvc_manager_rebuild(m, config, &work, manager);
  *num_copies = work.num_copies, *num_pairs = work.num_namespaces;
  return status;
}

/* `next` is the cursor to read from next. Without room for tokens, no tokens are wanted. */
static kvc_status poll_events(kvc_manager *m, uint64_t cursor, kvc_event *events, size_t capacity, int32_t *tokens, size_t token_capacity,
                              uint64_t *next, size_t *count) {
  kvc_event_batch batch = {sizeof batch, events, sizeof *events, capacity, 0, token_capacity ? tokens : NULL, token_capacity};
  *next = cursor;
  const kvc_status status = kvc_manager_poll_events(m, next, &batch);
  *count = batch.count;
  return status;
}

/* `next` is the cursor to go on from, 0 at the end. `event_cursor` is 0 unless `cursor` is. */
static kvc_status list_prefixes(kvc_manager *m, uint64_t cursor, kvc_event *events, size_t capacity, int32_t *tokens, size_t token_capacity,
                                uint64_t *next, uint64_t *event_cursor, size_t *count) {
  kvc_event_batch batch = {sizeof batch, events, sizeof *events, capacity, 0, token_capacity ? tokens : NULL, token_capacity};
  *next = cursor, *event_cursor = 0;
  const kvc_status status = kvc_manager_list_prefixes(m, next, event_cursor, &batch);
  *count = batch.count;
  return status;
}

/* Runs a step with the options of its new requests: a namespace, a config and an offset into the keys for each admission. Where an array is
   NULL, the step keeps its own. Afterwards the step is as before. */
static kvc_status run_step(kvc_manager *m, kvc_step *step, const uint64_t *namespaces, size_t num_namespaces, const kvc_request_config *configs,
                           const kvc_extra_key *keys, size_t num_keys, const uint64_t *key_offsets, size_t num_key_offsets) {
  const uint64_t *const own = step->admit_namespaces;
  if (namespaces) step->admit_namespaces = namespaces;
  step->admit_configs = configs, step->admit_keys = keys, step->admit_key_offsets = key_offsets;
  (void)num_namespaces, (void)num_keys, (void)num_key_offsets;
  const kvc_status status = kvc_manager_step(m, step);
  step->admit_namespaces = own, step->admit_configs = NULL, step->admit_keys = NULL, step->admit_key_offsets = NULL;
  return status;
}

/* Switches an optional array of a step off (NULL in C) or on. */
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

/* Number of items of the last run whose status is not KVC_OK. Counts that were raised since then do not lead past the array. */
static size_t step_num_failed(const kvc_step *step) {
  kvc_view status;
  size_t failed = 0, items = step->num_frees + step->num_preempts + step->num_truncates + step->num_requests + step->num_admissions;
  if (kvc_step_view(step, KVC_STEP_STATUS, &status) != KVC_OK) return 0;
  if (items > (size_t)status.shape[0]) items = (size_t)status.shape[0];
  if (items == 0 || (step->status[0] == KVC_OK && memcmp(step->status, step->status + 1, (items - 1) * sizeof *step->status) == 0)) return 0;
  for (size_t i = 0; i < items; ++i) failed += step->status[i] != KVC_OK;
  return failed;
}

/* The arrays of a kvc_rows. The tokens are at `slots`, or without slots at the positions from rows->first_token on in block_table. */
#define KVC_ROWS(CONST) size_t length, CONST void *k, CONST void *v, const int64_t *slots, const int32_t *block_table, size_t block_table_size
#define KVC_WITH_ROWS(rows)                                                            \
  kvc_rows full = *(rows);                                                             \
  full.k = (void *)k, full.v = (void *)v, full.num_tokens = length;                    \
  full.slots = slots, full.block_table = block_table, full.block_table_size = block_table_size

/* With rope_table, keys are rotated: then rows->rope_dim is not 0. */
static kvc_status store(kvc_storage *s, const kvc_rows *rows, KVC_ROWS(const), const char *rope_table, size_t rope_table_bytes,
                        const int64_t *rope_rows, kvc_stream *stream) {
  KVC_WITH_ROWS(rows);
  full.rope_table = (const float *)rope_table, full.rope_rows = rope_rows;
  full.rope_table_rows = rows->rope_dim ? rope_table_bytes / (sizeof(float) * rows->rope_dim) : 0;
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

/* The arrays of a kvc_attention and of its kvc_attention_launch, which may be NULL. */
#define KVC_ATTENTION                                                                                                                  \
  const kvc_attention *attention, const void *q, void *out, float *lse, const uint64_t *q_offsets, const uint64_t *q_starts,           \
      const uint64_t *kv_lens, const int32_t *block_tables, const float *alibi_slopes, const float *sink_logits, const uint8_t *mask,  \
      const uint64_t *mask_offsets, const uint64_t *mask_starts, const uint8_t *block_mask, const kvc_attention_launch *launch,        \
      char *plan, size_t plan_bytes, char *workspace, size_t workspace_bytes
#define KVC_WITH_ATTENTION                                                                                                             \
  kvc_attention full = *attention;                                                                                                     \
  full.q = q, full.out = out, full.lse = lse, full.q_offsets = q_offsets, full.q_starts = q_starts, full.kv_lens = kv_lens;            \
  full.block_tables = block_tables, full.alibi_slopes = alibi_slopes, full.sink_logits = sink_logits, full.mask = mask;                \
  full.mask_offsets = mask_offsets, full.mask_starts = mask_starts, full.block_mask = block_mask;                                      \
  kvc_attention_launch how = {sizeof how};                                                                                             \
  if (launch) how = *launch, full.launch = &how;                                                                                       \
  how.plan = plan, how.plan_bytes = plan_bytes, how.workspace = workspace, how.workspace_bytes = workspace_bytes

static kvc_status attend(kvc_storage *s, KVC_ATTENTION, kvc_stream *stream) {
  KVC_WITH_ATTENTION;
  return kvc_storage_attend(s, &full, stream);
}
static kvc_status explain(kvc_storage *s, KVC_ATTENTION, kvc_attention_info *info) {
  KVC_WITH_ATTENTION;
  return kvc_storage_explain(s, &full, info);
}
static kvc_status select_blocks(kvc_storage *s, KVC_ATTENTION, const kvc_block_choice *choice, const uint16_t *bounds, uint8_t *picked,
                                kvc_stream *stream) {
  KVC_WITH_ATTENTION;
  kvc_block_choice own = *choice;
  own.bounds = bounds, own.block_mask = picked;
  return kvc_storage_select_blocks(s, &full, &own, stream);
}

/* outs: [num_partials][num_rows][v_dim]. */
static kvc_status merge(const void *outs, const float *lses, size_t num_partials, size_t num_rows, uint32_t v_dim, int32_t dtype, void *out,
                        float *lse) {
  const kvc_attention_partials partials = {sizeof partials, outs, lses, num_partials, num_rows, v_dim, dtype};
  return kvc_attention_merge(&partials, out, lse);
}

static kvc_status estimate_memory(const kvc_model *model, const kvc_memory_query *query, kvc_memory_estimate *estimate) {
  kvc_memory_query full = *query;
  full.model = model;
  return kvc_estimate_memory(&full, estimate);
}

static kvc_status rope_apply(const kvc_rope_rows *rows, void *x, size_t count, const char *rope_table, size_t rope_table_bytes,
                             const int64_t *rope_rows) {
  kvc_rope_rows full = *rows;
  const size_t row = sizeof(float) * (rows->rope_dim ? rows->rope_dim : rows->head_dim);
  full.x = x, full.num_tokens = count, full.table = (const float *)rope_table, full.table_row = rope_rows;
  full.table_rows = row ? rope_table_bytes / row : 0;
  return kvc_rope_apply(&full);
}

/* kvc_storage_create in memory of the caller, which outlives the storage and its exported tensors. NULL = memory of the library. */
static kvc_status storage_adopt(const kvc_storage_config *config, char *memory, size_t memory_bytes, kvc_storage **storage) {
  kvc_storage_config full = *config;
  full.memory = memory, full.memory_size = memory_bytes;
  return kvc_storage_create(&full, storage);
}
%}
