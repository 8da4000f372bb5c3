// SPDX-License-Identifier: Apache-2.0
// Emulated devices that fail on demand: out of memory, refused launches, lost. What is left is what was
// there.
#include "api/emulated.h"

namespace kvc::test {
namespace {

class GpuFailure : public OnEmulatedDevices {};

TEST_F(GpuFailure, WithoutMemoryNothingChanges) {
  const uint64_t before = control()->bytes_in_use(0);
  size_t failures = 0;
  for (uint64_t n = 1;; ++n) {
    kvc_storage_config c = small_config("emulated");
    control()->fail(Failure::kAllocate, n);
    kvc_storage* s = nullptr;
    const kvc_status status = kvc_storage_create(&c, &s);
    if (status == KVC_OK) {
      control()->fail(Failure::kAllocate, 0);
      kvc_storage_destroy(s);
      break;
    }
    ++failures;
    EXPECT_EQ(status, KVC_ERROR_OUT_OF_MEMORY);
    EXPECT_TRUE(says("free")) << kvc_last_error();
    EXPECT_EQ(s, nullptr);
    EXPECT_EQ(control()->bytes_in_use(0), before);
  }
  EXPECT_GE(failures, 1u);

  const StoragePtr s = make(small_config("emulated"));
  const std::vector<char> slab = bytes_of(s.get());
  control()->fail(Failure::kAllocate, 1);
  EXPECT_EQ(store(s.get(), 3, 1), KVC_ERROR_OUT_OF_MEMORY) << "workspace";
  EXPECT_EQ(bytes_of(s.get()), slab);
  ASSERT_EQ(store(s.get(), 3, 1), KVC_OK) << kvc_last_error();
  EXPECT_EQ(key_at(s.get(), 3), 1.0f);

  kvc_storage_config huge = small_config("emulated");
  huge.num_blocks = 1 << 20;
  kvc_storage* none = nullptr;
  EXPECT_EQ(kvc_storage_create(&huge, &none), KVC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(none, nullptr);
}

TEST_F(GpuFailure, WithoutMoreMemoryWorkspaceOfAnotherStreamIsUsedInOrder) {
  const StoragePtr s = make(small_config("emulated"));
  const EngineStream first, second;
  ASSERT_EQ(store(s.get(), 1, 1, first.stream.get()), KVC_OK);
  control()->hold(first.handle);
  ASSERT_EQ(store(s.get(), 1, 2, first.stream.get()), KVC_OK);
  control()->fail(Failure::kAllocate, 1);
  ASSERT_EQ(store(s.get(), 1, 3, second.stream.get()), KVC_OK) << kvc_last_error();
  control()->let_go(first.handle);
  ASSERT_EQ(kvc_stream_synchronize(second.stream.get()), KVC_OK);
  EXPECT_EQ(key_at(s.get(), 1), 3.0f) << "behind what the first stream does";
}

TEST_F(GpuFailure, OfALaunchIsReportedAtTheCall) {
  const StoragePtr s = make(small_config("emulated"));
  ASSERT_EQ(store(s.get(), 3, 1), KVC_OK);
  const std::vector<char> slab = bytes_of(s.get());
  for (uint64_t n = 1; n <= 2; ++n) {  // the upload of the slot, the kernel
    control()->fail(Failure::kLaunch, n);
    EXPECT_EQ(store(s.get(), 3, 2), KVC_ERROR_DEVICE);
    EXPECT_TRUE(says("the launch failed")) << kvc_last_error();
    EXPECT_EQ(bytes_of(s.get()), slab);
  }
  ASSERT_EQ(store(s.get(), 3, 2), KVC_OK) << "it is over";
  EXPECT_EQ(key_at(s.get(), 3), 2.0f);
}

TEST_F(GpuFailure, OfTheDeviceIsReportedByEveryCallAndEverythingCanBeDestroyed) {
  StoragePtr s = make(small_config("emulated"));
  EngineStream engine;
  kvc_stream_event* event = nullptr;
  ASSERT_EQ(kvc_stream_event_create("emulated", &event), KVC_OK);
  ASSERT_EQ(store(s.get(), 3, 1, engine.stream.get()), KVC_OK);
  control()->fail(Failure::kLost, 1);
  const kvc_block_copy copy = {0, 1};
  const int32_t block = 0;
  int32_t done = 0;
  void* memory = nullptr;
  kvc_stream* stream = nullptr;
  kvc_storage* other = nullptr;
  const kvc_storage_config c = small_config("emulated");
  EXPECT_EQ(store(s.get(), 4, 1, engine.stream.get()), KVC_ERROR_DEVICE);
  EXPECT_EQ(store(s.get(), 4, 1), KVC_ERROR_DEVICE);
  EXPECT_TRUE(says("lost")) << kvc_last_error();
  EXPECT_EQ(kvc_storage_copy_blocks(s.get(), &copy, 1, nullptr), KVC_ERROR_DEVICE);
  EXPECT_EQ(kvc_storage_zero_blocks(s.get(), &block, 1, engine.stream.get()), KVC_ERROR_DEVICE);
  EXPECT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_ERROR_DEVICE);
  EXPECT_EQ(kvc_stream_event_record(event, engine.stream.get()), KVC_ERROR_DEVICE);
  EXPECT_EQ(kvc_stream_event_query(event, &done), KVC_ERROR_DEVICE);
  EXPECT_EQ(kvc_device_allocate("emulated", 0, 100, &memory), KVC_ERROR_DEVICE);
  EXPECT_EQ(kvc_stream_create("emulated", &stream), KVC_ERROR_DEVICE);
  EXPECT_EQ(kvc_storage_create(&c, &other), KVC_ERROR_DEVICE);
  kvc_stream_event_destroy(event);
  s.reset();
}

}  // namespace
}  // namespace kvc::test
