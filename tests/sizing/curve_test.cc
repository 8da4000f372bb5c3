// SPDX-License-Identifier: Apache-2.0
// The curve against exact stack distances, which a plain list gives: equal at rate 1, near at a sample.
#include "sizing/curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

namespace kvc {
namespace {

uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

struct Request {
  std::vector<uint64_t> keys;  // of the prompt, then of what it publishes later
  size_t num_prompt;
};

// Sessions whose prompts grow by turns, below one of a few common beginnings.
std::vector<Request> make_requests(uint64_t seed, size_t count, size_t num_sessions, size_t turn) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<uint64_t>> sessions(num_sessions);
  std::vector<Request> requests(count);
  uint64_t next = seed << 32;
  for (Request& request : requests) {
    auto& session = sessions[random() % num_sessions];
    if (session.empty() || session.size() > 40 * turn || random() % 4 == 0) {
      session.clear();
      const uint64_t beginning = random() % 3;
      for (uint64_t i = 0; i < 4; ++i) session.push_back(mix(mix(seed) + beginning * 4 + i));
    }
    for (size_t i = 0; i < 1 + random() % turn; ++i) session.push_back(mix(++next));
    request.num_prompt = session.size();
    for (size_t i = 0; i < random() % 3; ++i) session.push_back(mix(++next));
    request.keys = session;
  }
  return requests;
}

// A stack of all blocks, the newest at the end. A request's blocks enter it from the last to the first.
class ExactStack {
 public:
  void run(const Request& request) {
    for (size_t i = 0; i < request.num_prompt; ++i) {
      const auto at = std::find(stack_.rbegin(), stack_.rend(), request.keys[i]);
      ++queries_;
      if (at != stack_.rend()) distances_.push_back(static_cast<size_t>(at - stack_.rbegin()) + 1);
    }
    for (size_t i = request.keys.size(); i-- > 0;) {
      std::erase(stack_, request.keys[i]);
      stack_.push_back(request.keys[i]);
    }
  }
  size_t hits(size_t blocks) const {
    return static_cast<size_t>(
        std::count_if(distances_.begin(), distances_.end(), [&](size_t d) { return d <= blocks; }));
  }
  double hit_rate(size_t blocks) const {
    return static_cast<double>(hits(blocks)) / static_cast<double>(queries_);
  }
  size_t num_hits(const Request& request, size_t blocks) const {  // of its prompt, now
    size_t hits = 0;
    for (; hits < request.num_prompt; ++hits) {
      const auto at = std::find(stack_.rbegin(), stack_.rend(), request.keys[hits]);
      if (static_cast<size_t>(at - stack_.rbegin()) + 1 > std::min(blocks, stack_.size())) break;
    }
    return hits;
  }

