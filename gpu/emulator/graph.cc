// SPDX-License-Identifier: Apache-2.0
#include "emulator/graph.h"

#include <algorithm>
#include <random>
#include <thread>

#include "emulator/emulator.h"

namespace kvc::gpu::host {

size_t Graph::add(Work work, Nodes after) {
  const std::lock_guard lock(mutex_);
  nodes_.push_back({std::move(work), std::move(after)});
  return nodes_.size() - 1;
}

bool Graph::ends_with(const Nodes& last) const {
  const std::lock_guard lock(mutex_);
  std::vector<bool> before(nodes_.size());  // one of `last` or of them
  for (const size_t node : last) before[node] = true;
  for (size_t node = nodes_.size(); node-- > 0;) {  // a node has a greater number than those before it
    if (!before[node]) return false;
    for (const size_t earlier : nodes_[node].after) before[earlier] = true;
  }
  return true;
}

std::vector<Nodes> Graph::draw(uint64_t seed) const {
  const std::lock_guard lock(mutex_);
  std::mt19937_64 random(seed);
  std::vector<size_t> missing(nodes_.size());  // how many nodes have yet to be done before it
  std::vector<Nodes> next(nodes_.size());
  Nodes ready;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    missing[node] = nodes_[node].after.size();
    for (const size_t earlier : nodes_[node].after) next[earlier].push_back(node);
    if (missing[node] == 0) ready.push_back(node);
  }
  std::vector<Nodes> groups;
  while (!ready.empty()) {
    std::shuffle(ready.begin(), ready.end(), random);
    const auto first = ready.end() - static_cast<ptrdiff_t>(1 + random() % ready.size());
    groups.emplace_back(first, ready.end());
    ready.erase(first, ready.end());
    for (const size_t done : groups.back()) {
      for (const size_t node : next[done]) {
        if (--missing[node] == 0) ready.push_back(node);
      }
    }
  }
  return groups;
}

uint64_t Graph::announce() {
  const std::lock_guard lock(mutex_);
  return announced_++;
}

void Graph::run(uint64_t replay, uint64_t seed) {
  {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return done_ == replay; });
  }
  const auto work = [&](size_t node) {
    emulator::set_replay(seed);
    nodes_[node].work();
    emulator::set_replay(0);
  };
  for (const Nodes& group : draw(seed)) {
    std::vector<std::thread> threads;
    for (size_t i = 1; i < group.size(); ++i) threads.emplace_back(work, group[i]);
    work(group[0]);
    for (std::thread& thread : threads) thread.join();
  }
  {
    const std::lock_guard lock(mutex_);
    ++done_;
  }
  finished_.notify_all();
}

}  // namespace kvc::gpu::host
