// SPDX-License-Identifier: Apache-2.0
// Which requests are filling what: for each request that has known tokens to compute at its admission, the
// first position that it has not published. Others that need the same position next find it here and may
// wait. Kept beside the requests' records, only by managers with fills. O(1) each. Not thread-safe.
#pragma once
#include "base/memory.h"

namespace kvc {

class FillLists {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // What a manager with fills keeps of a request.
  struct Of {
    uint64_t key;         // of the position that it fills
    uint64_t wait_until;  // as configured
    uint64_t admission;   // 1, 2, ... in the order of admissions and forks
    uint32_t end;         // tokens known at its admission: those are computed without being sampled
    uint32_t enqueued;    // tokens up to which steps gave slots, without a gap
    uint32_t next, prev;  // in the bucket, by index; in none if listed is false
    bool listed;
  };

  [[nodiscard]] bool create(Memory& memory, size_t max_requests) {
    size_t buckets = 1;
    while (buckets < max_requests) buckets *= 2;
    if (!of_.create(memory, max_requests) || !buckets_.create(memory, buckets)) return false;
    for (size_t i = 0; i < buckets; ++i) buckets_[i] = kNone;
    return true;
  }

  Of& operator[](uint32_t request) { return of_[request]; }
  const Of& operator[](uint32_t request) const { return of_[request]; }

  // The request now fills the position with this key.
  void list(uint32_t request, uint64_t key) {
    unlist(request);
    uint32_t& head = buckets_[bucket_of(key)];
    Of& of = of_[request];
    of.key = key;
    of.next = head;
    of.prev = kNone;
    of.listed = true;
    if (head != kNone) of_[head].prev = request;
    head = request;
  }
  void unlist(uint32_t request) {
    Of& of = of_[request];
    if (!of.listed) return;
    of.listed = false;
    (of.prev == kNone ? buckets_[bucket_of(of.key)] : of_[of.prev].next) = of.next;
    if (of.next != kNone) of_[of.next].prev = of.prev;
  }
  // The last request that was listed with this key, of those that `accept` takes, or kNone.
  template <typename Accept>
  uint32_t find(uint64_t key, Accept&& accept) const {
    uint32_t i = buckets_[bucket_of(key)];
    while (i != kNone && !(of_[i].key == key && accept(i))) i = of_[i].next;
    return i;
  }

 private:
  size_t bucket_of(uint64_t key) const { return (key ^ key >> 32) & (buckets_.size() - 1); }

  Array<Of> of_;  // by index of the request
  Array<uint32_t> buckets_;
};

}  // namespace kvc
