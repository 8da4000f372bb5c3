// SPDX-License-Identifier: Apache-2.0
#include "manager/lookup.h"

#include "manager/matcher.h"

namespace kvc {

kvc_status check_tokens(const int32_t* tokens, size_t num_tokens, uint32_t vocab_size, size_t offset) {
  const int32_t limit =
      vocab_size == 0 || vocab_size > INT32_MAX ? INT32_MAX : static_cast<int32_t>(vocab_size - 1);
  uint32_t bad = 0;  // top bit set if a token is negative or above the limit: vectorizes
#pragma GCC unroll 4
  for (size_t i = 0; i < num_tokens; ++i) {
    const auto token = static_cast<uint32_t>(tokens[i]);
    bad |= token | (static_cast<uint32_t>(limit) - token);
  }
  if (bad <= INT32_MAX) return KVC_OK;
  size_t i = 0;
  while (tokens[i] >= 0 && tokens[i] <= limit) ++i;
  return invalid("token %zu is %d; ids must be 0 .. %d (vocab_size)", offset + i, tokens[i], limit);
}

kvc_status check_keys(const kvc_extra_key* keys, size_t num_keys, uint64_t num_tokens) {
  if (num_keys != 0 && (num_keys - 1) / KVC_MAX_KEYS_OF_TOKEN >= num_tokens) {
    return invalid(
        "%zu extra keys over %llu tokens; each covers at least one of its own, and at most %d cover one",
        num_keys, ull(num_tokens), KVC_MAX_KEYS_OF_TOKEN);
  }
  for (size_t i = 0; i < num_keys; ++i) {
    const kvc_extra_key& key = keys[i];
    if (key.num_tokens == 0 || key.num_tokens > num_tokens || key.first_token > num_tokens - key.num_tokens) {
      return invalid(
          "extra key %zu covers tokens %llu + %llu; keys must be not empty and inside the %llu tokens", i,
          ull(key.first_token), ull(key.num_tokens), ull(num_tokens));
    }
  }
  return KVC_OK;
}

kvc_status check_span(const TokenSpan& span, const Shape& shape) {
  if (span.num_tokens > shape.max_request_tokens) {
    return fail(KVC_ERROR_LIMIT, "%zu tokens are more than max_request_tokens, %llu", span.num_tokens,
                ull(shape.max_request_tokens));
  }
  return check_keys(span.keys, span.num_keys, span.keys_ahead ? shape.max_request_tokens : span.num_tokens);
}

kvc_status check_links(uint64_t token) {
  if (token == kNoToken) return KVC_OK;
  return fail(KVC_ERROR_LIMIT,
              "more than %d extra keys cover token %llu; put what they say into fewer digests",
              KVC_MAX_KEYS_OF_TOKEN, ull(token));
}

uint64_t hash_span(const TableHash& hash, uint64_t chain, const int32_t* tokens, size_t num_tokens,
                   KeyList keys, uint32_t block_size, uint64_t* out) {
  const size_t blocks = num_tokens / block_size;
  if (keys.count == 0) return hash.blocks(chain, tokens, block_size, blocks, out);
  for (size_t i = 0; i < blocks; ++i) {
    hash.blocks(chain, tokens + i * block_size, block_size, 1, &chain);
    chain = ExtraView(keys, i * block_size, block_size).hash(hash, chain);
    out[i] = chain;
  }
  return chain;
}

kvc_status OrderedKeys::order(const TokenSpan& span) {
  if (span.num_keys == 0) return KVC_OK;
  {
    const std::lock_guard lock(mutex_);
    if (!keys_.reserve(arena_, span.num_keys, 0))
      return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu extra keys", span.num_keys);
  }
  count_ = order_keys(span.keys, span.num_keys, keys_.data);
  return check_links(link_keys(keys_.data, 0, count_));
}

OrderedKeys::~OrderedKeys() {
  if (keys_.data == nullptr) return;
  const std::lock_guard lock(mutex_);
  keys_.clear(arena_);
}

LookupScratch::LookupScratch(Matcher& matcher, const TokenSpan& span)
    : matcher_(matcher), span_(span), keys_(matcher.mutex_, matcher.arena_), status_(prepare()) {}

kvc_status LookupScratch::prepare() {
  const Shape& shape = matcher_.shape_;
  KVC_TRY(check_span(span_, shape));
  KVC_TRY(check_tokens(span_.tokens, span_.num_tokens, shape.vocab_size));
  KVC_TRY(keys_.order(span_));
  num_blocks_ = span_.num_tokens / shape.block_size;
  uint64_t root;
  {
    const std::lock_guard lock(matcher_.mutex_);
    NamespaceId ns{};
    KVC_TRY(matcher_.blocks_.namespaces().find(span_.namespace_id, &ns));
    root = matcher_.root(ns);
    Arena& arena = matcher_.arena_;
    if (!hashes_.reserve(arena, num_blocks_, 0) || !path_.reserve(arena, num_blocks_, 0) ||
        !residents_.reserve(arena, num_blocks_, 0) || !idle_.reserve(arena, num_blocks_, 0))
      return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory to look up %zu blocks", num_blocks_);
  }
  hash_span(matcher_.hash_, root, span_.tokens, span_.num_tokens, keys(), shape.block_size, hashes_.data);
  return KVC_OK;
}

LookupScratch::~LookupScratch() {
  if (hashes_.data == nullptr) return;
  const std::lock_guard lock(matcher_.mutex_);
  hashes_.clear(matcher_.arena_);
  path_.clear(matcher_.arena_);
  residents_.clear(matcher_.arena_);
  idle_.clear(matcher_.arena_);
}

kvc_status LookupScratch::look(Prompt* prompt) const {
  NamespaceId ns{};
  KVC_TRY(matcher_.blocks_.namespaces().find(span_.namespace_id, &ns));
  *prompt = Prompt{span_.tokens, hashes_.data, keys(), ns, matcher_.blocks_.namespaces().epoch(ns)};
  return KVC_OK;
}

kvc_status LookupScratch::match(size_t limit, uint32_t groups, Prompt* prompt, size_t* length) {
  KVC_TRY(look(prompt));
  limit = std::min(limit, num_blocks_);
  *length = matcher_.match(*prompt, limit, groups, 0, path_.data, residents_.data, nullptr);
  return KVC_OK;
}

}  // namespace kvc
