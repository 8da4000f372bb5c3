// SPDX-License-Identifier: Apache-2.0
#include "tier/directory_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>

#include "base/crc32c.h"
#include "base/status.h"
#include "tier/description.h"
#include "tier/directory_usage.h"
#include "tier/hex.h"
#include "tier/record.h"
#include "tier/refusal.h"

namespace kvc {
namespace {

constexpr char kFormat[] = "kvcache folder 2\n";
constexpr uint64_t kAtPayload = sizeof(RecordHeader);
constexpr int64_t kDescriptionAge_s = 86400;  // of one without pages
constexpr uint64_t kMovedBytes = 256 << 10;   // is moved and summed while it is in a cache of the processor

kvc_status folder_failure(const DirectoryConfig& config, const char* what, int error) {
  return refused_by_system("folder", config.path, what, error);
}

class DirectoryStore final : public PageStore {
 public:
  DirectoryStore(const Env& env, Files& files, const DirectoryConfig& config)
      : files_(files),
        page_bytes_(config.page_bytes),
        limit_(config.bytes),
        fingerprint_(config.fingerprint),
        workers_(config.workers == 0 ? 1 : config.workers),
        sync_(config.sync),
        memory_(env),
        root_(files),
        usage_(env, files) {}
  ~DirectoryStore() override { memory_.release(buffers_, workers_ * page_bytes_, kAlign); }

  kvc_status open(const DirectoryConfig& config);
  void exists(const StoreCall& call, kvc_tier_item* items, size_t num_items) override;
  void get(const StoreCall& call, kvc_tier_item* items, size_t num_items) override;
  void put(const StoreCall& call, kvc_tier_item* items, size_t num_items) override;
  void remove(const StoreCall& call, kvc_tier_item* items, size_t num_items) override;
  StoreStats stats() override;
  void describe(const std::string& text) override {
    static_cast<void>(write_folder_description(files_, root_.fd(), fingerprint_, text));
  }
  std::string difference(const std::string& text) override {
    return describe_difference(read_folder_descriptions(files_, root_.fd()), fingerprint_, text);
  }

 private:
  static constexpr size_t kAlign = 64;

  kvc_status check_owner(const DirectoryConfig& config);
  kvc_status check_format(const DirectoryConfig& config);
  FolderPath path_of(const Digest256& key) const { return page_path(fingerprint_, key); }
  int32_t look_for(const Digest256& key, struct stat* found);
  int32_t read_page(const StoreCall& call, kvc_tier_item* item);
  int32_t write_page(kvc_tier_item* item);
  int write_file(kvc_tier_item* item);
  int32_t broken(const FolderPath& path, const struct stat& read, uint64_t StoreStats::*counter);
  int32_t failed(int error);
  void count(uint64_t StoreStats::*counter) {
    const std::lock_guard lock(mutex_);
    ++(stats_.*counter);
  }