 private:
  std::vector<uint64_t> stack_;
  std::vector<size_t> distances_;
  size_t queries_ = 0;
};

class CurveTest : public ::testing::Test {
 protected:
  void create(uint64_t max_blocks, double rate, uint64_t half_life = 0) {
    curve_ = std::make_unique<Curve>();
    ASSERT_TRUE(curve_->create(memory_, max_blocks, rate, half_life));
  }
  void run(const Request& request, size_t num_hits = 0, uint32_t ns = 0) {
    curve_->admit({request.keys.data(), request.num_prompt, request.num_prompt, request.num_prompt, num_hits,
                   true, ns});
    curve_->grow(request.keys.data() + request.num_prompt, request.keys.size() - request.num_prompt, ns);
  }
  double read(uint64_t blocks) const {
    double rate = -1;
    curve_->read(&blocks, 1, &rate);
    return rate;
  }
  Memory memory_{default_env()};
  std::unique_ptr<Curve> curve_;
};

TEST_F(CurveTest, IsExactAtRateOneAtEverySizeBelow512) {
  create(2000, 1);
  ExactStack exact;
  for (const Request& request : make_requests(1, 600, 12, 5)) {
    run(request, exact.num_hits(request, 100));
    exact.run(request);
  }
  for (uint64_t blocks = 1; blocks < 512; ++blocks)
    ASSERT_DOUBLE_EQ(read(blocks), exact.hit_rate(blocks)) << blocks;
  for (const uint64_t blocks : {515u, 1023u, 1999u})  // ends of buckets
    EXPECT_DOUBLE_EQ(read(blocks), exact.hit_rate(blocks)) << blocks;
  EXPECT_EQ(read(0), 0);
  EXPECT_GT(read(400), read(40) + 0.05);  // a curve, not a line
}

TEST_F(CurveTest, StaysExactWhenTheStackIsFull) {
  create(512, 1);  // while the requests use thousands of blocks
  ExactStack exact;
  for (const Request& request : make_requests(2, 1500, 40, 3)) {
    run(request);
    exact.run(request);
    ASSERT_LE(curve_->num_samples(), curve_->max_samples() * 3 / 2 + 1);
  }
  for (uint64_t blocks = 1; blocks < 512; ++blocks)
    ASSERT_DOUBLE_EQ(read(blocks), exact.hit_rate(blocks)) << blocks;
}

TEST_F(CurveTest, ASampleIsNearAtEverySize) {
  constexpr size_t kPool = 1000;
  ExactStack exact;
  const auto requests = make_requests(3, 4000, 300, 8);
  std::vector<size_t> hits;
  for (const Request& request : requests) {
    hits.push_back(exact.num_hits(request, kPool));
    exact.run(request);
  }
  create(20000, 0.5);
  for (size_t i = 0; i < requests.size(); ++i) run(requests[i], hits[i]);
  for (uint64_t blocks = 50; blocks <= 20000; blocks = blocks * 5 / 4)
    EXPECT_NEAR(read(blocks), exact.hit_rate(blocks), 0.015) << blocks;
  EXPECT_NEAR(curve_->sampled() / curve_->queries(), 0.5, 0.1);
}

TEST_F(CurveTest, TheManagersOwnHitsMendAHotBlock) {
  // One block has most hits. It is not in the sample.
  create(1000, 0.01);
  uint64_t hot = 0;
  while (mix(hot) >> 63 == 0) ++hot;
  for (uint64_t i = 0; i < 2000; ++i) run({{mix(hot), mix(1000 + i)}, 2}, i == 0 ? 0 : 1);
  EXPECT_NEAR(read(100), 1999.0 / 4000, 1e-9);
}

TEST_F(CurveTest, NeverFallsAndStaysInsideItsBounds) {
  create(5000, 0.05, 500);
  for (const Request& request : make_requests(4, 1000, 50, 6)) run(request);
  std::vector<uint64_t> sizes(5001);
  std::vector<double> rates(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = i;
  curve_->read(sizes.data(), sizes.size(), rates.data());
  EXPECT_TRUE(std::is_sorted(rates.begin(), rates.end()));
  EXPECT_GE(rates.front(), 0);
  EXPECT_LE(rates.back(), 1);
}

TEST_F(CurveTest, AHalfLifeFollowsTheWorkload) {
  const Request same{{mix(1), mix(2), mix(3), mix(4)}, 4};
  create(1000, 1, 40);
  uint64_t next = 100;
  for (int i = 0; i < 100; ++i) run({{mix(next++), mix(next++)}, 2});  // nothing is ever hit
  EXPECT_EQ(read(1000), 0);
  for (int i = 0; i < 60; ++i) run(same);
  EXPECT_GT(read(1000), 0.95);
  EXPECT_LT(curve_->queries(), 81);
}

TEST_F(CurveTest, ForgetsOneNamespaceOrAll) {
  create(1000, 1);
  const Request a{{mix(1), mix(2)}, 2}, b{{mix(3), mix(4)}, 2};
  run(a, 0, 1), run(b, 0, 2);
  curve_->forget(1);
  EXPECT_EQ(curve_->num_samples(), 2u);
  run(a, 0, 1), run(b, 0, 2);  // 2 hits of 8
  EXPECT_DOUBLE_EQ(read(1000), 2.0 / 8);
  EXPECT_DOUBLE_EQ(read(2), 0);  // b stands below the two of a
  EXPECT_DOUBLE_EQ(read(3), 1.0 / 8);
  EXPECT_DOUBLE_EQ(read(4), 2.0 / 8);
  curve_->forget_all();
  EXPECT_EQ(curve_->num_samples(), 0u);
  run(a, 0, 1);
  EXPECT_DOUBLE_EQ(read(1000), 2.0 / 10);
}

// However often all is forgotten, and whatever stood there: what comes then counts as in a new curve.
TEST_F(CurveTest, IsExactAfterItForgotAll) {
  for (const uint64_t stack : {600u, 5000u}) {
    create(stack, 1);
    double hits = 0, queries = 0;
    for (uint64_t round = 0; round < 40; ++round) {
      ExactStack exact;
      for (const Request& request : make_requests(round % 5, round % 7 == 0 ? 900 : 20, 40, 3)) {
        run(request);
        exact.run(request);
        queries += static_cast<double>(request.num_prompt);
      }
      hits += static_cast<double>(exact.hits(511));
      ASSERT_NEAR(read(511), hits / queries, 1e-9) << stack << ", round " << round;
      curve_->forget_all();
      ASSERT_EQ(curve_->num_samples(), 0u);
    }
  }
}

TEST_F(CurveTest, OneRequestMayHaveMoreBlocksThanTheStack) {
  create(10, 1);
  Request huge;
  for (uint64_t i = 0; i < 5000; ++i) huge.keys.push_back(mix(i));
  huge.num_prompt = huge.keys.size();
  run(huge), run(huge);
  EXPECT_DOUBLE_EQ(read(10), 10.0 / 10000);
}

TEST_F(CurveTest, SmallStacksKeepTheirBounds) {
  for (uint64_t blocks = 1; blocks <= 20; ++blocks) {
    create(blocks, 1);
    for (const Request& request : make_requests(blocks, 300, 5, 3)) run(request);
    EXPECT_LE(curve_->num_samples(), blocks + blocks / 2 + 1);
    EXPECT_LE(read(blocks), 1);
  }
}

TEST_F(CurveTest, TakesMemoryOnlyAtCreation) {
  create(1000, 0.5);
  const uint64_t bytes = memory_.bytes();
  EXPECT_EQ(curve_->bytes(), bytes);
  for (const Request& request : make_requests(5, 500, 20, 6)) run(request);
  EXPECT_EQ(memory_.bytes(), bytes);
  curve_.reset();
  EXPECT_EQ(memory_.bytes(), 0u);
}

}  // namespace
}  // namespace kvc
