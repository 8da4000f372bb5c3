// SPDX-License-Identifier: Apache-2.0
// Tiles of tensor cores: fragments that are loaded as the manuals say multiply to the product of the
// matrices.
#include "gpu/device.h"
#include "kernels/convert.cuh"
#include "quant/convert.h"

namespace kvc::gpu::test {
namespace {

using MatrixTest = KernelTest;

struct MatrixArgs {
  const uint16_t *a, *b;  // [16][16], [16][n]
  float* d;               // [16][n]
  uint32_t* transposed;   // [32]
};

template <bool kBfloat, bool kRunnable = kHasMma>
KVC_KERNEL(64, 1)
multiply_mma(KVC_ARGUMENT(MatrixArgs) args) {
#if !defined(KVC_GPU_HIP)  // which has no such names
  if constexpr (kRunnable) {
    KVC_SHARED(uint16_t, a, 256);
    KVC_SHARED(uint16_t, b, 128);
    for (uint32_t i = threadIdx.x; i < 256; i += 64) a[i] = args.a[i];
    for (uint32_t i = threadIdx.x; i < 128; i += 64) b[i] = args.b[i];
    sync_block();
    const uint32_t l = lane();
    uint32_t fa[4], fb[2];
    load_matrix<4>(fa, a + l % 16 * 16 + l / 16 * 8);
    load_matrix<2, true>(fb, b + l % 16 * 8);
    float d[4] = {1, 1, 1, 1};
    if constexpr (kBfloat) {
      mma_bf16(d, fa, fb);
    } else {
      mma_fp16(d, fa, fb);
    }
    const uint32_t turned = transpose_matrix(fa[0]);
    if (wave() == 0) {
      for (uint32_t r = 0; r < 4; ++r) args.d[(l / 4 + r / 2 * 8) * 8 + l % 4 * 2 + r % 2] = d[r];
      args.transposed[l] = turned;
    }
  }
#endif
}

template <bool kBfloat, bool kRunnable>
KVC_DEVICE void multiply_by_mfma(const MatrixArgs& args) {
  if constexpr (kRunnable) {
    const uint32_t l = lane(), row = l % 16, k = l / 16 * 4;
    uint32_t fa[2], fb[2];
    for (uint32_t i = 0; i < 2; ++i) {
      fa[i] = args.a[row * 16 + k + 2 * i] | static_cast<uint32_t>(args.a[row * 16 + k + 2 * i + 1]) << 16;
      fb[i] = args.b[(k + 2 * i) * 16 + row] | static_cast<uint32_t>(args.b[(k + 2 * i + 1) * 16 + row])
                                                   << 16;
    }
    float d[4] = {1, 1, 1, 1};
    mfma_16x16x16<kBfloat>(d, fa, fb);
    for (uint32_t r = 0; r < 4; ++r) args.d[(k + r) * 16 + row] = d[r];
  }
}

// Says whether it multiplied: the host side of HIP does not know what the device has.
template <bool kBfloat>
KVC_KERNEL(64, 1)
multiply_mfma(KVC_ARGUMENT(MatrixArgs) args) {
  if (threadIdx.x == 0) args.transposed[0] = kHasMfma ? 1 : 0;
  multiply_by_mfma<kBfloat, kHasMfma>(args);
}

TEST_F(MatrixTest, FragmentsMultiplyToTheProduct) {
  const uint32_t n = kHasMma ? 8 : 16;
  for (const bool bfloat : {false, true}) {
    std::vector<uint16_t> a(256), b(16 * n);
    std::vector<float> x(a.size()), y(b.size()), expected(16 * n, 1);
    const auto fill = [&](std::vector<uint16_t>& bits, std::vector<float>& values) {
      for (size_t i = 0; i < bits.size(); ++i) {
        values[i] = static_cast<float>(static_cast<int>(random() % 65) - 32) / 8;  // exact in both types
        from_float(bfloat ? KVC_BFLOAT16 : KVC_FLOAT16, &values[i], &bits[i], 1);
      }
    };
    fill(a, x);
    fill(b, y);
    for (uint32_t i = 0; i < 16; ++i)
      for (uint32_t j = 0; j < n; ++j)
        for (uint32_t k = 0; k < 16; ++k) expected[i * n + j] += x[i * 16 + k] * y[k * n + j];
    DeviceArray<uint16_t> device_a(a), device_b(b);
    DeviceArray<float> d(expected.size());
    DeviceArray<uint32_t> transposed(32);
    const MatrixArgs args{device_a.data(), device_b.data(), d.data(), transposed.data()};
    if (kHasMma) {
      ASSERT_EQ(launch(bfloat ? multiply_mma<true> : multiply_mma<false>, {1}, 64, 0, nullptr, args), 0);
      const std::vector<uint32_t> pairs = transposed.get();
      for (uint32_t l = 0; l < 32; ++l) {
        for (uint32_t i = 0; i < 2; ++i)
          EXPECT_EQ(pairs[l] >> (16 * i) & 0xFFFF, a[(l % 4 * 2 + i) * 16 + l / 4]);  // (row, column) swapped
      }
    } else {
      ASSERT_EQ(launch(bfloat ? multiply_mfma<true> : multiply_mfma<false>, {1}, 64, 0, nullptr, args), 0);
      if (transposed.get()[0] == 0) GTEST_SKIP() << "this device has no tensor cores that kernels use";
    }
    EXPECT_EQ(d.get(), expected);
  }
}

}  // namespace
}  // namespace kvc::gpu::test
