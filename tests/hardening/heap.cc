// SPDX-License-Identifier: Apache-2.0
#include "hardening/heap.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KVC_NO_INTERPOSITION 1
#endif
#endif
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KVC_NO_INTERPOSITION 1
#endif

namespace {

std::atomic<int64_t> countdown_{-1}, refused_{0}, live_{0}, calls_{0}, bytes_{0}, peak_{0};
std::atomic<bool> sticky_{false};

#ifndef KVC_NO_INTERPOSITION
bool refuse() {
  if (countdown_.load(std::memory_order_relaxed) < 0) return false;
  if (countdown_.fetch_sub(1) > 0) return false;
  if (sticky_) countdown_ = 0;
  ++refused_;
  errno = ENOMEM;
  return true;
}

void* taken(void* memory) {
  if (memory == nullptr) return nullptr;
  ++live_, ++calls_;
  const int64_t now = bytes_ += static_cast<int64_t>(malloc_usable_size(memory));
  for (int64_t peak = peak_; now > peak && !peak_.compare_exchange_weak(peak, now);) {
  }
  return memory;
}

void given(void* memory) {
  if (memory == nullptr) return;
  --live_;
  bytes_ -= static_cast<int64_t>(malloc_usable_size(memory));
}
#endif

}  // namespace

#ifndef KVC_NO_INTERPOSITION
#define EXPORT __attribute__((visibility("default")))
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);

EXPORT void* malloc(size_t size) { return refuse() ? nullptr : taken(__libc_malloc(size)); }
EXPORT void* calloc(size_t count, size_t size) {
  return refuse() ? nullptr : taken(__libc_calloc(count, size));
}
EXPORT void* realloc(void* memory, size_t size) {
  if (refuse()) return nullptr;
  given(memory);
  void* const result = __libc_realloc(memory, size);
  taken(result != nullptr || size == 0 ? result : memory);
  return result;
}
EXPORT void* memalign(size_t alignment, size_t size) {
  return refuse() ? nullptr : taken(__libc_memalign(alignment, size));
}
EXPORT void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
EXPORT int posix_memalign(void** memory, size_t alignment, size_t size) {
  void* const result = memalign(alignment, size);
  if (result == nullptr) return ENOMEM;
  *memory = result;
  return 0;
}
EXPORT void free(void* memory) {
  given(memory);
  __libc_free(memory);
}
// Large arrays are fresh pages. Parts of them are given back alone, so they do not count as live.
EXPORT void* mmap(void* hint, size_t size, int protection, int flags, int file, off_t offset) noexcept {
  const bool fresh = (flags & MAP_ANONYMOUS) != 0;
  if (fresh && refuse()) return MAP_FAILED;
  void* const memory =
      reinterpret_cast<void*>(syscall(SYS_mmap, hint, size, protection, flags, file, offset));
  if (fresh && memory != MAP_FAILED) ++calls_;
  return memory;
}
}
#endif

namespace kvc::test::heap {

bool is_ours() {
#ifdef KVC_NO_INTERPOSITION
  return false;
#else
  return true;
#endif
}

void fail(int64_t after, bool sticky) { refused_ = 0, sticky_ = sticky, countdown_ = after; }
int64_t stop_failing() {
  countdown_ = -1;
  return refused_;
}
int64_t live() { return live_; }
int64_t calls() { return calls_; }
int64_t bytes() { return bytes_; }
void forget_peak() { peak_.store(bytes_); }
int64_t peak_bytes() { return peak_; }

}  // namespace kvc::test::heap
