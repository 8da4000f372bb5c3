// SPDX-License-Identifier: Apache-2.0
#include "tier/directory_usage.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/crc32c.h"
#include "tier/hex.h"

namespace kvc {
namespace {

constexpr uint32_t kUsageMagic = 0x5543564Bu;
constexpr int kTries = 500;  // a millisecond apart, for a folder that somebody else has locked

bool ends_with(const char* name, const char* end) {
  const size_t size = std::strlen(name), end_size = std::strlen(end);
  return size > end_size && std::strcmp(name + size - end_size, end) == 0;
}

// Whether an array has room for one more element.
template <typename T>
bool has_room(Array<T>* array, Memory& memory, size_t count) {
  return count < array->size() || array->grow(memory, count == 0 ? 1024 : 2 * count);
}

}  // namespace

class DirectoryUsage::FolderLock {
 public:
  explicit FolderLock(DirectoryUsage& usage) : usage_(usage), lock_(usage.mutex_) {
    const int tries = usage_.waited_in_vain_ ? 1 : kTries;
    for (int i = 0; i < tries; ++i) {
      if (i != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      do {
        error_ = usage_.files_.lock(usage_.lock_file_.fd());
      } while (error_ == -EINTR);
      if (error_ != -EWOULDBLOCK) break;
    }
    usage_.waited_in_vain_ = error_ == -EWOULDBLOCK;
  }
  ~FolderLock() {
    if (error_ == 0) static_cast<void>(usage_.files_.unlock(usage_.lock_file_.fd()));
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  int error() const { return error_; }

 private:
  DirectoryUsage& usage_;
  const std::lock_guard<std::mutex> lock_;
  int error_;
};

struct DirectoryUsage::Scan {
  DirectoryUsage* usage;
  FolderUsage total;
  Array<Digest256> folders;  // fingerprints
  Array<FoundPage> pages;
  size_t num_folders, num_pages;
  uint32_t current;  // of folders
  int descriptor;    // its
  int error;
};

int DirectoryUsage::open(int root, int folder, const Digest256& fingerprint, uint64_t limit,
                         uint64_t reserve_free, uint64_t ttl_s) {
  root_ = root;
  folder_ = folder;
  fingerprint_ = fingerprint;
  limit_ = limit;
  reserve_free_ = reserve_free;
  ttl_s_ = ttl_s;
  const int error = lock_file_.open(root, "usage", O_RDWR | O_CREAT, 0600);
  if (error != 0) return error;
  const FolderLock lock(*this);
  FolderUsage usage;
  if (lock.error() == 0) return count_again(0, &usage);
  if (lock.error() != -EWOULDBLOCK) return lock.error();
  static_cast<void>(is_noted(&usage));  // who comes to write something counts
  return 0;
}

// Whether the file has the number. Without the lock it may be an old one.
bool DirectoryUsage::is_noted(FolderUsage* out) {
  UsageRecord record;
  const int error = read_fully(files_, lock_file_.fd(), &record, sizeof record, 0);
  if (error != 0 || record.magic != kUsageMagic || record.crc != crc32c(&record, offsetof(UsageRecord, crc)))
    return false;
  *out = record.usage;
  note(*out);
  return true;
}

int DirectoryUsage::read(FolderUsage* out) { return is_noted(out) ? 0 : count_again(0, out); }

int DirectoryUsage::write(const FolderUsage& usage) {
  UsageRecord record = {usage, kUsageMagic, 0};
  record.crc = crc32c(&record, offsetof(UsageRecord, crc));
  note(usage);
  return write_fully(files_, lock_file_.fd(), &record, sizeof record, 0);
}

// Counts a file of a folder, or removes it if its writer has ended.
int DirectoryUsage::look_at(Scan* scan, int folder, const char* name) {
  const bool part = ends_with(name, ".part");
  Digest256 key;
  if (!part && (!ends_with(name, ".page") || std::strlen(name) >= kNameBytes || !read_hex(name, &key)))
    return 0;
  struct stat status;
  int error = files_.status_at(folder, name, &status);
  if (error == -ENOENT) return 0;
  if (error != 0) return error;
  const uint64_t bytes = charged(static_cast<uint64_t>(status.st_size));
  if (part) {
    OpenFile file(files_);
    error = file.open(folder, name, O_RDWR);
    if (error == 0) error = files_.lock(file.fd());
    if (error == 0) {
      error = files_.remove(folder, name);
      if (error == 0 || error == -ENOENT) return 0;
    }
    if (error != -EWOULDBLOCK) return error == -ENOENT ? 0 : error;
  } else if (is_expired(status)) {
    error = files_.remove(folder, name);
    expired_ += error == 0;
    return error == -ENOENT ? 0 : error;
  } else {
    if (!has_room(&scan->pages, memory_, scan->num_pages)) return -ENOMEM;
    scan->pages[scan->num_pages++] = {status.st_mtim.tv_sec, static_cast<uint32_t>(status.st_mtim.tv_nsec),
                                      scan->current, bytes, key};
    ++scan->total.pages;
    if (scan->folders[scan->current] == fingerprint_) ++num_own_;
  }
  scan->total.bytes += bytes;
  return 0;
}

int DirectoryUsage::count_folder(Scan* scan, uint32_t folder) {
  char name[kDigits + 1];
  write_hex(scan->folders[folder], name);
  OpenFile file(files_);
  const int error = file.open(root_, name, O_RDONLY | O_DIRECTORY);
  if (error == -ENOENT || error == -ENOTDIR || error == -ELOOP) return 0;
  if (error != 0) return error;
  scan->current = folder, scan->descriptor = file.fd();
  const int listed = files_.list(file.fd(), scan, [](void* data, const char* entry) {
    auto* in = static_cast<Scan*>(data);
    if (in->error == 0) in->error = in->usage->look_at(in, in->descriptor, entry);
  });
  return listed != 0 ? listed : scan->error;
}

// Finds the folders of all fingerprints, and what is in them.
int DirectoryUsage::count(Scan* scan) {
  num_own_ = 0;
  const int listed = files_.list(root_, scan, [](void* data, const char* name) {
    auto* in = static_cast<Scan*>(data);
    Digest256 fingerprint;
    if (in->error != 0 || std::strlen(name) != kDigits || !read_hex(name, &fingerprint)) return;
    if (has_room(&in->folders, in->usage->memory_, in->num_folders))
      in->folders[in->num_folders++] = fingerprint;
    else
      in->error = -ENOMEM;
  });
  if (listed != 0) return listed;
  for (uint32_t i = 0; scan->error == 0 && i < scan->num_folders; ++i) scan->error = count_folder(scan, i);
  return scan->error;
}

// Until at most `most` bytes are left.
int DirectoryUsage::remove_oldest(Scan* scan, uint64_t most, std::atomic<uint64_t>* counter) {
  std::sort(scan->pages.data(), scan->pages.data() + scan->num_pages,
            [](const FoundPage& a, const FoundPage& b) {
              if (a.seconds != b.seconds) return a.seconds < b.seconds;
              if (a.nanoseconds != b.nanoseconds) return a.nanoseconds < b.nanoseconds;
              return std::memcmp(a.key.bytes, b.key.bytes, sizeof a.key.bytes) < 0;
            });
  for (size_t i = 0; i < scan->num_pages && scan->total.bytes > most; ++i) {
    const FoundPage& page = scan->pages[i];
    char path[kDigits + 1 + kNameBytes];
    write_hex(scan->folders[page.folder], path);
    path[kDigits] = '/';
    write_hex(page.key, path + kDigits + 1);
    std::strcpy(path + kDigits + 1 + kDigits, ".page");
    const int error = files_.remove(root_, path);
    if (error != 0 && error != -ENOENT) return error;
    scan->total.bytes -= page.bytes;
    --scan->total.pages;
    if (scan->folders[page.folder] == fingerprint_) --num_own_;
    ++*counter;
  }
  return 0;
}

// Makes the number exact. If `room` is not free then, removes pages until it is, and a sixteenth more, so
// that the next page does not count again.
int DirectoryUsage::count_again(uint64_t room, FolderUsage* out) {
  Scan scan = {};
  scan.usage = this;
  int error = count(&scan);  // of unknown size: nothing is added
  const uint64_t most = limit_ - room;
  if (error == 0 && scan.total.bytes > most)
    error = remove_oldest(&scan, most - std::min(most, limit_ / 16), &evictions_);
  if (error != 0) return error;
  *out = scan.total;
  return write(scan.total);
}

// How much less than `room` and what is to stay free the disk has.
int DirectoryUsage::missing(uint64_t room, uint64_t* out) {
  *out = 0;
  if (reserve_free_ == 0) return 0;
  uint64_t free = 0;
  const int error = files_.free_bytes(root_, &free);
  const uint64_t wanted = reserve_free_ + room;
  if (error == 0 && free < wanted) *out = wanted - free;
  return error;
}

int DirectoryUsage::give_way(uint64_t bytes) {
  const FolderLock lock(*this);
  if (lock.error() != 0) return lock.error();
  Scan scan = {};
  scan.usage = this;
  int error = count(&scan);
  if (error == 0 && scan.num_pages == 0) return -ENOSPC;
  uint64_t least = 0;
  if (error == 0) error = missing(charged(bytes), &least);
  const uint64_t total = scan.total.bytes,
                 gone = std::min(total, std::max({charged(bytes), least, total / 16}));
  if (error == 0) error = remove_oldest(&scan, total - gone, &disk_evictions_);
  const int written = write(scan.total);
  return error != 0 ? error : written;
}

int DirectoryUsage::begin(uint64_t bytes, char (&name)[kNameBytes], OpenFile* file) {
  const uint64_t charge = charged(bytes);
  if (charge > limit_) return -ENOSPC;
  const FolderLock lock(*this);
  if (lock.error() != 0) return lock.error();
  FolderUsage usage;
  int error = read(&usage);
  if (error == 0 && usage.bytes > limit_ - charge) error = count_again(charge, &usage);
  if (error != 0) return error;
  if (usage.bytes > limit_ - charge) return -ENOSPC;
  uint64_t least = 0;
  error = missing(charge, &least);
  if (error != 0 || least != 0) return error != 0 ? error : -ENOSPC;
  error = write({usage.bytes + charge, usage.pages + 1});
  if (error != 0) return error;
  do {  // names of a process of the same number that was killed may be there
    snprintf(name, sizeof name, "%llx-%llx.part", static_cast<unsigned long long>(getpid()),
             static_cast<unsigned long long>(next_name_++));
    error = file->open(folder_, name, O_RDWR | O_CREAT | O_EXCL, 0600);
  } while (error == -EEXIST);
  if (error == 0) {
    error = files_.lock(file->fd());
    if (error == 0) error = files_.truncate(file->fd(), bytes);
    if (error == 0) return 0;
    static_cast<void>(files_.remove(folder_, name));
    file->reset();
  }
  static_cast<void>(write(usage));  // else the number is too large until they are counted again
  return error;
}

int DirectoryUsage::remove(const char* name, uint64_t bytes) {
  const FolderLock lock(*this);
  if (lock.error() != 0) return lock.error();
  int error = files_.remove(folder_, name);
  if (error != 0) return error;
  FolderUsage usage;
  if (read(&usage) != 0) return 0;
  usage.bytes -= std::min(usage.bytes, charged(bytes));
  usage.pages -= usage.pages != 0;
  static_cast<void>(write(usage));
  return 0;
}

FolderUsage DirectoryUsage::usage() {
  const std::unique_lock own(mutex_, std::try_to_lock);
  if (own.owns_lock() && files_.lock(lock_file_.fd()) == 0) {
    FolderUsage seen;
    static_cast<void>(read(&seen));
    static_cast<void>(files_.unlock(lock_file_.fd()));
  }
  return {last_bytes_, last_pages_};
}

}  // namespace kvc
