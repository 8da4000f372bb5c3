// SPDX-License-Identifier: Apache-2.0
// A store of pages by key, as the queue of a tier (tier/tier.h) drives it: four calls on batches, each with a
// result an item. Calls block, come from several threads at once, and read no clock: the time of leases is
// the caller's. A store never gives wrong bytes: what it cannot prove to be the page is a miss, which it
// counts.
#pragma once
#include <kvcache.h>

#include <memory>

#include "base/sha256.h"

namespace kvc {

enum class PageResult : uint8_t {
  kWaiting,   // not done
  kOk,        // exists: a hit; get, put and remove: done
  kMiss,      // there is no such page, or it did not check
  kPending,   // the page is being written, read or removed, so that the call was not made
  kExpired,   // get with a generation: that page is gone, though another has its key
  kNoSpace,   // put: all pages are leased, read or being written; or the page is larger than the store takes
  kFailed,    // the system failed; the text is in the store's statistics
  kTimeout,   // it was not begun before its deadline
  kCancelled  // it was not begun before the job was cancelled
};
inline constexpr size_t kNumPageResults = 9;

struct PageItem {
  Digest256 key;
  void* data;      // get: where the bytes go, undefined unless kOk; put: the page
  uint64_t bytes;  // of the page
  // get: only these bytes of the page, one behind the other, ascending; null = all. The whole page is
  // checked.
  const kvc_run* runs;
  size_t num_runs;
  uint64_t generation;      // get: of the lease, 0 = any; out of exists, get and put
  uint64_t lease_until_ns;  // out of exists: the page stays till then; 0 = not promised
  PageResult result;        // out
};

struct StoreCall {
  uint64_t now_ns;    // the caller's clock, for leases
  uint64_t lease_ns;  // exists: for how long a hit is leased; 0 = not
  uint32_t worker;    // which of the threads calls
};

struct StoreStats {
  uint64_t pages, capacity_pages, bytes, capacity_bytes;
  uint64_t evictions;    // for other pages
  uint64_t recovered;    // pages found when the store was opened
  uint64_t bad_headers;  // misses, because the header was not one of this page
  uint64_t bad_payloads;
  uint64_t no_space;
  uint64_t failures;   // of the system
  int64_t last_errno;  // of the last of them
  uint64_t fallbacks;  // I/O past the page cache that the system refused: done through it
};

class PageStore {
 public:
  virtual ~PageStore() = default;
  virtual void exists(const StoreCall& call, PageItem* items, size_t num_items) = 0;
  virtual void get(const StoreCall& call, PageItem* items, size_t num_items) = 0;
  // A page that is there already is kept: equal keys mean equal bytes.
  virtual void put(const StoreCall& call, PageItem* items, size_t num_items) = 0;
  virtual void remove(const StoreCall& call, PageItem* items, size_t num_items) = 0;
  virtual StoreStats stats() = 0;
};

using PageStorePtr = std::unique_ptr<PageStore>;

// Bytes that a get gives.
inline uint64_t wanted_bytes(const PageItem& item) {
  if (item.runs == nullptr) return item.bytes;
  uint64_t bytes = 0;
  for (size_t i = 0; i < item.num_runs; ++i) bytes += item.runs[i].bytes;
  return bytes;
}

}  // namespace kvc