  Files& files_;
  const uint64_t page_bytes_, limit_;
  const Digest256 fingerprint_;
  const size_t workers_;
  const bool sync_;
  Memory memory_;
  OpenFile root_;
  DirectoryUsage usage_;
  char* buffers_ = nullptr;               // one a worker
  std::atomic<bool> may_give_way_{true};  // the last page that did to a full disk has helped
  std::mutex mutex_;                      // all below
  StoreStats stats_ = {};
};

kvc_status others_may_write(const DirectoryConfig& config, const char* what, const struct stat& status) {
  if (is_open_to_others(status.st_mode))
    return invalid(
        "folder %s: the mode of %s is %03o: others may write to it, and could plant pages; forbid that "
        "(chmod "
        "go-w)",
        config.path, what, status.st_mode & 0777);
  return invalid(
      "folder %s: the owner of %s is user %u, not this one (%u) or root, and could plant pages; take a "
      "folder "
      "of your own",
      config.path, what, status.st_uid, geteuid());
}

kvc_status DirectoryStore::check_owner(const DirectoryConfig& config) {
  struct stat status;
  const int error = files_.status(root_.fd(), &status);
  if (error != 0) return folder_failure(config, "ask for its owner", error);
  return is_safe_folder(status) ? kvc_status{KVC_OK} : others_may_write(config, "it", status);
}

// The file `format` says what the folder is. It is made first, so whoever was killed there has made no pages.
kvc_status DirectoryStore::check_format(const DirectoryConfig& config) {
  OpenFile file(files_);
  struct stat status = {};
  int error = file.open(root_.fd(), "format", O_RDWR);
  if (error == -ENOENT) {
    if (files_.status_at(root_.fd(), "usage", &status) == 0)
      return fail(KVC_ERROR_UNSUPPORTED,
                  "folder %s: its version is 1, this library reads 2; give another path, or remove its files "
                  "to begin anew",
                  config.path);
    error = file.open(root_.fd(), "format", O_RDWR | O_CREAT, 0600);
  }
  if (error == 0) error = files_.lock(file.fd());  // whether there are locks; nobody holds this one
  if (error == 0 || error == -EWOULDBLOCK) error = files_.status(file.fd(), &status);
  char found[sizeof kFormat + 16] = {};
  const auto size = std::min<uint64_t>(static_cast<uint64_t>(status.st_size), sizeof found - 1);
  if (error == 0) error = read_fully(files_, file.fd(), found, size, 0);
  if (error == 0 && size < sizeof kFormat - 1 && std::memcmp(found, kFormat, size) == 0) {
    error = write_fully(files_, file.fd(), kFormat, sizeof kFormat - 1, 0);
    if (error == 0 && sync_) error = files_.sync(file.fd());
  } else if (error == 0 && std::strcmp(found, kFormat) != 0) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "folder %s: its file \"format\" is not that of version 2, which this library reads; give "
                "another path",
                config.path);
  }
  return error == 0 ? kvc_status{KVC_OK}
                    : folder_failure(config, "lock, read or write its file \"format\"", error);
}

kvc_status DirectoryStore::open(const DirectoryConfig& config) {
  size_t ignored;
  if (page_bytes_ == 0 || !checked_mul(workers_, page_bytes_, &ignored) ||
      DirectoryUsage::charged(page_bytes_ + kAtPayload) > limit_ || limit_ > PTRDIFF_MAX)
    return invalid("folder %s: %llu bytes have no room for a page of %llu", config.path,
                   static_cast<ull>(limit_), static_cast<ull>(page_bytes_));
  int error = files_.make_folder(AT_FDCWD, config.path, 0700);
  if (error == 0 || error == -EEXIST) error = root_.open(AT_FDCWD, config.path, O_RDONLY | O_DIRECTORY);
  if (error != 0) return folder_failure(config, "make or open it", error);
  KVC_TRY(check_owner(config));
  KVC_TRY(check_format(config));
  FolderContents found;
  error = usage_.open(root_.fd(), fingerprint_, limit_, config.keep_free, config.ttl_s, &found);
  if (found.has_foreign) return others_may_write(config, "one of its subfolders", found.foreign);
  if (error != 0) return folder_failure(config, "lock it, or count its pages", error);
  if (sync_) {  // the names of both
    error = files_.sync(root_.fd());
    if (error == 0) error = sync_parent(files_, config.path);
    if (error != 0) return folder_failure(config, "make sure that it is on the disk", error);
  }
  buffers_ = static_cast<char*>(memory_.allocate(workers_ * page_bytes_, kAlign));
  if (buffers_ == nullptr)
    return fail(KVC_ERROR_OUT_OF_MEMORY, "folder %s: no memory for buffers", config.path);
  stats_.recovered = usage_.num_own();
  for (const PageDescription& one : read_folder_descriptions(files_, root_.fd()))
    if (one.fingerprint != fingerprint_ && found.fingerprints.count(one.fingerprint) == 0)
      static_cast<void>(remove_folder_description(files_, root_.fd(), one.fingerprint, kDescriptionAge_s));
  return KVC_OK;
}

int32_t DirectoryStore::failed(int error) {
  const std::lock_guard lock(mutex_);
  ++stats_.failures;
  stats_.last_errno = -error;
  return KVC_PAGE_FAILED;
}

