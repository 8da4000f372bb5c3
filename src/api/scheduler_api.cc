// SPDX-License-Identifier: Apache-2.0
// C functions of kvcache/scheduler.h.
#include <kvcache/prefix.h>

#include <algorithm>
#include <vector>

#include "api/offload_handle.h"
#include "api/scheduler_handle.h"

using namespace kvc;

namespace {

kvc_status check_range(const char* name, uint64_t value, uint64_t most) {
  return value <= most ? KVC_OK : invalid("%s is %llu; at most %llu", name, ull(value), ull(most));
}

// Tokens of a request that tables and blocks have room for.
uint64_t most_request_tokens(const Shape& shape) {
  uint64_t most = shape.max_request_tokens;
  for (uint32_t g = 0; g < shape.num_groups; ++g) {
    if (shape.groups[g].kind == KVC_GROUP_FULL)
      most = std::min(most, shape.pool_room[shape.groups[g].pool] * shape.block_size);
  }
  return most;
}

kvc_status read_options(const kvc_scheduler_config& config, const Shape& shape, SchedulerOptions* out) {
  const auto or_default = [](auto value, auto other) { return value == 0 ? other : value; };
  if (config.policy > KVC_SCHEDULE_ADAPTIVE)
    return invalid("policy is %u; policies are 0 (FCFS) to 4 (ADAPTIVE)", config.policy);
  if (config.admission > KVC_ADMIT_WORST)
    return invalid("admission is %u; it is 0 (CHUNK) to 3 (WORST)", config.admission);
  constexpr uint32_t kOrders = KVC_SCHEDULER_CACHE_AWARE | KVC_SCHEDULER_DEPTH_FIRST;
  if (config.flags > kOrders || config.reserved != 0)
    return fail(KVC_ERROR_UNSUPPORTED,
                "flags are %#x and reserved is %u; the flags 1 (CACHE_AWARE) and 2 (DEPTH_FIRST) are known",
                config.flags, config.reserved);
  if (config.flags == kOrders)
    return invalid("flags are 3: CACHE_AWARE and DEPTH_FIRST are two orders; set one");
  KVC_TRY(check_range("max_running", config.max_running, 1u << 16));
  KVC_TRY(check_range("max_tokens", config.max_tokens, 1u << 24));
  KVC_TRY(check_range("max_drafts", config.max_drafts, 1024));
  KVC_TRY(check_range("max_plans", config.max_plans, 8));
  KVC_TRY(check_range("max_adapters", config.max_adapters, 4096));
  KVC_TRY(check_range("max_tenants", config.max_tenants, 1u << 16));
  KVC_TRY(check_range("adaptive_plans", config.adaptive_plans, 1u << 16));
  KVC_TRY(check_range("max_request_tokens", config.max_request_tokens, shape.max_request_tokens));
  if (!(config.low_watermark >= 0 && config.low_watermark <= config.high_watermark &&
        config.high_watermark <= 1))
    return invalid("low_watermark is %g and high_watermark %g; 0 <= low <= high <= 1", config.low_watermark,
                   config.high_watermark);
  SchedulerOptions& o = *out;
  o = {};
  o.policy = config.policy, o.admission = config.admission, o.flags = config.flags;
  o.max_running = or_default(config.max_running, 256u);
  o.max_tokens = or_default(config.max_tokens, std::max(2048u, o.max_running));
  o.max_chunk = or_default(config.max_chunk, o.max_tokens);
  o.max_drafts = config.max_drafts;
  o.max_plans = or_default(config.max_plans, 1u);
  o.max_adapters = config.max_adapters;
  o.max_tenants = or_default(config.max_tenants, 1u);
  o.adaptive_plans = or_default(config.adaptive_plans, 8u);
  o.max_encoder_tokens = config.max_encoder_tokens;
  o.max_request_tokens = or_default(config.max_request_tokens, most_request_tokens(shape));
  o.max_wait_ns = or_default(config.max_wait_ns, uint64_t{10000000000});
  o.high_watermark = config.high_watermark, o.low_watermark = config.low_watermark;
  o.max_jobs = static_cast<size_t>(shape.max_requests);
  o.num_groups = shape.num_groups, o.num_token_groups = shape.num_token_groups;
  o.block_size = shape.block_size, o.vocab_size = shape.vocab_size;
  o.row_stride = shape.positions_of(o.max_request_tokens);
  o.has_states = shape.state_groups != 0;
  o.has_lengths = shape.has_headroom();
  o.ends_at_blocks = shape.state_groups != 0 || shape.has_fills();
  if (o.max_tokens < o.max_running)
    return invalid("max_tokens is %u and max_running %u; each running request needs a token", o.max_tokens,
                   o.max_running);
  return KVC_OK;
}

uint64_t prefix_key(kvc_manager* m, uint64_t request, size_t num_blocks) {
  return m->impl->prefix_key(request, num_blocks);
}

kvc_status read_inputs(const kvc_schedule_job& job, size_t num_tokens) {
  KVC_TRY(check_range("num_inputs", job.num_inputs, 1u << 16));
  KVC_REQUIRE_ARRAY(job.inputs, job.num_inputs);
  bool apart = true;  // in order, and without overlaps
  uint64_t end = 0;
  for (size_t i = 0; i < job.num_inputs; ++i) {
    const kvc_encoder_input& input = job.inputs[i];
    if (input.num_tokens == 0 || input.first_token >= num_tokens ||
        input.num_tokens > num_tokens - input.first_token) {
      return invalid(
          "inputs[%zu] has %llu tokens from %llu on; it needs at least 1, all within the prompt of %zu "
          "tokens",
          i, ull(input.num_tokens), ull(input.first_token), num_tokens);
    }
    apart = apart && input.first_token >= end;
    end = input.first_token + input.num_tokens;
  }
  if (apart) return KVC_OK;
  std::vector<const kvc_encoder_input*> sorted;
  for (size_t i = 0; i < job.num_inputs; ++i) sorted.push_back(job.inputs + i);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->first_token < b->first_token; });
  uint64_t ends[KVC_MAX_KEYS_OF_TOKEN];  // of those over the present one's first token
  size_t over = 0;
  for (const kvc_encoder_input* input : sorted) {
    over = static_cast<size_t>(
        std::remove_if(ends, ends + over, [&](uint64_t at) { return at <= input->first_token; }) - ends);
    if (over == KVC_MAX_KEYS_OF_TOKEN)
      return fail(KVC_ERROR_LIMIT, "more than %d inputs cover token %llu of the prompt; merge some into one",
                  KVC_MAX_KEYS_OF_TOKEN, ull(input->first_token));
    ends[over++] = input->first_token + input->num_tokens;
  }
  return KVC_OK;
}

