// SPDX-License-Identifier: Apache-2.0
#include "prefix/namespace_table.h"

#include "base/hash.h"
#include "base/status.h"

namespace kvc {
namespace {

struct Part {
  const void* data;
  size_t size;
};

// Each part as: 1 byte present, 8 bytes length, bytes. No two configurations frame alike.
size_t framed_size(const Part (&parts)[3]) {
  size_t size = 0;
  for (const Part& part : parts) size += 9 + (part.data != nullptr ? part.size : 0);
  return size;
}

void frame_head(const Part& part, char* out) {
  const uint64_t size = part.data != nullptr ? part.size : 0;
  *out = part.data != nullptr;
  std::memcpy(out + 1, &size, sizeof size);
}

void frame(const Part (&parts)[3], char* out) {
  for (const Part& part : parts) {
    frame_head(part, out);
    out += 9;
    if (part.data == nullptr || part.size == 0) continue;
    std::memcpy(out, part.data, part.size);
    out += part.size;
  }
}

constexpr char kLabel[] = "kvcache namespace 1";

Digest256 digest_of(const void* data, size_t size) {
  Sha256 sha;
  sha.update(kLabel, sizeof kLabel);
  sha.update(data, size);
  return sha.finish();
}

uint64_t hash_of(const char* identity, size_t size) {
  DigestHash hash;
  hash.add_bytes(identity, size);
  return hash.value();
}

void make_empty(Namespace& ns) {
  ns = {};
  ns.first_child = kNoNode;
  ns.hash_next = -1;
}

}  // namespace

kvc_status NamespaceTable::find(uint64_t id, NamespaceId* index) const {
  if (!is_open(id)) {
    if (id == KVC_ALL_NAMESPACES) {
      return fail(
          KVC_ERROR_NOT_FOUND,
          "the number of all namespaces is none of one: curves alone take it; another call resets all");
    }
    return fail(KVC_ERROR_NOT_FOUND, "no namespace %llu: it was closed, or is of another manager", ull(id));
  }
  *index = id == 0 ? 0 : handle_index(id);
  return KVC_OK;
}

bool NamespaceTable::create(Memory& memory, Arena& arena, EventRing& events, size_t num_pools, uint32_t tag,
                            uint32_t generation) {
  memory_ = &memory;
  arena_ = &arena;
  events_ = &events;
  num_pools_ = num_pools;
  tag_ = tag;
  first_generation_ = generation;
  constexpr size_t kInitial = 16;
  if (!namespaces_.create(memory, kInitial) || !cached_.create(memory, kInitial * num_pools) ||
      !buckets_.create(memory, kBuckets)) {
    return false;
  }
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i] = -1;
  make_empty(namespaces_[0]);
  namespaces_[0].opens = 1;
  char absent[27];
  frame({{nullptr, 0}, {nullptr, 0}, {nullptr, 0}}, absent);
  namespaces_[0].digest = digest_of(absent, sizeof absent);
  used_ = 1;
  return true;
}

void NamespaceTable::refresh(NamespaceId index) {
  for (size_t p = 0; p < num_pools_; ++p) cached_[index * num_pools_ + p] = 0;
  namespaces_[index].counts_epoch = global_resets_;
}

Digest256 NamespaceTable::digest_of_config(const kvc_namespace_config& config) {
  const Part parts[3] = {{config.model, config.model_size},
                         {config.adapter, config.adapter_size},
                         {config.tenant, config.tenant_size}};
  Sha256 sha;
  sha.update(kLabel, sizeof kLabel);
  for (const Part& part : parts) {
    char head[9];
    frame_head(part, head);
    sha.update(head, sizeof head);
    if (part.data != nullptr) sha.update(part.data, part.size);
  }
  return sha.finish();
}

