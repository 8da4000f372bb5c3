// SPDX-License-Identifier: Apache-2.0
// The calls of a test's engine as lines of text, and a digest of all plans, which says what each of them has.
// Requests are named by the order of their arrival: ids differ between processes. Another language makes the
// same calls from the lines, and must get the same digests.
#pragma once
#include <map>
#include <sstream>
#include <string>

#include "scheduler/listener.h"

namespace kvc::test {

class PlanLog : public Listener {
 public:
  uint64_t digest() const { return digest_; }
  std::string text() const { return text_.str(); }

  void added(uint64_t id, const kvc_schedule_job& job, const std::vector<int32_t>& prompt,
             size_t space) override {
    numbers_.emplace(id, numbers_.size());
    const uint64_t wait_until_ns = job.config != nullptr ? job.config->wait_until_ns : 0;
    line("add", space, job.now_ns, job.max_new_tokens, job.expected_new_tokens, job.priority, job.tenant,
         job.adapter, job.flags, wait_until_ns, job.num_inputs);
    for (size_t i = 0; i < job.num_inputs; ++i)
      text_ << ' ' << job.inputs[i].first_token << ' ' << job.inputs[i].num_tokens;
    for (const int32_t token : prompt) text_ << ' ' << token;
  }
  void aborted(uint64_t id) override { line("abort", numbers_.at(id)); }
  void made_ready(uint64_t id) override { line("ready", numbers_.at(id)); }
  void got_priority(uint64_t id, int32_t priority) override { line("priority", numbers_.at(id), priority); }
  void got_drafts(uint64_t id, uint32_t count) override { line("drafts", numbers_.at(id), count); }
  void got_weight(uint32_t tenant, double weight) override { line("weight", tenant, weight); }
  void got_quota(size_t space, uint64_t min_blocks, uint64_t max_blocks) override {
    line("quota", space, min_blocks, max_blocks);
  }
  void planned(const kvc_plan& plan, uint64_t now) override {
    note_plan(plan);
    line("plan", now, plan.num_items, digest_);
  }
  void finished(const kvc_plan_result& result) override {
    line("finish");
    for (size_t i = 0; i <= result.num_items; ++i) text_ << ' ' << result.token_offsets[i];
    for (size_t i = 0; i < result.num_items; ++i) text_ << ' ' << int{result.stopped[i]};
    for (size_t i = 0; i < result.token_offsets[result.num_items]; ++i) text_ << ' ' << result.tokens[i];
  }
  void failed() override { line("fail"); }

  template <typename... Values>
  void line(const char* word, const Values&... values) {
    text_ << '\n' << word;
    ((text_ << ' ' << values), ...);
  }

 private:
  template <typename T>
  void note(T value) {
    digest_ = (digest_ ^ (static_cast<uint64_t>(value) + 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;
    digest_ ^= digest_ >> 32;
  }
  void note_plan(const kvc_plan& plan) {
    note(plan.num_items);
    for (size_t i = 0; i < plan.num_items; ++i) {
      note(numbers_.at(plan.requests[i]));
      note(plan.rows[i]);
      note(plan.first_tokens[i]);
      note(plan.token_offsets[i + 1]);
      note(plan.num_drafts[i]);
      note(plan.samples[i]);
      note(plan.is_new[i]);
    }
    for (size_t g = 0; g < plan.num_groups; ++g)
      for (size_t t = 0; t < plan.num_tokens; ++t) note(plan.slots[g * plan.slot_stride + t]);
    note(plan.num_copies);
    for (size_t i = 0; i < plan.num_copies; ++i)
      note(plan.copies[i].source), note(plan.copies[i].destination);
    note(plan.num_preempted);
    for (size_t i = 0; i < plan.num_preempted; ++i) note(numbers_.at(plan.preempted[i]));
    note(plan.num_encoder_runs);
    for (size_t i = 0; i < plan.num_encoder_runs; ++i)
      note(plan.encoder_runs[i].item), note(plan.encoder_runs[i].input);
    note(plan.num_ended);
    for (size_t i = 0; i < plan.num_ended; ++i) note(numbers_.at(plan.ended[i].request));
  }

  std::map<uint64_t, size_t> numbers_;
  std::ostringstream text_;
  uint64_t digest_ = 0;
};

}  // namespace kvc::test
