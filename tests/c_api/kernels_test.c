/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variable KVC_KERNELS keeps attention below the processor's best instruction set. It is read
 * once, so this is a program of its own. */
#define _POSIX_C_SOURCE 200809L
#include <kvcache/attention.h>
#include <kvcache/storage.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

int main(void) {
  CHECK(setenv("KVC_KERNELS", "scalar", 1) == 0);
  const kvc_storage_config config = {
      .struct_size = sizeof config, .num_blocks = 1, .num_layers = 1, .num_heads = 1, .head_dim = 16};
  kvc_storage* s;
  OK(kvc_storage_create(&config, &s));
  const kvc_attention attention = {.struct_size = sizeof attention, .num_q_heads = 1};
  kvc_attention_info plan = {.struct_size = sizeof plan};
  OK(kvc_storage_explain(s, &attention, &plan));
  CHECK(strcmp(plan.kernels, "scalar") == 0);
  CHECK(setenv("KVC_KERNELS", "avx2", 1) == 0);
  OK(kvc_storage_explain(s, &attention, &plan));
  CHECK(strcmp(plan.kernels, "scalar") == 0);
  kvc_storage_destroy(s);
  return 0;
}
