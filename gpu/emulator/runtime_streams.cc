// SPDX-License-Identifier: Apache-2.0
// The runtime of emulated devices: streams, events, and what is enqueued beside kernels.
#include <cstring>

#include "emulator/memory.h"
#include "emulator/state.h"
#include "emulator/stream.h"
#include "runtime.h"

namespace kvc::gpu::runtime {
namespace {

struct Marker {
  std::atomic<bool> done{true};
};
struct HostEvent {
  std::mutex mutex;
  std::shared_ptr<Marker> marker = std::make_shared<Marker>();
  host::Point point;  // where it was recorded, if that was in a capture
};
HostEvent& event_of(Event event) { return *static_cast<HostEvent*>(event); }

}  // namespace

Error create_stream(Stream* stream) {
  if (const Error error = check(); error != 0) return error;
  *stream = new host::Stream(device_in_use());
  return kDone;
}
Error destroy_stream(Stream stream) {
  delete static_cast<host::Stream*>(stream);
  return kDone;
}
Error synchronize(Stream stream) {
  ++state().times_synchronized;
  if (!stream_of(stream).wait_all()) return kCaptureFailed;
  return check_captures();
}
Error find_capture(Stream stream, uint64_t* id) {
  const host::Point point = stream_of(stream).point();
  *id = point.capture == nullptr ? 0 : point.capture->id;
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
// In a capture nothing is done: the event stands for what the stream has captured so far.
Error record(Event event, Stream stream) {
  auto marker = std::make_shared<Marker>();
  host::Point point = stream_of(stream).point();
  marker->done = point.capture != nullptr;
  {
    const std::lock_guard lock(event_of(event).mutex);
    event_of(event).marker = marker;
    event_of(event).point = point;
  }
  if (point.capture != nullptr) return check();
  return enqueue(stream, [marker] {
    marker->done = true;
    marker->done.notify_all();
  });
}
Error wait(Stream stream, Event event) {
  std::shared_ptr<Marker> marker;
  host::Point point;
  {
    const std::lock_guard lock(event_of(event).mutex);
    marker = event_of(event).marker;
    point = event_of(event).point;
  }
  host::Stream& waiting = stream_of(stream);
  if (point.capture != nullptr) {
    if (point.capture->ended || !waiting.join(point)) return kCaptureFailed;
    return check();
  }
  if (const auto own = waiting.point().capture; own != nullptr && !marker->done) {
    own->broken = true;
    return kCaptureFailed;
  }
  if (marker->done) return check();
  return enqueue(stream, [marker] { marker->done.wait(false); });
}
Error query(Event event, bool* done) {
  const std::lock_guard lock(event_of(event).mutex);
  if (event_of(event).point.capture != nullptr) {
    event_of(event).point.capture->broken = true;
    return kCaptureFailed;
  }
  *done = event_of(event).marker->done;
  return check_captures();
}
Error synchronize_event(Event event) {
  ++state().times_synchronized;
  std::shared_ptr<Marker> marker;
  {
    const std::lock_guard lock(event_of(event).mutex);
    if (event_of(event).point.capture != nullptr) {
      event_of(event).point.capture->broken = true;
      return kCaptureFailed;
    }
    marker = event_of(event).marker;
  }
  marker->done.wait(false);
  return check_captures();
}

Error copy(void* to, const void* from, uint64_t bytes, Stream stream) {
  if (!host::is_one_piece(to, bytes) || !host::is_one_piece(from, bytes)) return kInvalid;
  return enqueue(stream, [=] { std::memcpy(to, from, bytes); });
}
// As CUDA has it: at once, in another order, but not in a graph.
Error copy(const Copies& copies, Stream stream) {
  Error error = 0;
  for (size_t i = 0; i < copies.count; ++i) {
    if (!host::is_one_piece(copies.to[i], copies.bytes[i]) ||
        !host::is_one_piece(copies.from[i], copies.bytes[i]))
      return kInvalid;
  }
  if (stream_of(stream).point().capture == nullptr) {
    return enqueue(stream, [copies] {
      for (size_t i = copies.count; i > 0; --i)
        std::memcpy(copies.to[i - 1], copies.from[i - 1], copies.bytes[i - 1]);
    });
  }
  for (size_t i = 0; error == 0 && i < copies.count; ++i)
    error = copy(copies.to[i], copies.from[i], copies.bytes[i], stream);
  return error;
}
Error fill(void* memory, unsigned char value, uint64_t bytes, Stream stream) {
  return enqueue(stream, [=] { std::memset(memory, value, bytes); });
}

}  // namespace kvc::gpu::runtime
