// SPDX-License-Identifier: Apache-2.0
// Rounds alternate: save, raw write, raw read, restore, and a save after a hundredth of the blocks changed.
// The medians count, so that a disk that others use for a while disturbs both sides alike. Raw means 8 MiB at
// a time, past the page cache if the system allows it, and fdatasync at the end, as saves do it. Files are
// removed between rounds, where no clock runs.
#include "cli/bench_checkpoint.h"

#include <fcntl.h>
#include <kvcache/checkpoint.h>
#include <kvcache/page.h>
#include <kvcache/request.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bench_json.h"
#include "cli/dtype.h"
#include "cli/library.h"
#include "cli/table.h"

namespace kvcli {
namespace {

namespace fs = std::filesystem;
constexpr size_t kPiece = size_t{8} << 20;
constexpr int kRounds = 5;

/// A file that is written or read as fast as one thread can.
class RawFile {
 public:
  explicit RawFile(const std::string& path) : path_(path), piece_(std::aligned_alloc(4096, kPiece)) {
    if (piece_ == nullptr) throw std::bad_alloc();
    std::memset(piece_, 0x5a, kPiece);
  }
  ~RawFile() { std::free(piece_); }
  void remove() {
    unlink(path_.c_str());
    sync();  // the disk may learn what is free only now
  }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  double move(uint64_t bytes, bool write) {
    Stopwatch time;
    time.start();
    const int flags = write ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY;
    int file = open(path_.c_str(), flags | O_DIRECT, 0666);
    if (file < 0) file = open(path_.c_str(), flags, 0666);
    if (file < 0) throw InputError(path_ + ": " + std::strerror(errno) + "; give a writable folder");
    bool right = true;
    for (uint64_t at = 0; at < bytes && right; at += kPiece) {
      const auto offset = static_cast<off_t>(at);
      right = (write ? pwrite(file, piece_, kPiece, offset) : pread(file, piece_, kPiece, offset)) ==
              static_cast<ssize_t>(kPiece);
    }
    right = right && (!write || fdatasync(file) == 0);
    close(file);
    if (!right) throw std::runtime_error(path_ + ": " + std::strerror(errno));
    return time.stop();
  }

 private:
  const std::string path_;
  void* piece_;
};

/// A manager with one long prompt per request in its cache, and a storage.
struct Side {
  Side(const BenchOptions& options, uint64_t blocks) {
    auto config = make<kvc_manager_config>();
    config.num_blocks = blocks;
    config.block_size = options.block_size;
    manager = Manager(ask<kvc_manager*>(kvc_manager_create, &config));
    auto layout = make<kvc_storage_config>();
    layout.num_blocks = blocks;
    layout.num_layers = options.layers != 0 ? options.layers : 32;
    layout.num_heads = options.kv_heads;
    layout.head_dim = options.head_dim;
    layout.v_head_dim = options.v_head_dim;
    layout.block_size = options.block_size;
    layout.dtype = dtype_of(options.dtype);
    storage = Storage(ask<kvc_storage*>(kvc_storage_create, &layout));
    info = ask<kvc_storage_info>(kvc_storage_properties, storage.get());
    std::memset(info.data, 1, info.slab_bytes);  // no page is new to the system
  }
  Manager manager;
  Storage storage;
  kvc_storage_info info;
};

/// A prompt of so many tokens comes to the cache, in the place of what was used least recently.
void cache_prompt(const Side& side, uint64_t tokens, uint64_t number) {
  std::vector<int32_t> prompt(tokens);
  for (uint64_t t = 0; t < tokens; ++t)
    prompt[t] = static_cast<int32_t>((t * 2654435761u + number * 40503u) % 50000);
  auto given = make<kvc_prompt>();
  given.tokens = prompt.data(), given.num_tokens = tokens;
  uint64_t id = 0;
  check(kvc_manager_allocate_request(side.manager.get(), &given, nullptr, &id, nullptr));
  check(kvc_manager_commit_tokens(side.manager.get(), id, tokens));
  check(kvc_manager_free_request(side.manager.get(), id));
}

void fill(const BenchOptions& options, const Side& side) {
  const uint64_t tokens = options.context / options.block_size * options.block_size;
  for (uint64_t r = 0; r < options.batch; ++r) cache_prompt(side, tokens, r);
  auto* words = static_cast<uint64_t*>(side.info.data);
  uint64_t state = 1;
  for (uint64_t i = 0; i < side.info.slab_bytes / sizeof(uint64_t); ++i)
    words[i] = state = state * 6364136223846793005u + 1442695040888963407u;
}

/// The folder of one run, which goes with it.
struct Folder {
  explicit Folder(const std::string& parent) : path(parent + "/kvcache-bench-" + std::to_string(getpid())) {}
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  const std::string path;
};

/// What the rounds have measured; each has its seconds.
struct Rounds {
  std::vector<double> raw_write, raw_read, save, restore, increment;
  kvc_checkpoint_info whole = make<kvc_checkpoint_info>(), last = make<kvc_checkpoint_info>();
  bool right = true;

