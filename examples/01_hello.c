/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest engine: one request, from its prompt to its end, and what the next request finds of it. */
#include <kvcache.h>
#include <stdio.h>

#define TRY(call) \
  if ((call) != KVC_OK) return fprintf(stderr, "%s\n", kvc_last_error()), 1

int main(void) {
  const kvc_manager_config config = {.struct_size = sizeof config,
                                     .num_blocks = 64}; /* blocks of 16 tokens */
  kvc_manager* m;
  TRY(kvc_manager_create(&config, &m));

  int32_t tokens[40], table[4];
  for (int32_t i = 0; i < 40; ++i) tokens[i] = 1000 + i;
  const kvc_prompt prompt = {.struct_size = sizeof prompt, .tokens = tokens, .num_tokens = 40};
  uint64_t request, cached;
  TRY(kvc_manager_allocate_request(m, &prompt, NULL, &request, &cached));
  TRY(kvc_manager_export_tables(m, &request, 1, 0, -1, table, 4));
  printf("prompt of 40 tokens: %d cached, in blocks %d %d %d\n", (int)cached, table[0], table[1], table[2]);

  /* ... the model computes tokens [cached, 40) and writes their KV into those blocks ... */
  TRY(kvc_manager_commit_tokens(m, request, 40));

  const int32_t next = 7; /* one decode step: token 40 goes to the slot that the library names */
  int64_t slot;
  TRY(kvc_manager_append_tokens(m, request, &next, 1));
  TRY(kvc_manager_export_slots(m, request, 0, 40, 1, &slot, sizeof slot));
  TRY(kvc_manager_commit_tokens(m, request, 41));
  printf("next token: slot %d, that is block %d, place %d\n", (int)slot, (int)slot / 16, (int)slot % 16);
  TRY(kvc_manager_free_request(m, request)); /* its full blocks stay findable until somebody needs the room */

  TRY(kvc_manager_allocate_request(m, &prompt, NULL, &request, &cached));
  printf("the same prompt again: %d of 40 tokens need no compute\n", (int)cached);
  kvc_manager_destroy(m);
  return cached == 32 && slot == 40 ? 0 : 1;
}
