// SPDX-License-Identifier: Apache-2.0
#include "manager/restore.h"

#include <algorithm>

#include "manager/checkpoint_blocks.h"

namespace kvc {

Restore::~Restore() {
  if (!taken_) return;
  for (const uint64_t id : request_ids_) {
    static_cast<void>(manager_.change(
        id, false, [](Requests& requests, Request& request) { return requests.end(request); }));
  }
  const Guard lock(manager_.monitor_);
  while (registered_-- > 0)
    static_cast<void>(manager_.prompts_.remove(contents_.prompts[registered_].name.c_str()));
  give_all_back();
  while (opened_-- > 0) manager_.blocks_.namespace_blocks().drop_namespace(ns_[opened_]);
}

kvc_status Restore::check_new() const {
  const Blocks& blocks = manager_.blocks_;
  if (const uint64_t count = manager_.requests_.count(); count != request_ids_.size())
    return fail(KVC_ERROR_BUSY, "the manager has %llu requests; restore into a new manager", ull(count));
  if (manager_.stepper_.executing() != nullptr || manager_.stepper_.assigned() > blocks.retired())
    return fail(KVC_ERROR_BUSY, "a step is in flight; restore into a new manager");
  for (size_t p = 0; p < manager_.shape_.num_pools; ++p) {
    const PoolCounts& counts = blocks.pool().counts(p);
    const uint64_t own = taken_ ? counts.held() : 0;
    if (counts.free + own != counts.size)
      return fail(KVC_ERROR_BUSY, "%llu blocks of pool %zu are cached or held; restore into a new manager",
                  ull(counts.size - counts.free - own), p);
  }
  if (const uint64_t nodes = manager_.counters_.nodes_used; nodes != 0)
    return fail(KVC_ERROR_BUSY, "the manager knows %llu prefix positions; restore into a new manager",
                ull(nodes));
  const Quotas& quotas = blocks.quotas();
  for (uint32_t cls = 1; cls < quotas.num_classes(); ++cls) {
    if (quotas.tenant(cls).taken)
      return fail(KVC_ERROR_BUSY, "the manager has quotas; set them after the restore");
  }
  const size_t own = taken_ ? registered_ : 0;
  if (const size_t count = manager_.prompts_.count();
      count != own && !cache_only_ && !contents_.prompts.empty())
    return fail(
        KVC_ERROR_BUSY,
        "the manager has %zu registered prompts, and the checkpoint brings %zu; restore first, or leave "
        "its prompts out (KVC_CHECKPOINT_CACHE_ONLY)",
        count - own, contents_.prompts.size());
  return KVC_OK;
}

kvc_status Restore::check_quotas() const {
  if (cache_only_ || contents_.quotas.empty()) return KVC_OK;
  const Quotas& quotas = manager_.blocks_.quotas();
  uint64_t minimums[kMaxPools] = {};
  for (const Contents::Quota& quota : contents_.quotas) {
    if (quota.cls >= quotas.num_classes())
      return fail(
          KVC_ERROR_LIMIT,
          "the checkpoint has a quota with the number %u, and max_quotas of the manager is %u; raise it, or "
          "leave quotas out (KVC_CHECKPOINT_CACHE_ONLY)",
          quota.cls, std::max(quotas.num_classes(), 1u) - 1);
    if (quota.pool >= manager_.shape_.num_pools)
      return invalid(
          "the checkpoint has a quota in pool %u, and the manager has %u pools; give it as many, or "
          "leave quotas out (KVC_CHECKPOINT_CACHE_ONLY)",
          quota.pool, manager_.shape_.num_pools);
    const uint64_t size = manager_.blocks_.pool().counts(quota.pool).size;
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

// Before blocks come to the namespaces.
void Restore::set_quotas() {
  for (const Contents::Quota& quota : contents_.quotas) {
    if (!cache_only_)
      manager_.blocks_.shares().carry_quota(ns_[quota.ns].index, quota.cls, quota.pool, quota.min, quota.max);
  }
}

// Their pins come with the blocks.
kvc_status Restore::register_prompts() {
  bool fit = true;  // as many records as the greatest index says
  for (const Contents::NamedPrompt& prompt : contents_.prompts)
    fit = fit && prompt.index < manager_.shape_.max_requests;
  for (; !cache_only_ && registered_ < contents_.prompts.size(); ++registered_) {
    const Contents::NamedPrompt& from = contents_.prompts[registered_];
    const TokenSpan span = {from.tokens.data(), from.tokens.size(), from.keys.data(), from.keys.size(),
                            namespace_ids_[from.ns]};
    KVC_TRY(check_tokens(span.tokens, span.num_tokens, manager_.shape_.vocab_size));
    LookupScratch scratch(manager_.matcher_, span);
    KVC_TRY(scratch.status());
    const Guard lock(manager_.monitor_);
    KVC_TRY(manager_.prompts_.carry(from.name.c_str(), span, scratch,
                                    fit ? from.index : static_cast<uint32_t>(registered_)));
  }
  return KVC_OK;
}

// The entries of a pool of the manager in the order in which they would leave.
void Restore::line_up(std::vector<Entry>* line, PoolIndex pool) const {
  struct Leaving {
    uint64_t in_use, level, at, came, order;
    Entry entry;
  };
  std::vector<Leaving> leaving;
  const Policy* policy = manager_.shape_.policy;
  const bool same_policy = contents_.policy == manager_.shape_.policy_number;
  for (uint32_t p = 0; p < contents_.pools.size(); ++p) {
    const Contents::Pool& from = contents_.pools[p];
    for (uint32_t i = 0; i < from.blocks.size(); ++i) {
      const Contents::Cached& cached = from.blocks[i];
      if (manager_.shape_.groups[cached.group].pool != pool) continue;
      const uint64_t came = UINT64_MAX / 4 - cached.age;
      const uint64_t bonus =
          same_policy ? policy->bonus(cached.shelf, manager_.shape_.policy_weight, from.size) : 0;
      leaving.push_back({cached.in_use, cached.level, came + bonus, came, leaving.size(), {p, i}});
    }
  }
  std::sort(leaving.begin(), leaving.end(), [](const Leaving& a, const Leaving& b) {
    if (a.in_use != b.in_use) return a.in_use < b.in_use;
    if (a.in_use == 0 && a.level != b.level) return a.level < b.level;
    if (a.in_use == 0 && a.at != b.at) return a.at < b.at;
    if (a.in_use == 0 && a.came != b.came) return a.came > b.came;
    return a.order < b.order;
  });
  line->reserve(leaving.size());
  for (const Leaving& one : leaving) line->push_back(one.entry);
}

bool Restore::same_pools() const {
  if (contents_.pools.size() != manager_.shape_.num_pools) return false;
  for (size_t p = 0; p < contents_.pools.size(); ++p) {
    const PoolCounts& counts = manager_.blocks_.pool().counts(p);
    const Contents::Pool& from = contents_.pools[p];
    if (from.first != counts.first || from.size != counts.size) return false;
    if (lines_[p].size() != from.blocks.size() || from.free.size() + from.blocks.size() != from.size)
      return false;
    for (const Contents::Cached& cached : from.blocks) {
      if (manager_.shape_.groups[cached.group].pool != p) return false;
    }
  }
  return true;
}

// What leaves last is kept, with the positions before it, as far as there are blocks and nodes.
void Restore::choose() {
  const Shape& shape = manager_.shape_;
  needed_.assign(contents_.positions.size(), 0);
  lines_.resize(shape.num_pools);
  uint64_t nodes = 0;
  std::vector<uint32_t> missing;
  for (uint32_t p = 0; p < shape.num_pools; ++p) {
    std::vector<Entry>& line = lines_[p];
    line_up(&line, p);
    const uint64_t room = std::min(manager_.blocks_.pool().counts(p).size, shape.max_cached[p]);
    size_t first = line.size();
    while (first != 0 && line.size() - first < room) {
      missing.clear();
      for (int64_t at = cached(line[first - 1]).position; at >= 0 && needed_[static_cast<size_t>(at)] == 0;
           at = contents_.positions[static_cast<size_t>(at)].parent) {
        missing.push_back(static_cast<uint32_t>(at));
      }
      if (nodes + missing.size() > shape.max_nodes) break;
      nodes += missing.size();
      for (const uint32_t position : missing) needed_[position] = 1;
      --first;
    }
    line.erase(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(first));
    num_taken_ += line.size();
  }
}

void Restore::take_blocks() {
  CheckpointBlocks taking(manager_.blocks_);
  for (uint32_t p = 0; p < lines_.size(); ++p) {  // memory first: a failure leaves nothing taken
    popped_[p].resize(keeps_ids_ ? manager_.blocks_.pool().counts(p).size : lines_[p].size());
    if (keeps_ids_) rest_[p].resize(contents_.pools[p].free.size());
  }
  taken_ = true;
  for (uint32_t p = 0; p < lines_.size(); ++p) {
    std::vector<BlockId>& popped = popped_[p];
    taking.take_for_contents(p, popped.size(), popped.data());
    size_t next = 0;
    for (const Entry& entry : lines_[p])
      blocks_[entry.pool][entry.index] = keeps_ids_ ? cached(entry).block : raw(popped[next++]);
    if (!keeps_ids_) continue;
    const std::vector<int32_t>& free = contents_.pools[p].free;
    for (size_t i = free.size(); i-- > 0;) taking.give_back(BlockId{free[i]});
  }
}

void Restore::give_all_back() {
  CheckpointBlocks taking(manager_.blocks_);
  for (uint32_t p = 0; p < popped_.size(); ++p) {
    if (keeps_ids_)  // those that were given back come in another order
      taking.take_for_contents(p, rest_[p].size(), rest_[p].data());
    for (size_t i = popped_[p].size(); i-- > 0;) taking.give_back(popped_[p][i]);
  }
}

kvc_status Restore::take() {
  if (!manager_.shape_.caches())
    return fail(KVC_ERROR_UNSUPPORTED, "the manager was created with KVC_MANAGER_NO_PREFIX_CACHE");
  lines_.clear();
  popped_.resize(manager_.shape_.num_pools);
  rest_.resize(manager_.shape_.num_pools);
  blocks_.resize(contents_.pools.size());
  for (size_t p = 0; p < blocks_.size(); ++p) blocks_[p].assign(contents_.pools[p].blocks.size(), -1);
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
    KVC_TRY(manager_.blocks_.namespace_blocks().carry_namespace(entry.identity.data(), entry.identity.size(),
                                                                entry.opens, entry.epoch, &ns_[opened_]));
    namespace_ids_[opened_] = manager_.blocks_.namespaces().id(ns_[opened_].index);
  }
  return KVC_OK;
}

// What kvc_manager_create_request refuses in a configuration, so that no request is here what none could be.
kvc_status Restore::check_request(size_t index) const {
  const Contents::WaitingRequest& request = contents_.requests[index];
  const Contents::RequestBond& bond = contents_.bonds[index];
  const Shape& shape = manager_.shape_;
  constexpr uint32_t kFillFlags = KVC_REQUEST_PUBLISH_ENQUEUED | KVC_REQUEST_SHARE_FILLING;
  if (bond.cross_tokens != 0 && !shape.has_cross())
    return fail(KVC_ERROR_UNSUPPORTED,
                "request %zu of the checkpoint has %u tokens of an encoder, and the manager has no cross "
                "group; restore into one that has, or without requests",
                index, bond.cross_tokens);
  if ((request.flags & kFillFlags) != 0 && !shape.has_fills())
    return fail(KVC_ERROR_UNSUPPORTED,
                "request %zu of the checkpoint has flags %#x, and the manager follows no fills; create it "
                "with KVC_MANAGER_FILLS, or restore without requests",
                index, request.flags);
  const uint64_t most =
      std::max({request.external_tokens, request.slots, request.lookahead, uint64_t{bond.cross_tokens}});
  if (most > shape.max_request_tokens)
    return invalid(
        "request %zu of the checkpoint has %llu external tokens, slots, tokens ahead or tokens of an "
        "encoder; "
        "at most max_request_tokens, %llu",
        index, ull(most), ull(shape.max_request_tokens));
  for (uint32_t i = 0; i < request.num_keys; ++i) {
    const kvc_extra_key& key = contents_.request_keys[request.first_key + i];
    if (key.num_tokens <= shape.max_request_tokens &&
        key.first_token <= shape.max_request_tokens - key.num_tokens)
      continue;
    return fail(KVC_ERROR_LIMIT,
                "request %zu of the checkpoint has an extra key at token %llu, %llu tokens long, past "
                "max_request_tokens; "
                "create the manager with max_request_tokens %llu or more, or restore without requests",
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
    config.cross_tokens = bond.cross_tokens;
    std::memcpy(config.cross_digest, bond.cross_digest, sizeof config.cross_digest);
    config.struct_size = sizeof config;
    config.user_data = from.user_data;
    config.max_cached_tokens = from.max_cached_tokens;
    config.external_tokens = from.external_tokens;
    config.slots = from.slots;
    config.lookahead = from.lookahead;
    config.flags = from.flags;
    config.drop_tail_blocks = from.drop_tail_blocks;
    if (manager_.shape_.has_headroom()) config.headroom = from.headroom;
    const TokenSpan prompt = {contents_.request_tokens.data() + from.first_token,
                              from.num_tokens,
                              contents_.request_keys.data() + from.first_key,
                              from.num_keys,
                              namespace_ids_[from.ns],
                              true};
    uint64_t id = 0;
    KVC_TRY(check_tokens(prompt.tokens, prompt.num_tokens, manager_.shape_.vocab_size));
    KVC_TRY(manager_.create_request(prompt, config, false, &id, nullptr));
    request_ids_.push_back(id);
    const Guard lock(manager_.monitor_);
    if (Request* const made = manager_.requests_.peek(id); made != nullptr)
      made->carry_prompt(from.prompt_tokens);
    if (bond.prompt == 0 || cache_only_) continue;
    manager_.prompts_.bind(static_cast<uint32_t>(handle_index(id)),
                           contents_.prompts[bond.prompt - 1].name.c_str());
  }
  return KVC_OK;
}

ExtraKey Restore::key_of(const Contents::Position& position, const ExtraSpan& span) const {
  ExtraKey key = {};
  key.first_token = static_cast<uint64_t>(
      static_cast<int64_t>(uint64_t{position.depth} * contents_.block_size) + span.offset);
  key.num_tokens = static_cast<uint32_t>(span.length);
  std::memcpy(key.digest, span.digest, sizeof key.digest);
  return key;
}

// The extra keys of the positions that are needed: all that may fail.
kvc_status Restore::make_extras(std::vector<std::vector<ExtraKey>>* keys,
                                std::vector<std::unique_ptr<ExtraRecords>>* extras) {
  const size_t count = contents_.positions.size();
  keys->resize(count);
  extras->resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (needed_[i] == 0) continue;
    const Contents::Position& position = contents_.positions[i];
    std::vector<ExtraKey>& own = (*keys)[i];
    for (uint32_t s = 0; s < position.num_spans; ++s)
      own.push_back(key_of(position, contents_.spans[position.first_span + s]));
    (*extras)[i] = std::make_unique<ExtraRecords>(manager_.arena_, KeyList{own.data(), own.size()},
                                                  position.depth, position.depth + 1, contents_.block_size);
    if (!(*extras)[i]->ok())
      return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the extra keys of %zu positions", count);
  }
  return KVC_OK;
}

// Which blocks come to a position, in the order of the positions.
std::vector<std::pair<uint32_t, Restore::Entry>> Restore::by_position() const {
  std::vector<std::pair<uint32_t, Entry>> attached;
  attached.reserve(num_taken_);
  for (const std::vector<Entry>& line : lines_) {
    for (const Entry& entry : line) attached.push_back({cached(entry).position, entry});
  }
  std::stable_sort(attached.begin(), attached.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return attached;
}

// `nodes`: room for those of all positions.
void Restore::publish_positions(const std::vector<std::unique_ptr<ExtraRecords>>& extras,
                                const std::vector<std::pair<uint32_t, Entry>>& attached,
                                std::vector<NodeId>& nodes) {
  Blocks& blocks = manager_.blocks_;
  const uint64_t now = blocks.levels().now();
  size_t next = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (needed_[i] == 0) continue;
    const Contents::Position& position = contents_.positions[i];
    const NamespaceId ns = ns_[position.ns].index;
    const NodeId parent = position.parent < 0 ? root_of(ns) : nodes[static_cast<size_t>(position.parent)];
    const uint64_t until = position.left_ns == 0 ? 0 : now + std::min(position.left_ns, UINT64_MAX - now);
    uint64_t key = is_node(parent) ? blocks.tree()[parent].key : manager_.matcher_.root(ns);
    manager_.hash_.blocks(key, contents_.tokens_of(i), contents_.block_size, 1, &key);
    key = extras[i]->view(position.depth).hash(manager_.hash_, key);
    nodes[i] = blocks.positions().carry_position(parent, key, contents_.tokens_of(i), *extras[i],
                                                 position.depth, ns);
    for (; next < attached.size() && attached[next].first == i; ++next) {
      const Entry entry = attached[next].second;
      blocks.positions().carry_external(nodes[i], cached(entry).group,
                                        BlockId{blocks_[entry.pool][entry.index]},
                                        std::max<uint32_t>(position.uses, 1), position.level, until);
    }
  }
}

// Brings a line into the order in which its blocks came, list by list, or as they came, which is the same
// unless fragments were moved. Those in use come now, behind all others. Whether their ages are known.
bool Restore::order_by_age(PoolIndex pool) {
  std::vector<Entry>& line = lines_[pool];
  const bool moved = manager_.shape_.policy->moves_fragments;
  const auto key = [&](const Entry& entry) {
    const Contents::Cached& one = cached(entry);
    return one.in_use != 0 ? uint64_t{0} : one.age + 1;
  };
  std::sort(line.begin(), line.end(), [&](const Entry& a, const Entry& b) {
    if (!moved && key(a) != key(b)) return key(a) > key(b);
    return a.pool != b.pool ? a.pool < b.pool : a.index < b.index;
  });
  uint64_t oldest = 0, in_use = 0;
  bool ages = true;
  for (size_t i = 0; i < line.size(); ++i) {
    const Contents::Cached& one = cached(line[i]);
    in_use += one.in_use;
    oldest = std::max(oldest, one.age);
    if (one.in_use != 0) continue;
    ages = ages && one.age != 0 && (moved || i == 0 || key(line[i]) < key(line[i - 1]));
  }
  if (ages) CheckpointBlocks(manager_.blocks_).begin_clock(pool, oldest + in_use);
  return ages;
}

void Restore::set_ages(PoolIndex pool) {
  const Blocks& blocks = manager_.blocks_;
  CheckpointBlocks taking(manager_.blocks_);
  uint64_t came = 0;  // behind all others, and are still there
  for (const Entry& entry : lines_[pool])
    came += cached(entry).in_use != 0 && blocks.pool()[block_of(entry)].list == List::kLru;
  for (uint64_t left = came; const Entry& entry : lines_[pool]) {
    if (blocks.pool()[block_of(entry)].list != List::kLru) continue;
    taking.set_age(block_of(entry), cached(entry).in_use != 0 ? left-- : cached(entry).age + came);
  }
}

kvc_status Restore::publish() {
  std::vector<std::vector<ExtraKey>> keys;  // all over one block each, so no view needs links
  std::vector<std::unique_ptr<ExtraRecords>> extras;
  std::vector<uint8_t> has_ages(lines_.size(), 0);  // by pool
  const Guard lock(manager_.monitor_);
  KVC_TRY(check_new());
  Blocks& blocks = manager_.blocks_;
  CheckpointBlocks taking(blocks);
  KVC_TRY(make_extras(&keys, &extras));
  const auto attached = by_position();
  std::vector<NodeId> nodes(contents_.positions.size(), kNoNode);
  set_quotas();  // nothing fails from here on
  blocks.lineages().carry(contents_.lineage);
  publish_positions(extras, attached, nodes);
  const bool same_lists = contents_.policy == manager_.shape_.policy_number &&
                          contents_.policy_weight == manager_.shape_.policy_weight &&
                          (contents_.has_levels != 0) == manager_.shape_.has_hints() &&
                          manager_.shape_.lists_per_pool() != 1;
  for (uint32_t p = 0; p < lines_.size(); ++p) {
    has_ages[p] = same_lists && order_by_age(p);
    for (const Entry& entry : lines_[p]) taking.end_taken(block_of(entry));
  }
  for (size_t i = 0; i < registered_; ++i)
    manager_.prompts_.pin_again(contents_.prompts[i].name.c_str(), contents_.prompts[i].num_pinned);
  for (uint32_t p = 0; p < lines_.size(); ++p)
    if (has_ages[p] != 0) set_ages(p);
  if (!cache_only_) {
    for (const Contents::Quota& quota : contents_.quotas)
      blocks.shares().keep_to_quota(quota.cls, quota.pool);
  }
  blocks.positions().end_positions();
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
