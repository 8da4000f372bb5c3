/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the C API whose structs are written as arguments, for C11 and C++ tests. */
#ifndef KVC_TESTS_CALLS_H
#define KVC_TESTS_CALLS_H

#include <kvcache.h>

/* A kvc_prompt of the full expression that it stands in. */
#ifdef __cplusplus
struct PromptArgument {
  kvc_prompt prompt;
  operator const kvc_prompt*() const { return &prompt; }
};
#define PROMPT(namespace_id, ...) (PromptArgument{kvc_prompt{sizeof(kvc_prompt), namespace_id, __VA_ARGS__}})
#else
#define PROMPT(namespace_id, ...) (&(const kvc_prompt){sizeof(kvc_prompt), namespace_id, __VA_ARGS__})
#endif

static inline kvc_status poll_events(kvc_manager* m, uint64_t* cursor, kvc_event* events, size_t event_size,
                                     size_t capacity, size_t* count, int32_t* tokens, size_t token_capacity) {
  if (count == NULL) return kvc_manager_poll_events(m, cursor, NULL);
  kvc_event_batch batch = {sizeof(kvc_event_batch), events, event_size, capacity, 0, tokens, token_capacity};
  const kvc_status status = kvc_manager_poll_events(m, cursor, &batch);
  if (status == KVC_OK) *count = batch.count;
  return status;
}

/* The pending copies of a manager that has no blocks to clear. */
static inline kvc_status take_copies(kvc_manager* m, kvc_block_copy* copies, size_t capacity, size_t* count) {
  if (count == NULL) return kvc_manager_take_pending(m, NULL);
  kvc_pending_work work = {sizeof(kvc_pending_work), copies, capacity, 0, NULL, 0, 0};
  const kvc_status status = kvc_manager_take_pending(m, &work);
  if (status == KVC_OK || status == KVC_ERROR_BUFFER_TOO_SMALL) *count = work.num_copies;
  return status;
}

/* The pending blocks to clear of a manager that has no pending copies. */
static inline kvc_status take_zero_blocks(kvc_manager* m, int32_t* blocks, size_t capacity, size_t* count) {
  if (count == NULL) return kvc_manager_take_pending(m, NULL);
  kvc_pending_work work = {sizeof(kvc_pending_work), NULL, 0, 0, blocks, capacity, 0};
  const kvc_status status = kvc_manager_take_pending(m, &work);
  if (status == KVC_OK || status == KVC_ERROR_BUFFER_TOO_SMALL) *count = work.num_zero_blocks;
  return status;
}

static inline kvc_status merge_attention(const void* outs, const float* lses, size_t num_partials,
                                         size_t num_rows, uint32_t v_dim, int32_t dtype, void* out,
                                         float* lse) {
  const kvc_attention_partials partials = {
      sizeof(kvc_attention_partials), outs, lses, num_partials, num_rows, v_dim, dtype};
  return kvc_attention_merge(&partials, out, lse);
}

#endif /* KVC_TESTS_CALLS_H */
