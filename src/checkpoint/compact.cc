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
    const std::vector<Digest256> keys = page_keys(old_);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (old_.pages[i].file == Manifest::kNoFile) continue;
      if (old_.pages[i].key != keys[i])
        return fail(KVC_ERROR_CORRUPT,
                    "page %zu of the manifest has the key of another prefix; it is damaged", i);
      pages_.push_back(static_cast<uint32_t>(i));
    }
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
    std::vector<Codec> codecs(old_.files.size());
    for (const uint32_t i : pages_) {
      const Manifest::Page& page = old_.pages[i];
      if (page.compressed != 0 && codecs[page.file].table == nullptr)
        KVC_TRY(open_codec(old_.codecs[page.file], &codecs[page.file]));
      if (page.compressed != 0 && codecs[page.file].table == nullptr)
        return fail(KVC_ERROR_CORRUPT, "page %u is compressed by no codec; the manifest is damaged", i);
    }
    DataReader reader(folder_, old_);
    KVC_TRY(reader.open());
    DataWriter writer(folder_, new_.id, largest, (options_.flags & KVC_CHECKPOINT_NO_SYNC) == 0);
    KVC_TRY(writer.begin(codec_.name, source_of(new_), nullptr));
    std::vector<char> plain;
    KVC_TRY(reader.read(pages_, [&](uint32_t i, const char* bytes) -> kvc_status {
      const Manifest::Page& from = old_.pages[i];
      Manifest::Page* to = &new_.pages[i];
      if (from.compressed != 0) {
        plain.resize(std::max<size_t>(plain.size(), sizes[i]));
        const kvc_status status =
            codecs[from.file].table->decompress(bytes, from.stored_bytes, plain.data(), sizes[i]);
        if (status != KVC_OK)
          return fail(status, "page %u: the codec \"%s\" does not give its %llu bytes", i,
                      codecs[from.file].name.c_str(), ull(sizes[i]));
        bytes = plain.data();
      }
      to->file = 0;
      to->compressed = 0;
      return add_page(&writer, codec_, options_.level, bytes, sizes[i], to);
    }));
    return writer.finish(own);
  }

  CheckpointFolder& folder_;
  const CheckpointOptions& options_;
  Codec codec_;
  Manifest old_, new_;
  std::vector<uint32_t> pages_;
};

}  // namespace

kvc_status compact_checkpoint(Files& files, const CheckpointOptions& options, kvc_checkpoint_info* out) {
  {
    CheckpointFolder there(files, options.folder);
    KVC_TRY(there.open(false));
  }
  CheckpointFolder folder(files, options.folder);
  KVC_TRY(folder.open(true));
  KVC_TRY(folder.list());
  Compaction compaction(folder, options);
  const kvc_status status = compaction.run(out);
  if (status != KVC_OK && compaction.id() != 0) folder.remove_failed(compaction.id());
  return status;
}

kvc_status collect_checkpoints(Files& files, const char* path, uint32_t keep_last, uint64_t* removed_bytes) {
  {
    CheckpointFolder there(files, path);
    KVC_TRY(there.open(false));
  }
  CheckpointFolder folder(files, path);
  KVC_TRY(folder.open(true));
  KVC_TRY(folder.list());
  uint64_t left = folder.remove_manifests(folder.older_than_newest(keep_last), true);
  left += folder.remove_unneeded(true, true);
  *removed_bytes = folder.removed_bytes();
  KVC_TRY(folder.tell_unread());
  if (left == 0) return KVC_OK;
  return fail(KVC_ERROR_DEVICE, "%s: %llu files could not be removed; try again", path, ull(left));
}

}  // namespace kvc
