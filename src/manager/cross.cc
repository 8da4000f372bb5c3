// SPDX-License-Identifier: Apache-2.0
// The blocks of encoders, in the tables of cross groups: found or taken by an admission, all or nothing,
// published by the first commit of a token that was computed after it.
#include "manager/cross.h"

#include <array>

#include "base/sha256.h"
#include "manager/requests.h"

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

bool Requests::reserve_cross_hashes(Request& request) {
  return cross_[table_.index_of(request)].hashes.reserve(arena_, shape_.positions_of(request.cross_tokens),
                                                         0);
}

void Requests::begin_cross(Request& request, const kvc_request_config& config, const kvc_extra_key& key) {
  ExtraKey& content = cross_[table_.index_of(request)].key;
  content = {0, static_cast<uint32_t>(config.cross_tokens), 0, {}};
  std::memcpy(content.digest, config.cross_digest, sizeof content.digest);
  request.share_cross(key);
}

// Hashes the encoder's positions and adds the prompt's keys behind the encoder's. Returns their number.
size_t Requests::fill_cross(Request& request, const TokenSpan& prompt) {
  Cross& cross = cross_[table_.index_of(request)];
  uint64_t chain = request.chain;
  for (size_t j = 0; j < shape_.positions_of(request.cross_tokens); ++j) {
    hash_.blocks(chain, kCrossTokens.data(), shape_.block_size, 1, &chain);
    chain = ExtraView(cross.keys(), j * shape_.block_size, shape_.block_size).hash(hash_, chain);
    cross.hashes.data[j] = chain;
  }
  return order_keys(prompt.keys, prompt.num_keys, request.keys.data, 1);
}

// Whether all of the encoder's blocks are cached, in cross_path_, which has room for them.
bool Requests::find_cross(const Request& request, uint64_t epoch) {
  const Cross& cross = cross_[table_.index_of(request)];
  const PrefixTree& tree = blocks_.tree();
  NodeId node = root_of(request.ns);
  for (size_t j = 0; j < shape_.positions_of(request.cross_tokens); ++j) {
    const ExtraView extra(cross.keys(), j * shape_.block_size, shape_.block_size);
    node = tree.find(node, cross.hashes.data[j], kCrossTokens.data(), extra, epoch);
    if (!is_node(node) || tree[node].resident != shape_.cross_groups) return false;
    cross_path_.data[j] = node;
  }
  return true;
}

// Finds the encoder's blocks for an admission.
kvc_status Requests::plan_cross(const Request& request, AdmissionPlan* admission) {
  const size_t positions = shape_.positions_of(request.cross_tokens);
  if (!cross_path_.reserve(arena_, positions, 0))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory to match %zu blocks of an encoder", positions);
  admission->cross_cached = reads(request) && request.cross_shared && find_cross(request, admission->epoch);
  return KVC_OK;
}

void Requests::add_cross_demand(const Request& request, AdmissionPlan* admission) const {
  const size_t positions = shape_.positions_of(request.cross_tokens);
  for (uint32_t g = shape_.num_token_groups; g < shape_.num_groups; ++g) {
    if (!admission->cross_cached) {
      admission->demand.blocks[shape_.groups[g].pool] += positions;
      continue;
    }
    for (size_t j = 0; j < positions; ++j)
      admission->demand.add_hit(blocks_.pool()[blocks_.tree().block_of(cross_path_.data[j], g)]);
  }
}

bool Requests::reserve_cross_tables(Request& request) {
  const size_t positions = shape_.positions_of(request.cross_tokens);
  for (uint32_t g = shape_.num_token_groups; g < shape_.num_groups; ++g) {
    if (!request.groups[g].blocks.reserve(arena_, positions, request.cross_positions)) return false;
  }
  return true;
}

void Requests::hold_cross(Request& request) {
  const size_t positions = shape_.positions_of(request.cross_tokens);
  for (uint32_t g = shape_.num_token_groups; g < shape_.num_groups; ++g) {
    for (size_t j = 0; j < positions; ++j) {
      const BlockId block = blocks_.tree().block_of(cross_path_.data[j], g);
      blocks_.hold(block);
      request.groups[g].blocks.data[j] = block;
    }
  }
  blocks_.levels().use(cross_path_.data, positions);
}

// The rest of an admission: the tables show what was found, or take as many blocks.
void Requests::begin_cross_tables(Request& request, bool cached) {
  const size_t positions = shape_.positions_of(request.cross_tokens);
  for (uint32_t g = shape_.num_token_groups; g < shape_.num_groups; ++g) {
    request.groups[g].begin(0);
    if (!cached) blocks_.take(g, request.ns, positions, request.groups[g].blocks.data);
  }
  request.begin_cross(positions, cached);
}

// A decoder's keys and values are computed after its encoder's. What a transfer has written says nothing of
// them.
kvc_status Requests::commit_cross(Request& request, uint32_t committed, uint32_t computed) {
  const uint64_t transferred = uint64_t{request.num_cached} + request.external_tokens;
  if (committed <= request.committed || committed <= transferred)
    return commit_known(request, committed, computed);
  const Cross& cross = cross_[table_.index_of(request)];
  const bool publishes = request.next_full != UINT32_MAX && !stale(request);
  const size_t positions = request.cross_positions;
  ExtraRecords extras(arena_, publishes ? cross.keys() : KeyList{}, 0, positions, shape_.block_size);
  if (!extras.ok())
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the extra keys of %zu blocks", positions);
  KVC_TRY(commit_known(request, committed, computed));
  for (uint32_t g = shape_.num_token_groups; g < shape_.num_groups; ++g) {
    for (size_t j = 0; j < positions; ++j) blocks_.mark_written(request.groups[g].blocks.data[j]);
  }
  request.end_cross_pending();
  if (!publishes) return KVC_OK;
  const size_t published = blocks_.positions().publish_cross(
      {cross.hashes.data, kCrossTokens.data(), extras, request.groups, request.ns, request.epoch, 0, 0},
      positions);
  counters_.unpublished_blocks += positions - published;
  return KVC_OK;
}

// The last position first, so that it is evicted first.
void Requests::release_cross(Request& request, bool of_old_epoch) {
  for (size_t j = request.cross_positions; j-- > 0;) {
    for (uint32_t g = shape_.num_token_groups; g < shape_.num_groups; ++g)
      blocks_.release(request.groups[g].blocks.data[j], Keep::kPublished, request.ns, of_old_epoch);
  }
}

bool Requests::reserve_cross_fork(const Request& parent, Request& child) {
  for (uint32_t g = shape_.num_token_groups; g < shape_.num_groups; ++g) {
    if (!child.groups[g].blocks.reserve(arena_, parent.cross_positions, 0)) return false;
  }
  const size_t hashes = parent.cross_shared ? parent.cross_positions : 0;
  return cross_[table_.index_of(child)].hashes.reserve(arena_, hashes, 0);
}

void Requests::fork_cross(const Request& parent, Request& child) {
  const size_t positions = parent.cross_positions;
  const Cross& from = cross_[table_.index_of(parent)];
  Cross& to = cross_[table_.index_of(child)];
  to.key = from.key;
  if (parent.cross_shared && positions != 0)
    std::memcpy(to.hashes.data, from.hashes.data, positions * sizeof(uint64_t));
  for (uint32_t g = shape_.num_token_groups; g < shape_.num_groups; ++g) {
    for (size_t j = 0; j < positions; ++j) {
      const BlockId block = parent.groups[g].blocks.data[j];
      child.groups[g].blocks.data[j] = block;
      blocks_.share(block);
    }
  }
}

}  // namespace kvc
