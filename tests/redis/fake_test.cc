// SPDX-License-Identifier: Apache-2.0
// Servers that misbehave, by design: what a call comes to, and that nothing of it is left when the server is
// well again.
#include <errno.h>

#include "redis/fake_server.h"
#include "redis/tiers.h"
#include "rounds.h"

namespace kvc_redis_test {
namespace {

using Answer = FakeServer::Answer;
using Words = FakeServer::Words;

class Fake : public testing::Test {
 protected:
  Fake() : tier_(server_.url("threads=3&probe=50&connect=1000"), 65536) {
    for (uint64_t n = 0; n < 8; ++n) {
      EXPECT_EQ(tier_.put(n), KVC_PAGE_OK);
      all_.insert(n);
    }
  }

  // Each call once, with a tier of its own, so that no breaker is between.
  void expect_all(std::set<int32_t> expected, uint64_t timeout_ns = kPatience) {
    expect(expected, expected, expected, expected, timeout_ns);
  }
  void expect(const std::set<int32_t>& get, const std::set<int32_t>& put, const std::set<int32_t>& exists,
              const std::set<int32_t>& remove, uint64_t timeout_ns = kPatience) {
    for (int i = 0; i < kvc::test::rounds(1); ++i) {
      TestTier tier(server_.url("threads=1"), 65536);
      const auto check = [&](const char* what, const std::set<int32_t>& wanted, int32_t result) {
        EXPECT_EQ(wanted.count(result), 1u) << what << ": " << name_of(result);
      };
      check("get", get, tier.get(1, 0, timeout_ns));
      check("put", put, tier.put(100, 0, timeout_ns));
      TestTier another(server_.url("threads=1"), 65536);
      check("remove", remove, another.remove({200, 1, 201}, timeout_ns)[1]);
      check("exists", exists, another.exists({1, 2, 300}, timeout_ns)[1]);
    }
  }

  void expect_recovery() {
    for (int i = 0; i < 5; ++i)
      tier_.get(1, 0, 100 * kMs);  // it meets the fault too, with all its connections
    server_.behave();
    usleep(60000);
    EXPECT_EQ(tier_.exists({300})[0], KVC_PAGE_MISS);
    all_.insert(1);
    EXPECT_EQ(tier_.put(1), KVC_PAGE_OK);  // if it was removed because of wrong bytes
    EXPECT_EQ(tier_.stats().available, 1u);
    tier_.operate_at_random(all_, 16, kvc::test::rounds(60), 5);
  }

