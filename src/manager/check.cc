// SPDX-License-Identifier: Apache-2.0
// kvc_manager_check: counts everything anew and compares. The first difference is reported. O(blocks + nodes
// + tables).
#include <kvcache/prefix.h>

#include "manager/state_reader.h"

namespace kvc {
namespace {

struct Holds {
  uint32_t refs, pins;
};

class Checker {
 public:
  Checker(const StateReader& state, const Env& env)
      : s_(state), pool_(state.pool()), tree_(state.tree()), shape_(state.shape), scratch_(env) {}

  kvc_status run() {
    const size_t num_namespaces = s_.namespaces().size();
    if (!holds_.create(scratch_, pool_.num_ids()) || !cursors_.create(scratch_, tree_.places().used()) ||
        !users_.create(scratch_, num_namespaces) || !nodes_of_.create(scratch_, num_namespaces) ||
        !cached_.create(scratch_, num_namespaces * shape_.num_pools)) {
      return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory to check %llu blocks", ull(pool_.num_ids()));
    }
    KVC_TRY(requests());
    KVC_TRY(rows());
    KVC_TRY(pins());
    copies_in_progress();
    for (size_t p = 0; p < shape_.num_pools; ++p) KVC_TRY(lists(p));
    for (size_t p = 0; p < shape_.num_pools; ++p) KVC_TRY(blocks(p));
    KVC_CHECK(num_published_ == num_in_rings_, "%zu blocks are published, %zu are copies of a first one",
              num_published_, num_in_rings_);
    KVC_TRY(same("blocks filling", num_filling_, pool_.filling().size()));
    KVC_TRY(nodes());
    for (uint32_t ns = 0; ns < num_namespaces; ++ns) KVC_TRY(namespace_of(ns));
    for (size_t p = 0; p < shape_.num_pools && s_.blocks.quotas().on(); ++p) KVC_TRY(shares(p));
    KVC_TRY(tenants());
    return zeroing();
  }

 private:
  // What is found, and what is counted of it: in all, or of a pool, a class or a namespace.
  static kvc_status same(const char* what, uint64_t found, uint64_t counted) {
    KVC_CHECK(found == counted, "%llu %s, %llu counted", ull(found), what, ull(counted));
    return KVC_OK;
  }
  static kvc_status same(const char* owner, size_t index, const char* what, uint64_t found,
                         uint64_t counted) {
    KVC_CHECK(found == counted, "%s %zu has %llu %s, %llu counted", owner, index, ull(found), what,
              ull(counted));
    return KVC_OK;
  }

  kvc_status requests() {
    size_t admitted = 0, all = 0;
    KVC_TRY(s_.each_request([&](size_t i, const Request& r) -> kvc_status {
      ++all;
      ++users_[r.ns];
      admitted += r.admitted;
      admitted_of_[s_.blocks.shares.class_of(r.ns)] += r.admitted;
      return r.building ? KVC_OK : request(i, r);
    }));
    KVC_TRY(same("requests, admitted or not", all, s_.requests.count()));
    KVC_TRY(same("requests admitted", admitted, s_.requests.admissions.num_admitted()));
    KVC_TRY(lost_reuse());
    KVC_CHECK(s_.requests.features.get<Headroom>().intact(),
              "the counts of lengths do not sum to their total");
    return KVC_OK;
  }

  // Each loss is counted whole, by one group or another, and by none of them twice.
  kvc_status lost_reuse() {
    const uint64_t all = s_.counters.lost_reuse_tokens;
    uint64_t sum = 0;
    for (uint32_t g = 0; g < shape_.num_groups; ++g) {
      const uint64_t tokens = s_.requests.admissions.lost(g).total();
      KVC_CHECK(tokens <= all, "group %u lost %llu tokens of %llu", g, ull(tokens), ull(all));
      sum += tokens;
    }
    KVC_CHECK(sum >= all, "all groups lost %llu tokens of %llu", ull(sum), ull(all));
    return KVC_OK;
  }

