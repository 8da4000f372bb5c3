// SPDX-License-Identifier: Apache-2.0
// World: the comparison of everything that the library tells about its state with the model's.
#include <kvcache/quota.h>
#include <kvcache/retention.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <sstream>

#include "calls.h"
#include "event_calls.h"
#include "property/world.h"

namespace {

// Collects "name: library x, model y" for values that differ.
class Differences {
 public:
  void check(const std::string& name, uint64_t library, uint64_t model) {
    if (library != model) out_ << name << ": library " << library << ", model " << model << "\n";
  }
  std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
};

void replay(const kvc_event& e, std::map<std::pair<uint64_t, uint32_t>, kvc_event>* state) {
  if (e.kind == KVC_EVENT_STORED) (*state)[{e.node, e.group}] = e;
  if (e.kind == KVC_EVENT_REMOVED) state->erase({e.node, e.group});
  if (e.kind == KVC_EVENT_ALL_CLEARED) state->clear();
  if (e.kind == KVC_EVENT_NAMESPACE_CLEARED)
    std::erase_if(*state, [&](auto& entry) { return entry.second.namespace_id == e.namespace_id; });
}

bool clears(uint32_t kind) { return kind == KVC_EVENT_ALL_CLEARED || kind == KVC_EVENT_NAMESPACE_CLEARED; }

// Told of, or taken back, as the parent of others: a position without a block.
bool is_waypoint(const kvc_event& e) { return !clears(e.kind) && e.block < 0; }

}  // namespace

std::string World::compare_all() {
  for (size_t i = 0; i < sides_.size(); ++i)
    if (std::string error = compare_side(static_cast<int>(i)); !error.empty()) return error;
  return bytes_.check();
}

