// SPDX-License-Identifier: Apache-2.0
// The JSON keys are an interface: add keys, do not rename them.
#include "cli/estimate.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/dtype.h"
#include "cli/library.h"
#include "cli/table.h"

namespace kvcli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxConfigBytes = size_t{16} << 20;

/// `path` names a config.json, or the folder that it lies in.
kvc_model read_config(const std::string& path) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::string source = folder ? (std::filesystem::path(path) / "config.json").string() : path;
  std::ifstream file(source, std::ios::binary);
  if (!file) throw InputError(source + ": " + std::strerror(errno) + "; give a readable config.json");
  std::string text;
  char part[4096];
  while (file.read(part, sizeof part), file.gcount() > 0) {
    text.append(part, static_cast<size_t>(file.gcount()));
    if (text.size() > kMaxConfigBytes)
      throw InputError(source + ": longer than 16 MiB; give the config.json of a model");
  }
  auto model = make<kvc_model>();
  const kvc_status status = kvc_model_from_config(text.data(), text.size(), &model);
  if (status == KVC_ERROR_INVALID_ARGUMENT) throw InputError(source + ": " + kvc_last_error());
  check(status);
  return model;
}

/// The rules of kvc_estimate_memory for types, scales and checkpoints, in the words of the command line.
void check_storing(const EstimateOptions& options, const kvc_model& model) {
  const std::string& dtype = options.dtype;
  const bool integer = dtype == "int8" || dtype == "int4";
  const auto refuse = [](bool wrong, const std::string& text) {
    if (wrong) throw InputError(text);
  };
  const std::string group = "--scale-group is " + std::to_string(options.scale_group);
  const std::string tokens = "--channel-tokens is " + std::to_string(options.channel_tokens);
  if (!integer && dtype != "fp8") {
    const std::string no_scales =
        ", but " + dtype + " has no scales; give --dtype int8, int4 or fp8, or leave it out";
    refuse(options.scale_group != 0, group + no_scales);
    refuse(options.asymmetric, "--asymmetric is given" + no_scales);
    refuse(options.tensor_scales, "--tensor-scales is given" + no_scales);
  }
  if (options.tensor_scales) {
    const std::string excluded = "; --tensor-scales leaves no other scales: leave one out";
    refuse(options.scale_group != 0, group + excluded);
    refuse(options.asymmetric, "--asymmetric is given" + excluded);
    refuse(options.channel_keys, "--channel-keys is given" + excluded);
  }
  refuse(options.channel_keys && !integer,
         "--channel-keys is given, but " + dtype +
             " has no scales of channels; give --dtype int8 or int4, or leave it out");
  refuse(options.channel_keys && model.latent_dim != 0,
         "--channel-keys is given, but " + std::string(model.name) + " stores latent rows; leave it out");
  refuse(options.channel_tokens != 0 && !options.channel_keys,
         tokens + "; it is a part of --channel-keys: give both or neither");
  refuse(options.channel_tokens != 0 && options.block_size % options.channel_tokens != 0,
         tokens + "; it must divide --block-size, " + std::to_string(options.block_size));
  refuse(options.checkpoint % options.block_size != 0,
         "--checkpoint is " + std::to_string(options.checkpoint) +
             "; it must be a multiple of --block-size, " + std::to_string(options.block_size));
  refuse(options.asymmetric && !integer && options.scale_group == 0,
         "--asymmetric is given, but fp8 has scales in blocks only with --scale-group; give both or neither");
}

/// In the largest unit that gives at least 1.
std::string rounded(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto number = static_cast<double>(bytes);
  size_t unit = 0;
  for (; number >= 1024 && unit + 1 < std::size(kUnits); ++unit) number /= 1024;
  std::ostringstream text;
  text << std::fixed << std::setprecision(unit == 0 ? 0 : 2) << number << ' ' << kUnits[unit];
  return text.str();
}

/// What a token stores in a layer.
std::string stored(const kvc_model& model) {
  if (model.latent_dim != 0) return "one latent row of " + std::to_string(model.latent_dim);
  std::string dim = std::to_string(model.head_dim);
  if (model.v_head_dim != model.head_dim) dim += " and " + std::to_string(model.v_head_dim);
  return counted(model.num_kv_heads, "KV head") + " of " + dim;
}

Json group_json(const char* kind, uint32_t layers, uint64_t block_bytes, uint64_t blocks) {
  return {
      {"kind", kind}, {"layers", layers}, {"bytes_per_block", block_bytes}, {"blocks_per_sequence", blocks}};
}

