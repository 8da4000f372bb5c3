// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_json.h"

#include <cmath>

#include "cli/bench_subject.h"
#include "cli/machine.h"

namespace kvcli {

using Json = nlohmann::ordered_json;

std::string hardware(const BenchOptions& options) {
  if (options.device.empty()) return processor_name();
  const auto info = ask<kvc_device_info>(kvc_device_read_info, options.device.c_str());
  return std::string(info.name) + ", " + info.architecture;
}

Json setting_json(const BenchOptions& options, uint32_t layers) {
  const bool on_device = !options.device.empty();
  const bool attention = is_attention(options);
  Json json;
  json["bench"] = options.what;
  json["hardware"] = hardware(options);
  if (on_device) json["device"] = options.device;
  json["context"] = options.context;
  json["batch"] = options.batch;
  if (attention) json["heads"] = options.heads;
  if (attention) json["queries"] = options.queries;
  if (attention) json["query_dtype"] = options.query_dtype;
  if (attention && on_device) json["own_plans"] = options.own_plans;
  json["kv_heads"] = options.kv_heads;
  json["head_dim"] = options.head_dim;
  json["block_size"] = options.block_size;
  if (options.v_head_dim != 0) json["v_head_dim"] = options.v_head_dim;
  if (options.latent) json["latent"] = true;
  json["dtype"] = options.dtype;
  json["layout"] = options.layout;
  if (options.rope) json["rope"] = true;
  if (!on_device) json["threads"] = options.threads;
  json["layers"] = layers;
  return json;
}

Json check_json(const BenchCheck& check) {
  Json json;
  json["rows"] = check.rows;
  json["max_error"] = std::isfinite(check.max_error) ? Json(check.max_error) : Json("not finite");
  json["limit"] = check.limit;
  json["right"] = check.right();
  return json;
}

}  // namespace kvcli