// A job and the options of its request.
kvc_status read_job(const kvc_schedule_job* from, const SchedulerOptions& options, kvc_schedule_job* job,
                    kvc_prompt* prompt, kvc_request_config* config) {
  KVC_REQUIRE_POINTER(from);
  KVC_TRY(read_struct(from, job));
  KVC_REQUIRE_POINTER(job->prompt);
  KVC_TRY(read_struct(job->prompt, prompt));
  *config = {};
  if (job->config != nullptr) KVC_TRY(read_struct(job->config, config));
  config->struct_size = sizeof *config;
  if (config->slots != 0 || config->lookahead != 0 || config->external_tokens != 0 || config->headroom != 0)
    return invalid(
        "slots (%llu), lookahead (%llu), external_tokens (%llu) and headroom (%u) must be 0: plans say "
        "what a request gets",
        ull(config->slots), ull(config->lookahead), ull(config->external_tokens), config->headroom);
  constexpr uint32_t kInFlight = KVC_REQUEST_PUBLISH_ENQUEUED | KVC_REQUEST_SHARE_FILLING;
  if ((config->flags & kInFlight) != 0)
    return fail(KVC_ERROR_UNSUPPORTED,
                "flags are %#x; requests of a scheduler have neither KVC_REQUEST_PUBLISH_ENQUEUED nor "
                "KVC_REQUEST_SHARE_FILLING",
                config->flags);
  if (options.admission >= KVC_ADMIT_PROMPT) config->flags |= KVC_REQUEST_FULL_MUST_FIT;
  if (prompt->num_tokens == 0 || prompt->num_tokens >= options.max_request_tokens) {
    return invalid("the prompt has %zu tokens; 1 to %llu, so that one more has room", prompt->num_tokens,
                   ull(options.max_request_tokens - 1));
  }
  if (config->cross_tokens > options.max_request_tokens) {
    return invalid(
        "cross_tokens is %llu; at most max_request_tokens of the scheduler, %llu, which rows have room for",
        ull(config->cross_tokens), ull(options.max_request_tokens));
  }
  if (job->max_new_tokens == 0) return invalid("max_new_tokens is 0; at least 1");
  config->lookahead = options.lookahead(job->max_new_tokens);
  if (job->tenant >= options.max_tenants)
    return invalid("tenant is %u; below max_tenants, %u", job->tenant, options.max_tenants);
  if (job->flags > KVC_JOB_NOT_READY || job->reserved != 0)
    return fail(KVC_ERROR_UNSUPPORTED,
                "flags are %#x and reserved is %u; only the flag 1 (NOT_READY) is known", job->flags,
                job->reserved);
  return read_inputs(*job, prompt->num_tokens);
}

