// SPDX-License-Identifier: Apache-2.0
// Stands before the calls of an offload (LD_PRELOAD) and does nothing but read some memory of its own: then
// the manager's calls show what events and colder caches cost them by themselves. OTHER_BYTES: read before
// each call's return, 0 = none; as much of it as an engine's own work would.
#include <kvcache/offload.h>
#include <stdlib.h>

static volatile unsigned char sum;

static kvc_status other_work(void) {
  static unsigned char* memory;
  static size_t bytes, at;
  if (memory == NULL) {
    const char* const given = getenv("OTHER_BYTES");
    bytes = given == NULL ? 0 : strtoul(given, NULL, 0);
    memory = calloc(bytes + 64, 1);
  }
  for (int i = 0; i < 400 && bytes != 0; ++i, at = at + 64 < bytes ? at + 64 : 0) sum += ++memory[at];
  return KVC_OK;
}

kvc_status kvc_offload_poll(kvc_offload* o, uint64_t now_ns, kvc_stream* stream) {
  (void)o, (void)now_ns, (void)stream;
  return other_work();
}

kvc_status kvc_offload_lookup(kvc_offload* o, uint64_t request, uint64_t now_ns) {
  (void)o, (void)request, (void)now_ns;
  return other_work();
}
