// SPDX-License-Identifier: Apache-2.0
// The system calls on files that the library makes, in one class that tests replace: each may fail there,
// end short, or be the last one of a process. Every function is one call and returns its result, or -errno.
// The functions below the class repeat calls until all is done. Thread-safe.
#pragma once
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace kvc {

class Files {
 public:
  // Descriptors are closed in children that exec; links at the end of the path are not followed. Nothing
  // waits for a pipe or a device.
  virtual int open(int folder, const char* path, int flags, unsigned mode);
  // Reads and writes of a regular file may wait: io_uring gives up else, where the file system cannot do
  // without.
  virtual int let_wait(int file);
  virtual int close(int file);
  virtual int64_t read(int file, void* data, size_t size, uint64_t offset);
  virtual int64_t write(int file, const void* data, size_t size, uint64_t offset);
  // At the end of what went before, to a pipe or a socket too; nobody gets a SIGPIPE. -EPIPE: nobody reads.
  virtual int64_t send(int file, const void* data, size_t size);
  virtual int64_t receive(int file, void* data, size_t size);
  virtual int truncate(int file, uint64_t size);
  virtual int allocate(int file, uint64_t offset, uint64_t size);  // bytes of the disk
  virtual int sync(int file);
  virtual int free_bytes(int file, uint64_t* out);  // of its disk, for this user
  virtual int status(int file, struct stat* out);
  virtual int status_at(int folder, const char* path, struct stat* out);
  virtual int touch(int file);  // its time of change is now
  virtual int64_t time();       // seconds, of the clock that these times are of
  // Excludes other processes and other descriptors until it is unlocked or closed, or this process ends:
  // children that it has forked meanwhile do not keep the lock. Never waits: -EWOULDBLOCK.
  virtual int lock(int file);
  virtual int unlock(int file);
  virtual int make_folder(int folder, const char* path, unsigned mode);
  virtual int rename(int folder, const char* from, const char* to);
  virtual int remove(int folder, const char* path);
  // Calls each(data, name) for all but . and .., in no particular order.
  virtual int list(int folder, void* data, void (*each)(void* data, const char* name));

 protected:
  ~Files() = default;
};

// Files of this system.
Files& system_files();

// Reads or writes all of it: 0, or -errno (EIO: the file ends, or takes nothing more).
[[nodiscard]] int read_fully(Files& files, int file, void* data, size_t size, uint64_t offset);
[[nodiscard]] int write_fully(Files& files, int file, const void* data, size_t size, uint64_t offset);

// Bytes of the disk for [0, size), in pieces that become smaller with each signal that comes meanwhile: tmpfs
// gives back what it has done of a call.
[[nodiscard]] int allocate_fully(Files& files, int file, uint64_t size);

// Removes the file that has the name, if it is `file`. -ESTALE: it is another one.
[[nodiscard]] int remove_file(Files& files, int folder, const char* path, const struct stat& file);

// The name of a file or folder reaches the disk with the folder that it is in.
[[nodiscard]] int sync_parent(Files& files, const char* path);

// An open file, closed at the end.
class OpenFile {
 public:
  explicit OpenFile(Files& files) : files_(files) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { reset(); }

  // 0 or -errno.
  int open(int folder, const char* path, int flags, unsigned mode = 0);
  int close();
  // A descriptor that was made otherwise, or -1 with errno. 0 or -errno.
  int take(int fd);
  void reset() {
    if (fd_ >= 0) static_cast<void>(close());
  }
  int fd() const { return fd_; }

 private:
  Files& files_;
  int fd_ = -1;
};

}  // namespace kvc
