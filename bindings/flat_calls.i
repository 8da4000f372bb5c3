// SPDX-License-Identifier: Apache-2.0
// Written by scripts/generate: calls with the fields of a struct in its place. calls.i explains it.
KVC_INSTEAD(kvc_manager_acquire_prefix, manager_acquire_prefix)
KVC_INSTEAD(kvc_manager_publish_blocks, manager_publish_blocks)
KVC_INSTEAD(kvc_index_root, index_root)
KVC_INSTEAD(kvc_manager_open_namespace, manager_open_namespace)
KVC_INSTEAD(kvc_storage_page_runs, storage_page_runs)
KVC_INSTEAD(kvc_manager_probe, manager_probe)
KVC_INSTEAD(kvc_manager_pin_prefix, manager_pin_prefix)
KVC_INSTEAD(kvc_manager_drop_prefix, manager_drop_prefix)
KVC_INSTEAD(kvc_manager_create_request, manager_create_request)
KVC_INSTEAD(kvc_manager_allocate_request, manager_allocate_request)
KVC_INSTEAD(kvc_manager_register_prompt, manager_register_prompt)
KVC_INSTEAD(kvc_drafts_check, drafts_check)
KVC_INSTEAD(kvc_verify_greedy, verify_greedy)
%inline %{
static kvc_status manager_acquire_prefix(kvc_manager *m, KVC_PROMPT, uint32_t group, int32_t *blocks, size_t capacity, size_t *count) {
  return kvc_manager_acquire_prefix(m, KVC_THE_PROMPT, group, blocks, capacity, count);
}
static kvc_status manager_publish_blocks(kvc_manager *m, KVC_PROMPT, uint32_t group, const int32_t *blocks, size_t num_blocks) {
  return kvc_manager_publish_blocks(m, KVC_THE_PROMPT, group, blocks, num_blocks);
}
static kvc_status index_root(KVC_IDENTITY, uint8_t *root) {
  return kvc_index_root(KVC_THE_IDENTITY, root);
}
static kvc_status manager_open_namespace(kvc_manager *m, KVC_IDENTITY, uint64_t *namespace_id) {
  return kvc_manager_open_namespace(m, KVC_THE_IDENTITY, namespace_id);
}
static kvc_status storage_page_runs(kvc_storage *s, KVC_PAGES, kvc_run *runs, size_t capacity, size_t *count) {
  return kvc_storage_page_runs(s, KVC_THE_PAGES, runs, capacity, count);
}
static kvc_status manager_probe(kvc_manager *m, KVC_PROMPT, kvc_probe_info *info) {
  return kvc_manager_probe(m, KVC_THE_PROMPT, info);
}
static kvc_status manager_pin_prefix(kvc_manager *m, KVC_PROMPT, uint64_t *pin, uint64_t *num_pinned) {
  return kvc_manager_pin_prefix(m, KVC_THE_PROMPT, pin, num_pinned);
}
static kvc_status manager_drop_prefix(kvc_manager *m, KVC_PROMPT, uint64_t *num_dropped) {
  return kvc_manager_drop_prefix(m, KVC_THE_PROMPT, num_dropped);
}
static kvc_status manager_create_request(kvc_manager *m, KVC_PROMPT, const kvc_request_config *config, uint64_t *request) {
  return kvc_manager_create_request(m, KVC_THE_PROMPT, config, request);
}
static kvc_status manager_allocate_request(kvc_manager *m, KVC_PROMPT, const kvc_request_config *config, uint64_t *request, uint64_t *num_cached) {
  return kvc_manager_allocate_request(m, KVC_THE_PROMPT, config, request, num_cached);
}
static kvc_status manager_register_prompt(kvc_manager *m, const char *name, KVC_PROMPT, uint64_t *num_pinned) {
  return kvc_manager_register_prompt(m, name, KVC_THE_PROMPT, num_pinned);
}
static kvc_status drafts_check(KVC_DRAFTS) {
  return kvc_drafts_check(KVC_THE_DRAFTS);
}
static kvc_status verify_greedy(KVC_DRAFTS, const int32_t *target_tokens, KVC_VERDICT) {
  return kvc_verify_greedy(KVC_THE_DRAFTS, target_tokens, KVC_THE_VERDICT);
}
%}
