// SPDX-License-Identifier: Apache-2.0
// The JSON keys are an interface: add keys, do not rename them.
#include "cli/checkpoint.h"

#include <kvcache/checkpoint.h>
#include <kvcache/events.h>
#include <kvcache/page.h>
#include <kvcache/prefix.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

#include "cli/inspect.h"
#include "cli/library.h"
#include "cli/options.h"
#include "cli/table.h"

namespace kvcli {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint32_t kHeadDim = 8;    // One layer and head: 64 bytes a token.
constexpr uint64_t kEvents = 1024;  // So that positions can be listed.

Storage storage_of(uint64_t num_blocks, uint32_t block_size) {
  auto config = make<kvc_storage_config>();
  config.num_blocks = num_blocks;
  config.num_layers = config.num_heads = 1;
  config.head_dim = kHeadDim;
  config.block_size = block_size;
  config.dtype = KVC_FLOAT32;
  return Storage(ask<kvc_storage*>(kvc_storage_create, &config));
}

/// The keys and values of a position, by its digest.
void make_page(const uint8_t* digest, std::vector<uint64_t>& page) {
  uint64_t state;
  std::memcpy(&state, digest, sizeof state);
  for (uint64_t& word : page) word = state = state * 6364136223846793005u + 1442695040888963407u;
}

/// Calls visit(event, its tokens) for each cached position.
void for_each_position(kvc_manager* manager, uint32_t block_size,
                       const std::function<void(const kvc_event&, const int32_t*)>& visit) {
  std::vector<kvc_event> events(256);
  std::vector<int32_t> tokens(events.size() * block_size);
  uint64_t cursor = 0, event_cursor = 0;
  do {
    auto batch = make<kvc_event_batch>();
    batch.events = events.data(), batch.event_size = sizeof(kvc_event), batch.capacity = events.size();
    batch.tokens = tokens.data(), batch.token_capacity = tokens.size();
    check(kvc_manager_list_prefixes(manager, &cursor, &event_cursor, &batch));
    for (size_t i = 0; i < batch.count; ++i) visit(events[i], &tokens[i * block_size]);
  } while (cursor != 0);
}

kvc_checkpoint_config config_of(const CheckpointOptions& options) {
  auto config = make<kvc_checkpoint_config>();
  config.folder = options.folder.c_str();
  config.codec = options.codec.c_str();
  config.keep_last = options.keep_last;
  return config;
}

std::string digest_of(kvc_manager* manager) {
  uint8_t digest[32];
  check(kvc_manager_content_digest(manager, digest));
  return hex(digest, sizeof digest);
}

void print(Json json, bool as_json, const std::string& title, std::ostream& out) {
  if (as_json) {
    out << json.dump(2) << '\n';
    return;
  }
  out << title << '\n';
  for (const auto& [key, value] : json.items()) {
    std::string name = key;
    for (char& c : name) c = c == '_' ? ' ' : c;
    if (value.is_string())
      out << "  " << std::left << std::setw(22) << name << value.get<std::string>() << '\n';
    else
      row(out, name.c_str(),
          value.is_number_float() ? fixed(value.get<double>(), 3) : grouped(value.get<uint64_t>()));
  }
}

Json saved_json(const kvc_checkpoint_info& info) {
  Json json;
  json["id"] = info.id;
  json["positions"] = info.num_positions;
  json["pages"] = info.num_pages;
  json["new_pages"] = info.new_pages;
  json["page_bytes"] = info.page_bytes;
  json["stored_bytes"] = info.stored_bytes;
  json["written_bytes"] = info.written_bytes;
  json["codec"] = info.codec;
  return json;
}

/// What a prompt hits that has the tokens of a position and all before it.
class Prefixes {
 public:
  void add(const kvc_event& event, const int32_t* tokens) {
    Position& position = positions_[event.node];
    position.parent = event.parent_node;
    position.tokens.assign(tokens, tokens + event.num_tokens);
    if (event.parent_node != 0) positions_[event.parent_node].is_parent = true;
  }

