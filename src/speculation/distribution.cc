// SPDX-License-Identifier: Apache-2.0
#include "speculation/distribution.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kvc {
namespace {

constexpr double kTolerance = 1e-3;
constexpr size_t kRowPiece = 1024, kRun = 128, kLanes = 16;

struct Sum {
  double total = 0;
  bool signs = false;  // a value has a sign: it may be below 0. A NaN is in the total
};

// Explicit vectors, because GCC does not vectorise the sums otherwise.
typedef float Floats __attribute__((vector_size(16)));
typedef int32_t Bits __attribute__((vector_size(16)));
typedef uint32_t Words __attribute__((vector_size(16)));  // Bits whose arithmetic wraps
constexpr size_t kWidth = sizeof(Floats) / sizeof(float);

Floats four_at(const float* values) {
  Floats four;
  std::memcpy(&four, values, sizeof four);
  return four;
}

// Adds kRun values in floats, then their sums in doubles: the error is below 1e-6 of the sum, and it takes as
// long as the memory does. four(i) gives values i .. i + 3, one(i) value i.
template <typename Four, typename One>
Sum sum_of(size_t size, Four&& four, One&& one) {
  Sum sum;
  Bits bits = {};
  size_t i = 0;
  for (; i + kRun <= size; i += kRun) {
    Floats lanes[kLanes / kWidth] = {};
    for (size_t j = i; j < i + kRun; j += kLanes) {
      for (size_t l = 0; l < kLanes / kWidth; ++l) {
        const Floats values = four(j + l * kWidth);
        lanes[l] += values;
        bits |= reinterpret_cast<Bits>(values);
      }
    }
    const Floats all = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    for (size_t l = 0; l < kWidth; ++l) sum.total += static_cast<double>(all[l]);
  }
  for (; i < size; ++i) {
    const float value = one(i);
    sum.total += static_cast<double>(value);
    sum.signs |= std::signbit(value);
  }
  for (size_t l = 0; l < kWidth; ++l) sum.signs |= bits[l] < 0;
  return sum;
}

Sum sum_all(const float* values, size_t size) {
  return sum_of(
      size, [&](size_t i) { return four_at(values + i); }, [&](size_t i) { return values[i]; });
}

// Natural logarithms: x is m * 2^e with m within sqrt(1/2) .. sqrt(2), and ln(m) is
// 2 artanh((m - 1) / (m + 1)), a series of a small number. Finite for 0 and -0. Right to 1e-6.
Floats logarithm(Floats x) {
  constexpr uint32_t kRoot = 0x3f3504f3, kMantissa = 23;  // bits of sqrt(1/2)
  const auto bits = reinterpret_cast<Words>(x);
  const Bits e = reinterpret_cast<Bits>(bits - kRoot) >> kMantissa;
  const auto m = reinterpret_cast<Floats>(bits - (reinterpret_cast<Words>(e) << kMantissa));
  const Floats s = (m - 1) / (m + 1), t = s * s;
  return __builtin_convertvector(e, Floats) * 0.693147181f +
         2 * s * (1 + t * (1 / 3.0f + t * (1 / 5.0f + t * (1 / 7.0f))));
}

size_t find(const int32_t* ids, size_t size, int32_t token) {
  const int32_t* at = std::lower_bound(ids, ids + size, token);
  return at != ids + size && *at == token ? static_cast<size_t>(at - ids) : size;
}

[[gnu::cold]] kvc_status refuse(const ProbabilityRows& rows, size_t row, const Distribution& d,
                                double total) {
  for (size_t i = 0; i < d.size; ++i) {
    if (d.values[i] >= 0 && d.values[i] <= static_cast<float>(1 + kTolerance)) continue;
    return invalid("row %zu of %s: the probability of token %d is %g; probabilities are 0 .. 1", row,
                   rows.name, d.token(i), static_cast<double>(d.values[i]));
  }
  return invalid(
      "row %zu of %s sums to %.6g; the probabilities of a row sum to 1 within %g: pass the softmax", row,
      rows.name, total, kTolerance);
}

// Entries of a row with ids, which must rise.
kvc_status count_ids(const ProbabilityRows& rows, size_t row, const int32_t* ids, size_t* size) {
  size_t i = 0;
  int32_t last = -1;
  for (; i < rows.width && ids[i] != -1; last = ids[i++]) {
    if (ids[i] > last && static_cast<uint32_t>(ids[i]) < rows.vocab) continue;
    return invalid("row %zu of %s_ids: entry %zu is %d after %d; ids rise and are below vocab, %u", row,
                   rows.name, i, ids[i], last, rows.vocab);
  }
  *size = i;
  return KVC_OK;
}

bool has_negative(const Distribution& d) {
  return std::any_of(d.values, d.values + d.size, [](float value) { return value < 0; });
}

}  // namespace

