// SPDX-License-Identifier: Apache-2.0
// World: the managers side by side, an operation applied to all, the digests around it.
#include "property/world.h"

#include <kvcache/record.h>

#include <sstream>

#include "property/create.h"

namespace {

std::string describe(const Outcome& outcome) {
  std::ostringstream out;
  out << kvc_status_name(outcome.status) << " [";
  for (size_t i = 0; i < outcome.values.size(); ++i) out << (i ? " " : "") << outcome.values[i];
  out << "]";
  return out.str();
}

}  // namespace

std::vector<kvc_extra_key> to_keys(const model::Text& text) {
  std::vector<kvc_extra_key> keys;
  for (const model::Span& span : text.spans) {
    kvc_extra_key key{span.first, span.count, {}};
    key.digest[0] = key.digest[31] = static_cast<uint8_t>(span.digest);
    keys.push_back(key);
  }
  return keys;
}

std::string prompt_name(uint64_t number) { return "prompt " + std::to_string(number); }

kvc_request_config to_config(const model::Options& o) {
  kvc_request_config c{};
  c.struct_size = sizeof c;
  c.max_cached_tokens = o.max_cached;
  c.external_tokens = o.external;
  c.slots = o.slots;
  c.lookahead = o.lookahead;
  c.flags = o.flags;
  c.drop_tail_blocks = o.drop_tail;
  c.wait_until_ns = o.wait_until;
  c.headroom = o.headroom;
  c.cross_tokens = o.cross;
  c.cross_digest[0] = c.cross_digest[31] = static_cast<uint8_t>(o.cross_digest);
  return c;
}

kvc_manager* make_manager(const Setup& setup, uint64_t seed, uint64_t hash_mask) {
  const model::Config& c = setup.config;
  std::vector<kvc_group_config> groups;
  for (const model::Group& g : c.groups) {
    kvc_group_config group{};
    group.struct_size = sizeof group;
    group.kind = g.state          ? KVC_GROUP_STATE
                 : g.chunk_tokens ? KVC_GROUP_CHUNKED_LOCAL
                 : g.window       ? KVC_GROUP_SLIDING_WINDOW
                                  : KVC_GROUP_FULL;
    group.chunk_tokens = g.chunk_tokens;
    group.max_checkpoints = g.max_checkpoints;
    group.num_sink_tokens = static_cast<uint32_t>(g.sink_tokens);
    group.window_tokens = g.window_tokens;
    group.retention_tokens = g.retention;
    group.pool = static_cast<uint32_t>(g.pool);
    groups.push_back(group);
  }
  for (const size_t pool : c.cross) {
    kvc_group_config group{};
    group.struct_size = sizeof group;
    group.kind = KVC_GROUP_CROSS;
    group.pool = static_cast<uint32_t>(pool);
    groups.push_back(group);
  }
  std::vector<kvc_pool_config> pools;
  for (size_t p = 0; p < c.pools.size(); ++p)
    pools.push_back({sizeof(kvc_pool_config), c.pools[p], c.rooms.empty() ? 0 : c.rooms[p]});
  kvc_manager_config config{};
  config.struct_size = sizeof config;
  // Else more than there can be: the model does not run out of positions. With few events, places are used
  // again.
  config.max_nodes = c.max_nodes ? c.max_nodes : setup.keeps_all_events() ? 4096 : 2000;
  config.max_requests = c.max_requests;
  config.max_request_tokens = c.max_tokens;
  config.event_capacity = setup.event_capacity;
  config.seed = seed;
  config.watermark_blocks = c.watermark;
  config.policy = c.policy;
  config.policy_weight = c.weight;
  config.policy_history = c.history;
  config.max_quotas = c.max_quotas;
  config.block_size = static_cast<uint32_t>(c.block_size);
  config.vocab_size = static_cast<uint32_t>(c.vocab);
  config.flags = (c.headroom ? uint32_t{KVC_MANAGER_HEADROOM} : 0u) |
                 (c.partial ? uint32_t{KVC_MANAGER_PARTIAL_REUSE} : 0u) |
                 (c.hints ? uint32_t{KVC_MANAGER_HINTS} : 0u) | (c.fills ? uint32_t{KVC_MANAGER_FILLS} : 0u) |
                 (c.null_block ? uint32_t{KVC_MANAGER_NULL_BLOCK} : 0u) |
                 (c.no_cache ? uint32_t{KVC_MANAGER_NO_PREFIX_CACHE} : 0u) |
                 (c.zero_cross_namespace ? uint32_t{KVC_MANAGER_ZERO_CROSS_NAMESPACE} : 0u) |
                 (c.zero_always ? uint32_t{KVC_MANAGER_ZERO_ALWAYS} : 0u);
  config.groups = groups.data();
  config.num_groups = groups.size();
  config.pools = pools.data();
  config.num_pools = pools.size();
  config.record_bytes = setup.record_bytes;
  return create_manager(config, hash_mask, c.near);
}

