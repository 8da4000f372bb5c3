// SPDX-License-Identifier: Apache-2.0
// Prepares a worker's queries for the kernels: as floats, as pairs of bf16, or as pairs of integers.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "attention/worker.h"
#include "base/checked.h"
#include "quant/convert.h"

namespace kvc {

uint32_t* Worker::pairs_of(const Piece& piece, size_t head, uint32_t row) const {
  if (use_pairs_ == Pairs::kDigits) {
    const size_t rows = size_t{ceil_div(piece.rows, 8u)} * 8;
    return scratch_.pairs + (head * rows + row) * shape_.k_dim / 2;
  }
  const size_t terms = use_pairs_ == Pairs::kNone ? kMaxTerms : 2, row_words = shape_.k_dim / 2;
  return scratch_.pairs + (head * piece.rows * terms + row) * row_words;
}

// Splits queries into two bf16 terms, 16 bits of a float. Returns whether the first one is exact.
bool Worker::split_pairs(const float* q, uint32_t rows, uint32_t* pairs) {
  const size_t count = size_t{rows} * shape_.k_dim;
  auto* high = reinterpret_cast<char*>(pairs);
  char* low = high + count * sizeof(uint16_t);
  from_float(KVC_BFLOAT16, q, high, count);
  float rest[64];
  bool exact = true;
  for (size_t i = 0; i < count; i += std::size(rest)) {
    const size_t n = std::min(std::size(rest), count - i);
    to_float(KVC_BFLOAT16, high + i * sizeof(uint16_t), rest, n);
    for (size_t j = 0; j < n; ++j) {
      rest[j] = q[i + j] - rest[j];
      exact &= rest[j] == 0;
    }
    from_float(KVC_BFLOAT16, rest, low + i * sizeof(uint16_t), n);
  }
  return exact;
}

// The largest magnitude; infinite or NaN if an element is. Bits of magnitudes have the same order as
// integers, whose maximum the compiler vectorizes.
float largest_of(const float* x, size_t count) {
  int32_t bits = 0;
  for (size_t i = 0; i < count; ++i) bits = std::max(bits, std::bit_cast<int32_t>(x[i]) & 0x7fffffff);
  return std::bit_cast<float>(bits);
}

// Row r in the form of ScoreArgs::q_digits.
void split_digits(const int16_t* x, uint32_t dim, uint32_t r, int8_t* digits) {
  int8_t* to = digits + size_t{r / 8} * dim * 16 + r % 8 / 4 * 32 + r % 4 * 4;
  for (uint32_t e = 0; e < dim; e += 4, x += 4, to += 64) {
    for (uint32_t i = 0; i < 4; ++i) {
      to[i] = static_cast<int8_t>((x[i] + 128) >> 8);
      to[16 + i] = static_cast<int8_t>(x[i] & 0xff);
    }
  }
}

// Rounds rows of q to integers; `first` is the first one's number in the piece.
void Worker::load_integers(const float* q, size_t first, uint32_t rows, uint32_t* to) {
  const bool digits = use_pairs_ == Pairs::kDigits;
  const float most = digits ? 127 * 256 + 127 : 32767;
  int16_t row[kMaxIntegerDim];
  for (uint32_t r = 0; r < rows; ++r, q += shape_.k_dim) {
    int16_t* pairs = digits ? row : reinterpret_cast<int16_t*>(to) + size_t{r} * shape_.k_dim;
    const float largest = largest_of(q, shape_.k_dim);
    const bool finite = largest <= std::numeric_limits<float>::max();
    const float unit = finite ? largest / most : std::numeric_limits<float>::quiet_NaN();
    const float inverse = unit > 0 ? 1 / unit : 0;
    int32_t sum = 0;
    for (uint32_t e = 0; e < shape_.k_dim; ++e) {
      const auto x = static_cast<int32_t>(finite ? q[e] * inverse + std::copysign(0.5f, q[e]) : 0);
      pairs[e] = static_cast<int16_t>(x);
      sum += x;
    }
    if (digits) split_digits(row, shape_.k_dim, r, reinterpret_cast<int8_t*>(to));
    scratch_.units[first + r] = unit;
    scratch_.sums[first + r] = static_cast<float>(sum) * unit;
  }
}

void Worker::load_queries(const Piece& piece) {
  const uint32_t dim = args_.layout->k_dim;
  const size_t row_bytes = size_t{dim} * dtype_bits(args_.q_dtype) / 8;
  // Queries that are pairs already. Kernels of plain rows need dim % 32 == 0 to read pairs.
  const bool as_pairs = use_pairs_ == Pairs::kBf16 && args_.q_dtype == KVC_BFLOAT16 && dim == shape_.k_dim &&
                        (shape_.k_source == Source::kTiles || dim % 32 == 0);
  bool exact = true;
  uint32_t most = 1;
  for (uint32_t h = 0; h < piece.heads; ++h) {
    float* q = scratch_.q + size_t{h} * piece.rows * shape_.k_dim;
    uint32_t* pairs = pairs_of(piece, h, 0);
    for_each_row(piece, h, [&](uint32_t row, RowPlace at, RowPlace ahead) {
      const char* const fetched = query_at(ahead);
      for (size_t i = 0; i < row_bytes; i += 64) __builtin_prefetch(fetched + i);
      if (h == 0)
        scratch_.positions[row] = piece.view.start + static_cast<int64_t>(at.token - piece.view.first_token);
      if (args_.alibi_slopes != nullptr) scratch_.slopes[h * piece.rows + row] = args_.alibi_slopes[at.head];
      if (as_pairs) {
        std::memcpy(pairs + size_t{row} * dim / 2, query_at(at), row_bytes);
        return;
      }
      float* const floats = q + size_t{row} * shape_.k_dim;
      to_float(args_.q_dtype, query_at(at), floats, dim);
      hadamard_row(*args_.layout, floats, dim);
      std::fill(floats + dim, floats + shape_.k_dim, 0.0f);
    });
    if (as_pairs) continue;
    if (use_pairs_ == Pairs::kBf16) {
      exact &= split_pairs(q, piece.rows, pairs);
    } else if (use_pairs_ != Pairs::kNone) {
      load_integers(q, size_t{h} * piece.rows, piece.rows, pairs);
    } else if (runs_) {
      const size_t count = size_t{piece.rows} * shape_.k_dim;
      const uint32_t terms = kernels_->pack_queries(q, piece.rows, shape_.k_dim, pairs, count / 2);
      runs_ = terms != 0;
      most = std::max(most, terms);
    }
  }
  terms_ = use_pairs_ == Pairs::kNone ? most : exact ? 1 : 2;
}

}  // namespace kvc
