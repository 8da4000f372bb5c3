// SPDX-License-Identifier: Apache-2.0
#include "url.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace kvc_zmq {
namespace {

bool read_number(const std::string& name, const std::string& text, int* number, std::string* error) {
  errno = 0;
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno != 0 || value < 0 || value > 1000000) {
    *error = name + " is \"" + text.substr(0, 40) + "\"; it is 0 to 1000000";
    return false;
  }
  *number = static_cast<int>(value);
  return true;
}

bool is_endpoint(const std::string& text) { return text.find("://") != std::string::npos; }

bool read_parameter(const std::string& name, const std::string& value, Url* url, std::string* error) {
  if (name == "hwm") return read_number(name, value, &url->hwm, error);
  if (name == "linger") return read_number(name, value, &url->linger_ms, error);
  if (name == "replay") {
    url->replay = value;
    if (is_endpoint(value)) return true;
    *error = "replay is \"" + value.substr(0, 40) + "\"; it is an endpoint such as tcp://0.0.0.0:5558";
    return false;
  }
  if (name == "mode" && (value == "bind" || value == "connect")) {
    url->binds = value == "bind";
    return true;
  }
  *error = name == "mode" ? "mode is \"" + value.substr(0, 40) + "\"; it is bind or connect"
                          : "there is no parameter \"" + name.substr(0, 40) +
                                "\"; the parameters are replay, hwm, linger, mode";
  return false;
}

}  // namespace

bool parse_url(const char* text, Url* url, std::string* error) {
  if (std::strncmp(text, "zmq:", 4) == 0) text += 4;
  const std::string all = text;
  const size_t question = all.find('?');
  url->endpoint = all.substr(0, question);
  if (!is_endpoint(url->endpoint)) {
    *error =
        "\"" + url->endpoint.substr(0, 60) + "\" is no endpoint; one is tcp://0.0.0.0:5557 or ipc:///run/kv";
    return false;
  }
  url->binds = url->endpoint.find('*') != std::string::npos ||
               url->endpoint.find("::") != std::string::npos ||
               url->endpoint.find("://0.0.0.0:") != std::string::npos ||
               url->endpoint.rfind("ipc://", 0) == 0 || url->endpoint.rfind("inproc://", 0) == 0;
  for (size_t at = question; at != std::string::npos;) {
    const size_t end = all.find('&', at + 1);
    const std::string part = all.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    const size_t equals = part.find('=');
    if (equals == std::string::npos) {
      *error = "the parameter \"" + part.substr(0, 40) + "\" has no value";
      return false;
    }
    if (!read_parameter(part.substr(0, equals), part.substr(equals + 1), url, error)) return false;
    at = end;
  }
  return true;
}

}  // namespace kvc_zmq