Json estimate_json(const EstimateOptions& options, const kvc_model& model, const kvc_memory_query& query,
                   const kvc_memory_estimate& answer) {
  Json json;
  json["model"] = model.name;
  json["dtype"] = options.dtype;
  json["block_size"] = query.block_size;
  json["scale_group"] = query.scale_group;
  json["asymmetric"] = options.asymmetric;
  json["tensor_scales"] = options.tensor_scales;
  json["channel_keys"] = options.channel_keys;
  json["channel_tokens"] = query.channel_tokens;
  json["context"] = query.tokens;
  json["batch"] = query.num_sequences;
  json["chunk"] = query.chunk_tokens;
  json["num_layers"] = model.num_layers;
  json["num_kv_heads"] = model.num_kv_heads;
  json["head_dim"] = model.head_dim;
  json["v_head_dim"] = model.v_head_dim;
  json["latent_dim"] = model.latent_dim;
  json["window_tokens"] = model.window_tokens;
  json["max_context"] = model.max_context;
  json["cross_tokens"] = model.cross_tokens;
  json["checkpoint"] = query.checkpoint_tokens;
  json["bytes_per_token"] = answer.bytes_per_token;
  json["groups"] = Json::array();
  if (answer.num_full_layers != 0) {
    json["groups"].push_back(
        group_json("full", answer.num_full_layers, answer.full_block_bytes, answer.full_blocks));
  }
  if (answer.num_window_layers != 0) {
    json["groups"].push_back(
        group_json("window", answer.num_window_layers, answer.window_block_bytes, answer.window_blocks));
  }
  if (answer.num_state_layers != 0) {
    json["groups"].push_back(
        group_json("state", answer.num_state_layers, answer.state_block_bytes, answer.state_blocks));
  }
  if (answer.num_cross_layers != 0) {
    json["groups"].push_back(
        group_json("cross", answer.num_cross_layers, answer.cross_block_bytes, answer.cross_blocks));
  }
  json["residual_bytes_per_sequence"] = answer.residual_bytes;
  json["bytes_per_sequence"] = answer.sequence_bytes;
  json["total_bytes"] = answer.total_bytes;
  if (query.budget_bytes != 0) {
    json["budget_bytes"] = query.budget_bytes;
    json["max_tokens"] = answer.max_tokens;
    json["max_sequences"] = answer.max_sequences;
    json["pool_blocks"] = answer.pool_blocks;
    json["window_pool_blocks"] = answer.window_pool_blocks;
    json["state_pool_blocks"] = answer.state_pool_blocks;
    json["cross_pool_blocks"] = answer.cross_pool_blocks;
  }
  return json;
}

void group_row(std::ostream& out, const char* name, uint32_t layers, uint64_t block_bytes, uint64_t blocks) {
  if (layers == 0) return;
  row(out, name, grouped(blocks) + " blocks",
      "of " + grouped(block_bytes) + " bytes, " + counted(layers, "layer"));
}