// The file that was read is not this page, or too old: a miss for all from now on. It is left alone if
// somebody has put another one in its place.
int32_t DirectoryStore::broken(const FolderPath& path, const struct stat& read,
                               uint64_t StoreStats::*counter) {
  count(counter);
  static_cast<void>(usage_.remove(path, read));
  return KVC_PAGE_MISS;
}

int32_t DirectoryStore::look_for(const Digest256& key, struct stat* found) {
  const int error = files_.status_at(root_.fd(), path_of(key).text, found);
  if (error == -ENOENT) return KVC_PAGE_MISS;
  if (error != 0) return failed(error);
  const bool is_page = S_ISREG(found->st_mode) && static_cast<uint64_t>(found->st_size) >= kAtPayload &&
                       !usage_.is_expired(*found);
  return is_page ? KVC_PAGE_OK : KVC_PAGE_MISS;
}

void DirectoryStore::exists(const StoreCall&, kvc_tier_item* items, size_t num_items) {
  struct stat ignored;
  for (size_t i = 0; i < num_items; ++i) {
    items[i].result = look_for(key_of(items[i]), &ignored);
    items[i].generation = items[i].lease_until_ns = 0;
  }
}

void DirectoryStore::get(const StoreCall& call, kvc_tier_item* items, size_t num_items) {
  for (size_t i = 0; i < num_items; ++i) items[i].result = read_page(call, &items[i]);
}

void DirectoryStore::put(const StoreCall&, kvc_tier_item* items, size_t num_items) {
  for (size_t i = 0; i < num_items; ++i) items[i].result = write_page(&items[i]);
}

void DirectoryStore::remove(const StoreCall&, kvc_tier_item* items, size_t num_items) {
  for (size_t i = 0; i < num_items; ++i) {
    struct stat page;
    items[i].result = look_for(key_of(items[i]), &page);
    if (items[i].result != KVC_PAGE_OK) continue;
    const int error = usage_.remove(path_of(key_of(items[i])), page);
    const bool is_gone = error == -ENOENT || error == -ESTALE;
    if (error == 0)
      count(&StoreStats::removed);
    else
      items[i].result = is_gone ? KVC_PAGE_MISS : failed(error);
  }
}

int32_t DirectoryStore::read_page(const StoreCall& call, kvc_tier_item* item) {
  const FolderPath path = path_of(key_of(*item));
  OpenFile file(files_);
  int error = file.open(root_.fd(), path.text, O_RDONLY);
  if (error == -ENOENT) return KVC_PAGE_MISS;
  if (error != 0) return failed(error);
  struct stat status;
  error = files_.status(file.fd(), &status);
  if (error != 0) return failed(error);
  const auto size = static_cast<uint64_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || size < kAtPayload) return broken(path, status, &StoreStats::bad_headers);
  if (usage_.is_expired(status)) return broken(path, status, &StoreStats::expired);
  RecordHeader header;
  error = read_fully(files_, file.fd(), &header, sizeof header, 0);
  if (error != 0) return failed(error);
  if (!is_record(header, fingerprint_, page_bytes_) || header.key != key_of(*item) ||
      size != kAtPayload + header.payload_bytes)
    return broken(path, status, &StoreStats::bad_headers);
  if (item->generation != 0 && item->generation != header.generation) return KVC_PAGE_EXPIRED;
  if (header.payload_bytes != item->bytes) {
    count(&StoreStats::bad_headers);
    return KVC_PAGE_MISS;
  }
  const bool whole = item->runs == nullptr;
  auto* to = whole ? static_cast<char*>(item->data) : buffers_ + call.worker % workers_ * page_bytes_;
  uint32_t crc = 0;
  for (uint64_t at = 0; at < item->bytes; at += kMovedBytes) {
    const uint64_t piece = std::min(kMovedBytes, item->bytes - at);
    error = read_fully(files_, file.fd(), to + at, piece, kAtPayload + at);
    if (error != 0) return failed(error);
    crc = crc32c(to + at, piece, crc);
  }
  if (crc != header.payload_crc) return broken(path, status, &StoreStats::bad_payloads);
  auto* out = static_cast<char*>(item->data);
  for (size_t i = 0; !whole && i < item->num_runs; out += item->runs[i++].bytes)
    std::memcpy(out, to + item->runs[i].offset, item->runs[i].bytes);
  static_cast<void>(files_.touch(file.fd()));  // else it only looks older
  item->generation = header.generation;
  return KVC_PAGE_OK;
}

