// SPDX-License-Identifier: Apache-2.0
// Puts write zeroes over the headers of their slots, where there is something else; then all payloads; then
// the headers, neighbours at once. At whatever write this ends, a slot has no header that fits its payload,
// or both are whole. With `sync` each of the three reaches the disk before the next one begins.
#include "tier/slab_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "base/status.h"
#include "tier/description.h"
#include "tier/refusal.h"
#include "tier/slab_format.h"
#include "tier/slab_io.h"
#include "tier/slot_store.h"

namespace kvc {
namespace {

constexpr size_t kHeadersAtOnce = 256;  // when it is opened
constexpr int kLockTries = 100;         // a millisecond apart, for the lock
constexpr RecordHeader kNoRecord = {};

kvc_status slab_failure(const SlabConfig& config, const char* what, int64_t error) {
  return refused_by_system("slab", config.path, what, error);
}

class SlabStore final : public SlotStore {
 public:
  SlabStore(const Env& env, Files& files, const SlabConfig& config)
      : SlotStore(env, config.page_bytes),
        files_(files),
        fingerprint_(config.fingerprint),
        sync_(config.sync),
        file_(files),
        io_(memory_, files) {}

  kvc_status open(const SlabConfig& config);
  void describe(const std::string& text) override {
    static_cast<void>(write_slab_description(files_, file_.fd(), fingerprint_, text));
  }
  std::string difference(const std::string& text) override {
    return describe_difference(read_slab_descriptions(files_, file_.fd()), fingerprint_, text);
  }

 private:
  struct Found {
    uint64_t generation;
    int32_t slot;
  };

  kvc_status compare(const SlabConfig& config) const;
  kvc_status open_and_lock(const SlabConfig& config);
  static kvc_status check_file(const SlabConfig& config, const struct stat& status);
  kvc_status read_header(const SlabConfig& config, const SlabHeader& wanted, uint64_t size, bool* is_new);
  kvc_status check_room(const SlabConfig& config, const SlabHeader& wanted, const struct stat& status);
  kvc_status look(const SlabConfig& config);
  kvc_status make(const SlabConfig& config);
  kvc_status prepare(const SlabConfig& config, Fingerprints* present);
  kvc_status recover(const SlabConfig& config, Fingerprints* present);
  kvc_status restore(const SlabConfig& config, int32_t slot, const RecordHeader& header);
  void read_slots(const StoreCall& call, SlotWork* work, size_t count) override;
  void write_slots(const StoreCall& call, SlotWork* work, size_t count) override;
  void clear_slots(SlotWork* work, size_t count) override { write_headers(work, count, true); }
  kvc_io write_of(const StoreCall& call, SlotWork* work, size_t place);
  kvc_io read_of(const StoreCall& call, const SlotWork& work, size_t place);
  bool is_in_place(const kvc_tier_item& item) const;
  size_t write_headers(SlotWork* work, size_t count, bool blank);
  int write_run(const SlotWork* const* run, size_t count, bool blank);
  kvc_status open_syncs(const SlabConfig& config);
  void sync_all(const StoreCall& call, SlotWork* work, size_t count);

  uint64_t payload_at(int32_t slot) const {
    return slab_.payloads_at + static_cast<uint64_t>(slot) * slab_.stride;
  }
  uint64_t header_at(int32_t slot) const {
    return slab_.headers_at + static_cast<uint64_t>(slot) * sizeof(RecordHeader);
  }
  uint8_t& has_header(int32_t slot) { return has_header_[static_cast<size_t>(slot)]; }

