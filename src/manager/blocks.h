// SPDX-License-Identifier: Apache-2.0
// The blocks of a manager and the prefix positions that they are attached to. This is the only code that
// moves blocks between lists, holders, fences and namespaces; everyone else reads the pool, the tree and the
// namespaces. Used under the manager's lock.
//
// blocks.cc takes, holds and releases blocks, publish.cc attaches them to positions and detaches them,
// saving.cc holds what a checkpoint reads and
// takes what it brings, namespaces.cc opens and resets namespaces, shares.cc keeps their quotas, shelves.cc
// and levels.cc say where cached blocks wait, compact.cc moves contents and lets pools shrink.
#pragma once
#include "base/id_tags.h"
#include "base/status.h"
#include "manager/lineage.h"
#include "manager/shape.h"
#include "manager/zeroing.h"
#include "pool/quotas.h"
#include "prefix/prefix_tree.h"
#include "request/request.h"

struct kvc_probe_info;

namespace kvc {

// What an admission or an extension takes out of each pool.
struct Demand {
  explicit Demand(size_t num_pools) {  // clearing all 32 would cost more than the rest
    for (size_t p = 0; p < num_pools; ++p) blocks[p] = fenced_hits[p] = 0;
  }
  // A hit that will be held.
  void add_hit(const Block& block) {
    blocks[block.pool] += block.list == List::kLru;
    fenced_hits[block.pool] += block.list == List::kFenced;
  }
  // What a pool must have available.
  uint64_t wanted(size_t pool, uint64_t watermark) const {
    return blocks[pool] == 0 ? 0 : blocks[pool] + watermark;
  }
  // What a probe says of the tightest pool, and whether all pools have what is wanted.
  void answer_probe(const uint64_t* available, size_t num_pools, uint64_t watermark,
                    kvc_probe_info* info) const;

  uint64_t blocks[kMaxPools];
  uint64_t fenced_hits[kMaxPools];
};

// What a request or a caller cannot do without: so many blocks of each pool at once.
struct Least {
  explicit Least(size_t num_pools) {
    for (size_t p = 0; p < num_pools; ++p) blocks[p] = 0;
  }
  uint64_t blocks[kMaxPools];
};

// How a published block is kept that a request releases: not at all; until its pool is short of room, as the
// first that leaves; as long as the policy says.
enum class Keep : uint8_t { kNot, kFirstOut, kPublished };

class Blocks {
 public:
  Blocks(const Shape& shape, Arena& arena, EventRing& events, Counters& counters)
      : shape_(shape),
        arena_(arena),
        events_(events),
        counters_(counters),
        tree_(pool_, namespaces_, arena, events, counters) {}
  [[nodiscard]] bool create(Memory& memory, const Env& env, IdTag tag, uint64_t secret);

  const BlockPool& pool() const { return pool_; }
  const PrefixTree& tree() const { return tree_; }
  Identities& identities() { return tree_.identities(); }
  const NamespaceTable& namespaces() const { return namespaces_; }
  const Zeroing& zeroing() const { return zeroing_; }
  const Quotas& quotas() const { return quotas_; }
  // Another one after each reset and unpublication: what was copied elsewhere before that has equal names and
  // perhaps other bytes.
  const Lineage& lineage() const { return lineage_; }
  void end_lineage() { lineage_ = {origin_, ++num_ended_}; }
  void carry_lineage(const Lineage& lineage) { lineage_ = lineage; }
  // Whether requests and external holders find and publish anything now.
  bool caches() const { return caches_; }
  void set_caches(bool on) { caches_ = on; }

  // ---- taking and holding

