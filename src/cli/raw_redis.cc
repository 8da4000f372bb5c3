// SPDX-License-Identifier: Apache-2.0
// SET and GET of whole pages over plain sockets, one connection a thread, one command at a time: what RESP
// costs without any library. Keys are removed at the end.
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "cli/errors.h"
#include "cli/raw_store.h"
#include "cli/table.h"

namespace kvcli {
namespace {

class RawRedis final : public RawStore {
 public:
  explicit RawRedis(const RawOptions& options) : page_bytes_(options.page_bytes), pages_(options.pages) {
    const std::string& url = options.url;
    std::string rest = url.substr(url.find("://") + 3);
    rest = rest.substr(0, rest.find('?'));
    const size_t slash = rest.find('/');
    const std::string database = slash == std::string::npos ? "" : rest.substr(slash + 1);
    rest = rest.substr(0, slash);
    const size_t colon = rest.rfind(':');
    const std::string host = rest.substr(0, colon);
    const std::string port = colon == std::string::npos ? "6379" : rest.substr(colon + 1);
    const std::string missing = url + ": the server has no database " + database;
    const std::string select = "*2\r\n$6\r\nSELECT\r\n" + bulk(database);
    for (uint32_t i = 0; i < options.threads; ++i) {
      sockets_.push_back(reach(host, port));
      if (!database.empty() && !ask(sockets_.back(), select)) throw InputError(missing);
    }
  }
  ~RawRedis() override {
    for (uint64_t i = 0; i < pages_ && !sockets_.empty(); ++i) {
      std::string removal = "*2\r\n$3\r\nDEL\r\n";
      removal += bulk(key_of(i));
      ask(sockets_[0], removal);
    }
    for (const int socket : sockets_) close(socket);
  }
  RawRedis(const RawRedis&) = delete;
  RawRedis& operator=(const RawRedis&) = delete;

  std::string name() const override { return "SET and GET over " + counted(sockets_.size(), "plain socket"); }
  bool move(uint32_t thread, bool write, uint64_t first, uint64_t count, char* data) override {
    for (uint64_t i = 0; i < count; ++i) {
      char* const page = data + i * page_bytes_;
      if (!(write ? set(sockets_[thread], first + i, page) : get(sockets_[thread], first + i, page)))
        return false;
    }
    return true;
  }

 private:
  static std::string bulk(const std::string& text) {
    return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  static std::string key_of(uint64_t page) { return "kvcache-bench-raw:" + std::to_string(page); }

  static int reach(const std::string& host, const std::string& port) {
    addrinfo hints = {}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0)
      throw InputError(host + ": there is no such host");
    int socket = -1;
    for (const addrinfo* at = found; at != nullptr && socket < 0; at = at->ai_next) {
      socket = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
      if (socket >= 0 && connect(socket, at->ai_addr, at->ai_addrlen) != 0) {
        close(socket);
        socket = -1;
      }
    }
    freeaddrinfo(found);
    if (socket < 0)
      throw InputError(host + ":" + port + ": no server answers; start it, or give another URL");
    const int yes = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    const timeval patience = {10, 0};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return socket;
  }

  static bool send_all(int socket, iovec* parts, int count) {
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<size_t>(count);
    while (message.msg_iovlen != 0) {
      ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
      if (sent < 0) return false;
      while (message.msg_iovlen != 0 && static_cast<size_t>(sent) >= message.msg_iov->iov_len) {
        sent -= static_cast<ssize_t>(message.msg_iov->iov_len);
        ++message.msg_iov, --message.msg_iovlen;
      }
      if (message.msg_iovlen == 0) break;
      message.msg_iov->iov_base = static_cast<char*>(message.msg_iov->iov_base) + sent;
      message.msg_iov->iov_len -= static_cast<size_t>(sent);
    }
    return true;
  }
  static bool receive(int socket, char* to, size_t bytes) {
    while (bytes != 0) {
      const ssize_t got = recv(socket, to, bytes, 0);
      if (got <= 0) return false;
      to += got, bytes -= static_cast<size_t>(got);
    }
    return true;
  }
  /// Up to "\r\n", which is not part of it; at most 100 bytes.
  static std::string line(int socket) {
    std::string text;
    char letter;
    while (text.size() < 100 && receive(socket, &letter, 1)) {
      if (letter == '\n') return text.substr(0, text.size() - 1);
      text += letter;
    }
    return "";
  }
  static bool ask(int socket, std::string command) {
    iovec part = {command.data(), command.size()};
    if (!send_all(socket, &part, 1)) return false;
    const std::string answer = line(socket);
    return !answer.empty() && answer[0] != '-';
  }
  bool set(int socket, uint64_t page, char* data) {
    std::string head =
        "*3\r\n$3\r\nSET\r\n" + bulk(key_of(page)) + "$" + std::to_string(page_bytes_) + "\r\n";
    char tail[] = "\r\n";
    iovec parts[] = {{head.data(), head.size()}, {data, page_bytes_}, {tail, 2}};
    return send_all(socket, parts, 3) && line(socket) == "+OK";
  }
  bool get(int socket, uint64_t page, char* data) {
    std::string command = "*2\r\n$3\r\nGET\r\n" + bulk(key_of(page));
    iovec part = {command.data(), command.size()};
    char tail[2];
    return send_all(socket, &part, 1) && line(socket) == "$" + std::to_string(page_bytes_) &&
           receive(socket, data, page_bytes_) && receive(socket, tail, 2);
  }

  const uint64_t page_bytes_, pages_;
  std::vector<int> sockets_;
};

}  // namespace

std::unique_ptr<RawStore> make_raw_redis(const RawOptions& options) {
  const std::string& url = options.url;
  if (url.find("://") == std::string::npos || url.find('@') != std::string::npos) return nullptr;
  return std::make_unique<RawRedis>(options);
}

}  // namespace kvcli
