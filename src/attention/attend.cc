// SPDX-License-Identifier: Apache-2.0
// attend(): two phases over all workers, splits of pieces and then their merges.
#include <atomic>

#include "attention/attention.h"
#include "attention/isa.h"
#include "attention/worker.h"

namespace kvc {
namespace {

// What all workers of a call share. Phase one works on splits, phase two merges the splits of each piece.
struct Call {
  const AttentionArgs& args;
  AttentionShape shape;
  const Kernels& kernels;
  char* scratch;
  size_t worker_bytes;
  uint64_t split;  // segments
  bool merging;
  std::atomic<uint64_t> next{0};  // item to be taken

  float* partial(size_t i) const { return Worker::partial_at(scratch, shape, worker_bytes, i); }
};

uint64_t items_of(const Call& call, const Piece& piece) {
  return call.merging ? piece.splits > 1 : piece.splits;
}

// Takes items until there are none. Items are numbered in the order of pieces, and a worker's numbers only
// grow, so it walks over the pieces once.
void take_items(void* data, size_t /*i*/, size_t worker_index) {
  Call& call = *static_cast<Call*>(data);
  Worker worker(call.args, call.shape, call.kernels, call.scratch + worker_index * call.worker_bytes);
  PieceWalk walk(call.args, call.shape, call.split);
  Piece piece;
  uint64_t first = 0, count = 0;  // items of `piece`
  for (;;) {
    const uint64_t item = call.next.fetch_add(1, std::memory_order_relaxed);
    while (item >= first + count) {
      first += count;
      if (!walk.next(&piece)) return;
      count = items_of(call, piece);
    }
    if (call.merging) {
      worker.merge(piece, [&](size_t partial) { return call.partial(partial); });
    } else {
      const uint64_t split = item - first;
      worker.work(piece, split, piece.splits > 1 ? call.partial(piece.first_partial + split) : nullptr);
    }
  }
}

}  // namespace

size_t attention_scratch_bytes(const Layout& layout, uint32_t num_q_heads) {
  return Scratch::bytes(find_shape(layout, num_q_heads));
}

void attend(const AttentionArgs& args, const ParallelFor& parallel_for, void* scratch) {
  const AttentionShape shape = find_shape(*args.layout, args.num_q_heads);
  const size_t workers = parallel_for.run != nullptr ? parallel_for.num_workers : 1;
  Call call{args,
            shape,
            chosen_kernels(),
            static_cast<char*>(scratch),
            Scratch::bytes(shape),
            find_split(args, shape, workers),
            false};
  const auto run = [&] {
    call.next = 0;
    if (parallel_for.run == nullptr) return take_items(&call, 0, 0);
    parallel_for.run(parallel_for.context, workers, take_items, &call);
  };
  run();
  if (workers > 1) {
    call.merging = true;
    run();
  }
}

}  // namespace kvc
