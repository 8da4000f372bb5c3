// SPDX-License-Identifier: Apache-2.0
// Rows of what needs no object; and the whole table.
#include <kvcache.h>

#include "attention_call.h"
#include "hardening/every_call.h"
#include "hardening/prompt_calls.h"

namespace kvc::test {

void add_other_calls(std::vector<Call>& calls) {
  calls.push_back(KVC_CALL(kvc_version));
  calls.push_back(KVC_CALL(kvc_build_info));
  calls.push_back(KVC_CALL(kvc_status_name, KVC_ERROR_BUSY));
  calls.push_back(KVC_CALL(kvc_last_error));
  calls.push_back(KVC_CALL(kvc_dtype_bits, KVC_BFLOAT16, &s.dtype_bits));
  calls.push_back(
      KVC_CALL(kvc_quantize, &s.format, s.k.data(), 4u, Scene::kDim, s.bits.data(), s.lse.data()));
  calls.push_back(
      KVC_CALL(kvc_dequantize, &s.format, s.bits.data(), s.lse.data(), 4u, Scene::kDim, s.out.data()));
  calls.push_back(KVC_CALL(merge_attention, s.k.data(), s.lses.data(), 2u, 3u, 8u, KVC_FLOAT32, s.out.data(),
                           s.lse.data())
                      .of("kvc_attention_merge")
                      .may_be_null({7}));
  calls.push_back(
      KVC_CALL(kvc_tree_mask, s.parents.data(), s.parents.size(), s.bits.data(), 3u, s.depths.data())
          .may_be_null({4}));
  calls.push_back(KVC_CALL(kvc_model_count));
  calls.push_back(KVC_CALL(kvc_model_get, 0u, &s.found));
  calls.push_back(KVC_CALL(kvc_model_find, "gemma-3-4b", &s.found));
  calls.push_back(KVC_CALL(kvc_model_register, &s.named_model));
  static constexpr char kConfig[] =
      R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "vocab_size": 100, "max_position_embeddings": 64})";
  calls.push_back(KVC_CALL(kvc_model_from_config, kConfig, sizeof kConfig - 1, &s.found).allocating());
  static constexpr char kPages[] =
      R"({"max_seq_len": 64, "transformer_block_count": 2, "attn_head_dim": 8, "paged_kv_cache":
      {"block_seq_stride": 4, "attention_head_count_kv": 2, "device_block_count": 8}})";
  calls.push_back(KVC_CALL(kvc_config_from_shortfin, kPages, sizeof kPages - 1, 0u, &s.read_manager,
                           &s.read_storage, &s.num_devices)
                      .allocating()
                      .may_be_null({3, 4, 5}));
  calls.push_back(KVC_CALL(kvc_estimate_memory, &s.query, &s.estimate));
  calls.push_back(KVC_CALL(kvc_model_rope, &s.model, 0u, 0u, nullptr, s.factors_out.data(),
                           s.factors_out.size(), &s.factor)
                      .may_be_null({3}));
  calls.push_back(KVC_CALL(kvc_rope_table, s.frequencies.data(), s.frequencies.size(), 1.0,
                           s.positions.data(), s.positions.size(), s.out.data())
                      .may_be_null({3}));
  calls.push_back(KVC_CALL(kvc_rope_apply, &s.rope));
}

const std::vector<Call>& every_call() {
  static const std::vector<Call> table = [] {
    std::vector<Call> calls;
    add_other_calls(calls);
    add_manager_calls(calls);
    add_prefix_calls(calls);
    add_retention_calls(calls);
    add_storage_calls(calls);
    add_sizing_calls(calls);
    add_checkpoint_calls(calls);
    add_tier_calls(calls);
    add_offload_calls(calls);
    add_publisher_calls(calls);
    add_index_calls(calls);
    add_scheduler_calls(calls);
    add_speculation_calls(calls);
    add_metrics_calls(calls);
    return calls;
  }();
  return table;
}

std::vector<std::string> functions_of_the_header() {
  return {
#define KVC_PLAIN_CALL(duration, function) #function,
#define KVC_LOGGED_CALL(number, duration, function, ...) #function,
#include "api/calls.def"
  };
}

}  // namespace kvc::test
