// SPDX-License-Identifier: Apache-2.0
// Executes a scenario (README.md) through kvcache.hpp and prints its trace.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <kvcache.hpp>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "../calls.h"
#include "../event_calls.h"
#include "scheduler.h"
#include "speculation.h"
#include "tiers.h"

namespace {

using Numbers = std::vector<int64_t>;

std::vector<int32_t> sequence(int64_t first, int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(first));
  return tokens;
}

template <class List>
std::string join(const List& list) {
  std::string text;
  for (const auto& value : list) text += " " + std::to_string(value);
  return text;
}

class Runner {
 public:
  std::string execute(const std::string& word, const Numbers& a) {
    if (is_scheduler_line(word.c_str())) return scheduler(word, a);
    if (is_speculation_line(word.c_str())) return speculation(word, a);
    return is_tier_line(word.c_str()) ? tiers(word, a) : lines_.at(word)(a);
  }
  void check() { m_->verify(); }

 private:
  // Handles free what they own; here the scenario frees, so ids are kept and calls with a stale one are
  // possible.
  kvc_manager* c() const { return m_->get(); }
  uint64_t& id(int64_t name) { return requests_[name]; }

  kvc_manager_config config_of(const Numbers& a) const {
    auto config = kvc::make<kvc_manager_config>();
    config.num_blocks = static_cast<uint64_t>(a[0]), config.block_size = static_cast<uint32_t>(a[1]);
    config.event_capacity = static_cast<uint64_t>(a[2]), config.max_requests = static_cast<uint64_t>(a[3]);
    config.flags =
        (hints_ ? uint32_t{KVC_MANAGER_HINTS} : 0u) | (fills_[0] ? uint32_t{KVC_MANAGER_FILLS} : 0u);
    if (headroom_) config.flags |= KVC_MANAGER_HEADROOM;
    if (partial_) config.flags |= KVC_MANAGER_PARTIAL_REUSE;
    config.max_blocks = static_cast<uint64_t>(room_);
    config.policy = static_cast<uint32_t>(policy_[0]), config.policy_weight = double(policy_[1]) / 100;
    config.policy_history = static_cast<uint64_t>(policy_[2]);
    config.max_quotas = static_cast<uint32_t>(quotas_);
    config.record_bytes = static_cast<uint64_t>(record_bytes_);
    return config;
  }

  // The old manager goes; names of namespaces follow.
  std::string rebuild(const Numbers& a) {
    kvc::Rebuilt made = m_->rebuild(config_of(a));
    std::string text;
    for (const kvc_token_copy& c : made.copies) {
      text += " " + std::to_string(c.source) + "+" + std::to_string(c.offset) + ">" +
              std::to_string(c.destination) + "+" + std::to_string(c.new_offset) + "*" +
              std::to_string(c.num_tokens);
    }
    for (auto& [name, ns] : namespaces_) {
      const auto pair = std::find_if(made.namespaces.begin(), made.namespaces.end(),
                                     [old = ns](const kvc_namespace_pair& p) { return p.old_id == old; });
      if (pair != made.namespaces.end()) ns = pair->new_id;
    }
    step_.reset();
    m_ = std::make_unique<kvc::Manager>(std::move(made.manager));
    cursor_ = 0;
    make_step();
    return text;
  }

  void make_step() {
    auto limits = kvc::make<kvc_step_limits>();
    limits.max_requests = limits.max_tokens = limits.max_rows = 8, limits.row_stride = 16;
    limits.max_admissions = 4, limits.max_prompt_tokens = 160;
    step_ = std::make_unique<kvc::Step>(*m_, limits);
  }

  void give_encoder(kvc_request_config& config) const {
    config.cross_tokens = static_cast<uint64_t>(encoder_[0]);
    std::fill_n(config.cross_digest, sizeof config.cross_digest, static_cast<uint8_t>(encoder_[1]));
  }

  std::string add_cross_group() {
    auto group = kvc::make<kvc_group_config>();
    group.kind = KVC_GROUP_CROSS;
    return chosen_.push_back(group), "";
  }

