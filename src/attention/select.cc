// SPDX-License-Identifier: Apache-2.0
#include "attention/select.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/isa.h"
#include "attention/places.h"
#include "attention/visibility.h"
#include "base/carver.h"
#include "base/checked.h"
#include "quant/convert.h"

namespace kvc {
namespace {

constexpr uint32_t kQueryRows = 16;  // multiplied with bounds at once
constexpr float kUnbounded = std::numeric_limits<float>::infinity();

// The smallest float16 numbers that are not below x; `rounded` has room for as many floats.
void halves_above(const float* x, uint32_t count, float* rounded, uint16_t* halves) {
  from_float(KVC_FLOAT16, x, halves, count);
  to_float(KVC_FLOAT16, halves, rounded, count);
  for (uint32_t i = 0; i < count; ++i) {
    const int up = (halves[i] & 0x8000) == 0 ? 1 : -1;
    halves[i] = static_cast<uint16_t>(rounded[i] < x[i] ? halves[i] + up : halves[i]);
  }
}

struct Candidate {
  float bound;
  uint32_t column;
  bool operator<(const Candidate& other) const {  // better
    return bound != other.bound ? bound > other.bound : column < other.column;
  }
};

uint32_t bounds_dim(const Layout& layout) { return 2 * layout.k_dim; }
uint32_t padded_dim(const Layout& layout) { return (bounds_dim(layout) + 15) / 16 * 16; }

struct SelectScratch {
  SelectScratch(const AttentionArgs& args, char* memory) {
    uint64_t columns = 0;
    for (size_t r = 0; r < args.num_requests; ++r) {
      columns = std::max(columns, ceil_div(args.kv_lens[r], args.layout->block_size));
    }
    const size_t dim = padded_dim(*args.layout);
    Carver<64> carver(memory);
    carver.take(&candidates, columns);
    carver.take(&q, kQueryRows * dim);
    carver.take(&scores, kQueryRows * kTile);
    carver.take(&padded, dim == bounds_dim(*args.layout) ? 0 : kTile * dim);
    bytes = carver.used();
  }
  Candidate* candidates = nullptr;
  float* q = nullptr;          // [kQueryRows][dim]: positive parts, negative parts
  float* scores = nullptr;     // [kQueryRows][kTile]
  uint16_t* padded = nullptr;  // [kTile][dim], if the caller's rows are too short for the kernels
  size_t bytes;
};

// One request and KV head.
class Selection {
 public:
  Selection(const AttentionArgs& args, const kvc_backend_selection& choice, size_t request, uint32_t head,
            const SelectScratch& scratch)
      : args_(args),
        choice_(choice),
        view_(view_request(args, request)),
        head_(head),
        bits_(choice.block_mask + (request * args.layout->num_heads + head) * choice.block_mask_stride),
        scratch_(scratch) {}

  void run() {
    const uint64_t blocks = ceil_div(static_cast<uint64_t>(view_.kv_len), args_.layout->block_size);
    std::fill_n(bits_, ceil_div(blocks, 8), uint8_t{0});
    if (view_.queries == 0) return;
    const uint64_t kept = find_candidates(), most = most_blocks(kept + count_);
    if (kept + count_ <= most) {  // dense
      for (uint64_t block = 0; block < blocks; ++block) set(block);
    } else if (count_ == 0) {
      return;
    } else if (choice_.threshold != 0) {
      pick_close();
    } else if (most > kept) {
      pick_highest(std::min<uint64_t>(most - kept, count_));
    }
  }

 private:
  // How many of `reached` blocks are picked at most; with a threshold, 0.
  uint64_t most_blocks(uint64_t reached) const {
    if (choice_.ratio == 0) return choice_.top_k;
    return (reached * choice_.ratio + UINT32_MAX) >> 32;  // below 2^31 blocks
  }

  void pick_highest(size_t wanted) {
    Candidate* const first = scratch_.candidates;
    find_bounds();
    std::nth_element(first, first + wanted, first + count_);
    for (size_t i = 0; i < wanted; ++i) set(first[i].column);
  }

  // The scores of a query are computed twice: to find the best, then to compare with it. What is infinite
  // or NaN is picked, and is no measure for others.
  void pick_close() {
    for_each_rows([&](uint32_t rows) {
      float least[kQueryRows];
      std::fill_n(least, kQueryRows, -kUnbounded);
      multiply(rows, [&](Candidate&, uint32_t row, float score) {
        if (score < kUnbounded) least[row] = std::max(least[row], score);
      });
      for (float& score : least) score -= choice_.threshold;
      multiply(rows, [&](const Candidate& candidate, uint32_t row, float score) {
        if (score >= least[row]) set(candidate.column);
      });
    });
  }

