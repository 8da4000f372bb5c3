// SPDX-License-Identifier: Apache-2.0
// Records that callers know by ids. A record has the fields `id` (0 = not in use), `generation` and
// `next_free`. Pointers stay valid for the table's life. Not thread-safe.
#pragma once
#include "base/handle.h"
#include "base/memory.h"

namespace kvc {

template <typename Record, HandleKind kKind>
class HandleTable {
 public:
  // Ids get the tag and generations above the one given.
  [[nodiscard]] bool create(Memory& memory, size_t size, uint32_t tag, uint32_t generation = 0) {
    if (!records_.create(memory, size)) return false;
    tag_ = tag;
    for (size_t i = size; i-- > 0;) {  // so that index 0 is taken first
      records_[i].generation = generation;
      records_[i].next_free = free_;
      free_ = static_cast<int32_t>(i);
    }
    return true;
  }

  // Where the records are. A copy of it cannot be changed by the stores of a loop.
  struct Records {
    Record* data;
    size_t size;

    // nullptr if stale, ended, of another manager or forged.
    Record* find(uint64_t id) const {
      const uint32_t index = handle_index(id);
      if (index >= size || data[index].id != id || id == 0) return nullptr;
      return &data[index];
    }
  };
  Records records() { return {records_.data(), records_.size()}; }
  Record* find(uint64_t id) { return records().find(id); }
  const Record* find(uint64_t id) const { return const_cast<HandleTable*>(this)->find(id); }
  // A cleared record that find() does not see until publish(); nullptr if all are in use.
  Record* take() {
    if (free_ < 0) return nullptr;
    Record& record = records_[static_cast<size_t>(free_)];
    free_ = record.next_free;
    const uint32_t generation = record.generation + 1;
    record = Record{};
    record.generation = generation;
    return &record;
  }
  void publish(Record& record) { record.id = make_handle(tag_, kKind, index_of(record), record.generation); }
  // Ends the id; buffers must be free already. A record that was never published leaves no trace: the next id
  // is the one it would have had.
  void give_back(Record& record) {
    if (record.id == 0) --record.generation;
    record.id = 0;
    if (record.generation == UINT32_MAX) return;  // ids are never reused: this record is retired
    record.next_free = free_;
    free_ = static_cast<int32_t>(index_of(record));
  }

  size_t size() const { return records_.size(); }
  Record& at(size_t index) { return records_[index]; }
  const Record& operator[](size_t index) const { return records_[index]; }
  uint32_t index_of(const Record& record) const { return static_cast<uint32_t>(&record - records_.data()); }

 private:
  Array<Record> records_;
  uint32_t tag_ = 0;
  int32_t free_ = -1;
};

}  // namespace kvc
