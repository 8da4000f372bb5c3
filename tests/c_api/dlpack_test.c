// SPDX-License-Identifier: Apache-2.0
// Planes as DLPack tensors, read as any consumer would: by the public layout of the structs. The tensor keeps
// the memory when its storage is gone.
#include <kvcache/storage.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

// As dlpack.h has them.
typedef struct DLTensor {
  void* data;
  struct {
    int32_t device_type, device_id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;

static int64_t live_allocations = 0;
static void* counted_allocate(void* user_data, size_t size, size_t alignment) {
  (void)user_data;
  ++live_allocations;
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
static void counted_release(void* user_data, void* memory, size_t size, size_t alignment) {
  (void)user_data, (void)size, (void)alignment;
  --live_allocations;
  free(memory);
}

enum { kLayers = 2, kHeads = 3, kDim = 8, kBlockSize = 4, kBlocks = 5 };

static kvc_storage* make_storage(int32_t dtype, uint32_t layout, uint32_t flags) {
  static const kvc_allocator allocator = {sizeof(kvc_allocator), NULL, counted_allocate, counted_release};
  const kvc_storage_config config = {.struct_size = sizeof config,
                                     .num_blocks = kBlocks,
                                     .num_layers = kLayers,
                                     .num_heads = kHeads,
                                     .head_dim = kDim,
                                     .block_size = flags == KVC_STORAGE_TILED_KEYS ? 16 : kBlockSize,
                                     .dtype = dtype,
                                     .layout = layout,
                                     .flags = flags,
                                     .allocator = &allocator};
  kvc_storage* s = NULL;
  CHECK(kvc_storage_create(&config, &s) == KVC_OK);
  return s;
}

static DLManagedTensor* export_plane(kvc_storage* s, int32_t plane, uint32_t layer) {
  void* tensor = NULL;
  CHECK(kvc_storage_export_dlpack(s, plane, layer, &tensor) == KVC_OK);
  return tensor;
}

static void tensors_describe_the_views(void) {
  static const struct {
    int32_t dtype, code, bits;
  } types[] = {{KVC_FLOAT32, 2, 32},     {KVC_FLOAT16, 2, 16},     {KVC_BFLOAT16, 4, 16},
               {KVC_FLOAT8_E4M3, 10, 8}, {KVC_FLOAT8_E5M2, 12, 8}, {KVC_INT8, 0, 8},
               {KVC_INT4, 1, 8}};
  for (size_t t = 0; t < sizeof types / sizeof types[0]; ++t)
    for (uint32_t layout = 0; layout <= KVC_LAYOUT_BHLNC; ++layout) {
      kvc_storage* s = make_storage(types[t].dtype, layout, 0);
      for (int32_t plane = 0; plane < 4; ++plane) {
        kvc_view view;
        if (kvc_storage_view(s, plane, 1, &view) != KVC_OK) continue;
        DLManagedTensor* managed = export_plane(s, plane, 1);
        const DLTensor* tensor = &managed->dl_tensor;
        const int is_scale = plane >= KVC_PLANE_K_SCALE;
        CHECK(tensor->data == view.data && tensor->byte_offset == 0);
        CHECK(tensor->device.device_type == 1 && tensor->device.device_id == 0);
        CHECK(tensor->ndim == 4 && tensor->dtype.lanes == 1);
        CHECK(tensor->dtype.code == (is_scale ? 2 : types[t].code));
        CHECK(tensor->dtype.bits == (is_scale ? 32 : types[t].bits));
        for (int i = 0; i < 4; ++i) {
          CHECK(tensor->shape[i] == view.shape[i]);
          CHECK(tensor->strides[i] * (tensor->dtype.bits / 8) == view.strides[i]);
        }
        managed->deleter(managed);
      }
      kvc_storage_destroy(s);
    }
  CHECK(live_allocations == 0);
}

static void a_tensor_sees_what_is_stored_and_outlives_the_storage(void) {
  kvc_storage* s = make_storage(KVC_FLOAT32, KVC_LAYOUT_BLNHC, 0);
  float k[kLayers * kHeads * kDim], v[kLayers * kHeads * kDim];
  for (int i = 0; i < kLayers * kHeads * kDim; ++i) k[i] = (float)i, v[i] = (float)(1000 + i);
  const int64_t slot = 3 * kBlockSize + 2;
  const kvc_rows rows = {
      .struct_size = sizeof rows, .k = k, .v = v, .num_tokens = 1, .num_layers = kLayers, .slots = &slot};
  CHECK(kvc_storage_store(s, &rows, NULL) == KVC_OK);
  DLManagedTensor *keys = export_plane(s, KVC_PLANE_K, 1), *values = export_plane(s, KVC_PLANE_V, 0);
  CHECK(live_allocations > 0);
  kvc_storage_destroy(s);
  CHECK(live_allocations > 0);
  const DLTensor* tensor = &keys->dl_tensor;
  const float* row =
      (const float*)tensor->data + 3 * tensor->strides[0] + 1 * tensor->strides[1] + 2 * tensor->strides[2];
  CHECK(memcmp(row, &k[(1 * kHeads + 1) * kDim], kDim * sizeof(float)) == 0);
  keys->deleter(keys);
  CHECK(live_allocations > 0);
  CHECK(
      ((float*)values->dl_tensor.data)[3 * values->dl_tensor.strides[0] + 2 * values->dl_tensor.strides[2]] ==
      1000.0f);
  values->deleter(values);
  CHECK(live_allocations == 0);
}

static void what_is_no_array_is_refused(void) {
  kvc_storage* s = make_storage(KVC_FLOAT32, KVC_LAYOUT_LBHNC, KVC_STORAGE_TILED_KEYS);
  void* tensor = NULL;
  CHECK(kvc_storage_export_dlpack(s, KVC_PLANE_K, 0, &tensor) == KVC_ERROR_UNSUPPORTED);
  CHECK(kvc_storage_export_dlpack(s, KVC_PLANE_K_SCALE, 0, &tensor) == KVC_ERROR_NOT_FOUND);
  CHECK(kvc_storage_export_dlpack(s, KVC_PLANE_V, kLayers, &tensor) == KVC_ERROR_INVALID_ARGUMENT);
  CHECK(kvc_storage_export_dlpack(s, KVC_PLANE_V, 0, NULL) == KVC_ERROR_INVALID_ARGUMENT);
  CHECK(kvc_storage_export_dlpack(NULL, KVC_PLANE_V, 0, &tensor) == KVC_ERROR_INVALID_ARGUMENT);
  CHECK(tensor == NULL);
  kvc_storage_destroy(s);
  CHECK(live_allocations == 0);
}

int main(void) {
  tensors_describe_the_views();
  a_tensor_sees_what_is_stored_and_outlives_the_storage();
  what_is_no_array_is_refused();
  return 0;
}
