// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "api/engine.h"

namespace kvc::test::engine {
namespace {

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::abort();
}

cudaStream_t native(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

const char* device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0 ? "cuda:0" : nullptr;
}

void* create_stream() {
  cudaStream_t stream;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream;
}
void destroy_stream(void* stream) { require(cudaStreamDestroy(native(stream)), "cudaStreamDestroy"); }

void begin_capture(void* stream) {
  require(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

void* end_capture(void* stream) {
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(native(stream), &graph) != cudaSuccess || graph == nullptr) {
    cudaGetLastError();  // it was reported here
    return nullptr;
  }
  cudaGraphExec_t made;
  require(cudaGraphInstantiate(&made, graph, 0), "cudaGraphInstantiate");
  require(cudaGraphDestroy(graph), "cudaGraphDestroy");
  return made;
}

void launch_graph(void* graph, void* stream) {
  require(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), native(stream)), "cudaGraphLaunch");
}
void destroy_graph(void* graph) {
  require(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)), "cudaGraphExecDestroy");
}

double seconds_of(void* stream, const std::function<void()>& enqueue) {
  cudaEvent_t first, last;
  for (cudaEvent_t* event : {&first, &last}) require(cudaEventCreate(event), "cudaEventCreate");
  require(cudaEventRecord(first, native(stream)), "cudaEventRecord");
  enqueue();
  require(cudaEventRecord(last, native(stream)), "cudaEventRecord");
  require(cudaEventSynchronize(last), "cudaEventSynchronize");
  float milliseconds = 0;
  require(cudaEventElapsedTime(&milliseconds, first, last), "cudaEventElapsedTime");
  for (cudaEvent_t event : {first, last}) require(cudaEventDestroy(event), "cudaEventDestroy");
  return milliseconds / 1e3;
}

}  // namespace kvc::test::engine
