/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor parallelism: one manager, and on each device a storage with some of the KV heads. A block id means
 * the same tokens everywhere, so one block table serves all devices. Stores a prompt, prints the address of a
 * block on each device, and compares attention of the devices' heads with that of a storage with all heads.
 *
 *   07_devices [DEVICE ...]     each "cpu", "cuda:0", ...; by default cpu twice */
#include <kvcache.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBlocks = 32, kB = 16, kHeads = 8, kDim = 64, kTokens = 75, kMostDevices = 8 };

static float keys[kTokens][kHeads][kDim], values[kTokens][kHeads][kDim], query[kHeads][kDim];

static void check(kvc_status status) {
  if (status == KVC_OK) return;
  fprintf(stderr, "%s: %s\n", kvc_status_name(status), kvc_last_error());
  exit(1);
}

static float number(uint32_t i) { return (float)(i * 2654435761u >> 8) / (1 << 23) - 1; }

/* Host memory that the device reads, with the storage's heads [first, first + heads) of each row. */
static float* rows_on(const char* device, float (*from)[kHeads][kDim], size_t count, uint32_t first,
                      uint32_t heads) {
  float* memory = malloc(count * heads * kDim * sizeof(float));
  if (memory == NULL) exit(1);
  check(kvc_device_register(device, memory, count * heads * kDim * sizeof(float))); /* the CPU reads any */
  for (size_t t = 0; t < count; ++t)
    memcpy(memory + t * heads * kDim, from[t][first], heads * kDim * sizeof(float));
  return memory;
}

static void give_back(const char* device, void* memory) {
  check(kvc_device_unregister(device, memory));
  free(memory);
}

/* Stores the prompt's heads [first, first + heads) on a device, and attends the query's. */
static kvc_storage* run(const char* device, uint32_t first, uint32_t heads, const int32_t* table,
                        size_t table_size, float* out) {
  kvc_storage_config config = {.struct_size = sizeof config, .num_blocks = kBlocks, .num_layers = 1};
  config.num_heads = heads, config.head_dim = kDim, config.block_size = kB, config.device = device;
  config.layout = KVC_LAYOUT_BHLNC; /* a block is one range of bytes */
  kvc_storage* storage;
  check(kvc_storage_create(&config, &storage));

  kvc_storage_info info = {.struct_size = sizeof info};
  kvc_run page;
  size_t count;
  check(kvc_storage_properties(storage, &info));
  check(kvc_storage_runs(storage, table[0], NULL, &page, 1, &count));
  printf("%-8s heads %u to %u, block %d: %llu bytes at %p\n", device, first, first + heads - 1, table[0],
         (unsigned long long)page.bytes, (void*)((char*)info.data + page.offset));

  kvc_rows rows = {.struct_size = sizeof rows, .num_tokens = kTokens};
  rows.k = rows_on(device, keys, kTokens, first, heads);
  rows.v = rows_on(device, values, kTokens, first, heads);
  rows.block_table = table, rows.block_table_size = table_size;
  check(kvc_storage_store(storage, &rows, NULL));

  const uint64_t q_offsets[2] = {0, 1}, kv_lens[1] = {kTokens};
  float* q = rows_on(device, &query, 1, first, heads);
  float* result = rows_on(device, &query, 1, first, heads);
  kvc_attention attention = {.struct_size = sizeof attention, .q = q, .out = result, .num_requests = 1};
  attention.q_offsets = q_offsets, attention.kv_lens = kv_lens, attention.block_tables = table;
  attention.table_stride = table_size, attention.num_q_heads = heads;
  check(kvc_storage_attend(storage, &attention, NULL));
  for (uint32_t i = 0; i < heads * kDim; ++i) out[first * kDim + i] = result[i];

  give_back(device, rows.k);
  give_back(device, rows.v);
  give_back(device, q);
  give_back(device, result);
  return storage;
}

int main(int argc, char** argv) {
  const char* devices[kMostDevices] = {"cpu", "cpu"};
  int num_devices = argc > 1 ? argc - 1 : 2;
  if (num_devices > kMostDevices || kHeads % num_devices != 0) {
    fprintf(stderr, "%d devices; give 1, 2, 4 or 8\n", num_devices);
    return 2;
  }
  for (int d = 1; d < argc; ++d) devices[d - 1] = argv[d];
  for (uint32_t i = 0; i < kTokens * kHeads * kDim; ++i) {
    (&keys[0][0][0])[i] = number(i);
    (&values[0][0][0])[i] = number(~i);
    if (i < kHeads * kDim) (&query[0][0])[i] = number(7 * i + 3);
  }

  const kvc_manager_config config = {.struct_size = sizeof config, .num_blocks = kBlocks, .block_size = kB};
  kvc_manager* m;
  check(kvc_manager_create(&config, &m));
  int32_t tokens[kTokens];
  for (int32_t t = 0; t < kTokens; ++t) tokens[t] = t;
  const kvc_prompt prompt = {.struct_size = sizeof prompt, .tokens = tokens, .num_tokens = kTokens};
  uint64_t request, cached;
  check(kvc_manager_allocate_request(m, &prompt, NULL, &request, &cached));
  int32_t table[kBlocks];
  check(kvc_manager_export_tables(m, &request, 1, 0, -1, table, kBlocks));
  const size_t table_size = (kTokens + kB - 1) / kB;

  float all[kHeads * kDim], parts[kHeads * kDim], error = 0;
  kvc_storage *whole = run("cpu", 0, kHeads, table, table_size, all), *storages[kMostDevices];
  const uint32_t share = (uint32_t)(kHeads / num_devices);
  for (uint32_t d = 0; d < (uint32_t)num_devices; ++d)
    storages[d] = run(devices[d], d * share, share, table, table_size, parts);
  for (int i = 0; i < kHeads * kDim; ++i) {
    const float difference = all[i] > parts[i] ? all[i] - parts[i] : parts[i] - all[i];
    error = difference > error ? difference : error;
  }
  printf("%d devices, one block table, largest difference %g\n", num_devices, (double)error);
  for (int d = 0; d < num_devices; ++d) kvc_storage_destroy(storages[d]);
  kvc_storage_destroy(whole);
  kvc_manager_destroy(m);
  return error < 1e-5f ? 0 : 1;
}