  kvc_status request(size_t i, const Request& r) {
    KVC_CHECK((r.lost == 0) == (r.lost_reason == 0) && r.lost_reason <= KVC_LOST_AGREEMENT &&
                  r.lost_group < shape_.num_groups,
              "request %zu lost %u tokens, reason %u, group %u", i, r.lost, r.lost_reason, r.lost_group);
    KVC_CHECK(r.committed <= r.known && r.committed <= r.capacity,
              "request %zu: committed %u, known %u, capacity %u", i, r.committed, r.known, r.capacity);
    KVC_CHECK(r.tail_base <= r.published_tokens() && r.known - r.tail_base <= r.tail.capacity,
              "request %zu: its tail does not cover its tokens", i);
    KVC_CHECK(r.cross_positions == (r.admitted ? shape_.positions_of(r.cross_tokens) : 0) &&
                  (!r.cross_pending || (r.admitted && r.cross_tokens != 0 && r.append_limit == 0)),
              "request %zu: %u positions for %u tokens of its encoder", i, r.cross_positions, r.cross_tokens);
    const size_t broken = first_broken_key(r.key_list(), shape_.max_request_tokens);
    KVC_CHECK(broken == r.num_keys,
              "request %zu: its extra key %zu is out of order, linked wrong or too many", i, broken);
    if (!r.admitted) {
      KVC_CHECK(r.append_limit == 0, "request %zu waits with an open lane", i);
      KVC_CHECK(r.positions == 0 && r.capacity == 0 && r.tail_base == 0,
                "request %zu waits but has %u positions", i, r.positions);
      KVC_CHECK(r.num_hashes == r.known / shape_.block_size && r.hashed == r.num_hashes,
                "request %zu waits with %u of %u hashes", i, r.num_hashes, r.known / shape_.block_size);
      return KVC_OK;
    }
    KVC_CHECK(r.positions == ceil_div(r.capacity, shape_.block_size),
              "request %zu: %u positions for a capacity of %u", i, r.positions, r.capacity);
    const Features& features = s_.requests.features;
    uint32_t enqueued = 0;
    features.each([&](const auto& feature) { feature.publish_ahead(r, &enqueued); });
    KVC_CHECK(r.published_tokens() <= std::max(r.committed, enqueued),
              "request %zu published %u tokens of %u, %u enqueued", i, r.published_tokens(), r.committed,
              enqueued);
    KVC_CHECK(s_.blocks.caches() || r.next_full == UINT32_MAX,
              "request %zu publishes, and prefix caching is off", i);
    if (is_node(r.cursor)) {
      KVC_CHECK(tree_.alive(r.cursor) && tree_[r.cursor].depth + 1 == r.published,
                "request %zu: its cursor is wrong", i);
      ++cursors_[static_cast<size_t>(raw(r.cursor))];
    } else {
      KVC_CHECK(r.published == 0, "request %zu published %u positions and has no cursor", i, r.published);
    }
    KVC_TRY(tables(i, r));
    KVC_TRY(features.try_each([&](const auto& feature) { return feature.check(i, r); }));
    for (uint32_t g = shape_.num_token_groups; g < shape_.num_groups; ++g) {
      for (size_t j = 0; j < r.cross_positions; ++j) ++holds(r.groups[g].blocks.data[j]).refs;
    }
    return lane(i, r);
  }

  kvc_status rows() {
    for (size_t row = 0; row < s_.rows.size(); ++row) {
      const Request* owner = s_.requests.table().find(s_.rows.owner(row));
      KVC_CHECK(owner == nullptr || owner->row == static_cast<int32_t>(row),
                "row %zu is kept for request %u, which is in row %d", row,
                s_.requests.table().index_of(*owner), owner->row);
    }
    return KVC_OK;
  }

