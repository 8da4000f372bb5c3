// SPDX-License-Identifier: Apache-2.0
// The rules of the reference model for partial reuse: docs/SEMANTICS.md, "Partial reuse".
#ifndef KVCACHE_TESTS_PROPERTY_MODEL_PARTIAL_H_
#define KVCACHE_TESTS_PROPERTY_MODEL_PARTIAL_H_

#include "property/model_cross.h"

namespace model {

class PartialRules : public CrossRules {
 public:
  using CrossRules::CrossRules;

 protected:
  // The best head for a text whose hit has so many blocks, up to `limit` tokens in all.
  Head head(uint64_t ns, const Text& text, uint64_t blocks, uint64_t limit) const {
    Head best;
    if (!config_.partial || limit <= blocks * B) return best;
    Text whole = text;  // so that the key of its next block exists
    whole.tokens.resize((blocks + 1) * B, -1);
    const Key own = key(ns, whole, blocks + 1), parent = key(ns, text, blocks);
    std::map<uint64_t, const Key*> children;
    for (const auto& [k, birth] : born_)
      if (k.ns == ns && k.epoch == own.epoch && k.prefix.size() == own.prefix.size() &&
          std::equal(parent.prefix.begin(), parent.prefix.end(), k.prefix.begin()) && positions.count(k))
        children[birth] = &k;
    size_t looked = 0;
    for (auto child = children.rbegin(); child != children.rend() && looked < 32; ++child, ++looked) {
      const Key& k = *child->second;
      uint64_t end = blocks * B;
      while (end < own.prefix.size() && end < limit && k.prefix[end] == own.prefix[end]) ++end;
      end = std::min(end, own.prefix.size() - 1);
      for (bool again = true; again;) {
        again = false;
        for (const Span& s : text.spans)
          if (end > blocks * B && s.first < end && s.covers(end))
            end = std::max(s.first, blocks * B), again = true;
      }
      if (end <= blocks * B + best.tokens) continue;
      Head found{end - blocks * B, {}};
      const auto at = positions.find(k);
      for (size_t g = 0; g < config_.groups.size(); ++g)
        if (const int id = copy_at(at, g, false); id >= 0) found.sources.push_back(id);
      if (found.sources.size() == config_.groups.size()) best = found;
    }
    return best;
  }
  // The table of a hit that ends at `tokens`: windows need less than where its last whole block ends.
  Table needed_for(Table table, uint64_t tokens) const {
    for (size_t g = 0; tokens % B != 0 && g < table.size(); ++g)
      for (uint64_t j = sinks(g); config_.groups[g].window && j < table[g].size(); ++j)
        if (j < lo(g, tokens)) table[g][j].block = -1;
    return table;
  }
  // What a head gives back of what the groups do not have in common: nothing if a span has cut the hit short.
  static uint64_t regained(const Hit& hit, const Head& head) {
    return hit.lost != 0 && hit.blocks == hit.whole ? head.tokens : 0;
  }
  static Table with_sources(Table table, const Head& head) {
    for (size_t g = 0; head.tokens != 0 && g < table.size(); ++g)
      table[g].push_back({head.sources[g], false});
    return table;
  }
};

}  // namespace model

#endif  // KVCACHE_TESTS_PROPERTY_MODEL_PARTIAL_H_
