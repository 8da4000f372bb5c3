// SPDX-License-Identifier: Apache-2.0
#include "speculation/verify.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"

namespace kvc {
namespace {

constexpr float kUnknown = -1;

void write(const kvc_drafts& drafts, const VerifyWork& work, const kvc_verdict& verdict) {
  for (size_t r = 0; r < drafts.num_requests; ++r) {
    const Draft draft = draft_of(drafts, r);
    for (size_t i = 0; i < draft.size; ++i)
      verdict.path[draft.first + i] = i < work.accepted[r] ? work.path[draft.first + i] : -1;
    verdict.num_accepted[r] = work.accepted[r];
    verdict.next_tokens[r] = work.next_tokens[r];
  }
}

// One request by rejection sampling. `p` is what is left of the target's distribution at the present node.
class Walk {
 public:
  Walk(const Targets& targets, const Draft& draft, float* left)
      : targets_(targets), draft_(draft), left_(left), row_(draft.first_row) {}

  kvc_status run(int32_t* path, uint32_t* accepted, int32_t* next_token) {
    size_t i = 0;
    int64_t at = -1;
    KVC_TRY(targets_.p.read(row_, &p_));
    for (; i < draft_.size; ++i) {
      if (draft_.parent(i) != at) continue;
      bool accepts;
      KVC_TRY(judge(i, &accepts));
      if (!accepts) continue;
      path[(*accepted)++] = static_cast<int32_t>(i);
      at = static_cast<int64_t>(i);
      row_ = draft_.first_row + 1 + i;
      KVC_TRY(targets_.p.read(row_, &p_));
    }
    KVC_TRY(targets_.p.complete(row_, &p_));  // what is left after a rejection is complete
    *next_token = draw(p_, targets_.uniforms[draft_.first_row]);
    return KVC_OK;
  }

 private:
  // Whether node i is accepted; if not, p_ becomes what is left.
  kvc_status judge(size_t i, bool* accepts) {
    const int32_t token = draft_.tokens[i];
    const double u = targets_.uniforms[draft_.first_row + 1 + i];
    const size_t node = draft_.first + i;
    const int64_t q_row = targets_.q.values == nullptr ? -1
                          : targets_.q_rows == nullptr ? static_cast<int64_t>(node)
                                                       : targets_.q_rows[node];
    double q = 1;
    Distribution drawn_from;
    if (q_row >= 0) {
      KVC_TRY(targets_.q.read(static_cast<size_t>(q_row), &drawn_from));
      q = drawn_from.of(token);
      if (!(q > 0)) {
        return invalid(
            "node %zu has token %d, whose probability in row %lld of q is %g: it cannot have been drawn "
            "from that row",
            node, token, static_cast<long long>(q_row), q);
      }
    }
    const double p = p_.of(token);
    if (!(p >= 0)) return invalid("node %zu: the target's probability of token %d is %g", node, token, p);
    *accepts = u * q < p;
    if (*accepts) return KVC_OK;
    const Distribution rest = q_row >= 0 ? subtract(p_, drawn_from, left_) : without(p_, token, left_);
    if (!std::isfinite(rest.total))
      return invalid("node %zu: its row of p or q has values that are not finite; pass the softmax", node);
    if (rest.total > 0) {
      p_ = rest;
      return KVC_OK;
    }
    // p and q are equal but for rounding, which may be all of q(x) where p(x) is 0.
    *accepts = p > 0;
    return *accepts ? KVC_OK : targets_.p.read(row_, &p_);
  }

  const Targets& targets_;
  const Draft draft_;
  float* const left_;
  size_t row_;  // of the present node
  Distribution p_;
};

// One request by typical acceptance.
class Typical {
 public:
  Typical(const Targets& targets, const Draft& draft, double epsilon, double delta)
      : targets_(targets), draft_(draft), epsilon_(epsilon), delta_(delta) {}

  // depths: [nodes] becomes the path.
  kvc_status run(int32_t* depths, float* thresholds, uint32_t* accepted, int32_t* next_token) {
    std::fill_n(thresholds, draft_.size, kUnknown);
    float of_root = kUnknown;
    int64_t best = -1;
    int32_t longest = 0;
    for (size_t i = 0; i < draft_.size; ++i) {
      const int64_t parent = draft_.parent(i);
      const int32_t above = parent < 0 ? 0 : depths[parent];
      depths[i] = -1;  // not accepted; else the length of its path
      if (above < 0) continue;
      bool accepts;
      KVC_TRY(
          judge(i, static_cast<size_t>(parent + 1), parent < 0 ? &of_root : &thresholds[parent], &accepts));
      if (!accepts) continue;
      depths[i] = above + 1;
      if (depths[i] > longest) longest = depths[i], best = static_cast<int64_t>(i);
    }
    *accepted = static_cast<uint32_t>(longest);
    KVC_TRY(read(static_cast<size_t>(best + 1)));
    KVC_TRY(targets_.p.complete(row_, &p_));
    *next_token = draw(p_, targets_.uniforms[draft_.first_row]);
    for (int64_t node = best; node >= 0; node = draft_.parent(static_cast<size_t>(node)))
      depths[--longest] = static_cast<int32_t>(node);
    return KVC_OK;
  }