  FakeServer server_;
  TestTier tier_;
  std::set<uint64_t> all_;
};

TEST_F(Fake, IsAStoreWhenItIsWell) { tier_.operate_at_random(all_, 16, kvc::test::rounds(100), 1); }

TEST_F(Fake, NilIsAMiss) {
  server_.misbehave([](const Words&, const std::string&) { return Answer{"$-1\r\n"}; });
  expect({KVC_PAGE_MISS}, {KVC_PAGE_FAILED}, {KVC_PAGE_FAILED}, {KVC_PAGE_FAILED});
  expect_recovery();
}

TEST_F(Fake, GarbageIsAFailure) {
  for (const char* text : {"hello\r\n",
                           "\r\n",
                           "\n",
                           "*1\r\n$2\r\nOK\r\n",
                           "*-1\r\n",
                           ":12\r\n",
                           ":-1\r\n",
                           ":\r\n",
                           ":1x\r\n",
                           ":01\r\n",
                           "+OK\n\r",
                           "+ok\r\n",
                           "+O\nK\r\n",
                           "$-2\r\n",
                           "$007\r\n",
                           "$\r\n",
                           "$99999999999999999999\r\n",
                           "_\r\n",
                           "#t\r\n",
                           "%1\r\n",
                           "HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n"}) {
    server_.misbehave([text](const Words&, const std::string&) { return Answer{text}; });
    SCOPED_TRACE(text);
    expect_all({KVC_PAGE_FAILED});
  }
  expect_recovery();
  server_.misbehave([](const Words&, const std::string&) { return Answer{std::string(100000, '+')}; });
  expect_all({KVC_PAGE_FAILED});
  server_.misbehave(
      [](const Words&, const std::string&) { return Answer{std::string("\0\xff\x80\r\n", 5)}; });
  expect_all({KVC_PAGE_FAILED});
  expect_recovery();
  EXPECT_EQ(tier_.stats().last_errno, EPROTO);
}

TEST_F(Fake, RepliesOfAnotherKindAreFailures) {
  server_.misbehave([](const Words& words, const std::string&) {
    return Answer{words[0] == "GET" ? ":1\r\n" : words[0] == "SET" ? "$2\r\nOK\r\n" : "+OK\r\n"};
  });
  expect_all({KVC_PAGE_FAILED});
  expect_recovery();
}

TEST_F(Fake, ErrorsAreWhatTheySay) {
  const std::pair<const char*, int32_t> kErrors[] = {
      {"-LOADING Redis is loading the dataset in memory\r\n", KVC_PAGE_UNAVAILABLE},
      {"-BUSY Redis is busy running a script\r\n", KVC_PAGE_UNAVAILABLE},
      {"-MASTERDOWN Link with MASTER is down\r\n", KVC_PAGE_UNAVAILABLE},
      {"-READONLY You can't write against a read only replica.\r\n", KVC_PAGE_FAILED},
      {"-NOAUTH Authentication required.\r\n", KVC_PAGE_FAILED},
      {"-ERR unknown command\r\n", KVC_PAGE_FAILED},
      {"-MOVED 3999 127.0.0.1:6381\r\n", KVC_PAGE_FAILED},
      {"-LOADINGX\r\n", KVC_PAGE_FAILED},
      {"-\r\n", KVC_PAGE_FAILED}};
  for (const auto& [text, result] : kErrors) {
    SCOPED_TRACE(text);
    server_.misbehave([text = text](const Words&, const std::string&) { return Answer{text}; });
    expect_all({result});
  }
  expect_recovery();
  server_.misbehave([](const Words& words, const std::string& good) {
    return Answer{words[0] == "SET" ? "-OOM command not allowed\r\n" : good};
  });
  for (uint64_t n = 100; n < 110; ++n) EXPECT_EQ(tier_.put(n), KVC_PAGE_NO_SPACE);
  EXPECT_EQ(tier_.stats().available, 1u);
  expect_recovery();
}

TEST_F(Fake, HalfAReplyAndItsEndIsAFailure) {
  for (const size_t part : {0u, 1u, 2u, 3u, 4u, 7u, 8u, 9u, 100u, 137u, 20000u, 65672u, 65673u}) {
    SCOPED_TRACE(part);
    server_.misbehave([part](const Words&, const std::string& good) {
      return Answer{good.substr(0, std::min(part, good.size() - 1)), true};
    });
    expect_all({KVC_PAGE_FAILED});
  }
  EXPECT_EQ(tier_.get(1), KVC_PAGE_FAILED);
  EXPECT_EQ(tier_.stats().last_errno, ECONNRESET);
  expect_recovery();
}

TEST_F(Fake, HalfAReplyAndSilenceIsATimeout) {
  for (const size_t part : {0u, 1u, 3u, 20000u}) {
    SCOPED_TRACE(part);
    server_.misbehave([part](const Words&, const std::string& good) {
      return Answer{good.substr(0, std::min(part, good.size() - 1))};
    });
    // What there is of the replies to many keys is garbage.
    const std::set<int32_t> many = {KVC_PAGE_TIMEOUT, KVC_PAGE_FAILED};
    expect({KVC_PAGE_TIMEOUT}, {KVC_PAGE_TIMEOUT}, many, many, 40 * kMs);
  }
  expect_recovery();
}

TEST_F(Fake, TheRestOfALateReplyIsNotTheNextOne) {
  TestTier tier(server_.url("threads=1"), 65536);
  std::atomic<int> late{0};
  server_.misbehave([&](const Words& words, const std::string& good) {
    if (words[0] == "GET" && late++ < 2) usleep(100000);
    return Answer{good};
  });
  EXPECT_EQ(tier.get(1, 0, 30 * kMs), KVC_PAGE_TIMEOUT);
  EXPECT_EQ(tier.get(2, 0, 30 * kMs), KVC_PAGE_TIMEOUT);
  for (uint64_t n = 0; n < 8; ++n) EXPECT_EQ(tier.get(n), KVC_PAGE_OK);
  EXPECT_EQ(tier.stats().bad_headers, 0u);
  expect_recovery();
}

TEST_F(Fake, AnEndWithoutAReplyIsAFailure) {
  server_.misbehave([](const Words&, const std::string&) { return Answer{"", true}; });
  expect_all({KVC_PAGE_FAILED});
  expect_recovery();
}

TEST_F(Fake, ManyRepliesToOneCommandAreNotThoseOfTheNext) {
  for (const char* more : {"+OK\r\n", "$-1\r\n", ":1\r\n", "x"}) {
    server_.misbehave([more](const Words&, const std::string& good) { return Answer{good + more}; });
    // The reply is right; what is behind it shows before the next command, and costs the connection.
    TestTier tier(server_.url("threads=1"), 65536);
    for (uint64_t n = 0; n < 16; ++n) {
      const int32_t result = tier.get(n);
      EXPECT_EQ(result, n < 8 ? KVC_PAGE_OK : KVC_PAGE_MISS) << name_of(result);
    }
    EXPECT_EQ(tier.exists({12})[0], KVC_PAGE_MISS);
  }
  expect_recovery();
}

TEST_F(Fake, HugeLengthsAreMissesAndCostTheConnection) {
  TestTier tier(server_.url("threads=1"), 65536);
  for (const char* length : {"65809", "4294967296", "999999999999999999"}) {
    server_.misbehave([length](const Words& words, const std::string& good) {
      return words[0] == "GET" ? Answer{"$" + std::string(length) + "\r\nabc"} : Answer{good};
    });
    const size_t before = server_.connections();
    EXPECT_EQ(tier.get(1), KVC_PAGE_MISS);
    EXPECT_EQ(tier.get(1, 1), KVC_PAGE_MISS);
    EXPECT_EQ(tier.exists({1})[0], KVC_PAGE_OK);
    EXPECT_GT(server_.connections(), before);
  }
  expect_recovery();
}

TEST_F(Fake, AnotherLengthIsAMissAndTheConnectionStays) {
  TestTier tier(server_.url("threads=1"), 65536);
  for (const size_t bytes : {0u, 1u, 127u, 128u, 4000u, 65663u, 65664u - 1}) {
    server_.misbehave([bytes](const Words& words, const std::string& good) {
      return words[0] == "GET" ? Answer{FakeServer::bulk(std::string(bytes, 'x'))} : Answer{good};
    });
    EXPECT_EQ(tier.get(1), KVC_PAGE_MISS);
    EXPECT_EQ(tier.exists({1})[0], KVC_PAGE_OK);
  }
  server_.behave();
  EXPECT_EQ(tier.get(1), KVC_PAGE_OK);
  EXPECT_EQ(tier.stats().failures, 0u);
}

TEST_F(Fake, ABulkWithoutItsEndIsAFailure) {
  server_.misbehave([](const Words& words, const std::string& good) {
    return words[0] == "GET" ? Answer{good.substr(0, good.size() - 2) + "xx"} : Answer{good};
  });
  EXPECT_EQ(tier_.get(1), KVC_PAGE_FAILED);
  expect_recovery();
}

TEST_F(Fake, OneByteAtATimeIsAReply) {
  server_.misbehave([](const Words&, const std::string& good) { return Answer{good, false, true}; });
  TestTier tier(server_.url("threads=1"), 65536);
  EXPECT_EQ(tier.get(1), KVC_PAGE_OK);
  EXPECT_EQ(tier.get(100), KVC_PAGE_MISS);
  EXPECT_EQ(tier.exists({1, 100})[1], KVC_PAGE_MISS);
  EXPECT_EQ(tier.remove({1, 100})[1], KVC_PAGE_OK);
  expect_recovery();
}

// Bytes that never end, each in time for the next: the deadline is that of the call, not of a byte.
TEST_F(Fake, BytesWithoutEndDoNotPassTheDeadline) {
  server_.misbehave([](const Words&, const std::string& good) { return Answer{good, false, true, 2000}; });
  EXPECT_EQ(tier_.get(1, 0, 50 * kMs), KVC_PAGE_TIMEOUT);
  expect_recovery();
}

// The machine of the server has vanished and nobody says so: one call finds out, for all connections.
TEST_F(Fake, OneTimeoutEndsTheTrustInAllOldConnections) {
  for (int i = 0; i < 100 && server_.connections() < 3; ++i) {
    server_.misbehave([](const Words&, const std::string& good) { return usleep(5000), Answer{good}; });
    std::vector<kvc_tier_item> items;
    std::string page(65536 * 6, 0);
    for (uint64_t n = 0; n < 6; ++n) {
      items.push_back(TestTier::item_of(n, page));
      items[n].bytes = 65536;
      items[n].data = page.data() + n * 65536;
    }
    tier_.run(KVC_TIER_GET, items, kPatience);
  }
  ASSERT_EQ(server_.connections(), 3u);
  server_.behave();
  server_.forget_connections();
  EXPECT_EQ(tier_.get(1, 0, 50 * kMs), KVC_PAGE_TIMEOUT);
  for (uint64_t n = 0; n < 50; ++n) EXPECT_EQ(tier_.get(n % 8), KVC_PAGE_OK);
}

TEST_F(Fake, ThePageOfAnotherKeyIsAMiss) {
  std::string other;
  server_.misbehave([&](const Words&, const std::string& good) {
    if (other.empty()) other = good;
    return Answer{other};
  });
  EXPECT_EQ(tier_.get(2), KVC_PAGE_OK);
  server_.misbehave(
      [&](const Words& words, const std::string& good) { return Answer{words[0] == "GET" ? other : good}; });
  for (uint64_t n = 3; n < 8; ++n) EXPECT_EQ(tier_.get(n), KVC_PAGE_MISS);
  EXPECT_EQ(tier_.stats().bad_headers, 5u);
  expect_recovery();
}

TEST_F(Fake, APasswordThatIsRefusedOrNotAnswered) {
  server_.misbehave([](const Words& words, const std::string& good) {
    return Answer{words[0] == "AUTH" ? "-WRONGPASS invalid\r\n" : good};
  });
  TestTier tier(server_.url("probe=50", "me:secret@"), 65536);
  EXPECT_EQ(tier.get(1), KVC_PAGE_FAILED);
  EXPECT_EQ(tier.stats().last_errno, EACCES);
  server_.misbehave(
      [](const Words& words, const std::string& good) { return Answer{words[0] == "AUTH" ? "" : good}; });
  TestTier silent(server_.url("connect=50", "me:secret@"), 65536);
  EXPECT_EQ(silent.get(1), KVC_PAGE_TIMEOUT);  // of the connection, long before that of the call
  server_.behave();
  EXPECT_EQ(silent.get(1), KVC_PAGE_OK);
  EXPECT_EQ(tier.get(1), KVC_PAGE_OK);
}

// At random: cut, ended, silent, doubled, with a byte changed, or good.
TEST_F(Fake, AnyFaultsAtRandomGiveNoWrongBytes) {
  std::atomic<uint64_t> state{1};
  server_.misbehave([&](const Words&, const std::string& good) {
    const uint64_t r = mix(++state);
    const size_t at = (r >> 16) % good.size();
    std::string text = good;
    switch (r % 12) {
      case 0:
        return Answer{good.substr(0, at), true};
      case 1:
        return Answer{good.substr(0, at)};
      case 2:
        return Answer{good + good};
      case 3:
        text[at] = static_cast<char>(text[at] ^ 1 << (r >> 8) % 8);
        return Answer{text};
      case 4:
        return Answer{good.substr(at)};
      case 5:
        return Answer{"-ERR\r\n"};
      default:
        return Answer{good};
    }
  });
  std::set<int32_t> seen;
  for (int i = 0; i < kvc::test::rounds(80); ++i) {
    TestTier tier(server_.url("threads=2&probe=1"), 65536);
    for (int j = 0; j < 6; ++j) {
      const uint64_t number = mix(static_cast<uint64_t>(i * 6 + j)) % 8;
      seen.insert(tier.get(number, 0, 10 * kMs));  // compares
    }
  }
  EXPECT_EQ(seen, (std::set<int32_t>{KVC_PAGE_OK, KVC_PAGE_MISS, KVC_PAGE_FAILED, KVC_PAGE_TIMEOUT,
                                     KVC_PAGE_UNAVAILABLE}));
  expect_recovery();
}

TEST(FakeAddress, OfNobodyFails) {
  TestTier tier("redis://127.0.0.1:" + std::to_string(free_port()) + "?probe=10", 4096);
  EXPECT_EQ(tier.get(1), KVC_PAGE_FAILED);
  EXPECT_EQ(tier.stats().last_errno, ECONNREFUSED);
  TestTier no_socket("redis:///no/such/socket", 4096);
  EXPECT_EQ(no_socket.get(1), KVC_PAGE_FAILED);
  EXPECT_EQ(no_socket.stats().last_errno, ENOENT);
}

// A listener whose queue is full: connections get no answer.
TEST(FakeAddress, ThatDoesNotAnswerIsATimeout) {
  int port = 0;
  const int fd = bind_any(&port);
  listen(fd, 0);
  std::vector<int> fillers;
  for (int i = 0; i < 4; ++i) {
    const int filler = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    static_cast<void>(connect(filler, reinterpret_cast<sockaddr*>(&address), sizeof address));
    fillers.push_back(filler);
  }
  TestTier tier("redis://127.0.0.1:" + std::to_string(port) + "?connect=60000&probe=10", 4096);
  EXPECT_EQ(tier.get(1, 0, 50 * kMs), KVC_PAGE_TIMEOUT);
  TestTier quick("redis://127.0.0.1:" + std::to_string(port) + "?connect=30", 4096);
  EXPECT_EQ(quick.get(1), KVC_PAGE_TIMEOUT);
  for (const int filler : fillers) close(filler);
  close(fd);
}

}  // namespace
}  // namespace kvc_redis_test
