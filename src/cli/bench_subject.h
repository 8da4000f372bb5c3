// SPDX-License-Identifier: Apache-2.0
// A filled storage whose operations are timed, large enough that one pass over its layers finds nothing in a
// cache. Many queries read what they have in a cache again and again: for them, fewer layers do.
#pragma once

#include <kvcache.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "cli/bench.h"
#include "cli/bench_check.h"
#include "cli/bench_memory.h"
#include "cli/bench_reference.h"

namespace kvcli {

/// So many calls share what the first of them has worked out.
inline constexpr uint32_t kModelLayers = 32;

struct BenchTimes {
  double seconds;          // of a layer
  double enqueue_seconds;  // of those, until the call returns; without a stream the same
};

/// Times `work`, which enqueues what is done in a layer, for so many layers; the calls of a round are
/// numbered from 0 on, and go through the layers again and again.
using BenchTimer = std::function<BenchTimes(uint32_t layers, const std::function<void(uint32_t call)>& work)>;

class BenchSubject {
 public:
  /// Throws InputError for options that do not go together. On a device: in `stream`, or one of its own.
  explicit BenchSubject(const BenchOptions& options, Stream stream = nullptr);

  /// In place of rounds by the host's clock.
  void set_timer(BenchTimer timer) { timer_ = std::move(timer); }

  uint32_t layers() const { return layers_; }
  double layer_bytes() const;
  /// Operations of a layer: two for each element of a key or value that a query head sees.
  double flops() const;
  /// Bytes of a layer that a store, a gather or a copy reads and writes, both counted; 0 for others.
  double traffic_bytes() const;

  BenchTimes run();
  /// With options.check, after run(): the results of its last call.
  const BenchCheck& checked() const { return checked_; }
  /// A store whose keys kvc_rope_apply turns before, in place: what `rope` is there to beat. On the CPU.
  BenchTimes store_turned_apart() { return move(Move::kTurnThenStore); }
  /// Bytes of a block that lie together.
  uint64_t run_bytes() const;

 private:
  BenchTimes attend(bool stores_tokens);
  /// Where the sampled queries of the sampled requests stand among all, and what the CPU computes for them.
  std::vector<uint64_t> sampled_requests() const;
  /// The first so many of each.
  std::vector<BenchBlocks> blocks_of(const std::vector<uint64_t>& requests, uint64_t count) const;
  std::vector<uint64_t> sampled_queries() const;
  std::vector<float> attend_on_the_cpu(const std::vector<char>& q, bool stores_tokens) const;
  void store_step_on_the_cpu(const std::vector<uint64_t>& requests, const BenchReference& reference) const;
  enum class Move { kGather, kStore, kTurnThenStore };
  BenchTimes move(Move what);
  /// Every second block of the shuffled table to the one after it.
  BenchTimes copy();
  /// All blocks to pages of the host, or back.
  BenchTimes swap(bool out);
  /// Blocks of the table that are compared, and what makes sure that their content is not there already.
  std::vector<BenchBlocks> sampled_blocks() const;
  void clear(const std::vector<BenchBlocks>& blocks);
  /// Their tokens in the last layer with the blocks of the reference.
  void compare_stored(const std::vector<BenchBlocks>& blocks, const BenchReference& reference);
  void compare(const BenchRows& found, const BenchRows& expected);
  BenchReference store_on_the_cpu(const std::vector<BenchBlocks>& blocks) const;
  uint64_t tokens() const { return options_.batch * options_.context; }
  uint32_t value_dim() const { return info_.v_head_dim; }
  kvc_rows rows_of(int32_t dtype, uint64_t tokens, const BenchMemory& k, const BenchMemory& v) const;
  /// A copy in the device's memory.
  BenchMemory place(const void* host, size_t bytes);
  void fill();
  /// Cosines and sines of all positions of a request.
  BenchMemory angles();
  /// Of the token at this position of each request.
  std::vector<int64_t> slots_at(uint64_t position) const;
  /// A pass calls `work` for each layer; on a device, passes until there is more to do than to wait for.
  BenchTimes time(const std::function<void(uint32_t call)>& work);
  uint32_t layer_of(uint32_t call) const { return call % layers_; }

  const BenchOptions& options_;
  const char* const device_;
  const int32_t dtype_;
  std::mt19937 random_{1};
  Stream stream_;
  BenchTimer timer_;
  Storage storage_;
  kvc_storage_config config_{};
  kvc_storage_info info_{};
  std::unique_ptr<BenchSource> source_;
  BenchCheck checked_;
  uint32_t layers_ = 1;
  size_t request_blocks_ = 0;
  std::vector<int32_t> table_;  // of all requests, one after the other
};

}  // namespace kvcli
