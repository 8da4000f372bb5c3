// SPDX-License-Identifier: Apache-2.0
// C functions of kvcache/publisher.h.

#include "api/guard.h"
#include "publish/publisher.h"

using namespace kvc;

struct kvc_publisher {
  std::unique_ptr<Publisher> impl;
};

namespace {

constexpr size_t kMaxWireText = 255, kMaxMedium = 63;

template <typename Function>
kvc_status on_publisher(kvc_publisher* p, Function&& function) noexcept {
  if (p == nullptr) return invalid("the publisher is NULL");
  return guarded([&] { return function(*p->impl); });
}

kvc_status check_wire_text(const char* name, const char* text, size_t most) {
  if (text == nullptr || strnlen(text, most + 1) <= most) return KVC_OK;
  return invalid("%s has more than %zu bytes: \"%.40s...\"", name, most, text);
}

// 0 becomes `standard`.
template <typename T>
kvc_status read_wire_number(const char* name, T value, T standard, T most, T* out) {
  *out = value == 0 ? standard : value;
  return *out <= most ? kvc_status{KVC_OK}
                      : invalid("%s is %llu; it is at most %llu", name, ull(value), ull(most));
}

kvc_status read_published_groups(const kvc_publisher_config& config, const Shape& shape, uint32_t* out) {
  const uint64_t all = (uint64_t{1} << shape.num_groups) - 1;
  const uint64_t groups = config.groups == 0 ? all : config.groups;
  if ((groups & ~all) != 0)
    return invalid("groups is 0x%llx; the manager has groups 0 .. %u", ull(config.groups),
                   shape.num_groups - 1);
  if ((config.flags & KVC_PUBLISHER_NO_GROUPS) != 0 && (groups & (groups - 1)) != 0)
    return invalid(
        "NO_GROUPS with groups 0x%llx: a removal from one of them would be taken for all; publish one group",
        ull(groups));
  *out = static_cast<uint32_t>(groups);
  return KVC_OK;
}

kvc_status read_publisher_config(const kvc_publisher_config& config, PublisherOptions* out) {
  constexpr uint64_t kSecond = 1000000000;
  if (config.reserved != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "reserved is %u; set it to 0", config.reserved);
  if ((config.flags & ~uint32_t{KVC_PUBLISHER_ALL_FLAGS}) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "flags is 0x%x; known flags are 0x%x", config.flags,
                KVC_PUBLISHER_ALL_FLAGS);
  if (config.hash > KVC_PUBLISHER_SGLANG)
    return fail(KVC_ERROR_UNSUPPORTED, "hash is %u; give 0 .. 2: of the library, of vLLM or of SGLang",
                config.hash);
  if (config.rank > INT32_MAX) return invalid("rank is %u; it is below 2^31", config.rank);
  KVC_TRY(check_wire_text("topic", config.topic, kMaxWireText));
  KVC_TRY(check_wire_text("medium", config.medium, kMaxMedium));
  KVC_TRY(check_wire_text("hash_seed", config.hash_seed, kMaxWireText));
  const Shape& shape = config.manager->impl->shape();
  if (shape.event_capacity == 0)
    return fail(KVC_ERROR_UNSUPPORTED, "the manager keeps no events; create it with event_capacity > 0");
  KVC_TRY(read_published_groups(config, shape, &out->groups));
  KVC_TRY(read_wire_number("interval_ns", config.interval_ns, kSecond / 100, kSecond, &out->interval_ns));
  KVC_TRY(read_wire_number("replay_batches", config.replay_batches, 10000u, 1u << 20, &out->replay_batches));
  KVC_TRY(read_wire_number("replay_bytes", config.replay_bytes, uint64_t{1} << 26, uint64_t{1} << 40,
                           &out->replay_bytes));
  KVC_TRY(read_wire_number("max_blocks", config.max_blocks, 1024u, 65536u, &out->max_blocks));
  KVC_TRY(read_wire_number("resync_interval_ns", config.resync_interval_ns, 10 * kSecond, UINT64_MAX,
                           &out->resync_interval_ns));
  out->topic = config.topic == nullptr ? "" : config.topic;
  out->medium = config.medium == nullptr ? "GPU" : config.medium;
  out->hash_seed = config.hash_seed == nullptr ? "vllm-none-hash" : config.hash_seed;
  out->hash = config.hash;
  out->flags = config.flags;
  out->rank = (config.flags & KVC_PUBLISHER_NO_RANK) != 0 ? -1 : static_cast<int64_t>(config.rank);
  return KVC_OK;
}

}  // namespace

extern "C" {

kvc_status kvc_publisher_create(const kvc_publisher_config* config, kvc_publisher** publisher) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(config);
    KVC_REQUIRE_POINTER(publisher);
    kvc_publisher_config own;
    KVC_TRY(read_struct(config, &own));
    KVC_REQUIRE_POINTER(own.manager);
    PublisherOptions options;
    KVC_TRY(read_publisher_config(own, &options));
    auto made = std::make_unique<kvc_publisher>();
    KVC_TRY(Publisher::create(default_env(), *own.manager->impl, options, own.url, &made->impl));
    *publisher = made.release();
    return KVC_OK;
  });
}

void kvc_publisher_destroy(kvc_publisher* p) { delete p; }

kvc_status kvc_publisher_poll(kvc_publisher* p, uint64_t* num_batches) {
  return on_publisher(p, [&](Publisher& publisher) -> kvc_status {
    KVC_REQUIRE_POINTER(num_batches);
    return publisher.poll(num_batches);
  });
}

kvc_status kvc_publisher_resync(kvc_publisher* p) {
  return on_publisher(p, [&](Publisher& publisher) -> kvc_status {
    publisher.resync();
    return KVC_OK;
  });
}

kvc_status kvc_publisher_read(kvc_publisher* p, uint64_t sequence, uint64_t* found, char* payload,
                              size_t capacity, size_t* size) {
  return on_publisher(p, [&](Publisher& publisher) -> kvc_status {
    KVC_REQUIRE_POINTER(found);
    KVC_REQUIRE_POINTER(size);
    KVC_REQUIRE_MEMORY(payload, capacity);
    return publisher.read(sequence, found, payload, capacity, size);
  });
}

kvc_status kvc_publisher_name_namespace(kvc_publisher* p, const kvc_publisher_namespace* name) {
  return on_publisher(p, [&](Publisher& publisher) -> kvc_status {
    KVC_REQUIRE_POINTER(name);
    kvc_publisher_namespace own;
    KVC_TRY(read_struct(name, &own));
    KVC_TRY(check_wire_text("lora_name", own.lora_name, kMaxWireText));
    KVC_TRY(check_wire_text("lora_path", own.lora_path, 4096));
    KVC_TRY(check_wire_text("cache_salt", own.cache_salt, 4096));
    if (own.lora_path != nullptr && own.lora_name == nullptr)
      return invalid("lora_path is \"%.40s\" without a lora_name", own.lora_path);
    publisher.name_namespace(own.namespace_id, own.lora_name, own.lora_path, own.cache_salt);
    return KVC_OK;
  });
}

kvc_status kvc_publisher_read_stats(kvc_publisher* p, kvc_publisher_stats* stats) {
  return on_publisher(p, [&](Publisher& publisher) {
    return answer(stats, [&](kvc_publisher_stats* out) -> kvc_status {
      publisher.read_stats(out);
      return KVC_OK;
    });
  });
}

}  // extern "C"
