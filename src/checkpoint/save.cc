// SPDX-License-Identifier: Apache-2.0
// A save reads the contents, then copies pages a megabyte at a time at most, each time holding their blocks;
// what was evicted by then is left out. The manifest is written last. Pages that the newest checkpoint has,
// or that a save which was cut short has left, are not written again, unless some content has ended since.
#include <fcntl.h>

#include <algorithm>
#include <unordered_map>

#include "base/status.h"
#include "checkpoint/commit.h"
#include "checkpoint/compare.h"
#include "checkpoint/data_file.h"
#include "checkpoint/leftover.h"
#include "checkpoint/stream.h"
#include "manager/contents_holder.h"

namespace kvc {
namespace {

struct HashDigest {
  size_t operator()(const Digest256& digest) const {
    size_t value;
    std::memcpy(&value, digest.bytes, sizeof value);
    return value;
  }
};

class Save {
 public:
  // With a stream there is no folder: all pages go to it.
  Save(CheckpointFolder& folder, Manager& manager, const std::vector<GroupMemory>& groups,
       const CheckpointOptions& options, CheckpointStream* stream = nullptr)
      : folder_(folder), stream_(stream), manager_(manager), groups_(groups), options_(options) {}

  kvc_status run(kvc_checkpoint_info* out) {
    KVC_TRY(plan());
    if (stream_ == nullptr) KVC_TRY(check_room());
    KVC_TRY(write_pages());
    out->lost_blocks = drop_lost();
    name_files();
    manifest_.content = manifest_.contents.digest(manifest_.contents.position_digests());
    if (stream_ != nullptr) {
      KVC_TRY(send_end());
      out->written_bytes = stream_->bytes();
    } else {
      KVC_TRY(commit_checkpoint(folder_, manifest_, options_, {}, out));
      if (own_.bytes != 0) out->written_bytes += own_.bytes - (goes_on_ ? leftover_.bytes : 0);
    }
    describe(manifest_, out);
    out->resumed_pages = resumed_;
    out->longest_hold = longest_hold_;
    out->longest_admission =
        manager_.read([](const StateReader& state) { return state.requests.admissions.longest(); });
    return KVC_OK;
  }

  // What run() would write.
  kvc_status measure(kvc_checkpoint_needs* out) {
    KVC_TRY(plan());
    out->new_bytes = bytes_to_write(wanted_);
    out->new_pages = wanted_.size();
    std::vector<Wanted> all;
    for (size_t p = 0, index = 0; p < manifest_.contents.pools.size(); ++p) {
      for (const Contents::Cached& cached : manifest_.contents.pools[p].blocks) {
        if (manifest_.groups[cached.group].has_pages != 0)
          all.push_back({cached.position, static_cast<uint32_t>(index), cached});
        ++index;
      }
    }
    out->num_pages = all.size();
    out->full_bytes = bytes_to_write(all);
    return KVC_OK;
  }

  uint64_t id() const { return manifest_.id; }

 private:
  static constexpr uint64_t kShareHeld = 16;
  static constexpr uint64_t kMostBytesOfAFile = sizeof(Manifest::DataFile) + 8 + 16;  // in a manifest
  static constexpr size_t kMostFiles = 64;  // of a checkpoint, unless an increment is demanded
  static constexpr uint32_t kOwn = Manifest::kNoFile - 1, kLost = Manifest::kNoFile - 2;
  struct Wanted {  // a page to write
    uint32_t position, index;
    Contents::Cached cached;
  };

  kvc_status plan() {
    KVC_TRY(open_codec(options_.codec, &codec_));
    KVC_TRY(manager_.read_contents((options_.flags & KVC_CHECKPOINT_REQUESTS) != 0, &manifest_.contents));
    longest_hold_ = manifest_.contents.longest_hold;
    describe_source(manager_, groups_, options_, &manifest_);
    manifest_.id = folder_.next_id();
    manifest_.codec = codec_.name;
    if (stream_ == nullptr && folder_.fd() >= 0) {
      KVC_TRY(find_base());
      find_leftover();
    }
    KVC_TRY(check_blocks());
    list_pages();
    return KVC_OK;
  }

