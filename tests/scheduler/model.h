// SPDX-License-Identifier: Apache-2.0
// A model of the promises of kvcache/scheduler.h: plain lists, searched from end to end, without any code of
// the library. It is told every call. It knows what each request has, who comes before whom, and whose turn
// it is, and holds each plan and each state against that. What only blocks decide (how long a hit is, when a
// request lacks a block) it takes from the plan, and says who may be preempted then and what must not happen.
#pragma once
#include <gtest/gtest.h>
#include <kvcache/manager.h>
#include <kvcache/scheduler.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "scheduler/listener.h"

namespace kvc::test {

class SchedulerModel : public Listener {
 public:
  struct Limits {
    kvc_scheduler_config config;  // with its defaults filled in
    bool offload, quotas, fills, states;
    uint64_t num_groups, block_size;
  };
  struct Request {
    uint64_t number = 0;  // of arrival
    uint64_t arrival = 0, prompt = 0, known = 0, limit = 0, max_new = 0, expected = 0, adapter = 0;
    int32_t priority = 0, row = -1;
    uint32_t tenant = 0;
    size_t space = 0, num_inputs = 0;
    bool ready = true, running = false,
         silent = false;  // silent: admitted without a token, so nobody was told
    bool loading = false, aged = false, waited = false;  // waited: a plan has seen it wait
    bool restarts = false, drafting = false;  // restarts: a failed plan has taken its states or copies along
    uint64_t planned = 0, cached = 0, preemptions = 0, admission = 0;
    uint64_t in_flight = 0, samples = 0;  // plans with an item of it, and of them such that bring a token
    uint64_t drafts = 0;                  // for the next plan

    uint64_t goal() const { return known + samples; }
    bool has_work() const { return !drafting && goal() < limit && goal() > planned; }
    bool decodes() const { return goal() - planned == 1 && num_inputs == 0; }
    bool queued() const { return ready && !running && !loading && in_flight == 0; }
  };

  SchedulerModel(kvc_manager* manager, kvc_scheduler* scheduler, const Limits& limits)
      : manager_(manager), scheduler_(scheduler), limits_(limits), config_(limits.config) {
    policy_ = config_.policy == KVC_SCHEDULE_ADAPTIVE ? uint32_t{KVC_SCHEDULE_FCFS} : config_.policy;
  }

  // ---- calls that succeeded

  void added(uint64_t id, const kvc_schedule_job& job, const std::vector<int32_t>& prompt,
             size_t space) override {
    ASSERT_TRUE(ids_.insert(id).second) << "an id is given twice";
    Request r;
    r.number = next_number_++;
    r.arrival = now_ = std::max(now_, job.now_ns);
    r.prompt = r.known = prompt.size();
    r.max_new = std::min(job.max_new_tokens, config_.max_request_tokens);
    r.limit = std::min<uint64_t>(prompt.size() + r.max_new, config_.max_request_tokens);
    r.expected = std::min(job.expected_new_tokens, r.max_new);
    r.adapter = job.adapter, r.priority = job.priority, r.tenant = job.tenant, r.space = space;
    r.num_inputs = job.num_inputs;
    r.ready = (job.flags & KVC_JOB_NOT_READY) == 0;
    requests_[id] = r;
    enter(requests_[id]);
    ++added_;
  }
  void aborted(uint64_t id) override {
    kvc_scheduled_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_scheduler_request_info(scheduler_, id, &info), KVC_ERROR_NOT_FOUND) << "it was aborted";
    ++aborted_;
    leave(id);
  }
  void made_ready(uint64_t id) override {
    Request& r = requests_.at(id);
    if (r.ready) return;
    r.ready = true;
    enter(r);
  }
  void got_priority(uint64_t id, int32_t priority) override { requests_.at(id).priority = priority; }
  void got_drafts(uint64_t id, uint32_t count) override { requests_.at(id).drafts = count; }

  // ---- plans

  // Before the call: what time and the queue change.
  void plans(uint64_t now) override {
    now_ = std::max(now_, now);
    if (config_.max_wait_ns < now_) aged_until_ = now_ - config_.max_wait_ns;
    uint64_t tokens = 0;
    for (auto& [id, r] : requests_) {
      if (r.queued()) age(r), tokens += r.known;
    }
    if (config_.policy != KVC_SCHEDULE_ADAPTIVE) return;
    const uint64_t most = uint64_t{config_.adaptive_plans} * config_.max_tokens;
    const uint32_t before = policy_;
    if (tokens > most) policy_ = KVC_SCHEDULE_SHORTEST;
    if (tokens < most / 4) policy_ = KVC_SCHEDULE_FCFS;
    policy_changes_ += policy_ != before;
  }

