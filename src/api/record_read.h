// SPDX-License-Identifier: Apache-2.0
// The reading side of a call in a log, which is not trusted: its inputs as a caller would have them, and the
// comparison of its results. record_write.h is the other side.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "api/record_write.h"
#include "base/pages.h"

namespace kvc {

// What one call needs, until the next.
class LogScratch {
 public:
  LogScratch() = default;
  LogScratch(const LogScratch&) = delete;
  LogScratch& operator=(const LogScratch&) = delete;
  ~LogScratch() { clear(); }

  // Zeroed. Large ones are fresh pages, which take memory where they are written.
  void* take(size_t size) {
    constexpr size_t kLarge = size_t{1} << 16;
    void* memory = size < kLarge ? std::calloc(1, size + 1) : map_pages(size, kHugePage);
    if (memory == nullptr) throw std::bad_alloc();
    parts_.push_back({memory, size < kLarge ? 0 : size});
    return memory;
  }
  void clear() {
    for (const Part& part : parts_)
      part.mapped == 0 ? std::free(part.memory) : unmap_pages(part.memory, part.mapped);
    parts_.clear();
  }

 private:
  struct Part {
    void* memory;
    size_t mapped;
  };
  std::vector<Part> parts_;
};

class CallReader {
 public:
  // `log_size`: bytes of the whole log.
  CallReader(ByteReader& in, kvc_manager* m, LogScratch& scratch, size_t log_size)
      : in_(in), manager_(m), scratch_(scratch), log_size_(log_size) {}

  const Shape& shape() const { return manager_->impl->shape(); }
  bool refused() const { return in_.failed(); }
  void refuse() {}
  // Empty: all results are as in the log.
  const char* difference() const { return difference_; }

  template <typename T>
  void number(T& value) {
    if constexpr (std::is_signed_v<T>)
      narrow(in_.signed_number(), value);
    else
      narrow(in_.number(), value);
  }
  void id(uint64_t& id) {
    const uint64_t place = in_.number();
    if (place == 0 || place == kEveryId) {
      id = place == 0 ? 0 : UINT64_MAX;
      return;
    }
    constexpr uint64_t kNobodys = 1;
    const IdTag tag = manager_->impl->id_tag();
    id = first_id(tag);
    if (place == kOtherId) {
      id += in_.number();
    } else {
      if (id_place((place - kFirstId) << 32) != place - kFirstId) return in_.fail();
      id += (place - kFirstId) << 32 | static_cast<uint32_t>(in_.number() + tag.generation);
    }
    if (id == 0 || id == UINT64_MAX) id = kNobodys;  // these have meanings of their own
  }
  static size_t size_of(const char*, size_t) { return 0; }
  void text(const void*& data, size_t size) {
    char* own = take<char>(size, size);
    in_.bytes(own, size);
    data = own;
  }
  template <typename T>
  bool given(T*& pointer) {
    alignas(64) static char somewhere[64];
    const uint64_t is = in_.number();
    if (is > 1) in_.fail();
    pointer = is == 1 ? reinterpret_cast<T*>(somewhere) : nullptr;
    return is == 1;
  }
  template <typename Pointer, typename T>
  T* hold(Pointer& caller, T*) {
    T* own = take<T>(1, 0);
    own->struct_size = sizeof *own;
    caller = own;
    return own;
  }
  template <typename T>
  void words(T& out) {
    WordsOf<T> words = {};
    const uint64_t set = in_.number();
    if ((set & 1) != 0 || (words.kCount < 64 && set >> words.kCount != 0)) return in_.fail();
    for (size_t i = 1; i < words.kCount; ++i)
      if ((set >> i & 1) != 0) words.word[i] = in_.number();
    words.word[0] = sizeof out;
    std::memcpy(&out, &words, sizeof out);
  }
  template <typename T>
  bool length(size_t& count, const T* const&, uint64_t limit) {
    number(count);
    if (count > limit) in_.fail();
    return !in_.failed();
  }
  template <typename T>
  void elements(const T*& array, uint64_t count) {
    T* own = take<T>(count, count);
    for (uint64_t i = 0; i < count && !in_.failed(); ++i) element(own[i]);
    array = own;
  }
  void ids(const uint64_t*& array, uint64_t count) {
    auto* own = take<uint64_t>(count, count);
    for (uint64_t i = 0; i < count && !in_.failed(); ++i) id(own[i]);
    array = own;
  }
  uint64_t offsets(const uint64_t*& array, uint64_t count, uint64_t limit) {
    auto* own = take<uint64_t>(count + 1, count);
    array = own;
    for (uint64_t i = 0; i < count && !in_.failed(); ++i) {
      const uint64_t next = in_.number();
      if (next > limit) in_.fail();
      own[i + 1] = own[i] + next;
    }
    return in_.failed() ? 0 : own[count];
  }

