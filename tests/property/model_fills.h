// SPDX-License-Identifier: Apache-2.0
// The rules of the reference model for fills: docs/SEMANTICS.md, "Fills".
#ifndef KVCACHE_TESTS_PROPERTY_MODEL_FILLS_H_
#define KVCACHE_TESTS_PROPERTY_MODEL_FILLS_H_

#include "property/model_hints.h"

namespace model {

class FillRules : public HintRules {
 public:
  using HintRules::HintRules;

 protected:
  static bool shares(const Request& r) { return r.options.flags & KVC_REQUEST_SHARE_FILLING; }
  bool publishes(const Request& r) const {
    if (r.stopped || (r.options.cross && !r.options.cross_digest)) return false;  // private
    return !(r.options.flags & KVC_REQUEST_NO_WRITE) && r.epoch == epochs.at(r.options.ns);
  }
  // Does a step in flight, or another request from there on, fill the position after a hit?
  bool being_filled(const Request& r, uint64_t reached, uint64_t limit) const {
    if (reached >= limit) return false;
    const Key next = key(r.options.ns, r.text, reached + 1);
    if (const auto at = positions.find(next); at != positions.end() && !shares(r))
      for (const auto& copies : at->second)
        if (!copies.empty() && blocks_[copies.front()].filling) return true;
    for (const auto& [id, other] : requests)
      if (&other != &r && other.admitted && other.options.ns == r.options.ns && publishes(other) &&
          other.published == reached && other.prefill >= (reached + 1) * B &&
          key(r.options.ns, other.text, reached + 1) == next)
        return true;
    return false;
  }
  kvc_status wait(const Request& r, const Hit& hit, uint64_t limit) {
    const uint64_t until = r.options.wait_until;
    if (!until) return KVC_OK;
    if (!now()) return KVC_ERROR_INVALID_ARGUMENT;
    if (now() >= until || !being_filled(r, hit.reached, limit)) return KVC_OK;
    return ++stats.filling_waits, KVC_ERROR_FILLING;
  }
  // The step writes the slots of the request.
  void enqueue(Request& r, uint64_t step) {
    if (!(r.options.flags & KVC_REQUEST_PUBLISH_ENQUEUED) || !publishes(r)) return;
    if (r.committed < r.cached + r.options.external) return;
    const uint64_t published = r.published, end = std::min(r.enqueued, r.prefill) / B;
    for (; r.published < end; ++r.published) {
      const uint64_t j = r.published;
      const Key k = key(r.options.ns, r.text, j + 1);
      if (!finds_node(r, k, end)) break;
      for (size_t g = 0; g < config_.groups.size(); ++g)
        if (const int b = r.table[g][j].block; b >= 0) stats.duplicates += attach(b, g, k), fill(b, step);
      policies_.use(positions, k), recall(r.options.ns, r.text, j, j + 1), changed();
    }
    apply(r, published, r.published);
  }
  // Blocks that steps from `step` on fill: pool by pool those that are held, by step, then those in FENCED.
  std::vector<int> failing(uint64_t step) const {
    std::vector<int> out;
    for (const Pool& pool : pools) {
      std::map<std::pair<uint64_t, uint64_t>, int> held;
      for (size_t b = 0; b < blocks_.size(); ++b)
        if (&pools[blocks_[b].pool] == &pool && blocks_[b].filling >= step && holds(int(b)))
          held[{blocks_[b].filling, blocks_[b].since}] = int(b);
      for (const auto& [order, b] : held) out.push_back(b);
      for (const auto& [b, fence] : pool.fenced)
        if (blocks_[b].filling >= step) out.push_back(b);
    }
    return out;
  }
  void written_by(uint64_t step) {
    for (Block& b : blocks_)
      if (b.filling && b.filling <= step) b.filling = 0, b.written = true, changed();
  }
};

}  // namespace model

#endif  // KVCACHE_TESTS_PROPERTY_MODEL_FILLS_H_
