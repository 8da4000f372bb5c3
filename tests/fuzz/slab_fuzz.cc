// SPDX-License-Identifier: Apache-2.0
// A file that is perhaps a slab: its description and its table of headers, as whoever wrote it. The input is
// a byte of options, then the description, then headers of slots; the rest of the file is zeroes, as long as
// the description says, within bounds. With option 1 the sums are made right. Readers of the file agree with
// each other, a store opens it or refuses it with a text, and then finds as many pages as were counted, gives
// no page whose bytes are not those of its sum, and is usable; a purge removes what it says. With option 4
// what follows the description lies behind it, too, where the words are: they come out printable.
#include <fcntl.h>
#include <kvcache/inspect.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/status.h"
#include "fuzz/target.h"
#include "tier/page_file.h"
#include "tier/slab_format.h"
#include "tier/slab_store.h"

namespace kvc {
namespace {

constexpr uint64_t kMostBytes = 1 << 20, kMostHeaders = 64;

struct Input {
  Input(const uint8_t* data, size_t size) : options(data[0]), rest(data + 1, data + size) {}
  const uint8_t options;
  std::vector<uint8_t> rest;
};

void seal(std::vector<uint8_t>* file, size_t at, size_t before_sum) {
  const uint32_t sum = crc32c(file->data() + at, before_sum);
  std::memcpy(file->data() + at + before_sum, &sum, sizeof sum);
}

// The file, whose description has been made to fit it as far as the options say.
std::vector<uint8_t> file_of(const Input& in, SlabHeader* slab) {
  std::vector<uint8_t> file(kSector);
  std::copy_n(in.rest.begin(), std::min(in.rest.size(), sizeof *slab), file.begin());
  std::memcpy(slab, file.data(), sizeof *slab);
  if ((in.options & 2) != 0) {  // right in all but the sizes that it chooses
    const uint64_t page_bytes = 1 + slab->page_bytes % 9000, bytes = 3 * kSector + slab->bytes % kMostBytes;
    *slab = make_slab(bytes, page_bytes);
    std::memcpy(file.data(), slab, sizeof *slab);
  }
  file.resize(std::clamp<uint64_t>(slab->bytes, sizeof *slab, kMostBytes));
  const size_t used = std::min(in.rest.size(), sizeof *slab), left = in.rest.size() - used;
  if (file.size() > kSector)
    std::copy_n(in.rest.begin() + static_cast<ptrdiff_t>(used), std::min(left, file.size() - kSector),
                file.begin() + kSector);
  constexpr size_t kWords = kSector - sizeof *slab, kEntry = kWords / 4;
  const bool has_words = (in.options & 4) != 0 && file.size() >= kSector;
  if (has_words)
    std::copy_n(in.rest.begin() + static_cast<ptrdiff_t>(used), std::min(left, kWords),
                file.begin() + sizeof *slab);
  if ((in.options & 1) == 0) return file;
  for (size_t i = 0; i < 4 && has_words; ++i) {
    const size_t at = sizeof *slab + i * kEntry;
    const uint32_t sum = crc32c(&file[at + 4], kEntry - 4);
    std::memcpy(&file[at], &sum, sizeof sum);
  }
  seal(&file, 0, offsetof(SlabHeader, crc));
  for (size_t i = 0; i < kMostHeaders; ++i) {
    const size_t at = kSector + i * sizeof(RecordHeader);
    static constexpr RecordHeader kNone = {};
    if (at + sizeof kNone > file.size() || std::memcmp(&file[at], &kNone, sizeof kNone) == 0) continue;
    seal(&file, at, offsetof(RecordHeader, header_crc));
  }
  return file;
}

void write_file(const std::string& path, const std::vector<uint8_t>& bytes) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  FUZZ_REQUIRE(file >= 0 && pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
               "write");
  close(file);
}

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); });
}

