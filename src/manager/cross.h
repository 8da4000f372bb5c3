// SPDX-License-Identifier: Apache-2.0
// The encoder of a request: its tokens have blocks in the tables of cross groups, which an admission finds or
// takes, all or nothing, and which the first commit of a token that was computed after it publishes. They
// hang in the prefix tree below the root of the namespace, as positions of placeholder tokens under one extra
// key. No prompt has placeholder tokens, since its tokens are not negative; so a position holds blocks of
// cross groups, or blocks of the other groups. docs/SEMANTICS.md, "Cross-attention".
#pragma once
#include "manager/feature.h"

namespace kvc {

inline constexpr int32_t kCrossToken = -1;

// What a manager with cross groups keeps of a request whose encoder has a digest.
struct Encoder {
  ExtraKey key;             // over all of the encoder's tokens
  Buffer<uint64_t> hashes;  // table keys of its positions
  KeyList keys() const { return {&key, 1}; }
};

// The first key of a request: what the decoder computes depends on the encoder's digest and on the number of
// its tokens. False if there is no digest.
bool cross_key(const kvc_request_config& config, kvc_extra_key* key);
// UNSUPPORTED if another key of the prompt covers the first token.
kvc_status check_cross_key(const TokenSpan& prompt, const kvc_extra_key& key);

class Cross : public Feature {
 public:
  using Feature::Feature;
  bool on() const { return shape_.has_cross(); }
  [[nodiscard]] bool create(Memory& memory) { return encoders_.create(memory, shape_.max_requests); }
  const Encoder& encoder(size_t index) const { return encoders_[index]; }
  // The positions in which the last match has found the encoder: room for all.
  NodeId* path() { return path_.data; }

  // A new request whose encoder has a digest: memory; its key; and its positions with the prompt's other
  // keys, whose number it returns.
  bool reserve_hashes(const Request& request) {
    return encoders_[index_of(request)].hashes.reserve(arena_, positions_of(request), 0);
  }
  void bind(Request& request, const kvc_request_config& config, const kvc_extra_key& key);
  size_t fill(Request& request, const TokenSpan& prompt);

  void discarded(const Request& request) { encoders_[index_of(request)].hashes.clear(arena_); }
  kvc_status match(const Request& request, AdmissionPlan* plan);
  void add_demand(const Request& request, AdmissionPlan* plan) const;
  void add_least(const Request& request, bool, Least* least) const {
    for (const uint32_t g : groups()) least->blocks[shape_.groups[g].pool] += positions_of(request);
  }
  bool reserve(Request& request, const AdmissionPlan& plan, bool single);
  void hold(Request& request, const AdmissionPlan& plan);
  void begin(Request& request, const AdmissionPlan& plan);
  // Carries out a commit of all else by commit_rest(), and what that says of the encoder.
  template <typename Commit>
  [[gnu::noinline]] kvc_status commit(Request& request, uint32_t committed, Commit&& commit_rest);
  // The next commit publishes.
  bool opens_lane(const Request& request) const { return !request.cross_pending; }
  void released(Request& request, bool stale);
  kvc_status check_fork(const Request& parent) const;
  kvc_status reserve_fork(const Request& parent, Request& child);
  void forked(const Request& parent, Request& child);
  kvc_status check(size_t index, const Request& request) const;
  kvc_status check_position(NodeId id, uint32_t resident) const {
    KVC_CHECK((resident & ~shape_.token_groups()) == 0 ||
                  ((resident & shape_.token_groups()) == 0 && blocks_.tree().tokens(id)[0] == kCrossToken),
              "node %d: blocks of encoders and of others, %x", raw(id), resident);
    return KVC_OK;
  }
  void digest_tables(const Request& request, DigestHash* out) const;

 private:
  size_t positions_of(const Request& request) const { return shape_.positions_of(request.cross_tokens); }
  bool find(const Request& request, uint64_t epoch);
  void publish(Request& request, ExtraRecords& extras, bool publishes);

  BitsOf groups() const { return bits_of(shape_.cross_groups); }

  Array<Encoder> encoders_;  // by index of the request
  Buffer<NodeId> path_ = {};
};

// A decoder's keys and values are computed after its encoder's. What a transfer has written says nothing of
// them.
template <typename Commit>
kvc_status Cross::commit(Request& request, uint32_t committed, Commit&& commit_rest) {
  if (!request.cross_pending || committed <= request.committed || committed <= transfer_end(request))
    return commit_rest();
  const Encoder& encoder = encoders_[index_of(request)];
  const bool publishes = request.next_full != UINT32_MAX && !stale(request);
  ExtraRecords extras(arena_, publishes ? encoder.keys() : KeyList{}, 0, request.cross_positions,
                      shape_.block_size);
  if (!extras.ok()) return no_memory_for_keys(request.cross_positions);
  KVC_TRY(commit_rest());
  publish(request, extras, publishes);
  return KVC_OK;
}

}  // namespace kvc
