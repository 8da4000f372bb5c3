// SPDX-License-Identifier: Apache-2.0
// A trace file is not trusted: reading gives a valid Trace, or an InputError that names the file, the line,
// the problem and the fix. Memory is proportional to the size of the file.
#include "cli/trace.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/errors.h"

namespace kvcli {
namespace {

constexpr size_t kMaxLineBytes = size_t{16} << 20;

/// Reads lines, and knows the position for error texts.
class LineReader {
 public:
  LineReader(std::istream& in, std::string name) : buffer_(in.rdbuf()), name_(std::move(name)) {}

  bool next(std::string& line) {
    using Traits = std::char_traits<char>;
    line.clear();
    ++line_number_;
    for (auto c = buffer_->sbumpc(); c != Traits::eof(); c = buffer_->sbumpc()) {
      if (c == '\n') return true;
      if (line.size() == kMaxLineBytes)
        fail("longer than 16 MiB", "give a trace, which has one JSON object per line");
      line.push_back(Traits::to_char_type(c));
    }
    return !line.empty();
  }

  uint64_t line_number() const { return line_number_; }

  [[noreturn]] void fail(const std::string& what, const std::string& fix) const {
    throw InputError(name_ + ":" + std::to_string(line_number_) + ": " + what + "; " + fix);
  }

 private:
  std::streambuf* buffer_;
  std::string name_;
  uint64_t line_number_ = 0;
};

constexpr const char* kRepair = "repair or remove the line";

/// Deep nesting is refused: no trace has it, and it costs the most.
nlohmann::json parse_line(const std::string& line, const LineReader& at) {
  constexpr int kMaxDepth = 64;
  const auto check_depth = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kMaxDepth) at.fail("nested deeper than " + std::to_string(kMaxDepth) + " levels", kRepair);
    return true;
  };
  try {
    return nlohmann::json::parse(line, check_depth);
  } catch (const nlohmann::json::exception& error) {
    at.fail("not JSON (" + std::string(error.what()).substr(0, 160) + ")", kRepair);
  }
}

const nlohmann::json& member(const nlohmann::json& object, const char* key, const LineReader& at) {
  const auto found = object.find(key);
  if (found == object.end()) {
    at.fail(std::string("no \"") + key + "\"", "a request needs input_length, output_length and hash_ids");
  }
  return *found;
}

uint64_t whole_number(const nlohmann::json& value, const std::string& what, uint64_t low, uint64_t high,
                      const LineReader& at) {
  const auto fix = "give a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  if (value.is_structured()) at.fail(what + " is no number", fix);  // Not shown: it may be nested.
  if (!value.is_number_unsigned()) at.fail(what + " is " + value.dump().substr(0, 40), fix);
  const auto number = value.get<uint64_t>();
  if (number < low || number > high) at.fail(what + " is " + std::to_string(number), fix);
  return number;
}

bool is_bailian(const nlohmann::json& object) {
  return object.contains("chat_id") || object.contains("parent_chat_id");
}

/// The first request decides on the format.
void check_format(const nlohmann::json& object, const LineReader& at, Trace& trace) {
  const uint32_t tokens = is_bailian(object) ? kBailianTokensPerHashId : kTokensPerHashId;
  if (trace.requests.empty()) trace.tokens_per_hash_id = tokens;
  if (trace.tokens_per_hash_id == tokens) return;
  at.fail(is_bailian(object) ? "a request with chat_id after requests without"
                             : "no \"chat_id\" after requests with one",
          "give a trace of one format, Mooncake or Qwen-Bailian");
}

/// Checks what only Qwen-Bailian has; its time in milliseconds, or nothing.
std::optional<uint64_t> read_chat(const nlohmann::json& object, const LineReader& at) {
  constexpr uint64_t kMostChats = uint64_t{1} << 53;
  constexpr double kMostSeconds = 1e9;
  whole_number(member(object, "chat_id", at), "chat_id", 0, kMostChats, at);
  const auto& parent = member(object, "parent_chat_id", at);
  if (!parent.is_number_integer() || parent.is_number_unsigned() || parent.get<int64_t>() != -1)
    whole_number(parent, "parent_chat_id", 0, kMostChats, at);
  const auto time = object.find("timestamp");
  if (time == object.end()) return std::nullopt;
  const double seconds = time->is_number() ? time->get<double>() : -1;
  if (seconds >= 0 && seconds <= kMostSeconds) return static_cast<uint64_t>(std::llround(seconds * 1000));
  at.fail("timestamp is " + (time->is_structured() ? "no number" : time->dump().substr(0, 40)),
          "give seconds from 0 to 1000000000");
}

/// What only simulations use.
void read_class(const nlohmann::json& object, const LineReader& at, TraceRequest& request) {
  if (const auto tenant = object.find("tenant"); tenant != object.end())
    request.tenant = static_cast<uint32_t>(whole_number(*tenant, "tenant", 0, kMaxTenants - 1, at));
  const auto priority = object.find("priority");
  if (priority == object.end()) return;
  const bool whole = priority->is_number_unsigned()
                         ? priority->get<uint64_t>() <= INT32_MAX
                         : priority->is_number_integer() && priority->get<int64_t>() >= INT32_MIN;
  if (!whole)
    at.fail("priority is " + (priority->is_structured() ? "no number" : priority->dump().substr(0, 40)),
            "give a whole number from -2147483648 to 2147483647");
  request.priority = priority->get<int32_t>();
}

