// SPDX-License-Identifier: Apache-2.0
// C functions of offload.

#include "api/offload_handle.h"
#include "api/page_args.h"
#include "tier/description.h"

using namespace kvc;

namespace {

template <typename Function>
kvc_status on_offload(kvc_offload* o, Function&& function) noexcept {
  if (o == nullptr) return invalid("the offload is NULL");
  return guarded([&] { return function(*o->impl); });
}

kvc_status check_stream(const kvc_offload& o, const kvc_stream* stream) {
  if (stream == nullptr || (stream->backend == o.backend && stream->device == o.device)) return KVC_OK;
  return invalid("a stream of %s:%u with an offload of %s:%u", stream->backend->name, stream->device,
                 o.backend == nullptr ? "sizes alone" : o.backend->name, o.device);
}

kvc_status check_manager(const Shape& shape, uint32_t policy, bool has_bytes) {
  if (shape.cross_groups != 0 || shape.state_groups != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "the manager has %s groups, which have no pages",
                shape.cross_groups != 0 ? "cross" : "state");
  if (!shape.caches())
    return fail(KVC_ERROR_UNSUPPORTED, "the manager has KVC_MANAGER_NO_PREFIX_CACHE: nothing is published");
  if (has_bytes && (shape.flags & (KVC_MANAGER_ZERO_CROSS_NAMESPACE | KVC_MANAGER_ZERO_ALWAYS)) != 0)
    return fail(KVC_ERROR_UNSUPPORTED,
                "the manager lists blocks to clear (ZERO_CROSS_NAMESPACE or ZERO_ALWAYS), and blocks that a "
                "load has filled would be on the list; create it without");
  if (policy > (KVC_OFFLOAD_WRITE_THROUGH | KVC_OFFLOAD_SECOND_USE | KVC_OFFLOAD_BEFORE_EVICTION))
    return invalid(
        "policy is %u; it is a sum of KVC_OFFLOAD_WRITE_THROUGH (1), SECOND_USE (2), BEFORE_EVICTION (4)",
        policy);
  if (shape.event_capacity != 0) return KVC_OK;
  return fail(KVC_ERROR_UNSUPPORTED, "the manager keeps no events; create it with event_capacity > 0");
}

kvc_status read_group(const kvc_offload_config& config, const Shape& shape, uint32_t g, OffloadGroup* out) {
  if (config.storages == nullptr) {
    if (config.page_bytes == nullptr || config.page_bytes[g] == 0)
      return invalid("page_bytes of group %u is missing; without storages set it to the bytes of a page", g);
    if (config.page_bytes[g] > PTRDIFF_MAX)
      return invalid("page_bytes of group %u is %llu; no memory has more than 2^63 - 1", g,
                     ull(config.page_bytes[g]));
    out->page_bytes = config.page_bytes[g];
    const uint8_t byte = 1;
    const kvc_page_config& names = *config.pages;
    const PageSource source = {names.model == nullptr ? &byte : names.model,
                               names.model == nullptr ? 1 : names.model_size,
                               names.weights == nullptr ? &byte : names.weights,
                               names.weights == nullptr ? 1 : names.weights_size,
                               names.numerics,
                               names.numerics_size};
    PageShape sizes = {};
    sizes.block_size = shape.block_size;
    Digest256 fingerprint;
    KVC_TRY(page_fingerprint(source, sizes, &fingerprint));
    out->salt = page_salt(g, fingerprint);
    return KVC_OK;
  }
  kvc_storage* const storage = config.storages[g];
  if (storage == nullptr) return invalid("storages[%u] is NULL", g);
  Pages pages;
  KVC_TRY(read_pages(*storage, config.pages, &pages));
  const uint64_t part = part_bytes(pages.shape, pages.part);
  if (part != pages.shape.bytes())
    return fail(
        KVC_ERROR_UNSUPPORTED,
        "storages[%u] has %llu bytes of a page of %llu; name the ranks in `numerics` and leave layers and "
        "heads 0",
        g, ull(part), ull(pages.shape.bytes()));
  const Layout& layout = storage->layout;
  kvc_pool_info pool = {};
  KVC_TRY(config.manager->impl->read(&StateReader::pool_info, shape.groups[g].pool, &pool));
  if (layout.block_size != shape.block_size)
    return invalid("storages[%u] has blocks of %u tokens, the manager of %u", g, layout.block_size,
                   shape.block_size);
  if (layout.num_blocks < pool.max_blocks)
    return invalid("storages[%u] has %llu blocks, its pool %llu", g, ull(layout.num_blocks),
                   ull(pool.max_blocks));
  *out = {storage->backend,
          storage->impl,
          storage->device,
          static_cast<int32_t>(pool.first_block),
          layout,
          nullptr,
          part,
          page_salt(g, pages.fingerprint)};
  if (std::strcmp(storage->backend->name, "cpu") == 0) out->slab = storage->slab();
  return KVC_OK;
}

kvc_status read_options(const kvc_offload_config& config, OffloadOptions* out) {
  const auto or_default = [](uint32_t value, uint32_t other) { return value == 0 ? other : value; };
  *out = {config.policy,
          config.flags,
          or_default(config.num_pages, 64),
          or_default(config.max_lookups, 16),
          or_default(config.max_lookup_blocks, 1024),
          or_default(config.clean_blocks, 64),
          config.timeout_ns == 0 ? 10000000000 : config.timeout_ns,
          config.hold_ns == 0 ? 1000000000 : config.hold_ns,
          config.compute_ns_per_token,
          config.min_load_tokens,
          config.retry_ns == 0 ? 1000000000 : std::min(config.retry_ns, uint64_t{1} << 62),
          nullptr};
  if (config.flags > KVC_OFFLOAD_NO_PROMOTE)
    return invalid("flags is %u; only KVC_OFFLOAD_NO_PROMOTE (1) has a meaning", config.flags);
  if (out->num_stages < 4 || out->num_stages > 1u << 16)
    return invalid("num_pages is %u; it is 4 to 65536, or 0 for 64", config.num_pages);
  if (out->max_lookups > 1u << 12 || out->max_lookup_blocks > 1u << 20 || out->clean_blocks > 1u << 12)
    return invalid(
        "max_lookups is %u, clean_blocks %u, max_lookup_blocks %u; they are at most 4096, 4096 and 1048576",
        config.max_lookups, config.clean_blocks, config.max_lookup_blocks);
  if (!(config.compute_ns_per_token >= 0 && config.compute_ns_per_token <= 1e15))
    return invalid("compute_ns_per_token is %g; it is 0 to 1e15", config.compute_ns_per_token);
  return KVC_OK;
}

kvc_status take_tiers(const kvc_offload_config& config, const OffloadGroup* groups, uint32_t num_groups,
                      kvc_offload* offload, Tier** tiers) {
  if (config.num_tiers == 0 || config.num_tiers > kMaxOffloadTiers)
    return invalid("num_tiers is %zu; it is 1 to %zu", config.num_tiers, kMaxOffloadTiers);
  KVC_REQUIRE_ARRAY(config.tiers, config.num_tiers);
  for (size_t t = 0; t < config.num_tiers; ++t) {
    if (config.tiers[t] == nullptr) return invalid("tiers[%zu] is NULL", t);
    if (!config.tiers[t]->lend())
      return fail(KVC_ERROR_BUSY,
                  "tiers[%zu] belongs to another offload; destroy that first, or open another tier", t);
    offload->tiers[t] = config.tiers[t];
    tiers[t] = config.tiers[t]->impl.get();
    if (config.storages != nullptr && !tiers[t]->has_bytes())
      return fail(KVC_ERROR_UNSUPPORTED,
                  "tiers[%zu] keeps the sizes of pages and no bytes, for simulations; take memory:, slab: or "
                  "dir:, or leave storages NULL",
                  t);
    const TierStats stats = tiers[t]->stats();
    const uint64_t jobs = stats.waiting_jobs + stats.running_jobs + stats.done_jobs;
    if (jobs != 0)  // they would end as the offload's
      return fail(KVC_ERROR_BUSY, "tiers[%zu] has %llu jobs that were not polled; wait for them and poll it",
                  t, ull(jobs));
    for (uint32_t g = 0; g < num_groups; ++g)
      if (const uint64_t most = config.tiers[t]->page_bytes; most != 0 && groups[g].page_bytes > most)
        return invalid(
            "tiers[%zu] takes pages of at most %llu bytes, and group %u has pages of %llu; create "
            "the tier with a larger page_bytes",
            t, ull(most), g, ull(groups[g].page_bytes));
  }
  return KVC_OK;
}

// Tells the tiers what their pages are of, and remembers why those that they have are of no use.
kvc_status describe_tiers(const kvc_page_config& names, const OffloadGroup* groups, uint32_t num_groups,
                          Tier* const* tiers, size_t num_tiers, std::string* differences) {
  PageShape shapes[kMaxGroups];
  for (uint32_t g = 0; g < num_groups; ++g)
    KVC_TRY(make_page_shape(groups[g].layout, groups[g].layout.num_layers, groups[g].layout.num_heads,
                            &shapes[g]));
  const std::string text = describe_pages(
      {names.model, names.model_size, names.weights, names.weights_size, names.numerics, names.numerics_size},
      shapes, num_groups);
  for (size_t t = 0; t < num_tiers; ++t) {
    const StoreStats stats = tiers[t]->stats().store;
    if (stats.recovered == 0 && stats.pages != 0) differences[t] = tiers[t]->difference(text);
    tiers[t]->describe(text);
  }
  return KVC_OK;
}

}  // namespace