  Files& files_;
  const Digest256 fingerprint_;
  const bool sync_;
  SlabHeader slab_ = {};
  OpenFile file_;
  uint64_t file_bytes_ = 0;                       // when it was opened
  bool is_made_ = false, is_new_ = false;         // the file; the slab in it
  std::vector<std::unique_ptr<OpenFile>> syncs_;  // with `sync`: of a worker each
  SlabIo io_;
  Array<uint8_t> has_header_;  // of a slot each: whether there may be more than zeroes; of who has the slot
};

// Whether the slab that is there may be used as it is.
kvc_status SlabStore::compare(const SlabConfig& config) const {
  if (slab_.version != kSlabVersion)
    return fail(KVC_ERROR_UNSUPPORTED,
                "slab %s: its version is %u, this library reads %u; give another path, or "
                "on_mismatch=replace to begin anew",
                config.path, slab_.version, kSlabVersion);
  if (slab_.page_bytes < config.page_bytes)
    return invalid(
        "slab %s: its slots take pages of at most %llu bytes, not of %llu; sizes do not change; give another "
        "path, or on_mismatch=replace to begin anew",
        config.path, static_cast<ull>(slab_.page_bytes), static_cast<ull>(config.page_bytes));
  const SlabHeader same = make_slab(config.bytes, slab_.page_bytes);
  if (slab_.bytes != same.bytes)
    return invalid(
        "slab %s: it has %llu bytes, not the %llu of this size; sizes do not change; give the bytes that it "
        "was made with, another path, or on_mismatch=replace to begin anew",
        config.path, static_cast<ull>(slab_.bytes), static_cast<ull>(same.bytes));
  if (same.num_slots == 0 || std::memcmp(&slab_, &same, sizeof same) != 0)
    return fail(KVC_ERROR_UNSUPPORTED,
                "slab %s: another version of the library made it; give another path, or on_mismatch=replace "
                "to begin anew",
                config.path);
  return KVC_OK;
}

kvc_status SlabStore::open_and_lock(const SlabConfig& config) {
  bool is_made = false;
  int error = file_.open(AT_FDCWD, config.path, O_RDWR);
  if (error == -ENOENT) {
    error = file_.open(AT_FDCWD, config.path, O_RDWR | O_CREAT | O_EXCL, 0600);
    is_made = error == 0;
    if (error == -EEXIST) error = file_.open(AT_FDCWD, config.path, O_RDWR);
  }
  if (error != 0) return slab_failure(config, "open it", error);
  // Who was killed, or has just been forked, may not be gone yet.
  for (int tries = 0; tries < kLockTries; ++tries) {
    if (tries != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    error = files_.lock(file_.fd());
    if (error != -EWOULDBLOCK) break;
  }
  is_made_ = is_made && error != -EWOULDBLOCK;  // else it is that of whoever has the lock
  if (error == -EWOULDBLOCK)
    return fail(KVC_ERROR_BUSY,
                "slab %s: another process uses it, or another tier of this one; close that, or take dir:",
                config.path);
  if (error != 0) return slab_failure(config, "lock it", error);
  return KVC_OK;
}

// Whether the file is one that nobody else writes to.
kvc_status SlabStore::check_file(const SlabConfig& config, const struct stat& status) {
  if (status.st_nlink == 0)
    return fail(KVC_ERROR_BUSY, "slab %s: another process has removed it just now; try again", config.path);
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1 || status.st_uid != geteuid())
    return invalid("slab %s: it is not a regular file of this user with one name", config.path);
  if (is_open_to_others(status.st_mode))
    return invalid(
        "slab %s: its mode is %03o: others may write to it, and could plant pages; forbid that (chmod "
        "go-w)",
        config.path, status.st_mode & 0777);
  return KVC_OK;
}

// Reads how the file begins, if it does, and whether it is another slab than the one that is wanted, or none.
kvc_status SlabStore::read_header(const SlabConfig& config, const SlabHeader& wanted, uint64_t size,
                                  bool* is_new) {
  int error = 0;
  *is_new = size == 0;
  if (size != 0 && size < sizeof slab_) {  // perhaps its maker was killed in the first write
    error = read_fully(files_, file_.fd(), &slab_, size, 0);
    if (error != 0) return slab_failure(config, "read it", error);
    *is_new = std::memcmp(&slab_, &wanted, size) == 0;
  }
  if (!*is_new) {
    error = read_fully(files_, file_.fd(), &slab_, sizeof slab_, 0);
    if (error != 0 && error != -EIO) return slab_failure(config, "read it", error);
    if (error != 0 || std::memcmp(slab_.magic, kSlabMagic, sizeof slab_.magic) != 0 ||
        slab_.crc != crc32c(&slab_, offsetof(SlabHeader, crc)))
      return invalid("slab %s: it does not begin as a slab does; give another path, or remove it",
                     config.path);
    const kvc_status same = compare(config);
    if (same != KVC_OK && !config.replaces) return same;
    *is_new = same != KVC_OK;
  }
  return KVC_OK;
}

// Whether the disk has room for a slab in the place of the file.
kvc_status SlabStore::check_room(const SlabConfig& config, const SlabHeader& wanted,
                                 const struct stat& status) {
  uint64_t free = 0;
  const int error = files_.free_bytes(file_.fd(), &free);
  if (error != 0) return slab_failure(config, "ask how much of the disk is free", error);
  free += static_cast<uint64_t>(status.st_blocks) * 512;  // its own, if it is replaced
  if (free < config.keep_free || free - config.keep_free < wanted.bytes)
    return fail(KVC_ERROR_LIMIT,
                "slab %s: the disk has %llu free bytes, less than its %llu and keep_free, %llu; make one of "
                "them smaller",
                config.path, static_cast<ull>(free), static_cast<ull>(wanted.bytes),
                static_cast<ull>(config.keep_free));
  return KVC_OK;
}

// Opens the file, and finds out what is in it; changes nothing.
kvc_status SlabStore::look(const SlabConfig& config) {
  const SlabHeader wanted = make_slab(config.bytes, config.page_bytes);
  if (wanted.num_slots == 0 || wanted.num_slots > INT32_MAX / 2)
    return invalid(
        "slab %s: %llu bytes hold %llu pages of %llu bytes, and it has 1 to 1073741823; give other bytes= or "
        "another page size",
        config.path, static_cast<ull>(config.bytes), static_cast<ull>(wanted.num_slots),
        static_cast<ull>(config.page_bytes));
  KVC_TRY(open_and_lock(config));
  struct stat status;
  const int error = files_.status(file_.fd(), &status);
  if (error != 0) return slab_failure(config, "ask for its size", error);
  KVC_TRY(check_file(config, status));
  file_bytes_ = static_cast<uint64_t>(status.st_size);
  bool is_new = false;
  KVC_TRY(read_header(config, wanted, file_bytes_, &is_new));
  if (is_new && config.keep_free != 0) KVC_TRY(check_room(config, wanted, status));
  if (is_new) slab_ = wanted;
  is_new_ = is_new;
  return KVC_OK;
}

// Makes the slab, if there is none or another one, and reserves its bytes.
kvc_status SlabStore::make(const SlabConfig& config) {
  uint64_t size = file_bytes_;
  int error = 0;
  if (is_new_) {
    if (size != 0) error = files_.truncate(file_.fd(), 0);
    if (error != 0) return slab_failure(config, "empty it", error);
    size = 0;
    error = write_fully(files_, file_.fd(), &slab_, sizeof slab_, 0);
    if (error != 0) {
      static_cast<void>(files_.truncate(file_.fd(), 0));
      return slab_failure(config, "write to it", error);
    }
  }
  if (size < slab_.bytes) {  // new, or its maker was killed here
    error = allocate_fully(files_, file_.fd(), slab_.bytes);
    if (error != 0) {
      if (is_new_) static_cast<void>(files_.truncate(file_.fd(), 0));
      return slab_failure(config, "reserve its bytes on the disk", error);
    }
  }
  if (!sync_) return KVC_OK;
  error = files_.sync(file_.fd());
  if (error == 0) error = sync_parent(files_, config.path);  // which has its name
  return error == 0 ? kvc_status{KVC_OK} : slab_failure(config, "make sure that it is on the disk", error);
}

// The page of a slot that has a whole header. The newest of several of one key wins.
kvc_status SlabStore::restore(const SlabConfig& config, int32_t slot, const RecordHeader& header) {
  const bool is_own = header.fingerprint == fingerprint_;
  const int32_t other = is_own ? index_.find(header.key) : -1;
  const bool wins = other < 0 || index_[other].generation < header.generation;
  if (other >= 0) {
    SlotWork loser = {nullptr, 0, 0, wins ? other : slot, Outcome::kDone};
    if (wins) index_.begin_remove(other), index_.end_remove(other);
    write_headers(&loser, 1, true);
    if (loser.outcome != Outcome::kDone) return slab_failure(config, "write to it", -stats_.last_errno);
  }
  if (wins)
    index_.restore(slot, is_own ? &header.key : nullptr, header.generation, header.payload_bytes,
                   header.payload_crc);
  stats_.recovered += is_own && other < 0;
  return KVC_OK;
}

// *present: whose pages there are.
kvc_status SlabStore::recover(const SlabConfig& config, Fingerprints* present) {
  const size_t num_slots = index_.size();
  Array<RecordHeader> headers;
  Array<Found> found;
  if (!headers.create(memory_, kHeadersAtOnce) || !found.create(memory_, num_slots))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "slab %s: no memory to read %zu headers", config.path, num_slots);
  size_t num_found = 0;
  for (size_t first = 0; first < num_slots; first += kHeadersAtOnce) {
    const size_t count = std::min(kHeadersAtOnce, num_slots - first);
    const int error = read_fully(files_, file_.fd(), headers.data(), count * sizeof(RecordHeader),
                                 header_at(static_cast<int32_t>(first)));
    if (error != 0) return slab_failure(config, "read its headers", error);
    for (size_t i = 0; i < count; ++i) {
      if (std::memcmp(&headers[i], &kNoRecord, sizeof kNoRecord) == 0) continue;
      const auto slot = static_cast<int32_t>(first + i);
      has_header(slot) = 1;
      if (!is_record(headers[i], headers[i].fingerprint, slab_.page_bytes)) {
        ++stats_.bad_headers;
        continue;
      }
      KVC_TRY(restore(config, slot, headers[i]));
      present->insert(headers[i].fingerprint);
      found[num_found++] = {headers[i].generation, slot};
    }
  }
  std::sort(found.data(), found.data() + num_found, [](const Found& a, const Found& b) {
    return a.generation != b.generation ? a.generation < b.generation : a.slot > b.slot;
  });
  for (size_t i = 0; i < num_found; ++i)
    if (index_[found[i].slot].state == SlotState::kReady) index_.touch(found[i].slot);
  index_.end_restore();
  return KVC_OK;
}

// All that can be refused without a change of the file comes before what changes it.
kvc_status SlabStore::prepare(const SlabConfig& config, Fingerprints* present) {
  KVC_TRY(look(config));
  page_bytes_ = slab_.page_bytes;
  if (!index_.create(memory_, slab_.num_slots, config.policy, config.ttl_ns) ||
      !has_header_.create(memory_, slab_.num_slots))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "slab %s: no memory for an index of %llu pages", config.path,
                static_cast<ull>(slab_.num_slots));
  const bool is_whole = !is_new_ && file_bytes_ >= slab_.bytes;
  if (is_whole)
    KVC_TRY(recover(config, present));  // before there are buffers for I/O: that takes memory, too
  KVC_TRY(io_.open(config, file_.fd(), slab_.stride, kMostBatch));
  if (sync_) KVC_TRY(open_syncs(config));
  KVC_TRY(make(config));
  return is_whole ? kvc_status{KVC_OK} : recover(config, present);
}