std::string World::compare_side(int index) {
  Side& side = sides_[static_cast<size_t>(index)];
  Differences diff;
  uint64_t sums[7] = {}, total = 0;
  for (size_t p = 0; p < model_.pools.size(); ++p) {
    uint64_t states[7] = {};
    const size_t end = p + 1 < model_.pools.size() ? size_t(model_.pools[p + 1].first) : model_.num_blocks();
    for (size_t id = size_t(model_.pools[p].first); id < end; ++id) {
      if (!model_.usable(int(id))) {
        kvc_block_info none{};
        none.struct_size = sizeof none;
        diff.check("block " + std::to_string(id) + " is none",
                   uint64_t(kvc_manager_block_info(side.manager, int32_t(id), &none)),
                   KVC_ERROR_INVALID_ARGUMENT);
        continue;
      }
      const model::Block& want = model_.block(int(id));
      const std::string name = "block " + std::to_string(id) + " ";
      kvc_block_info info{};
      info.struct_size = sizeof info;
      diff.check(name + "status", uint64_t(kvc_manager_block_info(side.manager, int32_t(id), &info)), KVC_OK);
      ++states[model_.state(int(id))];
      diff.check(name + "state", info.state, model_.state(int(id)));
      diff.check(name + "pool", info.pool, p);
      diff.check(name + "requests", info.requests, uint64_t(want.requests));
      diff.check(name + "external_holds", info.external_holds, uint64_t(want.external));
      diff.check(name + "pins", info.pins, uint64_t(want.pins));
      const bool findable = model_.findable(int(id));
      diff.check(name + "published", info.published, findable);
      if (findable) {
        const size_t offset = want.at->first.prefix.size() - setup_.config.block_size;
        diff.check(name + "token_offset", info.token_offset, offset);
        diff.check(name + "num_copies", info.num_copies, want.at->second[size_t(want.group)].size());
      } else {
        diff.check(name + "num_copies", info.num_copies, 0);
      }
      if (want.published || want.requests || want.external)
        diff.check(name + "group", uint64_t(info.group), uint64_t(want.group));
    }
    kvc_pool_info info{};
    info.struct_size = sizeof info;
    const std::string name = "pool " + std::to_string(p) + " ";
    diff.check(name + "status", uint64_t(kvc_manager_pool_info(side.manager, uint32_t(p), &info)), KVC_OK);
    diff.check(name + "max_blocks", info.max_blocks, model_.room_of(p));
    diff.check(name + "num_blocks", info.num_blocks, model_.pools[p].count);
    diff.check(name + "first_block", info.first_block, uint64_t(model_.pools[p].first));
    const uint64_t told[7] = {info.free, info.cached,  info.pinned, info.reserved,
                              info.live, info.filling, info.fenced};
    for (int s = 0; s < 7; ++s)
      diff.check(name + "state " + std::to_string(s), told[s], states[s]), sums[s] += states[s];
    total += model_.pools[p].count;
  }
  kvc_stats stats{};
  stats.struct_size = sizeof stats;
  kvc_manager_read_stats(side.manager, &stats);
  const model::Stats& want = model_.stats;
  const uint64_t gauges[7] = {stats.blocks_free,     stats.blocks_cached, stats.blocks_pinned,
                              stats.blocks_reserved, stats.blocks_live,   stats.blocks_filling,
                              stats.blocks_fenced};
  for (int s = 0; s < 7; ++s) diff.check("stats state " + std::to_string(s), gauges[s], sums[s]);
  uint64_t admitted = 0;
  for (auto& [id, r] : model_.requests) admitted += r.admitted;
  diff.check("blocks_total", stats.blocks_total, total);
  diff.check("live_requests", stats.live_requests, admitted);
  diff.check("waiting_requests", stats.waiting_requests, model_.requests.size() - admitted);
  diff.check("stats.epoch", stats.epoch, want.epoch);
  diff.check("admissions", stats.admissions, want.admissions);
  diff.check("prompt_tokens", stats.prompt_tokens, want.prompt_tokens);
  diff.check("cached_tokens", stats.cached_tokens, want.cached_tokens);
  diff.check("block_queries", stats.block_queries, want.block_queries);
  diff.check("block_hits", stats.block_hits, want.block_hits);
  diff.check("lost_reuse_tokens", stats.lost_reuse_tokens, want.lost_reuse_tokens);
  for (size_t g = 0; g < model_.config().groups.size(); ++g) {
    kvc_lost_reuse lost{};
    lost.struct_size = sizeof lost;
    diff.check("lost_reuse", uint64_t(kvc_manager_lost_reuse(side.manager, uint32_t(g), &lost)), KVC_OK);
    const auto tokens = [&](uint32_t reason) {
      const auto found = want.losses.find({g, reason});
      return found == want.losses.end() ? 0 : found->second;
    };
    const std::string name = "lost by group " + std::to_string(g) + " ";
    diff.check(name + "admissions", lost.admissions, want.losing.count(g) ? want.losing.at(g) : 0);
    diff.check(name + "block_tokens", lost.block_tokens, tokens(KVC_LOST_BLOCK));
    diff.check(name + "window_tokens", lost.window_tokens, tokens(KVC_LOST_WINDOW));
    diff.check(name + "state_tokens", lost.state_tokens, tokens(KVC_LOST_STATE));
    diff.check(name + "agreement_tokens", lost.agreement_tokens, tokens(KVC_LOST_AGREEMENT));
    diff.check(name + "node_tokens", lost.node_tokens, want.node_tokens);
  }
  diff.check("unpublished_blocks", stats.unpublished_blocks, want.unpublished_blocks);
  diff.check("readmissions", stats.readmissions, want.readmissions);
  diff.check("refusals", stats.refusals, want.refusals);
  diff.check("preemptions", stats.preemptions, want.preemptions);
  diff.check("evictions", stats.evictions, want.evictions);
  diff.check("copies", stats.copies, want.copies);
  diff.check("duplicates", stats.duplicates, want.duplicates);
  diff.check("filling_hits", stats.filling_hits, want.filling_hits);
  diff.check("filling_waits", stats.filling_waits, want.filling_waits);
  diff.check("partial_hits", stats.partial_hits, want.partial_hits);
  diff.check("partial_tokens", stats.partial_tokens, want.partial_tokens);
  if (!diff.text().empty()) return diff.text();
  if (std::string error = compare_quotas(side, index); !error.empty()) return error;
  if (std::string error = compare_requests(side, index); !error.empty()) return error;
  if (std::string error = compare_lists(side, index); !error.empty()) return error;
  return compare_events(side, index);
}