  // OK if every pool has what is demanded of it for a namespace, and the watermark; AGAIN if the fenced
  // blocks would fill every gap; else OVER_QUOTA if the namespace's maximum is in the way, or NO_SPACE.
  kvc_status check_room(const Demand& demand, uint32_t ns, uint64_t watermark, const char* who) const {
    if (quotas_.on()) [[unlikely]]
      return check_share(demand, ns, watermark, who);
    return check_pools(demand, watermark, who);
  }
  // Whether hits alone may be held: cached blocks are available, but perhaps for other namespaces.
  kvc_status check_hold(const Demand& demand, uint32_t ns, const char* who) const {
    return quotas_.on() ? check_share(demand, ns, 0, who) : KVC_OK;
  }
  // Whether check_room() is OK.
  bool fits(const Demand& demand, uint32_t ns, uint64_t watermark) const {
    for (size_t p = 0; p < shape_.num_pools; ++p) {
      if (demand.wanted(p, watermark) > room(ns, p)) return false;
    }
    return true;
  }
  // Blocks of a pool that a namespace may take.
  uint64_t room(uint32_t ns, size_t pool) const {
    const uint64_t available = pool_.counts(pool).available();
    return quotas_.on() ? quotas_.room(class_of(ns), pool, available) : available;
  }
  // A refusal of check_room(), or NEVER_FITS if not even an empty pool could give a namespace the least. No
  // watermark: it holds back nothing where nobody is admitted.
  kvc_status refusal(kvc_status status, const Least& least, uint32_t ns, const char* who) const {
    const size_t pool = pool_that_lacks(least, ns);
    return pool == kMaxPools ? status : refuse_for_good(least, pool, ns, who);
  }
  // The pool that never has the least; kMaxPools if there is none.
  size_t pool_that_lacks(const Least& least, uint32_t ns) const {
    for (size_t p = 0; p < shape_.num_pools; ++p) {
      if (least.blocks[p] > most_room(ns, p)) return p;
    }
    return kMaxPools;
  }
  // Blocks of a pool that a namespace could take if nobody held any.
  uint64_t most_room(uint32_t ns, size_t pool) const {
    const uint64_t size = pool_.counts(pool).size;
    return quotas_.on() ? quotas_.most_room(class_of(ns), pool, size) : size;
  }
  // For as long as a batch is planned, under one lock: hits that it will hold, and blocks that it will take
  // (`count` of a pool; the negative number takes them back). Lists stay as they are: only room() and what
  // refuses know. False if the block is held already.
  bool expect_hit(BlockId id, List* was);
  void take_back_hit(BlockId id, List was);
  void expect_blocks(uint32_t ns, size_t pool, uint64_t count);
  static uint64_t last_shortage();  // blocks missing at this thread's last refusal

  // Takes blocks for requests of a namespace. The group's pool must have `count` available.
  void take(uint32_t group, uint32_t ns, size_t count, BlockId* out) {
    pop(group, ns, count, out);
    if (zeroing_.on()) [[unlikely]]
      zeroing_.hand_over(out, count, namespaces_.id(ns));
  }
  // A copy of a block that is filling is filling too.
  void fill_like(BlockId copy, BlockId source) { pool_.begin_filling(copy, pool_.filling_step(source)); }
  // Takes one block that a copy will overwrite.
  BlockId take_copy(uint32_t group, uint32_t ns, bool written);
  void take_external(uint32_t group, size_t count, BlockId* out);

  // Adds a request's hold to a block that another request holds.
  void share(BlockId id) { pool_.add_ref(pool_[id]); }
  // Adds a request's, an external caller's or a pin's hold to a block that a match has found.
  void hold(BlockId id) {
    hit(id);
    pool_.add_ref(pool_[id]);
  }
  // The same for a group's blocks at positions of a namespace, which come to out[0, count).
  void hold_run(uint32_t group, const NodeId* path, size_t count, uint32_t ns, BlockId* out);
  // The positions of a hit, or of what a request publishes, from the first on, were used once more.
  void use(const NodeId* path, size_t length) {
    if (tree_.annotates()) [[unlikely]]
      use_annotated(path, length);
  }
  // Ends a hold that share() or hold() added, and that was not the last: no trace is left.
  void unshare(BlockId id) { pool_.drop_ref(pool_[id]); }
  void hold_external(BlockId id) {
    hit(id);
    pool_.add_external(pool_[id]);
  }
  void pin(BlockId id) {
    Block& block = pool_[id];
    const bool idle = block.list == List::kLru;
    hit(id);
    if (idle) note_release(block, retired_);
    pool_.add_pin(block);
  }
  void mark_written(BlockId id) { pool_.mark_written(pool_[id]); }
  // Groups whose block at a position can be read by those that run behind a step: no later one writes it.
  uint32_t readable(NodeId node, uint64_t step) const {
    uint32_t groups = tree_[node].resident;
    if (pool_.num_filling() == 0) return groups;
    for (uint32_t rest = groups; rest != 0; rest &= rest - 1) {
      const auto g = static_cast<uint32_t>(__builtin_ctz(rest));
      const BlockId block = tree_.block_of(node, g);
      if (pool_.is_filling(block) && !pool_.filled(block, step)) groups &= ~(1u << g);
    }
    return groups;
  }

