// SPDX-License-Identifier: Apache-2.0
// An engine without a model, for tests of the scheduler. A slot holds a digest of all tokens up to its own,
// so that every wrong slot, table, hit or copy shows; the next token is a function of the digest, so that a
// request gets the same tokens however it is scheduled. It knows nothing of how plans are made, and holds
// every plan against the promises of kvcache/scheduler.h.
#pragma once
#include <gtest/gtest.h>
#include <kvcache/manager.h>
#include <kvcache/offload.h>
#include <kvcache/page.h>
#include <kvcache/quota.h>
#include <kvcache/request.h>
#include <kvcache/scheduler.h>
#include <kvcache/storage.h>
#include <kvcache/tier.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "property/random.h"
#include "scheduler/listener.h"

namespace kvc::test {

inline uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ (v + 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;
  return h ^ (h >> 32);
}

inline std::vector<int32_t> prompt_of(size_t size, int32_t first) {
  std::vector<int32_t> tokens(size);
  for (size_t i = 0; i < size; ++i)
    tokens[i] = static_cast<int32_t>((static_cast<size_t>(first) * 7 + i * i) % 50);
  return tokens;
}

inline kvc_schedule_job job_of(uint64_t max_new, uint32_t tenant = 0) {
  kvc_schedule_job job = {};
  job.max_new_tokens = max_new, job.tenant = tenant;
  return job;
}

struct EngineConfig {
  kvc_scheduler_config scheduler = {};
  uint64_t num_blocks = 256, max_requests = 0;
  uint32_t block_size = 4, vocab = 50, manager_flags = 0;
  uint64_t window = 0;                       // of a second group; 0 = there is none
  bool states = false;                       // a second group of states
  uint32_t quotas = 0;                       // namespaces that may have one, besides the default one
  const kvc_allocator* allocator = nullptr;  // of the manager

  int32_t stop_token = -1;  // ends a request
  bool offload = false;     // to a tier of memory, which has room for all; block_size is even
  uint64_t seed = 1;
};

class Engine {
 public:
  struct Sequence {
    std::vector<int32_t> tokens;       // prompt, sampled ones, and what the device has sampled ahead
    std::vector<uint64_t> digests{0};  // of the first i tokens
    size_t prompt = 0, max_new = 0, known = 0, written = 0;
    size_t space = 0;  // 0 = the default namespace, else that of a quota
    uint64_t adapter = 0;
    std::vector<kvc_encoder_input> inputs;
    std::set<size_t> encoded;
    bool running = false, ended = false, aborted = false;
    int32_t row = -1;
    uint64_t arrival = 0, first_plan = 0;
    uint32_t reason = 0;
    std::vector<int32_t> drafts;  // for the next plan

    void push(int32_t token) {
      tokens.push_back(token);
      digests.push_back(mix(digests.back(), static_cast<uint64_t>(token)));
    }
    void cut(size_t size) { tokens.resize(size), digests.resize(size + 1); }
  };
  struct Flight {
    uint64_t plan_id;
    std::vector<uint64_t> requests;
    std::vector<std::vector<int32_t>> tokens;
    std::vector<uint8_t> samples;
    std::vector<size_t> ends;      // written then
    std::vector<uint64_t> memory;  // before it
  };

