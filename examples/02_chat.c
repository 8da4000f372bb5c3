/* SPDX-License-Identifier: Apache-2.0 */
/* Two users with the same system prompt, one of them with a second turn: what is computed once and what is
 * reused. */
#include <kvcache.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSystem = 64, kQuestion = 23, kAnswer = 30, kMost = 512 };

typedef struct Chat {
  int32_t tokens[kMost];
  size_t length;
} Chat;

static void check(kvc_status status) {
  if (status == KVC_OK) return;
  fprintf(stderr, "%s: %s\n", kvc_status_name(status), kvc_last_error());
  exit(1);
}

static void say(Chat* chat, int32_t first, size_t count) {
  for (size_t i = 0; i < count; ++i) chat->tokens[chat->length++] = first + (int32_t)i;
}

/* Answers the chat so far; returns how many of its tokens were cached. */
static uint64_t answer(kvc_manager* m, Chat* chat, int32_t seed) {
  uint64_t request, cached;
  const kvc_prompt prompt = {
      .struct_size = sizeof prompt, .tokens = chat->tokens, .num_tokens = chat->length};
  check(kvc_manager_allocate_request(m, &prompt, NULL, &request, &cached));
  const size_t length = chat->length;
  check(kvc_manager_commit_tokens(m, request, length)); /* the prefill has run */
  for (int32_t i = 0; i < kAnswer; ++i) {               /* the sampled token i is computed in step i + 1 */
    say(chat, seed + i, 1);
    check(kvc_manager_append_tokens(m, request, chat->tokens + chat->length - 1, 1));
    check(kvc_manager_commit_tokens(m, request, chat->length));
  }
  check(kvc_manager_free_request(m, request));
  printf("  prompt of %3zu tokens: %3d from the cache, %3d computed\n", length, (int)cached,
         (int)(length - cached));
  return cached;
}

int main(void) {
  const kvc_manager_config config = {.struct_size = sizeof config, .num_blocks = 1024};
  kvc_manager* m;
  check(kvc_manager_create(&config, &m));
  static Chat ann, bob;
  say(&ann, 100, kSystem);
  say(&bob, 100, kSystem);

  puts("Ann, first turn");
  say(&ann, 1000, kQuestion);
  const uint64_t first = answer(m, &ann, 5000);
  puts("Bob, first turn: the system prompt is there already");
  say(&bob, 2000, kQuestion);
  const uint64_t shared = answer(m, &bob, 6000);
  puts("Ann, second turn: all of the first but its last, partial block");
  const size_t so_far = ann.length;
  say(&ann, 3000, kQuestion);
  const uint64_t second = answer(m, &ann, 7000);

  kvc_stats stats = {.struct_size = sizeof stats};
  check(kvc_manager_read_stats(m, &stats));
  printf("%d of %d prompt tokens came from the cache\n", (int)stats.cached_tokens, (int)stats.prompt_tokens);
  kvc_manager_destroy(m);
  return first == 0 && shared == kSystem && second == so_far / 16 * 16 ? 0 : 1;
}
