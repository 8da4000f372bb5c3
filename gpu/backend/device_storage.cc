// SPDX-License-Identifier: Apache-2.0
#include "backend/device_storage.h"

#include <new>
#include <unordered_set>

#include "backend/memory.h"
#include "backend/swap.h"
#include "kernels/kernels.h"
#include "layout/parts.h"

namespace kvc::gpu {
namespace {

// The number of copies, from the first on, that may be done in any order: no block is written twice, or both
// read and written.
size_t independent_copies(const kvc_block_copy* copies, size_t count) {
  if (count < 2) return count;
  std::unordered_set<int32_t> read, written;
  for (size_t i = 0; i < count; ++i) {
    const auto [source, destination] = copies[i];
    if (written.contains(source) || written.contains(destination) || read.contains(destination)) return i;
    read.insert(source);
    written.insert(destination);
  }
  return count;
}

}  // namespace

kvc_status DeviceStorage::trim(uint64_t* device_bytes, uint64_t* host_bytes) {
  const OnDevice on(device_);
  KVC_TRY(on.status());
  *device_bytes = memory_.workspace.trim();
  *host_bytes = memory_.staging.trim();
  return KVC_OK;
}

kvc_status DeviceStorage::create(uint32_t device, const kvc_backend_storage& config,
                                 DeviceStorage** storage) {
  if (const char* reason = unsupported(*config.layout); reason != nullptr)
    return refuse(KVC_ERROR_UNSUPPORTED, "%s:%u: %s", runtime::kName, device, reason);
  const OnDevice on(device);
  KVC_TRY(on.status());
  void* address;
  KVC_TRY(find_address(device, config.memory.data, "kvc_storage_config.memory", &address));
  if (is_managed(config.memory.data)) {
    return refuse(KVC_ERROR_UNSUPPORTED,
                  "a storage in managed memory: a page that moves stops the kernel that reads it; use "
                  "KVC_MEMORY_DEVICE or KVC_MEMORY_PINNED");
  }
  auto* made = new (std::nothrow) DeviceStorage(device, *config.layout, config.memory);
  if (made == nullptr) return refuse(KVC_ERROR_OUT_OF_MEMORY, "no memory for a storage");
  made->address_ = address;
  if (config.zeroed != 0) {
    if (const kvc_status status = made->clear(); status != KVC_OK) {
      delete made;
      return status;
    }
  }
  *storage = made;
  return KVC_OK;
}

kvc_status DeviceStorage::clear() {
  Call call(device_, memory_, nullptr);
  KVC_TRY(call.begin());
  return call.end(runtime::fill(address_, 0, layout_.slab_bytes, call.stream()), "clearing a slab");
}

void DeviceStorage::destroy(DeviceStorage* storage) {
  const kvc_backend_memory slab = storage->slab_;
  delete storage;
  if (slab.owner.release != nullptr)
    slab.owner.release(slab.owner.user_data, slab.data, slab.bytes, slab.alignment);
}

kvc_status DeviceStorage::find_rows(Call& call, kvc_backend_rows* rows) const {
  KVC_TRY(call.address(rows->k, "kvc_rows.k"));
  KVC_TRY(call.address(rows->v, "kvc_rows.v"));
  KVC_TRY(call.address(rows->rotary.table, "kvc_rows.rope_table"));
  if (rows->on_device == 0) {
    call.arrays().add_all(*rows);
    return KVC_OK;
  }
  KVC_TRY(call.address(rows->rotary.table_row, "kvc_rows.rope_rows"));
  KVC_TRY(call.address(rows->slots, "kvc_rows.slots"));
  return call.address(rows->block_table, "kvc_rows.block_table");
}

kvc_status DeviceStorage::move_rows(const kvc_backend_rows& rows, bool store, DeviceStream* stream) {
  if (rows.num_tokens == 0) return KVC_OK;
  kvc_backend_rows own = rows;
  Call call(device_, memory_, stream);
  KVC_TRY(call.begin());
  KVC_TRY(find_rows(call, &own));
  KVC_TRY(call.upload());
  return call.end(store ? store_rows(layout_, address_, own, call.stream())
                        : gather_rows(layout_, address_, own, call.stream()),
                  store ? "storing rows" : "gathering rows");
}

kvc_status DeviceStorage::copy_blocks(const kvc_block_copy* copies, size_t count, DeviceStream* stream) {
  if (count == 0) return KVC_OK;
  const kvc_block_copy* sent = copies;
  Call call(device_, memory_, stream);
  KVC_TRY(call.begin());
  call.arrays().add(sent, count);
  KVC_TRY(call.upload());
  runtime::Error error = 0;
  for (size_t done = 0; done < count && error == 0;) {  // in order where a copy needs the result of another
    if (copies[done].source == copies[done].destination) {
      ++done;
      continue;
    }
    const size_t part = independent_copies(copies + done, count - done);
    error = gpu::copy_blocks(layout_, address_, sent + done, part, call.stream());
    done += part;
  }
  return call.end(error, "copying blocks");
}

kvc_status DeviceStorage::zero_blocks(const int32_t* blocks, size_t count, DeviceStream* stream) {
  if (count == 0) return KVC_OK;
  Call call(device_, memory_, stream);
  KVC_TRY(call.begin());
  call.arrays().add(blocks, count);
  KVC_TRY(call.upload());
  return call.end(gpu::zero_blocks(layout_, address_, blocks, count, call.stream()), "clearing blocks");
}

kvc_status DeviceStorage::swap_blocks(const kvc_backend_swap& swap, DeviceStream* stream) {
  uint64_t capture = 0;
  if (stream != nullptr) KVC_TRY(stream->find_capture(&capture));
  const SwapChoice& choice = swap_choice(device_, capture == 0);
  if (swap.num_copies == 0) return KVC_OK;
  kvc_backend_swap own = swap;
  const char* last = swap.pages + swap.pages_size - 1;
  Call call(device_, memory_, stream);
  KVC_TRY(call.begin());
  KVC_TRY(call.address(own.pages, "pages"));
  KVC_TRY(call.address(last, "the end of pages"));
  const BlockParts parts = block_parts(layout_);
  // With memory that is not pinned, the copy engine would make the host wait.
  const SwapPath path = is_known(swap.pages)
                            ? choice.choose({swap.out != 0, parts.bytes, parts.count * swap.num_copies})
                            : SwapPath::kKernel;
  KVC_TRY(enqueue_swap(call, layout_, address_, own, path));
  return call.end(0, "swapping blocks");
}

kvc_status DeviceStorage::key_bounds(uint32_t layer, const int32_t* blocks, size_t count, uint16_t* bounds,
                                     DeviceStream* stream) {
  if (count == 0) return KVC_OK;
  Call call(device_, memory_, stream);
  KVC_TRY(call.begin());
  KVC_TRY(call.address(bounds, "bounds"));
  call.arrays().add(blocks, count);
  KVC_TRY(call.upload());
  return call.end(find_key_bounds(layout_, address_, layer, blocks, count, bounds, call.stream()),
                  "bounds of keys");
}

}  // namespace kvc::gpu
