// SPDX-License-Identifier: Apache-2.0
// What the reference model is made of: configuration, prefixes, blocks, requests, steps. Plain data, no
// behaviour.
#ifndef KVCACHE_TESTS_PROPERTY_MODEL_TYPES_H_
#define KVCACHE_TESTS_PROPERTY_MODEL_TYPES_H_

#include <kvcache/manager.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace model {

struct Group {
  bool window = false;  // or chunks, if chunk_tokens is set, or a state
  bool state = false;   // acts as a window of the last token
  uint64_t window_tokens = 0, sink_tokens = 0, retention = 0, chunk_tokens = 0, max_checkpoints = 0;
  size_t pool = 0;
};
struct Config {
  uint64_t block_size = 16, watermark = 0, max_requests = 1024, max_tokens = 1 << 24, vocab = 0;
  uint32_t policy = KVC_POLICY_LRU;
  double weight = 0;     // with the default filled in
  uint64_t history = 0;  // FREQUENCY: positions that are remembered
  uint32_t max_quotas = 0;
  bool hints = false, fills = false, null_block = false, no_cache = false, zero_cross_namespace = false,
       zero_always = false;
  bool headroom = false, partial = false;
  uint64_t max_nodes = 0;       // positions, without full attention; 0 = more than there can be
  uint64_t near = 512;          // tokens before an end where a hit is likely to end
  std::vector<uint64_t> pools;  // blocks at first
  std::vector<uint64_t> rooms;  // and at most; empty: the same
  std::vector<Group> groups;    // that follow tokens
  std::vector<size_t> cross;    // pools of the cross groups behind them
};
struct Options {
  uint64_t ns = 0, max_cached = 0, external = 0, slots = 0, lookahead = 0;
  uint32_t flags = 0, drop_tail = 0, headroom = 0;
  uint64_t wait_until = 0;
  uint64_t cross = 0;        // tokens of the encoder
  int32_t cross_digest = 0;  // 0 = private
};
struct Span {
  uint64_t first = 0, count = 0;
  int32_t digest = 0;
  auto operator<=>(const Span&) const = default;
  bool covers(uint64_t token) const { return first <= token && token < first + count; }
};
struct Part {  // of an extra key, over one token
  int32_t digest = 0;
  uint64_t length = 0, offset = 0;
  auto operator<=>(const Part&) const = default;
};
struct Letter {  // a token and the parts of extra keys that lie over it
  int32_t token = 0;
  std::vector<Part> parts;
  auto operator<=>(const Letter&) const = default;
  void order() {
    std::sort(parts.begin(), parts.end());
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  }
};
struct Text {
  int32_t origin = 0;  // of the encoder that all of it depends on: a key over the first token
  std::vector<int32_t> tokens;
  std::vector<Span> spans;
};
constexpr int32_t kCut = -1000000000;  // digest of what stands behind a span that was cut
inline void cut_spans(Text& text, uint64_t n) {
  std::erase_if(text.spans, [&](const Span& s) { return s.first >= n; });
  if (std::any_of(text.spans.begin(), text.spans.end(), [&](const Span& s) { return s.covers(n); }))
    text.spans.push_back({n, 1, kCut});
}
struct Key {
  uint64_t ns = 0, epoch = 0;
  std::vector<Letter> prefix;
  auto operator<=>(const Key&) const = default;
};
using Positions =
    std::map<Key, std::vector<std::vector<int>>>;  // per group the copies; kept while there is any

