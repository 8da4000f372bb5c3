// SPDX-License-Identifier: Apache-2.0
// Reads what a manager has cached (contents.h): a few positions and blocks at a time under the lock, so that
// others wait for no longer than for an admission; the rest of the work is done without it.
//
// First come the positions, with the block that stands for each group; a tree reader keeps the place between
// two slices, so that all positions before it are as they were read. Then the lists say in which order the
// blocks would leave. If nobody changes the manager meanwhile, what is read is its state. Else positions and
// blocks may have gone since they were read; whoever needs the bytes of one asks for it anew
// (ContentsHolder). A block that was used while the lists were read counts as one in use.
//
// With KVC_MANAGER_PARTIAL_REUSE a position that gets its first block moves before its siblings. The walk may
// have passed that place, or comes by some siblings once more: so what has moved is read again, and what was
// read twice is made one in the end.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "manager/contents.h"
#include "manager/cross.h"
#include "manager/manager.h"

namespace kvc {
namespace {

class ContentsReader {
 public:
  ContentsReader(const StateReader& state, Monitor& monitor, Contents& out,
                 const std::function<void()>& between)
      : state_(state), hold_(monitor), out_(out), between_(between) {}

  // The lock is held on return from each of these, and let go when the reader ends.
  void read(bool requests, size_t positions) {
    out_.block_size = state_.shape.block_size;
    out_.num_groups = state_.shape.num_groups;
    out_.lists = state_.shape.list_kinds();
    position_of_.resize(state_.tree().places().size(), -1);
    entry_of_block_.resize(state_.shape.num_ids + 1, kNone);
    prompt_pins_.resize(entry_of_block_.size(), 0);
    first_unopened_.resize(state_.shape.num_pools, UINT64_MAX);
    moved_here_.resize(4096);
    order_.reserve(entry_of_block_.size());
    reserve_positions(positions + SlicedHold::kSlice);
    make_room(SlicedHold::kSlice);
    hold_.begin();
    changes_ = hold_.changes();
    out_.lineage = state_.blocks.lineages().current();
    read_namespaces();
    read_quotas();
    read_prompts();
    for (size_t i = 0; i < out_.namespaces.size(); ++i) read_positions(i);
    for (size_t p = 0; p < state_.shape.num_pools; ++p) read_pool(p);
    if (requests) read_requests();
    out_.mixed = out_.lineage != state_.blocks.lineages().current();
    hold_.end();
  }

