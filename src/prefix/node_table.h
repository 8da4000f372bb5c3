// SPDX-License-Identifier: Apache-2.0
// The hash table that finds candidates of positions: it never decides. Chains go through Node::hash_next, new
// nodes first. Not thread-safe.
#pragma once
#include "base/hash.h"
#include "base/memory.h"
#include "prefix/node.h"

namespace kvc {

class NodeTable {
 public:
  // Multiply-shift (Dietzfelbinger et al., 1997) by a secret of this tree: nobody can choose contents that
  // share a bucket, unless their hashes are equal.
  struct Hash {
    uint64_t mask, spread;
    int shift;
    size_t operator()(uint64_t key) const { return (key & mask) * spread >> shift; }
  };

  // `mask`: all ones, except in tests that want collisions.
  [[nodiscard]] bool create(Memory& memory, size_t max_nodes, uint64_t mask, uint64_t secret) {
    const size_t size = next_power_of_two(2 * max_nodes);
    hash_ = {mask, secret | 1, 64 - __builtin_ctzll(size)};
    if (!buckets_.create(memory, size)) return false;
    // This touches the whole table. It would be touched soon, at random. And a huge page that is read before
    // it is written falls apart into small ones (Linux before 6.13), which each look-up would pay for.
    std::memset(buckets_.data(), 0xff, size * sizeof(int32_t));
    return true;
  }
  // Copies for loops, which their stores cannot change.
  Hash hash() const { return hash_; }
  int32_t* buckets() { return buckets_.data(); }

  size_t bucket_of(uint64_t key) const { return hash()(key); }
  int32_t& bucket(uint64_t key) { return buckets_[bucket_of(key)]; }  // its first node, -1 = none
  NodeId first_of(uint64_t key) const { return NodeId{buckets_[bucket_of(key)]}; }
  NodeId first_in(uint32_t bucket) const { return NodeId{buckets_[bucket]}; }
  bool may_equal(uint64_t a, uint64_t b) const { return ((a ^ b) & hash_.mask) == 0; }
  // To be read, or written.
  void prefetch(uint64_t key) const { __builtin_prefetch(&buckets_[bucket_of(key)]); }
  void prefetch_write(uint64_t key) const { __builtin_prefetch(&buckets_[bucket_of(key)], 1); }

 private:
  Array<int32_t> buckets_;
  Hash hash_ = {0, 1, 0};
};

}  // namespace kvc
