// SPDX-License-Identifier: Apache-2.0
// One fill per content: who computes which known tokens, blocks that steps in flight write, and what happens
// if they do not. docs/SEMANTICS.md, "Fills".
#include <algorithm>

#include "manager/requests.h"

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

// A request that shares runs behind the step that admits it, else behind those that were issued.
uint64_t Requests::fills_behind(const Request& request, uint64_t step_id) const {
  if ((request.flags & KVC_REQUEST_SHARE_FILLING) == 0) return blocks_.retired();
  return step_id != 0 ? step_id : blocks_.issued();
}

// After an admission. What it has hit may be filling: a commit beyond it says that all of it is written.
void Requests::begin_fill(Request& request, size_t num_hits, uint64_t step_id) {
  for (size_t j = 0; j < num_hits && blocks_.pool().filling().size() != 0; ++j) {
    for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
      const BlockId block = request.groups[g].blocks.data[j];
      if (!is_block(block) || !blocks_.pool().is_filling(block)) continue;
      ++counters_.filling_hits;
      if (request.marked > j * shape_.block_size)
        request.set_marked(static_cast<uint32_t>(j * shape_.block_size));
    }
  }
  Fills::Of& fill = fills_[table_.index_of(request)];
  fill.end = request.known;
  fill.enqueued = step_id == 0 ? request.num_cached
                               : static_cast<uint32_t>(admitted_capacity(request, request.num_cached, false));
  fill.admission = ++admissions_;
  follow_fill(request);
}

// The request fills the position after its published ones as long as it knew it when it was admitted.
void Requests::follow_fill(const Request& request) {
  const uint32_t index = table_.index_of(request);
  if (request.next_full <= fills_[index].end && request.published < request.num_hashes) {
    fills_.list(index, request.hashes.data[request.published]);
  } else {
    fills_.unlist(index);
  }
}

// Whether the first position after a hit is being filled, and by which request, if one does so from here.
bool Requests::find_fill(const Request& request, const Matcher::Match& hit, uint64_t behind,
                         uint64_t* filler) const {
  *filler = 0;
  const size_t next = hit.reached;
  if (next >= hit_limit(request)) return false;
  if (hit.known > next &&
      blocks_.readable(hit.path[next], behind) != blocks_.tree()[hit.path[next]].resident) {
    return true;
  }
  const NodeId before = next == 0 ? root_of(request.ns) : hit.path[next - 1];
  const uint64_t first = next * shape_.block_size;
  const auto keys = [&](const Request& of) { return ExtraView(of.key_list(), first, shape_.block_size); };
  const uint32_t index = fills_.find(request.hashes.data[next], [&](uint32_t i) {
    const Request& other = table_[i];
    return &other != &request && other.cursor == before && !stale(other) &&
           std::memcmp(other.token(first), request.token(first), shape_.block_size * sizeof(int32_t)) == 0 &&
           same_keys(keys(other), keys(request));
  });
  if (index == Fills::kNone) return false;
  *filler = table_[index].id;
  return true;
}

kvc_status Requests::wait_for_fill(const Request& request, const Matcher::Match& hit, uint64_t step_id) {
  const uint64_t until = fills_[table_.index_of(request)].wait_until;
  if (until == 0) return KVC_OK;
  const uint64_t now = blocks_.levels().now();
  if (now == 0) {
    return invalid(
        "wait_until_ns is %llu and the manager has not been told the time; set the step's now_ns or call "
        "set_time",
        ull(until));
  }
  uint64_t filler = 0;
  if (now >= until || !find_fill(request, hit, fills_behind(request, step_id), &filler)) return KVC_OK;
  ++counters_.filling_waits;
  const uint64_t first = hit.reached * shape_.block_size;
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

void Requests::enqueue_extension(Request& request, uint32_t capacity_before, uint64_t step_id) {
  uint32_t& enqueued = fills_[table_.index_of(request)].enqueued;
  if (enqueued == capacity_before) enqueued = request.capacity;
  enqueue(request, step_id);
}

void Requests::enqueue(Request& request, uint64_t step_id) {
  if ((request.flags & KVC_REQUEST_PUBLISH_ENQUEUED) == 0 || step_id <= blocks_.retired()) return;
  if (request.committed < uint64_t{request.num_cached} + request.external_tokens)
    return;  // a transfer fills these
  const Fills::Of& fill = fills_[table_.index_of(request)];
  const uint32_t enqueued = fill.enqueued < fill.end ? fill.enqueued : fill.end;
  if (enqueued < request.next_full) return;
  // Without memory for it the commit publishes.
  static_cast<void>(publish_full(request, shape_.by_block.divide(enqueued), false, step_id, true));
}

bool Requests::is_filling(const Request& request, size_t position) const {
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    const BlockId block = request.groups[g].blocks.data[position];
    if (is_block(block) && blocks_.pool().is_filling(block)) return true;
  }
  return false;
}

bool Requests::holds_filling(const Request& request, uint64_t step_id) const {
  const BlockPool& pool = blocks_.pool();
  for (size_t j = 0; j < request.positions; ++j) {
    for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
      const BlockId block = request.groups[g].blocks.data[j];
      if (is_block(block) && pool.is_filling(block) &&
          static_cast<int32_t>(pool.filling().step(block) - static_cast<uint32_t>(step_id)) >= 0) {
        return true;
      }
    }
  }
  return false;
}

kvc_status Requests::fail_step(uint64_t step_id, uint64_t* ids, size_t capacity, size_t* count) {
  size_t affected = 0;
  bool has_memory = true;
  const auto each = [&](auto&& visit) {
    for (size_t i = 0; i < table_.size(); ++i) {
      Request& request = table_.at(i);
      if (request.id != 0 && request.admitted && !request.building && holds_filling(request, step_id))
        visit(request);
    }
  };
  each([&](Request& request) {
    if (affected < capacity) ids[affected] = request.id;
    ++affected;
  });
  *count = affected;
  if (affected > capacity) {
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "%zu requests are preempted, the array has room for %zu",
                affected, capacity);
  }
  each([&](Request& request) { has_memory = has_memory && reserve_preemption(request); });
  if (!has_memory) return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the tokens of %zu requests", affected);
  blocks_.fail_fills(step_id);
  std::sort(ids, ids + affected, [&](uint64_t a, uint64_t b) {
    return fills_[handle_index(a)].admission < fills_[handle_index(b)].admission;
  });
  for (size_t i = 0; i < affected; ++i) {
    Request& request = *table_.find(ids[i]);
    request.close_lane();
    static_cast<void>(preempt(request));
  }
  return KVC_OK;
}

}  // namespace kvc
