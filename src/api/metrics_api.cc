// SPDX-License-Identifier: Apache-2.0
// C functions of metrics: what objects say of themselves, read by the functions of the C API.
#include <kvcache/device.h>

#include <algorithm>
#include <iterator>

#include "api/offload_handle.h"
#include "api/scheduler_handle.h"
#include "api/storage_handle.h"
#include "api/tier_handle.h"
#include "metrics/labels.h"
#include "metrics/render.h"

using namespace kvc;

namespace {

constexpr size_t kMaxSources = 65536;
constexpr const char* kJobKinds[] = {"exists", "get", "put", "remove"};
static_assert(std::size(kJobKinds) == kNumJobKinds);

// What KVC_LATENCY_* is called in texts.
constexpr const char* kLatencyNames[] = {"admit",      "step",       "plan",       "finish",
                                         "store",      "gather",     "poll",       "load",
                                         kJobKinds[0], kJobKinds[1], kJobKinds[2], kJobKinds[3]};
static_assert(std::size(kLatencyNames) == KVC_LATENCY_TIER_REMOVE);

// Calls function(object) with the only object of a source.
template <typename Function>
auto on_object(const kvc_metrics_source& source, Function&& function) {
  if (source.manager != nullptr) return function(*source.manager);
  if (source.storage != nullptr) return function(*source.storage);
  if (source.tier != nullptr) return function(*source.tier);
  if (source.offload != nullptr) return function(*source.offload);
  return function(*source.scheduler);
}

const char* kind_of(const kvc_metrics_source& source) {
  return source.manager != nullptr   ? "manager"
         : source.storage != nullptr ? "storage"
         : source.tier != nullptr    ? "tier"
         : source.offload != nullptr ? "offload"
                                     : "scheduler";
}

Latencies& latencies_of(const kvc_metrics_source& source) {
  return *on_object(source, [](auto& object) { return &object.latencies; });
}

kvc_status check_source(const kvc_metrics_source& source, size_t i) {
  const int objects = (source.manager != nullptr) + (source.storage != nullptr) + (source.tier != nullptr) +
                      (source.offload != nullptr) + (source.scheduler != nullptr);
  if (objects == 1) return KVC_OK;
  return invalid("sources[%zu] has %d objects; set exactly one of manager, storage, tier, offload, scheduler",
                 i, objects);
}

kvc_status read_sources(const kvc_metrics_source* sources, size_t num_sources,
                        std::vector<kvc_metrics_source>* out) {
  KVC_REQUIRE_ARRAY(sources, num_sources);
  if (num_sources > kMaxSources) return invalid("num_sources is %zu; at most %zu", num_sources, kMaxSources);
  const size_t stride = num_sources == 0 ? 0 : sources->struct_size;
  for (size_t i = 0; i < num_sources; ++i) {
    KVC_TRY(check_size<kvc_metrics_source>(stride));
    const auto* from =
        reinterpret_cast<const kvc_metrics_source*>(reinterpret_cast<const char*>(sources) + i * stride);
    if (from->struct_size != stride)
      return invalid("sources[%zu].struct_size is %zu, that of the first %zu", i, from->struct_size, stride);
    KVC_TRY(read_struct(from, &out->emplace_back()));
    KVC_TRY(check_source(out->back(), i));
  }
  return KVC_OK;
}

std::string label(const char* name, const std::string& value) {
  return std::string(name) + "=\"" + value + '"';
}

// The parts of one source.
class Parts {
 public:
  Parts(std::vector<MetricsPart>* out, const std::string& labels) : out_(out), labels_(labels) {}