kvc_status NamespaceTable::open(const kvc_namespace_config& config, NamespaceId* index) {
  const Part parts[3] = {{config.model, config.model_size},
                         {config.adapter, config.adapter_size},
                         {config.tenant, config.tenant_size}};
  if (config.model == nullptr && config.adapter == nullptr && config.tenant == nullptr) {
    *index = 0;
    return KVC_OK;
  }
  const size_t size = framed_size(parts);
  char* identity = static_cast<char*>(arena_->allocate(Arena::rounded(size)));
  if (identity == nullptr)
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a namespace identity of %zu bytes", size);
  frame(parts, identity);
  const uint64_t hash = hash_of(identity, size);
  if (const int32_t found = find(hash, identity, size); found >= 0) {
    arena_->release(identity, Arena::rounded(size));
    Namespace& ns = namespaces_[static_cast<size_t>(found)];
    if (ns.opens == UINT32_MAX)
      return fail(KVC_ERROR_LIMIT, "a namespace was opened 2^32 - 1 times; close some");
    ++ns.opens;
    *index = static_cast<uint32_t>(found);
    return KVC_OK;
  }

  bool reuse = may_reuse(unused_);
  if (!reuse && used_ == namespaces_.size()) {
    const size_t larger = 2 * namespaces_.size();
    const bool limit = namespaces_.size() == kMaxNamespaces;
    const bool grown =
        !limit && cached_.grow(*memory_, larger * num_pools_) && namespaces_.grow(*memory_, larger);
    reuse = !grown && unused_ >= 0;
    if (!grown && !reuse) {
      arena_->release(identity, Arena::rounded(size));
      return limit ? fail(KVC_ERROR_LIMIT, "all %u namespaces are open; close some", kMaxNamespaces - 1)
                   : fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu namespaces", larger);
    }
  }
  uint32_t chosen = used_;
  if (reuse) {
    chosen = static_cast<uint32_t>(unused_);
    unused_ = namespaces_[chosen].hash_next;
    events_->drop_before(namespaces_[chosen].waits_for);
  } else {
    ++used_;
    make_empty(namespaces_[chosen]);
    namespaces_[chosen].generation = first_generation_;
  }
  Namespace& ns = namespaces_[chosen];
  ns.opens = 1;
  ++ns.generation;
  ns.identity = identity;
  ns.identity_size = size;
  ns.identity_hash = hash;
  ns.digest = digest_of(identity, size);
  ns.hash_next = *bucket(hash);
  *bucket(hash) = static_cast<int32_t>(chosen);
  *index = chosen;
  return KVC_OK;
}

kvc_status NamespaceTable::open_like(const Namespace& other, NamespaceId* index) {
  Part parts[3] = {};
  const char* at = other.identity;
  for (Part& part : parts) {  // as frame() writes them
    uint64_t size;
    const bool present = *at++ != 0;
    std::memcpy(&size, at, sizeof size);
    at += sizeof size;
    if (present) part = {at, size};
    at += size;
  }
  kvc_namespace_config config = {};
  config.model = parts[0].data, config.model_size = parts[0].size;
  config.adapter = parts[1].data, config.adapter_size = parts[1].size;
  config.tenant = parts[2].data, config.tenant_size = parts[2].size;
  KVC_TRY(open(config, index));
  namespaces_[*index].opens = other.opens;
  return KVC_OK;
}

bool NamespaceTable::is_framed(const char* identity, size_t size) {
  bool any = false;
  for (int part = 0; part < 3; ++part) {
    uint64_t length;
    if (size < 9 || static_cast<unsigned char>(*identity) > 1) return false;
    std::memcpy(&length, identity + 1, sizeof length);
    if (*identity == 0 && length != 0) return false;
    any = any || *identity != 0;
    identity += 9, size -= 9;
    if (length > size || length > 65536) return false;
    identity += length, size -= static_cast<size_t>(length);
  }
  return any && size == 0;
}

