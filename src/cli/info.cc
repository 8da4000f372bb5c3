// SPDX-License-Identifier: Apache-2.0
// `kvcache info`: version, features and defaults of the loaded library, and its backends.
#include <iomanip>
#include <kvcache.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/backends.h"
#include "cli/library.h"
#include "cli/report.h"

namespace kvcli {
namespace {

constexpr uint64_t kExampleBlocks = 1024;  // Some defaults depend on the number of blocks.

// A manager that has one feature.
struct Asked {
  kvc_manager_config config = make<kvc_manager_config>();
  kvc_group_config groups[2] = {make<kvc_group_config>(), make<kvc_group_config>()};
  kvc_pool_config pools[2] = {make<kvc_pool_config>(), make<kvc_pool_config>()};
};

struct Feature {
  const char* name;
  void (*ask)(Asked& a);
};

// Each is a value that a library without it refuses.
constexpr Feature kFeatures[] = {
    {"lru", [](Asked& a) { a.config.policy = KVC_POLICY_LRU; }},
    {"frequency", [](Asked& a) { a.config.policy = KVC_POLICY_FREQUENCY; }},
    {"fragmentation", [](Asked& a) { a.config.policy = KVC_POLICY_FRAGMENTATION; }},
    {"sliding_window",
     [](Asked& a) { a.groups[1].kind = KVC_GROUP_SLIDING_WINDOW, a.groups[1].window_tokens = 64; }},
    {"chunked_local",
     [](Asked& a) { a.groups[1].kind = KVC_GROUP_CHUNKED_LOCAL, a.groups[1].chunk_tokens = 64; }},
    {"state_groups", [](Asked& a) { a.groups[1].kind = KVC_GROUP_STATE; }},
    {"cross_groups", [](Asked& a) { a.groups[1].kind = KVC_GROUP_CROSS; }},
    {"several_pools",
     [](Asked& a) {
       a.config.num_blocks = 0, a.config.pools = a.pools, a.config.num_pools = 2, a.groups[1].pool = 1;
     }},
    {"events", [](Asked& a) { a.config.event_capacity = 1; }},
    {"hints", [](Asked& a) { a.config.flags = KVC_MANAGER_HINTS; }},
    {"fills", [](Asked& a) { a.config.flags = KVC_MANAGER_FILLS; }},
    {"headroom", [](Asked& a) { a.config.flags = KVC_MANAGER_HEADROOM; }},
    {"partial_reuse", [](Asked& a) { a.config.flags = KVC_MANAGER_PARTIAL_REUSE; }},
    {"null_block", [](Asked& a) { a.config.flags = KVC_MANAGER_NULL_BLOCK; }},
    {"no_prefix_cache", [](Asked& a) { a.config.flags = KVC_MANAGER_NO_PREFIX_CACHE; }},
    {"zero_cross_namespace", [](Asked& a) { a.config.flags = KVC_MANAGER_ZERO_CROSS_NAMESPACE; }},
    {"zero_always", [](Asked& a) { a.config.flags = KVC_MANAGER_ZERO_ALWAYS; }},
    {"touch_memory", [](Asked& a) { a.config.flags = KVC_MANAGER_TOUCH_MEMORY; }},
    {"quotas", [](Asked& a) { a.config.max_quotas = 1; }},
    {"resize", [](Asked& a) { a.config.max_blocks = 2 * kExampleBlocks; }},
    {"record", [](Asked& a) { a.config.record_bytes = KVC_MIN_RECORD_BYTES; }}};

bool has(const Feature& feature) {
  Asked asked;
  asked.config.num_blocks = kExampleBlocks;
  asked.config.groups = asked.groups, asked.config.num_groups = 2;
  for (kvc_pool_config& pool : asked.pools) pool.num_blocks = kExampleBlocks;
  feature.ask(asked);
  kvc_manager* manager = nullptr;
  const kvc_status status = kvc_manager_create(&asked.config, &manager);
  if (status == KVC_ERROR_UNSUPPORTED) return false;
  check(status);
  kvc_manager_destroy(manager);
  return true;
}

nlohmann::ordered_json library_info(const std::vector<std::string>& backends) {
  const kvc::Manager manager(kExampleBlocks);
  const auto properties = ask<kvc_properties>(kvc_manager_properties, manager.get());
  nlohmann::ordered_json json;
  json["version"] = version_text(kvc_version());
  json["header_version"] =
      version_text(KVC_VERSION_MAJOR * 10000 + KVC_VERSION_MINOR * 100 + KVC_VERSION_PATCH);
  json["build"] = kvc_build_info();
  json["backends"] = backends_info(backends);
  for (const Feature& feature : kFeatures) json["features"][feature.name] = has(feature);
  nlohmann::ordered_json& defaults = json["defaults"];
  defaults["num_blocks"] = properties.num_blocks;
  defaults["block_size"] = properties.block_size;
  defaults["max_nodes"] = properties.max_nodes;
  defaults["max_requests"] = properties.max_requests;
  defaults["max_request_tokens"] = properties.max_request_tokens;
  defaults["event_capacity"] = properties.event_capacity;
  defaults["watermark_blocks"] = properties.watermark_blocks;
  defaults["vocab_size"] = properties.vocab_size;
  defaults["policy"] = properties.policy == KVC_POLICY_LRU ? "lru" : "unknown";
  defaults["num_groups"] = properties.num_groups;
  defaults["num_pools"] = properties.num_pools;
  return json;
}

}  // namespace

std::string version_text(uint32_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

void print_info(const std::vector<std::string>& backends, bool as_json, std::ostream& out) {
  const nlohmann::ordered_json info = library_info(backends);
  if (as_json) {
    out << info.dump(2) << '\n';
    return;
  }
  out << "libkvcache " << info["version"].get<std::string>() << " (header "
      << info["header_version"].get<std::string>() << ")\n"
      << info["build"].get<std::string>() << "\n\nFeatures\n";
  for (const auto& [name, supported] : info["features"].items()) {
    out << "  " << std::left << std::setw(22) << name << (supported.get<bool>() ? "yes" : "no") << '\n';
  }
  print_backends(info["backends"], out);
  out << "\nDefaults of a manager of " << kExampleBlocks << " blocks\n";
  for (const auto& [name, value] : info["defaults"].items()) {
    if (name == "num_blocks") continue;
    out << "  " << std::left << std::setw(20) << name
        << (value.is_string() ? value.get<std::string>() : value.dump()) << '\n';
  }
}

}  // namespace kvcli
