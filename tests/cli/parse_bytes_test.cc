// SPDX-License-Identifier: Apache-2.0
// Amounts of memory, as --budget takes them.
#include <gtest/gtest.h>

#include "cli/errors.h"
#include "cli/estimate.h"

namespace kvcli {
namespace {

TEST(ParseBytes, TakesUnitsAndDecimals) {
  EXPECT_EQ(parse_bytes("1"), 1u);
  EXPECT_EQ(parse_bytes("65536"), 65'536u);
  EXPECT_EQ(parse_bytes("24GiB"), 25'769'803'776u);
  EXPECT_EQ(parse_bytes("24 gib"), 25'769'803'776u);
  EXPECT_EQ(parse_bytes("24GB"), 24'000'000'000u);
  EXPECT_EQ(parse_bytes("1.5KiB"), 1536u);
  EXPECT_EQ(parse_bytes("0.000001TB"), 1'000'000u);
  EXPECT_EQ(parse_bytes("18446744073709551615B"), UINT64_MAX);
  EXPECT_EQ(parse_bytes("16777215.999999TiB"), 18'446'744'073'708'452'104u);
}

TEST(ParseBytes, RefusesTheRest) {
  for (const char* text :
       {"", "GiB", "0", "0GiB", "-1", "+1", "1e9", "1.GiB", ".5GiB", "1.2.3GiB", "24 GiB x", "24XB",
        "18446744073709551616", "16777216TiB", "99999999999999999999999", "1.0000001GiB", "1,5GiB"})
    EXPECT_THROW(parse_bytes(text), InputError) << text;
}

}  // namespace
}  // namespace kvcli
