// SPDX-License-Identifier: Apache-2.0
// A filled storage whose operations are timed. It is so large that a pass over its layers finds nothing in a
// cache. Many queries reuse what they have cached, so they need fewer layers.
#pragma once
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

/// Layers that share the plan of the first of them.
inline constexpr uint32_t kModelLayers = 32;

struct BenchTimes {
  double seconds;          // of a layer
  double enqueue_seconds;  // until the call returns; without a stream the same
};

/// Times `work`, which enqueues the work of one layer. Calls of a round are numbered from 0; the layers
/// repeat.
using BenchTimer = std::function<BenchTimes(uint32_t layers, const std::function<void(uint32_t call)>& work)>;

/// A storage with the options' requests, without memory; the layers that they ask for, or so many that no
/// cache holds them. Throws InputError for numbers that do not fit together.
kvc_storage_config bench_config(const BenchOptions& options, const char* device);

class BenchSubject {
 public:
  /// Throws InputError for options that exclude each other. On a device: uses `stream`, or its own.
  explicit BenchSubject(const BenchOptions& options, Stream stream = nullptr);

  /// Replaces the clock of the host.
  void set_timer(BenchTimer timer) { timer_ = std::move(timer); }

  uint32_t layers() const { return layers_; }
  double layer_bytes() const;
  /// Operations of a layer: two for each element of a key or value that a query head sees.
  double flops() const;
  /// Bytes of a layer that a store, gather or copy reads plus those that it writes; 0 for others.
  double traffic_bytes() const;

  BenchTimes run();
  /// With options.check, after run(): how the results of the last call compare.
  const BenchCheck& checked() const { return checked_; }
  /// Rotates the keys in place by kvc_rope_apply, then stores them: the alternative to --rope. On the CPU.
  BenchTimes store_rotated_apart() { return move(Move::kRotateThenStore); }
  /// Contiguous bytes of a block.
  uint64_t run_bytes() const;

 private:
  BenchTimes attend(bool stores_tokens);
  std::vector<uint64_t> sampled_requests() const;
  /// The first `count` blocks of each request.
  std::vector<BenchBlocks> blocks_of(const std::vector<uint64_t>& requests, uint64_t count) const;
  /// Indices of the sampled queries among all.
  std::vector<uint64_t> sampled_queries() const;
  std::vector<float> attend_on_the_cpu(const std::vector<char>& q, bool stores_tokens) const;
  void store_step_on_the_cpu(const std::vector<uint64_t>& requests, const BenchReference& reference) const;
  enum class Move { kGather, kStore, kRotateThenStore };
  BenchTimes move(Move what);
  /// Copies every second block of the shuffled table to the block after it.
  BenchTimes copy();
  /// Swaps all blocks to pages of the host, or back.
  BenchTimes swap(bool out);
  /// Blocks of the table that are compared. clear() removes what they held before.
  std::vector<BenchBlocks> sampled_blocks() const;
  void clear(const std::vector<BenchBlocks>& blocks);
  /// Compares their tokens in the last layer with the reference.
  void compare_stored(const std::vector<BenchBlocks>& blocks, const BenchReference& reference);
  void compare(const BenchRows& found, const BenchRows& expected);
  BenchReference store_on_the_cpu(const std::vector<BenchBlocks>& blocks) const;
  uint64_t tokens() const { return options_.batch * options_.context; }
  uint32_t value_dim() const { return info_.v_head_dim; }
  kvc_rows rows_of(int32_t dtype, uint64_t tokens, const BenchMemory& k, const BenchMemory& v) const;
  /// Memory of the device for the keys, or the values, of so many tokens.
  BenchMemory row_memory(const char* device, uint64_t tokens) const;
  /// Copies to memory of the device.
  BenchMemory place(const void* host, size_t bytes);
  template <typename T>
  BenchMemory place(const std::vector<T>& values) {
    return place(values.data(), values.size() * sizeof(T));
  }
  void fill();
  /// Cosines and sines of all positions of a request.
  BenchMemory angles();
  /// Slots of the token at this position of each request.
  std::vector<int64_t> slots_at(uint64_t position) const;
  /// Calls `work` for each layer; on a device as often as it takes to hide the wait for the stream.
  BenchTimes time(const std::function<void(uint32_t call)>& work);
  uint32_t layer_of(uint32_t call) const { return call % layers_; }

  const BenchOptions& options_;
  const char* const device_;
  const int32_t dtype_;
  std::mt19937 random_{1};
  Stream stream_;
  BenchTimer timer_;
  Storage storage_;
  kvc_storage_config config_ = make<kvc_storage_config>();
  kvc_storage_info info_{};
  std::unique_ptr<BenchSource> source_;
  BenchCheck checked_;
  uint32_t layers_ = 1;
  size_t request_blocks_ = 0;
  std::vector<int32_t> table_;  // of all requests, one after the other
};

}  // namespace kvcli
