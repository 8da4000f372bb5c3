// SPDX-License-Identifier: Apache-2.0
// How much of a folder's room is used, by pages of all fingerprints, and what goes when there is none.
//
// The pages lie in 256 subfolders by a mix of their keys. Each has a file `usage` with the bytes and pages of
// it and the time of its oldest page; the lock of that file is the subfolder's, and is tried a few times,
// never waited for. The sum of all subfolders keeps to the limit. Who holds a lock writes the number, which
// is not below the truth then, whoever is killed where: bytes are added before a file is made and taken off
// after it is gone. Who does not get it, because a peer has it, or is stopped with it, goes on all the same,
// remembers what it did, and counts that subfolder when it gets the lock; so does whoever opens the folder.
//
// The subfolder with the oldest page gives way first, and in it the oldest pages. Thread-safe.
#pragma once
#include <atomic>
#include <cerrno>
#include <mutex>

#include "base/files.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "tier/description.h"

namespace kvc {

inline bool is_full(int error) { return error == -ENOSPC || error == -EDQUOT; }

struct FolderUsage {
  uint64_t bytes, pages;
};

// What was found in a folder when it was opened.
struct FolderContents {
  Fingerprints fingerprints;  // that have pages
  bool has_foreign = false;   // a subfolder that others may write to; its count fails with -EPERM
  struct stat foreign = {};
};

// The name of a file below a folder.
struct FolderPath {
  static constexpr size_t kDigits = 2 * sizeof(Digest256::bytes);
  static constexpr size_t kBytes = 3 + 2 * kDigits + 7;  // ab/<fingerprint>-<key>.page and a zero
  char text[kBytes];
  uint32_t subfolder() const;
};

FolderPath page_path(const Digest256& fingerprint, const Digest256& key);
// Whether a name in a subfolder is that of a page.
[[nodiscard]] bool read_page_name(const char* name, Digest256* fingerprint, Digest256* key);
// Whether a name in a folder is that of a subfolder.
[[nodiscard]] bool read_subfolder_name(const char* name, uint32_t* out);

class DirectoryUsage {
 public:
  static constexpr uint32_t kSubfolders = 256;
  // What a process may not know of others' puts is one of so many of the limit, or a part of what is free.
  static constexpr uint64_t kShares = 4096;

  DirectoryUsage(const Env& env, Files& files) : env_(env), files_(files) {}
  ~DirectoryUsage();

  // `root` is the open folder. Counts all pages, and removes parts of writers that have ended. 0 or -errno,
  // as all below; *found is set, whatever the result.
  int open(int root, const Digest256& fingerprint, uint64_t limit, uint64_t keep_free, uint64_t ttl_s,
           FolderContents* found);
  // A file for a page of this key, that is locked and has its final size, and room for it below the limit.
  // -ENOSPC: there is no room that could be made, or the disk would have less than `keep_free` bytes.
  int begin(const Digest256& key, uint64_t bytes, FolderPath* part, OpenFile* file);
  // The disk is full below the limit: removes the oldest pages, as much as this, what is missing of
  // `keep_free`, or a sixteenth of all. -ENOSPC: there are none.
  int give_way(uint64_t bytes);
  // A file of begin() is not needed. If it cannot be removed, whoever counts the subfolder does that.
  void discard(const FolderPath& part, OpenFile* file);
  // Removes a page, if it is still this file. -ENOENT, -ESTALE: another process has removed or replaced it.
  int remove(const FolderPath& path, const struct stat& file);
  // The names of a page and of its subfolder reach the disk.
  int sync_names(const FolderPath& page);
  // As the files say now.
  FolderUsage usage();
  // Whether nobody used the page for the time to live.
  bool is_expired(const struct stat& status) const {
    return ttl_s_ != 0 && files_.time() - status.st_mtim.tv_sec >= static_cast<int64_t>(ttl_s_);
  }
  uint64_t evictions() const { return evictions_; }
  uint64_t disk_evictions() const { return disk_evictions_; }
  uint64_t expired() const { return expired_; }
  uint64_t num_own() const { return num_own_; }  // pages of the fingerprint when it was opened

  // What a file takes of the limit.
  static uint64_t charged(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

 private:
  // Of a subfolder. No page of it is older than `oldest`, in ns.
  struct Number {
    FolderUsage usage;
    int64_t oldest;
  };
  struct UsageRecord {
    Number number;
    uint32_t magic, crc;
  };
  struct Subfolder {
    Number seen;
    uint64_t changes;  // by this process
    bool is_doubtful;  // the file does not have what was done without the lock
  };
  struct FoundPage {
    int64_t time;
    uint64_t bytes;
    Digest256 fingerprint, key;
  };
  class SubfolderLock;
  struct Scan;

  void note(uint32_t subfolder, const Number& number, bool is_doubtful, uint64_t* changes = nullptr);
  Subfolder noted(uint32_t subfolder);
  uint64_t total();
  int make_subfolder(uint32_t subfolder);
  int make_part(uint32_t subfolder, uint64_t bytes, FolderPath* part, OpenFile* file);
  int missing(uint64_t room, uint64_t* out);
  int count(uint32_t subfolder, Scan* scan);
  int look_at(Scan* scan, const char* name);
  int remove_part(Scan* scan, const char* name);
  int list(Scan* scan);
  bool has_changed(Scan* scan);
  int list_subfolders(bool (&there)[kSubfolders]);
  int count_all(FolderContents* found);
  int read_again();
  bool is_time_to_read(uint64_t bytes);
  // Below the limit by what leaves room for some more, in whole sectors.
  uint64_t lowered_limit() const { return limit_ - limit_ / kShares / 4096 * 4096; }
  int evict(uint64_t most, std::atomic<uint64_t>* counter);
  int evict_from(uint32_t subfolder, uint64_t excess, int64_t next, std::atomic<uint64_t>* counter,
                 int64_t* oldest);
  int find_oldest(const int64_t (&least)[kSubfolders], uint32_t* subfolder, int64_t* next);

  const Env env_;
  Files& files_;
  int root_ = -1;
  uint64_t limit_ = 0, keep_free_ = 0, ttl_s_ = 0;
  std::atomic<bool> is_synced_[kSubfolders] = {};  // their names are on the disk
  Digest256 fingerprint_ = {};
  std::atomic<uint64_t> next_name_{0}, evictions_{0}, num_own_{0}, disk_evictions_{0}, expired_{0};
  std::mutex evicting_;  // threads of this process evict one after the other
  std::mutex mutex_;     // all below; held for arithmetic alone
  Subfolder subfolders_[kSubfolders] = {};
  uint64_t total_ = 0;
  uint64_t unread_ = 0, unread_limit_ = 0;  // own bytes since the files were read; how many may be
};

}  // namespace kvc
