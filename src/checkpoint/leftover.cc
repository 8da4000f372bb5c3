// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/leftover.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/crc32c.h"
#include "base/sha256.h"
#include "checkpoint/data_file.h"

namespace kvc {
namespace {

constexpr uint64_t kEntriesOfAPiece = 16384;
constexpr char kJournalMagic[8] = {'K', 'V', 'C', 'P', 'A', 'G', 'E', '\n'};

struct JournalHeader {
  char magic[8];
  uint64_t id;
  char codec[16];
  uint8_t source[28];  // its first bytes
  uint32_t crc;
};
static_assert(sizeof(JournalHeader) == sizeof(Manifest::Page));

uint32_t crc_of(const Manifest::Page& page) { return crc32c(&page, offsetof(Manifest::Page, reserved)); }

// The whole entries of a journal that says that it is this one. `most`: pages that there can be.
std::vector<Manifest::Page> read_journal(const CheckpointFolder& folder, uint64_t id,
                                         const std::string& codec, const Digest256& source, uint64_t most) {
  std::vector<Manifest::Page> entries;
  Files& files = folder.files();
  OpenFile in(files);
  struct stat status = {};
  if (in.open(folder.fd(), CheckpointFolder::journal_name(id).c_str(), O_RDONLY) != 0 ||
      files.status(in.fd(), &status) != 0) {
    return entries;
  }
  char header[sizeof(JournalHeader)];
  if (static_cast<uint64_t>(status.st_size) / sizeof entries[0] > most + 1 ||
      read_fully(files, in.fd(), header, sizeof header, 0) != 0 ||
      std::memcmp(header, journal_header(id, codec, source).data(), sizeof header) != 0) {
    return {};
  }
  // A piece at a time: what is no entry, such as a hole, takes no memory.
  std::vector<Manifest::Page> piece;
  uint64_t left = (static_cast<uint64_t>(status.st_size) - sizeof header) / sizeof entries[0];
  for (uint64_t at = sizeof header; left != 0; left -= piece.size()) {
    piece.resize(std::min<uint64_t>(left, kEntriesOfAPiece));
    const uint64_t bytes = piece.size() * sizeof piece[0];
    if (read_fully(files, in.fd(), piece.data(), bytes, at) != 0) return {};
    at += bytes;
    std::copy_if(piece.begin(), piece.end(), std::back_inserter(entries),
                 [](const Manifest::Page& entry) { return entry.reserved == crc_of(entry); });
  }
  std::sort(entries.begin(), entries.end(),
            [](const Manifest::Page& a, const Manifest::Page& b) { return a.offset < b.offset; });
  return entries;
}

}  // namespace

Digest256 source_of(const Manifest& manifest) {
  Sha256 hash;
  const uint64_t invalidations = manifest.contents.invalidations;
  hash.update(&invalidations, sizeof invalidations);
  for (const Manifest::Group& group : manifest.groups) {
    const uint64_t values[] = {group.has_pages,       group.part_bytes,      group.part.first_layer,
                               group.part.num_layers, group.part.first_head, group.part.num_heads};
    hash.update(values, sizeof values);
    hash.update(group.fingerprint.bytes, sizeof group.fingerprint.bytes);
  }
  return hash.finish();
}

std::string journal_header(uint64_t id, const std::string& codec, const Digest256& source) {
  JournalHeader header = {};
  std::memcpy(header.magic, kJournalMagic, sizeof header.magic);
  header.id = id;
  std::memcpy(header.codec, codec.data(), std::min(codec.size(), sizeof header.codec - 1));
  std::memcpy(header.source, source.bytes, sizeof header.source);
  header.crc = crc32c(&header, offsetof(JournalHeader, crc));
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

Manifest::Page journal_entry(const Manifest::Page& page) {
  Manifest::Page entry = page;
  entry.file = 0;
  entry.reserved = crc_of(entry);
  return entry;
}

Leftover find_leftover(const CheckpointFolder& folder, const std::string& codec, const Digest256& source) {
  Leftover out;
  out.id = folder.unfinished_id(&out.named);
  if (out.id == 0) return {};
  Files& files = folder.files();
  OpenFile in(files);
  struct stat status = {};
  const std::string name = CheckpointFolder::data_name(out.id) + (out.named ? "" : ".part");
  if (in.open(folder.fd(), name.c_str(), O_RDONLY) != 0 || files.status(in.fd(), &status) != 0) return {};
  const auto size = static_cast<uint64_t>(status.st_size);
  const std::vector<Manifest::Page> entries = read_journal(folder, out.id, codec, source, size);
  if (entries.empty()) return {};
  std::string bytes(kDataHeaderBytes, '\0');
  if (size < kDataHeaderBytes || read_fully(files, in.fd(), bytes.data(), bytes.size(), 0) != 0 ||
      !is_data_header(bytes.data(), out.id)) {
    return {};
  }
  out.bytes = kDataHeaderBytes;
  out.crc = crc32c(bytes.data(), bytes.size());
  // Adds the bytes up to `end` to the checksum of the file, and makes *own, if it is asked for, theirs.
  const auto pass = [&](uint64_t end, uint32_t* own = nullptr) {
    while (out.bytes < end) {
      bytes.resize(std::min(end - out.bytes, kPieceBytes));
      if (read_fully(files, in.fd(), bytes.data(), bytes.size(), out.bytes) != 0) return false;
      out.crc = crc32c(bytes.data(), bytes.size(), out.crc);
      if (own != nullptr) *own = crc32c(bytes.data(), bytes.size(), *own);
      out.bytes += bytes.size();
    }
    return true;
  };
  for (const Manifest::Page& entry : entries) {
    if (entry.offset < out.bytes || entry.offset > size || entry.stored_bytes == 0 ||
        entry.stored_bytes > size - entry.offset || round_to_block(entry.offset + entry.stored_bytes) > size)
      continue;
    uint32_t crc = 0;
    if (!pass(entry.offset) || !pass(entry.offset + entry.stored_bytes, &crc)) return {};
    if (crc != entry.crc) continue;
    out.pages.push_back(entry);
    out.pages.back().reserved = 0;
  }
  if (out.pages.empty() || !pass(round_to_block(out.bytes))) return {};
  return out;
}

}  // namespace kvc
