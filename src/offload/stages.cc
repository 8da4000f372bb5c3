// SPDX-License-Identifier: Apache-2.0
#include "offload/stages.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "layout/parts.h"

namespace kvc {
namespace {

constexpr size_t kStageAlignment = 4096;

size_t rounded(uint64_t bytes) {
  return static_cast<size_t>((bytes + kStageAlignment - 1) / kStageAlignment * kStageAlignment);
}

// The layout of one block in a page of kvc_storage_swap_out: its parts follow each other.
Layout swapped(const Layout& layout) {
  Layout out = layout;
  if (block_parts(layout).count == 1) return out;
  for (int p = 0; p < kNumPlanes; ++p) out.plane(p).layer = layout.cell_bytes;
  return out;
}

}  // namespace

Stages::~Stages() {
  if (buffers_ == nullptr) return;
  for (size_t i = 0; i < stages_.size(); ++i)
    if (stages_[i].event != nullptr) backend_->event_destroy(stages_[i].event);
  if (pinned_) static_cast<void>(backend_->unregister_memory(device_, buffers_));
  memory_->release(buffers_, buffer_bytes_, kStageAlignment);
}

kvc_status Stages::create(Memory& memory, const OffloadGroup* groups, size_t num_groups, size_t num_tiers,
                          size_t count) {
  uint64_t page_bytes = 0, block_bytes = 0;
  for (size_t g = 0; g < num_groups; ++g) {
    const OffloadGroup& group = groups[g];
    if (group.page_bytes > page_bytes) page_bytes = group.page_bytes;
    if (group.backend == nullptr) continue;
    if (backend_ != nullptr && (backend_ != group.backend || device_ != group.device))
      return fail(KVC_ERROR_UNSUPPORTED, "storages of %s:%u and of %s:%u; an offload has one device",
                  backend_->name, device_, group.backend->name, group.device);
    backend_ = group.backend;
    device_ = group.device;
    if (group.layout.block_bytes > block_bytes) block_bytes = group.layout.block_bytes;
  }
  stride_ = rounded(page_bytes) + rounded(block_bytes);
  size_t bytes;
  if (!checked_mul(stride_, count, &bytes) || bytes > PTRDIFF_MAX || !stages_.create(memory, count) ||
      !items_.create(memory, count * num_tiers) || !free_.create(memory, (count + 63) / 64))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu staging pages of %zu bytes", count, stride_);
  buffers_ = static_cast<char*>(memory.allocate(bytes, kStageAlignment));
  if (buffers_ == nullptr)
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu staging pages of %zu bytes", count, stride_);
  memory_ = &memory;
  buffer_bytes_ = bytes;
  if (!memory.gives_zeroes(bytes) && backend_ == nullptr) std::memset(buffers_, 0, bytes);  // they are stored
  if (backend_ != nullptr && backend_->register_memory != nullptr) {
    KVC_TRY(backend_->register_memory(device_, buffers_, bytes));
    pinned_ = true;
  }
  for (size_t i = count; i-- > 0;) {
    Stage& stage = stages_[i];
    stage.data = buffers_ + i * stride_;
    stage.bytes = stage.data + rounded(page_bytes);
    if (backend_ != nullptr) KVC_TRY(backend_->event_create(device_, &stage.event));
    give_back(static_cast<uint32_t>(i));
  }
  return KVC_OK;
}

uint32_t Stages::take() {
  if (num_free_ == 0) return kNone;
  while (free_[first_free_] == 0) ++first_free_;
  uint64_t& word = free_[first_free_];
  const auto bit = static_cast<uint32_t>(__builtin_ctzll(word));
  word &= word - 1;
  --num_free_;
  return static_cast<uint32_t>(first_free_ * 64) + bit;
}

void Stages::give_back(uint32_t index) {
  stages_[index].state = Stage::State::kFree;
  free_[index / 64] |= uint64_t{1} << index % 64;
  first_free_ = std::min<size_t>(first_free_, index / 64);
  ++num_free_;
}

kvc_status Stages::swap(uint32_t stage, const OffloadGroup& group, BlockId block, bool out, void* stream) {
  const int32_t place = raw(block) - group.first_block;
  const kvc_block_copy copy = out ? kvc_block_copy{place, 0} : kvc_block_copy{0, place};
  const uint64_t bytes = (group.layout.block_bytes + 15) / 16 * 16;
  const kvc_backend_swap swap = {&copy, 1, stages_[stage].bytes, bytes, bytes, out, 0};
  KVC_TRY(group.backend->swap_blocks(group.storage, &swap, stream));
  if (stream == nullptr) return KVC_OK;
  const kvc_status status = group.backend->event_record(stages_[stage].event, stream);
  if (status != KVC_OK)
    static_cast<void>(group.backend->stream_synchronize(stream));  // the copy is under way
  return status;
}

kvc_status Stages::copy_out(uint32_t index, const OffloadGroup& group, BlockId block, void* stream) {
  Stage& stage = stages_[index];
  stage.state = Stage::State::kPacked;
  if (group.backend == nullptr) return KVC_OK;
  if (group.slab != nullptr && stream == nullptr) {
    pack_page(group.layout, group.slab, static_cast<uint64_t>(raw(block) - group.first_block), stage.data);
    return KVC_OK;
  }
  KVC_TRY(swap(index, group, block, true, stream));
  if (stream == nullptr) {
    make_page(index, group);
  } else {
    stage.state = Stage::State::kCopyingOut;
  }
  return KVC_OK;
}

Stages::Progress Stages::progress_of(uint32_t stage) {
  int32_t done = 0;
  if (backend_->event_query(stages_[stage].event, &done) != KVC_OK) return Progress::kFailed;
  return done != 0 ? Progress::kDone : Progress::kWorking;
}

void Stages::make_page(uint32_t index, const OffloadGroup& group) {
  Stage& stage = stages_[index];
  pack_page(swapped(group.layout), stage.bytes, 0, stage.data);
  stage.state = Stage::State::kPacked;
}

kvc_status Stages::copy_in(uint32_t index, const OffloadGroup& group, BlockId block, void* stream,
                           bool* later) {
  Stage& stage = stages_[index];
  *later = false;
  if (group.backend == nullptr) return KVC_OK;
  if (group.slab != nullptr && stream == nullptr) {
    unpack_page(group.layout, stage.data, static_cast<uint64_t>(raw(block) - group.first_block), group.slab);
    return KVC_OK;
  }
  unpack_page(swapped(group.layout), stage.data, 0, stage.bytes);
  KVC_TRY(swap(index, group, block, false, stream));
  *later = stream != nullptr;
  if (*later) stage.state = Stage::State::kCopyingIn;
  return KVC_OK;
}

}  // namespace kvc
