// SPDX-License-Identifier: Apache-2.0
// How tests control emulated devices: failures on demand, an engine's own streams, capture and replay.
// Besides its entry, the emulated backend exports one function that returns this table.
#pragma once
#include <cstdint>

namespace kvc::gpu {

enum class Failure : int32_t {
  kAllocate,  // out of memory, the next allocation of device or pinned memory, or mapping
  kLaunch,    // the next kernel or copy is refused
  kLost       // from the next call on, every one fails
};

struct Control {
  // The failure happens at the n-th occasion from now, 1 = the next; 0 = never, and a lost device works
  // again.
  void (*fail)(Failure failure, uint64_t n);
  uint64_t (*num_occasions)(Failure failure);  // so far

  // Streams of the runtime, to be adopted. A stream that is held does nothing until it is released.
  void* (*create_stream)(uint32_t device);
  void (*destroy_stream)(void* stream);
  void (*hold)(void* stream);
  void (*let_go)(void* stream);
  void (*begin_capture)(void* stream);
  // A graph; nullptr: something in it could not be captured, or a stream that took part was not joined.
  void* (*end_capture)(void* stream);
  // Each replay draws its order among all that are allowed: emulator/graph.h.
  void (*launch_graph)(void* graph, void* stream);
  void (*destroy_graph)(void* graph);
  void (*set_seed)(uint64_t seed);  // of all later replays and kernels
  uint64_t (*num_synchronized)();   // calls so far that made the host wait

  uint32_t (*current_device)();
  void (*set_device)(uint32_t device);
  uint64_t (*bytes_in_use)(uint32_t device);  // device memory, mapped chunks included
};

}  // namespace kvc::gpu

#define KVC_EMULATED_CONTROL "kvc_emulated_control"
extern "C" const kvc::gpu::Control* kvc_emulated_control();
