// SPDX-License-Identifier: Apache-2.0
// What an index of one kind may be compared with.
#include "base/ids.h"

#include <gtest/gtest.h>

namespace kvc {
namespace {

template <typename One, typename Other>
concept Equates = requires(One one, Other other) {
  one == other;
};
template <typename One, typename Other>
concept Orders = requires(One one, Other other) {
  one < other;
};

TEST(IndexOf, OnlyIndicesOfOneKindCompare) {
  EXPECT_TRUE((Equates<GroupIndex, GroupIndex>));
  EXPECT_TRUE((Orders<GroupIndex, GroupIndex>));
  EXPECT_TRUE((Equates<GroupIndex, uint32_t>));
  EXPECT_FALSE((Equates<GroupIndex, PoolIndex>));
  EXPECT_FALSE((Orders<GroupIndex, PoolIndex>));
  EXPECT_FALSE((Equates<NamespaceId, ClassIndex>));
}

}  // namespace
}  // namespace kvc
