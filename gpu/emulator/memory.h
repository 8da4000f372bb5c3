// SPDX-License-Identifier: Apache-2.0
// Memory of emulated devices: between pages that must not be touched, filled with garbage, counted, and
// limited. Thread-safe. Errors are those of runtime.cc.
#pragma once
#include <cstdint>

namespace kvc::gpu::host {

enum class Kind : uint32_t { kDevice, kPinned, kRegistered, kImported, kReserved, kManaged };

inline constexpr uint64_t kDeviceBytes = uint64_t{1} << 30;  // of each device
inline constexpr uint64_t kChunkBytes = uint64_t{2} << 20;   // granularity of mapped memory

// nullptr: there is no memory.
void* allocate(uint32_t device, Kind kind, uint64_t bytes);
bool release(void* memory, Kind kind);     // false: there is no such memory
bool adopt(void* memory, uint64_t bytes);  // registered; false: a part of it is known already
// Whether the device can read it without access to ordinary host memory.
bool is_known(uint32_t device, const void* memory);
bool is_managed(const void* memory);
// Whether a copy may read or write it: all of it lies in one piece of memory, or in none.
bool is_one_piece(const void* memory, uint64_t bytes);
uint64_t bytes_in_use(uint32_t device);

bool share(void* memory, unsigned char* handle);  // for another process; false: it is no device's
void* import(uint32_t device, const unsigned char* handle);

void* reserve(uint32_t device, uint64_t bytes);
bool map(uint32_t device, void* at, uint64_t bytes);  // false: there is no memory
void unmap(uint32_t device, void* at, uint64_t bytes);

}  // namespace kvc::gpu::host
