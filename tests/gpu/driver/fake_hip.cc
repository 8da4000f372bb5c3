// SPDX-License-Identifier: Apache-2.0
// HIP's runtime as libamdhip64, with one device whose memory is the host's and whose kernels cannot be
// launched: enough for all that the backend asks of the runtime beside them. What no device would accept is
// an error. fake_hip_alive() counts what was not given back.
#include <hip/hip_runtime_api.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace {

constexpr uint64_t kMemory = uint64_t{1} << 30, kGranularity = uint64_t{2} << 20;

struct Piece {
  size_t bytes;
  hipMemoryType type;
  bool managed, registered;
};
struct Fake {
  std::mutex mutex;
  std::map<char*, Piece> pieces;      // what the device reaches
  std::map<char*, size_t> addresses;  // reserved
  std::map<char*, hipMemGenericAllocationHandle_t> mapped;
  uint64_t used = 0;
  int streams = 0, events = 0, chunks = 0, imports = 0;
};
Fake& fake() {
  static auto* const all = new Fake;
  return *all;
}
thread_local hipError_t last = hipSuccess;
thread_local hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;

hipError_t result(hipError_t error) { return error == hipSuccess ? error : last = error; }
hipError_t require(bool good) { return result(good ? hipSuccess : hipErrorInvalidValue); }

// The piece that holds all of these bytes.
const Piece* find(const void* memory, size_t bytes) {
  auto* const at = static_cast<char*>(const_cast<void*>(memory));
  auto next = fake().pieces.upper_bound(at);
  if (next == fake().pieces.begin()) return nullptr;
  const auto& [begin, piece] = *--next;
  return at + bytes <= begin + piece.bytes ? &piece : nullptr;
}

hipError_t take(void** memory, size_t bytes, hipMemoryType type, bool managed) {
  const std::lock_guard lock(fake().mutex);
  if (type == hipMemoryTypeDevice && fake().used + bytes > kMemory) return result(hipErrorOutOfMemory);
  auto* const made = static_cast<char*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (made == nullptr) return result(hipErrorOutOfMemory);
  if (type == hipMemoryTypeDevice) fake().used += bytes;
  fake().pieces[made] = {bytes, type, managed, false};
  *memory = made;
  return hipSuccess;
}

hipError_t give_back(void* memory, hipMemoryType type) {
  const std::lock_guard lock(fake().mutex);
  const auto piece = fake().pieces.find(static_cast<char*>(memory));
  if (piece == fake().pieces.end() || piece->second.type != type || piece->second.registered)
    return require(false);
  if (type == hipMemoryTypeDevice) fake().used -= piece->second.bytes;
  fake().pieces.erase(piece);
  std::free(memory);
  return hipSuccess;
}

template <typename Handle>
hipError_t make(Handle* handle, int* count) {
  const std::lock_guard lock(fake().mutex);
  *handle = reinterpret_cast<Handle>(new char);
  ++*count;
  return hipSuccess;
}
template <typename Handle>
hipError_t drop(Handle handle, int* count) {
  const std::lock_guard lock(fake().mutex);
  delete reinterpret_cast<char*>(handle);
  --*count;
  return require(handle != nullptr);
}

bool whole(const void* at, size_t bytes) {
  return reinterpret_cast<uintptr_t>(at) % kGranularity == 0 && bytes % kGranularity == 0 && bytes != 0;
}

}  // namespace