kvc_status SlabStore::open(const SlabConfig& config) {
  Fingerprints present = {fingerprint_};
  const kvc_status prepared = prepare(config, &present);
  if (prepared != KVC_OK) {
    struct stat made;
    if (is_made_ && files_.status(file_.fd(), &made) == 0)
      static_cast<void>(remove_file(files_, AT_FDCWD, config.path, made));
    return prepared;
  }
  for (const PageDescription& one : read_slab_descriptions(files_, file_.fd()))
    if (present.count(one.fingerprint) == 0)
      static_cast<void>(remove_slab_description(files_, file_.fd(), one.fingerprint));
  batch_ = io_.batch();
  stats_.fallbacks += io_.refused();
  stats_.uses_uring = io_.uses_engine();
  return KVC_OK;
}

// Writes the headers of neighbouring slots: zeroes or records. 0 or -errno.
int SlabStore::write_run(const SlotWork* const* run, size_t count, bool blank) {
  RecordHeader headers[kMostBatch] = {};
  for (size_t i = 0; i < count; ++i) {
    const SlotWork& work = *run[i];
    headers[i] =
        blank ? kNoRecord
              : make_record(key_of(*work.item), fingerprint_, work.generation, work.item->bytes, work.crc);
    has_header(work.slot) = 1;
  }
  const int error =
      write_fully(files_, file_.fd(), headers, count * sizeof headers[0], header_at(run[0]->slot));
  for (size_t i = 0; error == 0 && blank && i < count; ++i) has_header(run[i]->slot) = 0;
  return error;
}

