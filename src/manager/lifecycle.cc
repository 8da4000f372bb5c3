// SPDX-License-Identifier: Apache-2.0
// Creating requests and admitting them: match and hold in every group, then take blocks, atomically.
#include <kvcache/prefix.h>

#include <algorithm>

#include "manager/requests.h"

namespace kvc {

kvc_status Requests::not_found(uint64_t id) {
  if (id == 0) return fail(KVC_ERROR_NOT_FOUND, "no request 0: the id is not set; ids are never 0");
  return fail(KVC_ERROR_NOT_FOUND, "no request %llu: it was freed, or is of another manager", ull(id));
}

kvc_status Requests::already_admitted(uint64_t id) {
  return fail(KVC_ERROR_BUSY, "request %llu is already admitted", ull(id));
}

kvc_status Requests::find(uint64_t id, bool must_be_admitted, Request** out) {
  Request* request = table_.find(id);
  if (request == nullptr) [[unlikely]]
    return not_found(id);
  if (must_be_admitted && !request->admitted) {
    return fail(KVC_ERROR_BUSY, "request %llu is waiting; admit it first", ull(id));
  }
  request->close_lane();
  *out = request;
  return KVC_OK;
}

bool Requests::reserve_tables(Request& request, size_t positions) {
  for (size_t g = 0; g < shape_.num_token_groups; ++g) {
    if (!request.groups[g].blocks.reserve(arena_, positions, request.positions)) return false;
  }
  return true;
}

// An unused record, which counts as a user of its namespace until discard().
kvc_status Requests::take_record(uint32_t ns, Request** out) {
  Request* request = table_.take();
  if (request == nullptr) {
    return fail(KVC_ERROR_LIMIT, "all %llu requests are in use; free some or raise max_requests",
                ull(shape_.max_requests));
  }
  ++count_;
  blocks_.namespace_blocks().add_user(ns);
  request->begin(ns, shape_.block_size, shape_.max_request_tokens);
  prompts_.unbind(table_.index_of(*request));
  if (shape_.has_hints()) [[unlikely]]
    hints_[table_.index_of(*request)] = {};
  if (shape_.has_fills()) [[unlikely]]
    fills_[table_.index_of(*request)] = {};
  *out = request;
  return KVC_OK;
}

kvc_status Requests::begin(const TokenSpan& prompt, const kvc_request_config& config, Request** out) {
  NamespaceId ns{};
  KVC_TRY(blocks_.namespace_blocks().find_namespace(prompt.namespace_id, &ns));
  kvc_extra_key key;
  const size_t own_keys = config.cross_tokens != 0 && cross_key(config, &key);
  if (own_keys != 0) KVC_TRY(check_cross_key(prompt, key));
  KVC_TRY(take_record(ns, out));
  Request& request = **out;
  request.building = true;
  request.configure(config, matcher_.root(ns));
  if (shape_.has_fills()) [[unlikely]]
    fills_[table_.index_of(request)].wait_until = config.wait_until_ns;
  const size_t blocks = prompt.num_tokens / shape_.block_size;
  if (!request.tail.reserve(arena_, prompt.num_tokens, 0) || !request.hashes.reserve(arena_, blocks, 0) ||
      !request.keys.reserve(arena_, prompt.num_keys + own_keys, 0) ||
      (own_keys != 0 && !reserve_cross_hashes(request))) {
    discard(request);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the %zu tokens of a request", prompt.num_tokens);
  }
  if (own_keys != 0) begin_cross(request, config, key);
  return KVC_OK;
}

// Copies, checks and hashes in pieces that stay in the first-level cache.
kvc_status Requests::fill(Request& request, const TokenSpan& prompt) {
  const uint32_t block_size = shape_.block_size;
  uint64_t chain = request.chain;
  const size_t piece = block_size * (block_size >= 1024 ? 1 : 1024 / block_size);
  size_t num_keys = prompt.num_keys;
  if (request.cross_shared) [[unlikely]]
    num_keys = fill_cross(request, prompt);
  else if (num_keys != 0)
    num_keys = order_keys(prompt.keys, num_keys, request.keys.data);
  if (num_keys != 0) KVC_TRY(check_links(link_keys(request.keys.data, 0, num_keys)));
  for (size_t done = 0; done < prompt.num_tokens; done += piece) {
    const size_t count = prompt.num_tokens - done < piece ? prompt.num_tokens - done : piece;
    int32_t* tokens = request.tail.data + done;
    std::memcpy(tokens, prompt.tokens + done, count * sizeof(int32_t));
    KVC_TRY(check_tokens(tokens, count, shape_.vocab_size, done));
    if (num_keys == 0) {
      chain = hash_.blocks(chain, tokens, block_size, count / block_size,
                           request.hashes.data + done / block_size);
    }
  }
  if (num_keys != 0) {
    chain = hash_span(hash_, chain, request.tail.data, prompt.num_tokens, {request.keys.data, num_keys},
                      block_size, request.hashes.data);
  }
  request.set_prompt(prompt.num_tokens, num_keys, chain);
  return KVC_OK;
}

void Requests::publish(Request& request) {
  request.building = false;
  table_.publish(request);
}

void Requests::discard(Request& request) {
  request.building = false;
  request.free_buffers(arena_, shape_.num_groups);
  if (shape_.has_cross()) cross_[table_.index_of(request)].hashes.clear(arena_);
  blocks_.namespace_blocks().drop_user(request.ns);
  --count_;
  table_.give_back(request);
}

uint64_t Requests::hit_limit_tokens(const Request& request) const {
  if (!reads(request) || request.known == 0) return 0;
  uint64_t tokens = request.known - 1;
  if (request.max_cached_tokens != 0 && request.max_cached_tokens < tokens)
    tokens = request.max_cached_tokens;
  return tokens;
}

// Tokens that get slots at admission after a hit of `cached` tokens.
uint64_t Requests::admitted_capacity(const Request& request, uint64_t cached, bool all) const {
  if (request.slots != 0 && !all) {
    const uint64_t first = cached + request.external_tokens + request.slots;
    if (first < request.known) return first;
  }
  return capacity_for(request, request.known);
}

// Tokens of the hit, those that get slots behind it, and those that must fit in the end.
inline AdmittedSlots Requests::plan_slots(const Request& request, const AdmissionPlan& admission) const {
  AdmittedSlots slots;
  slots.length = admission.hit.length;
  slots.cached = slots.length * shape_.block_size + admission.head.tokens;
  slots.known = request.known;
  slots.capacity = admitted_capacity(request, slots.cached, false);
  if (request.external_tokens != 0)
    slots.transfer_end = std::min<uint64_t>(slots.cached + request.external_tokens, request.known);
  if ((request.flags & KVC_REQUEST_FULL_MUST_FIT) != 0)
    slots.whole = admitted_capacity(request, slots.cached, true);
  slots.step = uint64_t{std::max(request.slots, uint32_t{1})} + request.lookahead;
  return slots;
}

void Requests::plan_demand(const Request& request, const AdmittedSlots& slots,
                           AdmissionPlan* admission) const {
  const NodeId* const path = admission->hit.path;
  const PrefixTree& tree = blocks_.tree();
  Demand& demand = admission->demand;
  demand = Demand(shape_.num_pools);
  add_demand(
      shape_, slots, [&](uint32_t g, size_t j) { demand.add_hit(blocks_.pool()[tree.block_of(path[j], g)]); },
      &demand);
  for (uint32_t g = 0; g < shape_.num_token_groups && admission->head.tokens != 0; ++g)
    demand.add_hit(blocks_.pool()[tree.block_of(admission->head.node, g)]);
  if (request.cross_tokens != 0) [[unlikely]]
    add_cross_demand(request, admission);
  admission->slots = slots;
}

// The hit, and what the admission takes out of each pool: new blocks, and hits that nobody holds yet.
inline kvc_status Requests::plan(const Request& request, size_t max_positions, uint64_t step_id,
                                 AdmissionPlan* admission) {
  admission->epoch = blocks_.namespaces().epoch(request.ns);
  const Prompt prompt{request.tail.data, request.hashes.data, request.key_list(), request.ns,
                      admission->epoch};
  const uint64_t behind = fills_behind(request, step_id);
  KVC_TRY(matcher_.match(prompt, hit_limit(request), request.drop_tail_blocks, behind, &admission->hit));
  if (request.cross_tokens != 0) [[unlikely]]
    KVC_TRY(plan_cross(request, admission));
  const auto plan_blocks = [&] {
    plan_demand(request, plan_slots(request, *admission), admission);
    if (request.headroom != KVC_HEADROOM_NONE) [[unlikely]]
      plan_headroom(request, max_positions, admission);
  };
  plan_blocks();
  if (shape_.state_groups != 0 && admission->hit.length != 0 &&
      outgrows_state_pools(shape_, admission->demand,
                           [&](size_t p) { return blocks_.room().most_room(request.ns, p); })) [[unlikely]] {
    KVC_TRY(matcher_.match(prompt, 0, request.drop_tail_blocks, behind, &admission->hit));
    plan_blocks();
  }
  if (shape_.reuses_heads() && !admission->whole_blocks && request.drop_tail_blocks == 0 &&
      request.external_tokens == 0) [[unlikely]] {
    const size_t length = admission->hit.length;
    const NodeId last = length != 0 ? admission->hit.path[length - 1] : root_of(request.ns);
    const auto plan_with = [&](const Matcher::Head& head) {
      admission->head = head;
      plan_blocks();
    };
    const Matcher::Head head = matcher_.find_head(prompt, last, length, hit_limit_tokens(request));
    if (head.tokens != 0) {
      plan_with(head);
      if (!blocks_.room().fits(admission->demand, request.ns, admission_watermark(request.ns))) plan_with({});
    }
  }
  return KVC_OK;
}

// What the admission cannot do without, whatever headroom it takes.
Least Requests::least(const Request& request, const AdmissionPlan& admission) const {
  const AdmittedSlots slots = plan_slots(request, admission);
  const uint64_t first = admitted_capacity(request, 0, slots.whole != 0);
  const bool moves = first < request.known && request.known > 1 && may_read(request);
  Least least = least_held(shape_, slots.most(), slots.transfer_end, moves ? first : 0,
                           capacity_for(request, request.known));
  add_cross(request, &least);
  return least;
}

void Requests::add_cross(const Request& request, Least* least) const {
  for (uint32_t g = shape_.num_token_groups; g < shape_.num_groups; ++g)
    least->blocks[shape_.groups[g].pool] += shape_.positions_of(request.cross_tokens);
}

kvc_status Requests::refused(const Request& request, kvc_status status, const Least& least, const char* who) {
  status = blocks_.room().refusal(status, least, request.ns, who);
  ++counters_.refusals;
  blocks_.room().count_refusal(request.ns, status);
  return status;
}

kvc_status Requests::probe(const Request& request, kvc_probe_info* info) {
  AdmissionPlan admission(shape_.num_pools);
  KVC_TRY(plan(request, SIZE_MAX, 0, &admission));
  info->num_cached = admission.slots.cached;
  info->lost_reuse_tokens = lost_tokens(admission);
  if (publishes(request))
    info->next_checkpoint =
        checkpoint_after(request, info->num_cached, admission.hit.junction * shape_.block_size);
  if (shape_.has_fills()) find_fill(request, admission.hit, fills_behind(request, 0), &info->filling_request);
  uint64_t available[kMaxPools];
  for (size_t p = 0; p < shape_.num_pools; ++p) available[p] = blocks_.room().available(request.ns, p);
  admission.demand.answer_probe(available, shape_.num_pools, admission_watermark(request.ns), info);
  info->never_fits =
      info->fits == 0 && blocks_.room().pool_that_lacks(least(request, admission), request.ns) != kMaxPools;
  return KVC_OK;
}

kvc_status Requests::admit(Request& request, size_t max_positions, uint64_t step_id, CopyList* copies) {
  AdmissionPlan admission(shape_.num_pools);
  KVC_TRY(prepare(request, max_positions, step_id, copies == nullptr, &admission));
  carry_out(request, admission, step_id, copies == nullptr ? copies_ : *copies);
  return KVC_OK;
}

// Finds what the admission needs, and makes sure of room and memory for it. `single`: its copies wait.
kvc_status Requests::prepare(Request& request, size_t max_positions, uint64_t step_id, bool single,
                             AdmissionPlan* planned) {
  AdmissionPlan& admission = *planned;
  if (const size_t longest = std::max(shape_.positions_of(admitted_capacity(request, 0, true)),
                                      shape_.positions_of(request.cross_tokens));
      longest > max_positions) {
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "the request may need %zu blocks, row_stride is %zu", longest,
                max_positions);
  }
  KVC_TRY(plan(request, max_positions, step_id, &admission));
  if (shape_.has_fills()) [[unlikely]]
    KVC_TRY(wait_for_fill(request, admission.hit, step_id));
  const size_t positions = shape_.positions_of(admission.slots.capacity);
  if (const kvc_status status = blocks_.room().check_room(admission.demand, request.ns,
                                                          admission_watermark(request.ns), "the admission");
      status != KVC_OK) {
    return refused(request, status, least(request, admission), "the admission");
  }
  if (!reserve_tables(request, positions) || (request.cross_tokens != 0 && !reserve_cross_tables(request)) ||
      (admission.head.tokens != 0 && single && !reserve_copies(shape_.num_token_groups))) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a table of %zu blocks", positions);
  }
  return KVC_OK;
}

