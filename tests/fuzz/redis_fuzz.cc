// SPDX-License-Identifier: Apache-2.0
// Replies of a server, and URLs, as the plug-in redis reads them. An input that begins with 'u' is a URL: it
// is refused with a text, or each field is in its limits. Else the first bytes say in which pieces the rest
// comes: it is the same replies as in one piece, and those that hiredis reads in it.
#include <hiredis/hiredis.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "fuzz/target.h"
#include "reply.h"
#include "url.h"

namespace {

using namespace kvc_redis;

class Text final : public Source {
 public:
  Text(const uint8_t* data, size_t size, size_t step) : data_(data), size_(size), step_(step) {}
  size_t read(iovec* parts, int num_parts) override {
    size_t done = 0;
    for (int i = 0; i < num_parts; ++i) {
      FUZZ_REQUIRE(i < num_parts - 1 || parts[i].iov_len > 0, "a read of nothing");
      const size_t some = std::min({parts[i].iov_len, step_ - done, size_ - at_});
      if (some > 0) std::memcpy(parts[i].iov_base, data_ + at_, some);
      at_ += some;
      done += some;
    }
    return done;
  }

 private:
  const uint8_t* data_;
  size_t size_, step_, at_ = 0;
};

struct Seen {
  ReplyKind kind;
  int64_t number;
  std::string text;
  bool operator==(const Seen& other) const = default;
};

// Replies until something is wrong. Bulk strings of up to `largest` bytes are read, others end it.
std::vector<Seen> read_all(Source& source, size_t a_bytes, int64_t largest, bool skips, bool* is_garbage) {
  std::vector<Seen> out;
  ReplyReader reader;
  Reply reply;
  while (reader.next(source, &reply)) {
    if (reply.kind != ReplyKind::kBulk) {
      out.push_back({reply.kind, reply.number, {}});
      if (reply.kind == ReplyKind::kStatus || reply.kind == ReplyKind::kError)
        out.back().text.assign(reply.text, reply.text_bytes);
      continue;
    }
    FUZZ_REQUIRE(reply.number >= 0, "a bulk string of negative length");
    if (reply.number > largest) break;
    const auto bytes = static_cast<size_t>(reply.number);
    Seen seen = {reply.kind, reply.number, {}};
    if (skips) {
      if (!reader.skip_bulk(source, bytes)) break;
    } else {
      a_bytes = std::min(a_bytes, bytes);
      std::vector<char> a(a_bytes), b(bytes - a_bytes);  // of exactly these sizes
      if (!reader.read_bulk(source, a.data(), a.size(), b.data(), b.size())) break;
      seen.text.assign(a.data(), a.size());
      seen.text.append(b.data(), b.size());
    }
    out.push_back(seen);
  }
  *is_garbage = reader.is_garbage();
  return out;
}

void compare_with_hiredis(const std::vector<Seen>& all, const uint8_t* data, size_t size) {
  redisReader* reader = redisReaderCreate();
  redisReaderFeed(reader, reinterpret_cast<const char*>(data), size);
  for (const Seen& seen : all) {
    void* raw = nullptr;
    FUZZ_REQUIRE(redisReaderGetReply(reader, &raw) == REDIS_OK && raw != nullptr, "hiredis reads no reply");
    auto* reply = static_cast<redisReply*>(raw);
    static constexpr int kTypes[] = {REDIS_REPLY_STATUS, REDIS_REPLY_ERROR, REDIS_REPLY_INTEGER,
                                     REDIS_REPLY_STRING, REDIS_REPLY_NIL};
    FUZZ_REQUIRE(reply->type == kTypes[static_cast<int>(seen.kind)], "hiredis reads another kind");
    if (seen.kind == ReplyKind::kInteger) FUZZ_REQUIRE(reply->integer == seen.number, "another number");
    if (reply->str != nullptr)
      FUZZ_REQUIRE(std::string(reply->str, static_cast<size_t>(reply->len)) == seen.text, "another text");
    freeReplyObject(reply);
  }
  redisReaderFree(reader);
}

void fuzz_url(const uint8_t* data, size_t size) {
  const std::string text = "redis" + std::string(reinterpret_cast<const char*>(data), size);
  Url url;
  char error[400] = "";
  if (!parse_url(text.c_str(), &url, error, sizeof error)) {
    FUZZ_REQUIRE(error[0] != '\0', "an error without a text");
    return;
  }
  for (const auto& [field, bytes] : {std::pair<const char*, size_t>{url.user, sizeof url.user},
                                     {url.password, sizeof url.password},
                                     {url.host, sizeof url.host},
                                     {url.socket, sizeof url.socket}})
    FUZZ_REQUIRE(std::memchr(field, 0, bytes) != nullptr, "a field without its end");
  FUZZ_REQUIRE((url.host[0] == 0) != (url.socket[0] == 0), "one of host and socket");
  FUZZ_REQUIRE(url.prefix_bytes <= kMaxPrefix && url.port >= 1 && url.port <= 65535 && url.db <= 65535,
               "limits");
  FUZZ_REQUIRE(url.connect_ms >= 1 && url.timeout_ms >= 1, "limits");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && data[0] == 'u') {
    fuzz_url(data + 1, size - 1);
    return 0;
  }
  if (size < 2) return 0;
  const size_t step = size_t{1} + data[0], a_bytes = data[1];
  data += 2;
  size -= 2;
  const int64_t largest = 40000;
  Text whole(data, size, SIZE_MAX), pieces(data, size, step), skipped(data, size, step);
  bool garbage = false, garbage_in_pieces = false, garbage_skipped = false;
  const std::vector<Seen> all = read_all(whole, a_bytes, largest, false, &garbage);
  FUZZ_REQUIRE(read_all(pieces, a_bytes, largest, false, &garbage_in_pieces) == all, "pieces change replies");
  FUZZ_REQUIRE(garbage == garbage_in_pieces, "pieces change what is garbage");
  FUZZ_REQUIRE(read_all(skipped, a_bytes, largest, true, &garbage_skipped).size() == all.size(),
               "skipping changes replies");
  compare_with_hiredis(all, data, size);
  return 0;
}
