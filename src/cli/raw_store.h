// SPDX-License-Identifier: Apache-2.0
// What tiers stand on, used without them: memcpy, a file, a server. The denominators of `kvcache bench tier`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace kvcli {

struct RawOptions {
  std::string url;  // of the tier
  uint64_t page_bytes, pages;
  uint32_t threads, depth;
};

/// Places for `pages` pages. Calls of different threads come at the same time.
class RawStore {
 public:
  virtual ~RawStore() = default;
  /// How it moves them, for people.
  virtual std::string name() const = 0;
  /// Writes pages first, ..., first + count - 1, which lie one behind the other at `data`, or reads them
  /// there; at most `depth` of them. False: it failed.
  virtual bool move(uint32_t thread, bool write, uint64_t first, uint64_t count, char* data) = 0;
};

/// The value of a parameter of the URL; `otherwise` if it is not there.
std::string parameter_of(const std::string& url, const std::string& name, const std::string& otherwise);

/// Null: nothing is known that the tier stands on. Throws InputError if that cannot be used.
std::unique_ptr<RawStore> make_raw_store(const RawOptions& options);
std::unique_ptr<RawStore> make_raw_redis(const RawOptions& options);

}  // namespace kvcli