constexpr int64_t kNobody = -2, kExternal = -1;
struct Block {
  size_t pool = 0;
  int group = -1, requests = 0, external = 0, pins = 0;
  bool written = false, published = false;
  bool first_out = false;  // when it comes to an undivided lru, which it does next
  Positions::iterator at;
  uint64_t released = 0;    // newest step when a request, a copy or an external hold ended
  int64_t owner = kNobody;  // whose content it has: a namespace, kExternal, or nobody's
  uint64_t came = 0;        // to lru: the pool's clock then
  int shelf = 0;            // of the policy, in lru
  int64_t payer = kNobody;  // unless it is free: the namespace that it counts for, or kExternal
  int cls = 0;              // of the share, in lru
  int level = 0;            // likewise, of the hints
  uint64_t filling = 0;     // the step that writes it; 0 = none
  uint64_t since = 0;       // the order in which blocks began to fill while they were held
};
struct Pool {
  int first = 0;
  uint64_t count = 0;  // usable blocks now
  std::vector<int> free, lru;
  std::vector<std::pair<int, uint64_t>> fenced;
  uint64_t clock = 0;  // blocks that came to lru
};                     // top of free: back
struct Cell {
  int block = -1;
  bool own = true;
};                                             // own: not got as a hit or by fork
using Table = std::vector<std::vector<Cell>>;  // [group][position]
struct Hint {                                  // of a position
  int level = 36;
  uint64_t until = 0, order = 0;
};
struct HintRange {  // of positions of a request
  uint64_t begin = 0, end = 0;
  int priority = 0;
  uint64_t until = 0;
  bool operator==(const HintRange&) const = default;
};
struct Request {
  Options options;
  Text text;
  uint64_t prompt = 0, committed = 0, capacity = 0, cached = 0, lost = 0, published = 0,
           epoch = 0;  // published: positions
  bool admitted = false, was_admitted = false;
  bool planned = false;  // by a step that admits all or none
  bool stopped = false;  // publishing: all positions were in use, or prefix caching was off
  Table table, cross;    // of the groups that follow tokens; of the cross groups
  bool cross_pending = false, cross_cached = false;
  std::vector<HintRange> ranges;  // the latest last
  bool over = false;              // its session
  uint64_t shared = 0;            // positions
  int prompt_name = 0;            // of a registered prompt; 0 = none
  uint64_t prefill = 0;           // tokens known at its admission
  uint64_t enqueued = 0;          // tokens up to which steps gave slots, without a gap
  uint64_t order = 0;             // of admissions and forks
  uint64_t junction = 0;          // tokens whose state is worth keeping, since others had them
  uint32_t lost_group = 0, lost_reason = 0;
};
struct Prompt {  // registered
  uint64_t ns = 0, epoch = 0;
  Text text;
  Table table;  // what is pinned
};
struct Pin {
  uint64_t ns = 0;
  Table table;
};
struct Hit {
  uint64_t blocks = 0, lost = 0;
  Table table;
  uint64_t reached = 0;          // before the tail was dropped
  uint64_t junction = 0;         // with state groups: tokens that all others could serve, if that is more
  std::vector<uint64_t> alone;   // positions that each group alone could serve, if some are lost
  std::vector<uint32_t> lacks;   // KVC_LOST_*: what it lacks of the most that one of them could serve
  uint64_t most = 0, whole = 0;  // that, and what all together could serve, before spans
};                               // blocks: positions; entries not needed are -1
struct Head {                    // of the position after a hit
  uint64_t tokens = 0;
  std::vector<int> sources;  // a block in each group
};
struct Planned {  // admission
  Hit hit;
  Head head;
  Table table, held, cross;  // held: what it hits in all groups, and what is copied
  bool found = false;        // the encoder
  uint64_t limit = 0, tokens = 0, capacity = 0, step_end = 0, transfer = 0;
};
struct Copy {
  int source, destination;
};
struct Event {
  uint32_t kind;
  uint64_t ns;
  int group, block;
  uint64_t offset;
  Key position;
};
struct Stats {
  uint64_t epoch = 0, admissions = 0, prompt_tokens = 0, cached_tokens = 0, block_queries = 0, block_hits = 0,
           lost_reuse_tokens = 0, unpublished_blocks = 0, node_tokens = 0, readmissions = 0, refusals = 0,
           preemptions = 0, evictions = 0, copies = 0, hit_chances = 0, hits_taken = 0, duplicates = 0,
           takes = 0, evicting_takes = 0, filling_hits = 0, filling_waits = 0, partial_hits = 0,
           partial_tokens = 0;
  std::map<size_t, uint64_t> losing;                       // admissions that lost tokens, by group
  std::map<std::pair<size_t, uint32_t>, uint64_t> losses;  // these tokens, by group and KVC_LOST_*
};
struct StepRequest {
  uint64_t id = 0;
  bool commit = false;
  uint64_t committed = 0;
  std::vector<int32_t> learned;
  bool with_ids = false;
  uint64_t count = 0;
  std::vector<int32_t> tokens;
};
struct StepAdmission {
  uint64_t id = 0;
  Text text;
  Options options;
};
struct StepIn {
  uint64_t retired = 0, now = 0;
  bool past_refusal = false, all_or_none = false;
  std::vector<uint64_t> frees, preempts;
  std::vector<std::pair<uint64_t, uint64_t>> truncates;
  std::vector<StepRequest> requests;
  std::vector<StepAdmission> admissions;
};
struct StepOut {
  std::vector<kvc_status> status;
  std::vector<uint64_t> admitted, cached;
  std::vector<Copy> copies;
  uint64_t step_id = 0, refused = 0, shortage = 0;
};

}  // namespace model

#endif  // KVCACHE_TESTS_PROPERTY_MODEL_TYPES_H_
