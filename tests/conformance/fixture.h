// SPDX-License-Identifier: Apache-2.0
// What the conformance tests share: a manager over the C API alone that checks, after every call, every
// invariant of the library and that the block states sum to the pool. Calls that may fail return the status;
// the short ones expect success.
#ifndef KVCACHE_TESTS_CONFORMANCE_FIXTURE_H_
#define KVCACHE_TESTS_CONFORMANCE_FIXTURE_H_

#include <gtest/gtest.h>
#include <kvcache/external.h>
#include <kvcache/manager.h>
#include <kvcache/prefix.h>

#include <cstdint>
#include <string>
#include <vector>

#include "calls.h"

namespace conformance {

using Tokens = std::vector<int32_t>;
using Ids = std::vector<int32_t>;
using Keys = std::vector<kvc_extra_key>;

inline constexpr uint32_t B = 4;  // tokens of a block, where a test says nothing else

// `count` tokens that nobody else has for another `text`, apart from equal ones.
inline Tokens text(int32_t which, size_t count) {
  Tokens out(count);
  for (size_t i = 0; i < count; ++i) out[i] = which * 100000 + static_cast<int32_t>(i);
  return out;
}
inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline Tokens first(const Tokens& tokens, size_t count) {
  return Tokens(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count));
}

inline kvc_group_config full_group(uint32_t pool = 0) {
  kvc_group_config g{};
  g.struct_size = sizeof g;
  g.kind = KVC_GROUP_FULL;
  g.pool = pool;
  return g;
}
inline kvc_group_config window_group(uint64_t tokens, uint32_t sinks = 0, uint64_t retention = 0,
                                     uint32_t pool = 0) {
  kvc_group_config g = full_group(pool);
  g.kind = KVC_GROUP_SLIDING_WINDOW;
  g.window_tokens = tokens;
  g.num_sink_tokens = sinks;
  g.retention_tokens = retention;
  return g;
}

inline kvc_group_config chunk_group(uint64_t tokens, uint64_t retention = 0, uint32_t pool = 0) {
  kvc_group_config g = full_group(pool);
  g.kind = KVC_GROUP_CHUNKED_LOCAL;
  g.chunk_tokens = tokens;
  g.retention_tokens = retention;
  return g;
}

inline kvc_group_config state_group(uint64_t retention = 0, uint32_t pool = 0, uint64_t max_checkpoints = 0) {
  kvc_group_config g = full_group(pool);
  g.kind = KVC_GROUP_STATE;
  g.retention_tokens = retention;
  g.max_checkpoints = max_checkpoints;
  return g;
}

inline kvc_manager_config shape(uint64_t blocks, uint32_t block_size = 16) {
  kvc_manager_config c{};
  c.struct_size = sizeof c;
  c.num_blocks = blocks;
  c.block_size = block_size;
  return c;
}
// Options of a request, and the namespace of its prompt.
struct RequestOptions : kvc_request_config {
  uint64_t ns;
};
inline RequestOptions request_config(uint32_t flags = 0, uint64_t ns = 0) {
  RequestOptions c{};
  c.struct_size = sizeof(kvc_request_config);
  c.flags = flags;
  c.ns = ns;
  return c;
}
inline kvc_extra_key span(uint64_t at, uint64_t count, uint8_t digest) {
  kvc_extra_key key{at, count, {}};
  key.digest[31] = digest;
  return key;
}

template <typename T>
T sized() {
  T value{};
  value.struct_size = sizeof value;
  return value;
}

struct Admitted {
  uint64_t id = 0, cached = 0;
};

class Cache {
 public:
  explicit Cache(kvc_manager_config config, const std::vector<kvc_group_config>& groups = {},
                 const std::vector<uint64_t>& pools = {}) {
    std::vector<kvc_pool_config> pool_configs;
    for (uint64_t n : pools) pool_configs.push_back({sizeof(kvc_pool_config), n, 0});
    if (!groups.empty()) config.groups = groups.data(), config.num_groups = groups.size();
    if (!pools.empty())
      config.num_blocks = 0, config.pools = pool_configs.data(), config.num_pools = pools.size();
    EXPECT_EQ(kvc_manager_create(&config, &m_), KVC_OK) << kvc_last_error();
    verify();
  }
  ~Cache() {
    verify();
    kvc_manager_destroy(m_);
  }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  kvc_manager* get() const { return m_; }
  kvc_status verify(kvc_status status = KVC_OK) const {
    EXPECT_EQ(kvc_manager_check(m_), KVC_OK) << kvc_last_error();
    const kvc_stats s = stats();
    EXPECT_EQ(s.blocks_free + s.blocks_cached + s.blocks_live + s.blocks_reserved + s.blocks_filling +
                  s.blocks_fenced + s.blocks_pinned,
              s.blocks_total);
    return status;
  }

