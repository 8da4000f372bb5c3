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
