// SPDX-License-Identifier: Apache-2.0
// The features of requests that a manager may have. Code that is common to all requests calls a hook of all
// of them (feature.h) at once; a manager that has none passes over it by one test, decided at its creation.
#pragma once
#include <tuple>

#include "manager/cross.h"
#include "manager/fills.h"
#include "manager/headroom.h"
#include "manager/heads.h"
#include "manager/hints.h"
#include "manager/states.h"

namespace kvc {

class Features {
 public:
  explicit Features(const RequestPart& part) : list_(part, part, part, part, part, part) {
    each_of(list_, [&](const auto& feature) { any_ = any_ || feature.on(); });
  }
  [[nodiscard]] bool create(Memory& memory) {
    return all([&](auto& feature) { return feature.create(memory); });
  }
  bool any() const { return any_; }

  template <typename Kind>
  Kind& get() {
    return std::get<Kind>(list_);
  }
  template <typename Kind>
  const Kind& get() const {
    return std::get<Kind>(list_);
  }

  // Calls hook(feature) for those that the manager has, one after the other.
  template <typename Hook>
  void each(Hook&& hook) {
    if (any_) [[unlikely]]
      each_of(list_, [&](auto& feature) { feature.on() ? hook(feature) : void(); });
  }
  template <typename Hook>
  void each(Hook&& hook) const {
    if (any_) [[unlikely]]
      each_of(list_, [&](const auto& feature) { feature.on() ? hook(feature) : void(); });
  }
  // The same until one is not OK; and until one is false.
  template <typename Hook>
  kvc_status try_each(Hook&& hook) {
    kvc_status status = KVC_OK;
    each([&](auto& feature) { status = status == KVC_OK ? hook(feature) : status; });
    return status;
  }
  template <typename Hook>
  kvc_status try_each(Hook&& hook) const {
    kvc_status status = KVC_OK;
    each([&](const auto& feature) { status = status == KVC_OK ? hook(feature) : status; });
    return status;
  }
  template <typename Hook>
  bool all(Hook&& hook) {
    bool result = true;
    each([&](auto& feature) { result = result && hook(feature); });
    return result;
  }

 private:
  template <typename List, typename Visit>
  static void each_of(List& list, Visit&& visit) {
    std::apply([&](auto&... features) { (visit(features), ...); }, list);
  }

  bool any_ = false;
  // The order is that of hooks: it decides digests, which refusal comes first, and the order of allocations.
  std::tuple<Cross, Hints, Fills, States, Headroom, Heads> list_;
};

}  // namespace kvc
