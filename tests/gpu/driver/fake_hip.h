// SPDX-License-Identifier: Apache-2.0
// HIP's runtime as libamdhip64, with one device whose memory is the host's and whose kernels cannot be
// launched: enough for all that the backend asks of the runtime beside them. What no device would accept is
// an error. fake_hip_alive() counts what was not given back.
#pragma once
#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace fake {

constexpr uint64_t kMemory = uint64_t{1} << 30, kGranularity = uint64_t{2} << 20;

struct Piece {
  size_t bytes;
  hipMemoryType type;
  bool managed, registered;
};
struct State {
  std::mutex mutex;
  std::map<char*, Piece> pieces;      // what the device reaches
  std::map<char*, size_t> addresses;  // reserved
  std::map<char*, hipMemGenericAllocationHandle_t> mapped;
  uint64_t used = 0;
  int streams = 0, events = 0, chunks = 0, imports = 0;
};
State& state();

extern thread_local hipError_t last;

inline hipError_t result(hipError_t error) { return error == hipSuccess ? error : last = error; }
inline hipError_t require(bool good) { return result(good ? hipSuccess : hipErrorInvalidValue); }

// The piece that holds all of these bytes. With the lock.
const Piece* find(const void* memory, size_t bytes);

template <typename Handle>
hipError_t make(Handle* handle, int* count) {
  const std::lock_guard lock(state().mutex);
  *handle = reinterpret_cast<Handle>(new char);
  ++*count;
  return hipSuccess;
}
template <typename Handle>
hipError_t drop(Handle handle, int* count) {
  const std::lock_guard lock(state().mutex);
  delete reinterpret_cast<char*>(handle);
  --*count;
  return require(handle != nullptr);
}

}  // namespace fake
