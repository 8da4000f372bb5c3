// SPDX-License-Identifier: Apache-2.0
// Errors of quantization, measured on emulated devices: those of the CPU.
#include "api/emulated.h"

namespace kvc::test {
namespace {

struct Metrics {
  kvc_quant_metrics keys = {}, values = {};
  Metrics() { keys.struct_size = values.struct_size = sizeof keys; }
};

// But for the order of sums.
void expect_equal(const kvc_quant_metrics& a, const kvc_quant_metrics& b) {
  EXPECT_EQ(a.elements, b.elements);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.fp16_bytes, b.fp16_bytes);
  EXPECT_EQ(a.ratio, b.ratio);
  EXPECT_EQ(a.max_error, b.max_error);
  if (std::isfinite(b.mse)) {
    EXPECT_NEAR(a.mse, b.mse, b.mse * 1e-9);
  } else {
    EXPECT_EQ(a.mse, b.mse);
  }
  if (std::isfinite(b.snr_db)) {
    EXPECT_NEAR(a.snr_db, b.snr_db, 1e-8);
  } else {
    EXPECT_EQ(a.snr_db, b.snr_db);
  }
}

class GpuMeasure : public OnEmulatedDevices {
 protected:
  // Of the same rows in a storage on the device and in one on the CPU. False: there is no such storage.
  bool compare(kvc_storage_config c, int32_t outside, uint32_t layers, bool by_position) {
    kvc_storage* made[2] = {};
    c.device = "cpu";
    if (kvc_storage_create(&c, &made[0]) != KVC_OK) return false;
    const StoragePtr cpu(made[0]);
    c.device = "emulated";
    EXPECT_EQ(kvc_storage_create(&c, &made[1]), KVC_OK) << kvc_last_error();
    const StoragePtr device(made[1]);
    const kvc_storage_info info = info_of(cpu.get());
    Rows rows(info, outside, shuffled_slots(random_, info), layers);
    rows.fill(random_);
    if (outside != KVC_FLOAT16 && random_() % 2 != 0) {  // an infinity and a NaN, in two rows
      const uint32_t special[] = {0x7F800000, 0x7FC00000};
      for (size_t i = 0; i < 2; ++i) {
        const size_t bytes = width(outside), at = (i * info.head_dim + 1) * bytes;
        std::memcpy(rows.k.data() + at, reinterpret_cast<const char*>(&special[i]) + 4 - bytes, bytes);
      }
    }
    for (const StoragePtr* s : {&cpu, &device})
      EXPECT_EQ(kvc_storage_store(s->get(), &rows.rows, nullptr), KVC_OK) << kvc_last_error();
    std::vector<int32_t> table = {3, 0, 2, 1};
    if (by_position) {  // other tokens than were there: large errors, infinite ones too
      rows.rows.slots = nullptr, rows.rows.first_token = 2, rows.rows.num_tokens = 3 * c.block_size;
      rows.rows.block_table = table.data(), rows.rows.block_table_size = table.size();
    } else {
      rows.slots[1] = rows.slots[5] = -1;
    }
    Metrics on_cpu, on_device, keys_alone, values_alone;
    const bool latent = rows.rows.v == nullptr;
    EXPECT_EQ(kvc_storage_measure(cpu.get(), &rows.rows, &on_cpu.keys, latent ? nullptr : &on_cpu.values),
              KVC_OK)
        << kvc_last_error();
    EXPECT_EQ(
        kvc_storage_measure(device.get(), &rows.rows, &on_device.keys, latent ? nullptr : &on_device.values),
        KVC_OK)
        << kvc_last_error();
    expect_equal(on_device.keys, on_cpu.keys);
    expect_equal(on_device.values, on_cpu.values);
    EXPECT_EQ(kvc_storage_measure(device.get(), &rows.rows, &keys_alone.keys, nullptr), KVC_OK);
    expect_equal(keys_alone.keys, on_cpu.keys);
    if (latent) return true;
    EXPECT_EQ(kvc_storage_measure(device.get(), &rows.rows, nullptr, &values_alone.values), KVC_OK);
    expect_equal(values_alone.values, on_cpu.values);
    return true;
  }

