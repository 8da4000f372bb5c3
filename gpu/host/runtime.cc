// SPDX-License-Identifier: Apache-2.0
// The runtime of emulated devices: two of them, of which the first reads any host memory and has managed
// memory, as some machines have it, and the second only what is pinned or its own.
#include "runtime.h"

#include <atomic>
#include <cstdio>
#include <cstring>

#include "host/control.h"
#include "host/emulator.h"
#include "host/memory.h"
#include "host/stream.h"

namespace kvc::gpu::runtime {
namespace {

enum Code : Error { kDone, kInvalid, kNoMemory, kLaunchFailed, kLost, kCaptureFailed, kUnknownMemory };

constexpr uint32_t kNumDevices = 2;
thread_local uint32_t device_in_use = 0;
thread_local bool relaxed = false;
std::atomic<uint64_t> times_synchronized{0}, captures_so_far{0};

// ---- failures on demand ----

struct Trigger {
  std::atomic<uint64_t> seen{0}, at{0};

  bool occurs() { return ++seen == at.load(); }
};
Trigger triggers[3];
std::atomic<bool> lost{false};

Error check() {
  if (triggers[static_cast<int>(Failure::kLost)].occurs()) lost = true;
  return lost ? kLost : kDone;
}
// What ends captures, as engines begin them: everything that asks, waits, allocates or frees, in any thread.
Error check_captures() {
  if (const Error error = check(); error != 0) return error;
  if (!host::captures_exist() || relaxed) return kDone;
  host::break_captures();
  return kCaptureFailed;
}
Error check_allocation() {
  if (const Error error = check_captures(); error != 0) return error;
  return triggers[static_cast<int>(Failure::kAllocate)].occurs() ? kNoMemory : kDone;
}

// ---- streams and events ----

host::Stream& stream_of(Stream stream) {
  static host::Stream* const defaults[kNumDevices] = {new host::Stream(0), new host::Stream(1)};
  return stream == nullptr ? *defaults[device_in_use] : *static_cast<host::Stream*>(stream);
}

struct Marker {
  std::atomic<bool> done{true};
};
struct HostEvent {
  std::mutex mutex;
  std::shared_ptr<Marker> marker = std::make_shared<Marker>();
  std::shared_ptr<host::Capture> capture;  // in which it was recorded
};
HostEvent& event_of(Event event) { return *static_cast<HostEvent*>(event); }

int enqueue(void* stream, std::function<void()> work) {
  if (const Error error = check(); error != 0) return error;
  if (triggers[static_cast<int>(Failure::kLaunch)].occurs()) return kLaunchFailed;
  return stream_of(stream).enqueue(std::move(work)) ? kDone : kCaptureFailed;
}

Error enqueue_checked(Stream stream, std::function<void()> work) { return enqueue(stream, std::move(work)); }

}  // namespace

const char* const kName = "emulated";
const char* const kArchitectures = "host";
const int32_t kDlpackDevice = 12;  // a device that is neither of the others

const char* error_text(Error error) {
  switch (error) {
    case kDone:
      return "done";
    case kNoMemory:
      return "out of memory";
    case kLaunchFailed:
      return "the launch failed, as a test wanted";
    case kLost:
      return "the device is lost, as a test wanted";
    case kCaptureFailed:
      return "not permitted while a stream is captured";
    case kUnknownMemory:
      return "no such memory";
    default:
      return "invalid argument";
  }
}
bool is_out_of_memory(Error error) { return error == kNoMemory; }

Error device_count(uint32_t* count) {
  emulator::set_enqueue(enqueue);
  *count = kNumDevices;
  return kDone;
}
void explain_none(Error error, char* text, size_t size) {
  std::snprintf(text, size, "%s", error_text(error));
}

Error properties(uint32_t device, Properties* out) {
  *out = {};
  std::snprintf(out->name, sizeof out->name, "Emulated device %u", device);
  std::snprintf(out->architecture, sizeof out->architecture, "host");
  out->memory_bytes = host::kDeviceBytes;
  out->num_processors = 4;
  out->shared_bytes = emulator::kMaxSharedBytes;
  out->has_mma = true;
  out->reads_host_memory = device == 0;
  out->virtual_memory = true;
  out->managed_memory = device == 0;
  return check();
}

Error current_device(uint32_t* device) {
  *device = device_in_use;
  return kDone;
}
Error set_device(uint32_t device) {
  if (device >= kNumDevices) return kInvalid;
  device_in_use = device;
  return check();
}

Error free_memory(uint64_t* bytes) {
  *bytes = host::kDeviceBytes - host::bytes_in_use(device_in_use);
  return check();
}

Error allocate(uint64_t bytes, void** memory) {
  if (const Error error = check_allocation(); error != 0) return error;
  *memory = host::allocate(device_in_use, host::Kind::kDevice, bytes);
  return *memory == nullptr ? kNoMemory : kDone;
}
Error allocate_managed(uint64_t bytes, void** memory) {
  if (const Error error = check_allocation(); error != 0) return error;
  *memory = host::allocate(device_in_use, host::Kind::kManaged, bytes);
  return *memory == nullptr ? kNoMemory : kDone;
}
Error release(void* memory) {
  ++times_synchronized;
  static_cast<void>(check_captures());
  const bool known =
      host::release(memory, host::Kind::kDevice) || host::release(memory, host::Kind::kManaged);
  return known ? kDone : kUnknownMemory;
}
Error allocate_pinned(uint64_t bytes, void** memory) {
  if (const Error error = check_allocation(); error != 0) return error;
  *memory = host::allocate(device_in_use, host::Kind::kPinned, bytes);
  return *memory == nullptr ? kNoMemory : kDone;
}
Error release_pinned(void* memory) {
  static_cast<void>(check_captures());
  return host::release(memory, host::Kind::kPinned) ? kDone : kUnknownMemory;
}
Error register_host(void* memory, uint64_t bytes) {
  if (const Error error = check_allocation(); error != 0) return error;
  return host::adopt(memory, bytes) ? kDone : kInvalid;
}
Error unregister_host(void* memory) {
  static_cast<void>(check_captures());
  return host::release(memory, host::Kind::kRegistered) ? kDone : kUnknownMemory;
}
Error find_address(const void* memory, Found* found) {
  const bool known = host::is_known(device_in_use, memory);
  *found = {known ? const_cast<void*>(memory) : nullptr, known, host::is_managed(memory)};
  return check();
}

Error export_memory(void* memory, unsigned char* handle) {
  if (const Error error = check(); error != 0) return error;
  return host::share(memory, handle) ? kDone : kInvalid;
}
Error import_memory(const unsigned char* handle, void** memory) {
  if (const Error error = check(); error != 0) return error;
  *memory = host::import(device_in_use, handle);
  return *memory == nullptr ? kInvalid : kDone;
}
Error close_memory(void* memory) {
  return host::release(memory, host::Kind::kImported) ? kDone : kUnknownMemory;
}

Error map_granularity(uint64_t* bytes) {
  *bytes = host::kChunkBytes;
  return kDone;
}
Error reserve(uint64_t bytes, void** addresses) {
  if (const Error error = check(); error != 0) return error;
  *addresses = host::reserve(device_in_use, bytes);
  return *addresses == nullptr ? kNoMemory : kDone;
}
Error map(void* at, uint64_t bytes, void** mapping) {
  if (const Error error = check_allocation(); error != 0) return error;
  *mapping = at;
  return host::map(device_in_use, at, bytes) ? kDone : kNoMemory;
}
Error unmap(void* at, uint64_t bytes, void*) {
  host::unmap(device_in_use, at, bytes);
  return kDone;
}
Error free_addresses(void* addresses, uint64_t) {
  return host::release(addresses, host::Kind::kReserved) ? kDone : kUnknownMemory;
}

Error create_stream(Stream* stream) {
  if (const Error error = check(); error != 0) return error;
  *stream = new host::Stream(device_in_use);
  return kDone;
}
Error destroy_stream(Stream stream) {
  delete static_cast<host::Stream*>(stream);
  return kDone;
}
Error synchronize(Stream stream) {
  ++times_synchronized;
  if (!stream_of(stream).wait_all()) return kCaptureFailed;
  return check_captures();
}
Error find_capture(Stream stream, uint64_t* id) {
  const auto capture = stream_of(stream).capture();
  *id = capture == nullptr ? 0 : capture->id;
  return check();
}

Error create_event(Event* event) {
  if (const Error error = check(); error != 0) return error;
  *event = new HostEvent;
  return kDone;
}
Error destroy_event(Event event) {
  delete static_cast<HostEvent*>(event);
  return kDone;
}
Error record(Event event, Stream stream) {
  auto marker = std::make_shared<Marker>();
  marker->done = false;
  {
    const std::lock_guard lock(event_of(event).mutex);
    event_of(event).marker = marker;
    event_of(event).capture = stream_of(stream).capture();
  }
  return enqueue_checked(stream, [marker] {
    marker->done = true;
    marker->done.notify_all();
  });
}
Error wait(Stream stream, Event event) {
  std::shared_ptr<Marker> marker;
  std::shared_ptr<host::Capture> capture;
  {
    const std::lock_guard lock(event_of(event).mutex);
    marker = event_of(event).marker;
    capture = event_of(event).capture;
  }
  host::Stream& waiting = stream_of(stream);
  if (capture != nullptr) {  // the stream takes part from now on: the order of the list is that of the events
    if (waiting.capture() == nullptr) waiting.begin_capture(capture);
    return check();
  }
  if (const auto own = waiting.capture(); own != nullptr && !marker->done) {
    own->broken = true;
    return kCaptureFailed;
  }
  if (marker->done) return check();
  return enqueue_checked(stream, [marker] { marker->done.wait(false); });
}
Error query(Event event, bool* done) {
  const std::lock_guard lock(event_of(event).mutex);
  if (event_of(event).capture != nullptr) {
    event_of(event).capture->broken = true;
    return kCaptureFailed;
  }
  *done = event_of(event).marker->done;
  return check_captures();
}
Error synchronize_event(Event event) {
  ++times_synchronized;
  std::shared_ptr<Marker> marker;
  {
    const std::lock_guard lock(event_of(event).mutex);
    marker = event_of(event).marker;
  }
  marker->done.wait(false);
  return check_captures();
}

Error copy(void* to, const void* from, uint64_t bytes, Stream stream) {
  if (!host::is_one_piece(to, bytes) || !host::is_one_piece(from, bytes)) return kInvalid;
  return enqueue_checked(stream, [=] { std::memcpy(to, from, bytes); });
}
// As CUDA has it: at once, in another order, but not in a graph.
Error copy(const Copies& copies, Stream stream) {
  Error error = 0;
  for (size_t i = 0; i < copies.count; ++i) {
    if (!host::is_one_piece(copies.to[i], copies.bytes[i]) ||
        !host::is_one_piece(copies.from[i], copies.bytes[i]))
      return kInvalid;
  }
  if (stream_of(stream).capture() == nullptr) {
    return enqueue_checked(stream, [copies] {
      for (size_t i = copies.count; i > 0; --i)
        std::memcpy(copies.to[i - 1], copies.from[i - 1], copies.bytes[i - 1]);
    });
  }
  for (size_t i = 0; error == 0 && i < copies.count; ++i)
    error = copy(copies.to[i], copies.from[i], copies.bytes[i], stream);
  return error;
}
Error fill(void* memory, unsigned char value, uint64_t bytes, Stream stream) {
  return enqueue_checked(stream, [=] { std::memset(memory, value, bytes); });
}

AllowWhileCapturing::AllowWhileCapturing() : before_(relaxed) { relaxed = true; }
AllowWhileCapturing::~AllowWhileCapturing() { relaxed = before_ != 0; }

}  // namespace kvc::gpu::runtime

