// SPDX-License-Identifier: Apache-2.0
// A library with backends in it (KVC_STATIC_BACKENDS): that of emulated devices, and those of the vendors
// whose compilers there are. It needs no file.
#include <kvcache/attention.h>

#include <sstream>
#include <string>

#include "api/storage.h"

namespace kvc::test {
namespace {

TEST(StaticBackend, IsAPartOfTheLibraryAlthoughThereIsAFile) {
  ASSERT_NE(std::getenv("KVC_BACKEND_PATH"), nullptr) << "which names a folder with that backend";
  EXPECT_EQ(kvc_backend_open("emulated", nullptr), KVC_OK) << kvc_last_error();
  const kvc_backend_info info = info_of("emulated");
  EXPECT_STREQ(info.path, "");
  EXPECT_EQ(info.num_devices, 2u);
  EXPECT_EQ(kvc_backend_open("emulated", std::getenv("KVC_BACKEND_PATH")), KVC_ERROR_BUSY);
  EXPECT_NE(std::string(kvc_last_error()).find("from this library"), std::string::npos) << kvc_last_error();
}

TEST(StaticBackend, OfAVendorHasDevicesOrSaysWhyNot) {
  std::istringstream list(KVC_TEST_VENDORS);
  size_t vendors = 0;
  for (std::string name; list >> name; ++vendors) {
    const kvc_backend_info info = info_of(name.c_str());
    EXPECT_STREQ(info.path, "") << name;
    EXPECT_STRNE(info.architectures, "") << name;
    if (info.num_devices != 0) continue;
    EXPECT_STRNE(info.remark, "") << name;
    kvc_stream* stream = nullptr;
    EXPECT_EQ(kvc_stream_create(name.c_str(), &stream), KVC_ERROR_NOT_FOUND) << name;
    EXPECT_NE(std::string(kvc_last_error()).find(info.remark), std::string::npos) << kvc_last_error();
  }
  if (vendors == 0) GTEST_SKIP() << "no vendor's backend was built";
}

TEST(StaticBackend, LeavesOthersToTheirFiles) {
  EXPECT_EQ(kvc_backend_open("nowhere", nullptr), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_backend_open("older", nullptr), KVC_ERROR_UNSUPPORTED);
  EXPECT_NE(std::string(kvc_last_error()).find("another version"), std::string::npos) << kvc_last_error();
}

TEST(StaticBackend, StoresAndAttendsAsTheCpuDoes) {
  std::mt19937 random(7);
  kvc_storage_config config = base_config();
  config.dtype = KVC_FLOAT32, config.v_head_dim = config.head_dim;
  config.device = "cpu";
  const StoragePtr cpu = make(config);
  config.device = "emulated";
  const StoragePtr device = make(config);
  Rows rows(info_of(cpu.get()), KVC_FLOAT32, shuffled_slots(random, info_of(cpu.get())), config.num_layers);
  rows.fill(random);
  for (const StoragePtr& s : {std::cref(cpu), std::cref(device)})
    ASSERT_EQ(kvc_storage_store(s.get(), &rows.rows, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(bytes_of(cpu.get()), bytes_of(device.get()));

  const std::vector<float> q(4 * config.head_dim, 0.5f);
  std::vector<float> expected(q.size()), out(q.size());
  const uint64_t offsets[] = {0, 1}, lens[] = {11};
  const int32_t table[] = {5, 0, 3};
  kvc_attention a = {};
  a.struct_size = sizeof a;
  a.q = q.data(), a.q_offsets = offsets, a.kv_lens = lens, a.block_tables = table, a.table_stride = 3;
  a.num_requests = 1, a.num_q_heads = 4, a.layer = 2;
  a.out = expected.data();
  ASSERT_EQ(kvc_storage_attend(cpu.get(), &a, nullptr), KVC_OK) << kvc_last_error();
  a.out = out.data();
  ASSERT_EQ(kvc_storage_attend(device.get(), &a, nullptr), KVC_OK) << kvc_last_error();
  for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 1e-5) << i;
}

}  // namespace
}  // namespace kvc::test
