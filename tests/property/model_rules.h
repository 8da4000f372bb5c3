// SPDX-License-Identifier: Apache-2.0
// The rules of the reference model, paragraph by paragraph those of docs/SEMANTICS.md: lists, positions,
// matching, publishing, settling, extending, releasing.
#ifndef KVCACHE_TESTS_PROPERTY_MODEL_RULES_H_
#define KVCACHE_TESTS_PROPERTY_MODEL_RULES_H_

#include <kvcache/events.h>
#include <kvcache/prefix.h>

#include <algorithm>
#include <set>

#include "property/model_quota.h"

namespace model {

class Rules {
 public:
  explicit Rules(Config config)
      : config_(within_requests(std::move(config))),
        B(config_.block_size),
        policies_(config_),
        shares_(config_) {
    for (size_t p = 0; p < config_.pools.size(); ++p) {
      Pool pool{int(blocks_.size()), config_.pools[p] - null_blocks(p), {}, {}, {}, 0};
      blocks_.resize(blocks_.size() + room_of(p), Block{.pool = p, .at = positions.end()});
      pools.push_back(pool);
      for (int id = end_of(p) - 1; id >= lowest(p); --id) pools[p].free.push_back(id);
    }
    epochs[0] = 0;
    caching = !config_.no_cache;
  }

  // ---- questions
  const Block& block(int id) const { return blocks_[id]; }
  size_t num_blocks() const { return blocks_.size(); }  // that there may be
  uint64_t room_of(size_t p) const { return config_.rooms.empty() ? config_.pools[p] : config_.rooms[p]; }
  uint64_t null_blocks(size_t p) const { return config_.null_block && p == 0; }
  int lowest(size_t p) const { return pools[p].first + int(null_blocks(p)); }
  int end_of(size_t p) const { return lowest(p) + int(pools[p].count); }
  bool usable(int id) const {
    if (id < 0 || id >= int(blocks_.size())) return false;
    return id >= lowest(blocks_[id].pool) && id < end_of(blocks_[id].pool);
  }
  bool findable(int id) const {  // published, and not in a stale epoch or a closed namespace
    const Block& b = blocks_[id];
    return b.published && current(b.at->first);
  }
  uint32_t state(int id) const {
    const Block& b = blocks_[id];
    for (auto& [fenced, step] : pools[b.pool].fenced)
      if (fenced == id) return KVC_BLOCK_FENCED;
    if (b.filling && (b.requests || b.external)) return KVC_BLOCK_FILLING;
    if (b.requests || b.external) return b.written ? KVC_BLOCK_LIVE : KVC_BLOCK_RESERVED;
    return b.pins ? KVC_BLOCK_PINNED : findable(id) ? KVC_BLOCK_CACHED : KVC_BLOCK_FREE;
  }
  Request* find(uint64_t id) { return requests.count(id) ? &requests[id] : nullptr; }
  bool in_flight() const { return issued > retired; }
  size_t num_groups() const { return config_.groups.size() + config_.cross.size(); }
  size_t pool_of(size_t g) const {
    return g < config_.groups.size() ? config_.groups[g].pool : config_.cross[g - config_.groups.size()];
  }
  uint64_t up(uint64_t tokens) const { return (tokens + B - 1) / B; }
  const Config& config() const { return config_; }

  const Quota& quota(uint64_t ns) const { return shares_.of(int64_t(ns)); }
  // What a namespace, or all without a quota, has of a pool.
  ShareCounts share(int64_t ns, size_t p) const { return counts(shares_.cls(ns), p); }
  uint64_t room(int64_t ns, size_t p) const { return room(ns, p, 0, false); }

  std::vector<Pool> pools;
  Positions positions;
  std::map<uint64_t, Request> requests;
  std::map<uint64_t, Pin> pins;
  std::map<uint64_t, uint64_t> epochs;  // of the open namespaces
  std::vector<Copy> pending;
  std::vector<int> zeros;  // blocks to be cleared
  std::vector<Event> events;
  Stats stats;
  bool caching = true;
  uint64_t issued = 0, retired = 0, shortage = 0,
           version = 0;  // version grows with every change of the state