 private:
  kvc_status read(size_t row) {  // siblings read it once
    if (draft_.first_row + row == row_) return KVC_OK;
    KVC_TRY(targets_.p.read(draft_.first_row + row, &p_));
    row_ = draft_.first_row + row;
    return KVC_OK;
  }
  kvc_status judge(size_t i, size_t row, float* threshold, bool* accepts) {
    KVC_TRY(read(row));
    const double likely = p_.of(draft_.tokens[i]);
    *accepts = likely > epsilon_;
    if (*accepts) return KVC_OK;
    if (*threshold == kUnknown) {
      KVC_TRY(targets_.p.complete(row_, &p_));
      *threshold = static_cast<float>(std::min(epsilon_, delta_ * std::exp(-entropy(p_))));
    }
    *accepts = likely > static_cast<double>(*threshold);
    return KVC_OK;
  }

  const Targets& targets_;
  const Draft draft_;
  const double epsilon_, delta_;
  size_t row_ = SIZE_MAX;
  Distribution p_;
};

}  // namespace

bool VerifyWork::count(const kvc_drafts& drafts, size_t p_width, size_t* units) {
  size_t nodes, requests;
  return checked_mul(num_nodes(drafts), 2, &nodes) && checked_mul(drafts.num_requests, 2, &requests) &&
         checked_add(nodes, requests, units) && checked_add(*units, p_width, units) &&
         *units <= PTRDIFF_MAX / kUnit;
}

VerifyWork::VerifyWork(const kvc_drafts& drafts, size_t p_width, void* memory)
    : left(static_cast<float*>(memory)),
      path(reinterpret_cast<int32_t*>(left + p_width)),
      thresholds(reinterpret_cast<float*>(path + num_nodes(drafts))),
      accepted(reinterpret_cast<uint32_t*>(thresholds + num_nodes(drafts))),
      next_tokens(reinterpret_cast<int32_t*>(accepted + drafts.num_requests)) {}

void verify_greedy(const kvc_drafts& drafts, const int32_t* target_tokens, const kvc_verdict& verdict) {
  for (size_t r = 0; r < drafts.num_requests; ++r) {
    const Draft draft = draft_of(drafts, r);
    int32_t* path = verdict.path + draft.first;
    int64_t at = -1;
    size_t accepted = 0;
    int32_t wanted = target_tokens[draft.first_row];
    for (size_t i = 0; i < draft.size; ++i) {
      if (draft.parent(i) != at || draft.tokens[i] != wanted) continue;
      path[accepted++] = static_cast<int32_t>(i);
      at = static_cast<int64_t>(i);
      wanted = target_tokens[draft.first_row + 1 + i];
    }
    std::fill(path + accepted, path + draft.size, -1);
    verdict.num_accepted[r] = accepted;
    verdict.next_tokens[r] = wanted;
  }
}

kvc_status verify_sampling(const kvc_drafts& drafts, const Targets& targets, VerifyWork work,
                           const kvc_verdict& verdict) {
  for (size_t r = 0; r < drafts.num_requests; ++r) {
    const Draft draft = draft_of(drafts, r);
    work.accepted[r] = 0;
    KVC_TRY(Walk(targets, draft, work.left)
                .run(work.path + draft.first, &work.accepted[r], &work.next_tokens[r]));
  }
  write(drafts, work, verdict);
  return KVC_OK;
}

kvc_status verify_typical(const kvc_drafts& drafts, const Targets& targets, double epsilon, double delta,
                          VerifyWork work, const kvc_verdict& verdict) {
  for (size_t r = 0; r < drafts.num_requests; ++r) {
    const Draft draft = draft_of(drafts, r);
    KVC_TRY(Typical(targets, draft, epsilon, delta)
                .run(work.path + draft.first, work.thresholds + draft.first, &work.accepted[r],
                     &work.next_tokens[r]));
  }
  write(drafts, work, verdict);
  return KVC_OK;
}

}  // namespace kvc