extern "C" {

size_t fake_hip_alive() {
  const std::lock_guard lock(fake().mutex);
  return fake().pieces.size() + fake().addresses.size() +
         static_cast<size_t>(fake().streams + fake().events + fake().chunks + fake().imports);
}

void** __hipRegisterFatBinary(const void*) {
  static void* registered;
  return &registered;
}
void __hipRegisterFunction(void**, const void*, char*, const char*, unsigned, void*, void*, dim3*, dim3*,
                           int*) {}
void __hipUnregisterFatBinary(void**) {}
hipError_t __hipPopCallConfiguration(dim3*, dim3*, size_t*, hipStream_t*) { return hipErrorNotSupported; }
hipError_t hipLaunchKernel(const void*, dim3, dim3, void**, size_t, hipStream_t) {
  return result(hipErrorLaunchFailure);
}

const char* hipGetErrorString(hipError_t error) {
  return error == hipErrorLaunchFailure ? "the fake launches nothing" : "as the fake has it";
}
hipError_t hipGetLastError() {
  const hipError_t was = last;
  last = hipSuccess;
  return was;
}
hipError_t hipGetDeviceCount(int* count) { return *count = 1, hipSuccess; }
hipError_t hipGetDevice(int* device) { return *device = 0, hipSuccess; }
hipError_t hipSetDevice(int device) { return device == 0 ? hipSuccess : result(hipErrorInvalidDevice); }
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device) {
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "Fake device");
  std::strcpy(properties->gcnArchName, "gfx90a:sramecc+:xnack-");
  properties->totalGlobalMem = kMemory;
  properties->multiProcessorCount = 104;
  properties->sharedMemPerBlock = 65536;
  return require(device == 0);
}
hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
  *value = attribute == hipDeviceAttributeConcurrentManagedAccess;
  return require(device == 0 && (*value != 0 || attribute == hipDeviceAttributePageableMemoryAccess));
}
hipError_t hipMemGetInfo(size_t* unused, size_t* all) {
  const std::lock_guard lock(fake().mutex);
  return *unused = kMemory - fake().used, *all = kMemory, hipSuccess;
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
  const std::lock_guard lock(fake().mutex);
  if (flags != (hipHostRegisterPortable | hipHostRegisterMapped) || find(memory, 1) != nullptr)
    return result(hipErrorHostMemoryAlreadyRegistered);
  fake().pieces[static_cast<char*>(memory)] = {bytes, hipMemoryTypeHost, false, true};
  return hipSuccess;
}
hipError_t hipHostUnregister(void* memory) {
  const std::lock_guard lock(fake().mutex);
  const auto piece = fake().pieces.find(static_cast<char*>(memory));
  if (piece == fake().pieces.end() || !piece->second.registered)
    return result(hipErrorHostMemoryNotRegistered);
  fake().pieces.erase(piece);
  return hipSuccess;
}
hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* memory) {
  const std::lock_guard lock(fake().mutex);
  const Piece* piece = find(memory, 1);
  if (piece == nullptr) return require(false);
  *attributes = {};
  attributes->devicePointer = const_cast<void*>(memory);
  attributes->isManaged = piece->managed;
  return hipSuccess;
}

// A handle is the address: the other process is this one.
hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t* handle, void* memory) {
  const std::lock_guard lock(fake().mutex);
  std::memcpy(handle, &memory, sizeof memory);
  return require(fake().pieces.count(static_cast<char*>(memory)) != 0);
}
hipError_t hipIpcOpenMemHandle(void** memory, hipIpcMemHandle_t handle, unsigned flags) {
  const std::lock_guard lock(fake().mutex);
  std::memcpy(memory, &handle, sizeof *memory);
  ++fake().imports;
  return require(flags == hipIpcMemLazyEnablePeerAccess && find(*memory, 1) != nullptr);
}
hipError_t hipIpcCloseMemHandle(void* memory) {
  const std::lock_guard lock(fake().mutex);
  return require(find(memory, 1) != nullptr && fake().imports-- > 0);
}

