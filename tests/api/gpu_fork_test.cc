// SPDX-License-Identifier: Apache-2.0
// Captures of two streams on emulated devices, whose graphs do both branches in any order and side by side:
// what calls in one branch use, no call in the other may.
#include <algorithm>
#include <functional>
#include <set>

#include "api/emulated.h"
#include "rounds.h"

namespace kvc::test {
namespace {

// Two streams of an engine. `other` takes part in a capture of `origin` from fork() to join().
class GpuFork : public OnEmulatedDevices {
 protected:
  void SetUp() override {
    OnEmulatedDevices::SetUp();
    if (IsSkipped()) return;
    origin_ = std::make_unique<EngineStream>(), other_ = std::make_unique<EngineStream>();
    ASSERT_EQ(kvc_stream_event_create("emulated", &event_), KVC_OK) << kvc_last_error();
  }
  void TearDown() override {
    kvc_stream_event_destroy(event_);
    origin_.reset(), other_.reset();
    OnEmulatedDevices::TearDown();
  }

  kvc_stream* origin() { return origin_->stream.get(); }
  kvc_stream* other() { return other_->stream.get(); }
  void begin() { control()->begin_capture(origin_->handle); }
  void fork() { order(origin(), other()); }
  void join() { order(other(), origin()); }
  void* end() { return control()->end_capture(origin_->handle); }
  void replay(void* graph) {
    control()->launch_graph(graph, origin_->handle);
    ASSERT_EQ(kvc_stream_synchronize(origin()), KVC_OK) << kvc_last_error();
  }
  void order(kvc_stream* first, kvc_stream* then) {
    ASSERT_EQ(kvc_stream_event_record(event_, first), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_stream_wait_event(then, event_), KVC_OK) << kvc_last_error();
  }

