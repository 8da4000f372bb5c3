// SPDX-License-Identifier: Apache-2.0
// The JSON keys are an interface: add keys, do not rename them.
#include "cli/inspect.h"

#include <kvcache/checkpoint.h>
#include <kvcache/inspect.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/library.h"
#include "cli/table.h"

namespace kvcli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// The id of a manifest's name; 0 = it is none.
uint64_t manifest_id(const fs::path& path) {
  const std::string stem = path.stem().string();
  if (path.extension() != ".kvcm" || stem.empty() ||
      stem.find_first_not_of("0123456789") != std::string::npos)
    return 0;
  return std::strtoull(stem.c_str(), nullptr, 10);
}

Json checkpoint_json(const std::string& folder, uint64_t id, bool validate) {
  auto info = make<kvc_checkpoint_info>();
  const kvc_status status =
      (validate ? kvc_checkpoint_validate : kvc_checkpoint_read_info)(folder.c_str(), id, &info);
  Json json;
  json["id"] = id;
  if (status == KVC_ERROR_NOT_FOUND) throw InputError(kvc_last_error());
  if (status != KVC_OK) {
    json["error"] = kvc_last_error();
    return json;
  }
  json["version"] = info.version;
  json["model"] = info.model;
  json["weights"] = info.weights;
  json["block_size"] = info.block_size;
  json["groups"] = info.num_groups;
  json["positions"] = info.num_positions;
  json["blocks"] = info.num_blocks;
  json["pages"] = info.num_pages;
  json["new_pages"] = info.new_pages;
  json["namespaces"] = info.num_namespaces;
  json["requests"] = info.num_requests;
  json["page_bytes"] = info.page_bytes;
  json["stored_bytes"] = info.stored_bytes;
  json["codec"] = info.codec;
  json["files"] = info.num_files;
  json["file_bytes"] = info.file_bytes;
  json["own_bytes"] = info.written_bytes;
  json["content"] = hex(info.content, sizeof info.content);
  if (validate) json["valid"] = true;
  return json;
}

Json file_json(const std::string& path, bool validate) {
  auto info = make<kvc_page_file_info>();
  const kvc_status status = kvc_page_file_read_info(path.c_str(), validate, &info);
  if (status == KVC_ERROR_UNSUPPORTED || status == KVC_ERROR_NOT_FOUND) throw InputError(kvc_last_error());
  Json json;
  if (status == KVC_ERROR_CORRUPT) {
    json["error"] = kvc_last_error();
    return json;
  }
  check(status);
  const bool slab = info.kind == KVC_PAGE_FILE_SLAB;
  json["kind"] = slab ? "slab" : "page";
  json["version"] = info.version;
  if (!slab) json["fingerprint"] = hex(info.fingerprint, sizeof info.fingerprint);
  if (!slab) json["key"] = hex(info.key, sizeof info.key);
  json["file_bytes"] = info.file_bytes;
  json["page_bytes"] = info.page_bytes;
  json["slots"] = info.num_slots;
  json["pages"] = info.num_pages;
  json["stored_bytes"] = info.stored_bytes;
  json["bad_headers"] = info.bad_headers;
  if (validate) json["bad_pages"] = info.bad_pages;
  if (slab) json["fingerprints"] = slab_parts_json(path, validate);
  return json;
}

bool is_damaged(const Json& json) { return json.contains("error") || json.value("bad_pages", 0) != 0; }

/// "2 d 3 h" for a time in seconds: its two largest units.
std::string age_text(uint64_t seconds) {
  if (seconds >= 86400)
    return grouped(seconds / 86400) + " d " + std::to_string(seconds % 86400 / 3600) + " h";
  if (seconds >= 3600)
    return std::to_string(seconds / 3600) + " h " + std::to_string(seconds % 3600 / 60) + " m";
  if (seconds >= 60) return std::to_string(seconds / 60) + " m " + std::to_string(seconds % 60) + " s";
  return std::to_string(seconds) + " s";
}

void print_rows(const Json& json, std::ostream& out) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_array()) continue;
    if (key == "oldest_s" || key == "newest_s") {
      row(out, key == "oldest_s" ? "oldest use" : "newest use", age_text(value.get<uint64_t>()) + " ago");
      continue;
    }
    std::string name = key;
    for (char& c : name) c = c == '_' ? ' ' : c;
    if (key == "error" || key == "content" || key == "fingerprint" || key == "key")
      out << "  " << std::left << std::setw(22) << name << value.get<std::string>() << '\n';
    else
      row(out, name.c_str(),
          value.is_number()   ? grouped(value.get<uint64_t>())
          : value.is_string() ? value.get<std::string>()
                              : "yes");
  }
}

}  // namespace

std::vector<uint64_t> checkpoints_of(const std::string& folder) {
  size_t count = 0;
  std::vector<uint64_t> ids;
  for (kvc_status status = KVC_ERROR_BUFFER_TOO_SMALL; status == KVC_ERROR_BUFFER_TOO_SMALL;) {
    ids.resize(count);
    status = kvc_checkpoint_list(folder.c_str(), ids.data(), ids.size(), &count);
    if (status != KVC_ERROR_BUFFER_TOO_SMALL) check(status);
  }
  ids.resize(count);
  return ids;
}

bool print_inspection(const InspectOptions& options, bool as_json, std::ostream& out) {
  std::error_code error;
  const fs::path path = options.path;
  Json json;
  json["path"] = options.path;
  bool right = true;
  if (options.purge.any()) {
    json.update(purge_json(path, options.purge));
  } else if (is_tier_folder(path)) {
    json.update(tier_folder_json(path, options.validate));
    right = !is_damaged(json);
  } else if (const uint64_t id = manifest_id(path); fs::is_directory(path, error) || id != 0) {
    std::string folder = options.path;
    std::vector<uint64_t> ids = {id};
    if (id == 0) {
      ids = checkpoints_of(folder);
      if (ids.empty())
        throw InputError(options.path + ": the folder has no checkpoints, and is not that of a tier");
    } else {
      folder = path.has_parent_path() ? path.parent_path().string() : ".";
    }
    json["kind"] = id == 0 ? "checkpoints" : "checkpoint";
    json["checkpoints"] = Json::array();
    for (const uint64_t one : ids) {
      json["checkpoints"].push_back(checkpoint_json(folder, one, options.validate));
      right = right && !is_damaged(json["checkpoints"].back());
    }
  } else {
    json.update(file_json(options.path, options.validate));
    right = !is_damaged(json);
  }
  if (as_json) {
    out << json.dump(2) << '\n';
    return right;
  }
  out << options.path << '\n';
  if (!json.contains("checkpoints")) {
    json.erase("path");
    print_rows(json, out);
  }
  for (Json one : json.value("fingerprints", Json::array())) {
    out << "Fingerprint " << one["fingerprint"].get<std::string>() << '\n';
    one.erase("fingerprint");
    const Json of = one["of"];
    one.erase("of");
    one.update(of);
    print_rows(one, out);
  }
  for (const Json& one : json.value("checkpoints", Json::array())) {
    out << "Checkpoint " << one["id"].get<uint64_t>() << '\n';
    Json rest = one;
    rest.erase("id");
    print_rows(rest, out);
  }
  return right;
}

}  // namespace kvcli
