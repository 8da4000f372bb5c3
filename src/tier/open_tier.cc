// SPDX-License-Identifier: Apache-2.0
#include "tier/open_tier.h"

#include <string_view>

#include "base/status.h"
#include "tier/directory_store.h"
#include "tier/memory_store.h"
#include "tier/slab_store.h"

namespace kvc {
namespace {

constexpr size_t kMaxUrl = 4096;

struct TierUrl {
  std::string_view scheme;
  char path[kMaxUrl];
  uint64_t bytes = 0, threads = 0, jobs = 0, direct = 0, sync = 0;
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

kvc_status parse_url(const char* text, TierUrl* out) {
  std::string_view rest(text);
  if (rest.size() >= kMaxUrl)
    return invalid("a tier's URL of %zu bytes; %zu are possible", rest.size(), kMaxUrl - 1);
  out->scheme = take_until(&rest, ':');
  const bool is_file = out->scheme == "slab" || out->scheme == "dir", is_memory = out->scheme == "memory";
  if (!is_file && !is_memory)
    return fail(KVC_ERROR_UNSUPPORTED, "tier %s: there is no kind '%.*s'; there are memory, slab and dir",
                text, length_of(out->scheme), out->scheme.data());
  out->threads = is_memory ? 2 : 4;
  out->jobs = TierOptions().max_jobs;
  const std::string_view path = take_until(&rest, '?');
  if (is_memory != path.empty())
    return invalid("tier %s: %s", text,
                   is_memory ? "memory has no path; write memory:?bytes=..." : "the path is missing");
  path.copy(out->path, path.size());
  out->path[path.size()] = 0;
  while (!rest.empty()) {
    std::string_view value = take_until(&rest, '&');
    const std::string_view name = take_until(&value, '=');
    uint64_t* const field = name == "bytes"                             ? &out->bytes
                            : name == "threads"                         ? &out->threads
                            : name == "jobs"                            ? &out->jobs
                            : name == "sync" && is_file                 ? &out->sync
                            : name == "direct" && out->scheme == "slab" ? &out->direct
                                                                        : nullptr;
    if (field == nullptr)
      return invalid("tier %s: %.*s has no parameter '%.*s'", text, length_of(out->scheme),
                     out->scheme.data(), length_of(name), name.data());
    if (!read_amount(value, field == &out->bytes, field) || *field > PTRDIFF_MAX)
      return invalid("tier %s: %.*s='%.*s' is not a number%s", text, length_of(name), name.data(),
                     length_of(value), value.data(), field == &out->bytes ? " of bytes, such as 64GiB" : "");
  }
  if (out->bytes == 0) return invalid("tier %s: bytes is missing, such as ?bytes=64GiB", text);
  if (out->threads > 256 || out->jobs > 1u << 20 || out->direct > 1 || out->sync > 1)
    return invalid("tier %s: threads is at most 256, jobs at most 2^20, direct and sync are 0 or 1", text);
  return KVC_OK;
}

}  // namespace

kvc_status open_tier(const Env& env, Files& files, const char* url, const TierPages& pages,
                     std::unique_ptr<Tier>* out) {
  TierUrl parts;
  KVC_TRY(parse_url(url, &parts));
  TierOptions options;
  options.num_threads = static_cast<uint32_t>(parts.threads);
  options.max_jobs = static_cast<uint32_t>(parts.jobs);
  PageStorePtr store;
  if (parts.scheme == "memory") {
    KVC_TRY(make_memory_store(env, parts.bytes, pages.page_bytes, &store));
  } else if (parts.scheme == "slab") {
    KVC_TRY(open_slab_store(env, files,
                            {parts.path, parts.bytes, pages.page_bytes, pages.fingerprint,
                             options.num_threads, parts.direct != 0, parts.sync != 0},
                            &store));
  } else {
    KVC_TRY(open_directory_store(
        env, files,
        {parts.path, parts.bytes, pages.page_bytes, pages.fingerprint, options.num_threads, parts.sync != 0},
        &store));
  }
  return Tier::create(env, std::move(store), options, out);
}

}  // namespace kvc
