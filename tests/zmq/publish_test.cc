// SPDX-License-Identifier: Apache-2.0
// A publisher on real sockets, as a subscriber of vLLM's meets it: the frames, replay, losses, a subscriber
// that is slow, one that sends garbage, a publisher that begins anew.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "conformance/fixture.h"
#include "publish/subscriber.h"
#include "seed.h"

namespace kvc {
namespace {

using conformance::Cache;
using conformance::text;
using conformance::Tokens;

constexpr uint32_t kBlock = 4;
constexpr int kPatienceMs = 20000;  // of a wait that a working publisher ends in milliseconds
constexpr int kSilenceMs = 2000;

kvc_manager_config with_events(uint64_t blocks) {
  kvc_manager_config config = conformance::shape(blocks, kBlock);
  config.event_capacity = 4096;
  return config;
}

std::string place(const char* name) {
  static std::atomic<int> number{0};
  return "ipc:///tmp/kvcache-test-" + std::to_string(getpid()) + "-" + std::to_string(number++) + "-" + name;
}

struct Places {
  ~Places() {  // libzmq leaves the sockets' files
    for (const std::string& endpoint : {publish, replay}) std::remove(endpoint.c_str() + sizeof "ipc://" - 1);
  }
  std::string publish = place("pub"), replay = place("replay");
  std::string url(const std::string& more = "") const {
    return "zmq:" + publish + "?replay=" + replay + more;
  }
};

class PublisherOf {
 public:
  PublisherOf(kvc_manager* m, const std::string& url, uint32_t flags = 0, uint32_t max_blocks = 8,
              uint32_t replay_batches = 0) {
    kvc_publisher_config config = {};
    config.struct_size = sizeof config;
    config.manager = m;
    config.url = url.c_str();
    config.topic = "kv@pod@model";
    config.flags = flags;
    config.max_blocks = max_blocks;
    config.replay_batches = replay_batches;
    config.resync_interval_ns = 1;
    EXPECT_EQ(kvc_publisher_create(&config, &p_), KVC_OK) << kvc_last_error();
  }
  ~PublisherOf() { kvc_publisher_destroy(p_); }
  PublisherOf(const PublisherOf&) = delete;
  PublisherOf& operator=(const PublisherOf&) = delete;
  kvc_publisher* get() const { return p_; }
  void poll() const {
    uint64_t batches = 0;
    EXPECT_EQ(kvc_publisher_poll(p_, &batches), KVC_OK);
  }
  kvc_publisher_stats stats() const {
    kvc_publisher_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(kvc_publisher_read_stats(p_, &stats), KVC_OK);
    return stats;
  }

