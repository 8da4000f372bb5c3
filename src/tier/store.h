// SPDX-License-Identifier: Apache-2.0
// A store of pages by key, as the queue of a tier (tier/tier.h) drives it: four calls on batches, each with a
// result an item. Calls block, come from several threads at once, and read no clock: the time of leases and
// of times to live is the caller's. A store never gives wrong bytes: what it cannot prove to be the page is a
// miss, which it counts.
#pragma once
#include <kvcache/tier.h>

#include <cstring>
#include <memory>
#include <string>

#include "base/sha256.h"

namespace kvc {

inline constexpr size_t kNumPageResults = KVC_PAGE_UNAVAILABLE + 1;

inline Digest256 key_of(const kvc_tier_item& item) {
  Digest256 key;
  std::memcpy(key.bytes, item.key, sizeof key.bytes);
  return key;
}
inline void set_key(kvc_tier_item* item, const Digest256& key) {
  std::memcpy(item->key, key.bytes, sizeof key.bytes);
}

struct StoreCall {
  uint64_t now_ns;           // the caller's clock, for leases and times to live
  uint64_t lease_ns;         // exists: for how long a hit is leased; 0 = not
  uint32_t worker;           // which of the threads calls
  uint64_t deadline_ns = 0;  // CLOCK_MONOTONIC, for stores that may wait for a server; 0 = none
  bool* asks = nullptr;      // out, of remote stores: a server was asked; null = nobody wants to know
};

// Which page gives way to another (tier/slot_index.h).
enum class SlotPolicy : uint8_t { kLru, kFrequency };

struct StoreStats {
  uint64_t pages, capacity_pages, bytes, capacity_bytes;
  uint64_t evictions;       // for other pages, because of the bound of the store
  uint64_t disk_evictions;  // because the disk had no more room
  uint64_t expired;         // that nobody used for the time to live
  uint64_t removed;         // by remove()
  uint64_t mismatches;      // replaced by a page of another size
  uint64_t recovered;       // pages found when the store was opened
  uint64_t bad_headers;     // misses, because the header was not one of this page
  uint64_t bad_payloads;
  uint64_t failures;   // of the system
  int64_t last_errno;  // of the last of them
  uint64_t fallbacks;  // I/O past the page cache or by io_uring that was refused: done without
  bool uses_uring;
};

class PageStore {
 public:
  virtual ~PageStore() = default;
  virtual void exists(const StoreCall& call, kvc_tier_item* items, size_t num_items) = 0;
  virtual void get(const StoreCall& call, kvc_tier_item* items, size_t num_items) = 0;
  // A page that is there already is kept: equal keys mean equal bytes. One of another size is replaced.
  virtual void put(const StoreCall& call, kvc_tier_item* items, size_t num_items) = 0;
  virtual void remove(const StoreCall& call, kvc_tier_item* items, size_t num_items) = 0;
  virtual StoreStats stats() = 0;
  // How many gets or puts it likes at once; more than 1 if it has them in flight together.
  virtual size_t batch() const { return 1; }
  // Whether exists() asks a table in memory: the tier then answers in the thread that asks.
  virtual bool knows_pages() const { return false; }
  // Keeps beside the pages what those of its own fingerprint are of (tier/description.h).
  virtual void describe(const std::string&) {}
  // What differs between these and the pages of other fingerprints; those of the fewest differences if there
  // are several. Empty: there are none, or none that are described.
  virtual std::string difference(const std::string&) { return ""; }
  // A get gives bytes; else pages have keys and sizes alone.
  virtual bool has_bytes() const { return true; }
  // It may become unreachable: the tier leaves it alone after failures.
  virtual bool is_remote() const { return false; }
};

using PageStorePtr = std::unique_ptr<PageStore>;

// Bytes that a get gives.
inline uint64_t wanted_bytes(const kvc_tier_item& item) {
  if (item.runs == nullptr) return item.bytes;
  uint64_t bytes = 0;
  for (size_t i = 0; i < item.num_runs; ++i) bytes += item.runs[i].bytes;
  return bytes;
}

}  // namespace kvc
