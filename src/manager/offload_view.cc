// SPDX-License-Identifier: Apache-2.0
#include "manager/offload_view.h"

#include <kvcache/events.h>

#include <algorithm>

#include "manager/manager.h"

namespace kvc {

OffloadView::OffloadView(Manager& manager)
    : mutex_(manager.mutex_),
      shape_(manager.shape_),
      blocks_(manager.blocks_),
      matcher_(manager.matcher_),
      requests_(manager.requests_),
      events_(manager.events_) {}

// What a position has in the groups of tokens.
void OffloadView::add_position(NodeId node, StoredBlock* out, size_t capacity, size_t* count) const {
  for (uint32_t g = 0; g < shape_.num_token_groups && *count < capacity; ++g) {
    const BlockId block = blocks_.tree().block_of(node, g);
    if (is_block(block)) out[(*count)++] = stored(node, g, block);
  }
}

size_t OffloadView::read_published(uint64_t* cursor, StoredBlock* out, size_t capacity,
                                   uint64_t* lost) const {
  const std::lock_guard lock(mutex_);
  *lost = 0;
  if (*cursor < events_.oldest()) {
    *lost = events_.oldest() - *cursor;
    *cursor = events_.oldest();
  }
  size_t count = 0;
  for (; count < capacity && events_.holds(*cursor); ++*cursor) {
    const EventRecord& record = events_[*cursor];
    if (record.kind != KVC_EVENT_STORED || !is_block(record.block) || !blocks_.tree().alive(record.position))
      continue;
    out[count++] = stored(record.position, record.group, record.block);
  }
  return count;
}

size_t OffloadView::read_cold(size_t p, size_t most, StoredBlock* out, size_t capacity) const {
  const std::lock_guard lock(mutex_);
  const BlockPool& pool = blocks_.pool();
  size_t count = 0;
  for (size_t list = 0; list < pool.shelves().num_lists(); ++list) {
    BlockId id = pool.lru_head(p, list);
    for (size_t i = 0; i < most && count < capacity && !pool.at_end(id); ++i, id = pool[id].next) {
      const NodeId node = pool[id].node;
      if (is_node(node) && !blocks_.tree().stale(blocks_.tree()[node]))
        out[count++] = stored(node, pool[id].group, id);
    }
  }
  return count;
}

size_t OffloadView::read_request(uint64_t id, StoredBlock* out, size_t capacity) const {
  const std::lock_guard lock(mutex_);
  const Request* request = requests_.peek(id);
  if (request == nullptr || !request->admitted) return 0;
  size_t count = 0;
  for (NodeId node = request->cursor; is_node(node); node = blocks_.tree()[node].parent)
    add_position(node, out, capacity, &count);
  return count;
}

kvc_status OffloadView::read_hit(const TokenSpan& span, size_t limit, StoredBlock* out, size_t capacity,
                                 size_t* count, size_t* length, StoredBlock* last) const {
  LookupScratch scratch(matcher_, span);
  KVC_TRY(scratch.status());
  const std::lock_guard lock(mutex_);
  kvc::Prompt prompt;
  KVC_TRY(scratch.match(limit, shape_.token_groups(), &prompt, length));
  *count = 0;
  if (*length != 0) *last = stored(scratch.path()[*length - 1], 0, kNoBlock);
  for (size_t j = 0; j < *length; ++j) add_position(scratch.path()[j], out, capacity, count);
  return KVC_OK;
}

void OffloadView::name(StoredBlock* blocks, size_t count, Digest256* digests) const {
  Identities& identities = blocks_.identities();
  Identities::Work work;
  for (bool all = false; !all; work.compute()) {
    const std::lock_guard lock(mutex_);
    identities.learn(&work);
    all = true;
    for (size_t i = 0; i < count; ++i) {
      StoredBlock& block = blocks[i];
      if (!is_node(block.node)) continue;
      if (!blocks_.tree().alive(block.node) || identities.serial(block.node) != block.serial) {
        block.node = kNoNode;
      } else if (identities.known(block.node)) {
        digests[i] = identities.digest(block.node);
      } else {
        all = false;
        if (!identities.gather(block.node, &work)) break;
      }
    }
  }
}

OffloadView::Content OffloadView::content(const StoredBlock& stored) const {
  if (!blocks_.pool().exists(raw(stored.block))) return Content::kGone;
  const Block block = blocks_.pool().read(stored.block);
  const bool there = block.node == stored.node && block.group == stored.group &&
                     blocks_.tree().alive(stored.node) &&
                     blocks_.identities().serial(stored.node) == stored.serial &&
                     !blocks_.tree().stale(blocks_.tree()[stored.node]);
  if (!there) return Content::kGone;
  return block.content == kvc::Content::kFilling ? Content::kLater : Content::kThere;
}

void OffloadView::recheck(const StoredBlock* blocks, size_t count, Moment since, Content* out) const {
  const std::lock_guard lock(mutex_);
  const bool any_came =
      since.events < events_.oldest() || since.quiet_arrivals != blocks_.tree().copies().quiet_arrivals();
  for (size_t i = 0; i < count; ++i) {
    out[i] = content(blocks[i]);
    bool came = any_came;
    for (uint64_t e = since.events; !came && events_.holds(e); ++e)
      came = events_[e].block == blocks[i].block;
    if (came && out[i] == Content::kThere) out[i] = Content::kLater;
  }
}

kvc_status OffloadView::read_prompt(uint64_t id, Prompt* out) const {
  const std::lock_guard lock(mutex_);
  const Request* request = requests_.peek(id);
  if (request == nullptr) return Requests::not_found(id);
  if (request->admitted) return Requests::already_admitted(id);
  const NamespaceTable& namespaces = blocks_.namespaces();
  out->namespace_id = request->ns == 0 ? 0 : namespaces.id(request->ns);
  out->epoch = namespaces.epoch(request->ns);
  out->root = namespaces[request->ns].digest;
  out->most_cached = requests_.hit_limit_tokens(*request);
  out->num_tokens = std::min<size_t>(request->known, out->token_capacity);
  std::copy_n(request->token(0), out->num_tokens, out->tokens);
  const uint32_t num_keys = request->keys_within(static_cast<uint32_t>(out->num_tokens));
  out->num_keys = num_keys;
  std::copy_n(request->keys.data, std::min<size_t>(num_keys, out->key_capacity), out->keys);
  return KVC_OK;
}

}  // namespace kvc