  kvc_status add(kvc_manager& m) {
    kvc_stats stats;
    KVC_TRY(read(kvc_manager_read_stats, &m, &stats));
    add(stats);
    for (uint32_t p = 0; p < m.impl->shape().num_pools; ++p) {
      kvc_pool_info info;
      KVC_TRY(read(kvc_manager_pool_info, &m, p, &info));
      add(info, label("pool", std::to_string(p)));
    }
    const uint64_t used = stats.blocks_total - stats.blocks_free - stats.blocks_cached;
    add(VllmUse{
        stats.blocks_total == 0 ? 0 : static_cast<double>(used) / static_cast<double>(stats.blocks_total)});
    return KVC_OK;
  }
  kvc_status add(kvc_storage&) { return KVC_OK; }
  kvc_status add(kvc_tier& t) {
    kvc_tier_stats stats;
    KVC_TRY(read(kvc_tier_read_stats, &t, &stats));
    add(stats);
    for (uint32_t kind = 0; kind < kNumJobKinds; ++kind) {
      kvc_tier_counts counts;
      KVC_TRY(read(kvc_tier_read_counts, &t, kind, &counts));
      add(counts, label("kind", kJobKinds[kind]));
    }
    return KVC_OK;
  }
  kvc_status add(kvc_offload& o) {
    kvc_offload_stats stats;
    KVC_TRY(read(kvc_offload_read_stats, &o, &stats));
    add(stats);
    for (uint32_t t = 0; t < o.impl->tiers().size(); ++t) {
      kvc_offload_tier_stats of_tier;
      KVC_TRY(read(kvc_offload_read_tier_stats, &o, t, &of_tier));
      add(of_tier, label("tier_index", std::to_string(t)));
    }
    return KVC_OK;
  }
  kvc_status add(kvc_scheduler& s) {
    kvc_scheduler_stats stats;
    KVC_TRY(read(kvc_scheduler_read_stats, &s, &stats));
    add(stats);
    return KVC_OK;
  }

  void add_memory(const char* kind, uint64_t bytes, uint64_t peak_bytes) {
    add(MemoryUse{bytes, peak_bytes}, label("kind", kind));
  }
  void add_latencies(const Latencies& latencies) {
    for (uint32_t l = latencies.first(); l < latencies.first() + latencies.count(); ++l) {
      const Histogram* const histogram = latencies.find(l);
      if (histogram == nullptr) return;
      const LatencyReading reading = read_latency(*histogram);
      const char* const name = kLatencyNames[l - 1];
      if (l >= KVC_LATENCY_TIER_EXISTS) {
        add(JobLatency{reading}, label("kind", name));
      } else if (l == KVC_LATENCY_LOAD) {
        add(LoadLatency{reading});
      } else {
        add(CallLatency{reading}, label("call", name));
      }
    }
  }

 private:
  // kvc_..._stats(object, arguments..., &out)
  template <typename Function, typename Object, typename T>
  static kvc_status read(Function function, Object* object, T* out) {
    *out = {};
    out->struct_size = sizeof *out;
    return function(object, out);
  }
  template <typename Function, typename Object, typename T>
  static kvc_status read(Function function, Object* object, uint32_t index, T* out) {
    *out = {};
    out->struct_size = sizeof *out;
    return function(object, index, out);
  }
  void add(const PartData& data, const std::string& labels = "") {
    out_->push_back({labels_.empty() || labels.empty() ? labels_ + labels : labels_ + ',' + labels, data});
  }

  std::vector<MetricsPart>* const out_;
  const std::string& labels_;
};

// Calls function(kind, bytes, peak) for what a source has.
template <typename Function>
void for_each_memory(const kvc_metrics_source& source, Function&& function) {
  if (kvc_storage* const s = source.storage; s != nullptr) {
    const uint64_t slab = s->info.memory_kind == KVC_MEMORY_EXTERNAL ? 0 : s->info.slab_bytes;
    function("slab", slab, slab);
    function("workspace", s->account.bytes(), s->account.peak_bytes());
    return;
  }
  const Account& account = *on_object(source, [](const auto& object) { return &object.account; });
  function(source.manager != nullptr ? "metadata" : kind_of(source), account.bytes(), account.peak_bytes());
}

kvc_status collect(const std::vector<kvc_metrics_source>& sources, std::vector<MetricsPart>* parts) {
  std::vector<std::pair<std::string, size_t>> seen;  // kind and labels
  std::vector<std::string> labels(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    if (const kvc_status status = write_labels(sources[i].labels, sources[i].num_labels, &labels[i]);
        status != KVC_OK) {
      const std::string text = last_error();
      return invalid("sources[%zu]: %s", i, text.c_str());
    }
    seen.emplace_back(std::string(kind_of(sources[i])) + '{' + labels[i], i);
  }
  std::sort(seen.begin(), seen.end());
  for (size_t i = 1; i < seen.size(); ++i) {
    if (seen[i].first == seen[i - 1].first)
      return invalid(
          "sources[%zu] and sources[%zu] are of one kind, %s, with equal labels; give them different ones",
          seen[i - 1].second, seen[i].second, kind_of(sources[seen[i].second]));
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    Parts of_source(parts, labels[i]);
    KVC_TRY(on_object(sources[i], [&](auto& object) { return of_source.add(object); }));
    for_each_memory(sources[i], [&](const char* kind, uint64_t bytes, uint64_t peak_bytes) {
      of_source.add_memory(kind, bytes, peak_bytes);
    });
    of_source.add_latencies(latencies_of(sources[i]));
  }
  return KVC_OK;
}

}  // namespace

