// SPDX-License-Identifier: Apache-2.0
#include "backend/registered.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace kvc::gpu {
namespace {

// Pinning takes time in proportion, and one call for hundreds of gigabytes fails on some systems.
constexpr uint64_t kPieceBytes = uint64_t{1} << 30;
constexpr size_t kMaxThreads = 8;
constexpr uintptr_t kPage = 4096;

// Memory and its pieces. Each piece but the first begins at a page, so that no page has two owners.
struct Region {
  uintptr_t begin, end;
  bool fresh;

  uintptr_t origin() const { return begin / kPage * kPage; }
  size_t num_pieces() const { return (end - origin() + kPieceBytes - 1) / kPieceBytes; }
  MemoryPiece piece(size_t i) const {
    return {std::max(begin, origin() + i * kPieceBytes), std::min(end, origin() + (i + 1) * kPieceBytes)};
  }
};

struct Regions {
  std::mutex mutex;  // never held during a call of the runtime
  std::map<uintptr_t, Region> all;

  // The last one that begins at or before an address.
  std::map<uintptr_t, Region>::iterator before(uintptr_t address) {
    const auto next = all.upper_bound(address);
    return next == all.begin() ? all.end() : std::prev(next);
  }
};
Regions& regions() {
  static auto* const all = new Regions;
  return *all;
}

void unregister(const Region& region, const std::vector<char>* done) {
  for (size_t i = 0; i < region.num_pieces(); ++i) {
    if (done == nullptr || (*done)[i] != 0)
      static_cast<void>(runtime::unregister_host(reinterpret_cast<void*>(region.piece(i).begin)));
  }
}

runtime::Error register_all(uint32_t device, const Region& region) {
  const size_t count = region.num_pieces();
  std::atomic<size_t> next{0};
  std::atomic<runtime::Error> first_error{0};
  std::vector<char> done(count, 0);
  const auto work = [&] {
    const OnDevice on(device);
    for (size_t i = next++; i < count && first_error == 0; i = next++) {
      const MemoryPiece piece = region.piece(i);
      auto* const memory = reinterpret_cast<volatile char*>(piece.begin);
      for (uint64_t at = 0; region.fresh && at < piece.end - piece.begin; at += kPage) memory[at] = 0;
      runtime::Error error = runtime::register_host(const_cast<char*>(memory), piece.end - piece.begin),
                     none = 0;
      done[i] = error == 0;
      if (error != 0) first_error.compare_exchange_strong(none, error);
    }
  };
  std::vector<std::thread> threads;
  try {
    for (size_t i = 1; i < std::min({count, kMaxThreads, size_t{std::thread::hardware_concurrency()}}); ++i)
      threads.emplace_back(work);
  } catch (const std::exception&) {  // the existing threads do it
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (first_error != 0) unregister(region, &done);
  return first_error;
}

}  // namespace

kvc_status register_pieces(uint32_t device, void* memory, uint64_t bytes, bool fresh) {
  const OnDevice on(device);
  KVC_TRY(on.status());
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const Region region = {begin, begin + bytes, fresh};
  {
    const std::lock_guard lock(regions().mutex);
    const auto last = regions().before(region.end - 1);
    if (last != regions().all.end() && last->second.end > begin)
      return refuse(KVC_ERROR_INVALID_ARGUMENT, "the memory, or a part of it, is registered");
    regions().all.emplace(begin, region);
  }
  const runtime::Error error = register_all(device, region);
  if (error == 0) return KVC_OK;
  {
    const std::lock_guard lock(regions().mutex);
    regions().all.erase(begin);
  }
  return report(error, fresh ? "pinning host memory" : "registering host memory");
}

kvc_status unregister_pieces(uint32_t device, void* memory, bool fresh) {
  const OnDevice on(device);
  KVC_TRY(on.status());
  Region region;
  {
    const std::lock_guard lock(regions().mutex);
    const auto at = regions().all.find(reinterpret_cast<uintptr_t>(memory));
    if (at == regions().all.end() || at->second.fresh != fresh)
      return refuse(KVC_ERROR_NOT_FOUND, "the memory is not registered");
    region = at->second;
    regions().all.erase(at);
  }
  unregister(region, nullptr);
  return KVC_OK;
}

MemoryPiece piece_of(const void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const std::lock_guard lock(regions().mutex);
  const auto at = regions().before(address);
  if (at == regions().all.end() || address >= at->second.end) return {};
  return at->second.piece((address - at->second.origin()) / kPieceBytes);
}

}  // namespace kvc::gpu