// Of all slots in work that have not failed; zeroes where there are none yet. Returns of how many.
size_t SlabStore::write_headers(SlotWork* work, size_t count, bool blank) {
  SlotWork* order[kMostBatch];
  size_t num = 0;
  for (size_t i = 0; i < count; ++i)
    if (work[i].outcome == Outcome::kDone && (!blank || has_header(work[i].slot) != 0))
      order[num++] = &work[i];
  std::sort(order, order + num, [](const SlotWork* a, const SlotWork* b) { return a->slot < b->slot; });
  for (size_t first = 0, end; first < num; first = end) {
    for (end = first + 1; end < num && order[end]->slot == order[end - 1]->slot + 1;) ++end;
    if (end - first > 1 && write_run(order + first, end - first, blank) == 0) continue;
    for (size_t i = first; i < end; ++i) {  // a fault of one is not one of its neighbours
      const int error = write_run(order + i, 1, blank);
      if (error == 0) continue;
      count_failure(error);
      order[i]->outcome = Outcome::kFailed;
      if (!blank) static_cast<void>(write_run(order + i, 1, true));  // it may be there, or a part of it
    }
  }
  return num;
}

// The system tells each open file once that something was lost: with a common one, the sync of one worker
// would be told what another one has lost.
kvc_status SlabStore::open_syncs(const SlabConfig& config) {
  struct stat own, other;
  int error = files_.status(file_.fd(), &own);
  for (size_t i = 0; error == 0 && i < std::max(config.workers, 1u); ++i) {
    syncs_.push_back(std::make_unique<OpenFile>(files_));
    error = syncs_[i]->open(AT_FDCWD, config.path, O_RDWR);
    if (error == 0) error = files_.status(syncs_[i]->fd(), &other);
    if (error == 0 && (own.st_ino != other.st_ino || own.st_dev != other.st_dev)) error = -ESTALE;
  }
  return error == 0 ? kvc_status{KVC_OK} : slab_failure(config, "open it for each thread", error);
}

