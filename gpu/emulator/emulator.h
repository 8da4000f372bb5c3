// SPDX-License-Identifier: Apache-2.0
// Runs kernels on the CPU, so that tests need no GPU: block by block, each thread a fiber. It is made to find
// mistakes, not to be fast:
// - blocks, and the threads between two barriers, run in an order drawn from a seed: a missing barrier shows
//   as a wrong result under one of a few seeds;
// - shared memory is filled with NaNs before each block and stands between guards;
// - an asynchronous copy arrives when it is waited for, and until then its target holds NaNs;
// - threads that come to different barriers, or end while others wait, are a fault;
// - guarded memory ends where a page begins that nobody may touch.
// A fault is handed to the handler, which by default prints it and aborts. Launches run one after the other
// in each thread of the system; several threads may launch at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>

namespace kvc::gpu {

namespace emulator {
struct Index {
  uint32_t x = 0, y = 0, z = 0;
};
}  // namespace emulator

// Where the running thread of a kernel is.
extern constinit thread_local emulator::Index threadIdx, blockIdx, blockDim, gridDim;

}  // namespace kvc::gpu

namespace kvc::gpu::emulator {

struct LaunchConfig {
  Index grid;
  uint32_t threads;
  uint32_t wave;  // threads that step together
  size_t shared_bytes;
};
constexpr size_t kMaxSharedBytes = size_t{227} << 10;  // of a block, of both kinds together
constexpr uint32_t kMaxThreads = 1024;

// Runs `thread` for all threads of all blocks. Returns an error code: 0, or 1 = the configuration is refused,
// as a runtime would; nothing was run.
int launch(const LaunchConfig& config, void* stream, std::function<void()> thread);

// How launches run; `work` may be called later, by any thread. nullptr: at once. The result is that of
// launch().
using Enqueue = int (*)(void* stream, std::function<void()> work);
void set_enqueue(Enqueue enqueue);

void set_seed(uint64_t seed);  // of all later launches
// Is mixed into the seeds of later launches by this thread of the system, so that a launch that a graph
// replays draws another order. 0 = nothing.
void set_replay(uint64_t seed);
using FaultHandler = void (*)(const std::string& what);
FaultHandler set_fault_handler(FaultHandler handler);  // returns the last one; nullptr = print and abort

// Memory between pages that must not be touched; aligned to 256 if `bytes` is a multiple of that, else to 16,
// with the last byte in front of the page, and no page is taken before it is touched. nullptr: there is none.
void* allocate_guarded(size_t bytes);
void free_guarded(void* memory, size_t bytes);

// ---- for emulator/intrinsics.h: called by threads of a kernel ----

using Place = std::source_location;

void sync_block(const Place& place);
// Hands in `bytes` bytes, at most kMaxExchange, and returns those of all lanes of the wave, kMaxExchange
// apart.
constexpr size_t kMaxExchange = 64;
const unsigned char* exchange(const void* mine, size_t bytes, const Place& place);
// The block's variable with this key: the same memory for all threads.
void* shared_variable(const void* key, size_t bytes, size_t alignment);
void* dynamic_shared();
// The first `valid` of `bytes` bytes are copied, the others become 0.
void copy_async(void* to, const void* from, size_t bytes, size_t valid);
void commit_async();
void wait_async(size_t groups);  // until at most that many are on their way
[[noreturn]] void fault(const char* what);

}  // namespace kvc::gpu::emulator