  // At most: blocks may go before they are written, and a codec may make pages shorter. Each piece but the
  // last one of a file is at least half full.
  uint64_t bytes_to_write(const std::vector<Wanted>& pages) const {
    uint64_t bytes = 0, manifest = encode_manifest(manifest_).size();
    manifest += (base_files_.size() + 1) * kMostBytesOfAFile;  // it does not name them yet
    for (const Wanted& wanted : pages)
      bytes += room_of(wanted) + sizeof(Manifest::Page);  // and of the journal
    return bytes + (bytes / (kPieceBytes / 2) + 3) * kDataHeaderBytes + manifest;
  }

  // What cannot fit is not begun. With a codec nobody knows that before.
  kvc_status check_room() const {
    uint64_t free = 0;
    if (codec_.table != nullptr || folder_.files().free_bytes(folder_.fd(), &free) != 0) return KVC_OK;
    const uint64_t needed = bytes_to_write(wanted_);
    if (needed <= free) return KVC_OK;
    return fail(
        KVC_ERROR_LIMIT,
        "%s: the save may write %llu bytes, and its disk has %llu free; free %llu more, remove checkpoints, "
        "collect what saves that were cut short have left, or give another folder",
        folder_.path().c_str(), ull(needed), ull(free), ull(needed - free));
  }

  kvc_status send_end() {
    if (check_manifest("the stream", manifest_) != KVC_OK)
      return fail(KVC_ERROR_INTERNAL, "what the manager has cached cannot be saved: %s",
                  std::string(last_error()).c_str());
    return stream_->send_end(own_.bytes, encode_manifest(manifest_));
  }

  // Unless more than half of it is garbage by now.
  void find_leftover() {
    if ((options_.flags & KVC_CHECKPOINT_FULL) != 0 || manifest_.contents.mixed) return;
    leftover_ = kvc::find_leftover(folder_, codec_.name, source_of(manifest_));
    if (leftover_.id == 0) return;
    const std::vector<Digest256> keys = page_keys(manifest_);
    std::unordered_map<Digest256, Manifest::Page, HashDigest> left;
    for (const Manifest::Page& page : leftover_.pages) left.emplace(page.key, page);
    uint64_t useful = 0;
    for (const Digest256& key : keys) {
      const auto found = known_.count(key) != 0 ? left.end() : left.find(key);
      if (found != left.end()) useful += found->second.stored_bytes;
    }
    if (useful < leftover_.bytes / 2 && leftover_.bytes > kPieceBytes) return;
    if (useful == 0) return;
    goes_on_ = true;
    manifest_.id = leftover_.id;
    left_ = std::move(left);
  }

  // The newest checkpoint, if it is of the same source; a save adds to it what it lacks.
  kvc_status find_base() {
    if ((options_.flags & KVC_CHECKPOINT_FULL) != 0) return KVC_OK;
    const bool must = (options_.flags & KVC_CHECKPOINT_INCREMENT) != 0;
    Manifest base;
    kvc_status status = folder_.read_manifest(0, &base);
    if (status == KVC_OK) status = check_same_source(base, manifest_);
    if (status == KVC_OK) status = check_nothing_ended(base);
    if (status == KVC_OK)
      status = DataReader(folder_, base).open();  // its files are there, and whole in size
    if (status != KVC_OK) {
      return must || status == KVC_ERROR_OUT_OF_MEMORY ? status : KVC_OK;
    }
    uint64_t live = 0, bytes = 0;
    for (size_t i = 0; i < base.pages.size(); ++i) {
      const Manifest::Page& page = base.pages[i];
      if (page.file == Manifest::kNoFile) continue;
      known_.emplace(page.key, page);
      live += page.stored_bytes;
    }
    for (const Manifest::DataFile& file : base.files) bytes += file.bytes;
    base_files_ = std::move(base.files);
    base_codecs_ = std::move(base.codecs);
    // More is garbage than not, or it is in too many pieces: begin anew.
    if (!must && (bytes / 2 > live + kPieceBytes || base_files_.size() >= kMostFiles)) known_.clear();
    return KVC_OK;
  }