 protected:
  static Config within_requests(Config config) {  // a retention that no request reaches is none
    for (Group& group : config.groups)
      if (group.retention > uint64_t{1} << 32) group.retention = 0;
    return config;
  }
  kvc_status changed() { return ++version, KVC_OK; }
  bool valid(const std::vector<int32_t>& tokens) const {
    return std::all_of(tokens.begin(), tokens.end(),
                       [&](int32_t t) { return t >= 0 && (!config_.vocab || uint64_t(t) < config_.vocab); });
  }
  std::vector<size_t> all_groups() const {
    std::vector<size_t> all(config_.groups.size());
    for (size_t g = 0; g < all.size(); ++g) all[g] = g;
    return all;
  }
  uint64_t lo(size_t g, uint64_t t) const {
    if (const uint64_t C = config_.groups[g].chunk_tokens) return (t - t % C) / B;
    const uint64_t W = std::max<uint64_t>(config_.groups[g].window_tokens, 2);
    return t >= W ? (t - W + 1) / B : 0;
  }
  // After a commit to c tokens: a hit up to the last full block needs its window, unless all stays cached.
  uint64_t returned_below(size_t g, uint64_t c) const {
    const Group& group = config_.groups[g];
    return lo(g, group.state || group.retention == B || config_.no_cache ? c : c / B * B);
  }
  uint64_t sinks(size_t g) const { return up(config_.groups[g].sink_tokens); }
  bool needed(size_t g, uint64_t j, uint64_t L) const {
    return !config_.groups[g].window || j >= lo(g, L * B) || j < sinks(g);
  }
  // Nodes are what has a block, where an admitted request stands, and what lies before these.
  std::set<Key> nodes() const {
    std::set<Key> nodes;
    const auto add = [&](Key at) {
      for (; !at.prefix.empty(); at.prefix.resize(at.prefix.size() - B)) nodes.insert(at);
    };
    for (const auto& [at, copies] : positions) add(at);
    for (const auto& [id, r] : requests) {
      if (!r.admitted || !r.published) continue;
      Key at = key(r.options.ns, r.text, r.published);
      at.epoch = r.epoch, add(at);
    }
    return nodes;
  }
  // Whether a position has a node, or gets one.
  bool finds_node(int64_t ns, const Key& k) {
    if (!config_.max_nodes) return true;
    make_node_room(ns, k);
    const std::set<Key> all = nodes();
    return all.count(k) || all.size() < config_.max_nodes;
  }
  // The same for the next position of a request. Without a node it publishes none up to `end`, and none
  // later.
  bool finds_node(Request& r, const Key& k, uint64_t end) {
    if (finds_node(int64_t(r.options.ns), k)) return true;
    stats.unpublished_blocks += end - r.published;
    stats.node_tokens += (r.text.tokens.size() / B - r.published) * B;
    r.stopped = true;
    return false;
  }
  // Before a position comes without full attention.
  void make_node_room(int64_t ns, const Key& k) {
    const uint64_t most = config_.max_nodes, wanted = 1 + most / 8;
    if (nodes().count(k)) return;
    for (uint64_t round = 0; round < 16 * num_groups(); ++round) {
      if (most - nodes().size() >= wanted) return;
      int gone = -1;
      for (size_t p = 0, cached = 0; p < pools.size(); ++p) {
        if (pools[p].lru.size() <= cached) continue;
        const int b = shares_.on() ? victim_for(pools[p], ns, p) : victim(pools[p]);
        if (b >= 0) gone = b, cached = pools[p].lru.size();
      }
      if (gone < 0) return;
      std::vector<int> there;  // all copies at its position
      for (const auto& copies : blocks_[gone].at->second)
        there.insert(there.end(), copies.begin(), copies.end());
      for (const int id : there) {
        Pool& pool = pools[blocks_[id].pool];
        const bool may =
            id == gone || !findable(id) || may_evict(blocks_[id].cls, shares_.cls(ns), blocks_[id].pool);
        if (!may || !remove(pool.lru, id)) continue;
        stats.evictions += findable(id);
        pool.free.push_back(id), detach(id);
      }
    }
  }
  // Of what a window leaves behind: whether it is far from where hits are likely to end.
  bool far(const Request& r, size_t g, uint64_t j) const {
    const auto from = [&](uint64_t end) { return lo(g, end - std::min(end, config_.near)); };
    const uint64_t hit = r.cached + r.lost;
    return !config_.groups[g].state && j >= sinks(g) && j < from(r.prompt) &&
           !(j < hit / B && j >= from(hit));
  }
  bool serves(const Request& r, size_t g, uint64_t j, bool released) const {
    const auto window_of = [&](uint64_t b) { return lo(g, b) <= j && j < b / B; };
    const uint64_t R = config_.groups[g].retention;
    return j < sinks(g) || (r.prompt && window_of((r.prompt - 1) / B * B)) ||
           (R && window_of((j * B / R + 1) * R)) || (released && window_of(r.published * B)) ||
           (config_.groups[g].state && ((j + 1) * B == r.junction || (j + 1) * B == shortened(r)));
  }
  uint64_t shortened(const Request& r) const {  // the prompt, less what hits drop
    const uint64_t blocks = r.prompt ? (r.prompt - 1) / B : 0, drop = r.options.drop_tail;
    return drop && blocks > drop ? (blocks - drop) * B : 0;
  }
  bool has_states() const {
    return std::any_of(config_.groups.begin(), config_.groups.end(), [](const Group& g) { return g.state; });
  }
  // Does a group's block exist at a new position of tables that reach `end` positions, for a step that ends
  // at `tokens` tokens and a transfer that ends at `transfer`?
  bool exists(size_t g, uint64_t j, uint64_t tokens, uint64_t transfer) const {
    if (is_window(g) && !config_.groups[g].state && transfer)  // nothing that its end has left
      return j < sinks(g) || j >= returned_below(g, transfer);
    if (!config_.groups[g].state || tokens == 0) return true;
    return j * B >= (tokens - 1) / B * B || (transfer && j == (transfer - 1) / B);
  }
  uint64_t count_new(size_t g, uint64_t from, uint64_t to, uint64_t tokens, uint64_t transfer) const {
    uint64_t count = 0;
    for (uint64_t j = from; j < to; ++j)  // a position that exists already may be where the step ends
      count += exists(g, j, tokens, transfer);
    return count;
  }
  // Most blocks of a group that a request holds while it grows by so many tokens a step.
  uint64_t most_held(size_t g, uint64_t step) const {
    const Group& group = config_.groups[g];
    if (!group.window || group.state) return UINT64_MAX;
    const uint64_t tokens =
        group.chunk_tokens ? group.chunk_tokens : std::max<uint64_t>(group.window_tokens, 2);
    const uint64_t W = std::min(tokens, uint64_t{1} << 32);  // more than any request has
    return sinks(g) + up(W - 1) + up(step - 1) + 1;
  }
  // Blocks that a request with slots for so many tokens must have, even if it grew token by token and all
  // before was cached: in windows those that the last token reads; or the one behind it, where a transfer
  // ends.
  std::vector<uint64_t> fewest(uint64_t tokens, uint64_t transfer, uint64_t cross, uint64_t first_end = 0,
                               uint64_t last_end = 0) const {
    std::vector<uint64_t> out(pools.size());
    for (size_t g = 0; g < config_.groups.size(); ++g) {
      const bool state = config_.groups[g].state;
      const uint64_t first = tokens && is_window(g) ? lo(g, transfer == tokens ? tokens : tokens - 1) : 0;
      uint64_t held = 0;
      for (uint64_t j = 0; j < up(tokens); ++j) held += j >= first || j < sinks(g);
      if (first_end && is_window(g)) held = fewest_of_hits(g, first_end, last_end, transfer);
      out[config_.groups[g].pool] += state ? tokens != 0 : held;
    }
    for (const size_t p : config_.cross) out[p] += up(cross);
    return out;
  }
  // The same in windows if hits move the end: from `first` tokens without one, to `last`.
  uint64_t fewest_of_hits(size_t g, uint64_t first, uint64_t last, uint64_t transfer) const {
    const Group& group = config_.groups[g];
    const uint64_t less = transfer != 0;
    if (!group.chunk_tokens) {
      const uint64_t W = std::min(std::max<uint64_t>(group.window_tokens, 2), uint64_t{1} << 32);
      return std::min(up(first), up(W - less));
    }
    return last > group.chunk_tokens ? std::min(up(first), 1 - less) : up(first);
  }
  // Is it, with the states that are hit, more than a pool of states can ever give?
  bool outgrows_states(int64_t ns, std::vector<uint64_t> need, const Table& hits) const {
    for (const auto& row : hits)
      for (const Cell& cell : row)
        if (cell.block >= 0)
          need[blocks_[cell.block].pool] += in(pools[blocks_[cell.block].pool].lru, cell.block);
    for (const Group& group : config_.groups) {
      std::vector<uint64_t> alone(pools.size());
      alone[group.pool] = need[group.pool];
      if (group.state && never(ns, alone)) return true;
    }
    return false;
  }
  // Is it more than its share can ever have?
  bool never(int64_t ns, const std::vector<uint64_t>& least) const {
    for (size_t p = 0; p < pools.size() && !least.empty(); ++p)
      if (least[p] > std::min(pools[p].count - shares_.minimums_but(ns, p),
                              std::max(shares_.of(ns).most(p), share(ns, p).held)))
        return true;
    return false;
  }
  // Does it hold the windows that the token after n reads?
  bool windows_at(const Request& r, uint64_t n) const {
    for (size_t g = 0; g < r.table.size(); ++g)
      for (uint64_t j = lo(g, n); is_window(g) && !config_.groups[g].state && j < up(n); ++j)
        if (j >= sinks(g) && r.table[g][j].block < 0) return false;
    return true;
  }
  // Can a request go on from n tokens with the states that it holds?
  bool state_at(const Request& r, uint64_t n) const {
    for (size_t g = 0; g < r.table.size(); ++g)
      if (config_.groups[g].state && n && up(n) <= r.table[g].size() && r.table[g][up(n) - 1].block < 0)
        return false;
    return true;
  }
  Key key(uint64_t ns, const Text& text, uint64_t blocks) const {
    Key k{ns, epochs.count(ns) ? epochs.at(ns) : 0, std::vector<Letter>(blocks * B)};
    for (uint64_t i = 0; i < blocks * B; ++i) k.prefix[i].token = text.tokens[i];
    for (const Span& s : text.spans)
      for (uint64_t i = s.first; i < std::min(s.first + s.count, blocks * B); ++i)
        k.prefix[i].parts.push_back({s.digest, s.count, i - s.first});
    if (text.origin && blocks) k.prefix[0].parts.push_back({text.origin, 1, 0});
    for (Letter& letter : k.prefix)
      if (letter.parts.size() > 1) letter.order();
    return k;
  }
  bool starts_with(Positions::const_iterator at, const Key& k) const {
    return at != positions.end() && at->first.ns == k.ns && at->first.epoch == k.epoch &&
           at->first.prefix.size() >= k.prefix.size() &&
           std::equal(k.prefix.begin(), k.prefix.end(), at->first.prefix.begin());
  }
  bool is_known(const Key& k) const { return starts_with(positions.lower_bound(k), k); }
  // Is a longer prefix known: published, or where another admitted request has come to?
  bool known_below(Positions::iterator at, const Request& self) const {
    if (starts_with(std::next(Positions::const_iterator(at)), at->first)) return true;
    for (auto& [id, r] : requests) {
      if (&r == &self || !r.admitted || r.options.ns != at->first.ns || r.epoch != at->first.epoch) continue;
      if (r.published * B <= at->first.prefix.size()) continue;
      const Key k = key(r.options.ns, r.text, at->first.prefix.size() / B);
      if (k.prefix == at->first.prefix) return true;
    }
    return false;
  }
  // Can nobody else reach what is published at the request's position?
  bool reached_alone(const Request& r, uint64_t j) const {
    for (const auto& row : r.table)
      if (const int b = row[j].block; b >= 0 && blocks_[b].published) {
        const auto at = blocks_[b].at;
        if (!current(at->first))
          return std::none_of(r.table.begin(), r.table.end(),
                              [&](auto& own) { return own[j].block >= 0 && holds(own[j].block) > 1; });
        for (size_t g = 0; g < r.table.size(); ++g)
          for (const int copy : at->second[g])
            if (copy != r.table[g][j].block || holds(copy) > 1) return false;
        return !known_below(at, r);
      }
    return true;
  }
  // The positions of a text, as far as any of its first `limit` blocks is published; end() where one is not.
  using Path = std::vector<Positions::const_iterator>;
  Path path(uint64_t ns, const Text& text, uint64_t limit) const {
    Path out;
    for (uint64_t j = 0; j < limit && is_known(key(ns, text, j + 1)); ++j)
      out.push_back(positions.find(key(ns, text, j + 1)));
    out.resize(limit, positions.end());
    return out;
  }
  int copy_at(Positions::const_iterator at, size_t g, bool shares = true) const {
    if (at == positions.end() || at->second[g].empty()) return -1;
    const int first = at->second[g].front();
    return blocks_[first].filling && !shares ? -1 : first;
  }
  Hit match(uint64_t ns, const Text& text, uint64_t limit, const std::vector<size_t>& groups, uint64_t drop,
            bool shares = false) const {
    const Path at = path(ns, text, limit);
    uint64_t known = limit;
    const auto readable = [&](uint64_t j) {
      const std::vector<size_t> all = all_groups();
      return std::any_of(all.begin(), all.end(), [&](size_t g) { return copy_at(at[j], g, shares) >= 0; });
    };
    while (known > 0 && !readable(known - 1)) --known;
    const auto longest = [&](uint64_t most, const std::vector<size_t>& of, bool spans) {
      for (uint64_t L = most; L > 0; --L) {
        bool good = true;
        for (const Span& s : text.spans) good &= !spans || L * B <= s.first || L * B >= s.first + s.count;
        for (size_t g : of)
          for (uint64_t j = 0; good && j < L; ++j) good = !needed(g, j, L) || copy_at(at[j], g, shares) >= 0;
        if (good) return L;
      }
      return uint64_t(0);
    };
    const uint64_t plain = longest(known, groups, false), best = longest(plain, groups, true);
    uint64_t alone = plain;
    for (size_t g : groups) alone = std::max(alone, longest(known, {g}, false));
    Hit hit;
    hit.blocks = drop ? longest(best > drop ? best - drop : 0, groups, true) : best;
    hit.lost = (alone - plain) * B, hit.table = Table(config_.groups.size()), hit.reached = best;
    hit.most = alone, hit.whole = plain;
    for (size_t g = 0; alone > plain && g < config_.groups.size(); ++g) {
      uint32_t reason = config_.groups[g].state ? KVC_LOST_STATE : KVC_LOST_WINDOW;
      for (uint64_t j = 0; j < alone; ++j)
        if ((!config_.groups[g].window || j < sinks(g)) && copy_at(at[j], g, shares) < 0)
          reason = KVC_LOST_BLOCK;
      hit.alone.push_back(longest(known, {g}, false)), hit.lacks.push_back(reason);
    }
    std::vector<size_t> others;
    for (size_t g : groups)
      if (!config_.groups[g].state) others.push_back(g);
    if (!others.empty() && others.size() != groups.size())
      if (const uint64_t most = longest(known, others, true); most > best) hit.junction = most * B;
    for (size_t g : groups)
      for (uint64_t j = 0; j < hit.blocks; ++j)
        hit.table[g].push_back({needed(g, j, hit.blocks) ? copy_at(at[j], g) : -1, false});
    return hit;
  }
  // The hit of a pin. If it needs no block, one of its last position stands in; without it, there is none.
  Hit pinnable(uint64_t ns, const Text& text) const {
    Hit hit = match(ns, text, text.tokens.size() / B, all_groups(), 0);
    for (const auto& row : hit.table)
      for (const Cell& cell : row)
        if (cell.block >= 0) return hit;
    for (auto& row : hit.table) {
      if (hit.blocks == 0) break;
      const auto last = positions.find(key(ns, text, hit.blocks));
      row.back().block = copy_at(last, size_t(&row - hit.table.data()), false);
      if (row.back().block >= 0) return hit;
    }
    hit.blocks = 0;
    for (auto& row : hit.table) row.clear();
    return hit;
  }
  static bool in(const std::vector<int>& list, int b) {
    return std::find(list.begin(), list.end(), b) != list.end();
  }
  static bool remove(std::vector<int>& list, int b) { return std::erase(list, b) > 0; }