std::string World::compare_quotas(Side& side, int index) {
  Differences diff;
  std::map<uint64_t, uint64_t> spaces{{0, 0}};  // by the model's id
  for (auto& [tag, handle] : handles_)
    if (model_.epochs.count(handle.model)) spaces[handle.model] = handle.lib[size_t(index)];
  for (auto& [ns, lib] : spaces)
    for (size_t p = 0; p < model_.pools.size(); ++p) {
      kvc_quota_info info{};
      info.struct_size = sizeof info;
      const kvc_status status = kvc_manager_quota_info(side.manager, lib, uint32_t(p), &info);
      if (setup_.config.max_quotas == 0) {
        diff.check("quota_info", uint64_t(status), KVC_ERROR_UNSUPPORTED);
        continue;
      }
      const std::string name = "namespace " + std::to_string(ns) + " pool " + std::to_string(p) + " ";
      const model::Quota& want = model_.quota(ns);
      const model::ShareCounts has = model_.share(int64_t(ns), p);
      diff.check(name + "status", uint64_t(status), KVC_OK);
      diff.check(name + "min_blocks", info.min_blocks, want.min[p]);
      diff.check(name + "max_blocks", info.max_blocks, want.max[p]);
      diff.check(name + "held", info.held, has.held - has.fenced);
      diff.check(name + "cached", info.cached, has.cached);
      diff.check(name + "fenced", info.fenced, has.fenced);
      diff.check(name + "available", info.available, model_.room(int64_t(ns), p));
      diff.check(name + "refusals", info.refusals, want.refusals[p]);
      diff.check(name + "block_queries", info.block_queries, want.queries);
      diff.check(name + "block_hits", info.block_hits, want.hits);
    }
  return diff.text();
}