extern "C" {

kvc_status kvc_offload_create(const kvc_offload_config* config, kvc_offload** offload) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(config);
    KVC_REQUIRE_POINTER(offload);
    kvc_offload_config own;
    KVC_TRY(read_struct(config, &own));
    KVC_REQUIRE_POINTER(own.manager);
    KVC_REQUIRE_POINTER(own.pages);
    kvc_page_config pages;
    KVC_TRY(read_struct(own.pages, &pages));
    own.pages = &pages;
    Env env = default_env();
    KVC_TRY(read_allocator(own.allocator, &env));
    auto made = std::make_unique<kvc_offload>(env);
    const OffloadView view(*own.manager->impl);
    KVC_TRY(check_manager(view.shape(), own.policy, own.storages != nullptr));
    OffloadOptions options;
    KVC_TRY(read_options(own, &options));
    options.latencies = &made->latencies;
    OffloadGroup groups[kMaxGroups] = {};
    for (uint32_t g = 0; g < view.shape().num_token_groups; ++g)
      KVC_TRY(read_group(own, view.shape(), g, &groups[g]));
    Tier* tiers[kMaxOffloadTiers];
    KVC_TRY(take_tiers(own, groups, view.shape().num_token_groups, made.get(), tiers));
    made->manager = own.manager;
    made->backend = groups[0].backend;
    made->device = groups[0].device;
    const ManagerCalls calls = {own.manager,
                                kvc_manager_acquire_prefix,
                                kvc_manager_acquire_blocks,
                                kvc_manager_publish_blocks,
                                kvc_manager_unpublish_blocks,
                                kvc_manager_release_blocks};
    KVC_TRY(Offload::create(made->env, calls, view, groups, tiers, own.num_tiers, options, &made->impl));
    if (own.storages != nullptr)
      KVC_TRY(describe_tiers(pages, groups, view.shape().num_token_groups, tiers, own.num_tiers,
                             made->differences));
    *offload = made.release();
    return KVC_OK;
  });
}

