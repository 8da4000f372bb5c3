// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string_view>

namespace kvc {
namespace {

template <typename T>
T or_errno(T result) {
  return result < 0 ? -errno : result;
}

// flock() belongs to the open description, which a forked child shares: a child that outlives its parent
// would keep the parent's locks. So a child has another file in the place of each descriptor with a lock. The
// locked descriptors are bits, because fork() may come at any time; those beyond are not noted.
constexpr unsigned kMostNoted = 1u << 16;
std::atomic<uint64_t> locked_files[kMostNoted / 64];

bool is_locked(int file) {
  const auto bit = static_cast<unsigned>(file);
  return bit < kMostNoted && (locked_files[bit / 64] >> bit % 64 & 1) != 0;
}

void replace_locked_files() {  // in the child, where only what signal handlers may do is possible
  int other = -1;
  for (unsigned word = 0; word < kMostNoted / 64; ++word) {
    for (uint64_t bits = locked_files[word].exchange(0); bits != 0; bits &= bits - 1) {
      const int file = static_cast<int>(word * 64) + __builtin_ctzll(bits);
      if (other < 0) other = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      if (other < 0 || ::dup3(other, file, O_CLOEXEC) < 0) ::close(file);
    }
  }
  if (other >= 0) ::close(other);
}

void note_lock(int file, bool locked) {
  static const int handled = ::pthread_atfork(nullptr, nullptr, replace_locked_files);
  static_cast<void>(handled);
  const auto bit = static_cast<unsigned>(file);
  if (bit >= kMostNoted) return;
  if (locked)
    locked_files[bit / 64] |= uint64_t{1} << bit % 64;
  else
    locked_files[bit / 64] &= ~(uint64_t{1} << bit % 64);
}

// Nothing is deleted by its base, and a trivial destructor leaves nothing to do when the process ends.
struct SystemFiles final : Files {};  // NOLINT(cppcoreguidelines-virtual-class-destructor)

}  // namespace

int Files::open(int folder, const char* path, int flags, unsigned mode) {
  return or_errno(::openat(folder, path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode));
}
int Files::let_wait(int file) {
  const int flags = ::fcntl(file, F_GETFL);
  return or_errno(flags < 0 ? flags : ::fcntl(file, F_SETFL, flags & ~O_NONBLOCK));
}
int Files::close(int file) {
  if (is_locked(file)) static_cast<void>(Files::unlock(file));  // a child may have this description, too
  return or_errno(::close(file));
}
int64_t Files::read(int file, void* data, size_t size, uint64_t offset) {
  return or_errno(static_cast<int64_t>(::pread(file, data, size, static_cast<off_t>(offset))));
}
int64_t Files::write(int file, const void* data, size_t size, uint64_t offset) {
  return or_errno(static_cast<int64_t>(::pwrite(file, data, size, static_cast<off_t>(offset))));
}
int64_t Files::send(int file, const void* data, size_t size) {
  sigset_t pipe, before, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  sigpending(&pending);
  const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  const ssize_t sent = ::write(file, data, size);
  const int error = errno;
  // A write that waited in a pipe when its reader left says how much it has written, and sends the signal
  // too.
  if (!was_pending && (sent < 0 || static_cast<size_t>(sent) < size)) {
    const timespec now = {0, 0};
    static_cast<void>(sigtimedwait(&pipe, nullptr, &now));  // that of this write
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return sent < 0 ? -error : sent;
}
int64_t Files::receive(int file, void* data, size_t size) {
  const ssize_t got = ::read(file, data, size);
  return got < 0 ? -errno : got;
}
int Files::truncate(int file, uint64_t size) { return or_errno(::ftruncate(file, static_cast<off_t>(size))); }
int Files::allocate(int file, uint64_t offset, uint64_t size) {
  return -::posix_fallocate(file, static_cast<off_t>(offset), static_cast<off_t>(size));
}
int Files::sync(int file) { return or_errno(::fdatasync(file)); }
int Files::free_bytes(int file, uint64_t* out) {
  struct statvfs disk;
  if (::fstatvfs(file, &disk) != 0) return -errno;
  *out = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  return 0;
}
int Files::status(int file, struct stat* out) { return or_errno(::fstat(file, out)); }
int Files::status_at(int folder, const char* path, struct stat* out) {
  return or_errno(::fstatat(folder, path, out, AT_SYMLINK_NOFOLLOW));
}
int Files::touch(int file) { return or_errno(::futimens(file, nullptr)); }
int64_t Files::time() { return ::time(nullptr); }
int Files::lock(int file) {
  note_lock(file, true);
  const int error = or_errno(::flock(file, LOCK_EX | LOCK_NB));
  if (error != 0) note_lock(file, false);
  return error;
}
int Files::unlock(int file) {
  const int error = or_errno(::flock(file, LOCK_UN));
  note_lock(file, false);
  return error;
}
int Files::make_folder(int folder, const char* path, unsigned mode) {
  return or_errno(::mkdirat(folder, path, mode));
}
int Files::rename(int folder, const char* from, const char* to) {
  return or_errno(::renameat(folder, from, folder, to));
}
int Files::remove(int folder, const char* path) { return or_errno(::unlinkat(folder, path, 0)); }

int Files::list(int folder, void* data, void (*each)(void* data, const char* name)) {
  const int own = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return -errno;
  DIR* entries = ::fdopendir(own);
  if (entries == nullptr) {
    const int error = -errno;
    ::close(own);
    return error;
  }
  int result = 0;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(entries);
    if (entry == nullptr) {
      result = -errno;
      break;
    }
    const char* name = entry->d_name;
    if (name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0))) continue;
    each(data, name);
  }
  ::closedir(entries);
  return result;
}

