// SPDX-License-Identifier: Apache-2.0
// A put writes zeroes over the header of the slot, then the payload, then the header. At whatever write it
// ends, the slot has no header that fits its payload, or both are whole.
#include "tier/slab_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "base/crc32c.h"
#include "base/status.h"
#include "tier/slab_format.h"
#include "tier/slot_store.h"

namespace kvc {
namespace {

constexpr size_t kHeadersAtOnce = 512;
constexpr RecordHeader kNoRecord = {};

kvc_status slab_failure(const SlabConfig& config, const char* what, int64_t error) {
  const kvc_status status = error == -ENOSPC || error == -EDQUOT    ? KVC_ERROR_NO_SPACE
                            : error == -ENOENT || error == -ENOTDIR ? KVC_ERROR_NOT_FOUND
                            : error == -EWOULDBLOCK                 ? KVC_ERROR_BUSY
                                                                    : KVC_ERROR_CORRUPT;
  return fail(status, "slab %s: cannot %s (errno %d)", config.path, what, static_cast<int>(-error));
}

class SlabStore final : public SlotStore {
 public:
  SlabStore(const Env& env, Files& files, const SlabConfig& config)
      : SlotStore(env, config.page_bytes),
        files_(files),
        sync_(config.sync),
        workers_(config.workers == 0 ? 1 : config.workers),
        file_(files),
        direct_(files) {}
  ~SlabStore() override { memory_.release(buffers_, workers_ * slab_.stride, kSector); }

  kvc_status open(const SlabConfig& config);

 private:
  struct Found {
    uint64_t generation;
    int32_t slot;
  };

  kvc_status describe(const SlabConfig& config);
  kvc_status recover(const SlabConfig& config);
  Bytes read_slot(const StoreCall& call, int32_t slot, const PageSlot& page, const PageItem& item) override;
  bool write_slot(const StoreCall& call, int32_t slot, uint64_t generation, const PageItem& item,
                  uint32_t* crc) override;
  bool clear_slot(int32_t slot) override { return write_header(slot, kNoRecord); }
  bool write_header(int32_t slot, const RecordHeader& header);

  char* buffer(const StoreCall& call) { return buffers_ + call.worker % workers_ * slab_.stride; }
  uint64_t payload_at(int32_t slot) const {
    return slab_.payloads_at + static_cast<uint64_t>(slot) * slab_.stride;
  }
  uint64_t header_at(int32_t slot) const {
    return slab_.headers_at + static_cast<uint64_t>(slot) * sizeof(RecordHeader);
  }
  static bool is_aligned(const void* data, uint64_t bytes) {
    return reinterpret_cast<uintptr_t>(data) % kSector == 0 && bytes % kSector == 0;
  }

