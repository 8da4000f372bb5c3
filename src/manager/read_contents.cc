// SPDX-License-Identifier: Apache-2.0
// Reads what a manager has cached (contents.h): once through its tree and lists under the lock; the rest of
// the work is done without it.
#include <algorithm>

#include "manager/contents.h"
#include "manager/manager.h"

namespace kvc {
namespace {

class ContentsReader {
 public:
  ContentsReader(const StateReader& state, Contents& out) : state_(state), out_(out) {}

  // Under the lock.
  void read(bool requests) {
    out_.block_size = state_.shape.block_size;
    out_.num_groups = state_.shape.num_groups;
    out_.policy = state_.shape.policy_number;
    out_.policy_weight = state_.shape.policy_weight;
    out_.has_levels = state_.shape.has_hints();
    read_namespaces();
    if (state_.shape.caches()) {
      for (uint32_t ns = 0; ns < state_.namespaces().size(); ++ns) read_positions(ns);
    }
    position_of_.resize(state_.tree().num_places(), -1);
    for (size_t i = 0; i < out_.nodes.size(); ++i)
      position_of_[static_cast<size_t>(raw(out_.nodes[i]))] = static_cast<int32_t>(i);
    for (Contents::Position& position : out_.positions) {
      if (position.parent >= 0) position.parent = position_of_[static_cast<size_t>(position.parent)];
    }
    for (size_t p = 0; p < state_.shape.num_pools; ++p) read_pool(p);
    read_used();
    if (requests) state_.each_request([&](size_t, const Request& request) { read_request(request); });
  }

  // Without the lock.
  void finish() {
    put_in_order();
    for (Contents::Pool& pool : out_.pools) {
      if (num_used_ != 0) pool.free.clear();
      const auto used = std::find_if(pool.blocks.begin(), pool.blocks.end(),
                                     [](const Contents::Cached& cached) { return cached.in_use != 0; });
      std::stable_sort(used, pool.blocks.end(), [&](const Contents::Cached& a, const Contents::Cached& b) {
        const uint32_t x = out_.positions[a.position].depth, y = out_.positions[b.position].depth;
        return x != y ? x > y : a.position > b.position;
      });
    }
  }

 private:
  void read_namespaces() {
    const NamespaceTable& all = state_.namespaces();
    entry_of_.resize(all.size(), UINT32_MAX);
    for (uint32_t i = 0; i < all.size(); ++i) {
      if (i != 0 && all[i].opens == 0) continue;
      entry_of_[i] = static_cast<uint32_t>(out_.namespaces.size());
      Contents::NamespaceEntry entry;
      if (i != 0) entry.identity.assign(all[i].identity, all[i].identity_size);
      entry.opens = all[i].opens;
      entry.epoch = all.epoch(i);
      entry.id = all.id(i);
      entry.digest = all[i].digest;
      out_.namespaces.push_back(std::move(entry));
    }
  }

  void read_positions(uint32_t ns) {
    if (entry_of_[ns] == UINT32_MAX) return;
    const PrefixTree& tree = state_.tree();
    state_.each_node_of(ns, [&](NodeId id, const Node& node) {
      if (tree.stale(node)) return;
      Contents::Position position = {};
      position.parent = is_node(node.parent) ? raw(node.parent) : -1;  // its place; its index follows
      position.ns = entry_of_[ns];
      position.depth = node.depth;
      if (tree.counts_uses()) position.uses = tree.uses().of(id);
      position.level = kDefaultLevel;
      if (tree.retention().on()) {
        position.level = tree.retention().level(id);
        const uint64_t until = tree.retention().deadlines().of(id);
        if (until != 0) position.left_ns = until - tree.retention().deadlines().now();
      }
      position.first_span = out_.spans.size();
      if (node.extra != nullptr) {
        position.num_spans = static_cast<uint32_t>(node.extra->count);
        out_.spans.insert(out_.spans.end(), node.extra->spans(), node.extra->spans() + node.extra->count);
      }
      out_.positions.push_back(position);
      out_.nodes.push_back(id);
      const int32_t* tokens = tree.tokens(id);
      out_.tokens.insert(out_.tokens.end(), tokens, tokens + state_.shape.block_size);
    });
  }

  int32_t position_of(NodeId node) const { return position_of_[static_cast<size_t>(raw(node))]; }

  void read_pool(size_t p) {
    const BlockPool& pool = state_.pool();
    Contents::Pool out;
    out.first = pool.counts(p).first;
    out.size = pool.counts(p).size;
    for (uint32_t list = 0; list < pool.num_lists(); ++list) {
      const Place place = pool.place_of(list);
      state_.each_from(pool.lru_head(p, list), [&](BlockId id, const Block& block) {
        const int32_t at = position_of(block.node);
        if (at < 0) return;  // stale
        out_.positions[static_cast<size_t>(at)].resident |= 1u << block.group;
        out.blocks.push_back({static_cast<uint32_t>(at), block.group, raw(id), place.level, place.shelf, 0,
                              pool.has_shelves() ? pool.age(id) : 0});
      });
    }
    if (pool.counts(p).free + out.blocks.size() == out.size) {
      out.free.reserve(pool.counts(p).free);
      state_.each_listed(p, List::kFree, [&](BlockId id, const Block&) { out.free.push_back(raw(id)); });
    }
    out_.pools.push_back(std::move(out));
  }

