// SPDX-License-Identifier: Apache-2.0
#include "manager/admissions.h"

#include <kvcache/prefix.h>

#include <algorithm>

namespace kvc {

kvc_status Admissions::admit(Request& request, size_t max_positions, uint64_t step_id, CopyList* copies) {
  AdmissionPlan admission(shape_.num_pools, max_positions, step_id);
  KVC_TRY(match(request, &admission));
  KVC_TRY(plan(request, &admission));
  KVC_TRY(reserve(request, copies == nullptr, admission));
  hold(request, admission);
  begin(request, admission, copies == nullptr ? copies_.list() : *copies);
  return KVC_OK;
}

kvc_status Admissions::probe(const Request& request, kvc_probe_info* info) {
  AdmissionPlan admission(shape_.num_pools, SIZE_MAX, 0);
  KVC_TRY(match(request, &admission));
  KVC_TRY(plan(request, &admission));
  info->num_cached = admission.slots.cached;
  info->lost_reuse_tokens = lost_tokens(admission);
  features_.each([&](const auto& feature) { feature.tell(request, admission, info); });
  uint64_t available[kMaxPools];
  for (size_t p = 0; p < shape_.num_pools; ++p) available[p] = blocks_.room.available(request.ns, p);
  admission.demand.answer_probe(available, shape_.num_pools, watermark(request), info);
  info->never_fits =
      info->fits == 0 && blocks_.room.pool_that_lacks(least(request, admission), request.ns) != kMaxPools;
  return KVC_OK;
}

// ---- match

kvc_status Admissions::match(const Request& request, AdmissionPlan* plan) {
  if (const size_t longest = std::max(shape_.positions_of(admitted_capacity(request, 0, true)),
                                      shape_.positions_of(request.cross_tokens));
      longest > plan->max_positions) {
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "the request may need %zu blocks, row_stride is %zu", longest,
                plan->max_positions);
  }
  plan->epoch = blocks_.namespaces().epoch(request.ns);
  plan->behind = blocks_.retired();
  features_.each([&](const auto& feature) { feature.run_behind(request, plan); });
  KVC_TRY(find(request, hit_limit(request), plan));
  return features_.try_each([&](auto& feature) { return feature.match(request, plan); });
}

// ---- plan

void Admissions::plan_blocks(const Request& request, AdmissionPlan* plan) const {
  plan_demand(request, plan_slots(request, *plan), plan);
  features_.each([&](const auto& feature) { feature.widen(request, *this, plan); });
}

// Tokens of the hit, those that get slots behind it, and those that must fit in the end.
inline AdmittedSlots Admissions::plan_slots(const Request& request, const AdmissionPlan& plan) const {
  AdmittedSlots slots;
  slots.length = plan.hit.length;
  slots.cached = slots.length * shape_.block_size + plan.head.tokens;
  slots.known = request.known;
  slots.capacity = admitted_capacity(request, slots.cached, false);
  if (request.external_tokens != 0)
    slots.transfer_end = std::min<uint64_t>(slots.cached + request.external_tokens, request.known);
  if ((request.flags & KVC_REQUEST_FULL_MUST_FIT) != 0)
    slots.whole = admitted_capacity(request, slots.cached, true);
  slots.step = uint64_t{std::max(request.slots, uint32_t{1})} + request.lookahead;
  return slots;
}

void Admissions::plan_demand(const Request& request, const AdmittedSlots& slots, AdmissionPlan* plan) const {
  const NodeId* const path = plan->hit.path;
  const PrefixTree& tree = blocks_.tree();
  Demand& demand = plan->demand;
  demand = Demand(shape_.num_pools);
  add_demand(
      shape_, slots, [&](uint32_t g, size_t j) { demand.add_hit(blocks_.pool()[tree.block_of(path[j], g)]); },
      &demand);
  features_.each([&](const auto& feature) { feature.add_demand(request, plan); });
  plan->slots = slots;
}