  // What an open lane promises about the request's next tokens.
  kvc_status lane(size_t i, const Request& r) {
    if (r.known >= r.append_limit) return KVC_OK;
    const uint32_t position = r.known / shape_.block_size;
    KVC_CHECK(!r.tail_shared && r.append_limit <= (position + 1) * shape_.block_size &&
                  uint64_t{r.append_limit} + r.lookahead <= r.room &&
                  r.append_limit - r.tail_base <= r.tail.capacity,
              "request %zu: its lane goes to %u tokens, room is for %u", i, r.append_limit, r.room);
    KVC_CHECK(r.commit_limit < r.next_full && r.next_token == r.tail.data + (r.known - r.tail_base),
              "request %zu: its lane commits %u tokens, %u would be published", i, r.commit_limit,
              r.next_full);
    KVC_CHECK(r.slot_base ==
                  (int64_t{raw(r.groups[0].blocks.data[position])} - position) * int64_t{shape_.block_size},
              "request %zu: its lane leads to other slots than block %d", i,
              raw(r.groups[0].blocks.data[position]));
    for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
      const uint32_t tail = r.capacity / shape_.block_size;  // where capacity grows into
      if (tail < r.positions) {
        const Block& block = pool_[r.groups[g].blocks.data[tail]];
        KVC_CHECK(block.refs == 1 && block.external == 0 && block.pins == 0 && !is_node(block.node),
                  "request %zu, group %u: its lane goes on in a shared block", i, g);
      }
      KVC_CHECK(!shape_.groups[g].windowed() ||
                    r.groups[g].dropped >=
                        shape_.dropped_after(g, r.committed > r.commit_limit ? r.committed : r.commit_limit),
                "request %zu, group %u: its lane passes over window blocks", i, g);
    }
    return KVC_OK;
  }

  kvc_status tables(size_t i, const Request& r) {
    for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
      const GroupShape& shape = shape_.groups[g];
      const GroupTable& table = r.groups[g];
      NodeId node = r.cursor;
      for (size_t j = r.positions; j-- > 0;) {
        const BlockId id = table.blocks.data[j];
        const bool dropped = shape.windowed() && j >= shape.sinks && j < table.dropped;
        const bool hole = s_.requests.features.get<States>().may_lack(r, g, j);
        KVC_CHECK(is_block(id) != dropped || (hole && !is_block(id)),
                  "request %zu, group %u, position %zu: block %d, returned positions end at %u", i, g, j,
                  raw(id), table.dropped);
        const NodeId here = j < r.published ? node : kNoNode;
        if (j < r.published) node = tree_[node].parent;
        if (!is_block(id)) continue;
        KVC_CHECK(pool_.exists(raw(id)) && pool_[id].pool == shape.pool && pool_[id].group == g,
                  "request %zu, group %u, position %zu: block %d is not of this group", i, g, j, raw(id));
        KVC_CHECK(j >= r.published || pool_[id].node == here || !is_node(pool_[id].node),
                  "request %zu, group %u, position %zu: block %d is published elsewhere", i, g, j, raw(id));
        KVC_CHECK(pool_[id].content != Content::kEmpty || j * shape_.block_size >= r.committed,
                  "block %d holds committed tokens, marked unwritten", raw(id));
        ++holds(id).refs;
      }
    }
    return KVC_OK;
  }

  // Sources of copies are held: those of single calls until they are taken, those of a step until it ends.
  void copies_in_progress() {
    const auto hold = [&](const CopyList& list) {
      for (size_t i = 0; i < list.count; ++i) ++holds(BlockId{list.out[i].source}).refs;
    };
    hold(s_.requests.waiting_copies.list());
    for (const CopyList* step = s_.steps.executing(); step != nullptr; step = step->next) hold(*step);
  }

  // Of pins and of registered prompts.
  kvc_status pins() {
    const auto hold = [&](NamespaceId ns, const BlockId* blocks, size_t length) {
      ++users_[ns];
      for (size_t j = 0; j < length * shape_.num_token_groups; ++j) {
        if (is_block(blocks[j])) ++holds(blocks[j]).pins;
      }
    };
    s_.each_pin([&](size_t, const Pin& pin) { hold(pin.ns, pin.blocks.data, pin.length); });
    size_t broken = SIZE_MAX;
    s_.prompts.each([&](size_t i, const RegisteredPrompt& prompt) {
      hold(prompt.ns, prompt.blocks.data, prompt.num_pinned);
      if (first_broken_key(prompt.key_list(), prompt.num_tokens) != prompt.num_keys) broken = i;
    });
    KVC_CHECK(broken == SIZE_MAX, "prompt %zu: its extra keys are broken", broken);
    return KVC_OK;
  }

