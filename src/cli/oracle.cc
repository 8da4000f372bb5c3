// SPDX-License-Identifier: Apache-2.0
// Whatever the library answers, the oracle stays in its own bounds: an id outside the pool is a wrong hit or
// a wrong write, never an access.
#include "cli/oracle.h"

#include <algorithm>
#include <limits>
#include <new>

namespace kvcli {
namespace {

/// The chain of a prefix and one more token; any good mixer but the library's. Never 0.
uint64_t extend_chain(uint64_t chain, int32_t token) {
  uint64_t x = (chain ^ static_cast<uint32_t>(token)) * 0xD6E8FEB86659FD93u;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
  return (x ^ (x >> 32)) | 1;
}

constexpr uint64_t kEmptyChain = 0x6B76636163686521u;

}  // namespace

Oracle::Oracle(uint64_t num_blocks, uint32_t block_size)
    : num_blocks_(num_blocks),
      block_size_(block_size),
      memory_(static_cast<uint64_t*>(std::calloc(num_blocks * block_size, sizeof(uint64_t)))),
      holders_(num_blocks) {
  if (memory_ == nullptr) throw std::bad_alloc();
}

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

  bool right = num_cached < tokens.size() && num_cached % block_size_ == 0;
  for (size_t i = 0; right && i < num_cached; ++i) right = holds(state, i);
  if (!right) ++wrong_hits_;
}

void Oracle::write_uncached(uint32_t request) {
  const Request& state = live_.at(request);
  for (size_t i = state.num_cached; i < state.chains.size(); ++i) write(state, i);
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
    write(state, position);
  } else {
    ++wrong_writes_;
  }
}

void Oracle::release(uint32_t request, std::span<const int32_t> table) {
  const auto found = live_.find(request);
  const Request& state = found->second;
  if (!std::equal(table.begin(), table.end(), state.table.begin(), state.table.end())) ++wrong_writes_;
  for (size_t i = 0; i < state.chains.size(); ++i) {
    if (!holds(state, i)) ++wrong_writes_;
  }
  for (const int32_t block : state.table) {
    if (known_block(block)) --holders_[static_cast<size_t>(block)];
  }
  live_.erase(found);
}

bool Oracle::holds(const Request& request, size_t position) const {
  if (position / block_size_ >= request.table.size()) return false;
  const int32_t block = request.table[position / block_size_];
  if (!known_block(block)) return false;
  return memory_[static_cast<uint64_t>(block) * block_size_ + position % block_size_] ==
         request.chains[position];
}

void Oracle::write(const Request& request, size_t position) {
  const int32_t block =
      position / block_size_ < request.table.size() ? request.table[position / block_size_] : -1;
  if (!known_block(block) || holders_[static_cast<size_t>(block)] != 1) {
    ++wrong_writes_;
    return;
  }
  memory_[static_cast<uint64_t>(block) * block_size_ + position % block_size_] = request.chains[position];
}

}  // namespace kvcli