  /// Of all prefixes that none is longer than: how many there are, and how many are hit to their ends.
  std::pair<uint64_t, uint64_t> count_hits(kvc_manager* manager) const {
    uint64_t prefixes = 0, hits = 0;
    std::vector<int32_t> prompt;
    for (const auto& [node, last] : positions_) {
      if (last.is_parent) continue;
      prompt.assign(1, 0);  // A hit leaves one token to compute.
      for (uint64_t at = node; at != 0; at = positions_.at(at).parent) {
        const std::vector<int32_t>& tokens = positions_.at(at).tokens;
        prompt.insert(prompt.end(), tokens.rbegin(), tokens.rend());
      }
      std::reverse(prompt.begin(), prompt.end());
      auto given = make<kvc_prompt>();
      given.tokens = prompt.data(), given.num_tokens = prompt.size();
      const auto probe = ask<kvc_probe_info>(kvc_manager_probe, manager, &given);
      ++prefixes;
      hits += probe.num_cached == prompt.size() - 1;
    }
    return {prefixes, hits};
  }

 private:
  struct Position {
    uint64_t parent = 0;
    bool is_parent = false;
    std::vector<int32_t> tokens;
  };
  std::unordered_map<uint64_t, Position> positions_;
};

bool restore_and_check(const CheckpointOptions& options, bool as_json, std::ostream& out) {
  const auto saved = ask<kvc_checkpoint_info>(kvc_checkpoint_read_info, options.folder.c_str(), options.id);
  if (saved.num_groups != 1 || saved.num_namespaces != 0 || std::string(saved.model) != "replay")
    throw InputError(options.folder + ": checkpoint " + std::to_string(saved.id) +
                     " is of an engine; name one of `kvcache checkpoint save`");
  auto config = make<kvc_manager_config>();
  config.num_blocks = options.num_blocks != 0 ? options.num_blocks : std::max<uint64_t>(saved.num_blocks, 1);
  config.block_size = saved.block_size;
  config.event_capacity = kEvents;
  const Manager manager(ask<kvc_manager*>(kvc_manager_create, &config));
  const Storage storage = storage_of(config.num_blocks, saved.block_size);
  const kvc_page_config pages = replayed_pages();
  kvc_checkpoint_config wanted = config_of(options);
  wanted.pages = &pages, wanted.id = saved.id, wanted.codec = nullptr, wanted.keep_last = 0;
  auto info = make<kvc_checkpoint_info>();
  kvc_storage* const group = storage.get();
  Stopwatch time;
  time.start();
  check(kvc_checkpoint_restore(manager.get(), &group, 1, &wanted, nullptr, 0, nullptr, 0, &info));
  const double seconds = time.stop();

  const auto properties = ask<kvc_page_info>(kvc_storage_page_properties, group, &pages);
  std::vector<uint64_t> right(properties.page_bytes / sizeof(uint64_t)), found(right.size());
  uint64_t checked = 0, wrong = 0;
  Prefixes prefixes;
  for_each_position(manager.get(), saved.block_size, [&](const kvc_event& event, const int32_t* tokens) {
    prefixes.add(event, tokens);
    if (event.block < 0) return;
    make_page(event.digest, right);
    check(kvc_storage_pack_pages(group, &event.block, 1, found.data(), properties.page_bytes, 0));
    ++checked;
    wrong += found != right;
  });
  const auto [all, hits] = prefixes.count_hits(manager.get());
  check(kvc_manager_check(manager.get()));

  Json json;
  json["id"] = info.id;
  json["positions"] = info.num_positions;
  json["left_out"] = info.left_out;
  json["seconds"] = seconds;
  json["gb_per_s"] = seconds > 0 ? static_cast<double>(info.stored_bytes) / seconds / 1e9 : 0;
  json["pages"] = checked;
  json["wrong_pages"] = wrong;
  json["prefixes"] = all;
  json["hits"] = hits;
  json["digest"] = digest_of(manager.get());
  print(json, as_json, options.folder + ": restored", out);
  return wrong == 0 && hits == all && (checked != 0 || saved.num_pages == 0);
}

void list_ids(const CheckpointOptions& options, bool as_json, std::ostream& out) {
  const std::vector<uint64_t> ids = checkpoints_of(options.folder);
  if (as_json) {
    out << Json{{"folder", options.folder}, {"ids", ids}}.dump(2) << '\n';
    return;
  }
  for (const uint64_t id : ids) out << id << '\n';
}

}  // namespace