  void planned(const kvc_plan& plan, uint64_t /*now*/) override {
    ending_.clear();  // given back with this plan
    preempt(plan);
    end_lacking(plan);
    const std::vector<uint64_t> stayed = running();
    find_loading();
    if (testing::Test::HasFailure()) return;
    std::vector<uint64_t> admitted;
    take_items(plan, &admitted);
    if (testing::Test::HasFailure()) return;
    find_silent();
    check_unplanned(plan, stayed, admitted);
    check_admissions(plan, stayed, admitted);
    for (auto& [id, r] : requests_) r.drafts = 0, r.waited = true;
    watch_pressure();
  }

  // The result of the oldest plan, item by item; ended: what the scheduler says.
  void finished(const kvc_plan_result& result) override {
    ASSERT_FALSE(flights_.empty());
    const Flight flight = flights_.front();
    flights_.pop_front();
    std::vector<std::pair<uint64_t, uint32_t>> expected, ended;
    for (size_t i = 0; i < flight.items.size(); ++i) {
      const Item& item = flight.items[i];
      const auto found = requests_.find(item.id);
      if (found == requests_.end()) continue;  // it has ended: its tokens are ignored
      Request& r = found->second;
      const uint64_t count = result.token_offsets[i + 1] - result.token_offsets[i];
      --r.in_flight;
      r.samples -= item.samples;
      if (item.drafts != 0) {
        r.drafting = false;
        if (r.running && r.admission == item.admission) r.planned -= item.drafts + 1 - count;
      }
      r.known += count;
      uint32_t reason = r.known >= r.limit ? uint32_t{KVC_ENDED_LENGTH} : 0;
      if (result.stopped != nullptr && result.stopped[i] != 0) reason = KVC_ENDED_STOPPED;
      if (reason == 0) {
        if (r.queued()) enter(r);
        continue;
      }
      expected.emplace_back(item.id, reason);
      note_end(item.id);
    }
    for (size_t i = 0; i < result.num_ended; ++i)
      ended.emplace_back(result.ended[i].request, result.ended[i].reason);
    EXPECT_EQ(ended, expected);
  }
  void failed() override {
    for (const Flight& flight : flights_) {
      for (const Item& item : flight.items) {
        const auto found = requests_.find(item.id);
        if (found == requests_.end()) continue;
        Request& r = found->second;
        --r.in_flight;
        r.samples -= item.samples;
        r.drafting = false;
        if (r.running && r.admission == item.admission) {
          r.planned = std::min(r.planned, item.first);
          r.restarts |= limits_.states || flight.has_copies;  // it begins again with the next plan
        }
        if (r.queued()) enter(r);
      }
    }
    flights_.clear();
  }

  // ---- states

  // That of each request and of the whole.
  void check() {
    uint64_t waiting = 0, runs = 0;
    for (const auto& [id, r] : requests_) {
      const kvc_scheduled_info info = info_of(id);
      (r.running ? runs : waiting) += 1;
      const std::string who = "request " + std::to_string(r.number);
      ASSERT_EQ(info.state, state_of(r)) << who;
      ASSERT_EQ(info.row >= 0, r.running) << who;
      ASSERT_EQ(info.row, r.silent ? info.row : r.row) << who;
      ASSERT_EQ(info.num_tokens, r.known) << who;
      ASSERT_EQ(info.num_prompt, r.prompt) << who;
      ASSERT_EQ(info.num_planned, r.silent ? info.num_planned : r.planned) << who;
      ASSERT_EQ(info.num_preemptions, r.num_inputs == 0 ? r.preemptions : info.num_preemptions) << who;
      ASSERT_EQ(info.arrival_ns, r.arrival) << who;
      ASSERT_EQ(info.priority, r.priority) << who;
      ASSERT_EQ(info.tenant, r.tenant) << who;
      check_reason(r, info.wait_reason);
    }
    for (const uint64_t id : gone_) {
      kvc_scheduled_info info = {};
      info.struct_size = sizeof info;
      ASSERT_EQ(kvc_scheduler_request_info(scheduler_, id, &info), KVC_ERROR_NOT_FOUND);
    }
    gone_.clear();
    const kvc_scheduler_stats stats = scheduler_stats();
    ASSERT_EQ(stats.waiting, waiting);
    ASSERT_EQ(stats.running, runs);
    ASSERT_EQ(stats.plans_in_flight, flights_.size());
    ASSERT_EQ(stats.added, added_);
    ASSERT_EQ(stats.aborted, aborted_);
    ASSERT_EQ(stats.ended, ended_);
    ASSERT_EQ(stats.aged, num_aged_);
    ASSERT_EQ(stats.policy, policy_);
    ASSERT_EQ(stats.policy_changes, policy_changes_);
    ASSERT_EQ(stats.pressure != 0, pressure_);
    ASSERT_EQ(stats.pressure_changes, pressure_changes_);
    const kvc_stats manager = manager_stats();
    ASSERT_EQ(manager.live_requests, runs + ending_.size()) << "blocks of requests that have ended are kept";
    ASSERT_EQ(manager.waiting_requests, waiting);
  }
  // Nothing is left of all requests, and nothing of their plans.
  void check_end() {
    EXPECT_TRUE(requests_.empty() && flights_.empty());
    EXPECT_EQ(added_, aborted_ + ended_);
    const kvc_stats stats = manager_stats();
    EXPECT_EQ(stats.live_requests + stats.waiting_requests, 0u);
    EXPECT_EQ(stats.blocks_free + stats.blocks_cached, stats.blocks_total) << "blocks are not given back";
  }

