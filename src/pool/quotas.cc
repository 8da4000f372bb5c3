// SPDX-License-Identifier: Apache-2.0
#include "pool/quotas.h"

namespace kvc {

bool Quotas::create(Memory& memory, uint32_t max_quotas, const BlockPool& pool) {
  if (max_quotas == 0) return true;
  num_classes_ = max_quotas + 1;
  num_pools_ = pool.num_pools();
  if (!shares_.create(memory, num_classes_ * num_pools_) || !tenants_.create(memory, num_classes_) ||
      !classes_.create(memory, pool.num_ids()) || !payers_.create(memory, pool.num_ids())) {
    return false;
  }
  for (size_t i = 0; i < shares_.size(); ++i) shares_[i].max = kNoMaximum;
  for (size_t p = 0; p < num_pools_; ++p) above_[p] = 1;
  tenants_[0].taken = true;
  return true;
}

uint64_t Quotas::minimums(size_t pool) const {
  uint64_t sum = 0;
  for (uint32_t cls = 0; cls < num_classes_; ++cls) sum += share(cls, pool).min;
  return sum;
}

uint64_t Quotas::room_after_fences(ClassIndex cls, size_t pool, uint64_t available, uint64_t kept) const {
  uint64_t others = 0, left = 0;
  for (uint32_t c = 0; c < num_classes_; ++c) {
    Share s = share(c, pool);
    const uint64_t settling = c == cls ? s.fenced - kept : s.fenced;
    available += settling;
    s.held -= settling;
    if (c == cls) {
      left = s.left();
    } else {
      others += s.unmet();
    }
  }
  const uint64_t rest = available > others ? available - others : 0;
  return rest < left ? rest : left;
}

void Quotas::give(BlockId id, size_t pool, ClassIndex cls, uint64_t payer, List list) {
  const auto move_out = [&](Share& s) {
    if (list == List::kLru) {
      --s.cached;
    } else {
      --s.held;
      s.fenced -= list == List::kFenced;
    }
  };
  const auto move_in = [&](Share& s) {
    if (list == List::kLru) {
      ++s.cached;
    } else {
      ++s.held;
      s.fenced += list == List::kFenced;
    }
  };
  change(class_of(id), pool, move_out);
  change(cls, pool, move_in);
  classes_[static_cast<size_t>(raw(id))] = static_cast<uint8_t>(cls);
  payers_[static_cast<size_t>(raw(id))] = payer;
}

uint32_t Quotas::unused_class() const {
  for (uint32_t cls = 1; cls < num_classes_; ++cls) {
    if (!tenants_[cls].taken) return cls;
  }
  return 0;
}

void Quotas::begin(ClassIndex cls, NamespaceId ns, uint64_t admitted) {
  tenants_[cls] = {true, ns, admitted, 0, 0};
  tenants_[0].admitted -= admitted;
}

void Quotas::end(ClassIndex cls) {
  tenants_[0].admitted += tenants_[cls].admitted;
  tenants_[cls] = {};
  for (size_t p = 0; p < num_pools_; ++p) {
    set_limits(cls, p, 0, kNoMaximum);
    at(cls, p).refusals = 0;
  }
}

}  // namespace kvc