template <typename Call>
kvc_status on_scheduler(kvc_scheduler* s, Call&& call) noexcept {
  return on_locked(s, "scheduler", static_cast<Call&&>(call));
}

}  // namespace

extern "C" {

kvc_status kvc_scheduler_create(const kvc_scheduler_config* config, kvc_scheduler** scheduler) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(config);
    KVC_REQUIRE_POINTER(scheduler);
    kvc_scheduler_config own;
    KVC_TRY(read_struct(config, &own));
    KVC_REQUIRE_POINTER(own.manager);
    if (own.offload != nullptr && own.offload->manager != own.manager)
      return invalid("the offload is of another manager; make one for this manager");
    SchedulerOptions options;
    KVC_TRY(read_options(own, own.manager->impl->shape(), &options));
    if (__atomic_exchange_n(&own.manager->has_scheduler, true, __ATOMIC_ACQ_REL))
      return fail(KVC_ERROR_BUSY, "the manager has a scheduler");
    const SchedulerCalls calls = {own.manager,
                                  own.offload,
                                  kvc_manager_step,
                                  kvc_manager_retire_step,
                                  kvc_manager_append_tokens,
                                  kvc_manager_truncate_request,
                                  kvc_manager_free_request,
                                  kvc_manager_probe_request,
                                  prefix_key,
                                  kvc_manager_request_info,
                                  kvc_manager_pool_info,
                                  kvc_manager_read_stats,
                                  kvc_manager_quota_info,
                                  kvc_manager_expected_tokens,
                                  kvc_offload_lookup,
                                  kvc_offload_query,
                                  kvc_offload_cancel,
                                  kvc_offload_store_request,
                                  kvc_offload_read_stats};
    kvc_scheduler* made = nullptr;
    const kvc_status status =
        make_locked(own.allocator, "max_running, max_tokens or max_request_tokens", &made,
                    [&](Scheduler& impl, Memory& memory) { return impl.create(memory, calls, options); });
    if (status != KVC_OK) {
      __atomic_store_n(&own.manager->has_scheduler, false, __ATOMIC_RELEASE);
      return status;
    }
    made->manager = own.manager;
    made->on_pressure = own.on_pressure, made->user_data = own.user_data;
    *scheduler = made;
    return KVC_OK;
  });
}

void kvc_scheduler_destroy(kvc_scheduler* s) {
  if (s == nullptr) return;
  kvc_manager* const manager = s->manager;
  destroy_locked(s);
  if (manager != nullptr) __atomic_store_n(&manager->has_scheduler, false, __ATOMIC_RELEASE);
}

kvc_status kvc_scheduler_add(kvc_scheduler* s, const kvc_schedule_job* job, uint64_t* request) {
  if (s == nullptr) return invalid("the scheduler is NULL");
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(request);
    kvc_schedule_job own;
    kvc_prompt prompt;
    kvc_request_config config;
    KVC_TRY(read_job(job, s->impl.options(), &own, &prompt, &config));
    NewJob added = {0, prompt.namespace_id, config.wait_until_ns, static_cast<uint32_t>(prompt.num_tokens),
                    &own};
    KVC_TRY(kvc_manager_create_request(s->manager, &prompt, &config, &added.id));
    const kvc_status status = on_scheduler(s, [&](Scheduler& impl) { return impl.add(added); });
    if (status != KVC_OK) {
      static_cast<void>(kvc_manager_free_request(s->manager, added.id));
      return status;
    }
    *request = added.id;
    return KVC_OK;
  });
}

