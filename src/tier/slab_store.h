// SPDX-License-Identifier: Apache-2.0
// Pages in one file of a fixed size: a first page that describes it, a table of record headers, and the
// payloads. The file belongs to one process at a time and never grows. When it is opened, every header that
// checks is a page again: of this fingerprint one to be found, of another one that only gives way, until a
// store of its own fingerprint opens the file. A payload that does not fit its header is found when it is
// read. A page whose put has ended survives the end of the process; `sync` says whether it survives the end
// of the machine, which only costs pages, never their truth. Thread-safe.
#pragma once
#include <kvcache/plugin.h>

#include "base/env.h"
#include "base/files.h"
#include "tier/store.h"

namespace kvc {

struct SlabConfig {
  const char* path;
  uint64_t bytes;       // of the file
  uint64_t page_bytes;  // the largest page; a slab that is there may have room for larger ones
  Digest256 fingerprint;
  uint32_t workers;  // threads that call
  bool direct;       // past the page cache, where the system can
  bool sync;         // a put waits for the disk
  SlotPolicy policy = SlotPolicy::kLru;
  uint64_t ttl_ns = 0;     // pages that were not used for so long expire; 0 = they do not
  uint64_t keep_free = 0;  // bytes of the disk that stay free beside a new slab
  bool replaces = false;   // a slab of another size or version, which loses its pages
  // kAuto: by the engine if `direct`, if there is one, and if it opens; else by system calls, which is
  // counted as a fallback. kEngine: not without it.
  enum class Io : uint8_t { kThreads, kAuto, kEngine } io = Io::kThreads;
  const kvc_io_engine* engine = nullptr;
};

// NOT_FOUND: no such folder; BUSY: another process has the file; INVALID_ARGUMENT: it is no slab, or of
// another size; LIMIT: the disk is full; DEVICE: the system refuses something else.
kvc_status open_slab_store(const Env& env, Files& files, const SlabConfig& config, PageStorePtr* out);

}  // namespace kvc
