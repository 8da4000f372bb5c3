// SPDX-License-Identifier: Apache-2.0
// kvc_log_replay: the calls of a log once more, through the public functions.
#include <tuple>

#include "api/record_calls.h"
#include "api/record_read.h"
#include "api/recording.h"
#include "record/log.h"

namespace kvc {
namespace {

constexpr const char* kNotOurs = "the library did not write this: record again";

class LogReplay {
 public:
  LogReplay(const unsigned char* log, size_t size) : log_(log), size_(size) {}
  LogReplay(const LogReplay&) = delete;
  LogReplay& operator=(const LogReplay&) = delete;
  ~LogReplay() { kvc_manager_destroy(manager_); }

  kvc_status run(kvc_replay_info* out);

 private:
  kvc_status make_manager(ByteReader in);
  kvc_status replay_part(const LogHeader& header, ByteReader in);
  kvc_status replay_call(ByteReader in);
  template <typename Logged, typename Function, typename... Args>
  kvc_status replay_as(Function function, std::tuple<Args...> args, ByteReader& in);
  void compare(const char* name, kvc_status status, kvc_status logged, const char* difference);
  kvc_status malformed(const ByteReader& in, const char* what) const;

  const unsigned char* const log_;
  const size_t size_;
  kvc_manager* manager_ = nullptr;
  LogScratch scratch_;
  kvc_replay_info info_ = {};
};

kvc_status LogReplay::malformed(const ByteReader& in, const char* what) const {
  return invalid("byte %zu: %s in call %llu; %s", static_cast<size_t>(in.at() - log_), what,
                 ull(info_.calls + 1), kNotOurs);
}

// What kvc_manager_create was told; the seed is another one.
kvc_status LogReplay::make_manager(ByteReader in) {
  constexpr uint64_t kMost = 32;
  CallReader reader(in, nullptr, scratch_, size_);
  kvc_manager_config config;
  const auto read_all = [&](auto* elements, size_t* count) {
    reader.number(*count);
    if (*count > kMost) return in.fail();
    for (size_t i = 0; i < *count; ++i) reader.words(elements[i]);
  };
  kvc_group_config groups[kMost];
  kvc_pool_config pools[kMost];
  reader.words(config);
  read_all(groups, &config.num_groups);
  if (!in.failed()) read_all(pools, &config.num_pools);
  if (in.failed() || in.left() != 0) return malformed(in, "a configuration that cannot be read stands");
  config.groups = config.num_groups == 0 ? nullptr : groups;
  config.pools = config.num_pools == 0 ? nullptr : pools;
  clear_unlogged(config);
  return kvc_manager_create(&config, &manager_);
}

void LogReplay::compare(const char* name, kvc_status status, kvc_status logged, const char* difference) {
  if (status == logged && difference[0] == 0) return;
  if (info_.mismatches++ != 0) return;
  info_.first_mismatch = info_.calls + 1;
  const int prefix =
      std::snprintf(info_.text, sizeof info_.text, "call %llu, %s: ", ull(info_.first_mismatch), name);
  char* const end = info_.text + prefix;
  const size_t room = sizeof info_.text - static_cast<size_t>(prefix);
  if (status != logged)
    std::snprintf(end, room, "%s; the log has %s", kvc_status_name(status), kvc_status_name(logged));
  else
    std::snprintf(end, room, "%s", difference);
}

template <typename Logged, typename Function, typename... Args>
kvc_status LogReplay::replay_as(Function function, std::tuple<Args...> args, ByteReader& in) {
  CallReader reader(in, manager_, scratch_, size_);
  visit_inputs<typename Logged::Codecs>(reader, args);
  kvc_status logged = 0;
  reader.number(logged);
  if (in.failed()) return malformed(in, Logged::kName);
  const kvc_status status =
      std::apply([&](Args... parameters) { return function(manager_, parameters...); }, args);
  if (status == KVC_ERROR_OUT_OF_MEMORY) return status;
  const bool compares = status == KVC_OK && logged == KVC_OK;
  if (compares) visit_results<typename Logged::Codecs>(reader, args);
  if (in.failed() || ((compares || logged != KVC_OK) && in.left() != 0)) return malformed(in, Logged::kName);
  compare(Logged::kName, status, logged, reader.difference());
  return KVC_OK;
}

template <typename... Args>
std::tuple<Args...> parameters_of(kvc_status (*)(kvc_manager*, Args...)) {
  return {};
}

kvc_status LogReplay::replay_call(ByteReader in) {
  scratch_.clear();
  switch (in.number()) {
#define KVC_LOGGED_CALL(number, duration, function, ...) \
  case number:                                           \
    return replay_as<LoggedCall<function>>(function, parameters_of(function), in);
#define KVC_RETIRED_CALL(number, function, ...) \
  case number:                                  \
    return replay_as<LoggedCall<retired::function>>(retired::function, parameters_of(retired::function), in);
#include "api/calls.def"
    default:
      return malformed(in, "an unknown function stands");
  }
}

kvc_status LogReplay::replay_part(const LogHeader& header, ByteReader in) {
  if (manager_ == nullptr) {
    ByteReader config = in.part(in.number());
    if (in.failed()) return malformed(in, "no configuration stands");
    KVC_TRY(make_manager(config));
  }
  uint64_t calls = 0;
  for (; in.left() != 0; ++calls, ++info_.calls) {
    const ByteReader call = in.part(in.number());
    if (in.failed()) return malformed(in, "a wrong length stands");
    KVC_TRY(replay_call(call));
  }
  if (calls != header.num_calls) return malformed(in, "a part with another number of calls ends");
  info_.lost_calls = header.lost_calls;
  info_.library_version = header.library_version;
  return KVC_OK;
}

kvc_status LogReplay::run(kvc_replay_info* out) {
  KVC_TRY(check_log(log_, size_));
  for (size_t offset = 0; offset < size_;) {
    const LogHeader header = header_at(log_, offset);
    const unsigned char* const payload = log_ + offset + sizeof header;
    offset += sizeof header + static_cast<size_t>(header.size);
    KVC_TRY(replay_part(header, {payload, payload + header.size}));
  }
  KVC_TRY(kvc_manager_digest(manager_, &info_.digest));
  *out = info_;
  return KVC_OK;
}

}  // namespace

kvc_status replay_log(const unsigned char* log, size_t size, kvc_replay_info* out) {
  return LogReplay(log, size).run(out);
}

}  // namespace kvc
