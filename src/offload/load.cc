// SPDX-License-Identifier: Apache-2.0
// From the tokens of a waiting request to cached blocks.
#include <kvcache/metrics.h>

#include <algorithm>

#include "base/position_digest.h"
#include "base/status.h"
#include "offload/offload.h"

namespace kvc {
namespace {

constexpr size_t kMaxKeys = 256;  // of a prompt that is looked up
constexpr size_t kFirstPiece =
    16;  // positions that are asked for at first; each piece makes them four times as many
constexpr uint64_t kMeasureAgain = 16;

}  // namespace

kvc_status Offload::build_lookups() {
  const Shape& shape = view_.shape();
  const size_t lookups = options_.max_lookups, groups = num_groups();
  // No hit is longer than there are nodes.
  max_positions_ = static_cast<size_t>(std::min<uint64_t>(
      shape.max_request_tokens / shape.block_size, uint64_t{shape.max_nodes} + options_.max_lookup_blocks));
  pages_per_lookup_ = std::min(options_.max_lookup_blocks, std::max<size_t>(max_positions_, 1)) * groups;
  size_t tokens, blocks, pages;
  if (!checked_mul(max_positions_ * shape.block_size, lookups, &tokens) ||
      !checked_mul(max_positions_ * groups, lookups, &blocks) ||
      !checked_mul(pages_per_lookup_, lookups, &pages) || !lookups_.create(memory_, lookups) ||
      !pages_.create(memory_, pages) || !keys_.create(memory_, pages) || !items_.create(memory_, pages) ||
      !blocks_.create(memory_, blocks) || !tokens_.create(memory_, tokens) ||
      !publication_.create(memory_, max_positions_) || !extra_keys_.create(memory_, lookups * kMaxKeys) ||
      !plain_keys_.create(memory_, kMaxKeys))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu lookups of %zu blocks", lookups,
                options_.max_lookup_blocks);
  return KVC_OK;
}

Offload::Lookup* Offload::find(uint64_t request) {
  for (size_t i = 0; i < lookups_.size(); ++i) {
    Lookup& lookup = lookups_[i];
    if (lookup.request == request && lookup.state != LookupState::kFree &&
        lookup.state != LookupState::kEnding)
      return &lookup;
  }
  return nullptr;
}

// Lookups that may bring bytes to blocks.
size_t Offload::num_active_lookups() const {
  size_t active = 0;
  for (size_t i = 0; i < lookups_.size(); ++i) {
    const LookupState state = lookups_[i].state;
    active +=
        state == LookupState::kAsking || state == LookupState::kFollowing || state == LookupState::kLoading;
  }
  return active;
}

size_t Offload::num_busy_lookups() const {
  size_t busy = 0;
  for (size_t i = 0; i < lookups_.size(); ++i) busy += lookups_[i].state != LookupState::kFree;
  return busy;
}

kvc_status Offload::load(uint64_t request, uint64_t max_tokens, uint64_t now_ns) {
  now_ns_ = std::max(now_ns_, now_ns);
  if (find(request) != nullptr) return KVC_OK;
  size_t i = 0;
  while (i < lookups_.size() && lookups_[i].state != LookupState::kFree) ++i;
  if (i == lookups_.size())
    return fail(KVC_ERROR_LIMIT, "all %zu lookups are in use; try again after a poll, or raise max_lookups",
                i);
  Lookup& lookup = lookups_[i];
  lookup = {};
  lookup.request = request;
  lookup.max_tokens = max_tokens;
  lookup.prompt.tokens = tokens_.data() + i * max_positions_ * view_.shape().block_size;
  lookup.prompt.token_capacity = max_positions_ * view_.shape().block_size;
  lookup.prompt.keys = extra_keys_.data() + i * kMaxKeys;
  lookup.prompt.key_capacity = kMaxKeys;
  KVC_TRY(begin(lookup));
  ++counters_.lookups;
  return KVC_OK;
}