  // Blocks that a share will take, by what a step has planned.
  uint64_t expected(int cls, size_t p) const {
    return expected_.count({cls, p}) ? expected_.at({cls, p}) : 0;
  }
  ShareCounts counts(int cls, size_t p) const {
    ShareCounts out{expected(cls, p), 0, 0};
    for (size_t id = 0; shares_.on() && id < blocks_.size(); ++id) {
      const Block& b = blocks_[id];
      if (b.pool != p || !usable(int(id)) || shares_.cls(b.payer) != cls) continue;
      const uint32_t s = state(int(id));
      if (s == KVC_BLOCK_FREE) continue;
      ++(s == KVC_BLOCK_CACHED ? out.cached : out.held), out.fenced += s == KVC_BLOCK_FENCED;
    }
    return out;
  }
  // Blocks that a namespace may take: what the others are sure of stays, and it keeps to its maximum. Now, or
  // when all fenced blocks have settled, `kept` of its own excepted.
  uint64_t room(int64_t ns, size_t p, uint64_t kept, bool later) const {
    uint64_t available = pools[p].free.size() + pools[p].lru.size();
    for (const auto& [of, count] : expected_) available -= of.second == p ? count : 0;
    uint64_t others = 0, left = UINT64_MAX;
    for (const int cls : shares_.on() ? shares_.classes() : std::vector<int>{}) {
      const ShareCounts has = counts(cls, p);
      const bool own = cls == shares_.cls(ns);
      const Quota& q = shares_.of_class(cls);
      const uint64_t settling = later ? has.fenced - (own ? kept : 0) : 0, held = has.held - settling;
      available += settling;
      if (own)
        left = q.most(p) - std::min(held, q.most(p));
      else
        others += q.min[p] - std::min(held, q.min[p]);
    }
    if (!shares_.on() && later) available += pools[p].fenced.size() - kept;
    return std::min(available - std::min(available, others), left);
  }
  bool may_evict(int cls, int own, size_t p) const {
    const ShareCounts has = counts(cls, p);
    if (cls == own && has.used() < shares_.of_class(cls).min[p]) return false;
    return cls == own || cls == 0 || has.used() > shares_.of_class(cls).min[p];
  }
  void keep_to(int64_t ns, size_t p, uint64_t most) {
    const int cls = shares_.cls(ns);
    while (counts(cls, p).used() > most && counts(cls, p).cached) {
      const auto own = [cls](int other) { return other == cls; };
      const int b = policies_.victim(
          pools[p], blocks_, [this](int id) { return findable(id); }, own, own);
      stats.evictions += findable(b);
      remove(pools[p].lru, b), pools[p].free.push_back(b), detach(b), changed();
    }
  }
  // May `n` blocks be held for it in addition, and hits that nobody holds?
  kvc_status fits(int64_t ns, const std::vector<uint64_t>& need, const Table& hits, uint64_t watermark) {
    kvc_status status = KVC_OK;
    shortage = 0;
    static const auto weight = [](kvc_status s) {
      return s == KVC_OK ? 0 : s == KVC_ERROR_AGAIN ? 1 : s == KVC_ERROR_NO_SPACE ? 2 : 3;
    };
    for (size_t p = 0; p < pools.size(); ++p) {
      uint64_t want = need[p] + watermark, kept = 0;
      for (auto& row : hits)
        for (const Cell& cell : row)
          if (cell.block >= 0 && blocks_[cell.block].pool == p)
            want += in(pools[p].lru, cell.block), kept += state(cell.block) == KVC_BLOCK_FENCED;
      if (want == watermark || want <= room(ns, p)) continue;  // only pools from which it needs any
      shortage = std::max(shortage, want - room(ns, p));
      const ShareCounts has = share(ns, p);
      const uint64_t stays = has.held - (has.fenced - std::min(kept, has.fenced)),
                     most = shares_.of(ns).most(p);
      const kvc_status reason = want <= room(ns, p, kept, true)             ? KVC_ERROR_AGAIN
                                : most != UINT64_MAX && stays + want > most ? KVC_ERROR_OVER_QUOTA
                                                                            : KVC_ERROR_NO_SPACE;
      if (weight(reason) > weight(status)) status = reason, short_pool_ = p;
    }
    return status;
  }
  kvc_status refused(int64_t ns, kvc_status status, const std::vector<uint64_t>& least = {}) {
    if (never(ns, least)) status = KVC_ERROR_NEVER_FITS;
    shares_.of(ns).refusals[short_pool_] += status == KVC_ERROR_OVER_QUOTA;
    return ++stats.refusals, status;
  }
  // Has its share an admitted request?
  bool any_admitted(int64_t ns) const {
    return std::any_of(requests.begin(), requests.end(), [&](auto& entry) {
      return (entry.second.admitted || entry.second.planned) &&
             shares_.cls(int64_t(entry.second.options.ns)) == shares_.cls(ns);
    });
  }
  int victim(const Pool& pool) const {
    const auto all = [](int) { return true; };
    return policies_.victim(
        pool, blocks_, [this](int id) { return findable(id); }, all, all);
  }
  int victim_for(const Pool& pool, int64_t ns, size_t p) const {
    const auto findable_one = [this](int id) { return findable(id); };
    return policies_.victim(
        pool, blocks_, findable_one, [&](int cls) { return may_evict(cls, shares_.cls(ns), p); },
        [](int) { return true; });
  }
  // The share of a namespace begins, and ends: its blocks come to it, and go to the common one.
  void begin_share(int64_t ns) {
    shares_.begin(ns);
    for (Pool& pool : pools)
      for (const int id : pool.lru)
        if (blocks_[id].payer == ns && findable(id)) blocks_[id].cls = shares_.cls(ns);
  }
  void end_share(int64_t ns) {
    const int cls = shares_.cls(ns);
    shares_.end(ns);
    for (Pool& pool : pools)
      for (int list = 0; list < 102 * 16; ++list)  // level by level, shelf by shelf
        for (const int id : std::vector<int>(pool.lru)) {
          Block& b = blocks_[id];
          if (b.cls != cls || b.level != list / 16 || b.shelf != list % 16) continue;
          remove(pool.lru, id), b.cls = 0;
          if (findable(id))
            pool.lru.push_back(id), b.came = pool.clock++;
          else
            detach(id), pool.free.push_back(id);
        }
  }
  int take(size_t group, int64_t owner, bool copied = false) {
    const size_t p = pool_of(group);
    Pool& pool = pools[p];
    if (shares_.of(owner).max[p]) keep_to(owner, p, shares_.of(owner).max[p] - 1);
    const bool fresh = !pool.free.empty();
    const int id = fresh ? pool.free.back() : shares_.on() ? victim_for(pool, owner, p) : victim(pool);
    fresh ? pool.free.pop_back() : void(remove(pool.lru, id));
    stats.takes += 1, stats.evictions += findable(id), stats.evicting_takes += findable(id);
    detach(id);
    const int64_t before = blocks_[id].owner;
    const bool foreign = before != kNobody && (before != owner || owner == kExternal);
    if (copied)
      remove(zeros, id);
    else if ((config_.zero_always || (config_.zero_cross_namespace && foreign)) && !in(zeros, id))
      zeros.push_back(id);
    blocks_[id] = Block{
        .pool = blocks_[id].pool, .group = int(group), .at = positions.end(), .owner = owner, .payer = owner};
    return id;
  }
  int holds(int id) const { return blocks_[id].requests + blocks_[id].external + blocks_[id].pins; }
  void hold(const Table& table, int Block::*count) {
    for (auto& row : table)
      for (const Cell& cell : row) {
        if (cell.block < 0) continue;
        Pool& pool = pools[blocks_[cell.block].pool];
        remove(pool.lru, cell.block);
        std::erase_if(pool.fenced, [&](auto& entry) { return entry.first == cell.block; });
        if (!holds(cell.block)) fill(cell.block, blocks_[cell.block].filling);
        ++(blocks_[cell.block].*count);
      }
  }
  void fill(int id, uint64_t step) { blocks_[id].filling = step, blocks_[id].since = ++fills_; }
  void drop(int id, int Block::*count, bool first_out = false) {
    --(blocks_[id].*count);
    if (count != &Block::pins) blocks_[id].released = issued;
    if (holds(id)) return;
    blocks_[id].first_out = first_out;
    if (blocks_[id].released > retired)  // a pin writes nothing
      blocks_[id].released = issued, pools[blocks_[id].pool].fenced.push_back({id, issued});
    else
      settle(id);
  }
  void settle(int id) {
    Pool& pool = pools[blocks_[id].pool];
    if (blocks_[id].filling) blocks_[id].filling = 0, blocks_[id].written = true;
    if (!findable(id)) return detach(id), pool.free.push_back(id);
    int keep = id;
    std::vector<int>& copies = blocks_[id].at->second[blocks_[id].group];
    for (int other : std::vector<int>(copies))
      if (remove(pool.lru, other)) keep = other;
    if (keep != id) {
      detach(id), pool.free.push_back(id), blocks_[keep].first_out = false;
    } else if (copies.front() != id) {
      remove(copies, id), copies.insert(copies.begin() + 1, id);
    }
    come(pool, keep);
    for (const Group& g : config_.groups)
      if (g.max_checkpoints && &pools[g.pool] == &pool && pool.lru.size() > g.max_checkpoints) {
        const int gone = victim(pool);
        stats.evictions += findable(gone);
        remove(pool.lru, gone), pool.free.push_back(gone), detach(gone);
      }
  }
  void come(Pool& pool, int id) {  // to the end of its list; or first, if there is one list
    Block& b = blocks_[id];
    const bool divided = config_.hints || config_.max_quotas || policies_.sorts();
    pool.lru.insert(b.first_out && !divided ? pool.lru.begin() : pool.lru.end(), id), b.came = pool.clock++;
    b.shelf = policies_.shelf(b.at->first, missing(b.at) > 0), b.level = hint_of(b.at->first).level,
    b.cls = shares_.cls(b.payer);
  }
  Hint hint_of(const Key& k) const { return hints_.count(k) ? hints_.at(k) : Hint{}; }
  void drop_pins(const Table& table) {
    const auto each = [&](bool window, bool state) {
      for (uint64_t j = table[0].size(); j-- > 0;)
        for (size_t g = 0; g < table.size(); ++g)
          if (config_.groups[g].window == window && config_.groups[g].state == state &&
              table[g][j].block >= 0)
            drop(table[g][j].block, &Block::pins);
    };
    each(true, false), each(false, false), each(true, true);  // states leave last
  }
  int missing(Positions::const_iterator at) const {  // full groups without a block there
    int count = 0, crossed = 0;
    for (size_t g = 0; g < config_.groups.size(); ++g)
      count += !config_.groups[g].window && at->second[g].empty();
    for (size_t g = config_.groups.size(); g < num_groups(); ++g) crossed += at->second[g].empty();
    return crossed == int(config_.cross.size()) ? count : crossed;
  }
  bool movable(int id) const {
    const Block& b = blocks_[id];
    return in(pools[b.pool].lru, id) || (b.requests && !b.external && !b.pins);
  }
  static void follow(Table& table, int from, int to) {
    for (auto& row : table)
      for (Cell& cell : row)
        if (cell.block == from) cell.block = to;
  }
  void move(int from, int to) {  // to a free block
    Block& b = blocks_[from];
    Pool& pool = pools[b.pool];
    remove(pool.free, to), pool.free.push_back(from);
    std::replace(pool.lru.begin(), pool.lru.end(), from, to);
    for (auto& [id, r] : requests) follow(r.table, from, to), follow(r.cross, from, to);
    for (auto& [id, pin] : pins) follow(pin.table, from, to);
    if (b.published) std::replace(b.at->second[b.group].begin(), b.at->second[b.group].end(), from, to);
    blocks_[to] = b;
    b = Block{.pool = b.pool, .at = positions.end(), .owner = b.owner};
  }
  bool attach(int id, size_t g, const Key& k) {  // true if the position was published in this group before
    const auto [at, is_new] = positions.try_emplace(k, num_groups());
    if (is_new) policies_.begin(k), born_[k] = ++births_;
    const bool again = !at->second[g].empty();
    at->second[g].push_back(id), blocks_[id].published = true, blocks_[id].at = at;
    if (!again) note(KVC_EVENT_STORED, id, g, at);
    return again;
  }
  void detach(int id) {
    Block& b = blocks_[id];
    if (!b.published) return;
    b.published = false, remove(b.at->second[b.group], id);
    if (b.at->second[b.group].empty() && current(b.at->first)) note(KVC_EVENT_REMOVED, id, b.group, b.at);
    if (policies_.wants_fragments() && !is_window(size_t(b.group)) && b.at->second[b.group].empty() &&
        current(b.at->first) && missing(b.at) == 1)
      for (auto& copies : b.at->second)
        for (int other : copies)
          if (auto& lru = pools[blocks_[other].pool].lru; remove(lru, other))
            lru.push_back(other), blocks_[other].shelf = policies_.shelf(b.at->first, true);
    if (std::all_of(b.at->second.begin(), b.at->second.end(), [](auto& copies) { return copies.empty(); })) {
      policies_.end(b.at->first, !current(b.at->first));
      hints_.erase(b.at->first);
      positions.erase(b.at);
    }
  }
  bool is_window(size_t g) const { return g < config_.groups.size() && config_.groups[g].window; }
  void note(uint32_t kind, int id, size_t g, Positions::iterator at) {
    events.push_back({kind, at->first.ns, int(g), id, at->first.prefix.size() - B, at->first});
  }
  bool current(const Key& k) const { return epochs.count(k.ns) && epochs.at(k.ns) == k.epoch; }
  void clear(uint64_t ns) {  // its epoch is over already: what was published there stays where it is, stale
    events.push_back(
        {ns == KVC_ALL_NAMESPACES ? KVC_EVENT_ALL_CLEARED : KVC_EVENT_NAMESPACE_CLEARED, ns, 0, -1, 0, {}});
  }
  // Must the block that the next token goes to be copied first? A stale publication counts as well.
  bool shared(const Request& r, size_t g) const {
    if (r.capacity % B == 0) return false;
    const int b = r.table[g][r.capacity / B].block;
    return blocks_[b].published || holds(b) > 1;
  }
  // With `known` tokens known then.
  kvc_status extend(Request& r, uint64_t capacity, uint64_t known, std::vector<Copy>& copies) {
    if (capacity <= r.capacity) return KVC_OK;
    const uint64_t step_end = std::min(known, capacity);
    std::vector<uint64_t> need(pools.size());
    for (size_t g = 0; g < config_.groups.size(); ++g)
      need[config_.groups[g].pool] +=
          count_new(g, r.table[g].size(), up(capacity), step_end, 0) + shared(r, g);
    if (kvc_status status = fits(int64_t(r.options.ns), need, {}, 0)) {
      std::vector<uint64_t> least = fewest(capacity, 0, r.options.cross);
      for (size_t g = 0; g < config_.groups.size(); ++g)  // the state before a new one
        least[config_.groups[g].pool] +=
            config_.groups[g].state && r.capacity && up(capacity) > up(r.capacity);
      return refused(int64_t(r.options.ns), status, least);
    }
    for (size_t g = 0; g < config_.groups.size(); ++g) {
      if (r.capacity % B) r.table[g][r.capacity / B].own = true;  // about to write there
      if (shared(r, g)) {
        Cell& cell = r.table[g][r.capacity / B];
        const Copy copy{cell.block, take(g, int64_t(r.options.ns), true)};
        copies.push_back(copy), ++stats.copies, cell = {copy.destination, true};
        blocks_[copy.destination].requests = 1,
        blocks_[copy.destination].written = r.committed > r.capacity / B * B;
        fill(copy.destination, blocks_[copy.source].filling);
      }
      lengthen(r.table, g, up(capacity), r.options.ns, step_end, 0);
    }
    r.capacity = capacity;
    return changed();
  }
  void lengthen(Table& table, size_t g, uint64_t to, uint64_t ns, uint64_t step_end, uint64_t transfer) {
    for (uint64_t j = table[g].size(); j < to; ++j) {
      table[g].push_back({-1, true});
      if (!exists(g, j, step_end, transfer)) continue;
      table[g].back().block = take(g, int64_t(ns));
      ++blocks_[table[g].back().block].requests;
    }
  }
  void release(Request& r) {
    std::set<uint64_t> cuts{0, r.published};  // segments begin at these positions
    for (const Group& g : config_.groups) {
      if (!g.window) continue;
      if (r.prompt) cuts.insert((r.prompt - 1) / B);
      for (uint64_t b = g.retention; g.retention && b < r.published * B; b += g.retention) cuts.insert(b / B);
    }
    cuts.erase(cuts.upper_bound(r.published), cuts.end());
    uint64_t end = r.table[0].size();
    const auto each = [&](uint64_t first, uint64_t last, bool window, bool state) {
      for (uint64_t j = last; j-- > first;)
        for (size_t g = 0; g < r.table.size(); ++g) {
          const int b = r.table[g][j].block;
          if (config_.groups[g].window != window || config_.groups[g].state != state) continue;
          if (b < 0) {
            if (window) renew(r, g, j);
            continue;
          }
          if (window && holds(b) == 1 && !serves(r, g, j, true)) detach(b);
          drop(b, &Block::requests);
        }
    };
    for (auto cut = cuts.rbegin(); cut != cuts.rend(); end = std::min(end, *cut++))
      each(*cut, end, true, false), each(*cut, end, false, false);
    each(0, r.table[0].size(), true, true);  // states leave last
    for (uint64_t j = r.cross.empty() ? 0 : r.cross[0].size(); j-- > 0;)
      for (auto& row : r.cross) drop(row[j].block, &Block::requests);
    r.cross.clear(), r.cross_pending = false;
    drop_copies();
  }
  // What a window has returned near a likely end, and is cached, stays as long as what full groups release
  // now.
  void renew(const Request& r, size_t g, uint64_t j) {
    const auto full =
        std::find_if(config_.groups.begin(), config_.groups.end(), [](auto& f) { return !f.window; });
    if (config_.groups[g].state || full == config_.groups.end() || j >= r.published) return;
    const int b = r.table[size_t(full - config_.groups.begin())][j].block;
    if (!findable(b) || far(r, g, j) || !serves(r, g, j, false)) return;
    for (const int id : blocks_[b].at->second[g])
      if (Pool& pool = pools[blocks_[id].pool]; remove(pool.lru, id)) {
        blocks_[id].first_out = false, come(pool, id);
        return;
      }
  }
  // Pending copies to blocks that nobody holds any more.
  void drop_copies() {
    for (size_t i = pending.size(); i-- > 0;) {
      const Copy copy = pending[i];
      if (holds(copy.destination)) continue;
      pending.erase(pending.begin() + int64_t(i));
      blocks_[copy.destination].owner = kExternal;  // it may hold anything
      drop(copy.source, &Block::requests);
    }
  }

  static uint64_t rounded(uint64_t length) {  // up, to eighths of a power of two
    uint64_t eighth = 1;
    while (length >= 16 * eighth) eighth *= 2;
    return length < 16 ? length : (length / eighth + 1) * eighth - 1;
  }

  const Config config_;
  const uint64_t B;
  std::vector<uint64_t> lengths_;  // of freed requests
  Policies policies_;
  Shares shares_;
  size_t short_pool_ = 0;      // of the last refusal
  std::map<Key, Hint> hints_;  // of positions with blocks; the others have none
  std::vector<Block> blocks_;
  std::map<uint64_t, std::pair<int, int>> namespaces_;  // id -> identity, opens
  uint64_t last_id_ = 0, fills_ = 0;
  std::map<std::pair<int, size_t>, uint64_t> expected_;  // by share and pool
  std::map<Key, uint64_t> born_;  // when positions got their first block; also of those that lost it
  uint64_t births_ = 0;
};

}  // namespace model

#endif  // KVCACHE_TESTS_PROPERTY_MODEL_RULES_H_
