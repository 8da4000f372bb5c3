// SPDX-License-Identifier: Apache-2.0
// A request: a sequence of tokens and, while it is admitted, the blocks of each group that hold its KV.
//
// Invariants: committed <= min(known, capacity). positions is ceil(capacity / block size) while the request
// is admitted, and 0 while it waits. `tail` has the tokens from published * block size on, perhaps more;
// earlier ones are in the nodes from `cursor` to the root. The tree keeps `cursor` alive. In the table of a
// window group the entries [sinks, dropped) are empty. The tables of cross groups have cross_positions
// entries, ceil(cross_tokens / block size) while it is admitted. One thread at a time uses a request, under
// the manager's lock.
#pragma once
#include <kvcache/request.h>

#include "base/arena.h"
#include "base/handle_table.h"
#include "base/ids.h"
#include "prefix/extra_keys.h"

namespace kvc {

// One group's block table and what its row in the caller's memory already shows.
struct GroupTable {
  Buffer<BlockId> blocks;
  uint32_t dropped;         // positions below this were returned, sinks excepted
  uint32_t synced;          // row entries [0, synced) are right, except those dropped since
  uint32_t synced_dropped;  // `dropped` when the row was last written
  uint32_t shown;           // row entries in use when it was last written

  // Entries that the window has left: [sinks, dropped).
  uint32_t num_dropped(uint32_t sinks) const { return dropped > sinks ? dropped - sinks : 0; }

  // An admission has filled the table; no row shows it yet.
  void begin(uint32_t window_start) {
    dropped = window_start;
    synced = synced_dropped = shown = 0;
  }
  void replace(uint32_t position, BlockId block) {
    blocks.data[position] = block;
    if (synced > position) synced = position;
  }
  // Positions from `kept` on are gone; a window now begins at `window_start` at the latest.
  void cut(uint32_t kept, uint32_t window_start) {
    if (synced > kept) synced = kept;
    if (dropped > window_start) dropped = window_start;
    if (synced_dropped > window_start) synced_dropped = window_start;
  }
  // Whether the row shows a table of so many positions.
  bool in_sync(uint32_t positions) const {
    return synced == positions && shown == positions && synced_dropped == dropped;
  }
  void set_synced(uint32_t positions) {
    synced = shown = positions;
    synced_dropped = dropped;
  }
};

struct alignas(64) Request {
  // The first cache line is all that a decode step inside a block touches. The lane is open while
  // append_limit is not 0. Then known may grow up to append_limit and committed up to commit_limit, the next
  // token goes to *next_token, and token t has slot slot_base + t in group 0. Nothing shared, no table and no
  // row changes. Any other operation closes the lane first.
  uint64_t id;  // 0 = entry not in use
  uint32_t known, capacity, committed;
  uint32_t append_limit, commit_limit;
  uint32_t marked;  // tokens in positions marked written: committed, rounded up
  int32_t* next_token;
  int64_t slot_base;
  uint32_t lookahead;
  uint32_t positions;
  uint64_t stepped;  // newest step in whose `requests` it stood

  // The second line and part of the third: what a step that takes a block touches too.
  alignas(64) Buffer<int32_t> tail;
  uint32_t tail_base;  // tail.data[0] is this token
  uint32_t room;       // tokens that may be in the positions
  uint32_t published;  // positions behind the cursor
  uint32_t next_full;  // (published + 1) * block size while publishing, else UINT32_MAX
  GroupTable* groups;  // [num_groups]
  NodeId cursor;
  uint32_t hashed;  // blocks that `chain` covers
  uint64_t chain;
  uint64_t epoch;
  int32_t row;  // of the caller's block table, -1 = none yet
  bool admitted;
  bool tail_shared;  // the block at `capacity` may need copy-on-write
  bool readmission;  // admitted before
  bool building;     // taken, filled without the lock, not known by its id yet
  NamespaceId ns;
  uint32_t num_hashes;
  Buffer<uint64_t> hashes;  // table keys of the first num_hashes positions, from creation to publication
  Buffer<ExtraKey> keys;    // a KeyList of num_keys
  uint32_t num_keys;
  uint32_t block_size, max_tokens;  // of the manager