  // ---- releasing

  // Ends a request's hold. If it was the last, the block goes to FENCED, LRU or FREE, as it is to be kept.
  // `ns` and `stale` are those of the block's node, if it has one.
  void release(BlockId id, Keep keep, uint32_t ns, bool stale);
  // The same for blocks[begin, end) of a group, from the end on, all of the current epoch.
  void release_run(uint32_t group, const BlockId* blocks, size_t begin, size_t end, uint32_t ns);
  // What is cached of a group at a position comes to the end of its list, as if it were released now.
  void renew(NodeId node, uint32_t group);
  // Ends the hold of a copy on its source.
  void release_source(BlockId id) {
    if (drop_ref(pool_[id])) place(id);
  }
  // A copy will not be made: its destination has what others left there.
  void cancel_copy(BlockId source, BlockId destination) {
    if (zeroing_.on()) zeroing_.set_owner(destination, Zeroing::kExternal);
    release_source(source);
  }
  void release_external(BlockId id);
  // A pin writes nothing: what no request or external caller has released since is not fenced.
  void unpin(BlockId id) {
    const Block& block = pool_[id];
    if (!pool_.drop_pin(pool_[id])) return;
    if (pool_.fence_passed(block, retired_)) {
      settle(id);
    } else {
      fence(id);
    }
  }

  // Blocks that lose their last hold from now on are fenced until step `step_id` retires.
  void issue(uint64_t step_id) {
    if (issued_ < step_id) issued_ = step_id;
  }
  void retire(uint64_t step_id) {
    if (step_id > retired_) settle_fenced(step_id);
  }
  // The blocks that steps from `step_id` on were to write have no content, and nobody finds them.
  void fail_fills(uint64_t step_id);
  uint64_t retired() const { return retired_; }
  uint64_t issued() const { return issued_; }

  // Evicts up to `max_blocks` cached blocks of the pools [first, end) and returns how many.
  size_t evict_oldest(size_t first, size_t end, size_t max_blocks);
  size_t num_zero_blocks() const { return zeroing_.count(); }
  // Hands out the blocks to be cleared and forgets them.
  void take_zero_blocks(int32_t* blocks);

  // ---- publishing: publish.cc