  // ---- requests
  kvc_status try_allocate(const Tokens& tokens, Admitted* out,
                          const RequestOptions& config = request_config(), const Keys& keys = {}) {
    return verify(kvc_manager_allocate_request(
        m_, PROMPT(config.ns, tokens.data(), tokens.size(), keys.data(), keys.size()), &config, &out->id,
        &out->cached));
  }
  Admitted allocate(const Tokens& tokens, const RequestOptions& config = request_config(),
                    const Keys& keys = {}) {
    Admitted out;
    EXPECT_EQ(try_allocate(tokens, &out, config, keys), KVC_OK) << kvc_last_error();
    return out;
  }
  void commit(uint64_t id, uint64_t tokens) {
    EXPECT_EQ(verify(kvc_manager_commit_tokens(m_, id, tokens)), KVC_OK) << kvc_last_error();
  }
  kvc_status try_append(uint64_t id, const Tokens& tokens) {
    return verify(kvc_manager_append_tokens(m_, id, tokens.data(), tokens.size()));
  }
  void append(uint64_t id, const Tokens& tokens) {
    EXPECT_EQ(try_append(id, tokens), KVC_OK) << kvc_last_error();
  }
  kvc_status try_reserve(uint64_t id, uint64_t capacity) {
    return verify(kvc_manager_reserve_tokens(m_, id, capacity));
  }
  kvc_status try_truncate(uint64_t id, uint64_t tokens) {
    return verify(kvc_manager_truncate_request(m_, id, tokens));
  }
  void truncate(uint64_t id, uint64_t tokens) {
    EXPECT_EQ(try_truncate(id, tokens), KVC_OK) << kvc_last_error();
  }
  uint64_t fork(uint64_t id) {
    uint64_t child = 0;
    EXPECT_EQ(verify(kvc_manager_fork_request(m_, id, &child)), KVC_OK) << kvc_last_error();
    return child;
  }
  void preempt(uint64_t id) {
    EXPECT_EQ(verify(kvc_manager_preempt_request(m_, id)), KVC_OK) << kvc_last_error();
  }
  uint64_t admit(uint64_t id) {
    uint64_t cached = 0;
    EXPECT_EQ(verify(kvc_manager_admit_request(m_, id, &cached)), KVC_OK) << kvc_last_error();
    return cached;
  }
  void free(uint64_t id) { EXPECT_EQ(verify(kvc_manager_free_request(m_, id)), KVC_OK) << kvc_last_error(); }
  // Admits, commits everything and, if asked, frees: what a finished prefill leaves behind.
  Admitted compute(const Tokens& tokens, const RequestOptions& config = request_config(),
                   const Keys& keys = {}) {
    const Admitted a = allocate(tokens, config, keys);
    commit(a.id, tokens.size());
    return a;
  }
  // Appends and commits tokens[begin ..] one by one, as decoding does.
  void decode(uint64_t id, const Tokens& tokens, size_t begin) {
    for (size_t n = begin; n < tokens.size(); ++n) {
      EXPECT_EQ(kvc_manager_append_tokens(m_, id, &tokens[n], 1), KVC_OK) << kvc_last_error();
      commit(id, n + 1);
    }
  }
  uint64_t store(const Tokens& tokens, const RequestOptions& config = request_config(),
                 const Keys& keys = {}) {
    const Admitted a = compute(tokens, config, keys);
    free(a.id);
    return a.cached;
  }
  std::vector<kvc_block_copy> take_copies() {
    std::vector<kvc_block_copy> copies(64);
    size_t count = 0;
    EXPECT_EQ(verify(::take_copies(m_, copies.data(), copies.size(), &count)), KVC_OK);
    copies.resize(count);
    return copies;
  }

