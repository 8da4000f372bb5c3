// SPDX-License-Identifier: Apache-2.0
#include "tier/directory_usage.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/crc32c.h"
#include "tier/hex.h"
#include "tier/refusal.h"

namespace kvc {
namespace {

constexpr uint32_t kUsageMagic = 0x3256554Bu;
constexpr int kUsageTries = 8;  // for a lock, one right after the other; and for a list
constexpr uint64_t kPartOfFree = 64;
constexpr int64_t kNever = INT64_MAX, kNsPerSecond = 1000000000, kMostSeconds = kNever / kNsPerSecond - 2;

bool ends_with(const char* name, const char* end) {
  const size_t size = std::strlen(name), end_size = std::strlen(end);
  return size > end_size && std::strcmp(name + size - end_size, end) == 0;
}

// Whether an array has room for one more element.
template <typename T>
bool has_room(Array<T>* array, Memory& memory, size_t count) {
  return count < array->size() || array->grow(memory, count == 0 ? 256 : 2 * count);
}

int64_t in_ns(int64_t seconds, int64_t ns) {
  return std::clamp(seconds, -kMostSeconds, kMostSeconds) * kNsPerSecond + ns;
}

uint32_t subfolder_of(const Digest256& key) { return crc32c(key.bytes, sizeof key.bytes) & 255; }

FolderPath path_in(uint32_t subfolder, const char* name) {
  FolderPath out;
  snprintf(out.text, sizeof out.text, "%02x%s%s", subfolder, *name != 0 ? "/" : "", name);
  return out;
}

}  // namespace

uint32_t FolderPath::subfolder() const {
  uint32_t out = 0;
  static_cast<void>(read_subfolder_name(text, &out));
  return out;
}

FolderPath page_path(const Digest256& fingerprint, const Digest256& key) {
  FolderPath out = path_in(subfolder_of(key), "");
  char* at = out.text + 2;
  *at++ = '/';
  write_hex(fingerprint, at);
  at += FolderPath::kDigits;
  *at++ = '-';
  write_hex(key, at);
  std::strcpy(at + FolderPath::kDigits, ".page");
  return out;
}

bool read_page_name(const char* name, Digest256* fingerprint, Digest256* key) {
  constexpr size_t kDigits = FolderPath::kDigits;
  return std::strlen(name) == 2 * kDigits + 6 && read_hex(name, fingerprint) && name[kDigits] == '-' &&
         read_hex(name + kDigits + 1, key) && std::strcmp(name + 2 * kDigits + 1, ".page") == 0;
}

bool read_subfolder_name(const char* name, uint32_t* out) {
  uint32_t value = 0;
  for (int i = 0; i < 2; ++i) {
    const char digit = name[i];
    const bool is_number = digit >= '0' && digit <= '9';
    if (!is_number && (digit < 'a' || digit > 'f')) return false;
    value = value * 16 + static_cast<uint32_t>(is_number ? digit - '0' : digit - 'a' + 10);
  }
  *out = value;
  return name[2] == 0 || name[2] == '/';
}

struct DirectoryUsage::Scan {
  explicit Scan(DirectoryUsage& of) : usage(of), folder(of.files_), memory(of.env_) {}

  DirectoryUsage& usage;
  OpenFile folder;
  Memory memory;  // threads scan at one time
  FolderUsage total = {};
  Array<FoundPage> pages;
  size_t num_pages = 0;
  uint64_t num_own = 0;
  int64_t oldest = kNever;  // parts included, which will be pages
  int error = 0;
  struct stat status = {};  // of the folder
  bool is_foreign = false;  // others may write to it
  bool has_missed = false;  // a part has gone meanwhile: it may be a page by now that was not listed

