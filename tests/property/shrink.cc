// SPDX-License-Identifier: Apache-2.0
// Delta debugging by deletion: whole operations first, then items of steps and tokens at the end of texts.
#include "property/shrink.h"

#include <chrono>
#include <functional>

#include "property/world.h"

namespace {

// What an error is about: the letters of its first two lines, so that shrinking does not wander off to
// another one.
std::string subject(const std::string& error) {
  std::string out;
  for (char c : error.substr(0, error.find('\n', error.find('\n') + 1)))
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) out += c;
  return out;
}

}  // namespace

Failure replay(const Setup& setup, const std::vector<Op>& ops, uint64_t hash_mask) {
  World world(setup, 2, hash_mask);
  Failure out;
  for (const Op& op : ops) {
    const Verdict verdict = world.apply(op, true);
    if (verdict.skipped) continue;
    out.ops.push_back(op);
    out.error = verdict.error.empty() ? world.compare_all() : verdict.error;
    if (!out.error.empty()) return out;
  }
  out.ops.clear();
  return out;
}

Failure shrink(const Setup& setup, const Failure& failure, uint64_t hash_mask, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  const auto late = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds;
  };
  Failure best = replay(setup, failure.ops, hash_mask);
  if (best.error.empty()) return failure;
  const std::string wanted =
      subject(best.error);  // checked after each operation, it may fail earlier than before
  const auto better = [&](const std::vector<Op>& ops) {
    const Failure tried = replay(setup, ops, hash_mask);
    if (tried.error.empty() || subject(tried.error) != wanted) return false;
    best = tried;
    return true;
  };
  for (bool smaller = true; smaller && !late();) {
    smaller = false;
    for (size_t length = best.ops.size() / 2; length > 0 && !late(); length /= 2)
      for (size_t end = best.ops.size(); end > 0 && !late();) {
        const size_t begin = end > length ? end - length : 0;
        std::vector<Op> ops = best.ops;
        ops.erase(ops.begin() + static_cast<ptrdiff_t>(begin), ops.begin() + static_cast<ptrdiff_t>(end));
        if (better(ops)) smaller = true;
        end = std::min(begin, best.ops.size());
      }
    // What one deletion cannot do two can: a block taken here and given back there.
    for (size_t i = 0; !smaller && i < best.ops.size() && !late(); ++i)
      for (size_t j = i + 1; j < best.ops.size() && !late(); ++j) {
        std::vector<Op> ops = best.ops;
        ops.erase(ops.begin() + static_cast<ptrdiff_t>(j));
        ops.erase(ops.begin() + static_cast<ptrdiff_t>(i));
        if (better(ops)) smaller = true;
      }
    for (size_t i = 0; i < best.ops.size() && !late(); ++i) {
      const auto edit = [&](const std::function<bool(Op&)>& change) {
        std::vector<Op> ops = best.ops;
        if (i < ops.size() && change(ops[i]) && better(ops)) smaller = true;
      };
      const auto without = [&](auto member) {
        for (size_t k = 0; i < best.ops.size() && k < (best.ops[i].step.in.*member).size();) {
          const size_t before = (best.ops[i].step.in.*member).size();
          edit([&](Op& op) {
            return (op.step.in.*member).erase((op.step.in.*member).begin() + static_cast<ptrdiff_t>(k)), true;
          });
          if (i < best.ops.size() && (best.ops[i].step.in.*member).size() == before) ++k;
        }
      };
      without(&model::StepIn::frees), without(&model::StepIn::preempts);
      without(&model::StepIn::truncates), without(&model::StepIn::requests);
      edit([](Op& op) {
        if (op.step.in.admissions.empty()) return false;
        return op.step.in.admissions.pop_back(), op.step.makes.pop_back(), true;
      });
      edit([](Op& op) {
        if (op.text.tokens.empty() || op.kind == Kind::kPublish) return false;
        op.text.tokens.pop_back();
        std::erase_if(op.text.spans, [&](auto& s) { return s.first + s.count > op.text.tokens.size(); });
        return true;
      });
      edit([](Op& op) { return op.text.spans.empty() ? false : (op.text.spans.clear(), true); });
      edit([](Op& op) {
        model::Options plain;
        plain.ns = op.options.ns;
        const bool differs = op.options.max_cached || op.options.external || op.options.slots ||
                             op.options.lookahead || op.options.flags || op.options.drop_tail ||
                             op.options.headroom || op.options.cross;
        return differs ? (op.options = plain, true) : false;
      });
    }
  }
  return best;
}