extern "C" {

kvc_status kvc_metrics_render(const kvc_metrics_source* sources, size_t num_sources, uint32_t flags,
                              char* text, size_t capacity, size_t* size) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_ARRAY(text, capacity);
    KVC_REQUIRE_POINTER(size);
    if ((flags & ~uint32_t{KVC_METRICS_VLLM_NAMES}) != 0)
      return fail(KVC_ERROR_UNSUPPORTED, "flags are %#x; only the flag 1 (VLLM_NAMES) is known", flags);
    std::vector<kvc_metrics_source> own;
    KVC_TRY(read_sources(sources, num_sources, &own));
    std::vector<MetricsPart> parts;
    KVC_TRY(collect(own, &parts));
    const std::string all = render_metrics(parts, (flags & KVC_METRICS_VLLM_NAMES) != 0);
    *size = all.size();
    if (all.size() > capacity) {
      return fail(KVC_ERROR_BUFFER_TOO_SMALL,
                  "the text has %zu bytes and capacity is %zu; give some more room", all.size(), capacity);
    }
    all.copy(text, all.size());
    return KVC_OK;
  });
}

kvc_status kvc_metrics_enable_latencies(const kvc_metrics_source* sources, size_t num_sources) {
  return guarded([&]() -> kvc_status {
    std::vector<kvc_metrics_source> own;
    KVC_TRY(read_sources(sources, num_sources, &own));
    std::vector<Latencies*> enabled;
    enabled.reserve(own.size());
    for (const kvc_metrics_source& source : own) {
      Latencies& latencies = latencies_of(source);
      if (latencies.is_on()) continue;
      if (!latencies.enable()) {
        for (Latencies* before : enabled) before->disable();
        return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the latencies of a %s", kind_of(source));
      }
      enabled.push_back(&latencies);
    }
    return KVC_OK;
  });
}

kvc_status kvc_metrics_read_latency(const kvc_metrics_source* source, uint32_t latency, kvc_latency* out) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(source);
    std::vector<kvc_metrics_source> own;
    KVC_TRY(read_sources(source, 1, &own));
    const Latencies& latencies = latencies_of(own[0]);
    if (!latencies.has(latency)) {
      return invalid("latency is %u; a %s has %u to %u", latency, kind_of(own[0]), latencies.first(),
                     latencies.first() + latencies.count() - 1);
    }
    return answer(out, [&](kvc_latency* to) -> kvc_status {
      const Histogram* const histogram = latencies.find(latency);
      if (histogram == nullptr)
        return fail(KVC_ERROR_BUSY, "the %s measures nothing; enable its latencies right after its creation",
                    kind_of(own[0]));
      const Histogram::Reading from(*histogram);
      to->count = from.count(), to->sum_ns = from.sum(), to->max_ns = from.max();
      to->p50_ns = from.percentile(0.5), to->p90_ns = from.percentile(0.9);
      to->p99_ns = from.percentile(0.99), to->p999_ns = from.percentile(0.999);
      return KVC_OK;
    });
  });
}

kvc_status kvc_metrics_read_memory(const kvc_metrics_source* sources, size_t num_sources,
                                   kvc_memory_profile* profile) {
  return guarded([&]() -> kvc_status {
    std::vector<kvc_metrics_source> own;
    KVC_TRY(read_sources(sources, num_sources, &own));
    return answer(profile, [&](kvc_memory_profile* out) -> kvc_status {
      const struct {
        const char* kind;
        uint64_t *bytes, *peak_bytes;
      } kinds[] = {{"metadata", &out->metadata_bytes, &out->metadata_peak_bytes},
                   {"slab", &out->slab_bytes, &out->slab_peak_bytes},
                   {"workspace", &out->workspace_bytes, &out->workspace_peak_bytes},
                   {"tier", &out->tier_bytes, &out->tier_peak_bytes},
                   {"offload", &out->offload_bytes, &out->offload_peak_bytes},
                   {"scheduler", &out->scheduler_bytes, &out->scheduler_peak_bytes}};
      for (const kvc_metrics_source& source : own) {
        for_each_memory(source, [&](const char* kind, uint64_t bytes, uint64_t peak_bytes) {
          for (const auto& to : kinds) {
            if (std::strcmp(to.kind, kind) != 0) continue;
            *to.bytes += bytes;
            *to.peak_bytes += peak_bytes;
          }
        });
      }
      return KVC_OK;
    });
  });
}

}  // extern "C"
