// SPDX-License-Identifier: Apache-2.0
// The structs in which DLPack hands arrays from one library to another (https://dmlc.github.io/dlpack), as
// far as they are frozen; other libraries read the same bytes as DLManagedTensor.
#pragma once
#include <cstdint>

namespace kvc {

struct DlTensor {
  void* data;
  int32_t device_type, device_id;
  int32_t num_dims;
  uint8_t type_code, type_bits;
  uint16_t type_lanes;
  int64_t* shape;
  int64_t* strides;  // in elements
  uint64_t byte_offset;
};
static_assert(sizeof(DlTensor) == 48);

struct DlManagedTensor {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManagedTensor* self);
};
static_assert(sizeof(DlManagedTensor) == 64);

inline constexpr int32_t kDlCpu = 1;
inline constexpr int32_t kDlPinned = 1;  // added to a GPU's type: CUDA 2 and 3, ROCm 10 and 11
inline constexpr uint8_t kDlInt = 0, kDlUint = 1, kDlFloat = 2, kDlBfloat = 4, kDlFloat8E4m3fn = 10,
                         kDlFloat8E5m2 = 12;

}  // namespace kvc
