// SPDX-License-Identifier: Apache-2.0
// What a manager has cached, outside of it: namespaces with their quotas, prefix positions, those of encoders
// too, which of them has a block in which group, the order in which the blocks would leave, and the prompts
// that are registered. A checkpoint is made of it, and a new manager takes it over. Plain data, in any
// process.
//
// Positions stand behind their parents, siblings in the order in which they came, so that a tree made of them
// is the same tree. Positions that lead to no block are left out. Of the copies of a position in a group one
// stands for all.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/sha256.h"
#include "manager/block_state.h"
#include "prefix/extra_keys.h"

namespace kvc {

// The options of a request that are numbers, as they are read and made again.
template <typename From, typename To>
void copy_options(const From& from, To* to) {
  to->user_data = from.user_data;
  to->max_cached_tokens = from.max_cached_tokens;
  to->external_tokens = from.external_tokens;
  to->slots = from.slots;
  to->lookahead = from.lookahead;
  to->flags = from.flags;
  to->drop_tail_blocks = from.drop_tail_blocks;
  to->headroom = from.headroom;
}

// The extra keys of a position.
struct ExtraSpans {
  ExtraSpans(const ExtraSpan* spans, size_t number) : data(spans), count(number) {}
  explicit ExtraSpans(const ExtraRecord* record)  // nullptr: none
      : ExtraSpans(record == nullptr ? nullptr : record->spans(), record == nullptr ? 0 : record->count) {}
  const ExtraSpan* data;
  size_t count;
};

struct Contents {
  struct NamespaceEntry {
    std::string identity;  // framed; empty for the default one, which is the first
    uint32_t opens;
    uint64_t epoch, id;  // id: in the manager that was read
    Digest256 digest;
  };
  struct Position {
    int32_t parent;  // -1: none
    uint32_t ns;     // entry of `namespaces`
    uint32_t depth, resident;
    uint32_t uses, level;  // 0 and kDefaultLevel without
    uint64_t left_ns;      // until its hint ends; 0 = it does not end
    uint64_t first_span;   // its extra keys, in `spans`
    uint32_t num_spans, spare;
  };
  struct Cached {
    uint32_t position, group;
    int32_t block;
    uint32_t level, shelf;  // the list in which it waits
    uint32_t in_use;        // 1: somebody holds it, so it leaves last
    uint64_t age;           // blocks that came to the lists of its pool since; 0 with one list
  };
  struct Pool {
    uint64_t first, size;
    std::vector<Cached> blocks;  // list by list, each in its order; then those in use
    std::vector<int32_t> free;   // in the order in which they are taken; empty if some block is in use, but
                                 // for those that registered prompts alone hold
  };
  struct WaitingRequest {  // its options are named as those of a kvc_request_config
    uint64_t id;
    uint32_t ns, committed;            // committed: 0 = it waits
    uint64_t first_token, num_tokens;  // in request_tokens
    uint64_t first_key, num_keys;      // in request_keys
    uint64_t user_data, max_cached_tokens, external_tokens, slots, lookahead;
    uint32_t flags, drop_tail_blocks, headroom, prompt_tokens;
  };
  // What else there is to say of a request, one for each.
  struct RequestBond {
    uint32_t cross_tokens;  // of its encoder; 0 = it has none
    uint32_t prompt;        // 1 + entry of `prompts` that it came from; 0 = none
    uint8_t cross_digest[32];
  };
  struct Quota {  // of a namespace in one pool
    uint32_t ns, cls, pool, spare;
    uint64_t min, max;  // max: UINT64_MAX = none
  };
  struct NamedPrompt {
    std::string name;
    uint32_t ns, index;   // index: among the records of the manager
    uint64_t num_pinned;  // positions
    std::vector<int32_t> tokens;
    std::vector<kvc_extra_key> keys;
  };

  uint32_t block_size = 0, num_groups = 0;
  ListKinds lists;
  Lineage lineage;
  std::vector<NamespaceEntry> namespaces;
  std::vector<Position> positions;
  std::vector<int32_t> tokens;  // block_size for each position
  std::vector<ExtraSpan> spans;
  std::vector<Pool> pools;
  std::vector<WaitingRequest> requests;
  std::vector<int32_t> request_tokens;
  std::vector<kvc_extra_key> request_keys;
  std::vector<RequestBond> bonds;
  std::vector<Quota> quotas;  // by class and pool
  std::vector<NamedPrompt> prompts;

  // Of the manager that was read, while it lives: the nodes of the positions.
  std::vector<NodeId> nodes;
  bool mixed = false;         // some of it ended while it was read
  uint64_t longest_hold = 0;  // positions, blocks and records that were read under one hold of its lock

  const int32_t* tokens_of(size_t position) const { return tokens.data() + position * block_size; }
  ExtraSpans spans_of(size_t position) const {
    return {spans.data() + positions[position].first_span, positions[position].num_spans};
  }
  // Whether these are a position's own tokens and extra keys.
  bool has_content(size_t position, const int32_t* its_tokens, ExtraSpans its_spans) const {
    const ExtraSpans own = spans_of(position);
    return std::equal(its_tokens, its_tokens + block_size, tokens_of(position)) &&
           own.count == its_spans.count &&
           (own.count == 0 || std::memcmp(own.data, its_spans.data, own.count * sizeof(ExtraSpan)) == 0);
  }
  // What positions are called outside the process, one for each.
  std::vector<Digest256> position_digests() const;
  // Equal for managers that cache the same, whatever their block ids and the order of equal things in memory.
  Digest256 digest(const std::vector<Digest256>& position_digests) const;
};

}  // namespace kvc
