// SPDX-License-Identifier: Apache-2.0
// Opening backends: where they are looked for, and which are refused.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "api/device.h"

namespace {

std::string error() { return kvc_last_error(); }
bool says(const std::string& part) { return error().find(part) != std::string::npos; }

std::string folder() {
  const char* path = std::getenv("KVC_BACKEND_PATH");
  return path == nullptr ? "" : path;
}

using kvc::test::info_of;

TEST(Backend, TheCpuIsAPartOfTheLibrary) {
  for (const char* name : {static_cast<const char*>(nullptr), "cpu"}) {
    const kvc_backend_info info = info_of(name);
    EXPECT_EQ(info.num_devices, 1u);
    EXPECT_STREQ(info.path, "");
  }
  EXPECT_EQ(kvc_backend_open("cpu", nullptr), KVC_OK);
  EXPECT_EQ(kvc_backend_open("cpu", "/somewhere"), KVC_ERROR_INVALID_ARGUMENT);
}

TEST(Backend, AMissingOneNamesAllThatWasLookedFor) {
  EXPECT_EQ(kvc_backend_open("nowhere", nullptr), KVC_ERROR_NOT_FOUND);
  const std::string file = "libkvcache_nowhere.so";
  size_t places = 0;
  for (size_t at = error().find(file); at != std::string::npos; at = error().find(file, at + 1)) ++places;
  EXPECT_EQ(places, folder().empty() ? 2u : 3u) << error();
  EXPECT_TRUE(folder().empty() || says(folder() + "/" + file)) << error();
  EXPECT_TRUE(says("/kvcache/" + file)) << error();

  EXPECT_EQ(kvc_backend_open("nowhere", "/some/place"), KVC_ERROR_NOT_FOUND);
  EXPECT_TRUE(says("/some/place, /some/place/" + file)) << error();
  EXPECT_FALSE(!folder().empty() && says(folder())) << "a path is the only place: " << error();
}

TEST(Backend, NamesAreCheckedBeforeTheyBecomePaths) {
  for (const char* name : {"", "../x", "Cuda", "a/b", "a:0", "a{", "a b", "abcdefghijklmnop"}) {
    EXPECT_EQ(kvc_backend_open(name, nullptr), KVC_ERROR_NOT_FOUND) << name;
    EXPECT_EQ(kvc_backend_open(name, "/tmp"), KVC_ERROR_INVALID_ARGUMENT) << name;
  }
  kvc_stream* stream = nullptr;
  for (const char* device : {"cpu:1", "cpu:", "cpu:x", "cpu:0x", "cpu:00000", "cpu:-1", ":0"})
    EXPECT_EQ(kvc_stream_create(device, &stream), KVC_ERROR_NOT_FOUND) << device;
  EXPECT_EQ(stream, nullptr);
}

class BackendFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (folder().empty()) GTEST_SKIP() << "KVC_BACKEND_PATH names no folder with backends for tests";
  }
};

class EmulatedBackend : public BackendFiles {  // not built for the thread sanitizer
 protected:
  void SetUp() override {
    BackendFiles::SetUp();
    if (!IsSkipped() && !std::filesystem::exists(file_)) GTEST_SKIP() << file_ << " was not built";
  }
  const std::string file_ = folder() + "/libkvcache_emulated.so";
};

TEST_F(BackendFiles, OfAnotherVersionAreRefusedInWords) {
  for (const char* name : {"older", "larger"}) {
    EXPECT_EQ(kvc_backend_open(name, nullptr), KVC_ERROR_UNSUPPORTED) << name;
    EXPECT_TRUE(says("another version")) << error();
    EXPECT_TRUE(says(folder())) << error();
  }
}

TEST_F(BackendFiles, ThatAreNoBackendsAreRefusedInWords) {
  EXPECT_EQ(kvc_backend_open("alien", nullptr), KVC_ERROR_UNSUPPORTED);
  EXPECT_TRUE(says("kvc_backend_entry_v1")) << error();
  EXPECT_EQ(kvc_backend_open("text", nullptr), KVC_ERROR_UNSUPPORTED);
  EXPECT_TRUE(says("libkvcache_text.so")) << error();
}

TEST_F(BackendFiles, ThatCannotStartSayWhy) {
  EXPECT_EQ(kvc_backend_open("broken", nullptr), KVC_ERROR_DEVICE);
  EXPECT_TRUE(says("the driver is on holiday")) << error();
  EXPECT_EQ(kvc_backend_open("broken", nullptr), KVC_ERROR_DEVICE) << "it is not taken for an open one";
}

// A list of folders, as in PATH; empty ones count for nothing.
TEST_F(BackendFiles, AreLookedForInFolderAfterFolder) {
  const std::string before = folder();
  ASSERT_EQ(setenv("KVC_BACKEND_PATH", (":/nowhere::" + before + ":").c_str(), 1), 0);
  EXPECT_EQ(kvc_backend_open("alien", nullptr), KVC_ERROR_UNSUPPORTED) << error();
  EXPECT_EQ(kvc_backend_open("none2", nullptr), KVC_ERROR_NOT_FOUND);
  EXPECT_TRUE(says("Looked for: /nowhere/libkvcache_none2.so, " + before + "/libkvcache_none2.so, "))
      << error();
  ASSERT_EQ(setenv("KVC_BACKEND_PATH", before.c_str(), 1), 0);
}

TEST_F(EmulatedBackend, IsNoOther) {
  EXPECT_EQ(kvc_backend_open("impostor", file_.c_str()), KVC_ERROR_UNSUPPORTED);
  EXPECT_TRUE(says("is the backend \"emulated\"")) << error();
}

TEST_F(EmulatedBackend, StaysOpenFromWhereItCameFrom) {
  ASSERT_EQ(kvc_backend_open("emulated", folder().c_str()), KVC_OK) << error();
  EXPECT_EQ(kvc_backend_open("emulated", nullptr), KVC_OK);
  EXPECT_EQ(kvc_backend_open("emulated", folder().c_str()), KVC_OK);
  EXPECT_EQ(kvc_backend_open("emulated", file_.c_str()), KVC_OK);
  EXPECT_EQ(kvc_backend_open("emulated", "/elsewhere"), KVC_ERROR_BUSY);
  const kvc_backend_info info = info_of("emulated");
  EXPECT_EQ(info.path, file_);
  EXPECT_EQ(info.num_devices, 2u);
  EXPECT_STREQ(info.architectures, "host");
}

TEST_F(EmulatedBackend, HasAsManyDevicesAsItSays) {
  kvc_device_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_device_read_info("emulated:2", &info), KVC_ERROR_NOT_FOUND);
  EXPECT_TRUE(says("has 2")) << error();
  for (const char* name : {"emulated", "emulated:0", "emulated:1"}) {
    ASSERT_EQ(kvc_device_read_info(name, &info), KVC_OK) << error();
    EXPECT_STREQ(info.architecture, "host");
    EXPECT_GT(info.free_bytes, 0u);
    EXPECT_LE(info.free_bytes, info.memory_bytes);
    EXPECT_EQ(info.memory_kinds,
              1u << KVC_MEMORY_DEVICE | 1u << KVC_MEMORY_PINNED | 1u << KVC_MEMORY_EXTERNAL);
    EXPECT_EQ(info.flags & ~uint32_t{KVC_DEVICE_SWAP_MEASURED},
              std::string(name) == "emulated:1" ? 0u : KVC_DEVICE_READS_HOST | KVC_DEVICE_MANAGED);
  }
}

}  // namespace