kvc_prompt Offload::prompt_of(const Lookup& lookup, size_t positions) const {
  kvc_prompt out = {};
  out.struct_size = sizeof out;
  out.namespace_id = lookup.prompt.namespace_id;
  out.tokens = lookup.prompt.tokens;
  out.num_tokens = positions * view_.shape().block_size;
  out.keys = plain_keys_.data();
  const ExtraKey* const keys = lookup.prompt.keys;
  for (; out.num_keys < lookup.prompt.num_keys && keys[out.num_keys].first_token < out.num_tokens;
       ++out.num_keys)
    plain_keys_[out.num_keys] = keys[out.num_keys].plain();
  return out;
}

bool Offload::needed(size_t group, size_t position, size_t end) const {
  const GroupShape& shape = view_.shape().groups[group];
  const uint32_t block_size = view_.shape().block_size;
  return !shape.windowed() || position < shape.sinks ||
         position >= shape.window_start(end * block_size, block_size);
}

// Finds what is missing. A lookup that has nothing to do is READY at once.
kvc_status Offload::begin(Lookup& lookup) {
  const uint32_t block_size = view_.shape().block_size;
  OffloadView::Prompt& prompt = lookup.prompt;
  KVC_TRY(view_.read_prompt(lookup.request, &prompt));
  if (prompt.num_keys > kMaxKeys) {  // what is before the last of them is looked up
    prompt.num_keys = kMaxKeys - 1;
    prompt.num_tokens = std::min<size_t>(prompt.num_tokens, prompt.keys[kMaxKeys - 1].first_token);
  }
  const uint64_t most = std::min<uint64_t>(prompt.most_cached, prompt.num_tokens) / block_size * block_size;
  const size_t positions = cut_at_spans({prompt.keys, prompt.num_keys}, most, block_size) / block_size;
  const kvc_prompt whole = prompt_of(lookup, positions);
  const TokenSpan span = {whole.tokens, whole.num_tokens, whole.keys, whole.num_keys, whole.namespace_id};
  size_t num_hits = 0;
  StoredBlock last = {0, kNoNode, kNoBlock, 0};
  KVC_TRY(view_.read_hit(span, positions, found_.data(), found_.size(), &num_hits, &lookup.first, &last));
  for (size_t i = 0; i < num_hits && (options_.policy & KVC_OFFLOAD_SECOND_USE) != 0; ++i)
    add_candidate(found_[i]);
  lookup.most = std::min<uint64_t>(
      {positions - lookup.first, pages_per_lookup_ / num_groups(), lookup.max_tokens / block_size});
  lookup.end = lookup.first;
  lookup.count = lookup.asked = 0;
  if (lookup.most == 0) return settle(lookup, KVC_OFFLOAD_NOTHING), KVC_OK;
  if (is_node(last.node)) view_.name(&last, 1, &lookup.digest);  // stores need its digest as well
  if (!is_node(last.node)) lookup.digest = hash(lookup, 0, lookup.first, prompt.root);
  hash_piece(lookup);
  if (follow_other(lookup)) return KVC_OK;
  lookup.state = LookupState::kAsking;
  lookup.moved_ns = monotonic_ns();
  ask(lookup);
  return KVC_OK;
}