void Requests::carry_out(Request& request, const AdmissionPlan& admission, uint64_t step_id, CopyList& list) {
  const NodeId* const path = admission.hit.path;
  const AdmittedSlots& slots = admission.slots;
  const size_t length = slots.length, positions = shape_.positions_of(slots.capacity);
  const Matcher::Head head = admission.head;

  // Nothing can fail from here on. The cursor, the hits of all groups and what is copied are held before any
  // block is taken.
  blocks_.positions().move_cursor(&request.cursor, length != 0 ? path[length - 1] : root_of(request.ns));
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    GroupTable& table = request.groups[g];
    const uint32_t first = shape_.first_held(g, slots.cached, slots.transfer_end);
    BlockId* const blocks = table.blocks.data;
    const size_t sinks = std::min<size_t>(shape_.groups[g].sinks, length);
    const size_t rest = std::min(std::max<size_t>(first, sinks), length);
    blocks_.hold_run(g, path, sinks, request.ns, blocks);
    std::fill(blocks + sinks, blocks + rest, kNoBlock);
    blocks_.hold_run(g, path + rest, length - rest, request.ns, blocks + rest);
    table.begin(first);
    if (head.tokens != 0) [[unlikely]]
      blocks_.hold(blocks_.tree().block_of(head.node, g));
  }
  blocks_.levels().use(path, length);
  if (request.cross_tokens != 0 && admission.cross_cached) hold_cross(request);
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    const size_t copied = head.tokens != 0;
    if (copied != 0) [[unlikely]] {
      BlockId& copy = request.groups[g].blocks.data[length];
      copy = blocks_.take_copy(g, request.ns, true);
      list.out[list.count++] = {raw(blocks_.tree().block_of(head.node, g)), raw(copy)};
      ++counters_.copies;
    }
    take_blocks(request, g, length + copied, positions, slots.step_end(), slots.transfer_end);
  }
  if (request.cross_tokens != 0) [[unlikely]]
    begin_cross_tables(request, admission.cross_cached);
  LostCause cause = {};
  if (admission.hit.lost.positions != 0) [[unlikely]]
    cause = cause_of(shape_, admission.hit.lost, regained_tokens(admission.hit.lost, length, head.tokens));
  request.begin_admission({length, positions, head.tokens, slots.capacity, admission.epoch,
                           static_cast<uint32_t>(lost_tokens(admission)),
                           static_cast<uint32_t>(admission.hit.junction) * shape_.block_size,
                           publishes(request), cause.group, cause.reason});
  if (shape_.has_fills()) [[unlikely]]
    begin_fill(request, length, step_id);
  if (shape_.has_hints()) [[unlikely]]
    apply_hints(request, 0, length);
  ++num_admitted_;
  blocks_.shares().count_admitted(request.ns, 1);
  count_admission(request, admission);
  longest_admission_ =
      std::max<uint64_t>(longest_admission_,
                         admission.hit.known + positions * shape_.num_token_groups + request.cross_positions);
}

