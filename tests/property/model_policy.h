// SPDX-License-Identifier: Apache-2.0
// The policies of the reference model: which cached block leaves first, and the uses of positions. The rules
// are those of docs/SEMANTICS.md, "Policies". Nothing is fast.
#ifndef KVCACHE_TESTS_PROPERTY_MODEL_POLICY_H_
#define KVCACHE_TESTS_PROPERTY_MODEL_POLICY_H_

#include <algorithm>
#include <array>

#include "property/model_types.h"

namespace model {

class Policies {
 public:
  explicit Policies(const Config& config) : config_(config) {}

  bool sorts() const { return config_.policy == KVC_POLICY_FREQUENCY || wants_fragments(); }

  // A position was used: `known` are those that have a block.
  void use(const Positions& known, const Key& k) {
    if (config_.policy != KVC_POLICY_FREQUENCY || !known.count(k)) return;
    Key before = k;
    before.prefix.resize(k.prefix.size() - config_.block_size);
    const int most = known.count(before) ? uses_[before] : 255;
    uses_[k] = std::min(uses_[k] + 1, most);
  }
  // It has a block again, or none any more.
  void begin(const Key& k) {
    for (auto& [key, uses] : forgotten_)
      if (key == k && uses) uses_[k] = uses, uses = 0;
  }
  void end(const Key& k, bool stale) {
    if (config_.policy != KVC_POLICY_FREQUENCY) return;
    if (!stale) forgotten_.push_back({k, uses_[k]});
    if (forgotten_.size() > config_.history) forgotten_.erase(forgotten_.begin());
    uses_.erase(k);
  }

  bool wants_fragments() const { return config_.policy == KVC_POLICY_FRAGMENTATION && config_.weight > 0; }
  int shelf(const Key& k, bool fragment) {
    int level = 0;
    for (int uses = uses_.count(k) ? uses_[k] : 1; uses > 1 && level < 7; uses /= 2) ++level;
    return wants_fragments() ? !fragment : level;
  }
  // The first block of each shelf of a level of a share stands for it; a stale one leaves before all others.
  // The lowest level leaves first. `may` tells of a share whether its blocks may be evicted, and `may_stale`
  // whether its stale ones may be.
  template <typename Findable, typename May, typename MayStale>
  int victim(const Pool& pool, const std::vector<Block>& blocks, Findable&& findable, May&& may,
             MayStale&& may_stale) const {
    std::map<std::array<int, 3>, int> first;
    for (const int id : pool.lru) first.insert({{blocks[id].cls, blocks[id].level, blocks[id].shelf}, id});
    int best = -1;
    for (auto [list, id] : first)
      if (!findable(id) && may_stale(list[0])) return id;
    for (auto [list, id] : first) {
      if (!may(list[0])) continue;
      if (best < 0 || blocks[id].level < blocks[best].level ||
          (blocks[id].level == blocks[best].level && score(pool, blocks[id]) < score(pool, blocks[best])))
        best = id;
    }
    return best;
  }

 private:
  uint64_t score(const Pool& pool, const Block& b) const {
    const double w = config_.weight, count = double(pool.count);
    if (config_.policy == KVC_POLICY_FREQUENCY) return b.came + uint64_t(w * count) * b.shelf;
    if (!wants_fragments() || b.shelf == 0) return b.came;
    return b.came + (w < 1 ? uint64_t(w / (1 - w) * count) : uint64_t{1} << 62);
  }

  const Config config_;
  std::map<Key, int> uses_;                     // of positions with blocks
  std::vector<std::pair<Key, int>> forgotten_;  // of others, oldest first; 0: taken back
};

}  // namespace model

#endif  // KVCACHE_TESTS_PROPERTY_MODEL_POLICY_H_
