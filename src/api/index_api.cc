// SPDX-License-Identifier: Apache-2.0
// C functions of kvcache/index.h. Matches take no lock; all else runs under the index's.

#include "api/locked.h"
#include "base/position_digest.h"
#include "index/prefix_index.h"
#include "prefix/namespace_table.h"

using namespace kvc;

struct kvc_index : Locked<PrefixIndex> {
  using Locked::Locked;
};

namespace {

constexpr const char* kIndexName = "index";

template <typename T>
kvc_status complete_field(const char* name, T* value, T standard, T least, T most) {
  if (*value == 0) *value = standard;
  if (*value >= least && *value <= most) return KVC_OK;
  return invalid("%s is %llu; give %llu .. %llu", name, ull(*value), ull(least), ull(most));
}

kvc_status read_index_config(const kvc_index_config* config, kvc_index_config* out) {
  KVC_REQUIRE_POINTER(config);
  KVC_TRY(read_struct(config, out));
  if (out->reserved != 0) return fail(KVC_ERROR_UNSUPPORTED, "reserved is %u; set it to 0", out->reserved);
  if ((out->flags & ~uint32_t{KVC_INDEX_HIDE_STALE}) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "flags is 0x%x; this library knows 0x%x", out->flags,
                KVC_INDEX_HIDE_STALE);
  KVC_TRY(complete_field<uint64_t>("max_blocks", &out->max_blocks, uint64_t{1} << 20, 1, uint64_t{1} << 30));
  KVC_TRY(complete_field<uint32_t>("max_workers", &out->max_workers, 256, 1, KVC_INDEX_MAX_WORKERS));
  KVC_TRY(complete_field<uint32_t>("num_media", &out->num_media, 4, 1, KVC_INDEX_MAX_MEDIA));
  return complete_field<uint32_t>("max_namespaces", &out->max_namespaces, 16 * out->max_workers,
                                  out->max_workers, uint32_t{1} << 20);
}

kvc_status check_prompt(size_t num_tokens, uint32_t block_size) {
  constexpr size_t kMaxTokens = size_t{1} << 24;
  if (block_size < 1 || block_size > 1024) return invalid("block_size is %u; give 1 .. 1024", block_size);
  if (num_tokens <= kMaxTokens) return KVC_OK;
  return fail(KVC_ERROR_LIMIT, "num_tokens is %zu; give up to %zu", num_tokens, kMaxTokens);
}

Digest256 root_or_default(const uint8_t* root) {
  Digest256 digest;
  if (root == nullptr) return NamespaceTable::digest_of_config({});
  std::memcpy(digest.bytes, root, sizeof digest.bytes);
  return digest;
}

// Calls call(impl), which takes no lock.
template <typename Call>
kvc_status beside_writer(kvc_index* index, Call&& call) noexcept {
  if (index == nullptr) return invalid("the %s is NULL", kIndexName);
  return guarded([&] { return call(index->impl); });
}

}  // namespace

extern "C" {

kvc_status kvc_index_create(const kvc_index_config* config, kvc_index** index) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(index);
    kvc_index_config own;
    KVC_TRY(read_index_config(config, &own));
    return make_locked(own.allocator, "max_blocks or max_namespaces", index,
                       [&](PrefixIndex& impl, Memory& memory) { return impl.create(memory, own); });
  });
}

void kvc_index_destroy(kvc_index* index) { destroy_locked(index); }

kvc_status kvc_index_add_worker(kvc_index* index, uint64_t worker, const char* name, uint64_t now_ns) {
  return on_locked(index, kIndexName,
                   [&](PrefixIndex& impl) { return impl.add_worker(worker, name, now_ns); });
}

kvc_status kvc_index_remove_worker(kvc_index* index, uint64_t worker) {
  return on_locked(index, kIndexName, [&](PrefixIndex& impl) { return impl.remove_worker(worker); });
}

kvc_status kvc_index_touch_worker(kvc_index* index, uint64_t worker, uint64_t now_ns) {
  return on_locked(index, kIndexName, [&](PrefixIndex& impl) { return impl.touch_worker(worker, now_ns); });
}

kvc_status kvc_index_expire(kvc_index* index, uint64_t now_ns, uint64_t* num_removed) {
  return on_locked(index, kIndexName, [&](PrefixIndex& impl) {
    const uint64_t removed = impl.expire(now_ns);
    if (num_removed != nullptr) *num_removed = removed;
    return kvc_status{KVC_OK};
  });
}

kvc_status kvc_index_apply(kvc_index* index, uint64_t worker, uint32_t medium, const kvc_event* events,
                           size_t event_size, size_t num_events, uint64_t now_ns,
                           kvc_index_applied* applied) {
  return on_locked(index, kIndexName, [&](PrefixIndex& impl) -> kvc_status {
    KVC_REQUIRE_MEMORY(events, num_events);
    if (event_size != sizeof(kvc_event))
      return invalid("event_size is %zu; set it to sizeof(kvc_event), %zu here", event_size,
                     sizeof(kvc_event));
    if (applied != nullptr) KVC_TRY(check_size<kvc_index_applied>(applied->struct_size));
    kvc_index_applied done = {};
    KVC_TRY(impl.apply(worker, medium, events, num_events, now_ns, &done));
    if (applied != nullptr) write_struct(done, applied);
    return KVC_OK;
  });
}

