// SPDX-License-Identifier: Apache-2.0
// One thread and poll(). A client sends lines and gets a line for each, in order. A client that does not read
// its answers is not read from; one that sends a line without end is cut off.
#include "cli/route.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>

#include "cli/errors.h"

namespace kvcli {
namespace {

constexpr size_t kMaxLine = size_t{64} << 20, kMaxClients = 256, kMaxAnswers = size_t{1} << 20;

volatile sig_atomic_t signalled = 0;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void refuse(const std::string& address, const char* what) {
  throw InputError("--listen " + address + ": " + what);
}

/// A socket that listens, its address as others name it, and the file that goes with it.
class Listener {
 public:
  explicit Listener(const std::string& address)
      : socket_(socket(is_path(address) ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    if (socket_.get() < 0) refuse(address, std::strerror(errno));
    if (is_path(address)) {
      listen_on_path(address);
    } else {
      listen_on_port(address);
    }
    if (listen(socket_.get(), 64) != 0) refuse(address, std::strerror(errno));
  }
  ~Listener() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  Listener(const Listener&) = delete;
  int fd() const { return socket_.get(); }
  const std::string& name() const { return name_; }

 private:
  static bool is_path(const std::string& address) { return address.rfind("unix:", 0) == 0; }
  void listen_on_path(const std::string& address) {
    sockaddr_un place = {};
    place.sun_family = AF_UNIX;
    const std::string path = address.substr(5);
    if (path.empty() || path.size() >= sizeof place.sun_path)
      refuse(address, "give a path of 1 to 107 bytes");
    std::memcpy(place.sun_path, path.c_str(), path.size() + 1);
    if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0)
      refuse(address, std::strerror(errno));
    path_ = path;
    name_ = address;
  }
  void listen_on_port(const std::string& address) {
    const size_t colon = address.rfind(':');
    const std::string host = address.substr(0, colon);
    char* end = nullptr;
    const char* const digits = colon == std::string::npos ? "" : address.c_str() + colon + 1;
    const unsigned long port = std::strtoul(digits, &end, 10);
    if (host != "127.0.0.1" || *digits < '0' || *digits > '9' || *end != 0 || port > 65535)
      refuse(address, "give 127.0.0.1:PORT, where port 0 is any free one, or unix:/path");
    sockaddr_in place = {};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    place.sin_port = htons(static_cast<uint16_t>(port));
    socklen_t size = sizeof place;
    const int yes = 1;
    setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&place), size) != 0 ||
        getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&place), &size) != 0)
      refuse(address, std::strerror(errno));
    name_ = "127.0.0.1:" + std::to_string(ntohs(place.sin_port));
  }

  Descriptor socket_;
  std::string name_, path_;
};

struct Client {
  explicit Client(int fd) : socket(fd) {}
  Descriptor socket;
  std::string in, out;
  size_t searched = 0;  // of `in`, without an end of a line
  bool ended = false;   // nothing more comes

  short wanted() const {
    return static_cast<short>((ended || out.size() >= kMaxAnswers ? 0 : POLLIN) |
                              (out.empty() ? 0 : POLLOUT));
  }
  bool is_done() const { return ended && out.empty(); }
  void receive() {
    char piece[65536];
    const ssize_t got = recv(socket.get(), piece, sizeof piece, 0);
    if (got > 0) in.append(piece, static_cast<size_t>(got));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) ended = true;
  }
  void send_answers() {
    const ssize_t sent = send(socket.get(), out.data(), out.size(), MSG_NOSIGNAL);
    if (sent > 0) out.erase(0, static_cast<size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      ended = true;
      out.clear();
    }
  }
  void answer_lines(RouteAnswers& answers, uint64_t now_ns) {
    size_t begin = 0;
    for (size_t end; !answers.stopped() && (end = in.find('\n', begin + searched)) != std::string::npos;) {
      out += answers.answer(in.substr(begin, end - begin), now_ns) + '\n';
      begin = end + 1;
      searched = 0;
    }
    in.erase(0, begin);
    searched = in.size();
    if (in.size() <= kMaxLine) return;
    out += "{\"ok\":false,\"error\":\"the line is longer than 64 MiB; give shorter ones\"}\n";
    in.clear();
    ended = true;
  }
};

uint64_t monotonic_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                               std::chrono::nanoseconds(1));
}

/// SIGINT and SIGTERM only come inside wait().
class Signals {
 public:
  Signals() {
    struct sigaction action = {};
    action.sa_handler = [](int) { signalled = 1; };
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    sigprocmask(SIG_BLOCK, &both, &before_);
  }
  ~Signals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  int wait(std::vector<pollfd>& all) const {
    const timespec second = {1, 0};
    return ppoll(all.data(), all.size(), &second, &before_);
  }

 private:
  sigset_t before_;
};

}  // namespace

void serve_routes(const RouteOptions& options, std::ostream& out) {
  RouteAnswers answers(options);
  const Signals signals;
  const Listener listener(options.listen);
  out << nlohmann::json{{"listening", listener.name()}}.dump() << std::endl;
  std::list<Client> clients;
  std::vector<pollfd> waits;
  while (signalled == 0 && !answers.stopped()) {
    waits.assign(1, {listener.fd(), static_cast<short>(clients.size() < kMaxClients ? POLLIN : 0), 0});
    for (const Client& client : clients) waits.push_back({client.socket.get(), client.wanted(), 0});
    const int ready = signals.wait(waits);
    const uint64_t now_ns = monotonic_ns();
    answers.expire(now_ns);
    if (ready <= 0) continue;
    size_t at = 1;
    for (Client& client : clients) {
      const short events = waits[at++].revents;
      if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && !client.ended) client.receive();
      client.answer_lines(answers, now_ns);
      if (!client.out.empty()) client.send_answers();
    }
    clients.remove_if([](const Client& client) { return client.is_done(); });
    if (waits[0].revents != 0)
      if (const int fd = accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); fd >= 0)
        clients.emplace_back(fd);
  }
}

}  // namespace kvcli
