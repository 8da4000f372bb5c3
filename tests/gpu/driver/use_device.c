// SPDX-License-Identifier: Apache-2.0
// use_device <device> <file name of the runtime> reads|refuses: all that a device does without kernels, on a
// runtime that can launch none (fake_hip.cc); the last word says what it does with ordinary host memory. Ends
// with 1 if anything went otherwise than it should, or more is kept after some rounds than after the first.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <kvcache/device.h>
#include <kvcache/storage.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

enum { kBlocks = 6, kLayers = 3, kPages = kBlocks };
static const uint64_t kMiB = 1 << 20;

static void use_memory(const char* device) {
  kvc_device_info before = {.struct_size = sizeof before}, now = before;
  void *memory = NULL, *more = NULL;
  EXPECT(kvc_device_read_info(device, &before) == KVC_OK && before.memory_bytes >= before.free_bytes);
  EXPECT(kvc_device_allocate(device, KVC_MEMORY_DEVICE, kMiB, &memory) == KVC_OK);
  EXPECT(kvc_device_read_info(device, &now) == KVC_OK && now.free_bytes == before.free_bytes - kMiB);
  EXPECT(kvc_device_allocate(device, KVC_MEMORY_DEVICE, before.memory_bytes, &more) ==
             KVC_ERROR_OUT_OF_MEMORY &&
         more == NULL);

  kvc_memory_handle handle;
  EXPECT(kvc_device_export_memory(memory, &handle) == KVC_OK && handle.bytes == kMiB);
  EXPECT(kvc_device_release(memory) == KVC_OK);
  EXPECT(kvc_device_release(memory) == KVC_ERROR_NOT_FOUND);
  EXPECT(kvc_device_read_info(device, &now) == KVC_OK && now.free_bytes == before.free_bytes);

  EXPECT(kvc_device_allocate(device, KVC_MEMORY_PINNED, 3 * kMiB, &memory) == KVC_OK);
  memset(memory, 1, 3 * kMiB);
  EXPECT(kvc_device_release(memory) == KVC_OK);
  EXPECT(kvc_device_allocate(device, KVC_MEMORY_MANAGED, KVC_MANAGED_LEAST_BYTES, &memory) == KVC_OK);
  EXPECT(kvc_device_release(memory) == KVC_OK);

  void* const own = aligned_alloc(4096, kMiB);
  EXPECT(kvc_device_register(device, own, kMiB) == KVC_OK);
  EXPECT(kvc_device_register(device, own, kMiB) == KVC_ERROR_INVALID_ARGUMENT);
  EXPECT(kvc_device_unregister(device, own) == KVC_OK);
  EXPECT(kvc_device_unregister(device, own) == KVC_ERROR_NOT_FOUND);
  free(own);

  EXPECT(kvc_device_reserve_addresses(device, 512 * kMiB, &memory) == KVC_OK);
  EXPECT(kvc_device_map(memory, 100 * kMiB, 1) == KVC_OK);
  memset((char*)memory + 100 * kMiB, 2, 1); /* which on a GPU only kernels may */
  EXPECT(kvc_device_map(memory, 0, 200 * kMiB) == KVC_OK);
  EXPECT(kvc_device_map(memory, 0, 513 * kMiB) == KVC_ERROR_INVALID_ARGUMENT);
  EXPECT(kvc_device_release(memory) == KVC_OK);
}

static void use_streams(const char* device) {
  kvc_stream *stream = NULL, *adopted = NULL;
  kvc_stream_event* event = NULL;
  void* handle = NULL;
  int32_t done = 0;
  EXPECT(kvc_stream_create(device, &stream) == KVC_OK && kvc_stream_handle(stream, &handle) == KVC_OK &&
         handle != NULL);
  EXPECT(kvc_stream_adopt(device, handle, 0, &adopted) == KVC_OK);
  EXPECT(kvc_stream_event_create(device, &event) == KVC_OK &&
         kvc_stream_event_record(event, stream) == KVC_OK);
  EXPECT(kvc_stream_wait_event(adopted, event) == KVC_OK && kvc_stream_event_synchronize(event) == KVC_OK);
  EXPECT(kvc_stream_event_query(event, &done) == KVC_OK && done == 1);
  EXPECT(kvc_stream_synchronize(adopted) == KVC_OK);
  kvc_stream_destroy(adopted);
  kvc_stream_event_destroy(event);
  kvc_stream_destroy(stream);
}

/* Blocks go to pages and come back into others by the copy engine, since no kernel measures; a store fails.
 */