int32_t DirectoryStore::write_page(kvc_tier_item* item) {
  struct stat page = {};
  if (item->bytes > page_bytes_) {
    return KVC_PAGE_NO_SPACE;
  }
  const int32_t there = look_for(key_of(*item), &page);
  const bool is_same = static_cast<uint64_t>(page.st_size) == kAtPayload + item->bytes;
  if (there == KVC_PAGE_FAILED || (there == KVC_PAGE_OK && is_same)) {
    item->generation = 0;
    return there;
  }
  int error = write_file(item);
  // A full disk takes pages from the cache, as long as that helps.
  if (is_full(error) && may_give_way_.exchange(false) && usage_.give_way(kAtPayload + item->bytes) == 0)
    error = write_file(item);
  if (error != 0) {
    const int32_t result = failed(error);
    return is_full(error) ? KVC_PAGE_NO_SPACE : result;
  }
  may_give_way_ = true;
  if (there == KVC_PAGE_OK) count(&StoreStats::mismatches);
  return KVC_PAGE_OK;
}

int DirectoryStore::write_file(kvc_tier_item* item) {
  FolderPath part;
  OpenFile file(files_);
  const uint64_t bytes = kAtPayload + item->bytes;
  int error = usage_.begin(key_of(*item), bytes, &part, &file);
  if (error != 0) return error;
  const FolderPath path = path_of(key_of(*item));
  const auto* from = static_cast<const char*>(item->data);
  uint32_t crc = 0;
  for (uint64_t at = 0; error == 0 && at < item->bytes; at += kMovedBytes) {
    const uint64_t piece = std::min(kMovedBytes, item->bytes - at);
    crc = crc32c(from + at, piece, crc);
    error = write_fully(files_, file.fd(), from + at, piece, kAtPayload + at);
  }
  const RecordHeader header = make_record(key_of(*item), fingerprint_, 1, item->bytes, crc);
  if (error == 0) error = write_fully(files_, file.fd(), &header, sizeof header, 0);
  if (error == 0 && sync_) error = files_.sync(file.fd());
  struct stat page;
  if (error == 0) error = files_.status(file.fd(), &page);
  if (error == 0) error = files_.rename(root_.fd(), part.text, path.text);
  if (error != 0) {
    usage_.discard(part, &file);
    return error;
  }
  error = file.close();  // some file systems say only here that they have lost something
  if (error == 0 && sync_) error = usage_.sync_names(path);
  if (error != 0) {
    static_cast<void>(usage_.remove(path, page));  // unless another process has put one
    return error;
  }
  item->generation = header.generation;
  return 0;
}

StoreStats DirectoryStore::stats() {
  const FolderUsage usage = usage_.usage();
  const std::lock_guard lock(mutex_);
  StoreStats out = stats_;
  out.pages = usage.pages;
  out.bytes = usage.bytes;
  out.capacity_bytes = limit_;
  out.capacity_pages = limit_ / DirectoryUsage::charged(page_bytes_ + kAtPayload);
  out.evictions = usage_.evictions();
  out.disk_evictions = usage_.disk_evictions();
  out.expired += usage_.expired();
  return out;
}

}  // namespace

kvc_status open_directory_store(const Env& env, Files& files, const DirectoryConfig& config,
                                PageStorePtr* out) {
  auto* store = new (std::nothrow) DirectoryStore(env, files, config);
  PageStorePtr owner(store);
  if (store == nullptr) return fail(KVC_ERROR_OUT_OF_MEMORY, "folder %s: no memory", config.path);
  KVC_TRY(store->open(config));
  *out = std::move(owner);
  return KVC_OK;
}

}  // namespace kvc
