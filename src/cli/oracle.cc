// SPDX-License-Identifier: Apache-2.0
// The oracle checks every id: one outside the pool is a wrong hit or a wrong write, never an access.
#include "cli/oracle.h"

#include <algorithm>
#include <limits>

namespace kvcli {
namespace {

/// Extends a chain by one token. Not the hash of the library; never 0.
uint64_t extend_chain(uint64_t chain, int32_t token) {
  uint64_t x = (chain ^ static_cast<uint32_t>(token)) * 0xD6E8FEB86659FD93u;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
  return (x ^ (x >> 32)) | 1;
}

constexpr uint64_t kEmptyChain = 0x6B76636163686521u;

}  // namespace

Oracle::Oracle(uint64_t num_blocks, uint32_t block_size, bool real_bytes)
    : num_blocks_(num_blocks),
      block_size_(block_size),
      memory_(real_bytes ? make_storage_memory(num_blocks, block_size)
                         : make_array_memory(num_blocks, block_size)),
      holders_(num_blocks) {}

void Oracle::admit(uint32_t request, std::span<const int32_t> tokens, uint64_t num_cached,
                   std::span<const int32_t> table) {
  Request& state = live_[request];
  state.chains.clear();
  uint64_t chain = kEmptyChain;
  for (const int32_t token : tokens) state.chains.push_back(chain = extend_chain(chain, token));
  state.table.assign(table.begin(), table.end());
  state.num_cached = std::min<uint64_t>(num_cached, tokens.size());
  for (const int32_t block : table) {
    if (known_block(block)) ++holders_[static_cast<size_t>(block)];
  }

  const bool right =
      num_cached < tokens.size() && num_cached % block_size_ == 0 && missing(state, num_cached) == 0;
  if (!right) ++wrong_hits_;
}

void Oracle::write_uncached(uint32_t request) {
  const Request& state = live_.at(request);
  write(state, state.num_cached, state.chains.size());
}

void Oracle::extend(uint32_t request, int32_t token, int64_t slot) {
  Request& state = live_.at(request);
  const size_t position = state.chains.size();
  const int64_t block = slot < 0 ? -1 : slot / block_size_;
  if (position % block_size_ == 0) {
    state.table.push_back(block > std::numeric_limits<int32_t>::max() ? -1 : static_cast<int32_t>(block));
    if (known_block(state.table.back())) ++holders_[static_cast<size_t>(state.table.back())];
  }
  state.chains.push_back(extend_chain(state.chains.back(), token));
  const int64_t expected =
      int64_t{state.table.back()} * block_size_ + static_cast<int64_t>(position % block_size_);
  if (slot == expected) {
    write(state, position, position + 1);
  } else {
    ++wrong_writes_;
  }
}

void Oracle::release(uint32_t request, std::span<const int32_t> table) {
  const auto found = live_.find(request);
  const Request& state = found->second;
  if (!std::equal(table.begin(), table.end(), state.table.begin(), state.table.end())) ++wrong_writes_;
  wrong_writes_ += missing(state, state.chains.size());
  for (const int32_t block : state.table) {
    if (known_block(block)) --holders_[static_cast<size_t>(block)];
  }
  live_.erase(found);
}

int64_t Oracle::slot_of(const Request& request, size_t position) const {
  if (position / block_size_ >= request.table.size()) return -1;
  const int32_t block = request.table[position / block_size_];
  if (!known_block(block)) return -1;
  return int64_t{block} * block_size_ + static_cast<int64_t>(position % block_size_);
}

uint64_t Oracle::missing(const Request& request, size_t end) {
  uint64_t lost = 0;
  slots_.clear();
  expected_.clear();
  for (size_t i = 0; i < end; ++i) {
    const int64_t slot = slot_of(request, i);
    lost += slot < 0;
    if (slot < 0) continue;
    slots_.push_back(slot);
    expected_.push_back(request.chains[i]);
  }
  values_.resize(slots_.size());
  memory_->read(slots_, values_);
  for (size_t i = 0; i < slots_.size(); ++i) lost += values_[i] != expected_[i];
  return lost;
}

void Oracle::write(const Request& request, size_t begin, size_t end) {
  slots_.clear();
  values_.clear();
  for (size_t i = begin; i < end; ++i) {
    const int64_t slot = slot_of(request, i);
    if (slot < 0 || holders_[static_cast<size_t>(slot / block_size_)] != 1) {
      ++wrong_writes_;
      continue;
    }
    slots_.push_back(slot);
    values_.push_back(request.chains[i]);
  }
  memory_->write(slots_, values_);
}

}  // namespace kvcli
