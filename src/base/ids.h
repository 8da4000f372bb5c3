// SPDX-License-Identifier: Apache-2.0
// Index types that must never be mixed up: a block is a place in the engine's memory, a node is a prefix
// position. A parent is a node or, negative, the root of a namespace (its index, complemented).
#pragma once
#include <cstdint>
#include <type_traits>

namespace kvc {

// An index of one kind, as a number; where one is expected, an index of another kind does not compile.
template <typename Kind>
class IndexOf {
 public:
  constexpr IndexOf() = default;
  constexpr IndexOf(uint32_t value) : value_(value) {}
  constexpr operator uint32_t() const { return value_; }
  constexpr IndexOf& operator++() { return ++value_, *this; }

 private:
  uint32_t value_;
};

// Nor do two kinds compare, though each is a number.
template <typename One, typename Other>
requires(!std::is_same_v<One, Other>) bool operator==(IndexOf<One>, IndexOf<Other>) = delete;
template <typename One, typename Other>
requires(!std::is_same_v<One, Other>) void operator<=>(IndexOf<One>, IndexOf<Other>) = delete;

using NamespaceId =
    IndexOf<struct NamespaceKind>;  // in the table of namespaces: what callers have is a handle
using GroupIndex = IndexOf<struct GroupKind>;
using PoolIndex = IndexOf<struct PoolKind>;
using ClassIndex = IndexOf<struct ClassKind>;  // of a namespace with a quota; 0 = all others

template <typename Kind>
constexpr uint32_t raw(IndexOf<Kind> index) {
  return index;
}

enum class BlockId : int32_t {};
enum class NodeId : int32_t {};

inline constexpr BlockId kNoBlock{-1};
inline constexpr NodeId kNoNode{INT32_MIN};

constexpr int32_t raw(BlockId id) { return static_cast<int32_t>(id); }
constexpr int32_t raw(NodeId id) { return static_cast<int32_t>(id); }

constexpr bool is_block(BlockId id) { return raw(id) >= 0; }
constexpr bool is_node(NodeId id) { return raw(id) >= 0; }

constexpr NodeId root_of(NamespaceId ns) { return NodeId{~static_cast<int32_t>(ns)}; }

}  // namespace kvc
