// SPDX-License-Identifier: Apache-2.0
// A miss-ratio curve that is measured while a manager works: the share of block queries that an LRU cache of
// x blocks would answer, for all x at once. It follows SHARDS (Waldspurger et al., USENIX FAST 2015): stack
// distances of a sample of the blocks, chosen by their table keys.
//
// The recency stack consists of slots, one per admission that has a sampled block. A manager releases the
// blocks of a request from the last to the first, so of one slot the shallower block is nearer to the top.
// Accesses go from the root down. So the shallower blocks of an old slot have moved to the new slot when a
// deeper one is looked at, and a slot needs no order inside.
//
// A plain sample errs where a few blocks have many hits: the first block of a common system prompt is in the
// sample or not. Two numbers are known without a sample: all queries, and those that the manager answered. So
// distances are counted in two parts. The part that the manager answered gets its missing weight at distance
// 0 (SHARDS-adj). The other part is scaled to its number.
//
// create() takes all memory. Calls touch of it what the stack has held, not what it could hold. Not
// thread-safe.
#pragma once
#include "base/ids.h"
#include "base/memory.h"

namespace kvc {

class Curve {
 public:
  // `rate` is in (0, 1]. After `half_life` queries, if it is not 0, earlier ones count half.
  [[nodiscard]] bool create(Memory& memory, uint64_t max_blocks, double rate, uint64_t half_life);
  // Samples that a stack of `max_blocks` blocks has.
  static uint64_t samples_for(uint64_t max_blocks, double rate);

  // The first admission of a request: the keys of its positions, from the root on.
  struct Admission {
    const uint64_t* keys;
    size_t num_keys;
    size_t num_queries;   // positions that it asked for
    size_t num_readable;  // of these, positions that a larger cache could answer
    size_t num_hits;      // of these, positions that the manager answered
    bool publishes;       // new positions enter the cache
    NamespaceId ns;
  };
  void admit(const Admission& admission);
  // Positions that are published behind the prompts. They stand with the newest admission.
  void grow(const uint64_t* keys, size_t num_keys, NamespaceId ns) {
    for (size_t i = 0; i < num_keys; ++i) {
      if (is_sampled(keys[i])) [[unlikely]]
        touch(keys[i], ns, true, nullptr);
    }
  }
  // The cached positions of a namespace are gone: looks at all entries that are in use, if there are any.
  void forget(NamespaceId ns);
  // Those of all are: constant time. Their entries stay until others need the room.
  void forget_all();

  // rates[i]: the share of queries that a cache of sizes[i] blocks answers. The sizes ascend.
  void read(const uint64_t* sizes, size_t num_sizes, double* rates) const;

  double rate() const { return rate_; }
  uint64_t max_blocks() const { return max_blocks_; }
  uint64_t half_life() const { return half_life_; }
  uint64_t max_samples() const { return samples_; }
  uint64_t num_samples() const { return alive_; }
  double queries() const { return queries_; }
  double sampled() const { return near_.sampled + far_.sampled; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    uint64_t key;
    uint32_t slot;  // 0 = unused
    uint32_t ns;
  };
  // Queries of readable positions, and the distances of the sampled ones among them.
  struct Part {
    double queries = 0;
    double sampled = 0;
    Array<double> distances;  // by bucket
  };
  // A distance below 512 has a bucket of its own; above, a power of two has 256.
  static constexpr int kDetail = 8;
  static constexpr size_t kBuckets = size_t{32 - kDetail + 1} << kDetail;
  static constexpr size_t kFan = 64;  // counters under a sum

  static size_t bucket_of(uint64_t distance);
  static uint64_t bucket_begin(size_t bucket);
  bool is_sampled(uint64_t key) const { return key >> 1 < limit_; }
  template <typename Function>
  void each_sampled(const uint64_t* keys, size_t num_keys, Function&& function) const;

  void open_slot();
  void touch(uint64_t key, NamespaceId ns, bool publishes, Part* part);
  size_t find(uint64_t key) const;
  void erase(size_t at);
  void grow_table();
  void count(uint32_t slot, uint32_t change);
  uint64_t above(uint32_t slot) const;
  void compact();
  void clear_counts(size_t slots);  // of the first ones
  void halve();

  double rate_ = 1;
  uint64_t limit_ = 0;  // of half a key
  uint64_t max_blocks_ = 0, half_life_ = 0, bytes_ = 0;
  uint64_t samples_ = 0, room_ = 0, used_ = 0,
           alive_ = 0;  // entries: wanted, possible, in use, not forgotten
  uint64_t until_halving_ = 0;
  uint32_t slot_ = 1;       // the newest
  uint32_t forgotten_ = 0;  // all slots up to this one
  double queries_ = 0;
  Part near_, far_;            // answered by the manager, and not
  size_t mask_ = 0;            // of the part of entries_ that is in use
  Array<Entry> entries_;       // open addressing
  Array<uint32_t> counts_[3];  // entries per slot, per 64 slots, per 64 of these
};

}  // namespace kvc