  std::string lost(const Numbers& a) {
    const kvc_lost_reuse l = m_->lost_reuse(static_cast<uint32_t>(a[0]));
    return join(std::vector<uint64_t>{l.admissions, l.block_tokens, l.window_tokens, l.state_tokens,
                                      l.agreement_tokens, l.node_tokens});
  }
  std::string blame(const Numbers& a) {
    auto info = kvc::make<kvc_request_info>();
    kvc::check(kvc_manager_request_info(c(), id(a[0]), &info));
    return join(std::vector<uint64_t>{info.lost_reuse_tokens, info.lost_group, info.lost_reason});
  }
  std::string checkpoint(const Numbers& a) {
    auto info = kvc::make<kvc_request_info>();
    kvc::check(kvc_manager_request_info(c(), id(a[0]), &info));
    return said(info.next_checkpoint);
  }

  // Groups of the managers made from now on, instead of those of the manager's line.
  std::string choose_group(const Numbers& a) {
    if (a.empty()) return chosen_.clear(), "";
    auto group = kvc::make<kvc_group_config>();
    group.kind = a[4] != 0   ? KVC_GROUP_STATE
                 : a[0] != 0 ? KVC_GROUP_SLIDING_WINDOW
                 : a[3] != 0 ? KVC_GROUP_CHUNKED_LOCAL
                             : KVC_GROUP_FULL;
    group.window_tokens = static_cast<uint64_t>(a[0]), group.num_sink_tokens = static_cast<uint32_t>(a[1]);
    group.retention_tokens = static_cast<uint64_t>(a[2]), group.chunk_tokens = static_cast<uint64_t>(a[3]);
    return chosen_.push_back(group), "";
  }

  std::string make_manager(const Numbers& a) {
    auto groups = std::vector<kvc_group_config>(a.size() > 4 ? 2 : 1, kvc::make<kvc_group_config>());
    if (a.size() > 4) {
      groups[1].kind = KVC_GROUP_SLIDING_WINDOW;
      groups[1].window_tokens = static_cast<uint64_t>(a[4]);
      groups[1].num_sink_tokens = static_cast<uint32_t>(a[5]);
    }
    if (!chosen_.empty()) groups = chosen_;
    kvc_manager_config config = config_of(a);
    config.groups = groups.data(), config.num_groups = groups.size();
    step_.reset();
    m_.reset();
    requests_.clear(), namespaces_.clear(), cursor_ = 0;
    m_ = std::make_unique<kvc::Manager>(config);
    make_step();
    return "";
  }

  std::string create(const Numbers& a, bool admit) {
    const auto tokens = sequence(a[2], a[3]);
    const kvc::Prompt prompt(tokens, {}, namespaces_[a[1]]);
    auto config = kvc::make<kvc_request_config>();
    config.headroom = static_cast<uint32_t>(mode_);
    give_encoder(config);
    if (!admit) return id(a[0]) = m_->create(prompt, &config).release(), "";
    uint64_t cached = 0;  // Manager::allocate does not tell NO_SPACE from AGAIN
    kvc::check(kvc_manager_allocate_request(c(), prompt.get(), &config, &id(a[0]), &cached));
    return said(cached);
  }

  std::string table(const Numbers& a) {
    const auto info = kvc::ask<kvc_request_info>(kvc_manager_request_info, c(), id(a[0]));
    const kvc_properties p = m_->properties();
    const bool cross = static_cast<uint32_t>(a[1]) + p.num_cross_groups >= p.num_groups;
    std::vector<int32_t> row(
        ((cross ? info.admitted * info.cross_tokens : info.capacity) + p.block_size - 1) / p.block_size);
    kvc::check(kvc_manager_export_tables(c(), &id(a[0]), 1, static_cast<uint32_t>(a[1]), -1, row.data(),
                                         row.size()));
    return join(row);
  }

  std::string slots(const Numbers& a) {
    std::vector<int64_t> list(static_cast<size_t>(a[3]));
    kvc::check(kvc_manager_export_slots(c(), id(a[0]), static_cast<uint32_t>(a[1]),
                                        static_cast<uint64_t>(a[2]), list.size(), list.data(), 8));
    return join(list);
  }