 private:
  kvc_publisher* p_ = nullptr;
};

struct Message {
  std::string topic;
  uint64_t sequence;
  std::vector<char> payload;
};

uint64_t number(const std::string& bytes) {
  uint64_t out = 0;
  for (const char byte : bytes) out = out << 8 | static_cast<uint8_t>(byte);
  return out;
}
std::string frame(uint64_t number) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(number >> shift);
  return out;
}

class Sockets {
 public:
  explicit Sockets(const Places& places, int hwm = 100000)
      : context_(zmq_ctx_new()), hwm_(hwm), replay_(places.replay), sub_(open(ZMQ_SUB)) {
    zmq_setsockopt(sub_, ZMQ_SUBSCRIBE, "kv@", 3);
    EXPECT_EQ(zmq_connect(sub_, places.publish.c_str()), 0) << zmq_strerror(errno);
    connect_dealer();
  }
  ~Sockets() {
    zmq_close(sub_);
    zmq_close(dealer_);
    zmq_ctx_term(context_);
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  bool published(Message* message) { return next(sub_, false, message, 0); }
  void send(const std::vector<std::string>& frames) {
    for (size_t i = 0; i < frames.size(); ++i)
      zmq_send(dealer_, frames[i].data(), frames[i].size(), i + 1 < frames.size() ? ZMQ_SNDMORE : 0);
  }
  // All batches from `sequence` on; the publisher polls meanwhile. A request that reaches a publisher as it
  // ends is lost: after a silence a new socket asks again, to which no answer to the first one can come.
  std::vector<Message> replay(const PublisherOf& publisher, uint64_t sequence) {
    send({"", frame(sequence)});
    std::vector<Message> all;
    for (int waited = 0; waited < kPatienceMs;) {
      Message message;
      if (!next(dealer_, true, &message, 1)) {
        publisher.poll();
        if (++waited % kSilenceMs == 0) {
          zmq_close(dealer_);
          connect_dealer();
          send({"", frame(sequence)});
          all.clear();
        }
        continue;
      }
      if (message.sequence == UINT64_MAX) {
        EXPECT_TRUE(message.payload.empty());
        return all;
      }
      all.push_back(std::move(message));
    }
    ADD_FAILURE() << "no end of the replay";
    return all;
  }
  // The subscription has reached the publisher.
  void wait(const PublisherOf& publisher, Cache& cache) {
    Message message;
    for (int i = 0; i < kPatienceMs; ++i) {
      cache.store(text(1000 + i, kBlock));
      publisher.poll();
      if (next(sub_, false, &message, 1)) return;
    }
    FAIL() << "nothing was published";
  }

 private:
  void* open(int type) const {
    void* socket = zmq_socket(context_, type);
    const int linger = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &hwm_, sizeof hwm_);
    return socket;
  }
  void connect_dealer() {
    dealer_ = open(ZMQ_DEALER);
    EXPECT_EQ(zmq_connect(dealer_, replay_.c_str()), 0) << zmq_strerror(errno);
  }
  static bool next(void* socket, bool has_empty, Message* message, long wait_ms) {
    zmq_pollitem_t item = {socket, 0, ZMQ_POLLIN, 0};
    if (zmq_poll(&item, 1, wait_ms) <= 0) return false;
    std::vector<std::string> frames;
    for (int more = 1; more != 0;) {
      zmq_msg_t part;
      zmq_msg_init(&part);
      EXPECT_GE(zmq_msg_recv(&part, socket, 0), 0);
      frames.emplace_back(static_cast<char*>(zmq_msg_data(&part)), zmq_msg_size(&part));
      more = zmq_msg_more(&part);
      zmq_msg_close(&part);
    }
    if (has_empty) {
      EXPECT_EQ(frames.front(), "");
      frames.erase(frames.begin());
    }
    EXPECT_EQ(frames.size(), 3u);
    if (frames.size() != 3) return false;
    EXPECT_EQ(frames[1].size(), 8u);
    *message = {frames[0], number(frames[1]), {frames[2].begin(), frames[2].end()}};
    return true;
  }

  void* const context_;
  const int hwm_;
  const std::string replay_;
  void* const sub_;
  void* dealer_ = nullptr;
};

// A subscriber that follows a stream with gaps and restarts, as routers should.
class Follower {
 public:
  void take(const PublisherOf& publisher, Sockets& sockets, const Message& message) {
    EXPECT_EQ(message.topic, "kv@pod@model");
    if (message.sequence < next_ && message.sequence == 0) next_ = 0;  // the publisher began anew
    if (message.sequence < next_) return;                              // came by replay already
    if (message.sequence > next_) {
      ++replays_;
      for (const Message& missed : sockets.replay(publisher, next_)) {
        if (missed.sequence < next_) continue;
        apply(missed);
      }
    }
    if (message.sequence == next_) apply(message);
  }
  const std::set<Subscriber::Block>& blocks() const { return subscriber_.blocks(); }
  uint64_t next() const { return next_; }
  uint64_t replays() const { return replays_; }