  // A page has the name of its tokens. After a reset or an unpublication equal names may have other bytes.
  kvc_status check_nothing_ended(const Manifest& base) const {
    const Contents& now = manifest_.contents;
    if (base.contents.lineage == now.lineage && !now.mixed) return KVC_OK;
    return fail(KVC_ERROR_NOT_FOUND,
                "%s: checkpoint %llu was made before a reset or an unpublication, or by another manager that "
                "had some; save without KVC_CHECKPOINT_INCREMENT",
                folder_.path().c_str(), ull(base.id));
  }

  kvc_status check_blocks() const {
    for (const Contents::Pool& pool : manifest_.contents.pools) {
      for (const Contents::Cached& cached : pool.blocks) {
        const GroupMemory& memory = groups_[cached.group];
        if (memory.slab != nullptr && memory.block(cached.block) >= memory.layout->num_blocks)
          return invalid("the storage of group %u has %llu blocks; block %d of the manager is not in it",
                         cached.group, ull(memory.layout->num_blocks), cached.block);
      }
    }
    return KVC_OK;
  }

  void list_pages() {
    const std::vector<Digest256> keys = page_keys(manifest_);
    size_t index = 0;
    for (const Contents::Pool& pool : manifest_.contents.pools) {
      for (const Contents::Cached& cached : pool.blocks) {
        Manifest::Page page = {};
        page.key = keys[index];
        page.file = Manifest::kNoFile;
        if (manifest_.groups[cached.group].has_pages != 0) {
          const auto known = known_.find(page.key);
          const auto left = left_.find(page.key);
          if (known != known_.end()) {
            page = known->second;
          } else if (left != left_.end() && is_page_of(left->second, cached.group)) {
            page = left->second;
            page.file = kOwn;
            ++resumed_;
          } else {
            page.file = kLost;
            wanted_.push_back({cached.position, static_cast<uint32_t>(index), cached});
          }
        }
        manifest_.pages.push_back(page);
        ++index;
      }
    }
    std::sort(wanted_.begin(), wanted_.end(), [](const Wanted& a, const Wanted& b) {
      return a.position != b.position ? a.position < b.position : a.cached.group < b.cached.group;
    });
  }

  bool is_page_of(const Manifest::Page& page, GroupIndex group) const {
    const uint64_t bytes = manifest_.groups[group].part_bytes;
    return page.compressed == 1 ? codec_.table != nullptr && page.stored_bytes < bytes
                                : page.compressed == 0 && page.stored_bytes == bytes;
  }

  uint64_t room_of(const Wanted& wanted) const {
    const uint64_t bytes = manifest_.groups[wanted.cached.group].part_bytes;
    return codec_.table == nullptr ? bytes : std::max(bytes, codec_.table->bound(bytes));
  }

  // Nobody can evict the blocks that are held while they are copied: they are a small part of each pool.
  size_t most_blocks_held() const {
    uint64_t smallest = 4096 * kShareHeld;
    for (const Contents::Pool& pool : manifest_.contents.pools) smallest = std::min(smallest, pool.size);
    return std::max<uint64_t>(smallest / kShareHeld, 1);
  }

  kvc_status write_pages() {
    uint64_t largest = 0;
    for (const Wanted& wanted : wanted_) largest = std::max(largest, room_of(wanted));
    if (stream_ != nullptr) {
      DataWriter writer(folder_, *stream_, manifest_.id, largest);
      return write_pages(writer);
    }
    DataWriter writer(folder_, manifest_.id, largest, (options_.flags & KVC_CHECKPOINT_NO_SYNC) == 0);
    KVC_TRY(writer.begin(codec_.name, source_of(manifest_), goes_on_ ? &leftover_ : nullptr));
    return write_pages(writer);
  }

