// SPDX-License-Identifier: Apache-2.0
// The device of the engine tests that the emulator gives.
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "api/device.h"
#include "api/engine.h"

namespace kvc::test::engine {

namespace {
thread_local uint64_t before = 0, nodes = 0;
uint64_t launches() { return control()->num_occasions(gpu::Failure::kLaunch); }
}  // namespace

// The one that reads no ordinary host memory.
const char* device() { return control() == nullptr ? nullptr : "emulated:1"; }
void* create_stream() { return control()->create_stream(1); }
void destroy_stream(void* stream) { control()->destroy_stream(stream); }
void begin_capture(void* stream, Capture) {  // of all threads
  before = launches();
  control()->begin_capture(stream);
}
void* end_capture(void* stream) {
  nodes = launches() - before;
  return control()->end_capture(stream);
}
uint64_t captured_nodes() { return nodes; }
void launch_graph(void* graph, void* stream) { control()->launch_graph(graph, stream); }
void destroy_graph(void* graph) { control()->destroy_graph(graph); }
std::string export_own(std::string*) { return {}; }
std::string open_exported(const std::string&) { return {}; }
void set_seed(uint64_t seed) { control()->set_seed(seed); }

// All memory is the host's: behind what was enqueued before, at once.
void copy(void* to, const void* from, size_t bytes, void* stream) {
  static_cast<void>(seconds_of(stream, [] {}));
  std::memcpy(to, from, bytes);
}

double seconds_of(void* stream, const std::function<void()>& enqueue) {
  kvc_stream* adopted = nullptr;
  if (kvc_stream_adopt(device(), stream, 0, &adopted) != KVC_OK) std::abort();
  const auto start = std::chrono::steady_clock::now();
  enqueue();
  if (kvc_stream_synchronize(adopted) != KVC_OK) std::abort();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  kvc_stream_destroy(adopted);
  return seconds.count();
}

}  // namespace kvc::test::engine
