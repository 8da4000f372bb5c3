// SPDX-License-Identifier: Apache-2.0
// kvc_dtype_bits: every type against bits that are written out here; other numbers are refused.
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <string>

namespace kvc {
namespace {

struct Expected {
  int32_t dtype;
  uint32_t bits;
};
constexpr Expected kExpected[] = {
    {0, 32},        {KVC_FLOAT32, 32},    {KVC_FLOAT16, 16},    {KVC_BFLOAT16, 16},
    {KVC_INT4, 4},  {KVC_FLOAT8_E4M3, 8}, {KVC_FLOAT8_E5M2, 8}, {KVC_INT8, 8},
    {KVC_UINT8, 8}, {KVC_INT32, 32},      {KVC_INT64, 64},      {KVC_UINT64, 64},
};

TEST(DtypeBits, OfEveryType) {
  for (const Expected& expected : kExpected) {
    uint32_t bits = 0;
    EXPECT_EQ(kvc_dtype_bits(expected.dtype, &bits), KVC_OK) << expected.dtype;
    EXPECT_EQ(bits, expected.bits) << dtype_name(expected.dtype);
  }
  for (int32_t dtype = KVC_INT8; dtype <= KVC_INT4; ++dtype) EXPECT_STRNE(dtype_name(dtype), "?");
}

TEST(DtypeBits, AnUnknownTypeIsRefusedAndWritesNothing) {
  for (const int32_t dtype : {INT32_MIN, -1, KVC_INT4 + 1, INT32_MAX}) {
    uint32_t bits = 77;
    EXPECT_EQ(kvc_dtype_bits(dtype, &bits), KVC_ERROR_INVALID_ARGUMENT) << dtype;
    EXPECT_EQ(bits, 77u);
    const std::string text = kvc_last_error();
    EXPECT_NE(text.find("dtype is " + std::to_string(dtype)), std::string::npos) << text;
    EXPECT_NE(text.find("11 (int4)"), std::string::npos) << text;
  }
  EXPECT_EQ(kvc_dtype_bits(KVC_INT8, nullptr), KVC_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace kvc