  // Without the lock.
  void finish() {
    if (any_moved_) merge_twins();
    put_in_order();
    for (const uint32_t i : order_) {
      if (found_[i].block >= 0)
        pool_of(found_[i]).blocks.push_back(found_[i]);  // else another one stands for it
    }
    std::vector<Contents::Cached> used;
    bool all_free = hold_.changes() == changes_;
    for (const Found& one : found_) {
      if (one.is_listed || one.block < 0) continue;
      all_free = all_free && one.kept_by_prompts;
      used.push_back(one);
    }
    std::stable_sort(used.begin(), used.end(), [&](const Contents::Cached& a, const Contents::Cached& b) {
      const uint32_t x = out_.positions[a.position].depth, y = out_.positions[b.position].depth;
      return x != y ? x > y : a.position > b.position;
    });
    for (Contents::Cached& one : used) {
      one.in_use = 1, one.shelf = 0, one.age = 0;
      one.level = out_.positions[one.position].level;
      pool_of(one).blocks.push_back(one);
    }
    for (size_t p = 0; p < out_.pools.size(); ++p) {
      Contents::Pool& pool = out_.pools[p];
      for (uint64_t i = first_unopened_[p]; all_free && i < pool.first + pool.size; ++i)
        pool.free.push_back(static_cast<int32_t>(i));
      if (!all_free || pool.free.size() + pool.blocks.size() != pool.size) pool.free.clear();
    }
    out_.longest_hold = hold_.longest();
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Found : Contents::Cached {
    bool kept_by_prompts;  // alone
    bool is_listed = false;
  };

  Contents::Pool& pool_of(const Contents::Cached& cached) {
    return out_.pools[state_.shape.groups[cached.group].pool];
  }
  int32_t& position_of(NodeId id) { return position_of_[static_cast<size_t>(raw(id))]; }
  int32_t parent_of(const Node& node) { return is_node(node.parent) ? position_of(node.parent) : -1; }
  uint32_t& entry_of(BlockId id) { return entry_of_block_[static_cast<size_t>(raw(id))]; }

  // Lets others in before so much more is visited, if this slice is long enough. True if somebody may have
  // changed something since.
  bool pause(uint64_t more = 1, size_t positions = SlicedHold::kSlice) {
    if (!hold_.is_long(more)) return false;
    const uint64_t before = hold_.changes();
    hold_.end();
    try {
      make_room(positions);
      if (between_) between_();
    } catch (...) {
      hold_.begin();  // a reader leaves the tree with the lock
      throw;
    }
    hold_.begin();
    return hold_.changes() != before;
  }

  // A reader that rests in the tree meanwhile.
  struct Rest {
    Rest(const PrefixTree& in, TreeReader& one) : tree(in), reader(one) { tree.readers().join(reader); }
    ~Rest() { tree.readers().leave(reader); }
    Rest(const Rest&) = delete;
    Rest& operator=(const Rest&) = delete;
    const PrefixTree& tree;
    TreeReader& reader;
  };

  void reserve_positions(size_t positions) {
    const size_t most = out_.positions.size() + positions + 1;
    if (most > out_.positions.capacity()) {
      const size_t wanted = std::max(most, 2 * out_.positions.capacity());
      out_.positions.reserve(wanted);
      out_.nodes.reserve(wanted);
      keys_.reserve(wanted);
      out_.tokens.reserve(wanted * out_.block_size);
    }
  }
  // Memory for the next slice, so that it grows without the lock.
  void make_room(size_t positions) {
    reserve_positions(positions);
    if (const size_t blocks = found_.size() + (positions + 1) * out_.num_groups; blocks > found_.capacity())
      found_.reserve(std::max(blocks, 2 * found_.capacity()));
  }

  void read_namespaces() {
    const NamespaceTable& all = state_.namespaces();
    const uint32_t count = all.size();
    entry_of_.resize(count, kNone);
    for (uint32_t i = 0; i < count; ++i) {
      hold_.visit();
      pause();
      if (i != 0 && all[i].opens == 0) continue;
      entry_of_[i] = static_cast<uint32_t>(out_.namespaces.size());
      Contents::NamespaceEntry entry;
      if (i != 0) entry.identity.assign(all[i].identity, all[i].identity_size);
      entry.opens = all[i].opens;
      entry.epoch = all.epoch(i);
      entry.id = all.id(i);
      entry.digest = all[i].digest;
      out_.namespaces.push_back(std::move(entry));
      index_of_.push_back(i);
    }
  }

  // The entry of a namespace that is still open; kNone = it came later, or was closed.
  uint32_t entry_of(NamespaceId ns) const {
    if (ns >= entry_of_.size() || entry_of_[ns] == kNone) return kNone;
    const NamespaceTable& all = state_.namespaces();
    const bool is_open = ns == 0 || all[ns].opens != 0;
    return is_open && all.id(ns) == out_.namespaces[entry_of_[ns]].id ? entry_of_[ns] : kNone;
  }
  // Whether its positions are those that were read: it was not closed or reset.
  bool is_same_epoch(NamespaceId ns, size_t entry) const {
    return entry_of(ns) == entry && state_.namespaces().epoch(ns) == out_.namespaces[entry].epoch;
  }

  // Of one moment, in the end by one hold: minimums of several moments may be more than a pool has.
  void read_quotas() {
    constexpr int kTries = 8;
    for (int i = 0; i < kTries && !read_quotas(i + 1 < kTries); ++i) out_.quotas.clear();
  }
  // False: somebody may have changed some meanwhile.
  bool read_quotas(bool pauses) {
    const Quotas& quotas = state_.blocks.quotas();
    for (uint32_t cls = 1; cls < quotas.num_classes(); ++cls) {
      if (pauses && pause(state_.shape.num_pools) && cls != 1) return false;
      hold_.visit(state_.shape.num_pools);
      if (!quotas.tenant(cls).taken) continue;
      const uint32_t entry = entry_of(quotas.tenant(cls).ns);
      if (entry == kNone) continue;
      for (uint32_t p = 0; p < state_.shape.num_pools; ++p) {
        const Quotas::Share& share = quotas.share(cls, p);
        out_.quotas.push_back({entry, cls, p, 0, share.min, share.max});
      }
    }
    return true;
  }

  void read_prompts() {
    prompt_of_.resize(state_.prompts.num_records(), 0);
    std::unordered_map<std::string, size_t> number_of;  // of a name, in the contents
    for (size_t i = 0; i < prompt_of_.size(); ++i) {
      hold_.visit();
      pause();
      const RegisteredPrompt* prompt = state_.prompts.at(i);
      if (prompt == nullptr) continue;
      pause(prompt->num_positions + size_t{prompt->num_pinned} * state_.shape.num_token_groups);
      prompt = state_.prompts.at(i);
      if (prompt == nullptr || entry_of(prompt->ns) == kNone) continue;
      Contents::NamedPrompt out;
      out.name.assign(prompt->name.data, prompt->name_size);
      out.ns = entry_of(prompt->ns);
      out.index = static_cast<uint32_t>(i);
      out.num_pinned = prompt->num_pinned;
      out.tokens.assign(prompt->tokens.data, prompt->tokens.data + prompt->num_tokens);
      for (size_t k = 0; k < prompt->num_keys; ++k) out.keys.push_back(prompt->keys.data[k].plain());
      const size_t count = size_t{prompt->num_pinned} * state_.shape.num_token_groups;
      for (size_t j = 0; j < count; ++j) {
        if (is_block(prompt->blocks.data[j]))
          ++prompt_pins_[static_cast<size_t>(raw(prompt->blocks.data[j]))];
      }
      hold_.visit(prompt->num_positions + count);
      const auto [known, is_new] = number_of.try_emplace(out.name, out_.prompts.size());
      if (is_new) {
        out_.prompts.push_back(std::move(out));
      } else {  // it was registered anew since it was read
        Contents::NamedPrompt& before = out_.prompts[known->second];
        prompt_of_[before.index] = 0;
        before = std::move(out);
      }
      prompt_of_[i] = static_cast<uint32_t>(known->second) + 1;
    }
  }

  // All positions of a namespace.
  void read_positions(size_t entry) {
    constexpr int kTries = 4;
    TreeReader reader;
    reader.moved = moved_here_.data(), reader.moved_capacity = moved_here_.size();
    first_position_ = out_.positions.size();
    for (int i = 0; i < kTries && is_same_epoch(index_of_[entry], entry); ++i) {
      moved_.clear(), is_moved_.clear(), missed_moves_ = false;
      reader.at = root_of(index_of_[entry]);
      if (!walk(entry, reader, state_.tree().first_child(reader.at), kNoNode)) return;
      if (!read_moved(entry, reader) || !missed_moves_) return;
    }
  }

  // What is below reader.at from its child `next` on, newest sibling first, depth first; with `only` no more
  // than that child and what is below. False: there is no more to read.
  bool walk(size_t entry, TreeReader& reader, NodeId next, NodeId only) {
    const PrefixTree& tree = state_.tree();
    const NodeId top = reader.at;
    for (;;) {
      hold_.visit();
      if (is_node(next)) {
        if (tree.alive(next)) {
          read_position(next);
          reader.at = next;
          next = tree[next].first_child;
        } else {
          next = tree[next].sibling_next;
        }
      } else if (is_node(reader.at) && reader.at != top) {
        next = reader.at == only ? kNoNode : tree[reader.at].sibling_next;
        reader.at = tree[reader.at].parent;
      } else {
        return true;
      }
      if (!hold_.is_long(2 + 2 * uint64_t{state_.shape.num_groups})) continue;
      if (!rest(entry, reader, &next)) return false;
      if (is_node(only) && reader.at == top) return true;  // it is gone, or all of it was read
    }
  }

  // A pause in which the reader keeps its place. `positions`: that come next at most.
  bool rest(size_t entry, TreeReader& reader, NodeId* next, size_t positions = SlicedHold::kSlice) {
    const NamespaceId ns = index_of_[entry];
    reader.behind = *next, reader.num_moved = 0;
    {
      const Rest resting(state_.tree(), reader);
      pause(SlicedHold::kSlice, positions);
    }
    *next = reader.behind;
    any_moved_ = any_moved_ || reader.num_moved != 0;
    missed_moves_ = missed_moves_ || reader.num_moved > reader.moved_capacity;
    for (size_t i = 0; i < std::min(reader.num_moved, reader.moved_capacity); ++i) {
      const NodeId id = reader.moved[i];
      if (state_.tree()[id].ns == ns && is_moved_.insert(raw(id)).second) moved_.push_back(id);
    }
    // The bound: others may move positions again and again.
    return is_same_epoch(ns, entry) &&
           out_.positions.size() - first_position_ <= 4 * state_.tree().places().size();
  }

  // What has come before its siblings since, and may have been behind the walk: its way, and all below.
  bool read_moved(size_t entry, TreeReader& reader) {
    const PrefixTree& tree = state_.tree();
    const NamespaceId ns = index_of_[entry];
    const auto visits = [&](NodeId id) {
      return (uint64_t{tree[id].depth} + 1) * (1 + state_.shape.num_groups);
    };
    std::vector<NodeId> way;
    for (size_t i = 0; i < moved_.size(); ++i) {  // more may come
      const NodeId id = moved_[i];
      is_moved_.erase(raw(id));  // it may move once more
      if (tree.alive(id) && hold_.is_long(visits(id))) {
        reader.at = root_of(ns);
        NodeId none = kNoNode;
        way.reserve(tree[id].depth);
        if (!rest(entry, reader, &none, tree[id].depth + SlicedHold::kSlice)) return false;
      }
      if (!tree.alive(id) || tree[id].ns != ns) continue;
      hold_.visit(tree[id].depth);
      way.clear();
      for (NodeId at = tree[id].parent; is_node(at); at = tree[at].parent) way.push_back(at);
      for (size_t j = way.size(); j-- > 0;) {
        if (!is_read(way[j])) read_position(way[j]);
      }
      reader.at = tree[id].parent;
      if (!walk(entry, reader, id, id)) return false;
    }
    return true;
  }

  // Whether the node, whose parent was read, is the position that was read at its place.
  bool is_read(NodeId id) {
    const Node& node = state_.tree()[id];
    if (position_of(id) < 0) return false;
    const auto index = static_cast<size_t>(position_of(id));
    const Contents::Position& position = out_.positions[index];
    return out_.nodes[index] == id && position.parent == parent_of(node) &&
           position.ns == entry_of_[node.ns] &&
           out_.has_content(index, state_.tree().tokens(id), ExtraSpans(node.extra));
  }

  void read_position(NodeId id) {
    const PrefixTree& tree = state_.tree();
    const Node& node = tree[id];
    const int32_t parent = parent_of(node);
    position_of(id) = -1;
    if (tree.stale(node) || (is_node(node.parent) && parent < 0)) return;
    const auto index = static_cast<uint32_t>(out_.positions.size());
    position_of(id) = static_cast<int32_t>(index);
    Contents::Position position = {};
    position.parent = parent;
    position.ns = entry_of_[node.ns];
    position.depth = node.depth;
    position.uses = tree.notes().uses().of(id);
    const Retention& retention = tree.notes().retention();
    position.level = retention.level(id);
    if (const uint64_t until = retention.deadlines().of(id); until != 0)
      position.left_ns = until - retention.deadlines().now();
    const ExtraSpans spans(node.extra);
    position.first_span = out_.spans.size();
    position.num_spans = static_cast<uint32_t>(spans.count);
    out_.spans.insert(out_.spans.end(), spans.data, spans.data + spans.count);
    for (const uint32_t g : bits_of(node.resident)) {
      if (read_block(tree.block_of(id, g), index, g)) position.resident |= 1u << g;
    }
    out_.positions.push_back(position);
    out_.nodes.push_back(id);
    keys_.push_back(node.key);
    const int32_t* tokens = tree.tokens(id);
    out_.tokens.insert(out_.tokens.end(), tokens, tokens + state_.shape.block_size);
  }

  // The copy of a position that waits in a list, or one that is written and held.
  bool read_block(BlockId first, uint32_t position, GroupIndex group) {
    BlockId found = kNoBlock;
    bool waits = false;
    state_.each_copy(first, [&](BlockId id) {
      const Block& block = state_.pool()[id];
      hold_.visit();
      if (waits || block.content != Content::kWritten) return;
      waits = block.list == List::kLru;
      if (waits || !is_block(found)) found = id;
    });
    if (!is_block(found)) return false;
    const Block& block = state_.pool()[found];
    uint32_t& entry = entry_of(found);
    if (entry != kNone) {  // it has left the position where it was seen
      out_.positions[found_[entry].position].resident &= ~(1u << found_[entry].group);
      found_[entry].block = -1;
    }
    entry = static_cast<uint32_t>(found_.size());
    const bool kept_by_prompts = block.list == List::kHeld && block.refs == 0 && block.external == 0 &&
                                 block.pins == prompt_pins_[static_cast<size_t>(raw(found))];
    found_.push_back({{position, group, raw(found), 0, 0, 0, 0}, kept_by_prompts});
    return true;
  }

  void read_pool(size_t p) {
    const BlockPool& pool = state_.pool();
    Contents::Pool out;
    out.first = pool.counts(p).first;
    out.size = pool.counts(p).size;
    for (uint32_t list = 0; list < pool.shelves().num_lists(); ++list) read_list(p, list);
    read_free(p, &out);
    out_.pools.push_back(std::move(out));
  }

  // In the order in which they leave.
  void read_list(size_t p, uint32_t list) {
    const BlockPool& pool = state_.pool();
    const Place place = pool.shelves().place_of(list);
    const size_t begin = order_.size();
    uint64_t left = 2 * pool.counts(p).size;  // others may push blocks while this goes on
    hold_.visit();
    pause();
    BlockId id = pool.lru_head(p, list);
    while (!pool.at_end(id) && left-- != 0) {
      hold_.visit();
      const uint32_t entry = entry_of(id);
      if (entry != kNone && !found_[entry].is_listed && is_same(found_[entry], pool[id])) {
        Found& one = found_[entry];
        one.level = place.level, one.shelf = place.shelf;
        one.age = pool.shelves().age(id);
        one.is_listed = true;
        order_.push_back(entry);
      }
      id = pause() ? go_on(p, list, begin) : pool[id].next;
    }
  }

  bool is_same(const Found& one, const Block& block) const {
    return block.list == List::kLru && block.group == one.group && block.node == out_.nodes[one.position];
  }

  // Where a list goes on that others have changed: behind the last block that was read and has not left its
  // place. One that was used stands behind some that were not read.
  BlockId go_on(size_t p, uint32_t list, size_t begin) {
    const BlockPool& pool = state_.pool();
    for (size_t i = order_.size(), tries = SlicedHold::kSlice / 2; i-- > begin && tries-- != 0;) {
      const BlockId id{found_[order_[i]].block};
      hold_.visit();
      if (!is_same(found_[order_[i]], pool[id])) continue;
      const BlockId before = pool[id].prev;
      if (pool.at_end(before) || (entry_of(before) != kNone && found_[entry_of(before)].is_listed))
        return pool[id].next;
    }
    return pool.lru_head(p, list);
  }

  // The free blocks; none if somebody changes them meanwhile.
  void read_free(size_t p, Contents::Pool* out) {
    const BlockPool& pool = state_.pool();
    for (BlockId id = pool.free_top(p); is_block(id) && !pool.at_end(id); id = pool[id].next) {
      out->free.push_back(raw(id));
      hold_.visit();
      pause();
      if (hold_.changes() != changes_) return;
    }
    first_unopened_[p] = pool.first_unopened(p);
  }

  void read_requests() {
    const size_t count = state_.requests.table().size();
    for (size_t i = 0; i < count; ++i) {
      const Request& request = state_.requests.table()[i];
      const auto work = [&] { return request.id == 0 ? 1 : 1 + state_.shape.positions_of(request.known); };
      pause(work());
      hold_.visit(work());
      if (request.id != 0 && !request.building && entry_of(request.ns) != kNone) read_request(i, request);
    }
  }

  void read_request(size_t index, const Request& request) {
    Contents::WaitingRequest out = {};
    out.id = request.id;
    out.ns = entry_of_[request.ns];
    out.first_token = out_.request_tokens.size();
    out.num_tokens = request.known;
    out.committed = request.admitted ? std::min(request.committed, request.known) : 0;
    out.first_key = out_.request_keys.size();
    out.num_keys = request.num_keys;
    copy_options(request, &out);
    out.prompt_tokens = request.prompt_len;
    out_.request_tokens.resize(out.first_token + request.known);
    int32_t* const tokens = out_.request_tokens.data() + out.first_token;
    const uint32_t size = state_.shape.block_size;
    NodeId node = request.cursor;
    const uint32_t published = std::min(request.published_tokens(), request.known);
    for (size_t j = request.published; j-- > 0; node = state_.tree()[node].parent)
      std::copy_n(state_.tree().tokens(node), size, tokens + j * size);
    if (request.known > published)
      std::copy_n(request.token(published), request.known - published, tokens + published);
    for (size_t i = 0; i < request.num_keys; ++i) out_.request_keys.push_back(request.keys.data[i].plain());
    out_.requests.push_back(out);
    Contents::RequestBond bond = {};
    bond.cross_tokens = request.cross_tokens;
    if (request.cross_tokens != 0 && request.cross_shared)
      std::memcpy(bond.cross_digest, state_.requests.features.get<Cross>().encoder(index).key.digest,
                  sizeof bond.cross_digest);
    if (const uint32_t prompt = state_.prompts.bound(index); prompt != 0 && prompt <= prompt_of_.size())
      bond.prompt = prompt_of_[prompt - 1];
    out_.bonds.push_back(bond);
  }

  // Of positions that are the same one the first stands for all, with the blocks that were read last.
  void merge_twins() {
    const size_t count = out_.positions.size();
    std::vector<int32_t> first_of(count);
    std::unordered_multimap<uint64_t, int32_t> known;
    known.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      Contents::Position& position = out_.positions[i];
      if (position.parent >= 0) position.parent = first_of[static_cast<size_t>(position.parent)];
      auto [at, end] = known.equal_range(keys_[i]);
      while (at != end && !is_twin(static_cast<size_t>(at->second), i)) ++at;
      first_of[i] = at == end ? static_cast<int32_t>(i) : at->second;
      if (at == end) {
        known.emplace(keys_[i], static_cast<int32_t>(i));
        continue;
      }
      const auto first = static_cast<size_t>(first_of[i]);
      out_.positions[first].resident |= std::exchange(position.resident, 0);
      out_.nodes[first] = out_.nodes[i];
    }
    std::vector<int32_t> entry_at(count * out_.num_groups, -1);
    for (size_t i = 0; i < found_.size(); ++i) {
      Contents::Cached& one = found_[i];
      one.position = static_cast<uint32_t>(first_of[one.position]);
      if (one.block < 0) continue;
      int32_t& entry = entry_at[size_t{one.position} * out_.num_groups + one.group];
      if (entry >= 0) found_[static_cast<size_t>(entry)].block = -1;
      entry = static_cast<int32_t>(i);
    }
  }
  bool is_twin(size_t a, size_t b) const {
    const Contents::Position &x = out_.positions[a], &y = out_.positions[b];
    return x.parent == y.parent && x.ns == y.ns && out_.has_content(a, out_.tokens_of(b), out_.spans_of(b));
  }

