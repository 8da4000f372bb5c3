// SPDX-License-Identifier: Apache-2.0
// Ids: no field reaches into another, none is 0, and blocks, nodes and roots are told apart.
#include "base/handle.h"

#include <gtest/gtest.h>

#include <set>

#include "base/ids.h"

namespace kvc {
namespace {

TEST(Handle, FieldsDoNotOverlap) {
  std::set<uint64_t> seen;
  const uint32_t tags[] = {1, 2, 2048, 4095};
  const HandleKind kinds[] = {HandleKind::kRequest, HandleKind::kPin, HandleKind::kNamespace};
  const uint32_t indices[] = {0, 1, 1u << 17, kMaxHandleIndex};
  const uint32_t generations[] = {1, 2, 0x80000000u, UINT32_MAX};
  for (const uint32_t tag : tags) {
    for (const HandleKind kind : kinds) {
      for (const uint32_t index : indices) {
        for (const uint32_t generation : generations) {
          const uint64_t handle = make_handle(tag, kind, index, generation);
          EXPECT_TRUE(seen.insert(handle).second);
          EXPECT_EQ(handle_index(handle), index);
          EXPECT_EQ(static_cast<uint32_t>(handle), generation);
          EXPECT_NE(handle, 0u);
        }
      }
    }
  }
}

TEST(Handle, ATagThatIsTooLargeStaysInItsField) {
  EXPECT_EQ(make_handle(4096 + 5, HandleKind::kPin, 7, 9), make_handle(5, HandleKind::kPin, 7, 9));
}

TEST(Handle, ZeroWouldNeedGenerationZero) {
  EXPECT_EQ(make_handle(0, HandleKind::kRequest, 0, 0), 0u);
  EXPECT_NE(make_handle(0, HandleKind::kRequest, 0, 1), 0u);
}

TEST(Ids, RootsAreNoNodesAndNotKNoNode) {
  for (const uint32_t ns : {0u, 1u, 65535u}) {
    EXPECT_FALSE(is_node(root_of(ns)));
    EXPECT_NE(root_of(ns), kNoNode);
    EXPECT_EQ(~static_cast<uint32_t>(raw(root_of(ns))), ns);
  }
  EXPECT_TRUE(is_node(NodeId{0}));
  EXPECT_FALSE(is_node(kNoNode));
  EXPECT_TRUE(is_block(BlockId{0}));
  EXPECT_FALSE(is_block(kNoBlock));
}

}  // namespace
}  // namespace kvc