  std::mt19937 random_{static_cast<uint32_t>(test_seed())};
};

TEST_F(GpuMeasure, GivesWhatTheCpuGives) {
  size_t compared = 0;
  for (const int32_t dtype :
       {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16, KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2, KVC_INT8, KVC_INT4})
    for (const uint32_t flags : {0u, uint32_t{KVC_STORAGE_TILED_KEYS}, uint32_t{KVC_STORAGE_LATENT},
                                 uint32_t{KVC_STORAGE_HADAMARD}, uint32_t{KVC_STORAGE_ASYMMETRIC}})
      for (const bool scaled : {false, true}) {
        kvc_storage_config c = base_config();
        c.layout = flags != 0 ? uint32_t{KVC_LAYOUT_LBHNC} : kLayouts[random_() % std::size(kLayouts)];
        c.dtype = dtype, c.flags = flags;
        if (flags == KVC_STORAGE_LATENT) c.num_heads = 1;
        if (flags == KVC_STORAGE_HADAMARD) c.head_dim = 32, c.v_head_dim = 16;
        if (scaled) c.k_scale = 0.05f, c.v_scale = 0.1f;
        const int32_t outside = std::vector<int32_t>{KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16}[random_() % 3];
        SCOPED_TRACE(testing::Message() << "layout " << c.layout << ", type " << dtype << ", flags " << flags
                                        << ", scaled " << scaled << ", outside " << outside);
        compared += compare(c, outside, 3, random_() % 2 != 0);
        ASSERT_FALSE(HasFailure());
      }
  EXPECT_GE(compared, 25u);
}

TEST_F(GpuMeasure, TakesManyTokensInPieces) {
  kvc_storage_config c = base_config();
  c.num_blocks = 40, c.block_size = 16, c.num_heads = 4, c.head_dim = c.v_head_dim = 128;
  c.dtype = KVC_FLOAT8_E4M3;
  EXPECT_TRUE(compare(c, KVC_BFLOAT16, 2, false)) << kvc_last_error();
}

TEST_F(GpuMeasure, SlotsMayBeOnTheDevice) {
  const StoragePtr s = make(small_config("emulated"));
  ASSERT_EQ(store(s.get(), 5, 1), KVC_OK);
  DeviceMemory slots("emulated", 2 * sizeof(int64_t));
  slots.as<int64_t>()[0] = 5, slots.as<int64_t>()[1] = -1;
  ValueRows rows(2, 3);
  rows.rows.slots = slots.as<int64_t>(), rows.rows.flags = KVC_ROWS_ON_DEVICE;
  Metrics metrics;
  ASSERT_EQ(kvc_storage_measure(s.get(), &rows.rows, &metrics.keys, &metrics.values), KVC_OK)
      << kvc_last_error();
  for (const kvc_quant_metrics& m : {metrics.keys, metrics.values}) {
    EXPECT_EQ(m.elements, kHeads * kDim);
    EXPECT_EQ(m.max_error, 2);
    EXPECT_EQ(m.mse, 4);
  }
}

TEST_F(GpuMeasure, AFailureGivesNothing) {
  const StoragePtr s = make(small_config("emulated")), other = make(small_config("emulated:1"));
  ValueRows rows(1, 3);
  const int64_t slot = 5;
  rows.rows.slots = &slot;
  Metrics metrics;
  metrics.keys.elements = metrics.values.elements = 77;
  const auto expect = [&](kvc_storage* storage, kvc_status status) {
    EXPECT_EQ(kvc_storage_measure(storage, &rows.rows, &metrics.keys, &metrics.values), status);
    EXPECT_EQ(metrics.keys.elements, 77u);
    EXPECT_EQ(metrics.values.elements, 77u);
  };
  expect(other.get(), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("kvc_rows.k is in host memory")) << kvc_last_error();
  for (uint64_t n = 1; n <= 2; ++n) {  // workspace, pinned memory
    control()->fail(Failure::kAllocate, n);
    expect(s.get(), KVC_ERROR_OUT_OF_MEMORY);
    control()->fail(Failure::kAllocate, 0);
  }
  for (uint64_t n = 1; n <= 3; ++n) {  // the slots, the gathering, the comparison
    control()->fail(Failure::kLaunch, n);
    expect(s.get(), KVC_ERROR_DEVICE);
  }
  EXPECT_EQ(kvc_storage_measure(s.get(), &rows.rows, &metrics.keys, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(metrics.keys.elements, kHeads * kDim);
}

}  // namespace
}  // namespace kvc::test