uint64_t Requests::num_admitted_of(uint32_t ns) const {
  uint64_t admitted = 0;
  for (size_t i = 0; i < table_.size(); ++i)
    admitted += table_[i].id != 0 && table_[i].ns == ns && table_[i].admitted;
  return admitted;
}

void Requests::count_admission(Request& request, const AdmissionPlan& admission) {
  if (request.readmission || (request.flags & KVC_REQUEST_RESUMED) != 0) {
    ++counters_.readmissions;
  } else {
    ++counters_.admissions;
    counters_.prompt_tokens += request.known;
    counters_.cached_tokens += request.num_cached;
    const uint64_t queries = request.known == 0 ? 0 : (request.known - 1) / shape_.block_size;
    counters_.block_queries += queries;
    counters_.block_hits += request.published;
    blocks_.shares().count_hits(request.ns, queries, request.published);
    counters_.lost_reuse_tokens += request.lost;
    const uint32_t head = admission.head.tokens;
    if (const LostReuse& lost = admission.hit.lost; lost.positions != 0) [[unlikely]]
      count_lost(shape_, lost, regained_tokens(lost, admission.hit.length, head), lost_.data());
    counters_.partial_hits += head != 0;
    counters_.partial_tokens += head;
    if (!curves_.empty()) [[unlikely]]
      curves_.admit(request, hit_limit(request), request.next_full != UINT32_MAX);
  }
  request.readmission = true;
}

}  // namespace kvc
