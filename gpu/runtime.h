// SPDX-License-Identifier: Apache-2.0
// What the backend (backend/) needs of a vendor's runtime, and nothing more. There are three implementations,
// and a library is linked with one: cuda/, hip/, and emulator/, which emulates devices for tests. All but the
// first few act on the calling thread's current device. Functions return the runtime's own error code, 0 =
// done, and may be called by any thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvc::gpu::runtime {

using Error = int;
using Stream = void*;  // cudaStream_t, hipStream_t
using Event = void*;

extern const char* const kName;           // of the backend: "cuda"
extern const char* const kArchitectures;  // that kernels are built for, separated by blanks
extern const int32_t kDlpackDevice;

const char* error_text(Error error);
bool is_out_of_memory(Error error);

struct Properties {
  char name[64];
  char architecture[32];
  uint64_t memory_bytes;
  uint32_t num_processors;
  uint32_t shared_bytes;   // of a block, at most
  bool has_mma;            // tensor cores and asynchronous copies as kernels use them
  bool reads_host_memory;  // any host memory, not only pinned, without a fault per page
  bool virtual_memory;     // reserve() and map() work
  bool managed_memory;     // allocate_managed() works, and the host may touch the memory while kernels run
};

Error device_count(uint32_t* count);
// Why there is no device and what helps, in one line: `error` comes from device_count() or properties(), 0 =
// it found none.
void explain_none(Error error, char* text, size_t size);
Error properties(uint32_t device, Properties* out);
Error current_device(uint32_t* device);
Error set_device(uint32_t device);
Error free_memory(uint64_t* bytes);
// Waits for all work enqueued on the device, in any stream. Captures go on; captured work is not enqueued.
Error synchronize_device();

Error allocate(uint64_t bytes, void** memory);  // aligned to 256
Error allocate_managed(uint64_t bytes, void** memory);
Error release(void* memory);  // of both; waits for the device
Error allocate_pinned(uint64_t bytes, void** memory);
Error release_pinned(void* memory);
Error register_host(void* memory, uint64_t bytes);
Error unregister_host(void* memory);
struct Found {
  void* on_device;  // where the device finds the memory; nullptr: it cannot read it
  bool known;       // it was allocated by the runtime or registered with it, and is no ordinary host memory
  bool managed;
};
Error find_address(const void* memory, Found* found);

constexpr size_t kHandleBytes = 64;
Error export_memory(void* memory, unsigned char* handle);
Error import_memory(const unsigned char* handle, void** memory);
Error close_memory(void* memory);  // of import_memory

// Reserves addresses; memory for parts of them comes later. Sizes and offsets are multiples of
// map_granularity().
Error map_granularity(uint64_t* bytes);
Error reserve(uint64_t bytes, void** addresses);
Error map(void* at, uint64_t bytes, void** mapping);  // *mapping ends it
Error unmap(void* at, uint64_t bytes, void* mapping);
Error free_addresses(void* addresses, uint64_t bytes);

Error create_stream(Stream* stream);  // independent of the default stream
Error destroy_stream(Stream stream);
Error synchronize(Stream stream);
Error find_capture(Stream stream, uint64_t* id);  // that the stream takes part in; 0 = none
Error create_event(Event* event);
Error destroy_event(Event event);
Error record(Event event, Stream stream);
Error wait(Stream stream, Event event);
Error query(Event event, bool* done);
Error synchronize_event(Event event);

// Enqueued. Host memory is pinned.
Error copy(void* to, const void* from, uint64_t bytes, Stream stream);
// Independent copies, done in any order.
struct Copies {
  static constexpr size_t kMost = 256;

  size_t count = 0;
  void* to[kMost];
  const void* from[kMost];
  size_t bytes[kMost];
};
Error copy(const Copies& copies, Stream stream);
Error fill(void* memory, unsigned char value, uint64_t bytes, Stream stream);

// While it lives, calls of this thread (allocating, asking, waiting) do not end captures, unless the thread
// waits for captured work.
class AllowWhileCapturing {
 public:
  AllowWhileCapturing();
  ~AllowWhileCapturing();
  AllowWhileCapturing(const AllowWhileCapturing&) = delete;
  AllowWhileCapturing& operator=(const AllowWhileCapturing&) = delete;

 private:
  int before_;
};

}  // namespace kvc::gpu::runtime