  explicit Engine(const EngineConfig& config) : config_(config), random_(config.seed) {
    kvc_group_config groups[2] = {};
    for (auto& group : groups) group.struct_size = sizeof group;
    groups[1].kind = KVC_GROUP_SLIDING_WINDOW, groups[1].window_tokens = config.window;
    kvc_manager_config m = {};
    m.struct_size = sizeof m;
    m.num_blocks = config.num_blocks, m.block_size = config.block_size, m.vocab_size = config.vocab;
    m.max_requests = config.max_requests, m.flags = config.manager_flags, m.seed = 7;
    m.max_quotas = config.quotas, m.allocator = config.allocator;
    if (config.offload) m.event_capacity = 4096;
    if (config.states) groups[1].kind = KVC_GROUP_STATE, groups[1].window_tokens = 0;
    num_groups_ = config.window != 0 || config.states ? 2 : 1;
    if (num_groups_ == 2) m.groups = groups, m.num_groups = 2;
    EXPECT_EQ(kvc_manager_create(&m, &manager_), KVC_OK) << kvc_last_error();
    memory_.resize(2 * config.num_blocks * config.block_size);
    open_namespaces();
    if (config.offload) open_offload();
    config_.scheduler.struct_size = sizeof config_.scheduler;
    config_.scheduler.manager = manager_;
    config_.scheduler.offload = offload_;
    EXPECT_EQ(kvc_scheduler_create(&config_.scheduler, &scheduler_), KVC_OK) << kvc_last_error();
    max_running_ = config.scheduler.max_running != 0 ? config.scheduler.max_running : 256;
    max_tokens_ = config.scheduler.max_tokens != 0 ? config.scheduler.max_tokens : 2048;
    max_request_tokens_ = config.scheduler.max_request_tokens;
    if (max_request_tokens_ == 0) max_request_tokens_ = config.num_blocks * config.block_size;
  }
  ~Engine() {
    kvc_scheduler_destroy(scheduler_);
    kvc_offload_destroy(offload_);
    kvc_tier_destroy(tier_);
    kvc_storage_destroy(storage_);
    kvc_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(kvc_manager_read_stats(manager_, &stats), KVC_OK);
    EXPECT_EQ(stats.live_requests + stats.waiting_requests, 0u) << "the scheduler has left requests behind";
    kvc_manager_destroy(manager_);
  }

  kvc_scheduler* scheduler() { return scheduler_; }
  kvc_manager* manager() { return manager_; }
  kvc_offload* offload() { return offload_; }
  const Flight* oldest() const { return flights_.empty() ? nullptr : &flights_.front(); }
  std::map<uint64_t, Sequence>& sequences() { return sequences_; }
  const std::vector<uint64_t>& admitted() const { return admitted_; }  // in their order
  size_t in_flight() const { return flights_.size(); }
  size_t num_live() const { return num_live_; }
  uint64_t now = 0;
  uint64_t plans = 0;

  // Of the space-th namespace, from 1 on: what set_quota says, which may refuse.
  void set_quota(size_t space, uint64_t min_blocks, uint64_t max_blocks) {
    Space& s = spaces_[space];
    if (kvc_manager_set_quota(manager_, s.id, 0, min_blocks, max_blocks) == KVC_OK)
      s.max_blocks = max_blocks == 0 ? config_.num_blocks : max_blocks;
    for (Listener* const one : listeners) one->got_quota(space, min_blocks, max_blocks);
  }
  uint64_t add(const std::vector<int32_t>& prompt, kvc_schedule_job job = {},
               kvc_request_config* options = nullptr, size_t space = 0) {
    kvc_prompt p = {};
    p.struct_size = sizeof p;
    p.tokens = prompt.data(), p.num_tokens = prompt.size();
    p.namespace_id = spaces_[space].id;
    job.struct_size = sizeof job;
    job.prompt = &p;
    job.config = options;
    if (job.max_new_tokens == 0) job.max_new_tokens = 8;
    job.now_ns = now;
    uint64_t id = 0;
    EXPECT_EQ(kvc_scheduler_add(scheduler_, &job, &id), KVC_OK) << kvc_last_error();
    EXPECT_EQ(sequences_.count(id), 0u);
    Sequence& s = sequences_[id];
    for (const int32_t token : prompt) s.push(token);
    s.prompt = s.known = prompt.size();
    s.max_new = job.max_new_tokens, s.adapter = job.adapter, s.space = space;
    s.inputs.assign(job.inputs, job.inputs + job.num_inputs);
    s.arrival = plans;
    ++num_live_;
    for (Listener* const one : listeners) one->added(id, job, prompt, space);
    return id;
  }
  void abort(uint64_t id) {
    EXPECT_EQ(kvc_scheduler_abort(scheduler_, id), KVC_OK) << kvc_last_error();
    end(sequences_.at(id), 0);
    sequences_.at(id).aborted = true;
    for (Listener* const one : listeners) one->aborted(id);
  }
  void set_ready(uint64_t id) {
    EXPECT_EQ(kvc_scheduler_set_ready(scheduler_, id), KVC_OK) << kvc_last_error();
    for (Listener* const one : listeners) one->made_ready(id);
  }
  void set_priority(uint64_t id, int32_t priority) {
    EXPECT_EQ(kvc_scheduler_set_priority(scheduler_, id, priority), KVC_OK) << kvc_last_error();
    for (Listener* const one : listeners) one->got_priority(id, priority);
  }
  void set_weight(uint32_t tenant, double weight) {
    EXPECT_EQ(kvc_scheduler_set_weight(scheduler_, tenant, weight), KVC_OK) << kvc_last_error();
    for (Listener* const one : listeners) one->got_weight(tenant, weight);
  }
  // Drafts for the next plan: `right` of them are what the model will say.
  void draft(uint64_t id, uint32_t count, uint32_t right) {
    Sequence& s = sequences_.at(id);
    Sequence copy = s;
    s.drafts.clear();
    for (uint32_t i = 0; i < count; ++i) {
      const int32_t token = next(copy.digests.back());
      const int32_t drafted = i < right ? token : (token + 1) % static_cast<int32_t>(config_.vocab);
      s.drafts.push_back(drafted);
      copy.push(drafted);
    }
    EXPECT_EQ(kvc_scheduler_set_drafts(scheduler_, &id, &count, 1), KVC_OK) << kvc_last_error();
    for (Listener* const one : listeners) one->got_drafts(id, count);
  }