  // What makes positions of one table findable. Keys and tokens begin at the first of them.
  struct Publication {
    const uint64_t* keys;
    const int32_t* tokens;
    ExtraRecords& extras;
    const GroupTable* groups;
    uint32_t ns;
    uint64_t epoch;
    uint64_t filled_by;  // a step in flight that will write the blocks; 0 = they are written
    size_t checkpoint;   // the only position whose state may be found
  };
  // Publishes positions [begin, end) below *cursor, which moves along. Returns the first position that was
  // not published: before `end` if all nodes are in use.
  size_t publish(NodeId* cursor, const Publication& publication, size_t begin, size_t end);
  // The same for the blocks of an encoder, all of whose positions have the same tokens. Returns how many
  // positions are published. In cross.cc.
  size_t publish_cross(const Publication& publication, size_t positions);
  // The same for externally held blocks of a group, from the root on; entries of -1 publish no block.
  void publish_external(const Prompt& prompt, uint32_t group, const int32_t* blocks, size_t num_blocks,
                        ExtraRecords& extras);
  // With hints a position may lose its block before those behind it, which then keep its node. So if all
  // nodes are in use, victims leave until there is one for a namespace. False if that does not help.
  bool evict_for_node(uint32_t ns);
  // Without full attention the end of a long chain keeps the nodes of all positions before it. So before a
  // new position comes there, victims leave while few nodes are free: a bounded number, which is enough to
  // evict all that nobody holds before the free nodes run out. Does nothing if the position is known.
  void make_node_room(NodeId parent, uint64_t key, const int32_t* tokens, const ExtraView& extra, uint32_t ns,
                      uint64_t epoch);
  size_t spare_nodes() const;  // free ones beyond those that make_node_room() keeps
  // Nodes that `wanted` new positions below `kept` can have: all of them, or fewer.
  size_t room_for_positions(size_t wanted, NodeId kept);
  // A cursor keeps its position alive.
  void move_cursor(NodeId* cursor, NodeId to) {
    tree_.hold(to);
    tree_.release(*cursor);
    *cursor = to;
  }
  // Whether a request alone can reach what is published at a position of its tables: it holds the only copy
  // in each group, and no longer prefix is known.
  bool is_alone(const GroupTable* groups, size_t position);
  // Takes the blocks of a position of a request's tables from the tree.
  void make_private(const GroupTable* groups, size_t position);
  // Makes a published block private or free; false if it is not published.
  bool unpublish(BlockId id);
  // The usual publication, in a plain manager without curves: a request's next position, which has no extra
  // keys and which nobody else knows; the chain covers it. False, and nothing has changed, if it is not that,
  // or if no node is free.
  bool publish_next(Request& request) {
    NodeId last = request.cursor;
    const size_t position = request.published;
    if (!tree_.has_place() ||
        tree_.publish_chain(last, &request.chain, request.token(request.published_tokens()),
                            request.groups[0].blocks.data + position, 1, request.ns, request.epoch) == 0)
      return false;
    move_cursor(&request.cursor, last);
    return true;
  }
  // Frees what nobody holds at a position; returns the number of blocks.
  size_t drop_idle(NodeId node);
  // Counts entries of an externally held block within one call, in its fence field: the end of the hold sets
  // that anyway.
  void begin_entries(BlockId id) { pool_[id].fence = 0; }
  uint32_t count_entry(BlockId id) { return ++pool_[id].fence; }

  // ---- taking over from another manager, for Rebuild: publish.cc

  // A namespace with the identity of another manager's, open as often.
  kvc_status carry_namespace(const Namespace& from, uint32_t* ns) { return namespaces_.open_like(from, ns); }
  // Finds or makes a position and holds it until end_positions(); kNoNode if all nodes are in use.
  NodeId carry_position(NodeId parent, uint64_t key, const int32_t* tokens, ExtraRecords& extras,
                        size_t position, uint32_t ns);
  // Publishes a free block at a position, as held by a request. There must be one. The position has been used
  // so often, and has the level until then (0 = no end), as far as this manager keeps such things.
  BlockId carry_block(NodeId node, uint32_t group, uint32_t uses, uint32_t level, uint64_t until);
  void end_positions();

  // ---- checkpoints: saving.cc

  // A hold for reading a block's content that leaves no trace: what nobody else has used meanwhile goes back
  // to where it was. Holds end in the reverse order of their beginnings.
  struct Reading {
    BlockId block, before;  // before: what stood before it in its list, kNoBlock = nothing
    uint32_t mark;          // its fence, as long as nobody else has released it
    List list;              // where it was
    bool leaves_first;
  };
  void begin_reading(BlockId id, Reading* reading);
  void end_reading(const Reading& reading);

