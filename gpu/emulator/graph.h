// SPDX-License-Identifier: Apache-2.0
// A captured graph of an emulated device: nodes of work, each after some of the earlier ones. It is made to
// find mistakes: a seed draws the order of a replay among all allowed orders, and unordered work runs in
// parallel on its own threads. If two unordered branches share memory, one of a few seeds gives a wrong
// result. Thread-safe.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace kvc::gpu::host {

using Work = std::function<void()>;
using Nodes = std::vector<size_t>;  // of a graph, by their numbers, each once

class Graph {
 public:
  // Adds work that comes after the nodes `after`, and returns its number.
  size_t add(Work work, Nodes after);
  // Whether all work is done when these nodes are done.
  bool ends_with(const Nodes& last) const;

  // What a replay with this seed does: one group after the other, the nodes of a group side by side.
  std::vector<Nodes> draw(uint64_t seed) const;
  // Announces a replay. It is then done by run(), after those that were announced before it: replays of one
  // graph do not overlap, whichever streams they are in.
  uint64_t announce();
  void run(uint64_t replay, uint64_t seed);

 private:
  struct Node {
    Work work;
    Nodes after;
  };

  mutable std::mutex mutex_;
  std::condition_variable finished_;
  std::vector<Node> nodes_;
  uint64_t announced_ = 0, done_ = 0;
};

}  // namespace kvc::gpu::host
