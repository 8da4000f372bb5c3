// SPDX-License-Identifier: Apache-2.0
// Reads pages from the data files of a checkpoint, and checks each.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "base/crc32c.h"
#include "base/status.h"
#include "checkpoint/data_file.h"
#include "checkpoint/stream.h"

namespace kvc {

DataReader::DataReader(const CheckpointFolder& folder, const Manifest& manifest)
    : folder_(folder), manifest_(manifest) {}

DataReader::DataReader(const CheckpointFolder& folder, const CheckpointStream& stream,
                       const Manifest& manifest)
    : folder_(folder), manifest_(manifest), stream_fd_(stream.fd()), stream_offset_(stream.data_offset()) {}

// Of a file in the folder; the stream itself has the name of the folder.
std::string DataReader::name_of(uint32_t file) const {
  return stream_fd_ >= 0 ? std::string() : CheckpointFolder::data_name(manifest_.files[file].id);
}

kvc_status DataReader::damaged(uint32_t file, uint64_t offset) const {
  const std::string name = stream_fd_ >= 0 ? folder_.path() : folder_.file(name_of(file));
  return fail(KVC_ERROR_CORRUPT, "%s: a checksum does not match at byte %llu; the file is damaged",
              name.c_str(), ull(offset));
}

kvc_status DataReader::open() {
  Files& files = folder_.files();
  const DataPiece block(kDataHeaderBytes);
  if (stream_fd_ >= 0) {  // which has the bytes that the manifest says
    if (manifest_.files.empty()) return KVC_OK;
    const int error = read_fully(files, stream_fd_, block.data(), kDataHeaderBytes, stream_offset_);
    if (error != 0) return folder_.failure("", "read it", error);
    return is_data_header(block.data(), manifest_.files[0].id) ? KVC_OK : damaged(0, 0);
  }
  kept_.resize(manifest_.files.size());
  bool keeps = true;
  for (uint32_t i = 0; i < kept_.size(); ++i) {
    auto opened = std::make_shared<OpenFile>(files);
    int error = opened->open(folder_.fd(), name_of(i).c_str(), O_RDONLY);
    if (keeps && (error == -EMFILE || error == -ENFILE)) {
      keeps = false;
      for (std::shared_ptr<OpenFile>& one : kept_) one.reset();
      error = opened->open(folder_.fd(), name_of(i).c_str(), O_RDONLY);
    }
    if (error != 0) return folder_.failure(name_of(i), "open the file", error);
    KVC_TRY(check_file(i, *opened, block.data()));
    if (keeps && i < kMostKept) kept_[i] = std::move(opened);
  }
  return KVC_OK;
}

kvc_status DataReader::check_file(uint32_t file, const OpenFile& opened, char* block) const {
  Files& files = folder_.files();
  const Manifest::DataFile& wanted = manifest_.files[file];
  const std::string name = name_of(file);
  struct stat status = {};
  int error;
  do {
    error = files.status(opened.fd(), &status);
  } while (error == -EINTR);
  if (error != 0) return folder_.failure(name, "tell the size of the file", error);
  if (static_cast<uint64_t>(status.st_size) != wanted.bytes)
    return fail(KVC_ERROR_CORRUPT, "%s has %llu bytes; it should have %llu", folder_.file(name).c_str(),
                ull(static_cast<uint64_t>(status.st_size)), ull(wanted.bytes));
  error = read_fully(files, opened.fd(), block, kDataHeaderBytes, 0);
  if (error != 0) return folder_.failure(name, "read the file", error);
  return is_data_header(block, wanted.id) ? KVC_OK : damaged(file, 0);
}

// The file before stays open as long as another thread reads it.
int DataReader::use(uint32_t file, InUse* out) {
  const std::lock_guard lock(mutex_);
  if (in_use_.plain == nullptr || in_use_.file != file) {
    const std::string name = name_of(file);
    InUse next = {file, kept_[file], nullptr};
    if (next.plain == nullptr) {
      in_use_ = {};
      next.plain = std::make_shared<OpenFile>(folder_.files());
      const int error = next.plain->open(folder_.fd(), name.c_str(), O_RDONLY);
      if (error != 0) return error;
    } else if (is_direct_) {  // and there are descriptors enough
      next.direct = std::make_shared<OpenFile>(folder_.files());
      if (next.direct->open(folder_.fd(), name.c_str(), O_RDONLY | O_DIRECT) != 0) next.direct = nullptr;
    }
    in_use_ = next;
  }
  *out = in_use_;
  return 0;
}

int DataReader::read_at(uint32_t file, char* out, uint64_t bytes, uint64_t offset) {
  Files& files = folder_.files();
  if (stream_fd_ >= 0) return read_fully(files, stream_fd_, out, bytes, stream_offset_ + offset);
  InUse in;
  if (const int error = use(file, &in); error != 0) return error;
  while (in.direct != nullptr && is_direct_ && bytes != 0) {
    const int64_t part = files.read(in.direct->fd(), out, bytes, offset);
    if (part == -EINTR) continue;
    if (part == -EINVAL) is_direct_ = false;
    if (part < 0 && part != -EINVAL) return static_cast<int>(part);
    const uint64_t done = part <= 0 ? 0 : static_cast<uint64_t>(part) / kDataHeaderBytes * kDataHeaderBytes;
    out += done, bytes -= done, offset += done;
    if (done == 0) break;
  }
  return bytes == 0 ? 0 : read_fully(files, in.plain->fd(), out, bytes, offset);
}

kvc_status DataReader::read(std::vector<uint32_t> order,
                            const std::function<kvc_status(uint32_t, const char*)>& visit) {
  const std::vector<Manifest::Page>& pages = manifest_.pages;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return pages[a].file != pages[b].file ? pages[a].file < pages[b].file : pages[a].offset < pages[b].offset;
  });
  constexpr uint64_t kBlock = kDataHeaderBytes;
  std::vector<Extent> extents;
  uint64_t largest = kPieceBytes;
  for (size_t i = 0; i < order.size(); ++i) {
    const Manifest::Page& page = pages[order[i]];
    const uint64_t begin = page.offset / kBlock * kBlock,
                   end = round_to_block(page.offset + page.stored_bytes);
    Extent* last = extents.empty() ? nullptr : &extents.back();
    if (last != nullptr && last->file == page.file && begin <= last->offset + last->bytes + 16 * kBlock &&
        end - last->offset <= kPieceBytes) {
      last->bytes = std::max(last->bytes, end - last->offset);
      last->end = i + 1;
      continue;
    }
    extents.push_back({page.file, begin, end - begin, i, i + 1});
    largest = std::max(largest, end - begin);
  }
  std::vector<DataPiece> pieces;
  pieces.reserve(kPieces);
  for (size_t i = 0; i < std::min(kPieces, extents.size()); ++i) pieces.emplace_back(largest);
  size_t of_piece[kPieces] = {};
  std::atomic<uint32_t> failed{Manifest::kNoFile};  // the file of the first error
  Mover mover([&](size_t piece) {
    const Extent& extent = extents[of_piece[piece]];
    const int error = read_at(extent.file, pieces[piece].data(), extent.bytes, extent.offset);
    uint32_t none = Manifest::kNoFile;
    if (error != 0) failed.compare_exchange_strong(none, extent.file);
    return error;
  });
  for (size_t e = 0; e < pieces.size(); ++e) {
    of_piece[e] = e;
    mover.start(e);
  }
  for (size_t e = 0; e < extents.size(); ++e) {
    const Extent& extent = extents[e];
    const size_t piece = e % kPieces;
    if (const int error = mover.wait(piece); error != 0)
      return folder_.failure(name_of(failed), "read the file", error);
    for (size_t i = extent.first; i < extent.end; ++i) {
      const Manifest::Page& page = pages[order[i]];
      const char* const bytes = pieces[piece].data() + (page.offset - extent.offset);
      if (crc32c(bytes, page.stored_bytes) != page.crc) return damaged(page.file, page.offset);
      KVC_TRY(visit(order[i], bytes));
    }
    if (e + kPieces < extents.size()) {
      of_piece[piece] = e + kPieces;
      mover.start(piece);
    }
  }
  return KVC_OK;
}