 private:
  std::unique_ptr<EngineStream> origin_, other_;
  kvc_stream_event* event_ = nullptr;
};

// Blocks tell who came first. Each branch marks its own block, then notes the mark of the other: whoever
// notes 0 was done before the other began.
TEST_F(GpuFork, BranchesReplayInEveryOrderThatEventsAllow) {
  enum : int32_t { kZero, kOne, kLeft, kRight, kLeftSees, kRightSees, kLeftAtEnd, kRightAtEnd };
  kvc_storage_config c = small_config("emulated");
  c.num_blocks = 8;
  const StoragePtr s = make(c);
  const auto set = [&](int32_t block, float value) {
    ASSERT_EQ(store(s.get(), block * kBlock, value), KVC_OK);
  };
  set(kZero, 0), set(kOne, 1);
  // Of a block that was copied while another was copied to it, where keys and values may be of two times.
  const auto first_key = [&](int32_t block) {
    ValueRows one(1);
    const int64_t slot = block * kBlock;
    one.rows.slots = &slot;
    EXPECT_EQ(kvc_storage_gather(s.get(), &one.rows, nullptr), KVC_OK) << kvc_last_error();
    return one.k[0];
  };
  const auto copy = [&](std::vector<kvc_block_copy> copies, kvc_stream* stream) {
    ASSERT_EQ(kvc_storage_copy_blocks(s.get(), copies.data(), copies.size(), stream), KVC_OK);
  };
  begin();
  copy({{kZero, kLeft}, {kZero, kRight}}, origin());
  fork();
  copy({{kOne, kLeft}}, origin());
  copy({{kOne, kRight}}, other());
  copy({{kRight, kLeftSees}}, origin());
  copy({{kLeft, kRightSees}}, other());
  join();
  copy({{kLeftSees, kLeftAtEnd}, {kRightSees, kRightAtEnd}}, origin());
  void* graph = end();
  ASSERT_NE(graph, nullptr);
  std::set<std::pair<float, float>> seen;
  const std::set<std::pair<float, float>> allowed = {{0, 1}, {1, 0}, {1, 1}};
  // One branch wholly before the mark of the other comes in one replay of 25.
  for (int i = 0; i < 50 || (i < 2000 && seen.size() < allowed.size()); ++i) {
    for (const int32_t block : {kLeft, kRight, kLeftSees, kRightSees, kLeftAtEnd, kRightAtEnd}) set(block, 7);
    ASSERT_NO_FATAL_FAILURE(replay(graph));
    seen.emplace(first_key(kLeftAtEnd), first_key(kRightAtEnd));
  }
  EXPECT_EQ(seen, allowed);
  control()->destroy_graph(graph);
}

TEST_F(GpuFork, ThatIsNotJoinedIsNoGraph) {
  const StoragePtr s = make(small_config("emulated"));
  const kvc_block_copy copy = {0, 1};
  const auto capture = [&](bool joined, bool works_after) {
    begin();
    fork();
    EXPECT_EQ(kvc_storage_copy_blocks(s.get(), &copy, 1, other()), KVC_OK) << kvc_last_error();
    if (joined) join();
    if (works_after) {
      EXPECT_EQ(kvc_storage_copy_blocks(s.get(), &copy, 1, other()), KVC_OK) << kvc_last_error();
    }
    void* graph = end();
    if (graph != nullptr) control()->destroy_graph(graph);
    return graph != nullptr;
  };
  EXPECT_FALSE(capture(false, false));
  EXPECT_TRUE(capture(true, false));
  EXPECT_FALSE(capture(true, true));
  EXPECT_TRUE(capture(true, false)) << "what failed has left nothing behind";
}

// Random calls in up to four streams, each on blocks of its own, with random events between the streams: a
// replay gives what the same calls give one after the other, whatever the events leave open.
TEST_F(GpuFork, AnyCaptureGivesWhatItsCallsGive) {
  constexpr int32_t kEach = 8;  // blocks of a stream
  constexpr size_t kStreams = 4;
  std::mt19937 random(seed());
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  using Call = std::function<void(kvc_storage*, kvc_stream*)>;
  std::vector<std::unique_ptr<ValueRows>> kept;
  const auto random_call = [&](size_t stream) -> Call {
    const auto block = [=, &below] {
      return static_cast<int32_t>(stream) * kEach + static_cast<int32_t>(below(kEach));
    };
    if (below(3) == 0) {
      std::vector<int32_t> blocks(1 + below(3));
      for (int32_t& each : blocks) each = block();
      return [=](kvc_storage* s, kvc_stream* in) {
        EXPECT_EQ(kvc_storage_zero_blocks(s, blocks.data(), blocks.size(), in), KVC_OK) << kvc_last_error();
      };
    }
    if (below(2) == 0) {
      std::vector<kvc_block_copy> copies(1 + below(5));
      for (kvc_block_copy& copy : copies) copy = {block(), block()};
      return [=](kvc_storage* s, kvc_stream* in) {
        EXPECT_EQ(kvc_storage_copy_blocks(s, copies.data(), copies.size(), in), KVC_OK) << kvc_last_error();
      };
    }
    std::vector<int64_t> slots(1 + below(kEach * kBlock));
    for (size_t i = 0; i < slots.size(); ++i)  // each once
      slots[i] =
          static_cast<int64_t>(stream) * kEach * kBlock + static_cast<int64_t>(i * 5 % (kEach * kBlock));
    kept.push_back(std::make_unique<ValueRows>(slots.size(), static_cast<float>(random() % 1000)));
    return [=, rows = kept.back()->rows](kvc_storage* s, kvc_stream* in) mutable {
      rows.slots = slots.data();
      EXPECT_EQ(kvc_storage_store(s, &rows, in), KVC_OK) << kvc_last_error();
    };
  };

  const EngineStream third, fourth;
  kvc_stream* const streams[kStreams] = {origin(), other(), third.stream.get(), fourth.stream.get()};
  for (int round = 0; round < rounds(2); ++round) {
    kvc_storage_config c = small_config("emulated");
    c.num_blocks = kStreams * kEach;
    const StoragePtr s = make(c);
    c.device = "cpu";
    const StoragePtr expected = make(c);
    std::vector<Call> calls;
    std::vector<size_t> part = {0};  // streams that take part
    begin();
    for (size_t i = 0; i < 16; ++i) {
      const size_t stream = below(kStreams), before = part[below(part.size())];
      const bool takes_part = std::find(part.begin(), part.end(), stream) != part.end();
      if (!takes_part || below(3) == 0) order(streams[before], streams[stream]);
      if (!takes_part) part.push_back(stream);
      calls.push_back(random_call(stream));
      calls.back()(s.get(), streams[stream]);
    }
    for (const size_t stream : part) {
      if (stream != 0) order(streams[stream], origin());
    }
    void* graph = end();
    ASSERT_NE(graph, nullptr);
    for (int i = 0; i < 4; ++i) {
      ASSERT_NO_FATAL_FAILURE(replay(graph));
      for (const Call& call : calls) call(expected.get(), nullptr);
      ASSERT_TRUE(bytes_of(s.get()) == bytes_of(expected.get())) << "round " << round << ", replay " << i;
    }
    control()->destroy_graph(graph);
  }
}

// What a call has used goes to the next one in its stream: a graph of many layers takes no more than one of a
// single layer, and a second branch as much again.
TEST_F(GpuFork, CallsOfOneBranchShareTheirMemory) {
  const StoragePtr s = make(small_config("emulated"));
  const kvc_block_copy left = {0, 1}, right = {2, 3};
  const auto bytes_of_graph = [&](int layers, bool forked) {
    const uint64_t before = control()->bytes_in_use(0);
    begin();
    if (forked) fork();
    for (int i = 0; i < layers; ++i) {
      EXPECT_EQ(kvc_storage_copy_blocks(s.get(), &left, 1, origin()), KVC_OK) << kvc_last_error();
      if (forked) {
        EXPECT_EQ(kvc_storage_copy_blocks(s.get(), &right, 1, other()), KVC_OK) << kvc_last_error();
      }
    }
    if (forked) join();
    void* graph = end();
    EXPECT_NE(graph, nullptr);
    if (graph != nullptr) control()->destroy_graph(graph);
    return control()->bytes_in_use(0) - before;
  };
  const uint64_t one = bytes_of_graph(1, false);
  EXPECT_GT(one, 0u);
  EXPECT_EQ(bytes_of_graph(5, false), one);
  EXPECT_EQ(bytes_of_graph(5, true), 2 * one);
}

}  // namespace
}  // namespace kvc::test
