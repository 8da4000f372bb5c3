// SPDX-License-Identifier: Apache-2.0
// The last batches of a publisher, encoded, for replay: a ring of bytes and a ring of their places. The
// oldest give way. Batches are numbered from 0 without a gap. All memory is taken at creation.
#pragma once
#include "base/memory.h"

namespace kvc {

class KeptBatches {
 public:
  struct Batch {
    uint64_t sequence;
    const uint8_t* data;
    size_t size;
  };

  [[nodiscard]] bool create(Memory& memory, size_t max_batches, size_t max_bytes) {
    return places_.create(memory, max_batches) && bytes_.create(memory, max_bytes);
  }
  uint64_t next_sequence() const { return next_; }
  uint64_t oldest() const { return next_ - count_; }  // next_sequence() if none is kept
  size_t count() const { return count_; }
  uint64_t bytes() const { return used_; }

  // A batch that is kept.
  Batch operator[](uint64_t sequence) const {
    const Place& place = places_[sequence % places_.size()];
    return {sequence, bytes_.data() + place.begin, place.size};
  }

  // Memory for the next batch, of `most` bytes, which are not more than max_bytes.
  uint8_t* begin(size_t most) {
    if (count_ == places_.size()) drop_oldest();
    if (at_ + most > bytes_.size()) {  // it goes to the beginning, and what is behind here is the oldest
      while (count_ != 0 && oldest_place().begin >= at_) drop_oldest();
      at_ = 0;
    }
    while (count_ != 0 && oldest_place().begin >= at_ && oldest_place().begin < at_ + most) drop_oldest();
    return bytes_.data() + at_;
  }
  // The batch has `size` bytes.
  Batch end(size_t size) {
    places_[next_ % places_.size()] = {at_, size};
    at_ += size;
    used_ += size;
    ++count_;
    return (*this)[next_++];
  }

 private:
  struct Place {
    size_t begin, size;
  };
  const Place& oldest_place() const { return places_[oldest() % places_.size()]; }
  void drop_oldest() {
    used_ -= oldest_place().size;
    --count_;
  }

  Array<Place> places_;
  Array<uint8_t> bytes_;
  size_t at_ = 0;  // in bytes_, of the next batch
  size_t count_ = 0;
  uint64_t used_ = 0, next_ = 0;
};

}  // namespace kvc
