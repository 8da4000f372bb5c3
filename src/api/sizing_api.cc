// SPDX-License-Identifier: Apache-2.0
// C functions of kvcache/sizing.h: curves, workloads, sizers.
#include <cmath>

#include "api/locked.h"
#include "api/recording.h"
#include "sizing/sizer.h"

using namespace kvc;

namespace {

// 0 becomes `standard`.
template <typename T, typename Standard>
void complete(T* value, Standard standard) {
  if (*value == 0) *value = static_cast<T>(standard);
}

kvc_status complete_window(uint32_t* window) {
  complete(window, Workload::kDefaultWindow);
  if (*window >= 2 && *window <= KVC_MAX_OBSERVATIONS) return KVC_OK;
  return invalid("window is %u; give 2 .. %d observations", *window, KVC_MAX_OBSERVATIONS);
}

kvc_status check_share(const char* name, double value, double most) {
  if (value >= 0 && value <= most) return KVC_OK;
  return invalid("%s is %g; give 0 .. %g", name, value, most);
}

// Completes a curve's configuration: rate and largest size are set.
kvc_status read_curve_config(const Shape& shape, const kvc_curve_config* config, kvc_curve_config* out) {
  constexpr uint64_t kMostBlocks = UINT32_MAX, kMostSamples = uint64_t{1} << 24, kSamples = 16000;
  KVC_REQUIRE_POINTER(config);
  KVC_TRY(read_struct(config, out));
  if (!(out->sample_rate >= 0 && out->sample_rate <= 1))
    return invalid("sample_rate is %g; give a share above 0, up to 1", out->sample_rate);
  if (out->max_samples > kMostSamples)
    return invalid("max_samples is %llu; give up to %llu", ull(out->max_samples), ull(kMostSamples));
  if (out->max_blocks > kMostBlocks)
    return invalid("max_blocks is %llu; give up to %llu", ull(out->max_blocks), ull(kMostBlocks));
  if (!shape.caches()) {
    return fail(KVC_ERROR_UNSUPPORTED, "the manager has no prefix cache; open the curve of one that has");
  }
  const uint64_t usual = shape.num_ids * 8;
  complete(&out->max_blocks, usual < kMostBlocks ? usual : kMostBlocks);
  complete(&out->max_samples, out->sample_rate != 0 ? kMostSamples : kSamples);
  complete(&out->sample_rate, 1);
  const double most = static_cast<double>(out->max_samples) / static_cast<double>(out->max_blocks);
  if (out->sample_rate > most) out->sample_rate = most;
  return KVC_OK;
}

kvc_status read_sizer_config(const kvc_sizer_config* config, kvc_sizer_config* out) {
  KVC_REQUIRE_POINTER(config);
  KVC_TRY(read_struct(config, out));
  if (out->mode > KVC_SIZING_HYBRID) {
    return fail(KVC_ERROR_UNSUPPORTED, "mode is %u; give 0 .. 2: reactive, predictive or hybrid", out->mode);
  }
  complete(&out->min_blocks, 1);
  complete(&out->max_blocks, UINT32_MAX);
  complete(&out->num_blocks, out->min_blocks);
  complete(&out->lead_time_ns, Workload::kDefaultHalfLife);
  complete(&out->half_life_ns, Workload::kDefaultHalfLife);
  complete(&out->burst_threshold, 0.5);
  complete(&out->log_capacity, 256);
  if (out->max_blocks > UINT32_MAX || out->min_blocks > out->max_blocks) {
    return invalid("min_blocks is %llu and max_blocks %llu; give min_blocks <= max_blocks <= %llu",
                   ull(out->min_blocks), ull(out->max_blocks), ull(UINT32_MAX));
  }
  if (out->num_blocks < out->min_blocks || out->num_blocks > out->max_blocks) {
    return invalid("num_blocks is %llu; give %llu .. %llu, the limits", ull(out->num_blocks),
                   ull(out->min_blocks), ull(out->max_blocks));
  }
  if (out->log_capacity > KVC_MAX_OBSERVATIONS)
    return invalid("log_capacity is %u; give up to %d decisions", out->log_capacity, KVC_MAX_OBSERVATIONS);
  if (out->reserved != 0) return fail(KVC_ERROR_UNSUPPORTED, "reserved is %u; set it to 0", out->reserved);
  KVC_TRY(complete_window(&out->window));
  KVC_TRY(check_share("headroom", out->headroom, 10));
  KVC_TRY(check_share("hysteresis", out->hysteresis, 1));
  return check_share("burst_threshold", out->burst_threshold, 100);
}

}  // namespace

struct kvc_workload : Locked<Workload> {
  using Locked::Locked;
};
struct kvc_sizer : Locked<Sizer> {
  using Locked::Locked;
};

