// SPDX-License-Identifier: Apache-2.0
// The bytes of pages in data files, moved in large pieces by threads of their own, past the page cache where
// the system allows it. The caller packs or unpacks one piece while the threads move the next ones.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "checkpoint/folder.h"

namespace kvc {

inline constexpr uint64_t kPieceBytes = uint64_t{2} << 20;  // all pieces stay in the caches of a CPU
inline constexpr size_t kPieces = 4, kMovers = 2;
constexpr uint64_t round_to_block(uint64_t bytes) {
  return (bytes + kDataHeaderBytes - 1) / kDataHeaderBytes * kDataHeaderBytes;
}

// Memory for one piece, aligned for direct I/O.
class DataPiece {
 public:
  explicit DataPiece(uint64_t capacity);  // throws std::bad_alloc
  char* data() const { return data_.get(); }
  uint64_t capacity() const { return capacity_; }

 private:
  struct Free {
    void operator()(char* data) const;
  };
  std::unique_ptr<char, Free> data_;
  uint64_t capacity_;
};

// Threads that do jobs, two at a time, so that a disk always has one: at most kPieces - 1 behind their
// caller. Without a thread to be had it does them at once.
class Mover {
 public:
  explicit Mover(std::function<int(size_t piece)> job);
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  void start(size_t piece);
  // Waits for the job of a piece; the first error of any, or 0.
  int wait(size_t piece);

 private:
  void run();
  const std::function<int(size_t)> job_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<size_t> waiting_;
  bool busy_[kPieces] = {};
  int error_ = 0;
  bool ends_ = false;
  std::thread threads_[kMovers];
};

class CheckpointStream;
struct Leftover;

// Writes <id>.kvcd.part, and a journal beside it; nothing is made before the first page comes.
class DataWriter {
 public:
  DataWriter(CheckpointFolder& folder, uint64_t id, uint64_t largest_page, bool sync);
  // The same bytes go to a stream, one piece after the other, and there is no file.
  DataWriter(CheckpointFolder& folder, CheckpointStream& stream, uint64_t id, uint64_t largest_page);
  // Before the first page: with `leftover`, which outlives this, the file goes on behind that.
  kvc_status begin(const std::string& codec, const Digest256& source, const Leftover* leftover);

  // Room for a page of at most `bytes`, good until the next call; then how many bytes it has.
  kvc_status begin_page(uint64_t bytes, char** room);
  void end_page(uint64_t bytes, Manifest::Page* page);
  // Whether begin_page(bytes) would begin another piece.
  bool is_full(uint64_t bytes) const { return used_ + bytes > pieces_[at_].capacity(); }
  // Writes what is left, waits for the disk and gives the file its name. Nothing if there was no page, and
  // nothing was left.
  kvc_status finish(Manifest::DataFile* file);
  bool any() const { return made_; }

 private:
  kvc_status make();
  kvc_status go_on();
  kvc_status flush();
  int note_pages(size_t piece);
  int write(size_t piece);
  int write_at(const char* data, uint64_t bytes, uint64_t offset);

  CheckpointFolder& folder_;
  CheckpointStream* const stream_ = nullptr;
  const uint64_t id_;
  const bool sync_;
  const std::string part_;
  const Leftover* leftover_ = nullptr;
  std::string codec_;
  Digest256 source_ = {};
  bool made_ = false;
  OpenFile direct_, plain_, journal_;
  std::atomic<bool> is_direct_{true};  // false: the system has no direct I/O for it
  std::vector<DataPiece> pieces_;
  size_t at_ = 0;
  uint64_t used_ = 0;               // of the piece at hand
  uint64_t offset_ = 0;             // where it begins
  uint64_t offsets_[kPieces] = {};  // of pieces that are on their way
  uint64_t sizes_[kPieces] = {};
  std::vector<Manifest::Page> pages_[kPieces];  // in pieces: they come to the journal when these are written
  std::mutex journal_mutex_;
  uint64_t journal_bytes_ = 0;
  uint32_t crc_ = 0;              // of the pieces before
  std::unique_ptr<Mover> mover_;  // ends before what it uses
};

// Reads data files that a manifest names.
class DataReader {
 public:
  DataReader(const CheckpointFolder& folder, const Manifest& manifest);
  // The only file is in a stream.
  DataReader(const CheckpointFolder& folder, const CheckpointStream& stream, const Manifest& manifest);

  // Opens each file and checks its size and header. Files stay open, so that nobody can take them away, but
  // not more than kMostKept, and none if the process has too few descriptors: those are opened as they come.
  kvc_status open();
  // visit(page index, stored bytes): all pages with these indices, in the order of the files, each after its
  // checksum matched.
  kvc_status read(std::vector<uint32_t> pages, const std::function<kvc_status(uint32_t, const char*)>& visit);
  // Whether all pages with these indices have their checksums. Takes no more memory for a large one.
  kvc_status check_pages(std::vector<uint32_t> pages);
  // Whether every byte of the files is as it was written.
  kvc_status check_files();

 private:
  static constexpr size_t kMostKept = 64;
  struct InUse {
    uint32_t file = 0;
    std::shared_ptr<OpenFile> plain, direct;  // direct: nullptr = there is none
  };
  struct Extent {
    uint32_t file;
    uint64_t offset, bytes;  // both in whole blocks
    size_t first, end;       // in the order of pages
  };
  kvc_status check_file(uint32_t file, const OpenFile& opened, char* block) const;
  int use(uint32_t file, InUse* out);
  int read_at(uint32_t file, char* out, uint64_t bytes, uint64_t offset);
  kvc_status damaged(uint32_t file, uint64_t offset) const;

  std::string name_of(uint32_t file) const;

  const CheckpointFolder& folder_;
  const Manifest& manifest_;
  const int stream_fd_ = -1;
  const uint64_t stream_offset_ = 0;
  std::vector<std::shared_ptr<OpenFile>> kept_;  // of the files; nullptr = not open
  std::mutex mutex_;
  InUse in_use_;  // the file that was asked for last
  std::atomic<bool> is_direct_{true};
};

}  // namespace kvc
