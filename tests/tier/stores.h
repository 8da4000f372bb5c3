// SPDX-License-Identifier: Apache-2.0
// What the tests of tiers share: pages whose bytes follow from their key, so that a wrong one is always seen;
// folders that are removed at the end; and files whose system calls fail, end short, or end the process.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "plugin/plugins.h"
#include "seed.h"
#include "tier/directory_store.h"
#include "tier/directory_usage.h"
#include "tier/memory_store.h"
#include "tier/slab_store.h"

namespace kvc::test {

inline Digest256 digest_of(uint64_t number) {
  Sha256 sha;
  sha.update(&number, sizeof number);
  return sha.finish();
}

// Bytes of a page: all of them depend on the key.
inline std::vector<char> page_of(const Digest256& key, size_t bytes) {
  uint64_t state;
  std::memcpy(&state, key.bytes + 8, sizeof state);
  std::vector<char> out(bytes);
  for (size_t i = 0; i < bytes; i += 8) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t word = state ^ state >> 29;
    std::memcpy(&out[i], &word, bytes - i < 8 ? bytes - i : 8);
  }
  return out;
}

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvc-tier-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) abort();
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

enum class Fault : uint8_t { kNone, kEio, kEnospc, kEdquot, kEnolck, kShort, kEintr, kKill, kKillInWrite };

// The call number `at` (from 0) fails; with `every`, each at + n * every as well.
struct FaultyFiles final : Files {
  Fault fault = Fault::kNone;
  uint64_t at = 0, every = 0;
  std::atomic<uint64_t> calls{0}, hits{0};
  bool is_paused = false;  // calls do not count now

  void set(Fault which, uint64_t first, uint64_t each = 0) {
    fault = which, at = first, every = each;
    calls = hits = 0;
  }
  bool now() {
    if (is_paused) return false;
    const uint64_t call = calls++;
    if (fault == Fault::kNone || call < at) return false;
    if (call != at && (every == 0 || (call - at) % every != 0)) return false;
    ++hits;
    if (fault == Fault::kKill) raise(SIGKILL);
    return true;
  }
  int error() const {
    return fault == Fault::kEintr    ? -EINTR
           : fault == Fault::kEnospc ? -ENOSPC
           : fault == Fault::kEdquot ? -EDQUOT
           : fault == Fault::kEnolck ? -ENOLCK
                                     : -EIO;
  }
  // kKillInWrite counts writes alone.
  bool fails() { return fault != Fault::kKillInWrite && now() && fault != Fault::kShort; }

  int open(int folder, const char* path, int flags, unsigned mode) override {
    return fails() ? error() : Files::open(folder, path, flags, mode);
  }
  int let_wait(int file) override { return fails() ? error() : Files::let_wait(file); }
  int close(int file) override {
    const int bad = fails() ? error() : 0;
    const int result = Files::close(file);  // it is closed all the same
    return bad != 0 ? bad : result;
  }
  int64_t read(int file, void* data, size_t size, uint64_t offset) override {
    if (fault == Fault::kKillInWrite || !now()) return Files::read(file, data, size, offset);
    return fault == Fault::kShort ? Files::read(file, data, (size + 1) / 2, offset) : error();
  }
  int64_t write(int file, const void* data, size_t size, uint64_t offset) override {
    if (!now()) return Files::write(file, data, size, offset);
    if (fault == Fault::kKillInWrite) {
      static_cast<void>(Files::write(file, data, size / 2, offset));
      raise(SIGKILL);
    }
    // What fails may have written a part.
    if (fault == Fault::kEio) static_cast<void>(Files::write(file, data, size / 2, offset));
    return fault == Fault::kShort ? Files::write(file, data, (size + 1) / 2, offset) : error();
  }
  int64_t send(int file, const void* data, size_t size) override {
    if (fault == Fault::kKillInWrite || !now()) return Files::send(file, data, size);
    return fault == Fault::kShort ? Files::send(file, data, (size + 1) / 2) : error();
  }
  int64_t receive(int file, void* data, size_t size) override {
    if (fault == Fault::kKillInWrite || !now()) return Files::receive(file, data, size);
    return fault == Fault::kShort ? Files::receive(file, data, (size + 1) / 2) : error();
  }
  int truncate(int file, uint64_t size) override { return fails() ? error() : Files::truncate(file, size); }
  int allocate(int file, uint64_t offset, uint64_t size) override {
    return fails() ? error() : Files::allocate(file, offset, size);
  }
  // No test loses power, so nothing waits for the disk.
  int sync(int) override { return fails() ? error() : 0; }
  int free_bytes(int file, uint64_t* out) override {
    return fails() ? error() : Files::free_bytes(file, out);
  }
  int status(int file, struct stat* out) override { return fails() ? error() : Files::status(file, out); }
  int status_at(int folder, const char* path, struct stat* out) override {
    return fails() ? error() : Files::status_at(folder, path, out);
  }
  int touch(int file) override { return fails() ? error() : Files::touch(file); }
  int lock(int file) override { return fails() ? error() : Files::lock(file); }
  int unlock(int file) override {
    static_cast<void>(fails());  // cannot fail
    return Files::unlock(file);
  }
  int make_folder(int folder, const char* path, unsigned mode) override {
    return fails() ? error() : Files::make_folder(folder, path, mode);
  }
  int rename(int folder, const char* from, const char* to) override {
    return fails() ? error() : Files::rename(folder, from, to);
  }
  int remove(int folder, const char* path) override {
    return fails() ? error() : Files::remove(folder, path);
  }
  int list(int folder, void* data, void (*each)(void*, const char*)) override {
    return fails() ? error() : Files::list(folder, data, each);
  }
};