  void set(uint64_t block) { bits_[block / 8] = static_cast<uint8_t>(bits_[block / 8] | 1u << block % 8); }

  // Sets the blocks that are always kept, returns their number, and lists the other blocks that a query
  // reaches.
  uint64_t find_candidates() {
    const uint64_t size = args_.layout->block_size;
    const Reach reach = find_reach(args_, view_, 0, view_.queries - 1);
    const uint64_t end = static_cast<uint64_t>(reach.end), sinks = static_cast<uint64_t>(reach.sinks);
    const uint64_t low = std::min(static_cast<uint64_t>(reach.low), end);
    if (end == 0) return 0;
    const int64_t last = reach.end - 1,
                  newest = args_.causal ? std::clamp<int64_t>(view_.start, 0, last) : last;
    const uint64_t recent_end = static_cast<uint64_t>(newest) / size + 1;
    const uint64_t recent = recent_end - std::min(recent_end, std::max<uint64_t>(choice_.recent_blocks, 1));
    uint64_t kept = 0;
    const auto visit = [&](uint64_t begin_block, uint64_t end_block) {
      for (uint64_t block = begin_block; block < end_block; ++block) {
        if (block < choice_.sink_blocks || block >= recent) {
          set(block);
          ++kept;
        } else {
          scratch_.candidates[count_++].column = static_cast<uint32_t>(block);
        }
      }
    };
    const uint64_t sinks_end = ceil_div(sinks, size);
    visit(0, sinks_end);
    visit(std::max(low / size, sinks_end), ceil_div(end, size));
    return kept;
  }

  void find_bounds() {
    for (size_t i = 0; i < count_; ++i) scratch_.candidates[i].bound = -kUnbounded;
    for_each_rows([&](uint32_t rows) {
      multiply(rows, [](Candidate& candidate, uint32_t, float score) {
        candidate.bound = std::max(candidate.bound, score);
      });
    });
  }

  // Calls use(rows) with so many queries loaded.
  template <typename Use>
  void for_each_rows(Use&& use) {
    const uint64_t group = args_.num_q_heads / args_.layout->num_heads, rows = view_.queries * group;
    for (uint64_t row = 0; row < rows; row += kQueryRows) {
      const auto count = static_cast<uint32_t>(std::min<uint64_t>(kQueryRows, rows - row));
      for (uint32_t i = 0; i < count; ++i) load_query((row + i) / group, (row + i) % group, i);
      use(count);
    }
  }

  void load_query(uint64_t query, uint64_t of_group, uint32_t row) {
    const uint32_t dim = args_.layout->k_dim;
    const uint64_t group = args_.num_q_heads / args_.layout->num_heads;
    const uint64_t at =
        (view_.first_token + query) * args_.q_token_stride + (head_ * group + of_group) * args_.q_head_stride;
    float* positive = scratch_.q + size_t{row} * padded_dim(*args_.layout);
    float* negative = positive + dim;
    to_float(args_.q_dtype, static_cast<const char*>(args_.q) + at * dtype_bits(args_.q_dtype) / 8, positive,
             dim);
    hadamard_row(*args_.layout, positive, dim);
    for (uint32_t e = 0; e < dim; ++e) {
      const float x = positive[e] * args_.scale;
      positive[e] = x < 0 ? 0 : x;  // a NaN stays one
      negative[e] = x < 0 ? x : 0;
    }
    std::fill(negative + dim, positive + padded_dim(*args_.layout), 0.0f);
  }

  // The bounds of tile `tile` of the candidates for the kernels; past the last candidate, the last one again.
  void point(size_t tile, uint64_t* rows) {
    const uint32_t dim = bounds_dim(*args_.layout);
    for (size_t t = 0; t < kTile; ++t) {
      const size_t i = std::min(tile * kTile + t, count_ - 1);
      const auto block = static_cast<uint64_t>(view_.table[scratch_.candidates[i].column]);
      rows[t] = address(choice_.bounds + (block * args_.layout->num_heads + head_) * dim);
    }
  }

