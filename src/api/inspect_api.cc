// SPDX-License-Identifier: Apache-2.0
// C functions that look into files of tiers.
#include "api/guard.h"
#include "tier/page_file.h"

using namespace kvc;

extern "C" kvc_status kvc_page_file_read_info(const char* path, int32_t validate, kvc_page_file_info* info) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(path);
    return answer(info, [&](kvc_page_file_info* out) {
      return describe_page_file(system_files(), path, validate != 0, out);
    });
  });
}

extern "C" kvc_status kvc_page_file_read_part(const char* path, uint32_t number, int32_t validate,
                                              kvc_page_file_info* info) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(path);
    return answer(info, [&](kvc_page_file_info* out) {
      return describe_page_file_part(system_files(), path, number, validate != 0, out);
    });
  });
}

extern "C" kvc_status kvc_page_file_purge(const char* path, const uint8_t* fingerprint,
                                          kvc_page_file_info* info) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(path);
    KVC_REQUIRE_POINTER(fingerprint);
    Digest256 own;
    std::memcpy(own.bytes, fingerprint, sizeof own.bytes);
    return answer(info,
                  [&](kvc_page_file_info* out) { return purge_page_file(system_files(), path, own, out); });
  });
}
