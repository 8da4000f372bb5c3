// SPDX-License-Identifier: Apache-2.0
// Blocks that requests give back: those that windows have left, and all at the end. The order of release
// decides the order of eviction: docs/SEMANTICS.md.
#pragma once
#include "manager/features.h"

namespace kvc {

class Returns : protected RequestPart {
 public:
  Returns(const RequestPart& part, const Features& features)
      : RequestPart(part),
        features_(features),
        full_(shape_.full_groups),
        windows_(shape_.sliding_groups()) {}

  // Whether all windows hold what the token after so many reads. They do, but inside a transfer.
  bool has_windows(const Request& request, uint32_t tokens) const;
  // What windows leave when so many tokens are computed.
  void drop_windows(Request& request, uint32_t computed);
  // The blocks of the token groups; the tables stay as they are.
  void release(Request& request);
  // The same from position `kept` on, of which `tokens` tokens stay. What only this request has published and
  // can reach is dropped.
  void cut(Request& request, uint64_t tokens, size_t kept);
  // The nearest lengths whose windows are all still held.
  Restorable restorable(const Request& request, uint64_t tokens) const;

 private:
  // Positions of a window that hits near likely ends need: of the prompt, and of the request's own hit.
  struct NearEnds {
    size_t prompt = SIZE_MAX, hit = 0, hit_end = 0;
    bool has(size_t position) const { return position >= prompt || (position >= hit && position < hit_end); }
  };
  static uint64_t own_hit(const Request& request) { return uint64_t{request.num_cached} + request.lost; }
  // First position of a window that a hit needs which ends near `end` or behind it.
  size_t first_near(GroupIndex group, uint64_t end) const {
    return shape_.groups[group].window_start(end < shape_.near_tokens ? 0 : end - shape_.near_tokens,
                                             shape_.block_size);
  }
  // Whether a window's block that leaves a table may serve a later hit.
  bool serves_later(const Request& request, GroupIndex group, size_t position) const {
    return shape_.serves_boundary(group, request.prompt_len, position) ||
           features_.get<States>().serves_later(request, group, position);
  }
  Keep keep_of(const Request& request, GroupIndex group, size_t position) const;
  size_t boundary_below(const Request& request, size_t position) const;
  // What a window has returned near an end where hits are likely was of use until now: it stays as long as
  // the full-attention blocks that such a hit needs as well.
  void renew_window(const Request& request, const NearEnds& near, GroupIndex group, size_t position) {
    if (position >= request.published || !near.has(position) || !serves_later(request, group, position))
      return;
    const BlockId full = request.groups[first_bit(full_)].blocks.data[position];
    const NodeId node = blocks_.pool()[full].node;
    if (is_node(node)) blocks_.cached.renew(node, group);
  }
  void release_windows(Request& request, uint32_t groups, const NearEnds* near, size_t begin, size_t end,
                       bool stale);
  void release_full(Request& request, size_t begin, size_t end, bool stale);

  const Features& features_;
  const uint32_t full_;     // groups
  const uint32_t windows_;  // without states
};

}  // namespace kvc
