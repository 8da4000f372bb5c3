// SPDX-License-Identifier: Apache-2.0
// Reading: restore, describe, validate, list, remove. A restore takes blocks first, reads and checks all
// pages into them, and then makes them findable: until then nothing of the manager has changed for others.
#include <algorithm>

#include "base/status.h"
#include "checkpoint/commit.h"
#include "checkpoint/compare.h"
#include "checkpoint/data_file.h"
#include "checkpoint/stream.h"
#include "manager/restore.h"

namespace kvc {
namespace {

// Reads the manifest and, unless `reader` is nullptr, opens the files of a checkpoint. The newest one may be
// replaced meanwhile.
kvc_status open_checkpoint(CheckpointFolder& folder, uint64_t id, Manifest* manifest,
                           std::unique_ptr<DataReader>* reader) {
  kvc_status status = KVC_OK;
  constexpr int kMostTries = 15;
  for (int tries = 0;; ++tries) {
    KVC_TRY(folder.list());
    const std::vector<uint64_t> before = folder.manifests();
    status = folder.read_manifest(id, manifest);
    if (status == KVC_OK && reader != nullptr) {
      *reader = std::make_unique<DataReader>(folder, *manifest);
      status = (*reader)->open();
    }
    if (status != KVC_ERROR_NOT_FOUND) return status;
    KVC_TRY(folder.list());
    if (id != 0 || folder.manifests() == before) break;
    if (tries == kMostTries)
      return fail(KVC_ERROR_BUSY,
                  "%s: the newest checkpoint was replaced %d times while it was opened; try again",
                  folder.path().c_str(), tries + 1);
  }
  // A file that the manifest needs is not there: that is damage, but a missing manifest is not.
  const bool known = id == 0 ? !folder.manifests().empty()
                             : std::binary_search(folder.manifests().begin(), folder.manifests().end(), id);
  for (size_t i = 0; known && i < manifest->files.size(); ++i) {
    const std::string name = CheckpointFolder::data_name(manifest->files[i].id);
    struct stat there = {};
    if (folder.files().status_at(folder.fd(), name.c_str(), &there) == 0) continue;
    return fail(KVC_ERROR_CORRUPT, "%s is missing; checkpoint %llu needs it", folder.file(name).c_str(),
                ull(manifest->id));
  }
  if (known)
    return fail(KVC_ERROR_CORRUPT, "%s: a data file of checkpoint %llu was missing", folder.path().c_str(),
                ull(manifest->id));
  return id == 0 ? fail(KVC_ERROR_NOT_FOUND, "%s has no checkpoint", folder.path().c_str())
                 : fail(KVC_ERROR_NOT_FOUND, "%s has no checkpoint %llu", folder.path().c_str(), ull(id));
}

class Load {
 public:
  Load(Manager& manager, const std::vector<GroupMemory>& groups, const CheckpointOptions& options,
       std::string name, Manifest& manifest, DataReader& reader)
      : manager_(manager),
        groups_(groups),
        options_(options),
        name_(std::move(name)),
        manifest_(manifest),
        reader_(reader) {}

  kvc_status run(const Restored& restored, kvc_checkpoint_info* out) {
    Manifest here;
    describe_source(manager_, groups_, options_, &here);
    KVC_TRY(check_same_source(manifest_, here));
    KVC_TRY(check_bytes(here));
    const bool requests = (options_.flags & KVC_CHECKPOINT_REQUESTS) != 0;
    if (!requests) manifest_.contents.requests.clear(), manifest_.contents.bonds.clear();
    describe(manifest_, out);
    if (out->num_namespaces > restored.namespace_capacity || out->num_requests > restored.request_capacity) {
      return fail(KVC_ERROR_BUFFER_TOO_SMALL,
                  "%llu namespaces and %llu requests; the arrays have room for %zu and %zu",
                  ull(out->num_namespaces), ull(out->num_requests), restored.namespace_capacity,
                  restored.request_capacity);
    }
    Restore restore(manager_, manifest_.contents, (options_.flags & KVC_CHECKPOINT_CACHE_ONLY) != 0);
    KVC_TRY(restore.take());
    if (elsewhere_ && !restore.keeps_ids())
      return invalid(
          "with KVC_CHECKPOINT_BYTES_ELSEWHERE all blocks must keep their ids: the pools must have the "
          "same sizes, and no block may have been in use when it was saved");
    KVC_TRY(fill(restore));
    KVC_TRY(restore.finish());
    for (size_t i = 1; i < manifest_.contents.namespaces.size(); ++i)
      restored.namespaces[i - 1] = {manifest_.contents.namespaces[i].id, restore.namespace_ids()[i]};
    for (size_t i = 0; i < manifest_.contents.requests.size(); ++i)
      restored.requests[i] = pair_of(manifest_.contents.requests[i], restore.request_ids()[i]);
    out->left_out = out->num_blocks - restore.num_taken();
    out->ids_kept = restore.keeps_ids();
    return KVC_OK;
  }