std::string World::compare_requests(Side& side, int index) {
  Differences diff;
  std::vector<uint64_t> ids(model_.requests.size() + 2);
  size_t count = 0;
  diff.check("list_requests",
             uint64_t(kvc_manager_list_requests(side.manager, ids.data(), ids.size(), &count)), KVC_OK);
  diff.check("number of requests", count, model_.requests.size());
  const uint64_t B = setup_.config.block_size;
  for (auto& [id, want] : model_.requests) {
    const uint64_t tag = tag_of_.at(id), lib = lib_id(tag, index);
    const std::string name = "r" + std::to_string(tag) + " ";
    diff.check(name + "listed", std::find(ids.begin(), ids.end(), lib) != ids.end(), true);
    kvc_request_info info{};
    info.struct_size = sizeof info;
    diff.check(name + "status", uint64_t(kvc_manager_request_info(side.manager, lib, &info)), KVC_OK);
    uint64_t held = 0, least = 1;
    for (auto& row : want.table)
      for (const model::Cell& cell : row) held += cell.block >= 0;
    for (const auto& row : want.cross) held += row.size();
    while (least < want.text.tokens.size() && !model_.restorable(want, least)) ++least;
    diff.check(name + "num_tokens", info.num_tokens, want.text.tokens.size());
    diff.check(name + "num_committed", info.num_committed, want.committed);
    diff.check(name + "num_cached", info.num_cached, want.cached);
    diff.check(name + "capacity", info.capacity, want.capacity);
    diff.check(name + "num_blocks", info.num_blocks, held);
    diff.check(name + "lost_reuse_tokens", info.lost_reuse_tokens, want.lost);
    diff.check(name + "lost_group", info.lost_group, want.lost_group);
    diff.check(name + "lost_reason", info.lost_reason, want.lost_reason);
    if (!want.text.tokens.empty()) diff.check(name + "min_truncate_tokens", info.min_truncate_tokens, least);
    diff.check(name + "next_checkpoint", info.next_checkpoint, model_.next_checkpoint(want));
    diff.check(name + "admitted", info.admitted, want.admitted);
    diff.check(name + "flags", info.flags, want.options.flags);
    diff.check(name + "cross_tokens", info.cross_tokens, want.options.cross);
    diff.check(name + "num_cross_cached", info.num_cross_cached, want.cross_cached ? want.options.cross : 0);
    for (size_t g = 0; want.admitted && g < model_.num_groups(); ++g) {
      static const std::vector<model::Cell> kNone;
      const bool cross = g >= want.table.size();
      const std::vector<model::Cell>& cells = !cross               ? want.table[g]
                                              : want.cross.empty() ? kNone
                                                                   : want.cross[g - want.table.size()];
      const uint64_t end = cross ? want.options.cross : want.capacity;
      std::vector<int32_t> row(stride_, -77);
      std::vector<int64_t> slots(end + 1, -77);
      const kvc_status tables =
          kvc_manager_export_tables(side.manager, &lib, 1, uint32_t(g), -5, row.data(), stride_);
      const kvc_status status =
          kvc_manager_export_slots(side.manager, lib, uint32_t(g), 0, end, slots.data(), 8);
      diff.check(name + "export_tables", uint64_t(tables), KVC_OK);
      diff.check(name + "export_slots", uint64_t(status), KVC_OK);
      for (size_t j = 0; j < stride_; ++j) {
        const int block = j < cells.size() && cells[j].block >= 0 ? cells[j].block : -5;
        if (row[j] != block)
          diff.check(name + "table " + std::to_string(g) + " column " + std::to_string(j), uint64_t(row[j]),
                     uint64_t(block));
      }
      for (uint64_t t = 0; t < end; ++t) {
        const int block = cells[t / B].block;
        const int64_t slot = block < 0 ? -1 : int64_t(block) * int64_t(B) + int64_t(t % B);
        if (slots[t] != slot)
          diff.check(name + "slot " + std::to_string(t), uint64_t(slots[t]), uint64_t(slot));
      }
      if (slots[end] != -77) diff.check(name + "slot past the end", 1, 0);
    }
  }
  return diff.text();
}

// Events from the library's cursor on must be the model's, and digests must stand for positions one to one.
// A small ring loses some, and then one of two managers is seldom read: no answer depends on readers. The
// model knows no events of waypoints, so what is read is compared from its end on.
std::string World::compare_events(Side& side, int index) {
  const uint64_t B = setup_.config.block_size;
  if (!setup_.keeps_all_events() && index == 1 && ++side.unread % 7 != 0) return "";
  std::vector<kvc_event> read, events(64);
  std::vector<int32_t> tokens_read, tokens(64 * B);
  const uint64_t from = side.cursor;
  for (size_t count = 1; count != 0;) {
    const kvc_status status = poll_events(side.manager, &side.cursor, events.data(), sizeof(kvc_event),
                                          events.size(), &count, tokens.data(), tokens.size());
    if (setup_.event_capacity == 0)
      return status == KVC_ERROR_UNSUPPORTED ? "" : "events are off but poll_events works";
    if (status != KVC_OK) return std::string("poll_events: ") + kvc_last_error();
    read.insert(read.end(), events.begin(), events.begin() + static_cast<ptrdiff_t>(count));
    size_t used = 0;
    for (size_t i = 0; i < count; ++i) used += events[i].num_tokens;
    tokens_read.insert(tokens_read.end(), tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(used));
  }
  const uint64_t most = std::min<uint64_t>(side.cursor, setup_.event_capacity);
  uint64_t oldest = std::max(from, side.cursor - most);
  // Few nodes may need the places of dead positions, whose events then leave the ring early.
  if (setup_.config.max_nodes != 0 && read.size() < side.cursor - oldest) oldest = side.cursor - read.size();
  if (read.size() != side.cursor - oldest)
    return "events: " + std::to_string(read.size()) + " from " + std::to_string(oldest) + " to " +
           std::to_string(side.cursor);
  const auto plain = static_cast<uint64_t>(std::count_if(read.begin(), read.end(), std::not_fn(is_waypoint)));
  if (plain > model_.events.size() ||
      (setup_.keeps_all_events() && side.told + plain != model_.events.size()))
    return "events: library " + std::to_string(side.told + plain) + ", model " +
           std::to_string(model_.events.size());
  side.told = model_.events.size();
  uint64_t next = model_.events.size() - plain;
  const int32_t* at = tokens_read.data();
  for (size_t i = 0; i < read.size(); at += read[i++].num_tokens) {
    Differences diff;
    const kvc_event& e = read[i];
    const std::string name = "event " + std::to_string(oldest + i) + " ";
    diff.check(name + "sequence", e.sequence, oldest + i);
    diff.check(name + "num_tokens", e.num_tokens, clears(e.kind) ? 0 : B);
    if (!is_waypoint(e))
      if (std::string error = compare_event(side, index, e, at, model_.events[next++]); !error.empty())
        return name + error;
    if (setup_.keeps_all_events()) diff.check(name + "follows its parent", follows_its_parent(e, side), true);
    replay(e, &side.replayed);
    if (!diff.text().empty()) return diff.text();
  }
  return compare_prefixes(side);
}

