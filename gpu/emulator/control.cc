// SPDX-License-Identifier: Apache-2.0
#include "emulator/control.h"

#include <utility>

#include "emulator/emulator.h"
#include "emulator/memory.h"
#include "emulator/state.h"
#include "emulator/stream.h"

extern "C" [[gnu::visibility("default")]] const kvc::gpu::Control* kvc_emulated_control() {
  using namespace kvc::gpu;
  using namespace kvc::gpu::runtime;
  static const Control control = {
      [](Failure failure, uint64_t n) {
        Trigger& trigger = state().trigger(failure);
        trigger.at = n == 0 ? 0 : trigger.seen + n;
        if (failure == Failure::kLost) state().lost = false;
      },
      [](Failure failure) -> uint64_t { return state().trigger(failure).seen; },
      [](uint32_t device) -> void* { return new host::Stream(device); },
      [](void* stream) { delete static_cast<host::Stream*>(stream); },
      [](void* stream) { stream_of(stream).hold(); },
      [](void* stream) { stream_of(stream).let_go(); },
      [](void* stream) { stream_of(stream).begin_capture(++state().captures_so_far); },
      [](void* stream) -> void* {
        auto graph = stream_of(stream).end_capture();
        return graph == nullptr ? nullptr : new std::shared_ptr<host::Graph>(std::move(graph));
      },
      [](void* handle, void* stream) {
        const auto graph = *static_cast<std::shared_ptr<host::Graph>*>(handle);
        if (const auto capture = stream_of(stream).point().capture; capture != nullptr) {
          capture->broken = true;  // a graph in a graph, which nobody has needed yet
          return;
        }
        stream_of(stream).enqueue(
            [graph, replay = graph->announce(), seed = state().next_replay()] { graph->run(replay, seed); });
      },
      [](void* graph) { delete static_cast<std::shared_ptr<host::Graph>*>(graph); },
      [](uint64_t seed) {
        emulator::set_seed(seed);
        state().seed = seed;
        state().replays = 0;
      },
      []() -> uint64_t { return state().times_synchronized; },
      []() -> uint32_t { return device_in_use(); },
      [](uint32_t device) { device_in_use() = device; },
      [](uint32_t device) -> uint64_t { return host::bytes_in_use(device); },
  };
  return &control;
}
