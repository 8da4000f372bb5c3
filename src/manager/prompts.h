// SPDX-License-Identifier: Apache-2.0
// Prompts that the engine has registered by name. Each pins what is cached of it, and grows its pin by what a
// request with this prompt has published, before that releases it. All memory is taken when a prompt is
// registered, so that growing never fails. Under the manager's lock.
#pragma once
#include "manager/lookup.h"
#include "manager/pins.h"

namespace kvc {

struct RegisteredPrompt {
  Buffer<char> name;  // without a 0
  uint32_t name_size;
  uint32_t name_hash;
  int32_t next;         // with this bucket, or of the unused records; -1 = end
  uint32_t generation;  // changes when the record is used again
  bool registered;
  NamespaceId ns;
  uint64_t epoch;  // of what is pinned
  uint32_t num_tokens, num_keys;
  KeyList key_list() const { return {keys.data, num_keys}; }
  uint32_t num_positions;  // full blocks
  uint32_t num_pinned;     // positions
  Buffer<int32_t> tokens;
  Buffer<ExtraKey> keys;
  Buffer<uint64_t> hashes;  // [num_positions]
  Buffer<BlockId> blocks;   // [num_token_groups][num_pinned], room for all positions
};

class Prompts {
 public:
  static constexpr size_t kLongestName = 255;

  Prompts(const Shape& shape, Blocks& blocks, Pins& pins, Arena& arena)
      : shape_(shape), blocks_(blocks), pins_(pins), arena_(arena) {}
  [[nodiscard]] bool create(Memory& memory) { return bound_.create(memory, shape_.max_requests); }

  // `name` has 1 to kLongestName bytes. `scratch` has the prompt, of `span`.
  kvc_status add(const char* name, const TokenSpan& span, LookupScratch& scratch, uint64_t* num_pinned);
  kvc_status remove(const char* name);
  // For contents that are taken over: add() without a pin, at the record `index` if nobody has that, and the
  // pin of at most `num_positions` positions once their blocks are there.
  kvc_status carry(const char* name, const TokenSpan& span, const LookupScratch& scratch, uint32_t index);
  void pin_again(const char* name, size_t num_positions) {
    if (const int32_t index = find(name); index >= 0) grow(records_.data[index], num_positions);
  }
  // As of Pins.
  void follow_moves(PoolIndex pool) {
    each([&](size_t, const RegisteredPrompt& prompt) {
      blocks_.compactor.follow_moves(pool, prompt.blocks.data,
                                     size_t{prompt.num_pinned} * shape_.num_token_groups);
    });
  }
  // After a reset: what is pinned of older epochs is given up.
  void drop_stale() {
    each([&](size_t i, const RegisteredPrompt& prompt) {
      if (prompt.epoch != blocks_.namespaces().epoch(prompt.ns)) give_up(records_.data[i]);
    });
  }

  // A prompt's tokens and keys, with room for more tokens. The owner gives the memory back.
  struct Text {
    Buffer<int32_t> tokens;
    Buffer<kvc_extra_key> keys;
    TokenSpan span;
    uint32_t index, generation;  // of the prompt
  };
  kvc_status copy(const char* name, size_t num_more, Text* text);
  void give_back(Text* text) {
    text->tokens.clear(arena_);
    text->keys.clear(arena_);
  }

  // A request, by its index, has this prompt.
  void bind(uint32_t request, const Text& text) { bound_[request] = {text.index + 1, text.generation}; }
  void bind(uint32_t request, const char* name) {
    if (const int32_t index = find(name); index >= 0)
      bound_[request] = {static_cast<uint32_t>(index) + 1, records_.data[index].generation};
  }
  void unbind(uint32_t request) {
    if (count_ != 0) [[unlikely]]
      bound_[request] = {};
  }
  // The request is about to release its blocks: what is cached of its prompt is pinned.
  void keep(uint32_t request) {
    if (count_ != 0) [[unlikely]]
      keep_prompt_of(request);
  }

  size_t count() const { return count_; }
  // Records that were ever in use, and the prompt of one; nullptr = it is not registered.
  size_t num_records() const { return used_; }
  const RegisteredPrompt* at(size_t i) const {
    return i < used_ && records_.data[i].registered ? &records_.data[i] : nullptr;
  }
  // visit(index, prompt): the registered ones.
  template <typename Visit>
  void each(Visit&& visit) const {
    for (size_t i = 0; i < used_; ++i) {
      if (records_.data[i].registered) visit(i, records_.data[i]);
    }
  }
  // Index of the prompt of a request, + 1; 0 = none.
  uint32_t bound(size_t request) const {
    const Binding& binding = bound_[request];
    return binding.index != 0 && is_current(binding) ? binding.index : 0;
  }

 private:
  struct Binding {
    uint32_t index;  // + 1; 0 = none
    uint32_t generation;
  };
  bool is_current(const Binding& binding) const {
    const RegisteredPrompt& prompt = records_.data[binding.index - 1];
    return prompt.registered && prompt.generation == binding.generation;
  }
  int32_t find(const char* name) const;
  bool make_record();
  kvc_status check_new(const char* name, const LookupScratch& scratch, Prompt* content) const;
  kvc_status begin(const char* name, const TokenSpan& span, const Prompt& content, size_t num_positions,
                   RegisteredPrompt* fresh);
  kvc_status no_memory(RegisteredPrompt& fresh, size_t num_tokens) {
    free_buffers(fresh);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory to register a prompt of %zu tokens", num_tokens);
  }
  void enter(int32_t* link, RegisteredPrompt& fresh);
  void free_buffers(RegisteredPrompt& prompt) {
    prompt.name.clear(arena_);
    prompt.tokens.clear(arena_);
    prompt.keys.clear(arena_);
    prompt.hashes.clear(arena_);
    prompt.blocks.clear(arena_);
  }
  void give_up(RegisteredPrompt& prompt) {
    pins_.release(prompt.blocks.data, prompt.num_pinned);
    prompt.num_pinned = 0;
  }
  [[gnu::noinline]] void keep_prompt_of(uint32_t request) {
    if (const uint32_t index = bound(request); index != 0)
      grow(records_.data[index - 1], records_.data[index - 1].num_positions);
  }
  void grow(RegisteredPrompt& prompt, size_t most);

  const Shape& shape_;
  Blocks& blocks_;
  Pins& pins_;
  Arena& arena_;
  Array<Binding> bound_;  // by index of the request
  Buffer<RegisteredPrompt> records_ = {};
  Buffer<int32_t> buckets_ = {};  // [num_buckets_] first record, -1 = none
  // Room for the largest prompt.
  Buffer<NodeId> path_ = {};
  Buffer<uint32_t> residents_ = {};
  Buffer<BlockId> spare_ = {};
  uint32_t num_buckets_ = 0;  // a power of two
  uint32_t used_ = 0;         // records that were ever in use
  int32_t unused_ = -1;
  size_t count_ = 0;
};

}  // namespace kvc
