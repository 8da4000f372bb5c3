// SPDX-License-Identifier: Apache-2.0
// The device of the engine tests by a vendor's runtime.
#include "api/engine.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gpu/vendor/vendor.h"

namespace kvc::test::engine {
namespace {

void require(KVC_VENDOR(Error_t) error, const char* what) {
  if (error == KVC_VENDOR(Success)) return;
  std::fprintf(stderr, "%s: %s\n", what, KVC_VENDOR(GetErrorString)(error));
  std::abort();
}

thread_local size_t nodes = 0;

KVC_VENDOR(Stream_t) native(void* stream) { return static_cast<KVC_VENDOR(Stream_t)>(stream); }

}  // namespace

const char* device() {
  int count = 0;
  return KVC_VENDOR(GetDeviceCount)(&count) == KVC_VENDOR(Success) && count > 0 ? KVC_VENDOR_DEVICE : nullptr;
}

void* create_stream() {
  KVC_VENDOR(Stream_t) stream;
  require(KVC_VENDOR(StreamCreateWithFlags)(&stream, KVC_VENDOR(StreamNonBlocking)), "StreamCreateWithFlags");
  return stream;
}
void destroy_stream(void* stream) { require(KVC_VENDOR(StreamDestroy)(native(stream)), "StreamDestroy"); }

void begin_capture(void* stream, Capture capture) {
  const auto mode = capture == Capture::kOfAllThreads ? KVC_VENDOR(StreamCaptureModeGlobal)
                                                      : KVC_VENDOR(StreamCaptureModeThreadLocal);
  require(KVC_VENDOR(StreamBeginCapture)(native(stream), mode), "StreamBeginCapture");
}

void* end_capture(void* stream) {
  KVC_VENDOR(Graph_t) graph = nullptr;
  if (KVC_VENDOR(StreamEndCapture)(native(stream), &graph) != KVC_VENDOR(Success) || graph == nullptr) {
    static_cast<void>(KVC_VENDOR(GetLastError)());  // it was reported here
    return nullptr;
  }
  require(KVC_VENDOR(GraphGetNodes)(graph, nullptr, &nodes), "GraphGetNodes");
  KVC_VENDOR(GraphExec_t) made;
  require(KVC_VENDOR(GraphInstantiateWithFlags)(&made, graph, 0), "GraphInstantiate");
  require(KVC_VENDOR(GraphDestroy)(graph), "GraphDestroy");
  return made;
}

uint64_t captured_nodes() { return nodes; }

void launch_graph(void* graph, void* stream) {
  require(KVC_VENDOR(GraphLaunch)(static_cast<KVC_VENDOR(GraphExec_t)>(graph), native(stream)),
          "GraphLaunch");
}
void destroy_graph(void* graph) {
  require(KVC_VENDOR(GraphExecDestroy)(static_cast<KVC_VENDOR(GraphExec_t)>(graph)), "GraphExecDestroy");
}

void set_seed(uint64_t) {}

namespace {

std::string text_of(KVC_VENDOR(Error_t) error, const char* what) {
  if (error == KVC_VENDOR(Success)) return {};
  static_cast<void>(KVC_VENDOR(GetLastError)());  // it was reported here
  return std::string(what) + ": " + KVC_VENDOR(GetErrorString)(error) + " (error " +
         std::to_string(static_cast<int>(error)) + ")";
}

}  // namespace

std::string export_own(std::string* handle) {
  static void* memory = nullptr;  // it lives as long as the other process may look at it
  KVC_VENDOR(IpcMemHandle_t) native;
  if (memory == nullptr) require(KVC_VENDOR(Malloc)(&memory, size_t{1} << 20), "Malloc");
  std::string problem = text_of(KVC_VENDOR(IpcGetMemHandle)(&native, memory), "IpcGetMemHandle");
  if (problem.empty()) handle->assign(reinterpret_cast<const char*>(&native), sizeof native);
  return problem;
}

std::string open_exported(const std::string& handle) {
  KVC_VENDOR(IpcMemHandle_t) native;
  if (handle.size() != sizeof native) return "a handle of " + std::to_string(handle.size()) + " bytes";
  std::memcpy(&native, handle.data(), sizeof native);
  void* memory = nullptr;
  std::string problem =
      text_of(KVC_VENDOR(IpcOpenMemHandle)(&memory, native, KVC_VENDOR(IpcMemLazyEnablePeerAccess)),
              "IpcOpenMemHandle");
  if (problem.empty()) problem = text_of(KVC_VENDOR(Memset)(memory, 0, 1), "Memset");
  if (problem.empty()) problem = text_of(KVC_VENDOR(DeviceSynchronize)(), "DeviceSynchronize");
  return problem;
}

void copy(void* to, const void* from, size_t bytes, void* stream) {
  require(KVC_VENDOR(MemcpyAsync)(to, from, bytes, KVC_VENDOR(MemcpyDefault), native(stream)), "MemcpyAsync");
}

double seconds_of(void* stream, const std::function<void()>& enqueue) {
  KVC_VENDOR(Event_t) first, last;
  for (KVC_VENDOR(Event_t) * event : {&first, &last}) require(KVC_VENDOR(EventCreate)(event), "EventCreate");
  require(KVC_VENDOR(EventRecord)(first, native(stream)), "EventRecord");
  enqueue();
  require(KVC_VENDOR(EventRecord)(last, native(stream)), "EventRecord");
  require(KVC_VENDOR(EventSynchronize)(last), "EventSynchronize");
  float milliseconds = 0;
  require(KVC_VENDOR(EventElapsedTime)(&milliseconds, first, last), "EventElapsedTime");
  for (KVC_VENDOR(Event_t) event : {first, last}) require(KVC_VENDOR(EventDestroy)(event), "EventDestroy");
  return milliseconds / 1e3;
}

}  // namespace kvc::test::engine
