// SPDX-License-Identifier: Apache-2.0
#include "emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// switch_stack(void** save, void* to): keeps the registers that a call keeps.
extern "C" void kvc_emulator_switch_stack(void** save, void* to);
asm(R"(
.text
.hidden kvc_emulator_switch_stack
.globl kvc_emulator_switch_stack
.type kvc_emulator_switch_stack, @function
kvc_emulator_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size kvc_emulator_switch_stack, . - kvc_emulator_switch_stack
)");
#endif

namespace kvc::gpu::emulator {
namespace {

thread_local Fiber* entered = nullptr;
thread_local void (*entry_of_entered)() = nullptr;

}  // namespace

Fiber::~Fiber() {
  if (stack_ != nullptr) munmap(stack_, kStackBytes);
}

void Fiber::start(void (*entry)()) {
  if (stack_ == nullptr) {
    void* mapped = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) std::abort();
    stack_ = static_cast<char*>(mapped);
  }
  entry_of_entered = entry;
  fresh_ = true;
#if defined(__x86_64__)
  auto* top = reinterpret_cast<uintptr_t*>(stack_ + kStackBytes - offset_);
  *--top = 0;  // at the entry of a function the stack is 8 off a multiple of 16
  *--top = reinterpret_cast<uintptr_t>(&Fiber::first);
  for (int i = 0; i < 6; ++i) *--top = 0;
  own_ = top;
#else
  getcontext(&own_);
  own_.uc_stack.ss_sp = stack_;
  own_.uc_stack.ss_size = kStackBytes;
  own_.uc_link = nullptr;
  makecontext(&own_, &Fiber::first, 0);
#endif
}

void Fiber::first() {
  entered->arrived();
  entry_of_entered();
  std::abort();
}

void Fiber::arrived() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fresh_ ? nullptr : own_shadow_, &caller_stack_, &caller_stack_bytes_);
#endif
  fresh_ = false;
}

void Fiber::enter() {
  Fiber* const before = entered;
  entered = this;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&caller_shadow_, stack_, kStackBytes);
#endif
#if defined(__x86_64__)
  kvc_emulator_switch_stack(&caller_, own_);
#else
  swapcontext(&caller_, &own_);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(caller_shadow_, nullptr, nullptr);
#endif
  entered = before;
}

void Fiber::leave([[maybe_unused]] bool forever) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(forever ? nullptr : &own_shadow_, caller_stack_, caller_stack_bytes_);
#endif
#if defined(__x86_64__)
  kvc_emulator_switch_stack(&own_, caller_);
#else
  swapcontext(&own_, &caller_);
#endif
  arrived();
}

}  // namespace kvc::gpu::emulator
