// SPDX-License-Identifier: Apache-2.0
// What calls need to be made: a manager, storages, a stream, valid arguments, and room for every result.
// Several scenes may share the objects of one (threads); each then has requests and blocks of its own.
// clean() gives back whatever the calls since the last one have made. A scene is used by one thread. Storages
// are of KVC_TEST_DEVICE, but for channel keys, which the CPU alone has; the CPU's if it is not set.
#pragma once
#include <kvcache/attention.h>
#include <kvcache/device.h>
#include <kvcache/manager.h>
#include <kvcache/model.h>
#include <kvcache/prefix.h>
#include <kvcache/quota.h>
#include <kvcache/record.h>
#include <kvcache/sizing.h>
#include <kvcache/step.h>
#include <kvcache/storage.h>
#include <kvcache/tier.h>

#include <memory>
#include <string>
#include <vector>

#include "hardening/index_scene.h"
#include "hardening/metrics_scene.h"
#include "hardening/offload_scene.h"
#include "hardening/publisher_scene.h"
#include "hardening/scheduler_scene.h"
#include "hardening/speculation_scene.h"

namespace kvc::test {

class Scene {
 public:
  static constexpr size_t kLanes = 16, kBlocksPerLane = 4, kHeads = 2, kDim = 16, kBlockSize = 16,
                          kTokens = 32;
  static constexpr size_t kRoom = 1 << 15;  // entries of the arrays below

  // Prompts have `length` tokens. `shared`: takes its objects, in a lane of its own.
  explicit Scene(size_t length, const Scene* shared = nullptr, size_t lane = 0);
  ~Scene();
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  void clean();
  uint64_t digest();                      // of the manager's state and of the storages' bytes
  bool sound();                           // kvc_manager_check
  std::vector<uint64_t> outputs() const;  // ids, counts and objects that calls have given

  // What calls begin with. False: no space, which only happens where managers are shared.
  bool admit(size_t known, size_t committed, size_t num_keys = 0);
  bool wait(size_t known);
  bool cache(size_t known);  // committed and freed
  bool fork();               // of an admitted request; pending copies come with it
  bool hold(size_t count);   // external blocks
  bool name(size_t known);   // a registered prompt
  bool store();              // a job of the tier that waits: `number`
  bool step_of(size_t num_requests, size_t num_admissions);  // with valid contents but for its ids
  kvc_step* step_with_ids();                                 // a step takes its ids, so each run sets them

  kvc_manager* m = nullptr;
  kvc_storage *storage = nullptr, *channels = nullptr;  // bf16; int8 with channel keys
  kvc_stream* stream = nullptr;
  kvc_stream_event* event = nullptr;
  const size_t n;

  // Inputs.
  std::vector<int32_t> tokens, external, blocks_in, table, parents;
  std::vector<kvc_extra_key> keys, later_keys;  // over the first n tokens; behind them
  std::vector<int64_t> slots_in, positions, rope_rows;
  std::string prompt_name;
  const int32_t unpublished[3] = {1, -1, 2};
  std::vector<float> k, v, q, lses;
  std::vector<double> frequencies;
  std::vector<kvc_block_copy> moves_in, swaps_out, swaps_in;
  uint64_t offsets[2] = {0, 1}, length = 20;
  kvc_manager_config manager_config = {}, read_manager = {};
  kvc_namespace_config identity = {};
  kvc_request_config request_config = {};
  kvc_step_limits limits = {};
  kvc_storage_config storage_config = {}, small_config = {}, threads_config = {}, read_storage = {};
  kvc_rows rows = {}, out_rows = {}, rotated_rows = {};
  kvc_attention attention = {}, planned_attention = {};
  kvc_attention_launch launch = {};
  kvc_block_choice choice = {};
  kvc_quant_format format = {};
  kvc_model model = {}, named_model = {};
  kvc_memory_query query = {};
  kvc_rope_rows rope = {};
  kvc_table_update update = {};
  kvc_curve_config curve_config = {};
  kvc_workload_config workload_config = {};
  kvc_sizer_config sizer_config = {};
  const uint64_t sizes[3] = {1, 20, 300};
  kvc_tier_config tier_config = {}, threads_tier_config = {};
  kvc_tier_job tier_job = {};
  kvc_tier_item tier_items[2] = {};
  kvc_page_config page_config = {};

