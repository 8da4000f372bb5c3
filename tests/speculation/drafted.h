// SPDX-License-Identifier: Apache-2.0
// Drafts for tests: arrays that grow node by node, with what a verification reads and writes.
#pragma once
#include <kvcache/speculation.h>

#include <initializer_list>
#include <vector>

#include "property/random.h"

namespace kvc::test {

// A number in [0, 1).
inline double uniform(Random& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53; }

inline int32_t draw_plainly(const std::vector<float>& row, double u) {
  double sum = 0, total = 0;
  for (const float x : row) total += static_cast<double>(x);
  for (size_t i = 0; i < row.size(); ++i)
    if ((sum += static_cast<double>(row[i])) > u * total) return static_cast<int32_t>(i);
  return static_cast<int32_t>(row.size() - 1);
}

struct Drafted {
  std::vector<uint64_t> offsets{0};
  std::vector<int32_t> tokens, parents;
  bool chains = false;  // parents are not passed

  void end_request() { offsets.push_back(tokens.size()); }
  int32_t node(int32_t token, int32_t parent) {
    tokens.push_back(token), parents.push_back(parent);
    return static_cast<int32_t>(tokens.size() - offsets.back()) - 1;
  }
  size_t requests() const { return offsets.size() - 1; }
  size_t rows() const { return tokens.size() + requests(); }
  kvc_drafts c() const {
    return {sizeof(kvc_drafts), requests(), offsets.data(), tokens.data(), chains ? nullptr : parents.data()};
  }
};

struct Verdict {
  explicit Verdict(const Drafted& of)
      : path(of.tokens.size(), -7), num_accepted(of.requests(), 77), next_tokens(of.requests(), -7) {}
  std::vector<int32_t> path;
  std::vector<uint64_t> num_accepted;
  std::vector<int32_t> next_tokens;
  kvc_verdict c() { return {sizeof(kvc_verdict), path.data(), num_accepted.data(), next_tokens.data()}; }
  bool operator==(const Verdict& other) const {
    return path == other.path && num_accepted == other.num_accepted && next_tokens == other.next_tokens;
  }
};

}  // namespace kvc::test
