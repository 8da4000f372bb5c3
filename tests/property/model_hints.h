// SPDX-License-Identifier: Apache-2.0
// The hints and registered prompts of the reference model, as docs/SEMANTICS.md has them: levels of positions
// in a map, their ends found by looking at all of them.
#ifndef KVCACHE_TESTS_PROPERTY_MODEL_HINTS_H_
#define KVCACHE_TESTS_PROPERTY_MODEL_HINTS_H_

#include "property/model_rules.h"

namespace model {

class HintRules : public Rules {
 public:
  using Rules::Rules;

  std::map<int, Prompt> prompts;  // by the number of their name

  uint64_t now() const { return now_; }

  kvc_status set_time(uint64_t now) {
    if (now < now_) return KVC_ERROR_INVALID_ARGUMENT;
    if (now > now_) changed();
    now_ = now;
    for (;;) {
      const Key* first = nullptr;
      const auto rank = [&](const Key& k) { return std::pair(hints_.at(k).until, hints_.at(k).order); };
      for (auto& [k, hint] : hints_)
        if (hint.until && hint.until <= now && (!first || rank(k) < rank(*first))) first = &k;
      if (!first) return KVC_OK;
      if (current(*first))
        set_level(Key(*first), kDefaultLevel, 0);
      else
        hints_.erase(Key(*first));
    }
  }
  kvc_status set_priority(uint64_t id, uint64_t first, uint64_t count, uint32_t priority, uint64_t until) {
    if (!config_.hints) return KVC_ERROR_UNSUPPORTED;
    Request* r = find(id);
    if (!r) return KVC_ERROR_NOT_FOUND;
    if (!good(priority, until)) return KVC_ERROR_INVALID_ARGUMENT;
    const uint64_t end = count > UINT64_MAX - first ? UINT64_MAX : first + count;
    const auto position = [&](uint64_t token) {
      return std::min<uint64_t>(token / B, 1u << 30);
    };  // past all of them
    const HintRange range{position(first), position(end), int(priority), until};
    if (range.begin >= range.end) return KVC_OK;
    std::vector<HintRange> ranges = r->ranges;
    std::erase_if(ranges, [&](auto& old) { return range.begin <= old.begin && old.end <= range.end; });
    if (ranges.size() == 8) return KVC_ERROR_LIMIT;
    ranges.push_back(range);
    if (ranges != r->ranges) changed();
    r->ranges = ranges;
    if (r->admitted) apply(*r, range.begin, range.end);
    return KVC_OK;
  }
  kvc_status end_session(uint64_t id, uint64_t shared) {
    if (!config_.hints) return KVC_ERROR_UNSUPPORTED;
    Request* r = find(id);
    if (!r) return KVC_ERROR_NOT_FOUND;
    if (!r->over || r->shared != shared / B) changed();
    r->over = true, r->shared = shared / B;
    return KVC_OK;
  }
  kvc_status set_prefix_priority(uint64_t ns, const Text& text, uint64_t first, uint32_t priority,
                                 uint64_t until, uint64_t* tokens) {
    if (!config_.hints) return KVC_ERROR_UNSUPPORTED;
    if (!epochs.count(ns)) return KVC_ERROR_NOT_FOUND;
    if (!good(priority, until)) return KVC_ERROR_INVALID_ARGUMENT;
    *tokens = 0;
    for (uint64_t j = text.tokens.size() / B; j-- > first / B;)
      if (const Key k = key(ns, text, j + 1); positions.count(k))
        set_level(k, int(priority) + 1, until), *tokens += B;
    return KVC_OK;
  }
  kvc_status demote_prefix(uint64_t ns, const Text& text, uint64_t first, uint64_t* tokens) {
    if (!config_.hints) return KVC_ERROR_UNSUPPORTED;
    if (!epochs.count(ns)) return KVC_ERROR_NOT_FOUND;
    *tokens = demote(ns, text, text.tokens.size() / B, first / B, nullptr) * B;
    return KVC_OK;
  }
  kvc_status register_prompt(int name, uint64_t ns, const Text& text, uint64_t* pinned) {
    if (!epochs.count(ns)) return KVC_ERROR_NOT_FOUND;
    if (prompts.count(name)) return KVC_ERROR_INVALID_ARGUMENT;
    if (prompts.size() >= config_.max_requests) return KVC_ERROR_LIMIT;
    const Hit hit = pinnable(ns, text);
    if (shares_.on())
      if (kvc_status status = fits(int64_t(ns), std::vector<uint64_t>(pools.size()), hit.table, 0))
        return status;
    Prompt& prompt = prompts[name] = {ns, epochs[ns], text, Table(config_.groups.size())};
    if (left_.empty()) left_.push_back(places_.size()), places_.push_back(0);
    places_[left_.back()] = name, left_.pop_back();
    grow(prompt);
    *pinned = prompt.table[0].size() * B;
    return changed();
  }
  kvc_status unregister_prompt(int name) {
    if (!prompts.count(name)) return KVC_ERROR_NOT_FOUND;
    drop_pins(prompts[name].table);
    prompts.erase(name);
    left_.push_back(size_t(std::find(places_.begin(), places_.end(), name) - places_.begin()));
    places_[left_.back()] = 0;
    for (auto& [id, r] : requests)
      if (r.prompt_name == name) r.prompt_name = 0;
    return changed();
  }

