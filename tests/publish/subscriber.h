// SPDX-License-Identifier: Apache-2.0
// A subscriber as strict as any that is known: it keeps the blocks that it was told of, takes no block that
// it has, nor a removal of one that it has not, and counts parents that it has not.
#pragma once
#include <gtest/gtest.h>
#include <kvcache/events.h>
#include <kvcache/publisher.h>

#include <set>
#include <utility>
#include <vector>

#include "events/decode.h"

namespace kvc {

class Subscriber {
 public:
  using Block = std::pair<int32_t, uint64_t>;  // group, hash

  // Reads and applies the batches that there are, each with `seen`. False: one is not kept any more.
  template <typename Seen>
  bool read(kvc_publisher* publisher, Seen&& seen) {
    for (;;) {
      uint64_t found = 0;
      size_t size = 0;
      kvc_status status = kvc_publisher_read(publisher, next_, &found, nullptr, 0, &size);
      if (status == KVC_ERROR_NOT_FOUND) return true;
      EXPECT_EQ(status, KVC_ERROR_BUFFER_TOO_SMALL);
      payload_.resize(size);
      status = kvc_publisher_read(publisher, next_, &found, payload_.data(), size, &size);
      EXPECT_EQ(status, KVC_OK);
      if (found != next_) return false;
      if (seen(found)) apply(payload_);
      ++next_;
    }
  }
  bool read(kvc_publisher* publisher) {
    return read(publisher, [](uint64_t) { return true; });
  }
  void apply(const std::vector<char>& payload) {
    ASSERT_EQ(decoder_.decode(payload.data(), payload.size()), KVC_OK) << kvc_last_error();
    for (const WireEvent& event : decoder_.events()) {
      if (event.kind == KVC_EVENT_ALL_CLEARED) {
        blocks_.clear();
        there_.clear();
        continue;
      }
      unknown_parents_ += event.has_parent && there_.count(event.parent) == 0;
      for (const uint64_t hash : event.hashes) {
        if (event.kind == KVC_EVENT_STORED) {
          EXPECT_TRUE(blocks_.insert({event.group, hash}).second) << "stored twice";
          there_.insert(hash);
          ++stored_;
        } else {
          EXPECT_EQ(blocks_.erase({event.group, hash}), 1u) << "removed, but not there";
          if (const auto at = there_.find(hash); at != there_.end()) there_.erase(at);
        }
      }
    }
  }
  bool begins_with_clear(const std::vector<char>& payload) {
    return decoder_.decode(payload.data(), payload.size()) == KVC_OK && !decoder_.events().empty() &&
           decoder_.events()[0].kind == KVC_EVENT_ALL_CLEARED;
  }
  const std::set<Block>& blocks() const { return blocks_; }
  uint64_t next() const { return next_; }
  uint64_t stored() const { return stored_; }
  uint64_t unknown_parents() const { return unknown_parents_; }
  void restart(uint64_t next = 0) {
    next_ = next;
    blocks_.clear();
    there_.clear();
  }
  WireDecoder& decoder() { return decoder_; }  // the last batch

 private:
  WireDecoder decoder_;
  std::vector<char> payload_;
  std::set<Block> blocks_;
  std::multiset<uint64_t> there_;  // hashes of blocks_
  uint64_t next_ = 0, stored_ = 0, unknown_parents_ = 0;
};

// What can be found in a manager, by the last 8 bytes of digests.
inline std::set<Subscriber::Block> contents(kvc_manager* m) {
  std::set<Subscriber::Block> out;
  std::vector<kvc_event> events(64);
  uint64_t cursor = 0, at = 0;
  do {
    kvc_event_batch batch = {sizeof batch, events.data(), sizeof(kvc_event), events.size(), 0, nullptr, 0};
    EXPECT_EQ(kvc_manager_list_prefixes(m, &cursor, &at, &batch), KVC_OK);
    for (size_t i = 0; i < batch.count; ++i) {
      uint64_t hash = 0;
      for (size_t b = 24; b < 32; ++b) hash = hash << 8 | events[i].digest[b];
      out.insert({static_cast<int32_t>(events[i].group), hash});
    }
  } while (cursor != 0);
  return out;
}

}  // namespace kvc
