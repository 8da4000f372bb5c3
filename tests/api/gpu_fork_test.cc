// SPDX-License-Identifier: Apache-2.0
// Captures of two streams on emulated devices, whose graphs do both branches in any order and side by side:
// what calls in one branch use, no call in the other may.
#include <set>

#include "api/emulated.h"

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

 private:
  void order(kvc_stream* first, kvc_stream* then) {
    ASSERT_EQ(kvc_stream_event_record(event_, first), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_stream_wait_event(then, event_), KVC_OK) << kvc_last_error();
  }

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
  for (int i = 0; i < 100; ++i) {
    for (const int32_t block : {kLeft, kRight, kLeftSees, kRightSees, kLeftAtEnd, kRightAtEnd}) set(block, 7);
    ASSERT_NO_FATAL_FAILURE(replay(graph));
    seen.emplace(key_at(s.get(), kLeftAtEnd * kBlock), key_at(s.get(), kRightAtEnd * kBlock));
  }
  const std::set<std::pair<float, float>> allowed = {{0, 1}, {1, 0}, {1, 1}};
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
    if (works_after)
      EXPECT_EQ(kvc_storage_copy_blocks(s.get(), &copy, 1, other()), KVC_OK) << kvc_last_error();
    void* graph = end();
    if (graph != nullptr) control()->destroy_graph(graph);
    return graph != nullptr;
  };
  EXPECT_FALSE(capture(false, false));
  EXPECT_TRUE(capture(true, false));
  EXPECT_FALSE(capture(true, true));
  EXPECT_TRUE(capture(true, false)) << "what failed has left nothing behind";
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
      if (forked) EXPECT_EQ(kvc_storage_copy_blocks(s.get(), &right, 1, other()), KVC_OK) << kvc_last_error();
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