void append_request(const std::string& line, const LineReader& at, Trace& trace) {
  const nlohmann::json object = parse_line(line, at);
  if (!object.is_object()) at.fail("not a JSON object", kRepair);
  check_format(object, at, trace);

  TraceRequest request{};
  request.input_length = static_cast<uint32_t>(
      whole_number(member(object, "input_length", at), "input_length", 1, kMaxInputLength, at));
  request.output_length = static_cast<uint32_t>(
      whole_number(member(object, "output_length", at), "output_length", 0, kMaxOutputLength, at));
  std::optional<uint64_t> timestamp;  // Not replayed, so a missing one does no harm there.
  if (is_bailian(object)) {
    timestamp = read_chat(object, at);
  } else if (const auto time = object.find("timestamp"); time != object.end() && time->is_number_unsigned()) {
    timestamp = time->get<uint64_t>();
  }
  request.timestamp_ms = timestamp.value_or(0);
  if (!timestamp && trace.untimed_line == 0) trace.untimed_line = at.line_number();
  read_class(object, at, request);
  request.first_hash_id = trace.hash_ids.size();

  const auto& ids = member(object, "hash_ids", at);
  const std::string fix = "give one id per " + std::to_string(trace.tokens_per_hash_id) + " prompt tokens";
  if (!ids.is_array()) at.fail("hash_ids is not an array", fix);
  const size_t needed = trace.num_hash_ids(request);
  if (ids.size() < needed) {
    at.fail("hash_ids has " + std::to_string(ids.size()) + " ids, but input_length " +
                std::to_string(request.input_length) + " needs " + std::to_string(needed),
            fix);
  }
  for (size_t i = 0; i < needed; ++i) {
    trace.hash_ids.push_back(whole_number(ids[i], "hash_ids[" + std::to_string(i) + "]", 0, kMaxHashId, at));
  }
  trace.requests.push_back(request);
}

}  // namespace

uint64_t splitmix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

Trace read_trace(std::istream& in, const std::string& name, uint64_t max_requests) {
  Trace trace;
  LineReader reader(in, name);
  std::string line;
  while ((max_requests == 0 || trace.requests.size() < max_requests) && reader.next(line)) {
    const bool blank = line.find_first_not_of(" \t\r") == std::string::npos;
    if (!blank) append_request(line, reader, trace);
  }
  if (trace.requests.empty())
    throw InputError(name + ": no requests; give a trace with one JSON object per line");
  return trace;
}

Trace read_trace(const std::string& path, uint64_t max_requests) {
  if (path == "-") return read_trace(std::cin, "(standard input)", max_requests);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw InputError(path + ": is a directory; name a trace file in it");
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw InputError(path + ": " + std::strerror(errno) +
                     "; give a readable trace, or --generate to do without one");
  }
  return read_trace(file, path, max_requests);
}

void write_trace(const Trace& trace, std::ostream& out) {
  const bool is_mooncake = trace.tokens_per_hash_id == kTokensPerHashId;
  for (const TraceRequest& request : trace.requests) {
    if (is_mooncake) {
      out << "{\"timestamp\": " << request.timestamp_ms;
    } else {
      out << "{\"chat_id\": " << &request - trace.requests.data()
          << ", \"parent_chat_id\": -1, \"timestamp\": " << request.timestamp_ms / 1000 << '.' << std::setw(3)
          << std::setfill('0') << request.timestamp_ms % 1000;
    }
    out << ", \"input_length\": " << request.input_length << ", \"output_length\": " << request.output_length;
    if (request.priority != 0) out << ", \"priority\": " << request.priority;
    if (request.tenant != 0) out << ", \"tenant\": " << request.tenant;
    out << ", \"hash_ids\": [";
    for (uint32_t i = 0; i < trace.num_hash_ids(request); ++i) {
      out << (i == 0 ? "" : ", ") << trace.hash_ids[request.first_hash_id + i];
    }
    out << "]}\n";
  }
}

int32_t output_token(uint64_t request, uint64_t k) {
  return static_cast<int32_t>(splitmix64((uint64_t{1} << 40) + (request << 20) + k) % kVocabSize);
}

void make_tokens(const Trace& trace, size_t request, uint32_t num_outputs, std::vector<int32_t>& tokens) {
  const TraceRequest& from = trace.requests[request];
  tokens.resize(size_t{from.input_length} + num_outputs);
  const uint64_t* ids = trace.hash_ids.data() + from.first_hash_id;
  int32_t* out = tokens.data();
  const uint32_t per_id = trace.tokens_per_hash_id;
  for (uint32_t begin = 0; begin < from.input_length; begin += per_id) {
    const uint64_t base = *ids++ * per_id;
    const uint32_t count = std::min(per_id, from.input_length - begin);
    for (uint32_t i = 0; i < count; ++i) *out++ = static_cast<int32_t>(splitmix64(base + i) % kVocabSize);
  }
  for (uint32_t k = 0; k < num_outputs; ++k) *out++ = output_token(request, k);
}

}  // namespace kvcli
