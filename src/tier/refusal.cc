// SPDX-License-Identifier: Apache-2.0
#include "tier/refusal.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/status.h"

namespace kvc {

kvc_status refused_by_system(const char* kind, const char* path, const char* what, int64_t error) {
  const int number = static_cast<int>(-error);
  const kvc_status status = number == ENOSPC || number == EDQUOT    ? KVC_ERROR_LIMIT
                            : number == EMFILE || number == ENFILE  ? KVC_ERROR_LIMIT
                            : number == ENOENT || number == ENOTDIR ? KVC_ERROR_NOT_FOUND
                            : number == EWOULDBLOCK                 ? KVC_ERROR_BUSY
                            : number == ENOMEM                      ? KVC_ERROR_OUT_OF_MEMORY
                                                                    : KVC_ERROR_DEVICE;
  return fail(
      status, "%s %.900s: cannot %s: %s (errno %d)%s", kind, path, what, std::strerror(number), number,
      number == ENOLCK ? ", ENOLCK: its file system has no locks; take a local disk, or mount it with locks"
                       : "");
}

bool is_safe_folder(const struct stat& status) {
  return !is_open_to_others(status.st_mode) && (status.st_uid == geteuid() || status.st_uid == 0);
}

}  // namespace kvc
