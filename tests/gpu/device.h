// SPDX-License-Identifier: Apache-2.0
// Memory that kernels work on, for tests of kernels: the emulator's, between guards. Tests see nothing but
// this, so that the same bodies can run on a real device.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "portable.h"
#include "rounds.h"

namespace kvc::gpu::test {

using kvc::test::rounds;
using kvc::test::Sample;

void* device_allocate_if(size_t bytes);  // nullptr: there is none
void* device_allocate(size_t bytes);     // ends the program when there is none
void device_free(void* memory, size_t bytes);
void copy_in(void* device, const void* host, size_t bytes);
void copy_out(void* host, const void* device, size_t bytes);
void synchronize();

// An array on the device.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size), data_(static_cast<T*>(device_allocate(bytes()))) {}
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { set(values); }
  ~DeviceArray() { device_free(data_, bytes()); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  void set(const std::vector<T>& values) { copy_in(data_, values.data(), bytes()); }
  std::vector<T> get() {
    synchronize();
    std::vector<T> values(size_);
    copy_out(values.data(), data_, bytes());
    return values;
  }

 private:
  size_t size_;
  T* data_;
};

// Numbers drawn by the seed of tests, which is printed when one fails.
class KernelTest : public ::testing::Test {
 protected:
  KernelTest();
  std::mt19937 random;

 private:
  uint32_t seed_;
  ::testing::ScopedTrace trace_;
};

}  // namespace kvc::gpu::test
