// SPDX-License-Identifier: Apache-2.0
#include "emulator/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "emulator/emulator.h"

namespace kvc::gpu::host {
namespace {

constexpr unsigned char kGarbage = 0xff;  // NaN in every float type
constexpr uint64_t kMaxGarbage = uint64_t{16} << 20;

struct Piece {
  uint64_t bytes;
  uint32_t device;
  Kind kind;
};

struct Shared {  // what a handle holds
  int32_t process, file;
  uint64_t offset, bytes;
};

struct State {
  std::mutex mutex;
  std::map<uintptr_t, Piece> pieces;
  uint64_t in_use[8] = {};
};
// The state, locked.
class Locked {
 public:
  State* operator->() { return &state_; }

 private:
  static State& only() {
    static auto* const all = new State;
    return *all;
  }
  State& state_ = only();
  const std::lock_guard<std::mutex> lock_{state_.mutex};
};

uintptr_t number(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

std::map<uintptr_t, Piece>::iterator find_piece(Locked& s, const void* memory) {
  auto next = s->pieces.upper_bound(number(memory));
  if (next == s->pieces.begin()) return s->pieces.end();
  const auto piece = std::prev(next);
  return number(memory) - piece->first < piece->second.bytes ? piece : s->pieces.end();
}

void spoil(void* memory, uint64_t bytes) { std::memset(memory, kGarbage, std::min(bytes, kMaxGarbage)); }

}  // namespace

void* allocate(uint32_t device, Kind kind, uint64_t bytes) {
  const uint64_t rounded = (bytes + 255) / 256 * 256;
  Locked s;
  if (rounded < bytes || (kind == Kind::kDevice && rounded > kDeviceBytes - s->in_use[device]))
    return nullptr;
  void* memory = emulator::allocate_guarded(rounded);
  if (memory == nullptr) return nullptr;
  spoil(memory, rounded);
  s->pieces[number(memory)] = {rounded, device, kind};
  if (kind == Kind::kDevice) s->in_use[device] += rounded;
  return memory;
}

bool release(void* memory, Kind kind) {
  Locked s;
  const auto at = s->pieces.find(number(memory));
  if (at == s->pieces.end() || at->second.kind != kind) return false;
  const Piece piece = at->second;
  s->pieces.erase(at);
  if (kind == Kind::kDevice) s->in_use[piece.device] -= piece.bytes;
  if (kind == Kind::kDevice || kind == Kind::kPinned || kind == Kind::kManaged)
    emulator::free_guarded(memory, piece.bytes);
  if (kind == Kind::kReserved) munmap(memory, piece.bytes);
  if (kind == Kind::kImported) {
    const uintptr_t page = static_cast<uintptr_t>(getpagesize());
    const uintptr_t first = number(memory) / page * page;
    munmap(reinterpret_cast<void*>(first), number(memory) + piece.bytes - first);
  }
  return true;
}

bool adopt(void* memory, uint64_t bytes) {
  Locked s;
  const auto next = s->pieces.lower_bound(number(memory));
  if (find_piece(s, memory) != s->pieces.end() ||
      (next != s->pieces.end() && next->first - number(memory) < bytes))
    return false;
  s->pieces[number(memory)] = {bytes, 0, Kind::kRegistered};
  return true;
}

bool is_known(uint32_t device, const void* memory) {
  Locked s;
  const auto at = find_piece(s, memory);
  if (at == s->pieces.end()) return false;
  const Kind kind = at->second.kind;
  return kind == Kind::kPinned || kind == Kind::kRegistered || kind == Kind::kManaged ||
         at->second.device == device;
}

bool is_managed(const void* memory) {
  Locked s;
  const auto at = find_piece(s, memory);
  return at != s->pieces.end() && at->second.kind == Kind::kManaged;
}

bool is_one_piece(const void* memory, uint64_t bytes) {
  Locked s;
  const auto at = find_piece(s, memory);
  if (at != s->pieces.end()) return number(memory) + bytes <= at->first + at->second.bytes;
  const auto next = s->pieces.lower_bound(number(memory));
  return next == s->pieces.end() || next->first >= number(memory) + bytes;
}

uint64_t bytes_in_use(uint32_t device) { return Locked()->in_use[device]; }

// Its pages move to a file without a name, which the other process opens through this one.
bool share(void* memory, unsigned char* handle) {
  Locked s;
  const auto at = s->pieces.find(number(memory));
  if (at == s->pieces.end() || at->second.kind != Kind::kDevice) return false;
  const uintptr_t page = static_cast<uintptr_t>(getpagesize());
  const uintptr_t first = number(memory) / page * page;
  const Shared shared = {getpid(), memfd_create("emulated", MFD_CLOEXEC), number(memory) - first,
                         at->second.bytes};
  const uint64_t all = shared.offset + shared.bytes;
  bool good = shared.file >= 0 && ftruncate(shared.file, static_cast<off_t>(all)) == 0;
  good = good && pwrite(shared.file, memory, shared.bytes, static_cast<off_t>(shared.offset)) ==
                     static_cast<ssize_t>(shared.bytes);
  good = good && mmap(reinterpret_cast<void*>(first), all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                      shared.file, 0) != MAP_FAILED;
  if (good) std::memcpy(handle, &shared, sizeof shared);
  return good;
}

void* import(uint32_t device, const unsigned char* handle) {
  Shared shared;
  std::memcpy(&shared, handle, sizeof shared);
  if (shared.process == getpid()) return nullptr;  // as vendors have it
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", shared.process, shared.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* mapped = mmap(nullptr, shared.offset + shared.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return nullptr;
  Locked s;
  void* memory = static_cast<char*>(mapped) + shared.offset;
  s->pieces[number(memory)] = {shared.bytes, device, Kind::kImported};
  return memory;
}

void* reserve(uint32_t device, uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  Locked s;
  s->pieces[number(memory)] = {bytes, device, Kind::kReserved};
  return memory;
}

bool map(uint32_t device, void* at, uint64_t bytes) {
  Locked s;
  if (bytes > kDeviceBytes - s->in_use[device] || mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0)
    return false;
  spoil(at, bytes);
  s->in_use[device] += bytes;
  return true;
}

void unmap(uint32_t device, void* at, uint64_t bytes) {
  Locked s;
  mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  s->in_use[device] -= bytes;
}

}  // namespace kvc::gpu::host
