// SPDX-License-Identifier: Apache-2.0
// The memory profile against an allocator that counts by itself, for objects of all kinds, at rest and at
// work.
#include <gtest/gtest.h>
#include <kvcache/attention.h>
#include <kvcache/manager.h>
#include <kvcache/metrics.h>
#include <kvcache/offload.h>
#include <kvcache/page.h>
#include <kvcache/scheduler.h>
#include <kvcache/storage.h>
#include <kvcache/tier.h>

#include <cstdlib>
#include <functional>
#include <numeric>
#include <vector>

#include "calls.h"
#include "tier_config.h"

namespace kvc::test {
namespace {

class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  ~Counted() { EXPECT_EQ(bytes, 0u); }

  uint64_t bytes = 0, peak = 0;
  size_t calls = 0, fail_at = SIZE_MAX;
  const kvc_allocator* get() { return &allocator_; }

 private:
  static void* allocate(void* data, size_t size, size_t alignment) {
    auto& self = *static_cast<Counted*>(data);
    if (self.calls++ == self.fail_at) return nullptr;
    void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    self.bytes += size;
    if (self.bytes > self.peak) self.peak = self.bytes;
    return memory;
  }
  static void release(void* data, void* memory, size_t size, size_t) {
    static_cast<Counted*>(data)->bytes -= size;
    std::free(memory);
  }
  const kvc_allocator allocator_ = {sizeof(kvc_allocator), this, allocate, release};
};

kvc_memory_profile profile_of(const kvc_metrics_source& source) {
  kvc_memory_profile profile = {};
  profile.struct_size = sizeof profile;
  EXPECT_EQ(kvc_metrics_read_memory(&source, 1, &profile), KVC_OK) << kvc_last_error();
  return profile;
}

template <typename Object>
kvc_metrics_source source_of(Object* kvc_metrics_source::*field, Object* object) {
  kvc_metrics_source source = {};
  source.struct_size = sizeof source;
  source.*field = object;
  return source;
}

void enable(const kvc_metrics_source& source) {
  EXPECT_EQ(kvc_metrics_enable_latencies(&source, 1), KVC_OK) << kvc_last_error();
}

kvc_manager* make_manager(const kvc_allocator* allocator, uint64_t record_bytes = 0) {
  kvc_manager_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = 512, config.block_size = 4, config.event_capacity = 256;
  config.allocator = allocator, config.record_bytes = record_bytes;
  kvc_manager* m = nullptr;
  EXPECT_EQ(kvc_manager_create(&config, &m), KVC_OK) << kvc_last_error();
  return m;
}

std::vector<int32_t> prompt_of(size_t size, int32_t first) {
  std::vector<int32_t> tokens(size);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(MemoryProfile, OfAManagerIsWhatItsAllocatorCounts) {
  for (const uint64_t record_bytes : {uint64_t{0}, uint64_t{1} << 20}) {
    Counted counted;
    kvc_manager* m = make_manager(counted.get(), record_bytes);
    const kvc_metrics_source source = source_of(&kvc_metrics_source::manager, m);
    const auto agree = [&] {
      const kvc_memory_profile profile = profile_of(source);
      EXPECT_EQ(profile.metadata_bytes, counted.bytes);
      EXPECT_EQ(profile.metadata_peak_bytes, counted.peak);
      EXPECT_EQ(profile.slab_bytes + profile.workspace_bytes + profile.tier_bytes + profile.offload_bytes +
                    profile.scheduler_bytes,
                0u);
    };
    agree();
    enable(source);
    agree();
    const uint64_t before = counted.bytes;
    std::vector<uint64_t> requests;
    for (int32_t i = 0; i < 60; ++i) {  // tables, tokens and tails outgrow what was reserved
      const std::vector<int32_t> tokens = prompt_of(1000 + static_cast<size_t>(i), i * 5000);
      uint64_t request = 0, cached = 0;
      if (kvc_manager_allocate_request(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                       &request, &cached) == KVC_OK)
        requests.push_back(request);
      uint64_t waiting = 0;
      EXPECT_EQ(kvc_manager_create_request(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                           &waiting),
                KVC_OK);
      requests.push_back(waiting);
    }
    agree();
    EXPECT_GT(counted.bytes, before);
    for (const uint64_t request : requests) EXPECT_EQ(kvc_manager_free_request(m, request), KVC_OK);
    agree();
    kvc_manager_destroy(m);
  }
}

TEST(MemoryProfile, OfAStorageIsItsSlabAndItsWorkspace) {
  for (const uint32_t flags : {uint32_t{0}, uint32_t{KVC_STORAGE_CHANNEL_KEYS}}) {
    Counted counted;
    kvc_storage_config config = {};
    config.struct_size = sizeof config;
    config.num_blocks = 64, config.num_layers = 2, config.num_heads = 2, config.head_dim = 16;
    config.dtype = KVC_INT8, config.flags = flags, config.allocator = counted.get();
    kvc_storage* s = nullptr;
    ASSERT_EQ(kvc_storage_create(&config, &s), KVC_OK) << kvc_last_error();
    kvc_storage_info info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(kvc_storage_properties(s, &info), KVC_OK);
    const kvc_metrics_source source = source_of(&kvc_metrics_source::storage, s);
    const auto agree = [&] {
      const kvc_memory_profile profile = profile_of(source);
      EXPECT_EQ(profile.slab_bytes, info.slab_bytes);
      EXPECT_EQ(profile.slab_bytes + profile.workspace_bytes, counted.bytes);
      EXPECT_EQ(profile.slab_peak_bytes + profile.workspace_peak_bytes, counted.peak);
      EXPECT_GE(profile.workspace_bytes, info.residual_bytes);
    };
    agree();
    enable(source);
    agree();
    const uint64_t before = counted.bytes;
    std::vector<float> q(2 * 16, 1), out(q.size());
    const int32_t table[] = {0, 1, 2, 3};
    const uint64_t length = 64, offsets[] = {0, 1};
    kvc_attention attention = {};
    attention.struct_size = sizeof attention;
    attention.q = q.data(), attention.out = out.data(), attention.num_q_heads = 2;
    attention.num_requests = 1, attention.q_offsets = offsets, attention.kv_lens = &length;
    attention.block_tables = table, attention.table_stride = 4;
    ASSERT_EQ(kvc_storage_attend(s, &attention, nullptr), KVC_OK) << kvc_last_error();
    agree();
    EXPECT_GT(counted.bytes, before) << "the call has left no scratch memory";
    uint64_t device = 0, host = 0;
    ASSERT_EQ(kvc_storage_trim(s, &device, &host), KVC_OK);
    EXPECT_EQ(counted.bytes, before);
    agree();
    kvc_storage_destroy(s);
  }
}

TEST(MemoryProfile, OfExternalMemoryIsTheCallers) {
  alignas(64) static char slab[1 << 16];
  kvc_storage_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = 2, config.num_layers = 1, config.num_heads = 1, config.head_dim = 16;
  config.memory = slab, config.memory_size = sizeof slab;
  kvc_storage* s = nullptr;
  ASSERT_EQ(kvc_storage_create(&config, &s), KVC_OK) << kvc_last_error();
  EXPECT_EQ(profile_of(source_of(&kvc_metrics_source::storage, s)).slab_bytes, 0u);
  kvc_storage_destroy(s);
}

TEST(MemoryProfile, OfTiersOffloadsAndSchedulersIsWhatTheirAllocatorsCount) {
  Counted of_tier, of_offload, of_scheduler;
  kvc_manager* m = make_manager(nullptr);
  kvc_tier_config tier_config = test_tier_config("memory:?bytes=256KiB&threads=0", 64);
  tier_config.allocator = of_tier.get();
  kvc_tier* tier = nullptr;
  ASSERT_EQ(kvc_tier_create(&tier_config, &tier), KVC_OK) << kvc_last_error();
  kvc_page_config pages = {};
  pages.struct_size = sizeof pages, pages.model = "m", pages.model_size = 1;
  const uint64_t page_bytes = 64;
  kvc_offload_config offload_config = {};
  offload_config.struct_size = sizeof offload_config;
  offload_config.manager = m, offload_config.page_bytes = &page_bytes;
  offload_config.tiers = &tier, offload_config.num_tiers = 1, offload_config.pages = &pages;
  offload_config.policy = KVC_OFFLOAD_WRITE_THROUGH, offload_config.allocator = of_offload.get();
  kvc_offload* offload = nullptr;
  ASSERT_EQ(kvc_offload_create(&offload_config, &offload), KVC_OK) << kvc_last_error();
  kvc_scheduler_config scheduler_config = {};
  scheduler_config.struct_size = sizeof scheduler_config;
  scheduler_config.manager = m, scheduler_config.allocator = of_scheduler.get();
  kvc_scheduler* scheduler = nullptr;
  ASSERT_EQ(kvc_scheduler_create(&scheduler_config, &scheduler), KVC_OK) << kvc_last_error();

  const kvc_metrics_source sources[] = {source_of(&kvc_metrics_source::tier, tier),
                                        source_of(&kvc_metrics_source::offload, offload),
                                        source_of(&kvc_metrics_source::scheduler, scheduler)};
  const auto agree = [&] {
    kvc_memory_profile profile = {};
    profile.struct_size = sizeof profile;
    ASSERT_EQ(kvc_metrics_read_memory(sources, 3, &profile), KVC_OK);
    EXPECT_EQ(profile.tier_bytes, of_tier.bytes);
    EXPECT_EQ(profile.tier_peak_bytes, of_tier.peak);
    EXPECT_EQ(profile.offload_bytes, of_offload.bytes);
    EXPECT_EQ(profile.offload_peak_bytes, of_offload.peak);
    EXPECT_EQ(profile.scheduler_bytes, of_scheduler.bytes);
    EXPECT_EQ(profile.scheduler_peak_bytes, of_scheduler.peak);
    EXPECT_GE(profile.tier_bytes, 256u << 10);
  };
  agree();
  ASSERT_EQ(kvc_metrics_enable_latencies(sources, 3), KVC_OK);
  agree();
  const std::vector<int32_t> tokens = prompt_of(50, 1);
  const kvc_encoder_input input = {3, 5};
  kvc_schedule_job job = {};
  job.struct_size = sizeof job;
  const kvc_prompt prompt = {sizeof(kvc_prompt), 0, tokens.data(), tokens.size(), nullptr, 0};
  job.prompt = &prompt, job.max_new_tokens = 1, job.inputs = &input, job.num_inputs = 1;
  uint64_t request = 0;
  ASSERT_EQ(kvc_scheduler_add(scheduler, &job, &request), KVC_OK) << kvc_last_error();
  agree();
  ASSERT_EQ(kvc_scheduler_abort(scheduler, request), KVC_OK);
  agree();
  kvc_scheduler_destroy(scheduler);
  kvc_offload_destroy(offload);
  kvc_tier_destroy(tier);
  kvc_manager_destroy(m);
}

TEST(MemoryProfile, AddsSourcesUp) {
  kvc_manager *a = make_manager(nullptr), *b = make_manager(nullptr);
  const kvc_metrics_source sources[] = {source_of(&kvc_metrics_source::manager, a),
                                        source_of(&kvc_metrics_source::manager, b)};
  kvc_memory_profile both = {};
  both.struct_size = sizeof both;
  ASSERT_EQ(kvc_metrics_read_memory(sources, 2, &both), KVC_OK);
  EXPECT_EQ(both.metadata_bytes,
            profile_of(sources[0]).metadata_bytes + profile_of(sources[1]).metadata_bytes);
  ASSERT_EQ(kvc_metrics_read_memory(nullptr, 0, &both), KVC_OK);
  EXPECT_EQ(both.metadata_bytes, 0u);
  kvc_manager_destroy(a);
  kvc_manager_destroy(b);
}

TEST(EnableLatencies, WithoutMemoryEnablesNothing) {
  Counted good, bad;
  kvc_manager *a = make_manager(good.get()), *b = make_manager(bad.get());
  const kvc_metrics_source sources[] = {source_of(&kvc_metrics_source::manager, a),
                                        source_of(&kvc_metrics_source::manager, b)};
  bad.fail_at = bad.calls;
  const uint64_t before = good.bytes;
  EXPECT_EQ(kvc_metrics_enable_latencies(sources, 2), KVC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(good.bytes, before);
  kvc_latency latency = {};
  latency.struct_size = sizeof latency;
  for (const kvc_metrics_source& source : sources)
    EXPECT_EQ(kvc_metrics_read_latency(&source, KVC_LATENCY_STEP, &latency), KVC_ERROR_BUSY);
  EXPECT_EQ(kvc_metrics_enable_latencies(sources, 2), KVC_OK);
  kvc_manager_destroy(a);
  kvc_manager_destroy(b);
}

}  // namespace
}  // namespace kvc::test