  // Makes a plan and runs it. Its number of items.
  size_t plan() {
    EXPECT_TRUE(offload_ == nullptr || kvc_offload_poll(offload_, now, nullptr) == KVC_OK)
        << kvc_last_error();
    for (Listener* const one : listeners) one->plans(now);
    kvc_plan plan = {};
    plan.struct_size = sizeof plan;
    const kvc_status status =
        without_memory_first([&] { return kvc_scheduler_plan(scheduler_, now, &plan); });
    EXPECT_EQ(status, KVC_OK) << kvc_last_error();
    if (status != KVC_OK) return 0;
    ++plans;
    last_tokens = plan.num_tokens;
    for (Listener* const one : listeners) one->planned(plan, now);
    for (size_t i = 0; i < plan.num_preempted; ++i) {
      Sequence& s = sequences_.at(plan.preempted[i]);
      EXPECT_TRUE(s.running) << "preempted " << plan.preempted[i] << " does not run";
      s.running = false, s.row = -1, s.written = 0;
      s.encoded.clear();
      ++preemptions;
    }
    for (size_t i = 0; i < plan.num_ended; ++i)
      end(sequences_.at(plan.ended[i].request), plan.ended[i].reason);
    EXPECT_LE(plan.num_tokens, max_tokens_);
    EXPECT_LE(plan.num_items, max_running_);
    update_tables(plan);
    before_ = memory_;
    for (size_t i = 0; i < plan.num_copies; ++i) {
      for (uint32_t t = 0; t < config_.block_size; ++t)
        memory_[at(plan.copies[i].destination, t)] = memory_[at(plan.copies[i].source, t)];
    }
    begin_items(plan);
    run_encoder(plan);
    run_items(plan);
    has_failed_ = false;
    check_limits();
    check_spaces();
    return plan.num_items;
  }

  // Gives the result of the oldest plan.
  void finish(bool failed = false) {
    ASSERT_FALSE(flights_.empty());
    if (failed) return fail();
    const Flight flight = std::move(flights_.front());
    flights_.pop_front();
    std::vector<uint64_t> offsets{0};
    std::vector<int32_t> tokens;
    std::vector<uint8_t> stopped;
    std::vector<uint64_t> expect_ended;
    for (size_t i = 0; i < flight.requests.size(); ++i) {
      Sequence& s = sequences_.at(flight.requests[i]);
      bool stops = false;
      if (!s.ended) {
        for (const int32_t token : flight.tokens[i]) {
          tokens.push_back(token);
          ++s.known;
          stops |= token == config_.stop_token;
          if (stops) break;
        }
        if (stops || s.known - s.prompt >= s.max_new || s.known >= max_request_tokens_)
          expect_ended.push_back(flight.requests[i]);
      }
      offsets.push_back(tokens.size());
      stopped.push_back(stops);
    }
    kvc_plan_result result = {};
    result.struct_size = sizeof result;
    result.plan_id = flight.plan_id, result.num_items = flight.requests.size();
    result.token_offsets = offsets.data(), result.tokens = tokens.data(), result.stopped = stopped.data();
    std::vector<kvc_ended_request> ended(flight.requests.size());
    result.ended = ended.data();
    ASSERT_EQ(without_memory_first([&] { return kvc_scheduler_finish(scheduler_, &result); }), KVC_OK)
        << kvc_last_error();
    for (Listener* const one : listeners) one->finished(result);
    std::vector<uint64_t> got;
    for (size_t i = 0; i < result.num_ended; ++i) {
      got.push_back(ended[i].request);
      const Sequence& s = sequences_.at(ended[i].request);
      EXPECT_EQ(ended[i].num_new_tokens, s.known - s.prompt);
      end(sequences_.at(ended[i].request), ended[i].reason);
    }
    EXPECT_EQ(got, expect_ended);
  }