void estimate_table(const EstimateOptions& options, const kvc_model& model, const kvc_memory_query& query,
                    const kvc_memory_estimate& answer, std::ostream& out) {
  out << model.name << ": " << model.num_layers << " layers, " << stored(model);
  if (model.window_tokens != 0) {
    out << ", "
        << (answer.num_full_layers == 0 ? std::string("all") : std::to_string(answer.num_window_layers))
        << " with a window of " << grouped(model.window_tokens) << " tokens";
  }
  if (answer.num_state_layers != 0) out << ", " << answer.num_state_layers << " with a state instead";
  if (answer.num_cross_layers != 0) {
    out << ", " << answer.num_cross_layers << " also read " << grouped(model.cross_tokens)
        << " encoder tokens";
  }
  const std::string sequences = counted(query.num_sequences, "sequence");
  out << "\n"
      << options.dtype << ", blocks of " << query.block_size << " tokens, " << sequences << " of "
      << grouped(query.tokens) << " tokens\n\n";
  row(out, "one token", grouped(answer.bytes_per_token) + " bytes",
      answer.num_state_layers == 0 ? "in all layers" : "in all layers without a state");
  group_row(out, "one sequence, full", answer.num_full_layers, answer.full_block_bytes, answer.full_blocks);
  group_row(out, "one sequence, window", answer.num_window_layers, answer.window_block_bytes,
            answer.window_blocks);
  group_row(out, "one sequence, state", answer.num_state_layers, answer.state_block_bytes,
            answer.state_blocks);
  group_row(out, "one sequence, cross", answer.num_cross_layers, answer.cross_block_bytes,
            answer.cross_blocks);
  if (answer.residual_bytes != 0)
    row(out, "one sequence, residual", grouped(answer.residual_bytes) + " bytes",
        "keys of its last block in bf16");
  row(out, "one sequence", grouped(answer.sequence_bytes) + " bytes", rounded(answer.sequence_bytes));
  row(out, "total", grouped(answer.total_bytes) + " bytes", rounded(answer.total_bytes));
  if (query.tokens > model.max_context)
    out << "\nThe model's context is " << grouped(model.max_context) << " tokens.\n";
  if (query.budget_bytes == 0) return;
  out << "\nIn " << grouped(query.budget_bytes) << " bytes (" << rounded(query.budget_bytes) << ")\n";
  const bool any = answer.max_tokens == std::numeric_limits<uint64_t>::max();
  row(out, "longest context", any ? "any" : grouped(answer.max_tokens) + " tokens",
      "of " + sequences +
          (answer.max_tokens > model.max_context ? "; the model ends at " + grouped(model.max_context) : ""));
  row(out, "most sequences", grouped(answer.max_sequences), "of " + grouped(query.tokens) + " tokens");
  const char* first = answer.num_pools == 1           ? "pool"
                      : answer.num_full_layers != 0   ? "pool, full"
                      : answer.num_window_layers != 0 ? "pool, window"
                                                      : "pool, state";
  const auto pool_row = [&](const char* name, uint64_t blocks) {
    if (blocks != 0) row(out, name, grouped(blocks) + " blocks", "for num_blocks");
  };
  row(out, first, grouped(answer.pool_blocks) + " blocks", "for num_blocks");
  pool_row("pool, window", answer.window_pool_blocks);
  pool_row("pool, state", answer.state_pool_blocks);
  pool_row("pool, cross", answer.cross_pool_blocks);
}

}  // namespace

/// Presets win over files of the same name; "./" names such a file.
kvc_model find_model(const std::string& name) {
  auto model = make<kvc_model>();
  const kvc_status status = kvc_model_find(name.c_str(), &model);
  if (status == KVC_OK) return model;
  if (status != KVC_ERROR_NOT_FOUND) check(status);
  std::string text = kvc_last_error();
  text.erase(std::min(text.find("; kvc_"), text.size()));  // a call that lists all, where no name is near
  std::error_code ignored;
  if (name.ends_with(".json") || std::filesystem::exists(name, ignored)) return read_config(name);
  throw InputError(text + "; list all with `kvcache models`, or give the path of a config.json");
}

kvc_memory_estimate estimate_of(const kvc_memory_query& query) {
  auto estimate = make<kvc_memory_estimate>();
  const kvc_status status = kvc_estimate_memory(&query, &estimate);
  if (status == KVC_ERROR_INVALID_ARGUMENT) throw InputError(std::string("estimate: ") + kvc_last_error());
  check(status);
  return estimate;
}

