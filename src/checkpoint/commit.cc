// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/commit.h"

#include <algorithm>

#include "base/status.h"
#include "checkpoint/data_file.h"
#include "plugin/plugins.h"

namespace kvc {
namespace {

void copy_text(const std::string& from, char* to, size_t capacity) {
  const size_t count = std::min(from.size(), capacity - 1);
  for (size_t i = 0; i < count; ++i) to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
}

// All data files of a checkpoint, and their names. Older ones may be those of saves that did not wait.
kvc_status sync_data(CheckpointFolder& folder, const Manifest& manifest) {
  for (const Manifest::DataFile& file : manifest.files)
    KVC_TRY(folder.sync_file(CheckpointFolder::data_name(file.id)));
  return folder.sync();
}

}  // namespace

kvc_status open_codec(const std::string& name, Codec* out) {
  if (name.empty() || name == "none") return KVC_OK;
  const kvc_plugin* plugin = nullptr;
  KVC_TRY(open_plugin(name.c_str(), nullptr, &plugin));
  if (plugin->codec == nullptr)
    return fail(KVC_ERROR_UNSUPPORTED, "the plug-in \"%s\" has no codec; codecs are lz4 and zstd",
                name.c_str());
  *out = {plugin->codec, name};
  return KVC_OK;
}

kvc_status add_page(DataWriter* writer, const Codec& codec, int32_t level, const char* bytes, uint64_t size,
                    Manifest::Page* page) {
  char* room = nullptr;
  uint64_t stored = 0;
  if (codec.table != nullptr) {
    const uint64_t bound = std::max(size, codec.table->bound(size));
    KVC_TRY(writer->begin_page(bound, &room));
    const kvc_status status = codec.table->compress(bytes, size, room, bound, level, &stored);
    if (status != KVC_OK && status != KVC_ERROR_BUFFER_TOO_SMALL)
      return fail(status, "the codec \"%s\" failed on a page of %llu bytes", codec.name.c_str(), ull(size));
    page->compressed = status == KVC_OK && stored != 0 && stored < size;
  } else {
    KVC_TRY(writer->begin_page(size, &room));
  }
  if (page->compressed == 0) {
    std::memcpy(room, bytes, size);
    stored = size;
  }
  writer->end_page(stored, page);
  return KVC_OK;
}

std::vector<Digest256> page_keys(const Manifest& manifest) {
  const Contents& contents = manifest.contents;
  const std::vector<Digest256> positions = contents.position_digests();
  std::vector<Digest256> keys, salts;
  for (uint32_t g = 0; g < manifest.groups.size(); ++g)
    salts.push_back(page_salt(g, manifest.groups[g].fingerprint));
  for (const Contents::Pool& pool : contents.pools) {
    for (const Contents::Cached& cached : pool.blocks) {
      const Manifest::Group& group = manifest.groups[cached.group];
      keys.push_back(group.has_pages == 0 ? Digest256{}
                                          : page_key(positions[cached.position], salts[cached.group]));
    }
  }
  return keys;
}

kvc_status check_keys(const std::string& name, const Manifest& manifest, std::vector<uint32_t>* pages) {
  const std::vector<Digest256> keys = page_keys(manifest);
  for (uint32_t i = 0; i < keys.size(); ++i) {
    const Manifest::Page& page = manifest.pages[i];
    if (page.file == Manifest::kNoFile) continue;
    if (page.key != keys[i])
      return fail(KVC_ERROR_CORRUPT, "%s: page %u has the key of another prefix; the file is damaged",
                  name.c_str(), i);
    pages->push_back(i);
  }
  return KVC_OK;
}

kvc_status open_codecs(const std::string& name, const Manifest& manifest, const std::vector<uint32_t>& pages,
                       std::vector<Codec>* out) {
  out->resize(manifest.files.size());
  for (const uint32_t i : pages) {
    const Manifest::Page& page = manifest.pages[i];
    if (page.compressed == 0 || (*out)[page.file].table != nullptr) continue;
    const kvc_status status = open_codec(manifest.codecs[page.file], &(*out)[page.file]);
    if (status != KVC_OK)
      return fail(status, "%s has pages of a codec: %s", name.c_str(), std::string(last_error()).c_str());
    if ((*out)[page.file].table == nullptr)
      return fail(KVC_ERROR_CORRUPT, "%s: page %u is compressed by no codec; the file is damaged",
                  name.c_str(), i);
  }
  return KVC_OK;
}

kvc_status decompress(const std::string& name, const Manifest& manifest, uint32_t page, const Codec& codec,
                      uint64_t size, std::vector<char>* room, const char** bytes) {
  room->resize(std::max<size_t>(room->size(), size));
  const uint64_t stored = manifest.pages[page].stored_bytes;
  const kvc_status status = codec.table->decompress(*bytes, stored, room->data(), size);
  if (status != KVC_OK)
    return fail(status, "%s: page %u: the codec \"%s\" does not make %llu bytes of the %llu of file %llu",
                name.c_str(), page, codec.name.c_str(), ull(size), ull(stored),
                ull(manifest.files[manifest.pages[page].file].id));
  *bytes = room->data();
  return KVC_OK;
}

kvc_status commit_checkpoint(CheckpointFolder& folder, const Manifest& manifest,
                             const CheckpointOptions& options, const std::vector<uint64_t>& gone,
                             kvc_checkpoint_info* out) {
  const bool sync = (options.flags & KVC_CHECKPOINT_NO_SYNC) == 0;
  const std::string name = CheckpointFolder::manifest_name(manifest.id), part = name + ".part";
  if (check_manifest(name.c_str(), manifest) != KVC_OK)  // nothing comes to a folder that cannot be read
    return fail(KVC_ERROR_INTERNAL, "what the manager has cached cannot be saved: %s",
                std::string(last_error()).c_str());
  const std::string bytes = encode_manifest(manifest);
  KVC_TRY(folder.write_file(part, bytes, sync));
  if (sync) KVC_TRY(sync_data(folder, manifest));
  KVC_TRY(folder.rename(part, name));
  kvc_status status = sync ? folder.sync() : KVC_OK;
  if (status != KVC_OK) return status;  // it may be there or not; it is whole if it is
  out->written_bytes += bytes.size();
  out->not_removed = folder.list() != KVC_OK;
  folder.note_manifest(manifest);
  const std::vector<uint64_t> old = folder.older_than_newest(options.keep_last, gone);
  // They may be on the disk, and must not go before this one is.
  if (!sync && !old.empty() && (folder.sync_file(name) != KVC_OK || sync_data(folder, manifest) != KVC_OK)) {
    out->not_removed += old.size();
    return KVC_OK;
  }
  out->not_removed += folder.remove_manifests(old, sync);
  out->not_removed += folder.remove_unneeded(true, sync);
  return KVC_OK;
}

void describe(const Manifest& manifest, kvc_checkpoint_info* out) {
  const Contents& contents = manifest.contents;
  out->id = manifest.id;
  out->version = manifest.version;
  out->block_size = contents.block_size;
  out->num_groups = contents.num_groups;
  out->num_files = manifest.files.size();
  for (const Manifest::DataFile& file : manifest.files) out->file_bytes += file.bytes;
  size_t index = 0;
  for (const Contents::Pool& pool : contents.pools) {
    out->num_blocks += pool.blocks.size();
    for (const Contents::Cached& cached : pool.blocks) {
      const Manifest::Page& page = manifest.pages[index++];
      if (page.file == Manifest::kNoFile) continue;
      ++out->num_pages;
      out->page_bytes += manifest.groups[cached.group].part_bytes;
      out->stored_bytes += page.stored_bytes;
      out->new_pages += manifest.files[page.file].id == manifest.id;
    }
  }
  out->num_positions = contents.positions.size();
  out->num_namespaces = contents.namespaces.size() - 1;
  out->num_requests = contents.requests.size();
  std::memcpy(out->content, manifest.content.bytes, sizeof out->content);
  const bool own = !manifest.files.empty() && manifest.files[0].id == manifest.id;
  copy_text(own && !manifest.codec.empty() ? manifest.codec : "none", out->codec, sizeof out->codec);
  copy_text(manifest.model, out->model, sizeof out->model);
  copy_text(manifest.weights, out->weights, sizeof out->weights);
}

}  // namespace kvc
