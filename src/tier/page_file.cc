// SPDX-License-Identifier: Apache-2.0
#include "tier/page_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "base/status.h"
#include "tier/slab_format.h"

namespace kvc {
namespace {

constexpr uint64_t kAtOnce = 1 << 20;

class PageFile {
 public:
  PageFile(Files& files, const char* path, kvc_page_file_info* out)
      : files_(files), path_(path), file_(files), out_(*out), bytes_(kAtOnce) {}

  kvc_status read(bool validate) {
    KVC_TRY(check(file_.open(AT_FDCWD, path_, O_RDONLY), "open the file"));
    struct stat status = {};
    KVC_TRY(check(files_.status(file_.fd(), &status), "tell its size"));
    out_.file_bytes = static_cast<uint64_t>(status.st_size);
    unsigned char magic[sizeof kSlabMagic] = {};
    if (S_ISREG(status.st_mode) && out_.file_bytes >= sizeof(RecordHeader))
      KVC_TRY(get(magic, sizeof magic, 0));
    if (std::memcmp(magic, kSlabMagic, sizeof magic) == 0) return read_slab(validate);
    if (std::memcmp(magic, kRecordMagic, sizeof magic) == 0) return read_page(validate);
    return fail(KVC_ERROR_UNSUPPORTED, "%s is neither a slab nor a page of a tier", path_);
  }

 private:
  kvc_status check(int error, const char* what) const {
    if (error == 0) return KVC_OK;
    return fail(error == -ENOENT || error == -ENOTDIR ? KVC_ERROR_NOT_FOUND : KVC_ERROR_DEVICE,
                "%s: cannot %s: %s (errno %d)", path_, what, std::strerror(-error), -error);
  }
  kvc_status get(void* to, uint64_t size, uint64_t offset) {
    return check(read_fully(files_, file_.fd(), to, size, offset), "read it");
  }
  kvc_status newer(uint32_t version) const {
    return fail(KVC_ERROR_UNSUPPORTED, "%s has version %u of the format, which this library does not read",
                path_, version);
  }

  // Whether a header checks, and describes this file. The size that a slab was asked for is not in it.
  bool is_slab(const SlabHeader& slab) const {
    const uint64_t stride = round_to_sector(slab.page_bytes);
    return slab.crc == crc32c(&slab, offsetof(SlabHeader, crc)) && slab.header_bytes == sizeof slab &&
           slab.bytes == out_.file_bytes && slab.page_bytes != 0 && slab.page_bytes <= slab.bytes &&
           slab.stride == stride && slab.num_slots <= slab.bytes / stride && slab.headers_at == kSector &&
           slab.payloads_at == kSector + round_to_sector(slab.num_slots * sizeof(RecordHeader)) &&
           slab.bytes == slab.payloads_at + slab.num_slots * stride;
  }

  // Whether a payload has its checksum.
  kvc_status read_payload(const RecordHeader& header, uint64_t offset) {
    uint32_t crc = 0;
    for (uint64_t at = 0; at < header.payload_bytes;) {
      const uint64_t size = std::min(kAtOnce, header.payload_bytes - at);
      KVC_TRY(get(bytes_.data(), size, offset + at));
      crc = crc32c(bytes_.data(), size, crc);
      at += size;
    }
    out_.bad_pages += crc != header.payload_crc;
    return KVC_OK;
  }

  kvc_status read_page(bool validate) {
    RecordHeader header;
    KVC_TRY(get(&header, sizeof header, 0));
    if (header.version > kRecordVersion) return newer(header.version);
    if (!is_record(header, header.fingerprint, out_.file_bytes - sizeof header) ||
        header.payload_bytes != out_.file_bytes - sizeof header)
      return fail(KVC_ERROR_CORRUPT, "%s: its header does not check; it is no page", path_);
    out_.kind = KVC_PAGE_FILE_PAGE;
    out_.version = header.version;
    std::memcpy(out_.fingerprint, header.fingerprint.bytes, sizeof out_.fingerprint);
    std::memcpy(out_.key, header.key.bytes, sizeof out_.key);
    out_.page_bytes = out_.stored_bytes = header.payload_bytes;
    out_.num_slots = out_.num_pages = 1;
    return validate ? read_payload(header, sizeof header) : KVC_OK;
  }

  kvc_status read_slab(bool validate) {
    SlabHeader slab;
    KVC_TRY(get(&slab, sizeof slab, 0));
    if (slab.version > kSlabVersion) return newer(slab.version);
    if (!is_slab(slab)) return fail(KVC_ERROR_CORRUPT, "%s: its header does not check; it is no slab", path_);
    out_.kind = KVC_PAGE_FILE_SLAB;
    out_.version = slab.version;
    std::memcpy(out_.fingerprint, slab.fingerprint.bytes, sizeof out_.fingerprint);
    out_.page_bytes = slab.page_bytes;
    out_.num_slots = slab.num_slots;
    std::vector<RecordHeader> headers(512);
    for (uint64_t slot = 0; slot < slab.num_slots; slot += headers.size()) {
      const uint64_t count = std::min<uint64_t>(headers.size(), slab.num_slots - slot);
      KVC_TRY(
          get(headers.data(), count * sizeof(RecordHeader), slab.headers_at + slot * sizeof(RecordHeader)));
      for (uint64_t i = 0; i < count; ++i) {
        static constexpr RecordHeader kNone = {};
        if (std::memcmp(&headers[i], &kNone, sizeof kNone) == 0) continue;
        if (!is_record(headers[i], slab.fingerprint, slab.page_bytes)) {
          ++out_.bad_headers;
          continue;
        }
        ++out_.num_pages;
        out_.stored_bytes += headers[i].payload_bytes;
        if (validate) KVC_TRY(read_payload(headers[i], slab.payloads_at + (slot + i) * slab.stride));
      }
    }
    return KVC_OK;
  }

  Files& files_;
  const char* path_;
  OpenFile file_;
  kvc_page_file_info& out_;
  std::vector<char> bytes_;
};

}  // namespace

kvc_status describe_page_file(Files& files, const char* path, bool validate, kvc_page_file_info* out) {
  return PageFile(files, path, out).read(validate);
}

}  // namespace kvc