  // The blocks of one list, as many as are counted; `visit` looks at what is particular to it.
  template <typename Visit>
  kvc_status list(size_t p, List kind, const char* name, uint64_t counted, Visit&& visit) {
    uint64_t length = 0;
    KVC_TRY(s_.each_listed(p, kind, [&](BlockId id, const Block& block) -> kvc_status {
      KVC_CHECK(block.list == kind && block.pool == p && length++ <= counted, "%s of pool %zu holds block %d",
                name, p, raw(id));
      return StateReader::call(visit, id, block);
    }));
    return same("pool", p, name, length, counted);
  }

  // A list has the blocks in the order in which they came, unless they were moved, and those of its class and
  // level.
  kvc_status order(size_t p, uint32_t list) {
    const Place place = pool_.shelves().place_of(list);
    const Quotas& quotas = s_.blocks.quotas();
    const Retention& retention = tree_.notes().retention();
    uint64_t before = UINT64_MAX;
    return s_.each_from(pool_.lru_head(p, list), [&](BlockId id, const Block& block) -> kvc_status {
      const uint64_t age = pool_.shelves().age(id);
      KVC_CHECK(age != 0 && (age < before || shape_.policy->moves_fragments),
                "list %u of pool %zu: block %d came %llu blocks ago, the one before it %llu", list, p,
                raw(id), ull(age), ull(before));
      before = age;
      KVC_CHECK(
          !retention.on() || tree_.stale(tree_[block.node]) || retention.level(block.node) == place.level,
          "block %d of level %u waits in list %u of pool %zu", raw(id), retention.level(block.node), list, p);
      KVC_CHECK(!quotas.on() || quotas.class_of(id) == place.cls,
                "block %d waits in class %u and counts for class %u", raw(id), place.cls,
                quotas.class_of(id));
      return KVC_OK;
    });
  }

  kvc_status lists(size_t p) {
    const PoolCounts& counts = pool_.counts(p);
    size_t stale = 0;
    KVC_TRY(list(p, List::kFree, "FREE", counts.free, [](BlockId, const Block&) {}));
    KVC_TRY(list(p, List::kLru, "LRU", counts.lru, [&](BlockId id, const Block& block) -> kvc_status {
      KVC_CHECK(is_node(block.node), "LRU of pool %zu holds block %d", p, raw(id));
      const Node& node = tree_[block.node];
      ++(tree_.stale(node) ? stale : cached(node.ns, p));
      return KVC_OK;
    }));
    for (uint32_t list = 0; list < pool_.shelves().num_divided(); ++list) KVC_TRY(order(p, list));
    const Block* before = nullptr;
    KVC_TRY(
        list(p, List::kFenced, "FENCED", counts.fenced, [&](BlockId id, const Block& block) -> kvc_status {
          KVC_CHECK(before == nullptr || static_cast<int32_t>(block.fence - before->fence) >= 0,
                    "FENCED of pool %zu is out of order", p);
          KVC_CHECK(!pool_.fence_passed(block, s_.blocks.retired()), "block %d is fenced by a retired step",
                    raw(id));
          before = &block;
          return KVC_OK;
        }));
    return same("pool", p, "stale", stale, counts.stale);
  }

