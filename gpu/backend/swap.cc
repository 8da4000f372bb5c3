// SPDX-License-Identifier: Apache-2.0
#include "backend/swap.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/devices.h"
#include "backend/registered.h"
#include "kernels/kernels.h"
#include "layout/parts.h"

namespace kvc::gpu {
namespace {

// Thread blocks of the swap kernel. With 16 KiB in flight each, they fill the link to the host and leave most
// of the device to other kernels.
constexpr uint32_t kSwapBlocks = 16;

struct Known {
  std::mutex mutex;                                // held while measuring
  std::atomic<const SwapChoice*> choice{nullptr};  // never freed
};
Known& known(uint32_t device) {
  static auto* const all = new Known[Devices::kMost];
  return all[device];
}

// Collects copies, and enqueues as many at once as the runtime takes.
class CopyList {
 public:
  explicit CopyList(runtime::Stream stream) : stream_(stream) {}

  runtime::Error add(char* to, const char* from, uint64_t bytes) {
    copies_.to[copies_.count] = to;
    copies_.from[copies_.count] = from;
    copies_.bytes[copies_.count] = bytes;
    return ++copies_.count < runtime::Copies::kMost ? 0 : send();
  }
  runtime::Error send() {
    if (copies_.count == 0) return 0;
    const runtime::Error error = runtime::copy(copies_, stream_);
    copies_.count = 0;
    return error;
  }

 private:
  const runtime::Stream stream_;
  runtime::Copies copies_;
};

runtime::Error copy_parts(const Layout& layout, char* slab, const kvc_backend_swap& swap,
                          runtime::Stream stream) {
  const BlockParts parts = block_parts(layout);
  const bool out = swap.out != 0;
  CopyList copies(stream);
  MemoryPiece piece = {1, 0};
  for (size_t i = 0; i < swap.num_copies; ++i) {
    const auto [source, destination] = swap.copies[i];
    char* block = slab + static_cast<uint64_t>(out ? source : destination) * parts.block;
    char* page = swap.pages + static_cast<uint64_t>(out ? destination : source) * swap.page_bytes;
    for (uint64_t part = 0; part < parts.count; ++part, block += parts.part, page += parts.bytes) {
      for (uint64_t at = 0; at < parts.bytes;) {
        if (!piece.contains(page + at)) piece = piece_of(page + at);
        const uint64_t bytes =
            std::min<uint64_t>(parts.bytes - at, piece.end - reinterpret_cast<uintptr_t>(page + at));
        const runtime::Error error =
            out ? copies.add(page + at, block + at, bytes) : copies.add(block + at, page + at, bytes);
        if (error != 0) return error;
        at += bytes;
      }
    }
  }
  return copies.send();
}

// Memory to measure with, on both sides.
class Trial {
 public:
  explicit Trial(uint32_t device) : device_(device), memory_(device) {
    if (runtime::allocate(SwapChoice::kMostBytes, &slab_) != 0) slab_ = nullptr;
    if (runtime::allocate_pinned(SwapChoice::kMostBytes, &pages_) != 0) pages_ = nullptr;
  }
  ~Trial() {
    if (slab_ != nullptr) static_cast<void>(runtime::release(slab_));
    if (pages_ != nullptr) static_cast<void>(runtime::release_pinned(pages_));
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  bool possible() const { return slab_ != nullptr && pages_ != nullptr; }

  // As SwapChoice::Measure has it; the runs are blocks of one part.
  uint64_t measure(SwapPath path, const Swap& swap) {
    Layout layout = {};
    layout.preset = KVC_LAYOUT_BLHNC;
    layout.block_bytes = swap.run_bytes;
    std::vector<kvc_block_copy> copies(swap.num_runs);
    for (size_t i = 0; i < copies.size(); ++i)  // no two of them follow each other
      copies[i] = {static_cast<int32_t>(copies.size() - 1 - i), static_cast<int32_t>(i)};
    const kvc_backend_swap all = {copies.data(),
                                  copies.size(),
                                  static_cast<char*>(pages_),
                                  SwapChoice::kMostBytes,
                                  swap.run_bytes,
                                  swap.out,
                                  0};
    const auto start = std::chrono::steady_clock::now();
    Call call(device_, memory_, nullptr);
    if (call.begin() != KVC_OK || enqueue_swap(call, layout, slab_, all, path) != KVC_OK ||
        call.end(0, "measuring swaps") != KVC_OK)
      return 0;
    const auto time = std::chrono::steady_clock::now() - start;
    return static_cast<uint64_t>(
        std::max<int64_t>(1, std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()));
  }

 private:
  const uint32_t device_;
  CallMemory memory_;
  void *slab_ = nullptr, *pages_ = nullptr;
};

const SwapChoice& guess() {
  static const SwapChoice unmeasured;
  return unmeasured;
}

}  // namespace

const SwapChoice& swap_choice(uint32_t device, bool measure) {
  Known& here = known(device);
  if (const SwapChoice* choice = here.choice.load(std::memory_order_acquire); choice != nullptr)
    return *choice;
  if (!measure) return guess();
  const std::unique_lock lock(here.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return guess();
  if (const SwapChoice* choice = here.choice.load(std::memory_order_acquire); choice != nullptr)
    return *choice;
  // Measured once: if that fails, the guess stays.
  auto made = std::make_unique<SwapChoice>();
  {
    const OnDevice on(device);
    Trial trial(device);
    if (on.status() == KVC_OK && trial.possible())
      made->calibrate([&](SwapPath path, const Swap& swap) { return trial.measure(path, swap); });
  }
  const SwapChoice& found = *made;
  here.choice.store(made.release(), std::memory_order_release);
  return found;
}

kvc_status enqueue_swap(Call& call, const Layout& layout, void* slab, const kvc_backend_swap& swap,
                        SwapPath path) {
  if (path == SwapPath::kCopyEngine)
    return check(copy_parts(layout, static_cast<char*>(slab), swap, call.stream()), "copying blocks");
  kvc_backend_swap sent = swap;
  call.arrays().add(sent.copies, sent.num_copies);
  KVC_TRY(call.upload());
  return check(gpu::swap_blocks(layout, slab, sent, kSwapBlocks, call.stream()), "swapping blocks");
}

}  // namespace kvc::gpu
