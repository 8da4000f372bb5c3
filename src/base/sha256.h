// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4), for identities that leave the process: event digests, tiers, checkpoints. Never used
// for table lookups. One object hashes one message at a time; finish() returns the digest and makes the
// object ready for the next message. Allocates nothing, throws nothing, and is used by one thread at a time.
//
// The block function is chosen once per process from what the CPU can do; every path gives the same digests.
#ifndef KVC_SRC_BASE_SHA256_H_
#define KVC_SRC_BASE_SHA256_H_

#include <cstddef>
#include <cstdint>

namespace kvc {

struct Digest256 {
  uint8_t bytes[32];

  friend bool operator==(const Digest256&, const Digest256&) = default;
};

/// Ways to compute the block function.
enum class Sha256Path : uint8_t {
  kScalar,       ///< Portable code, on every CPU.
  kInstructions  ///< SHA-NI on x86-64, the SHA2 instructions on aarch64.
};

class Sha256 {
 public:
  /// Uses the fastest path of this CPU.
  Sha256() noexcept;
  /// For tests: uses this path, or the scalar one if the CPU lacks it.
  explicit Sha256(Sha256Path path) noexcept;

  /// True if this build and CPU have the path.
  static bool supports(Sha256Path path) noexcept;

  /// Adds bytes to the message. `data` may be null when `size` is 0.
  void update(const void* data, size_t size) noexcept;
  /// Digest of the message; afterwards the object holds an empty message.
  Digest256 finish() noexcept;

 private:
  using BlocksFunction = void (*)(uint32_t* state, const uint8_t* blocks, size_t num_blocks) noexcept;

  static BlocksFunction function_of(Sha256Path path) noexcept;
  void reset() noexcept;

  BlocksFunction blocks_;
  uint64_t total_;  // bytes of the message so far; total_ % 64 of them wait in buffer_
  uint32_t state_[8];
  uint8_t buffer_[64];
};

/// Messages whose ends come later than their beginnings: the whole blocks at the beginning of a message are
/// hashed beside the end of the message before it, which takes about the time of one of them.
class Sha256Pipeline {
 public:
  explicit Sha256Pipeline(Sha256Path path = Sha256Path::kInstructions) noexcept;

  /// Appends the padding of a message to the `used` bytes at its end. Returns the bytes, whole blocks: up to
  /// 72 more.
  static size_t pad(uint8_t* rest, size_t used, uint64_t message_bytes) noexcept;

  /// The first message begins with `size` bytes, of which whole blocks are hashed.
  void begin(const void* data, size_t size) noexcept;
  /// Ends it with padded blocks, and begins the next one with `next_bytes` bytes.
  Digest256 finish(const uint8_t* rest, size_t rest_bytes, const void* next, size_t next_bytes) noexcept;

 private:
  void blocks(uint32_t* state, const uint8_t* data, size_t num_blocks) const noexcept;

  bool instructions_;
  uint32_t next_[8];  // of the message that has begun
};

}  // namespace kvc

#endif  // KVC_SRC_BASE_SHA256_H_