  void run(size_t most_plans = 100000) {
    for (size_t i = 0; num_live_ != 0 && i < most_plans && !testing::Test::HasFailure(); ++i) {
      if (plan() != 0) finish();
      ++now;
    }
    EXPECT_EQ(num_live_, 0u) << "requests have not ended";
  }
  void check() {
    ASSERT_EQ(kvc_scheduler_check(scheduler_), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_manager_check(manager_), KVC_OK) << kvc_last_error();
    for (const auto& [id, sequence] : sequences_) {
      if (sequence.ended || sequence.aborted) continue;
      kvc_scheduled_info info = {};
      info.struct_size = sizeof info;
      if (kvc_scheduler_request_info(scheduler_, id, &info) != KVC_OK)
        continue;  // it ends with the next plan
      ASSERT_EQ(info.state == KVC_SCHEDULED_RUNNING, info.wait_reason == KVC_WAIT_NONE) << info.wait_reason;
    }
  }
  kvc_scheduler_stats stats() {
    kvc_scheduler_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(kvc_scheduler_read_stats(scheduler_, &stats), KVC_OK);
    return stats;
  }
  // What a request must have got: the same as if it had been alone.
  void check_output(uint64_t id) {
    const Sequence& s = sequences_.at(id);
    uint64_t digest = s.digests[s.prompt];
    for (size_t i = s.prompt; i < s.known; ++i) {
      ASSERT_EQ(s.tokens[i], next(digest)) << "token " << i << " of request " << id;
      digest = mix(digest, static_cast<uint64_t>(s.tokens[i]));
    }
  }

  size_t last_tokens = 0;
  uint64_t preemptions = 0, computed = 0;
  bool* no_memory = nullptr;  // set while plans are made and results taken; those that fail are repeated
  uint64_t refusals = 0;      // calls that had no memory
  std::vector<Listener*> listeners;

 private:
  template <typename Call>
  kvc_status without_memory_first(Call&& call) {
    if (no_memory == nullptr) return call();
    *no_memory = true;
    const kvc_status status = call();
    *no_memory = false;
    if (status != KVC_ERROR_OUT_OF_MEMORY) return status;
    ++refusals;
    check();
    return call();
  }
  // The keys of a block, then its values, which stay zero.
  size_t at(int32_t block, uint64_t offset) const {
    return 2 * static_cast<size_t>(block) * config_.block_size + static_cast<size_t>(offset);
  }
  void open_offload() {
    kvc_storage_config s = {};
    s.struct_size = sizeof s;
    s.num_blocks = config_.num_blocks, s.block_size = config_.block_size;
    s.num_layers = s.num_heads = 1, s.head_dim = 2, s.dtype = KVC_FLOAT32, s.alignment = 16;
    s.layout = KVC_LAYOUT_BLHNC;
    s.memory = memory_.data(), s.memory_size = memory_.size() * sizeof memory_[0];
    ASSERT_EQ(kvc_storage_create(&s, &storage_), KVC_OK) << kvc_last_error();
    kvc_page_config names = {};
    names.struct_size = sizeof names;
    names.model = names.weights = "m", names.model_size = names.weights_size = 1;
    kvc_page_info info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(kvc_storage_page_properties(storage_, &names, &info), KVC_OK) << kvc_last_error();
    kvc_tier_config t = {};
    t.struct_size = sizeof t;
    t.url = "memory:?bytes=16MiB&threads=0", t.page_bytes = info.page_bytes;
    std::copy_n(info.fingerprint, sizeof t.fingerprint, t.fingerprint);
    ASSERT_EQ(kvc_tier_create(&t, &tier_), KVC_OK) << kvc_last_error();
    kvc_storage* storages[] = {storage_, storage_};
    kvc_offload_config o = {};
    o.struct_size = sizeof o;
    o.manager = manager_, o.storages = storages, o.tiers = &tier_, o.num_tiers = 1, o.pages = &names;
    o.max_lookups = 4, o.policy = KVC_OFFLOAD_WRITE_THROUGH;
    ASSERT_EQ(kvc_offload_create(&o, &offload_), KVC_OK) << kvc_last_error();
  }
  void open_namespaces() {
    spaces_.resize(config_.quotas + 1);
    for (size_t i = 0; i <= config_.quotas; ++i) {
      spaces_[i].max_blocks = config_.num_blocks;
      if (i == 0) continue;
      const std::string name = "tenant " + std::to_string(i);
      kvc_namespace_config n = {};
      n.struct_size = sizeof n;
      n.tenant = name.data(), n.tenant_size = name.size();
      EXPECT_EQ(kvc_manager_open_namespace(manager_, &n, &spaces_[i].id), KVC_OK) << kvc_last_error();
    }
  }
  int32_t next(uint64_t digest) const { return static_cast<int32_t>(mix(digest, 99) % config_.vocab); }
  void end(Sequence& s, uint32_t reason) {
    EXPECT_FALSE(s.ended) << "ended twice";
    s.ended = true, s.running = false, s.reason = reason;
    --num_live_;
  }

