// SPDX-License-Identifier: Apache-2.0
// Writes pages to a data file of a checkpoint, in pieces of whole blocks of the disk.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>

#include "base/crc32c.h"
#include "base/status.h"
#include "checkpoint/data_file.h"
#include "checkpoint/leftover.h"
#include "checkpoint/stream.h"

namespace kvc {

DataPiece::DataPiece(uint64_t capacity)
    : data_(static_cast<char*>(std::aligned_alloc(kDataHeaderBytes, round_to_block(capacity)))),
      capacity_(round_to_block(capacity)) {
  if (data_ == nullptr) throw std::bad_alloc();
}

void DataPiece::Free::operator()(char* data) const { std::free(data); }

Mover::Mover(std::function<int(size_t)> job) : job_(std::move(job)) {
  try {
    for (std::thread& thread : threads_) thread = std::thread([this] { run(); });
  } catch (const std::system_error&) {  // no thread is to be had
  }
}

Mover::~Mover() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Mover::start(size_t piece) {
  if (!threads_[0].joinable()) {
    if (error_ == 0) error_ = job_(piece);
    return;
  }
  const std::lock_guard lock(mutex_);
  busy_[piece] = true;
  waiting_.push_back(piece);
  changed_.notify_all();
}

int Mover::wait(size_t piece) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_[piece]; });
  return error_;
}

void Mover::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const size_t piece = waiting_.front();
    waiting_.pop_front();
    const bool skip = error_ != 0 || ends_;
    lock.unlock();
    const int error = skip ? 0 : job_(piece);
    lock.lock();
    if (error_ == 0) error_ = error;
    busy_[piece] = false;
    changed_.notify_all();
  }
}

DataWriter::DataWriter(CheckpointFolder& folder, uint64_t id, uint64_t largest_page, bool sync)
    : folder_(folder),
      id_(id),
      sync_(sync),
      part_(CheckpointFolder::data_name(id) + ".part"),
      direct_(folder.files()),
      plain_(folder.files()),
      journal_(folder.files()) {
  const uint64_t capacity =
      largest_page > kPieceBytes - kDataHeaderBytes ? largest_page + kDataHeaderBytes : kPieceBytes;
  pieces_.reserve(kPieces);
  for (size_t i = 0; i < kPieces; ++i) pieces_.emplace_back(capacity);
}

DataWriter::DataWriter(CheckpointFolder& folder, CheckpointStream& stream, uint64_t id, uint64_t largest_page)
    : folder_(folder),
      stream_(&stream),
      id_(id),
      sync_(false),
      direct_(folder.files()),
      plain_(folder.files()),
      journal_(folder.files()) {
  pieces_.emplace_back(std::max(kPieceBytes, largest_page + kDataHeaderBytes));
}

kvc_status DataWriter::begin(const std::string& codec, const Digest256& source, const Leftover* leftover) {
  codec_ = codec;
  source_ = source;
  leftover_ = leftover;
  return leftover_ == nullptr ? KVC_OK : make();
}

// The file is cut behind what is whole; the journal keeps its entries, and gets more.
kvc_status DataWriter::go_on() {
  if (leftover_->named) KVC_TRY(folder_.rename(CheckpointFolder::data_name(id_), part_));
  int error = plain_.open(folder_.fd(), part_.c_str(), O_WRONLY);
  if (error == 0) error = folder_.files().truncate(plain_.fd(), leftover_->bytes);
  if (error != 0) return folder_.failure(part_, "open the file", error);
  offset_ = leftover_->bytes;
  crc_ = leftover_->crc;
  return KVC_OK;
}