  bool sound(kvc_step*&, size_t*) { return true; }
  void begin_configs(const kvc_request_config*& array, size_t count) {
    auto* own = take<kvc_request_config>(count, 0);
    for (size_t i = 0; i < count; ++i) own[i].struct_size = sizeof *own;
    array = own;
  }
  void configs(const kvc_request_config*& array, size_t, size_t i) {
    words(const_cast<kvc_request_config*>(array)[i]);
  }

  // Room for what the call writes. No list is longer than the pool's blocks or what the log has.
  template <typename T>
  void room(T*& out, uint64_t count) {
    out = take<T>(count, 0);
  }
  uint64_t at_most(uint64_t count) const { return std::min<uint64_t>(count, shape().num_blocks + log_size_); }
  void limit(size_t& count) { count = at_most(count); }
  void room_for_pending(kvc_pending_work& work) {
    kvc_pending_work needed = {};
    needed.struct_size = sizeof needed;
    (void)kvc_manager_take_pending(manager_, &needed);  // tells the counts
    if (work.copies != nullptr) {
      work.copy_capacity = std::min(work.copy_capacity, needed.num_copies);
      room(work.copies, work.copy_capacity);
    }
    if (work.zero_blocks != nullptr) {
      work.zero_capacity = std::min(work.zero_capacity, needed.num_zero_blocks);
      room(work.zero_blocks, work.zero_capacity);
    }
  }
  void room_for_step(kvc_step& step);

  // Results: compared until the first difference.
  template <typename T>
  void result(const T& value, const char* name) {
    T logged{};
    number(logged);
    if (logged == value) return;
    differ("%s is %lld; the log has %lld", name, static_cast<long long>(value),
           static_cast<long long>(logged));
  }
  void new_id(uint64_t made) { known_id(made); }
  void known_id(uint64_t known) {
    uint64_t logged = 0;
    id(logged);
    if (logged == known) return;
    if (place_of(logged) != place_of(known))
      differ("%s is of place %lld; the log has %lld", "the id", place_of(known), place_of(logged));
    else
      differ("%s is of generation %lld; the log has %lld", "the id", static_cast<uint32_t>(known),
             static_cast<uint32_t>(logged));
  }
  template <typename T>
  void list(const T* data, size_t count, const char* name) {
    uint32_t logged = 0;
    number(logged);
    const uint32_t sum = list_checksum(data, count * sizeof(T));
    if (logged != sum) differ("%s has the checksum %lld; the log has %lld", name, sum, logged);
  }

 private:
  static long long place_of(uint64_t id) { return id == 0 ? -1 : static_cast<long long>(id_place(id)); }

  // `bytes`: how many the log must still have for them.
  template <typename T>
  T* take(uint64_t count, uint64_t bytes) {
    size_t size;
    if (bytes > in_.left()) in_.fail(), count = 0;
    if (!checked_mul(count, sizeof(T), &size)) throw std::bad_alloc();
    return static_cast<T*>(scratch_.take(size));
  }
  template <typename From, typename T>
  void narrow(From from, T& out) {
    out = static_cast<T>(from);
    if (static_cast<From>(out) != from) in_.fail();
  }
  void element(kvc_extra_key& key) {
    number(key.first_token), number(key.num_tokens);
    in_.bytes(key.digest, sizeof key.digest);
  }
  template <typename T>
  void element(T& value) {
    number(value);
  }
  void differ(const char* format, const char* name, long long value, long long logged) {
    if (difference_[0] == 0) std::snprintf(difference_, sizeof difference_, format, name, value, logged);
  }

  ByteReader& in_;
  kvc_manager* const manager_;
  LogScratch& scratch_;
  const size_t log_size_;
  char difference_[160] = "";
};

inline void CallReader::room_for_step(kvc_step& step) {
  if (in_.failed()) return;
  const uint64_t groups = shape().num_groups, items = step.num_requests + step.num_admissions;
  room(step.status, step.num_frees + step.num_preempts + step.num_truncates + items);
  room(step.admitted, step.num_admissions);
  room(step.cached, step.num_admissions);
  if (step.num_blocks != nullptr) room(step.num_blocks, groups * items);
  if (step.block_tables != nullptr) {
    // No table is longer than the blocks and the tokens that the log has; a longer row only has padding.
    if (step.num_rows > INT32_MAX || step.row_stride > INT32_MAX) return in_.fail();
    step.row_stride = at_most(step.row_stride);
    room(step.block_tables, groups * step.num_rows * step.row_stride);
  }
  if (step.slots != nullptr) {
    step.slot_capacity = step.extend_offsets == nullptr ? 0 : step.extend_offsets[step.num_requests];
    room(step.slots, groups * step.slot_capacity);
  }
  if (step.copies != nullptr) {
    const uint64_t copying = shape().reuses_heads() ? items : step.num_requests;
    step.copy_capacity = std::min<uint64_t>(step.copy_capacity, groups * copying);
    room(step.copies, step.copy_capacity);
  }
  if (step.changes != nullptr) {
    step.change_capacity = std::min<uint64_t>(step.change_capacity, groups * items * step.row_stride);
    room(step.changes, step.change_capacity);
  }
}

}  // namespace kvc
