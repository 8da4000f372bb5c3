// SPDX-License-Identifier: Apache-2.0
// How much of a folder's room is used, by pages of all fingerprints, and what goes when there is none: the
// oldest, whatever its fingerprint. The number in the file `usage` is never below the truth, whoever is
// killed where: bytes are added before a file is made and taken off after it is gone. Counting the files
// again makes it exact; that is done when a store is opened and when the number reaches the limit. Who holds
// a FolderLock excludes other threads and other processes. It is waited for half a second; if that was in
// vain, nobody waits again before somebody has got it: a peer that is stopped while it has the lock costs
// what would have been stored, and holds up nobody.
#pragma once
#include <atomic>
#include <mutex>

#include "base/files.h"
#include "base/memory.h"
#include "base/sha256.h"

namespace kvc {

struct FolderUsage {
  uint64_t bytes, pages;
};

class DirectoryUsage {
 public:
  static constexpr size_t kDigits = 2 * sizeof(Digest256::bytes);
  static constexpr size_t kNameBytes = kDigits + 8;  // of "<key>.page" and a zero

  DirectoryUsage(const Env& env, Files& files) : files_(files), memory_(env), lock_file_(files) {}

  // `root` and `folder`, the one in it that has this fingerprint for its name, are open. 0 or -errno, as all
  // below; -EWOULDBLOCK, but not of open(): another process has the lock.
  int open(int root, int folder, const Digest256& fingerprint, uint64_t limit, uint64_t reserve_free,
           uint64_t ttl_s);
  // Makes room for a page below the limit, and a file for it that is locked, has its final size, and whose
  // name is `name`. -ENOSPC: there is no room that could be made, or the disk would have less than
  // `reserve_free` bytes.
  int begin(uint64_t bytes, char (&name)[kNameBytes], OpenFile* file);
  // The disk is full below the limit: removes the oldest pages, as much as this, what is missing of
  // `reserve_free`, or a sixteenth of all. -ENOSPC: there are none.
  int give_way(uint64_t bytes);
  // A file of begin() or a page is removed, if it is there.
  int remove(const char* name, uint64_t bytes);
  // Waits for nobody: while others have the folder, what was seen last.
  FolderUsage usage();
  // Whether nobody used the page for the time to live.
  bool is_expired(const struct stat& status) const {
    return ttl_s_ != 0 && files_.time() - status.st_mtim.tv_sec >= static_cast<int64_t>(ttl_s_);
  }
  uint64_t evictions() const { return evictions_; }
  uint64_t disk_evictions() const { return disk_evictions_; }
  uint64_t expired() const { return expired_; }
  uint64_t num_own() const { return num_own_; }  // pages of the fingerprint when they were counted last

  // What a file takes of the limit.
  static uint64_t charged(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

 private:
  struct FoundPage {
    int64_t seconds;
    uint32_t nanoseconds, folder;  // of Scan::folders
    uint64_t bytes;
    Digest256 key;
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
  int missing(uint64_t room, uint64_t* out);
  int count(Scan* scan);
  int count_folder(Scan* scan, uint32_t folder);
  int look_at(Scan* scan, int folder, const char* name);
  int remove_oldest(Scan* scan, uint64_t most, std::atomic<uint64_t>* counter);
  int count_again(uint64_t room, FolderUsage* out);

  Files& files_;
  std::mutex mutex_;  // all below
  Memory memory_;
  OpenFile lock_file_;
  int root_ = -1, folder_ = -1;
  uint64_t limit_ = 0, reserve_free_ = 0, ttl_s_ = 0, next_name_ = 0;
  Digest256 fingerprint_ = {};
  bool waited_in_vain_ = false;                      // for the lock, the last time
  std::atomic<uint64_t> evictions_{0}, num_own_{0};  // these may be read without the mutex
  std::atomic<uint64_t> disk_evictions_{0}, expired_{0};
  std::atomic<uint64_t> last_bytes_{0}, last_pages_{0};  // seen last
};

}  // namespace kvc
