// SPDX-License-Identifier: Apache-2.0
// Moves the payloads of a slab, several at once: past the page cache if that is asked for and the system can,
// by an engine of a plug-in (io_uring) if there is one, else by a system call each. What the engine has not
// done, in whole or in part, system calls do: their result counts. Calls of different workers come at the
// same time.
#pragma once
#include "base/files.h"
#include "base/memory.h"
#include "tier/slab_store.h"

namespace kvc {

class SlabIo {
 public:
  SlabIo(Memory& memory, Files& files) : memory_(memory), files_(files), direct_(files) {}
  ~SlabIo();
  SlabIo(const SlabIo&) = delete;
  SlabIo& operator=(const SlabIo&) = delete;

  // `file` is the open slab of payloads of `stride` bytes, a multiple of sectors, of which at most `most` are
  // moved at once.
  kvc_status open(const SlabConfig& config, int file, uint64_t stride, size_t most);

  size_t batch() const { return batch_; }
  bool is_direct() const { return direct_.fd() >= 0; }  // then all is aligned to sectors
  bool uses_engine() const { return engine_ != nullptr; }
  uint64_t refused() const { return refused_; }  // when it was opened: 0 to 2
  // Room for one payload, in memory that direct I/O takes. `place` is below batch().
  char* buffer(uint32_t worker, size_t place) {
    return buffers_ + (worker % workers_ * batch_ + place) * stride_;
  }
  // Does all operations, at most batch(). `result` becomes 0 or -errno; `file` is set here. Returns how many
  // times the engine or direct I/O was refused, so that something else did it.
  size_t transfer(uint32_t worker, kvc_io* operations, size_t count);

 private:
  int payload_file() const { return is_direct() ? direct_.fd() : file_; }
  kvc_status open_engine(const SlabConfig& config);
  void close_engine();
  int move(int file, const kvc_io& io, uint64_t done);

  Memory& memory_;
  Files& files_;
  OpenFile direct_;  // closed if the system has no direct I/O for it
  int file_ = -1;
  size_t workers_ = 1, batch_ = 1;
  uint64_t stride_ = 0, refused_ = 0;
  char* buffers_ = nullptr;  // batch_ a worker
  const kvc_io_engine* engine_ = nullptr;
  Array<void*> queues_;  // one a worker
};

}  // namespace kvc
