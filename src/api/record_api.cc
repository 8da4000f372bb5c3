// SPDX-License-Identifier: Apache-2.0
// C functions of kvcache/record.h.
#include "api/recording.h"

using namespace kvc;

extern "C" {

kvc_status kvc_manager_take_log(kvc_manager* m, void* log, size_t capacity, size_t* size) {
  return on_manager(m, [&](Manager&) {
    KVC_REQUIRE_ARRAY(log, capacity);
    KVC_REQUIRE_POINTER(size);
    if (m->recorder == nullptr) {
      return fail(KVC_ERROR_UNSUPPORTED,
                  "this manager records nothing; create it with record_bytes, at least %d",
                  KVC_MIN_RECORD_BYTES);
    }
    const std::lock_guard lock(m->recorder->mutex());
    return m->recorder->take(log, capacity, size);
  });
}

kvc_status kvc_manager_log_info(kvc_manager* m, kvc_log_info* info) {
  return on_manager(m, [&](Manager&) {
    return answer(info, [&](kvc_log_info* out) {
      if (m->recorder == nullptr) return kvc_status{KVC_OK};
      const std::lock_guard lock(m->recorder->mutex());
      m->recorder->describe(out);
      return kvc_status{KVC_OK};
    });
  });
}

kvc_status kvc_log_replay(const void* log, size_t size, kvc_replay_info* info) {
  return guarded([&] {
    KVC_REQUIRE_MEMORY(log, size);
    return answer(info, [&](kvc_replay_info* out) {
      return replay_log(static_cast<const unsigned char*>(log), size, out);
    });
  });
}

}  // extern "C"
