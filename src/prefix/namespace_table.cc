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

void frame(const Part (&parts)[3], char* out) {
  for (const Part& part : parts) {
    const uint64_t size = part.data != nullptr ? part.size : 0;
    *out++ = part.data != nullptr;
    std::memcpy(out, &size, sizeof size);
    out += sizeof size;
    if (size != 0) std::memcpy(out, part.data, size);
    out += size;
  }
}

Digest256 digest_of(const void* data, size_t size) {
  static constexpr char kLabel[] = "kvcache namespace 1";
  Sha256 sha;
  sha.update(kLabel, sizeof kLabel);
  sha.update(data, size);
  return sha.finish();
}

void make_empty(Namespace& ns) {
  ns = {};
  ns.first_child = kNoNode;
  ns.hash_next = -1;
}

}  // namespace

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

void NamespaceTable::refresh(uint32_t index) {
  for (size_t p = 0; p < num_pools_; ++p) cached_[index * num_pools_ + p] = 0;
  namespaces_[index].counts_epoch = global_resets_;
}

kvc_status NamespaceTable::open(const kvc_namespace_config& config, uint32_t* index) {
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
  DigestHash hash;
  hash.add_bytes(identity, size);

  for (int32_t i = *bucket(hash.value()); i >= 0; i = namespaces_[static_cast<size_t>(i)].hash_next) {
    Namespace& ns = namespaces_[static_cast<size_t>(i)];
    if (ns.identity_hash != hash.value() || ns.identity_size != size ||
        std::memcmp(ns.identity, identity, size) != 0) {
      continue;
    }
    arena_->release(identity, Arena::rounded(size));
    if (ns.opens == UINT32_MAX)
      return fail(KVC_ERROR_LIMIT, "a namespace was opened 2^32 - 1 times; close some");
    ++ns.opens;
    *index = static_cast<uint32_t>(i);
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
  ns.identity_hash = hash.value();
  ns.digest = digest_of(identity, size);
  ns.hash_next = *bucket(hash.value());
  *bucket(hash.value()) = static_cast<int32_t>(chosen);
  *index = chosen;
  return KVC_OK;
}

kvc_status NamespaceTable::open_like(const Namespace& other, uint32_t* index) {
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

void NamespaceTable::close(uint32_t index) {
  Namespace& ns = namespaces_[index];
  int32_t* link = bucket(ns.identity_hash);
  while (*link != static_cast<int32_t>(index)) link = &namespaces_[static_cast<size_t>(*link)].hash_next;
  *link = ns.hash_next;
  arena_->release(ns.identity, Arena::rounded(ns.identity_size));
  ns.identity = nullptr;
  ns.opens = 0;
  free_if_unused(index);
}

void NamespaceTable::free_if_unused(uint32_t index) {
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