Files& system_files() {
  static SystemFiles files;
  return files;
}

int read_fully(Files& files, int file, void* data, size_t size, uint64_t offset) {
  auto* to = static_cast<char*>(data);
  while (size != 0) {
    const int64_t part = files.read(file, to, size, offset);
    if (part == -EINTR) continue;
    if (part <= 0) return part == 0 ? -EIO : static_cast<int>(part);
    const auto done = static_cast<size_t>(part);
    to += done, offset += done, size -= done;
  }
  return 0;
}

int write_fully(Files& files, int file, const void* data, size_t size, uint64_t offset) {
  const auto* from = static_cast<const char*>(data);
  while (size != 0) {
    const int64_t part = files.write(file, from, size, offset);
    if (part == -EINTR) continue;
    if (part <= 0) return part == 0 ? -EIO : static_cast<int>(part);
    const auto done = static_cast<size_t>(part);
    from += done, offset += done, size -= done;
  }
  return 0;
}

int allocate_fully(Files& files, int file, uint64_t size) {
  constexpr uint64_t kLeast = 64 << 10;
  uint64_t piece = size;
  for (uint64_t at = 0; at < size;) {
    const uint64_t part = std::min(piece, size - at);
    const int error = files.allocate(file, at, part);
    if (error == 0) {
      at += part;
    } else if (error == -EINTR) {
      piece = std::max(piece / 2, kLeast);
    } else {
      return error;
    }
  }
  return 0;
}

int remove_file(Files& files, int folder, const char* path, const struct stat& file) {
  struct stat named;
  const int error = files.status_at(folder, path, &named);
  if (error != 0) return error;
  const bool is_it = named.st_ino == file.st_ino && named.st_dev == file.st_dev;
  return is_it ? files.remove(folder, path) : -ESTALE;
}

int sync_parent(Files& files, const char* path) {
  std::string_view name(path);
  while (name.size() > 1 && name.back() == '/') name.remove_suffix(1);
  const size_t slash = name.rfind('/');
  char parent[4096];
  if (slash != std::string_view::npos && slash + sizeof "/." > sizeof parent) return -ENAMETOOLONG;
  // Behind a link, too: the last part is "." then, and no link.
  snprintf(parent, sizeof parent, "%.*s/.", slash == std::string_view::npos ? 1 : static_cast<int>(slash),
           slash == std::string_view::npos ? "." : path);
  OpenFile folder(files);
  int error = folder.open(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY);
  if (error != 0) return error;
  do {
    error = files.sync(folder.fd());
  } while (error == -EINTR);
  return error;
}

int OpenFile::open(int folder, const char* path, int flags, unsigned mode) {
  reset();
  int file;
  do {
    file = files_.open(folder, path, flags, mode);
  } while (file == -EINTR);
  if (file < 0) return file;
  fd_ = file;
  return 0;
}

int OpenFile::take(int fd) {
  const int error = fd < 0 ? -errno : 0;
  reset();
  fd_ = fd;
  return error;
}

int OpenFile::close() {
  const int result = files_.close(fd_);
  fd_ = -1;  // on Linux it is closed, whatever the result
  return result;
}

}  // namespace kvc
