// SPDX-License-Identifier: Apache-2.0
#include "manager/batch.h"

#include "manager/requests.h"

namespace kvc {

Batch::~Batch() {
  planned_.clear(arena_);
  paths_.clear(arena_);
  hits_.clear(arena_);
}

// Blocks that the plan holds, in the order in which an admission holds them.
template <typename Visit>
void Batch::each_hit(const Planned& planned, Visit&& visit) const {
  const PrefixTree& tree = blocks_.tree();
  const AdmittedSlots& slots = planned.plan.slots;
  const NodeId* const path = paths_.data + planned.path;
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    const size_t first = shape_.first_held(g, slots.cached, slots.transfer_end);
    for (size_t j = 0; j < slots.length; ++j) {
      if (j >= first || j < shape_.groups[g].sinks) visit(tree.block_of(path[j], g));
    }
  }
  const size_t cross = cross_positions(planned, true);
  for (uint32_t g = shape_.num_token_groups; g < shape_.num_groups; ++g) {
    for (size_t j = 0; j < cross; ++j) visit(tree.block_of(path[slots.length + j], g));
  }
}

// What the plan holds and takes is gone for those behind it.
void Batch::expect(Planned& planned) {
  const AdmittedSlots& slots = planned.plan.slots;
  each_hit(planned, [&](BlockId block) {
    List was;
    if (blocks_.room.expect_hit(block, &was)) hits_.data[num_hits_++] = {block, was};
  });
  for (uint64_t& taken : planned.taken) taken = 0;
  const size_t end = shape_.positions_of(slots.capacity);
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    planned.taken[shape_.groups[g].pool] +=
        shape_.taken(g, slots.length, end, slots.step_end(), slots.transfer_end).count();
  }
  const size_t cross = cross_positions(planned, false);
  for (uint32_t g = shape_.num_token_groups; g < shape_.num_groups; ++g)
    planned.taken[shape_.groups[g].pool] += cross;
  for (size_t p = 0; p < shape_.num_pools; ++p)
    blocks_.room.expect_blocks(planned.request->ns, p, planned.taken[p]);
  planned.request->admitted = true;
  admissions_.count(*planned.request, true);
}

kvc_status Batch::plan(Request& request, uint64_t slots, size_t max_positions, uint64_t step_id) {
  if (request.admitted) return Requests::already_admitted(request.id);
  const uint32_t own_slots = request.slots;
  if (slots != 0) request.slots = static_cast<uint32_t>(slots);
  AdmissionPlan plan(shape_.num_pools, max_positions, step_id);
  plan.whole_blocks = true;
  kvc_status status = admissions_.match(request, &plan);
  if (status == KVC_OK) status = admissions_.plan(request, &plan);
  if (status == KVC_OK) status = admissions_.reserve(request, false, plan);
  if (status == KVC_OK && !reserve(request, plan))
    status = fail(KVC_ERROR_OUT_OF_MEMORY, "no memory to plan %zu admissions", count_ + 1);
  if (status != KVC_OK) {
    request.slots = own_slots;
    return status;
  }
  Planned& planned = planned_.data[count_++];
  planned.request = &request;
  planned.own_slots = own_slots;
  planned.path = path_size_;
  planned.plan = plan;
  const auto keep = [&](const NodeId* nodes, size_t count) {
    for (size_t j = 0; j < count; ++j) paths_.data[path_size_++] = nodes[j];
  };
  keep(plan.hit.path, plan.slots.length);
  if (const size_t cross = cross_positions(planned, true); cross != 0)
    keep(features_.get<Cross>().path(), cross);
  expect(planned);
  return KVC_OK;
}

// The reverse of expect() for all.
void Batch::take_back() {
  for (size_t i = count_; i-- > 0;) {
    Request& request = *planned_.data[i].request;
    request.admitted = false;
    admissions_.count(request, false);
    for (size_t p = 0; p < shape_.num_pools; ++p)
      blocks_.room.expect_blocks(request.ns, p, ~planned_.data[i].taken[p] + 1);
  }
  while (num_hits_ != 0) {
    const Hit& hit = hits_.data[--num_hits_];
    blocks_.room.take_back_hit(hit.block, hit.was);
  }
}

// The hits of all are held before the first takes a block.
void Batch::admit(CopyList& copies) {
  take_back();
  for (size_t i = 0; i < count_; ++i) {
    const Planned& planned = planned_.data[i];
    each_hit(planned, [&](BlockId block) { blocks_.hold(block); });
    if (const size_t length = planned.plan.slots.length; length != 0)  // perhaps no block keeps it alive
      blocks_.positions.move_cursor(&planned.request->cursor, paths_.data[planned.path + length - 1]);
  }
  for (size_t i = 0; i < count_; ++i) {
    Planned& planned = planned_.data[i];
    planned.plan.hit.path = paths_.data + planned.path;
    for (size_t j = cross_positions(planned, true); j-- > 0;)
      features_.get<Cross>().path()[j] = planned.plan.hit.path[planned.plan.slots.length + j];
    admissions_.hold(*planned.request, planned.plan);
    admissions_.begin(*planned.request, planned.plan, copies);
  }
  for (size_t i = 0; i < count_; ++i)
    each_hit(planned_.data[i], [&](BlockId block) { blocks_.unshare(block); });
}

}  // namespace kvc