  kvc_status write_pages(DataWriter& writer) {
    ContentsHolder holder(manager_, manifest_.contents);
    const size_t most_held = most_blocks_held();
    std::vector<Contents::Cached> batch;
    std::vector<uint8_t> held;
    std::vector<char> plain;
    for (size_t begin = 0; begin < wanted_.size();) {
      uint64_t bytes = 0;
      size_t end = begin;
      batch.clear();
      do {
        bytes += room_of(wanted_[end]);
        batch.push_back(wanted_[end++].cached);
      } while (end < wanted_.size() && bytes + room_of(wanted_[end]) <= kPieceBytes / 2 &&
               batch.size() < most_held);
      held.assign(batch.size(), 0);
      // The room comes first: while the blocks are held nothing waits for a disk.
      char* room = nullptr;
      if (codec_.table == nullptr) {
        KVC_TRY(writer.begin_page(bytes, &room));
      } else {
        plain.resize(std::max<size_t>(plain.size(), bytes));
        room = plain.data();
      }
      batch.resize(holder.hold(batch.data(), batch.size(), held.data()));
      end = begin + batch.size();
      uint64_t at = 0;
      for (size_t i = 0; i < batch.size(); ++i) {
        const GroupMemory& memory = groups_[batch[i].group];
        held[i] = held[i] != 0 && memory.block(batch[i].block) < memory.layout->num_blocks;
        if (held[i] == 0) continue;
        pack_page(*memory.layout, memory.slab, memory.block(batch[i].block), room + at);
        at += manifest_.groups[batch[i].group].part_bytes;
      }
      holder.release();
      at = 0;
      for (size_t i = 0; i < batch.size(); ++i) {
        if (held[i] == 0) continue;
        const uint64_t size = manifest_.groups[batch[i].group].part_bytes;
        Manifest::Page* page = &manifest_.pages[wanted_[begin + i].index];
        page->file = kOwn;
        if (codec_.table == nullptr)  // it lies where it is written from
          writer.end_page(size, page);
        else
          KVC_TRY(add_page(&writer, codec_, options_.level, room + at, size, page));
        at += size;
      }
      begin = end;
    }
    drop_gone(holder);
    longest_hold_ = std::max(longest_hold_, holder.longest_hold());
    return writer.finish(&own_);
  }

  // Blocks without bytes that are gone by now, or have other content.
  void drop_gone(ContentsHolder& holder) {
    size_t index = 0;
    for (const Contents::Pool& pool : manifest_.contents.pools) {
      for (const Contents::Cached& cached : pool.blocks) {
        Manifest::Page& page = manifest_.pages[index++];
        if (page.file != Manifest::kNoFile) continue;
        Contents::Cached entry = cached;
        uint8_t held = 0;
        holder.hold(&entry, 1, &held);
        holder.release();
        if (held == 0 || entry.block != cached.block) page.file = kLost;
      }
    }
  }

  // Leaves out the blocks that have no page, though their group has. Positions without a block may stay.
  uint64_t drop_lost() {
    Contents& contents = manifest_.contents;
    uint64_t lost = 0;
    size_t index = 0, kept = 0;
    for (Contents::Pool& pool : contents.pools) {
      size_t in_pool = 0;
      for (const Contents::Cached cached : pool.blocks) {
        const Manifest::Page page = manifest_.pages[index++];
        if (page.file == kLost) {
          contents.positions[cached.position].resident &= ~(1u << cached.group);
          ++lost;
          continue;
        }
        pool.blocks[in_pool++] = cached;
        manifest_.pages[kept++] = page;
      }
      if (in_pool != pool.blocks.size()) pool.free.clear();
      pool.blocks.resize(in_pool);
    }
    manifest_.pages.resize(kept);
    return lost;
  }

