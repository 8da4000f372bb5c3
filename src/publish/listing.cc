// SPDX-License-Identifier: Apache-2.0
#include "publish/listing.h"

#include <algorithm>

namespace kvc {
namespace {

constexpr size_t kListed = 256;  // of one call

}  // namespace

void Listing::clear() {
  std::vector<kvc_event>().swap(events_);
  std::vector<int32_t>().swap(tokens_);
  std::vector<size_t>().swap(free_);
  std::vector<size_t>().swap(order_);
  places_.clear();
}

void Listing::apply(const kvc_event& event, const int32_t* tokens) {
  if (event.kind == KVC_EVENT_ALL_CLEARED || event.kind == KVC_EVENT_NAMESPACE_CLEARED) {
    for (auto at = places_.begin(); at != places_.end();) {
      if (event.kind != KVC_EVENT_ALL_CLEARED && events_[at->second].namespace_id != event.namespace_id) {
        ++at;
        continue;
      }
      free_.push_back(at->second);
      at = places_.erase(at);
    }
    return;
  }
  const Key key = {event.node, event.group};
  if (event.kind == KVC_EVENT_REMOVED) {
    const auto at = places_.find(key);
    if (at == places_.end()) return;
    free_.push_back(at->second);
    places_.erase(at);
    return;
  }
  if ((groups_ >> event.group & 1) == 0) return;
  size_t place = events_.size();
  if (!free_.empty()) place = free_.back();
  if (!places_.try_emplace(key, place).second) return;
  if (!free_.empty()) {
    free_.pop_back();
  } else {
    events_.emplace_back();
    tokens_.resize(tokens_.size() + block_size_);
  }
  events_[place] = event;
  std::copy(tokens, tokens + block_size_, tokens_.begin() + static_cast<ptrdiff_t>(place * block_size_));
}

kvc_status Listing::try_read(Manager& manager, uint64_t* cursor, bool* lost) {
  std::vector<kvc_event> events(kListed);
  std::vector<int32_t> tokens(kListed * block_size_);
  kvc_event_batch batch = {sizeof batch,  events.data(), sizeof(kvc_event), kListed, 0,
                           tokens.data(), tokens.size()};
  const auto apply_all = [&] {
    const int32_t* at = tokens.data();
    for (size_t i = 0; i < batch.count; ++i) {
      apply(events[i], at);
      at += events[i].num_tokens;
    }
  };
  uint64_t list = 0;
  do {
    KVC_TRY(manager.list_prefixes(&list, cursor, &batch));
    apply_all();
  } while (list != 0);
  // What came while it was listed; what comes while this is read can wait once a call gives less than all.
  *lost = false;
  do {
    const uint64_t expected = *cursor;
    KVC_TRY(manager.poll_events(cursor, &batch));
    *lost = *cursor - expected != batch.count;
    if (*lost) return KVC_OK;
    apply_all();
  } while (batch.count != 0);
  return KVC_OK;
}

// Behind the parent; the parent in the same group if it is there, so that chains stay together.
void Listing::sort() {
  struct Child {
    Digest256 parent;
    uint32_t group;
    size_t place;
  };
  const auto before = [](const Child& a, const Child& b) {
    if (a.group != b.group) return a.group < b.group;
    const int order = std::memcmp(a.parent.bytes, b.parent.bytes, sizeof a.parent.bytes);
    return order != 0 ? order < 0 : a.place < b.place;
  };
  std::vector<Child> children;
  std::unordered_map<Key, size_t, KeyHash>::const_iterator none = places_.end();
  std::vector<size_t> firsts;  // whose parents are not in their group
  for (const auto& [key, place] : places_) {
    const kvc_event& event = events_[place];
    Child child = {{}, event.group, place};
    std::memcpy(child.parent.bytes, event.parent_digest, sizeof event.parent_digest);
    if (event.parent_node != 0 && places_.find({event.parent_node, event.group}) != none)
      children.push_back(child);
    else
      firsts.push_back(place);
  }
  std::sort(children.begin(), children.end(), before);
  // In the order of the events, not of addresses; and those of the first groups first.
  std::sort(firsts.begin(), firsts.end(), [&](size_t a, size_t b) {
    const kvc_event &x = events_[a], &y = events_[b];
    if (x.token_offset != y.token_offset) return x.token_offset < y.token_offset;
    return x.group != y.group ? x.group < y.group : x.node < y.node;
  });
  order_.clear();
  order_.reserve(places_.size());
  std::vector<size_t> waiting;
  for (const size_t first : firsts) {
    waiting.push_back(first);
    while (!waiting.empty()) {
      const size_t place = waiting.back();
      waiting.pop_back();
      order_.push_back(place);
      Child own = {{}, events_[place].group, 0};
      std::memcpy(own.parent.bytes, events_[place].digest, sizeof own.parent.bytes);
      for (auto at = std::lower_bound(children.begin(), children.end(), own, before);
           at != children.end() && at->group == own.group && at->parent == own.parent; ++at)
        waiting.push_back(at->place);
    }
  }
}

kvc_status Listing::read(Manager& manager, uint32_t block_size, uint32_t groups, uint64_t* cursor) {
  constexpr int kTries = 3;
  block_size_ = block_size;
  groups_ = groups;
  for (int i = 0; i < kTries; ++i) {
    clear();
    bool lost = true;
    KVC_TRY(try_read(manager, cursor, &lost));
    if (lost) continue;
    sort();
    return KVC_OK;
  }
  clear();
  return fail(KVC_ERROR_AGAIN, "events are lost faster than they are listed; set a larger event_capacity");
}

}  // namespace kvc
