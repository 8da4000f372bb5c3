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

struct Feature {
  const char* name;
  uint32_t id;
};

constexpr Feature kFeatures[] = {{"lru", KVC_FEATURE_LRU},
                                 {"sliding_window", KVC_FEATURE_SLIDING_WINDOW},
                                 {"several_pools", KVC_FEATURE_SEVERAL_POOLS},
                                 {"events", KVC_FEATURE_EVENTS},
                                 {"frequency", KVC_FEATURE_FREQUENCY},
                                 {"fragmentation", KVC_FEATURE_FRAGMENTATION},
                                 {"hints", KVC_FEATURE_HINTS},
                                 {"fills", KVC_FEATURE_FILLS},
                                 {"partial_reuse", KVC_FEATURE_PARTIAL_REUSE},
                                 {"state groups", KVC_FEATURE_STATE_GROUPS},
                                 {"quotas", KVC_FEATURE_QUOTAS}};

constexpr uint64_t kExampleBlocks = 1024;  // Some defaults depend on the number of blocks.

nlohmann::ordered_json library_info(const std::vector<std::string>& backends) {
  const kvc::Manager manager(kExampleBlocks);
  const auto properties = ask<kvc_properties>(kvc_manager_properties, manager.get());
  nlohmann::ordered_json json;
  json["version"] = version_text(kvc_version());
  json["header_version"] =
      version_text(KVC_VERSION_MAJOR * 10000 + KVC_VERSION_MINOR * 100 + KVC_VERSION_PATCH);
  json["build"] = kvc_build_info();
  json["backends"] = backends_info(backends);
  for (const Feature& feature : kFeatures)
    json["features"][feature.name] = kvc_supports(feature.id) == KVC_OK;
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
    out << "  " << std::left << std::setw(20) << name << (supported.get<bool>() ? "yes" : "no") << '\n';
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