 private:
  static kvc_request_pair pair_of(const Contents::WaitingRequest& from, uint64_t id) {
    return {from.id, id, from.num_tokens, from.committed};
  }

  kvc_status check_bytes(const Manifest& here) {
    const bool allowed = (options_.flags & KVC_CHECKPOINT_BYTES_ELSEWHERE) != 0;
    for (size_t g = 0; g < here.groups.size(); ++g) {
      if (here.groups[g].has_pages != 0 && manifest_.groups[g].has_pages == 0)
        return fail(KVC_ERROR_UNSUPPORTED,
                    "group %zu was saved without bytes; give NULL as its storage, and bring "
                    "its bytes (KVC_CHECKPOINT_BYTES_ELSEWHERE)",
                    g);
      if (here.groups[g].has_pages != 0) continue;
      elsewhere_ = true;
      if (!allowed)
        return fail(KVC_ERROR_UNSUPPORTED,
                    "group %zu has no storage, so its blocks would have no bytes; give one, or "
                    "bring them yourself (KVC_CHECKPOINT_BYTES_ELSEWHERE)",
                    g);
    }
    return KVC_OK;
  }

  kvc_status fill(const Restore& restore) {
    std::vector<uint32_t> all, pages;
    KVC_TRY(check_keys(name_, manifest_, &all));
    struct Target {
      uint32_t group;
      int32_t block;
    };
    std::vector<Target> targets(manifest_.pages.size());
    size_t index = 0;
    const Contents& contents = manifest_.contents;
    for (size_t p = 0; p < contents.pools.size(); ++p) {
      for (size_t i = 0; i < contents.pools[p].blocks.size(); ++i, ++index) {
        const uint32_t group = contents.pools[p].blocks[i].group;
        const Manifest::Page& page = manifest_.pages[index];
        targets[index] = {group, restore.block(p, i)};
        if (page.file == Manifest::kNoFile || groups_[group].slab == nullptr || targets[index].block < 0)
          continue;
        pages.push_back(static_cast<uint32_t>(index));
      }
    }
    for (const auto& [group, block] : targets) {
      if (block >= 0 && groups_[group].slab != nullptr &&
          groups_[group].block(block) >= groups_[group].layout->num_blocks)
        return invalid("the storage of group %u has %llu blocks; block %d of the manager is not in it", group,
                       ull(groups_[group].layout->num_blocks), block);
    }
    std::vector<Codec> codecs;
    KVC_TRY(open_codecs(name_, manifest_, pages, &codecs));
    std::vector<char> plain;
    return reader_.read(std::move(pages), [&](uint32_t i, const char* bytes) -> kvc_status {
      const Manifest::Page& page = manifest_.pages[i];
      const auto [group, block] = targets[i];
      const uint64_t size = manifest_.groups[group].part_bytes;
      if (page.compressed != 0)
        KVC_TRY(decompress(name_, manifest_, i, codecs[page.file], size, &plain, &bytes));
      unpack_page(*groups_[group].layout, bytes, groups_[group].block(block), groups_[group].slab);
      return KVC_OK;
    });
  }