  // Lists the files that are needed, its own first.
  void name_files() {
    std::vector<uint32_t> to(base_files_.size(), Manifest::kNoFile);
    for (const Manifest::Page& page : manifest_.pages) {
      if (page.file < to.size()) to[page.file] = 0;
    }
    if (own_.bytes != 0) {
      manifest_.files.push_back(own_);
      manifest_.codecs.push_back(codec_.name);
    }
    for (size_t i = 0; i < to.size(); ++i) {
      if (to[i] != 0) continue;
      to[i] = static_cast<uint32_t>(manifest_.files.size());
      manifest_.files.push_back(base_files_[i]);
      manifest_.codecs.push_back(base_codecs_[i]);
    }
    for (Manifest::Page& page : manifest_.pages) {
      if (page.file == kOwn)
        page.file = 0;
      else if (page.file != Manifest::kNoFile)
        page.file = to[page.file];
    }
  }

  CheckpointFolder& folder_;
  CheckpointStream* const stream_;
  Manager& manager_;
  const std::vector<GroupMemory>& groups_;
  const CheckpointOptions& options_;
  Codec codec_;
  Manifest manifest_;
  std::unordered_map<Digest256, Manifest::Page, HashDigest> known_;
  std::vector<Manifest::DataFile> base_files_;
  std::vector<std::string> base_codecs_;
  std::vector<Wanted> wanted_;
  Manifest::DataFile own_ = {};
  Leftover leftover_;
  std::unordered_map<Digest256, Manifest::Page, HashDigest> left_;  // its pages
  bool goes_on_ = false;                                            // own_ begins with it
  uint64_t resumed_ = 0, longest_hold_ = 0;
};

}  // namespace

kvc_status save_checkpoint(Files& files, Manager& manager, const std::vector<GroupMemory>& groups,
                           const CheckpointOptions& options, kvc_checkpoint_info* out) {
  CheckpointFolder folder(files, options.folder);
  const bool sync = (options.flags & KVC_CHECKPOINT_NO_SYNC) == 0;
  KVC_TRY(folder.open(sync ? CheckpointFolder::For::kMakeDurable : CheckpointFolder::For::kMake));
  KVC_TRY(folder.list());
  Save save(folder, manager, groups, options);
  const kvc_status status = save.run(out);
  if (status != KVC_OK) folder.remove_failed(save.id());
  return status;
}

kvc_status save_stream(Files& files, Manager& manager, const std::vector<GroupMemory>& groups,
                       const CheckpointOptions& options, int fd, kvc_checkpoint_info* out) {
  CheckpointStream stream(files, fd);
  CheckpointFolder folder(files, stream.name().c_str());  // for texts
  return Save(folder, manager, groups, options, &stream).run(out);
}

kvc_status measure_checkpoint(Files& files, Manager& manager, const std::vector<GroupMemory>& groups,
                              const CheckpointOptions& options, kvc_checkpoint_needs* out) {
  CheckpointFolder folder(files, options.folder);
  if (const kvc_status status = folder.open(CheckpointFolder::For::kRead); status == KVC_OK) {
    KVC_TRY(folder.list());
  } else if (status != KVC_ERROR_NOT_FOUND) {
    return status;
  }
  const std::string path = options.folder;
  const size_t slash = path.find_last_not_of('/') == std::string::npos
                           ? std::string::npos
                           : path.find_last_of('/', path.find_last_not_of('/'));
  const std::string parent = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  OpenFile disk(files);  // of the folder, or where it would be made
  const std::string at = (folder.fd() >= 0 ? path : parent) + "/.";  // either may be a link to a folder
  int error = disk.open(AT_FDCWD, at.c_str(), O_RDONLY | O_DIRECTORY);
  if (error == 0) error = files.free_bytes(disk.fd(), &out->free_bytes);
  if (error != 0) return folder.failure("", "tell the room of its disk", error);
  return Save(folder, manager, groups, options).measure(out);
}

}  // namespace kvc
