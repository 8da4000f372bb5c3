// SPDX-License-Identifier: Apache-2.0
// Staging pages: buffers of host memory between the blocks of a storage and the tiers, a fixed number of
// them. A page is there in canonical order; with a stream, also as the bytes of the block.
#pragma once
#include <kvcache/tier.h>

#include "backend/backend.h"
#include "base/env.h"
#include "base/memory.h"
#include "manager/offload_view.h"
#include "tier/page.h"

namespace kvc {

inline constexpr size_t kMaxOffloadTiers = 8;

// What is stored of a group.
struct OffloadGroup {
  const kvc_backend* backend;  // null: sizes alone
  void* storage;               // the backend's
  uint32_t device;
  int32_t first_block;  // of its pool, which is block 0 of the storage
  Layout layout;
  char* slab;  // null: not in host memory
  uint64_t page_bytes;
  Digest256 salt;  // page_salt()
};

struct Stage {
  enum class State : uint8_t { kFree, kCopyingOut, kPacked, kPutting, kGetting, kCopyingIn };
  State state;
  uint32_t group;
  uint32_t jobs;    // of tiers
  uint32_t known;   // kPacked: tiers that are done with the page or work on it, a bit each
  uint32_t lookup;  // kGetting: whose page it is
  uint32_t page;
  bool is_probe;  // kGetting: it tries a tier that has failed
  bool given_up;  // kGetting: nobody waits for it any more
  uint64_t begun_ns, job;
  Digest256 key;
  char* data;   // the page
  char* bytes;  // the block
  void* event;
  StoredBlock block;
};

class Stages {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  ~Stages();
  kvc_status create(Memory& memory, const OffloadGroup* groups, size_t num_groups, size_t num_tiers,
                    size_t count);

  const kvc_backend* backend() const { return backend_; }
  size_t size() const { return stages_.size(); }
  Stage& operator[](uint32_t i) { return stages_[i]; }
  // Items of neighbours are neighbours, so that one job has many.
  kvc_tier_item& item(uint32_t stage, size_t tier) { return items_[tier * stages_.size() + stage]; }
  size_t num_busy() const { return stages_.size() - num_free_; }
  size_t num_free() const { return num_free_; }
  uint32_t take();  // the first one that is free
  void give_back(uint32_t stage);

  // Copies a block to the page: kPacked at once, or kCopyingOut until `stream` has done it.
  kvc_status copy_out(uint32_t stage, const OffloadGroup& group, BlockId block, void* stream);
  // The block's bytes have come: makes the page of them.
  void make_page(uint32_t stage, const OffloadGroup& group);
  // The reverse. *later: the stage is busy until the stream is done.
  kvc_status copy_in(uint32_t stage, const OffloadGroup& group, BlockId block, void* stream, bool* later);
  // Of the copy of a stage, in its stream.
  enum class Progress { kWorking, kDone, kFailed };
  Progress progress_of(uint32_t stage);

 private:
  kvc_status swap(uint32_t stage, const OffloadGroup& group, BlockId block, bool out, void* stream);

  Memory* memory_ = nullptr;
  Array<Stage> stages_;
  Array<kvc_tier_item> items_;
  Array<uint64_t> free_;   // a bit each
  size_t first_free_ = 0;  // words before it have none
  char* buffers_ = nullptr;
  size_t buffer_bytes_ = 0, stride_ = 0;
  const kvc_backend* backend_ = nullptr;
  uint32_t device_ = 0;
  size_t num_free_ = 0;
  bool pinned_ = false;
};

}  // namespace kvc