  kvc_status blocks(size_t p) {
    const PoolCounts& counts = pool_.counts(p);
    uint64_t num_held = 0, reserved = 0, pinned = 0, filling = 0, listed = 0;
    KVC_TRY(s_.each_block(p, [&](BlockId id, const Block& block) -> kvc_status {
      const Holds& holds = this->holds(id);
      const bool held = block.list == List::kHeld;
      num_held += held;
      KVC_CHECK(held == block.held(), "block %d: list %d with %u references, %u external holds, %u pins",
                raw(id), static_cast<int>(block.list), block.refs, block.external, block.pins);
      KVC_CHECK(block.refs == holds.refs && block.pins == holds.pins,
                "block %d: %u references and %u pins; tables have %u, pins %u", raw(id), block.refs,
                block.pins, holds.refs, holds.pins);
      KVC_CHECK(!is_node(block.node) || block.list != List::kFree, "block %d is free and published", raw(id));
      KVC_CHECK(!is_node(block.node) || block.content != Content::kEmpty, "block %d is published and empty",
                raw(id));
      KVC_CHECK(pool_.filling().intact(block), "block %d of LRU is filling", raw(id));
      num_filling_ += block.content == Content::kFilling;
      filling += held && block.content == Content::kFilling;
      KVC_CHECK(is_node(block.node) || block.next_copy == id, "block %d is not published and has copies",
                raw(id));
      reserved += held && block.content == Content::kEmpty;
      pinned += held && block.refs == 0 && block.external == 0;
      return is_node(block.node) ? copies(id) : KVC_OK;
    }));
    KVC_TRY(same("pool", p, "blocks reserved", reserved, counts.reserved));
    KVC_TRY(same("pool", p, "blocks pinned", pinned, counts.pinned));
    KVC_TRY(s_.each_from(pool_.filling().head(p), [&](BlockId id, const Block& block) -> kvc_status {
      KVC_CHECK(block.list == List::kHeld && block.content == Content::kFilling && ++listed <= filling,
                "block %d does not belong to those that are filling", raw(id));
      return KVC_OK;
    }));
    KVC_TRY(same("pool", p, "blocks filling", filling, counts.filling));
    KVC_TRY(same("pool", p, "blocks filling in a list", listed, filling));
    return same("pool", p, "blocks", num_held + counts.free + counts.lru + counts.fenced, counts.size);
  }

  kvc_status copies(BlockId id) {
    const Block& block = pool_[id];
    KVC_CHECK(tree_.alive(block.node), "block %d hangs on a dead node", raw(id));
    const BlockId first = tree_.block_of(block.node, block.group);
    KVC_CHECK(is_block(first) && pool_[first].node == block.node && tree_.copies().intact(id),
              "block %d is not behind the first copy, %d", raw(id), raw(first));
    ++num_published_;
    if (first != id) return KVC_OK;
    size_t idle = 0, count = 0;
    KVC_TRY(s_.each_copy(id, [&](BlockId copy) -> kvc_status {
      KVC_CHECK(
          pool_[copy].node == block.node && pool_[copy].group == block.group && ++count <= pool_.num_ids(),
          "the copies of block %d are broken", raw(id));
      KVC_CHECK(tree_.copies().intact(copy), "the copies of block %d are broken at block %d", raw(id),
                raw(copy));
      idle += pool_[copy].list == List::kLru;
      return KVC_OK;
    }));
    num_in_rings_ += count;
    KVC_CHECK(idle <= 1, "block %d has %zu idle copies", raw(id), idle);
    return KVC_OK;
  }

  kvc_status nodes() {
    size_t alive = 0;
    for (size_t i = 0; i < tree_.places().used(); ++i) {
      const NodeId id{static_cast<int32_t>(i)};
      if (!tree_.alive(id)) continue;
      ++alive;
      ++nodes_of_[tree_[id].ns];
      KVC_TRY(node(id, tree_[id]));
    }
    for (NodeId id = tree_.first_orphan(); is_node(id); id = tree_[id].hash_next) {
      ++alive;
      ++nodes_of_[tree_[id].ns];
      KVC_CHECK(alive <= tree_.places().used(), "the orphans go in circles");
    }
    KVC_CHECK(tree_.notes().retention().deadlines().intact(), "the deadlines of hints are broken");
    KVC_CHECK(tree_.notes().uses().intact(), "the uses of evicted positions are broken");
    KVC_TRY(same("nodes in use", alive, s_.counters.nodes_used));
    KVC_CHECK(tree_.places().intact(s_.counters.nodes_used), "the places of unused nodes are broken");
    return KVC_OK;
  }

