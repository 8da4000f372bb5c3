// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention.h"

#include <kvcache/attention.h>

#include <optional>

#include "attention/select.h"
#include "attention/visibility.h"
#include "cpu/task.h"

namespace kvc {
namespace {

ParallelFor parallel_of(Storage& storage) {
  return {[](void* context, size_t count, void (*job)(void*, size_t, size_t), void* data) {
            static_cast<WorkerPool*>(context)->run(count, job, data);
          },
          &storage.workers(), storage.workers().num_workers()};
}

// A call with scratch memory.
struct AttentionCall {
  AttentionCall() = default;
  AttentionCall(Storage& storage, const kvc_backend_attention& attention)
      : args{attention, &storage.layout(), storage.slab(), storage.residual_keys()} {}

  AttentionArgs args = {};
  void* scratch = nullptr;

  template <typename F>
  void for_each_array(F&& array) {
    for_each_host_array(args, args.layout->block_size, array);
  }
};

struct Attend : AttentionCall {
  using AttentionCall::AttentionCall;

  void run(Storage& storage) {
    if (reads_all_blocks(args)) args.block_mask = nullptr;  // dense in every bit
    const auto lock = storage.read_lock();
    attend(args, parallel_of(storage), scratch);
  }
};

struct SelectBlocks : AttentionCall {
  using AttentionCall::AttentionCall;
  kvc_backend_selection selection = {};

  void run(Storage& storage) { select_blocks(args, selection, parallel_of(storage), scratch); }
};

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

// Runs or enqueues the call with `bytes` of scratch memory for each worker.
template <typename Call>
kvc_status launch_with_scratch(Storage& storage, Call call, size_t bytes, void* stream) {
  const size_t workers = storage.workers().num_workers(), all = workers * bytes;
  std::optional<Storage::Scratch> own;
  call.scratch =
      stream != nullptr ? static_cast<Stream*>(stream)->scratch(all) : own.emplace(storage, all).data();
  if (call.scratch == nullptr)
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu threads with %zu bytes together", workers, all);
  return launch(storage, call, stream);
}

kvc_status check_supported(const kvc_backend_attention& attention) {
  if (attention.on_device != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "KVC_LAUNCH_ON_DEVICE with the cpu; leave it out");
  if (attention.invariant != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "KVC_LAUNCH_INVARIANT is not among what the cpu can do");
  return KVC_OK;
}

}  // namespace

kvc_status cpu_attend(void* impl, const kvc_backend_attention* attention, void* stream) {
  KVC_TRY(check_supported(*attention));
  Storage& storage = storage_of(impl);
  return launch_with_scratch(storage, Attend(storage, *attention),
                             attention_scratch_bytes(storage.layout(), attention->num_q_heads), stream);
}

kvc_status cpu_explain(void* impl, const kvc_backend_attention* attention, kvc_backend_attention_info* info) {
  KVC_TRY(check_supported(*attention));
  Storage& storage = storage_of(impl);
  AttentionArgs args = AttentionCall(storage, *attention).args;
  if (reads_all_blocks(args)) args.block_mask = nullptr;
  *info = explain_attention(args, storage.workers().num_workers());
  return KVC_OK;
}

kvc_status cpu_key_bounds(void* impl, uint32_t layer, const int32_t* blocks, size_t num_blocks,
                          uint16_t* bounds, void* stream) {
  return launch(storage_of(impl), KeyBounds{blocks, num_blocks, layer, bounds}, stream);
}

kvc_status cpu_select_blocks(void* impl, const kvc_backend_attention* attention,
                             const kvc_backend_selection* selection, void* stream) {
  KVC_TRY(check_supported(*attention));
  Storage& storage = storage_of(impl);
  SelectBlocks call(storage, *attention);
  call.selection = *selection;
  return launch_with_scratch(storage, call, selection_scratch_bytes(call.args), stream);
}

}  // namespace kvc