Digest256 NamespaceTable::digest_of_identity(const char* identity, size_t size) {
  char absent[27];
  if (size != 0) return digest_of(identity, size);
  frame({{nullptr, 0}, {nullptr, 0}, {nullptr, 0}}, absent);
  return digest_of(absent, sizeof absent);
}

kvc_status NamespaceTable::carry(const char* identity, size_t size, uint32_t opens, uint64_t epoch,
                                 CarriedNamespace* out) {
  out->used = used_;
  out->most_resets = most_resets_;
  out->index = 0;
  const int32_t found = size == 0 ? 0 : find(hash_of(identity, size), identity, size);
  if (found >= 0) {
    Namespace& ns = namespaces_[out->index = static_cast<uint32_t>(found)];
    if (size != 0 && opens > UINT32_MAX - ns.opens)
      return fail(KVC_ERROR_LIMIT, "a namespace would be open more than 2^32 - 1 times; close some");
    out->before = ns;
    if (size != 0) ns.opens += opens;
  } else {
    if (unused_ >= 0) out->before = namespaces_[static_cast<size_t>(unused_)];  // in case it is taken
    Namespace like = {};
    like.identity = const_cast<char*>(identity);
    like.identity_size = size;
    like.opens = opens;
    KVC_TRY(open_like(like, &out->index));
  }
  if (this->epoch(out->index) < epoch) {
    Namespace& ns = namespaces_[out->index];
    ns.resets = epoch - global_resets_;
    if (ns.resets > most_resets_) most_resets_ = ns.resets;
  }
  return KVC_OK;
}

void NamespaceTable::drop(const CarriedNamespace& carried) {
  Namespace& ns = namespaces_[carried.index];
  most_resets_ = carried.most_resets;
  used_ = carried.used;
  const bool is_new = carried.index >= carried.used;
  if (!is_new && carried.before.opens != 0) {  // it was open
    ns.opens = carried.before.opens;
    ns.resets = carried.before.resets;
    return;
  }
  forget_identity(ns);
  if (is_new) return;
  ns = carried.before;  // the first of the list again
  if (unused_ < 0) last_unused_ = static_cast<int32_t>(carried.index);
  unused_ = static_cast<int32_t>(carried.index);
}

int32_t NamespaceTable::find(uint64_t hash, const char* identity, uint64_t size) const {
  int32_t i = buckets_[hash % kBuckets];
  for (; i >= 0; i = namespaces_[static_cast<size_t>(i)].hash_next) {
    const Namespace& ns = namespaces_[static_cast<size_t>(i)];
    if (ns.identity_hash == hash && ns.identity_size == size && std::memcmp(ns.identity, identity, size) == 0)
      break;
  }
  return i;
}

// Also out of the table of identities.
void NamespaceTable::forget_identity(Namespace& ns) {
  const auto index = static_cast<int32_t>(&ns - &namespaces_[0]);
  int32_t* link = bucket(ns.identity_hash);
  while (*link != index) link = &namespaces_[static_cast<size_t>(*link)].hash_next;
  *link = ns.hash_next;
  arena_->release(ns.identity, Arena::rounded(ns.identity_size));
  ns.identity = nullptr;
}

void NamespaceTable::close(NamespaceId index) {
  forget_identity(namespaces_[index]);
  namespaces_[index].opens = 0;
  free_if_unused(index);
}

void NamespaceTable::free_if_unused(NamespaceId index) {
  Namespace& ns = namespaces_[index];
  if (ns.opens != 0 || ns.num_nodes != 0 || index == 0) return;
  if (ns.generation == UINT32_MAX) return;  // ids are never reused: this index is retired
  ns.waits_for = events_->next_sequence();
  ns.hash_next = -1;
  (unused_ < 0 ? unused_ : namespaces_[static_cast<size_t>(last_unused_)].hash_next) =
      static_cast<int32_t>(index);
  last_unused_ = static_cast<int32_t>(index);
}

}  // namespace kvc
