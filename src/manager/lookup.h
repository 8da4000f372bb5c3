// SPDX-License-Identifier: Apache-2.0
// The tokens of a call, checked and hashed outside the lock. A LookupScratch borrows its arrays from the
// manager's arena for one call.
#pragma once
#include "manager/shape.h"
#include "prefix/prefix_tree.h"

namespace kvc {

class Matcher;

// A kvc_prompt: tokens with their extra keys, as the caller has them, and their namespace.
struct TokenSpan {
  const int32_t* tokens;
  size_t num_tokens;
  const kvc_extra_key* keys;
  size_t num_keys;
  uint64_t namespace_id = 0;
  bool keys_ahead = false;  // its keys may lie behind its tokens: those of a request that lives
};

inline bool token_in_range(int32_t token, uint32_t vocab_size) {
  return token >= 0 && (vocab_size == 0 || static_cast<uint32_t>(token) < vocab_size);
}
// INVALID_ARGUMENT, naming the first token that is negative or not below vocab_size (0 = no limit).
kvc_status check_tokens(const int32_t* tokens, size_t num_tokens, uint32_t vocab_size, size_t offset = 0);
// LIMIT if there are more tokens than a request may have; INVALID_ARGUMENT if the keys are not inside the
// tokens.
kvc_status check_span(const TokenSpan& span, const Shape& shape);
// INVALID_ARGUMENT if keys are not inside so many tokens.
kvc_status check_keys(const kvc_extra_key* keys, size_t num_keys, uint64_t num_tokens);
// LIMIT if link_keys() has found a token with too many keys.
kvc_status check_links(uint64_t token);

// Table keys of the full blocks of tokens with keys: out[num_tokens / block_size]. Returns the unmasked
// chain.
uint64_t hash_span(const TableHash& hash, uint64_t chain, const int32_t* tokens, size_t num_tokens,
                   KeyList keys, uint32_t block_size, uint64_t* out);

// The keys of a call, in order, in memory of the arena while it lasts. The caller must not hold the lock.
class OrderedKeys {
 public:
  OrderedKeys(std::mutex& mutex, Arena& arena) : mutex_(mutex), arena_(arena) {}
  ~OrderedKeys();
  OrderedKeys(const OrderedKeys&) = delete;
  OrderedKeys& operator=(const OrderedKeys&) = delete;
  kvc_status order(const TokenSpan& span);
  KeyList list() const { return {keys_.data, count_}; }

 private:
  std::mutex& mutex_;
  Arena& arena_;
  Buffer<ExtraKey> keys_ = {};
  size_t count_ = 0;
};

// The path of one call: hashes, nodes, residents. The caller must not hold the lock when it makes or destroys
// one. `status` says whether the prompt is valid and there was memory.
class LookupScratch {
 public:
  LookupScratch(Matcher& matcher, const TokenSpan& span);
  ~LookupScratch();
  LookupScratch(const LookupScratch&) = delete;
  LookupScratch& operator=(const LookupScratch&) = delete;

  kvc_status status() const { return status_; }
  size_t num_tokens() const { return span_.num_tokens; }
  size_t num_blocks() const { return num_blocks_; }
  KeyList keys() const { return keys_.list(); }
  // Under the lock: the prompt in the current epoch. NOT_FOUND if the namespace was closed meanwhile.
  kvc_status look(Prompt* prompt) const;
  // The same, and how many of its positions within `limit` blocks serve a hit in all these groups: in path().
  kvc_status match(size_t limit, uint32_t groups, Prompt* prompt, size_t* length);
  NodeId* path() { return path_.data; }
  uint32_t* residents() { return residents_.data; }
  uint32_t* idle() { return idle_.data; }

 private:
  kvc_status prepare();

  Matcher& matcher_;
  TokenSpan span_;
  OrderedKeys keys_;
  size_t num_blocks_ = 0;
  Buffer<uint64_t> hashes_ = {};
  Buffer<NodeId> path_ = {};
  Buffer<uint32_t> residents_ = {};
  Buffer<uint32_t> idle_ = {};
  const kvc_status status_;  // the last one: prepare() fills those before
};

}  // namespace kvc