void kvc_offload_destroy(kvc_offload* o) { delete o; }

kvc_status kvc_offload_event_fd(kvc_offload* o, int32_t* fd) {
  return on_offload(o, [&](Offload& offload) -> kvc_status {
    KVC_REQUIRE_POINTER(fd);
    *fd = offload.tiers().event_fd();
    return KVC_OK;
  });
}

kvc_status kvc_offload_poll(kvc_offload* o, uint64_t now_ns, kvc_stream* stream) {
  const Timed timed(latency_of(o, KVC_LATENCY_POLL));
  return on_offload(o, [&](Offload& offload) -> kvc_status {
    KVC_TRY(check_stream(*o, stream));
    return offload.poll(now_ns, impl_of(stream));
  });
}

kvc_status kvc_offload_flush(kvc_offload* o, uint64_t now_ns, uint64_t timeout_ns, kvc_stream* stream,
                             uint64_t* num_left) {
  return on_offload(o, [&](Offload& offload) -> kvc_status {
    KVC_REQUIRE_POINTER(num_left);
    KVC_TRY(check_stream(*o, stream));
    return offload.flush(now_ns, timeout_ns, impl_of(stream), num_left);
  });
}

kvc_status kvc_offload_lookup(kvc_offload* o, uint64_t request, uint64_t now_ns) {
  return kvc_offload_load(o, request, 0, now_ns);
}

