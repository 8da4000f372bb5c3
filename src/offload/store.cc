// SPDX-License-Identifier: Apache-2.0
// Which blocks are stored, and how a page goes to the tiers.
#include "base/status.h"
#include "offload/offload.h"

namespace kvc {

void Offload::add_candidate(const StoredBlock& block) { counters_.dropped_queue += !queue_.add(block); }

void Offload::follow_events() {
  for (;;) {
    const size_t room = queue_.room();
    const bool stores = (options_.policy & KVC_OFFLOAD_WRITE_THROUGH) != 0;
    if (!stores || room == 0) return;  // events wait in their ring, too
    uint64_t lost = 0;
    const size_t count = view_.read_published(&cursor_, found_.data(), std::min(room, found_.size()), &lost);
    counters_.published += count;
    counters_.dropped_events += lost;
    for (size_t i = 0; i < count; ++i) {  // one that came back may have been dropped by the tiers
      queue_.forget_all(found_[i]);
      add_candidate(found_[i]);
    }
    if (count == 0) return;
  }
}

// Keeps the blocks that leave next stored.
void Offload::clean() {
  for (size_t p = 0; p < view_.shape().num_pools; ++p) {
    const size_t count = view_.read_cold(p, options_.clean_blocks, found_.data(), found_.size());
    for (size_t i = 0; i < count; ++i) add_candidate(found_[i]);
  }
}

kvc_status Offload::store_request(uint64_t request, uint64_t* num_blocks) {
  const size_t count = view_.read_request(request, found_.data(), found_.size());
  for (size_t i = count; i-- > 0;) add_candidate(found_[i]);  // the first position first
  *num_blocks = count;
  return KVC_OK;
}

// Takes up to `most` candidates. Returns how many of them a tier lacks, with their keys; the others are done
// with.
size_t Offload::take_unknown(size_t most, StoredBlock* some, Digest256* keys) {
  const uint32_t all = (1u << tiers_.size()) - 1;
  uint32_t off = 0;  // tiers that take nothing now
  for (size_t t = 0; t < tiers_.size(); ++t) off |= tiers_.stores(t) ? 0 : 1u << t;
  const size_t count = std::min(most, queue_.size());
  for (size_t i = 0; i < count; ++i) some[i] = queue_.take();
  view_.name(some, count, keys);
  size_t unknown = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!is_node(some[i].node)) {
      ++counters_.gone;
      continue;
    }
    const Digest256 key = page_key(keys[i], groups_[some[i].group].salt);
    const uint32_t known = known_.tiers(key);
    if (known == all) continue;
    if ((known | off) == all) {
      for (size_t t = 0; t < tiers_.size(); ++t) tiers_.counters(t).refused_stores += (off & ~known) >> t & 1;
      queue_.forget(some[i]);
      continue;
    }
    keys[unknown] = key;
    some[unknown++] = some[i];
  }
  return unknown;
}

// Copies candidates to staging pages, of which loads keep a quarter.
bool Offload::store_candidates(void* stream) {
  constexpr size_t kPiece = 32;
  const uint32_t all = (1u << tiers_.size()) - 1;
  const size_t reserve = stages_.size() / 4;
  bool any = false;
  size_t waiting = 0;  // that are filling, and go to the end
  const auto put_back = [&](const StoredBlock& block) {
    queue_.put_back(block);
    ++waiting;
  };
  const auto lose = [&](const StoredBlock& block) {
    queue_.forget(block);  // it may come back
    ++counters_.gone;
  };
  while (queue_.size() > waiting && stages_.num_free() > reserve) {
    StoredBlock some[kPiece];
    Digest256 keys[kPiece];
    OffloadView::Content content[kPiece];
    uint32_t stage_of[kPiece];
    const size_t room = stages_.num_free() - reserve;
    const size_t unknown = take_unknown(std::min({kPiece, room, queue_.size() - waiting}), some, keys);
    const OffloadView::Moment then = view_.check(some, unknown, content);
    for (size_t i = 0; i < unknown; ++i) {
      if (content[i] == OffloadView::Content::kLater) put_back(some[i]);
      if (content[i] == OffloadView::Content::kGone) lose(some[i]);
      if (content[i] != OffloadView::Content::kThere) continue;
      stage_of[i] = stages_.take();
      Stage& stage = stages_[stage_of[i]];
      stage.group = some[i].group;
      stage.key = keys[i];
      stage.block = some[i];
      stage.jobs = 0;
      stage.known = known_.tiers(keys[i]);
      if (stages_.copy_out(stage_of[i], groups_[stage.group], some[i].block, stream) == KVC_OK) continue;
      stages_.give_back(stage_of[i]);
      content[i] = OffloadView::Content::kGone;
      lose(some[i]);
    }
    OffloadView::Content after[kPiece];
    view_.recheck(some, unknown, then, after);
    for (size_t i = 0; i < unknown; ++i) {
      if (content[i] != OffloadView::Content::kThere) continue;
      any = true;
      if (after[i] == OffloadView::Content::kThere) continue;
      stages_[stage_of[i]].known = all;  // it goes nowhere
      if (after[i] == OffloadView::Content::kLater) put_back(some[i]);
      if (after[i] == OffloadView::Content::kGone) lose(some[i]);
    }
  }
  return any;
}

