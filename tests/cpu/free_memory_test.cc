// SPDX-License-Identifier: Apache-2.0
// Free memory as files of /proc and of control groups tell it.
#include "cpu/free_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace kvc {
namespace {

namespace fs = std::filesystem;

// Files of /proc and /sys below a folder of their own.
class FreeMemoryFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvc_free_memory_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    write("proc/meminfo",
          "MemTotal:       24000 kB\nMemFree:         1000 kB\nMemAvailable:   16000 kB\nBuffers: 7 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  void group(const std::string& folder, const std::string& limit, const std::string& usage,
             const std::string& cache) {
    write(folder + "/memory.max", limit + "\n");
    write(folder + "/memory.current", usage + "\n");
    write(folder + "/memory.stat", "anon 4096\ninactive_file " + cache + "\nactive_file 1\n");
  }
  FreeMemory read() const { return read_free_memory(root_.c_str()); }

  fs::path root_;
};

TEST_F(FreeMemoryFiles, WithoutGroupsItIsWhatTheMachineHas) {
  EXPECT_EQ(read().total, 24000u * 1024);
  EXPECT_EQ(read().free, 16000u * 1024);
}

TEST_F(FreeMemoryFiles, EveryGroupAboveTheProcessLimitsIt) {
  write("proc/self/cgroup", "0::/pod/container\n");
  group("sys/fs/cgroup/pod/container", "max", "3000", "0");
  EXPECT_EQ(read().free, 16000u * 1024) << "\"max\" is no limit";
  group("sys/fs/cgroup/pod", "9000", "5000", "2000");
  EXPECT_EQ(read().total, 9000u);
  EXPECT_EQ(read().free, 6000u) << "caches of files that are not in use can go";
  group("sys/fs/cgroup/pod/container", "4000", "3000", "500");
  EXPECT_EQ(read().total, 4000u);
  EXPECT_EQ(read().free, 1500u);
  group("sys/fs/cgroup/pod/container", "4000", "6000", "0");
  EXPECT_EQ(read().free, 1u) << "a limit that was lowered below what is in use: full, which is not unknown";
}

TEST_F(FreeMemoryFiles, AContainerSeesItsOwnGroupAtTheTop) {
  write("proc/self/cgroup", "0::/a/path/of/the/host\n");
  group("sys/fs/cgroup", "7000", "1000", "0");
  EXPECT_EQ(read().free, 6000u);
}

TEST_F(FreeMemoryFiles, Version1HasOtherNames) {
  write("proc/self/cgroup", "5:devices:/x\n4:memory:/job\n1:cpu:/x\n0::/\n");
  const std::string folder = "sys/fs/cgroup/memory/job";
  write(folder + "/memory.limit_in_bytes", "8000\n");
  write(folder + "/memory.usage_in_bytes", "5000\n");
  write(folder + "/memory.stat", "cache 9\ninactive_file 1\ntotal_inactive_file 1000\n");
  EXPECT_EQ(read().total, 8000u);
  EXPECT_EQ(read().free, 4000u);
  write(folder + "/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(read().free, 16000u * 1024) << "no limit";
}

TEST_F(FreeMemoryFiles, WhatCannotBeReadIsUnknown) {
  write("proc/meminfo", "MemTotal: 24000 kB\n");
  EXPECT_EQ(read().total, 0u);
  EXPECT_EQ(read().free, 0u);
}

TEST(FreeMemory, OfThisMachine) {
  const FreeMemory memory = read_free_memory();
  EXPECT_GT(memory.free, uint64_t{1} << 20);
  EXPECT_LE(memory.free, memory.total);
}

}  // namespace
}  // namespace kvc
