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
  const uint16_t *a, *b;  // [16][16], [16][8]
  float* d;               // [16][8]
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
    uint32_t fa[4], fb[4];
    load_matrix(fa, a + l % 16 * 16 + l / 16 * 8);
    load_matrix<true>(fb, b + l % 16 * 8);
    float d[4] = {1, 1, 1, 1};
    if constexpr (kBfloat) {
      mma_bf16(d, fa, {fb[0], fb[1]});
    } else {
      mma_fp16(d, fa, {fb[0], fb[1]});
    }
    if (wave() != 0) return;
    for (uint32_t r = 0; r < 4; ++r) args.d[(l / 4 + r / 2 * 8) * 8 + l % 4 * 2 + r % 2] = d[r];
  }
#endif
}

// Elements of a lane's fragments in the order of the PTX ISA's tables ("Matrix Fragments for mma.m16n8k16
// with floating point type", "ldmatrix"), group = lane / 4, thread = lane % 4.
struct Place {
  uint32_t row, column;
};
Place place_in_a(uint32_t lane, uint32_t i) {  // a0 .. a7
  return {lane / 4 + (i < 2 || (i >= 4 && i < 6) ? 0 : 8), lane % 4 * 2 + (i & 1) + (i < 4 ? 0 : 8)};
}
Place place_in_b(uint32_t lane, uint32_t i) {  // b0 .. b3
  return {lane % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8), lane / 4};
}
Place place_in_c(uint32_t lane, uint32_t i) {  // c0 .. c3
  return {lane / 4 + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)};
}
Place place_in_loaded(uint32_t lane, uint32_t i) {
  return {lane / 4, lane % 4 * 2 + i};
}  // of an 8 x 8 matrix

struct FragmentArgs {
  const uint32_t *a, *b;         // [32][4], [32][2]: what each lane holds
  const float* c;                // [32][4]
  const uint16_t* rows;          // [4][8][8] matrices
  float* d;                      // [32][4]
  uint32_t *plain, *transposed;  // [32][4]
};

template <bool kBfloat, bool kRunnable = kHasMma>
KVC_KERNEL(64, 1)
use_fragments(KVC_ARGUMENT(FragmentArgs) args) {
#if !defined(KVC_GPU_HIP)
  if constexpr (kRunnable) {
    KVC_SHARED(uint16_t, rows, 256);
    for (uint32_t i = threadIdx.x; i < 256; i += 64) rows[i] = args.rows[i];
    sync_block();
    const uint32_t l = lane();
    const uint32_t a[4] = {args.a[4 * l], args.a[4 * l + 1], args.a[4 * l + 2], args.a[4 * l + 3]};
    const uint32_t b[2] = {args.b[2 * l], args.b[2 * l + 1]};
    float d[4] = {args.c[4 * l], args.c[4 * l + 1], args.c[4 * l + 2], args.c[4 * l + 3]};
    if constexpr (kBfloat) {
      mma_bf16(d, a, b);
    } else {
      mma_fp16(d, a, b);
    }
    uint32_t plain[4], transposed[4];
    load_matrix(plain, rows + l * 8);
    load_matrix<true>(transposed, rows + l * 8);
    if (wave() != 0) return;
    for (uint32_t r = 0; r < 4; ++r) {
      args.d[4 * l + r] = d[r];
      args.plain[4 * l + r] = plain[r];
      args.transposed[4 * l + r] = transposed[r];
    }
  }
#endif
}

TEST_F(MatrixTest, FragmentsMultiplyToTheProduct) {
  if (!kHasMma) GTEST_SKIP() << "no mma.m16n8k16";
  constexpr uint32_t n = 8;
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
    const MatrixArgs args{device_a.data(), device_b.data(), d.data()};
    ASSERT_EQ(launch(bfloat ? multiply_mma<true> : multiply_mma<false>, {1}, 64, 0, nullptr, args), 0);
    EXPECT_EQ(d.get(), expected);
  }
}

// No fragment comes from a matrix by way of another instruction, so that two mistakes cannot make up for each
// other.
TEST_F(MatrixTest, ElementsLieInLanesAsTheManualSays) {
  if (!kHasMma) GTEST_SKIP() << "no mma.m16n8k16";
  for (const bool bfloat : {false, true}) {
    const auto coded = [bfloat](float value) {
      uint16_t bits;
      from_float(bfloat ? KVC_BFLOAT16 : KVC_FLOAT16, &value, &bits, 1);
      return bits;
    };
    float x[16][16], y[16][8], z[16][8];
    const auto fill = [&](auto& matrix) {
      for (auto& row : matrix)
        for (float& value : row) value = static_cast<float>(static_cast<int>(random() % 65) - 32);
    };
    fill(x), fill(y), fill(z);
    std::vector<uint32_t> a(128, 0), b(64, 0);
    std::vector<float> c(128), expected(128);
    for (uint32_t l = 0; l < 32; ++l) {
      for (uint32_t i = 0; i < 8; ++i) {
        const auto [row, column] = place_in_a(l, i);
        a[4 * l + i / 2] |= uint32_t{coded(x[row][column])} << (16 * (i % 2));
      }
      for (uint32_t i = 0; i < 4; ++i) {
        const auto [row, column] = place_in_b(l, i);
        b[2 * l + i / 2] |= uint32_t{coded(y[row][column])} << (16 * (i % 2));
      }
      for (uint32_t i = 0; i < 4; ++i) {
        const auto [row, column] = place_in_c(l, i);
        c[4 * l + i] = expected[4 * l + i] = z[row][column];
        for (uint32_t k = 0; k < 16; ++k) expected[4 * l + i] += x[row][k] * y[k][column];
      }
    }
    std::vector<uint16_t> rows(256);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint16_t>(i);
    DeviceArray<uint32_t> device_a(a), device_b(b), plain(128), transposed(128);
    DeviceArray<float> device_c(c), d(128);
    DeviceArray<uint16_t> device_rows(rows);
    const FragmentArgs args{device_a.data(), device_b.data(), device_c.data(),  device_rows.data(),
                            d.data(),        plain.data(),    transposed.data()};
    ASSERT_EQ(launch(bfloat ? use_fragments<true> : use_fragments<false>, {1}, 64, 0, nullptr, args), 0);
    EXPECT_EQ(d.get(), expected);
    const std::vector<uint32_t> as_is = plain.get(), turned = transposed.get();
    for (uint32_t l = 0; l < 32; ++l) {
      for (uint32_t m = 0; m < 4; ++m) {
        for (uint32_t i = 0; i < 2; ++i) {
          const auto [row, column] = place_in_loaded(l, i);
          EXPECT_EQ(as_is[4 * l + m] >> (16 * i) & 0xFFFF, m * 64 + row * 8 + column);
          EXPECT_EQ(turned[4 * l + m] >> (16 * i) & 0xFFFF, m * 64 + column * 8 + row);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvc::gpu::test
