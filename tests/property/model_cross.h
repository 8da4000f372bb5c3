// SPDX-License-Identifier: Apache-2.0
// The rules of the reference model for cross groups: docs/SEMANTICS.md, "Cross-attention".
#ifndef KVCACHE_TESTS_PROPERTY_MODEL_CROSS_H_
#define KVCACHE_TESTS_PROPERTY_MODEL_CROSS_H_

#include "property/model_fills.h"

namespace model {

class CrossRules : public FillRules {
 public:
  using FillRules::FillRules;

 protected:
  // What the decoder's tokens depend on. Of private encoders no two are the same.
  static int32_t origin_of(const Options& o, uint64_t id) {
    if (o.cross == 0) return 0;
    return o.cross_digest ? o.cross_digest * 1000 + int32_t(o.cross) : -int32_t(id);
  }
  static bool starts_with_key(const Text& text) {
    return std::any_of(text.spans.begin(), text.spans.end(), [](const Span& s) { return s.first == 0; });
  }
  // Positions [0, blocks) of an encoder.
  Key cross_key(const Options& o, uint64_t blocks) const {
    Text text;
    text.tokens.assign(blocks * B, -1), text.spans = {{0, o.cross, o.cross_digest}};
    return key(o.ns, text, blocks);
  }
  // All of its blocks, if they are cached.
  bool find_cross(const Options& o, Table& table) const {
    if (!o.cross_digest || !caching || (o.flags & KVC_REQUEST_NO_READ)) return false;
    table.assign(config_.cross.size(), {});
    for (uint64_t j = 0; j < up(o.cross); ++j) {
      const auto at = positions.find(cross_key(o, j + 1));
      for (size_t i = 0; i < table.size(); ++i) {
        const int block = copy_at(at, config_.groups.size() + i);
        if (block < 0) return table.clear(), false;
        table[i].push_back({block, false});
      }
    }
    return true;
  }
  // A token was committed that was computed after the admission.
  void write_cross(Request& r, bool publishes) {
    r.cross_pending = false;
    for (auto& row : r.cross)
      for (const Cell& cell : row) blocks_[cell.block].written = true;
    for (uint64_t j = 0; publishes && j < up(r.options.cross); ++j) {
      const Key k = cross_key(r.options, j + 1);
      if (!finds_node(int64_t(r.options.ns), k)) {
        stats.unpublished_blocks += up(r.options.cross) - j;
        break;
      }
      bool is_new = false;
      for (size_t i = 0; i < r.cross.size(); ++i)
        if (const int b = r.cross[i][j].block; !blocks_[b].published)
          stats.duplicates += attach(b, config_.groups.size() + i, k), is_new = true;
      if (is_new) policies_.use(positions, k);
    }
  }
};

}  // namespace model

#endif  // KVCACHE_TESTS_PROPERTY_MODEL_CROSS_H_