void add_checkpoint_options(CLI::App& command, CheckpointOptions& options) {
  add_choice(command, "WHAT", options.what, "What to do",
             {"save", "restore", "list", "inspect", "validate", "collect", "remove", "compact"})
      ->required();
  command.add_option("FOLDER", options.folder, "Folder of the checkpoints")->required();
  add_number(command, "--id", options.id,
             "restore, compact: which checkpoint [the newest]; inspect, validate: which one [all]; remove: "
             "which one",
             UINT64_MAX);
  command.add_option("--codec", options.codec, "save, compact: none, or the name of a plug-in: lz4, zstd")
      ->capture_default_str();
  add_number(command, "--keep-last", options.keep_last,
             "save, compact, collect: remove all but the newest so many [keep all]", UINT32_MAX);
  command.add_flag("--full", options.full, "save: write all pages, in one file");
}

void save_replayed(const Trace& trace, const ReplayOptions& replayed, const CheckpointOptions& options,
                   bool as_json, std::ostream& out) {
  if (options.id != 0) throw InputError("checkpoint save: a save chooses its id; leave --id out");
  ReplayOptions with_events = replayed;
  with_events.event_capacity = kEvents;
  Json json;
  with_events.at_end = [&](kvc_manager* manager) {
    const Storage storage = storage_of(replayed.num_blocks, replayed.block_size);
    kvc_storage* const group = storage.get();
    const kvc_page_config pages = replayed_pages();
    const auto properties = ask<kvc_page_info>(kvc_storage_page_properties, group, &pages);
    std::vector<uint64_t> page(properties.page_bytes / sizeof(uint64_t));
    for_each_position(manager, replayed.block_size, [&](const kvc_event& event, const int32_t*) {
      if (event.block < 0) return;
      make_page(event.digest, page);
      check(kvc_storage_unpack_pages(group, &event.block, 1, page.data(), properties.page_bytes, 0));
    });
    kvc_checkpoint_config config = config_of(options);
    config.pages = &pages;
    if (options.full) config.flags |= KVC_CHECKPOINT_FULL;
    auto info = make<kvc_checkpoint_info>();
    Stopwatch time;
    time.start();
    check(kvc_checkpoint_save(manager, &group, 1, &config, &info));
    const double seconds = time.stop();
    json = saved_json(info);
    json["seconds"] = seconds;
    json["gb_per_s"] = seconds > 0 ? static_cast<double>(info.written_bytes) / seconds / 1e9 : 0;
    json["digest"] = digest_of(manager);
  };
  replay(trace, with_events);
  print(json, as_json, options.folder + ": saved", out);
}

bool run_checkpoint(const CheckpointOptions& options, bool as_json, std::ostream& out) {
  if (options.full)
    throw InputError("checkpoint " + options.what + ": --full is for save alone; leave it out");
  if (options.what == "restore") return restore_and_check(options, as_json, out);
  if (options.what == "list") {
    list_ids(options, as_json, out);
    return true;
  }
  if (options.what == "inspect" || options.what == "validate") {
    InspectOptions inspected;
    inspected.path = options.folder;
    if (options.id != 0) {
      char name[32];
      std::snprintf(name, sizeof name, "/%020llu.kvcm", static_cast<unsigned long long>(options.id));
      inspected.path += name;
    }
    inspected.validate = options.what == "validate";
    return print_inspection(inspected, as_json, out);
  }
  if (options.what == "collect") {
    const auto removed = ask<uint64_t>(kvc_checkpoint_collect, options.folder.c_str(), options.keep_last);
    print({{"removed_bytes", removed}}, as_json, options.folder + ": collected", out);
    return true;
  }
  if (options.what == "remove") {
    if (options.id == 0)
      throw InputError("checkpoint remove: no --id; `kvcache inspect " + options.folder + "` lists them");
    check(kvc_checkpoint_remove(options.folder.c_str(), options.id));
    print({{"id", options.id}}, as_json, options.folder + ": removed", out);
    return true;
  }
  kvc_checkpoint_config config = config_of(options);
  config.id = options.id;
  auto info = make<kvc_checkpoint_info>();
  check(kvc_checkpoint_compact(&config, &info));
  print(saved_json(info), as_json, options.folder + ": compacted", out);
  return true;
}

}  // namespace kvcli
