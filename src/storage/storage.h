// SPDX-License-Identifier: Apache-2.0
// Keys and values of a pool's blocks in host memory: the slab, its layout, and the threads that work on it.
// Arguments are valid, and the work is done on return. The caller orders calls that touch the same bytes;
// otherwise any thread may call anything at any time.
#pragma once
#include <optional>
#include <shared_mutex>

#include "backend/backend.h"
#include "base/memory.h"
#include "layout/layout.h"
#include "storage/residual_keys.h"
#include "storage/worker_pool.h"

namespace kvc {

class Storage {
 public:
  // Takes `slab` over, and clears it if `zeroed`. `residual_blocks` is that of channel keys. nullptr: no
  // memory, or no threads; `slab` is as before.
  static Storage* create(const Layout& layout, const Env& env, const kvc_backend_memory& slab, bool zeroed,
                         size_t num_threads, const ExternalThreads& parallel, uint32_t residual_blocks);
  static void destroy(Storage* storage);  // with nothing pending; the slab goes back to its owner

  const Layout& layout() const { return layout_; }
  char* slab() { return static_cast<char*>(slab_.data); }
  WorkerPool& workers() { return workers_; }

  void store(const kvc_backend_rows& rows);
  void gather(const kvc_backend_rows& rows);
  // Compares rows with what is stored of them.
  void measure(const kvc_backend_rows& rows, bool keys, QuantMeter* meter);
  void copy_blocks(const kvc_block_copy* copies, size_t count);
  void zero_blocks(const int32_t* blocks, size_t count);
  void quantize_blocks(const int32_t* blocks, size_t count);
  void swap_blocks(const kvc_backend_swap& swap);
  bool is_residual(uint64_t block);

  // What is stored, while read_lock() is held. Without channel keys it locks nothing.
  const ResidualKeys* residual_keys() const { return residual_keys_ ? &*residual_keys_ : nullptr; }
  Stored stored() const { return {&layout_, static_cast<const char*>(slab_.data), residual_keys()}; }
  std::shared_lock<std::shared_mutex> read_lock() { return lock_if_residual<std::shared_lock>(); }

  // Work that streams still have to do here.
  void add_pending();
  void drop_pending();
  void wait();  // until there is none

  // Memory for one call, aligned to 64; kept for the next. nullptr: there is none.
  class Scratch {
   public:
    Scratch(Storage& storage, size_t bytes);
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    void* data() { return buffer_.data(); }

   private:
    Storage& storage_;
    Array<char> buffer_;
  };
  size_t trim();  // releases the scratch that is kept; returns its bytes

 private:
  Storage(const Layout& layout, const Env& env, const kvc_backend_memory& slab)
      : layout_(layout), memory_(env), slab_(slab) {}
  void move(const kvc_backend_rows& rows, bool store, bool keys, bool values);
  template <template <typename> class Lock>
  Lock<std::shared_mutex> lock_if_residual() {
    return residual_keys_ ? Lock<std::shared_mutex>(residual_mutex_) : Lock<std::shared_mutex>();
  }
  // Calls function(first byte, bytes) for the parts of a block, one per layer or one for all.
  template <typename Function>
  void for_each_part(uint64_t block, Function&& function);

  const Layout layout_;
  Memory memory_;
  const kvc_backend_memory slab_;
  WorkerPool workers_;
  std::mutex scratch_mutex_;  // memory_ and spare_
  Array<char> spare_;         // the largest scratch that is not in use
  std::mutex pending_mutex_;
  std::condition_variable none_pending_;
  size_t num_pending_ = 0;
  std::shared_mutex residual_mutex_;           // a store may quantize any block that another call reads
  std::optional<ResidualKeys> residual_keys_;  // with channel keys
};

}  // namespace kvc
