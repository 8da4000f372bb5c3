// SPDX-License-Identifier: Apache-2.0
// C functions of checkpoints.

#include "api/guard.h"
#include "api/page_args.h"
#include "checkpoint/checkpoint.h"
#include "manager/contents.h"

using namespace kvc;

namespace {

constexpr uint32_t kAllFlags = KVC_CHECKPOINT_FULL | KVC_CHECKPOINT_INCREMENT | KVC_CHECKPOINT_REQUESTS |
                               KVC_CHECKPOINT_NO_SYNC | KVC_CHECKPOINT_BYTES_ELSEWHERE |
                               KVC_CHECKPOINT_CACHE_ONLY;

std::string text_of(const void* data, size_t size) {
  return size == 0 ? std::string() : std::string(static_cast<const char*>(data), size);
}

kvc_status check_folder(const char* folder) {
  KVC_REQUIRE_POINTER(folder);
  if (folder[0] != 0) return KVC_OK;
  return invalid("folder is empty; give the path of a folder");
}

kvc_status read_options(const kvc_checkpoint_config* config, kvc_checkpoint_config* own,
                        CheckpointOptions* out, bool stream = false) {
  KVC_REQUIRE_POINTER(config);
  KVC_TRY(read_struct(config, own));
  if (!stream || own->folder != nullptr) KVC_TRY(check_folder(own->folder));
  if ((own->flags & ~kAllFlags) != 0)
    return invalid("flags are %#x; the known ones are %#x (KVC_CHECKPOINT_*)", own->flags, kAllFlags);
  if ((own->flags & KVC_CHECKPOINT_FULL) != 0 && (own->flags & KVC_CHECKPOINT_INCREMENT) != 0)
    return invalid("flags have KVC_CHECKPOINT_FULL and KVC_CHECKPOINT_INCREMENT; give one of them");
  out->folder = own->folder;
  if (own->codec != nullptr && std::strcmp(own->codec, "none") != 0) out->codec = own->codec;
  out->level = own->level;
  out->flags = own->flags;
  out->keep_last = own->keep_last;
  out->id = own->id;
  return KVC_OK;
}

// The groups' storages, and what their pages are named after.
kvc_status read_groups(const Manager& manager, kvc_storage* const* storages, size_t num_storages,
                       const kvc_page_config* config, CheckpointOptions* options,
                       std::vector<GroupMemory>* out) {
  const Shape& shape = manager.shape();
  if (config == nullptr) return invalid("pages is NULL; say what computed the pages: model and weights");
  kvc_page_config pages;
  KVC_TRY(read_struct(config, &pages));
  if (num_storages != shape.num_groups)
    return invalid("num_storages is %zu; the manager has %u groups, give a storage or NULL for each",
                   num_storages, shape.num_groups);
  KVC_REQUIRE_ARRAY(storages, num_storages);
  KVC_TRY(check_page_config(pages));
  options->model = text_of(pages.model, pages.model_size);
  options->weights = text_of(pages.weights, pages.weights_size);
  options->numerics = text_of(pages.numerics, pages.numerics_size);
  for (uint32_t g = 0; g < shape.num_groups; ++g) {
    GroupMemory memory = {};
    if (kvc_storage* const storage = storages[g]; storage != nullptr) {
      if (std::strcmp(storage->backend->name, "cpu") != 0)
        return fail(KVC_ERROR_UNSUPPORTED, "the storage of group %u is of %s; checkpoints read host memory",
                    g, storage->backend->name);
      Pages described;
      KVC_TRY(read_pages(*storage, &pages, &described));
      if (storage->layout.block_size != shape.block_size)
        return invalid(
            "block_size is %u in the storage of group %u and %u in the manager; they must be equal",
            storage->layout.block_size, g, shape.block_size);
      storage->backend->storage_wait(storage->impl);
      uint64_t first = 0, end = 0;  // ids of the group's pool
      for (uint32_t p = 0; p <= shape.groups[g].pool; ++p) first = end, end += shape.pool_room[p];
      if (storage->layout.num_blocks >= end) first = 0;  // it has blocks of all ids
      memory = {&storage->layout, storage->slab(), first,
                described.shape,  described.part,  described.fingerprint};
    }
    out->push_back(memory);
  }
  return KVC_OK;
}

kvc_status read_options_of_save(const kvc_checkpoint_config* config, kvc_checkpoint_config* own,
                                CheckpointOptions* out) {
  KVC_TRY(read_options(config, own, out));
  return own->id == 0 ? KVC_OK : invalid("id is %llu; a save chooses it, set it to 0", ull(own->id));
}

kvc_status recorded() {
  return fail(KVC_ERROR_UNSUPPORTED,
              "the manager is recorded (record_bytes): its log would not have what the checkpoint brings; "
              "restore into one without");
}

kvc_status check_descriptor(int32_t fd) {
  return fd >= 0 ? KVC_OK : invalid("fd is %d; give an open descriptor, which is at least 0", fd);
}

// Calls function(&own), where the struct is the caller's or, for NULL, nobody's. It is written on success,
// and on BUFFER_TOO_SMALL.
template <typename Function>
kvc_status with_info(kvc_checkpoint_info* info, Function&& function) {
  if (info != nullptr) KVC_TRY(check_size<kvc_checkpoint_info>(info->struct_size));
  kvc_checkpoint_info own = {};
  const kvc_status status = function(&own);
  if (info != nullptr && (status == KVC_OK || status == KVC_ERROR_BUFFER_TOO_SMALL)) write_struct(own, info);
  return status;
}

}  // namespace

