/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the C API whose structs are written as arguments, for C11 and C++ tests. */
#ifndef KVC_TESTS_CALLS_H
#define KVC_TESTS_CALLS_H

#include <kvcache/request.h>

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

#endif /* KVC_TESTS_CALLS_H */
