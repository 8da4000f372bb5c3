// SPDX-License-Identifier: Apache-2.0
// How much of a folder's room is used, and what goes when there is none. The number in the file `usage` is
// never below the truth, whoever is killed where: bytes are added before a file is made and taken off after
// it is gone. Counting the files again makes it exact; that is done when a store is opened and when the
// number reaches the limit. Who holds a FolderLock excludes other threads and other processes. It is waited
// for half a second; if that was in vain, nobody waits again before somebody has got it: a peer that is
// stopped while it has the lock costs what would have been stored, and holds up nobody.
#pragma once
#include <atomic>
#include <mutex>

#include "base/files.h"
#include "base/memory.h"

namespace kvc {

struct FolderUsage {
  uint64_t bytes, pages;
};

class DirectoryUsage {
 public:
  static constexpr size_t kNameBytes = 72;  // of "<64 hex digits>.page" and a zero

  DirectoryUsage(const Env& env, Files& files) : files_(files), memory_(env), lock_file_(files) {}

  // `folder` is open; 0 or -errno, as all below. -EWOULDBLOCK, but not of open(): another process has the
  // lock.
  int open(int folder, uint64_t limit);
  // Makes room for a page, and a file for it that is locked, has its final size, and whose name is `name`.
  // -ENOSPC: there is no room that could be made.
  int begin(uint64_t bytes, char (&name)[kNameBytes], OpenFile* file);
  // A file of begin() or a page is removed, if it is there.
  int remove(const char* name, uint64_t bytes);
  // Waits for nobody: while others have the folder, what was seen last.
  FolderUsage usage();
  uint64_t evictions() const { return evictions_; }

  // What a file takes of the limit.
  static uint64_t charged(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

 private:
  struct FoundPage {
    int64_t seconds, nanoseconds;
    uint64_t bytes;
    char name[kNameBytes];
  };
  struct UsageRecord {
    FolderUsage usage;
    uint32_t magic, crc;
  };
  class FolderLock;
  struct Scan;

  bool is_noted(FolderUsage* out);
  int read(FolderUsage* out);
  int write(const FolderUsage& usage);
  void note(const FolderUsage& usage) { last_bytes_ = usage.bytes, last_pages_ = usage.pages; }
  int count_again(uint64_t room, FolderUsage* out);
  int look_at(Scan* scan, const char* name);

  Files& files_;
  std::mutex mutex_;  // all below
  Memory memory_;
  OpenFile lock_file_;
  int folder_ = -1;
  uint64_t limit_ = 0, next_name_ = 0;
  bool waited_in_vain_ = false;                          // for the lock, the last time
  std::atomic<uint64_t> evictions_{0};                   // these three may be read without the mutex
  std::atomic<uint64_t> last_bytes_{0}, last_pages_{0};  // seen last
};

}  // namespace kvc