// Puts the pages that are there: those of neighbouring stages by one job.
void Offload::begin_puts() {
  constexpr uint32_t kMostItems = 16;  // a stage is busy until the whole job has ended
  const uint32_t size = stages_.num_busy() == 0 ? 0 : static_cast<uint32_t>(stages_.size());
  const uint32_t all = (1u << tiers_.size()) - 1;
  const auto is_packed = [&](uint32_t i) { return stages_[i].state == Stage::State::kPacked; };
  for (size_t t = 0; t < tiers_.size(); ++t) {
    for (uint32_t i = 0, first; i < size; ++i) {
      for (first = i; i < size && i - first < kMostItems && is_packed(i) && (stages_[i].known >> t & 1) == 0;
           ++i) {
        Stage& stage = stages_[i];
        kvc_tier_item& item = stages_.item(i, t);
        item = {};
        set_key(&item, stage.key);
        item.data = stage.data;
        item.bytes = groups_[stage.group].page_bytes;
      }
      if (i == first) continue;
      put(first, i - first, t);
      --i;
    }
  }
  for (uint32_t i = 0; i < size; ++i) {
    if (!is_packed(i)) continue;
    if (stages_[i].known != all) continue;  // it is offered again
    stages_[i].state = Stage::State::kPutting;
    if (stages_[i].jobs == 0) stages_.give_back(i);
  }
}

void Offload::put(uint32_t first, uint32_t count, size_t tier) {
  uint64_t id = 0;
  const bool is_on = tiers_.stores(tier);
  const bool is_taken = is_on && tiers_.submit(tier, TierJobKind::kPut, TierPriority::kStore,
                                               &stages_.item(first, tier), count, first, &id) == KVC_OK;
  if (is_on && !is_taken && count > 1) {  // there may be room for some
    put(first, count / 2, tier);
    put(first + count / 2, count - count / 2, tier);
    return;
  }
  // A queue without jobs would refuse it for ever.
  if (is_on && !is_taken && flushing_ && tiers_.num_jobs(tier) != 0) return;
  for (uint32_t i = first; i < first + count; ++i) {
    Stage& stage = stages_[i];
    stage.known |= 1u << tier;
    if (is_taken) {
      ++stage.jobs;
    } else {
      ++tiers_.counters(tier).refused_stores;
      queue_.forget(stage.block);
    }
  }
}

void Offload::end_put(uint32_t index, size_t tier) {
  Stage& stage = stages_[index];
  const kvc_tier_item& item = stages_.item(index, tier);
  if (item.result == KVC_PAGE_OK) {
    known_.add(stage.key, tier);
    ++tiers_.counters(tier).stored_pages;
    tiers_.counters(tier).stored_bytes += item.bytes;
  } else {
    ++tiers_.counters(tier).failed_stores;
    queue_.forget(stage.block);
  }
  if (--stage.jobs == 0 && stage.state == Stage::State::kPutting) stages_.give_back(index);
}

}  // namespace kvc
