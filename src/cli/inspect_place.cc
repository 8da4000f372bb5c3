// SPDX-License-Identifier: Apache-2.0
// The JSON keys are an interface: add keys, do not rename them.
#include "cli/inspect_place.h"

#include <kvcache/inspect.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "cli/errors.h"
#include "cli/library.h"
#include "cli/table.h"

namespace kvcli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr size_t kDigits = 64;

bool is_fingerprint(const std::string& name) {
  return name.size() == kDigits && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

struct PageFile {
  fs::path path;
  std::string fingerprint;
  uint64_t bytes;
  uint64_t age_s;  // since its last use
};

uint64_t age_of(const struct stat& status) {
  const time_t now = std::time(nullptr);
  return now > status.st_mtim.tv_sec ? static_cast<uint64_t>(now - status.st_mtim.tv_sec) : 0;
}

bool is_subfolder(const std::string& name) {
  return name.size() == 2 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Files that go meanwhile are passed over.
void each_page(const fs::path& folder, const std::function<void(const PageFile&)>& each) {
  for (const auto& part : fs::directory_iterator(folder)) {
    if (!is_subfolder(part.path().filename().string()) || !part.is_directory()) continue;
    for (const auto& entry : fs::directory_iterator(part.path())) {
      const std::string fingerprint = entry.path().filename().string().substr(0, kDigits);
      struct stat status;
      if (entry.path().extension() != ".page" || !is_fingerprint(fingerprint) ||
          ::lstat(entry.path().c_str(), &status) != 0)
        continue;
      each({entry.path(), fingerprint, static_cast<uint64_t>(status.st_size), age_of(status)});
    }
  }
}

struct Pages {
  uint64_t pages = 0, bad_headers = 0, bad_pages = 0, file_bytes = 0, stored_bytes = 0;
  uint64_t oldest_s = 0, newest_s = UINT64_MAX;
  std::string description;
};

void add_page(const PageFile& file, bool validate, Pages* to) {
  auto info = make<kvc_page_file_info>();
  const kvc_status status = kvc_page_file_read_info(file.path.c_str(), validate, &info);
  if (status == KVC_ERROR_NOT_FOUND) return;
  to->file_bytes += file.bytes;
  const std::string found = hex(info.fingerprint, sizeof info.fingerprint);
  if (status != KVC_OK || info.kind != KVC_PAGE_FILE_PAGE || found != file.fingerprint) {
    ++to->bad_headers;
    return;
  }
  ++to->pages;
  to->bad_pages += info.bad_pages;
  to->stored_bytes += info.stored_bytes;
  to->description = info.description;
  to->oldest_s = std::max(to->oldest_s, file.age_s);
  to->newest_s = std::min(to->newest_s, file.age_s);
}

/// The fields of a description.
Json fields_json(const std::string& description) {
  Json out = Json::object();
  for (size_t at = 0, end; at < description.size(); at = end + 1) {
    end = std::min(description.find('\n', at), description.size());
    const size_t colon = description.find(": ", at);
    if (colon < end) out[description.substr(at, colon - at)] = description.substr(colon + 2, end - colon - 2);
  }
  return out;
}

Json pages_json(const Pages& of, bool validate) {
  Json json;
  json["pages"] = of.pages;
  json["stored_bytes"] = of.stored_bytes;
  json["file_bytes"] = of.file_bytes;
  json["bad_headers"] = of.bad_headers;
  if (validate) json["bad_pages"] = of.bad_pages;
  if (of.pages != 0) json["oldest_s"] = of.oldest_s, json["newest_s"] = of.newest_s;
  return json;
}

uint64_t seconds_of(const std::string& text) {
  static const std::map<char, uint64_t> kUnits = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  const size_t digits = text.find_first_not_of("0123456789");
  const auto unit = digits == text.size() - 1 ? kUnits.find(text.back()) : kUnits.end();
  if (digits == 0 || digits > 9 || unit == kUnits.end())
    throw InputError("--older-than " + text +
                     " is no time; write a number and a unit, such as 90s, 30m, 12h or 7d");
  return std::stoull(text) * unit->second;
}

bool has_prefix(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }

Json gone_json(const char* kind, uint64_t pages, uint64_t bytes) {
  return {{"kind", kind}, {"purged_pages", pages}, {"purged_bytes", bytes}};
}

/// What a slab has of each fingerprint, in order.
std::vector<kvc_page_file_info> slab_parts(const fs::path& path, bool validate) {
  std::vector<kvc_page_file_info> out;
  for (;;) {
    auto info = make<kvc_page_file_info>();
    const auto number = static_cast<uint32_t>(out.size());
    const kvc_status status = kvc_page_file_read_part(path.c_str(), number, validate, &info);
    if (status == KVC_ERROR_NOT_FOUND) return out;
    if (status != KVC_OK) throw InputError(kvc_last_error());
    out.push_back(info);
  }
}

/// That of the fingerprints which begins so.
std::string chosen(const fs::path& place, const std::vector<std::string>& fingerprints,
                   const std::string& wanted) {
  std::vector<std::string> of;
  for (const std::string& name : fingerprints)
    if (has_prefix(name, wanted)) of.push_back(name);
  if (of.empty())
    throw InputError(place.string() + " has no pages of the fingerprint " + wanted +
                     "; kvcache inspect lists those that it has");
  if (of.size() > 1)
    throw InputError(place.string() + " has several fingerprints that begin with " + wanted +
                     "; give more digits");
  return of[0];
}

Json purge_folder(const fs::path& folder, const PurgeOptions& options) {
  const uint64_t least_s = options.older_than ? seconds_of(*options.older_than) : 0;
  std::set<std::string> names;
  if (options.fingerprint) each_page(folder, [&](const PageFile& file) { names.insert(file.fingerprint); });
  const std::string wanted =
      options.fingerprint ? chosen(folder, {names.begin(), names.end()}, *options.fingerprint) : "";
  uint64_t pages = 0, bytes = 0;
  std::set<std::string> gone;
  each_page(folder, [&](const PageFile& file) {
    if ((options.fingerprint && file.fingerprint != wanted) || file.age_s < least_s) return;
    std::error_code error;
    if (!fs::remove(file.path, error)) {
      if (error) throw InputError(file.path.string() + ": cannot remove it: " + error.message());
      return;
    }
    ++pages, bytes += file.bytes;
    gone.insert(file.fingerprint);
  });
  each_page(folder, [&](const PageFile& file) { gone.erase(file.fingerprint); });
  for (const std::string& name : gone) {  // what its pages were of
    std::error_code error;
    if (!fs::remove(folder / (name + ".txt"), error) && error)
      throw InputError(folder.string() + ": cannot remove " + name + ".txt: " + error.message());
  }
  return gone_json("folder", pages, bytes);
}

Json purge_slab(const fs::path& path, const PurgeOptions& options) {
  if (options.older_than)
    throw InputError(path.string() +
                     " is a slab, which does not keep when its pages were used; give --purge alone");
  auto info = make<kvc_page_file_info>();
  if (kvc_page_file_read_info(path.c_str(), 0, &info) != KVC_OK) throw InputError(kvc_last_error());
  if (info.kind != KVC_PAGE_FILE_SLAB)
    throw InputError(path.string() + " is no slab; pages are purged by their folder");
  std::vector<std::string> names;
  const std::vector<kvc_page_file_info> parts = slab_parts(path, false);
  names.reserve(parts.size());
  for (const kvc_page_file_info& part : parts)
    names.push_back(hex(part.fingerprint, sizeof part.fingerprint));
  const std::string name = chosen(path, names, *options.fingerprint);
  const auto number = std::find(names.begin(), names.end(), name) - names.begin();
  auto gone = make<kvc_page_file_info>();
  if (kvc_page_file_purge(path.c_str(), parts[static_cast<size_t>(number)].fingerprint, &gone) != KVC_OK)
    throw InputError(kvc_last_error());
  return gone_json("slab", gone.num_pages, gone.stored_bytes);
}

}  // namespace

bool is_tier_folder(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "format", error);
}

