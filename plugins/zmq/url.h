// SPDX-License-Identifier: Apache-2.0
// The URL of a transport of ZeroMQ:
//
//     zmq:ENDPOINT?replay=ENDPOINT&hwm=100000&linger=100&mode=bind
//
// An endpoint is one of libzmq: tcp://*:5557, tcp://router:5557, ipc:///run/kv. Parameters: replay, where
// requests for batches are taken (none by default); hwm, batches that wait for a slow subscriber; linger,
// milliseconds in which the last batches are delivered at the end; mode, bind or connect: vLLM's rule by
// default, which binds ipc, inproc and endpoints with "*" or "::", and connects to others.
#pragma once
#include <cstddef>
#include <string>

namespace kvc_zmq {

struct Url {
  std::string endpoint, replay;
  bool binds = false;
  int hwm = 100000;
  int linger_ms = 100;
};

// False: `error` says what is wrong. Throws std::bad_alloc.
bool parse_url(const char* text, Url* url, std::string* error);

}  // namespace kvc_zmq