  double gb_per_s(const std::vector<double>& seconds) const {
    return static_cast<double>(whole.stored_bytes) / median(seconds) / 1e9;
  }
};

void run_round(const BenchOptions& options, const Side& old, uint64_t blocks, uint64_t changed, int round,
               kvc_checkpoint_config& config, Rounds* out) {
  const auto storages = [](const Side& side) { return std::vector<kvc_storage*>{side.storage.get()}; };
  kvc_checkpoint_info& info = out->whole;
  std::vector<kvc_storage*> group = storages(old);
  Stopwatch time;
  time.start();
  config.flags = KVC_CHECKPOINT_FULL;
  check(kvc_checkpoint_save(old.manager.get(), group.data(), 1, &config, &info));
  out->save.push_back(time.stop());
  const uint64_t bytes = (info.stored_bytes + kPiece - 1) / kPiece * kPiece;
  const double part = static_cast<double>(info.stored_bytes) / static_cast<double>(bytes);
  RawFile raw(std::string(config.folder) + "/raw");
  out->raw_write.push_back(raw.move(bytes, true) * part);
  out->raw_read.push_back(raw.move(bytes, false) * part);
  const Side fresh(options, blocks);
  group = storages(fresh);
  time.start();
  check(kvc_checkpoint_restore(fresh.manager.get(), group.data(), 1, &config, nullptr, 0, nullptr, 0, &info));
  out->restore.push_back(time.stop());
  out->right = out->right && std::memcmp(fresh.info.data, old.info.data, old.info.slab_bytes) == 0;
  cache_prompt(old, changed * options.block_size, options.batch + static_cast<uint64_t>(round));
  config.flags = KVC_CHECKPOINT_INCREMENT;
  group = storages(old);
  time.start();
  check(kvc_checkpoint_save(old.manager.get(), group.data(), 1, &config, &out->last));
  out->increment.push_back(time.stop());
  out->right = out->right && out->last.new_pages == changed;
  for (const uint64_t id : {info.id, out->last.id}) check(kvc_checkpoint_remove(config.folder, id));
  raw.remove();
}

nlohmann::ordered_json json_of(const BenchOptions& options, const Rounds& rounds, uint64_t changed) {
  nlohmann::ordered_json json;
  json["folder"] = options.folder;
  json["codec"] = rounds.whole.codec;
  json["blocks"] = rounds.whole.num_blocks;
  json["page_bytes"] = rounds.whole.page_bytes;
  json["stored_bytes"] = rounds.whole.stored_bytes;
  json["rounds"] = kRounds;
  json["save_gb_per_s"] = rounds.gb_per_s(rounds.save);
  json["raw_write_gb_per_s"] = rounds.gb_per_s(rounds.raw_write);
  json["save_ratio"] = median(rounds.raw_write) / median(rounds.save);
  json["restore_gb_per_s"] = rounds.gb_per_s(rounds.restore);
  json["raw_read_gb_per_s"] = rounds.gb_per_s(rounds.raw_read);
  json["restore_ratio"] = median(rounds.raw_read) / median(rounds.restore);
  json["changed_blocks"] = changed;
  json["increment_s"] = median(rounds.increment);
  json["save_s"] = median(rounds.save);
  json["increment_ratio"] = median(rounds.increment) / median(rounds.save);
  json["longest_hold"] = rounds.last.longest_hold;
  json["longest_admission"] = rounds.last.longest_admission;
  json["right"] = rounds.right;
  return json;
}

void print_text(const Rounds& rounds, uint64_t changed, std::ostream& out) {
  const double save = median(rounds.save), increment = median(rounds.increment);
  out << "checkpoint of " << counted(rounds.whole.num_blocks, "block") << ", "
      << fixed(static_cast<double>(rounds.whole.page_bytes) / 1e9, 2) << " GB, codec " << rounds.whole.codec
      << '\n'
      << "  save     " << fixed(rounds.gb_per_s(rounds.save), 2) << " GB/s to the disk; raw writes "
      << fixed(rounds.gb_per_s(rounds.raw_write), 2) << ": " << fixed(median(rounds.raw_write) / save, 2)
      << " of it\n"
      << "  restore  " << fixed(rounds.gb_per_s(rounds.restore), 2) << " GB/s from the disk; raw reads "
      << fixed(rounds.gb_per_s(rounds.raw_read), 2) << ": "
      << fixed(median(rounds.raw_read) / median(rounds.restore), 2) << " of it\n"
      << "  increment of " << counted(changed, "block") << " in " << fixed(increment, 3)
      << " s; a whole save takes " << fixed(save, 3) << " s: " << fixed(100 * increment / save, 1)
      << " % of it\n"
      << "  longest hold of the lock: " << grouped(rounds.last.longest_hold)
      << " positions and blocks; longest admission: " << grouped(rounds.last.longest_admission) << '\n'
      << "  restored bytes are " << (rounds.right ? "right" : "WRONG") << '\n';
}

}  // namespace

bool print_bench_checkpoint(const BenchOptions& options, bool as_json, std::ostream& out) {
  if (options.folder.empty()) throw InputError("bench checkpoint: give the folder to write to");
  if (options.context < options.block_size)
    throw InputError("--context is " + std::to_string(options.context) + "; give at least --block-size, " +
                     std::to_string(options.block_size));
  const uint64_t blocks = options.batch * (options.context / options.block_size);
  const uint64_t changed = std::max<uint64_t>(blocks / 100, 1);
  const Folder folder(options.folder);
  const Side old(options, blocks);
  fill(options, old);
  auto pages = make<kvc_page_config>();
  pages.model = pages.weights = "bench", pages.model_size = pages.weights_size = 5;
  auto config = make<kvc_checkpoint_config>();
  config.folder = folder.path.c_str();
  config.pages = &pages;
  config.codec = options.codec.c_str();
  Rounds rounds;
  for (int round = 0; round < kRounds; ++round)
    run_round(options, old, blocks, changed, round, config, &rounds);
  if (as_json)
    out << json_of(options, rounds, changed).dump(2) << '\n';
  else
    print_text(rounds, changed, out);
  return rounds.right;
}

}  // namespace kvcli