kvc_status kvc_index_begin_resync(kvc_index* index, uint64_t worker, uint32_t medium) {
  return on_locked(index, kIndexName, [&](PrefixIndex& impl) { return impl.begin_resync(worker, medium); });
}

kvc_status kvc_index_end_resync(kvc_index* index, uint64_t worker, uint32_t medium, uint64_t next_sequence) {
  return on_locked(index, kIndexName,
                   [&](PrefixIndex& impl) { return impl.end_resync(worker, medium, next_sequence); });
}

kvc_status kvc_index_root(const kvc_namespace_config* config, uint8_t* root) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(root);
    kvc_namespace_config own = {};
    if (config != nullptr) KVC_TRY(read_namespace_config(config, &own));
    const Digest256 digest = NamespaceTable::digest_of_config(own);
    std::memcpy(root, digest.bytes, sizeof digest.bytes);
    return KVC_OK;
  });
}

kvc_status kvc_index_match(kvc_index* index, const uint8_t* digests, size_t num_blocks, uint64_t* workers,
                           uint32_t* matched, size_t capacity, size_t* count) {
  return beside_writer(index, [&](PrefixIndex& impl) -> kvc_status {
    KVC_REQUIRE_POINTER(count);
    KVC_REQUIRE_MEMORY(digests, product(num_blocks, 32));
    KVC_REQUIRE_MEMORY(workers, capacity);
    KVC_REQUIRE_MEMORY(matched, product(capacity, 1 + impl.num_media()));
    return impl.match(digests, num_blocks, workers, matched, capacity, count);
  });
}

kvc_status kvc_index_match_tokens(kvc_index* index, const uint8_t* root, const int32_t* tokens,
                                  size_t num_tokens, uint32_t block_size, uint64_t* workers,
                                  uint32_t* matched, size_t capacity, size_t* count) {
  return beside_writer(index, [&](PrefixIndex& impl) -> kvc_status {
    KVC_REQUIRE_POINTER(count);
    KVC_REQUIRE_MEMORY(tokens, num_tokens);
    KVC_REQUIRE_MEMORY(workers, capacity);
    KVC_REQUIRE_MEMORY(matched, product(capacity, 1 + impl.num_media()));
    KVC_TRY(check_prompt(num_tokens, block_size));
    return impl.match_tokens(root_or_default(root).bytes, tokens, block_size, num_tokens / block_size,
                             workers, matched, capacity, count);
  });
}

kvc_status kvc_index_digests(const uint8_t* root, const int32_t* tokens, size_t num_tokens,
                             uint32_t block_size, uint8_t* digests, size_t capacity, size_t* count) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(count);
    KVC_REQUIRE_MEMORY(tokens, num_tokens);
    KVC_REQUIRE_MEMORY(digests, product(capacity, 32));
    KVC_TRY(check_prompt(num_tokens, block_size));
    const size_t blocks = num_tokens / block_size;
    if (capacity < blocks) {
      *count = blocks;
      return fail(KVC_ERROR_BUFFER_TOO_SMALL, "room for %zu digests, and the prompt has %zu full blocks",
                  capacity, blocks);
    }
    *count = blocks;
    if (blocks == 0) return KVC_OK;
    Digest256 chain = root_or_default(root);
    PositionDigests positions(block_size, tokens);
    for (size_t i = 0; i < blocks; ++i) {
      chain = positions.next(chain, {}, i + 1 < blocks ? tokens + (i + 1) * block_size : nullptr);
      std::memcpy(digests + 32 * i, chain.bytes, sizeof chain.bytes);
    }
    return KVC_OK;
  });
}

kvc_status kvc_index_list_workers(kvc_index* index, uint64_t* workers, size_t capacity, size_t* count) {
  return on_locked(index, kIndexName, [&](PrefixIndex& impl) -> kvc_status {
    KVC_REQUIRE_POINTER(count);
    KVC_REQUIRE_MEMORY(workers, capacity);
    return impl.list_workers(workers, capacity, count);
  });
}

kvc_status kvc_index_worker_info(kvc_index* index, uint64_t worker, kvc_index_worker* info) {
  return on_locked(index, kIndexName, [&](PrefixIndex& impl) {
    return answer(info, [&](kvc_index_worker* out) { return impl.worker_info(worker, out); });
  });
}

kvc_status kvc_index_read_stats(kvc_index* index, kvc_index_stats* stats) {
  return on_locked(index, kIndexName, [&](PrefixIndex& impl) {
    return answer(stats, [&](kvc_index_stats* out) { return impl.read_stats(out), kvc_status{KVC_OK}; });
  });
}

kvc_status kvc_index_dump(kvc_index* index, void* data, size_t capacity, size_t* size) {
  return on_locked(index, kIndexName, [&](PrefixIndex& impl) -> kvc_status {
    KVC_REQUIRE_POINTER(size);
    KVC_REQUIRE_MEMORY(data, capacity);
    return impl.dump(data, capacity, size);
  });
}

kvc_status kvc_index_load(kvc_index* index, const void* data, size_t size) {
  return on_locked(index, kIndexName, [&](PrefixIndex& impl) -> kvc_status {
    KVC_REQUIRE_POINTER(data);
    return impl.load_dump(data, size);
  });
}

}  // extern "C"