  kvc_status node(NodeId id, const Node& node) {
    const auto i = static_cast<size_t>(raw(id));
    KVC_CHECK(node.resident != 0 || node.holds != 0 || is_node(node.first_child),
              "node %zu has no block, child or holder", i);
    KVC_CHECK(node.holds == cursors_[i], "node %zu has %u holders, %u cursors", i, node.holds, cursors_[i]);
    KVC_CHECK(
        !is_node(node.parent) || (tree_.alive(node.parent) && tree_[node.parent].depth + 1 == node.depth &&
                                  tree_[node.parent].ns == node.ns && tree_[node.parent].epoch == node.epoch),
        "node %zu hangs on a wrong parent", i);
    const Notes& notes = tree_.notes();
    KVC_CHECK(node.resident != 0 ||
                  (notes.retention().level(id) == kDefaultLevel && notes.retention().deadlines().of(id) == 0),
              "node %zu has a hint and no block", i);
    uint32_t resident = 0;
    for (uint32_t g = 0; g < shape_.num_groups; ++g) {
      const BlockId block = tree_.block_of(id, g);
      if (!is_block(block)) continue;
      resident |= 1u << g;
      KVC_CHECK(pool_[block].node == id && pool_[block].group == g, "node %zu: block %d hangs elsewhere", i,
                raw(block));
    }
    KVC_TRY(s_.requests.features.try_each(
        [&](const auto& feature) { return feature.check_position(id, resident); }));
    KVC_CHECK(resident == node.resident, "node %zu: resident mask %x, groups with a block %x", i,
              node.resident, resident);
    KVC_CHECK(notes.uses().intact(id, resident != 0), "node %zu has %u uses, and groups with a block %x", i,
              notes.uses().of(id), resident);
    if (tree_.has_events() && !tree_.stale(node)) {
      KVC_CHECK(tree_.waypoint_group(id) < 0 || resident == 0, "node %zu is told of as without a block, %x",
                i, resident);
      KVC_CHECK(!tree_.is_told(id) || tree_.is_told(node.parent),
                "node %zu is told of, and the position before it is not", i);
    }
    const ExtraView none;
    KVC_CHECK(
        node.extra != nullptr || tree_.find(node.parent, node.key, tree_.tokens(id), none, node.epoch) == id,
        "node %zu is not found by its content", i);
    KVC_CHECK(children_are_linked(id), "the children of node %zu are broken", i);
    return KVC_OK;
  }

  bool children_are_linked(NodeId parent) const {
    NodeId before = kNoNode;
    for (NodeId id = tree_.first_child(parent); is_node(id); before = id, id = tree_[id].sibling_next)
      if (tree_[id].parent != parent || tree_[id].sibling_prev != before) return false;
    return true;
  }

  kvc_status namespace_of(NamespaceId ns) {
    const Namespace& entry = s_.namespaces()[ns];
    KVC_TRY(same("namespace", ns, "nodes", nodes_of_[ns], entry.num_nodes));
    KVC_TRY(same("namespace", ns, "users", users_[ns], entry.users));
    KVC_CHECK(children_are_linked(root_of(ns)), "the first positions of namespace %u are broken", raw(ns));
    for (size_t p = 0; p < shape_.num_pools; ++p)
      KVC_CHECK(cached(ns, p) == s_.namespaces().cached(ns, p),
                "namespace %u has %llu cached blocks in pool %zu, %llu counted", raw(ns),
                static_cast<unsigned long long>(cached(ns, p)), p,
                static_cast<unsigned long long>(s_.namespaces().cached(ns, p)));
    return KVC_OK;
  }

