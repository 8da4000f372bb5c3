// SPDX-License-Identifier: Apache-2.0
// Memory of emulated devices: kinds and owners, growth, other processes.
#include <atomic>
#include <thread>

#include "api/dlpack.h"
#include "api/emulated.h"
#include "attention_call.h"

namespace kvc::test {
namespace {

class GpuMemory : public OnEmulatedDevices {};

TEST_F(GpuMemory, HostRowsAreRefusedByADeviceThatCannotReadThem) {
  const StoragePtr s = make(small_config("emulated:1"));
  EXPECT_EQ(info_of(s.get()).memory_kind, uint32_t{KVC_MEMORY_DEVICE});
  EXPECT_EQ(store(s.get(), 1, 5), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("kvc_rows.k is in host memory that emulated:1 does not read")) << kvc_last_error();

  ValueRows rows(1, 5), back(1);
  const int64_t slot = 1;
  rows.rows.slots = back.rows.slots = &slot;
  for (ValueRows* r : {&rows, &back}) {
    for (std::vector<float>* x : {&r->k, &r->v})
      ASSERT_EQ(kvc_device_register("emulated:1", x->data(), x->size() * sizeof(float)), KVC_OK)
          << kvc_last_error();
  }
  EXPECT_EQ(kvc_device_register("emulated:1", rows.k.data() + 1, 4), KVC_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(kvc_storage_store(s.get(), &rows.rows, nullptr), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_storage_gather(s.get(), &back.rows, nullptr), KVC_OK);
  EXPECT_EQ(back.k, rows.k);
  EXPECT_EQ(back.v, rows.v);
  const std::vector<float> zeros(kDim);
  rows.rows.rope_table = zeros.data(), rows.rows.rope_table_rows = 1;
  EXPECT_EQ(kvc_storage_store(s.get(), &rows.rows, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("kvc_rows.rope_table is in host memory that emulated:1 does not read"))
      << kvc_last_error();
  DeviceMemory table("emulated:1", kDim * sizeof(float));
  std::copy(zeros.begin(), zeros.end(), table.as<float>());
  rows.rows.rope_table = table.as<float>();
  ASSERT_EQ(kvc_storage_store(s.get(), &rows.rows, nullptr), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_storage_gather(s.get(), &back.rows, nullptr), KVC_OK);
  EXPECT_EQ(back.k, std::vector<float>(back.k.size())) << "a table of zeros makes zeros of all";
  rows.rows.rope_table = nullptr;
  for (ValueRows* r : {&rows, &back}) {
    for (std::vector<float>* x : {&r->k, &r->v})
      EXPECT_EQ(kvc_device_unregister("emulated:1", x->data()), KVC_OK);
  }
  EXPECT_EQ(kvc_device_unregister("emulated:1", rows.k.data()), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_storage_store(s.get(), &rows.rows, nullptr), KVC_ERROR_INVALID_ARGUMENT);
}

TEST_F(GpuMemory, GoesBackToItsOwner) {
  const uint64_t before = control()->bytes_in_use(1);
  {
    DeviceMemory device("emulated:1", 1000), pinned("emulated:1", 5000, KVC_MEMORY_PINNED),
        host("cpu", 100, KVC_MEMORY_HOST);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(device.data) % 256, 0u);
    EXPECT_GE(control()->bytes_in_use(1), before + 1000);
    std::memset(pinned.data, 1, 5000), std::memset(host.data, 1, 100);
  }
  EXPECT_EQ(control()->bytes_in_use(1), before);
  int nobodys;
  EXPECT_EQ(kvc_device_release(&nobodys), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_device_release(nullptr), KVC_OK);
  void* memory = nullptr;
  for (const uint32_t kind : {1u, 2u, 5u, 7u, 77u})  // host, huge pages, external, unknown
    EXPECT_EQ(kvc_device_allocate("emulated", kind, 100, &memory), KVC_ERROR_UNSUPPORTED) << kind;
  EXPECT_EQ(kvc_device_allocate("emulated", 0, 0, &memory), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(memory, nullptr);
}

TEST_F(GpuMemory, OfEveryKindServesAStorage) {
  for (const char* device : {"emulated:0", "emulated:1"}) {
    kvc_storage_config c = small_config(device);
    uint64_t bytes = 0;
    ASSERT_EQ(kvc_storage_size(&c, nullptr, &bytes), KVC_OK);
    DeviceMemory foreign(device, bytes), rows(device, kHeads * kDim * 4, KVC_MEMORY_PINNED);
    std::fill_n(rows.as<float>(), kHeads * kDim, 2.5f);
    for (const uint32_t kind :
         {uint32_t{KVC_MEMORY_DEFAULT}, uint32_t{KVC_MEMORY_PINNED}, uint32_t{KVC_MEMORY_EXTERNAL}}) {
      c.memory_kind = kind;
      c.memory = kind == KVC_MEMORY_EXTERNAL ? foreign.data : nullptr, c.memory_size = bytes;
      c.alignment = kind == KVC_MEMORY_DEFAULT ? 4096 : 0;
      if (kind == KVC_MEMORY_DEFAULT) c.num_blocks = 1;
      const StoragePtr s = make(c);
      ASSERT_NE(s, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(info_of(s.get()).data) % info_of(s.get()).alignment, 0u);
      kvc_rows r = {};
      r.struct_size = sizeof r;
      const int64_t slot = 9;
      r.k = r.v = rows.data, r.num_tokens = 1, r.slots = &slot;
      ASSERT_EQ(kvc_storage_store(s.get(), &r, nullptr), KVC_OK) << kvc_last_error();
      c.num_blocks = kBlocks;
    }
  }
  std::vector<char> host(1 << 20);
  kvc_storage_config c = small_config("emulated:1");
  c.memory = host.data() + (64 - reinterpret_cast<uintptr_t>(host.data()) % 64),
  c.memory_size = host.size() - 64;
  kvc_storage* s = nullptr;
  EXPECT_EQ(kvc_storage_create(&c, &s), KVC_ERROR_INVALID_ARGUMENT) << "no silent use of host memory";
  EXPECT_EQ(s, nullptr);
}

TEST_F(GpuMemory, IsManagedOnlyWhereItWasAskedForAndNeverAStorages) {
  const auto has = [](const char* device) {
    kvc_device_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_device_read_info(device, &info), KVC_OK);
    EXPECT_EQ(info.memory_kinds >> KVC_MEMORY_MANAGED & 1, 0u) << "no storage may have it";
    return (info.flags & KVC_DEVICE_MANAGED) != 0;
  };
  EXPECT_TRUE(has("emulated:0"));
  EXPECT_FALSE(has("emulated:1"));
  EXPECT_FALSE(has("cpu"));
  void* memory = nullptr;
  for (const char* device : {"emulated:1", "cpu"})
    EXPECT_EQ(kvc_device_allocate(device, KVC_MEMORY_MANAGED, KVC_MANAGED_LEAST_BYTES, &memory),
              KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(kvc_device_allocate("emulated:0", KVC_MEMORY_MANAGED, KVC_MANAGED_LEAST_BYTES - 1, &memory),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("2097151 bytes of managed memory; at least 2097152")) << kvc_last_error();
  control()->fail(Failure::kAllocate, 1);
  EXPECT_EQ(kvc_device_allocate("emulated:0", KVC_MEMORY_MANAGED, KVC_MANAGED_LEAST_BYTES, &memory),
            KVC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(memory, nullptr);

  const uint64_t before = control()->bytes_in_use(0);
  DeviceMemory managed("emulated:0", KVC_MANAGED_LEAST_BYTES, KVC_MEMORY_MANAGED);
  EXPECT_EQ(control()->bytes_in_use(0), before) << "its pages are nobody's yet";
  std::memset(managed.data, 0, KVC_MANAGED_LEAST_BYTES);
  kvc_memory_handle handle;
  EXPECT_EQ(kvc_device_export_memory(managed.data, &handle), KVC_ERROR_UNSUPPORTED);
  kvc_storage_config c = small_config("emulated:0");
  kvc_storage* none = nullptr;
  c.memory_kind = KVC_MEMORY_MANAGED;
  EXPECT_EQ(kvc_storage_create(&c, &none), KVC_ERROR_UNSUPPORTED);
  c.memory_kind = 0, c.memory = managed.as<char>() + 4096, c.memory_size = KVC_MANAGED_LEAST_BYTES - 4096;
  EXPECT_EQ(kvc_storage_create(&c, &none), KVC_ERROR_UNSUPPORTED);
  EXPECT_TRUE(says("managed memory")) << kvc_last_error();
  EXPECT_EQ(none, nullptr);

  // Rows and pages may lie there.
  const StoragePtr s = make(small_config("emulated:0"));
  kvc_rows rows = {};
  rows.struct_size = sizeof rows;
  const int64_t slot = 3;
  std::fill_n(managed.as<float>(), kHeads * kDim, 4.5f);
  rows.k = rows.v = managed.data, rows.num_tokens = 1, rows.slots = &slot;
  ASSERT_EQ(kvc_storage_store(s.get(), &rows, nullptr), KVC_OK) << kvc_last_error();
  char* const page = managed.as<char>() + 4096;
  const kvc_block_copy copy = {0, 0};
  ASSERT_EQ(kvc_storage_swap_out(s.get(), &copy, 1, page, info_of(s.get()).block_bytes, 0, nullptr), KVC_OK);
  EXPECT_EQ(*reinterpret_cast<float*>(page + 3 * kDim * sizeof(float)), 4.5f);
}

TEST_F(GpuMemory, ATensorNamesItsDevice) {
  const auto device_of = [](const char* device, uint32_t kind) {
    kvc_storage_config c = small_config(device);
    c.memory_kind = kind;
    const StoragePtr s = make(c);
    void* tensor = nullptr;
    EXPECT_EQ(kvc_storage_export_dlpack(s.get(), KVC_PLANE_K, 0, &tensor), KVC_OK) << kvc_last_error();
    auto* managed = static_cast<DlManagedTensor*>(tensor);
    const std::pair found(managed->tensor.device_type, managed->tensor.device_id);
    managed->deleter(managed);
    return found;
  };
  EXPECT_EQ(device_of("cpu", 0), std::pair(1, 0));
  EXPECT_EQ(device_of("emulated:0", 0), std::pair(12, 0));
  EXPECT_EQ(device_of("emulated:1", 0), std::pair(12, 1));
  EXPECT_EQ(device_of("emulated:1", KVC_MEMORY_PINNED), std::pair(13, 0));
}

TEST_F(GpuMemory, AFractionOfWhatIsFreeBecomesBlocks) {
  kvc_storage_config c = small_config("emulated:1");
  uint64_t block = 0;
  ASSERT_EQ(kvc_storage_size(&c, &block, nullptr), KVC_OK);
  kvc_device_info device = {};
  device.struct_size = sizeof device;
  ASSERT_EQ(kvc_device_read_info("emulated:1", &device), KVC_OK);
  c.num_blocks = 0, c.memory_fraction = 0.01f;
  const StoragePtr s = make(c);
  const auto wanted =
      static_cast<uint64_t>(static_cast<double>(device.free_bytes) * static_cast<double>(0.01f));
  EXPECT_EQ(info_of(s.get()).num_blocks, wanted / block);

  kvc_storage* none = nullptr;
  for (const float fraction : {-1.0f, 1.5f, NAN}) {
    c.memory_fraction = fraction;
    EXPECT_EQ(kvc_storage_create(&c, &none), KVC_ERROR_INVALID_ARGUMENT) << fraction;
  }
  c.memory_fraction = 0.5f, c.num_blocks = 1;
  EXPECT_EQ(kvc_storage_create(&c, &none), KVC_ERROR_INVALID_ARGUMENT);
  c.num_blocks = 0, c.memory_fraction = 1e-9f;
  EXPECT_EQ(kvc_storage_create(&c, &none), KVC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(none, nullptr);
}

TEST_F(GpuMemory, HoldsAsManyLayersAsOneLaunchHas) {
  kvc_storage_config c = small_config("emulated");
  c.num_blocks = c.num_heads = c.block_size = 1, c.head_dim = 4, c.num_layers = 65536;
  kvc_storage* none = nullptr;
  EXPECT_EQ(kvc_storage_create(&c, &none), KVC_ERROR_UNSUPPORTED);
  EXPECT_TRUE(says("more than 65535 layers")) << kvc_last_error();
  EXPECT_EQ(none, nullptr);
  c.num_layers = 65535;
  const StoragePtr s = make(c);
  std::vector<float> rows(size_t{c.num_layers} * c.head_dim, 5.0f), back(rows.size());
  kvc_rows all = {};
  all.struct_size = sizeof all;
  const int64_t slot = 0;
  all.k = all.v = rows.data(), all.num_tokens = 1, all.num_layers = c.num_layers, all.slots = &slot;
  ASSERT_EQ(kvc_storage_store(s.get(), &all, nullptr), KVC_OK) << kvc_last_error();
  all.k = all.v = back.data();
  ASSERT_EQ(kvc_storage_gather(s.get(), &all, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(back, rows);
}

TEST_F(GpuMemory, AFractionForABadConfigurationIsRefused) {
  kvc_storage_config c = small_config("emulated");
  c.num_blocks = 0, c.memory_fraction = 0.5f, c.dtype = KVC_INT32;
  kvc_storage* s = nullptr;
  EXPECT_EQ(kvc_storage_create(&c, &s), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(s, nullptr);
}

TEST_F(GpuMemory, GrowsChunkByChunkBehindReservedAddresses) {
  constexpr uint64_t kChunk = uint64_t{64} << 20;
  const uint64_t before = control()->bytes_in_use(0);
  void* memory = nullptr;
  ASSERT_EQ(kvc_device_reserve_addresses("emulated", 5 * kChunk + 1, &memory), KVC_OK) << kvc_last_error();
  EXPECT_EQ(control()->bytes_in_use(0), before) << "addresses alone";
  kvc_storage_config c = small_config("emulated");
  c.layout = KVC_LAYOUT_BLHNC, c.memory = memory, c.memory_size = 5 * kChunk,
  c.num_blocks = 5 * kChunk / 4096;
  const StoragePtr s = make(c);
  ASSERT_EQ(kvc_device_map(memory, 0, 1), KVC_OK) << kvc_last_error();
  EXPECT_EQ(control()->bytes_in_use(0), before + kChunk);
  ASSERT_EQ(store(s.get(), 5, 1), KVC_OK);
  const uint64_t used = control()->bytes_in_use(0);  // workspace too
  const int64_t far = 3 * static_cast<int64_t>(kChunk / 4096) * kBlock;
  kvc_run run;
  size_t runs = 0;
  ASSERT_EQ(kvc_storage_runs(s.get(), static_cast<int32_t>(far / kBlock), nullptr, &run, 1, &runs), KVC_OK);

  control()->fail(Failure::kAllocate, 2);
  EXPECT_EQ(kvc_device_map(memory, kChunk, run.offset + run.bytes - kChunk), KVC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(control()->bytes_in_use(0), used) << "all of the request or nothing";
  ASSERT_EQ(kvc_device_map(memory, 0, run.offset + run.bytes), KVC_OK) << kvc_last_error();
  EXPECT_EQ(control()->bytes_in_use(0), used + 3 * kChunk) << "what was there stays";
  ASSERT_EQ(store(s.get(), far, 2), KVC_OK);
  EXPECT_EQ(key_at(s.get(), 5), 1.0f);
  EXPECT_EQ(key_at(s.get(), far), 2.0f);

  EXPECT_EQ(kvc_device_map(memory, 5 * kChunk, 2), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_device_map(memory, UINT64_MAX, 2), KVC_ERROR_INVALID_ARGUMENT);
  int nobodys;
  EXPECT_EQ(kvc_device_map(&nobodys, 0, 1), KVC_ERROR_NOT_FOUND);
  void* cpus = nullptr;
  EXPECT_EQ(kvc_device_reserve_addresses("cpu", 100, &cpus), KVC_ERROR_UNSUPPORTED);
  ASSERT_EQ(kvc_device_release(memory), KVC_OK);
  EXPECT_LT(control()->bytes_in_use(0), before + kChunk);
}

// Kernels of others work on views of it, of which the library knows nothing: here an upload stands for them.
TEST_F(GpuMemory, GoesBackAfterWhatTheDeviceStillDoes) {
  constexpr uint64_t kBytes = uint64_t{1} << 20;
  const std::vector<char> bytes(kBytes, 7);
  const EngineStream engine("emulated:1", 1);
  const auto allocate = [&](uint32_t kind) {
    void* memory = nullptr;
    EXPECT_EQ(kvc_device_allocate("emulated:1", kind, kBytes, &memory), KVC_OK) << kvc_last_error();
    return memory;
  };
  void* reserved = nullptr;
  ASSERT_EQ(kvc_device_reserve_addresses("emulated:1", kBytes, &reserved), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_device_map(reserved, 0, kBytes), KVC_OK) << kvc_last_error();
  for (void* memory : {reserved, allocate(KVC_MEMORY_DEVICE), allocate(KVC_MEMORY_PINNED)}) {
    const kvc_upload upload = {bytes.data(), memory, kBytes};
    kvc_table_update update = {};
    update.struct_size = sizeof update;
    update.uploads = &upload, update.num_uploads = 1;
    control()->hold(engine.handle);
    ASSERT_EQ(kvc_stream_update_tables(engine.stream.get(), &update), KVC_OK) << kvc_last_error();
    std::atomic<bool> released{false};
    std::thread other([&] {
      EXPECT_EQ(kvc_device_release(memory), KVC_OK) << kvc_last_error();
      released = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(released) << "the upload has not been done yet";
    control()->let_go(engine.handle);
    other.join();
    EXPECT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK) << kvc_last_error();
  }
}

TEST_F(GpuMemory, IsNotSharedWithinAProcessAndNotOfEveryKind) {
  DeviceMemory memory("emulated", 1000), pinned("emulated", 100, KVC_MEMORY_PINNED),
      host("cpu", 100, KVC_MEMORY_HOST);
  kvc_memory_handle handle;
  ASSERT_EQ(kvc_device_export_memory(memory.data, &handle), KVC_OK) << kvc_last_error();
  EXPECT_EQ(handle.bytes, 1000u);
  EXPECT_STREQ(handle.device, "emulated");
  void* imported = nullptr;
  EXPECT_EQ(kvc_device_import_memory("cpu", &handle, &imported), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_device_import_memory("emulated", &handle, &imported), KVC_ERROR_DEVICE)
      << "not into the same process";
  EXPECT_EQ(kvc_device_export_memory(pinned.data, &handle), KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(kvc_device_export_memory(host.data, &handle), KVC_ERROR_UNSUPPORTED);
}

struct Seen {
  int calls = 0;
  kvc_status answer = KVC_OK;
  void* stream = nullptr;
  kvc_view k = {}, v = {};
};

TEST_F(GpuMemory, AnotherKernelGetsViewsAndTheRuntimesStream) {
  const StoragePtr s = make(small_config("emulated"));
  const EngineStream engine;
  Seen seen;
  ASSERT_EQ(kvc_storage_set_attention(
                s.get(),
                [](void* data, const kvc_attention* a, const kvc_view* k, const kvc_view* v, void* stream) {
                  auto& out = *static_cast<Seen*>(data);
                  ++out.calls;
                  out.k = *k, out.v = *v, out.stream = stream;
                  if (out.answer == KVC_OK) static_cast<float*>(a->out)[0] = 123;
                  return out.answer;
                },
                &seen),
            KVC_OK);
  ASSERT_EQ(store(s.get(), 2 * kBlock, 4), KVC_OK);
  std::vector<float> q(kHeads * kDim, 1), out(q.size());
  const uint64_t offsets[] = {0, 1}, lens[] = {1};
  const int32_t table[] = {2};
  AttentionCall a;
  a.q = q.data(), a.out = out.data(), a.q_offsets = offsets, a.kv_lens = lens, a.block_tables = table;
  a.table_stride = 1, a.num_requests = 1, a.num_q_heads = kHeads;
  ASSERT_EQ(kvc_storage_attend(s.get(), &a, engine.stream.get()), KVC_OK) << kvc_last_error();
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.stream, engine.handle);
  EXPECT_EQ(out[0], 123.0f);
  kvc_view k;
  ASSERT_EQ(kvc_storage_view(s.get(), KVC_PLANE_K, 0, &k), KVC_OK);
  EXPECT_EQ(std::memcmp(&seen.k, &k, sizeof k), 0);
  EXPECT_EQ(seen.v.shape[3], int64_t{kDim});

  seen.answer = KVC_ERROR_UNSUPPORTED;  // then the library does it
  ASSERT_EQ(kvc_storage_attend(s.get(), &a, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(seen.calls, 2);
  EXPECT_EQ(out[0], -4.0f) << "one token's value";
  seen.answer = KVC_ERROR_LIMIT;
  EXPECT_EQ(kvc_storage_attend(s.get(), &a, nullptr), KVC_ERROR_LIMIT);
  ASSERT_EQ(kvc_storage_set_attention(s.get(), nullptr, nullptr), KVC_OK);
  ASSERT_EQ(kvc_storage_attend(s.get(), &a, nullptr), KVC_OK);
  EXPECT_EQ(seen.calls, 3);
}

}  // namespace
}  // namespace kvc::test
