// SPDX-License-Identifier: Apache-2.0
// kvcache_replay_floor TRACE REQUESTS BLOCKS: the replay of `kvcache replay TRACE --requests R --num-blocks
// N` by the least code that gives the same answers. Two programs, one after the other: `bare` takes equal
// hashes for equal content, `exact` does not: it checks the range of the tokens, keeps its own copy of them,
// and compares the tokens and the parent of each hit. No ids, locks, errors, events, groups or namespaces in
// either. The seconds are those of creating, matching, taking and evicting blocks, publishing, decoding and
// releasing, without making the tokens.
//
// A block is found by a chained XXH3 of its content in a hash table with chains, and evicted by LRU, the end
// of a request's blocks first. Both fetch ahead what they will touch.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cli/trace.h"

namespace {

constexpr uint32_t kSize = 16;   // tokens of a block
constexpr size_t kRunning = 16;  // requests at a time
constexpr uint32_t kNone = UINT32_MAX, kFirst = UINT32_MAX - 1;

class Stopwatch {
 public:
  void start() { began_ = std::chrono::steady_clock::now(); }
  void stop() { total_ += std::chrono::steady_clock::now() - began_; }
  double seconds() const { return std::chrono::duration<double>(total_).count(); }

 private:
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::duration total_{};
};

uint64_t hash_block(uint64_t parent, const int32_t* tokens) {
  return XXH3_64bits_withSeed(tokens, kSize * sizeof(int32_t), parent);
}

struct Row {  // of a cache line
  alignas(64) int32_t tokens[kSize];
};

template <bool kExact>
class Pool {
 public:
  explicit Pool(uint32_t num_blocks) : blocks_(num_blocks + 2), rows_(kExact ? num_blocks : 0) {
    size_t buckets = 1;
    while (buckets < 2 * size_t{num_blocks}) buckets *= 2;
    buckets_.assign(buckets, kNone);
    head_ = num_blocks;
    tail_ = num_blocks + 1;
    blocks_[head_].next = tail_;
    blocks_[tail_].prev = head_;
    for (uint32_t id = 0; id < num_blocks; ++id) append(id);
  }

  uint32_t find(uint64_t key, uint32_t parent, const int32_t* tokens) const {
    uint32_t id = bucket(key);
    while (id != kNone && !is(id, key, parent, tokens)) id = blocks_[id].hash_next;
    return id;
  }
  void hold(uint32_t id) {
    if (blocks_[id].holds++ == 0) unlink(id);
  }
  uint32_t take() {
    const uint32_t id = blocks_[head_].next;
    unlink(id);
    if (blocks_[id].hash_prev != kNone) forget(id);
    blocks_[id].holds = 1;
    return id;
  }
  void publish(uint32_t id, uint64_t key, uint32_t parent, const int32_t* tokens) {
    if (find(key, parent, tokens) != kNone) return;
    Block& block = blocks_[id];
    uint32_t& first = bucket(key);
    block.key = key;
    block.hash_next = first;
    block.hash_prev = kFirst;
    if (first != kNone) blocks_[first].hash_prev = id;
    first = id;
    if constexpr (kExact) {
      block.parent = parent;
      block.parent_life = life(parent);
      std::memcpy(rows_[id].tokens, tokens, sizeof rows_[id].tokens);
    }
  }
  void release(uint32_t id) {
    if (--blocks_[id].holds != 0) return;
    if (blocks_[id].hash_prev != kNone) {
      append(id);
    } else {
      link(id, head_, blocks_[head_].next);
    }
  }

  void prefetch(uint32_t id) const { __builtin_prefetch(&blocks_[id], 1); }
  void prefetch_bucket(uint64_t key) const { __builtin_prefetch(&buckets_[key & (buckets_.size() - 1)], 1); }
  void prefetch_match(uint64_t key) const {
    if (const uint32_t id = bucket(key); id != kNone) {
      prefetch(id);
      if constexpr (kExact) __builtin_prefetch(&rows_[id]);
    }
  }
  // Walks the blocks that will be evicted, ahead of take().
  uint32_t first_victim() const { return blocks_[head_].next; }
  uint32_t prefetch_victim(uint32_t id) const {
    if (id == tail_) return id;
    const Block& block = blocks_[id];
    prefetch_bucket(block.key);
    if (block.hash_next != kNone) prefetch(block.hash_next);
    if (block.hash_prev < kFirst) prefetch(block.hash_prev);
    return block.next;
  }