// The digests of positions, and from the first one that is looked up on the keys of their pages. Returns the
// last digest.
Digest256 Offload::hash(const Lookup& lookup, size_t begin, size_t end, Digest256 at) {
  if (begin == end) return at;
  const uint32_t block_size = view_.shape().block_size;
  const OffloadView::Prompt& prompt = lookup.prompt;
  PositionDigests digests(block_size, prompt.tokens + begin * block_size);
  for (size_t p = begin; p < end; ++p) {
    const ExtraView extra({prompt.keys, prompt.num_keys}, p * block_size, block_size);
    at = digests.next(at, extra.digest(), p + 1 == end ? nullptr : prompt.tokens + (p + 1) * block_size);
    if (p < lookup.first) continue;
    for (uint32_t g = 0; g < num_groups(); ++g) {
      const size_t page = (p - lookup.first) * num_groups() + g;
      keys_of(lookup)[page] = page_key(at, groups_[g].salt);
      pages_of(lookup)[page] = {0, -1, LookupPage::kNoTier, PageState::kUnknown, 0};
    }
  }
  return at;
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
  lookup.digest = hash(lookup, lookup.first + lookup.asked, lookup.first + lookup.count, lookup.digest);
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
    if (std::memcmp(&keys_of(other)[page], &keys_of(lookup)[0], sizeof(Digest256)) != 0) continue;
    lookup.state = LookupState::kFollowing;
    lookup.leader = static_cast<uint32_t>(i);
    lookup.leader_request = other.request;
    return true;
  }
  return false;
}

void Offload::ask(Lookup& lookup) {
  while (lookup.tier < num_tiers_ && !gives(lookup.tier)) ++lookup.tier;
  if (lookup.tier == num_tiers_) return conclude(lookup);
  kvc_tier_item* const items = items_of(lookup);
  size_t count = 0;
  for (size_t i = lookup.asked * num_groups(); i < lookup.count * num_groups(); ++i) {
    if (pages_of(lookup)[i].is_found()) continue;
    items[count] = {};
    set_key(&items[count], keys_of(lookup)[i]);
    items[count++].bytes = groups_[i % num_groups()].page_bytes;
  }
  if (submit(lookup.tier, TierJobKind::kExists, TierPriority::kLoad, items, count, index_of(lookup),
             &lookup.exists_job) == KVC_OK) {
    lookup.is_asking = true;
    lookup.moved_ns = monotonic_ns();
  } else {
    ++of_tier_[lookup.tier].refused_loads;  // the next poll asks again
  }
}