Json tier_folder_json(const fs::path& folder, bool validate) {
  std::map<std::string, Pages> found;
  Pages all;
  each_page(folder, [&](const PageFile& file) { add_page(file, validate, &found[file.fingerprint]); });
  Json parts = Json::array();
  for (const auto& [fingerprint, pages] : found) {
    Json one = {{"fingerprint", fingerprint}};
    one.update(pages_json(pages, validate));
    one["of"] = fields_json(pages.description);
    parts.push_back(one);
    all.pages += pages.pages, all.stored_bytes += pages.stored_bytes, all.file_bytes += pages.file_bytes;
    all.bad_headers += pages.bad_headers, all.bad_pages += pages.bad_pages;
    all.oldest_s = std::max(all.oldest_s, pages.oldest_s),
    all.newest_s = std::min(all.newest_s, pages.newest_s);
  }
  Json json = {{"kind", "folder"}};
  json.update(pages_json(all, validate));
  json["fingerprints"] = parts;
  return json;
}

Json slab_parts_json(const fs::path& slab, bool validate) {
  Json parts = Json::array();
  for (const kvc_page_file_info& info : slab_parts(slab, validate)) {
    Json one = {{"fingerprint", hex(info.fingerprint, sizeof info.fingerprint)},
                {"pages", info.num_pages},
                {"stored_bytes", info.stored_bytes}};
    if (validate) one["bad_pages"] = info.bad_pages;
    one["of"] = fields_json(info.description);
    parts.push_back(one);
  }
  return parts;
}

Json purge_json(const fs::path& place, const PurgeOptions& options) {
  if (const auto& name = options.fingerprint;
      name && (name->size() < 8 || name->size() > kDigits ||
               name->find_first_not_of("0123456789abcdef") != std::string::npos))
    throw InputError(
        "--purge \"" + *options.fingerprint +
        "\" is no fingerprint; give its 64 digits, or the first 8 or more, as kvcache inspect shows them");
  std::error_code error;
  if (!fs::is_directory(place, error)) return purge_slab(place, options);
  if (!is_tier_folder(place)) throw InputError(place.string() + " is not the folder of a tier");
  return purge_folder(place, options);
}

}  // namespace kvcli