 private:
  struct Place {  // of a block's content, which dies before its parent's place has another one
    uint32_t parent = kNone, parent_life = 0;
    uint32_t lives = 0;  // contents that the block has had
  };
  struct Nothing {};
  struct Block : std::conditional_t<kExact, Place, Nothing> {
    uint64_t key = 0;
    uint32_t prev = kNone, next = kNone;            // in LRU order
    uint32_t hash_prev = kNone, hash_next = kNone;  // hash_prev: kFirst of a chain, kNone = it has no content
    uint32_t holds = 0;
  };

  uint32_t& bucket(uint64_t key) { return buckets_[key & (buckets_.size() - 1)]; }
  uint32_t bucket(uint64_t key) const { return buckets_[key & (buckets_.size() - 1)]; }
  uint32_t life(uint32_t parent) const {
    if constexpr (kExact)
      return parent == kNone ? 0 : blocks_[parent].lives;
    else
      return 0;
  }
  bool is(uint32_t id, uint64_t key, uint32_t parent, const int32_t* tokens) const {
    const Block& block = blocks_[id];
    if (block.key != key) return false;
    if constexpr (kExact) {
      return block.parent == parent && block.parent_life == life(parent) &&
             std::memcmp(rows_[id].tokens, tokens, sizeof rows_[id].tokens) == 0;
    } else {
      return true;
    }
  }
  void forget(uint32_t id) {
    Block& block = blocks_[id];
    (block.hash_prev == kFirst ? bucket(block.key) : blocks_[block.hash_prev].hash_next) = block.hash_next;
    if (block.hash_next != kNone) blocks_[block.hash_next].hash_prev = block.hash_prev;
    block.hash_prev = kNone;
    if constexpr (kExact) ++block.lives;
  }
  void unlink(uint32_t id) {
    blocks_[blocks_[id].prev].next = blocks_[id].next;
    blocks_[blocks_[id].next].prev = blocks_[id].prev;
  }
  void link(uint32_t id, uint32_t prev, uint32_t next) {
    blocks_[id].prev = prev;
    blocks_[id].next = next;
    blocks_[prev].next = blocks_[next].prev = id;
  }
  void append(uint32_t id) { link(id, blocks_[tail_].prev, tail_); }

  std::vector<Block> blocks_;
  std::vector<Row> rows_;
  std::vector<uint32_t> buckets_;
  uint32_t head_ = 0, tail_ = 0;
};

struct Request {
  uint32_t index, length, produced = 0;
  uint64_t chain = 0;
  std::vector<uint32_t> blocks = {};
  int32_t tail[kSize] = {};  // of the block that is not full
};

template <bool kExact>
class Replay {
 public:
  Replay(const kvcli::Trace& trace, uint32_t num_blocks) : trace_(trace), pool_(num_blocks) {}

  void run(const char* name) {
    size_t next = 0;
    while (next < trace_.requests.size() || !live_.empty()) {
      while (next < trace_.requests.size() && live_.size() < kRunning) admit(static_cast<uint32_t>(next++));
      decode();
      release();
    }
    std::printf("%-6s %.4f s, hit rate %.4f\n", name, watch_.seconds(),
                static_cast<double>(hits_) * kSize / static_cast<double>(prompt_tokens_));
  }

 private:
  // Checks, copies and hashes in pieces that stay in the first-level cache.
  const int32_t* take_over(const int32_t* tokens, uint32_t length) {
    constexpr uint32_t kPiece = 1024;
    const uint32_t blocks = length / kSize;
    keys_.resize(blocks);
    if constexpr (kExact) own_.resize(length);
    uint64_t chain = 1;
    for (uint32_t done = 0; done < length; done += kPiece) {
      const uint32_t count = std::min(kPiece, length - done);
      const int32_t* piece = tokens + done;
      if constexpr (kExact) {
        std::memcpy(&own_[done], tokens + done, count * sizeof(int32_t));
        piece = &own_[done];
        bool right = true;
        for (uint32_t i = 0; i < count; ++i) right &= static_cast<uint32_t>(piece[i]) < kvcli::kVocabSize;
        if (!right) throw std::runtime_error("a token is not of the vocabulary");
      }
      for (uint32_t i = 0; i < count / kSize; ++i)
        keys_[done / kSize + i] = chain = hash_block(chain, piece + i * kSize);
    }
    return kExact ? own_.data() : tokens;
  }

