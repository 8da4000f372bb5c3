// SPDX-License-Identifier: Apache-2.0
// Calls of a scheduler that must be refused. None of them changes anything: the manager has the same digest
// after it, and the model of model.h, which is not told, still describes every request.
#pragma once
#include <limits>

#include "scheduler/engine.h"

namespace kvc::test {

class Misuse {
 public:
  Misuse(Random& random, const EngineConfig& config, Engine& engine)
      : random_(random), config_(config), engine_(engine), s_(engine.scheduler()) {}

  void unknown_request() {
    uint64_t id = random_.next() | 1;
    for (const auto& [known, sequence] : engine_.sequences()) {
      if (sequence.ended ? random_.chance(20) : known == id) id = sequence.ended ? known : id + 2;
    }
    const uint32_t none = 0;
    kvc_scheduled_info info = {};
    info.struct_size = sizeof info;
    refused(kvc_scheduler_abort(s_, id), KVC_ERROR_NOT_FOUND);  // also twice
    refused(kvc_scheduler_set_ready(s_, id), KVC_ERROR_NOT_FOUND);
    refused(kvc_scheduler_set_priority(s_, id, 1), KVC_ERROR_NOT_FOUND);
    refused(kvc_scheduler_set_drafts(s_, &id, &none, 1), KVC_ERROR_NOT_FOUND);
    refused(kvc_scheduler_request_info(s_, id, &info), KVC_ERROR_NOT_FOUND);
  }

  void weight() {
    const double weights[] = {
        0,       -1,  std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
        1 << 17, 1e-9};
    const uint32_t tenant = random_.chance(20) ? config_.scheduler.max_tenants : 0;
    refused(kvc_scheduler_set_weight(s_, tenant, weights[random_.below(6)]), KVC_ERROR_INVALID_ARGUMENT);
    refused(kvc_scheduler_set_weight(s_, config_.scheduler.max_tenants, 1), KVC_ERROR_INVALID_ARGUMENT);
  }

  void configuration() {
    kvc_scheduler* other = nullptr;
    kvc_scheduler_config config = config_.scheduler;
    config.struct_size = sizeof config, config.manager = engine_.manager();
    refused(kvc_scheduler_create(&config, &other), KVC_ERROR_BUSY);
    config.high_watermark = std::numeric_limits<double>::quiet_NaN();
    refused(kvc_scheduler_create(&config, &other), KVC_ERROR_INVALID_ARGUMENT);
  }

  void plan() {
    kvc_plan plan = {};
    plan.struct_size = sizeof plan;
    if (engine_.in_flight() == config_.scheduler.max_plans)
      refused(kvc_scheduler_plan(s_, engine_.now, &plan), KVC_ERROR_BUSY);
    plan.struct_size = 3;
    refused(kvc_scheduler_plan(s_, engine_.now, &plan), KVC_ERROR_INVALID_ARGUMENT);
  }

  void drafts() {
    const uint32_t too_many = config_.scheduler.max_drafts + 1;
    for (const auto& [id, sequence] : engine_.sequences()) {
      if (sequence.ended) continue;
      const uint64_t ids[] = {id, id};
      const uint32_t counts[] = {config_.scheduler.max_drafts, too_many};
      return refused(kvc_scheduler_set_drafts(s_, ids, counts, 2), KVC_ERROR_INVALID_ARGUMENT);
    }
  }