  // Without ids, each item is refused.
  std::string run_step(const Numbers& a, bool with_ids) {
    kvc::Step& step = *step_;
    for (size_t i = 0; i < a.size(); ++i) {
      const auto info = kvc::ask<kvc_request_info>(kvc_manager_request_info, c(), id(a[i]));
      step.array<uint64_t>(KVC_STEP_REQUESTS)[i] = id(a[i]);
      step.array<uint64_t>(KVC_STEP_COMMITTED)[i] = info.num_tokens;
      step.array<uint64_t>(KVC_STEP_EXTEND_OFFSETS)[i + 1] = i + 1;
    }
    for (size_t i = 0; with_ids && i < a.size(); ++i) step.array<int32_t>(KVC_STEP_EXTEND_TOKENS)[i] = 7;
    step->num_requests = a.size(), step->num_admissions = 0;
    run();
    std::string text;
    for (size_t i = 0; i < a.size(); ++i)
      text += " " + std::to_string(step.status()[i]) + ":" +
              std::to_string(step.array<int64_t>(KVC_STEP_SLOTS)[i]);
    return text;
  }

  std::string run_admissions(const Numbers& a) {
    kvc::Step& step = *step_;
    const size_t n = a.size() / 5;
    std::vector<kvc_request_config> configs(n, kvc::make<kvc_request_config>());
    const auto offsets = step.array<uint64_t>(KVC_STEP_ADMIT_OFFSETS);
    for (size_t i = 0; i < n; ++i) {
      const int64_t* one = &a[5 * i];
      step.array<uint64_t>(KVC_STEP_ADMIT_NAMESPACES)[i] = namespaces_[one[1]],
      configs[i].slots = static_cast<uint64_t>(one[2]);
      give_encoder(configs[i]);
      configs[i].flags = static_cast<uint32_t>(fills_[1]),
      configs[i].wait_until_ns = static_cast<uint64_t>(fills_[2]);
      const auto tokens = sequence(one[3], one[4]);
      std::copy(tokens.begin(), tokens.end(), &step.array<int32_t>(KVC_STEP_ADMIT_TOKENS)[offsets[i]]);
      offsets[i + 1] = offsets[i] + tokens.size();
    }
    step->num_requests = 0, step->num_admissions = n, step->admit_configs = configs.data();
    run();
    std::string text;
    for (size_t i = 0; i < n; ++i) {
      if (step.status()[i] == KVC_OK) id(a[5 * i]) = step->admitted[i];
      text += " " + std::to_string(step.status()[i]) + ":" + std::to_string(step->cached[i]);
    }
    return text;
  }

  void run() {
    kvc::Step& step = *step_;
    step->commit_offsets = nullptr, step->rows = nullptr, step->retired_step = step->step_id;
    step.run();
  }

  std::string events() {
    kvc_event list[64];
    size_t count = 0;
    kvc::check(poll_events(c(), &cursor_, list, sizeof list[0], 64, &count, nullptr, 0));
    std::string text;
    char event[100];
    for (size_t i = 0; i < count; ++i) {
      std::snprintf(event, sizeof event, " %u:%u:%d:%llu:%02x%02x", list[i].kind, list[i].group,
                    list[i].block, static_cast<unsigned long long>(list[i].token_offset), list[i].digest[0],
                    list[i].digest[1]);
      text += event;
    }
    return text;
  }

  std::string stats() {
    const kvc_stats s = m_->stats();
    return join(std::vector<uint64_t>{s.blocks_free, s.blocks_cached, s.blocks_live, s.blocks_reserved,
                                      s.blocks_pinned, s.live_requests, s.admissions, s.cached_tokens,
                                      s.evictions, s.published_blocks, s.duplicates, s.refusals});
  }

  std::string copies() {
    kvc_block_copy room[64];
    std::string text;
    for (const auto& copy : m_->take_pending(room).copies)
      text += " " + std::to_string(copy.source) + ">" + std::to_string(copy.destination);
    return text;
  }

  std::string take(const Numbers& a) {
    std::vector<int32_t> blocks(static_cast<size_t>(a[1]));
    kvc::check(kvc_manager_acquire_blocks(c(), static_cast<uint32_t>(a[0]), blocks.data(), blocks.size()));
    return join(blocks);
  }

  std::string publish(const Numbers& a) {
    const auto tokens = sequence(a[2], a[3]);
    const std::vector<int32_t> blocks(a.begin() + 4, a.end());
    kvc::check(kvc_manager_publish_blocks(c(),
                                          PROMPT(namespaces_[a[0]], tokens.data(), tokens.size(), nullptr, 0),
                                          static_cast<uint32_t>(a[1]), blocks.data(), blocks.size()));
    return "";
  }

