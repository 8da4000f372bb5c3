// SPDX-License-Identifier: Apache-2.0
// Sockets of the loopback device for tests of connections.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace kvc_redis_test {

// A socket of the loopback device at a port of the system's choice.
inline int bind_any(int* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0) return -1;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  *port = ntohs(address.sin_port);
  return fd;
}

inline int free_port() {
  int port = 0;
  close(bind_any(&port));
  return port;
}

}  // namespace kvc_redis_test
