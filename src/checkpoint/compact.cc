// SPDX-License-Identifier: Apache-2.0
// A compaction writes a checkpoint of equal content with all pages in a file of its own, checks each page
// that it copies, and removes the old one only once the new one is there.
#include <algorithm>

#include "base/status.h"
#include "checkpoint/commit.h"
#include "checkpoint/data_file.h"
#include "checkpoint/leftover.h"

namespace kvc {
namespace {

class Compaction {
 public:
  Compaction(CheckpointFolder& folder, const CheckpointOptions& options)
      : folder_(folder), options_(options) {}

  kvc_status run(kvc_checkpoint_info* out) {
    KVC_TRY(open_codec(options_.codec, &codec_));
    KVC_TRY(folder_.read_manifest(options_.id, &old_));
    name_ = folder_.file(CheckpointFolder::manifest_name(old_.id));
    KVC_TRY(check_keys(name_, old_, &pages_));
    new_ = old_;
    new_.id = folder_.next_id();
    new_.version = kCheckpointVersion;
    new_.files.clear(), new_.codecs.clear();
    new_.codec = codec_.name;
    Manifest::DataFile own = {};
    KVC_TRY(copy(&own));
    if (own.bytes != 0) {
      new_.files.push_back(own);
      new_.codecs.push_back(codec_.name);
    }
    KVC_TRY(commit_checkpoint(folder_, new_, options_, {old_.id}, out));
    out->written_bytes += own.bytes;
    describe(new_, out);
    return KVC_OK;
  }

  uint64_t id() const { return new_.id; }

 private:
  kvc_status copy(Manifest::DataFile* own) {
    std::vector<uint64_t> sizes;
    uint64_t largest = 0;
    for (const Contents::Pool& pool : old_.contents.pools) {
      for (const Contents::Cached& cached : pool.blocks) {
        const uint64_t size = old_.groups[cached.group].part_bytes;
        sizes.push_back(size);
        largest =
            std::max(largest, codec_.table == nullptr ? size : std::max(size, codec_.table->bound(size)));
      }
    }
    std::vector<Codec> codecs;
    KVC_TRY(open_codecs(name_, old_, pages_, &codecs));
    DataReader reader(folder_, old_);
    const kvc_status opened = reader.open();
    if (opened == KVC_ERROR_NOT_FOUND)  // nobody removes files meanwhile
      return fail(KVC_ERROR_CORRUPT, "%s; checkpoint %llu needs it", std::string(last_error()).c_str(),
                  ull(old_.id));
    KVC_TRY(opened);
    DataWriter writer(folder_, new_.id, largest, (options_.flags & KVC_CHECKPOINT_NO_SYNC) == 0);
    KVC_TRY(writer.begin(codec_.name, source_of(new_), nullptr));
    std::vector<char> plain;
    const auto copy_page = [&](uint32_t i, const char* bytes) -> kvc_status {
      const Manifest::Page& from = old_.pages[i];
      Manifest::Page* to = &new_.pages[i];
      if (from.compressed != 0)
        KVC_TRY(decompress(name_, old_, i, codecs[from.file], sizes[i], &plain, &bytes));
      to->file = 0;
      to->compressed = 0;
      return add_page(&writer, codec_, options_.level, bytes, sizes[i], to);
    };
    KVC_TRY(reader.read(pages_, copy_page));
    return writer.finish(own);
  }

  CheckpointFolder& folder_;
  const CheckpointOptions& options_;
  Codec codec_;
  Manifest old_, new_;
  std::string name_;  // of the old manifest
  std::vector<uint32_t> pages_;
};

}  // namespace

kvc_status compact_checkpoint(Files& files, const CheckpointOptions& options, kvc_checkpoint_info* out) {
  CheckpointFolder folder(files, options.folder);
  KVC_TRY(folder.open(CheckpointFolder::For::kWrite));
  KVC_TRY(folder.list());
  Compaction compaction(folder, options);
  const kvc_status status = compaction.run(out);
  if (status != KVC_OK && compaction.id() != 0) folder.remove_failed(compaction.id());
  return status;
}

kvc_status collect_checkpoints(Files& files, const char* path, uint32_t keep_last, uint64_t* removed_bytes) {
  CheckpointFolder folder(files, path);
  KVC_TRY(folder.open(CheckpointFolder::For::kWrite));
  KVC_TRY(folder.list());
  uint64_t left = folder.remove_manifests(folder.older_than_newest(keep_last, {}), true);
  left += folder.remove_unneeded(true, true);
  *removed_bytes = folder.removed_bytes();
  KVC_TRY(folder.tell_unread());
  if (left == 0) return KVC_OK;
  return fail(KVC_ERROR_DEVICE, "%s: %llu files could not be removed; try again", path, ull(left));
}

}  // namespace kvc