 protected:
  static constexpr int kDefaultLevel = 36;

  bool good(uint32_t priority, uint64_t until) const {
    return priority <= 100 && (until == 0 || until > now_);
  }
  // A position with a block gets a level; what is cached there comes anew.
  void set_level(const Key& k, int level, uint64_t until) {
    if (!positions.count(k)) return;
    const Hint before = hint_of(k);
    hints_[k] = {level, until, ++order_};
    if (before.level != level || before.until != until) changed();
    if (before.level == level) return;
    for (auto& copies : positions.at(k))
      for (const int id : std::vector<int>(copies))
        if (Pool& pool = pools[blocks_[id].pool]; remove(pool.lru, id)) come(pool, id);
  }
  // Whoever uses a position takes its demotion back.
  void recall(uint64_t ns, const Text& text, uint64_t begin, uint64_t end) {
    for (uint64_t j = end; j-- > begin;)
      if (const Key k = key(ns, text, j + 1); hint_of(k).level == 0) set_level(k, kDefaultLevel, 0);
  }
  // The latest range of each position counts; one that is over stands for the default.
  void apply(const Request& r, uint64_t begin, uint64_t end) {
    if (r.epoch != epochs[r.options.ns]) return;
    for (uint64_t j = std::min(r.published, end); j-- > begin;) {
      const HintRange* latest = nullptr;
      for (const HintRange& range : r.ranges)
        if (range.begin <= j && j < range.end) latest = &range;
      if (!latest) continue;
      const bool ended = latest->until && latest->until <= now_;
      set_level(key(r.options.ns, r.text, j + 1), ended ? kDefaultLevel : latest->priority + 1,
                ended ? 0 : latest->until);
    }
  }
  // Positions of a text, from the last upwards, that lead to nothing but the ones after them.
  uint64_t demote(uint64_t ns, const Text& text, uint64_t last, uint64_t first, const Request* self) {
    uint64_t count = 0;
    for (uint64_t j = last; j-- > first;) {
      const Key k = key(ns, text, j + 1);
      for (auto at = positions.lower_bound(k); starts_with(at, k); ++at) {
        const uint64_t length = at->first.prefix.size();
        if (length > last * B || at->first != key(ns, text, length / B)) return count;
      }
      for (auto& [id, r] : requests) {
        if (&r == self || !r.admitted || r.options.ns != ns || r.epoch != k.epoch) continue;
        if (r.published > j && key(ns, r.text, j + 1) == k) return count;
      }
      const auto at = positions.find(k);
      if (at == positions.end()) continue;
      for (auto& copies : at->second)
        for (const int id : copies)
          if (holds(id)) return count;
      set_level(k, 0, 0), ++count;
    }
    return count;
  }
  // A request is about to release its blocks.
  void keep_prompt(const Request& r) {
    if (r.prompt_name && prompts.count(r.prompt_name)) grow(prompts[r.prompt_name]);
  }
  bool may_pin(uint64_t ns, const Table& table) const {
    for (size_t p = 0; p < pools.size() && shares_.on(); ++p) {
      uint64_t want = 0;
      for (auto& row : table)
        for (const Cell& cell : row) want += cell.block >= 0 && in(pools[p].lru, cell.block);
      if (want > room(int64_t(ns), p)) return false;
    }
    return true;
  }
  void grow(Prompt& prompt) {
    const Hit hit = pinnable(prompt.ns, prompt.text);
    if (hit.blocks < prompt.table[0].size() || !may_pin(prompt.ns, hit.table)) return;
    hold(hit.table, &Block::pins);
    drop_pins(prompt.table);
    prompt.table = hit.table;
  }
  void end_stale_pins() {
    for (const int name : places_) {
      if (name == 0) continue;
      Prompt& prompt = prompts[name];
      if (prompt.epoch == epochs[prompt.ns]) continue;
      drop_pins(prompt.table);
      prompt.table = Table(config_.groups.size()), prompt.epoch = epochs[prompt.ns];
    }
  }

 private:
  uint64_t now_ = 0, order_ = 0;
  std::vector<int>
      places_;  // names in the order of registration; a new one takes the place that was left last
  std::vector<size_t> left_;
};

}  // namespace model

#endif  // KVCACHE_TESTS_PROPERTY_MODEL_HINTS_H_
