// SPDX-License-Identifier: Apache-2.0
// The same scanner checks a text and finds the end of each value.
#include "models/json.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "base/status.h"

namespace kvc {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kShown = 40;  // Characters of a value in an error text.

struct Scanner {
  std::string_view text;
  size_t at = 0;
  const char* problem = nullptr;

  bool fail(const char* what) {
    problem = what;
    return false;
  }
  char peek() const { return at < text.size() ? text[at] : '\0'; }
  bool take(char c) {
    if (peek() != c) return false;
    ++at;
    return true;
  }
  void space() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at;
  }
  bool digits() {
    const size_t begin = at;
    while (peek() >= '0' && peek() <= '9') ++at;
    return at != begin;
  }
  bool number() {
    take('-');
    if (!take('0') && !digits()) return fail("no value begins like this");
    if (take('.') && !digits()) return fail("a digit is missing");
    if (take('e') || take('E')) {
      if (!take('-')) take('+');
      if (!digits()) return fail("a digit is missing");
    }
    return true;
  }
  bool word(std::string_view expected) {
    if (text.substr(at, expected.size()) != expected) return fail("no value begins like this");
    at += expected.size();
    return true;
  }
  bool string() {
    if (!take('"')) return fail("a quotation mark is missing");
    while (!take('"')) {
      if (at >= text.size()) return fail("a string does not end");
      if (static_cast<unsigned char>(text[at]) < ' ') return fail("a control character in a string");
      if (text[at++] == '\\' && !escape()) return fail("an unknown escape sequence");
    }
    return true;
  }
  bool escape() {
    const char kind = peek();
    ++at;
    if (kind != 'u') return std::string_view("\"\\/bfnrt").find(kind) != std::string_view::npos;
    const size_t end = at + 4;
    while (at < end && std::isxdigit(static_cast<unsigned char>(peek())) != 0) ++at;
    return at == end;
  }
  bool items(char close, int depth) {
    if (depth == kMaxDepth) return fail("nested deeper than 64 levels");
    ++at;
    space();
    if (take(close)) return true;
    do {
      space();
      if (close == '}' && !(string() && colon())) return false;
      if (!value(depth + 1)) return false;
      space();
    } while (take(','));
    return take(close) || fail("a comma or a closing bracket is missing");
  }
  bool colon() {
    space();
    if (!take(':')) return fail("a colon is missing");
    space();
    return true;
  }
  bool value(int depth) {
    const char c = peek();
    return c == '{'   ? items('}', depth)
           : c == '[' ? items(']', depth)
           : c == '"' ? string()
           : c == 't' ? word("true")
           : c == 'f' ? word("false")
           : c == 'n' ? word("null")
                      : number();
  }
};

// The whole text as a number.
template <typename T>
std::optional<T> number_of(std::string_view text) {
  T number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

kvc_status Json::parse(std::string_view text, Json* out) {
  Scanner scanner{text};
  scanner.space();
  const size_t begin = scanner.at;
  if (scanner.value(0)) {
    *out = Json(text.substr(begin, scanner.at - begin));
    scanner.space();
    if (scanner.at == text.size()) return KVC_OK;
    scanner.fail("something follows the value");
  }
  return invalid("not JSON (byte %zu: %s); give the config.json of a model", scanner.at, scanner.problem);
}

// Reads the item at *at of an object or array, and moves *at to its end.
bool Json::next(size_t* at, Json* name, Json* value) const {
  Scanner scanner{text_, *at};
  scanner.space();
  if (scanner.take(',')) scanner.space();
  if (scanner.at + 1 == text_.size()) return false;  // The closing bracket.
  const auto part = [&](auto scan) {
    const size_t begin = scanner.at;
    scan();
    return Json(text_.substr(begin, scanner.at - begin));
  };
  if (is_object()) {
    *name = part([&] { scanner.string(); });
    scanner.colon();
  }
  *value = part([&] { scanner.value(0); });
  *at = scanner.at;
  return true;
}

std::optional<bool> Json::boolean() const {
  if (text_ != "true" && text_ != "false") return std::nullopt;
  return text_ == "true";
}

std::optional<uint64_t> Json::whole() const { return number_of<uint64_t>(text_); }

std::optional<double> Json::number() const {
  const std::optional<double> number = number_of<double>(text_);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

bool Json::says(std::string_view ascii) const { return is_string() && printable(ascii.size() + 1) == ascii; }

std::string Json::printable(size_t most) const {
  std::string out;
  for (size_t i = 1; i + 1 < text_.size() && out.size() < most; ++i) {
    char c = text_[i];
    if (c == '\\') {
      c = text_[++i];
      if (c == 'u') {
        unsigned code = 0;
        std::from_chars(text_.data() + i + 1, text_.data() + i + 5, code, 16);
        c = code < 128 ? static_cast<char>(code) : '?';
        i += 4;
      } else if (c >= 'a') {  // Newlines and the like. Others stand for themselves.
        c = '?';
      }
    }
    out += c >= ' ' && c <= '~' ? c : '?';
  }
  return out;
}

std::optional<Json> Json::member(std::string_view name) const {
  std::optional<Json> found;
  each([&](const Json& key, const Json& value) {
    if (key.says(name)) found = value;
    return true;
  });
  return found;
}

size_t Json::size() const {
  size_t count = 0;
  each([&](const Json&, const Json&) { return ++count != 0; });
  return count;
}

std::string Json::shown() const {
  if (is_object()) return "an object";
  if (is_array()) return "an array of " + std::to_string(size());
  const std::string_view rest = text_.size() > kShown ? "..." : "";
  if (is_string()) return "\"" + printable(kShown) + std::string(rest.empty() ? "\"" : rest);
  return std::string(text_.substr(0, kShown)) + std::string(rest);
}

std::optional<Json> Section::find(const char* key) const {
  std::optional<Json> value = object_.member(key);
  return value && !value->is_null() ? value : std::nullopt;
}

void Section::fail(const std::string& key, const std::string& what, const std::string& fix) const {
  static_cast<void>(kvc::invalid("\"%s%s\" %s; %s", prefix_.c_str(), key.c_str(), what.c_str(), fix.c_str()));
  throw Refused();
}

uint64_t Section::whole(const char* key, uint64_t most, uint64_t fallback, uint64_t least) const {
  if (fallback != kRequired && !find(key)) return fallback;
  const std::string fix = "give a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  const std::optional<Json> value = object_.member(key);
  if (!value) fail(key, "is missing", fix);
  const std::optional<uint64_t> number = value->whole();
  if (!number || *number < least || *number > most) refuse(key, *value, fix);
  return *number;
}

double Section::positive_or(const char* key, double fallback) const {
  const std::optional<Json> value = find(key);
  if (!value) return fallback;
  const std::optional<double> number = value->number();
  if (!number || *number <= 0) refuse(key, *value, "give a number above 0");
  return *number;
}

bool Section::flag_or(const char* key, bool fallback) const {
  const std::optional<Json> value = find(key);
  if (!value) return fallback;
  const std::optional<bool> flag = value->boolean();
  if (!flag) refuse(key, *value, "give true or false");
  return *flag;
}

std::optional<Json> Section::text(const char* key) const {
  const std::optional<Json> value = find(key);
  if (value && !value->is_string()) refuse(key, *value, "give a string");
  return value;
}

std::optional<Section> Section::section(const char* key) const {
  const std::optional<Json> value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) refuse(key, *value, "give an object or null");
  return Section(*value, prefix_ + key + ".");
}

}  // namespace kvc
