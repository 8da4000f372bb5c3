// SPDX-License-Identifier: Apache-2.0
#include "manager/restore.h"

#include <algorithm>

namespace kvc {

Restore::~Restore() {
  if (!taken_) return;
  for (const uint64_t id : request_ids_) {
    static_cast<void>(manager_.change(
        id, false, [](Requests& requests, Request& request) { return requests.end(request); }));
  }
  const Guard lock(manager_.monitor_);
  while (registered_-- > 0) static_cast<void>(manager_.prompts_.remove(prompts_[registered_].name.c_str()));
  give_all_back();
  while (opened_-- > 0) blocks_.s_.namespaces.drop(ns_[opened_]);
}

kvc_status Restore::check_new() const {
  if (const uint64_t count = manager_.requests_.count(); count != request_ids_.size())
    return fail(KVC_ERROR_BUSY, "the manager has %llu requests; restore into a new manager", ull(count));
  if (manager_.stepper_.executing() != nullptr || manager_.stepper_.assigned() > blocks_.retired())
    return fail(KVC_ERROR_BUSY, "a step is in flight; restore into a new manager");
  for (size_t p = 0; p < shape_.num_pools; ++p) {
    const PoolCounts& counts = blocks_.pool().counts(p);
    const uint64_t own = taken_ ? counts.held() : 0;
    if (counts.free + own != counts.size)
      return fail(KVC_ERROR_BUSY, "%llu blocks of pool %zu are cached or held; restore into a new manager",
                  ull(counts.size - counts.free - own), p);
  }
  if (const uint64_t nodes = manager_.counters_.nodes_used; nodes != 0)
    return fail(KVC_ERROR_BUSY, "the manager knows %llu prefix positions; restore into a new manager",
                ull(nodes));
  const Quotas& quotas = blocks_.quotas();
  for (uint32_t cls = 1; cls < quotas.num_classes(); ++cls) {
    if (quotas.tenant(cls).taken)
      return fail(KVC_ERROR_BUSY, "the manager has quotas; set them after the restore");
  }
  const size_t own = taken_ ? registered_ : 0;
  if (const size_t count = manager_.prompts_.count(); count != own && !prompts_.empty())
    return fail(
        KVC_ERROR_BUSY,
        "the manager has %zu registered prompts, and the checkpoint brings %zu; restore first, or leave "
        "its prompts out (KVC_CHECKPOINT_CACHE_ONLY)",
        count - own, prompts_.size());
  return KVC_OK;
}

kvc_status Restore::check_quotas() const {
  const Quotas& quotas = blocks_.quotas();
  uint64_t minimums[kMaxPools] = {};
  for (const Contents::Quota& quota : quotas_) {
    if (quota.cls >= quotas.num_classes())
      return fail(
          KVC_ERROR_LIMIT,
          "the checkpoint has a quota with the number %u, and max_quotas of the manager is %u; raise it, or "
          "leave quotas out (KVC_CHECKPOINT_CACHE_ONLY)",
          quota.cls, std::max(quotas.num_classes(), 1u) - 1);
    if (quota.pool >= shape_.num_pools)
      return invalid(
          "the checkpoint has a quota in pool %u, and the manager has %u pools; give it as many, or "
          "leave quotas out (KVC_CHECKPOINT_CACHE_ONLY)",
          quota.pool, shape_.num_pools);
    const uint64_t size = blocks_.pool().counts(quota.pool).size;
    const uint64_t most = quota.max == Quotas::kNoMaximum ? 0 : quota.max;
    if (most > size || quota.min > size - minimums[quota.pool])
      return invalid(
          "the quotas of the checkpoint have minimums of %llu blocks and a maximum of %llu in pool %u, "
          "which has %llu; give it more, or leave quotas out (KVC_CHECKPOINT_CACHE_ONLY)",
          ull(minimums[quota.pool] + quota.min), ull(most), quota.pool, ull(size));
    minimums[quota.pool] += quota.min;
  }
  return KVC_OK;
}

// Their pins come with the blocks.
kvc_status Restore::register_prompts() {
  bool fit = true;  // as many records as the greatest index says
  for (const Contents::NamedPrompt& prompt : prompts_) fit = fit && prompt.index < shape_.max_requests;
  for (; registered_ < prompts_.size(); ++registered_) {
    const Contents::NamedPrompt& from = prompts_[registered_];
    const TokenSpan span = {from.tokens.data(), from.tokens.size(), from.keys.data(), from.keys.size(),
                            namespace_ids_[from.ns]};
    KVC_TRY(check_tokens(span.tokens, span.num_tokens, shape_.vocab_size));
    LookupScratch scratch(manager_.matcher_, span);
    KVC_TRY(scratch.status());
    const Guard lock(manager_.monitor_);
    KVC_TRY(manager_.prompts_.carry(from.name.c_str(), span, scratch,
                                    fit ? from.index : static_cast<uint32_t>(registered_)));
  }
  return KVC_OK;
}

// The entries of a pool of the manager in the order in which they would leave.
std::vector<Restore::Entry> Restore::line_up(PoolIndex pool) const {
  struct Leaving {  // those in use last; of equal ones that of the lowest shelf first
    uint64_t in_use, level, at, bonus, order;
    Entry entry;
    auto operator<=>(const Leaving&) const = default;
  };
  std::vector<Leaving> leaving;
  const bool same_policy = contents_.lists.policy == shape_.policy_number;
  for (uint32_t p = 0; p < contents_.pools.size(); ++p) {
    const Contents::Pool& from = contents_.pools[p];
    for (uint32_t i = 0; i < from.blocks.size(); ++i) {
      const Contents::Cached& cached = from.blocks[i];
      if (shape_.groups[cached.group].pool != pool) continue;
      const uint64_t bonus =
          same_policy ? shape_.policy->bonus(cached.shelf, shape_.policy_weight, from.size) : 0;
      const uint64_t at = UINT64_MAX / 4 - cached.age + bonus;
      leaving.push_back({cached.in_use, cached.level, at, bonus, leaving.size(), {p, i}});
      if (cached.in_use != 0) leaving.back().level = leaving.back().at = leaving.back().bonus = 0;
    }
  }
  std::sort(leaving.begin(), leaving.end());
  std::vector<Entry> line;
  line.reserve(leaving.size());
  for (const Leaving& one : leaving) line.push_back(one.entry);
  return line;
}

bool Restore::same_pools() const {
  if (contents_.pools.size() != shape_.num_pools) return false;
  for (size_t p = 0; p < contents_.pools.size(); ++p) {
    const PoolCounts& counts = blocks_.pool().counts(p);
    const Contents::Pool& from = contents_.pools[p];
    if (from.first != counts.first || from.size != counts.size) return false;
    if (pools_[p].line.size() != from.blocks.size() || from.free.size() + from.blocks.size() != from.size)
      return false;
    for (const Contents::Cached& cached : from.blocks) {
      if (shape_.groups[cached.group].pool != p) return false;
    }
  }
  return true;
}

// What leaves last is kept, with the positions before it, as far as there are blocks and nodes.
void Restore::choose() {
  needed_.assign(contents_.positions.size(), 0);
  uint64_t nodes = 0;
  std::vector<uint32_t> missing;
  for (uint32_t p = 0; p < shape_.num_pools; ++p) {
    std::vector<Entry>& line = pools_[p].line;
    line = line_up(p);
    const uint64_t room = std::min(blocks_.pool().counts(p).size, shape_.max_cached[p]);
    size_t first = line.size();
    while (first != 0 && line.size() - first < room) {
      missing.clear();
      for (int64_t at = cached(line[first - 1]).position; at >= 0 && needed_[static_cast<size_t>(at)] == 0;
           at = contents_.positions[static_cast<size_t>(at)].parent) {
        missing.push_back(static_cast<uint32_t>(at));
      }
      if (nodes + missing.size() > shape_.max_nodes) break;
      nodes += missing.size();
      for (const uint32_t position : missing) needed_[position] = 1;
      --first;
    }
    line.erase(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(first));
    num_taken_ += line.size();
  }
}

void Restore::take_blocks() {
  for (uint32_t p = 0; p < pools_.size(); ++p) {  // memory first: a failure leaves nothing taken
    pools_[p].popped.resize(keeps_ids_ ? blocks_.pool().counts(p).size : pools_[p].line.size());
    if (keeps_ids_) pools_[p].rest.resize(contents_.pools[p].free.size());
  }
  taken_ = true;
  for (uint32_t p = 0; p < pools_.size(); ++p) {
    std::vector<BlockId>& popped = pools_[p].popped;
    blocks_.take_for_contents(p, popped.size(), popped.data());
    size_t next = 0;
    for (const Entry& entry : pools_[p].line)
      block_ids_[entry.pool][entry.index] = keeps_ids_ ? cached(entry).block : raw(popped[next++]);
    if (!keeps_ids_) continue;
    const std::vector<int32_t>& free = contents_.pools[p].free;
    for (size_t i = free.size(); i-- > 0;) blocks_.give_back(BlockId{free[i]});
  }
}

kvc_status Restore::take() {
  KVC_TRY(manager_.check_caches());
  pools_.clear();
  pools_.resize(shape_.num_pools);
  block_ids_.resize(contents_.pools.size());
  for (size_t p = 0; p < block_ids_.size(); ++p) block_ids_[p].assign(contents_.pools[p].blocks.size(), -1);
  const Guard lock(manager_.monitor_);
  KVC_TRY(check_new());
  KVC_TRY(check_quotas());
  choose();
  keeps_ids_ = same_pools();
  take_blocks();
  return KVC_OK;
}

kvc_status Restore::open_namespaces() {
  ns_.resize(contents_.namespaces.size());
  namespace_ids_.resize(contents_.namespaces.size());
  const Guard lock(manager_.monitor_);
  for (; opened_ < contents_.namespaces.size(); ++opened_) {
    const Contents::NamespaceEntry& entry = contents_.namespaces[opened_];
    KVC_TRY(blocks_.s_.namespaces.carry(entry.identity.data(), entry.identity.size(), entry.opens,
                                        entry.epoch, &ns_[opened_]));
    namespace_ids_[opened_] = blocks_.namespaces().id(ns_[opened_].index);
  }
  return KVC_OK;
}

// What kvc_manager_create_request refuses in a configuration, so that no request is here what none could be.
kvc_status Restore::check_request(size_t index) const {
  const Contents::WaitingRequest& request = contents_.requests[index];
  const Contents::RequestBond& bond = contents_.bonds[index];
  constexpr uint32_t kFillFlags = KVC_REQUEST_PUBLISH_ENQUEUED | KVC_REQUEST_SHARE_FILLING;
  if (bond.cross_tokens != 0 && !shape_.has_cross())
    return fail(KVC_ERROR_UNSUPPORTED,
                "request %zu of the checkpoint has %u tokens of an encoder, and the manager has no cross "
                "group; restore into one that has, or without requests",
                index, bond.cross_tokens);
  if ((request.flags & kFillFlags) != 0 && !shape_.has_fills())
    return fail(KVC_ERROR_UNSUPPORTED,
                "request %zu of the checkpoint has flags %#x, and the manager follows no fills; create it "
                "with KVC_MANAGER_FILLS, or restore without requests",
                index, request.flags);
  const uint64_t most =
      std::max({request.external_tokens, request.slots, request.lookahead, uint64_t{bond.cross_tokens}});
  if (most > shape_.max_request_tokens)
    return invalid(
        "request %zu of the checkpoint has %llu external tokens, slots, tokens ahead or tokens of an "
        "encoder; at most max_request_tokens, %llu",
        index, ull(most), ull(shape_.max_request_tokens));
  for (uint32_t i = 0; i < request.num_keys; ++i) {
    const kvc_extra_key& key = contents_.request_keys[request.first_key + i];
    if (key.num_tokens <= shape_.max_request_tokens &&
        key.first_token <= shape_.max_request_tokens - key.num_tokens)
      continue;
    return fail(KVC_ERROR_LIMIT,
                "request %zu of the checkpoint has an extra key at token %llu, %llu tokens long, past "
                "max_request_tokens; create the manager with max_request_tokens %llu or more, or restore "
                "without requests",
                index, ull(key.first_token), ull(key.num_tokens), ull(key.first_token + key.num_tokens));
  }
  return KVC_OK;
}

kvc_status Restore::create_requests() {
  request_ids_.reserve(contents_.requests.size());
  for (size_t i = 0; i < contents_.requests.size(); ++i) {
    const Contents::WaitingRequest& from = contents_.requests[i];
    const Contents::RequestBond& bond = contents_.bonds[i];
    KVC_TRY(check_request(i));
    kvc_request_config config = {};
    config.struct_size = sizeof config;
    copy_options(from, &config);
    config.cross_tokens = bond.cross_tokens;
    std::memcpy(config.cross_digest, bond.cross_digest, sizeof config.cross_digest);
    const TokenSpan prompt = {contents_.request_tokens.data() + from.first_token,
                              from.num_tokens,
                              contents_.request_keys.data() + from.first_key,
                              from.num_keys,
                              namespace_ids_[from.ns],
                              true};
    uint64_t id = 0;
    KVC_TRY(check_tokens(prompt.tokens, prompt.num_tokens, shape_.vocab_size));
    KVC_TRY(manager_.scheduler_view().create(prompt, config, false, &id, nullptr));
    request_ids_.push_back(id);
    const Guard lock(manager_.monitor_);
    if (Request* const made = manager_.requests_.peek(id); made != nullptr)
      made->carry_prompt(from.prompt_tokens);
    if (bond.prompt == 0 || prompts_.empty()) continue;
    manager_.prompts_.bind(static_cast<uint32_t>(handle_index(id)), prompts_[bond.prompt - 1].name.c_str());
  }
  return KVC_OK;
}

// The extra keys of the positions that are needed: all that may fail.
kvc_status Restore::make_extras(std::vector<Making>* made) const {
  const uint32_t size = contents_.block_size;
  made->resize(contents_.positions.size());
  for (size_t i = 0; i < made->size(); ++i) {
    if (needed_[i] == 0) continue;
    const uint32_t depth = contents_.positions[i].depth;
    auto& [keys, extras, node] = (*made)[i];
    const ExtraSpans spans = contents_.spans_of(i);
    for (const ExtraSpan* span = spans.data; span != spans.data + spans.count; ++span) {
      const int64_t first = static_cast<int64_t>(uint64_t{depth} * size) + span->offset;
      keys.push_back({static_cast<uint64_t>(first), static_cast<uint32_t>(span->length), 0, {}});
      std::memcpy(keys.back().digest, span->digest, sizeof span->digest);
    }
    extras = std::make_unique<ExtraRecords>(manager_.arena_, KeyList{keys.data(), keys.size()}, depth,
                                            depth + 1, size);
    if (!extras->ok())
      return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the extra keys of %zu positions", made->size());
  }
  return KVC_OK;
}

// The blocks that come to positions, in the order of these.
std::vector<Restore::Entry> Restore::by_position() const {
  std::vector<Entry> attached;
  attached.reserve(num_taken_);
  for (const Taking& pool : pools_) attached.insert(attached.end(), pool.line.begin(), pool.line.end());
  std::stable_sort(attached.begin(), attached.end(),
                   [&](Entry a, Entry b) { return cached(a).position < cached(b).position; });
  return attached;
}

void Restore::publish_positions(const std::vector<Entry>& attached, std::vector<Making>& made) {
  const uint64_t now = blocks_.cached.now();
  auto next = attached.begin();
  for (size_t i = 0; i < made.size(); ++i) {
    if (needed_[i] == 0) continue;
    const Contents::Position& position = contents_.positions[i];
    const NamespaceId ns = ns_[position.ns].index;
    const NodeId parent = position.parent < 0 ? root_of(ns) : made[static_cast<size_t>(position.parent)].node;
    const uint64_t until = position.left_ns == 0 ? 0 : now + std::min(position.left_ns, UINT64_MAX - now);
    auto& [keys, extras, node] = made[i];
    node = blocks_.positions.carry_position(parent, manager_.matcher_.chain(parent, ns), manager_.hash_,
                                            contents_.tokens_of(i), *extras, position.depth, ns);
    for (; next != attached.end() && cached(*next).position == i; ++next) {
      blocks_.positions.carry_block(node, cached(*next).group, block_of(*next),
                                    std::max<uint32_t>(position.uses, 1), position.level, until);
    }
  }
}

// Brings a line into the order in which its blocks came, list by list, or as they came, which is the same
// unless fragments were moved. Those in use come now, behind all others. Whether their ages are known.
bool Restore::order_by_age(PoolIndex pool) {
  std::vector<Entry>& line = pools_[pool].line;
  const bool moved = shape_.policy->moves_fragments;
  const auto age = [&](Entry entry) { return cached(entry).in_use != 0 ? 0 : cached(entry).age + 1; };
  std::sort(line.begin(), line.end(),
            [&](Entry a, Entry b) { return !moved && age(a) != age(b) ? age(a) > age(b) : a < b; });
  uint64_t oldest = 0, in_use = 0;
  bool ages = true;
  for (size_t i = 0; i < line.size(); ++i) {
    const Contents::Cached& one = cached(line[i]);
    in_use += one.in_use;
    oldest = std::max(oldest, one.age);
    if (one.in_use != 0) continue;
    ages = ages && one.age != 0 && (moved || i == 0 || age(line[i]) < age(line[i - 1]));
  }
  if (ages)  // with several lists, which are empty: see Shelves
    blocks_.s_.pool.shelves().begin_clock(pool, oldest + in_use);
  return ages;
}

void Restore::set_ages(const Taking& pool) {
  const auto is_there = [&](Entry entry) { return blocks_.pool()[block_of(entry)].list == List::kLru; };
  uint64_t came = 0;  // behind all others, and are still there
  for (const Entry entry : pool.line) came += cached(entry).in_use != 0 && is_there(entry);
  for (uint64_t left = came; const Entry entry : pool.line) {
    if (is_there(entry))
      blocks_.s_.pool.shelves().set_age(block_of(entry),
                                        cached(entry).in_use != 0 ? left-- : cached(entry).age + came);
  }
}

kvc_status Restore::publish() {
  const Guard lock(manager_.monitor_);
  std::vector<Making> made;  // its records go back to the arena under the lock
  KVC_TRY(check_new());
  KVC_TRY(make_extras(&made));
  const std::vector<Entry> attached = by_position();
  for (const Contents::Quota& quota : quotas_)  // before blocks come; nothing fails from here on
    blocks_.shares.carry_quota(ns_[quota.ns].index, quota.cls, quota.pool, quota.min, quota.max);
  blocks_.lineages().carry(contents_.lineage);
  publish_positions(attached, made);
  const bool same_lists = contents_.lists == shape_.list_kinds() && shape_.lists_per_pool() != 1;
  for (uint32_t p = 0; p < pools_.size(); ++p) {
    pools_[p].has_ages = same_lists && order_by_age(p);
    for (const Entry entry : pools_[p].line) blocks_.release_external(block_of(entry));
  }
  for (size_t i = 0; i < registered_; ++i)
    manager_.prompts_.pin_again(prompts_[i].name.c_str(), prompts_[i].num_pinned);
  for (const Taking& pool : pools_)
    if (pool.has_ages) set_ages(pool);
  for (const Contents::Quota& quota : quotas_) blocks_.shares.keep_to_quota(quota.cls, quota.pool);
  blocks_.positions.end_positions();
  return KVC_OK;
}

kvc_status Restore::finish() {
  KVC_TRY(open_namespaces());
  KVC_TRY(register_prompts());
  KVC_TRY(create_requests());
  KVC_TRY(publish());
  taken_ = false;
  return KVC_OK;
}

}  // namespace kvc
