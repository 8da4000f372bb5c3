// SPDX-License-Identifier: Apache-2.0
// C functions of tiers and plug-ins.
#include <algorithm>

#include "api/guard.h"
#include "api/tier_handle.h"
#include "plugin/plugins.h"
#include "tier/open_tier.h"

using namespace kvc;

namespace {

constexpr uint64_t kMostPageBytes = uint64_t{1} << 40;

template <typename Function>
kvc_status on_tier(kvc_tier* t, Function&& function) noexcept {
  if (t == nullptr) return invalid("the tier is NULL");
  return guarded([&] { return function(*t->impl); });
}

kvc_status check_not_offloaded(const kvc_tier& t) {
  if (!t.is_offloaded) return KVC_OK;
  return fail(KVC_ERROR_BUSY,
              "the tier is an offload's, which submits and polls its jobs; open another one for your own");
}

kvc_status read_job(const kvc_tier_job& job, TierJob* out) {
  KVC_REQUIRE_MEMORY(job.items, job.num_items);
  if (job.kind > KVC_TIER_REMOVE)
    return invalid("kind is %u; kinds are KVC_TIER_EXISTS (0) to KVC_TIER_REMOVE (3)", job.kind);
  if (job.priority > KVC_TIER_STORE)
    return invalid("priority is %u; priorities are KVC_TIER_LOAD (0) to KVC_TIER_STORE (2)", job.priority);
  *out = {static_cast<TierJobKind>(job.kind),
          static_cast<TierPriority>(job.priority),
          job.items,
          job.num_items,
          job.now_ns,
          job.lease_ns,
          job.timeout_ns,
          job.user_data};
  return KVC_OK;
}

}  // namespace

extern "C" {

kvc_status kvc_plugin_open(const char* name, const char* path) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(name);
    const kvc_plugin* plugin = nullptr;
    return open_plugin(name, path, &plugin);
  });
}

kvc_status kvc_tier_create(const kvc_tier_config* config, kvc_tier** tier) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(config);
    KVC_REQUIRE_POINTER(tier);
    kvc_tier_config own;
    KVC_TRY(read_struct(config, &own));
    KVC_REQUIRE_POINTER(own.url);
    if (own.page_bytes == 0 || own.page_bytes > kMostPageBytes)
      return invalid("page_bytes is %llu; set it to the bytes of the largest page, at most 2^40",
                     ull(own.page_bytes));
    Env env = default_env();
    KVC_TRY(read_allocator(own.allocator, &env));
    auto made = std::make_unique<kvc_tier>(env);
    TierPages pages = {{}, own.page_bytes};
    std::memcpy(pages.fingerprint.bytes, own.fingerprint, sizeof own.fingerprint);
    TierOptions options;
    if (own.max_store_bytes != 0) options.max_store_bytes = own.max_store_bytes;
    options.latencies = &made->latencies;
    KVC_TRY(open_tier(made->env, system_files(), own.url, pages, options, &made->impl));
    made->page_bytes = own.page_bytes;
    *tier = made.release();
    return KVC_OK;
  });
}

void kvc_tier_destroy(kvc_tier* t) { delete t; }

kvc_status kvc_tier_submit(kvc_tier* t, const kvc_tier_job* job, uint64_t* id) {
  return on_tier(t, [&](Tier& tier) -> kvc_status {
    KVC_REQUIRE_POINTER(job);
    KVC_REQUIRE_POINTER(id);
    kvc_tier_job own;
    KVC_TRY(read_struct(job, &own));
    TierJob inner;
    KVC_TRY(read_job(own, &inner));
    const std::shared_lock use(t->use);
    KVC_TRY(check_not_offloaded(*t));
    return tier.submit(inner, id);
  });
}

kvc_status kvc_tier_cancel(kvc_tier* t, uint64_t id) {
  return on_tier(t, [&](Tier& tier) -> kvc_status {
    if (tier.cancel(id)) return KVC_OK;
    return fail(KVC_ERROR_NOT_FOUND, "no job %llu of this tier has items that wait", ull(id));
  });
}

