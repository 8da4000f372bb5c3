// SPDX-License-Identifier: Apache-2.0
// The reference model: what docs/SEMANTICS.md says, as simply as it can be said. Prefixes are compared token
// by token in a std::map, nothing is hashed, every list is a plain vector and nothing is fast. Of kvcache.h
// it uses only the numbers of statuses, flags and states. Ids are small integers of its own; the driver maps
// them to the library's. This file holds the calls, model_rules.h the rules that they share. One thread. Not
// modelled: running out of prefix positions or of memory, error texts, digests, time.
#ifndef KVCACHE_TESTS_PROPERTY_MODEL_H_
#define KVCACHE_TESTS_PROPERTY_MODEL_H_

#include "property/model_partial.h"

namespace model {

class Model : public PartialRules {
 public:
  using PartialRules::PartialRules;

  // ---- requests
  kvc_status create(const Text& text, const Options& o, uint64_t* id) {
    if (text.tokens.size() > config_.max_tokens) return KVC_ERROR_LIMIT;
    if (!epochs.count(o.ns)) return KVC_ERROR_NOT_FOUND;
    if (o.cross && o.cross_digest && starts_with_key(text)) return KVC_ERROR_UNSUPPORTED;
    if (requests.size() >= config_.max_requests) return KVC_ERROR_LIMIT;
    if (!valid(text.tokens)) return KVC_ERROR_INVALID_ARGUMENT;
    Request& r = requests[*id = ++last_id_];
    r.options = o, r.text = text, r.prompt = text.tokens.size();
    r.text.origin = origin_of(o, last_id_);
    return changed();
  }
  kvc_status admit(uint64_t id, uint64_t* cached, std::vector<Copy>& copies) {
    Request* r = find(id);
    if (!r) return KVC_ERROR_NOT_FOUND;
    if (r->admitted) return KVC_ERROR_BUSY;
    Planned plan;
    if (kvc_status status = this->plan(*r, true, plan)) return status;
    return carry_out(*r, plan, cached, copies);
  }
  // What an admission finds and will take, if it fits.
  kvc_status plan(Request& request, bool heads, Planned& planned) {
    const Request* r = &request;
    const Options& o = r->options;
    const uint64_t n = r->text.tokens.size(),
                   ahead = std::min(n + o.lookahead, std::max(n, config_.max_tokens));
    uint64_t most = n ? n - 1 : 0;
    if (o.max_cached) most = std::min(most, o.max_cached);
    if ((o.flags & KVC_REQUEST_NO_READ) || (o.cross && !o.cross_digest)) most = 0;
    const bool may_hit = most && !config_.no_cache;
    if (!caching) most = 0;
    const uint64_t limit = most / B;
    Hit hit = match(o.ns, r->text, limit, all_groups(), o.drop_tail, shares(*r));
    if (kvc_status status = wait(*r, hit, limit)) return status;
    const auto ns = int64_t(o.ns);
    const uint64_t watermark = any_admitted(ns) ? config_.watermark : 0;
    Head head;
    uint64_t tokens, capacity, step_end, transfer;
    std::vector<uint64_t> need, least;
    Table table, held, cross;
    const bool found = o.cross && find_cross(o, cross);
    const auto plan = [&](const Head& with) {
      head = with, tokens = hit.blocks * B + head.tokens;
      capacity = o.slots ? std::min(n, tokens + o.external + o.slots) : n;
      if (capacity == n) capacity = ahead;
      step_end = std::min(capacity, n), transfer = o.external ? std::min(n, tokens + o.external) : 0;
      table = needed_for(hit.table, tokens);
      for (size_t g = 0; transfer && g < table.size(); ++g)
        for (uint64_t j = 0; is_window(g) && !config_.groups[g].state && j < hit.blocks; ++j)
          if (!exists(g, j, 0, transfer)) table[g][j].block = -1;
      held = with_sources(table, head);
      held.insert(held.end(), cross.begin(), cross.end());
      const auto need_of = [&](uint64_t whole) {  // now, or for so many tokens step by step
        std::vector<uint64_t> out(pools.size());
        for (size_t g = 0; g < table.size(); ++g) {
          const uint64_t now = count_new(g, hit.blocks, up(capacity), step_end, transfer);
          const bool state = config_.groups[g].state;
          uint64_t hits = 0, all = count_new(g, hit.blocks, up(whole), n, state ? 0 : transfer);
          for (const Cell& cell : table[g])
            hits += cell.block >= 0 && in(pools[config_.groups[g].pool].lru, cell.block);
          all =
              std::min(all + (state ? 1 : hits), most_held(g, std::max<uint64_t>(o.slots, 1) + o.lookahead));
          out[config_.groups[g].pool] += whole > capacity && all > hits + now ? all - hits : now;
        }
        for (const size_t p : config_.cross) out[p] += found ? 0 : up(o.cross);
        return out;
      };
      const uint64_t must = o.flags & KVC_REQUEST_FULL_MUST_FIT ? ahead : 0;
      const uint64_t first = o.external + o.slots;  // without a hit
      const bool moves = o.slots && !must && may_hit && first < n;
      need = need_of(must);
      least = fewest(std::max(capacity, must), transfer, o.cross, moves ? first : 0, ahead);
      const uint64_t rest = expected(o.headroom, n - r->prompt);
      const uint64_t more = rest ? std::min(n + rest + o.lookahead, config_.max_tokens) : 0;
      if (more <= capacity) return;
      const bool windows =
          std::any_of(config_.groups.begin(), config_.groups.end(), [](auto& g) { return g.window; });
      const uint64_t without = capacity;
      if (!windows) capacity = more;
      const std::vector<uint64_t> wanted = need_of(std::max(more, must));
      if (any_admitted(ns) || fits(ns, wanted, held, 0) == KVC_OK)
        need = wanted;
      else
        capacity = without;
    };
    plan(o.drop_tail || o.external || !heads ? Head{} : this->head(o.ns, r->text, hit.blocks, most));
    if (head.tokens && fits(ns, need, held, watermark) != KVC_OK) plan({});
    if (hit.blocks && outgrows_states(ns, need, held))
      hit = match(o.ns, r->text, 0, all_groups(), o.drop_tail, shares(*r)), plan({});
    if (kvc_status status = fits(ns, need, held, watermark)) return refused(ns, status, least);
    planned = {hit, head, table, held, cross, found, limit, tokens, capacity, step_end, transfer};
    return KVC_OK;
  }
  kvc_status carry_out(Request& request, Planned planned, uint64_t* cached, std::vector<Copy>& copies) {
    Request* r = &request;
    auto& [hit, head, table, held, cross, found, limit, tokens, capacity, step_end, transfer] = planned;
    const Options& o = r->options;
    const uint64_t n = r->text.tokens.size();
    const auto ns = int64_t(o.ns);
    stats.hit_chances += limit > 0, stats.hits_taken += hit.blocks > 0;
    hold(held, &Block::requests);
    for (const auto& row : table)
      for (const Cell& cell : row) stats.filling_hits += cell.block >= 0 && blocks_[cell.block].filling;
    for (uint64_t j = 1; j <= hit.blocks; ++j) policies_.use(positions, key(o.ns, r->text, j));
    recall(o.ns, r->text, 0, hit.blocks);
    for (uint64_t j = 1; found && j <= up(o.cross); ++j) policies_.use(positions, cross_key(o, j));
    for (size_t g = 0; g < table.size(); ++g) {
      if (head.tokens) {
        const int copy = take(g, ns, true);
        copies.push_back({head.sources[g], copy}), ++stats.copies, table[g].push_back({copy, true});
        blocks_[copy].requests = 1, blocks_[copy].written = true;
      }
      lengthen(table, g, up(capacity), o.ns, step_end, transfer);
    }
    cross.resize(o.cross ? config_.cross.size() : 0);
    for (size_t i = 0; i < cross.size(); ++i)
      while (cross[i].size() < up(o.cross))
        cross[i].push_back({take(table.size() + i, int64_t(o.ns)), true}),
            ++blocks_[cross[i].back().block].requests;
    r->cross = cross, r->cross_cached = found, r->cross_pending = o.cross && !found;
    const uint64_t regained = this->regained(hit, head), lost = hit.lost - regained,
                   whole = hit.whole * B + regained;
    std::vector<std::map<uint32_t, uint64_t>> losses(hit.alone.size());  // tokens by KVC_LOST_*
    uint32_t lost_group = 0, lost_reason = 0;
    for (size_t g = 0; g < losses.size(); ++g) {
      if (hit.alone[g] < hit.alone[lost_group]) lost_group = uint32_t(g);
      const uint64_t missing = hit.most * B - std::max(hit.alone[g] * B, whole);
      if (missing) losses[g][hit.lacks[g]] = missing;
    }
    if (!losses.empty()) {
      const uint64_t disagreed = std::max(hit.alone[lost_group] * B, whole) - whole;
      lost_reason = disagreed > losses[lost_group][hit.lacks[lost_group]] ? uint32_t{KVC_LOST_AGREEMENT}
                                                                          : hit.lacks[lost_group];
      if (disagreed) losses[lost_group][KVC_LOST_AGREEMENT] = disagreed;
    }
    if (!r->was_admitted && !(o.flags & KVC_REQUEST_RESUMED)) {
      stats.admissions += 1, stats.prompt_tokens += n, stats.cached_tokens += tokens,
          stats.block_hits += hit.blocks;
      stats.block_queries += n ? (n - 1) / B : 0, stats.lost_reuse_tokens += lost;
      stats.partial_hits += head.tokens != 0, stats.partial_tokens += head.tokens;
      for (size_t g = 0; g < losses.size(); ++g) {
        stats.losing[g] += !losses[g].empty();
        for (auto& [reason, count] : losses[g]) stats.losses[{g, reason}] += count;
      }
      shares_.of(ns).queries += n ? (n - 1) / B : 0, shares_.of(ns).hits += hit.blocks;
    } else {
      ++stats.readmissions;
    }
    r->admitted = r->was_admitted = true;
    r->epoch = epochs[o.ns], r->stopped = !caching, r->lost = lost, r->lost_group = lost_group,
    r->lost_reason = lost_reason, r->junction = hit.junction, r->published = hit.blocks, r->table = table,
    r->capacity = capacity;
    r->committed = r->cached = *cached = tokens;
    r->prefill = n, r->order = ++admissions_, r->enqueued = *cached;
    apply(*r, 0, hit.blocks);
    return changed();
  }
  kvc_status allocate(const Text& text, const Options& o, uint64_t* id, uint64_t* cached,
                      std::vector<Copy>& copies) {
    const uint64_t before = version;
    kvc_status status = create(text, o, id);
    if (status == KVC_OK && (status = admit(*id, cached, copies)) != KVC_OK)
      requests.erase(*id), version = before;
    return status;
  }
  kvc_status allocate_from_prompt(int name, const std::vector<int32_t>& tail, Options o, uint64_t* id,
                                  uint64_t* cached) {
    if (!prompts.count(name)) return KVC_ERROR_NOT_FOUND;
    Text text = prompts[name].text;
    if (text.tokens.size() + tail.size() > config_.max_tokens) return KVC_ERROR_LIMIT;
    text.tokens.insert(text.tokens.end(), tail.begin(), tail.end());
    o.ns = prompts[name].ns;
    const kvc_status status = allocate(text, o, id, cached, pending);
    if (status == KVC_OK) requests[*id].prompt_name = name;
    return status;
  }
  kvc_status reserve(uint64_t id, uint64_t capacity, std::vector<Copy>& copies) {
    Request* r = find(id);
    if (!r) return KVC_ERROR_NOT_FOUND;
    if (!r->admitted) return KVC_ERROR_BUSY;
    if (capacity > config_.max_tokens) return KVC_ERROR_LIMIT;
    return extend(*r, capacity, r->text.tokens.size(), copies);
  }
  kvc_status append(uint64_t id, const std::vector<int32_t>& tokens, std::vector<Copy>& copies) {
    Request* r = find(id);
    if (!r) return KVC_ERROR_NOT_FOUND;
    if (!valid(tokens)) return KVC_ERROR_INVALID_ARGUMENT;
    const uint64_t known = r->text.tokens.size() + tokens.size();
    if (known > config_.max_tokens) return KVC_ERROR_LIMIT;
    if (r->admitted)
      if (kvc_status status =
              extend(*r, std::min(known + r->options.lookahead, config_.max_tokens), known, copies))
        return status;
    r->text.tokens.insert(r->text.tokens.end(), tokens.begin(), tokens.end());
    return tokens.empty() ? KVC_OK : changed();
  }
  kvc_status add_keys(uint64_t id, const std::vector<Span>& spans) {
    Request* r = find(id);
    if (!r) return KVC_ERROR_NOT_FOUND;
    for (const Span& s : spans)
      if (s.count == 0 || s.first + s.count > config_.max_tokens) return KVC_ERROR_INVALID_ARGUMENT;
    std::vector<Span> all = r->text.spans;
    uint64_t first = UINT64_MAX;
    for (const Span& s : spans) {
      if (std::find(all.begin(), all.end(), s) != all.end()) continue;
      all.push_back(s), first = std::min(first, s.first);
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (first == UINT64_MAX) return KVC_OK;
    if (first == 0 && r->options.cross && r->options.cross_digest) return KVC_ERROR_UNSUPPORTED;
    const uint64_t transferred =
        r->options.external ? std::min(r->cached + r->options.external, r->text.tokens.size()) : 0;
    uint64_t others = 0;
    for (size_t g = 0; r->admitted && g < config_.groups.size(); ++g)
      if (shared(*r, g)) others = std::min(r->text.tokens.size(), r->capacity);
    if (r->admitted && first < std::max({r->committed, r->published * B, transferred, others}))
      return KVC_ERROR_INVALID_ARGUMENT;
    for (const Span& at : all) {
      const auto covers = [&](const Span& s) { return s.digest != kCut && s.covers(at.first); };
      if (at.digest != kCut && std::count_if(all.begin(), all.end(), covers) > KVC_MAX_KEYS_OF_TOKEN)
        return KVC_ERROR_LIMIT;
    }
    r->text.spans = all;
    if (r->admitted) r->prefill = std::min(r->prefill, first);
    return changed();
  }
  uint64_t next_checkpoint(const Request& r) const {
    if (!has_states() || !r.admitted || !publishes(r)) return 0;
    std::set<uint64_t> ends{r.junction, shortened(r), r.prompt ? (r.prompt - 1) / B * B : 0};
    for (const Group& g : config_.groups)
      if (g.state && g.retention) ends.insert((r.committed / g.retention + 1) * g.retention);
    const auto next = ends.upper_bound(r.committed);
    return next == ends.end() || *next > config_.max_tokens ? 0 : *next;
  }
  // Would a commit of c of these tokens succeed, as far as it depends on them?
  bool accepts(const Request& r, uint64_t c, const std::vector<int32_t>& tokens) const {
    return valid(tokens) && tokens.size() <= config_.max_tokens && c >= r.committed &&
           (c == r.committed || (state_at(r, c) && windows_at(r, c)));
  }
  // Up to c; what windows have left since `computed` tokens is read by steps in flight.
  kvc_status commit_ahead(uint64_t id, uint64_t c, uint64_t computed) { return commit(id, c, {}, computed); }
  kvc_status commit(uint64_t id, uint64_t c, const std::vector<int32_t>& learned = {},
                    uint64_t computed = UINT64_MAX) {
    Request* r = find(id);
    if (!r) return KVC_ERROR_NOT_FOUND;
    if (!r->admitted) return KVC_ERROR_BUSY;
    if (!valid(learned)) return KVC_ERROR_INVALID_ARGUMENT;
    if (r->text.tokens.size() + learned.size() > config_.max_tokens) return KVC_ERROR_LIMIT;
    if (c < r->committed || c > std::min<uint64_t>(r->text.tokens.size() + learned.size(), r->capacity))
      return KVC_ERROR_INVALID_ARGUMENT;
    if (computed == UINT64_MAX) computed = c;
    if (computed > c) return KVC_ERROR_INVALID_ARGUMENT;
    if (computed < c && config_.fills) return KVC_ERROR_UNSUPPORTED;
    if (c > r->committed && !(state_at(*r, c) && windows_at(*r, c))) return KVC_ERROR_INVALID_ARGUMENT;
    if (c > r->committed || !learned.empty()) changed();
    r->text.tokens.insert(r->text.tokens.end(), learned.begin(), learned.end());
    for (uint64_t j = r->committed / B; j < up(c); ++j)
      for (size_t g = 0; g < config_.groups.size(); ++g)
        if (const int b = r->table[g][j].block; b >= 0 && c > r->committed && !blocks_[b].filling)
          blocks_[b].written = true;
    const uint64_t published = r->published, committed = r->committed;
    const bool was_publishing = publishes(*r);
    for (uint64_t j = published; publishes(*r) && (j + 1) * B <= c; r->published = ++j) {
      const Key k = key(r->options.ns, r->text, j + 1);
      if (!finds_node(*r, k, c / B)) break;
      for (size_t g = 0; g < config_.groups.size(); ++g)
        if (r->table[g][j].block >= 0 && (!config_.groups[g].state || (j + 1) * B == c))
          stats.duplicates += attach(r->table[g][j].block, g, k);
      policies_.use(positions, k), recall(r->options.ns, r->text, j, j + 1);
    }
    apply(*r, published, r->published);
    const bool by_step = c > r->cached + r->options.external;  // else by a transfer
    for (auto& row : r->table)  // what is filling is written when all of it is committed
      for (uint64_t j = 0; c > r->committed && (j + 1) * B <= c; ++j)
        if (const int b = row[j].block; b >= 0 && (row[j].own || by_step))
          blocks_[b].filling = 0, blocks_[b].written = true;
    r->committed = c;
    for (size_t g = 0; g < config_.groups.size(); ++g)
      for (uint64_t j = sinks(g); config_.groups[g].window && j < returned_below(g, computed); ++j)
        if (int& b = r->table[g][j].block; b >= 0) {
          changed();
          if (!serves(*r, g, j, false) && holds(b) == 1) detach(b);
          drop(b, &Block::requests, far(*r, g, j)), b = -1;
        }
    drop_copies();
    if (r->cross_pending && c > committed && by_step) write_cross(*r, was_publishing);
    return KVC_OK;
  }
  kvc_status truncate(uint64_t id, uint64_t n) {
    Request* r = find(id);
    if (!r) return KVC_ERROR_NOT_FOUND;
    if (n > r->text.tokens.size()) return KVC_ERROR_INVALID_ARGUMENT;
    if (n && !restorable(*r, n)) return KVC_ERROR_UNSUPPORTED;
    if (n < r->text.tokens.size() || n < r->capacity) changed();
    const uint64_t slots = state_at(*r, n) ? n : r->committed;
    for (uint64_t j = r->table.empty() ? 0 : r->table[0].size(); j-- > up(slots);) {
      const bool drops = reached_alone(*r, j);
      for (auto& row : r->table) {
        if (const Cell cell = row[j]; cell.block >= 0) {
          if (cell.own && drops && holds(cell.block) == 1) detach(cell.block);
          drop(cell.block, &Block::requests);
        }
        row.pop_back();
      }
    }
    drop_copies();
    if (n % B && n < r->published * B && reached_alone(*r, n / B))
      for (auto& row : r->table)
        if (const int b = row[n / B].block; b >= 0) detach(b);
    if (n < r->text.tokens.size()) cut_spans(r->text, n);
    r->text.tokens.resize(n);
    r->junction = r->junction > n ? 0 : r->junction;
    r->committed = std::min(r->committed, n), r->capacity = std::min(r->capacity, slots),
    r->prompt = std::min(r->prompt, n);
    r->published = std::min(r->published, n / B), r->prefill = std::min(r->prefill, n),
    r->enqueued = std::min(r->enqueued, n);
    return KVC_OK;
  }
  kvc_status fork(uint64_t id, uint64_t* child) {
    const Request* r = find(id);
    if (!r) return KVC_ERROR_NOT_FOUND;
    if (!r->admitted || r->cross_pending || !windows_at(*r, r->committed)) return KVC_ERROR_BUSY;
    if (requests.size() >= config_.max_requests) return KVC_ERROR_LIMIT;
    std::vector<uint64_t> need(pools.size());
    for (const Group& g : config_.groups) need[g.pool] += g.state && r->committed % B;
    const auto ns = int64_t(r->options.ns);
    if (kvc_status status = fits(ns, need, {}, 0)) return refused(ns, status);
    Request c = *r;
    c.capacity = c.prompt = c.cached = c.committed, c.lost = 0;
    c.lost_group = c.lost_reason = 0;
    c.options.external = 0;
    c.published = std::min(c.published, c.committed / B), c.prefill = 0, c.order = ++admissions_;
    c.over = false, c.shared = 0, c.prompt_name = 0;
    c.text.tokens.resize(c.committed);
    cut_spans(c.text, c.committed);
    for (auto& row : c.table) {
      row.resize(up(c.committed));
      for (Cell& cell : row) cell.own = false;
    }
    c.junction = c.junction > c.committed ? 0 : c.junction;
    hold(c.table, &Block::requests), hold(c.cross, &Block::requests);
    c.cross_cached = c.options.cross != 0;
    for (size_t g = 0; g < c.table.size(); ++g) {  // the next step overwrites the state
      if (!config_.groups[g].state || c.committed % B == 0) continue;
      Cell& cell = c.table[g].back();
      const Copy copy{cell.block, take(g, ns, true)};  // the hold goes over to the copy
      pending.push_back(copy), ++stats.copies, cell.block = copy.destination;
      blocks_[copy.destination].written = true, blocks_[copy.destination].requests = 1;
    }
    requests[*child = ++last_id_] = c;
    return changed();
  }
  kvc_status preempt(uint64_t id) {
    Request* r = find(id);
    if (!r) return KVC_ERROR_NOT_FOUND;
    if (!r->admitted) return KVC_ERROR_BUSY;
    keep_prompt(*r);
    release(*r);
    r->admitted = false, r->committed = r->capacity = r->published = 0, r->table.clear();
    ++stats.preemptions;
    return changed();
  }
  kvc_status free(uint64_t id) {
    Request* r = find(id);
    if (!r) return KVC_ERROR_NOT_FOUND;
    if (r->was_admitted && config_.headroom) lengths_.push_back(rounded(r->text.tokens.size() - r->prompt));
    if (r->admitted) keep_prompt(*r), release(*r);
    const bool stale = r->admitted && r->epoch != epochs[r->options.ns];
    if (r->over && !stale)
      demote(r->options.ns, r->text, r->admitted ? r->published : r->text.tokens.size() / B, r->shared, r);
    requests.erase(id);
    return changed();
  }
  // Tokens that a request will probably still get, by the lengths of those that were freed.
  uint64_t expected(uint32_t headroom, uint64_t done) const {
    std::vector<uint64_t> longer;
    for (const uint64_t length : lengths_)
      if (length >= rounded(done)) longer.push_back(length);
    std::sort(longer.begin(), longer.end());
    static const uint64_t kPercent[] = {0, 50, 75, 95};
    if (headroom == 0 || longer.empty()) return 0;
    const uint64_t length = longer[(longer.size() * kPercent[headroom] + 99) / 100 - 1];
    return length > done ? length - done : 0;
  }
  bool restorable(const Request& r,
                  uint64_t n) const {  // has no window group returned a block that length n > 0 needs?
    if (has_states() && n < r.committed) return false;  // nor the state
    for (size_t g = 0; g < r.table.size(); ++g)
      for (uint64_t j = lo(g, n);
           config_.groups[g].window && j < std::min<uint64_t>(up(n), r.table[g].size()); ++j)
        if (j >= sinks(g) && !config_.groups[g].state && r.table[g][j].block < 0) return false;
    return true;
  }

  // ---- prefixes
  kvc_status probe(uint64_t ns, const Text& text, kvc_probe_info* info) const {
    if (!epochs.count(ns)) return KVC_ERROR_NOT_FOUND;
    const uint64_t n = text.tokens.size(), most = n && caching ? n - 1 : 0;
    Hit hit = match(ns, text, most / B, all_groups(), 0);
    const Head head = this->head(ns, text, hit.blocks, most);
    ask(ns, n, hit, head, info);
    if (head.tokens && !info->fits) ask(ns, n, hit, {}, info);
    std::vector<uint64_t> need(pools.size());
    for (size_t g = 0; g < hit.table.size(); ++g)
      need[config_.groups[g].pool] += count_new(g, hit.blocks, up(n), n, 0);
    if (hit.blocks && outgrows_states(int64_t(ns), need, needed_for(hit.table, hit.blocks * B)))
      hit = match(ns, text, 0, all_groups(), 0), ask(ns, n, hit, {}, info);
    return KVC_OK;
  }
  void ask(uint64_t ns, uint64_t n, const Hit& hit, const Head& head, kvc_probe_info* info) const {
    const uint64_t tokens = hit.blocks * B + head.tokens;
    const Table table = with_sources(needed_for(hit.table, tokens), head);
    info->num_cached = tokens, info->lost_reuse_tokens = hit.lost - regained(hit, head), info->fits = 1;
    info->never_fits = never(int64_t(ns), fewest(n, 0, 0));
    const bool any = any_admitted(int64_t(ns));
    for (size_t p = 0; p < pools.size(); ++p) {
      uint64_t need = 0;
      const uint64_t room = this->room(int64_t(ns), p);
      for (size_t g = 0; g < table.size(); ++g) {
        if (config_.groups[g].pool != p) continue;
        need += count_new(g, hit.blocks, up(n), n, 0);
        for (const Cell& cell : table[g]) need += cell.block >= 0 && in(pools[p].lru, cell.block);
      }
      if (need && need + (any ? config_.watermark : 0) > room) info->fits = 0;
      if (p == 0 || int64_t(room - need) < int64_t(info->blocks_available - info->blocks_needed))
        info->blocks_needed = need, info->blocks_available = room;
    }
  }
  kvc_status set_prefix_caching(uint64_t on) {
    if (on > 1) return KVC_ERROR_INVALID_ARGUMENT;
    if (on && config_.no_cache) return KVC_ERROR_UNSUPPORTED;
    if (caching != (on != 0)) changed();
    caching = on != 0;
    for (auto& [id, r] : requests) r.stopped |= r.admitted && !caching;
    return KVC_OK;
  }
  kvc_status pin(uint64_t ns, const Text& text, uint64_t* id, uint64_t* tokens) {
    if (!epochs.count(ns)) return KVC_ERROR_NOT_FOUND;
    const Hit hit = pinnable(ns, text);
    if (!hit.blocks) return KVC_ERROR_NOT_FOUND;
    if (shares_.on())
      if (kvc_status status = fits(int64_t(ns), std::vector<uint64_t>(pools.size()), hit.table, 0))
        return status;
    if (pins.size() >= config_.max_requests) return KVC_ERROR_LIMIT;
    hold(hit.table, &Block::pins);
    pins[*id = ++last_id_] = Pin{ns, hit.table}, *tokens = hit.blocks * B;
    return changed();
  }
  kvc_status unpin(uint64_t id) {
    if (!pins.count(id)) return KVC_ERROR_NOT_FOUND;
    drop_pins(Table(pins[id].table));
    pins.erase(id);
    return changed();
  }
  kvc_status drop_prefix(uint64_t ns, const Text& text, uint64_t* dropped) {
    if (!epochs.count(ns)) return KVC_ERROR_NOT_FOUND;
    *dropped = 0;
    for (uint64_t j = text.tokens.size() / B; j > 0; --j)
      for (size_t g = 0; g < config_.groups.size(); ++g)
        if (auto at = positions.find(key(ns, text, j)); at != positions.end())
          for (int b : std::vector<int>(at->second[g]))
            if (remove(pools[blocks_[b].pool].lru, b))
              detach(b), pools[blocks_[b].pool].free.push_back(b), ++*dropped, changed();
    return KVC_OK;
  }
  kvc_status evict(size_t index, uint64_t most, uint64_t* evicted) {  // past the last pool: all of them
    *evicted = 0;
    for (size_t p = 0; p < pools.size(); ++p)
      for (Pool& pool = pools[p];
           (index >= pools.size() || p == index) && *evicted < most && !pool.lru.empty();) {
        const int b = victim(pool);
        remove(pool.lru, b), pool.free.push_back(b), changed();
        if (findable(b)) ++*evicted, ++stats.evictions;
        detach(b);
      }
    return KVC_OK;
  }

  kvc_status compact(size_t index, uint64_t most, std::vector<Copy>& moves) {
    if (in_flight() || !pending.empty() || !zeros.empty()) return KVC_ERROR_BUSY;
    Pool& pool = pools[index];
    for (const int b : std::vector<int>(pool.lru))
      if (!findable(b)) remove(pool.lru, b), detach(b), pool.free.push_back(b), changed();
    const int begin = pool.first, end = begin + int(pool.count) + (config_.null_block && index == 0);
    while (moves.size() < most && !pool.free.empty()) {
      int from = end - 1;
      const int to = *std::min_element(pool.free.begin(), pool.free.end());
      while (from > to && !movable(from)) --from;
      if (from <= to) break;
      moves.push_back({from, to}), move(from, to), changed();
    }
    std::sort(pool.free.rbegin(), pool.free.rend());
    return KVC_OK;
  }

  kvc_status resize(size_t index, uint64_t blocks, uint64_t most, std::vector<Copy>& moves,
                    uint64_t* needed) {
    Pool& pool = pools[index];
    if (blocks <= null_blocks(index) || blocks > room_of(index)) return KVC_ERROR_INVALID_ARGUMENT;
    const uint64_t size = blocks - null_blocks(index);
    if (size <= config_.watermark || size < shares_.minimums_but(kNobody, index))
      return KVC_ERROR_INVALID_ARGUMENT;
    if (size >= pool.count) {
      for (; pool.count < size; changed()) pool.free.insert(pool.free.begin(), end_of(index)), ++pool.count;
      return KVC_OK;
    }
    if (in_flight()) return KVC_ERROR_AGAIN;
    if (!pending.empty() || !zeros.empty()) return KVC_ERROR_BUSY;
    const int end = lowest(index) + int(size);
    uint64_t held = pool.count - pool.free.size() - pool.lru.size(), lacking = 0, moving = 0;
    for (const int cls : shares_.on() ? shares_.classes() : std::vector<int>{}) {
      const uint64_t least = shares_.of_class(cls).min[index];
      lacking += least - std::min(least, counts(cls, index).held);
    }
    if (held + lacking > size) return KVC_ERROR_NO_SPACE;
    for (int id = end; id < end_of(index); ++id) {
      if (blocks_[id].external) return KVC_ERROR_BUSY;
      moving += in(pool.lru, id) ? findable(id) : !in(pool.free, id);
    }
    if (moving > most) return *needed = moving, KVC_ERROR_BUFFER_TOO_SMALL;
    for (const int b : std::vector<int>(pool.lru))
      if (!findable(b)) remove(pool.lru, b), detach(b), pool.free.push_back(b);
    const auto all = [](int) { return true; };
    const auto above = [&](int cls) {
      return cls == 0 || counts(cls, index).used() > shares_.of_class(cls).min[index];
    };
    while (held + pool.lru.size() > size) {
      const int b = policies_.victim(
          pool, blocks_, [this](int id) { return findable(id); }, above, all);
      remove(pool.lru, b), pool.free.push_back(b), detach(b), ++stats.evictions;
    }
    for (int from = end_of(index) - 1; from >= end; --from) {
      if (in(pool.free, from)) continue;
      const int to = *std::min_element(pool.free.begin(), pool.free.end());
      moves.push_back({from, to}), move(from, to);
      for (auto& [name, prompt] : prompts) follow(prompt.table, from, to);
    }
    std::erase_if(pool.free, [&](int id) { return id >= end; });
    std::sort(pool.free.rbegin(), pool.free.rend());
    pool.count = size;
    return changed();
  }

  // ---- external blocks
  kvc_status acquire(size_t group, uint64_t n, std::vector<int>& out) {
    std::vector<uint64_t> need(pools.size());
    need[pool_of(group)] = n;
    if (kvc_status status = fits(kExternal, need, {}, 0))
      return never(kExternal, need) ? KVC_ERROR_NEVER_FITS : status;
    for (uint64_t i = 0; i < n; ++i)
      out.push_back(take(group, kExternal)), ++blocks_[out.back()].external, changed();
    return KVC_OK;
  }
  kvc_status acquire_prefix(uint64_t ns, size_t group, const Text& text, uint64_t room, std::vector<int>& out,
                            uint64_t* count) {
    if (!epochs.count(ns)) return KVC_ERROR_NOT_FOUND;
    const Hit hit = match(ns, text, caching ? text.tokens.size() / B : 0, {group}, 0);
    *count = hit.blocks;
    if (*count > room) return KVC_ERROR_BUFFER_TOO_SMALL;
    if (shares_.on())
      if (kvc_status status = fits(int64_t(ns), std::vector<uint64_t>(pools.size()), hit.table, 0))
        return status;
    for (const Cell& cell : hit.table[group]) out.push_back(cell.block), version += cell.block >= 0;
    hold(hit.table, &Block::external);
    for (uint64_t j = 1; j <= hit.blocks; ++j) policies_.use(positions, key(ns, text, j));
    recall(ns, text, 0, hit.blocks);
    return KVC_OK;
  }
  kvc_status publish(uint64_t ns, size_t group, const Text& text, const std::vector<int>& ids) {
    if (text.tokens.size() < ids.size() * B) return KVC_ERROR_INVALID_ARGUMENT;
    if (!epochs.count(ns)) return KVC_ERROR_NOT_FOUND;
    std::map<int, Key> wanted;
    for (int id : ids) {
      if (id != -1 && !usable(id)) return KVC_ERROR_INVALID_ARGUMENT;
      if (id != -1 && !blocks_[id].external) return KVC_ERROR_NOT_HELD;
    }
    for (size_t j = 0; j < ids.size(); ++j) {
      if (ids[j] == -1) continue;
      const Block& b = blocks_[ids[j]];
      const Key k = key(ns, text, j + 1);
      if (b.pool != config_.groups[group].pool || wanted.count(ids[j])) return KVC_ERROR_INVALID_ARGUMENT;
      if (findable(ids[j]) ? b.at->first != k || b.group != int(group) : b.requests > 0)
        return KVC_ERROR_BUSY;
      wanted[ids[j]] = k;
    }
    if (!caching) return KVC_OK;
    if (kvc_status status = may_count_for(ns, config_.groups[group].pool, ids)) return status;
    for (int id : ids)
      if (id >= 0 && !findable(id)) {
        detach(id), blocks_[id].written = true, blocks_[id].group = int(group);
        blocks_[id].owner = blocks_[id].payer = int64_t(ns), remove(zeros, id);
        if (quota(ns).cls) keep_to(int64_t(ns), blocks_[id].pool, quota(ns).most(blocks_[id].pool));
        stats.duplicates += attach(id, group, wanted[id]), changed();
        policies_.use(positions, wanted[id]);
        const uint64_t blocks = wanted[id].prefix.size() / B;
        recall(ns, text, blocks - 1, blocks);
      }
    return KVC_OK;
  }
  kvc_status release_external(const std::vector<int>& ids) {
    for (int id : ids) {
      if (id == -1) continue;
      if (!usable(id)) return KVC_ERROR_INVALID_ARGUMENT;
      if (std::count(ids.begin(), ids.end(), id) > blocks_[id].external) return KVC_ERROR_NOT_HELD;
    }
    for (size_t i = ids.size(); i-- > 0;)
      if (ids[i] >= 0) {
        if (!findable(ids[i])) blocks_[ids[i]].owner = kExternal;
        drop(ids[i], &Block::external), changed();
      }
    return KVC_OK;
  }

  kvc_status unpublish(const std::vector<int>& ids, uint64_t* count) {
    for (int id : ids)
      if (id != -1 && !usable(id)) return KVC_ERROR_INVALID_ARGUMENT;
    *count = 0;
    for (int id : ids) {
      if (id == -1 || !findable(id)) continue;
      Pool& pool = pools[blocks_[id].pool];
      if (remove(pool.lru, id)) pool.free.push_back(id);
      detach(id), ++*count, changed();
    }
    return KVC_OK;
  }

  // ---- quotas
  // Published, the blocks count for the namespace.
  kvc_status may_count_for(uint64_t ns, size_t p, const std::vector<int>& ids) const {
    if (!shares_.on()) return KVC_OK;
    uint64_t coming = 0, of_others = 0, lacking = 0;
    for (int id : ids)
      if (id >= 0 && shares_.cls(blocks_[id].payer) != quota(ns).cls)
        ++coming, of_others += shares_.cls(blocks_[id].payer) != 0;
    for (int cls : shares_.classes()) {
      const uint64_t min = shares_.of_class(cls).min[p];
      lacking += min - std::min(min, counts(cls, p).held);
    }
    const uint64_t held = share(int64_t(ns), p).held, most = quota(ns).most(p);
    if (coming > most - std::min(held, most)) return KVC_ERROR_OVER_QUOTA;
    return of_others > pools[p].free.size() + pools[p].lru.size() - lacking ? KVC_ERROR_NO_SPACE : KVC_OK;
  }
  kvc_status set_quota(uint64_t id, size_t p, uint64_t min, uint64_t max) {
    if (!shares_.on()) return KVC_ERROR_UNSUPPORTED;
    if (!epochs.count(id)) return KVC_ERROR_NOT_FOUND;
    const auto ns = int64_t(id);
    const uint64_t size = pools[p].count;
    if (min > size || max > size || (max && min > max)) return KVC_ERROR_INVALID_ARGUMENT;
    if (min + shares_.minimums_but(ns, p) > size) return KVC_ERROR_INVALID_ARGUMENT;
    if (!shares_.has(ns) && !min && !max) return KVC_OK;
    if (!shares_.has(ns) && shares_.all_taken()) return KVC_ERROR_LIMIT;
    uint64_t held = 0, lacking = 0;
    for (size_t b = 0; b < blocks_.size(); ++b)
      held += usable(int(b)) && blocks_[b].pool == p && blocks_[b].payer == ns &&
              state(int(b)) != KVC_BLOCK_FREE && state(int(b)) != KVC_BLOCK_CACHED;
    for (int cls : shares_.classes())
      if (cls == 0 || cls != shares_.cls(ns)) {
        const uint64_t least = shares_.of_class(cls).min[p];
        lacking += least - std::min(least, counts(cls, p).held);
      }
    if (lacking + min - std::min(min, held) > pools[p].free.size() + pools[p].lru.size())
      return KVC_ERROR_NO_SPACE;
    if (!shares_.has(ns)) begin_share(ns), changed();
    Quota& quota = shares_.of(ns);
    if (quota.min[p] != min || quota.max[p] != max) changed();
    quota.min[p] = min, quota.max[p] = max;
    if (max) keep_to(ns, p, max);
    const auto none = [](const std::vector<uint64_t>& limits) {
      return std::all_of(limits.begin(), limits.end(), [](uint64_t limit) { return limit == 0; });
    };
    if (none(quota.min) && none(quota.max)) end_share(ns);
    return KVC_OK;
  }

  // ---- namespaces, copies, steps
  uint64_t open(int identity) {  // identity 0 = all parts absent
    if (identity == 0) return 0;
    for (auto& [id, ns] : namespaces_)
      if (ns.first == identity) return ++ns.second, changed(), id;
    namespaces_[++last_id_] = {identity, 1}, epochs[last_id_] = 0, changed();
    return last_id_;
  }
  kvc_status close(uint64_t ns) {
    if (ns == 0) return KVC_ERROR_INVALID_ARGUMENT;
    if (!namespaces_.count(ns)) return KVC_ERROR_NOT_FOUND;
    if (namespaces_[ns].second == 1) {
      for (auto& [id, r] : requests)
        if (r.options.ns == ns) return KVC_ERROR_BUSY;
      for (auto& [id, p] : pins)
        if (p.ns == ns) return KVC_ERROR_BUSY;
      for (auto& [name, p] : prompts)
        if (p.ns == ns) return KVC_ERROR_BUSY;
      namespaces_.erase(ns), epochs.erase(ns);
      if (shares_.has(int64_t(ns))) end_share(int64_t(ns));
      clear(ns);
    } else {
      --namespaces_[ns].second;
    }
    return changed();
  }
  kvc_status reset(uint64_t ns) {
    if (ns != KVC_ALL_NAMESPACES && !epochs.count(ns)) return KVC_ERROR_NOT_FOUND;
    for (auto& [id, epoch] : epochs) epoch += ns == KVC_ALL_NAMESPACES || id == ns;
    clear(ns), end_stale_pins(), ++stats.epoch;
    return changed();
  }
  std::vector<Copy> take_copies() {
    const std::vector<Copy> taken = pending;
    pending.clear();
    for (const Copy& copy : taken) drop(copy.source, &Block::requests), changed();
    return taken;
  }
  std::vector<int> take_zeros() {
    if (!zeros.empty()) changed();
    return std::exchange(zeros, {});
  }
  kvc_status retire(uint64_t step) {
    if (step > issued) return KVC_ERROR_INVALID_ARGUMENT;
    retired = std::max(retired, step);
    for (Pool& pool : pools)
      while (!pool.fenced.empty() && pool.fenced.front().second <= retired) {
        const int b = pool.fenced.front().first;
        pool.fenced.erase(pool.fenced.begin()), settle(b), changed();
      }
    written_by(retired);
    return KVC_OK;
  }
  kvc_status fail_step(uint64_t step, std::vector<uint64_t>& preempted) {
    if (!config_.fills) return KVC_ERROR_UNSUPPORTED;
    if (step <= retired || step > issued) return KVC_ERROR_INVALID_ARGUMENT;
    std::map<uint64_t, uint64_t> losers;  // by the order of their admissions
    for (const auto& [id, r] : requests)
      for (const auto& row : r.table)
        for (const Cell& cell : row)
          if (r.admitted && cell.block >= 0 && blocks_[cell.block].filling >= step) losers[r.order] = id;
    for (const int b : failing(step))
      blocks_[b].filling = 0, blocks_[b].written = false, detach(b), changed();
    for (const auto& [order, id] : losers) preempt(id), preempted.push_back(id);
    return KVC_OK;
  }
  kvc_status step(const StepIn& in, StepOut& out) {
    if (in.retired > issued || (in.now && in.now < now())) return KVC_ERROR_INVALID_ARGUMENT;
    if (in.now) set_time(in.now);
    if (kvc_status status = retire(in.retired)) return status;
    std::vector<kvc_status> commits;
    std::set<uint64_t> named;
    for (const StepRequest& s : in.requests)
      commits.push_back(!find(s.id)                  ? KVC_ERROR_NOT_FOUND
                        : !named.insert(s.id).second ? KVC_ERROR_INVALID_ARGUMENT
                        : !find(s.id)->admitted      ? KVC_ERROR_BUSY
                        : s.commit                   ? commit(s.id, s.committed, s.learned)
                                                     : KVC_OK);
    for (uint64_t id : in.frees) out.status.push_back(free(id));
    for (uint64_t id : in.preempts) out.status.push_back(preempt(id));
    for (auto [id, n] : in.truncates) out.status.push_back(truncate(id, n));
    for (size_t i = 0; i < in.requests.size(); ++i) {
      const StepRequest& s = in.requests[i];
      kvc_status status = commits[i];
      const Request* r = find(s.id);
      const uint64_t before = r ? r->capacity : 0;
      if (status == KVC_OK && s.count) {
        if (!r || !r->admitted)
          status = r ? KVC_ERROR_BUSY : KVC_ERROR_NOT_FOUND;
        else
          status = s.with_ids ? append(s.id, s.tokens, out.copies)
                              : reserve(s.id, r->capacity + s.count, out.copies);
        if (status == KVC_OK) {
          Request& extended = *find(s.id);
          if (extended.enqueued == before) extended.enqueued = extended.capacity;
          enqueue(extended, issued + 1);
        }
      }
      out.status.push_back(status);
    }
    std::set<int> refused;  // shares
    if (in.all_or_none && admit_all(in, out))
      for (const uint64_t id : out.admitted) enqueue_admitted(*find(id));
    for (const StepAdmission& a : in.all_or_none ? std::vector<StepAdmission>{} : in.admissions) {
      uint64_t id = a.id, cached = 0;
      const int cls = shares_.cls(int64_t(a.id == 0    ? a.options.ns
                                          : find(a.id) ? find(a.id)->options.ns
                                                       : 0));
      const int share = a.id != 0 && !find(a.id) ? 0 : cls;
      kvc_status status = refused.count(share) && !in.past_refusal ? KVC_ERROR_SKIPPED
                          : a.id                                   ? admit(id, &cached, out.copies)
                                 : allocate(a.text, a.options, &id, &cached, out.copies);
      if (status == KVC_OK) {
        enqueue_admitted(*find(id));
      }
      out.refused += status == KVC_ERROR_FILLING || status == KVC_ERROR_NEVER_FITS;
      if (status == KVC_ERROR_NO_SPACE || status == KVC_ERROR_AGAIN || status == KVC_ERROR_OVER_QUOTA ||
          status == KVC_ERROR_SKIPPED) {
        ++out.refused;
        if (refused.empty()) out.shortage = shortage;
        refused.insert(share);
      }
      out.status.push_back(status), out.admitted.push_back(status ? 0 : id),
          out.cached.push_back(status ? 0 : cached);
    }
    out.step_id = ++issued;
    for (const Copy& copy : out.copies) drop(copy.source, &Block::requests);
    return KVC_OK;
  }

  // All admissions of a step or none. What each plan holds, and so many blocks as it takes, are gone for
  // those behind it; then all is as before, and if all fit, all hits are held before the first takes a block.
  bool admit_all(const StepIn& in, StepOut& out) {
    const size_t n = in.admissions.size();
    std::vector<kvc_status> status(n);
    std::vector<uint64_t> ids(n), made, slots(n);
    std::vector<Planned> plans(n);
    const uint64_t before = version;
    for (size_t i = 0; i < n; ++i) {
      const StepAdmission& a = in.admissions[i];
      ids[i] = a.id;
      if (a.id) continue;
      status[i] = create(a.text, a.options, &ids[i]);
      if (status[i] == KVC_OK) made.push_back(ids[i]);
    }
    const auto saved_pools = pools;
    const auto saved_blocks = blocks_;
    const uint64_t saved_fills = fills_;
    std::set<int> refused;
    for (size_t i = 0; i < n; ++i) {
      if (status[i] != KVC_OK) continue;
      Request* r = find(ids[i]);
      const int share = r ? shares_.cls(int64_t(r->options.ns)) : 0;
      if (refused.count(share) && !in.past_refusal)
        status[i] = KVC_ERROR_SKIPPED;
      else
        status[i] = !r                          ? KVC_ERROR_NOT_FOUND
                    : r->admitted || r->planned ? KVC_ERROR_BUSY
                                                : plan(*r, false, plans[i]);
      if (status[i] == KVC_ERROR_NO_SPACE || status[i] == KVC_ERROR_AGAIN ||
          status[i] == KVC_ERROR_OVER_QUOTA) {
        if (refused.empty()) out.shortage = shortage;
        refused.insert(share);
      }
      if (status[i] != KVC_OK) continue;
      const Planned& plan = plans[i];
      hold(plan.held, &Block::requests);
      r->planned = true;
      const auto takes = [&](size_t p, uint64_t count) { expected_[{share, p}] += count; };
      for (size_t g = 0; g < config_.groups.size(); ++g)
        takes(config_.groups[g].pool,
              count_new(g, plan.hit.blocks, up(plan.capacity), plan.step_end, plan.transfer));
      for (const size_t p : config_.cross) takes(p, plan.found ? 0 : up(r->options.cross));
    }
    for (auto& [id, r] : requests) r.planned = false;
    pools = saved_pools, blocks_ = saved_blocks, fills_ = saved_fills, expected_.clear();
    const bool all = std::count(status.begin(), status.end(), KVC_OK) == int64_t(n);
    for (const uint64_t id : made)
      if (!all) requests.erase(id), version = before;
    for (size_t i = 0; i < n && all; ++i) hold(plans[i].held, &Block::requests);
    for (size_t i = 0; i < n; ++i) {
      uint64_t cached = 0;
      if (all) carry_out(*find(ids[i]), plans[i], &cached, out.copies);
      if (!all && status[i] == KVC_OK) status[i] = KVC_ERROR_SKIPPED;
      out.refused += status[i] == KVC_ERROR_NO_SPACE || status[i] == KVC_ERROR_AGAIN ||
                     status[i] == KVC_ERROR_OVER_QUOTA || status[i] == KVC_ERROR_SKIPPED ||
                     status[i] == KVC_ERROR_FILLING || status[i] == KVC_ERROR_NEVER_FITS;
      out.status.push_back(status[i]), out.admitted.push_back(all ? ids[i] : 0), out.cached.push_back(cached);
    }
    for (size_t i = 0; i < n && all; ++i)
      for (const auto& row : plans[i].held)
        for (const Cell& cell : row)
          if (cell.block >= 0) --blocks_[cell.block].requests;
    return all;
  }
  // The same in a single call; the status of the first that is refused.
  kvc_status admit_batch(const std::vector<uint64_t>& ids, StepOut& out) {
    StepIn in;
    for (const uint64_t id : ids) in.admissions.emplace_back().id = id;
    if (admit_all(in, out)) return KVC_OK;
    for (const kvc_status status : out.status)
      if (status != KVC_OK && status != KVC_ERROR_SKIPPED) return status;
    return KVC_ERROR_INTERNAL;
  }
  void enqueue_admitted(Request& r) {
    const uint64_t n = r.text.tokens.size(), first = r.cached + r.options.external + r.options.slots;
    r.enqueued = r.options.slots && first < n ? first : n;
    enqueue(r, issued + 1);
  }

 private:
  uint64_t admissions_ = 0;  // and forks
};

}  // namespace model

#endif  // KVCACHE_TESTS_PROPERTY_MODEL_H_
