// SPDX-License-Identifier: Apache-2.0
// The miss-ratio curves of a manager: none until they are opened. Used under the manager's lock.
#pragma once
#include "base/memory.h"
#include "base/status.h"
#include "request/request.h"
#include "sizing/curve.h"

struct kvc_curve_config;
struct kvc_curve_info;

namespace kvc {

inline constexpr size_t kMaxCurves = 64;  // KVC_MAX_CURVES

class Curves {
 public:
  static constexpr uint32_t kAll = UINT32_MAX;  // all namespaces together

  Curves() = default;
  Curves(const Curves&) = delete;
  Curves& operator=(const Curves&) = delete;
  ~Curves() {
    while (count_ != 0) remove(count_ - 1);
  }

  bool empty() const { return count_ == 0; }
  // `config` is complete.
  kvc_status open(Memory& memory, NamespaceId ns, const kvc_curve_config& config);
  kvc_status close(NamespaceId ns) {
    const Curve* curve = nullptr;
    KVC_TRY(find(ns, &curve));
    remove(find(ns));
    return KVC_OK;
  }
  kvc_status read(NamespaceId ns, const uint64_t* sizes, size_t num_sizes, double* rates) const;
  kvc_status info(NamespaceId ns, kvc_curve_info* info) const;

  // The first admission of a request, which could have hit `readable` positions.
  void admit(const Request& request, size_t readable, bool publishes);
  // Positions that a request publishes behind its prompt.
  void grow(NamespaceId ns, const uint64_t* keys, size_t num_keys) {
    for (size_t i = 0; i < count_; ++i) {
      if (open_[i].ns == ns || open_[i].ns == kAll) open_[i].curve->grow(keys, num_keys, ns);
    }
  }
  // A namespace has lost its cached positions; kAll: every one has.
  void forget(NamespaceId ns);
  // The namespace is closed.
  void drop(NamespaceId ns) {
    if (find(ns) != count_) remove(find(ns));
    forget(ns);
  }

 private:
  struct Open {
    NamespaceId ns;
    Curve* curve;
  };
  size_t find(NamespaceId ns) const;
  kvc_status find(NamespaceId ns, const Curve** curve) const;
  void remove(size_t at);

  Memory* memory_ = nullptr;
  size_t count_ = 0;
  Open open_[kMaxCurves] = {};
};

}  // namespace kvc