// A consumer that builds a tree can take the event: what is stored hangs on the root, or on what is there.
bool World::follows_its_parent(const kvc_event& e, const Side& side) {
  if (e.kind != KVC_EVENT_STORED || e.parent_node == 0) return true;
  const auto parent = side.replayed.lower_bound({e.parent_node, 0});
  return parent != side.replayed.end() && parent->first.first == e.parent_node;
}

std::string World::compare_event(Side& side, int index, const kvc_event& e, const int32_t* tokens,
                                 const model::Event& want) {
  Differences diff;
  const uint64_t B = setup_.config.block_size;
  const bool cleared = clears(want.kind);
  diff.check("kind", e.kind, want.kind);
  diff.check("block", uint64_t(e.block), uint64_t(want.block));
  if (want.ns == KVC_ALL_NAMESPACES) {
    diff.check("namespace_id", e.namespace_id, want.ns);
  } else if (want.ns) {
    bool found = false;
    for (auto& [tag, handle] : handles_)
      found |= handle.model == want.ns && handle.lib[size_t(index)] == e.namespace_id;
    diff.check("namespace known", found, true);
  } else {
    diff.check("namespace_id", e.namespace_id, 0);
  }
  if (cleared || !diff.text().empty()) return diff.text();
  diff.check("group", e.group, uint64_t(want.group));
  diff.check("token_offset", e.token_offset, want.offset);
  for (uint64_t t = 0; t < B; ++t)
    diff.check("token", uint64_t(tokens[t]), uint64_t(want.position.prefix[want.offset + t].token));
  Digest digest;
  std::memcpy(digest.data(), e.digest, 32);
  model::Key position = want.position;  // a namespace opened again has its old digests
  position.epoch = 0;
  position.ns = identity_of_.count(want.ns) ? identity_of_.at(want.ns) : 0;
  const bool same = side.digest_of.try_emplace(position, digest).first->second == digest &&
                    side.position_of.try_emplace(digest, position).first->second == position;
  diff.check("digest stands for one position", same, true);
  model::Key parent = position;
  parent.prefix.resize(want.offset);
  auto known = side.digest_of.find(parent);
  if (known != side.digest_of.end())
    diff.check("parent_digest", std::memcmp(e.parent_digest, known->second.data(), 32) != 0, 0);
  return diff.text();
}

