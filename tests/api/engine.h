// SPDX-License-Identifier: Apache-2.0
// What an engine has of its device's runtime: streams of its own, and graphs. Behind it stands one of two
// files: engine_emulated.cc, or gpu/vendor/engine.cc for programs that run on a GPU. Functions that fail end
// the program.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace kvc::test::engine {

const char* device();  // as kvcache.h names it; NULL: there is none here
void* create_stream();
void destroy_stream(void* stream);
// Whose mistakes end a capture: PyTorch's and so most engines' is of all threads.
enum class Capture { kOfThread, kOfAllThreads };
void begin_capture(void* stream, Capture capture = Capture::kOfThread);
void* end_capture(void* stream);  // a graph; NULL: something could not be captured
uint64_t captured_nodes();        // kernels and copies of the last capture of this thread
void launch_graph(void* graph, void* stream);
void destroy_graph(void* graph);
// From which an emulated device draws the order of all later replays; on a GPU nothing.
void set_seed(uint64_t seed);
// Whether the runtime itself, by its own calls alone, shares memory with another process: one allocates some
// and gives a handle of it, which the other opens. Both return nothing, or what the runtime says against it,
// as it does in containers. Of emulated devices always nothing.
std::string export_own(std::string* handle);
std::string open_exported(const std::string& handle);
// Enqueued by the runtime itself, between memory of the device and pinned memory of the host.
void copy(void* to, const void* from, size_t bytes, void* stream);
// That the device takes for what is enqueued.
double seconds_of(void* stream, const std::function<void()>& enqueue);

}  // namespace kvc::test::engine
