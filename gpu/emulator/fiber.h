// SPDX-License-Identifier: Apache-2.0
// Threads of an emulated block: stacks that one thread of the system switches between. A test tool.
#pragma once
#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace kvc::gpu::emulator {

class Fiber {
 public:
  // Stacks of neighbouring indices begin in different lines of a cache.
  explicit Fiber(size_t index) : offset_(index % 64 * 128) {}
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void start(void (*entry)());  // entry never returns: it ends with leave(true)
  void enter();                 // until it leaves
  void leave(bool forever);     // called on the fiber's own stack

 private:
  static constexpr size_t kStackBytes = size_t{256} << 10;

  const size_t offset_;
  char* stack_ = nullptr;
#if defined(__x86_64__)
  void* own_ = nullptr;  // stack pointers of who is not running
  void* caller_ = nullptr;
#else
  ucontext_t own_ = {}, caller_ = {};
#endif
  // Of the address sanitizer.
  void* own_shadow_ = nullptr;
  void* caller_shadow_ = nullptr;
  const void* caller_stack_ = nullptr;
  size_t caller_stack_bytes_ = 0;
  bool fresh_ = false;

  static void first();
  void arrived();
};

}  // namespace kvc::gpu::emulator