  // ---- prefixes and external blocks
  kvc_probe_info probe(const Tokens& tokens, uint64_t ns = 0, const Keys& keys = {}) const {
    kvc_probe_info info = sized<kvc_probe_info>();
    EXPECT_EQ(verify(kvc_manager_probe(m_, PROMPT(ns, tokens.data(), tokens.size(), keys.data(), keys.size()),
                                       &info)),
              KVC_OK)
        << kvc_last_error();
    return info;
  }
  uint64_t hit(const Tokens& tokens, uint64_t ns = 0, const Keys& keys = {}) const {
    return probe(tokens, ns, keys).num_cached;
  }
  // Cached tokens of a text when all of it may match.
  uint64_t whole_hit(Tokens tokens, uint64_t ns = 0, const Keys& keys = {}) const {
    tokens.push_back(0);
    return hit(tokens, ns, keys);
  }
  kvc_status try_pin(const Tokens& tokens, uint64_t* pin, uint64_t* pinned) {
    return verify(
        kvc_manager_pin_prefix(m_, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), pin, pinned));
  }
  Admitted pin(const Tokens& tokens) {
    Admitted out;
    EXPECT_EQ(try_pin(tokens, &out.id, &out.cached), KVC_OK) << kvc_last_error();
    return out;
  }
  void unpin(uint64_t pin) { EXPECT_EQ(verify(kvc_manager_unpin_prefix(m_, pin)), KVC_OK); }
  uint64_t drop(const Tokens& tokens) {
    uint64_t dropped = 0;
    EXPECT_EQ(
        verify(kvc_manager_drop_prefix(m_, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), &dropped)),
        KVC_OK);
    return dropped;
  }
  size_t evict(size_t most) {
    size_t evicted = 77;
    EXPECT_EQ(verify(kvc_manager_evict_blocks(m_, -1, most, &evicted)), KVC_OK);
    return evicted;
  }
  kvc_status try_acquire(size_t count, Ids* out, uint32_t group = 0) {
    Ids ids(count);
    const kvc_status status = verify(kvc_manager_acquire_blocks(m_, group, ids.data(), count));
    if (status == KVC_OK) *out = ids;
    return status;
  }
  Ids acquire(size_t count, uint32_t group = 0) {
    Ids ids;
    EXPECT_EQ(try_acquire(count, &ids, group), KVC_OK) << kvc_last_error();
    return ids;
  }
  Ids acquire_prefix(const Tokens& tokens, uint32_t group = 0, uint64_t ns = 0) {
    Ids ids(tokens.size() + 1);
    size_t count = 0;
    EXPECT_EQ(verify(kvc_manager_acquire_prefix(m_, PROMPT(ns, tokens.data(), tokens.size(), nullptr, 0),
                                                group, ids.data(), ids.size(), &count)),
              KVC_OK);
    ids.resize(count);
    return ids;
  }
  kvc_status publish(const Tokens& tokens, const Ids& blocks, uint32_t group = 0) {
    return verify(kvc_manager_publish_blocks(m_, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), group,
                                             blocks.data(), blocks.size()));
  }
  kvc_status release(const Ids& blocks) {
    return verify(kvc_manager_release_blocks(m_, blocks.data(), blocks.size()));
  }

  // ---- questions
  Ids table(uint64_t id, uint32_t group = 0) const {
    const kvc_request_info info = request(id);
    const size_t entries = static_cast<size_t>((info.capacity + block_size() - 1) / block_size());
    Ids ids(entries, -7);
    if (entries == 0) return ids;
    EXPECT_EQ(kvc_manager_export_tables(m_, &id, 1, group, -1, ids.data(), entries), KVC_OK)
        << kvc_last_error();
    return ids;
  }
  kvc_request_info request(uint64_t id) const {
    kvc_request_info info = sized<kvc_request_info>();
    EXPECT_EQ(kvc_manager_request_info(m_, id, &info), KVC_OK);
    return info;
  }
  kvc_block_info block(int32_t id) const {
    kvc_block_info info = sized<kvc_block_info>();
    EXPECT_EQ(kvc_manager_block_info(m_, id, &info), KVC_OK) << id;
    return info;
  }
  kvc_stats stats() const {
    kvc_stats s = sized<kvc_stats>();
    EXPECT_EQ(kvc_manager_read_stats(m_, &s), KVC_OK);
    return s;
  }
  uint64_t available() const {
    const kvc_stats s = stats();
    return s.blocks_free + s.blocks_cached;
  }
  uint64_t digest() const {
    uint64_t value = 0;
    EXPECT_EQ(kvc_manager_digest(m_, &value), KVC_OK);
    return value;
  }
  uint32_t block_size() const {
    kvc_properties p = sized<kvc_properties>();
    EXPECT_EQ(kvc_manager_properties(m_, &p), KVC_OK);
    return p.block_size;
  }
  uint64_t open(const char* model, const char* adapter = nullptr, const char* tenant = nullptr) {
    kvc_namespace_config c = sized<kvc_namespace_config>();
    c.model = model, c.adapter = adapter, c.tenant = tenant;
    c.model_size = model ? std::string(model).size() : 0;
    c.adapter_size = adapter ? std::string(adapter).size() : 0;
    c.tenant_size = tenant ? std::string(tenant).size() : 0;
    uint64_t id = 77;
    EXPECT_EQ(verify(kvc_manager_open_namespace(m_, &c, &id)), KVC_OK);
    return id;
  }
  void reset_all() { EXPECT_EQ(verify(kvc_manager_reset_all(m_)), KVC_OK); }
  void reset_namespace(uint64_t ns) { EXPECT_EQ(verify(kvc_manager_reset_namespace(m_, ns)), KVC_OK); }
  // The victims of allocating every available block one by one, in order.
  Ids drain(uint32_t group = 0) {
    Ids all, one;
    while (try_acquire(1, &one, group) == KVC_OK) all.push_back(one[0]);
    return all;
  }

 private:
  kvc_manager* m_ = nullptr;
};

// Runs a call that must fail with `status` and leave the digest alone.
#define EXPECT_REFUSED(cache, status, call)    \
  do {                                         \
    const uint64_t before_ = (cache).digest(); \
    EXPECT_EQ((call), (status));               \
    EXPECT_EQ((cache).digest(), before_);      \
  } while (0)

}  // namespace conformance

#endif  // KVCACHE_TESTS_CONFORMANCE_FIXTURE_H_