  uint32_t prompt_len;
  uint32_t own_from;  // positions below came as a hit or by fork
  uint32_t num_cached;
  uint32_t lost;
  uint32_t flags;  // KVC_REQUEST_*
  uint32_t drop_tail_blocks;
  uint32_t generation;
  int32_t next_free;                // list of unused entries
  uint8_t headroom;                 // KVC_HEADROOM_*
  uint8_t lost_group, lost_reason;  // KVC_LOST_*; 0 = nothing is lost
  bool cross_shared : 1;            // its encoder has a digest, to which the first key binds the prefix
  bool cross_pending : 1;           // admitted, and no commit has said that the encoder's blocks are written
  bool cross_cached : 1;            // the last admission found them
  uint32_t max_cached_tokens;
  uint32_t junction;  // tokens whose state is worth keeping, since others had them; 0 = none
  uint32_t external_tokens, slots;
  uint32_t cross_tokens, cross_positions;
  uint64_t user_data;

  // The methods below keep the invariants. Everyone reads the fields; only the methods set them, apart from
  // `row`, `stepped`, `building` and `readmission`, which the rows, the step and the manager's Requests keep.

  uint32_t published_tokens() const { return published * block_size; }
  // Of an encoder without a digest: nobody can tell what its decoder's keys and values depend on.
  bool cross_private() const { return cross_tokens != 0 && !cross_shared; }
  KeyList key_list() const { return {keys.data, num_keys}; }
  // Keys that begin before `tokens`. That of the encoder stays, also without a token.
  uint32_t keys_within(uint32_t tokens) const {
    uint32_t count = num_keys;
    while (count > uint32_t{cross_shared} && keys.data[count - 1].first_token >= tokens) --count;
    return count;
  }
  const int32_t* token(uint64_t position) const { return tail.data + (position - tail_base); }

  void set_headroom(uint32_t value) { headroom = static_cast<uint8_t>(value); }
  // Of a waiting request whose last tokens are no part of its prompt.
  void carry_prompt(uint32_t tokens) { prompt_len = tokens; }

  void begin(uint32_t of_namespace, uint32_t size_of_blocks, uint64_t most_tokens) {
    ns = of_namespace;
    block_size = size_of_blocks;
    max_tokens = static_cast<uint32_t>(most_tokens);
  }
  // A new request: its options, and then its tokens, which are in `tail`, with `hashes` and `keys` in place.
  void configure(const kvc_request_config& config, uint64_t root);
  void set_prompt(size_t num_tokens, size_t num_extra_keys, uint64_t chain_value);

  // What an admission has found and taken.
  struct Admission {
    size_t num_hits, positions;
    uint32_t head;  // tokens of the hit in the position after num_hits
    uint64_t capacity, epoch;
    uint32_t lost, junction;  // tokens
    bool publishes;
    uint8_t lost_group, lost_reason;
  };
  void begin_admission(const Admission& admission);
  // The encoder has a digest, and this is the first key.
  void share_cross(const kvc_extra_key& key) {
    order_keys(&key, 1, keys.data);
    cross_shared = true;
  }
  // The encoder's blocks: `count` in each cross group, found or taken.
  void begin_cross(size_t count, bool cached) {
    cross_positions = static_cast<uint32_t>(count);
    cross_cached = cached;
    cross_pending = count != 0 && !cached;
  }
  void end_cross_pending() { cross_pending = false; }
  // Back to waiting, without a block or a cursor; its known tokens stay.
  void end_admission();
  // This new request becomes a copy of the committed part of `parent`, in `positions` blocks that are shared.
  // The tokens from the parent's cursor on and the keys are copied by the caller.
  // Of these `num_published` are published for it.
  void fork_from(Request& parent, size_t positions, size_t num_published, uint32_t num_keys);

  // Tokens become known; reserve_tail() has made room.
  void learn(const int32_t* tokens, size_t count) {
    int32_t* end = tail.data + (known - tail_base);
    for (size_t i = 0; i < count; ++i) end[i] = tokens[i];
    known += static_cast<uint32_t>(count);
  }
  // Takes back what was just learned.
  void unlearn(uint32_t known_before) { known = known_before; }
  // The chain covers `blocks` blocks.
  void set_chain(uint64_t value, uint32_t blocks) {
    chain = value;
    hashed = blocks;
  }
  // The same, and the hash of the last of them is kept for the next match; the room is reserved.
  void keep_hash(uint64_t value) {
    hashes.data[hashed] = value;
    set_chain(value, hashed + 1);
    num_hashes = hashed;
  }

