// SPDX-License-Identifier: Apache-2.0
// From the tokens of a waiting request to cached blocks.
#include <kvcache/metrics.h>

#include <algorithm>

#include "base/position_digest.h"
#include "base/status.h"
#include "offload/offload.h"

namespace kvc {
namespace {

constexpr size_t kFirstPiece =
    16;  // positions that are asked for at first; each piece makes them four times as many
constexpr uint64_t kMeasureAgain = 16;

}  // namespace

kvc_status Offload::load(uint64_t request, uint64_t max_tokens, uint64_t now_ns) {
  tiers_.advance(now_ns);
  if (lookups_.find(request) != nullptr) return KVC_OK;
  Lookup* const lookup = lookups_.begin(request);
  if (lookup == nullptr)
    return fail(KVC_ERROR_LIMIT, "all %zu lookups are in use; try again after a poll, or raise max_lookups",
                lookups_.size());
  lookup->max_tokens = max_tokens;
  KVC_TRY(begin(*lookup));
  ++counters_.lookups;
  return KVC_OK;
}

// Finds what is missing. A lookup that has nothing to do is READY at once.
kvc_status Offload::begin(Lookup& lookup) {
  const uint32_t block_size = view_.shape().block_size;
  OffloadView::Prompt& prompt = lookup.prompt;
  KVC_TRY(view_.read_prompt(lookup.request, &prompt));
  if (prompt.num_keys > Lookups::kMaxKeys) {  // what is before the last of them is looked up
    prompt.num_keys = Lookups::kMaxKeys - 1;
    prompt.num_tokens = std::min<size_t>(prompt.num_tokens, prompt.keys[Lookups::kMaxKeys - 1].first_token);
  }
  const uint64_t most = std::min<uint64_t>(prompt.most_cached, prompt.num_tokens) / block_size * block_size;
  const size_t positions = cut_at_spans({prompt.keys, prompt.num_keys}, most, block_size) / block_size;
  const kvc_prompt whole = lookups_.prompt_of(lookup, positions);
  const TokenSpan span = {whole.tokens, whole.num_tokens, whole.keys, whole.num_keys, whole.namespace_id};
  size_t num_hits = 0;
  StoredBlock last = {0, kNoNode, kNoBlock, 0};
  KVC_TRY(view_.read_hit(span, positions, found_.data(), found_.size(), &num_hits, &lookup.first, &last));
  for (size_t i = 0; i < num_hits && (options_.policy & KVC_OFFLOAD_SECOND_USE) != 0; ++i)
    add_candidate(found_[i]);
  lookup.most = std::min<uint64_t>(
      {positions - lookup.first, lookups_.pages_per_lookup() / num_groups(), lookup.max_tokens / block_size});
  lookup.end = lookup.first;
  lookup.count = lookup.asked = 0;
  if (lookup.most == 0) return settle(lookup, KVC_OFFLOAD_NOTHING), KVC_OK;
  if (is_node(last.node)) view_.name(&last, 1, &lookup.digest);  // stores need its digest as well
  if (!is_node(last.node)) lookup.digest = lookups_.hash(lookup, groups_, 0, lookup.first, prompt.root);
  hash_piece(lookup);
  if (follow_other(lookup)) return KVC_OK;
  lookup.state = LookupState::kAsking;
  lookup.moved_ns = monotonic_ns();
  ask(lookup);
  return KVC_OK;
}

// Most prompts are new: what is asked for grows with what is found. Without a group of full attention there
// may be a prefix behind any hole.
void Offload::hash_piece(Lookup& lookup) {
  bool ends_at_holes = false;
  for (size_t g = 0; g < num_groups(); ++g)
    ends_at_holes = ends_at_holes || !view_.shape().groups[g].windowed();
  const bool all = !ends_at_holes || lookup.doubtful;
  lookup.tier = 0;
  lookup.asked = lookup.count;
  lookup.count = all ? lookup.most : std::min(std::max(kFirstPiece, 4 * lookup.count), lookup.most);
  lookup.digest =
      lookups_.hash(lookup, groups_, lookup.first + lookup.asked, lookup.first + lookup.count, lookup.digest);
}

// One fill per content: whoever needs first what another one looks up waits for it.
bool Offload::follow_other(Lookup& lookup) {
  for (size_t i = 0; i < lookups_.size(); ++i) {
    Lookup& other = lookups_[i];
    const bool active = other.state == LookupState::kAsking || other.state == LookupState::kLoading;
    if (&other == &lookup || !active || lookup.first < other.first ||
        lookup.first >= other.first + other.count)
      continue;
    const size_t page = (lookup.first - other.first) * num_groups();
    if (std::memcmp(&lookups_.keys_of(other)[page], &lookups_.keys_of(lookup)[0], sizeof(Digest256)) != 0)
      continue;
    lookup.state = LookupState::kFollowing;
    lookup.leader = static_cast<uint32_t>(i);
    lookup.leader_request = other.request;
    return true;
  }
  return false;
}

void Offload::ask(Lookup& lookup) {
  while (lookup.tier < tiers_.size() && !tiers_.gives(lookup.tier)) ++lookup.tier;
  if (lookup.tier == tiers_.size()) return conclude(lookup);
  kvc_tier_item* const items = lookups_.items_of(lookup);
  size_t count = 0;
  for (size_t i = lookup.asked * num_groups(); i < lookup.count * num_groups(); ++i) {
    if (lookups_.pages_of(lookup)[i].is_found()) continue;
    items[count] = {};
    set_key(&items[count], lookups_.keys_of(lookup)[i]);
    items[count++].bytes = groups_[i % num_groups()].page_bytes;
  }
  if (tiers_.submit(lookup.tier, TierJobKind::kExists, TierPriority::kLoad, items, count,
                    lookups_.index_of(lookup), &lookup.exists_job) == KVC_OK) {
    lookup.is_asking = true;
    lookup.moved_ns = monotonic_ns();
  } else {
    ++tiers_.counters(lookup.tier).refused_loads;  // the next poll asks again
  }
}

void Offload::end_ask(Lookup& lookup) {
  lookup.is_asking = false;
  if (lookup.state != LookupState::kAsking) return;
  size_t missing = 0;
  for (size_t i = lookup.asked * num_groups(), count = 0; i < lookup.count * num_groups(); ++i) {
    LookupPage& page = lookups_.pages_of(lookup)[i];
    if (page.is_found()) continue;
    const kvc_tier_item& item = lookups_.items_of(lookup)[count++];  // as ask() wrote them
    if (item.result == KVC_PAGE_OK) {
      page.tier = static_cast<uint8_t>(lookup.tier);
      page.generation = item.generation;
      page.state = PageState::kFound;
      ++tiers_.counters(lookup.tier).hits;
      known_.add(lookups_.keys_of(lookup)[i], lookup.tier);
    } else {
      ++missing;
      ++tiers_.counters(lookup.tier).misses;
      if (item.result == KVC_PAGE_MISS && known_.remove(lookups_.keys_of(lookup)[i], lookup.tier))
        lookup.doubtful = true;
    }
  }
  if (missing == 0) return conclude(lookup);
  ++lookup.tier;
  ask(lookup);
}

// All tiers were asked for the piece.
void Offload::conclude(Lookup& lookup) {
  const size_t end = lookup.first + lookup.count;
  // Where the table of known pages was wrong, it has to learn of those behind the hole, too, or they would
  // not be stored again.
  if (lookup.count != lookup.most &&
      (lookup.doubtful || lookups_.first_hole(lookup, end, PageState::kFound) == end)) {
    hash_piece(lookup);
    return ask(lookup);
  }
  lookup.end = lookups_.longest(lookup, end, PageState::kFound);
  lookup.found_tokens = (lookup.end - lookup.first) * view_.shape().block_size;
  if (lookup.end == lookup.first) return settle(lookup, KVC_OFFLOAD_NOTHING);
  if (!passes_gate(lookup)) return settle(lookup, KVC_OFFLOAD_SLOWER);
  begin_load(lookup);
}

bool Offload::passes_gate(const Lookup& lookup) {
  if (lookup.found_tokens < options_.min_load_tokens) return ++counters_.gate_refusals, false;
  if (options_.compute_ns_per_token == 0) return true;
  double load_ns = 0;
  for (size_t i = 0; i < (lookup.end - lookup.first) * num_groups(); ++i) {
    const LookupPage& page = lookups_.pages_of(lookup)[i];
    const size_t g = i % num_groups();
    if (!page.is_found() || !lookups_.needed(g, lookup.first + i / num_groups(), lookup.end)) continue;
    load_ns += static_cast<double>(groups_[g].page_bytes) * tiers_.counters(page.tier).ns_per_byte;
  }
  if (load_ns <= options_.compute_ns_per_token * static_cast<double>(lookup.found_tokens)) return true;
  if (++slow_loads_ % kMeasureAgain == 0) return true;  // a tier may have become faster
  return ++counters_.gate_refusals, false;
}

// The hit must stay: the loaded blocks are of no use without it.
bool Offload::hold_hit(Lookup& lookup) {
  if (lookup.first == 0) return true;
  const kvc_prompt prompt = lookups_.prompt_of(lookup, lookup.first);
  for (uint32_t g = 0; g < num_groups(); ++g) {
    int32_t* const blocks = lookups_.blocks_of(lookup, g);
    size_t length = 0;
    if (calls_.acquire_prefix(calls_.manager, &prompt, g, blocks, lookup.first, &length) != KVC_OK)
      length = 0;
    for (size_t p = length; p < lookup.first; ++p) blocks[p] = -1;
    if (length != lookup.first) return false;
  }
  return true;
}

bool Offload::take_blocks(Lookup& lookup) {
  for (uint32_t g = 0; g < num_groups(); ++g) {
    int32_t* const blocks = lookups_.blocks_of(lookup, g);
    size_t count = 0;
    for (size_t p = lookup.first; p < lookup.end; ++p) count += lookups_.needed(g, p, lookup.end);
    int32_t* const taken = blocks + lookup.end - count;
    if (calls_.acquire_blocks(calls_.manager, g, taken, count) != KVC_OK) {
      for (size_t i = 0; i < count; ++i) taken[i] = -1;
      return false;
    }
    const int32_t* next = taken;
    for (size_t p = lookup.first; p < lookup.end; ++p) {
      blocks[p] = lookups_.needed(g, p, lookup.end) ? *next++ : -1;
      lookups_.pages_of(lookup)[(p - lookup.first) * num_groups() + g].block = blocks[p];
    }
  }
  return true;
}

void Offload::begin_load(Lookup& lookup) {
  for (uint32_t g = 0; g < num_groups(); ++g) std::fill_n(lookups_.blocks_of(lookup, g), lookup.end, -1);
  lookup.held = lookup.end;
  if (!hold_hit(lookup) || !take_blocks(lookup)) {
    ++counters_.no_room;
    keep(lookup, 0);
    return settle(lookup, KVC_OFFLOAD_NO_ROOM);
  }
  ++counters_.loads;
  lookup.state = LookupState::kLoading;
  lookup.next = 0;
  lookup.begun_ns = tiers_.now();
  lookup.moved_ns = monotonic_ns();
}

bool Offload::get_pages(Lookup& lookup) {
  const size_t end = (lookup.end - lookup.first) * num_groups();
  for (; lookup.next < end && !lookup.failed; ++lookup.next) {
    LookupPage& page = lookups_.pages_of(lookup)[lookup.next];
    if (page.block < 0) continue;
    const size_t tier = page.tier;
    if (!tiers_.gives(tier)) {
      if (tiers_.is_probing(tier)) return true;
      page.state = PageState::kFailed;
      lookup.failed = true;
      ++tiers_.counters(tier).failed_loads;
      return false;
    }
    const uint32_t index = stages_.take();
    if (index == Stages::kNone) return true;
    Stage& stage = stages_[index];
    stage.group = static_cast<uint32_t>(lookup.next % num_groups());
    stage.lookup = static_cast<uint32_t>(lookups_.index_of(lookup));
    stage.page = static_cast<uint32_t>(lookup.next);
    stage.begun_ns = tiers_.now();
    kvc_tier_item& item = stages_.item(index, tier);
    item = {};
    set_key(&item, lookups_.keys_of(lookup)[lookup.next]);
    item.data = stage.data;
    item.bytes = groups_[stage.group].page_bytes;
    item.generation = page.generation;
    const bool was_probing = tiers_.is_probing(tier);
    if (tiers_.submit(tier, TierJobKind::kGet, TierPriority::kLoad, &item, 1, index, &stage.job) != KVC_OK) {
      stages_.give_back(index);
      ++tiers_.counters(tier).refused_loads;
      return true;
    }
    stage.state = Stage::State::kGetting;
    stage.jobs = 1;
    stage.is_probe = tiers_.is_probing(tier) && !was_probing;
    stage.given_up = false;
    page.state = PageState::kGetting;
    if (lookup.outstanding++ == 0) lookup.moved_ns = monotonic_ns();
  }
  return false;
}

void Offload::end_get(uint32_t index, size_t tier) {
  Stage& stage = stages_[index];
  Lookup& lookup = lookups_[stage.lookup];
  const kvc_tier_item& item = stages_.item(index, tier);
  stage.jobs = 0;
  lookup.moved_ns = monotonic_ns();
  if (item.result == KVC_PAGE_OK && !stage.given_up) {
    ++tiers_.counters(tier).loaded_pages;
    tiers_.counters(tier).loaded_bytes += item.bytes;
    return;  // put_in() goes on
  }
  if (item.result != KVC_PAGE_CANCELLED && !stage.given_up) ++tiers_.counters(tier).failed_loads;
  if (item.result == KVC_PAGE_MISS || item.result == KVC_PAGE_EXPIRED)
    known_.remove(lookups_.keys_of(lookup)[stage.page], tier);
  lookups_.pages_of(lookup)[stage.page].state = PageState::kFailed;
  lookup.failed = true;
  --lookup.outstanding;
  stages_.give_back(index);
}

void Offload::put_in(uint32_t index, void* stream) {
  Stage& stage = stages_[index];
  Lookup& lookup = lookups_[stage.lookup];
  LookupPage& page = lookups_.pages_of(lookup)[stage.page];
  bool later = false;
  --lookup.outstanding;
  page.state = PageState::kFailed;
  if (lookup.state == LookupState::kLoading &&
      stages_.copy_in(index, groups_[stage.group], BlockId{page.block}, stream, &later) == KVC_OK)
    page.state = PageState::kLoaded;
  lookup.failed = lookup.failed || page.state == PageState::kFailed;
  if ((options_.flags & KVC_OFFLOAD_NO_PROMOTE) != 0) {  // nothing is stored again
    for (size_t t = 0; t < tiers_.size(); ++t) known_.add(lookups_.keys_of(lookup)[stage.page], t);
  }
  if (!later) stages_.give_back(index);
}

// Publishes what was loaded, and nothing of the hit: somebody may have unpublished that since. False: not
// all of it.
bool Offload::publish(Lookup& lookup, size_t end) {
  const OffloadView::Prompt& names = lookup.prompt;
  const auto is_epoch = [&] { return view_.is_epoch(names.namespace_id, names.epoch); };
  const kvc_prompt prompt = lookups_.prompt_of(lookup, end);
  bool published = is_epoch();
  std::fill_n(publication_.data(), lookup.first, -1);
  for (uint32_t g = 0; g < num_groups() && published; ++g) {
    int32_t* const blocks = lookups_.blocks_of(lookup, g);
    for (size_t p = lookup.first; p < end; ++p) {  // a shorter prefix needs other blocks of windows
      const LookupPage& page = lookups_.pages_of(lookup)[(p - lookup.first) * num_groups() + g];
      if (page.state != PageState::kLoaded && blocks[p] >= 0) {
        static_cast<void>(calls_.release_blocks(calls_.manager, &blocks[p], 1));
        blocks[p] = -1;
      }
      publication_[p] = blocks[p];
    }
    published = calls_.publish_blocks(calls_.manager, &prompt, g, publication_.data(), end) == KVC_OK;
  }
  if (is_epoch()) return published;
  for (uint32_t g = 0; g < num_groups(); ++g) {  // a reset came in between
    uint64_t unpublished = 0;
    static_cast<void>(calls_.unpublish_blocks(calls_.manager, lookups_.blocks_of(lookup, g) + lookup.first,
                                              end - lookup.first, &unpublished));
  }
  return false;
}

// Whether a lookup has waited too long: for a call of a tier, or for others to end theirs.
bool Offload::hangs(const Lookup& lookup) const {
  return monotonic_ns() - lookup.moved_ns > options_.timeout_ns;
}

// Goes on without the calls of tiers that have not ended. What they write is in staging pages.
void Offload::give_up(Lookup& lookup) {
  const bool asks = lookup.state == LookupState::kAsking && lookup.is_asking;
  uint32_t tiers = asks ? 1u << lookup.tier : 0, probed = 0;
  cancel_jobs(lookup);
  for (uint32_t i = 0; i < stages_.size() && lookup.state == LookupState::kLoading; ++i) {
    Stage& stage = stages_[i];
    if (stage.state != Stage::State::kGetting || stage.jobs == 0 || stage.lookup != lookups_.index_of(lookup))
      continue;
    const uint8_t tier = lookups_.pages_of(lookup)[stage.page].tier;
    tiers |= 1u << tier;
    if (stage.is_probe) probed |= 1u << tier;
    stage.given_up = true;
    ++tiers_.counters(tier).failed_loads;
  }
  for (size_t t = 0; t < tiers_.size(); ++t) {
    if ((tiers >> t & 1) == 0) continue;
    const bool was_probe = (probed >> t & 1) != 0;
    tiers_.give_up(t, was_probe);
  }
  if (lookup.state == LookupState::kLoading) return finish_load(lookup);
  lookup.most = lookup.count;  // what other tiers have of it is loaded, and nothing more is asked
  conclude(lookup);
  if (lookup.reason == KVC_OFFLOAD_NOTHING) lookup.reason = KVC_OFFLOAD_FAILED;
}

void Offload::finish_load(Lookup& lookup) {
  const uint64_t ns = tiers_.now() - lookup.begun_ns;
  Histogram* const latency =
      options_.latencies == nullptr ? nullptr : options_.latencies->find(KVC_LATENCY_LOAD);
  if (latency != nullptr) latency->record(ns);
  const size_t end = lookups_.longest(lookup, lookup.end, PageState::kLoaded);
  uint64_t bytes = 0;
  size_t slowest = 0;
  for (size_t i = 0; i < lookup.next; ++i) {
    if (lookups_.pages_of(lookup)[i].state != PageState::kLoaded) continue;
    bytes += groups_[i % num_groups()].page_bytes;
    slowest = std::max(slowest, size_t{lookups_.pages_of(lookup)[i].tier});
  }
  if (bytes != 0) {
    double& rate = tiers_.counters(slowest).ns_per_byte;
    const double now = static_cast<double>(ns) / static_cast<double>(bytes);
    rate = rate == 0 ? now : rate + (now - rate) / 8;
  }
  const bool published = end != lookup.first && publish(lookup, end);
  if (published) {
    lookup.loaded_tokens = (end - lookup.first) * view_.shape().block_size;
    counters_.loaded_tokens += lookup.loaded_tokens;
  } else if (end != lookup.first) {
    ++counters_.failed_publications;
  }
  counters_.short_loads += lookup.loaded_tokens != lookup.found_tokens;
  keep(lookup, published ? end : 0);
  settle(lookup, published && end == lookup.end ? KVC_OFFLOAD_LOADED : KVC_OFFLOAD_FAILED);
}

// Ends the external holds of a lookup from a position on.
void Offload::keep(Lookup& lookup, size_t positions) {
  for (uint32_t g = 0; g < num_groups() && lookup.held > positions; ++g)
    static_cast<void>(calls_.release_blocks(calls_.manager, lookups_.blocks_of(lookup, g) + positions,
                                            lookup.held - positions));
  lookup.held = std::min(lookup.held, positions);
}

// Nothing more is done for the request. What was loaded is held until it is admitted, or hold_ns is over.
void Offload::settle(Lookup& lookup, uint32_t reason) {
  lookup.reason = reason;
  if (__builtin_add_overflow(tiers_.now(), options_.hold_ns, &lookup.hold_until))
    lookup.hold_until = UINT64_MAX;
  if (reason != KVC_OFFLOAD_CANCELLED) {
    lookup.state = LookupState::kReady;
    return;
  }
  cancel_jobs(lookup);
  free_lookup(lookup);
}

// What has not begun does not begin.
void Offload::cancel_jobs(Lookup& lookup) {
  if (lookup.state == LookupState::kAsking && lookup.is_asking) tiers_[lookup.tier].cancel(lookup.exists_job);
  for (uint32_t i = 0; i < stages_.size() && lookup.state == LookupState::kLoading; ++i) {
    Stage& stage = stages_[i];
    if (stage.state != Stage::State::kGetting || stage.jobs == 0 || stage.lookup != lookups_.index_of(lookup))
      continue;
    tiers_[lookups_.pages_of(lookup)[stage.page].tier].cancel(stage.job);
  }
}

// Gives its blocks back. Calls of tiers that have not ended still write to its items.
void Offload::free_lookup(Lookup& lookup) {
  keep(lookup, 0);
  const bool has_ended = lookup.outstanding == 0 && !lookup.is_asking;
  lookup.state = has_ended ? LookupState::kFree : LookupState::kEnding;
}

void Offload::advance(Lookup& lookup) {
  if (lookup.state != LookupState::kEnding && view_.state_of(lookup.request) != OffloadView::State::kWaiting)
    settle(lookup, KVC_OFFLOAD_CANCELLED);
  switch (lookup.state) {
    case LookupState::kFree:
      break;
    case LookupState::kAsking:
      if (!lookup.is_asking) ask(lookup);
      if (hangs(lookup)) give_up(lookup);
      break;
    case LookupState::kFollowing: {
      const Lookup& leader = lookups_[lookup.leader];
      const bool active = leader.state == LookupState::kAsking || leader.state == LookupState::kLoading;
      if (active && leader.request == lookup.leader_request) break;
      if (begin(lookup) != KVC_OK) settle(lookup, KVC_OFFLOAD_CANCELLED);
      break;
    }
    case LookupState::kLoading:
      if (!get_pages(lookup) && lookup.outstanding == 0) return finish_load(lookup);
      if (hangs(lookup)) give_up(lookup);
      break;
    case LookupState::kReady:
      if (tiers_.now() >= lookup.hold_until) free_lookup(lookup);
      break;
    case LookupState::kEnding:
      free_lookup(lookup);
      break;
  }
}

kvc_status Offload::query(uint64_t request, kvc_offload_info* info) const {
  const Lookup* lookup = lookups_.find(request);
  info->state = KVC_OFFLOAD_NONE;
  if (lookup == nullptr) return KVC_OK;
  info->state = lookup->state == LookupState::kReady     ? KVC_OFFLOAD_READY
                : lookup->state == LookupState::kLoading ? KVC_OFFLOAD_LOADING
                                                         : KVC_OFFLOAD_LOOKING;
  info->reason = lookup->reason;
  info->num_cached = lookup->first * view_.shape().block_size;
  info->num_found = lookup->found_tokens;
  info->num_loaded = lookup->loaded_tokens;
  return KVC_OK;
}

kvc_status Offload::cancel(uint64_t request) {
  Lookup* lookup = lookups_.find(request);
  if (lookup == nullptr) return KVC_OK;
  settle(*lookup, KVC_OFFLOAD_CANCELLED);
  return KVC_OK;
}

}  // namespace kvc
