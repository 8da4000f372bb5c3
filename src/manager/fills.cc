// SPDX-License-Identifier: Apache-2.0
#include "manager/fills.h"

#include <kvcache/prefix.h>

namespace kvc {
namespace {

bool same_keys(const ExtraView& a, const ExtraView& b) {
  if (a.count() != b.count()) return false;
  for (uint64_t i = 0; i < a.count(); ++i) {
    const ExtraSpan x = a.span(i), y = b.span(i);
    if (std::memcmp(&x, &y, sizeof x) != 0) return false;
  }
  return true;
}

}  // namespace

// What it has hit may be filling: a commit beyond it says that all of it is written.
void Fills::begin(Request& request, const AdmissionPlan& plan) {
  for (size_t j = 0; j < plan.slots.length && blocks_.pool().filling().size() != 0; ++j) {
    const uint32_t filling = filling_groups(request, j);
    counters_.filling_hits += static_cast<uint32_t>(__builtin_popcount(filling));
    if (filling != 0 && request.marked > j * shape_.block_size)
      request.set_marked(static_cast<uint32_t>(j * shape_.block_size));
  }
  FillLists::Of& fill = lists_[index_of(request)];
  fill.end = request.known;
  fill.enqueued = plan.step_id == 0
                      ? request.num_cached
                      : static_cast<uint32_t>(admitted_capacity(request, request.num_cached, false));
  fill.admission = ++admissions_;
  follow(request);
}

void Fills::follow(const Request& request) {
  const uint32_t index = index_of(request);
  if (fills(request)) {
    lists_.list(index, request.hashes.data[request.published]);
  } else {
    lists_.unlist(index);
  }
}

// Whether the first position after a hit is being filled, and by which request, if one does so from here.
bool Fills::find(const Request& request, const AdmissionPlan& plan, uint64_t* filler) const {
  *filler = 0;
  const Matcher::Match& hit = plan.hit;
  const size_t next = hit.reached;
  if (next >= hit_limit(request)) return false;
  if (hit.known > next &&
      blocks_.readable(hit.path[next], plan.behind) != blocks_.tree()[hit.path[next]].resident) {
    return true;
  }
  const NodeId before = next == 0 ? root_of(request.ns) : hit.path[next - 1];
  const uint64_t first = next * shape_.block_size;
  const auto keys = [&](const Request& of) { return ExtraView(of.key_list(), first, shape_.block_size); };
  const uint32_t index = lists_.find(request.hashes.data[next], [&](uint32_t i) {
    const Request& other = requests_.at(i);
    return &other != &request && other.cursor == before && !stale(other) &&
           std::memcmp(other.token(first), request.token(first), shape_.block_size * sizeof(int32_t)) == 0 &&
           same_keys(keys(other), keys(request));
  });
  if (index == FillLists::kNone) return false;
  *filler = requests_.at(index).id;
  return true;
}

void Fills::tell(const Request& request, const AdmissionPlan& plan, kvc_probe_info* info) const {
  find(request, plan, &info->filling_request);
}

kvc_status Fills::wait(const Request& request, const AdmissionPlan& plan) {
  const uint64_t until = lists_[index_of(request)].wait_until;
  if (until == 0) return KVC_OK;
  const uint64_t now = blocks_.cached.now();
  if (now == 0) {
    return invalid(
        "wait_until_ns is %llu and the manager has not been told the time; set the step's now_ns or call "
        "set_time",
        ull(until));
  }
  uint64_t filler = 0;
  if (now >= until || !find(request, plan, &filler)) return KVC_OK;
  ++counters_.filling_waits;
  const uint64_t first = plan.hit.reached * shape_.block_size;
  if (filler == 0) {
    return fail(
        KVC_ERROR_FILLING,
        "a step in flight computes token %llu; try again when it is retired, at %llu ns at the latest",
        ull(first), ull(until));
  }
  return fail(KVC_ERROR_FILLING,
              "request %llu computes token %llu; try again after its next commit, at %llu ns at the latest",
              ull(filler), ull(first), ull(until));
}

// The tokens whose full blocks the step may publish.
void Fills::enqueued(const Request& request, uint64_t step_id, uint64_t* tokens) const {
  if ((request.flags & KVC_REQUEST_PUBLISH_ENQUEUED) == 0 || step_id <= blocks_.retired()) return;
  if (request.committed < transfer_end(request)) return;  // a transfer fills these
  const FillLists::Of& fill = lists_[index_of(request)];
  const uint32_t end = fill.enqueued < fill.end ? fill.enqueued : fill.end;
  if (end >= request.next_full) *tokens = end;
}

// A block that is filling is written when all of it is committed, one of the hit not by a transfer; the
// others of its position are written now.
bool Fills::marks_all(Request& request) {
  size_t last = shape_.by_block.divide_up(request.committed);
  const size_t full = shape_.by_block.divide(request.committed);
  if (const uint32_t filling = full != last ? filling_groups(request, full) : 0; filling != 0) {
    for (const uint32_t g : bits_of(shape_.token_groups() & ~filling)) {
      const BlockId block = request.groups[g].blocks.data[full];
      if (is_block(block)) blocks_.mark_written(block);
    }
    last = full;
  }
  const uint32_t marked = request.marked;
  const uint32_t own = request.own_from * shape_.block_size;
  if (is_computed(request, request.committed) || marked >= own) {
    mark_written(request, last);
  } else if (own <= last * shape_.block_size) {
    request.set_marked(own);
    mark_written(request, last);
    request.set_marked(marked);
  }
  return false;
}

uint32_t Fills::filling_groups(const Request& request, size_t position) const {
  uint32_t groups = 0;
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    const BlockId block = request.groups[g].blocks.data[position];
    if (is_block(block) && blocks_.pool().is_filling(block)) groups |= 1u << g;
  }
  return groups;
}

bool Fills::holds_filling(const Request& request, uint64_t step_id) const {
  for (size_t j = 0; j < request.positions; ++j) {
    for (const uint32_t g : bits_of(filling_groups(request, j))) {
      const uint32_t step = blocks_.pool().filling().step(request.groups[g].blocks.data[j]);
      if (static_cast<int32_t>(step - static_cast<uint32_t>(step_id)) >= 0) return true;
    }
  }
  return false;
}

}  // namespace kvc