extern "C" {

kvc_status kvc_checkpoint_save(kvc_manager* m, kvc_storage* const* storages, size_t num_storages,
                               const kvc_checkpoint_config* config, kvc_checkpoint_info* info) {
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    kvc_checkpoint_config own;
    CheckpointOptions options;
    KVC_TRY(read_options_of_save(config, &own, &options));
    return with_info(info, [&](kvc_checkpoint_info* out) -> kvc_status {
      if (own.interval_ns != 0 && own.now_ns == 0)
        return invalid("interval_ns is %llu and now_ns 0; set now_ns to the time of the engine, at least 1",
                       ull(own.interval_ns));
      const bool began_anew = own.now_ns < own.last_ns;  // the clock
      if (!began_anew && own.now_ns - own.last_ns < own.interval_ns) return KVC_OK;
      std::vector<GroupMemory> groups;
      KVC_TRY(read_groups(manager, storages, num_storages, own.pages, &options, &groups));
      return save_checkpoint(system_files(), manager, groups, options, out);
    });
  });
}

kvc_status kvc_checkpoint_measure(kvc_manager* m, kvc_storage* const* storages, size_t num_storages,
                                  const kvc_checkpoint_config* config, kvc_checkpoint_needs* needs) {
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    kvc_checkpoint_config own;
    CheckpointOptions options;
    KVC_TRY(read_options_of_save(config, &own, &options));
    return answer(needs, [&](kvc_checkpoint_needs* out) -> kvc_status {
      std::vector<GroupMemory> groups;
      KVC_TRY(read_groups(manager, storages, num_storages, own.pages, &options, &groups));
      return measure_checkpoint(system_files(), manager, groups, options, out);
    });
  });
}

kvc_status kvc_checkpoint_save_stream(kvc_manager* m, kvc_storage* const* storages, size_t num_storages,
                                      const kvc_checkpoint_config* config, int32_t fd,
                                      kvc_checkpoint_info* info) {
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    kvc_checkpoint_config own;
    CheckpointOptions options;
    KVC_TRY(read_options(config, &own, &options, true));
    KVC_TRY(check_descriptor(fd));
    if (own.folder != nullptr)
      return invalid("folder is \"%s\"; a stream has none, set it to NULL", own.folder);
    if (own.id != 0 || own.keep_last != 0 || own.interval_ns != 0)
      return invalid(
          "id is %llu, keep_last %u and interval_ns %llu; a stream is one checkpoint, set them to 0",
          ull(own.id), own.keep_last, ull(own.interval_ns));
    if ((own.flags & ~uint32_t{KVC_CHECKPOINT_REQUESTS}) != 0)
      return invalid("flags are %#x; a stream takes 0 or KVC_CHECKPOINT_REQUESTS (%#x)", own.flags,
                     KVC_CHECKPOINT_REQUESTS);
    return with_info(info, [&](kvc_checkpoint_info* out) -> kvc_status {
      std::vector<GroupMemory> groups;
      KVC_TRY(read_groups(manager, storages, num_storages, own.pages, &options, &groups));
      return save_stream(system_files(), manager, groups, options, fd, out);
    });
  });
}

kvc_status kvc_checkpoint_restore_stream(kvc_manager* m, kvc_storage* const* storages, size_t num_storages,
                                         const kvc_checkpoint_config* config, int32_t fd,
                                         kvc_namespace_pair* namespaces, size_t namespace_capacity,
                                         kvc_request_pair* requests, size_t request_capacity,
                                         kvc_checkpoint_info* info) {
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    kvc_checkpoint_config own;
    CheckpointOptions options;
    KVC_TRY(read_options(config, &own, &options, true));
    KVC_TRY(check_descriptor(fd));
    if (own.id != 0) return invalid("id is %llu; a stream has one checkpoint, set it to 0", ull(own.id));
    KVC_REQUIRE_ARRAY(storages, num_storages);
    KVC_REQUIRE_ARRAY(namespaces, namespace_capacity);
    KVC_REQUIRE_ARRAY(requests, request_capacity);
    if (m->recorder != nullptr) return recorded();
    return with_info(info, [&](kvc_checkpoint_info* out) -> kvc_status {
      std::vector<GroupMemory> groups;
      KVC_TRY(read_groups(manager, storages, num_storages, own.pages, &options, &groups));
      return restore_stream(system_files(), manager, groups, options, fd,
                            {namespaces, namespace_capacity, requests, request_capacity}, out);
    });
  });
}

