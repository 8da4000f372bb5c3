// SPDX-License-Identifier: Apache-2.0
// The writing side of a call in a log: its inputs before it runs, its results after. record_read.h is the
// other side, with functions of the same names.
#pragma once
#include <type_traits>

#include "api/guard.h"
#include "api/made_step.h"
#include "base/handle.h"
#include "base/hash.h"
#include "base/id_tags.h"
#include "record/bytes.h"

namespace kvc {

// Ids in a log: 0; kEveryId for UINT64_MAX, which has meanings of its own; kOtherId for what another manager
// made or nobody, and its distance from the manager's own; else kind and index, from kFirstId on, and the
// generation, counted from the manager's first. So different ids are different in a replay too, and an id
// that the call itself makes is one there.
inline constexpr uint64_t kEveryId = 1, kOtherId = 2, kFirstId = 3;

constexpr uint32_t id_place(uint64_t id) { return static_cast<uint32_t>(id >> 32) & 0xFFFFF; }

constexpr uint64_t first_id(IdTag tag) { return uint64_t{tag.tag} << 52; }

inline uint32_t list_checksum(const void* data, size_t size) {
  DigestHash hash;
  hash.add_bytes(data, size);
  return static_cast<uint32_t>(hash.value());
}

// A struct without pointers: which of its words are not 0, and these words. The first one is struct_size.
template <typename T>
struct WordsOf {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0 && sizeof(T) / 8 <= 64);
  static constexpr size_t kCount = sizeof(T) / 8;
  uint64_t word[kCount];
};

class CallWriter {
 public:
  CallWriter(ByteWriter& out, const Manager& manager)
      : out_(out), manager_(manager), tag_(manager.id_tag()) {}

  const Shape& shape() const { return manager_.shape(); }
  // The call cannot be written. If it succeeds, the log ends.
  void refuse() { refused_ = true; }
  bool refused() const { return refused_; }

  template <typename T>
  void number(const T& value) {
    if constexpr (std::is_signed_v<T>)
      out_.signed_number(value);
    else
      out_.number(value);
  }
  void id(const uint64_t& id) {
    if (id == 0 || id == UINT64_MAX) return out_.number(id == 0 ? 0 : kEveryId);
    if (id >> 52 != tag_.tag) {
      out_.number(kOtherId);
      return out_.number(id - first_id(tag_));
    }
    out_.number(kFirstId + id_place(id));
    out_.number(static_cast<uint32_t>(id) - tag_.generation);
  }
  static size_t size_of(const char* text, size_t limit) { return text == nullptr ? 0 : strnlen(text, limit); }
  void text(const void* data, size_t size) { out_.bytes(data, size); }

  // Whether a pointer is given.
  template <typename T>
  bool given(T* const& pointer) {
    out_.number(pointer != nullptr);
    return pointer != nullptr;
  }
  // A copy of the caller's struct; nullptr: the call will fail.
  template <typename T>
  T* hold(const T* const& caller, T* copy) {
    if (caller != nullptr && read_struct(caller, copy) == KVC_OK) return copy;
    refuse();
    return nullptr;
  }
  template <typename T>
  void words(const T& from) {
    WordsOf<T> words;
    std::memcpy(&words, &from, sizeof from);
    uint64_t set = 0;
    for (size_t i = 1; i < words.kCount; ++i) set |= uint64_t{words.word[i] != 0} << i;
    out_.number(set);
    for (size_t i = 1; i < words.kCount; ++i)
      if (words.word[i] != 0) out_.number(words.word[i]);
  }
  // A length that the caller's array has. More than `limit`: the call fails before it reads them.
  bool length(const size_t& count, const void* array, uint64_t limit) {
    if (count > limit || (count != 0 && array == nullptr)) refuse();
    if (refused_) return false;
    out_.number(count);
    return true;
  }
  template <typename T>
  void elements(const T* const& array, size_t count) {
    for (size_t i = 0; i < count && !out_.overflowed(); ++i) element(array[i]);
  }
  void ids(const uint64_t* const& array, size_t count) {
    for (size_t i = 0; i < count && !out_.overflowed(); ++i) id(array[i]);
  }
  // [count + 1] from 0 on, as differences up to `limit`; the last one.
  uint64_t offsets(const uint64_t* const& array, size_t count, uint64_t limit) {
    for (size_t i = 0; i < count; ++i) {
      if (array[i + 1] - array[i] > limit) refuse();
      out_.number(array[i + 1] - array[i]);
    }
    return array[count];
  }

  // A step that passes all checks before the manager. *stride: bytes between two of its admit_configs.
  bool sound(kvc_step* step, size_t* stride) {
    if (check_step(manager_, step, stride) != KVC_OK) refuse();
    return !refused_;
  }
  void configs(const kvc_request_config* const& array, size_t stride, size_t i) {
    kvc_request_config config;
    const auto* at = reinterpret_cast<const char*>(array) + i * stride;
    if (read_struct(at, stride, &config) == KVC_OK)
      words(config);
    else
      refuse();
  }

  // Room for outputs: the caller has it.
  template <typename T>
  void room(T*, uint64_t) {}
  static uint64_t at_most(uint64_t count) { return count; }
  void limit(size_t&) {}
  void room_for_pending(kvc_pending_work&) {}
  void room_for_step(kvc_step&) {}
  void begin_configs(const kvc_request_config* const&, size_t) {}

  // Results.
  template <typename T>
  void result(const T& value, const char*) {
    number(value);
  }
  void new_id(uint64_t made) { id(made); }
  void known_id(uint64_t known) { id(known); }
  template <typename T>
  void list(const T* data, size_t count, const char*) {
    number(list_checksum(data, count * sizeof(T)));
  }

 private:
  void element(const kvc_extra_key& key) {
    number(key.first_token), number(key.num_tokens);
    out_.bytes(key.digest, sizeof key.digest);
  }
  template <typename T>
  void element(const T& value) {
    number(value);
  }

  ByteWriter& out_;
  const Manager& manager_;
  const IdTag tag_;
  bool refused_ = false;
};

}  // namespace kvc