  // Results.
  uint64_t request = 0, child = 0, pin = 0, ns = 0, number = 0, cursor = 0, step_id = 0;
  size_t count = 0;
  int32_t done = 0;
  uint32_t dtype_bits = 0, num_devices = 0;
  uint64_t trimmed = 0, trimmed_host = 0;
  double factor = 0;
  std::vector<double> factors_out;
  void *tensor = nullptr, *made_memory = nullptr, *handle = nullptr;
  kvc_memory_handle exported = {};
  kvc_backend_info backend_info = {};
  kvc_log_info log_info = {};
  kvc_replay_info replay_info = {};
  std::vector<unsigned char> log;
  alignas(4096) char host_memory[4096] = {};
  alignas(16) char pages[8192] = {};
  alignas(16) char plan_memory[1 << 14] = {};
  bool registered = false;
  kvc_manager *made_manager = nullptr, *rebuilt_manager = nullptr;
  kvc_storage* made_storage = nullptr;
  kvc_stream* made_stream = nullptr;
  kvc_stream_event* made_event = nullptr;
  kvc_step* step = nullptr;
  bool curve = false;  // clean() closes it
  kvc_workload *workload = nullptr, *made_workload = nullptr;
  kvc_sizer *sizer = nullptr, *made_sizer = nullptr;
  kvc_tier *tier = nullptr, *made_tier = nullptr;  // not shared
  kvc_tier_completion completions[4] = {};
  kvc_tier_stats tier_stats = {};
  kvc_tier_counts tier_counts = {};
  kvc_page_info page_info = {};
  std::vector<uint8_t> digests;
  uint64_t now = 0;
  double rates[3] = {}, forecast = 0;
  SpeculationScene speculation;
  OffloadScene offload;  // of `tier`
  PublisherScene publisher;
  SchedulerScene scheduler;
  IndexScene index;
  MetricsScene metrics;  // of `m` and `tier`
  kvc_curve_info curve_info = {};
  kvc_workload_info workload_info = {};
  kvc_sizing_decision decision = {};
  std::vector<int32_t> row, held, depths;
  char names[4096] = {};
  std::vector<int64_t> slots;
  std::vector<uint64_t> ids;
  std::vector<kvc_block_copy> copies;
  std::vector<kvc_token_copy> token_copies;
  kvc_token_copy token_copy = {0, 1, 1, 0, 4, 2};
  kvc_token_copy token_move = {0, 0, 0, 1, 3, 2};
  kvc_rebuild rebuild = {};
  std::vector<kvc_event> events;
  std::vector<kvc_run> runs;
  std::vector<float> out, lse;
  std::vector<uint16_t> bounds;
  std::vector<uint8_t> bits;
  kvc_properties properties = {};
  kvc_stats stats = {};
  kvc_pool_info pool_info = {};
  kvc_lost_reuse lost_reuse = {};
  kvc_block_info block_info = {};
  kvc_quota_info quota_info = {};
  kvc_request_info request_info = {};
  kvc_probe_info probe_info = {};
  kvc_view view = {};
  kvc_device_info device_info = {};
  kvc_storage_info storage_info = {};
  kvc_quant_metrics key_metrics = {}, value_metrics = {};
  kvc_attention_info attention_info = {};
  kvc_memory_estimate estimate = {};
  kvc_model found = {};

 private:
  void make_inputs();
  void make_storage_inputs();

  const bool shares_;
  const size_t lane_;
};

}  // namespace kvc::test