// An engine whose operations are calls of these files, the last one first: faults hit them as they do calls.
inline Files* engine_files = nullptr;
inline kvc_status engine_status = KVC_OK;  // of open()
inline uint64_t engine_transfers = 0;
inline int engine_flags = 0;  // of the files of all operations

inline const kvc_io_engine* test_engine(Files& files) {
  static const kvc_io_engine engine = {
      sizeof(kvc_io_engine),
      [](uint32_t, void** queue) {
        if (engine_status == KVC_OK) *queue = &engine_files;
        return engine_status;
      },
      [](void*) {},
      [](void*, kvc_io* operations, size_t num_operations) {
        ++engine_transfers;
        for (size_t i = num_operations; i-- > 0;) {
          kvc_io& io = operations[i];
          engine_flags |= ::fcntl(io.file, F_GETFL);
          io.result = io.write != 0 ? engine_files->write(io.file, io.data, io.bytes, io.offset)
                                    : engine_files->read(io.file, io.data, io.bytes, io.offset);
        }
      }};
  engine_files = &files;
  return &engine;
}

// io_uring, if there is the plug-in and the system has it; else null.
inline const kvc_io_engine* uring() {
  const kvc_plugin* plugin = nullptr;
  void* queue = nullptr;
  if (open_plugin("uring", nullptr, &plugin) != KVC_OK || plugin->io->open(1, &queue) != KVC_OK)
    return nullptr;
  plugin->io->close(queue);
  return plugin->io;
}

inline const Digest256 kFingerprint = digest_of(1u << 31);

inline SlabConfig slab_config(const std::string& path, uint64_t pages, uint64_t page_bytes) {
  SlabConfig config = {};
  config.path = path.c_str();
  config.bytes = 4096 * 3 + pages * ((page_bytes + 4095) / 4096 * 4096 + 128);
  config.page_bytes = page_bytes;
  config.fingerprint = kFingerprint;
  config.workers = 1;
  return config;
}

inline DirectoryConfig directory_config(const std::string& path, uint64_t pages, uint64_t page_bytes) {
  DirectoryConfig config = {};
  config.path = path.c_str();
  config.bytes = pages * ((page_bytes + 128 + 4095) / 4096 * 4096);
  config.page_bytes = page_bytes;
  config.fingerprint = kFingerprint;
  config.workers = 1;
  return config;
}

inline constexpr size_t kPageBytes = 5000;           // no multiple of a sector
inline constexpr size_t kOddPageBytes = 4096 + 200;  // a sector and a part of one

inline PageStorePtr opened(kvc_status status, PageStorePtr& store) {
  EXPECT_EQ(status, KVC_OK) << kvc_last_error();
  return std::move(store);
}

inline PageStorePtr open_memory(uint64_t pages, size_t page_bytes = kPageBytes) {
  PageStorePtr out;
  return opened(make_memory_store(default_env(), pages * ((page_bytes + 63) / 64 * 64), page_bytes, &out),
                out);
}
inline PageStorePtr open_slab(const std::string& path, uint64_t pages, size_t page_bytes = kPageBytes,
                              bool direct = false) {
  PageStorePtr out;
  SlabConfig config = slab_config(path, pages, page_bytes);
  config.direct = direct;
  return opened(open_slab_store(default_env(), system_files(), config, &out), out);
}
inline PageStorePtr open_directory(const std::string& path, uint64_t pages, size_t page_bytes = kPageBytes) {
  PageStorePtr out;
  const DirectoryConfig config = directory_config(path, pages, page_bytes);
  return opened(open_directory_store(default_env(), system_files(), config, &out), out);
}