  void begin() { total = {}, num_pages = 0, num_own = 0, oldest = kNever, error = 0, has_missed = false; }
  Number number() const { return {total, oldest}; }
};

// The lock of a subfolder, or none: then what is done is noted in this process alone, as doubtful.
class DirectoryUsage::SubfolderLock {
 public:
  SubfolderLock(DirectoryUsage& usage, uint32_t subfolder)
      : usage_(usage), subfolder_(subfolder), file_(usage.files_) {
    const FolderPath path = path_in(subfolder, "usage");
    error_ = file_.open(usage.root_, path.text, O_RDWR);
    if (error_ == -ENOENT) error_ = usage.make_subfolder(subfolder);
    if (error_ == 0 && file_.fd() < 0) error_ = file_.open(usage.root_, path.text, O_RDWR | O_CREAT, 0600);
    if (error_ != 0) return;
    for (int i = 0; i < kUsageTries; ++i) {
      error_ = usage.files_.lock(file_.fd());
      if (error_ != -EWOULDBLOCK && error_ != -EINTR) break;
      sched_yield();
    }
    changes_ = usage.noted(subfolder).changes;
  }
  SubfolderLock(const SubfolderLock&) = delete;
  SubfolderLock& operator=(const SubfolderLock&) = delete;

  bool is_held() const { return error_ == 0; }
  // 0, also if somebody else has it.
  int error() const { return error_ == -EWOULDBLOCK || error_ == -EINTR ? 0 : error_; }

  // The number is this now; `changed`: not only counted.
  int set(const Number& number, bool changed) {
    if (!is_held()) {
      usage_.note(subfolder_, number, changed || usage_.noted(subfolder_).is_doubtful);
      return 0;
    }
    usage_.note(subfolder_, number, false, &changes_);  // other threads may have gone on without the lock
    UsageRecord record = {number, kUsageMagic, 0};
    record.crc = crc32c(&record, offsetof(UsageRecord, crc));
    const int error = write_fully(usage_.files_, file_.fd(), &record, sizeof record, 0);
    if (error != 0) usage_.note(subfolder_, number, true);
    return error;
  }
  int add(uint64_t bytes) {
    const Number before = usage_.noted(subfolder_).seen;
    const int error = change([&](Number* number, bool) {
      number->usage.bytes += bytes, ++number->usage.pages;
      number->oldest = std::min(number->oldest, in_ns(usage_.files_.time(), 0));
    });
    if (error != 0) usage_.note(subfolder_, before, true);
    return error;
  }
  // What is gone; a count does not have it any more.
  int subtract(uint64_t bytes) {
    return change([&](Number* number, bool is_counted) {
      if (is_counted) return;
      number->usage.bytes -= std::min(number->usage.bytes, bytes);
      number->usage.pages -= number->usage.pages != 0;
    });
  }
  // Whether the file has a number. Without the lock it may be an old one.
  static bool read(Files& files, int file, Number* out) {
    UsageRecord record = {};
    const int error = read_fully(files, file, &record, sizeof record, 0);
    *out = record.number;
    return error == 0 && record.magic == kUsageMagic &&
           record.crc == crc32c(&record, offsetof(UsageRecord, crc));
  }

 private:
  template <typename Change>
  int change(Change&& apply) {
    Subfolder known = usage_.noted(subfolder_);
    const bool counts = is_held() && (known.is_doubtful || !read(usage_.files_, file_.fd(), &known.seen));
    if (counts) {
      Scan scan(usage_);
      const int error = usage_.count(subfolder_, &scan);
      if (error != 0) return error;
      known.seen = scan.number();
    }
    apply(&known.seen, counts);
    return set(known.seen, true);
  }