 private:
  // Behind a gap that no replay could fill it knows nothing, until all is told anew.
  void apply(const Message& message) {
    knows_ &= message.sequence == next_;
    next_ = message.sequence + 1;
    if (!knows_) {
      subscriber_.restart();
      knows_ = subscriber_.begins_with_clear(message.payload);
    }
    if (knows_) subscriber_.apply(message.payload);
  }
  Subscriber subscriber_;
  uint64_t next_ = 0, replays_ = 0;
  bool knows_ = true;
};

void live(Cache& cache, std::mt19937_64& random) {
  const uint64_t kind = random() % 10;
  if (kind < 7) {
    cache.store(text(static_cast<int32_t>(random() % 12), kBlock * (1 + random() % 4)));
  } else if (kind < 9) {
    cache.evict(random() % 6);
  } else {
    cache.reset_all();
  }
}

TEST(ZmqPublisher, SendsTheFramesOfTheEngine) {
  const Places places;
  Cache cache(with_events(40));
  const PublisherOf publisher(cache.get(), places.url());
  Sockets sockets(places);
  sockets.wait(publisher, cache);
  cache.store(text(1, 2 * kBlock));
  publisher.poll();
  Message message;
  uint64_t last = 0;
  for (int i = 0; i < kPatienceMs && last + 1 < publisher.stats().next_sequence; ++i) {
    if (!sockets.published(&message)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    EXPECT_EQ(message.topic, "kv@pod@model");
    last = message.sequence;
  }
  std::vector<char> kept(message.payload.size());
  uint64_t found = 0;
  size_t size = 0;
  ASSERT_EQ(kvc_publisher_read(publisher.get(), last, &found, kept.data(), kept.size(), &size), KVC_OK);
  EXPECT_EQ(found, last);
  EXPECT_EQ(kept, message.payload);
  const std::vector<Message> all = sockets.replay(publisher, 0);
  ASSERT_EQ(all.size(), publisher.stats().next_sequence);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].sequence, i);
  EXPECT_TRUE(sockets.replay(publisher, all.size()).empty()) << "the end alone";
}

TEST(ZmqPublisher, IsFollowedThroughLostBatches) {
  const Places places;
  Cache cache(with_events(40));
  std::mt19937_64 random(test::test_seed());
  const PublisherOf publisher(cache.get(), places.url(), 0, 2);
  Sockets sockets(places);
  sockets.wait(publisher, cache);
  Follower follower;
  uint64_t lost = 0;
  for (int i = 0; i < 300; ++i) {
    for (int n = 0; n < 5; ++n) live(cache, random);
    publisher.poll();
    Message message;
    while (sockets.published(&message)) {
      if (random() % 10 == 0)
        ++lost;
      else
        follower.take(publisher, sockets, message);
    }
  }
  // What is under way, and what was lost at the end.
  for (const Message& message : sockets.replay(publisher, follower.next()))
    follower.take(publisher, sockets, message);
  EXPECT_EQ(follower.blocks(), contents(cache.get()));
  EXPECT_GT(lost, 0u);
  EXPECT_GT(follower.replays(), 0u);
}

TEST(ZmqPublisher, IsFollowedWhenItBeginsAnew) {
  const Places places;
  Cache cache(with_events(40));
  std::mt19937_64 random(test::test_seed());
  Follower follower;
  Sockets sockets(places);
  for (int restart = 0; restart < 3; ++restart) {
    const PublisherOf publisher(cache.get(), places.url());
    for (int i = 0; i < 20; ++i) live(cache, random);
    publisher.poll();
    // The subscription may come after its first batches: asked for from 0, they are all there.
    for (const Message& message : sockets.replay(publisher, 0)) follower.take(publisher, sockets, message);
    EXPECT_EQ(follower.blocks(), contents(cache.get()));
  }
}

// A subscriber that does not read until its queue, and that of the publisher, are full.
TEST(ZmqPublisher, CountsWhatASlowSubscriberLoses) {
  const Places places;
  Cache cache(with_events(40));
  const PublisherOf publisher(cache.get(), places.url("&hwm=2"), 0, 1, 100);
  Sockets slow(places, 1);
  slow.wait(publisher, cache);
  int32_t which = 0;
  kvc_publisher_stats stats = publisher.stats();
  for (; (stats.slow_batches == 0 || stats.next_sequence < 300) && which < 200000; ++which) {
    cache.store(text(which % 5000, kBlock));
    publisher.poll();
    stats = publisher.stats();
  }
  ASSERT_GT(stats.slow_batches, 0u);
  EXPECT_EQ(publisher.stats().failed_batches, 0u);
  // It comes back, finds that what it asks for is gone, and is told everything anew.
  Follower follower;
  for (int i = 0; i < 200 && follower.blocks() != contents(cache.get()); ++i) {
    for (const Message& message : slow.replay(publisher, follower.next()))
      follower.take(publisher, slow, message);
    publisher.poll();
  }
  EXPECT_GT(publisher.stats().replay_misses, 0u);
  EXPECT_GT(publisher.stats().resyncs, 1u);
  EXPECT_EQ(follower.blocks(), contents(cache.get()));
}