  // Leaves out positions that lead to no block, and puts siblings, which were read newest first, in the order
  // in which they came. Parents were read before their children.
  void put_in_order() {
    const size_t count = out_.positions.size();
    std::vector<uint32_t> sizes(count, 0), ends(count, 0);  // of a position and what is below it
    std::vector<uint32_t> root_ends(out_.namespaces.size(), 0);
    for (size_t i = count; i-- > 0;) {
      const Contents::Position& position = out_.positions[i];
      if (sizes[i] == 0 && position.resident == 0) continue;
      ++sizes[i];
      (position.parent < 0 ? root_ends[position.ns] : sizes[static_cast<size_t>(position.parent)]) +=
          sizes[i];
    }
    std::partial_sum(root_ends.begin(), root_ends.end(), root_ends.begin());
    const size_t num_left = root_ends.empty() ? 0 : root_ends.back();
    std::vector<uint32_t> to(count, kNone);
    std::vector<Contents::Position> positions(num_left);
    std::vector<NodeId> nodes(num_left);
    std::vector<int32_t> tokens(num_left * out_.block_size);
    for (size_t i = 0; i < count; ++i) {
      if (sizes[i] == 0) continue;
      Contents::Position position = out_.positions[i];
      const auto parent = static_cast<size_t>(position.parent);
      uint32_t& end = position.parent < 0 ? root_ends[position.ns] : ends[parent];  // of the siblings to come
      ends[i] = std::exchange(end, end - sizes[i]);
      to[i] = end;
      if (position.parent >= 0) position.parent = static_cast<int32_t>(to[parent]);
      positions[to[i]] = position;
      nodes[to[i]] = out_.nodes[i];
      std::copy_n(out_.tokens_of(i), out_.block_size, tokens.data() + size_t{to[i]} * out_.block_size);
    }
    for (Found& one : found_) one.position = to[one.position];
    out_.positions.swap(positions);
    out_.nodes.swap(nodes);
    out_.tokens.swap(tokens);
  }