  // Blocks of an empty pool for contents to come, as held externally by nobody: all of them come first to
  // take_all(), others by give_back(), which makes them the first to be taken.
  void take_for_contents(uint32_t pool, size_t count, BlockId* out);
  void give_back(BlockId id);
  // Attaches one of them to a position, as carry_block() does. end_contents() makes it a cached one.
  void attach_taken(NodeId node, uint32_t group, BlockId id, uint32_t uses, uint32_t level, uint64_t until);
  void end_taken(BlockId id) { release_external(id); }
  void begin_clock(size_t pool, uint64_t clock) { pool_.begin_clock(pool, clock); }
  void set_age(BlockId id, uint64_t age) { pool_.set_age(id, age); }
  // A namespace has a quota in a pool, whatever is held; the caller has checked its numbers.
  void carry_quota(uint32_t ns, uint32_t cls, uint32_t pool, uint64_t min, uint64_t max);
  // What it has above its maximum, once blocks have come to it, is evicted as far as nobody holds it.
  void keep_to_quota(uint32_t cls, uint32_t pool) {
    if (const uint64_t max = quotas_.share(cls, pool).max; max != Quotas::kNoMaximum)
      keep_to_maximum(cls, pool, max);
  }
  kvc_status carry_namespace(const char* identity, size_t size, uint32_t opens, uint64_t epoch,
                             CarriedNamespace* out) {
    return namespaces_.carry(identity, size, opens, epoch, out);
  }
  void drop_namespace(const CarriedNamespace& carried) { namespaces_.drop(carried); }

  // ---- hints: levels.cc

  uint64_t now() const { return tree_.retention().deadlines().now(); }
  kvc_status check_time(uint64_t now_ns) const;
  // Ends the hints whose time has passed; the time is right.
  void pass_time(uint64_t now_ns);
  // A position takes a hint, unless it has no block.
  void hint(NodeId node, uint32_t priority, uint64_t until);
  // Demotes positions from `last` upwards to position `first`, as long as they lead to nothing else and
  // nobody holds a block or, but for `own_cursors` at `last`, is there. Returns how many.
  size_t demote(NodeId last, size_t first, uint32_t own_cursors);

  // ---- namespaces: namespaces.cc

  kvc_status open_namespace(const kvc_namespace_config& config, uint64_t* id);
  kvc_status close_namespace(uint64_t id);
  kvc_status find_namespace(uint64_t id, uint32_t* ns) const;
  kvc_status reset_namespace(uint64_t id, uint32_t* ns);
  kvc_status reset_all();
  // A namespace with users cannot be closed.
  void add_user(uint32_t ns) { ++namespaces_[ns].users; }
  void drop_user(uint32_t ns) { --namespaces_[ns].users; }

  // ---- quotas: shares.cc

  // No namespace: an external holder.
  static constexpr uint32_t kNoNamespace = UINT32_MAX;
  // The class of a namespace; 0 if it has no quota.
  uint32_t class_of(uint32_t ns) const {
    return quotas_.on() && ns != kNoNamespace ? namespaces_[ns].quota : 0;
  }
  // The namespace whose quota a call means. UNSUPPORTED without quotas.
  kvc_status find_share(uint64_t namespace_id, uint32_t* ns) const;
  // `admitted`: requests of the namespace that hold blocks.
  kvc_status set_quota(uint32_t ns, uint32_t pool, uint64_t min, uint64_t max, uint64_t admitted);
  // Admitted requests that the watermark of a namespace's admission looks at: `all`, or those of its class.
  uint64_t num_admitted(uint32_t ns, uint64_t all) const {
    return quotas_.on() ? quotas_.tenant(class_of(ns)).admitted : all;
  }
  void count_admitted(uint32_t ns, uint64_t change) {
    if (quotas_.on()) [[unlikely]]
      quotas_.tenant(class_of(ns)).admitted += change;
  }
  void count_hits(uint32_t ns, uint64_t queries, uint64_t hits) {
    if (!quotas_.on()) return;
    Quotas::Tenant& tenant = quotas_.tenant(class_of(ns));
    tenant.block_queries += queries;
    tenant.block_hits += hits;
  }
  void count_refusal(uint32_t ns, kvc_status status) {
    if (status == KVC_ERROR_OVER_QUOTA) quotas_.count_refusal(class_of(ns), refused_pool_);
  }
  // Whether externally held blocks may be published in a namespace: they count for it then.
  kvc_status check_publication(uint32_t ns, const int32_t* blocks, size_t num_blocks) const;

  // ---- compaction: compact.cc