inline void flip(const std::string& path, uint64_t bit) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  char byte = 0;
  ASSERT_EQ(::pread(file, &byte, 1, static_cast<off_t>(bit / 8)), 1);
  byte = static_cast<char>(byte ^ 1 << bit % 8);
  ASSERT_EQ(::pwrite(file, &byte, 1, static_cast<off_t>(bit / 8)), 1);
  ::close(file);
}

// The locks of all subfolders of a folder, as a process has them that is stopped at the wrong time.
class HeldFolder {
 public:
  explicit HeldFolder(const std::string& path) {
    for (uint32_t i = 0; i < DirectoryUsage::kSubfolders; ++i) {
      char name[4];
      snprintf(name, sizeof name, "%02x", i);
      const std::string subfolder = path + "/" + name;
      ::mkdir(subfolder.c_str(), 0700);
      files_.emplace_back(std::make_unique<OpenFile>(system_files()));
      num_held_ +=
          files_.back()->open(AT_FDCWD, (subfolder + "/usage").c_str(), O_RDWR | O_CREAT, 0600) == 0 &&
          system_files().lock(files_.back()->fd()) == 0;
    }
  }
  bool has_all() const { return num_held_ == DirectoryUsage::kSubfolders; }

 private:
  std::vector<std::unique_ptr<OpenFile>> files_;
  uint32_t num_held_ = 0;
};

// Bytes of the pages of a folder, as they are charged, and their number.
inline FolderUsage used_by_pages(const std::string& path) {
  FolderUsage out = {0, 0};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.path().extension() != ".page") continue;
    out.bytes += DirectoryUsage::charged(entry.file_size());
    ++out.pages;
  }
  return out;
}

// One page at a time, with its bytes checked.
class Pages {
 public:
  explicit Pages(PageStore& store, uint64_t now_ns = 0) : store_(store), call_{now_ns, 0, 0} {}

  int32_t put(const Digest256& key, size_t bytes) {
    std::vector<char> page = page_of(key, bytes);
    kvc_tier_item item = {};
    set_key(&item, key), item.data = page.data(), item.bytes = bytes;
    store_.put(call_, &item, 1);
    return item.result;
  }
  // Pages first, first + 1, ... in one call; their results.
  std::vector<int32_t> put_many(uint64_t first, size_t count, size_t bytes) {
    std::vector<std::vector<char>> pages;
    std::vector<kvc_tier_item> items(count);
    for (size_t i = 0; i < count; ++i) {
      const Digest256 key = digest_of(first + i);
      pages.push_back(page_of(key, bytes));
      set_key(&items[i], key), items[i].data = pages[i].data(), items[i].bytes = bytes;
    }
    store_.put(call_, items.data(), count);
    std::vector<int32_t> out;
    for (const kvc_tier_item& item : items) out.push_back(item.result);
    return out;
  }
  int32_t get(const Digest256& key, size_t bytes, uint64_t generation = 0) {
    std::vector<char> page(bytes);
    kvc_tier_item item = {};
    set_key(&item, key), item.data = page.data(), item.bytes = bytes, item.generation = generation;
    store_.get(call_, &item, 1);
    if (item.result == KVC_PAGE_OK && page != page_of(key, bytes)) {
      ++wrong;
      ADD_FAILURE() << "wrong bytes";
    }
    return item.result;
  }
  int32_t exists(const Digest256& key, uint64_t lease_ns = 0, uint64_t* generation = nullptr) {
    kvc_tier_item item = {};
    set_key(&item, key);
    call_.lease_ns = lease_ns;
    store_.exists(call_, &item, 1);
    if (generation != nullptr) *generation = item.generation;
    return item.result;
  }
  int32_t remove(const Digest256& key) {
    kvc_tier_item item = {};
    set_key(&item, key);
    store_.remove(call_, &item, 1);
    return item.result;
  }
  uint64_t wrong = 0;

 private:
  PageStore& store_;
  StoreCall call_;
};

}  // namespace kvc::test
