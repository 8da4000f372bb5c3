// SPDX-License-Identifier: Apache-2.0
// Lengths and reuse distances are drawn from quantile tables of the conversation trace that Mooncake
// published (FAST'25). A request either starts a conversation or continues an earlier request; then its
// prompt repeats that prompt's full hash blocks. About 37 % of all blocks repeat an earlier one. Only
// integers, without <random> and libm, so a seed gives the same trace on every platform. Invariants: ids are
// dense, id 0 starts every prompt, an id always follows the same id.
#include "cli/generate.h"

#include <algorithm>
#include <span>

namespace kvcli {
namespace {

constexpr uint32_t kWhole = 100'000;  // Shares in quantile tables are parts of this.
constexpr uint32_t kContinuePercent = 52;
constexpr int kCandidates = 14;  // A continuation takes the longest that fits of so many earlier requests.
constexpr uint64_t kMeanGapMs = 294;
constexpr uint64_t kTimestampStepMs = 3000;

struct Quantile {
  uint32_t share;
  uint32_t value;
};

constexpr Quantile kInputLength[] = {
    {0, 891},        {2'000, 896},    {5'000, 901},    {10'000, 964},   {20'000, 1662},   {30'000, 3263},
    {40'000, 4993},  {50'000, 6909},  {60'000, 9570},  {70'000, 13196}, {80'000, 17869},  {85'000, 21467},
    {90'000, 27367}, {95'000, 39552}, {98'000, 66425}, {99'000, 85401}, {99'500, 100886}, {kWhole, 126195}};
constexpr Quantile kOutputLength[] = {{0, 1},        {5'000, 10},    {10'000, 24},   {20'000, 100},
                                      {30'000, 213}, {40'000, 291},  {50'000, 350},  {60'000, 399},
                                      {70'000, 447}, {80'000, 504},  {90'000, 597},  {95'000, 698},
                                      {98'000, 891}, {99'000, 1120}, {99'500, 1570}, {kWhole, 2000}};
constexpr Quantile kReuseDistance[] = {{0, 5},         {2'000, 62},    {10'000, 141},  {20'000, 204},
                                       {30'000, 257},  {40'000, 324},  {50'000, 423},  {60'000, 550},
                                       {70'000, 757},  {80'000, 1087}, {90'000, 1660}, {95'000, 2129},
                                       {98'000, 3491}, {kWhole, 10000}};

class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(splitmix64(seed)) {}

  void append(Trace& trace) {
    const size_t index = trace.requests.size();
    TraceRequest request{};
    request.timestamp_ms = index * kMeanGapMs / kTimestampStepMs * kTimestampStepMs;
    request.input_length = draw(kInputLength);
    request.output_length = draw(kOutputLength);
    request.first_hash_id = trace.hash_ids.size();

    const uint32_t needed = trace.num_hash_ids(request);
    const TraceRequest* earlier = continued_request(trace, request.input_length);
    const uint32_t shared = earlier != nullptr ? earlier->input_length / kTokensPerHashId : 0;
    for (uint32_t i = 0; i < shared; ++i)
      trace.hash_ids.push_back(trace.hash_ids[earlier->first_hash_id + i]);
    if (shared == 0) trace.hash_ids.push_back(0);  // Every prompt starts with it.
    for (uint32_t i = std::max(shared, 1u); i < needed; ++i) trace.hash_ids.push_back(next_id_++);
    trace.requests.push_back(request);
  }

 private:
  uint64_t below(uint64_t bound) { return splitmix64(state_++) % bound; }

  uint32_t draw(std::span<const Quantile> table) {
    const auto share = static_cast<uint32_t>(below(kWhole));
    size_t i = 1;
    while (share >= table[i].share) ++i;
    const Quantile low = table[i - 1], high = table[i];
    const uint64_t rise = high.value - low.value;
    return low.value + static_cast<uint32_t>(rise * (share - low.share) / (high.share - low.share));
  }

  /// The earlier request whose prompt and answer this prompt repeats, or null for a new conversation.
  const TraceRequest* continued_request(const Trace& trace, uint32_t input_length) {
    const size_t count = trace.requests.size();
    if (count == 0 || below(100) >= kContinuePercent) return nullptr;
    const TraceRequest* best = nullptr;
    for (int i = 0; i < kCandidates; ++i) {
      uint64_t distance = draw(kReuseDistance);
      if (distance > count) distance = 1 + below(count);
      const TraceRequest& candidate = trace.requests[count - distance];
      const bool fits = uint64_t{candidate.input_length} + candidate.output_length < input_length;
      if (fits && (best == nullptr || candidate.input_length > best->input_length)) best = &candidate;
    }
    return best;
  }

  uint64_t state_;
  uint64_t next_id_ = 1;
};

}  // namespace

Trace generate_trace(uint64_t num_requests, uint64_t seed) {
  Trace trace;
  Generator generator(seed);
  for (uint64_t i = 0; i < num_requests; ++i) generator.append(trace);
  return trace;
}

}  // namespace kvcli
