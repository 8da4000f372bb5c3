// SPDX-License-Identifier: Apache-2.0
#include "attention/isa.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace kvc {
namespace {

// KVC_PORTABLE_KERNELS: the portable ones alone are built.
#if defined(__x86_64__) && !defined(KVC_PORTABLE_KERNELS)
#define KVC_WIDE_KERNELS
#endif

std::atomic<const Kernels*> forced{nullptr};

constexpr const Kernels* kAll[] = {  // best first; the last one runs everywhere
#ifdef KVC_WIDE_KERNELS
    &kAmxKernels, &kAvx512Bf16Kernels, &kAvx512Kernels, &kAvx2Kernels,
#endif
    &kScalarKernels};

#ifdef KVC_WIDE_KERNELS
// Linux gives a process the tile registers when it asks for them; it saves them only for threads that used
// them.
bool may_use_amx() {
  constexpr unsigned kAmx = 1u << 22 | 1u << 24 | 1u << 25;  // of EDX: for bf16, tiles, for bytes
  unsigned a, b, c, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAmx) != kAmx) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

bool runs_here([[maybe_unused]] const Kernels& kernels) {
#ifdef KVC_WIDE_KERNELS
  if (&kernels == &kScalarKernels) return true;
  unsigned a, b, c = 0, d;  // not every compiler's builtin knows F16C
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_F16C) == 0) return false;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return false;
  if (&kernels == &kAvx2Kernels) return true;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return false;
  }
  if (&kernels == &kAvx512Kernels) return true;
  if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512vnni")) return false;
  return &kernels == &kAvx512Bf16Kernels || may_use_amx();
#else
  return true;
#endif
}

}  // namespace

const Kernels* available_kernels(size_t i) {
  for (const Kernels* kernels : kAll) {
    if (runs_here(*kernels) && i-- == 0) return kernels;
  }
  return nullptr;
}

const Kernels& best_kernels(const char* limit) {
  const auto is_limit = [&](const Kernels* kernels) { return std::strcmp(kernels->name, limit) == 0; };
  auto from = limit != nullptr ? std::find_if(std::begin(kAll), std::end(kAll), is_limit) : std::end(kAll);
  if (from == std::end(kAll)) from = std::begin(kAll);
  return **std::find_if(from, std::end(kAll), [](const Kernels* kernels) { return runs_here(*kernels); });
}

const Kernels& chosen_kernels() {
  static const Kernels& best = best_kernels(secure_getenv("KVC_KERNELS"));
  const Kernels* const other = forced.load(std::memory_order_relaxed);
  return other != nullptr ? *other : best;
}

void force_kernels(const Kernels* kernels) { forced.store(kernels, std::memory_order_relaxed); }

}  // namespace kvc
