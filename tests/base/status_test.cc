// SPDX-License-Identifier: Apache-2.0
// Error texts and status names: each code has its own name, texts belong to the thread, and a long text is
// cut, never written past its buffer.
#include "base/status.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>

namespace kvc {
namespace {

TEST(Status, FailReturnsTheStatusAndFormatsTheText) {
  EXPECT_EQ(fail(KVC_ERROR_LIMIT, "%d of %s", 7, "nine"), KVC_ERROR_LIMIT);
  EXPECT_STREQ(last_error(), "7 of nine");
  EXPECT_EQ(fail(KVC_ERROR_BUSY, "next"), KVC_ERROR_BUSY);
  EXPECT_STREQ(last_error(), "next");
}

TEST(Status, ALongTextIsCut) {
  const std::string text(5000, 'x');
  EXPECT_EQ(fail(KVC_ERROR_INTERNAL, "%s", text.c_str()), KVC_ERROR_INTERNAL);
  const std::string kept = last_error();
  EXPECT_LT(kept.size(), text.size());
  EXPECT_GE(kept.size(), 200u);
  EXPECT_EQ(kept, text.substr(0, kept.size()));
}

TEST(Status, TextsBelongToTheirThread) {
  (void)fail(KVC_ERROR_BUSY, "mine");
  std::string before = "unset", after;
  std::thread([&] {
    before = last_error();
    (void)fail(KVC_ERROR_BUSY, "other");
    after = last_error();
  }).join();
  EXPECT_EQ(before, "");
  EXPECT_EQ(after, "other");
  EXPECT_STREQ(last_error(), "mine");
}

TEST(Status, EveryCodeHasItsOwnName) {
  const struct {
    kvc_status status;
    const char* name;
  } names[] = {{KVC_OK, "KVC_OK"},
               {KVC_ERROR_INVALID_ARGUMENT, "KVC_ERROR_INVALID_ARGUMENT"},
               {KVC_ERROR_OUT_OF_MEMORY, "KVC_ERROR_OUT_OF_MEMORY"},
               {KVC_ERROR_NO_SPACE, "KVC_ERROR_NO_SPACE"},
               {KVC_ERROR_NOT_FOUND, "KVC_ERROR_NOT_FOUND"},
               {KVC_ERROR_BUSY, "KVC_ERROR_BUSY"},
               {KVC_ERROR_LIMIT, "KVC_ERROR_LIMIT"},
               {KVC_ERROR_BUFFER_TOO_SMALL, "KVC_ERROR_BUFFER_TOO_SMALL"},
               {KVC_ERROR_UNSUPPORTED, "KVC_ERROR_UNSUPPORTED"},
               {KVC_ERROR_NOT_HELD, "KVC_ERROR_NOT_HELD"},
               {KVC_ERROR_CORRUPT, "KVC_ERROR_CORRUPT"},
               {KVC_ERROR_INTERNAL, "KVC_ERROR_INTERNAL"},
               {KVC_ERROR_AGAIN, "KVC_ERROR_AGAIN"},
               {KVC_ERROR_SKIPPED, "KVC_ERROR_SKIPPED"},
               {KVC_ERROR_DEVICE, "KVC_ERROR_DEVICE"},
               {KVC_ERROR_OVER_QUOTA, "KVC_ERROR_OVER_QUOTA"},
               {KVC_ERROR_FILLING, "KVC_ERROR_FILLING"},
               {KVC_ERROR_NEVER_FITS, "KVC_ERROR_NEVER_FITS"}};
  std::set<kvc_status> values;
  for (const auto& entry : names) {
    EXPECT_STREQ(status_name(entry.status), entry.name);
    EXPECT_TRUE(values.insert(entry.status).second) << entry.name;
  }
  EXPECT_EQ(values.size(), 18u);
}

TEST(Status, OtherCodesAreUnknown) {
  for (const kvc_status status : {-1, 18, 1000, INT32_MAX, INT32_MIN}) {
    EXPECT_STREQ(status_name(status), "unknown status");
  }
}

}  // namespace
}  // namespace kvc
