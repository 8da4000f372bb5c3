// SPDX-License-Identifier: Apache-2.0
// Pages as files of a folder, one a page: a record header and the payload, written beside and renamed when
// whole. Several processes, on several machines if their file system locks, may use one folder; together they
// keep to its size, pages of other fingerprints included, and none waits for another one
// (tier/directory_usage.h). A page's time of change is that of its last use; the oldest go first, also when
// the disk is full below that size. There are no leases: a page that was found may be gone when it is read,
// which is a miss. Thread-safe.
//
//   <path>/format                         the version
//   <path>/ab/<fingerprint>-<key>.page    a page, in one of 256 subfolders by a mix of its key
//   <path>/ab/<pid>-<n>.part              one that is being written: locked as long as its writer lives
//   <path>/ab/usage                       the bytes and pages of the subfolder; its lock is the subfolder's
#pragma once
#include "base/env.h"
#include "base/files.h"
#include "tier/store.h"

namespace kvc {

struct DirectoryConfig {
  const char* path;     // is made if its parent is there
  uint64_t bytes;       // of all pages, in whole sectors
  uint64_t page_bytes;  // the largest page
  Digest256 fingerprint;
  uint32_t workers;        // threads that call
  bool sync;               // a put waits for the disk
  uint64_t keep_free = 0;  // bytes of the disk that stay free: else the oldest pages give way
  uint64_t ttl_s = 0;      // pages that were not used for so many seconds expire; 0 = they do not
};

// NOT_FOUND: no such parent folder; INVALID_ARGUMENT: others may write to the folder, or a size is wrong;
// LIMIT: the disk is full; DEVICE: the system refuses something else.
kvc_status open_directory_store(const Env& env, Files& files, const DirectoryConfig& config,
                                PageStorePtr* out);

}  // namespace kvc
