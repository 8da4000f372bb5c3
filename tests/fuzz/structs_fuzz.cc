// SPDX-License-Identifier: Apache-2.0
// Structs with any struct_size and any content. The first byte says which one, the rest is the struct, in
// memory of exactly the size that it claims. Its pointers become NULL or an array that is long enough for the
// counts, which are cut where the library has to believe them. An allocator refuses what is large.
#include <kvcache/attention.h>
#include <kvcache/manager.h>
#include <kvcache/model.h>
#include <kvcache/scheduler.h>
#include <kvcache/sizing.h>
#include <kvcache/step.h>
#include <kvcache/storage.h>

#include <cstddef>
#include <cstring>

#include "calls.h"
#include "fuzz/claimed.h"
#include "fuzz/speculation_structs.h"
#include "fuzz/target.h"

namespace {

using kvc_fuzz::array_;
using kvc_fuzz::Claimed;
using kvc_fuzz::kArray;

void* take(void*, size_t size, size_t alignment) {
  if (size > (8u << 20)) return nullptr;
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
void give_back(void*, void* memory, size_t, size_t) { std::free(memory); }
constexpr kvc_allocator kAllocator = {sizeof(kvc_allocator), nullptr, take, give_back};

struct Objects {
  kvc_manager* m = nullptr;
  kvc_storage* storages[2] = {};
  kvc_manager* scheduled = nullptr;  // by the scheduler
  kvc_scheduler* scheduler = nullptr;

  Objects() {
    kvc_manager_config config = {};
    config.struct_size = sizeof config;
    config.num_blocks = 64, config.block_size = 4, config.max_requests = 4, config.seed = 1;
    config.allocator = &kAllocator;
    FUZZ_REQUIRE(kvc_manager_create(&config, &m) == KVC_OK, kvc_last_error());
    const int32_t tokens[30] = {};
    uint64_t id = 0;
    FUZZ_REQUIRE(
        kvc_manager_allocate_request(m, PROMPT(0, tokens, 30, nullptr, 0), nullptr, &id, nullptr) == KVC_OK &&
            kvc_manager_commit_tokens(m, id, 30) == KVC_OK && kvc_manager_free_request(m, id) == KVC_OK,
        kvc_last_error());
    for (const uint32_t flags : {uint32_t{0}, uint32_t{KVC_STORAGE_CHANNEL_KEYS}}) {
      kvc_storage_config c = {};
      c.struct_size = sizeof c;
      c.num_blocks = 8, c.num_layers = 2, c.num_heads = 2, c.head_dim = 8, c.block_size = 4, c.flags = flags;
      c.dtype = flags != 0 ? KVC_INT8 : KVC_BFLOAT16;
      FUZZ_REQUIRE(kvc_storage_create(&c, &storages[flags != 0]) == KVC_OK, kvc_last_error());
    }
    kvc_scheduler_config c = {};
    c.struct_size = sizeof c;
    FUZZ_REQUIRE(kvc_manager_create(&config, &scheduled) == KVC_OK, kvc_last_error());
    c.manager = scheduled, c.max_running = 4, c.max_tokens = 16, c.max_tenants = 2, c.allocator = &kAllocator;
    FUZZ_REQUIRE(kvc_scheduler_create(&c, &scheduler) == KVC_OK, kvc_last_error());
  }
};

uint64_t digest(kvc_manager* m) {
  uint64_t value = 0;
  FUZZ_REQUIRE(kvc_manager_digest(m, &value) == KVC_OK, kvc_last_error());
  return value;
}

// A manager that stays as it is, rebuilt as well.
kvc_status manager_config(Claimed& s, kvc_manager* old) {
  using C = kvc_manager_config;
  s.set(&C::log, decltype(C::log){nullptr});
  s.set(&C::allocator, &kAllocator);
  s.point(&C::groups), s.point(&C::pools);
  s.set(&C::memory, static_cast<const kvc_memory_query*>(nullptr));
  s.cut(&C::num_groups, 40), s.cut(&C::num_pools, 40);
  kvc_manager* made = nullptr;
  const kvc_status status = kvc_manager_create(s.as<C>(), &made);
  kvc_manager_destroy(made);
  kvc_token_copy copies[64];
  kvc_rebuild work = {};
  work.struct_size = sizeof work, work.copies = copies, work.copy_capacity = 64;
  made = nullptr;
  if (kvc_manager_rebuild(old, s.as<C>(), &work, &made) != KVC_OK) return status;
  FUZZ_REQUIRE(kvc_manager_check(made) == KVC_OK, kvc_last_error());
  kvc_manager_destroy(made);
  return status;
}

kvc_status identity(Claimed& s, kvc_manager* m) {
  using C = kvc_namespace_config;
  s.point(&C::model), s.point(&C::adapter), s.point(&C::tenant);
  if (s.field(&C::model_size) != nullptr && s.as<C>()->model_size > kArray) s.set(&C::model_size, SIZE_MAX);
  uint64_t id = 0;
  const kvc_status status = kvc_manager_open_namespace(m, s.as<C>(), &id);
  if (id != 0) FUZZ_REQUIRE(kvc_manager_close_namespace(m, id) == KVC_OK, kvc_last_error());
  return status;
}

kvc_status request_config(Claimed& s, kvc_manager* m) {
  const int32_t tokens[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  uint64_t id = 0;
  const kvc_status status = kvc_manager_allocate_request(m, PROMPT(0, tokens, 9, nullptr, 0),
                                                         s.as<kvc_request_config>(), &id, nullptr);
  if (id != 0) FUZZ_REQUIRE(kvc_manager_free_request(m, id) == KVC_OK, kvc_last_error());
  return status;
}

kvc_status step_limits(Claimed& s, kvc_manager* m) {
  kvc_step* step = nullptr;
  const kvc_status status = kvc_step_create(m, s.as<kvc_step_limits>(), &step);
  kvc_step_destroy(step);
  return status;
}

kvc_status storage_config(Claimed& s) {
  using C = kvc_storage_config;
  s.set(&C::parallel_for, decltype(C::parallel_for){nullptr});
  s.set(&C::allocator, &kAllocator);
  s.set(&C::device, static_cast<const char*>(nullptr));
  s.cut(&C::num_threads, 2);
  s.point(&C::memory);
  s.cut(&C::memory_size, kArray);
  s.cut(&C::memory_kind, 1);
  uint64_t block_bytes = 0, slab_bytes = 0;
  const kvc_status status = kvc_storage_size(s.as<C>(), &block_bytes, &slab_bytes);
  kvc_storage* made = nullptr;
  if (slab_bytes <= (8u << 20)) kvc_storage_create(s.as<C>(), &made);
  kvc_storage_destroy(made);
  return status;
}

kvc_status rows(Claimed& s, kvc_storage* storage) {
  using R = kvc_rows;
  static float k[4096], v[4096], angles[64 * 8];  // no key has more than 8 elements
  s.point(&R::k, k), s.point(&R::v, v), s.point(&R::slots), s.point(&R::block_table);
  s.point(&R::rope_table, angles), s.point(&R::rope_rows), s.cut(&R::rope_table_rows, 64);
  s.cut(&R::num_tokens, 16);
  for (int64_t R::*stride : {&R::k_layer_stride, &R::k_token_stride, &R::k_head_stride, &R::v_layer_stride,
                             &R::v_token_stride, &R::v_head_stride}) {
    if (int64_t* const value = s.field(stride); value != nullptr) *value &= 63;
  }
  s.cut(&R::block_table_size, kArray / 4);
  const kvc_status status = kvc_storage_store(storage, s.as<R>(), nullptr);
  kvc_storage_gather(storage, s.as<R>(), nullptr);
  return status;
}

kvc_status attention(Claimed& s, kvc_storage* storage) {
  using A = kvc_attention;
  static float out[kArray];
  // How long q and the mask are is the caller's word: lengths are small, or beyond what the library accepts.
  static uint64_t lengths[8], mask_offsets[8];
  for (int i = 0; i < 8; ++i) {
    std::memcpy(&lengths[i], array_ + 8 * i, 8);
    mask_offsets[i] = lengths[i] % 1024;
    if (lengths[i] > 64 && lengths[i] <= uint64_t{1} << 41) lengths[i] %= 64;
  }
  s.point(&A::q), s.point(&A::q_offsets, lengths), s.point(&A::q_starts), s.point(&A::kv_lens, lengths + 1);
  s.point(&A::block_tables), s.point(&A::alibi_slopes), s.point(&A::mask), s.point(&A::mask_starts);
  s.point(&A::mask_offsets, mask_offsets), s.point(&A::block_mask), s.point(&A::sink_logits);
  static kvc_attention_launch launch;  // the CPU reads its flags alone
  std::memcpy(&launch, array_, sizeof launch);
  launch.struct_size = sizeof launch;
  s.set(&A::launch, static_cast<const kvc_attention_launch*>(&launch));
  // Of 64 queries and 4 heads; or refused, whatever their number.
  for (int64_t A::*stride :
       {&A::q_token_stride, &A::q_head_stride, &A::out_token_stride, &A::out_head_stride}) {
    int64_t* const value = s.field(stride);
    if (value != nullptr && *value >= 0 && *value < int64_t{1} << 60) *value &= 511;
  }
  s.set(&A::out, static_cast<void*>(out)), s.set(&A::lse, static_cast<float*>(nullptr));
  s.cut(&A::num_requests, 4), s.cut(&A::table_stride, 64), s.cut(&A::block_mask_stride, 64);
  s.cut(&A::num_q_heads, 4);
  kvc_attention_info plan = {};
  plan.struct_size = sizeof plan;
  const kvc_status status = kvc_storage_explain(storage, s.as<A>(), &plan);
  if (status == KVC_OK) kvc_storage_attend(storage, s.as<A>(), nullptr);
  return status;
}

kvc_status quant_format(Claimed& s) {
  static float in[64], scales[64], out[64];
  char codes[64];
  const kvc_status status = kvc_quantize(s.as<kvc_quant_format>(), in, 2, 16, codes, scales);
  if (status == KVC_OK) kvc_dequantize(s.as<kvc_quant_format>(), codes, scales, 2, 16, out);
  return status;
}

kvc_status model(Claimed& s) {
  double frequencies[4096], factor = 0;
  const uint32_t* const rope_dim = s.field(&kvc_model::rope_dim);
  const uint32_t* const head_dim = s.field(&kvc_model::head_dim);
  const uint32_t dim = rope_dim != nullptr && *rope_dim != 0 ? *rope_dim
                       : head_dim != nullptr                 ? *head_dim
                                                             : 0;
  const kvc_status status =
      kvc_model_rope(s.as<kvc_model>(), 0, 100, nullptr, frequencies, dim <= 8192 ? dim / 2 : 0, &factor);
  kvc_memory_query query = {};
  query.struct_size = sizeof query;
  query.model = s.as<kvc_model>();
  query.budget_bytes = uint64_t{1} << 40;
  kvc_memory_estimate estimate = {};
  estimate.struct_size = sizeof estimate;
  kvc_estimate_memory(&query, &estimate);
  return status;
}

kvc_status memory_query(Claimed& s) {
  static kvc_model known = [] {
    kvc_model found = {};
    found.struct_size = sizeof found;
    kvc_model_find("gemma-3-4b", &found);
    return found;
  }();
  s.set(&kvc_memory_query::model, static_cast<const kvc_model*>(&known));
  s.set(&kvc_memory_query::device, static_cast<const char*>(nullptr));
  kvc_memory_estimate estimate = {};
  estimate.struct_size = sizeof estimate;
  return kvc_estimate_memory(s.as<kvc_memory_query>(), &estimate);
}

kvc_status rope_rows(Claimed& s) {
  using R = kvc_rope_rows;
  static float x[kArray], table[kArray];
  static int64_t none[64] = {};
  s.set(&R::x, static_cast<void*>(x)), s.set(&R::table, static_cast<const float*>(table));
  s.set(&R::table_row, static_cast<const int64_t*>(none));
  s.cut(&R::num_tokens, 4), s.cut(&R::num_heads, 4), s.cut(&R::head_dim, 1024);
  if (int64_t* stride = s.field(&R::token_stride); stride != nullptr) *stride &= 4095;
  if (int64_t* stride = s.field(&R::head_stride); stride != nullptr) *stride &= 2047;
  return kvc_rope_apply(s.as<R>());
}

kvc_status curve_config(Claimed& s, kvc_manager* m) {
  const kvc_status status = kvc_manager_open_curve(m, KVC_ALL_NAMESPACES, s.as<kvc_curve_config>());
  if (status == KVC_OK) {
    const uint64_t sizes[2] = {0, 1};
    double rates[2];
    FUZZ_REQUIRE(kvc_manager_read_curve(m, KVC_ALL_NAMESPACES, sizes, 2, rates) == KVC_OK && rates[0] == 0,
                 kvc_last_error());
    FUZZ_REQUIRE(kvc_manager_close_curve(m, KVC_ALL_NAMESPACES) == KVC_OK, kvc_last_error());
  }
  return status;
}

kvc_status workload_config(Claimed& s) {
  s.set(&kvc_workload_config::allocator, &kAllocator);
  kvc_workload* workload = nullptr;
  const kvc_status status = kvc_workload_create(s.as<kvc_workload_config>(), &workload);
  double value = 0;
  for (uint64_t t = 1; status == KVC_OK && t < 5; ++t)
    FUZZ_REQUIRE(kvc_workload_record(workload, t * t, static_cast<double>(t)) == KVC_OK, kvc_last_error());
  if (status == KVC_OK)
    FUZZ_REQUIRE(kvc_workload_predict(workload, 9, &value) == KVC_OK && value - value == 0, "no number");
  kvc_workload_destroy(workload);
  return status;
}

kvc_status sizer_config(Claimed& s) {
  s.set(&kvc_sizer_config::allocator, &kAllocator);
  kvc_sizer* sizer = nullptr;
  const kvc_status status = kvc_sizer_create(s.as<kvc_sizer_config>(), &sizer);
  for (uint64_t t = 1; status == KVC_OK && t < 5; ++t)
    FUZZ_REQUIRE(kvc_sizer_decide(sizer, t, 100.0 * static_cast<double>(t), nullptr) == KVC_OK,
                 kvc_last_error());
  kvc_sizer_destroy(sizer);
  return status;
}

kvc_status scheduler_config(Claimed& s, kvc_manager* m) {
  using C = kvc_scheduler_config;
  s.set(&C::manager, m), s.set(&C::offload, static_cast<kvc_offload*>(nullptr));
  s.set(&C::on_pressure, decltype(C::on_pressure){nullptr}), s.set(&C::allocator, &kAllocator);
  kvc_scheduler* scheduler = nullptr;
  const kvc_status status = kvc_scheduler_create(s.as<C>(), &scheduler);
  kvc_plan plan = {};
  plan.struct_size = sizeof plan;
  if (status == KVC_OK)
    FUZZ_REQUIRE(kvc_scheduler_plan(scheduler, 0, &plan) == KVC_OK && plan.num_items == 0, kvc_last_error());
  kvc_scheduler_destroy(scheduler);
  return status;
}

constexpr int32_t kTokens[6] = {1, 2, 3, 4, 5, 6};
constexpr kvc_prompt kPrompt = {sizeof(kvc_prompt), 0, kTokens, 6, nullptr, 0};

kvc_status schedule_job(Claimed& s, kvc_scheduler* scheduler) {
  using J = kvc_schedule_job;
  s.set(&J::prompt, &kPrompt), s.set(&J::config, static_cast<const kvc_request_config*>(nullptr));
  s.point(&J::inputs), s.cut(&J::num_inputs, kArray / sizeof(kvc_encoder_input));
  s.set(&J::now_ns, uint64_t{0});
  uint64_t id = 0;
  const kvc_status status = kvc_scheduler_add(scheduler, s.as<J>(), &id);
  if (status == KVC_OK) FUZZ_REQUIRE(kvc_scheduler_abort(scheduler, id) == KVC_OK, kvc_last_error());
  return status;
}

// Of a plan of one item.
kvc_status plan_result(Claimed& s, kvc_scheduler* scheduler) {
  using R = kvc_plan_result;
  kvc_schedule_job job = {};
  job.struct_size = sizeof job, job.prompt = &kPrompt, job.max_new_tokens = 2;
  kvc_plan plan = {};
  plan.struct_size = sizeof plan;
  uint64_t id = 0;
  FUZZ_REQUIRE(kvc_scheduler_add(scheduler, &job, &id) == KVC_OK, kvc_last_error());
  FUZZ_REQUIRE(kvc_scheduler_plan(scheduler, 0, &plan) == KVC_OK && plan.num_items == 1, kvc_last_error());
  if (uint64_t* const plan_id = s.field(&R::plan_id); plan_id != nullptr && *plan_id == 0)
    *plan_id = plan.plan_id;
  kvc_ended_request ended[1];
  s.point(&R::token_offsets), s.point(&R::tokens), s.point(&R::stopped);
  s.set(&R::ended, static_cast<kvc_ended_request*>(ended));
  const kvc_status status = kvc_scheduler_finish(scheduler, s.as<R>());
  kvc_plan_result failed = {};
  failed.struct_size = sizeof failed, failed.plan_id = plan.plan_id, failed.num_items = 1;
  failed.flags = KVC_RESULT_FAILED;
  if (status != KVC_OK) FUZZ_REQUIRE(kvc_scheduler_finish(scheduler, &failed) == KVC_OK, kvc_last_error());
  const kvc_status left = kvc_scheduler_abort(scheduler, id);  // or the result has ended it
  FUZZ_REQUIRE(left == KVC_OK || left == KVC_ERROR_NOT_FOUND, kvc_last_error());
  FUZZ_REQUIRE(kvc_scheduler_plan(scheduler, 0, &plan) == KVC_OK && plan.num_items == 0, kvc_last_error());
  FUZZ_REQUIRE(kvc_scheduler_check(scheduler) == KVC_OK, kvc_last_error());
  return status;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Objects objects;
  if (size < 4) return 0;
  std::memset(array_, 0, sizeof array_);
  // What pointers lead to: the end of the input again, or zeros.
  if ((data[0] & 128) != 0)
    std::memcpy(array_, data + size / 2, size - size / 2 < kArray ? size - size / 2 : kArray);
  Claimed s(data + 1, size - 1);
  const uint64_t before = digest(objects.m);
  kvc_status status = KVC_OK;
  kvc_storage* const storage = objects.storages[data[0] >> 6 & 1];
  switch ((data[0] & 63) % 23) {
    case 0:
      status = manager_config(s, objects.m);
      break;
    case 1:
      status = identity(s, objects.m);
      break;
    case 2:
      status = request_config(s, objects.m);
      break;
    case 3:
      status = step_limits(s, objects.m);
      break;
    case 4:
      status = storage_config(s);
      break;
    case 5:
      status = rows(s, storage);
      break;
    case 6:
      status = attention(s, storage);
      break;
    case 7:
      status = quant_format(s);
      break;
    case 8:
      status = model(s);
      break;
    case 9:
      status = memory_query(s);
      break;
    case 10:
      status = rope_rows(s);
      break;
    case 11:
      status = curve_config(s, objects.m);
      break;
    case 12:
      status = workload_config(s);
      break;
    case 13:
      status = sizer_config(s);
      break;
    case 14:
      status = kvc_fuzz::drafts(s);
      break;
    case 15:
      status = kvc_fuzz::verdict(s);
      break;
    case 16:
      status = kvc_fuzz::probabilities(s);
      break;
    case 17:
      status = kvc_fuzz::draft_tables(s);
      break;
    case 18:
      status = kvc_fuzz::draft_config(s, &kAllocator);
      break;
    case 19:
      status = kvc_fuzz::acceptance(s);
      break;
    case 20:
      status = scheduler_config(s, objects.m);
      break;
    case 21:
      status = schedule_job(s, objects.scheduler);
      break;
    case 22:
      status = plan_result(s, objects.scheduler);
      break;
  }
  FUZZ_REQUIRE(status >= KVC_OK && status < KVC_ERROR_CORRUPT, kvc_last_error());
  if (status != KVC_OK) FUZZ_REQUIRE(digest(objects.m) == before, "a refused call has changed the manager");
  return 0;
}
