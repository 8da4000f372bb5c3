// SPDX-License-Identifier: Apache-2.0
// A checkpoint as one stream: the bytes of its data file, those of its manifest, and a trailer that says how
// many there are of each. It is written in order, to anything. It ends where the descriptor's bytes end. What
// can be read at any place (a file, a memfd) is read where it is; the bytes of a pipe or a socket come to
// memory, or to a file without a name in a folder, first: all of a checkpoint is checked before anything
// changes, and its pages come before what says where they belong.
#pragma once
#include <string>

#include "base/files.h"
#include "checkpoint/manifest.h"

namespace kvc {

class CheckpointStream {
 public:
  CheckpointStream(Files& files, int fd)
      : files_(files), fd_(fd), name_("descriptor " + std::to_string(fd)), staged_(files) {}

  // Writes all of it, however little is taken at a time.
  kvc_status send(const void* data, size_t size);
  kvc_status send_end(uint64_t data_bytes, const std::string& manifest);

  // `folder`: where bytes wait that can be read once; nullptr = memory.
  kvc_status receive(const char* folder, Manifest* out);
  // After receive(): where the data begins, and in which file.
  int fd() const { return staged_.fd() >= 0 ? staged_.fd() : fd_; }
  uint64_t data_offset() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }

 private:
  kvc_status stage(const char* folder);
  kvc_status failure(const char* what, int error) const;
  kvc_status corrupt(const char* what) const;

  Files& files_;
  const int fd_;
  const std::string name_;
  OpenFile staged_;
  uint64_t base_ = 0, bytes_ = 0;
};

}  // namespace kvc
