// SPDX-License-Identifier: Apache-2.0
// Ids that callers keep: manager tag (12 bits, id_tags.h), kind (2), index (18), generation (32, never 0). A
// stale or forged id, or one of another manager, decodes to an index whose current id is another one.
#pragma once
#include <cstdint>

namespace kvc {

enum class HandleKind : uint32_t { kRequest = 0, kPin = 1, kNamespace = 2 };

inline constexpr uint32_t kMaxHandleTags = (1u << 12) - 1;
inline constexpr uint32_t kMaxHandleIndex = (1u << 18) - 1;

constexpr uint64_t make_handle(uint32_t tag, HandleKind kind, uint32_t index, uint32_t generation) {
  return uint64_t{tag & kMaxHandleTags} << 52 | uint64_t{static_cast<uint32_t>(kind)} << 50 |
         uint64_t{index} << 32 | generation;
}
constexpr uint32_t handle_index(uint64_t handle) {
  return static_cast<uint32_t>(handle >> 32) & kMaxHandleIndex;
}

}  // namespace kvc