  DirectoryUsage& usage_;
  const uint32_t subfolder_;
  OpenFile file_;
  int error_;
  uint64_t changes_ = 0;  // of the subfolder by this process, when it got the lock or set the number
};

// `changes`: of the subfolder, as the caller knows it. If there were others, its number lacks them: it is
// doubtful, and the greater one stands until the subfolder is counted.
void DirectoryUsage::note(uint32_t subfolder, const Number& number, bool is_doubtful, uint64_t* changes) {
  const std::lock_guard lock(mutex_);
  Subfolder& of = subfolders_[subfolder];
  Number now = number;
  if (changes != nullptr && of.changes != *changes) {
    is_doubtful = true;
    if (now.usage.bytes < of.seen.usage.bytes) now.usage = of.seen.usage;
    now.oldest = std::min(now.oldest, of.seen.oldest);
  }
  total_ += now.usage.bytes - of.seen.usage.bytes;
  of = {now, of.changes + 1, is_doubtful};
  if (changes != nullptr) *changes = of.changes;
}

DirectoryUsage::Subfolder DirectoryUsage::noted(uint32_t subfolder) {
  const std::lock_guard lock(mutex_);
  return subfolders_[subfolder];
}

uint64_t DirectoryUsage::total() {
  const std::lock_guard lock(mutex_);
  return total_;
}

int DirectoryUsage::open(int root, const Digest256& fingerprint, uint64_t limit, uint64_t keep_free,
                         uint64_t ttl_s, FolderContents* found) {
  root_ = root;
  fingerprint_ = fingerprint;
  limit_ = limit;
  keep_free_ = keep_free;
  ttl_s_ = ttl_s;
  for (Subfolder& of : subfolders_) of = {{{0, 0}, kNever}, 0, false};
  const int error = count_all(found);
  return error != 0 || total() <= limit_ ? error : evict(lowered_limit(), &evictions_);
}

// What was done without a lock is counted, where that is free now.
DirectoryUsage::~DirectoryUsage() {
  for (uint32_t i = 0; i < kSubfolders; ++i) {
    if (!noted(i).is_doubtful) continue;
    SubfolderLock lock(*this, i);
    Scan scan(*this);
    if (lock.is_held() && count(i, &scan) == 0) static_cast<void>(lock.set(scan.number(), false));
  }
}

int DirectoryUsage::make_subfolder(uint32_t subfolder) {
  int error;
  do {
    error = files_.make_folder(root_, path_in(subfolder, "").text, 0700);
  } while (error == -EINTR);
  if (error == 0) is_synced_[subfolder] = false;
  return error == -EEXIST ? 0 : error;
}

// Who has made the subfolder may not sync, so that its name is synced here, once.
int DirectoryUsage::sync_names(const FolderPath& page) {
  const uint32_t subfolder = page.subfolder();
  OpenFile folder(files_);
  int error = folder.open(root_, path_in(subfolder, "").text, O_RDONLY | O_DIRECTORY);
  if (error == 0) error = files_.sync(folder.fd());
  if (error != 0 || is_synced_[subfolder]) return error;
  error = files_.sync(root_);
  is_synced_[subfolder] = error == 0;
  return error;
}

// Removes a part if its writer has ended. -EWOULDBLOCK: it has not. Parts are locked by inode and removed by
// name, which another writer may have by now.
int DirectoryUsage::remove_part(Scan* scan, const char* name) {
  const int folder = scan->folder.fd();
  OpenFile file(files_);
  int error = file.open(folder, name, O_RDWR);
  if (error == 0) error = files_.lock(file.fd());
  struct stat locked;
  if (error == 0) error = files_.status(file.fd(), &locked);
  if (error == 0) error = remove_file(files_, folder, name, locked);
  return error == -ESTALE ? -EWOULDBLOCK : error;
}

// Counts a file of a subfolder, or removes it if its writer has ended or its time is over.
int DirectoryUsage::look_at(Scan* scan, const char* name) {
  const int folder = scan->folder.fd();
  const bool is_part = ends_with(name, ".part");
  FoundPage page = {};
  if (!is_part && !read_page_name(name, &page.fingerprint, &page.key)) return 0;
  struct stat status;
  int error = files_.status_at(folder, name, &status);
  if (error == -ENOENT) scan->has_missed |= is_part;
  if (error == -ENOENT) return 0;
  if (error != 0) return error;
  page.bytes = charged(static_cast<uint64_t>(status.st_size));
  page.time = in_ns(status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  if (is_part) {
    error = remove_part(scan, name);
    if (error == -ENOENT) scan->has_missed = true;
    if (error != -EWOULDBLOCK) return error == -ENOENT ? 0 : error;
  } else if (is_expired(status)) {
    error = files_.remove(folder, name);
    expired_ += error == 0;
    return error == -ENOENT ? 0 : error;
  } else {
    if (!has_room(&scan->pages, scan->memory, scan->num_pages)) return -ENOMEM;
    scan->pages[scan->num_pages++] = page;
    scan->num_own += page.fingerprint == fingerprint_;
  }
  ++scan->total.pages;
  scan->total.bytes += page.bytes;
  scan->oldest = std::min(scan->oldest, page.time);
  return 0;
}

int DirectoryUsage::count(uint32_t subfolder, Scan* scan) {
  const int error = scan->folder.open(root_, path_in(subfolder, "").text, O_RDONLY | O_DIRECTORY);
  if (error == -ENOENT || error == -ENOTDIR || error == -ELOOP) return 0;
  if (error != 0) return error;
  const int asked = files_.status(scan->folder.fd(), &scan->status);
  if (asked != 0) return asked;
  scan->is_foreign = !is_safe_folder(scan->status);
  if (scan->is_foreign) return -EPERM;
  int listed = list(scan);
  for (int tries = 1; listed == 0 && has_changed(scan) && tries < kUsageTries; ++tries) listed = list(scan);
  return listed;
}

// Since it was listed: a page that comes to its name meanwhile may be seen under neither of its names.
bool DirectoryUsage::has_changed(Scan* scan) {
  const timespec before = scan->status.st_mtim;
  if (files_.status(scan->folder.fd(), &scan->status) != 0) return false;
  const timespec& now = scan->status.st_mtim;
  return scan->has_missed || now.tv_sec != before.tv_sec || now.tv_nsec != before.tv_nsec;
}

int DirectoryUsage::list(Scan* scan) {
  scan->begin();
  const int listed = files_.list(scan->folder.fd(), scan, [](void* data, const char* entry) {
    auto* in = static_cast<Scan*>(data);
    if (in->error == 0) in->error = in->usage.look_at(in, entry);
  });
  return listed != 0 ? listed : scan->error;
}

// The subfolders that there are, as bits.
int DirectoryUsage::list_subfolders(bool (&there)[kSubfolders]) {
  std::fill(std::begin(there), std::end(there), false);
  return files_.list(root_, there, [](void* data, const char* name) {
    uint32_t subfolder;
    if (read_subfolder_name(name, &subfolder)) static_cast<bool*>(data)[subfolder] = true;
  });
}

int DirectoryUsage::count_all(FolderContents* found) {
  bool there[kSubfolders];
  int error = list_subfolders(there);
  for (uint32_t i = 0; error == 0 && i < kSubfolders; ++i) {
    if (!there[i]) continue;
    SubfolderLock lock(*this, i);
    Scan scan(*this);
    error = lock.error();
    if (error == 0) error = count(i, &scan);
    if (scan.is_foreign) found->has_foreign = true, found->foreign = scan.status;
    if (error != 0) continue;
    num_own_ += scan.num_own;
    for (size_t p = 0; p < scan.num_pages; ++p)
      if (p == 0 || scan.pages[p].fingerprint != scan.pages[p - 1].fingerprint)
        found->fingerprints.insert(scan.pages[p].fingerprint);
    const int written = lock.set(scan.number(), false);
    if (!is_full(written)) error = written;  // a full disk still has what it has
  }
  return error;
}

// Learns what others have written.
int DirectoryUsage::read_again() {
  bool there[kSubfolders];
  const int error = list_subfolders(there);
  if (error != 0) return error;
  for (uint32_t i = 0; i < kSubfolders; ++i) {
    const Subfolder before = noted(i);
    Number number = {{0, 0}, kNever};
    if (before.is_doubtful || (!there[i] && before.seen.usage.bytes == 0)) continue;
    if (there[i]) {
      OpenFile file(files_);
      if (file.open(root_, path_in(i, "usage").text, O_RDONLY) != 0 ||
          !SubfolderLock::read(files_, file.fd(), &number))
        continue;
    }
    const std::lock_guard lock(mutex_);
    Subfolder& of = subfolders_[i];
    if (of.changes != before.changes) continue;  // by another thread, which knew better
    total_ += number.usage.bytes - of.seen.usage.bytes;
    of.seen = number;
  }
  const std::lock_guard lock(mutex_);
  unread_ = 0;
  unread_limit_ = std::max(limit_ / kShares, total_ < limit_ ? (limit_ - total_) / kPartOfFree : 0);
  return 0;
}

// The more room there is, the less often; the first time at once.
bool DirectoryUsage::is_time_to_read(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  unread_ += bytes;
  return unread_ > unread_limit_ || total_ > limit_;
}

// The subfolder with the oldest page, and the time of the oldest one of the others, as far as they are known;
// those of `least` were seen to be no older. -ENOSPC: there are none.
int DirectoryUsage::find_oldest(const int64_t (&least)[kSubfolders], uint32_t* subfolder, int64_t* next) {
  const std::lock_guard lock(mutex_);
  int64_t oldest = kNever;
  *next = kNever;
  for (uint32_t i = 0; i < kSubfolders; ++i) {
    const int64_t time = std::max(subfolders_[i].seen.oldest, least[i]);
    if (time < oldest) {
      *next = oldest, oldest = time, *subfolder = i;
    } else {
      *next = std::min(*next, time);
    }
  }
  return oldest != kNever ? 0 : -ENOSPC;
}

// Until at most `most` bytes are left.
int DirectoryUsage::evict(uint64_t most, std::atomic<uint64_t>* counter) {
  const std::lock_guard lock(evicting_);
  int64_t least[kSubfolders];
  std::fill(std::begin(least), std::end(least), -kNever);
  for (uint64_t now = total(); now > most; now = total()) {
    uint32_t subfolder = 0;
    int64_t next;
    int error = find_oldest(least, &subfolder, &next);
    if (error == 0) error = evict_from(subfolder, now - most, next, counter, &least[subfolder]);
    if (error != 0) return error;
  }
  return 0;
}

// The oldest pages of a subfolder, as long as they are not newer than `next`; a sixteenth of them if one is
// not, so that a large subfolder is listed for several pages. *oldest: of the pages that are left.
int DirectoryUsage::evict_from(uint32_t subfolder, uint64_t excess, int64_t next,
                               std::atomic<uint64_t>* counter, int64_t* oldest) {
  SubfolderLock lock(*this, subfolder);
  if (lock.error() != 0) return lock.error();
  const uint64_t believed = noted(subfolder).seen.usage.bytes;
  Scan scan(*this);
  int error = count(subfolder, &scan);
  if (error != 0) return error;
  const uint64_t less = believed - std::min(believed, scan.total.bytes);  // gone, or replaced
  excess -= std::min(excess, less);
  std::sort(scan.pages.data(), scan.pages.data() + scan.num_pages,
            [](const FoundPage& a, const FoundPage& b) {
              if (a.time != b.time) return a.time < b.time;
              return std::memcmp(a.key.bytes, b.key.bytes, sizeof a.key.bytes) < 0;
            });
  Number left = scan.number();
  size_t i = 0;
  for (uint64_t gone = 0; i < scan.num_pages && gone < excess; ++i) {
    const FoundPage& page = scan.pages[i];
    if (page.time > next && (i == 0 || i >= scan.num_pages / 16)) break;
    // By its name in this subfolder, which somebody may have copied it to.
    error = files_.remove(scan.folder.fd(), page_path(page.fingerprint, page.key).text + 3);
    if (error != 0 && error != -ENOENT) break;
    *counter += error == 0;
    error = 0;
    gone += page.bytes;
    left.usage.bytes -= page.bytes, --left.usage.pages;
  }
  *oldest = i < scan.num_pages ? scan.pages[i].time : kNever;
  if (left.usage.pages == scan.num_pages - i) left.oldest = *oldest;  // no part, which may be older
  const int written = lock.set(left, i != 0);
  return error != 0 ? error : is_full(written) ? 0 : written;
}

// How much less than `room` and what is to stay free the disk has.
int DirectoryUsage::missing(uint64_t room, uint64_t* out) {
  *out = 0;
  if (keep_free_ == 0) return 0;
  uint64_t free = 0;
  const int error = files_.free_bytes(root_, &free);
  const uint64_t wanted = keep_free_ + room;
  if (error == 0 && free < wanted) *out = wanted - free;
  return error;
}

int DirectoryUsage::give_way(uint64_t bytes) {
  int error = read_again();
  if (error == 0 && total() == 0) error = -ENOSPC;
  uint64_t least = 0;
  if (error == 0) error = missing(charged(bytes), &least);
  if (error != 0) return error;
  const uint64_t now = total();
  return evict(now - std::min(now, std::max({charged(bytes), least, now / 16})), &disk_evictions_);
}

int DirectoryUsage::make_part(uint32_t subfolder, uint64_t bytes, FolderPath* part, OpenFile* file) {
  int error = -EEXIST;
  for (int i = 0; i < 64 && error == -EEXIST; ++i) {
    char name[64];  // those of a process of the same number that was killed may be there
    snprintf(name, sizeof name, "%llx-%llx.part", static_cast<unsigned long long>(getpid()),
             static_cast<unsigned long long>(next_name_++));
    *part = path_in(subfolder, name);
    error = file->open(root_, part->text, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (error != 0) continue;
    error = files_.lock(file->fd());
    struct stat status = {};
    if (error == 0) error = files_.status(file->fd(), &status);
    // Whoever counts without the lock may have taken it for that of a dead writer.
    if (error == -EWOULDBLOCK || (error == 0 && status.st_nlink == 0)) {
      file->reset(), error = -EEXIST;
      continue;
    }
    if (error == 0) error = files_.truncate(file->fd(), bytes);
    if (error == 0) return 0;
    if (files_.status(file->fd(), &status) == 0)
      static_cast<void>(remove_file(files_, root_, part->text, status));
    file->reset();
  }
  return error;
}

int DirectoryUsage::begin(const Digest256& key, uint64_t bytes, FolderPath* part, OpenFile* file) {
  const uint64_t charge = charged(bytes);
  if (charge > limit_) return -ENOSPC;
  uint64_t least = 0;
  int error = missing(charge, &least);
  if (error == 0 && least != 0) error = -ENOSPC;
  if (error != 0) return error;
  {
    const uint32_t subfolder = subfolder_of(key);
    SubfolderLock lock(*this, subfolder);
    error = lock.error();
    // Without the lock a count between the two must not miss it.
    if (error == 0 && lock.is_held()) error = lock.add(charge);
    if (error != 0) return error;
    error = make_part(subfolder, bytes, part, file);
    if (error != 0 && lock.is_held()) static_cast<void>(lock.subtract(charge));
    if (error == 0 && !lock.is_held()) error = lock.add(charge);
    if (error != 0) return error;
  }
  if (is_time_to_read(charge)) error = read_again();
  if (error == 0 && total() > limit_) error = evict(lowered_limit(), &evictions_);
  if (error == 0) return 0;
  discard(*part, file);
  return error;
}

int DirectoryUsage::remove(const FolderPath& path, const struct stat& file) {
  const uint64_t charge = charged(static_cast<uint64_t>(file.st_size));
  SubfolderLock lock(*this, path.subfolder());
  if (lock.error() != 0) return lock.error();
  if (!lock.is_held()) static_cast<void>(lock.subtract(charge));  // as in begin()
  const int error = remove_file(files_, root_, path.text, file);
  if (error == 0 && lock.is_held()) static_cast<void>(lock.subtract(charge));
  return error;
}

void DirectoryUsage::discard(const FolderPath& part, OpenFile* file) {
  struct stat status;
  if (files_.status(file->fd(), &status) == 0) static_cast<void>(remove(part, status));
  file->reset();
}

FolderUsage DirectoryUsage::usage() {
  static_cast<void>(read_again());
  const std::lock_guard lock(mutex_);
  FolderUsage out = {total_, 0};
  for (const Subfolder& of : subfolders_) out.pages += of.seen.usage.pages;
  return out;
}

}  // namespace kvc
