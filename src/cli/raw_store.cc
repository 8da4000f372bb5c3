// SPDX-License-Identifier: Apache-2.0
#include "cli/raw_store.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <kvcache/plugin.h>
#include <link.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "cli/errors.h"
#include "cli/table.h"

namespace kvcli {
namespace {

class RawMemory final : public RawStore {
 public:
  explicit RawMemory(const RawOptions& options)
      : page_bytes_(options.page_bytes), slots_(options.page_bytes * options.pages) {}
  std::string name() const override { return "memcpy"; }
  bool move(uint32_t, bool write, uint64_t first, uint64_t count, char* data) override {
    for (uint64_t i = first; i < first + count;
         ++i, data += page_bytes_) {  // a page at a time, as a tier does
      char* const slot = slots_.data() + i * page_bytes_;
      std::memcpy(write ? slot : data, write ? data : slot, page_bytes_);
    }
    return true;
  }

 private:
  const uint64_t page_bytes_;
  std::vector<char> slots_;
};

void ignore(const char*) {}

/// The file of a library that the process has loaded. Empty: there is none.
std::string loaded(const char* file) {
  struct Search {
    const std::string end;
    std::string path;
  } search = {std::string("/") + file, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* argument) {
        auto& [end, path] = *static_cast<Search*>(argument);
        const std::string name = info->dlpi_name;
        if (name.size() < end.size() || name.compare(name.size() - end.size(), end.size(), end) != 0)
          return 0;
        path = name;
        return 1;
      },
      &search);
  return search.path;
}

/// The table of the plug-in that the library has opened. Null: there is none.
const kvc_io_engine* uring() {
  static const kvc_plugin_host host = {sizeof host, KVC_PLUGIN_ABI, 0, ignore};
  const kvc_plugin* plugin = nullptr;
  if (kvc_plugin_open("uring", nullptr) != KVC_OK) return nullptr;
  void* const library = dlopen(loaded("libkvcache_uring.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  const auto entry = reinterpret_cast<kvc_plugin_entry>(dlsym(library, KVC_PLUGIN_ENTRY));
  if (entry == nullptr || entry(&host, &plugin) != KVC_OK) return nullptr;
  return plugin->io;
}

/// One file with a place for each page, removed at the end. With direct=1 past the page cache, and then by
/// io_uring if there is the plug-in, unless io=threads.
class PageFile final : public RawStore {
 public:
  explicit PageFile(const RawOptions& options) : page_bytes_(options.page_bytes) {
    const std::string& url = options.url;
    path_ = url.substr(url.find(':') + 1, url.find('?') - url.find(':') - 1) + ".raw";
    direct_ = parameter_of(url, "direct", "0") == "1" && page_bytes_ % 4096 == 0;
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | (direct_ ? O_DIRECT : 0), 0600);
    if (file_ < 0) throw InputError(path_ + ": " + std::strerror(errno) + "; it is made beside the tier");
    const int error = posix_fallocate(file_, 0, static_cast<off_t>(page_bytes_ * options.pages));
    if (error != 0) {
      leave();
      throw InputError(path_ + ": " + std::strerror(error) + "; give fewer --pages");
    }
    if (direct_ && parameter_of(url, "io", "auto") != "threads") open_rings(options.threads, options.depth);
    name_ = std::string("one file, ") + (direct_ ? "O_DIRECT" : "page cache") + ", " +
            (queues_.empty() ? "pread and pwrite of " + counted(options.threads, "thread")
                             : counted(options.threads, "io_uring") + " with " +
                                   counted(options.depth, "operation") + " each");
  }
  ~PageFile() override { leave(); }
  PageFile(const PageFile&) = delete;
  PageFile& operator=(const PageFile&) = delete;

  std::string name() const override { return name_; }
  bool move(uint32_t thread, bool write, uint64_t first, uint64_t count, char* data) override {
    if (queues_.empty()) {
      bool done = true;
      for (uint64_t i = 0; i < count; ++i) {
        char* const page = data + i * page_bytes_;
        const auto at = static_cast<off_t>((first + i) * page_bytes_);
        const ssize_t got =
            write ? pwrite(file_, page, page_bytes_, at) : pread(file_, page, page_bytes_, at);
        done &= got == static_cast<ssize_t>(page_bytes_);
      }
      return done;
    }
    std::vector<kvc_io>& operations = operations_[thread];
    for (uint64_t i = 0; i < count; ++i)
      operations[i] = {data + i * page_bytes_, page_bytes_, (first + i) * page_bytes_, 0, file_, write};
    engine_->transfer(queues_[thread], operations.data(), count);
    bool done = true;
    for (uint64_t i = 0; i < count; ++i) done &= operations[i].result == static_cast<int64_t>(page_bytes_);
    return done;
  }

 private:
  void open_rings(uint32_t threads, uint32_t depth) {
    engine_ = uring();
    for (uint32_t i = 0; engine_ != nullptr && i < threads; ++i) {
      void* queue = nullptr;
      if (engine_->open(depth, &queue) != KVC_OK) return close_rings();
      queues_.push_back(queue);
      operations_.emplace_back(depth);
    }
  }
  void close_rings() {
    for (void* queue : queues_) engine_->close(queue);
    queues_.clear();
  }
  void leave() {
    close_rings();
    close(file_);
    unlink(path_.c_str());
  }

  const uint64_t page_bytes_;
  std::string path_, name_;
  bool direct_;
  int file_;
  const kvc_io_engine* engine_ = nullptr;
  std::vector<void*> queues_;  // one a thread; none: system calls
  std::vector<std::vector<kvc_io>> operations_;
};

/// A new file for each page, as a program writes that has no tier; removed at the end.
class PageFiles final : public RawStore {
 public:
  explicit PageFiles(const RawOptions& options) : page_bytes_(options.page_bytes) {
    const std::string& url = options.url;
    folder_ = url.substr(url.find(':') + 1, url.find('?') - url.find(':') - 1) + ".raw";
    if (!std::filesystem::create_directory(folder_))
      throw InputError(folder_ + " is there; it is made beside the tier");
    name_ = "a file a page, " + counted(options.threads, "thread");
  }
  ~PageFiles() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  PageFiles(const PageFiles&) = delete;
  PageFiles& operator=(const PageFiles&) = delete;

  std::string name() const override { return name_; }
  bool move(uint32_t, bool write, uint64_t first, uint64_t count, char* data) override {
    bool done = true;
    for (uint64_t i = first; i < first + count; ++i, data += page_bytes_) {
      const std::string path = folder_ + "/" + std::to_string(i);
      if (write) unlink(path.c_str());
      const int file =
          open(path.c_str(), write ? O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0600);
      const ssize_t got = write ? pwrite(file, data, page_bytes_, 0) : pread(file, data, page_bytes_, 0);
      done &= file >= 0 && close(file) == 0 && got == static_cast<ssize_t>(page_bytes_);
    }
    return done;
  }

 private:
  const uint64_t page_bytes_;
  std::string folder_, name_;
};

}  // namespace

std::string parameter_of(const std::string& url, const std::string& name, const std::string& otherwise) {
  size_t at = url.find('?');
  while (at != std::string::npos) {
    const size_t end = url.find('&', at + 1);
    const std::string part = url.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    if (part.rfind(name + "=", 0) == 0) return part.substr(name.size() + 1);
    at = end;
  }
  return otherwise;
}

std::unique_ptr<RawStore> make_raw_store(const RawOptions& options) {
  const std::string scheme = options.url.substr(0, options.url.find(':'));
  if (scheme == "memory") return std::make_unique<RawMemory>(options);
  if (scheme == "slab") return std::make_unique<PageFile>(options);
  if (scheme == "dir") return std::make_unique<PageFiles>(options);
  if (scheme == "redis") return make_raw_redis(options);
  return nullptr;
}

}  // namespace kvcli
