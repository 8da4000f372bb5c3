// SPDX-License-Identifier: Apache-2.0
// The JSON keys are an interface: add keys, do not rename them.
#include "cli/route_answers.h"

#include "cli/errors.h"

namespace kvcli {
namespace {

using Json = nlohmann::ordered_json;

kvc_index_config index_config(const RouteOptions& options) {
  auto config = kvc::make<kvc_index_config>();
  config.max_blocks = options.max_blocks;
  config.max_workers = options.max_workers;
  config.ttl_ns = options.ttl_seconds * uint64_t{1'000'000'000};
  return config;
}

const Json& field(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) throw InputError(std::string("no \"") + name + "\"; give it");
  return *found;
}

uint64_t number(const Json& object, const char* name, uint64_t most = UINT64_MAX) {
  const Json& value = field(object, name);
  if (!value.is_number_unsigned() || value.get<uint64_t>() > most)
    throw InputError(std::string("\"") + name + "\" is " + value.dump().substr(0, 40) +
                     "; give a whole number, 0 to " + std::to_string(most));
  return value.get<uint64_t>();
}

uint64_t number_or(const Json& object, const char* name, uint64_t standard, uint64_t most = UINT64_MAX) {
  return object.contains(name) ? number(object, name, most) : standard;
}

int nibble(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void read_digest(const Json& value, uint8_t* out) {
  const auto* text = value.get_ptr<const std::string*>();
  bool is_right = text != nullptr && text->size() == 64;
  for (size_t i = 0; is_right && i < 32; ++i) {
    const int high = nibble((*text)[2 * i]), low = nibble((*text)[2 * i + 1]);
    is_right = high >= 0 && low >= 0;
    out[i] = static_cast<uint8_t>(high * 16 + low);
  }
  if (!is_right)
    throw InputError("a digest is " + value.dump().substr(0, 80) + "; give a text of 64 hex digits");
}

kvc_event read_event(const Json& value) {
  if (!value.is_object()) throw InputError("an event is " + value.dump().substr(0, 40) + "; give an object");
  kvc_event event = {};
  const Json& kind = field(value, "kind");
  if (kind == "stored") {
    event.kind = KVC_EVENT_STORED;
  } else if (kind == "removed") {
    event.kind = KVC_EVENT_REMOVED;
  } else if (kind == "namespace_cleared") {
    event.kind = KVC_EVENT_NAMESPACE_CLEARED;
  } else if (kind == "all_cleared") {
    event.kind = KVC_EVENT_ALL_CLEARED;
  } else {
    throw InputError("\"kind\" is " + kind.dump().substr(0, 40) +
                     "; give stored, removed, namespace_cleared or all_cleared");
  }
  event.sequence = number(value, "sequence");
  event.time_ns = number_or(value, "time_ns", 0);
  event.namespace_id = number_or(value, "namespace_id", 0);
  if (event.kind == KVC_EVENT_STORED || event.kind == KVC_EVENT_REMOVED)
    read_digest(field(value, "digest"), event.digest);
  return event;
}

}  // namespace

RouteAnswers::RouteAnswers(const RouteOptions& options) : options_(options), index_(index_config(options)) {}

std::string RouteAnswers::answer(const std::string& line, uint64_t now_ns) {
  const auto refused = [](const char* text) {
    return Json{{"ok", false}, {"error", text}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  try {
    const Json request = Json::parse(line, nullptr, false);
    if (!request.is_object()) return refused("the line is no JSON object; give one a line");
    return answer_request(request, now_ns).dump(-1, ' ', false, Json::error_handler_t::replace);
  } catch (const kvc::Error& error) {
    return refused(error.what());
  } catch (const InputError& error) {
    return refused(error.what());
  }
}

void RouteAnswers::expire(uint64_t now_ns) {
  if (index_.expire(now_ns) == 0) return;
  std::map<uint64_t, double> left;
  for (const uint64_t worker : index_.workers()) left[worker] = loads_[worker];
  loads_.swap(left);
}

RouteAnswers::Json RouteAnswers::answer_request(const Json& request, uint64_t now_ns) {
  if (request.contains("worker")) return tell_worker(request, now_ns);
  if (request.contains("gone")) {
    const uint64_t worker = number(request, "gone");
    index_.remove_worker(worker);
    loads_.erase(worker);
    return {{"ok", true}};
  }
  if (request.contains("tokens") || request.contains("digests")) return route(request);
  if (request.contains("stats")) return stats();
  if (request.contains("stop")) {
    stopped_ = true;
    return {{"ok", true}};
  }
  throw InputError("the object has none of worker, gone, tokens, digests, stats, stop; give one");
}

RouteAnswers::Json RouteAnswers::tell_worker(const Json& request, uint64_t now_ns) {
  const uint64_t worker = number(request, "worker");
  const bool has_load = request.contains("load"), has_events = request.contains("events");
  if (!has_load && !has_events) {
    const std::string name = request.contains("name") && request["name"].is_string() ? request["name"] : "";
    index_.add_worker(worker, now_ns, name.c_str());
    loads_[worker] = 0;
    return {{"ok", true}};
  }
  if (has_load) {
    const Json& load = request["load"];
    if (!load.is_number() || !(load.get<double>() >= 0 && load.get<double>() <= 1e15))
      throw InputError("\"load\" is " + load.dump().substr(0, 40) + "; give 0 to 1e15");
    index_.touch_worker(worker, now_ns);
    loads_[worker] = load.get<double>();
  }
  return has_events ? apply(worker, request, now_ns) : Json{{"ok", true}};
}

RouteAnswers::Json RouteAnswers::apply(uint64_t worker, const Json& request, uint64_t now_ns) {
  const Json& events = request["events"];
  if (!events.is_array()) throw InputError("\"events\" is no array; give one");
  const auto medium = static_cast<uint32_t>(number_or(request, "medium", 0, UINT32_MAX));
  events_.clear();
  for (const Json& event : events) events_.push_back(read_event(event));
  const kvc_index_applied applied = index_.apply(worker, medium, events_, now_ns);
  return {{"ok", true},
          {"applied", applied.applied},
          {"ignored", applied.ignored},
          {"next_sequence", applied.next_sequence},
          {"is_stale", applied.is_stale != 0}};
}

RouteAnswers::Json RouteAnswers::route(const Json& request) {
  size_t blocks = 0;
  if (request.contains("digests")) {
    const Json& digests = request["digests"];
    if (!digests.is_array()) throw InputError("\"digests\" is no array; give one");
    digests_.resize(digests.size());
    for (size_t i = 0; i < digests_.size(); ++i) read_digest(digests[i], digests_[i].data());
    index_.match(digests_, matches_);
    blocks = digests_.size();
  } else {
    const Json& tokens = request["tokens"];
    if (!tokens.is_array()) throw InputError("\"tokens\" is no array; give one");
    tokens_.clear();
    for (const Json& token : tokens) {
      if (!token.is_number_unsigned() || token.get<uint64_t>() > INT32_MAX)
        throw InputError("a token is " + token.dump().substr(0, 40) + "; give 0 to 2147483647");
      tokens_.push_back(static_cast<int32_t>(token.get<uint64_t>()));
    }
    index_.match(tokens_, options_.block_size, matches_);
    blocks = (tokens_.size() + options_.block_size - 1) / options_.block_size;
  }
  if (loads_.empty()) throw InputError("there is no worker; add one");
  std::map<uint64_t, size_t> rows;
  for (size_t i = 0; i < matches_.size(); ++i) rows[matches_.worker(i)] = i;
  struct {
    uint64_t worker = 0;
    uint32_t matched = 0;
    double cost = 0, load = 0;
    bool is_set = false;
  } best;
  for (const auto& [worker, load] : loads_) {
    const auto row = rows.find(worker);
    const uint32_t matched = row == rows.end() ? 0 : matches_.blocks(row->second);
    const uint32_t near = row == rows.end() ? 0 : matches_.blocks(row->second, 0);
    const double cost = static_cast<double>(blocks - matched) + options_.far_weight * (matched - near) +
                        options_.load_weight * load;
    if (best.is_set && (cost > best.cost || (cost == best.cost && load >= best.load))) continue;
    best = {worker, matched, cost, load, true};
  }
  return {{"ok", true},
          {"worker", best.worker},
          {"matched", best.matched},
          {"blocks", blocks},
          {"cost", best.cost}};
}

RouteAnswers::Json RouteAnswers::stats() const {
  const kvc_index_stats stats = index_.stats();
  return {{"ok", true},
          {"num_workers", stats.num_workers},
          {"num_blocks", stats.num_blocks},
          {"num_holdings", stats.num_holdings},
          {"num_sets", stats.num_sets},
          {"bytes_allocated", stats.bytes_allocated},
          {"bytes_used", stats.bytes_used},
          {"applied_events", stats.applied_events},
          {"ignored_events", stats.ignored_events},
          {"gaps", stats.gaps},
          {"dropped_events", stats.dropped_events},
          {"evicted_blocks", stats.evicted_blocks},
          {"restarts", stats.restarts},
          {"expired_workers", stats.expired_workers}};
}

}  // namespace kvcli