  // Slots up to `count` tokens, inside the blocks that it has.
  void set_capacity(uint64_t count) { capacity = static_cast<uint32_t>(count); }
  // The tables have `count` positions from now on, and no shared block at their end.
  void grow(size_t count, uint64_t new_capacity) {
    set_positions(count);
    set_capacity(new_capacity);
    tail_shared = false;
  }
  // The block at `position` is its own, no hit's or parent's.
  void own(uint32_t position) {
    if (own_from > position) own_from = position;
  }
  void set_committed(uint32_t count) { committed = count; }
  void set_marked(uint32_t tokens) { marked = tokens; }
  // Positions below `count` are published, and written or filling; the cursor is at the last of them.
  void set_published(size_t count, bool written);
  void stop_publishing() { next_full = UINT32_MAX; }
  // Keeps the first `tokens` tokens, of which `most_slots` keep their slots, in `kept` positions, of which
  // `num_published` are published. The chain goes back to `cursor_chain`, the key of the cursor, where no
  // kept hash is nearer.
  void cut(uint32_t tokens, uint32_t most_slots, size_t kept, size_t num_published, uint64_t cursor_chain);
  void cut_waiting(uint32_t tokens, uint64_t root);
  // Whether the first `tokens` tokens end inside a key's span. What comes behind them is told from the rest
  // of the span by a key of its own, for which the caller of cut() and the like has made room.
  bool ends_inside_key(uint64_t tokens) const { return !ExtraView(key_list(), tokens, 0).empty(); }
  // Keys that are new from `first_new` on. The chain goes back to before them, as in cut().
  void replace_keys(Arena& arena, const Buffer<ExtraKey>& all, size_t count, size_t first_new,
                    uint64_t cursor_chain);
  void cut_keys(uint32_t tokens);

  // The lane (see above). What it allows, and what it does then.
  void close_lane() { append_limit = commit_limit = 0; }
  void open_lane(uint64_t last_append, uint64_t last_commit, int64_t base) {
    append_limit = static_cast<uint32_t>(last_append);
    commit_limit = static_cast<uint32_t>(last_commit);
    next_token = tail.data + (known - tail_base);
    slot_base = base;
  }
  bool lane_takes_token() const { return known < append_limit; }
  bool lane_commits(uint64_t count) const { return append_limit != 0 && lane_allows(count); }
  // The same while the lane takes a token.
  bool lane_allows(uint64_t count) const {
    return count - committed <= known - committed && count <= capacity && count <= commit_limit;
  }
  void lane_append(int32_t token) {
    *next_token++ = token;
    const uint32_t needed = ++known + lookahead;
    if (capacity < needed) capacity = needed;
  }

  // Room for `extra` more tokens behind the known ones; tokens before `first_needed` may be forgotten. False:
  // nothing changed.
  [[nodiscard]] bool reserve_tail(Arena& arena, uint32_t first_needed, uint64_t extra);
  // Gives large buffers back once most of what they hold is published.
  void shrink_tail(Arena& arena, uint32_t first_needed);
  // Takes over a tail that begins with token `base`.
  void replace_tail(Arena& arena, const Buffer<int32_t>& tokens, uint32_t base) {
    tail.clear(arena);
    tail = tokens;
    tail_base = base;
  }
  // Gives the hashes back once they are all published.
  void drop_used_hashes(Arena& arena);
  void free_buffers(Arena& arena, size_t num_groups);

 private:
  void set_positions(size_t count) {
    positions = static_cast<uint32_t>(count);
    const uint64_t fits = uint64_t{positions} * block_size;
    room = static_cast<uint32_t>(fits < max_tokens ? fits : max_tokens);
  }
  void go_back(uint32_t blocks, uint64_t cursor_chain);
};

static_assert(sizeof(Request) == 256);

// All requests, each with a table per group.
class RequestTable : public HandleTable<Request, HandleKind::kRequest> {
 public:
  [[nodiscard]] bool create(Memory& memory, size_t max_requests, size_t num_groups, uint32_t tag,
                            uint32_t generation = 0);

  // Fetches ahead what growing by a block touches in the record, behind its first line.
  void prefetch_growth(const Request& request) const {
    __builtin_prefetch(reinterpret_cast<const char*>(&request) + 64, 1);
    __builtin_prefetch(reinterpret_cast<const char*>(&request) + 128, 1);
    __builtin_prefetch(&tables_[index_of(request) * num_groups_], 1);
  }
  Request* take();
  // visit(request): those that are admitted.
  template <typename Visit>
  void each_admitted(Visit&& visit) {
    for (size_t i = 0; i < size(); ++i) {
      if (Request& request = at(i); request.id != 0 && request.admitted) visit(request);
    }
  }

 private:
  Array<GroupTable> tables_;  // [max_requests][num_groups]
  size_t num_groups_ = 0;
};

}  // namespace kvc