void SlabStore::sync_all(const StoreCall& call, SlotWork* work, size_t count) {
  const int error = files_.sync(syncs_[call.worker % syncs_.size()]->fd());
  if (error == 0) return;
  for (size_t i = 0; i < count; ++i) {
    if (work[i].outcome == Outcome::kDone) count_failure(error);
    work[i].outcome = Outcome::kFailed;
  }
}

bool SlabStore::is_in_place(const kvc_tier_item& item) const {
  return !io_.is_direct() ||
         (reinterpret_cast<uintptr_t>(item.data) % kSector == 0 && item.bytes % kSector == 0);
}

kvc_io SlabStore::write_of(const StoreCall& call, SlotWork* work, size_t place) {
  const kvc_tier_item& item = *work->item;
  kvc_io io = {item.data, item.bytes, payload_at(work->slot), 0, -1, 1};
  if (is_in_place(item)) {
    work->crc = crc32c(item.data, item.bytes);
    return io;
  }
  char* const copy = io_.buffer(call.worker, place);
  work->crc = crc32c_copy(copy, item.data, item.bytes);
  io.data = copy;
  io.bytes = round_to_sector(item.bytes);
  std::memset(copy + item.bytes, 0, io.bytes - item.bytes);
  return io;
}

void SlabStore::write_slots(const StoreCall& call, SlotWork* work, size_t count) {
  if (write_headers(work, count, true) != 0 && sync_) sync_all(call, work, count);
  kvc_io operations[kMostBatch];
  SlotWork* of[kMostBatch];
  size_t num = 0;
  for (size_t i = 0; i < count; ++i) {
    if (work[i].outcome != Outcome::kDone) continue;
    of[num] = &work[i];
    operations[num] = write_of(call, &work[i], num);
    ++num;
  }
  if (num == 0) return;
  count_fallbacks(io_.transfer(call.worker, operations, num));
  for (size_t i = 0; i < num; ++i) {
    if (operations[i].result == 0) continue;
    count_failure(operations[i].result);
    of[i]->outcome = Outcome::kFailed;
  }
  if (sync_) sync_all(call, work, count);
  write_headers(work, count, false);
  if (!sync_) return;
  sync_all(call, work, count);
  for (size_t i = 0; i < count; ++i)
    if (work[i].outcome == Outcome::kFailed && has_header(work[i].slot) != 0) {
      const SlotWork* one = &work[i];
      static_cast<void>(write_run(&one, 1, true));
    }
}

kvc_io SlabStore::read_of(const StoreCall& call, const SlotWork& work, size_t place) {
  const kvc_tier_item& item = *work.item;
  const bool in_place = item.runs == nullptr && is_in_place(item);
  return {in_place ? item.data : io_.buffer(call.worker, place),
          io_.is_direct() ? round_to_sector(item.bytes) : item.bytes,
          payload_at(work.slot),
          0,
          -1,
          0};
}

void SlabStore::read_slots(const StoreCall& call, SlotWork* work, size_t count) {
  kvc_io operations[kMostBatch];
  for (size_t i = 0; i < count; ++i) operations[i] = read_of(call, work[i], i);
  count_fallbacks(io_.transfer(call.worker, operations, count));
  for (size_t i = 0; i < count; ++i) {
    const kvc_tier_item& item = *work[i].item;
    const auto* from = static_cast<const char*>(operations[i].data);
    if (operations[i].result != 0) {
      count_failure(operations[i].result);
      work[i].outcome = Outcome::kFailed;
      continue;
    }
    const bool copies = item.runs == nullptr && from != item.data;
    const uint32_t crc = copies ? crc32c_copy(item.data, from, item.bytes) : crc32c(from, item.bytes);
    if (crc != work[i].crc) {
      work[i].outcome = Outcome::kWrong;
      continue;
    }
    auto* out = static_cast<char*>(item.data);
    for (size_t r = 0; item.runs != nullptr && r < item.num_runs; out += item.runs[r++].bytes)
      std::memcpy(out, from + item.runs[r].offset, item.runs[r].bytes);
  }
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
