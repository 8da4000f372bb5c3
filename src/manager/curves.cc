// SPDX-License-Identifier: Apache-2.0
#include "manager/curves.h"

#include <kvcache/sizing.h>

#include <new>

namespace kvc {

static_assert(kMaxCurves == KVC_MAX_CURVES);

size_t Curves::find(NamespaceId ns) const {
  size_t i = 0;
  while (i < count_ && open_[i].ns != ns) ++i;
  return i;
}

kvc_status Curves::find(NamespaceId ns, const Curve** curve) const {
  const size_t i = find(ns);
  if (i == count_) {
    return fail(KVC_ERROR_NOT_FOUND, "%s no curve; open one with kvc_manager_open_curve",
                ns == kAll ? "all namespaces together have" : "the namespace has");
  }
  *curve = open_[i].curve;
  return KVC_OK;
}

kvc_status Curves::open(Memory& memory, NamespaceId ns, const kvc_curve_config& config) {
  if (find(ns) != count_) {
    return fail(KVC_ERROR_BUSY, "%s a curve already; close it first",
                ns == kAll ? "all namespaces together have" : "the namespace has");
  }
  if (count_ == KVC_MAX_CURVES) {
    return fail(KVC_ERROR_LIMIT, "the manager has %d curves, the most that it can have; close one",
                KVC_MAX_CURVES);
  }
  memory_ = &memory;
  void* place = memory.allocate(sizeof(Curve), alignof(Curve));
  if (place != nullptr) {
    open_[count_++] = {ns, new (place) Curve};
    if (open_[count_ - 1].curve->create(memory, config.max_blocks, config.sample_rate, config.half_life))
      return KVC_OK;
    remove(count_ - 1);
  }
  return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a curve of %llu samples; set max_samples lower",
              ull(Curve::samples_for(config.max_blocks, config.sample_rate)));
}

void Curves::remove(size_t at) {
  Curve* curve = open_[at].curve;
  open_[at] = open_[--count_];
  curve->~Curve();
  memory_->release(curve, sizeof(Curve), alignof(Curve));
}

kvc_status Curves::read(NamespaceId ns, const uint64_t* sizes, size_t num_sizes, double* rates) const {
  const Curve* curve = nullptr;
  KVC_TRY(find(ns, &curve));
  for (size_t i = 0; i < num_sizes; ++i) {
    if (sizes[i] > curve->max_blocks()) {
      return invalid("num_blocks[%zu] is %llu; the curve goes up to %llu, its max_blocks", i, ull(sizes[i]),
                     ull(curve->max_blocks()));
    }
    if (i != 0 && sizes[i] < sizes[i - 1]) {
      return invalid("num_blocks[%zu] is %llu after %llu; give the sizes in ascending order", i,
                     ull(sizes[i]), ull(sizes[i - 1]));
    }
  }
  curve->read(sizes, num_sizes, rates);
  return KVC_OK;
}

kvc_status Curves::info(NamespaceId ns, kvc_curve_info* info) const {
  const Curve* curve = nullptr;
  KVC_TRY(find(ns, &curve));
  info->sample_rate = curve->rate();
  info->max_samples = curve->max_samples();
  info->max_blocks = curve->max_blocks();
  info->half_life = curve->half_life();
  info->queries = curve->queries();
  info->sampled = curve->sampled();
  info->num_samples = curve->num_samples();
  info->bytes = curve->bytes() + sizeof(Curve);
  return KVC_OK;
}

void Curves::admit(const Request& request, size_t readable, bool publishes) {
  if (request.known == 0) return;
  const Curve::Admission admission{request.hashes.data,
                                   request.num_hashes,
                                   (request.known - 1) / request.block_size,
                                   readable,
                                   request.published,
                                   publishes,
                                   request.ns};
  for (size_t i = 0; i < count_; ++i) {
    if (open_[i].ns == request.ns || open_[i].ns == kAll) open_[i].curve->admit(admission);
  }
}

void Curves::forget(NamespaceId ns) {
  for (size_t i = 0; i < count_; ++i) {
    if (ns == kAll || open_[i].ns == ns) {
      open_[i].curve->forget_all();
    } else if (open_[i].ns == kAll) {
      open_[i].curve->forget(ns);
    }
  }
}

}  // namespace kvc