// Pages by the sum of the parts, which is all of them.
uint64_t count_parts(const std::string& path, uint64_t most) {
  uint64_t pages = 0;
  for (uint32_t number = 0;; ++number) {
    kvc_page_file_info part = {};
    const kvc_status status = describe_page_file_part(system_files(), path.c_str(), number, true, &part);
    if (status == KVC_ERROR_NOT_FOUND) return pages;
    FUZZ_REQUIRE(status == KVC_OK && part.num_pages != 0, last_error());
    FUZZ_REQUIRE(is_printable(part.description), "bytes that nobody has looked at");
    pages += part.num_pages;
    FUZZ_REQUIRE(pages <= most, "more parts than pages");
  }
}

void use(PageStore& store, const Digest256& key, uint64_t page_bytes) {
  std::vector<char> page(page_bytes, 'x');
  kvc_tier_item item = {};
  set_key(&item, key), item.data = page.data(), item.bytes = page_bytes;
  store.put({}, &item, 1);
  FUZZ_REQUIRE(item.result == KVC_PAGE_OK, "a put after all that");
  std::fill(page.begin(), page.end(), 0);
  item.generation = 0;
  store.get({}, &item, 1);
  // A forged page with its key that has this size was there: whatever its bytes are, they have its sum.
  FUZZ_REQUIRE(item.result == KVC_PAGE_OK || item.result == KVC_PAGE_MISS, "a get after all that");
}

}  // namespace
}  // namespace kvc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvc;
  if (size < 1) return 0;
  static const std::string path = [] {
    const std::string folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    return folder + "/kvc-fuzz-slab-" + std::to_string(getpid());
  }();
  SlabHeader slab;
  const std::vector<uint8_t> file = file_of({data, size}, &slab);
  write_file(path, file);

  kvc_page_file_info info = {};
  const kvc_status read = describe_page_file(system_files(), path.c_str(), true, &info);
  FUZZ_REQUIRE(read == KVC_OK || *last_error() != 0, "refused without a text");
  if (read == KVC_OK) {
    FUZZ_REQUIRE(info.num_pages + info.bad_headers <= info.num_slots, "more than slots");
    FUZZ_REQUIRE(count_parts(path, info.num_pages) == info.num_pages, "parts");
  }

  SlabConfig config = {};
  config.path = path.c_str(), config.workers = 1;
  config.bytes = std::min<uint64_t>(slab.bytes, kMostBytes),
  config.page_bytes = std::clamp<uint64_t>(slab.page_bytes, 1, 65536);
  if ((data[0] & 2) != 0) config.bytes += kSector;  // what make_slab rounds
  std::memcpy(config.fingerprint.bytes,
              file.size() >= kSector + sizeof(RecordHeader)
                  ? &file[kSector + offsetof(RecordHeader, fingerprint)]
                  : &file[0],
              32);
  PageStorePtr store;
  const kvc_status opened = open_slab_store(default_env(), system_files(), config, &store);
  FUZZ_REQUIRE(opened == KVC_OK || *last_error() != 0, "refused without a text");
  if (opened == KVC_OK) {
    const StoreStats stats = store->stats();
    const std::string difference = store->difference("model: \"a\"\nweights: \"b\"\n");
    FUZZ_REQUIRE(is_printable(difference) && difference.size() < 256, difference.c_str());
    store->describe("model: \"a\"\n");
    FUZZ_REQUIRE(stats.pages <= stats.capacity_pages && stats.recovered <= stats.pages, "pages");
    FUZZ_REQUIRE(read != KVC_OK || stats.pages <= info.num_pages, "more than were counted");
    Digest256 key = {};
    for (uint8_t i = 0; i < 8; ++i) key.bytes[0] = i, use(*store, key, config.page_bytes);
    store.reset();
    kvc_page_file_info gone = {}, left = {};
    FUZZ_REQUIRE(purge_page_file(system_files(), path.c_str(), config.fingerprint, &gone) == KVC_OK,
                 last_error());
    FUZZ_REQUIRE(purge_page_file(system_files(), path.c_str(), config.fingerprint, &left) == KVC_OK &&
                     left.num_pages == 0,
                 "all of it");
  }
  unlink(path.c_str());
  return 0;
}
