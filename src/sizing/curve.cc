// SPDX-License-Identifier: Apache-2.0
#include "sizing/curve.h"

#include <algorithm>
#include <cmath>

namespace kvc {

namespace {
constexpr double kCurveKeys = 4294967296.0;  // values of the upper half of a key
}

uint64_t Curve::samples_for(uint64_t max_blocks, double rate) {
  return static_cast<uint64_t>(std::ceil(static_cast<double>(max_blocks) * rate));
}

size_t Curve::bucket_of(uint64_t distance) {
  if (distance < size_t{2} << kDetail) return distance;
  if (distance > UINT32_MAX) distance = UINT32_MAX;
  const int shift = 63 - __builtin_clzll(distance) - kDetail;
  return (static_cast<size_t>(shift) << kDetail) + (distance >> shift);
}

uint64_t Curve::bucket_begin(size_t bucket) {
  if (bucket < size_t{2} << kDetail) return bucket;
  const size_t shift = (bucket >> kDetail) - 1;
  return (bucket - (shift << kDetail)) << shift;
}

bool Curve::create(Memory& memory, uint64_t max_blocks, double rate, uint64_t half_life) {
  const double share = std::ceil(rate * kCurveKeys);  // a key is sampled if its upper half is less
  rate_ = share / kCurveKeys;
  limit_ = static_cast<uint64_t>(share) << 31;
  max_blocks_ = max_blocks;
  half_life_ = until_halving_ = half_life;
  samples_ = samples_for(max_blocks, rate);
  room_ = samples_ + samples_ / 2 + 1;  // compact() leaves at most 5/4 of the samples
  const size_t table = next_power_of_two(room_ + room_ / 3 + 1);
  mask_ = std::min<size_t>(table, 1024) - 1;
  const uint64_t before = memory.bytes();
  size_t size = 2 * samples_ + kFan;
  for (auto& level : counts_) {
    if (!level.create(memory, size)) return false;
    size = ceil_div(size, kFan);
  }
  if (!entries_.create(memory, table) || !near_.distances.create(memory, kBuckets) ||
      !far_.distances.create(memory, kBuckets))
    return false;
  bytes_ = memory.bytes() - before;
  return true;
}

template <typename Function>
inline void Curve::each_sampled(const uint64_t* keys, size_t num_keys, Function&& function) const {
  constexpr size_t kPiece = 16;
  const uint64_t limit = limit_;
  size_t i = 0;
  for (; i + kPiece <= num_keys; i += kPiece) {
    uint64_t any = 0;  // the highest bit is set if a difference is negative; compilers make vectors of this
    for (size_t k = 0; k < kPiece; ++k) any |= (keys[i + k] >> 1) - limit;
    if (any >> 63 == 0) continue;
    for (size_t k = i; k < i + kPiece; ++k) {
      if (is_sampled(keys[k])) function(k);
    }
  }
  for (; i < num_keys; ++i) {
    if (is_sampled(keys[i])) function(i);
  }
}

void Curve::admit(const Admission& a) {
  if (half_life_ != 0) {
    if (until_halving_ < a.num_queries) halve();
    until_halving_ -= a.num_queries < until_halving_ ? a.num_queries : until_halving_;
  }
  queries_ += static_cast<double>(a.num_queries);
  near_.queries += static_cast<double>(a.num_hits);
  far_.queries += static_cast<double>(a.num_readable - a.num_hits);
  bool opened = false;
  each_sampled(a.keys, a.num_keys, [&](size_t i) {
    if (!opened) open_slot();
    opened = true;
    touch(a.keys[i], a.ns, a.publishes, i < a.num_hits ? &near_ : i < a.num_readable ? &far_ : nullptr);
  });
}

void Curve::open_slot() {
  if (counts_[0][slot_] == 0) return;
  if (slot_ + 1 == counts_[0].size()) compact();
  ++slot_;
}

void Curve::touch(uint64_t key, NamespaceId ns, bool publishes, Part* part) {
  if (part != nullptr) ++part->sampled;
  size_t at = find(key);
  Entry& entry = entries_[at];
  if (entry.slot > forgotten_) {
    if (part != nullptr) {
      const double blocks = static_cast<double>(above(entry.slot)) / rate_ + 1.5;
      ++part->distances[bucket_of(static_cast<uint64_t>(blocks))];
    }
    if (entry.slot == slot_) return;
    count(entry.slot, -1u);
  } else {
    if (!publishes) return;
    if (entry.slot == 0 && used_ == room_) {
      if (counts_[0][slot_] >= samples_) return;  // the deep end of one request
      compact();
      at = find(key);
    }
    if (entries_[at].slot == 0 && ++used_ > mask_ - mask_ / 4 && mask_ + 1 < entries_.size()) {
      grow_table();
      at = find(key);
    }
    ++alive_;
  }
  entries_[at] = {key, slot_, ns};
  count(slot_, 1);
}

// Where the key is, or where it goes.
size_t Curve::find(uint64_t key) const {
  size_t at = key & mask_;
  while (entries_[at].slot != 0 && entries_[at].key != key) at = (at + 1) & mask_;
  return at;
}

void Curve::erase(size_t at) {
  --used_;
  for (size_t next = (at + 1) & mask_; entries_[next].slot != 0; next = (next + 1) & mask_) {
    const size_t home = entries_[next].key & mask_;
    if (((next - home) & mask_) < ((next - at) & mask_)) continue;  // its home is behind `at`
    entries_[at] = entries_[next];
    at = next;
  }
  entries_[at].slot = 0;
}

// Twice the part of the table, in place: each entry in turn takes its new place from those that have not.
void Curve::grow_table() {
  constexpr uint32_t kOld = 1u << 31;  // in ns: it has no new place yet
  const size_t end = mask_ + 1;
  mask_ = 2 * end - 1;
  for (size_t at = 0; at < end; ++at) {
    if (entries_[at].slot != 0) entries_[at].ns |= kOld;
  }
  for (size_t at = 0; at < end; ++at) {
    while (entries_[at].slot != 0 && (entries_[at].ns & kOld) != 0) {
      const Entry entry = entries_[at];
      size_t to = entry.key & mask_;
      while (entries_[to].slot != 0 && (entries_[to].ns & kOld) == 0) to = (to + 1) & mask_;
      entries_[at] = to == at ? entry : entries_[to];
      entries_[to] = entry;
      entries_[to].ns &= ~kOld;
    }
  }
}

void Curve::count(uint32_t slot, uint32_t change) {
  counts_[0][slot] += change;
  counts_[1][slot / kFan] += change;
  counts_[2][slot / kFan / kFan] += change;
}

// Entries in newer slots.
uint64_t Curve::above(uint32_t slot) const {
  uint64_t sum = 0;
  size_t at = size_t{slot} + 1;
  for (int level = 0; level < 3; ++level) {
    const Array<uint32_t>& counts = counts_[level];
    const size_t end =
        level == 2 ? slot_ / kFan / kFan + 1 : std::min(counts.size(), (at + kFan - 1) / kFan * kFan);
    uint32_t part = 0;
    for (; at < end; ++at) part += counts[at];
    sum += part;
    at = ceil_div(at, kFan);
  }
  return sum;
}

// Drops the oldest slots beyond the wanted samples, and numbers the others from 1 on without gaps.
void Curve::compact() {
  Array<uint32_t>& counts = counts_[0];
  const size_t slots = size_t{slot_} + 1;
  uint32_t oldest = slot_;
  uint64_t kept = counts[slot_];
  while (oldest > forgotten_ + 1 && kept < samples_ && kept + counts[oldest - 1] <= samples_ + samples_ / 4)
    kept += counts[--oldest];
  uint32_t last = 0;
  for (uint32_t s = 0; s <= slot_; ++s)
    counts[s] = s == slot_ || (s >= oldest && counts[s] != 0) ? ++last : 0;
  for (size_t at = 0; at <= mask_; ++at) {
    while (entries_[at].slot != 0 && counts[entries_[at].slot] == 0) erase(at);
  }
  for (size_t at = 0; at <= mask_; ++at) entries_[at].slot = counts[entries_[at].slot];
  slot_ = last;
  clear_counts(slots);
  for (size_t at = 0; at <= mask_; ++at) {
    if (entries_[at].slot != 0) count(entries_[at].slot, 1);
  }
  forgotten_ = 0;
  alive_ = used_;
}

void Curve::clear_counts(size_t slots) {
  for (auto& level : counts_) {
    std::memset(level.data(), 0, slots * sizeof(uint32_t));
    slots = ceil_div(slots, kFan);
  }
}

void Curve::forget(NamespaceId ns) {
  if (alive_ == 0) return;
  for (size_t at = 0; at <= mask_; ++at) {
    while (entries_[at].slot > forgotten_ && entries_[at].ns == ns) {
      count(entries_[at].slot, -1u);
      erase(at);
      --alive_;
    }
  }
}

void Curve::forget_all() {
  if (alive_ == 0) return;
  alive_ = 0;
  if (slot_ + 1 < counts_[0].size()) {
    forgotten_ = slot_++;
    return;
  }
  std::memset(entries_.data(), 0, (mask_ + 1) * sizeof(Entry));  // once in as many admissions as it has slots
  clear_counts(size_t{slot_} + 1);
  used_ = forgotten_ = 0;
  slot_ = 1;
}

void Curve::halve() {
  until_halving_ = half_life_;
  queries_ /= 2;
  for (Part* part : {&near_, &far_}) {
    part->queries /= 2;
    part->sampled /= 2;
    for (size_t b = 0; b < kBuckets; ++b) part->distances[b] /= 2;
  }
}

void Curve::read(const uint64_t* sizes, size_t num_sizes, double* rates) const {
  const double near_scale = 1 / rate_;
  const double far_scale = far_.sampled == 0 ? 0 : far_.queries / far_.sampled;
  double hits = near_.queries - near_.sampled * near_scale;  // of distance 0
  size_t bucket = 0;
  const auto weight = [&] {
    return near_.distances[bucket] * near_scale + far_.distances[bucket] * far_scale;
  };
  for (size_t i = 0; i < num_sizes; ++i) {
    const size_t last = bucket_of(sizes[i]);
    for (; bucket < last; ++bucket) hits += weight();
    const auto width = static_cast<double>(bucket_begin(last + 1) - bucket_begin(last));
    const auto begin = static_cast<double>(bucket_begin(last));
    const double reached = hits + weight() * (static_cast<double>(sizes[i]) - begin + 1) / width;
    rates[i] = queries_ == 0 || sizes[i] == 0 ? 0 : std::min(1.0, std::max(0.0, reached / queries_));
  }
}

}  // namespace kvc
