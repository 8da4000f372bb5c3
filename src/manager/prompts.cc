// SPDX-License-Identifier: Apache-2.0
#include "manager/prompts.h"

namespace kvc {
namespace {

uint32_t hash_name(const char* name, size_t size) {
  DigestHash hash;
  hash.add_bytes(name, size);
  return static_cast<uint32_t>(hash.value());
}

template <typename T>
void copy_to(Buffer<T>& to, const T* from, size_t count) {
  if (count != 0) std::memcpy(to.data, from, count * sizeof(T));
}

}  // namespace

int32_t Prompts::find(const char* name) const {
  if (count_ == 0) return -1;
  const size_t size = std::strlen(name);
  const uint32_t hash = hash_name(name, size);
  int32_t i = buckets_.data[hash & (num_buckets_ - 1)];
  for (; i >= 0; i = records_.data[i].next) {
    const RegisteredPrompt& prompt = records_.data[i];
    if (prompt.name_hash == hash && prompt.name_size == size &&
        std::memcmp(prompt.name.data, name, size) == 0)
      break;
  }
  return i;
}

// Makes one more record, the first of the unused ones, with as many buckets as records.
bool Prompts::make_record() {
  if (!records_.reserve(arena_, used_ + 1, used_)) return false;
  if (used_ + 1 > num_buckets_) {
    const uint32_t wanted = num_buckets_ == 0 ? 16 : 2 * num_buckets_;
    if (!buckets_.reserve(arena_, wanted, 0)) return false;
    num_buckets_ = wanted;
    std::memset(buckets_.data, 0xff, wanted * sizeof(int32_t));
    each([&](size_t i, const RegisteredPrompt& prompt) {
      int32_t& first = buckets_.data[prompt.name_hash & (num_buckets_ - 1)];
      records_.data[i].next = first;
      first = static_cast<int32_t>(i);
    });
  }
  records_.data[used_] = {};
  records_.data[used_].next = unused_;
  unused_ = static_cast<int32_t>(used_++);
  return true;
}

kvc_status Prompts::add(const char* name, const TokenSpan& span, LookupScratch& scratch,
                        uint64_t* num_pinned) {
  Prompt content;
  KVC_TRY(check_new(name, scratch, &content));
  const size_t length = pins_.find(content, scratch.num_blocks(), scratch.path(), scratch.residents());
  KVC_TRY(pins_.check(scratch.path(), length, content.ns));
  RegisteredPrompt fresh = {};
  KVC_TRY(begin(name, span, content, scratch.num_blocks(), &fresh));
  if (unused_ < 0 && !make_record()) return no_memory(fresh, span.num_tokens);
  fresh.num_pinned = static_cast<uint32_t>(length);
  pins_.hold(scratch.path(), length, fresh.blocks.data);
  enter(&unused_, fresh);
  *num_pinned = length * shape_.block_size;
  return KVC_OK;
}

// Memory comes first: what fails leaves at most unused records.
kvc_status Prompts::carry(const char* name, const TokenSpan& span, const LookupScratch& scratch,
                          uint32_t index) {
  Prompt content;
  KVC_TRY(check_new(name, scratch, &content));
  RegisteredPrompt fresh = {};
  KVC_TRY(begin(name, span, content, scratch.num_blocks(), &fresh));
  while (used_ <= index || unused_ < 0) {
    if (!make_record()) return no_memory(fresh, span.num_tokens);
  }
  int32_t* link = &unused_;
  while (*link >= 0 && *link != static_cast<int32_t>(index)) link = &records_.data[*link].next;
  enter(*link < 0 ? &unused_ : link, fresh);  // < 0: it is in use
  return KVC_OK;
}

kvc_status Prompts::check_new(const char* name, const LookupScratch& scratch, Prompt* content) const {
  if (find(name) >= 0)
    return invalid("a prompt \"%s\" is registered; unregister it first, or choose another name", name);
  KVC_TRY(scratch.look(content));
  if (count_ != shape_.max_requests) return KVC_OK;
  return fail(KVC_ERROR_LIMIT,
              "%llu prompts are registered, and max_requests allows no more; unregister some or raise it",
              ull(shape_.max_requests));
}

// All but its pin and its place.
kvc_status Prompts::begin(const char* name, const TokenSpan& span, const Prompt& content,
                          size_t num_positions, RegisteredPrompt* fresh) {
  const size_t name_size = std::strlen(name);
  const size_t num_blocks = num_positions * shape_.num_token_groups;
  if (!fresh->name.reserve(arena_, name_size, 0) || !fresh->tokens.reserve(arena_, span.num_tokens, 0) ||
      !fresh->keys.reserve(arena_, span.num_keys, 0) || !fresh->hashes.reserve(arena_, num_positions, 0) ||
      !fresh->blocks.reserve(arena_, num_blocks, 0) || !path_.reserve(arena_, num_positions, 0) ||
      !residents_.reserve(arena_, num_positions, 0) || !spare_.reserve(arena_, num_blocks, 0))
    return no_memory(*fresh, span.num_tokens);
  fresh->num_positions = static_cast<uint32_t>(num_positions);
  fresh->ns = content.ns;
  fresh->epoch = content.epoch;
  fresh->num_tokens = static_cast<uint32_t>(span.num_tokens);
  fresh->num_keys = static_cast<uint32_t>(content.keys.count);
  fresh->name_size = static_cast<uint32_t>(name_size);
  fresh->name_hash = hash_name(name, name_size);
  copy_to(fresh->name, name, name_size);
  copy_to(fresh->tokens, span.tokens, span.num_tokens);
  copy_to(fresh->keys, content.keys.data, content.keys.count);
  copy_to(fresh->hashes, content.hashes, fresh->num_positions);
  return KVC_OK;
}

// In the unused record that a link leads to.
void Prompts::enter(int32_t* link, RegisteredPrompt& fresh) {
  const int32_t index = *link;
  RegisteredPrompt& prompt = records_.data[index];
  *link = prompt.next;
  fresh.generation = prompt.generation + 1;
  fresh.registered = true;
  int32_t& first = buckets_.data[fresh.name_hash & (num_buckets_ - 1)];
  fresh.next = first;
  first = index;
  prompt = fresh;
  ++count_;
  blocks_.namespace_blocks.add_user(fresh.ns);
}

static kvc_status no_prompt(const char* name) {
  return fail(KVC_ERROR_NOT_FOUND, "no prompt \"%s\" is registered", name);
}

kvc_status Prompts::remove(const char* name) {
  const int32_t index = find(name);
  if (index < 0) return no_prompt(name);
  RegisteredPrompt& prompt = records_.data[index];
  give_up(prompt);
  int32_t* link = &buckets_.data[prompt.name_hash & (num_buckets_ - 1)];
  while (*link != index) link = &records_.data[*link].next;
  *link = prompt.next;
  free_buffers(prompt);
  prompt.registered = false;
  prompt.next = unused_;
  unused_ = index;
  --count_;
  blocks_.namespace_blocks.drop_user(prompt.ns);
  return KVC_OK;
}

kvc_status Prompts::copy(const char* name, size_t num_more, Text* text) {
  const int32_t index = find(name);
  if (index < 0) return no_prompt(name);
  const RegisteredPrompt& prompt = records_.data[index];
  if (num_more > shape_.max_request_tokens - prompt.num_tokens) {
    return fail(KVC_ERROR_LIMIT,
                "%u tokens of the prompt and %zu more are more than max_request_tokens, %llu",
                prompt.num_tokens, num_more, ull(shape_.max_request_tokens));
  }
  const size_t num_tokens = prompt.num_tokens + num_more;
  if (!text->tokens.reserve(arena_, num_tokens, 0) || !text->keys.reserve(arena_, prompt.num_keys, 0)) {
    give_back(text);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the %zu tokens of a request", num_tokens);
  }
  copy_to(text->tokens, prompt.tokens.data, prompt.num_tokens);
  for (size_t i = 0; i < prompt.num_keys; ++i) text->keys.data[i] = prompt.keys.data[i].plain();
  text->span = {text->tokens.data, num_tokens, text->keys.data, prompt.num_keys,
                blocks_.namespaces().id(prompt.ns)};
  text->index = static_cast<uint32_t>(index);
  text->generation = prompt.generation;
  return KVC_OK;
}

// The longest hit within `most` positions replaces what is pinned, unless it is shorter.
void Prompts::grow(RegisteredPrompt& prompt, size_t most) {
  const Prompt content{prompt.tokens.data, prompt.hashes.data, prompt.key_list(), prompt.ns,
                       blocks_.namespaces().epoch(prompt.ns)};
  const size_t limit = std::min<size_t>(most, prompt.num_positions);
  const size_t length = pins_.find(content, limit, path_.data, residents_.data);
  if (length < prompt.num_pinned || !pins_.may_hold(path_.data, length, prompt.ns)) return;
  pins_.hold(path_.data, length, spare_.data);
  give_up(prompt);
  copy_to(prompt.blocks, spare_.data, length * shape_.num_token_groups);
  prompt.num_pinned = static_cast<uint32_t>(length);
  prompt.epoch = content.epoch;
}

}  // namespace kvc
