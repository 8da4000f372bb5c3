// SPDX-License-Identifier: Apache-2.0
// What requests publish: their full blocks are hashed, marked as written, and attached to positions where
// others find them.
#pragma once
#include "manager/curves.h"
#include "manager/features.h"

namespace kvc {

class Publications : protected RequestPart {
 public:
  Publications(const RequestPart& part, Features& features, Curves& curves)
      : RequestPart(part), features_(features), curves_(curves) {}

  // The chain value of the position after those that it covers.
  uint64_t next_chain(const Request& request) const {
    uint64_t chain;
    const uint64_t first = uint64_t{request.hashed} * shape_.block_size;
    hash_.blocks(request.chain, request.token(first), shape_.block_size, 1, &chain);
    if (request.num_keys == 0) return chain;
    return ExtraView(request.key_list(), first, shape_.block_size).hash(hash_, chain);
  }
  // The tokens of a waiting request, for its next match.
  void hash_known(Request& request) {
    while (request.hashed < request.known / shape_.block_size) request.keep_hash(next_chain(request));
  }
  // Publishes positions [request.published, full), which are written, or which step `filled_by` will write.
  // `ends_there`: the committed tokens end there, and so the state is that of the last of them.
  kvc_status publish_full(Request& request, size_t full, bool ends_there, uint64_t filled_by, bool computed);
  // Marks as written what has been committed since the last time.
  void mark_committed(Request& request);
  void stop(Request& request, bool warns);
  // Admitted requests publish nothing more until their next admission.
  void stop_all() {
    requests_.each_admitted([&](Request& request) {
      request.close_lane();
      stop(request, false);
    });
  }
  // A block that this step probably publishes is hashed here, so that its bucket is there in time.
  void prefetch(Request& request);

  // Tokens in full blocks that requests knew and did not publish, as all nodes were in use.
  uint64_t node_tokens() const { return node_tokens_; }
  // A warning that the caller delivers once the lock is free; nullptr if there is none.
  const char* take_warning() { return std::exchange(warning_, nullptr); }

 private:
  Features& features_;
  Curves& curves_;
  uint64_t node_tokens_ = 0;
  const char* warning_ = nullptr;
  bool warned_nodes_ = false;
};

}  // namespace kvc