  const StateReader state_;
  SlicedHold hold_;
  Contents& out_;
  const std::function<void()>& between_;
  uint64_t changes_ = 0;              // of the manager, when this began
  std::vector<uint32_t> entry_of_;    // by index of a namespace
  std::vector<uint32_t> index_of_;    // by entry
  std::vector<uint64_t> keys_;        // by position: hashes of all tokens and keys up to its end
  std::vector<int32_t> position_of_;  // by place of a node: the last one that was read there
  std::vector<Found> found_;
  std::vector<uint32_t> order_;             // entries of found_: list by list
  std::vector<uint32_t> entry_of_block_;    // by block id
  std::vector<uint32_t> prompt_pins_;       // likewise
  std::vector<uint64_t> first_unopened_;    // by pool
  std::vector<NodeId> moved_here_, moved_;  // during this rest; in this walk
  std::unordered_set<int32_t> is_moved_;    // those of moved_ that were not read since
  size_t first_position_ = 0;               // of this namespace
  bool any_moved_ = false;                  // so positions may have been read twice
  bool missed_moves_ = false;               // more than could be noted
  std::vector<uint32_t> prompt_of_;         // by index of a registered prompt: 1 + entry of `prompts`
};

}  // namespace

kvc_status Manager::read_contents(bool requests, Contents* out, const std::function<void()>& between) {
  ContentsReader reader(state(), monitor_, *out, between);
  reader.read(requests, stats().nodes_used);
  reader.finish();
  return KVC_OK;
}

}  // namespace kvc