// What the admission cannot do without, whatever headroom it takes.
Least Admissions::least(const Request& request, const AdmissionPlan& plan) const {
  const AdmittedSlots slots = plan_slots(request, plan);
  const uint64_t first = admitted_capacity(request, 0, slots.whole != 0);
  const bool moves = first < request.known && request.known > 1 && shape_.caches() && may_read(request);
  Least least = least_held(shape_, slots.most(), slots.transfer_end, moves ? first : 0,
                           capacity_for(request, request.known));
  features_.each([&](const auto& feature) { feature.add_least(request, false, &least); });
  return least;
}

// ---- reserve

// `single`: its copies wait.
kvc_status Admissions::reserve(Request& request, bool single, const AdmissionPlan& plan) {
  KVC_TRY(features_.try_each([&](auto& feature) { return feature.wait(request, plan); }));
  const size_t positions = shape_.positions_of(plan.slots.capacity);
  if (const kvc_status status =
          blocks_.room.check_room(plan.demand, request.ns, watermark(request), "the admission");
      status != KVC_OK) {
    return blocks_.room.refused(status, least(request, plan), request.ns, "the admission");
  }
  if (!reserve_tables(request, positions) ||
      !features_.all([&](auto& feature) { return feature.reserve(request, plan, single); })) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a table of %zu blocks", positions);
  }
  return KVC_OK;
}

// ---- hold

// The cursor, the hits of all groups and what is copied.
void Admissions::hold(Request& request, const AdmissionPlan& plan) {
  const NodeId* const path = plan.hit.path;
  const AdmittedSlots& slots = plan.slots;
  const size_t length = slots.length;
  blocks_.positions.move_cursor(&request.cursor, length != 0 ? path[length - 1] : root_of(request.ns));
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
  }
  blocks_.cached.use(path, length);
  features_.each([&](auto& feature) { feature.hold(request, plan); });
}

// ---- begin

void Admissions::begin(Request& request, const AdmissionPlan& plan, CopyList& copies) {
  const AdmittedSlots& slots = plan.slots;
  const size_t length = slots.length, positions = shape_.positions_of(slots.capacity);
  const uint32_t head = plan.head.tokens;
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    if (head != 0) [[unlikely]]
      features_.get<Heads>().copy(request, g, plan, copies);
    take_blocks(request, g, length + (head != 0), positions, slots.step_end(), slots.transfer_end);
  }
  LostCause cause = {};
  if (plan.hit.lost.positions != 0) [[unlikely]]
    cause = cause_of(shape_, plan.hit.lost, regained_tokens(plan.hit.lost, length, head));
  request.begin_admission({length, positions, head, slots.capacity, plan.epoch,
                           static_cast<uint32_t>(lost_tokens(plan)),
                           static_cast<uint32_t>(plan.hit.junction) * shape_.block_size, publishes(request),
                           cause.group, cause.reason});
  features_.each([&](auto& feature) { feature.begin(request, plan); });
  count(request, true);
  if (request.readmission || (request.flags & KVC_REQUEST_RESUMED) != 0) {
    ++counters_.readmissions;
  } else {
    count_first(request, plan);
  }
  request.readmission = true;
  longest_ = std::max<uint64_t>(
      longest_, plan.hit.known + positions * shape_.num_token_groups + request.cross_positions);
}

void Admissions::count_first(const Request& request, const AdmissionPlan& plan) {
  ++counters_.admissions;
  counters_.prompt_tokens += request.known;
  counters_.cached_tokens += request.num_cached;
  const uint64_t queries = request.known == 0 ? 0 : (request.known - 1) / shape_.block_size;
  counters_.block_queries += queries;
  counters_.block_hits += request.published;
  blocks_.shares.count_hits(request.ns, queries, request.published);
  counters_.lost_reuse_tokens += request.lost;
  const uint32_t head = plan.head.tokens;
  if (const LostReuse& lost = plan.hit.lost; lost.positions != 0) [[unlikely]]
    count_lost(shape_, lost, regained_tokens(lost, plan.hit.length, head), lost_.data());
  counters_.partial_hits += head != 0;
  counters_.partial_tokens += head;
  if (!curves_.empty()) [[unlikely]]
    curves_.admit(request, hit_limit(request), request.next_full != UINT32_MAX);
}

}  // namespace kvc
