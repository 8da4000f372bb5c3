// SPDX-License-Identifier: Apache-2.0
#include "tier/open_tier.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/status.h"
#include "plugin/libraries.h"
#include "plugin/plugins.h"
#include "tier/directory_store.h"
#include "tier/memory_store.h"
#include "tier/plugin_store.h"
#include "tier/sizes_store.h"
#include "tier/slab_store.h"

namespace kvc {
namespace {

constexpr size_t kMaxUrl = 4096;
constexpr uint64_t kSecond = 1000000000;

struct TierUrl {
  std::string_view scheme;
  char path[kMaxUrl];
  uint64_t bytes = 0, threads = 0, jobs = 0, direct = 0, sync = 0, keep_free = 0, ttl_s = 0;
  uint64_t probe_ms = 1000;  // plug-ins
  SlotPolicy policy = SlotPolicy::kLru;
  bool replaces = false;
  SlabConfig::Io io = SlabConfig::Io::kAuto;
};

int length_of(std::string_view text) { return static_cast<int>(text.size()); }

// Takes what is before the separator, or all of it.
std::string_view take_until(std::string_view* text, char separator) {
  const size_t end = text->find(separator);
  const std::string_view out = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return out;
}

bool read_amount(std::string_view text, bool has_unit, uint64_t* out) {
  uint64_t value = 0;
  size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    if (__builtin_mul_overflow(value, 10u, &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(text[digits] - '0'), &value))
      return false;
  }
  const std::string_view unit = text.substr(digits);
  if (digits == 0 || (!has_unit && !unit.empty())) return false;
  static constexpr std::string_view kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  unsigned shift = 0;
  for (unsigned i = 0; i < 4; ++i)
    if (unit == kUnits[i]) shift = 10 * (i + 1);
  if ((shift == 0 && !unit.empty()) || value > UINT64_MAX >> shift) return false;
  *out = value << shift;
  return true;
}

bool is_builtin(std::string_view scheme) {
  return scheme == "memory" || scheme == "slab" || scheme == "dir" || scheme == "sizes";
}

kvc_status check_limits(const char* text, const TierUrl& url) {
  if (url.threads > 256)
    return invalid("tier %s: threads is %llu; it is at most 256", text, static_cast<ull>(url.threads));
  if (url.jobs == 0 || url.jobs > 1u << 20)
    return invalid("tier %s: jobs is %llu; it is 1 to 1048576", text, static_cast<ull>(url.jobs));
  if (url.direct > 1 || url.sync > 1) return invalid("tier %s: direct and sync are 0 or 1", text);
  if (url.probe_ms == 0 || url.probe_ms > 3600000)
    return invalid("tier %s: probe is %llu; it is 1 to 3600000 milliseconds", text,
                   static_cast<ull>(url.probe_ms));
  return KVC_OK;
}

kvc_status read_parameter(const char* text, std::string_view name, std::string_view value, bool has_unit,
                          uint64_t* field) {
  if (read_amount(value, has_unit, field) && *field <= PTRDIFF_MAX) return KVC_OK;
  return invalid("tier %s: %.*s='%.*s' is not a number%s", text, length_of(name), name.data(),
                 length_of(value), value.data(), has_unit ? " of bytes, such as 64GiB" : "");
}

kvc_status read_policy(const char* text, std::string_view scheme, std::string_view value, SlotPolicy* out) {
  if (value != "lru" && value != "frequency")
    return invalid("tier %s: policy is '%.*s'; it is lru or frequency", text, length_of(value), value.data());
  *out = value == "lru" ? SlotPolicy::kLru : SlotPolicy::kFrequency;
  if (scheme == "memory" || scheme == "slab" || *out == SlotPolicy::kLru) return KVC_OK;
  return fail(KVC_ERROR_UNSUPPORTED,
              "tier %s: %.*s knows the last use of a page alone; take policy=lru, or a slab", text,
              length_of(scheme), scheme.data());
}

kvc_status read_io(const char* text, std::string_view value, SlabConfig::Io* out) {
  if (value != "auto" && value != "uring" && value != "threads")
    return invalid("tier %s: io is '%.*s'; it is auto, uring or threads", text, length_of(value),
                   value.data());
  *out = value == "auto"    ? SlabConfig::Io::kAuto
         : value == "uring" ? SlabConfig::Io::kEngine
                            : SlabConfig::Io::kThreads;
  return KVC_OK;
}

kvc_status read_mismatch(const char* text, std::string_view value, bool* out) {
  if (value != "refuse" && value != "replace")
    return invalid("tier %s: on_mismatch is '%.*s'; it is refuse or replace", text, length_of(value),
                   value.data());
  *out = value == "replace";
  return KVC_OK;
}

kvc_status read_ttl(const char* text, std::string_view value, uint64_t* out) {
  static constexpr std::pair<char, uint64_t> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  uint64_t unit = 1;
  std::string_view number = value;
  for (const auto& [name, seconds] : kUnits)
    if (!value.empty() && value.back() == name) unit = seconds, number.remove_suffix(1);
  constexpr uint64_t kMost = uint64_t{100} * 366 * 86400;
  if (read_amount(number, false, out) && *out <= kMost && *out * unit <= kMost) {
    *out *= unit;
    return KVC_OK;
  }
  return invalid("tier %s: ttl='%.*s' is no time of at most 100 years, such as 90, 90s, 30m, 12h or 7d", text,
                 length_of(value), value.data());
}

kvc_status parse_builtin(const char* text, std::string_view rest, TierUrl* out) {
  const bool is_memory = out->scheme == "memory" || out->scheme == "sizes", is_file = !is_memory;
  out->threads = is_memory ? 2 : 4;
  const std::string_view path = take_until(&rest, '?');
  if (is_memory != path.empty())
    return invalid("tier %s: %s", text,
                   is_memory ? "it has no path; write memory:?bytes=..." : "the path is missing");
  path.copy(out->path, path.size());
  out->path[path.size()] = 0;
  while (!rest.empty()) {
    std::string_view value = take_until(&rest, '&');
    const std::string_view name = take_until(&value, '=');
    if (name == "policy") {
      KVC_TRY(read_policy(text, out->scheme, value, &out->policy));
      continue;
    }
    if (name == "io" && out->scheme == "slab") {
      KVC_TRY(read_io(text, value, &out->io));
      continue;
    }
    if (name == "on_mismatch" && out->scheme == "slab") {
      KVC_TRY(read_mismatch(text, value, &out->replaces));
      continue;
    }
    if (name == "ttl") {
      KVC_TRY(read_ttl(text, value, &out->ttl_s));
      continue;
    }
    uint64_t* const field = name == "bytes"                             ? &out->bytes
                            : name == "threads"                         ? &out->threads
                            : name == "jobs"                            ? &out->jobs
                            : name == "sync" && is_file                 ? &out->sync
                            : name == "keep_free" && is_file            ? &out->keep_free
                            : name == "direct" && out->scheme == "slab" ? &out->direct
                                                                        : nullptr;
    if (field == nullptr)
      return invalid("tier %s: %.*s has no parameter '%.*s'", text, length_of(out->scheme),
                     out->scheme.data(), length_of(name), name.data());
    KVC_TRY(read_parameter(text, name, value, field == &out->bytes || field == &out->keep_free, field));
  }
  if (out->bytes == 0) return invalid("tier %s: bytes is missing, such as ?bytes=64GiB", text);
  return KVC_OK;
}

// Takes the parameters of all tiers; out->path is the URL without them.
kvc_status parse_plugin(const char* text, std::string_view rest, TierUrl* out) {
  out->threads = 4;
  char* at = out->path;
  const auto add = [&](std::string_view part) { at += part.copy(at, part.size()); };
  add(out->scheme);
  add(":");
  add(take_until(&rest, '?'));
  char separator = '?';
  while (!rest.empty()) {
    const std::string_view parameter = take_until(&rest, '&');
    std::string_view value = parameter;
    const std::string_view name = take_until(&value, '=');
    uint64_t* const field = name == "threads" ? &out->threads
                            : name == "jobs"  ? &out->jobs
                            : name == "probe" ? &out->probe_ms
                                              : nullptr;
    if (field != nullptr) {
      KVC_TRY(read_parameter(text, name, value, false, field));
      continue;
    }
    add({&separator, 1});
    add(parameter);
    separator = '&';
  }
  *at = 0;
  return KVC_OK;
}

// A URL as texts may show it: without a user and a password before the host. A '?' in a password looks as if
// parameters began there.
std::string without_password(std::string_view url) {
  const size_t begin = url.find("//"), last = url.rfind('@');
  if (begin == std::string_view::npos || last == std::string_view::npos || last < begin)
    return std::string(url);
  const size_t end = std::min(url.find('?'), url.size());
  const size_t at = url.substr(0, end).rfind('@');
  std::string out(url.substr(0, begin + 2));
  if (at != std::string_view::npos && at > begin) out.append("...").append(url.substr(at, end - at));
  if (last > end) out.append("...").append(url.substr(last));
  return last > end ? out : out.append(url.substr(end));
}

kvc_status parse_url(const char* url, const char* text, TierUrl* out) {
  std::string_view rest(url);
  if (rest.size() >= kMaxUrl)
    return invalid("a tier's URL of %zu bytes; %zu are possible", rest.size(), kMaxUrl - 1);
  out->scheme = take_until(&rest, ':');
  if (!is_library_name(out->scheme.data(), out->scheme.size()))
    return invalid(
        "tier \"%.200s\": its URL begins with memory:, slab:, dir:, or the name of a plug-in and ':'", text);
  out->jobs = TierOptions().max_jobs;
  KVC_TRY(is_builtin(out->scheme) ? parse_builtin(text, rest, out) : parse_plugin(text, rest, out));
  return check_limits(text, *out);
}

kvc_status open_plugin_tier(const Env& env, const char* text, const TierUrl& url, const TierPages& pages,
                            PageStorePtr* out) {
  char name[16] = {};  // parse_url has checked its length
  url.scheme.copy(name, sizeof name - 1);
  const kvc_plugin* plugin = nullptr;
  const kvc_status status = open_plugin(name, nullptr, &plugin);
  if (status == KVC_ERROR_NOT_FOUND)
    return fail(status, "tier %.200s: built in are memory, slab and dir; %.600s", text,
                std::string(kvc_last_error()).c_str());
  KVC_TRY(status);
  return open_plugin_store(env,
                           {plugin->store, plugin->name, url.path, text, pages.page_bytes, pages.fingerprint,
                            static_cast<uint32_t>(url.threads)},
                           out);
}

kvc_status open_slab_tier(const Env& env, Files& files, const char* text, const TierUrl& url,
                          const TierPages& pages, PageStorePtr* out) {
  SlabConfig config = {};
  config.path = url.path;
  config.bytes = url.bytes;
  config.page_bytes = pages.page_bytes;
  config.fingerprint = pages.fingerprint;
  config.workers = static_cast<uint32_t>(url.threads);
  config.direct = url.direct != 0, config.sync = url.sync != 0;
  config.policy = url.policy;
  config.ttl_ns = url.ttl_s * kSecond;
  config.keep_free = url.keep_free;
  config.replaces = url.replaces;
  config.io = url.io;
  const bool must = url.io == SlabConfig::Io::kEngine;
  if (must || (url.io == SlabConfig::Io::kAuto && config.direct)) {
    const kvc_plugin* plugin = nullptr;
    const kvc_status status = open_plugin("uring", nullptr, &plugin);
    if (status == KVC_OK) config.engine = plugin->io;
    if (must && status != KVC_OK)
      return fail(status, "tier %.200s: io=uring needs a plug-in, io=threads does not; %.600s", text,
                  std::string(kvc_last_error()).c_str());
  }
  return open_slab_store(env, files, config, out);
}

}  // namespace