 private:
  struct Item {
    uint64_t id, first, samples, drafts, admission;
  };
  struct Flight {
    std::vector<Item> items;
    bool has_copies;
  };

  kvc_scheduled_info info_of(uint64_t id) const {
    kvc_scheduled_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_scheduler_request_info(scheduler_, id, &info), KVC_OK) << "a request is lost";
    return info;
  }
  kvc_scheduler_stats scheduler_stats() const {
    kvc_scheduler_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(kvc_scheduler_read_stats(scheduler_, &stats), KVC_OK);
    return stats;
  }
  kvc_stats manager_stats() const {
    kvc_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(kvc_manager_read_stats(manager_, &stats), KVC_OK);
    return stats;
  }
  std::vector<uint64_t> running() const {
    std::vector<uint64_t> ids;
    for (const auto& [id, r] : requests_)
      if (r.running) ids.push_back(id);
    return ids;
  }
  static uint32_t state_of(const Request& r) {
    if (r.running) return KVC_SCHEDULED_RUNNING;
    if (!r.ready) return KVC_SCHEDULED_NOT_READY;
    return r.loading ? KVC_SCHEDULED_LOADING : KVC_SCHEDULED_WAITING;
  }

  // It joins those that wait for their admission.
  void enter(Request& r) {
    r.waited = false;
    if (r.ready) age(r);
  }
  void age(Request& r) {
    if (!aged_until_ || r.arrival > *aged_until_ || r.aged) return;
    r.aged = true;
    ++num_aged_;
  }
  void leave(uint64_t id) {
    if (requests_.at(id).running) ending_.insert(id);
    gone_.insert(id);
    requests_.erase(id);
  }
  void note_end(uint64_t id) {
    ++ended_;
    leave(id);
  }

  void preempt(const kvc_plan& plan) {
    std::set<uint64_t> preempted;
    for (size_t i = 0; i < plan.num_preempted; ++i) {
      const uint64_t id = plan.preempted[i];
      ASSERT_EQ(requests_.count(id), 1u) << "an unknown or ended request is preempted";
      ASSERT_TRUE(requests_.at(id).running && preempted.insert(id).second);
    }
    // Requests that begin again after a failed plan, and those that it was made without, come first.
    for (const uint64_t id : preempted) {
      const Request& victim = requests_.at(id);
      if (victim.restarts) continue;
      for (const auto& [other_id, other] : requests_) {
        if (!other.running || other.silent || preempted.count(other_id) != 0 || is_ended_by(plan, other_id))
          continue;
        if (limits_.quotas && other.space != victim.space) continue;
        EXPECT_TRUE(served_later(victim, other))
            << "request " << victim.number << " is preempted before " << other.number;
      }
    }
    for (const uint64_t id : preempted) {
      Request& r = requests_.at(id);
      r.running = false, r.row = -1, r.planned = 0, r.restarts = false;
      ++r.preemptions;
      if (r.in_flight == 0) enter(r);
    }
    for (auto& [id, r] : requests_) {
      EXPECT_TRUE(!r.restarts || r.silent || is_ended_by(plan, id)) << "it does not begin again";
      r.restarts = false;
    }
  }
  static bool is_ended_by(const kvc_plan& plan, uint64_t id) {
    for (size_t i = 0; i < plan.num_ended; ++i)
      if (plan.ended[i].request == id) return true;
    return false;
  }

  // Whether its tokens may be more than its pool, or its quota, has blocks for. (The model does not know the
  // quotas; a second group needs at most as many as the first.)
  bool may_never_fit(const Request& r) const {
    kvc_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(kvc_manager_read_stats(manager_, &stats), KVC_OK);
    const uint64_t tokens = r.goal() + config_.max_drafts + 1;
    const uint64_t blocks = (tokens + limits_.block_size - 1) / limits_.block_size;
    return limits_.quotas || limits_.num_groups * blocks > stats.blocks_total;
  }
  // Requests that lack blocks although nobody else, or nobody else of their namespace, holds any; or that can
  // never have as many as they need.
  void end_lacking(const kvc_plan& plan) {
    for (size_t i = 0; i < plan.num_ended; ++i) {
      const kvc_ended_request& ended = plan.ended[i];
      ASSERT_EQ(requests_.count(ended.request), 1u) << "an unknown or ended request ends";
      const Request& r = requests_.at(ended.request);
      EXPECT_EQ(ended.reason, uint32_t{KVC_ENDED_NO_SPACE});
      EXPECT_EQ(ended.num_new_tokens, r.known - r.prompt);
      EXPECT_EQ(r.in_flight, 0u) << "its tokens are on their way";
      if (may_never_fit(r)) continue;
      EXPECT_TRUE(flights_.empty()) << "plans in flight hold blocks";
      for (const auto& [id, other] : requests_) {
        if (id == ended.request || !other.running || is_ended_by(plan, id)) continue;
        EXPECT_TRUE(limits_.quotas && other.space != r.space)
            << "request " << r.number << " ends for lack of blocks while request " << other.number << " runs";
      }
    }
    for (size_t i = 0; i < plan.num_ended; ++i) note_end(plan.ended[i].request);
  }

  // Only the tiers know how long a request loads.
  void find_loading() {
    if (!limits_.offload) return;
    for (auto& [id, r] : requests_) {
      if (!r.ready || r.running || r.in_flight != 0) continue;
      r.loading = info_of(id).state == KVC_SCHEDULED_LOADING;
      if (!r.loading) age(r);
    }
  }

  void take_items(const kvc_plan& plan, std::vector<uint64_t>* admitted) {
    ASSERT_LE(plan.num_tokens, config_.max_tokens);
    ASSERT_EQ(plan.num_tokens, plan.token_offsets[plan.num_items]);
    std::set<uint64_t> seen;
    std::set<int32_t> rows;
    Flight flight = {{}, plan.num_copies != 0};
    for (size_t i = 0; i < plan.num_items; ++i) {
      const uint64_t id = plan.requests[i];
      ASSERT_EQ(requests_.count(id), 1u) << "an ended or aborted request is planned";
      Request& r = requests_.at(id);
      ASSERT_TRUE(seen.insert(id).second && rows.insert(plan.rows[i]).second);
      const uint64_t first = plan.first_tokens[i], count = plan.token_offsets[i + 1] - plan.token_offsets[i],
                     drafts = plan.num_drafts[i];
      ASSERT_EQ(plan.is_new[i] != 0, !r.running || r.silent);
      if (plan.is_new[i] != 0) {
        ASSERT_TRUE(r.ready && r.in_flight == 0);
        if (!r.silent) admitted->push_back(id);
        r.running = true, r.silent = false;
        r.row = plan.rows[i], r.planned = r.cached = first;
        ++r.admission;
        EXPECT_LT(first, r.known) << "nothing is left to compute";
      }
      ASSERT_EQ(plan.rows[i], r.row);
      ASSERT_EQ(first, r.planned) << "a token is planned twice or not at all";
      ASSERT_TRUE(r.has_work());
      ASSERT_GT(count, drafts);
      const uint64_t end = first + count - drafts;
      ASSERT_LE(end, r.goal());
      ASSERT_LE(drafts, r.samples == 0 && r.goal() - first == 1 ? r.drafts : 0);
      ASSERT_LT(end + drafts, r.limit);
      ASSERT_TRUE(r.goal() - first == 1 || count <= config_.max_chunk);
      ASSERT_EQ(plan.samples[i] != 0, end == r.goal());
      flight.items.push_back({id, first, plan.samples[i], drafts, r.admission});
      r.planned = first + count;
      ++r.in_flight;
      r.samples += plan.samples[i];
      r.drafting = drafts != 0;
    }
    ASSERT_LE(running().size(), config_.max_running);
    if (plan.num_items != 0) flights_.push_back(flight);
    planned_ = std::move(seen);
  }

  // A request with encoder inputs may be admitted before any token of it is planned, or be preempted then.
  void find_silent() {
    for (auto& [id, r] : requests_) {
      if (r.num_inputs == 0 || (r.running && !r.silent) || !r.ready || r.in_flight != 0) continue;
      const kvc_scheduled_info info = info_of(id);
      r.running = r.silent = info.state == KVC_SCHEDULED_RUNNING;
    }
  }

  // What ran and has work gets its tokens first. Who gets none lacks blocks, or the plan is full.
  void check_unplanned(const kvc_plan& plan, const std::vector<uint64_t>& stayed,
                       const std::vector<uint64_t>& admitted) {
    for (const uint64_t id : stayed) {
      const auto found = requests_.find(id);
      if (found == requests_.end() || planned_.count(id) != 0) continue;
      const Request& r = found->second;
      if (!r.running || r.num_inputs != 0 || !r.has_work()) continue;
      if (!r.decodes() && plan.num_tokens == config_.max_tokens) continue;
      EXPECT_TRUE(admitted.empty()) << "others are admitted before request " << r.number;
      const bool was_full = !r.decodes() && plan.num_preempted + plan.num_ended != 0;
      EXPECT_TRUE(was_full || flights_.size() > (plan.num_items != 0) || limits_.quotas || limits_.offload)
          << "request " << r.number << " is forgotten: nothing holds blocks that it lacks";
      lacks_ = true;
    }
  }

  // Whether the policy admits a before b: unknown if nobody but the library knows how long they will be.
  std::optional<bool> before(const Request& a, const Request& b) const {
    if (a.aged != b.aged) return a.aged;
    if (!a.aged && policy_ == KVC_SCHEDULE_FAIR && a.tenant != b.tenant) return std::nullopt;
    if (!a.aged && policy_ == KVC_SCHEDULE_PRIORITY && a.priority != b.priority)
      return a.priority < b.priority;
    if (!a.aged && config_.flags != 0) return std::nullopt;
    if (!a.aged && policy_ == KVC_SCHEDULE_SHORTEST) {
      if (a.expected == 0 || b.expected == 0) return std::nullopt;
      const uint64_t left_a = a.known + rest(a), left_b = b.known + rest(b);
      if (left_a != left_b) return left_a < left_b;
    }
    return a.number < b.number;
  }
  static uint64_t rest(const Request& r) {
    const uint64_t done = r.known - r.prompt;
    return r.expected > done ? r.expected - done : 1;
  }
  // Whether a is preempted rather than b.
  bool served_later(const Request& a, const Request& b) const {
    if (a.aged != b.aged) return b.aged;
    if (!a.aged && config_.policy == KVC_SCHEDULE_PRIORITY && a.priority != b.priority)
      return a.priority > b.priority;
    if (!a.aged && config_.policy == KVC_SCHEDULE_SHORTEST) {
      if (a.expected == 0 || b.expected == 0) return true;
      if (rest(a) != rest(b)) return rest(a) > rest(b);
    }
    return a.number > b.number;
  }

  // Admissions are in the policy's order, and nobody is passed but for a reason that allows it.
  void check_admissions(const kvc_plan& plan, const std::vector<uint64_t>& stayed,
                        const std::vector<uint64_t>& admitted) {
    const bool others_run = !ending_.empty() || std::any_of(stayed.begin(), stayed.end(), [&](uint64_t id) {
      return requests_.count(id) != 0 && requests_.at(id).running;
    });
    const bool closed = lacks_ || (pressure_ && others_run);
    lacks_ = false;
    // What is loaded leaves the order and comes back, also while a plan is made.
    const bool has_order = !limits_.offload;
    EXPECT_TRUE(!closed || admitted.empty())
        << (pressure_ && others_run ? "admitted under pressure"
                                    : "admitted while one that runs lacks blocks");
    for (size_t i = 0; i < admitted.size() && has_order; ++i) {
      const Request& one = requests_.at(admitted[i]);
      for (size_t k = i + 1; k < admitted.size(); ++k)
        EXPECT_NE(before(requests_.at(admitted[k]), one), true) << "admitted out of order";
      for (const auto& [id, other] : requests_) {
        if (!other.queued() || before(other, one) != true) continue;
        const uint32_t reason = info_of(id).wait_reason;
        EXPECT_TRUE(may_be_passed(other, reason)) << "request " << other.number << ", which waits for "
                                                  << reason << ", is passed by " << one.number;
      }
    }
    // Whoever comes first is tried while the plan has tokens and rows.
    if (!has_order || closed || plan.num_preempted != 0 || plan.num_tokens == config_.max_tokens ||
        config_.flags != 0 || running().size() == config_.max_running || policy_ == KVC_SCHEDULE_FAIR)
      return;
    for (const auto& entry : requests_) {
      const auto id = entry.first;
      const auto& one = entry.second;
      if (!one.queued() || info_of(id).wait_reason != KVC_WAIT_TURN) continue;
      const bool is_behind = std::any_of(requests_.begin(), requests_.end(), [&](const auto& other) {
        return other.second.queued() && before(one, other.second) != true && other.first != id &&
               info_of(other.first).wait_reason != KVC_WAIT_TURN;
      });
      EXPECT_TRUE(is_behind || plan.num_ended != 0)
          << "request " << one.number << " comes first and was not tried";
    }
  }
  bool may_be_passed(const Request& r, uint32_t reason) const {
    switch (reason) {
      case KVC_WAIT_QUOTA:
        return limits_.quotas;
      case KVC_WAIT_FILLING:
        return limits_.fills;
      case KVC_WAIT_ENCODER:
        return !r.aged && r.num_inputs != 0 && config_.max_encoder_tokens != 0;
      case KVC_WAIT_ADAPTER: {
        std::set<uint64_t> adapters;
        for (const auto& [id, other] : requests_)
          if (other.running && other.adapter != 0) adapters.insert(other.adapter);
        return !r.aged && adapters.size() >= config_.max_adapters && adapters.count(r.adapter) == 0;
      }
      default:
        return false;
    }
  }

  void check_reason(const Request& r, uint32_t reason) const {
    const std::string who = "request " + std::to_string(r.number);
    if (r.running) {
      ASSERT_EQ(reason, uint32_t{KVC_WAIT_NONE}) << who;
    } else if (!r.ready) {
      ASSERT_EQ(reason, uint32_t{KVC_WAIT_READY}) << who;
    } else if (r.loading) {
      ASSERT_EQ(reason, uint32_t{KVC_WAIT_LOAD}) << who;
    } else if (r.in_flight != 0) {
      ASSERT_EQ(reason, uint32_t{KVC_WAIT_PLANS}) << who;
    } else if (!r.waited) {
      ASSERT_EQ(reason, uint32_t{KVC_WAIT_TURN}) << who << ": no plan has seen it";
    } else {
      ASSERT_TRUE(reason >= KVC_WAIT_TURN || (reason == KVC_WAIT_LOAD && limits_.offload))
          << who << ' ' << reason;
    }
  }

  void watch_pressure() {
    if (config_.high_watermark == 0) return;
    const kvc_stats stats = manager_stats();
    const double usage = 1 - static_cast<double>(stats.blocks_free + stats.blocks_cached) /
                                 static_cast<double>(stats.blocks_total);
    const bool before = pressure_;
    if (!pressure_ && usage >= config_.high_watermark) pressure_ = true;
    if (before && usage <= config_.low_watermark) pressure_ = false;
    pressure_changes_ += pressure_ && !before;
  }

  kvc_manager* const manager_;
  kvc_scheduler* const scheduler_;
  const Limits limits_;
  const kvc_scheduler_config config_;
  std::map<uint64_t, Request> requests_;  // live ones, by id
  std::set<uint64_t> ids_;                // of all
  std::set<uint64_t> gone_;               // ended since the last check
  std::set<uint64_t> ending_;             // ended, and their blocks come back with the next plan
  std::set<uint64_t> planned_;            // by this plan
  std::deque<Flight> flights_;
  bool lacks_ = false, pressure_ = false;
  std::optional<uint64_t> aged_until_;  // who arrived then or before has waited too long
  uint32_t policy_;
  uint64_t next_number_ = 0, now_ = 0, added_ = 0, aborted_ = 0, ended_ = 0, num_aged_ = 0,
           policy_changes_ = 0, pressure_changes_ = 0;
};

}  // namespace kvc::test
