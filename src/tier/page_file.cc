// SPDX-License-Identifier: Apache-2.0
#include "tier/page_file.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <set>
#include <vector>

#include "base/crc32c.h"
#include "base/status.h"
#include "tier/description.h"
#include "tier/refusal.h"
#include "tier/slab_format.h"

namespace kvc {
namespace {

constexpr uint64_t kAtOnce = 1 << 20;
constexpr RecordHeader kNone = {};

using Fingerprint = std::array<uint8_t, sizeof Digest256::bytes>;

Fingerprint of(const RecordHeader& header) {
  Fingerprint out;
  std::memcpy(out.data(), header.fingerprint.bytes, out.size());
  return out;
}

class PageFile {
 public:
  PageFile(Files& files, const char* path, kvc_page_file_info* out)
      : files_(files), path_(path), file_(files), out_(*out), bytes_(kAtOnce) {}

  // Finds out what the file is.
  kvc_status open(int flags) {
    KVC_TRY(check(file_.open(AT_FDCWD, path_, flags), "open the file"));
    struct stat status = {};
    KVC_TRY(check(files_.status(file_.fd(), &status), "tell its size"));
    out_.file_bytes = static_cast<uint64_t>(status.st_size);
    unsigned char magic[sizeof kSlabMagic] = {};
    if (S_ISREG(status.st_mode) && out_.file_bytes >= sizeof(RecordHeader))
      KVC_TRY(get(magic, sizeof magic, 0));
    if (std::memcmp(magic, kSlabMagic, sizeof magic) == 0) return open_slab();
    if (std::memcmp(magic, kRecordMagic, sizeof magic) == 0) return open_page();
    return fail(KVC_ERROR_UNSUPPORTED, "%s is neither a slab nor a page of a tier", path_);
  }

  // Its pages, or those of one fingerprint.
  kvc_status count(bool validate, const Fingerprint* only) {
    std::set<Fingerprint> found;
    KVC_TRY(each_record([&](const RecordHeader& header, uint64_t, uint64_t payload_at) -> kvc_status {
      if (only != nullptr && of(header) != *only) return KVC_OK;
      found.insert(of(header));
      ++out_.num_pages;
      out_.stored_bytes += header.payload_bytes;
      return validate ? read_payload(header, payload_at) : kvc_status{KVC_OK};
    }));
    if (found.size() == 1) {
      std::copy(found.begin()->begin(), found.begin()->end(), out_.fingerprint);
      describe();
    }
    return KVC_OK;
  }

  kvc_status count_part(bool validate, uint32_t number) {
    std::set<Fingerprint> found;
    KVC_TRY(each_record([&](const RecordHeader& header, uint64_t, uint64_t) -> kvc_status {
      found.insert(of(header));
      return KVC_OK;
    }));
    out_.bad_headers = 0;
    if (number >= found.size())
      return fail(KVC_ERROR_NOT_FOUND, "%s has pages of %zu fingerprints; none has the number %u, from 0",
                  path_, found.size(), number);
    const kvc_status status = count(validate, &*std::next(found.begin(), number));
    out_.bad_headers = 0;
    return status;
  }

  // Removes the pages of a fingerprint from a slab.
  kvc_status purge(const Fingerprint& fingerprint) {
    if (out_.kind != KVC_PAGE_FILE_SLAB)
      return fail(KVC_ERROR_UNSUPPORTED, "%s is the page of a folder, no slab; remove the file", path_);
    const int error = files_.lock(file_.fd());
    if (error == -EWOULDBLOCK)
      return fail(KVC_ERROR_BUSY, "slab %s: a process uses it; end that first", path_);
    KVC_TRY(check(error, "lock it"));
    const auto clear = [&](const RecordHeader& header, uint64_t header_at, uint64_t) -> kvc_status {
      if (of(header) != fingerprint) return KVC_OK;
      KVC_TRY(check(write_fully(files_, file_.fd(), &kNone, sizeof kNone, header_at), "write to it"));
      ++out_.num_pages;
      out_.stored_bytes += header.payload_bytes;
      std::memcpy(out_.fingerprint, fingerprint.data(), fingerprint.size());
      return KVC_OK;
    };
    KVC_TRY(each_record(clear));
    Digest256 described;
    std::memcpy(described.bytes, fingerprint.data(), sizeof described.bytes);
    return check(remove_slab_description(files_, file_.fd(), described), "write to it");
  }

 private:
  // What the pages of its fingerprint are of, if that is kept beside them.
  void describe() {
    Digest256 fingerprint;
    std::memcpy(fingerprint.bytes, out_.fingerprint, sizeof fingerprint.bytes);
    std::string text;
    if (out_.kind == KVC_PAGE_FILE_SLAB) {
      for (const PageDescription& one : read_slab_descriptions(files_, file_.fd()))
        if (one.fingerprint == fingerprint) text = one.text;
    } else {
      const std::string path(path_), subfolder = path.substr(0, path.find_last_of('/') + 1);
      OpenFile folder(files_);
      if (folder.open(AT_FDCWD, (subfolder + "..").c_str(), O_RDONLY | O_DIRECTORY) == 0)
        text = read_folder_description(files_, folder.fd(), fingerprint);
    }
    out_.description[text.copy(out_.description, sizeof out_.description - 1)] = 0;
  }
  kvc_status check(int error, const char* what) const {
    return error == 0 ? kvc_status{KVC_OK} : refused_by_system("file", path_, what, error);
  }
  kvc_status get(void* to, uint64_t size, uint64_t offset) {
    return check(read_fully(files_, file_.fd(), to, size, offset), "read it");
  }

