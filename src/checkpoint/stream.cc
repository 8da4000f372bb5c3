// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "base/status.h"
#include "checkpoint/data_file.h"
#include "checkpoint/read_manifest.h"

namespace kvc {
namespace {

constexpr char kStreamMagic[8] = {'K', 'V', 'C', 'S', 'T', 'R', 'M', '\n'};
constexpr uint32_t kStreamVersion = 1;

struct Trailer {
  char magic[8];
  uint32_t version, trailer_bytes;
  uint64_t data_bytes, manifest_bytes;
  uint8_t reserved[28];
  uint32_t crc;
};
static_assert(sizeof(Trailer) == 64);

// A descriptor that does not wait has no more room, or no bytes, now.
void wait_for(int fd, int16_t events) {
  pollfd one = {fd, events, 0};
  static_cast<void>(poll(&one, 1, -1));
}

}  // namespace

kvc_status CheckpointStream::failure(const char* what, int error) const {
  const kvc_status status = error == -ENOSPC || error == -EDQUOT ? KVC_ERROR_LIMIT : KVC_ERROR_DEVICE;
  return fail(status, "%s: cannot %s: %s (errno %d)", name_.c_str(), what, std::strerror(-error), -error);
}

kvc_status CheckpointStream::corrupt(const char* what) const {
  return fail(KVC_ERROR_CORRUPT, "%s: %s; the stream is damaged, or did not come whole", name_.c_str(), what);
}

kvc_status CheckpointStream::send(const void* data, size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size != 0) {
    const int64_t sent = files_.send(fd_, at, size);
    if (sent == -EINTR) continue;
    if (sent == -EAGAIN) {
      wait_for(fd_, POLLOUT);
      continue;
    }
    if (sent <= 0) return failure("write", sent == 0 ? -EIO : static_cast<int>(sent));
    at += sent, size -= static_cast<size_t>(sent);
  }
  return KVC_OK;
}

kvc_status CheckpointStream::send_end(uint64_t data_bytes, const std::string& manifest) {
  Trailer trailer = {};
  std::memcpy(trailer.magic, kStreamMagic, sizeof trailer.magic);
  trailer.version = kStreamVersion;
  trailer.trailer_bytes = sizeof trailer;
  trailer.data_bytes = data_bytes;
  trailer.manifest_bytes = manifest.size();
  trailer.crc = crc32c(&trailer, offsetof(Trailer, crc));
  KVC_TRY(send(manifest.data(), manifest.size()));
  bytes_ = data_bytes + manifest.size() + sizeof trailer;
  return send(&trailer, sizeof trailer);
}

kvc_status CheckpointStream::stage(const char* folder) {
  const std::string at = folder != nullptr ? std::string(folder) + "/." : std::string();  // or a link to it
  int error = 0;
  do {
    error = folder != nullptr ? staged_.open(AT_FDCWD, at.c_str(), O_RDWR | O_TMPFILE, 0600)
                              : staged_.take(memfd_create("kvcache checkpoint", MFD_CLOEXEC));
  } while (error == -EINTR);
  if (error != 0)
    return fail(error == -ENOENT || error == -ENOTDIR                      ? KVC_ERROR_NOT_FOUND
                : error == -EMFILE || error == -ENFILE || error == -ENOSPC ? KVC_ERROR_LIMIT
                                                                           : KVC_ERROR_DEVICE,
                "%s: cannot make a file for a stream: %s (errno %d)", folder != nullptr ? folder : "memory",
                std::strerror(-error), -error);
  const DataPiece piece(kPieceBytes);
  for (;;) {
    const int64_t got = files_.receive(fd_, piece.data(), piece.capacity());
    if (got == -EINTR) continue;
    if (got == -EAGAIN) {
      wait_for(fd_, POLLIN);
      continue;
    }
    if (got < 0) return failure("read", static_cast<int>(got));
    if (got == 0) return KVC_OK;
    const int written = write_fully(files_, staged_.fd(), piece.data(), static_cast<size_t>(got), bytes_);
    if (written != 0) return failure("stage what came", written);
    bytes_ += static_cast<uint64_t>(got);
  }
}

kvc_status CheckpointStream::receive(const char* folder, Manifest* out) {
  struct stat status = {};
  int error = 0;
  do {
    error = files_.status(fd_, &status);
  } while (error == -EINTR);
  if (error != 0) return failure("read", error);
  if (const int64_t at = S_ISREG(status.st_mode) ? lseek(fd_, 0, SEEK_CUR) : -1; at >= 0) {
    base_ = static_cast<uint64_t>(at);
    bytes_ = static_cast<uint64_t>(std::max<int64_t>(status.st_size - at, 0));
  } else {
    KVC_TRY(stage(folder));
  }
  Trailer trailer;
  if (bytes_ < sizeof trailer)
    return corrupt(
        "it is shorter than the end of a stream, 64 bytes: its writer stopped early; save it again");
  int read = read_fully(files_, fd(), &trailer, sizeof trailer, base_ + bytes_ - sizeof trailer);
  if (read != 0) return failure("read", read);
  if (std::memcmp(trailer.magic, kStreamMagic, sizeof kStreamMagic) != 0)
    return corrupt("its last 64 bytes are not the end of a stream: give it from its first byte to its last");
  if (trailer.crc != crc32c(&trailer, offsetof(Trailer, crc)))
    return corrupt("the checksum of its end does not match");
  if (trailer.version != kStreamVersion || trailer.trailer_bytes != sizeof trailer)
    return fail(KVC_ERROR_UNSUPPORTED, "%s has version %u of a stream; this library reads version %u",
                name_.c_str(), trailer.version, kStreamVersion);
  const uint64_t before = bytes_ - sizeof trailer;
  if (trailer.data_bytes > before || trailer.manifest_bytes != before - trailer.data_bytes)
    return corrupt("it has another number of bytes than its end says; save it again");
  KVC_TRY(read_manifest(files_, fd(), base_ + trailer.data_bytes, trailer.manifest_bytes, name_.c_str(), out,
                        &read));
  if (read != 0) return failure("read", read);
  if (out->files.size() > 1 || (out->files.empty() ? 0 : out->files[0].bytes) != trailer.data_bytes)
    return corrupt("its manifest names other data than came");
  return KVC_OK;
}

}  // namespace kvc