hipError_t hipMemGetAllocationGranularity(size_t* granularity, const hipMemAllocationProp* chunks,
                                          hipMemAllocationGranularity_flags) {
  *granularity = kGranularity;
  return require(chunks->type == hipMemAllocationTypePinned &&
                 chunks->location.type == hipMemLocationTypeDevice && chunks->location.id == 0);
}
hipError_t hipMemAddressReserve(void** addresses, size_t bytes, size_t, void*, unsigned long long) {
  const std::lock_guard lock(fake().mutex);
  void* const all =
      mmap(nullptr, bytes + kGranularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED || bytes % kGranularity != 0) return result(hipErrorOutOfMemory);
  auto* const begin = static_cast<char*>(all);
  *addresses = begin + (kGranularity - reinterpret_cast<uintptr_t>(begin) % kGranularity) % kGranularity;
  fake().addresses[static_cast<char*>(*addresses)] = bytes;
  return hipSuccess;
}
hipError_t hipMemAddressFree(void* addresses, size_t bytes) {
  const std::lock_guard lock(fake().mutex);
  const auto reserved = fake().addresses.find(static_cast<char*>(addresses));
  if (reserved == fake().addresses.end() || reserved->second != bytes) return require(false);
  const auto mapped = fake().mapped.lower_bound(reserved->first);
  if (mapped != fake().mapped.end() && mapped->first < reserved->first + bytes) return require(false);
  fake().addresses.erase(reserved);
  return require(munmap(addresses, bytes) == 0);
}
hipError_t hipMemCreate(hipMemGenericAllocationHandle_t* handle, size_t bytes, const hipMemAllocationProp*,
                        unsigned long long) {
  if (bytes % kGranularity != 0) return require(false);
  return make(handle, &fake().chunks);
}
hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle) { return drop(handle, &fake().chunks); }
hipError_t hipMemMap(void* at, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle,
                     unsigned long long) {
  const std::lock_guard lock(fake().mutex);
  auto* const begin = static_cast<char*>(at);
  if (!whole(at, bytes) || offset != 0 || fake().mapped.count(begin) != 0) return require(false);
  fake().mapped[begin] = handle;
  return hipSuccess;
}
hipError_t hipMemSetAccess(void* at, size_t bytes, const hipMemAccessDesc* access, size_t count) {
  const std::lock_guard lock(fake().mutex);
  if (count != 1 || access->flags != hipMemAccessFlagsProtReadWrite ||
      fake().mapped.count(static_cast<char*>(at)) == 0)
    return require(false);
  fake().pieces[static_cast<char*>(at)] = {bytes, hipMemoryTypeDevice, false, true};
  return require(mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0);
}
hipError_t hipMemUnmap(void* at, size_t bytes) {
  const std::lock_guard lock(fake().mutex);
  fake().pieces.erase(static_cast<char*>(at));
  return require(fake().mapped.erase(static_cast<char*>(at)) == 1 && mprotect(at, bytes, PROT_NONE) == 0);
}

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) {
  return flags == hipStreamNonBlocking ? make(stream, &fake().streams) : require(false);
}
hipError_t hipStreamDestroy(hipStream_t stream) { return drop(stream, &fake().streams); }
hipError_t hipStreamSynchronize(hipStream_t) { return hipSuccess; }
hipError_t hipStreamWaitEvent(hipStream_t, hipEvent_t event, unsigned flags) {
  return require(event != nullptr && flags == 0);
}
hipError_t hipStreamGetCaptureInfo(hipStream_t, hipStreamCaptureStatus* status, unsigned long long* id) {
  return *status = hipStreamCaptureStatusNone, *id = 0, hipSuccess;
}
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* other) {
  const hipStreamCaptureMode was = mode;
  mode = *other, *other = was;
  return hipSuccess;
}
hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  return flags == hipEventDisableTiming ? make(event, &fake().events) : require(false);
}
hipError_t hipEventDestroy(hipEvent_t event) { return drop(event, &fake().events); }
hipError_t hipEventRecord(hipEvent_t event, hipStream_t) { return require(event != nullptr); }
hipError_t hipEventQuery(hipEvent_t event) { return require(event != nullptr); }
hipError_t hipEventSynchronize(hipEvent_t event) { return require(event != nullptr); }
hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind kind, hipStream_t) {
  const std::lock_guard lock(fake().mutex);
  if (kind != hipMemcpyDefault || find(to, bytes) == nullptr || find(from, bytes) == nullptr)
    return require(false);
  std::memmove(to, from, bytes);
  return hipSuccess;
}
hipError_t hipMemsetAsync(void* memory, int value, size_t bytes, hipStream_t) {
  const std::lock_guard lock(fake().mutex);
  if (find(memory, bytes) == nullptr) return require(false);
  std::memset(memory, value, bytes);
  return hipSuccess;
}

}  // extern "C"
