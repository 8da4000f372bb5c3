// SPDX-License-Identifier: Apache-2.0
// Structs that may grow, at every size from 0 to beyond 4096, placed so that the byte behind them cannot be
// touched: small and huge sizes are refused, unknown bytes of an input must be 0, and an output is written up
// to its size and not further.
#include <gtest/gtest.h>
#include <kvcache/attention.h>
#include <kvcache/device.h>
#include <kvcache/model.h>
#include <kvcache/prefix.h>
#include <kvcache/sizing.h>
#include <kvcache/step.h>
#include <kvcache/storage.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "api/create.h"
#include "api/guard.h"
#include "calls.h"

namespace kvc {
namespace {

// Memory whose end is followed by a page that nobody may touch.
class GuardedEnd {
 public:
  GuardedEnd() {
    page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_ = (8192 + page_ - 1) / page_ * page_;
    memory_ = static_cast<char*>(
        mmap(nullptr, size_ + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(static_cast<void*>(memory_), MAP_FAILED);
    EXPECT_EQ(mprotect(memory_ + size_, page_, PROT_NONE), 0);
  }
  ~GuardedEnd() { munmap(memory_, size_ + page_); }
  GuardedEnd(const GuardedEnd&) = delete;
  GuardedEnd& operator=(const GuardedEnd&) = delete;
  // `size` bytes before the guard, at least the struct_size itself, filled with `fill`.
  char* at(size_t size, int fill) {
    if (size < sizeof(size_t)) size = sizeof(size_t);
    std::memset(memory_, fill, size_);
    return memory_ + size_ - size;
  }

 private:
  size_t page_, size_;
  char* memory_;
};

template <typename T>
void expect_reads_by_size(const char* name) {
  GuardedEnd end;
  for (size_t size = 0; size <= 4200; ++size) {
    char* bytes = end.at(size, 0);
    const bool valid = size >= kFirstSize<T> && size <= 4096;
    T out;
    ASSERT_EQ(read_struct(bytes, size, &out), valid ? KVC_OK : KVC_ERROR_INVALID_ARGUMENT)
        << name << " of " << size;
    if (!valid) {
      ASSERT_NE(std::strstr(last_error(), name), nullptr) << last_error();
      continue;
    }
    ASSERT_EQ(out.struct_size, sizeof(T));
    if (size > sizeof(T)) {
      for (const size_t unknown : {sizeof(T), size - 1}) {
        bytes[unknown] = 1;
        ASSERT_EQ(read_struct(bytes, size, &out), KVC_ERROR_UNSUPPORTED) << name << " of " << size;
        bytes[unknown] = 0;
      }
    }
  }
}

TEST(StructSize, InputsAreReadBySize) {
  expect_reads_by_size<kvc_allocator>("kvc_allocator");
  expect_reads_by_size<kvc_pool_config>("kvc_pool_config");
  expect_reads_by_size<kvc_group_config>("kvc_group_config");
  expect_reads_by_size<kvc_manager_config>("kvc_manager_config");
  expect_reads_by_size<kvc_namespace_config>("kvc_namespace_config");
  expect_reads_by_size<kvc_request_config>("kvc_request_config");
  expect_reads_by_size<kvc_step_limits>("kvc_step_limits");
  expect_reads_by_size<kvc_step>("kvc_step");
  expect_reads_by_size<kvc_storage_config>("kvc_storage_config");
  expect_reads_by_size<kvc_rows>("kvc_rows");
  expect_reads_by_size<kvc_attention>("kvc_attention");
  expect_reads_by_size<kvc_model>("kvc_model");
  expect_reads_by_size<kvc_storage_config>("kvc_storage_config");
  expect_reads_by_size<kvc_quant_format>("kvc_quant_format");
  expect_reads_by_size<kvc_memory_query>("kvc_memory_query");
  expect_reads_by_size<kvc_storage_config>("kvc_storage_config");
  expect_reads_by_size<kvc_rows>("kvc_rows");
  expect_reads_by_size<kvc_attention>("kvc_attention");
  expect_reads_by_size<kvc_block_choice>("kvc_block_choice");
  expect_reads_by_size<kvc_rope_rows>("kvc_rope_rows");
  expect_reads_by_size<kvc_curve_config>("kvc_curve_config");
  expect_reads_by_size<kvc_workload_config>("kvc_workload_config");
  expect_reads_by_size<kvc_sizer_config>("kvc_sizer_config");
}

class OutputSize : public ::testing::Test {
 protected:
  void SetUp() override {
    kvc_manager_config config = {};
    config.struct_size = sizeof config;
    config.num_blocks = 8;
    config.max_requests = 2;
    config.seed = 1;
    ASSERT_EQ(create_manager(&config, default_env(), &m_), KVC_OK);
  }
  void TearDown() override { kvc_manager_destroy(m_); }

  // Calls fill(struct) at every size. Known bytes are those of a call at the plain size, the rest of the
  // struct is 0.
  template <typename T, typename Fill>
  void expect_written_by_size(Fill fill) {
    T plain;
    std::memset(static_cast<void*>(&plain), 0xee, sizeof plain);
    plain.struct_size = sizeof plain;
    ASSERT_EQ(fill(&plain), KVC_OK) << last_error();
    GuardedEnd end;
    for (size_t size = 0; size <= 4200; ++size) {
      char* bytes = end.at(size, 0xee);
      std::memcpy(bytes, &size, sizeof size);
      const bool valid = size >= kFirstSize<T> && size <= 4096;
      T* out = reinterpret_cast<T*>(bytes);
      if (reinterpret_cast<uintptr_t>(bytes) % alignof(T) != 0) continue;
      ASSERT_EQ(fill(out), valid ? KVC_OK : KVC_ERROR_INVALID_ARGUMENT) << size;
      for (size_t i = sizeof(size_t); i < size; ++i) {
        const auto byte = static_cast<unsigned char>(bytes[i]);
        const int expected = !valid ? 0xee : i < sizeof(T) ? reinterpret_cast<unsigned char*>(&plain)[i] : 0;
        ASSERT_EQ(byte, expected) << "byte " << i << " of " << size;
      }
      size_t kept;
      std::memcpy(&kept, bytes, sizeof kept);
      ASSERT_EQ(kept, size) << "struct_size is the caller's";
    }
  }

  kvc_manager* m_ = nullptr;
};

TEST_F(OutputSize, EveryOutputIsWrittenBySize) {
  uint64_t request;
  const int32_t tokens[3] = {1, 2, 3};
  ASSERT_EQ(kvc_manager_allocate_request(m_, PROMPT(0, tokens, 3, nullptr, 0), nullptr, &request, nullptr),
            KVC_OK);
  expect_written_by_size<kvc_properties>([&](auto* out) { return kvc_manager_properties(m_, out); });
  expect_written_by_size<kvc_stats>([&](auto* out) { return kvc_manager_read_stats(m_, out); });
  expect_written_by_size<kvc_pool_info>([&](auto* out) { return kvc_manager_pool_info(m_, 0, out); });
  expect_written_by_size<kvc_lost_reuse>([&](auto* out) { return kvc_manager_lost_reuse(m_, 0, out); });
  expect_written_by_size<kvc_block_info>([&](auto* out) { return kvc_manager_block_info(m_, 0, out); });
  expect_written_by_size<kvc_request_info>(
      [&](auto* out) { return kvc_manager_request_info(m_, request, out); });
  expect_written_by_size<kvc_probe_info>(
      [&](auto* out) { return kvc_manager_probe(m_, PROMPT(0, tokens, 3, nullptr, 0), out); });
  expect_written_by_size<kvc_device_info>([&](auto* out) {
    const kvc_status status = kvc_device_read_info(nullptr, out);
    if (status == KVC_OK) out->free_bytes = 0;  // changes all the time
    return status;
  });
  expect_written_by_size<kvc_backend_info>([&](auto* out) { return kvc_backend_properties(nullptr, out); });
  kvc_storage_config storage_config = {};
  storage_config.struct_size = sizeof storage_config;
  storage_config.num_blocks = storage_config.num_layers = storage_config.num_heads = 1;
  storage_config.head_dim = 8;
  kvc_storage* storage = nullptr;
  ASSERT_EQ(kvc_storage_create(&storage_config, &storage), KVC_OK);
  expect_written_by_size<kvc_storage_info>([&](auto* out) { return kvc_storage_properties(storage, out); });
  kvc_storage_destroy(storage);
  expect_written_by_size<kvc_model>([&](auto* out) { return kvc_model_find("gemma-3-4b", out); });
  const std::string config = R"({"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34})";
  expect_written_by_size<kvc_model>(
      [&](auto* out) { return kvc_model_from_config(config.data(), config.size(), out); });
  kvc_model model = {};
  model.struct_size = sizeof model;
  ASSERT_EQ(kvc_model_find("gemma-3-4b", &model), KVC_OK);
  kvc_memory_query query = {};
  query.struct_size = sizeof query;
  query.model = &model;
  query.budget_bytes = 1 << 30;
  expect_written_by_size<kvc_memory_estimate>([&](auto* out) { return kvc_estimate_memory(&query, out); });
}

TEST_F(OutputSize, EveryOutputOfSizingIsWrittenBySize) {
  const auto curve = [] {
    kvc_curve_config config = {};
    config.struct_size = sizeof config;
    return config;
  }();
  ASSERT_EQ(kvc_manager_open_curve(m_, KVC_ALL_NAMESPACES, &curve), KVC_OK);
  expect_written_by_size<kvc_curve_info>(
      [&](auto* out) { return kvc_manager_curve_info(m_, KVC_ALL_NAMESPACES, out); });
  kvc_workload_config config = {};
  config.struct_size = sizeof config;
  kvc_workload* workload = nullptr;
  ASSERT_EQ(kvc_workload_create(&config, &workload), KVC_OK);
  ASSERT_EQ(kvc_workload_record(workload, 1, 2), KVC_OK);
  expect_written_by_size<kvc_workload_info>([&](auto* out) { return kvc_workload_read_info(workload, out); });
  kvc_workload_destroy(workload);
  kvc_sizer_config sizing = {};
  sizing.struct_size = sizeof sizing;
  kvc_sizer* sizer = nullptr;
  ASSERT_EQ(kvc_sizer_create(&sizing, &sizer), KVC_OK);
  ASSERT_EQ(kvc_sizer_decide(sizer, 1, 2, nullptr), KVC_OK);
  expect_written_by_size<kvc_sizing_decision>([&](auto* out) { return kvc_sizer_read_log(sizer, 0, out); });
  kvc_sizer_destroy(sizer);
}

TEST_F(OutputSize, EveryOutputOfAStorageIsWrittenBySize) {
  kvc_storage_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = config.num_layers = config.num_heads = 1;
  config.head_dim = 64;
  kvc_storage* s;
  ASSERT_EQ(kvc_storage_create(&config, &s), KVC_OK) << last_error();
  expect_written_by_size<kvc_storage_info>([&](auto* out) { return kvc_storage_properties(s, out); });
  kvc_rows rows = {};
  rows.struct_size = sizeof rows;
  expect_written_by_size<kvc_quant_metrics>(
      [&](auto* out) { return kvc_storage_measure(s, &rows, out, nullptr); });
  kvc_attention attention = {};
  attention.struct_size = sizeof attention;
  attention.num_q_heads = 1;
  expect_written_by_size<kvc_attention_info>(
      [&](auto* out) { return kvc_storage_explain(s, &attention, out); });
  kvc_storage_destroy(s);
}

TEST(Guard, ExceptionsBecomeInternalErrors) {
  EXPECT_EQ(guarded([]() -> kvc_status { throw std::runtime_error("the reason"); }), KVC_ERROR_INTERNAL);
  EXPECT_NE(std::strstr(last_error(), "the reason"), nullptr);
  EXPECT_EQ(guarded([]() -> kvc_status { throw 42; }), KVC_ERROR_INTERNAL);
  EXPECT_EQ(guarded([]() -> kvc_status { throw std::bad_alloc(); }), KVC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(guarded([]() -> kvc_status { return KVC_ERROR_BUSY; }), KVC_ERROR_BUSY);
}

TEST(Guard, AFailedAllocationIsNoDefectOfTheLibrary) {
  EXPECT_EQ(guarded([]() -> kvc_status { throw std::bad_alloc(); }), KVC_ERROR_OUT_OF_MEMORY);
}

TEST(Guard, AMissingManagerIsAnInvalidArgument) {
  bool called = false;
  EXPECT_EQ(on_manager(nullptr,
                       [&](Manager&) {
                         called = true;
                         return kvc_status{KVC_OK};
                       }),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace kvc
