// SPDX-License-Identifier: Apache-2.0
// Replies that come in pieces of any sizes are the same replies.
#include "reply.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace kvc_redis {
namespace {

class Text final : public Source {
 public:
  Text(std::string text, size_t step) : text_(std::move(text)), step_(step) {}
  size_t read(iovec* parts, int num_parts) override {
    size_t done = 0;
    for (int i = 0; i < num_parts; ++i) {
      const size_t some = std::min({parts[i].iov_len, step_ - done, text_.size() - at_});
      std::memcpy(parts[i].iov_base, text_.data() + at_, some);
      at_ += some;
      done += some;
    }
    return done;
  }

 private:
  const std::string text_;
  const size_t step_;
  size_t at_ = 0;
};

TEST(RedisReply, InPiecesOfAnySizeIsTheSame) {
  const std::string a(128, 'a'), b(70000, 'b');
  const std::string text =
      "+OK\r\n:42\r\n:-3\r\n$-1\r\n-ERR what\r\n$70128\r\n" + a + b + "\r\n$5\r\nskip!\r\n$0\r\n\r\n:0\r\n";
  for (const size_t step : {1u, 2u, 3u, 5u, 17u, 100u, 16383u, 16384u, 16385u, 1000000u}) {
    Text source(text, step);
    ReplyReader reader;
    Reply reply;
    ASSERT_TRUE(reader.next(source, &reply));
    EXPECT_TRUE(reply.kind == ReplyKind::kStatus && reply.is_text("OK"));
    ASSERT_TRUE(reader.next(source, &reply));
    EXPECT_TRUE(reply.kind == ReplyKind::kInteger && reply.number == 42);
    ASSERT_TRUE(reader.next(source, &reply));
    EXPECT_TRUE(reply.kind == ReplyKind::kInteger && reply.number == -3);
    ASSERT_TRUE(reader.next(source, &reply));
    EXPECT_TRUE(reply.kind == ReplyKind::kNil);
    ASSERT_TRUE(reader.next(source, &reply));
    EXPECT_TRUE(reply.has_code("ERR") && !reply.has_code("ER"));
    ASSERT_TRUE(reader.next(source, &reply));
    ASSERT_TRUE(reply.kind == ReplyKind::kBulk && reply.number == 70128);
    std::string to_a(128, 0), to_b(70000, 0);
    ASSERT_TRUE(reader.read_bulk(source, to_a.data(), 128, to_b.data(), 70000));
    EXPECT_TRUE(to_a == a && to_b == b);
    ASSERT_TRUE(reader.next(source, &reply) && reply.number == 5);
    ASSERT_TRUE(reader.skip_bulk(source, 5));
    ASSERT_TRUE(reader.next(source, &reply) && reply.number == 0);
    ASSERT_TRUE(reader.read_bulk(source, nullptr, 0, nullptr, 0));
    ASSERT_TRUE(reader.next(source, &reply) && reply.number == 0 && reply.kind == ReplyKind::kInteger);
    EXPECT_TRUE(reader.is_empty());
    EXPECT_FALSE(reader.next(source, &reply));
    EXPECT_FALSE(reader.is_garbage());
  }
}

TEST(RedisReply, GarbageStaysGarbage) {
  Text source("?\r\n+OK\r\n", 100);
  ReplyReader reader;
  Reply reply;
  EXPECT_FALSE(reader.next(source, &reply));
  EXPECT_TRUE(reader.is_garbage());
  EXPECT_FALSE(reader.next(source, &reply));
}

TEST(RedisReply, ALineHasALimit) {
  for (const size_t bytes : {1000u, 1023u, 1024u, 1025u, 20000u}) {
    Text source("-" + std::string(bytes - 1, 'e') + "\r\n", 100000);
    ReplyReader reader;
    Reply reply;
    EXPECT_EQ(reader.next(source, &reply), bytes <= 1024) << bytes;
  }
}

}  // namespace
}  // namespace kvc_redis
