// SPDX-License-Identifier: Apache-2.0
#include "url.h"

#include <cstdio>
#include <cstring>
#include <string_view>

namespace kvc_redis {
namespace {

class Parser {
 public:
  Parser(Url* out, char* error, size_t error_bytes) : out_(*out), error_(error), error_bytes_(error_bytes) {}

  bool parse(std::string_view rest) {
    const std::string_view scheme = take(&rest, "://");
    if (scheme != "redis")
      return wrong(
          "the scheme '%.*s' is not known; write redis://host:port/db. TLS is not supported: use a "
          "tunnel, such as stunnel, beside this process",
          scheme.substr(0, scheme.find(':')));
    // A password that is not written as it should be would be taken for a port, and shown.
    const size_t end = rest.find_first_of("/?");
    if (end != std::string_view::npos && rest.find('@', end) != std::string_view::npos)
      return wrong(
          "%.*san '@' stands behind a '/' or '?'; in a password write / as %%2F, ? as %%3F, and "
          "elsewhere @ as %%40",
          "");
    std::string_view parameters = rest;
    std::string_view place = take(&parameters, "?");
    std::string_view user, path;
    if (const size_t at = place.substr(0, place.find('/')).rfind('@'); at != std::string_view::npos) {
      user = place.substr(0, at);
      place.remove_prefix(at + 1);
    }
    const bool has_path = place.find('/') != std::string_view::npos;
    path = place;
    const std::string_view host = take(&path, "/");
    return read_user(user) && read_place(host, has_path ? path : std::string_view()) &&
           read_parameters(parameters);
  }

 private:
  // What is before the separator, or all; `rest` is what is behind it.
  static std::string_view take(std::string_view* rest, std::string_view separator) {
    const size_t end = rest->find(separator);
    const std::string_view out = rest->substr(0, end);
    rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + separator.size());
    return out;
  }

  template <typename... Args>
  bool wrong(const char* format, std::string_view part, Args... args) {
    snprintf(error_, error_bytes_, format, static_cast<int>(part.size() < 100 ? part.size() : 100),
             part.data(), args...);
    return false;
  }

  static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  }

  // Replaces %XX; the length without the 0 behind the text, or -1.
  template <size_t N>
  static int64_t decode(std::string_view text, char (&out)[N]) {
    size_t count = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      char c = text[i];
      if (c == '%') {
        if (text.size() - i < 3 || digit_of(text[i + 1]) < 0 || digit_of(text[i + 2]) < 0) return -1;
        c = static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2]));
        i += 2;
      }
      if (count + 1 == N) return -1;
      out[count++] = c;
    }
    out[count] = 0;
    return static_cast<int64_t>(count);
  }

  static bool holds_zero(const char* text, int64_t length) {
    return std::memchr(text, 0, static_cast<size_t>(length)) != nullptr;
  }

  bool read_number(std::string_view name, std::string_view text, uint64_t least, uint64_t most,
                   uint64_t* out) {
    uint64_t value = 0;
    bool good = !text.empty() && text.size() <= 12;
    for (const char c : text) {
      good = good && c >= '0' && c <= '9';
      if (good) value = value * 10 + static_cast<uint64_t>(c - '0');
    }
    if (good && value >= least && value <= most) return *out = value, true;
    return wrong("%.*s is '%.*s'; it is a number of %llu to %llu", name,
                 static_cast<int>(text.size() < 20 ? text.size() : 20), text.data(),
                 static_cast<unsigned long long>(least), static_cast<unsigned long long>(most));
  }

  bool read_user(std::string_view text) {
    std::string_view password = text;
    const std::string_view user = take(&password, ":");
    const int64_t a = decode(user, out_.user), b = decode(password, out_.password);
    if (a < 0 || b < 0 || holds_zero(out_.user, a) || holds_zero(out_.password, b))
      return wrong("%.*suser or password is malformed: at most 128 and 512 bytes, and of %%XX complete", "");
    if (a > 0 && b == 0)
      return wrong(
          "%.*sthere is no password before '@'; write redis://user:password@host or "
          "redis://:password@host",
          "");
    return true;
  }

  bool read_place(std::string_view host, std::string_view path) {
    out_.port = 6379;
    bool is_db = true;
    for (const char c : path) is_db = is_db && c >= '0' && c <= '9';
    if (!is_db) {
      if (!host.empty())
        return wrong(
            "'/%.*s' behind a host is no number of a database; write redis://host:port/0, or "
            "redis:///path/of/socket",
            path);
      out_.socket[0] = '/';
      char name[sizeof out_.socket - 1];
      const int64_t length = decode(path, name);
      if (length < 0 || holds_zero(name, length))
        return wrong("the path of the socket, '/%.*s', is malformed or longer than %zu bytes", path,
                     sizeof out_.socket - 1);
      std::memcpy(out_.socket + 1, name, static_cast<size_t>(length) + 1);
      return true;
    }
    if (!path.empty() && !read_number("the database behind the host", path, 0, 65535, &out_.db)) return false;
    std::string_view name = host, port;
    bool has_port = false;
    if (!host.empty() && host[0] == '[') {
      const size_t end = host.find(']');
      if (end == std::string_view::npos) return wrong("the host '%.*s' lacks a ']'", host);
      name = host.substr(1, end - 1);
      port = host.substr(end + 1);
      has_port = !port.empty();
      if (has_port && port[0] != ':') return wrong("the host '%.*s' has something behind ']'", host);
      if (has_port) port.remove_prefix(1);
    } else if (const size_t colon = host.find(':'); colon != std::string_view::npos) {
      name = host.substr(0, colon);
      port = host.substr(colon + 1);
      has_port = true;
    }
    if (has_port && !read_number("the port", port, 1, 65535, &out_.port)) return false;
    if (name.empty()) name = "localhost";
    const int64_t length = decode(name, out_.host);
    if (length < 0 || holds_zero(out_.host, length))
      return wrong("the host '%.*s' is malformed or longer than %zu bytes", name, sizeof out_.host - 1);
    return true;
  }

  bool read_parameters(std::string_view rest) {
    out_.connect_ms = 1000;
    out_.timeout_ms = 5000;
    std::memcpy(out_.prefix, "kv", 3);
    out_.prefix_bytes = 2;
    while (!rest.empty()) {
      std::string_view value = take(&rest, "&");
      const std::string_view name = take(&value, "=");
      bool good;
      if (name == "ttl") {
        good = read_number(name, value, 0, 1000000000, &out_.ttl_s);
      } else if (name == "connect") {
        good = read_number(name, value, 1, 3600000, &out_.connect_ms);
      } else if (name == "timeout") {
        good = read_number(name, value, 1, 3600000, &out_.timeout_ms);
      } else if (name == "db") {
        good = read_number(name, value, 0, 65535, &out_.db);
      } else if (name == "prefix") {
        const int64_t length = decode(value, out_.prefix);
        if (length < 0)
          return wrong("prefix is '%.*s'; it has at most %zu bytes, and each %%XX is complete", value,
                       kMaxPrefix);
        out_.prefix_bytes = static_cast<size_t>(length);
        good = true;
      } else {
        return wrong("there is no parameter '%.*s'; there are prefix, ttl, connect, timeout and db", name);
      }
      if (!good) return false;
    }
    return true;
  }

  Url& out_;
  char* error_;
  size_t error_bytes_;
};

}  // namespace

bool parse_url(const char* text, Url* out, char* error, size_t error_bytes) {
  *out = {};
  return Parser(out, error, error_bytes).parse(text);
}

}  // namespace kvc_redis