// The list of prefixes must be what is left of all events.
std::string World::compare_prefixes(Side& side) {
  const size_t B = setup_.config.block_size, room = 5;
  std::vector<kvc_event> entries(room);
  std::vector<int32_t> tokens(room * B);
  Differences diff;
  auto left = side.replayed;
  std::set<uint64_t> nodes{0}, parents;
  uint64_t listed = 0, cursor = 0, events = ~uint64_t{0};
  do {
    kvc_event_batch batch = {sizeof batch,  entries.data(), sizeof(kvc_event), room, 0,
                             tokens.data(), tokens.size()};
    if (kvc_manager_list_prefixes(side.manager, &cursor, &events, &batch) != KVC_OK)
      return std::string("list_prefixes: ") + kvc_last_error();
    for (size_t i = 0; i < batch.count; ++i) {
      const kvc_event& e = entries[i];
      const std::string name = "prefix " + std::to_string(e.node) + " ";
      kvc_event want = e;
      if (setup_.keeps_all_events()) {
        const auto at = left.find({e.node, e.group});
        if (at == left.end()) return name + "is listed, but no event tells of it";
        want = at->second;
        left.erase(at);
      }
      nodes.insert(e.node), parents.insert(e.parent_node);
      if (is_waypoint(e)) continue;
      kvc_block_info block{};
      block.struct_size = sizeof block;
      diff.check(name + "block", uint64_t(kvc_manager_block_info(side.manager, e.block, &block)), KVC_OK);
      diff.check(name + "published", block.published, 1);
      diff.check(name + "group of the block", uint64_t(block.group), e.group);
      diff.check(name + "sequence", e.sequence, side.cursor);
      ++listed;
      want.sequence = e.sequence, want.time_ns = e.time_ns, want.block = e.block;
      diff.check(name + "differs", std::memcmp(&want, &e, sizeof e) != 0, 0);
      Digest digest;
      std::memcpy(digest.data(), e.digest, 32);
      const auto position = side.position_of.find(digest);
      diff.check(name + "has a known digest",
                 position != side.position_of.end() || !setup_.keeps_all_events(), true);
      for (size_t t = 0; position != side.position_of.end() && t < B; ++t)
        diff.check(name + "token", uint64_t(tokens[i * B + t]),
                   uint64_t(position->second.prefix[e.token_offset + t].token));
    }
  } while (cursor != 0);
  diff.check("event_cursor", events, side.cursor);
  if (setup_.keeps_all_events()) diff.check("prefixes that are not listed", left.size(), 0);
  for (const uint64_t parent : parents)
    diff.check("parent " + std::to_string(parent) + " is listed", nodes.count(parent), 1);
  uint64_t known = 0;
  for (auto& [key, groups] : model_.positions)
    for (auto& copies : groups) known += !copies.empty() && model_.findable(*copies.begin());
  diff.check("listed prefixes", listed, known);
  return diff.text();
}

std::string World::compare_lists(Side& side, int index) {
  Differences diff;
  std::vector<uint64_t> pins(model_.pins.size() + 2), spaces(model_.epochs.size() + 2);
  size_t num_pins = 0, num_spaces = 0;
  kvc_manager_list_pins(side.manager, pins.data(), pins.size(), &num_pins);
  kvc_manager_list_namespaces(side.manager, spaces.data(), spaces.size(), &num_spaces);
  diff.check("number of pins", num_pins, model_.pins.size());
  diff.check("number of namespaces", num_spaces, model_.epochs.size() - 1);  // not the default one
  for (auto& [tag, handle] : handles_) {
    const auto listed = [&, &lib = handle.lib](const std::vector<uint64_t>& ids) {
      return std::find(ids.begin(), ids.end(), lib[size_t(index)]) != ids.end();
    };
    const std::string name = std::to_string(tag) + " listed";
    if (model_.pins.count(handle.model)) diff.check("pin " + name, listed(pins), true);
    if (model_.epochs.count(handle.model)) diff.check("namespace " + name, listed(spaces), true);
  }
  std::vector<char> names(model_.prompts.size() * 64);
  size_t size = 0;
  diff.check("list_prompts",
             uint64_t(kvc_manager_list_prompts(side.manager, names.data(), names.size(), &size)), KVC_OK);
  std::set<std::string> listed;
  for (const char* name = names.data(); name < names.data() + size; name += std::strlen(name) + 1)
    listed.insert(name);
  diff.check("number of prompts", listed.size(), model_.prompts.size());
  for (auto& [name, prompt] : model_.prompts)
    diff.check("prompt " + std::to_string(name), listed.count(prompt_name(uint64_t(name))), 1);
  return diff.text();
}
