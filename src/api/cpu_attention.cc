// SPDX-License-Identifier: Apache-2.0
// Attention and what belongs to it as operations of the CPU device, at once or from a stream.
#include "api/attention_args.h"
#include "attention/select.h"
#include "attention/visibility.h"
#include "cpu/cpu_backend.h"

namespace kvc {
namespace {

Storage& storage_of(void* storage) { return *static_cast<Storage*>(storage); }

ParallelFor parallel_of(Storage& storage) {
  return {[](void* context, size_t count, void (*job)(void*, size_t, size_t), void* data) {
            static_cast<WorkerPool*>(context)->run(count, job, data);
          },
          &storage.workers(), storage.workers().num_workers()};
}

// What the calls below share: arguments whose arrays a stream copies, and scratch.
struct OnArgs {
  AttentionArgs args;
  void* scratch = nullptr;
  size_t table_entries = 0;  // of a request, at most, that are read

  // Not the masks, which may be as large as the queries or not be written yet.
  template <typename F>
  void for_each_array(F&& array) {
    const size_t n = args.num_requests;
    array(args.q_offsets, n + 1);
    array(args.q_starts, n);
    array(args.kv_lens, n);
    array(args.block_tables, n, table_entries, args.table_stride);
    array(args.alibi_slopes, args.num_q_heads);
    array(args.sink_logits, args.num_q_heads);
    array(args.mask_offsets, n);
    array(args.mask_starts, n);
  }
};

struct Attend : OnArgs {
  void run(Storage& storage) {
    if (reads_all_blocks(args)) args.block_mask = nullptr;  // dense in every bit
    const auto lock = storage.read_lock();
    attend(args, parallel_of(storage), scratch);
  }
};

struct Select : OnArgs {
  BlockChoice choice;

  void run(Storage& storage) { select_blocks(args, choice, parallel_of(storage), scratch); }
};

// Runs or enqueues the call with `bytes` of scratch for each worker.
template <typename Call>
kvc_status launch(Storage& storage, Call call, size_t bytes, void* stream_impl) {
  const size_t workers = storage.workers().num_workers(), all = workers * bytes;
  const auto no_memory = [&] {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu threads with %zu bytes together", workers, all);
  };
  if (stream_impl == nullptr) {
    Storage::Scratch scratch(storage, all);
    if (scratch.data() == nullptr) return no_memory();
    call.scratch = scratch.data();
    call.run(storage);
    return KVC_OK;
  }
  auto& stream = *static_cast<Stream*>(stream_impl);
  call.scratch = stream.scratch(all);
  if (call.scratch == nullptr) return no_memory();
  for (size_t r = 0; r < call.args.num_requests; ++r) {
    const uint64_t entries = ceil_div(call.args.kv_lens[r], storage.layout().block_size);
    if (call.table_entries < entries) call.table_entries = entries;
  }
  if (call.table_entries > call.args.table_stride) call.table_entries = call.args.table_stride;
  return enqueue(storage, call, stream);
}

// What only other devices do.
kvc_status check_flags(const kvc_backend_attention& attention) {
  if ((attention.run.flags & KVC_LAUNCH_ON_DEVICE) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "KVC_LAUNCH_ON_DEVICE with the cpu; leave it out");
  if ((attention.run.flags & KVC_LAUNCH_INVARIANT) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "KVC_LAUNCH_INVARIANT is not among what the cpu can do");
  return KVC_OK;
}

kvc_status attend_op(void* impl, const kvc_backend_attention* attention, void* stream) {
  if (const kvc_status status = check_flags(*attention); status != KVC_OK) return status;
  Storage& storage = storage_of(impl);
  Attend call;
  call.args = args_of(storage.layout(), storage.slab(), *attention);
  call.args.open_keys = storage.open_keys();
  return launch(storage, call, attention_scratch_bytes(storage.layout(), attention->num_q_heads), stream);
}

kvc_status explain_op(void* impl, const kvc_backend_attention* attention, kvc_attention_info* plan) {
  if (const kvc_status status = check_flags(*attention); status != KVC_OK) return status;
  Storage& storage = storage_of(impl);
  AttentionArgs args = args_of(storage.layout(), storage.slab(), *attention);
  if (reads_all_blocks(args)) args.block_mask = nullptr;
  *plan = explain_attention(args, storage.workers().num_workers());
  return KVC_OK;
}

kvc_status select_op(void* impl, const kvc_backend_attention* attention, const kvc_block_choice* choice,
                     void* stream) {
  if (const kvc_status status = check_flags(*attention); status != KVC_OK) return status;
  Storage& storage = storage_of(impl);
  Select call;
  call.args = args_of(storage.layout(), storage.slab(), *attention);
  call.choice = {choice->bounds,        choice->top_k,      choice->sink_blocks,
                 choice->recent_blocks, choice->block_mask, choice->block_mask_stride};
  return launch(storage, call, selection_scratch_bytes(call.args), stream);
}

struct KeyBounds {
  const int32_t* blocks;
  size_t count;
  uint32_t layer;
  uint16_t* bounds;

  void run(Storage& storage) {
    const Layout& layout = storage.layout();
    const size_t of_block = size_t{layout.num_heads} * 2 * layout.k_dim;
    const auto lock = storage.read_lock();
    storage.workers().for_each(count, [&](size_t i, size_t) {
      const auto block = static_cast<uint64_t>(blocks[i]);
      find_key_bounds(storage.stored(), layer, block, bounds + block * of_block);
    });
  }
  template <typename F>
  void for_each_array(F&& array) {
    array(blocks, count);
  }
};

kvc_status key_bounds_op(void* impl, uint32_t layer, const int32_t* blocks, size_t num_blocks,
                         uint16_t* bounds, void* stream) {
  KeyBounds call{blocks, num_blocks, layer, bounds};
  if (stream != nullptr) return enqueue(storage_of(impl), call, *static_cast<Stream*>(stream));
  call.run(storage_of(impl));
  return KVC_OK;
}

}  // namespace

void add_cpu_attention(kvc_backend* backend) {
  backend->attend = attend_op;
  backend->explain = explain_op;
  backend->key_bounds = key_bounds_op;
  backend->select_blocks = select_op;
}

}  // namespace kvc
