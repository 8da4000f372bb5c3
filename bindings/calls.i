// SPDX-License-Identifier: Apache-2.0
// Calls whose arrays are inside structs, under the same names with each array as a parameter of its own: SWIG has
// typemaps for parameters, and Go may not pass Go pointers inside structs. Nothing else happens here: the library
// checks values, and the hand-written layers check the lengths of arrays that have no count of their own.
//
// A struct for which there is a macro KVC_THE_X is its fields KVC_X in every call: flat_calls.i, which scripts/generate
// writes. The calls here do more, or have a parameter with the name of such a field. One that is called as a call of the
// library without `kvc_` stands for it: roles.i says so.

#ifdef SWIGGO
%ignore tier_submit;
#endif
%rename(kvc_storage_adopt) storage_adopt;
%rename(kvc_step_use) step_use;
%rename(kvc_step_num_failed) step_num_failed;

%inline %{
/* The fields of a kvc_namespace_config. A part that is NULL is absent. A part of no bytes is present and empty. */
#define KVC_IDENTITY const char *model, size_t model_size, const char *adapter, size_t adapter_size, const char *tenant, size_t tenant_size
#define KVC_THE_IDENTITY &(kvc_namespace_config){sizeof(kvc_namespace_config), model, adapter, tenant, model_size, adapter_size, tenant_size}

/* The fields of a kvc_prompt. */
#define KVC_PROMPT uint64_t namespace_id, const int32_t *tokens, size_t num_tokens, const kvc_extra_key *keys, size_t num_keys
#define KVC_THE_PROMPT &(kvc_prompt){sizeof(kvc_prompt), namespace_id, tokens, num_tokens, keys, num_keys}

static kvc_status manager_set_prefix_priority(kvc_manager *m, KVC_PROMPT, uint64_t first_token, uint32_t priority, uint64_t until_ns,
                                              uint64_t *num_hinted) {
  return kvc_manager_set_prefix_priority(m, KVC_THE_PROMPT, first_token, priority, until_ns, num_hinted);
}

static kvc_status index_apply(kvc_index *index, uint64_t worker, uint32_t medium, const kvc_event *events, size_t num_events, uint64_t now_ns,
                              kvc_index_applied *applied) {
  return kvc_index_apply(index, worker, medium, events, sizeof *events, num_events, now_ns, applied);
}
/* Of digests 32 bytes each; `matched` has capacity * (1 + num_media) entries. */
static kvc_status index_match(kvc_index *index, const char *digests, size_t digests_size, uint64_t *workers, size_t capacity, uint32_t *matched,
                              size_t *count) {
  return kvc_index_match(index, (const uint8_t *)digests, digests_size / 32, workers, matched, capacity, count);
}
static kvc_status index_match_tokens(kvc_index *index, const uint8_t *root, const int32_t *tokens, size_t num_tokens, uint32_t block_size,
                                     uint64_t *workers, size_t capacity, uint32_t *matched, size_t *count) {
  return kvc_index_match_tokens(index, root, tokens, num_tokens, block_size, workers, matched, capacity, count);
}
static kvc_status index_digests(const uint8_t *root, const int32_t *tokens, size_t num_tokens, uint32_t block_size, char *digests,
                                size_t digests_size, size_t *count) {
  return kvc_index_digests(root, tokens, num_tokens, block_size, (uint8_t *)digests, digests_size / 32, count);
}
/* Its name, of at most 63 bytes, in `names`; last_heard_ns, then num_blocks, next_sequence and is_stale of each of KVC_INDEX_MAX_MEDIA. */
static kvc_status index_worker_info(kvc_index *index, uint64_t worker, char *names, size_t capacity, uint64_t *worker_numbers) {
  kvc_index_worker info = {.struct_size = sizeof info};
  const kvc_status status = kvc_index_worker_info(index, worker, &info);
  if (status != KVC_OK) return status;
  memcpy(names, info.name, capacity < sizeof info.name ? capacity : sizeof info.name);
  *worker_numbers++ = info.last_heard_ns;
  for (int i = 0; i < KVC_INDEX_MAX_MEDIA; ++i) *worker_numbers++ = info.num_blocks[i];
  for (int i = 0; i < KVC_INDEX_MAX_MEDIA; ++i) *worker_numbers++ = info.next_sequence[i];
  for (int i = 0; i < KVC_INDEX_MAX_MEDIA; ++i) *worker_numbers++ = info.is_stale[i];
  return KVC_OK;
}

/* One for each request; an array that is shorter is not written. */
static kvc_status manager_admit_batch(kvc_manager *m, const uint64_t *requests, size_t num_requests, uint64_t *cached, size_t num_cached,
                                      int32_t *statuses, size_t num_statuses) {
  return kvc_manager_admit_batch(m, requests, num_requests, num_cached < num_requests ? NULL : cached, num_statuses < num_requests ? NULL : statuses);
}

/* num_entries is num_requests * row_stride. */
static kvc_status manager_export_tables(kvc_manager *m, const uint64_t *requests, size_t num_requests, uint32_t group, int32_t fill_id,
                                        int32_t *tables, size_t num_entries) {
  return kvc_manager_export_tables(m, requests, num_requests, group, fill_id, tables, num_requests ? num_entries / num_requests : 0);
}

static kvc_status manager_export_slots(kvc_manager *m, uint64_t request, uint32_t group, uint64_t first_token, int64_t *slots, size_t num_slots) {
  return kvc_manager_export_slots(m, request, group, first_token, num_slots, slots, sizeof *slots);
}

static kvc_status manager_take_pending(kvc_manager *m, kvc_block_copy *copies, size_t capacity, int32_t *zero_blocks, size_t zero_capacity,
                                       size_t *num_copies, size_t *num_zero_blocks) {
  kvc_pending_work work = {sizeof work, copies, capacity, 0, zero_blocks, zero_capacity, 0};
  const kvc_status status = kvc_manager_take_pending(m, &work);
  *num_copies = work.num_copies, *num_zero_blocks = work.num_zero_blocks;
  return status;
}

static kvc_status manager_rebuild(kvc_manager *m, const kvc_manager_config *config, kvc_token_copy *copies, size_t capacity,
                                  kvc_namespace_pair *pairs, size_t pair_capacity, kvc_manager **manager, size_t *num_copies, size_t *num_pairs) {
  kvc_rebuild work = {sizeof work, copies, capacity, 0, pairs, pair_capacity, 0, 0};
  const kvc_status status = kvc_manager_rebuild(m, config, &work, manager);
  *num_copies = work.num_copies, *num_pairs = work.num_namespaces;
  return status;
}

/* `next` is the cursor to read from next. Without room for tokens, no tokens are wanted. */
static kvc_status manager_poll_events(kvc_manager *m, uint64_t cursor, kvc_event *events, size_t capacity, int32_t *tokens, size_t token_capacity,
                                      uint64_t *next, size_t *count) {
  kvc_event_batch batch = {sizeof batch, events, sizeof *events, capacity, 0, token_capacity ? tokens : NULL, token_capacity};
  *next = cursor;
  const kvc_status status = kvc_manager_poll_events(m, next, &batch);
  *count = batch.count;
  return status;
}

/* `next` is the cursor to go on from, 0 at the end. `event_cursor` is 0 unless `cursor` is. */
static kvc_status manager_list_prefixes(kvc_manager *m, uint64_t cursor, kvc_event *events, size_t capacity, int32_t *tokens, size_t token_capacity,
                                        uint64_t *next, uint64_t *event_cursor, size_t *count) {
  kvc_event_batch batch = {sizeof batch, events, sizeof *events, capacity, 0, token_capacity ? tokens : NULL, token_capacity};
  *next = cursor, *event_cursor = 0;
  const kvc_status status = kvc_manager_list_prefixes(m, next, event_cursor, &batch);
  *count = batch.count;
  return status;
}

/* Runs a step with the options of its new requests: a namespace, a config and an offset into the keys for each admission. Where an array is
   NULL, the step keeps its own. Afterwards the step is as before. */
static kvc_status manager_step(kvc_manager *m, kvc_step *step, const uint64_t *namespaces, size_t num_namespaces, const kvc_request_config *configs,
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
static kvc_status storage_store(kvc_storage *s, const kvc_rows *rows, KVC_ROWS(const), const char *rope_table, size_t rope_table_bytes,
                                const int64_t *rope_rows, kvc_stream *stream) {
  KVC_WITH_ROWS(rows);
  full.rope_table = (const float *)rope_table, full.rope_rows = rope_rows;
  full.rope_table_rows = rows->rope_dim ? rope_table_bytes / (sizeof(float) * rows->rope_dim) : 0;
  return kvc_storage_store(s, &full, stream);
}
static kvc_status storage_gather(kvc_storage *s, const kvc_rows *rows, KVC_ROWS(), kvc_stream *stream) {
  KVC_WITH_ROWS(rows);
  return kvc_storage_gather(s, &full, stream);
}
static kvc_status storage_measure(kvc_storage *s, const kvc_rows *rows, KVC_ROWS(const), kvc_quant_metrics *keys, kvc_quant_metrics *values) {
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

static kvc_status storage_attend(kvc_storage *s, KVC_ATTENTION, kvc_stream *stream) {
  KVC_WITH_ATTENTION;
  return kvc_storage_attend(s, &full, stream);
}
static kvc_status storage_explain(kvc_storage *s, KVC_ATTENTION, kvc_attention_info *info) {
  KVC_WITH_ATTENTION;
  return kvc_storage_explain(s, &full, info);
}
static kvc_status storage_select_blocks(kvc_storage *s, KVC_ATTENTION, const kvc_block_choice *choice, const uint16_t *bounds, uint8_t *picked,
                                        kvc_stream *stream) {
  KVC_WITH_ATTENTION;
  kvc_block_choice own = *choice;
  own.bounds = bounds, own.block_mask = picked;
  return kvc_storage_select_blocks(s, &full, &own, stream);
}

/* outs: [num_partials][num_rows][v_dim]. */
static kvc_status attention_merge(const void *outs, const float *lses, size_t num_partials, size_t num_rows, uint32_t v_dim, int32_t dtype, void *out,
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

/* The fields of a kvc_page_config. */
#define KVC_PAGES const char *model, size_t model_size, const char *weights, size_t weights_size, const char *numerics, size_t numerics_size, \
                  uint32_t num_layers, uint32_t num_heads, uint32_t first_layer, uint32_t first_head
#define KVC_THE_PAGES &(kvc_page_config){sizeof(kvc_page_config), model, weights, numerics, model_size, weights_size, numerics_size, \
                                         num_layers, num_heads, first_layer, first_head}

/* fingerprint: [32] */
static kvc_status storage_page_properties(kvc_storage *s, KVC_PAGES, uint8_t *fingerprint, uint64_t *page_bytes, uint64_t *part_bytes) {
  kvc_page_info info = {sizeof info};
  const kvc_status status = kvc_storage_page_properties(s, KVC_THE_PAGES, &info);
  if (status != KVC_OK) return status;
  memcpy(fingerprint, info.fingerprint, sizeof info.fingerprint);
  *page_bytes = info.page_bytes, *part_bytes = info.part_bytes;
  return KVC_OK;
}

/* Digests and keys are of 32 bytes each, one behind the other. */
static kvc_status manager_position_digests(kvc_manager *m, KVC_PROMPT, char *digests, size_t digests_size, size_t *count) {
  return kvc_manager_position_digests(m, KVC_THE_PROMPT, (uint8_t *)digests, digests_size / 32, count);
}
/* page_keys has room for as many keys as there are digests; fingerprint: [32]. */
static kvc_status page_key(const char *digests, size_t digests_size, uint32_t group, const uint8_t *fingerprint, char *page_keys,
                           size_t page_keys_size) {
  kvc_status status = KVC_OK;
  for (size_t i = 0; i < digests_size / 32 && i < page_keys_size / 32 && status == KVC_OK; ++i)
    status = kvc_page_key((const uint8_t *)digests + 32 * i, group, fingerprint, (uint8_t *)page_keys + 32 * i);
  return status;
}

/* fingerprint: [32] */
static kvc_status tier_create(const char *url, const uint8_t *fingerprint, uint64_t page_bytes, uint64_t max_store_bytes, kvc_tier **tier) {
  kvc_tier_config config = {sizeof config, url, {0}, page_bytes, max_store_bytes, NULL};
  if (fingerprint) memcpy(config.fingerprint, fingerprint, sizeof config.fingerprint);
  return kvc_tier_create(&config, tier);
}

/* The items and what they point to stay where they are until the job was polled. */
static kvc_status tier_submit(kvc_tier *t, kvc_tier_item *items, size_t num_items, uint32_t kind, uint32_t priority, uint64_t now_ns,
                              uint64_t lease_ns, uint64_t timeout_ns, uint64_t user_data, uint64_t *job) {
  const kvc_tier_job full = {sizeof full, items, num_items, kind, priority, now_ns, lease_ns, timeout_ns, user_data};
  return kvc_tier_submit(t, &full, job);
}
%}

// ---- speculation: drafts, verdicts and probabilities as arrays of their own

%inline %{
/* The fields of a kvc_drafts and of a kvc_verdict. There is an offset more than there are requests. */
#define KVC_DRAFTS const uint64_t *draft_offsets, size_t num_draft_offsets, const int32_t *draft_tokens, const int32_t *draft_parents
#define KVC_THE_DRAFTS &(kvc_drafts){sizeof(kvc_drafts), num_draft_offsets ? num_draft_offsets - 1 : 0, draft_offsets, draft_tokens, draft_parents}
#define KVC_VERDICT int32_t *path, uint64_t *num_accepted, int32_t *next_tokens
#define KVC_THE_VERDICT &(kvc_verdict){sizeof(kvc_verdict), path, num_accepted, next_tokens}
#define KVC_DISTRIBUTION uint32_t flags, uint32_t vocab, const float *p, const int32_t *p_ids, size_t p_width

static kvc_status verify_sampling(KVC_DRAFTS, KVC_DISTRIBUTION, const float *q, const int32_t *q_ids, size_t q_width, size_t num_q_rows,
                                  const int64_t *q_rows, const double *uniforms, KVC_VERDICT) {
  const kvc_probabilities from = {sizeof from, flags, vocab, p, p_ids, p_width, q, q_ids, q_width, num_q_rows, q_rows, uniforms};
  return kvc_verify_sampling(KVC_THE_DRAFTS, &from, KVC_THE_VERDICT);
}
static kvc_status verify_typical(KVC_DRAFTS, KVC_DISTRIBUTION, const double *uniforms, double epsilon, double delta, KVC_VERDICT) {
  const kvc_probabilities from = {sizeof from, flags, vocab, p, p_ids, p_width, NULL, NULL, 0, 0, NULL, uniforms};
  return kvc_verify_typical(KVC_THE_DRAFTS, &from, epsilon, delta, KVC_THE_VERDICT);
}
static kvc_status verdict_moves(KVC_DRAFTS, const int32_t *accepted_path, const uint64_t *accepted_counts, uint32_t group, uint32_t block_size,
                                const uint64_t *starts, const int32_t *block_tables, size_t table_stride, kvc_token_copy *copies, size_t capacity,
                                size_t *count) {
  const kvc_verdict verdict = {sizeof verdict, (int32_t *)accepted_path, (uint64_t *)accepted_counts, NULL};
  const kvc_draft_tables tables = {sizeof tables, group, block_size, starts, block_tables, table_stride};
  return kvc_verdict_moves(KVC_THE_DRAFTS, &verdict, &tables, copies, capacity, count);
}
/* states: one for each row. copies: room for one for each request. */
static kvc_status verdict_states(KVC_DRAFTS, const int32_t *accepted_path, const uint64_t *accepted_counts, uint32_t block_size,
                                 const uint64_t *starts, const int32_t *block_tables, size_t table_stride, const int32_t *states,
                                 kvc_block_copy *copies, size_t capacity) {
  const kvc_verdict verdict = {sizeof verdict, (int32_t *)accepted_path, (uint64_t *)accepted_counts, NULL};
  const kvc_draft_tables tables = {sizeof tables, 0, block_size, starts, block_tables, table_stride};
  (void)capacity;
  return kvc_verdict_states(KVC_THE_DRAFTS, &verdict, &tables, states, copies);
}
static kvc_status draft_append(kvc_draft *draft, const int32_t *draft_rows, size_t num_draft_rows, const uint64_t *draft_starts,
                               const int32_t *draft_tokens) {
  return kvc_draft_append(draft, draft_rows, num_draft_rows, draft_starts, draft_tokens);
}
static kvc_status draft_propose(kvc_draft *draft, const int32_t *draft_rows, size_t num_draft_rows, const int32_t *max_lengths, uint64_t *ends,
                                int32_t *drafted, size_t drafted_capacity, size_t *count) {
  return kvc_draft_propose(draft, draft_rows, num_draft_rows, (const uint32_t *)max_lengths, ends, drafted, drafted_capacity, count);
}
/* A kvc_acceptance as words; the first is its size. */
static kvc_status acceptance_add(uint64_t *acceptance, KVC_DRAFTS, const int32_t *accepted_path, const uint64_t *accepted_counts) {
  const kvc_verdict verdict = {sizeof verdict, (int32_t *)accepted_path, (uint64_t *)accepted_counts, NULL};
  return kvc_acceptance_add((kvc_acceptance *)acceptance, KVC_THE_DRAFTS, &verdict);
}
static kvc_status acceptance_halve(uint64_t *acceptance) { return kvc_acceptance_halve((kvc_acceptance *)acceptance); }
static kvc_status acceptance_length(const uint64_t *acceptance, const double *costs, size_t num_costs, int32_t *best_length, double *expected) {
  uint32_t length;
  const kvc_status status = kvc_acceptance_length((const kvc_acceptance *)acceptance, costs, num_costs, &length, expected);
  if (status == KVC_OK) *best_length = (int32_t)length;
  return status;
}
%}

// ---- scheduler: jobs, plans and results as arrays of their own

%inline %{
static kvc_status scheduler_create(const kvc_scheduler_config *config, kvc_manager *m, kvc_offload *optional_offload, kvc_scheduler **scheduler) {
  kvc_scheduler_config full = *config;
  full.manager = m, full.offload = optional_offload;
  return kvc_scheduler_create(&full, scheduler);
}
static kvc_status scheduler_add(kvc_scheduler *s, KVC_PROMPT, const kvc_request_config *config, uint64_t max_new_tokens, uint64_t expected_new_tokens,
                                int32_t priority, uint32_t tenant, uint64_t adapter, const kvc_encoder_input *inputs, size_t num_inputs,
                                uint32_t flags, uint64_t now_ns, uint64_t *request) {
  const kvc_schedule_job job = {sizeof job, KVC_THE_PROMPT, config, max_new_tokens, expected_new_tokens, priority, tenant,
                                adapter, inputs, num_inputs, flags, 0, now_ns};
  return kvc_scheduler_add(s, &job, request);
}
/* A count below 0 is refused as one that is too large. */
static kvc_status scheduler_set_drafts(kvc_scheduler *s, const uint64_t *requests, size_t num_requests, const int32_t *draft_counts) {
  return kvc_scheduler_set_drafts(s, requests, (const uint32_t *)draft_counts, num_requests);
}
/* `count` is that of requests that have ended. No offsets: as in kvc_plan_result. */
static kvc_status scheduler_finish(kvc_scheduler *s, uint64_t plan_id, uint64_t num_items, const uint64_t *token_offsets, const int32_t *sampled,
                                   const uint8_t *stopped, uint32_t flags, kvc_ended_request *ended, size_t capacity, size_t *count) {
  kvc_plan_result result = {sizeof result, plan_id, num_items, token_offsets, sampled, stopped, flags, 0,
                            capacity < num_items ? NULL : ended, 0};
  const kvc_status status = kvc_scheduler_finish(s, &result);
  *count = result.num_ended;
  return status;
}

%}

#ifndef SWIGGO
#ifdef SWIGJAVA
%ignore plan_view;
#endif
%rename(kvc_plan_view) plan_view;
%inline %{
/* Array number `array` of a plan, in the order of kvc_plan, in memory of its scheduler. A struct is a row of its fields; a kvc_ended_request is two
   words. */
static kvc_status plan_view(const kvc_plan *plan, int32_t array, kvc_view *view) {
#define KVC_PLAN_VIEW(field, type, ...) {(void *)plan->field, type, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}, {0}}
  const int64_t items = (int64_t)plan->num_items, groups = (int64_t)plan->num_groups;
  const kvc_view all[] = {
      KVC_PLAN_VIEW(requests, KVC_UINT64, items),
      KVC_PLAN_VIEW(rows, KVC_INT32, items),
      KVC_PLAN_VIEW(first_tokens, KVC_UINT64, items),
      KVC_PLAN_VIEW(token_offsets, KVC_UINT64, items + 1),
      KVC_PLAN_VIEW(num_drafts, KVC_INT32, items),
      KVC_PLAN_VIEW(samples, KVC_UINT8, items),
      KVC_PLAN_VIEW(is_new, KVC_UINT8, items),
      KVC_PLAN_VIEW(block_tables, KVC_INT32, groups, (int64_t)plan->num_rows, (int64_t)plan->row_stride),
      KVC_PLAN_VIEW(slots, KVC_INT64, groups, (int64_t)plan->num_tokens),
      KVC_PLAN_VIEW(copies, KVC_INT32, (int64_t)plan->num_copies, 2),
      KVC_PLAN_VIEW(changes, KVC_INT32, (int64_t)plan->num_changes, 4),
      KVC_PLAN_VIEW(preempted, KVC_UINT64, (int64_t)plan->num_preempted),
      KVC_PLAN_VIEW(encoder_runs, KVC_INT32, (int64_t)plan->num_encoder_runs, 2),
      KVC_PLAN_VIEW(ended, KVC_UINT64, (int64_t)plan->num_ended, 2),
  };
  if (array < 0 || (size_t)array >= sizeof all / sizeof *all) return KVC_ERROR_INVALID_ARGUMENT;
  *view = all[array];
  int64_t stride = view->dtype == KVC_UINT8 ? 1 : view->dtype == KVC_INT32 ? 4 : 8;
  for (int32_t i = view->ndim; i-- > 0; stride *= view->shape[i]) view->strides[i] = stride;
  if (view->data == plan->slots) view->strides[0] = (int64_t)plan->slot_stride * 8;
  return KVC_OK;
}
%}
#endif
#ifdef SWIGJAVA
%inline %{
static kvc_bytes kvc_plan_bytes(const kvc_plan *plan, int32_t array) {
  kvc_view view;
  kvc_bytes bytes = {NULL, 0};
  if (plan_view(plan, array, &view) == KVC_OK) bytes.data = view.data, bytes.size = (size_t)(view.shape[0] * view.strides[0]);
  return bytes;
}
%}
#endif

// ---- checkpoints and offload: objects of the groups as an array

%inline %{
/* storages: one for each group; a missing one is NULL. */
#define KVC_STORAGES kvc_storage *const *storages, size_t num_storages

static kvc_status checkpoint_save(kvc_manager *m, KVC_STORAGES, KVC_PAGES, const char *folder, const char *codec, int32_t level, uint32_t flags,
                                  uint32_t keep_last, uint64_t interval_ns, uint64_t last_ns, uint64_t now_ns, kvc_checkpoint_info *info) {
  const kvc_checkpoint_config config = {sizeof config, folder, KVC_THE_PAGES, codec, 0, level, flags, keep_last, 0, interval_ns, last_ns, now_ns};
  return kvc_checkpoint_save(m, storages, num_storages, &config, info);
}
static kvc_status checkpoint_restore(kvc_manager *m, KVC_STORAGES, KVC_PAGES, const char *folder, uint64_t id, uint32_t flags,
                                     kvc_namespace_pair *pairs, size_t pair_capacity, kvc_request_pair *request_pairs, size_t request_capacity,
                                     kvc_checkpoint_info *info) {
  const kvc_checkpoint_config config = {sizeof config, folder, KVC_THE_PAGES, NULL, id, 0, flags, 0, 0, 0, 0, 0};
  return kvc_checkpoint_restore(m, storages, num_storages, &config, pairs, pair_capacity, request_pairs, request_capacity, info);
}
static kvc_status checkpoint_measure(kvc_manager *m, KVC_STORAGES, KVC_PAGES, const char *folder, const char *codec, uint32_t flags,
                                     kvc_checkpoint_needs *needs) {
  const kvc_checkpoint_config config = {sizeof config, folder, KVC_THE_PAGES, codec, 0, 0, flags, 0, 0, 0, 0, 0};
  return kvc_checkpoint_measure(m, storages, num_storages, &config, needs);
}
static kvc_status checkpoint_save_stream(kvc_manager *m, KVC_STORAGES, KVC_PAGES, int32_t fd, const char *codec, int32_t level, uint32_t flags,
                                         kvc_checkpoint_info *info) {
  const kvc_checkpoint_config config = {sizeof config, NULL, KVC_THE_PAGES, codec, 0, level, flags, 0, 0, 0, 0, 0};
  return kvc_checkpoint_save_stream(m, storages, num_storages, &config, fd, info);
}
/* folder: "" = in memory */
static kvc_status checkpoint_restore_stream(kvc_manager *m, KVC_STORAGES, KVC_PAGES, int32_t fd, const char *folder, uint32_t flags,
                                            kvc_namespace_pair *pairs, size_t pair_capacity, kvc_request_pair *request_pairs, size_t request_capacity,
                                            kvc_checkpoint_info *info) {
  const kvc_checkpoint_config config = {sizeof config, folder != NULL && *folder != 0 ? folder : NULL, KVC_THE_PAGES, NULL, 0, 0, flags, 0, 0, 0, 0, 0};
  return kvc_checkpoint_restore_stream(m, storages, num_storages, &config, fd, pairs, pair_capacity, request_pairs, request_capacity, info);
}
static kvc_status checkpoint_compact(const char *folder, uint64_t id, const char *codec, int32_t level, uint32_t flags, uint32_t keep_last,
                                     kvc_checkpoint_info *info) {
  const kvc_checkpoint_config config = {sizeof config, folder, NULL, codec, id, level, flags, keep_last, 0, 0, 0, 0};
  return kvc_checkpoint_compact(&config, info);
}
/* fingerprint: [32] */
static kvc_status manager_content_digest(kvc_manager *m, uint8_t *fingerprint) { return kvc_manager_content_digest(m, fingerprint); }

/* Without storages, page_sizes has the bytes of a page of each group. */
static kvc_status offload_create(kvc_manager *m, KVC_STORAGES, const uint64_t *page_sizes, size_t num_page_sizes, kvc_tier *const *tiers,
                                 size_t num_tiers, KVC_PAGES, uint32_t policy, uint32_t flags, uint32_t num_pages, uint32_t max_lookups,
                                 uint32_t max_lookup_blocks, uint32_t clean_blocks, uint64_t timeout_ns, uint64_t hold_ns,
                                 double compute_ns_per_token, uint64_t min_load_tokens, uint64_t retry_ns, kvc_offload **offload) {
  const kvc_offload_config config = {sizeof config, m, num_storages ? storages : NULL, num_page_sizes ? page_sizes : NULL, tiers, num_tiers,
                                     KVC_THE_PAGES, policy, flags, num_pages, max_lookups, max_lookup_blocks, clean_blocks, timeout_ns, hold_ns,
                                     compute_ns_per_token, NULL, min_load_tokens, retry_ns};
  return kvc_offload_create(&config, offload);
}
static kvc_status offload_store_request(kvc_offload *o, uint64_t request, uint64_t *num_stored) {
  return kvc_offload_store_request(o, request, num_stored);
}

/* Texts that are NULL or empty are absent. */
static const char *kvc_present(const char *text) { return text && *text ? text : NULL; }
static kvc_status publisher_create(kvc_manager *m, const char *url, const char *topic, const char *medium, const char *hash_seed, uint64_t groups,
                                   uint64_t interval_ns, uint64_t replay_bytes, uint64_t resync_interval_ns, uint32_t replay_batches,
                                   uint32_t max_blocks, uint32_t rank, uint32_t hash, uint32_t flags, kvc_publisher **publisher) {
  const kvc_publisher_config config = {sizeof config, m, kvc_present(url), kvc_present(topic), kvc_present(medium), kvc_present(hash_seed), groups,
                                       interval_ns, replay_bytes, resync_interval_ns, replay_batches, max_blocks, rank, hash, flags, 0};
  return kvc_publisher_create(&config, publisher);
}
/* `count` is in bytes. */
static kvc_status publisher_read(kvc_publisher *p, uint64_t sequence, char *payload, size_t capacity, uint64_t *found, size_t *count) {
  return kvc_publisher_read(p, sequence, found, payload, capacity, count);
}
static kvc_status publisher_name_namespace(kvc_publisher *p, uint64_t namespace_id, const char *lora_name, const char *lora_path,
                                           const char *cache_salt) {
  const kvc_publisher_namespace name = {sizeof name, namespace_id, kvc_present(lora_name), kvc_present(lora_path), kvc_present(cache_salt)};
  return kvc_publisher_name_namespace(p, &name);
}
%}

// ---- metrics: objects of each kind as arrays, and the labels of each object as texts


%{
#define KVC_SOURCES kvc_manager *const *managers, size_t num_managers, kvc_storage *const *storages, size_t num_storages, kvc_tier *const *tiers, \
                    size_t num_tiers, kvc_offload *const *offloads, size_t num_offloads, kvc_scheduler *const *schedulers, size_t num_schedulers
#define KVC_THE_SOURCES managers, num_managers, storages, num_storages, tiers, num_tiers, offloads, num_offloads, schedulers, num_schedulers

/* One source for each object, in the order of the arrays. Labels in that order: of each object so many pairs of texts that end with a 0. NULL: no
   memory, or the texts end too early. Free it. */
static kvc_metrics_source *kvc_gather_sources(KVC_SOURCES, const char *label_texts, size_t label_bytes, const uint64_t *label_counts,
                                              size_t num_label_counts) {
  const size_t count = num_managers + num_storages + num_tiers + num_offloads + num_schedulers;
  size_t num_labels = 0;
  for (size_t i = 0; i < num_label_counts; ++i) num_labels += (size_t)label_counts[i];
  if (num_labels > label_bytes) return NULL;
  kvc_metrics_source *sources = calloc(1, count * sizeof *sources + num_labels * sizeof(kvc_label) + 1);
  if (!sources) return NULL;
  kvc_label *label = (kvc_label *)(sources + count);
  const char *at = label_texts, *end = label_texts + label_bytes;
  for (size_t i = 0, n = 0; i < count; ++i) {
    kvc_metrics_source *source = &sources[i];
    source->struct_size = sizeof *source;
    n = i;
    if (n < num_managers) source->manager = managers[n];
    else if ((n -= num_managers) < num_storages) source->storage = storages[n];
    else if ((n -= num_storages) < num_tiers) source->tier = tiers[n];
    else if ((n -= num_tiers) < num_offloads) source->offload = offloads[n];
    else source->scheduler = schedulers[n - num_offloads];
    source->labels = label;
    source->num_labels = i < num_label_counts ? (size_t)label_counts[i] : 0;
    for (size_t l = 0; l < source->num_labels; ++l, ++label) {
      const char *value = memchr(at, 0, (size_t)(end - at));
      const char *after = value ? memchr(value + 1, 0, (size_t)(end - value - 1)) : NULL;
      if (!after) {
        free(sources);
        return NULL;
      }
      label->name = at;
      label->value = value + 1;
      at = after + 1;
    }
  }
  return sources;
}
%}

%inline %{
static kvc_status metrics_render(kvc_manager *const *managers, size_t num_managers, kvc_storage *const *storages, size_t num_storages,
                                 kvc_tier *const *tiers, size_t num_tiers, kvc_offload *const *offloads, size_t num_offloads,
                                 kvc_scheduler *const *schedulers, size_t num_schedulers, const char *label_texts, size_t label_bytes,
                                 const uint64_t *label_counts, size_t num_label_counts, uint32_t flags, char *text, size_t capacity, size_t *count) {
  kvc_metrics_source *sources = kvc_gather_sources(KVC_THE_SOURCES, label_texts, label_bytes, label_counts, num_label_counts);
  if (!sources) return KVC_ERROR_OUT_OF_MEMORY;
  const kvc_status status =
      kvc_metrics_render(sources, num_managers + num_storages + num_tiers + num_offloads + num_schedulers, flags, text, capacity, count);
  free(sources);
  return status;
}
static kvc_status metrics_enable_latencies(kvc_manager *const *managers, size_t num_managers, kvc_storage *const *storages, size_t num_storages,
                                           kvc_tier *const *tiers, size_t num_tiers, kvc_offload *const *offloads, size_t num_offloads,
                                           kvc_scheduler *const *schedulers, size_t num_schedulers) {
  kvc_metrics_source *sources = kvc_gather_sources(KVC_THE_SOURCES, NULL, 0, NULL, 0);
  if (!sources) return KVC_ERROR_OUT_OF_MEMORY;
  const kvc_status status = kvc_metrics_enable_latencies(sources, num_managers + num_storages + num_tiers + num_offloads + num_schedulers);
  free(sources);
  return status;
}
/* Of the only object. */
static kvc_status metrics_read_latency(kvc_manager *const *managers, size_t num_managers, kvc_storage *const *storages, size_t num_storages,
                                       kvc_tier *const *tiers, size_t num_tiers, kvc_offload *const *offloads, size_t num_offloads,
                                       kvc_scheduler *const *schedulers, size_t num_schedulers, uint32_t latency, kvc_latency *info) {
  kvc_metrics_source *sources = kvc_gather_sources(KVC_THE_SOURCES, NULL, 0, NULL, 0);
  if (!sources) return KVC_ERROR_OUT_OF_MEMORY;
  const kvc_status status = kvc_metrics_read_latency(sources, latency, info);
  free(sources);
  return status;
}
static kvc_status metrics_read_memory(kvc_manager *const *managers, size_t num_managers, kvc_storage *const *storages, size_t num_storages,
                                      kvc_tier *const *tiers, size_t num_tiers, kvc_offload *const *offloads, size_t num_offloads,
                                      kvc_scheduler *const *schedulers, size_t num_schedulers, kvc_memory_profile *profile) {
  kvc_metrics_source *sources = kvc_gather_sources(KVC_THE_SOURCES, NULL, 0, NULL, 0);
  if (!sources) return KVC_ERROR_OUT_OF_MEMORY;
  const kvc_status status = kvc_metrics_read_memory(sources, num_managers + num_storages + num_tiers + num_offloads + num_schedulers, profile);
  free(sources);
  return status;
}
%}
