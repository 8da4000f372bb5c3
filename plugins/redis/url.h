// SPDX-License-Identifier: Apache-2.0
// redis://[user[:password]@][host][:port][/db]?prefix=kv&ttl=SECONDS&connect=MS&timeout=MS&db=N, or
// redis:///path/of/socket?... Names, passwords and the prefix may have %XX. No text holds a password.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvc_redis {

constexpr size_t kMaxPrefix = 64;

struct Url {
  char user[129], password[513];  // empty = none
  char host[256];                 // empty, if there is a socket
  char socket[108];
  char prefix[kMaxPrefix + 1];
  size_t prefix_bytes;  // a prefix may hold any bytes
  uint64_t port, db;
  uint64_t ttl_s;       // 0 = for ever
  uint64_t connect_ms;  // for one connection
  uint64_t timeout_ms;  // of calls without a deadline
};

// False: `error` says what is wrong.
bool parse_url(const char* text, Url* out, char* error, size_t error_bytes);

}  // namespace kvc_redis