kvc_status kvc_offload_load(kvc_offload* o, uint64_t request, uint64_t max_tokens, uint64_t now_ns) {
  return on_offload(o, [&](Offload& offload) {
    return offload.load(request, max_tokens == 0 ? UINT64_MAX : max_tokens, now_ns);
  });
}

kvc_status kvc_offload_query(kvc_offload* o, uint64_t request, kvc_offload_info* info) {
  return on_offload(o, [&](Offload& offload) {
    return answer(info, [&](kvc_offload_info* out) { return offload.query(request, out); });
  });
}

kvc_status kvc_offload_cancel(kvc_offload* o, uint64_t request) {
  return on_offload(o, [&](Offload& offload) { return offload.cancel(request); });
}

kvc_status kvc_offload_store_request(kvc_offload* o, uint64_t request, uint64_t* num_blocks) {
  return on_offload(o, [&](Offload& offload) -> kvc_status {
    KVC_REQUIRE_POINTER(num_blocks);
    return offload.store_request(request, num_blocks);
  });
}

kvc_status kvc_offload_read_stats(kvc_offload* o, kvc_offload_stats* stats) {
  return on_offload(o, [&](Offload& offload) {
    return answer(stats, [&](kvc_offload_stats* out) -> kvc_status {
      const OffloadCounters& own = offload.counters();
      out->waiting_blocks = offload.queue().size();
      out->busy_pages = offload.num_busy_stages();
      out->busy_lookups = offload.lookups().num_busy();
      out->published_blocks = own.published;
      out->dropped_events = own.dropped_events;
      out->dropped_blocks = own.dropped_queue;
      out->gone_blocks = own.gone;
      out->lookups = own.lookups;
      out->slower_loads = own.gate_refusals;
      out->refused_loads = own.no_room;
      out->loads = own.loads;
      out->short_loads = own.short_loads;
      out->loaded_tokens = own.loaded_tokens;
      out->failed_publications = own.failed_publications;
      return KVC_OK;
    });
  });
}

kvc_status kvc_offload_read_tier_stats(kvc_offload* o, uint32_t tier, kvc_offload_tier_stats* stats) {
  return on_offload(o, [&](Offload& offload) -> kvc_status {
    if (tier >= offload.tiers().size())
      return invalid("tier is %u; the offload has %zu", tier, offload.tiers().size());
    return answer(stats, [&](kvc_offload_tier_stats* out) -> kvc_status {
      const TierCounters& own = offload.tiers().counters(tier);
      out->hits = own.hits, out->misses = own.misses;
      out->loaded_pages = own.loaded_pages, out->loaded_bytes = own.loaded_bytes;
      out->failed_loads = own.failed_loads;
      out->stored_pages = own.stored_pages, out->stored_bytes = own.stored_bytes;
      out->refused_stores = own.refused_stores;
      out->failed_stores = own.failed_stores;
      out->waits = own.refused_loads;
      out->load_ns_per_byte = own.ns_per_byte;
      out->outages = offload.tiers().outages(tier);
      out->available = offload.tiers().available(tier);
      const std::string& text = o->differences[tier];
      out->difference[text.copy(out->difference, sizeof out->difference - 1)] = 0;
      return KVC_OK;
    });
  });
}

}  // extern "C"
