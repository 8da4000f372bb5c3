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
#include "cli/bench_memory.h"

namespace kvcli {

struct BenchTimes {
  double seconds;          // of a layer
  double enqueue_seconds;  // of those, until the call returns; without a stream the same
};

/// Times `work`, which enqueues what is done in a layer, over so many layers.
using BenchTimer =
    std::function<BenchTimes(uint32_t layers, const std::function<void(uint32_t layer)>& work)>;

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

  BenchTimes run();
  /// A store whose keys kvc_rope_apply turns before, in place: what `rope` is there to beat. On the CPU.
  BenchTimes store_turned_apart() { return move(Move::kTurnThenStore); }
  /// Bytes of a block that lie together.
  uint64_t run_bytes() const;

 private:
  BenchTimes attend(bool stores_tokens);
  enum class Move { kGather, kStore, kTurnThenStore };
  BenchTimes move(Move what);
  /// Every second block of the shuffled table to the one after it.
  BenchTimes copy();
  /// All blocks to pages of the host, or back.
  BenchTimes swap(bool out);
  uint64_t tokens() const { return options_.batch * options_.context; }
  kvc_rows rows_of(int32_t dtype, uint64_t tokens, const BenchMemory& k, const BenchMemory& v) const;
  /// A copy in the device's memory.
  BenchMemory place(const void* host, size_t bytes);
  void fill();
  /// Cosines and sines of all positions of a request.
  BenchMemory angles();
  /// Slots of the requests' last tokens.
  std::vector<int64_t> last_slots() const;
  /// A pass calls `work` for each layer; on a device, passes until there is more to do than to wait for.
  BenchTimes time(const std::function<void(uint32_t layer)>& work);

  const BenchOptions& options_;
  const char* const device_;
  const int32_t dtype_;
  std::mt19937 random_{1};
  Stream stream_;
  BenchTimer timer_;
  Storage storage_;
  kvc_storage_info info_{};
  uint32_t layers_ = 1;
  size_t request_blocks_ = 0;
  std::vector<int32_t> table_;  // of all requests, one after the other
};

}  // namespace kvcli
