// SPDX-License-Identifier: Apache-2.0
// kvc_manager_digest: a hash of everything that decides future answers. Nodes go in by content (a hash chain
// over tokens and extra keys with a fixed seed), never by index, hash or address.
#include "manager/state_reader.h"

namespace kvc {
namespace {

template <typename... Values>
void add_all(DigestHash& out, Values... values) {
  (out.add(values), ...);
}

// Content identity of a node, from that of its parent.
uint64_t content(uint64_t parent, const Node& node, const int32_t* tokens, uint32_t block_size) {
  DigestHash hash;
  hash.add(parent);
  hash.add_bytes(tokens, block_size * sizeof(int32_t));
  if (node.extra != nullptr) hash.add_bytes(node.extra->spans(), node.extra->count * sizeof(ExtraSpan));
  return hash.value();
}

void add_namespace(const StateReader& state, NamespaceId ns, DigestHash& out) {
  const Namespace& entry = state.namespaces()[ns];
  out.add(state.namespaces().epoch(ns));
  out.add(entry.opens);
  out.add_bytes(entry.digest.bytes, sizeof entry.digest.bytes);
  state.each_node_of(ns, [&](NodeId id, const Node& node) {
    out.add(node.depth);
    out.add(content(state.tree().stale(node), node, state.tree().tokens(id), state.shape.block_size));
    for (size_t g = 0; g < state.shape.num_groups; ++g) {
      uint64_t count = 0;
      state.each_copy(state.tree().block_of(id, g),
                      [&](BlockId copy) { out.add(static_cast<uint64_t>(raw(copy))), ++count; });
      out.add(count);
    }
    state.tree().notes().digest(id, &out);
  });
}

void add_pool(const StateReader& state, size_t p, DigestHash& out) {
  for (const List list : {List::kFree, List::kLru, List::kFenced}) {
    state.each_listed(p, list, [&](BlockId id, const Block& block) {
      out.add(static_cast<uint64_t>(raw(id)));
      if (list == List::kFenced) out.add(block.fence);
    });
  }
  for (uint32_t list = 0; list < state.pool().shelves().num_divided(); ++list) {
    out.add(list);
    state.each_from(state.pool().lru_head(p, list),
                    [&](BlockId id, const Block&) { out.add(state.pool().shelves().age(id)); });
  }
  const Zeroing& zeroing = state.blocks.zeroing();
  const Quotas& quotas = state.blocks.quotas();
  for (uint32_t cls = 0; cls < quotas.num_classes(); ++cls) {
    add_all(out, quotas.tenant(cls).ns, quotas.share(cls, p).min, quotas.share(cls, p).max);
  }
  state.each_block(p, [&](BlockId id, const Block& block) {
    if (quotas.on() && block.list != List::kFree) out.add(quotas.class_of(id));
    out.add(static_cast<uint64_t>(block.list) | static_cast<uint64_t>(block.content) << 8 |
            uint64_t{block.list == List::kFenced && block.leaves_first != 0} << 10 |
            uint64_t{block.external} << 16 | uint64_t{block.pins} << 32);
    if (block.content == Content::kFilling) out.add(state.pool().filling().step(id));
    out.add(block.refs);
    if (block.list != List::kFree) out.add(block.group);
    if (zeroing.on()) {  // ids differ from manager to manager, indices do not
      const uint64_t owner = zeroing.owner(id);
      out.add(owner >= Zeroing::kExternal         ? owner
              : state.namespaces().is_open(owner) ? handle_index(owner)
                                                  : Zeroing::kExternal - 1);
    }
  });
}

void add_request(const StateReader& state, const Request& request, DigestHash& out) {
  out.add(request.ns);
  out.add(request.epoch == state.namespaces().epoch(request.ns));
  add_all(out, request.known, request.capacity, request.committed, request.published, request.flags,
          request.prompt_len, request.own_from, request.slots, request.external_tokens,
          request.max_cached_tokens, request.lookahead, request.drop_tail_blocks, request.user_data,
          request.admitted, request.next_full != UINT32_MAX, request.readmission);
  const Features& features = state.requests.features;
  features.each([&](const auto& feature) { feature.digest_record(request, &out); });
  if (request.junction != 0) out.add(request.junction);
  const uint32_t published = request.published_tokens();
  if (request.known > published)
    out.add_bytes(request.token(published), (request.known - published) * sizeof(int32_t));
  out.add_bytes(request.keys.data, request.num_keys * sizeof(ExtraKey));
  features.each([&](const auto& feature) { feature.digest_tables(request, &out); });
  for (size_t g = 0; g < state.shape.num_token_groups; ++g) {
    out.add(request.positions == 0 ? 0 : request.groups[g].dropped);
    out.add_bytes(request.groups[g].blocks.data, request.positions * sizeof(BlockId));
  }
}

// The order counts: of equal deadlines the one set first ends first. A position with a hint has a block.
void add_deadlines(const StateReader& state, DigestHash& out) {
  const Deadlines& deadlines = state.tree().notes().retention().deadlines();
  if (deadlines.now() != 0) out.add(deadlines.now());
  deadlines.each([&](NodeId node, uint64_t deadline) {
    out.add(deadline);
    size_t group = 0;
    while (!is_block(state.tree().block_of(node, group))) ++group;
    out.add(static_cast<uint64_t>(raw(state.tree().block_of(node, group))));
  });
}

}  // namespace

uint64_t StateReader::digest() const {
  DigestHash out;
  for (size_t p = 0; p < shape.num_pools; ++p) add_pool(*this, p, out);
  for (uint32_t ns = 0; ns < namespaces().size(); ++ns) add_namespace(*this, ns, out);
  tree().notes().uses().each_remembered([&](uint32_t tag, uint32_t uses) {
    out.add(uses);
    if (uses != 0) out.add(tag);
  });
  each_request([&](size_t i, const Request& request) {
    if (request.building) return;
    out.add(i);
    add_request(*this, request, out);
    requests.features.each([&](const auto& feature) { feature.digest(request, &out); });
    if (prompts.count() != 0) out.add(prompts.bound(i));
  });
  requests.features.each([&](const auto& feature) { feature.digest_all(&out); });
  add_deadlines(*this, out);
  prompts.each([&](size_t i, const RegisteredPrompt& prompt) {
    out.add(i);
    out.add(prompt.ns);
    out.add_bytes(prompt.name.data, prompt.name_size);
    out.add_bytes(prompt.tokens.data, prompt.num_tokens * sizeof(int32_t));
    out.add_bytes(prompt.keys.data, prompt.num_keys * sizeof(ExtraKey));
    out.add_bytes(prompt.blocks.data, prompt.num_pinned * shape.num_token_groups * sizeof(BlockId));
  });
  each_pin([&](size_t i, const Pin& pin) {
    out.add(i);
    out.add_bytes(pin.blocks.data, pin.length * shape.num_token_groups * sizeof(BlockId));
  });
  const Zeroing& zeroing = blocks.zeroing();
  if (zeroing.on()) out.add_bytes(zeroing.blocks(), zeroing.count() * sizeof(int32_t));
  const CopyList& copies = requests.waiting_copies.list();
  for (size_t i = 0; i < copies.count; ++i) out.add_bytes(&copies.out[i], sizeof copies.out[i]);
  out.add(steps.assigned() - blocks.retired());
  if (blocks.caches() != shape.caches()) out.add(1);  // switched off
  return out.value();
}

}  // namespace kvc
