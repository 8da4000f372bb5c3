// SPDX-License-Identifier: Apache-2.0
#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cstdio>

namespace kvc_redis {

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

int32_t result_of_error(const Reply& reply) {
  for (const char* busy : {"LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN"})
    if (reply.has_code(busy)) return KVC_PAGE_UNAVAILABLE;
  return KVC_PAGE_FAILED;
}

int64_t errno_of_error(const Reply& reply) {
  if (reply.has_code("OOM")) return ENOMEM;
  if (reply.has_code("READONLY")) return EROFS;
  for (const char* access : {"NOAUTH", "WRONGPASS", "NOPERM"})
    if (reply.has_code(access)) return EACCES;
  return result_of_error(reply) == KVC_PAGE_UNAVAILABLE ? EAGAIN : EPROTO;
}

bool Connection::begin(const Url& url, uint64_t deadline_ns) {
  deadline_ns_ = deadline_ns;
  if (now_ns() >= deadline_ns) return result_ = KVC_PAGE_TIMEOUT, errno_ = ETIMEDOUT, false;
  if (is_open() && is_idle()) return true;
  close();
  if (open(url)) return true;
  close();
  return false;
}

void Connection::close() {
  if (context_ != nullptr) redisFree(context_);
  context_ = nullptr;
  reader_.reset();
}

// Nothing was sent that nobody asked for, and the server has not gone away.
bool Connection::is_idle() const {
  char byte;
  return reader_.is_empty() && recv(context_->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
         (errno == EAGAIN || errno == EWOULDBLOCK);
}

bool Connection::fail(int32_t result, int64_t error) {
  result_ = result;
  errno_ = error;
  close();
  return false;
}

bool Connection::lost() { return reader_.is_garbage() ? fail(KVC_PAGE_FAILED, EPROTO) : false; }

bool Connection::refuse(const Reply& reply) {
  if (reply.kind == ReplyKind::kError) return fail(result_of_error(reply), errno_of_error(reply));
  return fail(KVC_PAGE_FAILED, EPROTO);
}

bool Connection::wait(short events) {
  for (;;) {
    const uint64_t now = now_ns();
    if (now >= deadline_ns_) return fail(KVC_PAGE_TIMEOUT, ETIMEDOUT);
    pollfd ready = {context_->fd, events, 0};
    const uint64_t left_ms = (deadline_ns_ - now + 999999) / 1000000;
    const int count = poll(&ready, 1, static_cast<int>(std::min<uint64_t>(left_ms, 1000000)));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return fail(KVC_PAGE_FAILED, errno);
  }
}

size_t Connection::read(iovec* parts, int num_parts) {
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = static_cast<size_t>(num_parts);
  while (is_open()) {
    if (now_ns() >= deadline_ns_) return fail(KVC_PAGE_TIMEOUT, ETIMEDOUT);
    const ssize_t count = recvmsg(context_->fd, &message, MSG_DONTWAIT);
    if (count > 0) return static_cast<size_t>(count);
    if (count == 0) return fail(KVC_PAGE_FAILED, ECONNRESET);
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return fail(KVC_PAGE_FAILED, errno);
    if (!wait(POLLIN)) return 0;
  }
  return 0;
}

bool Connection::send(iovec* parts, int num_parts) {
  while (num_parts > 0) {
    if (parts->iov_len == 0) {
      ++parts, --num_parts;
      continue;
    }
    if (now_ns() >= deadline_ns_) return fail(KVC_PAGE_TIMEOUT, ETIMEDOUT);
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<size_t>(num_parts);
    const ssize_t sent = sendmsg(context_->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return fail(KVC_PAGE_FAILED, errno);
      if (!wait(POLLOUT)) return false;
      continue;
    }
    for (size_t left = static_cast<size_t>(sent); left > 0;) {
      const size_t some = std::min(left, parts->iov_len);
      parts->iov_base = static_cast<char*>(parts->iov_base) + some;
      parts->iov_len -= some;
      left -= some;
      if (parts->iov_len == 0) ++parts, --num_parts;
    }
  }
  return true;
}

// Within the time of a connection, and the deadline.
bool Connection::open(const Url& url) {
  const uint64_t deadline_ns = deadline_ns_;
  deadline_ns_ = std::min(deadline_ns, now_ns() + url.connect_ms * 1000000);
  char number[24];
  snprintf(number, sizeof number, "%llu", static_cast<unsigned long long>(url.db));
  const char* with_user[] = {"AUTH", url.user, url.password};
  const char* without_user[] = {"AUTH", url.password};
  const char* select[] = {"SELECT", number};
  bool good = connect(url);
  if (good && url.password[0] != 0)
    good = url.user[0] != 0 ? command(3, with_user) : command(2, without_user);
  if (good && url.db != 0) good = command(2, select);
  deadline_ns_ = deadline_ns;
  return good;
}

bool Connection::connect(const Url& url) {
  if (url.socket[0] != 0) return connect_to(url.socket, 0);
  char port[8];
  snprintf(port, sizeof port, "%u", static_cast<unsigned>(url.port));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* all = nullptr;
  if (getaddrinfo(url.host, port, &hints, &all) != 0) return fail(KVC_PAGE_FAILED, EHOSTUNREACH);
  bool good = false;
  for (const addrinfo* one = all; one != nullptr && !good; one = one->ai_next) {
    char address[NI_MAXHOST];
    if (getnameinfo(one->ai_addr, one->ai_addrlen, address, sizeof address, nullptr, 0, NI_NUMERICHOST) == 0)
      good = connect_to(address, static_cast<int>(url.port));
  }
  freeaddrinfo(all);
  return good;
}

// To an address of numbers, or with port 0 a socket of this machine.
bool Connection::connect_to(const char* address, int port) {
  for (;;) {
    const uint64_t now = now_ns();
    if (now >= deadline_ns_) return fail(KVC_PAGE_TIMEOUT, ETIMEDOUT);
    const uint64_t left_us = std::max<uint64_t>((deadline_ns_ - now) / 1000, 1000);
    const timeval left = {static_cast<time_t>(left_us / 1000000),
                          static_cast<suseconds_t>(left_us % 1000000)};
    errno = 0;
    context_ =
        port == 0 ? redisConnectUnixWithTimeout(address, left) : redisConnectWithTimeout(address, port, left);
    const int error = errno;
    if (context_ == nullptr) return fail(KVC_PAGE_FAILED, ENOMEM);
    if (context_->err == 0) break;
    close();
    if (error == EINTR) continue;
    return fail(error == ETIMEDOUT ? KVC_PAGE_TIMEOUT : KVC_PAGE_FAILED, error != 0 ? error : ECONNREFUSED);
  }
  static_cast<void>(fcntl(context_->fd, F_SETFD, FD_CLOEXEC));
  return true;
}

// A short command that a server answers with OK.
bool Connection::command(int num_words, const char* const* words) {
  char* text = nullptr;
  const auto bytes = redisFormatCommandArgv(&text, num_words, const_cast<const char**>(words), nullptr);
  if (bytes < 0) return fail(KVC_PAGE_FAILED, ENOMEM);
  iovec part = {text, static_cast<size_t>(bytes)};
  const bool sent = send(&part, 1);
  redisFreeCommand(text);
  Reply reply;
  if (!sent || !next(&reply)) return false;
  return reply.is_text("OK") && reply.kind == ReplyKind::kStatus ? true : refuse(reply);
}

}  // namespace kvc_redis