World::World(const Setup& setup, int sides, uint64_t hash_mask)
    : setup_(setup), model_(setup.config), bytes_(model_) {
  rows_ = setup.config.max_requests + 4;
  stride_ = model_.up(setup.config.max_tokens);  // exactly the longest request
  for (uint64_t i = 0; i < kForeigners; ++i) {   // an index above all, of the last tag
    const uint64_t id = ~uint64_t{0} ^ (i == 0 ? 0 : uint64_t{3} << 50);
    handles_[kForeign + i] = {~i, {id, id}};
  }
  for (int i = 0; i < sides; ++i) {
    Side side;
    side.manager =
        make_manager(setup, 0x5eed0001u + static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u, hash_mask);
    side.tables.assign(model_.num_groups() * rows_ * stride_, setup.fill_id);
    side.shadow = side.tables;
    sides_.push_back(std::move(side));
  }
}

World::~World() {
  for (Side& side : sides_) kvc_manager_destroy(side.manager);
}

uint64_t World::rejected_candidates() const {
  kvc_stats stats{};
  stats.struct_size = sizeof stats;
  kvc_manager_read_stats(sides_[0].manager, &stats);
  return stats.rejected_candidates;
}

void World::take_log(int side, std::vector<unsigned char>& log) const {
  kvc_manager* m = sides_[static_cast<size_t>(side)].manager;
  size_t size = 0;
  kvc_manager_take_log(m, nullptr, 0, &size);
  const size_t before = log.size();
  log.resize(before + size);
  if (kvc_manager_take_log(m, log.data() + before, size, &size) != KVC_OK) log.resize(before);
}

uint64_t World::digest(int side) const {
  uint64_t value = 0;
  kvc_manager_digest(sides_[static_cast<size_t>(side)].manager, &value);
  return value;
}

uint64_t World::step_number(uint64_t back) const {
  return back == kFuture ? model_.issued + 1 : model_.issued - std::min(back, model_.issued);
}

bool World::resolvable(const Op& op) const {
  const auto known = [&](uint64_t tag) { return tag == 0 || handles_.count(tag); };
  if (op.kind == Kind::kRetire) return step_number(op.step.in.retired) != 0;
  for (const uint64_t tag : op.targets)
    if (!handles_.count(tag)) return false;
  return known(op.target) && known(op.ns) && known(op.options.ns);
}

// A call that did nothing to the model's state may still show in the digest, unless it is one that only
// `reads`.
std::string World::check_digests(bool ok, bool changed, bool reads) {
  std::string error;
  for (size_t i = 0; i < sides_.size(); ++i) {
    if (kvc_manager_check(sides_[i].manager) != KVC_OK)
      return std::string("kvc_manager_check: ") + kvc_last_error();
    const uint64_t now = digest(static_cast<int>(i));
    if (digests_.size() > i && !ok && digests_[i] != now) error = "a failed call changed the digest";
    if (digests_.size() > i && ok && !changed && reads && digests_[i] != now)
      error = "the digest changed, the model's state did not";
    if (digests_.size() > i && ok && changed && digests_[i] == now)
      error = "the model's state changed, the digest did not";
    digests_.resize(std::max(digests_.size(), i + 1));
    digests_[i] = now;
    if (digests_[i] != digests_[0])
      error = "managers with the same calls and other seeds have different digests";
  }
  return error;
}

Verdict World::apply(const Op& given, bool check) {
  Verdict verdict;
  const Op op = given.kind == Kind::kStep ? without_unknown(given) : given;
  if (!sides_.empty() && sides_[0].manager == nullptr) {
    verdict.error = std::string("kvc_manager_create: ") + kvc_last_error();
    return verdict;
  }
  if (!resolvable(op)) {
    verdict.skipped = true;
    return verdict;
  }
  if (check && digests_.empty()) check_digests(true, true, false);
  if (!check) digests_.clear();
  const uint64_t version = model_.version;
  StepPlan plan;
  if (op.kind == Kind::kStep) plan = plan_step(op);
  write_bytes(op);
  const Outcome expected = op.kind == Kind::kStep ? step_model(op, &verdict.items) : ask_model(op);
  bytes_.pending_dropped();
  verdict.status = expected.status;
  verdict.changed = model_.version != version;
  for (size_t i = 0; i < sides_.size(); ++i) {
    const int side = static_cast<int>(i);
    const Outcome actual = op.kind == Kind::kStep ? step_library(op, side, plan) : ask_library(op, side);
    if (actual.status != expected.status || actual.values != expected.values || !actual.fault.empty()) {
      verdict.error =
          "library: " + describe(actual) + " " + actual.fault + "\nmodel:   " + describe(expected);
      if (actual.status) verdict.error += std::string("\nkvc_last_error: ") + kvc_last_error();
      return verdict;
    }
  }
  if (verdict.error = bytes_.check_authors(); !verdict.error.empty()) return verdict;
  const bool surely = verdict.changed && op.kind != Kind::kStep;  // a step may end where it began
  if (check) verdict.error = check_digests(expected.status == KVC_OK, surely, op.kind == Kind::kProbe);
  return verdict;
}