  std::string open(const Numbers& a) {
    const char model = static_cast<char>(a[1]);
    auto config = kvc::make<kvc_namespace_config>();
    config.model = &model, config.model_size = 1;
    namespaces_[a[0]] = m_->open_namespace(config).release();
    return "";
  }

  uint64_t of_curve(int64_t name) { return name < 0 ? KVC_ALL_NAMESPACES : namespaces_[name]; }
  std::string open_curve(const Numbers& a) {
    auto config = kvc::make<kvc_curve_config>();
    config.sample_rate = double(a[1]) / 100, config.max_blocks = static_cast<uint64_t>(a[2]);
    m_->open_curve(of_curve(a[0]), config);
    return "";
  }
  std::string speculation(const std::string& word, const Numbers& a) {
    std::string text(4096, '\0');
    done(speculation_line(word.c_str(), a.data(), a.size(), &text[0]));
    return text.c_str();
  }
  std::string scheduler(const std::string& word, Numbers a) {
    a.resize(6);
    uint64_t ids[kScheduledNames] = {};
    for (const auto& [name, id] : requests_) ids[name] = id;
    std::string text(4096, '\0');
    const uint64_t ns = word == "schedule" ? namespaces_[a[1]] : 0;
    done(scheduler_line(c(), ns, ids, word.c_str(), a.data(), &text[0]));
    if (word == "schedule") requests_[a[0]] = ids[a[0]];
    text.resize(text.find(char{0}));
    return text;
  }
  std::string tiers(const std::string& word, Numbers a) {
    a.resize(8);
    std::string text(4096, '\0');
    const auto found = namespaces_.find(a[0]);
    done(tier_line(c(), found == namespaces_.end() ? 0 : found->second, word.c_str(), a.data(), &text[0]));
    return text.c_str();
  }
  std::string rates(const Numbers& a) {
    const std::vector<uint64_t> sizes(a.begin() + 1, a.end());
    std::vector<double> rates(sizes.size());
    m_->hit_rates(sizes, rates, of_curve(a[0]));
    std::string text;
    for (const double rate : rates) text += " " + std::to_string(static_cast<int>(rate * 1e6));
    return text;
  }
  std::string make_sizer(const Numbers& a) {
    auto config = kvc::make<kvc_sizer_config>();
    config.mode = static_cast<uint32_t>(a[0]), config.num_blocks = static_cast<uint64_t>(a[1]);
    config.max_blocks = static_cast<uint64_t>(a[2]), config.hysteresis = double(a[3]) / 100;
    config.cooldown_ns = static_cast<uint64_t>(a[4]);
    sizer_ = std::make_unique<kvc::Sizer>(config);
    return "";
  }
  static std::string decision(const kvc_sizing_decision& d) {
    return join(Numbers{static_cast<int64_t>(d.number), d.action, d.reason, d.basis,
                        static_cast<int64_t>(d.from_blocks), static_cast<int64_t>(d.to_blocks)});
  }
  std::string make_workload(const Numbers& a) {
    auto config = kvc::make<kvc_workload_config>();
    config.half_life_ns = static_cast<uint64_t>(a[0]), config.window = static_cast<uint32_t>(a[1]);
    workload_ = std::make_unique<kvc::Workload>(config);
    return "";
  }
  std::string forecast(const Numbers& a) {
    const kvc_workload_info info = workload_->read();
    const auto whole = [](double value) { return static_cast<int64_t>(value * 1e3 + 0.5); };
    return join(Numbers{static_cast<int64_t>(info.num_observations), whole(info.average), whole(info.level),
                        whole(info.variance), whole(workload_->predict(static_cast<uint64_t>(a[0])))});
  }
  static std::string name(int64_t number) { return "p" + std::to_string(number); }
  std::string acquire(const Numbers& a) {
    const auto tokens = sequence(a[2], a[3]);
    uint64_t cached = 0;  // Manager::allocate_from_prompt does not tell NO_SPACE from AGAIN
    kvc::check(kvc_manager_allocate_from_prompt(c(), name(a[1]).c_str(), tokens.data(), tokens.size(),
                                                nullptr, &id(a[0]), &cached));
    return said(cached);
  }
  std::string prompts() {
    std::string text;
    for (const std::string& one : m_->prompts()) text += " " + one;
    return text;
  }