  Files& files_;
  const bool sync_;
  const size_t workers_;
  SlabHeader slab_ = {};
  OpenFile file_, direct_;   // direct_ is closed if the system has no direct I/O for it
  char* buffers_ = nullptr;  // one a worker
};

kvc_status SlabStore::describe(const SlabConfig& config) {
  const SlabHeader wanted = make_slab(config.bytes, config.page_bytes, config.fingerprint);
  if (wanted.num_slots == 0 || wanted.num_slots > INT32_MAX / 2)
    return invalid("slab %s: %llu bytes hold %llu pages of %llu bytes; from 1 to 2^30 are possible",
                   config.path, static_cast<ull>(config.bytes), static_cast<ull>(wanted.num_slots),
                   static_cast<ull>(config.page_bytes));
  int error = file_.open(AT_FDCWD, config.path, O_RDWR | O_CREAT, 0600);
  if (error != 0) return slab_failure(config, "open it", error);
  struct stat status;
  error = files_.lock(file_.fd(), false);
  if (error == -EWOULDBLOCK)
    return fail(KVC_ERROR_BUSY, "slab %s: another process uses it; one process has a slab at a time",
                config.path);
  if (error != 0) return slab_failure(config, "lock it", error);
  error = files_.status(file_.fd(), &status);
  if (error != 0) return slab_failure(config, "ask for its size", error);
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1 || status.st_uid != geteuid())
    return invalid("slab %s: it is not a regular file of this user with one name", config.path);
  const auto size = static_cast<uint64_t>(status.st_size);
  bool is_new = size == 0;
  if (size != 0 && size < sizeof slab_) {  // perhaps its maker was killed in the first write
    error = read_fully(files_, file_.fd(), &slab_, size, 0);
    if (error != 0) return slab_failure(config, "read it", error);
    is_new = std::memcmp(&slab_, &wanted, size) == 0;
  }
  if (is_new) {
    error = write_fully(files_, file_.fd(), &wanted, sizeof wanted, 0);
    if (error != 0) {
      static_cast<void>(files_.truncate(file_.fd(), 0));
      return slab_failure(config, "write to it", error);
    }
    slab_ = wanted;
  } else {
    error = read_fully(files_, file_.fd(), &slab_, sizeof slab_, 0);
    if (error != 0 && error != -EIO) return slab_failure(config, "read it", error);
    if (error != 0 || std::memcmp(slab_.magic, kSlabMagic, sizeof slab_.magic) != 0 ||
        slab_.crc != crc32c(&slab_, offsetof(SlabHeader, crc)))
      return invalid("slab %s: it does not begin as a slab does; give another path, or remove it",
                     config.path);
    if (slab_.version != kSlabVersion)
      return fail(KVC_ERROR_UNSUPPORTED, "slab %s: its version is %u, this library reads %u", config.path,
                  slab_.version, kSlabVersion);
    if (slab_.fingerprint != wanted.fingerprint)
      return invalid(
          "slab %s: its pages have another fingerprint (model, weights, dtype or shape); give another path",
          config.path);
    if (slab_.page_bytes != wanted.page_bytes || slab_.bytes != wanted.bytes)
      return invalid(
          "slab %s: it has %llu bytes for pages of %llu, not %llu for pages of %llu; sizes do not change",
          config.path, static_cast<ull>(slab_.bytes), static_cast<ull>(slab_.page_bytes),
          static_cast<ull>(wanted.bytes), static_cast<ull>(wanted.page_bytes));
    if (std::memcmp(&slab_, &wanted, sizeof wanted) != 0)
      return fail(KVC_ERROR_UNSUPPORTED, "slab %s: another version of the library made it", config.path);
  }
  if (size < slab_.bytes) {  // new, or its maker was killed here
    error = files_.allocate(file_.fd(), slab_.bytes);
    if (error != 0) {
      if (is_new) static_cast<void>(files_.truncate(file_.fd(), 0));
      return slab_failure(config, "reserve its bytes on the disk", error);
    }
  }
  return KVC_OK;
}

kvc_status SlabStore::recover(const SlabConfig& config) {
  const size_t num_slots = index_.size();
  Array<RecordHeader> headers;
  Array<Found> found;
  if (!headers.create(memory_, num_slots) || !found.create(memory_, num_slots))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "slab %s: no memory to read %zu headers", config.path, num_slots);
  for (size_t i = 0; i < num_slots; i += kHeadersAtOnce) {
    const size_t count = std::min(kHeadersAtOnce, num_slots - i);
    const int error = read_fully(files_, file_.fd(), &headers[i], count * sizeof(RecordHeader),
                                 header_at(static_cast<int32_t>(i)));
    if (error != 0) return slab_failure(config, "read its headers", error);
  }
  size_t count = 0;
  for (size_t i = 0; i < num_slots; ++i) {
    if (std::memcmp(&headers[i], &kNoRecord, sizeof kNoRecord) == 0) continue;
    if (is_record(headers[i], slab_.fingerprint, slab_.page_bytes)) {
      found[count++] = {headers[i].generation, static_cast<int32_t>(i)};
    } else {
      ++stats_.bad_headers;
    }
  }
  // The newest first, which win over older ones of the same key; then in order.
  std::sort(found.data(), found.data() + count, [](const Found& a, const Found& b) {
    return a.generation != b.generation ? a.generation > b.generation : a.slot < b.slot;
  });
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    const RecordHeader& header = headers[static_cast<size_t>(found[i].slot)];
    if (index_.find(header.key) >= 0) {
      if (!write_header(found[i].slot, kNoRecord))
        return slab_failure(config, "write to it", -stats_.last_errno);
      continue;
    }
    index_.restore(found[i].slot, header.key, header.generation, header.payload_bytes, header.payload_crc);
    found[kept++] = found[i];
  }
  for (size_t i = kept; i-- > 0;) index_.touch(found[i].slot);
  index_.end_restore();
  stats_.recovered = kept;
  return KVC_OK;
}

