// SPDX-License-Identifier: Apache-2.0
// Each function with each pointer NULL and each length 0, 1 and SIZE_MAX: a pointer that must not be NULL is
// an INVALID_ARGUMENT, no length reads or writes past what is there (the sanitizers see to that), and what is
// refused changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "hardening/every_call.h"

namespace kvc::test {
namespace {

bool may_fail(kvc_status status) {
  return status >= KVC_OK && status <= KVC_ERROR_NEVER_FITS && status != KVC_ERROR_DEVICE &&
         status != KVC_ERROR_INTERNAL && status != KVC_ERROR_CORRUPT;
}

TEST(Arguments, NullPointersAndLengthsAreRefusedOrHarmless) {
  uint64_t refused = 0, done = 0;
  for (const Call& call : every_call()) {
    Scene scene(40);
    uint64_t digest = 0;
    const auto before = [&] {
      scene.clean();
      ASSERT_TRUE(!call.prepare || call.prepare(scene));
      digest = scene.digest();
    };
    call.abuse(scene, before, [&](const BadCall& bad) {
      SCOPED_TRACE(call.name() + ":" + bad.text);
      EXPECT_TRUE(may_fail(bad.status)) << kvc_status_name(bad.status) << ": " << kvc_last_error();
      ++(bad.status == KVC_OK ? done : refused);
      if (bad.status != KVC_OK) {
        EXPECT_EQ(scene.digest(), digest);
      }
      if (bad.must_fail) {
        EXPECT_EQ(bad.status, KVC_ERROR_INVALID_ARGUMENT);
      }
    });
    scene.clean();
    EXPECT_TRUE(scene.sound()) << call.name();
  }
  std::printf("%llu calls refused, %llu done\n", static_cast<unsigned long long>(refused),
              static_cast<unsigned long long>(done));
  EXPECT_GT(refused, 500u);
}

// Lengths inside of structs, far beyond what the pointers beside them have.
TEST(Arguments, RowsThatNoMemoryHasAreRefusedBeforeAnythingIsRead) {
  Scene scene(40);
  const uint64_t digest = scene.digest();
  for (const size_t huge : {SIZE_MAX, SIZE_MAX / 2, size_t{1} << 61}) {
    kvc_rows rows = scene.rows;
    rows.num_tokens = huge;
    EXPECT_EQ(kvc_storage_store(scene.storage, &rows, nullptr), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(kvc_storage_gather(scene.storage, &rows, nullptr), KVC_ERROR_INVALID_ARGUMENT);
    rows = scene.rotated_rows;
    rows.rope_table_rows = huge;
    EXPECT_EQ(kvc_storage_store(scene.storage, &rows, nullptr), KVC_ERROR_INVALID_ARGUMENT);
    kvc_rope_rows rope = scene.rope;
    rope.num_tokens = rope.table_rows = huge;
    EXPECT_EQ(kvc_rope_apply(&rope), KVC_ERROR_INVALID_ARGUMENT);
  }
  EXPECT_EQ(scene.digest(), digest);
}

}  // namespace
}  // namespace kvc::test
