// SPDX-License-Identifier: Apache-2.0
// Memory for the keys and values of a pool's blocks on the CPU: the slab, its layout, and the threads that
// work on it. Arguments of the operations are valid, and all is done on return. Calls that touch the same
// bytes are ordered by the caller; otherwise any thread may call anything at any time.
#pragma once
#include <kvcache.h>

#include "base/memory.h"
#include "device/backend.h"
#include "device/worker_pool.h"
#include "layout/layout.h"

namespace kvc {

class Storage {
 public:
  // Takes `slab` over, and clears it if `zeroed`. nullptr: no memory, or no threads; `slab` is as before.
  static Storage* create(const Layout& layout, const Env& env, const kvc_backend_memory& slab, bool zeroed,
                         size_t num_threads);
  static void destroy(Storage* storage);  // with nothing pending; the slab goes back to its owner

  const Layout& layout() const { return layout_; }
  char* slab() { return static_cast<char*>(slab_.data); }
  WorkerPool& workers() { return workers_; }

  void store(const kvc_rows& rows) { move(rows, true); }
  void gather(const kvc_rows& rows) { move(rows, false); }
  void copy_blocks(const kvc_block_copy* copies, size_t count);
  void zero_blocks(const int32_t* blocks, size_t count);

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

 private:
  Storage(const Layout& layout, const Env& env, const kvc_backend_memory& slab)
      : layout_(layout), memory_(env), slab_(slab) {}
  void move(const kvc_rows& rows, bool store);
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
};

}  // namespace kvc
