// SPDX-License-Identifier: Apache-2.0
// Index types that must never be mixed up: a block is a place in the engine's memory, a node is a prefix
// position. A parent is a node or, negative, the root of a namespace (its index, complemented).
#pragma once
#include <cstdint>

namespace kvc {

enum class BlockId : int32_t {};
enum class NodeId : int32_t {};

inline constexpr BlockId kNoBlock{-1};
inline constexpr NodeId kNoNode{INT32_MIN};

constexpr int32_t raw(BlockId id) { return static_cast<int32_t>(id); }
constexpr int32_t raw(NodeId id) { return static_cast<int32_t>(id); }

constexpr bool is_block(BlockId id) { return raw(id) >= 0; }
constexpr bool is_node(NodeId id) { return raw(id) >= 0; }

constexpr NodeId root_of(uint32_t ns) { return NodeId{~static_cast<int32_t>(ns)}; }

}  // namespace kvc