  // Calls use(candidate, row, score) for all candidates and loaded queries; a NaN score is infinity.
  template <typename Use>
  void multiply(uint32_t rows, Use&& use) {
    const uint32_t dim = bounds_dim(*args_.layout), padded = padded_dim(*args_.layout);
    uint64_t places[2][kTile];
    point(0, places[0]);
    for (size_t tile = 0; tile * kTile < count_; ++tile) {
      const size_t first = tile * kTile, count = std::min<size_t>(kTile, count_ - first);
      uint64_t* now = places[tile % 2];
      uint64_t* next = places[(tile + 1) % 2];
      point(first + kTile < count_ ? tile + 1 : tile, next);
      for (size_t t = 0; dim != padded && t < kTile; ++t) {
        uint16_t* row = scratch_.padded + t * padded;
        std::fill(std::copy_n(reinterpret_cast<const uint16_t*>(static_cast<uintptr_t>(now[t])), dim, row),
                  row + padded, uint16_t{0});
        now[t] = address(row);
      }
      const auto segments = static_cast<uint32_t>(ceil_div(count, kSegment));
      chosen_kernels().row_scores[kF16]({rows, padded, segments, 1, rows, scratch_.q, nullptr, nullptr,
                                         nullptr, nullptr, rows_at(now, nullptr, padded),
                                         rows_at(next, nullptr, padded), scratch_.scores, nullptr});
      for (size_t t = 0; t < count; ++t) {
        for (uint32_t row = 0; row < rows; ++row) {
          const float score = scratch_.scores[row * kTile + t];
          use(scratch_.candidates[first + t], row, std::isnan(score) ? kUnbounded : score);
        }
      }
    }
  }

  const AttentionArgs& args_;
  const kvc_backend_selection& choice_;
  const RequestView view_;
  const uint32_t head_;
  uint8_t* const bits_;
  const SelectScratch& scratch_;
  size_t count_ = 0;  // candidates
};

}  // namespace

void find_key_bounds(const Stored& stored, uint32_t layer, uint64_t block, uint16_t* bounds) {
  const Layout& layout = *stored.layout;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const uint32_t dim = layout.k_dim;
  float row[kMaxRowElements], largest[kMaxRowElements], negated[kMaxRowElements];  // the smallest, negated
  float wrong[kMaxRowElements];
  for (uint32_t head = 0; head < layout.num_heads; ++head, bounds += 2 * dim) {
    std::fill_n(largest, dim, -std::numeric_limits<float>::infinity());
    std::fill_n(negated, dim, -std::numeric_limits<float>::infinity());
    std::fill_n(wrong, dim, 0.0f);
    for (uint32_t token = 0; token < layout.block_size; ++token) {
      read_row(stored, true, layer, block, head, token, dim, row);
      for (uint32_t e = 0; e < dim; ++e) {
        largest[e] = largest[e] < row[e] ? row[e] : largest[e];
        negated[e] = negated[e] < -row[e] ? -row[e] : negated[e];
        wrong[e] += row[e] - row[e];  // NaN from NaN and infinities
      }
    }
    for (uint32_t e = 0; e < dim; ++e) {
      if (std::isnan(wrong[e])) largest[e] = negated[e] = kNaN;
    }
    halves_above(largest, dim, row, bounds);
    halves_above(negated, dim, row, bounds + dim);
    for (uint32_t e = 0; e < dim; ++e) bounds[dim + e] ^= 0x8000;
  }
}

size_t selection_scratch_bytes(const AttentionArgs& args) { return SelectScratch(args, nullptr).bytes; }

void select_blocks(const AttentionArgs& args, const kvc_backend_selection& choice,
                   const ParallelFor& parallel_for, void* scratch) {
  struct Call {
    const AttentionArgs& args;
    const kvc_backend_selection& choice;
    char* scratch;
    size_t worker_bytes;
  } call{args, choice, static_cast<char*>(scratch), selection_scratch_bytes(args)};
  const auto job = [](void* data, size_t i, size_t worker) {
    const Call& c = *static_cast<Call*>(data);
    const SelectScratch own(c.args, c.scratch + worker * c.worker_bytes);
    const size_t heads = c.args.layout->num_heads;
    Selection(c.args, c.choice, i / heads, static_cast<uint32_t>(i % heads), own).run();
  };
  parallel_for.run(parallel_for.context, args.num_requests * args.layout->num_heads, job, &call);
}

}  // namespace kvc