kvc_status kvc_checkpoint_restore(kvc_manager* m, kvc_storage* const* storages, size_t num_storages,
                                  const kvc_checkpoint_config* config, kvc_namespace_pair* namespaces,
                                  size_t namespace_capacity, kvc_request_pair* requests,
                                  size_t request_capacity, kvc_checkpoint_info* info) {
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    kvc_checkpoint_config own;
    CheckpointOptions options;
    KVC_TRY(read_options(config, &own, &options));
    KVC_REQUIRE_ARRAY(storages, num_storages);
    KVC_REQUIRE_ARRAY(namespaces, namespace_capacity);
    KVC_REQUIRE_ARRAY(requests, request_capacity);
    if (m->recorder != nullptr) {
      std::vector<uint64_t> ids;
      KVC_TRY(list_checkpoints(system_files(), own.folder, &ids));
      return recorded();
    }
    return with_info(info, [&](kvc_checkpoint_info* out) -> kvc_status {
      std::vector<GroupMemory> groups;
      KVC_TRY(read_groups(manager, storages, num_storages, own.pages, &options, &groups));
      return restore_checkpoint(system_files(), manager, groups, options,
                                {namespaces, namespace_capacity, requests, request_capacity}, out);
    });
  });
}

kvc_status kvc_checkpoint_list(const char* folder, uint64_t* ids, size_t capacity, size_t* count) {
  return guarded([&]() -> kvc_status {
    KVC_TRY(check_folder(folder));
    KVC_REQUIRE_ARRAY(ids, capacity);
    KVC_REQUIRE_POINTER(count);
    std::vector<uint64_t> all;
    KVC_TRY(list_checkpoints(system_files(), folder, &all));
    *count = all.size();
    if (all.size() > capacity)
      return fail(KVC_ERROR_BUFFER_TOO_SMALL, "the folder has %zu checkpoints, the array room for %zu",
                  all.size(), capacity);
    std::copy(all.begin(), all.end(), ids);
    return KVC_OK;
  });
}

kvc_status kvc_checkpoint_read_info(const char* folder, uint64_t id, kvc_checkpoint_info* info) {
  return guarded([&]() -> kvc_status {
    KVC_TRY(check_folder(folder));
    return answer(info, [&](kvc_checkpoint_info* out) {
      return describe_checkpoint(system_files(), folder, id, false, out);
    });
  });
}

kvc_status kvc_checkpoint_validate(const char* folder, uint64_t id, kvc_checkpoint_info* info) {
  return guarded([&]() -> kvc_status {
    KVC_TRY(check_folder(folder));
    return with_info(info, [&](kvc_checkpoint_info* out) {
      return describe_checkpoint(system_files(), folder, id, true, out);
    });
  });
}

kvc_status kvc_checkpoint_remove(const char* folder, uint64_t id) {
  return guarded([&]() -> kvc_status {
    KVC_TRY(check_folder(folder));
    return remove_checkpoint(system_files(), folder, id);
  });
}

kvc_status kvc_checkpoint_collect(const char* folder, uint32_t keep_last, uint64_t* removed_bytes) {
  return guarded([&]() -> kvc_status {
    KVC_TRY(check_folder(folder));
    KVC_REQUIRE_POINTER(removed_bytes);
    uint64_t removed = 0;
    KVC_TRY(collect_checkpoints(system_files(), folder, keep_last, &removed));
    *removed_bytes = removed;
    return KVC_OK;
  });
}

kvc_status kvc_checkpoint_compact(const kvc_checkpoint_config* config, kvc_checkpoint_info* info) {
  return guarded([&]() -> kvc_status {
    kvc_checkpoint_config own;
    CheckpointOptions options;
    KVC_TRY(read_options(config, &own, &options));
    return with_info(
        info, [&](kvc_checkpoint_info* out) { return compact_checkpoint(system_files(), options, out); });
  });
}

kvc_status kvc_manager_content_digest(kvc_manager* m, uint8_t* digest) {
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    KVC_REQUIRE_POINTER(digest);
    Contents contents;
    KVC_TRY(manager.read_contents(false, &contents));
    const Digest256 made = contents.digest(contents.position_digests());
    std::memcpy(digest, made.bytes, sizeof made.bytes);
    return KVC_OK;
  });
}

}  // extern "C"