uint64_t parse_bytes(const std::string& text) {
  const auto fail = [&] [[noreturn]] () {
    throw InputError("\"" + text.substr(0, 40) +
                     "\" is not an amount of memory; give one such as 24GiB, 1.5TB or 65536");
  };
  struct Unit {
    const char* name;
    uint64_t bytes;
  };
  constexpr Unit kUnits[] = {{"", 1},
                             {"b", 1},
                             {"kb", 1000},
                             {"mb", 1'000'000},
                             {"gb", 1'000'000'000},
                             {"tb", 1'000'000'000'000},
                             {"kib", uint64_t{1} << 10},
                             {"mib", uint64_t{1} << 20},
                             {"gib", uint64_t{1} << 30},
                             {"tib", uint64_t{1} << 40}};
  constexpr size_t kMostDecimals = 6;  // With more, the product below could overflow.
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const size_t point = std::min(text.find('.'), end);
  const std::string whole = text.substr(0, point);
  const std::string decimals = point < end ? text.substr(point + 1, end - point - 1) : "";
  std::string name = text.substr(std::min(text.find_first_not_of(' ', end), text.size()));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (whole.empty() || whole.size() > 20 || decimals.size() > kMostDecimals ||
      decimals.find('.') != std::string::npos || (point < end && decimals.empty()))
    fail();
  for (const Unit& unit : kUnits) {
    if (name != unit.name) continue;
    uint64_t bytes = 0, fraction = 0, scale = 1;
    for (const char c : whole) {
      if (__builtin_mul_overflow(bytes, uint64_t{10}, &bytes) ||
          __builtin_add_overflow(bytes, static_cast<uint64_t>(c - '0'), &bytes))
        fail();
    }
    for (const char c : decimals) fraction = fraction * 10 + static_cast<uint64_t>(c - '0'), scale *= 10;
    if (__builtin_mul_overflow(bytes, unit.bytes, &bytes) ||
        __builtin_add_overflow(bytes, fraction * unit.bytes / scale, &bytes) || bytes == 0)
      fail();
    return bytes;
  }
  fail();
}

void print_estimate(const EstimateOptions& options, bool as_json, std::ostream& out) {
  const kvc_model model = find_model(options.model);
  check_storing(options, model);
  auto query = make<kvc_memory_query>();
  query.model = &model;
  query.tokens = options.context == 0 ? model.max_context : options.context;
  query.num_sequences = options.batch;
  query.chunk_tokens = options.chunk;
  query.dtype = dtype_of(options.dtype);
  query.block_size = options.block_size;
  query.scale_group = options.scale_group;
  query.asymmetric = options.asymmetric ? 1 : 0;
  query.tensor_scales = options.tensor_scales ? 1 : 0;
  query.channel_keys = options.channel_keys ? 1 : 0;
  query.channel_tokens = options.channel_tokens;
  query.checkpoint_tokens = options.checkpoint;
  if (!options.budget.empty()) query.budget_bytes = parse_bytes(options.budget);
  const kvc_memory_estimate answer = estimate_of(query);
  if (as_json)
    out << estimate_json(options, model, query, answer).dump(2) << '\n';
  else
    estimate_table(options, model, query, answer, out);
}

void print_models(bool as_json, std::ostream& out) {
  constexpr int kWidths[] = {7, 9, 9, 7, 8, 11, 8, 9, 9, 16};
  const auto line = [&](const char* name, const std::vector<std::string>& cells) {
    out << std::left << std::setw(22) << name << std::right;
    for (size_t i = 0; i < cells.size(); ++i) out << std::setw(kWidths[i]) << cells[i];
    out << '\n';
  };
  const auto number = [](uint64_t value) { return value == 0 ? std::string("-") : std::to_string(value); };
  Json list = Json::array();
  if (!as_json) {
    line("model", {"layers", "KV heads", "head dim", "latent", "window", "in layers", "states", "encoder",
                   "context", "bytes a token"});
  }
  for (size_t i = 0; i < kvc_model_count(); ++i) {
    const kvc_model model = ask<kvc_model>(kvc_model_get, i);
    auto query = make<kvc_memory_query>();
    query.model = &model;
    query.dtype = KVC_FLOAT16;
    const kvc_memory_estimate answer = estimate_of(query);
    if (as_json) {
      list.push_back({{"name", model.name},
                      {"num_layers", model.num_layers},
                      {"num_q_heads", model.num_q_heads},
                      {"num_kv_heads", model.num_kv_heads},
                      {"head_dim", model.head_dim},
                      {"v_head_dim", model.v_head_dim},
                      {"latent_dim", model.latent_dim},
                      {"vocab_size", model.vocab_size},
                      {"window_tokens", model.window_tokens},
                      {"num_window_layers", answer.num_window_layers},
                      {"num_state_layers", answer.num_state_layers},
                      {"state_bytes", answer.state_block_bytes},
                      {"num_cross_layers", answer.num_cross_layers},
                      {"cross_tokens", model.cross_tokens},
                      {"max_context", model.max_context},
                      {"bytes_per_token", answer.bytes_per_token}});
      continue;
    }
    line(model.name, {number(model.num_layers), number(model.num_kv_heads), number(model.head_dim),
                      number(model.latent_dim), number(model.window_tokens), number(answer.num_window_layers),
                      number(answer.num_state_layers), number(model.cross_tokens), number(model.max_context),
                      grouped(answer.bytes_per_token)});
  }
  if (as_json)
    out << list.dump(2) << '\n';
  else
    out << "\nStates: layers with a state instead of keys and values. Encoder: tokens that cross-attention "
           "reads.\nBytes of one token in all layers in fp16 or bf16. See also `kvcache estimate MODEL`.\n";
}

}  // namespace kvcli
