// SPDX-License-Identifier: Apache-2.0
#include "cli/optimal.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <vector>

namespace kvcli {
namespace {

/// The blocks of all prompts, numbered by content.
class Accesses {
 public:
  Accesses(const Trace& trace, uint64_t num_blocks, uint32_t block_size) {
    for (const TraceRequest& request : trace.requests) {
      prompt_tokens_ += request.input_length;
      const uint64_t tokens = uint64_t{request.input_length} + request.num_outputs();
      if ((tokens + block_size - 1) / block_size <= num_blocks) add(trace, request, block_size);
    }
  }
  size_t size() const { return blocks_.size(); }
  uint32_t operator[](size_t i) const { return blocks_[i]; }
  size_t num_blocks() const { return numbers_.size(); }
  uint64_t prompt_tokens() const { return prompt_tokens_; }

 private:
  /// The ids under a block, and all before it, say what it holds.
  void add(const Trace& trace, const TraceRequest& request, uint32_t block_size) {
    const uint64_t* ids = trace.hash_ids.data() + request.first_hash_id;
    uint64_t chain = 0;
    for (uint64_t j = 0; j < (request.input_length - 1) / block_size; ++j) {
      const uint64_t last = ((j + 1) * block_size - 1) / trace.tokens_per_hash_id;
      for (uint64_t id = j * block_size / trace.tokens_per_hash_id; id <= last; ++id)
        chain = splitmix64(chain ^ splitmix64(ids[id]));
      blocks_.push_back(numbers_.try_emplace(chain, static_cast<uint32_t>(numbers_.size())).first->second);
    }
  }

  std::vector<uint32_t> blocks_;
  std::unordered_map<uint64_t, uint32_t> numbers_;
  uint64_t prompt_tokens_ = 0;
};

/// For each access the next one of the same block; accesses.size() if there is none.
std::vector<size_t> next_accesses(const Accesses& accesses) {
  std::vector<size_t> next(accesses.size());
  std::vector<size_t> seen(accesses.num_blocks(), accesses.size());
  for (size_t i = accesses.size(); i-- > 0;) {
    next[i] = seen[accesses[i]];
    seen[accesses[i]] = i;
  }
  return next;
}

}  // namespace

double optimal_hit_rate(const Trace& trace, uint64_t num_blocks, uint32_t block_size) {
  const Accesses accesses(trace, num_blocks, block_size);
  const std::vector<size_t> next = next_accesses(accesses);
  std::vector<bool> cached(accesses.num_blocks());
  std::priority_queue<size_t> coming;  // Next accesses of cached blocks; past ones sink to its end.
  uint64_t num_cached = 0, hits = 0;
  for (size_t i = 0; i < accesses.size(); ++i) {
    const uint32_t block = accesses[i];
    if (cached[block]) {
      ++hits;
      --num_cached;
    }
    cached[block] = next[i] != accesses.size();
    if (!cached[block]) continue;
    coming.push(next[i]);
    if (++num_cached <= num_blocks) continue;
    cached[accesses[coming.top()]] = false;
    coming.pop();
    --num_cached;
  }
  return static_cast<double>(hits * block_size) /
         static_cast<double>(std::max<uint64_t>(accesses.prompt_tokens(), 1));
}

}  // namespace kvcli