void Offload::end_ask(Lookup& lookup) {
  lookup.is_asking = false;
  if (lookup.state != LookupState::kAsking) return;
  size_t missing = 0;
  for (size_t i = lookup.asked * num_groups(), count = 0; i < lookup.count * num_groups(); ++i) {
    LookupPage& page = pages_of(lookup)[i];
    if (page.is_found()) continue;
    const kvc_tier_item& item = items_of(lookup)[count++];  // as ask() wrote them
    if (item.result == KVC_PAGE_OK) {
      page.tier = static_cast<uint8_t>(lookup.tier);
      page.generation = item.generation;
      page.state = PageState::kFound;
      ++of_tier_[lookup.tier].hits;
      known_.add(keys_of(lookup)[i], lookup.tier);
    } else {
      ++missing;
      ++of_tier_[lookup.tier].misses;
      if (item.result == KVC_PAGE_MISS && known_.remove(keys_of(lookup)[i], lookup.tier))
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
  if (lookup.count != lookup.most && (lookup.doubtful || first_hole(lookup, end, PageState::kFound) == end)) {
    hash_piece(lookup);
    return ask(lookup);
  }
  lookup.end = longest(lookup, end, PageState::kFound);
  lookup.found_tokens = (lookup.end - lookup.first) * view_.shape().block_size;
  if (lookup.end == lookup.first) return settle(lookup, KVC_OFFLOAD_NOTHING);
  if (!passes_gate(lookup)) return settle(lookup, KVC_OFFLOAD_SLOWER);
  begin_load(lookup);
}

// The first position before `end` of which a page of a group of full attention is not in `state`; else `end`.
size_t Offload::first_hole(const Lookup& lookup, size_t end, PageState state) {
  const LookupPage* page = pages_of(lookup);
  for (size_t p = lookup.first; p < end; ++p) {
    for (size_t g = 0; g < num_groups(); ++g, ++page)
      if (!view_.shape().groups[g].windowed() && page->state != state) return p;
  }
  return end;
}

// The longest prefix within `end` positions, of which all that a hit of it needs is in `state`.
size_t Offload::longest(const Lookup& lookup, size_t end, PageState state) {
  const uint32_t block_size = view_.shape().block_size;
  const LookupPage* const pages = pages_of(lookup);
  const auto is_there = [&](size_t p, size_t g) {
    return pages[(p - lookup.first) * num_groups() + g].state == state;
  };
  for (size_t length = first_hole(lookup, end, state); length > lookup.first; --length) {
    const uint64_t tokens = length * block_size;
    if (cut_at_spans({lookup.prompt.keys, lookup.prompt.num_keys}, tokens, block_size) != tokens) continue;
    bool all = true;
    for (size_t g = 0; g < num_groups() && all; ++g) {
      const GroupShape& group = view_.shape().groups[g];
      if (!group.windowed()) continue;
      const auto are_there = [&](size_t begin, size_t stop) {
        for (size_t p = std::max(begin, lookup.first); p < stop; ++p)
          if (!is_there(p, g)) return false;
        return true;
      };
      all = are_there(0, std::min<size_t>(group.sinks, length)) &&
            are_there(group.window_start(length * block_size, block_size), length);
    }
    if (all) return length;
  }
  return lookup.first;
}

bool Offload::passes_gate(const Lookup& lookup) {
  if (lookup.found_tokens < options_.min_load_tokens) return ++counters_.gate_refusals, false;
  if (options_.compute_ns_per_token == 0) return true;
  double load_ns = 0;
  for (size_t i = 0; i < (lookup.end - lookup.first) * num_groups(); ++i) {
    const LookupPage& page = pages_of(lookup)[i];
    const size_t g = i % num_groups();
    if (!page.is_found() || !needed(g, lookup.first + i / num_groups(), lookup.end)) continue;
    load_ns += static_cast<double>(groups_[g].page_bytes) * of_tier_[page.tier].ns_per_byte;
  }
  if (load_ns <= options_.compute_ns_per_token * static_cast<double>(lookup.found_tokens)) return true;
  if (++slow_loads_ % kMeasureAgain == 0) return true;  // a tier may have become faster
  return ++counters_.gate_refusals, false;
}

// The hit must stay: the loaded blocks are of no use without it.
bool Offload::hold_hit(Lookup& lookup) {
  if (lookup.first == 0) return true;
  const kvc_prompt prompt = prompt_of(lookup, lookup.first);
  for (uint32_t g = 0; g < num_groups(); ++g) {
    int32_t* const blocks = blocks_of(lookup, g);
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
    int32_t* const blocks = blocks_of(lookup, g);
    size_t count = 0;
    for (size_t p = lookup.first; p < lookup.end; ++p) count += needed(g, p, lookup.end);
    int32_t* const taken = blocks + lookup.end - count;
    if (calls_.acquire_blocks(calls_.manager, g, taken, count) != KVC_OK) {
      for (size_t i = 0; i < count; ++i) taken[i] = -1;
      return false;
    }
    const int32_t* next = taken;
    for (size_t p = lookup.first; p < lookup.end; ++p) {
      blocks[p] = needed(g, p, lookup.end) ? *next++ : -1;
      pages_of(lookup)[(p - lookup.first) * num_groups() + g].block = blocks[p];
    }
  }
  return true;
}

void Offload::begin_load(Lookup& lookup) {
  for (uint32_t g = 0; g < num_groups(); ++g) std::fill_n(blocks_of(lookup, g), lookup.end, -1);
  lookup.held = lookup.end;
  if (!hold_hit(lookup) || !take_blocks(lookup)) {
    ++counters_.no_room;
    keep(lookup, 0);
    return settle(lookup, KVC_OFFLOAD_NO_ROOM);
  }
  ++counters_.loads;
  lookup.state = LookupState::kLoading;
  lookup.next = 0;
  lookup.begun_ns = now_ns_;
  lookup.moved_ns = monotonic_ns();
}

bool Offload::get_pages(Lookup& lookup) {
  const size_t end = (lookup.end - lookup.first) * num_groups();
  for (; lookup.next < end && !lookup.failed; ++lookup.next) {
    LookupPage& page = pages_of(lookup)[lookup.next];
    if (page.block < 0) continue;
    const size_t tier = page.tier;
    if (!gives(tier)) {
      if (health_[tier].probing) return true;
      page.state = PageState::kFailed;
      lookup.failed = true;
      ++of_tier_[tier].failed_loads;
      return false;
    }
    const uint32_t index = stages_.take();
    if (index == Stages::kNone) return true;
    Stage& stage = stages_[index];
    stage.group = static_cast<uint32_t>(lookup.next % num_groups());
    stage.lookup = static_cast<uint32_t>(index_of(lookup));
    stage.page = static_cast<uint32_t>(lookup.next);
    stage.begun_ns = now_ns_;
    kvc_tier_item& item = stages_.item(index, tier);
    item = {};
    set_key(&item, keys_of(lookup)[lookup.next]);
    item.data = stage.data;
    item.bytes = groups_[stage.group].page_bytes;
    item.generation = page.generation;
    const bool was_probing = health_[tier].probing;
    if (submit(tier, TierJobKind::kGet, TierPriority::kLoad, &item, 1, index, &stage.job) != KVC_OK) {
      stages_.give_back(index);
      ++of_tier_[tier].refused_loads;
      return true;
    }
    stage.state = Stage::State::kGetting;
    stage.jobs = 1;
    stage.is_probe = health_[tier].probing && !was_probing;
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
    ++of_tier_[tier].loaded_pages;
    of_tier_[tier].loaded_bytes += item.bytes;
    return;  // put_in() goes on
  }
  if (item.result != KVC_PAGE_CANCELLED && !stage.given_up) ++of_tier_[tier].failed_loads;
  if (item.result == KVC_PAGE_MISS || item.result == KVC_PAGE_EXPIRED)
    known_.remove(keys_of(lookup)[stage.page], tier);
  pages_of(lookup)[stage.page].state = PageState::kFailed;
  lookup.failed = true;
  --lookup.outstanding;
  stages_.give_back(index);
}

void Offload::put_in(uint32_t index, void* stream) {
  Stage& stage = stages_[index];
  Lookup& lookup = lookups_[stage.lookup];
  LookupPage& page = pages_of(lookup)[stage.page];
  bool later = false;
  --lookup.outstanding;
  page.state = PageState::kFailed;
  if (lookup.state == LookupState::kLoading &&
      stages_.copy_in(index, groups_[stage.group], BlockId{page.block}, stream, &later) == KVC_OK)
    page.state = PageState::kLoaded;
  lookup.failed = lookup.failed || page.state == PageState::kFailed;
  if ((options_.flags & KVC_OFFLOAD_NO_PROMOTE) != 0) {  // nothing is stored again
    for (size_t t = 0; t < num_tiers_; ++t) known_.add(keys_of(lookup)[stage.page], t);
  }
  if (!later) stages_.give_back(index);
}

// Publishes what was loaded, and nothing of the hit: somebody may have unpublished that since. False: not
// all of it.
bool Offload::publish(Lookup& lookup, size_t end) {
  const OffloadView::Prompt& names = lookup.prompt;
  const auto is_epoch = [&] { return view_.is_epoch(names.namespace_id, names.epoch); };
  const kvc_prompt prompt = prompt_of(lookup, end);
  bool published = is_epoch();
  std::fill_n(publication_.data(), lookup.first, -1);
  for (uint32_t g = 0; g < num_groups() && published; ++g) {
    int32_t* const blocks = blocks_of(lookup, g);
    for (size_t p = lookup.first; p < end; ++p) {  // a shorter prefix needs other blocks of windows
      const LookupPage& page = pages_of(lookup)[(p - lookup.first) * num_groups() + g];
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
    static_cast<void>(calls_.unpublish_blocks(calls_.manager, blocks_of(lookup, g) + lookup.first,
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
    if (stage.state != Stage::State::kGetting || stage.jobs == 0 || stage.lookup != index_of(lookup))
      continue;
    const uint8_t tier = pages_of(lookup)[stage.page].tier;
    tiers |= 1u << tier;
    if (stage.is_probe) probed |= 1u << tier;
    stage.given_up = true;
    ++of_tier_[tier].failed_loads;
  }
  for (size_t t = 0; t < num_tiers_; ++t) {
    if ((tiers >> t & 1) == 0) continue;
    const bool was_probe = (probed >> t & 1) != 0;
    health_[t].gets.end(was_probe ? Breaker::Turn::kProbe : Breaker::Turn::kCall, Breaker::Answer::kBad,
                        now_ns_);
    if (was_probe) health_[t].probing = false;
  }
  if (lookup.state == LookupState::kLoading) return finish_load(lookup);
  lookup.most = lookup.count;  // what other tiers have of it is loaded, and nothing more is asked
  conclude(lookup);
  if (lookup.reason == KVC_OFFLOAD_NOTHING) lookup.reason = KVC_OFFLOAD_FAILED;
}

void Offload::finish_load(Lookup& lookup) {
  const uint64_t ns = now_ns_ - lookup.begun_ns;
  Histogram* const latency =
      options_.latencies == nullptr ? nullptr : options_.latencies->find(KVC_LATENCY_LOAD);
  if (latency != nullptr) latency->record(ns);
  const size_t end = longest(lookup, lookup.end, PageState::kLoaded);
  uint64_t bytes = 0;
  size_t slowest = 0;
  for (size_t i = 0; i < lookup.next; ++i) {
    if (pages_of(lookup)[i].state != PageState::kLoaded) continue;
    bytes += groups_[i % num_groups()].page_bytes;
    slowest = std::max(slowest, size_t{pages_of(lookup)[i].tier});
  }
  if (bytes != 0) {
    double& rate = of_tier_[slowest].ns_per_byte;
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
    static_cast<void>(
        calls_.release_blocks(calls_.manager, blocks_of(lookup, g) + positions, lookup.held - positions));
  lookup.held = std::min(lookup.held, positions);
}

// Nothing more is done for the request. What was loaded is held until it is admitted, or hold_ns is over.
void Offload::settle(Lookup& lookup, uint32_t reason) {
  lookup.reason = reason;
  if (__builtin_add_overflow(now_ns_, options_.hold_ns, &lookup.hold_until)) lookup.hold_until = UINT64_MAX;
  if (reason != KVC_OFFLOAD_CANCELLED) {
    lookup.state = LookupState::kReady;
    return;
  }
  cancel_jobs(lookup);
  free_lookup(lookup);
}

// What has not begun does not begin.
void Offload::cancel_jobs(Lookup& lookup) {
  if (lookup.state == LookupState::kAsking && lookup.is_asking)
    tiers_[lookup.tier]->cancel(lookup.exists_job);
  for (uint32_t i = 0; i < stages_.size() && lookup.state == LookupState::kLoading; ++i) {
    Stage& stage = stages_[i];
    if (stage.state != Stage::State::kGetting || stage.jobs == 0 || stage.lookup != index_of(lookup))
      continue;
    tiers_[pages_of(lookup)[stage.page].tier]->cancel(stage.job);
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
      if (now_ns_ >= lookup.hold_until) free_lookup(lookup);
      break;
    case LookupState::kEnding:
      free_lookup(lookup);
      break;
  }
}

kvc_status Offload::query(uint64_t request, kvc_offload_info* info) const {
  const Lookup* lookup = const_cast<Offload*>(this)->find(request);
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
  Lookup* lookup = find(request);
  if (lookup == nullptr) return KVC_OK;
  settle(*lookup, KVC_OFFLOAD_CANCELLED);
  return KVC_OK;
}

}  // namespace kvc