kvc_status DataReader::check_pages(std::vector<uint32_t> pages) {
  const auto large = std::stable_partition(
      pages.begin(), pages.end(), [&](uint32_t i) { return manifest_.pages[i].stored_bytes <= kPieceBytes; });
  const DataPiece piece(kPieceBytes);
  for (auto i = large; i != pages.end(); ++i) {
    const Manifest::Page& page = manifest_.pages[*i];
    uint32_t crc = 0;
    for (uint64_t done = 0; done < page.stored_bytes;) {
      const uint64_t at = page.offset + done, before = at % kDataHeaderBytes;
      const uint64_t bytes = std::min(kPieceBytes - before, page.stored_bytes - done);
      const int error = read_at(page.file, piece.data(), round_to_block(before + bytes), at - before);
      if (error != 0) return folder_.failure(name_of(page.file), "read the file", error);
      crc = crc32c(piece.data() + before, bytes, crc);
      done += bytes;
    }
    if (crc != page.crc) return damaged(page.file, page.offset);
  }
  pages.erase(large, pages.end());
  return read(std::move(pages), [](uint32_t, const char*) { return kvc_status{KVC_OK}; });
}

kvc_status DataReader::check_files() {
  const DataPiece piece(kPieceBytes);
  for (uint32_t i = 0; i < manifest_.files.size(); ++i) {
    uint32_t crc = 0;
    for (uint64_t at = 0; at < manifest_.files[i].bytes;) {
      const uint64_t bytes = std::min(kPieceBytes, manifest_.files[i].bytes - at);
      if (const int error = read_at(i, piece.data(), bytes, at); error != 0)
        return folder_.failure(name_of(i), "read the file", error);
      crc = crc32c(piece.data(), bytes, crc);
      at += bytes;
    }
    if (crc != manifest_.files[i].crc) return damaged(i, 0);
  }
  return KVC_OK;
}

}  // namespace kvc