  static std::string done(kvc_status status) {
    kvc::check(status);
    return "";
  }
  std::string share(const Numbers& a) {
    const kvc_quota_info q = m_->quota(namespaces_[a[0]], static_cast<uint32_t>(a[1]));
    return join(std::vector<uint64_t>{q.min_blocks, q.max_blocks, q.held, q.cached, q.fenced, q.available,
                                      q.refusals, q.block_queries, q.block_hits});
  }

  Numbers policy_ = {0, 0, 0};
  // All parts, replayed.
  std::string log() {
    const std::vector<char> part = m_->take_log();
    log_.insert(log_.end(), part.begin(), part.end());
    const auto info = kvc::ask<kvc_replay_info>(kvc_log_replay, log_.data(), log_.size());
    return join(std::vector<uint64_t>{info.calls, info.mismatches, info.lost_calls, info.digest});
  }

  std::string resize(const Numbers& a) {
    std::string text;
    for (const kvc_block_copy& c : m_->resize(static_cast<uint64_t>(a[1]), static_cast<uint32_t>(a[0])))
      text += " " + std::to_string(c.source) + ">" + std::to_string(c.destination);
    return text;
  }

  int64_t quotas_ = 0, record_bytes_ = 0, room_ = 0, mode_ = 0;
  bool headroom_ = false, partial_ = false;
  std::vector<char> log_;
  std::vector<kvc_group_config> chosen_;
  bool hints_ = false;
  Numbers fills_ = {0, 0, 0}, encoder_ = {0, 0};
  static std::string said(uint64_t value) { return " " + std::to_string(value); }