  // Whether a header checks, and describes a slab. The size that it was asked for is not in it. The file is
  // shorter if its maker was killed before it had reserved the bytes; a tier reserves them then.
  bool is_slab(const SlabHeader& slab) const {
    const uint64_t stride = round_to_sector(slab.page_bytes);
    return slab.crc == crc32c(&slab, offsetof(SlabHeader, crc)) && slab.header_bytes == sizeof slab &&
           slab.bytes <= PTRDIFF_MAX && slab.page_bytes != 0 && slab.page_bytes <= slab.bytes &&
           slab.stride == stride && slab.num_slots <= slab.bytes / stride && slab.headers_at == kSector &&
           slab.payloads_at == kSector + round_to_sector(slab.num_slots * sizeof(RecordHeader)) &&
           slab.bytes == slab.payloads_at + slab.num_slots * stride;
  }

  kvc_status open_slab() {
    KVC_TRY(get(&slab_, sizeof slab_, 0));
    if (slab_.version != kSlabVersion) return other_version(slab_.version);
    if (!is_slab(slab_))
      return fail(KVC_ERROR_CORRUPT, "%s: its header does not check; it is no slab", path_);
    out_.kind = KVC_PAGE_FILE_SLAB;
    out_.version = slab_.version;
    out_.page_bytes = slab_.page_bytes;
    out_.num_slots = slab_.num_slots;
    return KVC_OK;
  }

  // As a slab of one slot.
  kvc_status open_page() {
    RecordHeader header;
    KVC_TRY(get(&header, sizeof header, 0));
    if (header.version != kRecordVersion) return other_version(header.version);
    if (!is_record(header, header.fingerprint, out_.file_bytes - sizeof header) ||
        header.payload_bytes != out_.file_bytes - sizeof header)
      return fail(KVC_ERROR_CORRUPT, "%s: its header does not check; it is no page", path_);
    out_.kind = KVC_PAGE_FILE_PAGE;
    out_.version = header.version;
    std::memcpy(out_.key, header.key.bytes, sizeof out_.key);
    out_.page_bytes = slab_.page_bytes = header.payload_bytes;
    out_.num_slots = slab_.num_slots = 1;
    slab_.payloads_at = sizeof header;
    return KVC_OK;
  }

  kvc_status other_version(uint32_t version) const {
    return fail(KVC_ERROR_UNSUPPORTED, "%s has version %u of the format, which this library does not read",
                path_, version);
  }

  // Whether a payload has its checksum.
  kvc_status read_payload(const RecordHeader& header, uint64_t offset) {
    if (offset > out_.file_bytes || header.payload_bytes > out_.file_bytes - offset) {
      ++out_.bad_pages;
      return KVC_OK;
    }
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

  // Calls each(header, where it is, where its payload is), and counts what are none.
  template <typename Each>
  kvc_status each_record(Each&& each) {
    std::vector<RecordHeader> headers(512);
    const uint64_t end = std::max(out_.file_bytes, slab_.headers_at);  // behind it there are no headers yet
    const uint64_t num_slots = std::min(slab_.num_slots, (end - slab_.headers_at) / sizeof(RecordHeader));
    for (uint64_t slot = 0; slot < num_slots; slot += headers.size()) {
      const uint64_t count = std::min<uint64_t>(headers.size(), num_slots - slot);
      const uint64_t at = slab_.headers_at + slot * sizeof(RecordHeader);
      KVC_TRY(get(headers.data(), count * sizeof(RecordHeader), at));
      for (uint64_t i = 0; i < count; ++i) {
        if (std::memcmp(&headers[i], &kNone, sizeof kNone) == 0) continue;
        if (is_record(headers[i], headers[i].fingerprint, slab_.page_bytes))
          KVC_TRY(
              each(headers[i], at + i * sizeof(RecordHeader), slab_.payloads_at + (slot + i) * slab_.stride));
        else
          ++out_.bad_headers;
      }
    }
    return KVC_OK;
  }

  Files& files_;
  const char* path_;
  OpenFile file_;
  kvc_page_file_info& out_;
  std::vector<char> bytes_;
  SlabHeader slab_ = {};
};

}  // namespace

kvc_status describe_page_file(Files& files, const char* path, bool validate, kvc_page_file_info* out) {
  PageFile file(files, path, out);
  KVC_TRY(file.open(O_RDONLY));
  return file.count(validate, nullptr);
}

kvc_status describe_page_file_part(Files& files, const char* path, uint32_t number, bool validate,
                                   kvc_page_file_info* out) {
  PageFile file(files, path, out);
  KVC_TRY(file.open(O_RDONLY));
  return file.count_part(validate, number);
}

kvc_status purge_page_file(Files& files, const char* path, const Digest256& fingerprint,
                           kvc_page_file_info* out) {
  Fingerprint wanted;
  std::memcpy(wanted.data(), fingerprint.bytes, wanted.size());
  PageFile file(files, path, out);
  KVC_TRY(file.open(O_RDWR));
  return file.purge(wanted);
}

}  // namespace kvc