  // What the classes have of a pool, and what they still lack.
  kvc_status shares(size_t p) {
    const Quotas& quotas = s_.blocks.quotas();
    Quotas::Share found[Shelves::kMaxClasses] = {};
    KVC_TRY(s_.each_block(p, [&](BlockId id, const Block& block) -> kvc_status {
      if (block.list == List::kFree) return KVC_OK;
      const uint32_t cls = quotas.class_of(id);
      KVC_CHECK(cls < quotas.num_classes() && quotas.tenant(cls).taken,
                "block %d is of class %u, which nobody has", raw(id), cls);
      const uint64_t payer = quotas.payer(id);
      const bool open = payer != kNoPayer && s_.namespaces().is_open(payer);
      const uint32_t wanted = open ? raw(s_.blocks.shares.class_of(payer == 0 ? 0 : handle_index(payer))) : 0;
      const bool stale = block.list == List::kLru && tree_.stale(tree_[block.node]);
      KVC_CHECK(cls == wanted || stale, "block %d is of class %u, its namespace of %u", raw(id), cls, wanted);
      if (block.list == List::kLru) {
        found[cls].cached += !stale;
        KVC_CHECK(stale || s_.blocks.shares.class_of(tree_[block.node].ns) == cls,
                  "block %d is cached for a namespace of class %u, and counts for class %u", raw(id),
                  raw(s_.blocks.shares.class_of(tree_[block.node].ns)), cls);
      } else {
        ++found[cls].held;
        found[cls].fenced += block.list == List::kFenced;
      }
      return KVC_OK;
    }));
    uint64_t lacking = 0, above = 1;
    for (uint32_t cls = 0; cls < quotas.num_classes(); ++cls) {
      const Quotas::Share &share = quotas.share(cls, p), &f = found[cls];
      KVC_CHECK(share.held == f.held && share.cached == f.cached && share.fenced == f.fenced,
                "class %u holds %llu, %llu fenced, %llu cached blocks of pool %zu; counted %llu, %llu, %llu",
                cls, ull(f.held), ull(f.fenced), ull(f.cached), p, ull(share.held), ull(share.fenced),
                ull(share.cached));
      lacking += share.unmet();
      above |= uint64_t{share.used() > share.min} << cls;
    }
    KVC_CHECK(
        lacking == quotas.lacking(p) && above == quotas.above(p) && lacking <= pool_.counts(p).available(),
        "the classes lack %llu blocks of pool %zu, counted %llu; %llu are available", ull(lacking), p,
        ull(quotas.lacking(p)), ull(pool_.counts(p).available()));
    return KVC_OK;
  }

  kvc_status zeroing() {
    const Zeroing& list = s_.blocks.zeroing();
    size_t listed = 0;
    for (size_t i = 0; list.on() && i < pool_.num_ids(); ++i)
      listed += list.listed(BlockId{static_cast<int32_t>(i)});
    return same("blocks to be cleared", listed, list.count());
  }

  kvc_status tenants() {
    const Quotas& quotas = s_.blocks.quotas();
    for (uint32_t cls = 0; cls < quotas.num_classes(); ++cls) {
      const Quotas::Tenant& tenant = quotas.tenant(cls);
      KVC_TRY(same("class", cls, "admitted requests", admitted_of_[cls], tenant.admitted));
      KVC_CHECK(cls == 0 || !tenant.taken || s_.namespaces()[tenant.ns].quota == cls,
                "class %u belongs to namespace %u, which has class %u", cls, raw(tenant.ns),
                raw(s_.namespaces()[tenant.ns].quota));
    }
    return KVC_OK;
  }

  Holds& holds(BlockId id) { return holds_[static_cast<size_t>(raw(id))]; }
  size_t& cached(NamespaceId ns, size_t pool) { return cached_[ns * shape_.num_pools + pool]; }

  const StateReader& s_;
  const BlockPool& pool_;
  const PrefixTree& tree_;
  const Shape& shape_;
  Memory scratch_;
  Array<Holds> holds_;
  Array<uint32_t> cursors_;
  Array<uint32_t> users_;
  Array<uint32_t> nodes_of_;  // per namespace
  Array<size_t> cached_;
  uint64_t num_filling_ = 0;
  size_t num_published_ = 0, num_in_rings_ = 0;
  uint64_t admitted_of_[Shelves::kMaxClasses] = {};  // per class
};

}  // namespace

kvc_status StateReader::check(const Env& env) const { return Checker(*this, env).run(); }

}  // namespace kvc