extern "C" {

kvc_status kvc_manager_open_curve(kvc_manager* m, uint64_t namespace_id, const kvc_curve_config* config) {
  KVC_RECORD(kvc_manager_open_curve, m, namespace_id, config);
  return on_manager(m, [&](Manager& manager) {
    kvc_curve_config own;
    KVC_TRY(read_curve_config(manager.shape(), config, &own));
    return manager.change_curve(namespace_id, [&](Curves& curves, NamespaceId ns, Memory& memory) {
      return curves.open(memory, ns, own);
    });
  });
}

kvc_status kvc_manager_close_curve(kvc_manager* m, uint64_t namespace_id) {
  KVC_RECORD(kvc_manager_close_curve, m, namespace_id);
  return on_manager(m, [&](Manager& manager) {
    return manager.change_curve(
        namespace_id, [](Curves& curves, NamespaceId ns, const Memory&) { return curves.close(ns); });
  });
}

kvc_status kvc_manager_read_curve(kvc_manager* m, uint64_t namespace_id, const uint64_t* num_blocks,
                                  size_t num_sizes, double* hit_rates) {
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_MEMORY(num_blocks, num_sizes);
    KVC_REQUIRE_MEMORY(hit_rates, num_sizes);
    return manager.read_curve(namespace_id, [&](const Curves& curves, NamespaceId ns, const Memory&) {
      return curves.read(ns, num_blocks, num_sizes, hit_rates);
    });
  });
}

kvc_status kvc_manager_curve_info(kvc_manager* m, uint64_t namespace_id, kvc_curve_info* info) {
  return on_manager(m, [&](Manager& manager) {
    return answer(info, [&](kvc_curve_info* out) {
      return manager.read_curve(namespace_id, [&](const Curves& curves, NamespaceId ns, const Memory&) {
        return curves.info(ns, out);
      });
    });
  });
}

kvc_status kvc_workload_create(const kvc_workload_config* config, kvc_workload** workload) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(config);
    KVC_REQUIRE_POINTER(workload);
    kvc_workload_config own;
    KVC_TRY(read_struct(config, &own));
    if (own.reserved != 0) return fail(KVC_ERROR_UNSUPPORTED, "reserved is %u; set it to 0", own.reserved);
    complete(&own.half_life_ns, Workload::kDefaultHalfLife);
    KVC_TRY(complete_window(&own.window));
    return make_locked(own.allocator, "window", workload, [&](Workload& impl, Memory& memory) {
      return impl.create(memory, own.half_life_ns, own.window);
    });
  });
}

void kvc_workload_destroy(kvc_workload* workload) { destroy_locked(workload); }

kvc_status kvc_workload_record(kvc_workload* workload, uint64_t now_ns, double value) {
  return on_locked(workload, "workload", [&](Workload& impl) {
    KVC_TRY(impl.check(now_ns, value, "value"));
    impl.record(now_ns, value);
    return kvc_status{KVC_OK};
  });
}

kvc_status kvc_workload_read_info(kvc_workload* workload, kvc_workload_info* info) {
  return on_locked(workload, "workload", [&](Workload& impl) {
    return answer(info, [&](kvc_workload_info* out) { return impl.read(out), kvc_status{KVC_OK}; });
  });
}

kvc_status kvc_workload_predict(kvc_workload* workload, uint64_t horizon_ns, double* value) {
  return on_locked(workload, "workload", [&](Workload& impl) {
    KVC_REQUIRE_POINTER(value);
    *value = impl.predict(horizon_ns);
    return kvc_status{KVC_OK};
  });
}

kvc_status kvc_sizer_create(const kvc_sizer_config* config, kvc_sizer** sizer) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(sizer);
    kvc_sizer_config own;
    KVC_TRY(read_sizer_config(config, &own));
    return make_locked(own.allocator, "window or log_capacity", sizer,
                       [&](Sizer& impl, Memory& memory) { return impl.create(memory, own); });
  });
}

void kvc_sizer_destroy(kvc_sizer* sizer) { destroy_locked(sizer); }

kvc_status kvc_sizer_decide(kvc_sizer* sizer, uint64_t now_ns, double needed_blocks,
                            kvc_sizing_decision* decision) {
  return on_locked(sizer, "sizer", [&](Sizer& impl) {
    kvc_sizing_decision own;
    if (decision != nullptr) KVC_TRY(check_size<kvc_sizing_decision>(decision->struct_size));
    KVC_TRY(impl.decide(now_ns, needed_blocks, &own));
    if (decision != nullptr) write_struct(own, decision);
    return kvc_status{KVC_OK};
  });
}

kvc_status kvc_sizer_read_log(kvc_sizer* sizer, uint64_t number, kvc_sizing_decision* decision) {
  return on_locked(sizer, "sizer", [&](Sizer& impl) {
    return answer(decision, [&](kvc_sizing_decision* out) { return impl.read_log(number, out); });
  });
}

}  // extern "C"