kvc_status kvc_scheduler_abort(kvc_scheduler* s, uint64_t request) {
  return on_scheduler(s, [&](Scheduler& impl) { return impl.abort(request); });
}

kvc_status kvc_scheduler_set_ready(kvc_scheduler* s, uint64_t request) {
  return on_scheduler(s, [&](Scheduler& impl) { return impl.set_ready(request); });
}

kvc_status kvc_scheduler_set_priority(kvc_scheduler* s, uint64_t request, int32_t priority) {
  return on_scheduler(s, [&](Scheduler& impl) { return impl.set_priority(request, priority); });
}

kvc_status kvc_scheduler_set_weight(kvc_scheduler* s, uint32_t tenant, double weight) {
  return on_scheduler(s, [&](Scheduler& impl) -> kvc_status {
    if (tenant >= impl.options().max_tenants)
      return invalid("tenant is %u; below max_tenants, %u", tenant, impl.options().max_tenants);
    if (!(weight >= 1.0 / 65536 && weight <= 65536)) return invalid("weight is %g; 2^-16 to 65536", weight);
    impl.set_weight(tenant, weight);
    return KVC_OK;
  });
}

kvc_status kvc_scheduler_set_drafts(kvc_scheduler* s, const uint64_t* requests, const uint32_t* num_drafts,
                                    size_t num_requests) {
  return on_scheduler(s, [&](Scheduler& impl) -> kvc_status {
    KVC_REQUIRE_MEMORY(requests, num_requests);
    KVC_REQUIRE_MEMORY(num_drafts, num_requests);
    return impl.set_drafts(requests, num_drafts, num_requests);
  });
}

kvc_status kvc_scheduler_plan(kvc_scheduler* s, uint64_t now_ns, kvc_plan* plan) {
  const Timed timed(latency_of(s, KVC_LATENCY_PLAN));
  bool changed = false, high = false;
  double usage = 0;
  const kvc_status status = on_scheduler(s, [&](Scheduler& impl) -> kvc_status {
    return answer(plan, [&](kvc_plan* out) {
      const kvc_status made = impl.plan(now_ns, out);
      changed = impl.pressure().take_change(&high, &usage);
      return made;
    });
  });
  if (changed && s->on_pressure != nullptr) s->on_pressure(s->user_data, high, usage);
  return status;
}

kvc_status kvc_scheduler_finish(kvc_scheduler* s, kvc_plan_result* result) {
  const Timed timed(latency_of(s, KVC_LATENCY_FINISH));
  return on_scheduler(s, [&](Scheduler& impl) -> kvc_status {
    KVC_REQUIRE_POINTER(result);
    kvc_plan_result own;
    KVC_TRY(read_struct(result, &own));
    if (own.flags > KVC_RESULT_FAILED || own.reserved != 0)
      return fail(KVC_ERROR_UNSUPPORTED,
                  "flags are %#x and reserved is %u; only the flag 1 (FAILED) is known", own.flags,
                  own.reserved);
    KVC_TRY(impl.finish(own));
    result->num_ended = own.num_ended;
    return KVC_OK;
  });
}

kvc_status kvc_scheduler_request_info(kvc_scheduler* s, uint64_t request, kvc_scheduled_info* info) {
  return on_scheduler(s, [&](Scheduler& impl) {
    return answer(info, [&](kvc_scheduled_info* out) { return impl.info(request, out); });
  });
}

kvc_status kvc_scheduler_read_stats(kvc_scheduler* s, kvc_scheduler_stats* stats) {
  return on_scheduler(s, [&](Scheduler& impl) {
    return answer(stats, [&](kvc_scheduler_stats* out) -> kvc_status {
      impl.read_stats(out);
      return KVC_OK;
    });
  });
}

kvc_status kvc_scheduler_check(kvc_scheduler* s) {
  return on_scheduler(s, [](Scheduler& impl) { return impl.check(); });
}

}  // extern "C"