  Manager& manager_;
  const std::vector<GroupMemory>& groups_;
  const CheckpointOptions& options_;
  const std::string name_;  // of the manifest
  Manifest& manifest_;
  DataReader& reader_;
  bool elsewhere_ = false;
};

void note_own_bytes(CheckpointFolder& folder, const Manifest& manifest, kvc_checkpoint_info* out) {
  struct stat status = {};
  const std::string name = CheckpointFolder::manifest_name(manifest.id);
  if (folder.files().status_at(folder.fd(), name.c_str(), &status) == 0)
    out->written_bytes = static_cast<uint64_t>(status.st_size);
  if (!manifest.files.empty() && manifest.files[0].id == manifest.id)
    out->written_bytes += manifest.files[0].bytes;
}

}  // namespace

kvc_status restore_checkpoint(Files& files, Manager& manager, const std::vector<GroupMemory>& groups,
                              const CheckpointOptions& options, const Restored& restored,
                              kvc_checkpoint_info* out) {
  CheckpointFolder folder(files, options.folder);
  KVC_TRY(folder.open(CheckpointFolder::For::kRead));
  Manifest manifest;
  std::unique_ptr<DataReader> reader;
  KVC_TRY(open_checkpoint(folder, options.id, &manifest, &reader));
  note_own_bytes(folder, manifest, out);
  const std::string name = folder.file(CheckpointFolder::manifest_name(manifest.id));
  return Load(manager, groups, options, name, manifest, *reader).run(restored, out);
}

kvc_status restore_stream(Files& files, Manager& manager, const std::vector<GroupMemory>& groups,
                          const CheckpointOptions& options, int fd, const Restored& restored,
                          kvc_checkpoint_info* out) {
  CheckpointStream stream(files, fd);
  CheckpointFolder folder(files, stream.name().c_str());  // for texts
  Manifest manifest;
  KVC_TRY(stream.receive(options.folder, &manifest));
  DataReader reader(folder, stream, manifest);
  KVC_TRY(reader.open());
  out->written_bytes = stream.bytes();
  return Load(manager, groups, options, stream.name(), manifest, reader).run(restored, out);
}

kvc_status list_checkpoints(Files& files, const char* path, std::vector<uint64_t>* ids) {
  CheckpointFolder folder(files, path);
  KVC_TRY(folder.open(CheckpointFolder::For::kRead));
  KVC_TRY(folder.list());
  *ids = folder.manifests();
  return KVC_OK;
}

kvc_status describe_checkpoint(Files& files, const char* path, uint64_t id, bool validate,
                               kvc_checkpoint_info* out) {
  CheckpointFolder folder(files, path);
  KVC_TRY(folder.open(CheckpointFolder::For::kRead));
  Manifest manifest;
  if (!validate) {
    KVC_TRY(open_checkpoint(folder, id, &manifest, nullptr));
  } else {
    std::unique_ptr<DataReader> reader;
    KVC_TRY(open_checkpoint(folder, id, &manifest, &reader));
    const std::string name = folder.file(CheckpointFolder::manifest_name(manifest.id));
    std::vector<uint32_t> pages;
    KVC_TRY(check_keys(name, manifest, &pages));
    if (manifest.content != manifest.contents.digest(manifest.contents.position_digests()))
      return fail(KVC_ERROR_CORRUPT, "%s has another digest than its content; it is damaged", name.c_str());
    KVC_TRY(reader->check_files());
    KVC_TRY(reader->check_pages(std::move(pages)));
  }
  note_own_bytes(folder, manifest, out);
  describe(manifest, out);
  return KVC_OK;
}

kvc_status remove_checkpoint(Files& files, const char* path, uint64_t id) {
  if (id == 0) return invalid("id is 0; give the id of the checkpoint to remove");
  CheckpointFolder folder(files, path);
  KVC_TRY(folder.open(CheckpointFolder::For::kWrite));
  KVC_TRY(folder.list());
  if (!std::binary_search(folder.manifests().begin(), folder.manifests().end(), id))
    return fail(KVC_ERROR_NOT_FOUND, "%s has no checkpoint %llu", path, ull(id));
  KVC_TRY(folder.note_removal(id));
  if (folder.remove_manifests({id}, true) != 0)
    return fail(KVC_ERROR_DEVICE, "%s: checkpoint %llu could not be removed", path, ull(id));
  static_cast<void>(folder.remove_unneeded(false, true));  // the next writer tries again
  return KVC_OK;
}

}  // namespace kvc