double Distribution::of(int32_t token) const {
  const size_t i = ids != nullptr ? find(ids, size, token) : static_cast<size_t>(token);
  return i < size ? static_cast<double>(values[i]) * scale() : 0;
}

kvc_status ProbabilityRows::read(size_t row, Distribution* out) const {
  Distribution made = {values + row * width, nullptr, width, 0};
  if (ids != nullptr) {
    made.ids = ids + row * width;
    KVC_TRY(count_ids(*this, row, made.ids, &made.size));
  }
  if (!trusted || ids != nullptr) KVC_TRY(complete(row, &made));
  *out = made;
  return KVC_OK;
}

kvc_status ProbabilityRows::complete(size_t row, Distribution* d) const {
  if (d->total != 0) return KVC_OK;
  const Sum sum = sum_all(d->values, d->size);
  if (!(std::abs(sum.total - 1) <= kTolerance) || (sum.signs && has_negative(*d)))
    return refuse(*this, row, *d, sum.total);
  d->total = sum.total;
  return KVC_OK;
}

Distribution subtract(const Distribution& from, const Distribution& q, float* values) {
  const auto a = static_cast<float>(from.scale()), b = static_cast<float>(q.scale());
  const auto leave = [&](size_t i, float other) {
    const float left = from.values[i] * a - other * b;
    return values[i] = left > 0 ? left : 0;
  };
  Distribution rest = {values, from.ids, from.size, 0};
  if (q.ids == nullptr && from.ids == nullptr) {
    const auto four = [&](size_t i) {
      Floats left = four_at(from.values + i) * a - four_at(q.values + i) * b;
      left = reinterpret_cast<Floats>((left > 0) & reinterpret_cast<Bits>(left));
      std::memcpy(values + i, &left, sizeof left);
      return left;
    };
    rest.total = sum_of(from.size, four, [&](size_t i) { return leave(i, q.values[i]); }).total;
    return rest;
  }
  size_t j = 0;
  for (size_t i = 0; i < from.size; ++i) {
    const int32_t token = from.token(i);
    while (q.ids != nullptr && j < q.size && q.ids[j] < token) ++j;
    leave(i, q.ids == nullptr ? q.values[token] : j < q.size && q.ids[j] == token ? q.values[j] : 0.0f);
  }
  rest.total = sum_all(values, from.size).total;
  return rest;
}

Distribution without(const Distribution& from, int32_t token, float* values) {
  if (values != from.values) std::memcpy(values, from.values, from.size * sizeof *values);
  const size_t i = from.ids != nullptr ? find(from.ids, from.size, token) : static_cast<size_t>(token);
  if (i < from.size) values[i] = 0;
  return {values, from.ids, from.size, sum_all(values, from.size).total};
}

int32_t draw(const Distribution& from, double u) {
  const double wanted = u * from.total;
  double sum = 0;
  size_t last = 0;
  for (size_t begin = 0; begin < from.size; begin += kRowPiece) {
    const size_t end = std::min(begin + kRowPiece, from.size);
    const double piece = sum_all(from.values + begin, end - begin).total;
    if (sum + piece <= wanted && end < from.size) {
      sum += piece;
      if (piece > 0) last = begin;  // where to look if rounding leaves nothing behind it
      continue;
    }
    for (size_t i = begin; i < end; ++i) {
      sum += static_cast<double>(from.values[i]);
      if (sum > wanted && from.values[i] > 0) return from.token(i);
    }
    for (size_t i = end; i > last; --i)
      if (from.values[i - 1] > 0) return from.token(i - 1);
  }
  return from.token(last);
}

double entropy(const Distribution& from) {
  const auto four = [&](size_t i) {
    const Floats values = four_at(from.values + i);
    return values * logarithm(values);
  };
  const auto one = [&](size_t i) { return from.values[i] * logarithm(Floats{from.values[i]})[0]; };
  return std::log(from.total) - sum_of(from.size, four, one).total / from.total;
}

}  // namespace kvc