// Bytes that are not ZeroMQ's, or its greeting and then such bytes. Not by libzmq, whose own end of a broken
// connection may abort its process (libzmq issue 3442).
void send_raw(const std::string& endpoint, std::mt19937_64& random) {
  const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_GE(socket_fd, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  endpoint.copy(address.sun_path, sizeof address.sun_path - 1, std::string("ipc://").size());
  ASSERT_EQ(connect(socket_fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  std::string bytes;
  if (random() % 2 == 0) {
    bytes = std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL", 16) + std::string(48, '\0');
    bytes += std::string("\x04\x1c\x05READY\x0bSocket-Type\0\0\0\6DEALER", 30);
  }
  for (uint64_t n = random() % 300; n != 0; --n) bytes += static_cast<char>(random());
  (void)!send(socket_fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  close(socket_fd);
}

TEST(ZmqPublisher, AnswersOthersWhileOneSendsGarbage) {
  const Places places;
  Cache cache(with_events(40));
  std::mt19937_64 random(test::test_seed());
  const PublisherOf publisher(cache.get(), places.url());
  Sockets good(places), evil(places);
  cache.store(text(1, 2 * kBlock));
  publisher.poll();
  for (int i = 0; i < 500; ++i) {
    std::vector<std::string> frames(1 + random() % 5);
    for (std::string& frame : frames) frame.assign(random() % 4 == 0 ? random() % 65 : random() % 9, 'x');
    if (frames.size() == 2 && frames[0].empty() && frames[1].size() == 8) continue;
    evil.send(frames);
    if (i % 20 == 0) send_raw(places.replay, random);
    EXPECT_TRUE(i % 100 != 0 || !good.replay(publisher, 0).empty());
  }
  for (int i = 0; i < kPatienceMs && publisher.stats().bad_requests == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    publisher.poll();
  }
  EXPECT_GT(publisher.stats().bad_requests, 0u);
  EXPECT_EQ(good.replay(publisher, 0).size(), publisher.stats().next_sequence);
}

TEST(ZmqPublisher, WithAThreadTheEngineNeedNotCall) {
  const Places places;
  Cache cache(with_events(40));
  std::mt19937_64 random(test::test_seed());
  const PublisherOf publisher(cache.get(), places.url(), KVC_PUBLISHER_THREAD);
  Sockets sockets(places);
  Follower follower;
  for (int i = 0; i < 500; ++i) {
    live(cache, random);
    Message message;
    while (sockets.published(&message)) follower.take(publisher, sockets, message);
  }
  publisher.poll();
  for (const Message& message : sockets.replay(publisher, follower.next()))
    follower.take(publisher, sockets, message);
  EXPECT_EQ(follower.blocks(), contents(cache.get()));
}

TEST(ZmqPublisher, RefusesAnAddressInUse) {
  Cache cache(with_events(8));
  const auto create = [&](const char* url) {
    kvc_publisher_config config = {};
    config.struct_size = sizeof config;
    config.manager = cache.get();
    config.url = url;
    kvc_publisher* publisher = nullptr;
    const kvc_status status = kvc_publisher_create(&config, &publisher);
    kvc_publisher_destroy(publisher);
    return status;
  };
  EXPECT_EQ(create("zmq:nothing"), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("is no endpoint"), std::string::npos) << kvc_last_error();
  EXPECT_EQ(create("zmq:tcp://*:x"), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("cannot bind tcp://*:x"), std::string::npos)
      << kvc_last_error();
  void* context = zmq_ctx_new();
  void* taken = zmq_socket(context, ZMQ_PUB);
  ASSERT_EQ(zmq_bind(taken, "tcp://127.0.0.1:*"), 0);
  char endpoint[100];
  size_t size = sizeof endpoint;
  ASSERT_EQ(zmq_getsockopt(taken, ZMQ_LAST_ENDPOINT, endpoint, &size), 0);
  EXPECT_EQ(create(("zmq:" + std::string(endpoint) + "?mode=bind").c_str()), KVC_ERROR_BUSY);
  zmq_close(taken);
  zmq_ctx_term(context);
}

}  // namespace
}  // namespace kvc
