// SPDX-License-Identifier: Apache-2.0
// How a call is written to the log of its manager.
#include <utility>

#include "api/record_calls.h"
#include "api/record_write.h"
#include "api/recording.h"

namespace kvc {
namespace {

// The manager whose call this thread writes.
thread_local const kvc_manager* recording = nullptr;

// Holds the recorder's lock for a call.
class RecordedCall {
 public:
  explicit RecordedCall(const kvc_manager* m)
      : lock_(m->recorder->mutex()), outer_(std::exchange(recording, m)) {}
  ~RecordedCall() { recording = outer_; }
  RecordedCall(const RecordedCall&) = delete;
  RecordedCall& operator=(const RecordedCall&) = delete;

 private:
  const std::lock_guard<std::mutex> lock_;
  const kvc_manager* const outer_;
};

// Whether another process can come to the same status.
bool is_repeatable(kvc_status status) {
  return status != KVC_ERROR_OUT_OF_MEMORY && status != KVC_ERROR_BUFFER_TOO_SMALL &&
         status != KVC_ERROR_INTERNAL && status != KVC_ERROR_CORRUPT;
}

kvc_status write_config(CallWriter& out, kvc_manager_config config) {
  const auto write_all = [&](const auto* elements, size_t count) -> kvc_status {
    out.number(count);
    for (size_t i = 0; i < count; ++i) {
      std::remove_const_t<std::remove_reference_t<decltype(*elements)>> element;
      const size_t stride = elements->struct_size;
      KVC_TRY(read_struct(reinterpret_cast<const char*>(elements) + i * stride, stride, &element));
      out.words(element);
    }
    return KVC_OK;
  };
  const kvc_group_config* const groups = std::exchange(config.groups, nullptr);
  const kvc_pool_config* const pools = std::exchange(config.pools, nullptr);
  const size_t num_groups = std::exchange(config.num_groups, 0);
  const size_t num_pools = std::exchange(config.num_pools, 0);
  clear_unlogged(config);
  out.words(config);
  KVC_TRY(write_all(groups, num_groups));
  return write_all(pools, num_pools);
}

}  // namespace

bool is_recording(const kvc_manager* m) { return recording == m; }

kvc_status start_recording(kvc_manager* m, const kvc_manager_config& config) {
  const Env& env = m->env;
  void* place = env.allocate(env.allocator_data, sizeof(Recorder), alignof(Recorder));
  if (place == nullptr) return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a log");
  m->recorder = new (place) Recorder(env);
  if (!m->recorder->create(config.record_bytes)) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a log of %llu bytes; set record_bytes lower",
                ull(config.record_bytes));
  }
  ByteWriter bytes = m->recorder->begin();
  CallWriter out(bytes, *m->impl);
  KVC_TRY(write_config(out, config));
  m->recorder->keep_config(bytes);
  m->impl->log_under(m->recorder->mutex());
  return KVC_OK;
}

void stop_recording(kvc_manager* m) {
  if (m->recorder == nullptr) return;
  m->recorder->~Recorder();
  m->env.release(m->env.allocator_data, m->recorder, sizeof(Recorder), alignof(Recorder));
}

template <typename... Args, kvc_status (*kFunction)(kvc_manager*, Args...)>
kvc_status Recorded<kFunction>::call(kvc_manager* m, Args... args) {
  using Call = LoggedCall<kFunction>;
  const RecordedCall held(m);
  ByteWriter bytes = m->recorder->begin();
  CallWriter out(bytes, *m->impl);
  std::tuple<Args...> copy(args...);
  out.number(Call::kNumber);
  visit_inputs<typename Call::Codecs>(out, copy);
  const kvc_status status = kFunction(m, args...);
  if (!is_repeatable(status) || (out.refused() && status != KVC_OK)) return status;
  out.number(status);
  if (status == KVC_OK && !out.refused()) visit_results<typename Call::Codecs>(out, copy);
  m->recorder->keep_call(bytes, out.refused());
  return status;
}

#define KVC_LOGGED_CALL(number, duration, function, ...) template struct Recorded<function>;
#include "api/calls.def"

}  // namespace kvc
