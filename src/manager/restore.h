// SPDX-License-Identifier: Apache-2.0
// A new manager takes over contents (contents.h) in three parts: take() chooses what there is room for and
// takes blocks for it, then the caller fills them without the lock, and finish() makes them findable. If
// finish() is not called, or fails, the manager is as it was before take().
//
// In a pool of the same ids all blocks keep theirs, and the free ones their order, if nothing is left out.
//
// Quotas and registered prompts come too, unless only the cache is asked for; then what they held is cached.
#pragma once
#include <memory>
#include <span>

#include "manager/contents.h"
#include "manager/manager.h"

namespace kvc {

class Restore {
 public:
  Restore(Manager& manager, const Contents& contents, bool cache_only = false)
      : manager_(manager),
        contents_(contents),
        quotas_(contents.quotas.data(), cache_only ? 0 : contents.quotas.size()),
        prompts_(contents.prompts.data(), cache_only ? 0 : contents.prompts.size()) {}
  ~Restore();
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

  // BUSY unless the manager is new: no request, nothing cached or held.
  kvc_status take();
  // Block of entry i of a pool of the contents; -1: there was no room.
  int32_t block(size_t pool, size_t i) const { return block_ids_[pool][i]; }
  bool keeps_ids() const { return keeps_ids_; }
  uint64_t num_taken() const { return num_taken_; }
  kvc_status finish();

  // After finish(): ids in the new manager.
  const std::vector<uint64_t>& namespace_ids() const { return namespace_ids_; }  // of contents.namespaces
  const std::vector<uint64_t>& request_ids() const { return request_ids_; }

 private:
  struct Entry {
    uint32_t pool, index;  // in the contents
    auto operator<=>(const Entry&) const = default;
  };
  struct Taking {                 // what is taken of a pool of the manager
    std::vector<Entry> line;      // what is kept, first to leave first
    std::vector<BlockId> popped;  // in the order in which they were taken
    std::vector<BlockId> rest;    // room for those that were given back
    bool has_ages = false;
  };
  struct Making {                // a position
    std::vector<ExtraKey> keys;  // all over one block, so no view needs links
    std::unique_ptr<ExtraRecords> extras;
    NodeId node = kNoNode;
  };
  kvc_status check_new() const;
  kvc_status check_quotas() const;
  kvc_status register_prompts();
  void choose();
  std::vector<Entry> line_up(PoolIndex pool) const;
  bool same_pools() const;
  void take_blocks();
  kvc_status open_namespaces();
  kvc_status check_request(size_t index) const;
  kvc_status create_requests();
  kvc_status make_extras(std::vector<Making>* made) const;
  std::vector<Entry> by_position() const;
  void publish_positions(const std::vector<Entry>& attached, std::vector<Making>& made);
  bool order_by_age(PoolIndex pool);
  void set_ages(const Taking& pool);
  kvc_status publish();
  void give_all_back() {
    for (uint32_t p = 0; p < pools_.size(); ++p) {  // those that were given back come in another order
      blocks_.take_for_contents(p, pools_[p].rest.size(), pools_[p].rest.data());
      for (size_t i = pools_[p].popped.size(); i-- > 0;) blocks_.give_back(pools_[p].popped[i]);
    }
  }
  const Contents::Cached& cached(Entry entry) const {
    return contents_.pools[entry.pool].blocks[entry.index];
  }
  BlockId block_of(Entry entry) const { return BlockId{block_ids_[entry.pool][entry.index]}; }

  Manager& manager_;
  Blocks& blocks_ = manager_.blocks_;
  const Shape& shape_ = manager_.shape_;
  const Contents& contents_;
  const std::span<const Contents::Quota> quotas_;  // none if only the cache is asked for; likewise
  const std::span<const Contents::NamedPrompt> prompts_;
  std::vector<Taking> pools_;                    // by pool of the manager
  std::vector<std::vector<int32_t>> block_ids_;  // by pool of the contents
  std::vector<uint8_t> needed_;                  // positions
  std::vector<CarriedNamespace> ns_;             // by entry of namespaces
  std::vector<uint64_t> namespace_ids_, request_ids_;
  uint64_t num_taken_ = 0;
  size_t opened_ = 0, registered_ = 0;
  bool keeps_ids_ = false, taken_ = false;
};

}  // namespace kvc