  // Positions whose blocks are all held, or wait for a step.
  void read_used() {
    const PrefixTree& tree = state_.tree();
    for (size_t i = 0; i < out_.positions.size(); ++i) {
      const NodeId node = out_.nodes[i];
      Contents::Position& position = out_.positions[i];
      for (uint32_t rest = tree[node].resident & ~position.resident; rest != 0; rest &= rest - 1) {
        const auto g = static_cast<uint32_t>(__builtin_ctz(rest));
        BlockId written = kNoBlock;
        state_.each_copy(tree.block_of(node, g), [&](BlockId id) {
          if (!is_block(written) && state_.pool()[id].content == Content::kWritten) written = id;
        });
        if (!is_block(written)) continue;
        position.resident |= 1u << g;
        ++num_used_;
        out_.pools[state_.shape.groups[g].pool].blocks.push_back(
            {static_cast<uint32_t>(i), g, raw(written), position.level, 0, 1, 0});
      }
    }
  }

  void read_request(const Request& request) {
    if (request.id == 0 || request.building || entry_of_[request.ns] == UINT32_MAX) return;
    if (request.cross_tokens != 0) return;  // its encoder's output is not among the tokens
    Contents::WaitingRequest out = {};
    out.id = request.id;
    out.ns = entry_of_[request.ns];
    out.first_token = out_.request_tokens.size();
    out.num_tokens = request.known;
    out.first_key = out_.request_keys.size();
    out.num_keys = request.num_keys;
    out.user_data = request.user_data;
    out.max_cached_tokens = request.max_cached_tokens;
    out.external_tokens = request.external_tokens;
    out.slots = request.slots;
    out.lookahead = request.lookahead;
    out.flags = request.flags;
    out.drop_tail_blocks = request.drop_tail_blocks;
    out.reserve = request.reserve;
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
    if (request.num_keys != 0)
      out_.request_keys.insert(out_.request_keys.end(), request.keys.data,
                               request.keys.data + request.num_keys);
    out_.requests.push_back(out);
  }

  // Leaves out positions that lead to no block, and puts siblings in the order in which they came.
  void put_in_order() {
    const size_t count = out_.positions.size();
    std::vector<char> leads(count, 0);
    std::vector<int32_t> first_child(count, -1), next(count, -1), order;
    int32_t first_root = -1;
    for (size_t i = count; i-- > 0;) {
      leads[i] = leads[i] || out_.positions[i].resident != 0;
      const int32_t parent = out_.positions[i].parent;
      if (leads[i] && parent >= 0) leads[static_cast<size_t>(parent)] = 1;
    }
    for (size_t i = 0; i < count; ++i) {  // newest first, so the oldest comes to the front
      if (!leads[i]) continue;
      const int32_t parent = out_.positions[i].parent;
      int32_t& front = parent < 0 ? first_root : first_child[static_cast<size_t>(parent)];
      next[i] = front;
      front = static_cast<int32_t>(i);
    }
    order.reserve(count);
    std::vector<int32_t> way;
    for (int32_t at = first_root; at >= 0 || !way.empty();) {
      if (at < 0) {
        at = next[static_cast<size_t>(way.back())];
        way.pop_back();
        continue;
      }
      order.push_back(at);
      way.push_back(at);
      at = first_child[static_cast<size_t>(at)];
    }
    // Namespaces first come first.
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return out_.positions[static_cast<size_t>(a)].ns < out_.positions[static_cast<size_t>(b)].ns;
    });
    renumber(order);
  }

  void renumber(const std::vector<int32_t>& order) {
    std::vector<int32_t> to(out_.positions.size(), -1), tokens;
    std::vector<Contents::Position> positions;
    std::vector<NodeId> nodes;
    tokens.reserve(order.size() * out_.block_size);
    for (const int32_t old : order) {
      const auto at = static_cast<size_t>(old);
      to[at] = static_cast<int32_t>(positions.size());
      Contents::Position position = out_.positions[at];
      if (position.parent >= 0) position.parent = to[static_cast<size_t>(position.parent)];
      positions.push_back(position);
      nodes.push_back(out_.nodes[at]);
      tokens.insert(tokens.end(), out_.tokens_of(at), out_.tokens_of(at) + out_.block_size);
    }
    for (Contents::Pool& pool : out_.pools) {
      for (Contents::Cached& cached : pool.blocks)
        cached.position = static_cast<uint32_t>(to[cached.position]);
    }
    out_.positions.swap(positions);
    out_.nodes.swap(nodes);
    out_.tokens.swap(tokens);
  }

  const StateReader& state_;
  Contents& out_;
  std::vector<uint32_t> entry_of_;    // by index of a namespace
  std::vector<int32_t> position_of_;  // by place of a node
  size_t num_used_ = 0;
};

}  // namespace

kvc_status Manager::read_contents(bool requests, Contents* out) {
  const Counters now = stats();
  out->positions.reserve(now.nodes_used + 64);
  out->nodes.reserve(now.nodes_used + 64);
  out->tokens.reserve((now.nodes_used + 64) * shape_.block_size);
  const StateReader state{shape_, blocks_, requests_, rows_, pins_.table(), prompts_, stepper_, counters_};
  ContentsReader reader(state, *out);
  {
    const std::lock_guard lock(monitor_.mutex());
    reader.read(requests);
  }
  reader.finish();
  return KVC_OK;
}

}  // namespace kvc