  // A mirror of the tables that follows the changes alone.
  void update_tables(const kvc_plan& plan) {
    const size_t size = num_groups_ * max_running_ * plan.row_stride;
    stride_ = plan.row_stride;
    if (mirror_.empty()) mirror_.assign(size, -1);
    if (plan.whole_tables != 0) mirror_.assign(plan.block_tables, plan.block_tables + size);
    for (size_t i = 0; i < plan.num_changes; ++i) {
      const kvc_table_change& c = plan.changes[i];
      mirror_[(static_cast<size_t>(c.group) * max_running_ + static_cast<size_t>(c.row)) * plan.row_stride +
              static_cast<size_t>(c.column)] = c.block;
    }
    for (size_t i = 0; i < plan.num_items; ++i) {
      if (plan.is_new[i] == 0) continue;
      for (size_t g = 0; g < num_groups_; ++g) {
        const size_t row = (g * max_running_ + static_cast<size_t>(plan.rows[i])) * plan.row_stride;
        std::copy_n(plan.block_tables + row, plan.row_stride, mirror_.begin() + static_cast<ptrdiff_t>(row));
      }
    }
  }
  int32_t block_of(size_t group, int32_t row, size_t position) const {
    return mirror_[(group * max_running_ + static_cast<size_t>(row)) * stride_ +
                   position / config_.block_size];
  }

  void begin_items(const kvc_plan& plan) {
    std::set<uint64_t> seen;
    std::set<int32_t> rows;
    for (size_t i = 0; i < plan.num_items; ++i) {
      const uint64_t id = plan.requests[i];
      ASSERT_EQ(sequences_.count(id), 1u);
      Sequence& s = sequences_.at(id);
      EXPECT_TRUE(seen.insert(id).second) << "request " << id << " is planned twice";
      EXPECT_TRUE(rows.insert(plan.rows[i]).second) << "row " << plan.rows[i] << " is used twice";
      EXPECT_FALSE(s.ended) << "request " << id << " has ended";
      EXPECT_EQ(plan.is_new[i] != 0, !s.running);
      if (plan.is_new[i] != 0) {
        // With inputs it may have been admitted before, without a token.
        EXPECT_TRUE(plan.num_preempted == 0 || has_failed_ || !s.inputs.empty())
            << "admitted while a running one lacks a block";
        s.running = true, s.row = plan.rows[i];
        s.written = plan.first_tokens[i];  // the hit
        admitted_.push_back(id);
        if (s.first_plan == 0) s.first_plan = plans;
      }
      EXPECT_EQ(plan.rows[i], s.row);
      EXPECT_EQ(plan.first_tokens[i], s.written) << "a token is planned twice or not at all";
      const size_t end = plan.first_tokens[i] + plan.token_offsets[i + 1] - plan.token_offsets[i];
      const size_t drafts = plan.num_drafts[i];
      EXPECT_GT(end, plan.first_tokens[i] + drafts);
      EXPECT_LE(drafts, s.drafts.size());
      EXPECT_EQ(plan.samples[i] != 0, end - drafts == s.tokens.size());
      EXPECT_LE(end - drafts, s.tokens.size());
      // What it reads was written, in every group.
      if (config_.states && s.written != 0) {
        const int32_t block = block_of(1, s.row, s.written - 1);
        ASSERT_GE(block, 0) << "no state after " << s.written << " tokens";
        ASSERT_EQ(memory_[at(block, 0)], s.digests[s.written])
            << "request " << id << " state after " << s.written;
      }
      for (size_t g = 0; g < num_groups_ - (config_.states ? 1 : 0); ++g) {
        const size_t first = g == 0 || s.written < config_.window ? 0 : s.written - config_.window + 1;
        for (size_t p = first; p < s.written; ++p) {
          const int32_t block = block_of(g, s.row, p);
          ASSERT_GE(block, 0) << "position " << p << " of group " << g;
          ASSERT_EQ(memory_[at(block, p % config_.block_size)], s.digests[p + 1])
              << "request " << id << " position " << p << " of group " << g;
        }
      }
    }
  }