kvc_status open_tier(const Env& env, Files& files, const char* url, const TierPages& pages,
                     const TierOptions& base, std::unique_ptr<Tier>* out) {
  TierUrl parts;
  const std::string text = without_password(url);
  KVC_TRY(parse_url(url, text.c_str(), &parts));
  if (pages.fingerprint == Digest256{} && parts.scheme != "sizes")
    return invalid(
        "tier %s: the fingerprint is 32 zero bytes, with which pages of one model would be hits of another; "
        "take that of kvc_storage_page_properties (model, weights and shape), or a digest of your own",
        text.c_str());
  TierOptions options = base;
  options.probe_ns = parts.probe_ms * 1000000;
  options.num_threads = static_cast<uint32_t>(parts.threads);
  options.max_jobs = static_cast<uint32_t>(parts.jobs);
  PageStorePtr store;
  if (parts.scheme == "memory") {
    KVC_TRY(make_memory_store(env, parts.bytes, pages.page_bytes, &store, parts.policy, parts.ttl_s * kSecond,
                              parts.threads != 0));
  } else if (parts.scheme == "sizes") {
    KVC_TRY(make_sizes_store(env, parts.bytes, pages.page_bytes, &store, parts.ttl_s * kSecond));
  } else if (parts.scheme == "slab") {
    KVC_TRY(open_slab_tier(env, files, text.c_str(), parts, pages, &store));
  } else if (parts.scheme != "dir") {
    KVC_TRY(open_plugin_tier(env, text.c_str(), parts, pages, &store));
  } else {
    KVC_TRY(open_directory_store(env, files,
                                 {parts.path, parts.bytes, pages.page_bytes, pages.fingerprint,
                                  options.num_threads, parts.sync != 0, parts.keep_free, parts.ttl_s},
                                 &store));
  }
  return Tier::create(env, std::move(store), options, out);
}

}  // namespace kvc