  // Moves up to `capacity` contents from a pool's highest blocks to its lowest free ones. Until
  // end_compaction(), pool().moved_to() says where a table entry that names a free block has gone.
  size_t compact(uint32_t pool, kvc_block_copy* moves, size_t capacity);
  void end_compaction(uint32_t pool) { pool_.sort_free(pool); }
  // A pool gets `size` blocks, more than now, or fewer: check_shrink(), shrink(), which moves all contents of
  // blocks that leave, and end_shrink() once tables have followed, as after compact().
  void grow(uint32_t pool, uint64_t size) { pool_.resize(pool, size); }
  // With BUFFER_TOO_SMALL *most_moves is a capacity that is enough.
  kvc_status check_shrink(uint32_t pool, uint64_t size, size_t capacity, size_t* most_moves) const;
  size_t shrink(uint32_t pool, uint64_t size, kvc_block_copy* moves);
  void end_shrink(uint32_t pool, uint64_t size);
  // Entries that name a block of the pool that is free name where its content has gone.
  void follow_moves(uint32_t pool, BlockId* entries, size_t count) const;

 private:
  struct Coming {  // a block that will probably be evicted, as far as it is known
    BlockId block;
    NodeId node;
    uint32_t bucket;
  };
  struct LookAhead {
    static constexpr uint32_t kSize = 32;
    Coming coming[kSize];
    uint32_t count;
  };

  kvc_status check_pools(const Demand& demand, uint64_t watermark, const char* who) const;
  [[gnu::noinline]] kvc_status check_share(const Demand& demand, uint32_t ns, uint64_t watermark,
                                           const char* who) const;
  static void note_shortage(uint64_t blocks);
  kvc_status refuse(kvc_status status, const Demand& demand, size_t pool, uint64_t watermark, uint64_t room,
                    const char* who, const char* fix) const;
  kvc_status refuse_for_good(const Least& least, size_t pool, uint32_t ns, const char* who) const;
  void pop(uint32_t group, uint32_t ns, size_t count, BlockId* out);
  // With quotas.
  [[gnu::noinline]] void pop_share(uint32_t group, uint32_t ns, size_t count, BlockId* out);
  uint64_t payer_of(uint32_t ns) const { return ns == kNoNamespace ? kNoPayer : namespaces_.id(ns); }
  void keep_to_maximum(uint32_t cls, uint32_t pool, uint64_t most);
  [[gnu::noinline]] void give(BlockId id, uint32_t ns);
  void begin_share(uint32_t ns, uint32_t cls, uint64_t admitted);
  void end_share(uint32_t ns);
  // With several lists.
  [[gnu::noinline]] void pop_victims(uint32_t group, size_t count, BlockId* out);
  BlockId victim(uint32_t pool, uint64_t classes = BlockPool::kAllClasses);
  BlockId stale_head(uint32_t pool, uint64_t classes);
  Place place_of(NodeId node) const;
  uint32_t level_of(NodeId node) const { return tree_.retention().on() ? tree_.retention().level(node) : 0; }
  [[gnu::noinline]] void use_annotated(const NodeId* path, size_t length);
  void set_level(NodeId node, uint32_t level, uint64_t until);
  bool anyone_holds(NodeId node) const;
  // visit(id): the blocks of a position that are in LRU, at most one of each group.
  template <typename Visit>
  void each_cached(NodeId node, Visit&& visit) {
    for (uint32_t g = 0; g < shape_.num_groups; ++g) {
      BlockId id = tree_.block_of(node, g);
      if (is_block(id) && pool_[id].list != List::kLru) id = tree_.idle_copy(id);
      if (is_block(id)) visit(id);
    }
  }
  void shelve(BlockId id);
  void push_cached(BlockId id);
  uint32_t num_missing(NodeId node) const;
  void find_fragments(NodeId node, uint32_t group);
  [[gnu::noinline]] void detach_and_sort(BlockId id);
  // Takes a block from its position. Other blocks there may become fragments.
  void detach(BlockId id) {
    if (pool_.has_shelves()) [[unlikely]]
      return detach_and_sort(id);
    tree_.detach(id);
  }
  void look_ahead(uint32_t pool, BlockId victim);
  void evict(BlockId victim, bool plain = false);
  void free_evicted(BlockId victim);
  bool evict_position(uint32_t ns);
  // Takes a block that is found again out of LRU or FENCED, before a hold is added.
  void hit(BlockId id) {
    const List list = pool_[id].list;
    if (list == List::kHeld) return;
    pool_[id].leaves_first = 0;
    if (list == List::kLru) --namespaces_.cached(tree_[pool_[id].node].ns, pool_[id].pool);
    pool_.remove(id);
    if (pool_.is_filling(id)) [[unlikely]]
      pool_.resume_filling(id, retired_);
    if (quotas_.on()) [[unlikely]]
      quotas_.hit(id, pool_[id].pool, list == List::kFenced);
  }
  bool fencing() const { return issued_ > retired_; }
  // While a block is held, `fence` is the newest step that may read or write it for a former holder.
  static void note_release(Block& block, uint64_t step) { block.fence = static_cast<uint32_t>(step); }
  // Ends a request's hold, or a copy's. True if that was the last.
  bool drop_ref(Block& block) {
    if (pool_.drop_ref(block)) return true;
    note_release(block, issued_);
    return false;
  }
  // Puts a block without holds into FENCED, into FREE.
  void fence(BlockId id) {
    pool_.push_fenced(id, issued_);
    if (quotas_.on()) [[unlikely]]
      quotas_.fence(id, pool_[id].pool);
  }
  void free_held(BlockId id) {
    pool_.push_free(id);
    if (quotas_.on()) [[unlikely]]
      quotas_.free_held(id, pool_[id].pool);
  }
  bool put_back(const Reading& reading);
  // Puts a block without holds where it belongs.
  void place(BlockId id);
  void settle(BlockId id);
  void settle_fenced(uint64_t step_id);
  void take_back(BlockId id);
  void settle_published(BlockId id, uint32_t ns, bool stale);
  void free_cached(BlockId id);
  void forget(uint32_t ns);
  kvc_status check_resets() const;
  void announce_cleared(uint32_t ns);
  void announce_all_cleared();
  void free_stale(uint32_t pool);
  template <typename Movable>
  size_t move_down(uint32_t pool, uint64_t begin, Movable&& movable, kvc_block_copy* moves, size_t capacity);

