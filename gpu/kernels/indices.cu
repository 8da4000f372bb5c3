// SPDX-License-Identifier: Apache-2.0
// Block tables in the forms that attention kernels read, built where they are read: nothing waits for the
// host.
#include "kernels/prefix_sums.cuh"
#include "kernels/rows.cuh"

namespace kvc::gpu {
namespace {

struct ChangeArgs {
  int32_t* tables;
  uint64_t group_stride, row_stride;
  const kvc_table_change* changes;
  uint64_t count;
};

KVC_KERNEL(kThreads, 4)
change_entries(KVC_ARGUMENT(ChangeArgs) args) {
  for_each_index(args.count, [&](uint64_t i) {
    const kvc_table_change change = args.changes[i];
    args.tables[static_cast<uint64_t>(change.group) * args.group_stride +
                static_cast<uint64_t>(change.row) * args.row_stride + static_cast<uint64_t>(change.column)] =
        change.block;
  });
}

struct SlotArgs {
  const int32_t* table;
  uint64_t row_stride;
  const int32_t* rows;
  const int64_t* positions;
  uint64_t count;
  Divisor block_size;
  int64_t* slots;
};

KVC_KERNEL(kThreads, 4)
make_slots(KVC_ARGUMENT(SlotArgs) args) {
  for_each_index(args.count, [&](uint64_t t) {
    const int64_t position = args.positions[t];
    int64_t slot = -1;
    if (position >= 0) {
      const uint64_t column = args.block_size.divide(static_cast<uint64_t>(position));
      const uint64_t row = args.rows != nullptr ? static_cast<uint64_t>(args.rows[t]) : 0;
      const int32_t block = column < args.row_stride ? args.table[row * args.row_stride + column] : -1;
      const auto size = static_cast<int64_t>(args.block_size.value);
      if (block >= 0) slot = int64_t{block} * size + (position - static_cast<int64_t>(column) * size);
    }
    args.slots[t] = slot;
  });
}

struct CsrArgs {
  const int32_t* table;
  uint64_t row_stride;
  const int32_t* lengths;
  uint32_t num_rows;
  SmallDivisor block_size;
  int32_t* offsets;
  int32_t* blocks;
  int32_t* last_block_tokens;
};

KVC_DEVICE uint32_t blocks_of(const CsrArgs& args, uint32_t row) {
  const int32_t length = args.lengths[row];
  if (length <= 0) return 0;
  return args.block_size.divide(static_cast<uint32_t>(length) - 1) + 1;
}

// Sums up the numbers of blocks, kThreads rows at a time. One block of threads.
KVC_KERNEL(kThreads, 1)
make_offsets(KVC_ARGUMENT(CsrArgs) args) {
  KVC_SHARED(uint32_t, sums, kThreads);
  uint32_t before = 0;
  for (uint32_t first = 0; first < args.num_rows; first += kThreads) {
    const uint32_t row = first + threadIdx.x;
    const uint32_t own = row < args.num_rows ? blocks_of(args, row) : 0;
    sums[threadIdx.x] = own;
    inclusive_sum<kThreads>(sums);
    if (row < args.num_rows) {
      args.offsets[row] = static_cast<int32_t>(before + sums[threadIdx.x] - own);
      if (args.last_block_tokens != nullptr) {
        args.last_block_tokens[row] =
            own == 0 ? 0 : args.lengths[row] - static_cast<int32_t>((own - 1) * args.block_size.value);
      }
    }
    before += sums[kThreads - 1];
    sync_block();
  }
  if (threadIdx.x == 0) args.offsets[args.num_rows] = static_cast<int32_t>(before);
}

// A block of threads for each row.
KVC_KERNEL(kThreads, 4)
collect_blocks(KVC_ARGUMENT(CsrArgs) args) {
  for (uint32_t row = blockIdx.x; row < args.num_rows; row += gridDim.x) {
    const uint32_t count = blocks_of(args, row);
    int32_t* const to = args.blocks + args.offsets[row];
    for (uint32_t i = threadIdx.x; i < count; i += kThreads) to[i] = args.table[row * args.row_stride + i];
  }
}

}  // namespace

int apply_table_changes(int32_t* tables, uint64_t group_stride, uint64_t row_stride,
                        const kvc_table_change* changes, size_t num_changes, Stream stream) {
  if (num_changes == 0) return 0;
  const ChangeArgs args{tables, group_stride, row_stride, changes, num_changes};
  return launch(change_entries, Grid{blocks_for(num_changes, kThreads)}, kThreads, 0, stream, args);
}

int build_slots(const int32_t* table, uint64_t row_stride, const int32_t* rows, const int64_t* positions,
                size_t num_tokens, uint32_t block_size, int64_t* slots, Stream stream) {
  if (num_tokens == 0) return 0;
  const SlotArgs args{table, row_stride, rows, positions, num_tokens, divisor(block_size), slots};
  return launch(make_slots, Grid{blocks_for(num_tokens, kThreads)}, kThreads, 0, stream, args);
}

int build_csr(const int32_t* table, uint64_t row_stride, const int32_t* lengths, uint32_t num_rows,
              uint32_t block_size, int32_t* offsets, int32_t* blocks, int32_t* last_block_tokens,
              Stream stream) {
  const CsrArgs args{table,   row_stride, lengths,          num_rows, small_divisor(block_size),
                     offsets, blocks,     last_block_tokens};
  const int error = launch(make_offsets, Grid{1}, kThreads, 0, stream, args);
  if (error != 0 || num_rows == 0) return error;
  return launch(collect_blocks, Grid{blocks_for(num_rows, 1)}, kThreads, 0, stream, args);
}

}  // namespace kvc::gpu
