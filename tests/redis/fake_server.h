// SPDX-License-Identifier: Apache-2.0
// A server that is good, a small store that knows EXISTS, GET, SET, UNLINK, AUTH and SELECT, until it is told
// how to misbehave.
#pragma once
#include <netinet/tcp.h>

#include <cerrno>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "redis/sockets.h"

namespace kvc_redis_test {

class FakeServer {
 public:
  using Words = std::vector<std::string>;
  // What is sent for a command; `good` is what a server that is well would send. Empty and no `ends`:
  // silence.
  struct Answer {
    std::string text;
    bool ends = false;        // the connection, afterwards
    bool one_by_one = false;  // each byte by itself
    unsigned pause_us = 0;    // behind each
  };
  using Fault = std::function<Answer(const Words& words, const std::string& good)>;

  FakeServer() : listener_(bind_any(&port_)) {
    listen(listener_, 64);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~FakeServer() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (Peer& peer : peers_) shutdown(peer.fd, SHUT_RDWR);
    }
    for (Peer& peer : peers_) {
      peer.thread.join();
      close(peer.fd);
    }
    close(listener_);
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  void misbehave(Fault fault) {
    const std::lock_guard lock(mutex_);
    fault_ = std::move(fault);
  }
  void behave() { misbehave(nullptr); }

  // Connections of now get no more answers, as if their machine had vanished; new ones do.
  void forget_connections() {
    const std::lock_guard lock(mutex_);
    for (Peer& peer : peers_) forgotten_.insert(peer.fd);
  }

  std::string url(const std::string& parameters, const std::string& user = "") const {
    return "redis://" + user + "127.0.0.1:" + std::to_string(port_) + "?" + parameters;
  }
  size_t connections() {
    const std::lock_guard lock(mutex_);
    return peers_.size();
  }
  static std::string bulk(const std::string& value) {
    return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  }

 private:
  struct Peer {
    int fd;
    std::thread thread;
  };

  void accept_all() {
    for (;;) {
      const int fd = accept(listener_, nullptr, nullptr);
      if (fd < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        return;
      }
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const std::lock_guard lock(mutex_);
      peers_.push_back({fd, {}});
      peers_.back().thread = std::thread([this, fd] { serve(fd); });
    }
  }

  void serve(int fd) {
    std::string input;
    char buffer[65536];
    for (;;) {
      while (const std::optional<Words> words = take_command(&input)) {
        Answer answer = is_forgotten(fd) ? Answer{} : answer_to(*words);
        const size_t step = answer.one_by_one ? 1 : answer.text.size();
        for (size_t at = 0; at < answer.text.size();) {
          const ssize_t count =
              send(fd, answer.text.data() + at, std::min(step, answer.text.size() - at), MSG_NOSIGNAL);
          if (count <= 0) return;
          at += static_cast<size_t>(count);
          if (answer.pause_us != 0) usleep(answer.pause_us);
        }
        if (answer.ends) {
          shutdown(fd, SHUT_RDWR);
          return;
        }
      }
      const ssize_t count = recv(fd, buffer, sizeof buffer, 0);
      if (count <= 0) {
        shutdown(fd, SHUT_RDWR);
        return;
      }
      input.append(buffer, static_cast<size_t>(count));
    }
  }

  // A whole command at the begin of the input.
  static std::optional<Words> take_command(std::string* input) {
    size_t at = 0;
    const auto number = [&](char kind) -> std::optional<size_t> {
      const size_t end = input->find("\r\n", at);
      if (end == std::string::npos || (*input)[at] != kind) return std::nullopt;
      const size_t out = std::stoull(input->substr(at + 1, end - at - 1));
      at = end + 2;
      return out;
    };
    const std::optional<size_t> count = number('*');
    if (!count) return std::nullopt;
    Words words;
    for (size_t i = 0; i < *count; ++i) {
      const std::optional<size_t> bytes = number('$');
      if (!bytes || input->size() - at < *bytes + 2) return std::nullopt;
      words.push_back(input->substr(at, *bytes));
      at += *bytes + 2;
    }
    input->erase(0, at);
    return words;
  }

  bool is_forgotten(int fd) {
    const std::lock_guard lock(mutex_);
    return forgotten_.count(fd) != 0;  // descriptors are closed at the end only
  }

  Answer answer_to(const Words& words) {
    const std::lock_guard lock(mutex_);
    std::string good = "+OK\r\n";
    const std::string& key = words.size() > 1 ? words[1] : words[0];
    if (words[0] == "EXISTS") {
      good = ":" + std::to_string(values_.count(key)) + "\r\n";
    } else if (words[0] == "UNLINK") {
      good = ":" + std::to_string(values_.count(key)) + "\r\n";
      if (!fault_) values_.erase(key);
    } else if (words[0] == "GET") {
      good = values_.count(key) != 0 ? bulk(values_[key]) : "$-1\r\n";
    } else if (words[0] == "SET" && !fault_) {
      values_[key] = words[2];
    }
    return fault_ ? fault_(words, good) : Answer{good};
  }

  int port_ = 0;
  const int listener_;
  std::thread acceptor_;
  std::mutex mutex_;  // below
  std::list<Peer> peers_;
  std::set<int> forgotten_;
  std::map<std::string, std::string> values_;
  Fault fault_;
};

}  // namespace kvc_redis_test
