// SPDX-License-Identifier: Apache-2.0
// Memory: of the device, managed, pinned, registered, shared and mapped.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "fake_hip.h"

namespace fake {

// The piece that holds all of these bytes.
const Piece* find(const void* memory, size_t bytes) {
  auto* const at = static_cast<char*>(const_cast<void*>(memory));
  auto next = state().pieces.upper_bound(at);
  if (next == state().pieces.begin()) return nullptr;
  const auto& [begin, piece] = *--next;
  return at + bytes <= begin + piece.bytes ? &piece : nullptr;
}

}  // namespace fake

using namespace fake;

namespace {

hipError_t take(void** memory, size_t bytes, hipMemoryType type, bool managed) {
  const std::lock_guard lock(state().mutex);
  if (type == hipMemoryTypeDevice && state().used + bytes > kMemory) return result(hipErrorOutOfMemory);
  auto* const made = static_cast<char*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (made == nullptr) return result(hipErrorOutOfMemory);
  if (type == hipMemoryTypeDevice) state().used += bytes;
  state().pieces[made] = {bytes, type, managed, false};
  *memory = made;
  return hipSuccess;
}

hipError_t give_back(void* memory, hipMemoryType type) {
  const std::lock_guard lock(state().mutex);
  const auto piece = state().pieces.find(static_cast<char*>(memory));
  if (piece == state().pieces.end() || piece->second.type != type || piece->second.registered)
    return require(false);
  if (type == hipMemoryTypeDevice) state().used -= piece->second.bytes;
  state().pieces.erase(piece);
  std::free(memory);
  return hipSuccess;
}

bool whole(const void* at, size_t bytes) {
  return reinterpret_cast<uintptr_t>(at) % kGranularity == 0 && bytes % kGranularity == 0 && bytes != 0;
}

}  // namespace

extern "C" {

hipError_t hipMemGetInfo(size_t* unused, size_t* all) {
  const std::lock_guard lock(state().mutex);
  return *unused = kMemory - state().used, *all = kMemory, hipSuccess;
}

hipError_t hipMalloc(void** memory, size_t bytes) { return take(memory, bytes, hipMemoryTypeDevice, false); }
hipError_t hipMallocManaged(void** memory, size_t bytes, unsigned flags) {
  return flags == hipMemAttachGlobal ? take(memory, bytes, hipMemoryTypeDevice, true) : require(false);
}
hipError_t hipFree(void* memory) { return give_back(memory, hipMemoryTypeDevice); }
hipError_t hipHostMalloc(void** memory, size_t bytes, unsigned flags) {
  return flags == hipHostMallocPortable ? take(memory, bytes, hipMemoryTypeHost, false) : require(false);
}
hipError_t hipHostFree(void* memory) { return give_back(memory, hipMemoryTypeHost); }
hipError_t hipHostRegister(void* memory, size_t bytes, unsigned flags) {
  const std::lock_guard lock(state().mutex);
  if (flags != (hipHostRegisterPortable | hipHostRegisterMapped) || find(memory, 1) != nullptr)
    return result(hipErrorHostMemoryAlreadyRegistered);
  state().pieces[static_cast<char*>(memory)] = {bytes, hipMemoryTypeHost, false, true};
  return hipSuccess;
}
hipError_t hipHostUnregister(void* memory) {
  const std::lock_guard lock(state().mutex);
  const auto piece = state().pieces.find(static_cast<char*>(memory));
  if (piece == state().pieces.end() || !piece->second.registered)
    return result(hipErrorHostMemoryNotRegistered);
  state().pieces.erase(piece);
  return hipSuccess;
}
hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* memory) {
  const std::lock_guard lock(state().mutex);
  const Piece* piece = find(memory, 1);
  if (piece == nullptr) return require(false);
  *attributes = {};
  attributes->devicePointer = const_cast<void*>(memory);
  attributes->isManaged = piece->managed;
  return hipSuccess;
}

// A handle is the address: the other process is this one.
hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t* handle, void* memory) {
  const std::lock_guard lock(state().mutex);
  std::memcpy(handle, &memory, sizeof memory);
  return require(state().pieces.count(static_cast<char*>(memory)) != 0);
}
hipError_t hipIpcOpenMemHandle(void** memory, hipIpcMemHandle_t handle, unsigned flags) {
  const std::lock_guard lock(state().mutex);
  std::memcpy(memory, &handle, sizeof *memory);
  ++state().imports;
  return require(flags == hipIpcMemLazyEnablePeerAccess && find(*memory, 1) != nullptr);
}
hipError_t hipIpcCloseMemHandle(void* memory) {
  const std::lock_guard lock(state().mutex);
  return require(find(memory, 1) != nullptr && state().imports-- > 0);
}

hipError_t hipMemGetAllocationGranularity(size_t* granularity, const hipMemAllocationProp* chunks,
                                          hipMemAllocationGranularity_flags) {
  *granularity = kGranularity;
  return require(chunks->type == hipMemAllocationTypePinned &&
                 chunks->location.type == hipMemLocationTypeDevice && chunks->location.id == 0);
}
hipError_t hipMemAddressReserve(void** addresses, size_t bytes, size_t, void*, unsigned long long) {
  const std::lock_guard lock(state().mutex);
  void* const all =
      mmap(nullptr, bytes + kGranularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED || bytes % kGranularity != 0) return result(hipErrorOutOfMemory);
  auto* const begin = static_cast<char*>(all);
  *addresses = begin + (kGranularity - reinterpret_cast<uintptr_t>(begin) % kGranularity) % kGranularity;
  state().addresses[static_cast<char*>(*addresses)] = bytes;
  return hipSuccess;
}
hipError_t hipMemAddressFree(void* addresses, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  const auto reserved = state().addresses.find(static_cast<char*>(addresses));
  if (reserved == state().addresses.end() || reserved->second != bytes) return require(false);
  const auto mapped = state().mapped.lower_bound(reserved->first);
  if (mapped != state().mapped.end() && mapped->first < reserved->first + bytes) return require(false);
  state().addresses.erase(reserved);
  return require(munmap(addresses, bytes) == 0);
}
hipError_t hipMemCreate(hipMemGenericAllocationHandle_t* handle, size_t bytes, const hipMemAllocationProp*,
                        unsigned long long) {
  if (bytes % kGranularity != 0) return require(false);
  return make(handle, &state().chunks);
}
hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle) { return drop(handle, &state().chunks); }
hipError_t hipMemMap(void* at, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle,
                     unsigned long long) {
  const std::lock_guard lock(state().mutex);
  auto* const begin = static_cast<char*>(at);
  if (!whole(at, bytes) || offset != 0 || state().mapped.count(begin) != 0) return require(false);
  state().mapped[begin] = handle;
  return hipSuccess;
}
hipError_t hipMemSetAccess(void* at, size_t bytes, const hipMemAccessDesc* access, size_t count) {
  const std::lock_guard lock(state().mutex);
  if (count != 1 || access->flags != hipMemAccessFlagsProtReadWrite ||
      state().mapped.count(static_cast<char*>(at)) == 0)
    return require(false);
  state().pieces[static_cast<char*>(at)] = {bytes, hipMemoryTypeDevice, false, true};
  return require(mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0);
}
hipError_t hipMemUnmap(void* at, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  state().pieces.erase(static_cast<char*>(at));
  return require(state().mapped.erase(static_cast<char*>(at)) == 1 && mprotect(at, bytes, PROT_NONE) == 0);
}

}  // extern "C"
