// SPDX-License-Identifier: Apache-2.0
// A redis-server of the test's own, on a free port of the loopback device. It keeps nothing on a disk.
#pragma once
#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <string>
#include <vector>

#include "redis/sockets.h"

namespace kvc_redis_test {

class RedisServer {
 public:
  explicit RedisServer(std::vector<std::string> options = {}) : options_(std::move(options)) { start(); }
  ~RedisServer() {
    stop();
    rmdir(folder_.c_str());
  }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  void start() {
    if (folder_.empty()) {
      char name[] = "/tmp/kvc_redis_XXXXXX";
      folder_ = mkdtemp(name);
    }
    for (int tries = 0; tries < 20 && !is_up(); ++tries) {
      if (tries > 0 || port_ == 0) port_ = free_port();  // somebody else may have taken it
      spawn();
      for (int i = 0; i < 500 && !is_up(); ++i) {
        int status;
        if (waitpid(pid_, &status, WNOHANG) == pid_) {
          pid_ = 0;
          break;
        }
        usleep(20000);
      }
      if (pid_ != 0 && !is_up()) stop();
    }
    EXPECT_TRUE(is_up());
  }
  void stop() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    int status;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    unlink(socket().c_str());
  }
  void signal(int number) { kill(pid_, number); }

  int port() const { return port_; }
  std::string socket() const { return folder_ + "/socket"; }
  std::string url(const std::string& parameters = "", const std::string& user = "",
                  const std::string& db = "") const {
    return "redis://" + user + "127.0.0.1:" + std::to_string(port_) + db + "?" + parameters;
  }

  // The answer of the server, errors included, or "?".
  std::string command(const std::vector<std::string>& words) const {
    redisContext* context = redisConnect("127.0.0.1", port_);
    std::string out = "?";
    if (context != nullptr && context->err == 0) {
      if (!password_.empty()) freeReplyObject(redisCommand(context, "AUTH %s", password_.c_str()));
      std::vector<const char*> texts;
      std::vector<size_t> sizes;
      for (const std::string& word : words) texts.push_back(word.data()), sizes.push_back(word.size());
      auto* reply = static_cast<redisReply*>(
          redisCommandArgv(context, static_cast<int>(texts.size()), texts.data(), sizes.data()));
      if (reply != nullptr) {
        out = reply->type == REDIS_REPLY_INTEGER ? std::to_string(reply->integer)
              : reply->type == REDIS_REPLY_NIL   ? "nil"
              : reply->str != nullptr            ? std::string(reply->str, static_cast<size_t>(reply->len))
                                                 : "array";
        freeReplyObject(reply);
      }
    }
    if (context != nullptr) redisFree(context);
    return out;
  }
  void use_password(const std::string& password) { password_ = password; }

  static bool is_installed() { return system("command -v redis-server >/dev/null 2>&1") == 0; }

 private:
  void spawn() {
    std::vector<std::string> words = {"redis-server",
                                      "--port",
                                      std::to_string(port_),
                                      "--bind",
                                      "127.0.0.1",
                                      "--unixsocket",
                                      socket(),
                                      "--save",
                                      "",
                                      "--appendonly",
                                      "no",
                                      "--dir",
                                      folder_,
                                      "--logfile",
                                      "/dev/null",
                                      "--enable-debug-command",
                                      "local"};
    words.insert(words.end(), options_.begin(), options_.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    if (posix_spawnp(&pid_, "redis-server", nullptr, nullptr, argv.data(), environ) != 0) pid_ = 0;
  }
  bool is_up() const {
    if (pid_ == 0) return false;
    const std::string answer = command({"INFO", "server"});
    return answer.find("process_id:" + std::to_string(pid_) + "\r") != std::string::npos ||
           answer.compare(0, 6, "NOAUTH") == 0;
  }

  const std::vector<std::string> options_;
  std::string folder_, password_;
  int port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace kvc_redis_test
