// SPDX-License-Identifier: Apache-2.0
// Calls about what stays cached: resets, the switch, time, hints of prefixes, registered prompts.
#include "manager/manager.h"

namespace kvc {

kvc_status Manager::reset_namespace(uint64_t namespace_id) {
  return change([&]() -> kvc_status {
    uint32_t ns = 0;
    KVC_TRY(blocks_.reset_namespace(namespace_id, &ns));
    prompts_.drop_stale();
    requests_.curves().forget(ns);
    return KVC_OK;
  });
}

kvc_status Manager::reset_all() {
  return change([&]() -> kvc_status {
    KVC_TRY(blocks_.reset_all());
    prompts_.drop_stale();
    requests_.curves().forget(Curves::kAll);
    return KVC_OK;
  });
}

kvc_status Manager::set_prefix_caching(bool on) {
  if (on && !shape_.caches())
    return fail(KVC_ERROR_UNSUPPORTED, "the manager was created with KVC_MANAGER_NO_PREFIX_CACHE");
  return change([&] {
    if (!on) requests_.stop_publishing_all();
    return blocks_.set_caches(on), KVC_OK;
  });
}

kvc_status Manager::set_time(uint64_t now_ns) {
  return change([&]() -> kvc_status {
    KVC_TRY(blocks_.check_time(now_ns));
    blocks_.pass_time(now_ns);
    return KVC_OK;
  });
}

kvc_status Manager::set_prefix_priority(const TokenSpan& tokens, const HintRange& range,
                                        uint64_t* num_tokens) {
  return look_up(tokens, [&](LookupScratch& prefix) -> kvc_status {
    Prompt prompt;
    KVC_TRY(requests_.check_hint(range.priority, range.until));
    KVC_TRY(prefix.look(&prompt));
    size_t hinted = 0;
    for (size_t j = blocks_.tree().walk(prompt, prefix.num_blocks(), 0, prefix.path()); j-- > range.begin;) {
      const NodeId node = prefix.path()[j];
      hinted += blocks_.tree()[node].resident != 0;
      blocks_.hint(node, range.priority, range.until);
    }
    *num_tokens = hinted * shape_.block_size;
    return KVC_OK;
  });
}

kvc_status Manager::demote_prefix(const TokenSpan& tokens, uint64_t first_token, uint64_t* num_tokens) {
  return look_up(tokens, [&](LookupScratch& prefix) -> kvc_status {
    Prompt prompt;
    KVC_TRY(prefix.look(&prompt));
    const NodeId last = blocks_.tree().last_known(prompt, prefix.num_blocks());
    *num_tokens = blocks_.demote(last, shape_.positions_within(first_token), 0) * shape_.block_size;
    return KVC_OK;
  });
}

// The tokens are joined and hashed without the lock.
kvc_status Manager::allocate_from_prompt(const char* name, const int32_t* tokens, size_t num_tokens,
                                         const kvc_request_config& config, uint64_t* id,
                                         uint64_t* num_cached) {
  Prompts::Text text = {};
  {
    const std::lock_guard lock(monitor_.mutex());
    KVC_TRY(prompts_.copy(name, num_tokens, &text));
  }
  if (num_tokens != 0) {
    std::memcpy(text.tokens.data + (text.span.num_tokens - num_tokens), tokens, num_tokens * sizeof(int32_t));
  }
  const kvc_status status = create_request(text.span, config, true, id, num_cached);
  const std::lock_guard lock(monitor_.mutex());
  prompts_.give_back(&text);
  if (status != KVC_OK) return status;
  if (const Request* request = requests_.peek(*id); request != nullptr)
    prompts_.bind(requests_.table().index_of(*request), text);
  return KVC_OK;
}

}  // namespace kvc