kvc_status DataWriter::make() {
  made_ = true;
  const std::string header = make_data_header(id_);
  if (leftover_ == nullptr) {
    std::memcpy(pieces_[0].data(), header.data(), header.size());
    used_ = header.size();
  }
  if (stream_ != nullptr) return KVC_OK;
  const std::string journal = CheckpointFolder::journal_name(id_), beside = journal + ".new";
  std::string entries = journal_header(id_, codec_, source_);
  for (size_t i = 0; leftover_ != nullptr && i < leftover_->pages.size(); ++i) {
    const Manifest::Page entry = journal_entry(leftover_->pages[i]);
    entries.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  // The old one says what there is until the new one is whole.
  KVC_TRY(folder_.write_file(beside, entries, sync_ && leftover_ != nullptr));
  KVC_TRY(folder_.rename(beside, journal));
  int error = journal_.open(folder_.fd(), journal.c_str(), O_WRONLY);
  if (error != 0) return folder_.failure(journal, "open the file", error);
  journal_bytes_ = entries.size();
  if (leftover_ != nullptr) {
    KVC_TRY(go_on());
  } else {
    error = plain_.open(folder_.fd(), part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (error != 0) return folder_.failure(part_, "make the file", error);
  }
  static_cast<void>(direct_.open(folder_.fd(), part_.c_str(), O_WRONLY | O_DIRECT));
  mover_ = std::make_unique<Mover>([this](size_t piece) { return write(piece); });
  return KVC_OK;
}

kvc_status DataWriter::begin_page(uint64_t bytes, char** room) {
  if (!made_) KVC_TRY(make());
  if (is_full(bytes)) KVC_TRY(flush());
  *room = pieces_[at_].data() + used_;
  return KVC_OK;
}

void DataWriter::end_page(uint64_t bytes, Manifest::Page* page) {
  page->offset = offset_ + used_;
  page->stored_bytes = bytes;
  page->crc = crc32c(pieces_[at_].data() + used_, bytes);
  used_ += bytes;
  if (stream_ == nullptr) pages_[at_].push_back(*page);
}

kvc_status DataWriter::flush() {
  const uint64_t whole = round_to_block(used_);
  std::memset(pieces_[at_].data() + used_, 0, whole - used_);
  crc_ = crc32c(pieces_[at_].data(), whole, crc_);  // here, since the thread should do nothing but write
  if (stream_ != nullptr) {
    offset_ += whole;
    used_ = 0;
    return stream_->send(pieces_[0].data(), whole);
  }
  offsets_[at_] = offset_;
  sizes_[at_] = whole;
  mover_->start(at_);
  offset_ += whole;
  used_ = 0;
  at_ = (at_ + 1) % kPieces;
  const int error = mover_->wait(at_);
  return error == 0 ? KVC_OK : folder_.failure(part_, "write the file", error);
}

// The pages of a piece that is written.
int DataWriter::note_pages(size_t piece) {
  std::vector<Manifest::Page>& pages = pages_[piece];
  for (Manifest::Page& page : pages) page = journal_entry(page);
  const uint64_t bytes = pages.size() * sizeof pages[0];
  const std::lock_guard lock(journal_mutex_);
  const int error = write_fully(folder_.files(), journal_.fd(), pages.data(), bytes, journal_bytes_);
  if (error != 0) return error;
  journal_bytes_ += bytes;
  pages.clear();
  return 0;
}

int DataWriter::write(size_t piece) {
  const int error = write_at(pieces_[piece].data(), sizes_[piece], offsets_[piece]);
  return error == 0 && !pages_[piece].empty() ? note_pages(piece) : error;
}

// What direct I/O does not take in whole goes through the page cache.
int DataWriter::write_at(const char* data, uint64_t bytes, uint64_t offset) {
  Files& files = folder_.files();
  while (direct_.fd() >= 0 && is_direct_ && bytes != 0) {
    const int64_t part = files.write(direct_.fd(), data, bytes, offset);
    if (part == -EINTR) continue;
    if (part == -EINVAL) is_direct_ = false;
    if (part < 0 && part != -EINVAL) return static_cast<int>(part);
    const uint64_t done = part <= 0 ? 0 : static_cast<uint64_t>(part) / kDataHeaderBytes * kDataHeaderBytes;
    data += done, bytes -= done, offset += done;
    if (done == 0) break;
  }
  return bytes == 0 ? 0 : write_fully(files, plain_.fd(), data, bytes, offset);
}

kvc_status DataWriter::finish(Manifest::DataFile* file) {
  if (!made_) return KVC_OK;
  KVC_TRY(flush());
  *file = {id_, offset_, crc_, 0};
  if (stream_ != nullptr) return KVC_OK;
  for (size_t i = 0; i < kPieces; ++i) {
    if (const int error = mover_->wait(i); error != 0) return folder_.failure(part_, "write the file", error);
  }
  direct_.reset();
  int error = 0;
  do {
    error = sync_ ? folder_.files().sync(plain_.fd()) : 0;
  } while (error == -EINTR);
  if (error != 0) return folder_.failure(part_, "write the file to the disk", error);
  error = plain_.close();
  if (error != 0 && error != -EINTR) return folder_.failure(part_, "close the file", error);
  static_cast<void>(journal_.close());  // it has served its purpose, or will say less
  return folder_.rename(part_, CheckpointFolder::data_name(id_));
}

}  // namespace kvc
