// SPDX-License-Identifier: Apache-2.0
#include "hardening/scene.h"

#include <kvcache/external.h>
#include <kvcache/retention.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "api/device.h"
#include "api/dlpack.h"
#include "base/hash.h"
#include "calls.h"
#include "hardening/recording.h"
#include "tier_config.h"

namespace kvc::test {
namespace {

// Setting up must not fail: there would be nothing to test.
void require(kvc_status status, const char* what) {
  if (status == KVC_OK) return;
  std::fprintf(stderr, "%s: %s: %s\n", what, kvc_status_name(status), kvc_last_error());
  std::abort();
}

template <typename... Structs>
void set_sizes(Structs&... structs) {
  ((structs.struct_size = sizeof structs), ...);
}

}  // namespace

Scene::Scene(size_t prompt, const Scene* shared, size_t lane)
    : n(prompt), shares_(shared != nullptr), lane_(lane) {
  make_inputs();
  make_storage_inputs();
  require(kvc_workload_create(&workload_config, &workload), "a workload");
  require(kvc_sizer_create(&sizer_config, &sizer), "a sizer");
  require(kvc_sizer_decide(sizer, ++now, 20, &decision), "a decision");
  require(kvc_tier_create(&tier_config, &tier), "a tier");
  if (shared != nullptr) {
    m = shared->m, storage = shared->storage, channels = shared->channels, stream = shared->stream;
    event = shared->event;
    offload.bind(m, tier, &page_config);
    publisher.bind(m);
    scheduler.bind(m, tokens.data());
    metrics.bind(m, tier);
    return;
  }
  kvc_manager_config recorded = manager_config;
  recorded.record_bytes = record_bytes();
  require(kvc_manager_create(&recorded, &m), "a manager");
  offload.bind(m, tier, &page_config);
  publisher.bind(m);
  scheduler.bind(m, tokens.data());
  metrics.bind(m, tier);
  uint64_t filler;  // takes what the manager has put aside for its first requests
  require(kvc_manager_create_request(m, PROMPT(0, tokens.data(), n / 2, nullptr, 0), nullptr, &filler),
          "a request");
  require(kvc_storage_create(&storage_config, &storage), "a storage");
  kvc_storage_config config = storage_config;
  config.dtype = KVC_INT8, config.flags = KVC_STORAGE_CHANNEL_KEYS, config.device = nullptr;
  require(kvc_storage_create(&config, &channels), "a storage with channel keys");
  require(kvc_stream_create(nullptr, &stream), "a stream");
  require(kvc_stream_event_create(nullptr, &event), "an event");
}

Scene::~Scene() {
  clean();
  kvc_tier_destroy(tier);
  kvc_sizer_destroy(sizer);
  kvc_workload_destroy(workload);
  if (shares_) return;
  kvc_stream_event_destroy(event);
  kvc_stream_destroy(stream);
  kvc_storage_destroy(channels);
  kvc_storage_destroy(storage);
  expect_replay(m);
  kvc_manager_destroy(m);
}

void Scene::make_inputs() {
  set_sizes(manager_config, identity, request_config, limits, properties, stats, pool_info, lost_reuse,
            block_info, request_info, probe_info, quota_info, device_info, update, backend_info, storage_info,
            key_metrics, value_metrics, attention_info, estimate, found, rebuild, curve_config,
            workload_config, sizer_config, curve_info, workload_info, decision, log_info, replay_info,
            tier_config, tier_job, tier_stats, tier_counts, page_config, page_info);
  curve_config.sample_rate = 1, curve_config.max_blocks = 300;
  // Neighbouring lanes have equal prompts, so that they share; a prompt is longer than what is handed in.
  tokens.resize(2 * n + 256);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>((i * 7 + lane_ / 2) % 997);
  keys.reserve(n / 2), later_keys.reserve(n / 2);
  for (size_t i = 0; i < n / 2; ++i) {
    kvc_extra_key key = {2 * i, 1, {}};
    key.digest[0] = static_cast<uint8_t>(i);
    keys.push_back(key);
    key.first_token += n;
    later_keys.push_back(key);
  }
  manager_config.num_blocks = n / 2 + 256, manager_config.block_size = 2, manager_config.max_requests = 128;
  manager_config.max_request_tokens = 4 * n + 512, manager_config.event_capacity = 64,
  manager_config.seed = 1;
  manager_config.flags = KVC_MANAGER_ZERO_CROSS_NAMESPACE | KVC_MANAGER_HINTS;
  prompt_name = "prompt of lane " + std::to_string(lane_);
  identity.tenant = tokens.data(), identity.tenant_size = std::min<size_t>(65536, 4 * tokens.size());
  limits.max_frees = limits.max_requests = limits.max_admissions = 4, limits.max_tokens = n;
  limits.max_prompt_tokens = tokens.size(), limits.max_rows = 8, limits.row_stride = n;
  tier_config = test_tier_config("memory:?bytes=4KiB&threads=0&jobs=4", 64);
  threads_tier_config = tier_config;
  threads_tier_config.url = "memory:?bytes=4KiB&threads=2&jobs=4";
  for (kvc_tier_item& item : tier_items) item.data = pages, item.bytes = 64;
  tier_items[1].key[0] = 1;
  tier_job.items = tier_items, tier_job.num_items = 2, tier_job.kind = KVC_TIER_PUT;
  page_config.model = page_config.weights = "1", page_config.model_size = page_config.weights_size = 1;
  digests.resize(16 * n + 64);
  row.resize(kRoom), external.assign(kRoom, -1), slots.resize(kRoom), ids.resize(kRoom), copies.resize(kRoom);
  events.resize(256), runs.resize(1024), token_copies.resize(64);
  rebuild.copies = token_copies.data(), rebuild.copy_capacity = token_copies.size();
}

void Scene::make_storage_inputs() {
  set_sizes(storage_config, rows, attention, choice, format, model, query, rope);
  const auto block = static_cast<int32_t>(lane_ * kBlocksPerLane);
  storage_config.num_blocks = kLanes * kBlocksPerLane, storage_config.num_layers = 2;
  storage_config.num_heads = kHeads, storage_config.head_dim = kDim, storage_config.block_size = kBlockSize;
  storage_config.device = device(), storage_config.dtype = KVC_BFLOAT16;
  small_config = threads_config = storage_config;
  small_config.num_blocks = threads_config.num_blocks = 2;
  threads_config.num_threads = 3;
  blocks_in = {block, block + 1};
  token_move.source = block, token_move.destination = block + 1;
  token_copy.source = block;  // its own, as all that this thread reads and writes
  table = {block, block + 1};
  moves_in = {{block, block + 2}, {block + 1, block + 3}};
  swaps_out = {{block, 0}, {block + 1, 1}}, swaps_in = {{0, block + 2}, {1, block + 3}};
  parents = {-1, 0, 0, 1};
  positions = {0, 1, 2, 3};
  for (size_t t = 0; t < kTokens; ++t)
    slots_in.push_back(static_cast<int64_t>(static_cast<size_t>(block) * kBlockSize + t));
  const size_t elements = 2 * kTokens * kHeads * kDim;
  k.resize(elements), out.resize(elements), lse.resize(64), bits.resize(4096);
  for (size_t i = 0; i < elements; ++i) k[i] = static_cast<float>(i % 19) - 9;
  v = q = k;
  lses.assign(64, 0.5f);
  frequencies.assign(kDim / 2, 0.1), factors_out.resize(64);
  depths.resize(8);
  bounds.resize(storage_config.num_blocks * kHeads * 2 * kDim);

  rows.k = k.data(), rows.v = v.data(), rows.num_tokens = kTokens, rows.slots = slots_in.data();
  rows.num_layers = 1;
  out_rows = rows;
  out_rows.k = out.data(), out_rows.v = out.data() + elements / 2;
  rotated_rows = rows;
  rotated_rows.rope_table = k.data(), rotated_rows.rope_table_rows = kTokens;
  rope_rows.assign(kTokens, 1);
  rotated_rows.rope_rows = rope_rows.data();
  offsets[1] = 1;
  attention.q = q.data(), attention.out = out.data(), attention.lse = lse.data();
  attention.num_requests = 1, attention.q_offsets = offsets, attention.kv_lens = &length;
  attention.block_tables = table.data(), attention.table_stride = table.size();
  attention.num_q_heads = 2 * kHeads, attention.sink_logits = q.data();
  planned_attention = attention;
  planned_attention.launch = &launch;
  launch.struct_size = sizeof launch, launch.flags = KVC_LAUNCH_PLANNED;
  launch.plan = plan_memory, launch.plan_bytes = sizeof plan_memory;
  choice.bounds = bounds.data(), choice.top_k = 1;
  choice.block_mask = bits.data(), choice.block_mask_stride = 8;
  format.dtype = KVC_INT8;
  require(kvc_model_find("llama-3.1-8b", &model), "a model");
  named_model = model;
  set_sizes(read_manager, read_storage);
  std::strcpy(named_model.name, "hardening/model");
  query.model = &model;
  rope.x = out.data(), rope.num_tokens = 4, rope.num_heads = 1, rope.head_dim = kDim;
  rope.table = k.data(), rope.table_rows = kTokens;
}

void Scene::clean() {
  offload.clean();  // it holds blocks
  publisher.clean();
  scheduler.clean();
  index.clean();
  kvc_manager_set_prefix_caching(m, 1);  // a call may have switched it off for all
  // What a call's failure has left at zero is passed over by all of these.
  if (request != 0) kvc_manager_free_request(m, request);
  if (child != 0) kvc_manager_free_request(m, child);
  if (pin != 0) kvc_manager_unpin_prefix(m, pin);
  kvc_manager_unregister_prompt(m, prompt_name.c_str());
  if (!held.empty()) kvc_manager_release_blocks(m, held.data(), held.size());
  if (step != nullptr) {
    for (size_t i = 0; step->step_id != 0 && i < step->num_admissions; ++i)
      if (step->admitted[i] != 0) kvc_manager_free_request(m, step->admitted[i]);
    kvc_step_destroy(step);
  }
  if (curve) kvc_manager_close_curve(m, KVC_ALL_NAMESPACES);
  if (ns != 0) kvc_manager_close_namespace(m, ns);
  if (tensor != nullptr) {
    auto* made = static_cast<DlManagedTensor*>(tensor);
    made->deleter(made);
  }
  kvc_device_release(made_memory);
  if (registered) kvc_device_unregister(nullptr, host_memory);
  kvc_manager_destroy(made_manager);
  kvc_stream_synchronize(stream);
  kvc_manager_destroy(rebuilt_manager);
  kvc_storage_destroy(made_storage);
  kvc_stream_destroy(made_stream);
  kvc_stream_event_destroy(made_event);
  kvc_workload_destroy(made_workload);
  kvc_sizer_destroy(made_sizer);
  kvc_tier_destroy(made_tier);
  size_t ended = 0;
  do {
    if (kvc_tier_drain(tier) != KVC_OK || kvc_tier_poll(tier, completions, 4, &ended) != KVC_OK) break;
  } while (ended != 0);
  made_tier = nullptr;
  speculation.clean();
  held.clear();
  request = child = pin = ns = number = cursor = step_id = 0;
  count = 0, tensor = made_memory = handle = nullptr, registered = false, step = nullptr;
  made_manager = rebuilt_manager = nullptr, made_storage = nullptr, made_stream = nullptr,
  made_event = nullptr, made_workload = nullptr, made_sizer = nullptr, curve = false;
}

uint64_t Scene::digest() {
  DigestHash hash;
  uint64_t state = 0;
  require(kvc_manager_digest(m, &state), "the digest");
  hash.add(state);
  require(kvc_stream_synchronize(stream), "the stream");
  for (kvc_storage* s : {storage, channels}) {
    require(kvc_storage_properties(s, &storage_info), "properties");
    hash.add_bytes(storage_info.data, storage_info.slab_bytes);
  }
  return hash.value();
}

std::vector<uint64_t> Scene::outputs() const {
  std::vector<uint64_t> made = {request, child, pin, ns, number, cursor, count};
  for (const void* object :
       {tensor, made_memory, handle, static_cast<void*>(made_manager), static_cast<void*>(rebuilt_manager),
        static_cast<void*>(made_storage), static_cast<void*>(made_stream), static_cast<void*>(made_event),
        static_cast<void*>(made_workload), static_cast<void*>(made_sizer), static_cast<void*>(made_tier),
        static_cast<void*>(speculation.made), static_cast<void*>(offload.made),
        static_cast<void*>(publisher.made), static_cast<void*>(scheduler.made),
        static_cast<void*>(index.made)})
    made.push_back(reinterpret_cast<uintptr_t>(object));
  return made;
}

bool Scene::sound() {
  const kvc_status status = kvc_manager_check(m);
  if (status != KVC_OK) std::fprintf(stderr, "%s\n", kvc_last_error());
  return status == KVC_OK;
}

bool Scene::admit(size_t known, size_t committed, size_t num_keys) {
  const kvc_status status = kvc_manager_allocate_request(
      m, PROMPT(0, tokens.data(), known, keys.data(), num_keys), nullptr, &request, nullptr);
  if (status == KVC_ERROR_NO_SPACE || status == KVC_ERROR_AGAIN) return false;
  require(status, "an admission");
  if (committed != 0) require(kvc_manager_commit_tokens(m, request, committed), "a commit");
  return true;
}

bool Scene::wait(size_t known) {
  require(kvc_manager_create_request(m, PROMPT(0, tokens.data(), known, nullptr, 0), nullptr, &request),
          "a request");
  return true;
}

bool Scene::cache(size_t known) {
  if (!admit(known, known)) return false;
  require(kvc_manager_free_request(m, request), "freeing");
  request = 0;
  return true;
}

bool Scene::name(size_t known) {
  return kvc_manager_register_prompt(m, prompt_name.c_str(), PROMPT(0, tokens.data(), known, nullptr, 0),
                                     nullptr) == KVC_OK;
}

bool Scene::store() {
  require(kvc_tier_submit(tier, &tier_job, &number), "a job");
  return true;
}

bool Scene::fork() {
  if (!admit(21, 21)) return false;
  require(kvc_manager_fork_request(m, request, &child), "a fork");
  return kvc_manager_append_tokens(m, child, tokens.data(), 1) == KVC_OK;
}

bool Scene::hold(size_t blocks) {
  held.resize(blocks);
  if (kvc_manager_acquire_blocks(m, 0, held.data(), blocks) == KVC_OK) return true;
  held.clear();
  return false;
}

kvc_step* Scene::step_with_ids() {
  const auto array = [&](int32_t which) {
    require(kvc_step_view(step, which, &view), "an array");
    return view.data;
  };
  if (step->num_requests != 0)
    std::copy_n(tokens.begin(), n, static_cast<int32_t*>(array(KVC_STEP_EXTEND_TOKENS)));
  if (step->num_admissions != 0) {
    static_cast<uint64_t*>(array(KVC_STEP_ADMIT_OFFSETS))[1] = n;
    std::copy_n(tokens.begin(), n, static_cast<int32_t*>(array(KVC_STEP_ADMIT_TOKENS)));
  }
  return step;
}

bool Scene::step_of(size_t num_requests, size_t num_admissions) {
  if (num_requests != 0 && !admit(20, 20)) return false;
  require(kvc_step_create(m, &limits, &step), "a step");
  const auto array = [&](int32_t which) {
    require(kvc_step_view(step, which, &view), "an array");
    return view.data;
  };
  step->rows = nullptr;
  if (num_requests != 0) {
    step->num_requests = 1;
    *static_cast<uint64_t*>(array(KVC_STEP_REQUESTS)) = request;
    *static_cast<uint64_t*>(array(KVC_STEP_COMMITTED)) = 20;
    static_cast<uint64_t*>(array(KVC_STEP_EXTEND_OFFSETS))[1] = n;
  }
  step->num_admissions = num_admissions;
  return true;
}

}  // namespace kvc::test