// ---- what tests steer ----

extern "C" [[gnu::visibility("default")]] const kvc::gpu::Control* kvc_emulated_control() {
  using namespace kvc::gpu;
  using namespace kvc::gpu::runtime;
  static const Control control = {
      [](Failure failure, uint64_t n) {
        Trigger& trigger = triggers[static_cast<int>(failure)];
        trigger.at = n == 0 ? 0 : trigger.seen + n;
        if (failure == Failure::kLost) lost = false;
      },
      [](Failure failure) -> uint64_t { return triggers[static_cast<int>(failure)].seen; },
      [](uint32_t device) -> void* { return new host::Stream(device); },
      [](void* stream) { delete static_cast<host::Stream*>(stream); },
      [](void* stream) { stream_of(stream).hold(); },
      [](void* stream) { stream_of(stream).let_go(); },
      [](void* stream) {
        auto capture = std::make_shared<host::Capture>();
        capture->id = ++captures_so_far;
        stream_of(stream).begin_capture(std::move(capture));
      },
      [](void* stream) -> void* {
        const auto capture = stream_of(stream).capture();
        if (capture != nullptr) capture->ended = true;
        return capture == nullptr || capture->broken ? nullptr : capture->graph.release();
      },
      [](void* graph, void* stream) {
        for (const host::Work& work : static_cast<host::Graph*>(graph)->work) stream_of(stream).enqueue(work);
      },
      [](void* graph) { delete static_cast<host::Graph*>(graph); },
      []() -> uint64_t { return times_synchronized; },
      []() -> uint32_t { return device_in_use; },
      [](uint32_t device) { device_in_use = device; },
      [](uint32_t device) -> uint64_t { return host::bytes_in_use(device); }};
  return &control;
}