  std::map<std::string, std::function<std::string(const Numbers&)>> lines_ = {
      {"policy", [this](const Numbers& a) { return policy_ = a, ""; }},
      {"hints", [this](const Numbers& a) { return hints_ = a[0] != 0, ""; }},
      {"cross", [this](const Numbers&) { return add_cross_group(); }},
      {"encoder", [this](const Numbers& a) { return encoder_ = a, ""; }},
      {"heard",
       [this](const Numbers& a) {
         return said(kvc::ask<kvc_request_info>(kvc_manager_request_info, c(), id(a[0])).num_cross_cached);
       }},
      {"fills", [this](const Numbers& a) { return fills_ = a, ""; }},
      {"fail",
       [this](const Numbers&) {
         std::vector<uint64_t> room(64);
         std::string text;
         for (const uint64_t id : m_->fail_step((*step_)->step_id, room))
           for (const auto& [name, known] : requests_)
             if (known == id) text += " " + std::to_string(name);
         return text;
       }},
      {"room", [this](const Numbers& a) { return room_ = a[0], ""; }},
      {"partial", [this](const Numbers& a) { return partial_ = a[0] != 0, ""; }},
      {"headroom", [this](const Numbers& a) { return headroom_ = a[0] != 0, ""; }},
      {"mode", [this](const Numbers& a) { return mode_ = a[0], ""; }},
      {"resize", [this](const Numbers& a) { return resize(a); }},
      {"expect",
       [this](const Numbers& a) {
         return said(m_->expected_tokens(static_cast<uint32_t>(a[0]), static_cast<uint64_t>(a[1])));
       }},
      {"now", [this](const Numbers& a) { return (*step_)->now_ns = static_cast<uint64_t>(a[0]), ""; }},
      {"time", [this](const Numbers& a) { return m_->set_time(static_cast<uint64_t>(a[0])), ""; }},
      {"priority",
       [this](const Numbers& a) {
         return done(kvc_manager_set_priority(c(), id(a[0]), static_cast<uint64_t>(a[1]),
                                              static_cast<uint64_t>(a[2]), static_cast<uint32_t>(a[3]),
                                              static_cast<uint64_t>(a[4])));
       }},
      {"over",
       [this](const Numbers& a) {
         return done(kvc_manager_end_session(c(), id(a[0]), static_cast<uint64_t>(a[1])));
       }},
      {"keep",
       [this](const Numbers& a) {
         return said(m_->set_prefix_priority({sequence(a[1], a[2]), {}, namespaces_[a[0]]},
                                             static_cast<uint32_t>(a[4]), static_cast<uint64_t>(a[5]),
                                             static_cast<uint64_t>(a[3])));
       }},
      {"demote",
       [this](const Numbers& a) {
         return said(m_->set_prefix_priority({sequence(a[1], a[2]), {}, namespaces_[a[0]]},
                                             KVC_PRIORITY_DEMOTED, 0, static_cast<uint64_t>(a[3])));
       }},
      {"register",
       [this](const Numbers& a) {
         return said(m_->register_prompt(name(a[0]).c_str(), {sequence(a[2], a[3]), {}, namespaces_[a[1]]}));
       }},
      {"acquire", [this](const Numbers& a) { return acquire(a); }},
      {"unregister", [this](const Numbers& a) { return m_->unregister_prompt(name(a[0]).c_str()), ""; }},
      {"prompts", [this](const Numbers&) { return prompts(); }},
      {"group", [this](const Numbers& a) { return choose_group(a); }},
      {"manager", [this](const Numbers& a) { return make_manager(a); }},
      {"rebuild", [this](const Numbers& a) { return rebuild(a); }},
      {"open", [this](const Numbers& a) { return open(a); }},
      {"close",
       [this](const Numbers& a) { return done(kvc_manager_close_namespace(c(), namespaces_[a[0]])); }},
      {"curve", [this](const Numbers& a) { return open_curve(a); }},
      {"uncurve", [this](const Numbers& a) { return m_->close_curve(of_curve(a[0])), ""; }},
      {"rates", [this](const Numbers& a) { return rates(a); }},
      {"sizer", [this](const Numbers& a) { return make_sizer(a); }},
      {"decide",
       [this](const Numbers& a) {
         return decision(sizer_->decide(static_cast<uint64_t>(a[0]), static_cast<double>(a[1])));
       }},
      {"decided",
       [this](const Numbers& a) { return decision(sizer_->read_log(static_cast<uint64_t>(a[0]))); }},
      {"workload", [this](const Numbers& a) { return make_workload(a); }},
      {"observe",
       [this](const Numbers& a) {
         return workload_->record(static_cast<uint64_t>(a[0]), static_cast<double>(a[1])), "";
       }},
      {"forecast", [this](const Numbers& a) { return forecast(a); }},
      {"quotas", [this](const Numbers& a) { return quotas_ = a[0], ""; }},
      {"record", [this](const Numbers& a) { return record_bytes_ = a[0], ""; }},
      {"log", [this](const Numbers&) { return log(); }},
      {"quota",
       [this](const Numbers& a) {
         return m_->set_quota(namespaces_[a[0]], static_cast<uint64_t>(a[2]), static_cast<uint64_t>(a[3]),
                              static_cast<uint32_t>(a[1])),
                "";
       }},
      {"share", [this](const Numbers& a) { return share(a); }},
      {"reset", [this](const Numbers& a) { return m_->reset_namespace(namespaces_[a[0]]), ""; }},
      {"resetall", [this](const Numbers&) { return m_->reset_all(), ""; }},
      {"caching", [this](const Numbers& a) { return m_->set_prefix_caching(a[0] != 0), ""; }},
      {"allocate", [this](const Numbers& a) { return create(a, true); }},
      {"create", [this](const Numbers& a) { return create(a, false); }},
      {"admit",
       [this](const Numbers& a) {
         return said(kvc::ask<uint64_t>(kvc_manager_admit_request, c(), id(a[0])));
       }},
      {"together",
       [this](const Numbers& a) {
         std::vector<uint64_t> ids, cached(a.size());
         for (const int64_t name : a) ids.push_back(id(name));
         kvc::check(kvc_manager_admit_batch(c(), ids.data(), ids.size(), cached.data(), nullptr));
         return join(cached);
       }},
      {"append",
       [this](const Numbers& a) {
         return done(kvc_manager_append_tokens(c(), id(a[0]), sequence(a[1], a[2]).data(),
                                               static_cast<size_t>(a[2])));
       }},
      {"key",
       [this](const Numbers& a) {
         kvc_extra_key key{static_cast<uint64_t>(a[1]), static_cast<uint64_t>(a[2]), {}};
         std::fill(std::begin(key.digest), std::end(key.digest), static_cast<uint8_t>(a[3]));
         return done(kvc_manager_add_keys(c(), id(a[0]), &key, 1));
       }},
      {"reserve",
       [this](const Numbers& a) {
         return done(kvc_manager_reserve_tokens(c(), id(a[0]), static_cast<uint64_t>(a[1])));
       }},
      {"commit",
       [this](const Numbers& a) {
         return done(kvc_manager_commit_tokens(c(), id(a[0]), static_cast<uint64_t>(a[1])));
       }},
      {"ahead",
       [this](const Numbers& a) {
         return done(kvc_manager_commit_ahead(c(), id(a[0]), static_cast<uint64_t>(a[1]),
                                              static_cast<uint64_t>(a[2])));
       }},
      {"truncate",
       [this](const Numbers& a) {
         return done(kvc_manager_truncate_request(c(), id(a[0]), static_cast<uint64_t>(a[1])));
       }},
      {"preempt", [this](const Numbers& a) { return done(kvc_manager_preempt_request(c(), id(a[0]))); }},
      {"free", [this](const Numbers& a) { return done(kvc_manager_free_request(c(), id(a[0]))); }},
      {"fork", [this](const Numbers& a) { return done(kvc_manager_fork_request(c(), id(a[0]), &id(a[1]))); }},
      {"copies", [this](const Numbers&) { return copies(); }},
      {"table", [this](const Numbers& a) { return table(a); }},
      {"lost", [this](const Numbers& a) { return lost(a); }},
      {"blame", [this](const Numbers& a) { return blame(a); }},
      {"checkpoint", [this](const Numbers& a) { return checkpoint(a); }},
      {"slots", [this](const Numbers& a) { return slots(a); }},
      {"probe",
       [this](const Numbers& a) {
         return said(m_->probe({sequence(a[1], a[2]), {}, namespaces_[a[0]]}).num_cached);
       }},
      {"drop",
       [this](const Numbers& a) {
         return said(m_->drop({sequence(a[1], a[2]), {}, namespaces_[a[0]]}));
       }},
      {"evict", [this](const Numbers& a) { return said(m_->evict(static_cast<size_t>(a[0]))); }},
      {"pin",
       [this](const Numbers& a) {
         return pins_[a[0]] = m_->pin({sequence(a[2], a[3]), {}, namespaces_[a[1]]}).release(), std::string();
       }},
      {"unpin", [this](const Numbers& a) { return done(kvc_manager_unpin_prefix(c(), pins_[a[0]])); }},
      {"take", [this](const Numbers& a) { return take(a); }},
      {"publish", [this](const Numbers& a) { return publish(a); }},
      {"give",
       [this](const Numbers& a) {
         const std::vector<int32_t> blocks(a.begin(), a.end());
         return done(kvc_manager_release_blocks(c(), blocks.data(), blocks.size()));
       }},
      {"step", [this](const Numbers& a) { return run_step(a, true); }},
      {"forget", [this](const Numbers& a) { return run_step(a, false); }},
      {"arrive", [this](const Numbers& a) { return run_admissions(a); }},
      {"events", [this](const Numbers&) { return events(); }},
      {"stats", [this](const Numbers&) { return stats(); }},
      {"digest", [this](const Numbers&) { return said(m_->digest()); }},
  };

  std::unique_ptr<kvc::Manager> m_;
  std::unique_ptr<kvc::Step> step_;
  std::unique_ptr<kvc::Workload> workload_;
  std::unique_ptr<kvc::Sizer> sizer_;
  std::map<int64_t, uint64_t> requests_, namespaces_, pins_;
  uint64_t cursor_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  std::ifstream file(argc == 2 ? argv[1] : "");
  if (!file) throw std::runtime_error("usage: runner SCENARIO");
  Runner runner;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || word[0] == '#') continue;
    Numbers numbers;
    for (int64_t n; words >> n;) numbers.push_back(n);
    std::cout << word << join(numbers) << " =";
    try {
      const std::string text = runner.execute(word, numbers);
      std::cout << " 0" << text << "\n";
    } catch (const kvc::Error& error) {
      std::cout << " " << error.status() << " " << kvc_last_error() << "\n";
    }
  }
  runner.check();
  kvc_scheduler_destroy(scenario_scheduler);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
