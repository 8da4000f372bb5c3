// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli, RFC 3720 appendix B.4): finds accidents in records that leave the process. It proves
// nothing against an attacker. The path is chosen once per process; every path gives the same sums.
// Thread-safe.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvc {

/// Ways to compute the sum.
enum class Crc32cPath : uint8_t {
  kTables,        ///< Portable code, on every CPU.
  kInstructions,  ///< SSE4.2 on x86-64, the CRC32 instructions on aarch64.
  kProducts       ///< Carry-less products of 64 bytes at once: AVX-512 with VPCLMULQDQ.
};

bool crc32c_supports(Crc32cPath path) noexcept;

/// Sum of the bytes behind those whose sum is `before` (0: there are none).
uint32_t crc32c(const void* data, size_t size, uint32_t before = 0) noexcept;
/// The same by one path, which the CPU must have: for tests.
uint32_t crc32c_by(Crc32cPath path, const void* data, size_t size, uint32_t before) noexcept;
/// Copies, and gives the sum of what was copied.
uint32_t crc32c_copy(void* to, const void* from, size_t size, uint32_t before = 0) noexcept;

}  // namespace kvc
