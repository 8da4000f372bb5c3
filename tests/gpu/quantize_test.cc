// SPDX-License-Identifier: Apache-2.0
// Rows in arrays of their own: codes and scales are those of kvc_quantize, values those of kvc_dequantize.
#include "gpu/storage.h"

namespace kvc::gpu::test {
namespace {

using QuantizeTest = KernelTest;

TEST_F(QuantizeTest, CodesAndValuesAreThoseOfTheCpu) {
  for (const int32_t dtype : {KVC_INT8, KVC_INT4, KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2})
    for (const uint32_t flags : {0u, uint32_t{KVC_QUANT_ASYMMETRIC}})
      for (const uint32_t dim : {1u, 7u, 64u, 128u, 200u, 1000u})
        for (const uint32_t group : {0u, 5u, 32u, 64u, 999u})
          for (const float scale : {0.0f, 0.25f}) {
            const bool is_fp8 = dtype == KVC_FLOAT8_E4M3 || dtype == KVC_FLOAT8_E5M2;
            if ((is_fp8 || scale != 0) && flags != 0) continue;
            if (scale != 0 && group != 0) continue;
            kvc_quant_format format = {};
            format.struct_size = sizeof format;
            format.dtype = dtype, format.flags = flags, format.group = group, format.scale = scale;
            const size_t num_rows = random() % 10;
            const uint32_t size = group == 0 || group > dim ? dim : group;
            std::vector<char> in(num_rows * dim * 4);
            fill_any(random, KVC_FLOAT32, in);
            std::vector<float> values(num_rows * dim), restored(values.size());
            if (!in.empty()) std::memcpy(values.data(), in.data(), in.size());
            std::vector<char> codes(num_rows * (dtype == KVC_INT4 ? (dim + 1) / 2 : dim), 'x');
            std::vector<float> scales(num_rows * ((dim + size - 1) / size) * (flags != 0 ? 2 : 1));
            DeviceArray<float> device_in(values), device_scales(scales), device_out(restored);
            DeviceArray<char> device_codes(codes);
            const std::string what = "dtype " + std::to_string(dtype) + " dim " + std::to_string(dim) +
                                     " group " + std::to_string(group) + " flags " + std::to_string(flags);
            ASSERT_EQ(kvc_quantize(&format, values.data(), num_rows, dim, codes.data(), scales.data()),
                      KVC_OK)
                << kvc_last_error() << what;
            ASSERT_EQ(quantize_rows(format, device_in.data(), num_rows, dim, device_codes.data(),
                                    device_scales.data(), nullptr),
                      0);
            ASSERT_EQ(device_codes.get(), codes) << what;
            ASSERT_EQ(device_scales.get(), scales) << what;
            ASSERT_EQ(kvc_dequantize(&format, codes.data(), scales.data(), num_rows, dim, restored.data()),
                      KVC_OK);
            ASSERT_EQ(dequantize_rows(format, device_codes.data(), device_scales.data(), num_rows, dim,
                                      device_out.data(), nullptr),
                      0);
            const std::vector<float> out = device_out.get();
            ASSERT_TRUE(out.empty() || std::memcmp(out.data(), restored.data(), out.size() * 4) == 0) << what;
          }
}

}  // namespace
}  // namespace kvc::gpu::test