  void run_encoder(const kvc_plan& plan) {
    uint64_t tokens = 0;
    for (size_t r = 0; r < plan.num_encoder_runs; ++r) {
      Sequence& s = sequences_.at(plan.requests[plan.encoder_runs[r].item]);
      EXPECT_TRUE(s.encoded.insert(plan.encoder_runs[r].input).second) << "encoded twice";
      tokens += s.inputs.at(plan.encoder_runs[r].input).num_tokens;
    }
    const uint64_t most = config_.scheduler.max_encoder_tokens;
    const size_t runs = plan.num_encoder_runs;  // those over one token are encoded together
    EXPECT_TRUE(most == 0 || tokens <= most || plan.encoder_runs[0].item == plan.encoder_runs[runs - 1].item)
        << tokens;
    for (size_t i = 0; i < plan.num_items; ++i) {
      const Sequence& s = sequences_.at(plan.requests[i]);
      const uint64_t first = plan.first_tokens[i],
                     end = first + plan.token_offsets[i + 1] - plan.token_offsets[i];
      for (size_t k = 0; k < s.inputs.size(); ++k) {
        const kvc_encoder_input& input = s.inputs[k];
        if (input.first_token < end && input.first_token + input.num_tokens > first) {
          EXPECT_EQ(s.encoded.count(k), 1u) << "input " << k << " is not encoded";
        }
      }
    }
  }

  void run_items(const kvc_plan& plan) {
    Flight flight;
    flight.plan_id = plan.plan_id;
    for (size_t i = 0; i < plan.num_items; ++i) {
      const uint64_t id = plan.requests[i];
      Sequence& s = sequences_.at(id);
      const size_t drafts = plan.num_drafts[i], first = s.written;
      const size_t count = plan.token_offsets[i + 1] - plan.token_offsets[i], known = first + count - drafts;
      for (size_t d = 0; d < drafts; ++d) s.push(s.drafts[d]);
      for (size_t t = 0; t < count; ++t) {
        for (size_t g = 0; g < num_groups_ - (config_.states ? 1 : 0); ++g) {
          const int64_t slot = plan.slots[g * plan.slot_stride + plan.token_offsets[i] + t];
          const int32_t block = block_of(g, s.row, first + t);
          ASSERT_GE(block, 0);
          const size_t offset = (first + t) % config_.block_size;
          ASSERT_EQ(slot, static_cast<int64_t>(static_cast<size_t>(block) * config_.block_size + offset));
          memory_[at(block, offset)] = s.digests[first + t + 1];
        }
      }
      if (config_.states) {
        const int32_t block = block_of(1, s.row, first + count - 1);
        ASSERT_GE(block, 0);
        memory_[at(block, 0)] = s.digests[first + count];
      }
      computed += count;
      std::vector<int32_t> sampled;
      if (plan.samples[i] != 0) {
        // The drafts that the model agrees with, then its own token.
        size_t end = known;
        while (end < known + drafts && s.tokens[end] == next(s.digests[end]))
          sampled.push_back(s.tokens[end++]);
        s.cut(end);
        sampled.push_back(next(s.digests[end]));
        s.push(sampled.back());
        s.written = end;
      } else {
        s.written = known;
      }
      s.drafts.clear();
      flight.requests.push_back(id);
      flight.tokens.push_back(sampled);
      flight.samples.push_back(plan.samples[i]);
      flight.ends.push_back(first);
    }
    for (auto& [id, s] : sequences_)
      if (!s.ended) s.drafts.clear();
    flight.memory.swap(before_);
    if (plan.num_items != 0) flights_.push_back(flight);
  }