  void admit(uint32_t index) {
    constexpr uint32_t kBucketAhead = 12, kBlockAhead = 6;
    kvcli::make_tokens(trace_, index, 0, tokens_);
    const auto length = static_cast<uint32_t>(tokens_.size());
    Request request{index, length};
    watch_.start();
    const int32_t* tokens = take_over(tokens_.data(), length);
    const uint32_t full = length / kSize, limit = (length - 1) / kSize;
    std::vector<uint32_t>& blocks = request.blocks;
    blocks.reserve(length / kSize + 64);
    uint32_t parent = kNone;
    for (uint32_t i = 0; i < limit; ++i) {
      if (i + kBucketAhead < limit) pool_.prefetch_bucket(keys_[i + kBucketAhead]);
      if (i + kBlockAhead < limit) pool_.prefetch_match(keys_[i + kBlockAhead]);
      const uint32_t id = pool_.find(keys_[i], parent, tokens + i * kSize);
      if (id == kNone) break;
      blocks.push_back(parent = id);
    }
    const auto hits = static_cast<uint32_t>(blocks.size());
    for (const uint32_t id : blocks) pool_.hold(id);
    uint32_t victim = pool_.first_victim();
    for (uint32_t i = 0; i < kBucketAhead; ++i) victim = pool_.prefetch_victim(victim);
    for (uint32_t i = hits; i < (length + kSize - 1) / kSize; ++i) {
      victim = pool_.prefetch_victim(victim);
      blocks.push_back(pool_.take());
    }
    for (uint32_t i = hits; i < full; ++i) {
      if (i + kBucketAhead < full) {
        pool_.prefetch_bucket(keys_[i + kBucketAhead]);
        pool_.prefetch(blocks[i + kBlockAhead]);
      }
      pool_.publish(blocks[i], keys_[i], i == 0 ? kNone : blocks[i - 1], tokens + i * kSize);
    }
    std::memcpy(request.tail, tokens + full * kSize, length % kSize * sizeof(int32_t));
    request.chain = full == 0 ? 1 : keys_[full - 1];
    live_.push_back(std::move(request));
    watch_.stop();
    hits_ += hits;
    prompt_tokens_ += length;
  }

  void decode() {
    watch_.start();
    for (Request& request : live_) {
      const uint32_t at = request.length++ % kSize;
      if (at == 0) request.blocks.push_back(pool_.take());
      request.tail[at] = kvcli::output_token(request.index, request.produced++);
      if (at + 1 != kSize) continue;
      request.chain = hash_block(request.chain, request.tail);
      const size_t last = request.blocks.size() - 1;
      pool_.publish(request.blocks[last], request.chain, last == 0 ? kNone : request.blocks[last - 1],
                    request.tail);
    }
    watch_.stop();
  }

  void release() {
    constexpr size_t kAhead = 8;
    watch_.start();
    for (size_t i = 0; i < live_.size();) {
      const Request& request = live_[i];
      if (request.produced != trace_.requests[request.index].num_outputs()) {
        ++i;
        continue;
      }
      for (size_t j = request.blocks.size(); j-- != 0;) {
        if (j >= kAhead) pool_.prefetch(request.blocks[j - kAhead]);
        pool_.release(request.blocks[j]);
      }
      if (i + 1 != live_.size()) live_[i] = std::move(live_.back());
      live_.pop_back();
    }
    watch_.stop();
  }

  const kvcli::Trace& trace_;
  Pool<kExact> pool_;
  std::vector<Request> live_;
  std::vector<uint64_t> keys_;
  std::vector<int32_t> tokens_, own_;
  Stopwatch watch_;
  uint64_t hits_ = 0, prompt_tokens_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s TRACE REQUESTS BLOCKS\n", argv[0]);
    return 2;
  }
  try {
    const kvcli::Trace trace = kvcli::read_trace(argv[1], std::strtoull(argv[2], nullptr, 10));
    const auto num_blocks = static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10));
    Replay<false>(trace, num_blocks).run("bare");
    Replay<true>(trace, num_blocks).run("exact");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