static void use_storage(const char* device) {
  kvc_storage* storage = NULL;
  void *slab = NULL, *pages = NULL;
  kvc_storage_info info = {.struct_size = sizeof info};
  kvc_storage_config config = {.struct_size = sizeof config,
                               .device = device,
                               .num_blocks = kBlocks,
                               .num_layers = kLayers,
                               .num_heads = 2,
                               .head_dim = 64};
  EXPECT(kvc_storage_create(&config, &storage) == KVC_OK && kvc_storage_properties(storage, &info) == KVC_OK);
  kvc_storage_destroy(storage);
  EXPECT(kvc_device_allocate(device, KVC_MEMORY_DEVICE, info.slab_bytes, &slab) == KVC_OK);
  EXPECT(kvc_device_allocate(device, KVC_MEMORY_PINNED, kPages * info.block_bytes, &pages) == KVC_OK);
  for (uint64_t i = 0; i < info.slab_bytes; ++i) ((unsigned char*)slab)[i] = (unsigned char)(i * 31 >> 7);
  unsigned char* const was = malloc(info.slab_bytes);
  memcpy(was, slab, info.slab_bytes);
  config.memory = slab, config.memory_size = info.slab_bytes;
  EXPECT(kvc_storage_create(&config, &storage) == KVC_OK);

  const kvc_block_copy out[] = {{0, 5}, {2, 0}, {5, 1}},
                       back[] = {{5, 3}, {0, 2}, {1, 5}}; /* block 3 becomes 0 */
  EXPECT(kvc_storage_swap_out(storage, out, 3, pages, kPages * info.block_bytes, 0, NULL) == KVC_OK);
  kvc_run runs[kLayers * 8], source[kLayers * 8];
  size_t count = 0, same = 0;
  EXPECT(kvc_storage_runs(storage, 3, NULL, runs, kLayers * 8, &count) == KVC_OK && count != 0);
  EXPECT(kvc_storage_runs(storage, 0, NULL, source, kLayers * 8, &same) == KVC_OK && same == count);
  EXPECT(kvc_storage_swap_in(storage, back, 3, pages, kPages * info.block_bytes, 0, NULL) == KVC_OK);
  for (size_t r = 0; r < count; ++r) {
    EXPECT(memcmp((char*)slab + runs[r].offset, was + source[r].offset, runs[r].bytes) == 0);
    memcpy(was + runs[r].offset, was + source[r].offset, runs[r].bytes);
  }
  EXPECT(memcmp(slab, was, info.slab_bytes) == 0); /* and nothing else has changed */

  uint16_t* const row = pages;
  int64_t slot = 1;
  kvc_rows rows = {
      .struct_size = sizeof rows, .slots = &slot, .num_tokens = 1, .k = row, .v = row, .dtype = KVC_BFLOAT16};
  EXPECT(kvc_storage_store(storage, &rows, NULL) == KVC_ERROR_DEVICE &&
         strstr(kvc_last_error(), "the fake launches nothing") != NULL);
  EXPECT(memcmp(slab, was, info.slab_bytes) == 0);
  kvc_storage_destroy(storage);
  EXPECT(kvc_device_release(pages) == KVC_OK && kvc_device_release(slab) == KVC_OK);
  free(was);
}

// Rows and slabs in ordinary host memory: taken by a device that reads it, though no kernel can be launched,
// and refused by any other.
static void use_host_memory(const char* device, int reads) {
  kvc_device_info info = {.struct_size = sizeof info};
  EXPECT(kvc_device_read_info(device, &info) == KVC_OK);
  EXPECT(((info.flags & KVC_DEVICE_READS_HOST) != 0) == reads);
  kvc_storage *storage = NULL, *foreign = NULL;
  uint64_t bytes = 0;
  kvc_storage_config config = {.struct_size = sizeof config,
                               .device = device,
                               .num_blocks = kBlocks,
                               .num_layers = kLayers,
                               .num_heads = 2,
                               .head_dim = 64};
  EXPECT(kvc_storage_create(&config, &storage) == KVC_OK &&
         kvc_storage_size(&config, NULL, &bytes) == KVC_OK);
  const uint64_t pages = (bytes + 4095) / 4096 * 4096;
  void* const own = aligned_alloc(4096, pages);
  memset(own, 0, pages);
  int64_t slot = 1;
  const kvc_rows rows = {
      .struct_size = sizeof rows, .slots = &slot, .num_tokens = 1, .k = own, .v = own, .dtype = KVC_BFLOAT16};
  EXPECT(kvc_storage_store(storage, &rows, NULL) == (reads ? KVC_ERROR_DEVICE : KVC_ERROR_INVALID_ARGUMENT));
  EXPECT(strstr(kvc_last_error(), reads ? "the fake launches nothing" : "does not read") != NULL);
  kvc_storage_destroy(storage);
  config.memory = own, config.memory_size = bytes;
  EXPECT(kvc_storage_create(&config, &foreign) == (reads ? KVC_OK : KVC_ERROR_INVALID_ARGUMENT));
  kvc_storage_destroy(foreign);
  free(own);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  EXPECT(kvc_device_read_info(argv[1], &(kvc_device_info){.struct_size = sizeof(kvc_device_info)}) == KVC_OK);
  void* const runtime = dlopen(argv[2], RTLD_LAZY | RTLD_NOLOAD);
  size_t (*const alive)(void) = runtime == NULL ? NULL : (size_t(*)(void))dlsym(runtime, "fake_hip_alive");
  if (alive == NULL) return fprintf(stderr, "%s is not the fake\n", argv[2]), 1;
  size_t first = 0;
  for (int round = 0; round < 4; ++round) {
    use_memory(argv[1]);
    use_streams(argv[1]);
    use_storage(argv[1]);
    use_host_memory(argv[1], strcmp(argv[3], "reads") == 0);
    if (round == 0) first = alive();
  }
  EXPECT(alive() == first);
  return failures == 0 ? 0 : 1;
}
