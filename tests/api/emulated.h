// SPDX-License-Identifier: Apache-2.0
// Storages on emulated devices whose rows are what one number makes of them, for tests of what devices add:
// foreign streams, graphs, failures, memory.
#pragma once
#include <cmath>
#include <string>

#include "api/storage.h"
#include "seed.h"

namespace kvc::test {

using StreamPtr = std::unique_ptr<kvc_stream, Destroyer<kvc_stream_destroy>>;
using gpu::Failure;

constexpr uint32_t kHeads = 2, kDim = 16, kBlock = 16, kBlocks = 6;

inline kvc_storage_config small_config(const char* device) {
  kvc_storage_config c = {};
  c.struct_size = sizeof c;
  c.num_blocks = kBlocks, c.num_layers = 1, c.num_heads = kHeads, c.head_dim = kDim;
  c.dtype = KVC_FLOAT32, c.block_size = kBlock, c.device = device;
  return c;
}

struct DeviceMemory {
  void* data = nullptr;
  DeviceMemory(const char* device, uint64_t bytes, uint32_t kind = KVC_MEMORY_DEVICE) {
    EXPECT_EQ(kvc_device_allocate(device, kind, bytes, &data), KVC_OK) << kvc_last_error();
  }
  ~DeviceMemory() { EXPECT_EQ(kvc_device_release(data), KVC_OK) << kvc_last_error(); }
  DeviceMemory(const DeviceMemory&) = delete;
  template <typename T>
  T* as() {
    return static_cast<T*>(data);
  }
};

// A stream of the runtime, as an engine has one.
struct EngineStream {
  explicit EngineStream(const char* device = "emulated", uint32_t index = 0)
      : handle(control()->create_stream(index)) {
    kvc_stream* made = nullptr;
    EXPECT_EQ(kvc_stream_adopt(device, handle, 0, &made), KVC_OK) << kvc_last_error();
    stream.reset(made);
  }
  ~EngineStream() {
    stream.reset();
    control()->destroy_stream(handle);
  }
  void* handle;
  StreamPtr stream;
};

// Rows in memory of the caller: keys are `value`, values -value.
struct ValueRows {
  kvc_rows rows = {};
  std::vector<float> k, v;

  explicit ValueRows(size_t tokens, float value = 0) : k(tokens * kHeads * kDim, value), v(k.size(), -value) {
    rows.struct_size = sizeof rows;
    rows.k = k.data(), rows.v = v.data(), rows.num_tokens = tokens;
  }
};

inline kvc_status store(kvc_storage* s, int64_t slot, float value, kvc_stream* stream = nullptr) {
  static thread_local std::vector<std::unique_ptr<ValueRows>> kept;  // until the work is done
  kept.push_back(std::make_unique<ValueRows>(1, value));
  kept.back()->rows.slots = &slot;
  return kvc_storage_store(s, &kept.back()->rows, stream);
}

inline float key_at(kvc_storage* s, int64_t slot) {
  ValueRows one(1);
  one.rows.slots = &slot;
  EXPECT_EQ(kvc_storage_gather(s, &one.rows, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(one.k[0], -one.v[0]);
  return one.k[0];
}

// Graphs and kernels draw their orders by the seed of tests, which is printed when one fails.
class OnEmulatedDevices : public testing::Test {
 protected:
  OnEmulatedDevices() : trace_(__FILE__, __LINE__, "KVC_TEST_SEED=" + std::to_string(seed_)) {}
  void SetUp() override {
    if (control() == nullptr) GTEST_SKIP() << "KVC_BACKEND_PATH names no folder with the emulated backend";
    control()->set_device(0);
    control()->set_seed(seed_);
  }
  void TearDown() override {
    if (control() == nullptr) return;
    for (const Failure failure : {Failure::kAllocate, Failure::kLaunch, Failure::kLost})
      control()->fail(failure, 0);
  }
  uint32_t seed() const { return seed_; }
  static bool says(const std::string& part) {
    return std::string(kvc_last_error()).find(part) != std::string::npos;
  }

 private:
  const uint32_t seed_ = static_cast<uint32_t>(test_seed());
  testing::ScopedTrace trace_;
};

}  // namespace kvc::test
