/* SPDX-License-Identifier: Apache-2.0 */
/* kvc_manager_config.log: a warning comes once, as finished text, from the call that met its
 * cause. */
#include "check.h"

typedef struct {
  int calls;
  int32_t level;
  char text[256];
} Log;

static void note(void* user_data, int32_t level, const char* text) {
  Log* log = user_data;
  ++log->calls;
  log->level = level;
  snprintf(log->text, sizeof log->text, "%s", text);
}

int main(void) {
  int32_t tokens[40];
  fill_tokens(tokens, 40, 1);
  Log log = {0};
  kvc_manager_config config = small_config(64);
  config.max_nodes = 2;
  config.log = note, config.log_user_data = &log;
  kvc_manager* m = make_manager(&config);

  const uint64_t request = allocate(m, tokens, 20, 0);
  OK(kvc_manager_commit_tokens(m, request, 8)); /* two blocks, two nodes */
  CHECK_EQ(log.calls, 0);
  OK(kvc_manager_commit_tokens(m, request, 20));
  CHECK_EQ(log.calls, 1);
  CHECK_EQ(log.level, 1);
  CHECK(strstr(log.text, "max_nodes") != NULL);
  CHECK_EQ(stats(m).unpublished_blocks, 3);

  cache_prompt(m, tokens + 20, 20, 0); /* the same again: said already */
  CHECK_EQ(log.calls, 1);

  /* Without a callback the warning is nobody's, and goes with the manager. */
  config.log = NULL;
  kvc_manager* silent = make_manager(&config);
  cache_prompt(silent, tokens, 20, 0);
  CHECK_EQ(stats(silent).unpublished_blocks, 3);
  end_manager(silent);
  end_manager(m);
  return 0;
}
