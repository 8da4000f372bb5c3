// SPDX-License-Identifier: Apache-2.0
// Records and slabs whose bytes are not those that were written. The input is laid over a slab with pages in
// it: a byte of options, then pieces of (offset, length, bytes). The slab opens or is refused with a text;
// each get is a hit with the bytes that were put, or none; and the slab is usable afterwards. With option 1
// the sums of the headers are made right again, so that what they say is reached: then a forged header may
// name the payload of another, and bytes are not compared.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/status.h"
#include "fuzz/target.h"
#include "tier/record.h"
#include "tier/slab_format.h"
#include "tier/slab_store.h"

namespace kvc {
namespace {

constexpr uint64_t kBytes = 200, kPages = 6;
constexpr uint64_t kFileBytes = 4096 * 3 + kPages * (4096 + 128);

Digest256 digest_of(uint64_t number) {
  Sha256 sha;
  sha.update(&number, sizeof number);
  return sha.finish();
}
void page_of(const Digest256& key, char* out) {
  for (size_t i = 0; i < kBytes; ++i) out[i] = static_cast<char>(key.bytes[i % 32] + i);
}

struct Slab {
  Slab() {
    path = "/dev/shm/kvc-fuzz-" + std::to_string(getpid());
    if (access("/dev/shm", W_OK) != 0) path = "/tmp/kvc-fuzz-" + std::to_string(getpid());
    unlink(path.c_str());
    PageStorePtr store = open();
    FUZZ_REQUIRE(store != nullptr, last_error());
    for (uint64_t i = 0; i < kPages - 1; ++i) FUZZ_REQUIRE(move(*store, i, true) == KVC_PAGE_OK, "put");
    store.reset();
    bytes.resize(kFileBytes);
    const int file = ::open(path.c_str(), O_RDONLY);
    struct stat info;
    FUZZ_REQUIRE(file >= 0 && fstat(file, &info) == 0, path.c_str());
    bytes.resize(static_cast<size_t>(info.st_size));
    FUZZ_REQUIRE(pread(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "read");
    close(file);
  }
  ~Slab() { unlink(path.c_str()); }
  PageStorePtr open() const {
    SlabConfig config = {};
    config.path = path.c_str(), config.bytes = kFileBytes, config.page_bytes = kBytes;
    config.fingerprint = digest_of(99), config.workers = 1;
    PageStorePtr out;
    if (open_slab_store(default_env(), system_files(), config, &out) != KVC_OK)
      FUZZ_REQUIRE(*last_error() != 0, "refused without a text");
    return out;
  }
  // Of page `number`; a get checks its bytes unless `forged`.
  static int32_t move(PageStore& store, uint64_t number, bool put, bool forged = false) {
    char page[kBytes], right[kBytes];
    kvc_tier_item item = {};
    const Digest256 key = digest_of(number);
    std::memcpy(item.key, key.bytes, sizeof item.key);
    item.data = page, item.bytes = kBytes;
    page_of(key, right);
    std::memcpy(page, right, sizeof page);
    if (put) {
      store.put({}, &item, 1);
    } else {
      std::memset(page, 0, sizeof page);
      store.get({}, &item, 1);
      FUZZ_REQUIRE(item.result != KVC_PAGE_OK || forged || std::memcmp(page, right, sizeof page) == 0,
                   "wrong bytes");
    }
    FUZZ_REQUIRE(item.result > KVC_PAGE_WAITING && item.result <= KVC_PAGE_FAILED, "no such result");
    return item.result;
  }

  std::string path;
  std::vector<uint8_t> bytes;
};

void make_sums_right(std::vector<uint8_t>* file) {
  const auto seal = [&](size_t at, size_t before_sum) {
    const uint32_t sum = crc32c(file->data() + at, before_sum);
    std::memcpy(file->data() + at + before_sum, &sum, sizeof sum);
  };
  seal(0, offsetof(SlabHeader, crc));
  for (size_t i = 0; i < kPages; ++i)
    seal(4096 + i * sizeof(RecordHeader), offsetof(RecordHeader, header_crc));
}

}  // namespace
}  // namespace kvc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvc;
  static const Slab slab;
  if (size >= sizeof(RecordHeader)) {
    RecordHeader header;
    std::memcpy(&header, data, sizeof header);
    if (is_record(header, digest_of(99), kBytes)) FUZZ_REQUIRE(header.payload_bytes <= kBytes, "too large");
  }
  if (size < 1) return 0;
  const bool forged = (data[0] & 1) != 0;
  std::vector<uint8_t> file = slab.bytes;
  size_t at = 1;
  while (at + 3 <= size) {
    const size_t offset = (data[at] | data[at + 1] << 8) % file.size();
    size_t length = data[at + 2];
    at += 3;
    if (length > size - at) length = size - at;
    if (length > file.size() - offset) length = file.size() - offset;
    std::memcpy(file.data() + offset, data + at, length);
    at += length;
  }
  if (forged) make_sums_right(&file);
  if ((data[0] & 2) != 0 && size >= 3) file.resize((data[1] | data[2] << 8) % file.size());  // cut
  const int out = ::open(slab.path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  FUZZ_REQUIRE(out >= 0 && pwrite(out, file.data(), file.size(), 0) == static_cast<ssize_t>(file.size()),
               "write");
  close(out);
  const PageStorePtr store = slab.open();
  if (store == nullptr) return 0;
  const StoreStats opened = store->stats();
  FUZZ_REQUIRE(opened.pages <= opened.capacity_pages && opened.recovered <= opened.capacity_pages, "pages");
  for (uint64_t i = 0; i < kPages + 2; ++i) Slab::move(*store, i, false, forged);
  for (uint64_t i = 20; i < 20 + kPages; ++i) {
    FUZZ_REQUIRE(Slab::move(*store, i, true) == KVC_PAGE_OK, "a put after all that");
    FUZZ_REQUIRE(Slab::move(*store, i, false) == KVC_PAGE_OK, "a get after all that");
  }
  return 0;
}
