// SPDX-License-Identifier: Apache-2.0
// One connection, of one worker. hiredis connects; what is sent and read is done here, because each call ends
// by its deadline however slowly bytes come, pages are not copied, and no signal may be raised.
#pragma once
#include <hiredis/hiredis.h>
#include <kvcache/tier.h>

#include "reply.h"
#include "url.h"

namespace kvc_redis {

uint64_t now_ns();

// What an error of the server means for a page, but OOM.
int32_t result_of_error(const Reply& reply);
int64_t errno_of_error(const Reply& reply);

class Connection final : public Source {
 public:
  Connection() = default;
  ~Connection() { close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Makes it ready for commands that end by the deadline: opens it, if it is not open or cannot be trusted.
  bool begin(const Url& url, uint64_t deadline_ns);
  bool send(iovec* parts, int num_parts);
  bool next(Reply* out) { return reader_.next(*this, out) || lost(); }
  bool read_bulk(void* a, size_t a_bytes, void* b, size_t b_bytes) {
    return reader_.read_bulk(*this, a, a_bytes, b, b_bytes) || lost();
  }
  bool skip_bulk(uint64_t bytes) { return reader_.skip_bulk(*this, bytes) || lost(); }
  // A reply that no server should give here. False.
  bool refuse(const Reply& reply);
  void close();
  bool is_open() const { return context_ != nullptr; }

  // After a false: what it means for a page, and an errno.
  int32_t result() const { return result_; }
  int64_t last_errno() const { return errno_; }

 private:
  size_t read(iovec* parts, int num_parts) override;
  bool is_idle() const;
  bool open(const Url& url);
  bool connect(const Url& url);
  bool connect_to(const char* address, int port);
  bool command(int num_words, const char* const* words);
  bool wait(short events);
  bool fail(int32_t result, int64_t error);
  bool lost();

  redisContext* context_ = nullptr;
  uint64_t deadline_ns_ = 0;
  int32_t result_ = KVC_PAGE_FAILED;
  int64_t errno_ = 0;
  ReplyReader reader_;
};

}  // namespace kvc_redis
