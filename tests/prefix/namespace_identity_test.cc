// SPDX-License-Identifier: Apache-2.0
// Identities of namespaces are framed so that no two configurations meet, and equal ones share a index.
#include <set>

#include "prefix/namespace_table_world.h"

namespace kvc {
namespace {

using NamespaceIdentityTest = NamespaceTableTest;

const std::string kNul1(1, '\0'), kNul2(2, '\0');

TEST_F(NamespaceIdentityTest, AllPartsAbsentIsTheDefault) {
  EXPECT_EQ(open({}), 0u);
  EXPECT_EQ(table_.id(0), 0u);
  EXPECT_TRUE(table_.is_open(0));
  EXPECT_EQ(table_[0].opens, 1u) << "needs no closing";
}

TEST_F(NamespaceIdentityTest, DifferentIdentitiesNeverMeet) {
  const Identity identities[] = {{},
                                 {"", {}, {}},
                                 {{}, "", {}},
                                 {{}, {}, ""},
                                 {"", "", {}},
                                 {"", {}, ""},
                                 {{}, "", ""},
                                 {"", "", ""},
                                 {"a", {}, {}},
                                 {{}, "a", {}},
                                 {{}, {}, "a"},
                                 {"ab", {}, {}},
                                 {"a", "b", {}},
                                 {{}, "ab", {}},
                                 {"ab", "c", {}},
                                 {"a", "bc", {}},
                                 {"a", "b", "c"},
                                 {"abc", {}, {}},
                                 {"abc", "", ""},
                                 {"a", "", "bc"},
                                 {kNul1, {}, {}},
                                 {kNul2, {}, {}},
                                 {"a" + kNul1, {}, {}},
                                 {"", kNul1, {}},
                                 {kNul1 + "a", {}, {}},
                                 {std::string(9, '\0'), {}, {}},
                                 {std::string(18, '\0'), {}, {}}};
  std::set<uint32_t> indices;
  std::set<std::string> digests;
  for (const Identity& identity : identities) {
    const uint32_t index = open(identity);
    indices.insert(index);
    digests.insert(std::string(reinterpret_cast<const char*>(table_[index].digest.bytes), 32));
  }
  EXPECT_EQ(indices.size(), std::size(identities));
  EXPECT_EQ(digests.size(), std::size(identities));
  for (const Identity& identity : identities)
    EXPECT_TRUE(indices.count(open(identity)) == 1) << "opened again";
}

TEST_F(NamespaceIdentityTest, EqualIdentitiesShareASlotUntilTheLastClose) {
  const uint32_t index = open({"m", "a", "t"});
  const uint64_t id = table_.id(index);
  EXPECT_EQ(open({"m", "a", "t"}), index);
  EXPECT_EQ(table_[index].opens, 2u);
  EXPECT_TRUE(table_.is_open(id));
  close(index);
  EXPECT_TRUE(table_.is_open(id));
  close(index);
  EXPECT_FALSE(table_.is_open(id));
}

TEST_F(NamespaceIdentityTest, TheDigestDependsOnTheIdentityAlone) {
  NamespaceTable other;
  ASSERT_TRUE(other.create(memory_, arena_, ring_, 1, 77));
  NamespaceId there;
  ASSERT_EQ(open_in(other, {"x", {}, {}}, &there), KVC_OK);
  ASSERT_EQ(open_in(other, {"m", {}, "t"}, &there), KVC_OK);
  const uint32_t here = open({"m", {}, "t"});
  EXPECT_NE(here, there);
  EXPECT_EQ(table_[here].digest, other[there].digest);
  EXPECT_EQ(table_[0].digest, other[0].digest);

  Sha256 sha;  // label with its zero; per part: present, length in 8 bytes, bytes
  const std::string framed = std::string("kvcache namespace 1") + kNul1 + "\x01\x01" + std::string(7, '\0') +
                             "m" + std::string(9, '\0') + "\x01\x01" + std::string(7, '\0') + "t";
  sha.update(framed.data(), framed.size());
  EXPECT_EQ(table_[here].digest, sha.finish());
}

}  // namespace
}  // namespace kvc