  const Shape& shape_;
  Arena& arena_;
  EventRing& events_;
  Counters& counters_;
  BlockPool pool_;
  NamespaceTable namespaces_;
  PrefixTree tree_;
  Zeroing zeroing_;
  Quotas quotas_;
  bool caches_ = shape_.caches();
  uint64_t issued_ = 0;  // newest step that may be in flight
  Lineage lineage_;
  uint64_t origin_ = 0, num_ended_ = 0;
  uint64_t retired_ = 0;             // may be a step that a thread is still carrying out
  mutable size_t refused_pool_ = 0;  // whose maximum the last OVER_QUOTA names
  LookAhead ahead_[kMaxPools] = {};
};

// Fetches the blocks that will be evicted next in stages, each when the one before has arrived: the block,
// its node, the node's bucket, the chain that it ends. The stages go on from call to call. All are hints: a
// block may have another node by then, or none.
inline void Blocks::look_ahead(uint32_t pool, BlockId victim) {
  constexpr uint32_t kNode = 10, kBucket = 18, kChain = 25;
  LookAhead& ahead = ahead_[pool];
  const uint32_t now = ahead.count++;
  Coming& block = ahead.coming[now % LookAhead::kSize];
  block.block = pool_.skip(pool_[victim]);
  pool_.prefetch(block.block);
  Coming& node = ahead.coming[(now - kNode) % LookAhead::kSize];
  node.node = pool_[node.block].node;
  if (is_node(node.node)) tree_.prefetch_node(node.node);
  Coming& bucket = ahead.coming[(now - kBucket) % LookAhead::kSize];
  if (is_node(bucket.node)) bucket.bucket = tree_.prefetch_bucket_of(bucket.node);
  if (tree_.counts_uses() && is_node(bucket.node)) [[unlikely]]
    tree_.prefetch_uses(bucket.node);
  tree_.prefetch_chain(ahead.coming[(now - kChain) % LookAhead::kSize].bucket);
}

}  // namespace kvc
