// SPDX-License-Identifier: Apache-2.0
#include "manager/cross.h"

#include <array>

#include "base/sha256.h"

namespace kvc {
namespace {

// The tokens of any of its positions, of whatever block size.
constexpr auto kCrossTokens = [] {
  std::array<int32_t, 1024> tokens = {};
  tokens.fill(kCrossToken);
  return tokens;
}();

}  // namespace

bool cross_key(const kvc_request_config& config, kvc_extra_key* key) {
  static constexpr uint8_t kNone[sizeof config.cross_digest] = {};
  if (std::memcmp(config.cross_digest, kNone, sizeof kNone) == 0) return false;
  Sha256 hash;
  hash.update(config.cross_digest, sizeof config.cross_digest);
  hash.update(&config.cross_tokens, sizeof config.cross_tokens);
  const Digest256 digest = hash.finish();
  key->first_token = 0;
  key->num_tokens = 1;
  std::memcpy(key->digest, digest.bytes, sizeof key->digest);
  return true;
}

kvc_status check_cross_key(const TokenSpan& prompt, const kvc_extra_key& key) {
  for (size_t i = 0; i < prompt.num_keys; ++i) {
    if (prompt.keys[i].first_token != 0 || std::memcmp(&prompt.keys[i], &key, sizeof key) == 0) continue;
    return fail(
        KVC_ERROR_UNSUPPORTED,
        "extra key %zu covers token 0, to which cross_digest binds the prefix; let the keys begin behind it, "
        "and put what this one says into cross_digest",
        i);
  }
  return KVC_OK;
}

void Cross::bind(Request& request, const kvc_request_config& config, const kvc_extra_key& key) {
  ExtraKey& content = encoders_[index_of(request)].key;
  content = {0, static_cast<uint32_t>(config.cross_tokens), 0, {}};
  std::memcpy(content.digest, config.cross_digest, sizeof content.digest);
  request.share_cross(key);
}

size_t Cross::fill(Request& request, const TokenSpan& prompt) {
  Encoder& encoder = encoders_[index_of(request)];
  uint64_t chain = request.chain;
  for (size_t j = 0; j < positions_of(request); ++j) {
    hash_.blocks(chain, kCrossTokens.data(), shape_.block_size, 1, &chain);
    chain = ExtraView(encoder.keys(), j * shape_.block_size, shape_.block_size).hash(hash_, chain);
    encoder.hashes.data[j] = chain;
  }
  return order_keys(prompt.keys, prompt.num_keys, request.keys.data, 1);
}

// Whether all of the encoder's blocks are cached, in path_, which has room for them.
bool Cross::find(const Request& request, uint64_t epoch) {
  const Encoder& encoder = encoders_[index_of(request)];
  const PrefixTree& tree = blocks_.tree();
  NodeId node = root_of(request.ns);
  for (size_t j = 0; j < positions_of(request); ++j) {
    const ExtraView extra(encoder.keys(), j * shape_.block_size, shape_.block_size);
    node = tree.find(node, encoder.hashes.data[j], kCrossTokens.data(), extra, epoch);
    if (!is_node(node) || tree[node].resident != shape_.cross_groups) return false;
    path_.data[j] = node;
  }
  return true;
}

kvc_status Cross::match(const Request& request, AdmissionPlan* plan) {
  if (request.cross_tokens == 0) return KVC_OK;
  const size_t positions = positions_of(request);
  if (!path_.reserve(arena_, positions, 0))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory to match %zu blocks of an encoder", positions);
  plan->cross_cached = reads(request) && request.cross_shared && find(request, plan->epoch);
  return KVC_OK;
}

void Cross::add_demand(const Request& request, AdmissionPlan* plan) const {
  const size_t positions = positions_of(request);
  for (const uint32_t g : groups()) {
    if (!plan->cross_cached) {
      plan->demand.blocks[shape_.groups[g].pool] += positions;
      continue;
    }
    for (size_t j = 0; j < positions; ++j)
      plan->demand.add_hit(blocks_.pool()[blocks_.tree().block_of(path_.data[j], g)]);
  }
}

bool Cross::reserve(Request& request, const AdmissionPlan&, bool) {
  for (const uint32_t g : groups()) {
    if (!request.groups[g].blocks.reserve(arena_, positions_of(request), request.cross_positions))
      return false;
  }
  return true;
}

void Cross::hold(Request& request, const AdmissionPlan& plan) {
  const size_t positions = positions_of(request);
  if (positions == 0 || !plan.cross_cached) return;
  for (const uint32_t g : groups()) {
    for (size_t j = 0; j < positions; ++j) {
      const BlockId block = blocks_.tree().block_of(path_.data[j], g);
      blocks_.hold(block);
      request.groups[g].blocks.data[j] = block;
    }
  }
  blocks_.cached.use(path_.data, positions);
}

// The tables show what was found, or take as many blocks.
void Cross::begin(Request& request, const AdmissionPlan& plan) {
  const size_t positions = positions_of(request);
  if (positions == 0) return;
  for (const uint32_t g : groups()) {
    request.groups[g].begin(0);
    if (!plan.cross_cached) blocks_.take(g, request.ns, positions, request.groups[g].blocks.data);
  }
  request.begin_cross(positions, plan.cross_cached);
}

void Cross::publish(Request& request, ExtraRecords& extras, bool publishes) {
  const size_t positions = request.cross_positions;
  for (const uint32_t g : groups()) {
    for (size_t j = 0; j < positions; ++j) blocks_.mark_written(request.groups[g].blocks.data[j]);
  }
  request.end_cross_pending();
  if (!publishes) return;
  const Encoder& encoder = encoders_[index_of(request)];
  NodeId cursor = root_of(request.ns);
  const size_t published = blocks_.positions.publish(&cursor,
                                                     {encoder.hashes.data, kCrossTokens.data(), extras,
                                                      request.groups, request.ns, request.epoch, 0, 0, true},
                                                     0, positions);
  blocks_.positions.move_cursor(&cursor, kNoNode);
  counters_.unpublished_blocks += positions - published;
}

// The last position first, so that it is evicted first.
void Cross::released(Request& request, bool stale) {
  for (size_t j = request.cross_positions; j-- > 0;) {
    for (const uint32_t g : groups()) {
      blocks_.release(request.groups[g].blocks.data[j], Keep::kPublished, request.ns, stale);
    }
  }
}

// Two requests would write the same blocks.
kvc_status Cross::check_fork(const Request& parent) const {
  if (!parent.cross_pending) return KVC_OK;
  return fail(
      KVC_ERROR_BUSY,
      "the encoder's %llu tokens of the request are not written yet; compute and commit a token first",
      ull(parent.cross_tokens));
}

kvc_status Cross::reserve_fork(const Request& parent, Request& child) {
  const size_t hashes = parent.cross_shared ? parent.cross_positions : 0;
  bool reserved = true;
  for (const uint32_t g : groups()) {
    reserved = reserved && child.groups[g].blocks.reserve(arena_, parent.cross_positions, 0);
  }
  if (reserved && encoders_[index_of(child)].hashes.reserve(arena_, hashes, 0)) return KVC_OK;
  return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a fork of %u tokens", parent.committed);
}

void Cross::forked(const Request& parent, Request& child) {
  const size_t positions = parent.cross_positions;
  const Encoder& from = encoders_[index_of(parent)];
  Encoder& to = encoders_[index_of(child)];
  to.key = from.key;
  if (parent.cross_shared && positions != 0)
    std::memcpy(to.hashes.data, from.hashes.data, positions * sizeof(uint64_t));
  for (const uint32_t g : groups()) {
    for (size_t j = 0; j < positions; ++j) {
      const BlockId block = parent.groups[g].blocks.data[j];
      child.groups[g].blocks.data[j] = block;
      blocks_.share(block);
    }
  }
}

kvc_status Cross::check(size_t index, const Request& request) const {
  for (const uint32_t g : groups()) {
    const BlockPool& pool = blocks_.pool();
    const PrefixTree& tree = blocks_.tree();
    NodeId before = root_of(request.ns);
    for (size_t j = 0; j < request.cross_positions; ++j) {
      const BlockId id = request.groups[g].blocks.data[j];
      KVC_CHECK(is_block(id) && pool.exists(raw(id)) && pool[id].pool == shape_.groups[g].pool &&
                    pool[id].group == g,
                "request %zu, group %u, position %zu: block %d is not of this group", index, g, j, raw(id));
      KVC_CHECK(request.cross_pending || pool[id].content == Content::kWritten,
                "request %zu, group %u: block %d of its encoder is not written", index, g, raw(id));
      const NodeId node = pool[id].node;
      KVC_CHECK(!is_node(node) || (request.cross_shared && tree[node].depth == j &&
                                   (tree[node].parent == before || j == 0 || !is_node(before))),
                "request %zu, group %u, position %zu: block %d is published elsewhere", index, g, j, raw(id));
      before = node;
    }
  }
  return KVC_OK;
}

void Cross::digest_tables(const Request& request, DigestHash* out) const {
  if (request.cross_tokens == 0) return;
  out->add(request.cross_tokens | uint64_t{request.cross_shared} << 32 |
           uint64_t{request.cross_pending} << 33 | uint64_t{request.cross_cached} << 34);
  for (const uint32_t g : groups())
    out->add_bytes(request.groups[g].blocks.data, request.cross_positions * sizeof(BlockId));
}

}  // namespace kvc
