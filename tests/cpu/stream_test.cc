// SPDX-License-Identifier: Apache-2.0
// Streams and events below the C API: order, places, memory. What they do to storages is tested in
// tests/api/stream_test.cc.
#include "cpu/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "base/counting_heap.h"

namespace kvc {
namespace {

struct Closer {
  void operator()(Stream* stream) const { stream->close(); }
};
using StreamPtr = std::unique_ptr<Stream, Closer>;

struct Note : Stream::Task {
  std::vector<int>* list;  // of one stream, or ordered by events
  int value;
};

[[nodiscard]] bool note(Stream& stream, std::vector<int>* list, int value) {
  auto* task = stream.make<Note>(0);
  if (task == nullptr) return false;
  task->list = list;
  task->value = value;
  task->run = [](Stream::Task* self) {
    static_cast<Note*>(self)->list->push_back(static_cast<Note*>(self)->value);
  };
  stream.submit(task);
  return true;
}

struct Gate : Stream::Task {
  std::atomic<bool>* open;
};

// The stream does nothing more until the gate is open.
void stop_at(Stream& stream, std::atomic<bool>* open) {
  auto* task = stream.make<Gate>(0);
  ASSERT_NE(task, nullptr);
  task->open = open;
  task->run = [](Stream::Task* self) {
    while (!*static_cast<Gate*>(self)->open) std::this_thread::yield();
  };
  stream.submit(task);
}

TEST(Stream, TasksRunInTheOrderOfSubmissionAndClosingWaits) {
  std::vector<int> list;
  StreamPtr stream(Stream::create(default_env()));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(note(*stream, &list, i));
  stream->wait(stream->end());
  ASSERT_EQ(list.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(list[static_cast<size_t>(i)], i);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(note(*stream, &list, i));
  stream.reset();
  EXPECT_EQ(list.size(), 200u);
}

TEST(Stream, AnEventIsReachedWhenAllBeforeItIsDone) {
  std::atomic<bool> open{false};
  std::vector<int> list;
  StreamPtr stream(Stream::create(default_env()));
  Event event;
  EXPECT_TRUE(event.passed()) << "never recorded";
  stop_at(*stream, &open);
  event.record(*stream);
  EXPECT_FALSE(event.passed());
  ASSERT_TRUE(note(*stream, &list, 1));  // comes after it
  open = true;
  event.wait();
  EXPECT_TRUE(event.passed());
}

TEST(Stream, AnotherStreamWaitsForTheEventAndOnlyForIt) {
  std::atomic<bool> first{false}, second{false};
  std::vector<int> list;
  StreamPtr a(Stream::create(default_env())), b(Stream::create(default_env()));
  Event event;
  stop_at(*a, &first);
  ASSERT_TRUE(note(*a, &list, 1));
  event.record(*a);
  stop_at(*a, &second);
  ASSERT_TRUE(event.delay(*b));
  event.record(*a);  // what waits for the old place goes on waiting for that
  ASSERT_TRUE(note(*b, &list, 2));
  EXPECT_FALSE(b->passed(b->end()));
  first = true;
  b->wait(b->end());  // not held up by the second gate
  EXPECT_FALSE(event.passed());
  second = true;
  event.wait();
  EXPECT_EQ(list, (std::vector<int>{1, 2}));
}

TEST(Stream, PlacesOutliveTheirStreamAndItsEvent) {
  std::atomic<bool> open{false};
  std::vector<int> list;
  StreamPtr a(Stream::create(default_env())), b(Stream::create(default_env()));
  {
    Event event;
    stop_at(*a, &open);
    ASSERT_TRUE(note(*a, &list, 1));
    event.record(*a);
    ASSERT_TRUE(event.delay(*b));
  }
  ASSERT_TRUE(note(*b, &list, 2));
  Event kept;
  kept.record(*a);
  open = true;
  a.reset();
  EXPECT_TRUE(kept.passed());
  b.reset();
  EXPECT_EQ(list, (std::vector<int>{1, 2}));
}

TEST(Stream, ASteadyStateAllocatesNothing) {
  CountingHeap heap;
  std::vector<int> list;
  list.reserve(4096);
  std::atomic<bool> open{false};
  StreamPtr stream(Stream::create(heap.env())), other(Stream::create(heap.env()));
  Event event;
  const auto round = [&] {
    for (int i = 0; i < 16; ++i) ASSERT_TRUE(note(*stream, &list, i));
    ASSERT_NE(stream->scratch(100000), nullptr);
    event.record(*stream);
    ASSERT_TRUE(event.delay(*other));
    open = true;
    other->wait(other->end());
    event.wait();
  };
  stop_at(*stream, &open);  // so that the first round fills the queue as far as any other
  round();
  const uint64_t calls = heap.calls();
  for (int i = 0; i < 100; ++i) round();
  EXPECT_EQ(heap.calls(), calls);
}

TEST(Stream, WithoutMemoryNothingIsEnqueued) {
  CountingHeap heap;
  std::atomic<bool> open{false};
  std::vector<int> list;
  StreamPtr a(Stream::create(default_env())), b(Stream::create(heap.env()));
  Event event;
  stop_at(*a, &open);
  event.record(*a);
  heap.fail_always(true);
  EXPECT_FALSE(note(*b, &list, 1));
  EXPECT_FALSE(event.delay(*b));
  EXPECT_EQ(b->scratch(1), nullptr);
  EXPECT_EQ(b->end(), 0u);
  heap.fail_always(false);
  EXPECT_TRUE(event.delay(*b));
  EXPECT_TRUE(note(*b, &list, 2));
  open = true;
  b.reset();
  EXPECT_EQ(list, (std::vector<int>{2}));
}

TEST(Stream, GrowingScratchLeavesTheOldOneToThoseWhoHaveIt) {
  StreamPtr stream(Stream::create(default_env()));
  char* small = static_cast<char*>(stream->scratch(1000));
  char* same = static_cast<char*>(stream->scratch(10));
  char* large = static_cast<char*>(stream->scratch(1 << 20));
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(small, same);
  EXPECT_TRUE(large + (1 << 20) <= small || small + 1000 <= large);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % 64, 0u);
}

TEST(Stream, ManyThreadsSubmitAndRecord) {
  StreamPtr a(Stream::create(default_env())), b(Stream::create(default_env()));
  Event event;
  std::vector<int> in_a, in_b;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        EXPECT_TRUE(note(*a, &in_a, i));
        event.record(*a);
        EXPECT_TRUE(event.delay(*b));
        EXPECT_TRUE(note(*b, &in_b, i));
        event.passed();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  a->wait(a->end());
  b->wait(b->end());
  EXPECT_EQ(in_a.size(), 600u);
  EXPECT_EQ(in_b.size(), 600u);
}

}  // namespace
}  // namespace kvc