  // All plans in flight are lost, with their copies: the device's tokens are those that were told. What an
  // offload loaded meanwhile stays.
  void fail() {
    has_failed_ = true;
    if (offload_ == nullptr) memory_ = flights_.front().memory;
    kvc_plan_result result = {};
    result.struct_size = sizeof result;
    result.plan_id = flights_.front().plan_id, result.num_items = flights_.front().requests.size();
    result.flags = KVC_RESULT_FAILED;
    ASSERT_EQ(kvc_scheduler_finish(scheduler_, &result), KVC_OK) << kvc_last_error();
    for (Listener* const one : listeners) one->failed();
    std::set<uint64_t> done;
    for (const Flight& flight : flights_) {
      for (size_t i = 0; i < flight.requests.size(); ++i) {
        Sequence& s = sequences_.at(flight.requests[i]);
        if (!done.insert(flight.requests[i]).second || s.ended) continue;
        if (s.running) s.written = std::min(s.written, flight.ends[i]);
        s.encoded.clear();  // what is still needed is encoded again
        for (size_t k = 0; k < s.inputs.size(); ++k)
          if (s.inputs[k].first_token + s.inputs[k].num_tokens <= s.written) s.encoded.insert(k);
        s.cut(s.known);
      }
    }
    flights_.clear();
  }

  void check_limits() {
    std::set<uint64_t> adapters;
    size_t running = 0;
    for (const auto& [id, s] : sequences_) {
      if (!s.running) continue;
      ++running;
      if (s.adapter != 0) adapters.insert(s.adapter);
    }
    EXPECT_LE(running, max_running_);
    EXPECT_TRUE(config_.scheduler.max_adapters == 0 || adapters.size() <= config_.scheduler.max_adapters);
  }

  // Running requests of a namespace hold no more blocks than its quota allows, and share none with others.
  void check_spaces() {
    if (config_.quotas == 0) return;
    std::map<int32_t, size_t> space_of;
    std::vector<uint64_t> held(spaces_.size());
    for (const auto& [id, s] : sequences_) {
      if (!s.running) continue;
      for (size_t g = 0; g < num_groups_; ++g) {
        const size_t row = (g * max_running_ + static_cast<size_t>(s.row)) * stride_;
        for (size_t i = row; i < row + stride_; ++i) {
          if (mirror_[i] < 0) continue;
          const auto [known, is_first] = space_of.emplace(mirror_[i], s.space);
          held[s.space] += is_first;
          ASSERT_EQ(known->second, s.space) << "block " << mirror_[i] << " is of two namespaces";
        }
      }
    }
    for (size_t i = 0; i < spaces_.size(); ++i) {  // what it held before its maximum was set stays
      EXPECT_LE(held[i], std::max(spaces_[i].max_blocks, spaces_[i].held)) << "namespace " << i;
      spaces_[i].held = held[i];
    }
  }

  struct Space {
    uint64_t id = 0, max_blocks = 0, held = 0;
  };
  EngineConfig config_;
  Random random_;
  kvc_manager* manager_ = nullptr;
  kvc_scheduler* scheduler_ = nullptr;
  kvc_storage* storage_ = nullptr;  // with an offload: memory_
  kvc_tier* tier_ = nullptr;
  kvc_offload* offload_ = nullptr;
  size_t num_groups_ = 1, max_running_ = 0, max_tokens_ = 0, stride_ = 0, num_live_ = 0,
         max_request_tokens_ = 0;
  std::map<uint64_t, Sequence> sequences_;
  std::deque<Flight> flights_;
  std::vector<uint64_t> memory_, before_;
  bool has_failed_ = false;  // since the last plan was made: it preempts those that begin again
  std::vector<Space> spaces_;
  std::vector<int32_t> mirror_;
  std::vector<uint64_t> admitted_;
};

}  // namespace kvc::test