kvc_status SlabStore::open(const SlabConfig& config) {
  KVC_TRY(describe(config));
  buffers_ = static_cast<char*>(memory_.allocate(workers_ * slab_.stride, kSector));
  if (buffers_ == nullptr || !index_.create(memory_, slab_.num_slots))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "slab %s: no memory for an index of %llu pages", config.path,
                static_cast<ull>(slab_.num_slots));
  KVC_TRY(recover(config));
  if (!config.direct) return KVC_OK;
  struct stat one, other;
  if (direct_.open(AT_FDCWD, config.path, O_RDWR | O_DIRECT) != 0 || files_.status(file_.fd(), &one) != 0 ||
      files_.status(direct_.fd(), &other) != 0 || one.st_ino != other.st_ino || one.st_dev != other.st_dev) {
    direct_.reset();
    ++stats_.fallbacks;
  }
  return KVC_OK;
}

bool SlabStore::write_header(int32_t slot, const RecordHeader& header) {
  const int error = write_fully(files_, file_.fd(), &header, sizeof header, header_at(slot));
  if (error != 0) count_failure(error);
  return error == 0;
}

bool SlabStore::write_slot(const StoreCall& call, int32_t slot, uint64_t generation, const PageItem& item,
                           uint32_t* crc) {
  if (!write_header(slot, kNoRecord)) return false;
  int error = -EINVAL;
  if (direct_.fd() >= 0) {
    const void* from = item.data;
    const uint64_t rounded = round_to_sector(item.bytes);
    if (is_aligned(item.data, item.bytes)) {
      *crc = crc32c(item.data, item.bytes);
    } else {
      *crc = crc32c_copy(buffer(call), item.data, item.bytes);
      std::memset(buffer(call) + item.bytes, 0, rounded - item.bytes);
      from = buffer(call);
    }
    error = write_fully(files_, direct_.fd(), from, rounded, payload_at(slot));
    if (error == -EINVAL) count_fallback();
  }
  if (error == -EINVAL) {
    *crc = crc32c(item.data, item.bytes);
    error = write_fully(files_, file_.fd(), item.data, item.bytes, payload_at(slot));
  }
  if (error == 0 && sync_) error = files_.sync(file_.fd());
  if (error != 0) {
    count_failure(error);
    return false;
  }
  if (!write_header(slot, make_record(item.key, slab_.fingerprint, generation, item.bytes, *crc))) {
    static_cast<void>(write_header(slot, kNoRecord));  // it may be there, or a part of it
    return false;
  }
  if (sync_) error = files_.sync(file_.fd());
  if (error == 0) return true;
  count_failure(error);
  static_cast<void>(write_header(slot, kNoRecord));
  return false;
}

SlotStore::Bytes SlabStore::read_slot(const StoreCall& call, int32_t slot, const PageSlot& page,
                                      const PageItem& item) {
  int error = -EINVAL;
  // In place if all of it is wanted, and direct I/O can do so.
  const bool whole = item.runs == nullptr;
  const bool in_place = whole && (direct_.fd() < 0 || is_aligned(item.data, page.bytes));
  auto* to = in_place ? static_cast<char*>(item.data) : buffer(call);
  if (direct_.fd() >= 0) {
    error = read_fully(files_, direct_.fd(), to, round_to_sector(page.bytes), payload_at(slot));
    if (error == -EINVAL) count_fallback();
  }
  if (error == -EINVAL) error = read_fully(files_, file_.fd(), to, page.bytes, payload_at(slot));
  if (error != 0) {
    count_failure(error);
    return Bytes::kFailed;
  }
  if (in_place) return crc32c(to, page.bytes) == page.crc ? Bytes::kRight : Bytes::kWrong;
  if (whole) {
    return crc32c_copy(item.data, to, page.bytes) == page.crc ? Bytes::kRight : Bytes::kWrong;
  }
  if (crc32c(to, page.bytes) != page.crc) return Bytes::kWrong;
  auto* out = static_cast<char*>(item.data);
  for (size_t i = 0; i < item.num_runs; out += item.runs[i++].bytes)
    std::memcpy(out, to + item.runs[i].offset, item.runs[i].bytes);
  return Bytes::kRight;
}

}  // namespace

kvc_status open_slab_store(const Env& env, Files& files, const SlabConfig& config, PageStorePtr* out) {
  auto* store = new (std::nothrow) SlabStore(env, files, config);
  PageStorePtr owner(store);
  if (store == nullptr) return fail(KVC_ERROR_OUT_OF_MEMORY, "slab %s: no memory", config.path);
  KVC_TRY(store->open(config));
  *out = std::move(owner);
  return KVC_OK;
}

}  // namespace kvc
