// SPDX-License-Identifier: Apache-2.0
// open <backend>: prints how many devices it has and where it came from; 77 = there is no such backend.
// open <backend> opens|refused: asks for devices that are not there, in every way, and for the CPU in
// between. Prints the reason that the library gives; ends with 1 if anything else happened than should, or
// memory or files were kept.
#include <dirent.h>
#include <inttypes.h>
#include <kvcache/device.h>
#include <kvcache/storage.h>
#include <malloc.h>
#include <string.h>

#include "expect.h"

enum { kRounds = 150 };

static kvc_storage_config config_on(const char* device) {
  return (kvc_storage_config){.struct_size = sizeof(kvc_storage_config),
                              .device = device,
                              .num_blocks = 4,
                              .num_layers = 1,
                              .num_heads = 1,
                              .head_dim = 8,
                              .dtype = KVC_FLOAT32};
}

/* All that takes a device; none of it may succeed or touch its result. */
static void refuse(const char* device, kvc_status status, const char* reason) {
  kvc_storage_config config = config_on(device);
  kvc_storage* storage = NULL;
  kvc_stream* stream = NULL;
  kvc_stream_event* event = NULL;
  void* memory = NULL;
  kvc_device_info info = {.struct_size = sizeof info};
  EXPECT(kvc_storage_create(&config, &storage) == status && strstr(kvc_last_error(), reason) != NULL);
  EXPECT(kvc_device_read_info(device, &info) == status && strstr(kvc_last_error(), reason) != NULL);
  EXPECT(kvc_stream_create(device, &stream) == status && strstr(kvc_last_error(), reason) != NULL);
  EXPECT(kvc_stream_event_create(device, &event) == status && strstr(kvc_last_error(), reason) != NULL);
  EXPECT(kvc_device_allocate(device, KVC_MEMORY_DEVICE, 4096, &memory) == status &&
         strstr(kvc_last_error(), reason) != NULL);
  EXPECT(storage == NULL && stream == NULL && event == NULL && memory == NULL && info.memory_bytes == 0);
}

static void use_cpu(void) {
  kvc_storage_config config = config_on("cpu");
  kvc_storage* storage = NULL;
  float keys[8] = {1, 2, 3, 4, 5, 6, 7, 8}, values[8] = {8, 7, 6, 5, 4, 3, 2, 1}, got_keys[8] = {0},
        got_values[8] = {0};
  int64_t slot = 17;
  kvc_rows rows = {.struct_size = sizeof rows,
                   .slots = &slot,
                   .num_tokens = 1,
                   .k = keys,
                   .v = values,
                   .dtype = KVC_FLOAT32};
  EXPECT(kvc_storage_create(&config, &storage) == KVC_OK);
  EXPECT(kvc_storage_store(storage, &rows, NULL) == KVC_OK);
  rows.k = got_keys, rows.v = got_values;
  EXPECT(kvc_storage_gather(storage, &rows, NULL) == KVC_OK);
  EXPECT(memcmp(keys, got_keys, sizeof keys) == 0 && memcmp(values, got_values, sizeof values) == 0);
  kvc_storage_destroy(storage);
}

static size_t open_files(void) {
  DIR* folder = opendir("/proc/self/fd");
  size_t count = 0;
  while (folder != NULL && readdir(folder) != NULL) ++count;
  if (folder != NULL) closedir(folder);
  return count;
}

int main(int argc, char** argv) {
  kvc_backend_info info = {.struct_size = sizeof info};
  if (argc < 2) return 2;
  const char* name = argv[1];
  if (argc == 2) {
    const kvc_status found = kvc_backend_properties(name, &info);
    if (found == KVC_OK) printf("%" PRIu32 " %s\n", info.num_devices, info.path);
    return found == KVC_ERROR_NOT_FOUND ? 77 : found == KVC_OK ? 0 : 1;
  }
  const kvc_status opens = strcmp(argv[2], "opens") == 0 ? KVC_OK : KVC_ERROR_UNSUPPORTED;
  char device[32], reason[1024];
  snprintf(device, sizeof device, "%s:0", name);

  EXPECT(kvc_backend_open(name, NULL) == opens);
  EXPECT(kvc_backend_properties(name, &info) == opens);
  EXPECT(info.num_devices == 0);
  snprintf(reason, sizeof reason, "%s", opens == KVC_OK ? info.remark : kvc_last_error());
  EXPECT(reason[0] != '\0');

  size_t bytes = 0, files = 0;
  for (int round = -kRounds; round < kRounds; ++round) {
    if (round == 0) files = open_files(), bytes = mallinfo2().uordblks;
    refuse(device, opens == KVC_OK ? KVC_ERROR_NOT_FOUND : opens, reason);
    use_cpu();
  }
  EXPECT(mallinfo2().uordblks <
         bytes + kRounds * sizeof(void*)); /* what the allocator itself keeps varies a little */
  EXPECT(open_files() == files);
  puts(reason);
  return failures == 0 ? 0 : 1;
}