kvc_status kvc_tier_poll(kvc_tier* t, kvc_tier_completion* completions, size_t capacity, size_t* count) {
  return on_tier(t, [&](Tier& tier) -> kvc_status {
    KVC_REQUIRE_ARRAY(completions, capacity);
    KVC_REQUIRE_POINTER(count);
    const std::shared_lock use(t->use);
    KVC_TRY(check_not_offloaded(*t));
    constexpr size_t kPiece = 64;
    TierCompletion some[kPiece];
    size_t done = 0, got;
    do {
      got = tier.poll(some, std::min(kPiece, capacity - done));
      for (size_t i = 0; i < got; ++i) completions[done++] = {some[i].job, some[i].tag, some[i].num_ok};
    } while (got == kPiece && done < capacity);
    *count = done;
    return KVC_OK;
  });
}

kvc_status kvc_tier_event_fd(kvc_tier* t, int32_t* fd) {
  return on_tier(t, [&](Tier& tier) -> kvc_status {
    KVC_REQUIRE_POINTER(fd);
    *fd = tier.event_fd();
    return KVC_OK;
  });
}

kvc_status kvc_tier_run_one(kvc_tier* t, int32_t* done) {
  return on_tier(t, [&](Tier& tier) -> kvc_status {
    KVC_REQUIRE_POINTER(done);
    if (tier.options().num_threads != 0)
      return fail(KVC_ERROR_UNSUPPORTED, "the tier has %u threads, which do the work; open it with threads=0",
                  tier.options().num_threads);
    *done = tier.run_one();
    return KVC_OK;
  });
}

kvc_status kvc_tier_drain(kvc_tier* t) {
  return on_tier(t, [&](Tier& tier) -> kvc_status {
    tier.drain();
    return KVC_OK;
  });
}

kvc_status kvc_tier_read_stats(kvc_tier* t, kvc_tier_stats* stats) {
  return on_tier(t, [&](Tier& tier) {
    return answer(stats, [&](kvc_tier_stats* out) {
      const TierStats own = tier.stats();
      const StoreStats& store = own.store;
      out->pages = store.pages, out->capacity_pages = store.capacity_pages;
      out->bytes = store.bytes, out->capacity_bytes = store.capacity_bytes;
      out->max_jobs = tier.options().max_jobs;
      out->waiting_jobs = own.waiting_jobs;
      out->running_jobs = own.running_jobs;
      out->done_jobs = own.done_jobs;
      out->waiting_store_bytes = own.waiting_store_bytes;
      out->refused_loads = own.refused_jobs[KVC_TIER_LOAD];
      out->refused_prefetches = own.refused_jobs[KVC_TIER_PREFETCH];
      out->refused_stores = own.refused_jobs[KVC_TIER_STORE];
      out->refused_bytes = own.refused_bytes;
      out->evictions = store.evictions;
      out->recovered = store.recovered;
      out->bad_headers = store.bad_headers;
      out->bad_payloads = store.bad_payloads;
      out->failures = store.failures;
      out->last_errno = store.last_errno;
      out->fallbacks = store.fallbacks;
      out->outages = own.outages;
      out->available = own.available;
      out->uses_uring = store.uses_uring;
      out->disk_evictions = store.disk_evictions;
      out->expired = store.expired;
      out->removed = store.removed;
      out->mismatches = store.mismatches;
      return kvc_status{KVC_OK};
    });
  });
}

kvc_status kvc_tier_read_counts(kvc_tier* t, uint32_t kind, kvc_tier_counts* counts) {
  return on_tier(t, [&](Tier& tier) -> kvc_status {
    if (kind > KVC_TIER_REMOVE) return invalid("kind is %u; kinds are 0 to %u", kind, KVC_TIER_REMOVE);
    return answer(counts, [&](kvc_tier_counts* out) {
      const TierStats::Kind own = tier.stats().kinds[kind];
      const auto result = [&](int32_t value) { return own.results[value]; };
      out->jobs = own.jobs;
      out->items = own.items;
      out->bytes = own.bytes;
      out->ok = result(KVC_PAGE_OK);
      out->misses = result(KVC_PAGE_MISS);
      out->pending = result(KVC_PAGE_PENDING);
      out->expired = result(KVC_PAGE_EXPIRED);
      out->no_space = result(KVC_PAGE_NO_SPACE);
      out->failed = result(KVC_PAGE_FAILED);
      out->timeouts = result(KVC_PAGE_TIMEOUT);
      out->cancelled = result(KVC_PAGE_CANCELLED);
      out->unavailable = result(KVC_PAGE_UNAVAILABLE);
      return kvc_status{KVC_OK};
    });
  });
}

}  // extern "C"