  void job() {
    const std::vector<int32_t> tokens = prompt_of(9, 1);
    const kvc_encoder_input empty[] = {{1, 3}, {3, 0}};
    kvc_prompt prompt = {};
    prompt.struct_size = sizeof prompt;
    prompt.tokens = tokens.data(), prompt.num_tokens = tokens.size();
    kvc_request_config options = {};
    options.struct_size = sizeof options;
    kvc_schedule_job job = job_of(3);
    job.struct_size = sizeof job;
    job.prompt = &prompt, job.config = &options;
    job.now_ns = engine_.now;
    kvc_status expected = KVC_ERROR_INVALID_ARGUMENT;
    switch (random_.below(8)) {
      case 0:
        prompt.num_tokens = 0;
        break;
      case 1:
        job.max_new_tokens = 0;
        break;
      case 2:
        job.tenant = config_.scheduler.max_tenants;
        break;
      case 3:
        job.inputs = empty, job.num_inputs = 2;
        break;
      case 4:
        options.slots = 5;
        break;
      case 5:
        job.flags = 8, expected = KVC_ERROR_UNSUPPORTED;
        break;
      case 6:
        prompt.namespace_id = 77777, expected = KVC_ERROR_NOT_FOUND;
        break;
      default:
        job.prompt = nullptr;
    }
    uint64_t id = 1;
    refused(kvc_scheduler_add(s_, &job, &id), expected);
    EXPECT_EQ(id, 1u) << "the output of a call that failed";
  }

  void result() {
    const Engine::Flight* const flight = engine_.oldest();
    std::vector<uint64_t> offsets{0};
    std::vector<int32_t> tokens;
    kvc_plan_result result = {};
    result.struct_size = sizeof result;
    result.plan_id = flight == nullptr ? 1 : flight->plan_id;
    if (flight == nullptr) {
      result.token_offsets = offsets.data();
      return refused(kvc_scheduler_finish(s_, &result), KVC_ERROR_INVALID_ARGUMENT);
    }
    size_t live = SIZE_MAX;
    for (size_t i = 0; i < flight->requests.size(); ++i) {
      const bool ended = engine_.sequences().at(flight->requests[i]).ended;
      if (!ended) live = i;
      tokens.insert(tokens.end(), ended ? 0 : flight->samples[i], 1);
      offsets.push_back(tokens.size());
    }
    if (live == SIZE_MAX) return;
    result.num_items = flight->requests.size();
    switch (random_.below(5)) {
      case 0:
        ++result.plan_id;
        break;
      case 1:
        ++result.num_items;
        break;
      case 2:  // too many, or one that it does not bring
        for (size_t i = live; i < flight->requests.size(); ++i)
          offsets[i + 1] += config_.scheduler.max_drafts + 2;
        break;
      case 3:  // too few, or none that samples
        if (flight->samples[live] == 0) return;
        for (size_t i = live; i < flight->requests.size(); ++i) --offsets[i + 1];
        break;
      default:
        if (flight->samples[live] == 0) return;
        tokens[offsets[live]] = random_.chance(50) ? -1 : static_cast<int32_t>(config_.vocab);
    }
    tokens.resize(tokens.size() + config_.scheduler.max_drafts + 2, 1);
    result.token_offsets = offsets.data(), result.tokens = tokens.data();
    refused(kvc_scheduler_finish(s_, &result), KVC_ERROR_INVALID_ARGUMENT);
  }

 private:
  void refused(kvc_status status, kvc_status expected) { EXPECT_EQ(status, expected) << kvc_last_error(); }

  Random& random_;
  const EngineConfig& config_;
  Engine& engine_;
  kvc_scheduler* const s_;
};

inline void misuse(Random& random, const EngineConfig& config, Engine& engine) {
  Misuse calls(random, config, engine);
  using Call = void (Misuse::*)();
  static constexpr Call kCalls[] = {
      &Misuse::unknown_request, &Misuse::weight, &Misuse::configuration, &Misuse::plan,
      &Misuse::drafts,          &Misuse::job,    &Misuse::result};
  uint64_t before = 0, after = 0;
  EXPECT_EQ(kvc_manager_digest(engine.manager(), &before), KVC_OK);
  (calls.*kCalls[random.below(std::size(kCalls))])();
  EXPECT_EQ(kvc_manager_digest(engine.manager(), &after), KVC_OK);
  EXPECT_EQ(before, after) << "a call that failed has changed the manager";
}

}  // namespace kvc::test
