// SPDX-License-Identifier: Apache-2.0
#include "emulator/emulator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "emulator/fiber.h"

namespace kvc::gpu {
constinit thread_local emulator::Index threadIdx, blockIdx, blockDim, gridDim;
}  // namespace kvc::gpu

namespace kvc::gpu::emulator {
namespace {

constexpr unsigned char kPoison = 0xFF;  // a NaN of every float type
constexpr size_t kCanaryBytes = 64;

std::atomic<uint64_t> seed{1}, launches{0};
std::atomic<FaultHandler> fault_handler{nullptr};
std::atomic<Enqueue> enqueue_hook{nullptr};
thread_local uint64_t replay_seed = 0;

struct AsyncCopy {
  void* to;
  const void* from;
  size_t bytes, valid;
};

enum class State : uint8_t { kReady, kAtBlockBarrier, kInWave, kEnded };

struct Thread {
  explicit Thread(size_t index) : fiber(index) {}

  Fiber fiber;
  Place place;
  std::vector<std::vector<AsyncCopy>> async;  // groups; the last one is open
};

struct Wave {
  uint32_t arrived = 0;
  size_t bytes = 0;
  Place place;
  std::vector<unsigned char> in, out;
};

bool same(const Place& a, const Place& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}
std::string text(const Place& place) {
  return std::string(place.file_name()) + ":" + std::to_string(place.line());
}

// Runs the blocks of one launch after the other. One per thread of the system, kept for the next launch.
class Machine {
 public:
  static Machine& own() {
    static thread_local Machine machine;
    return machine;
  }

  void run(const LaunchConfig& config, const std::function<void()>& thread, uint64_t launch_seed) {
    config_ = config;
    body_ = &thread;
    random_.seed(launch_seed);
    failed_.clear();
    while (threads_.size() < config.threads) threads_.push_back(std::make_unique<Thread>(threads_.size()));
    waves_.resize(config.threads / config.wave);
    for (Wave& wave : waves_) {
      wave.in.resize(config.wave * kMaxExchange);
      wave.out.resize(config.wave * kMaxExchange);
    }
    blockDim = {config.threads, 1, 1};
    gridDim = config.grid;
    std::vector<uint64_t> blocks(size_t{config.grid.x} * config.grid.y * config.grid.z);
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = i;
    std::shuffle(blocks.begin(), blocks.end(), random_);
    for (const uint64_t i : blocks) {
      blockIdx = {static_cast<uint32_t>(i % config.grid.x),
                  static_cast<uint32_t>(i / config.grid.x % config.grid.y),
                  static_cast<uint32_t>(i / config.grid.x / config.grid.y)};
      run_block();
      if (!failed_.empty()) break;
    }
    if (failed_.empty()) return;
    const FaultHandler handler = fault_handler.load();
    if (handler != nullptr) return handler(failed_);
    std::fprintf(stderr, "emulated kernel: %s\n", failed_.c_str());
    std::abort();
  }

  void sync_block(const Place& place) {
    Thread& self = current();
    self.place = place;
    if (num_at_barrier_ != 0 && !same(place, barrier_)) {
      fail("threads are at different barriers", place, barrier_);
    }
    barrier_ = place;
    if (++num_at_barrier_ < config_.threads) return wait(State::kAtBlockBarrier);
    num_at_barrier_ = 0;
    for (uint32_t t = 0; t < config_.threads; ++t) states_[t] = State::kReady;
    std::shuffle(order_.begin(), order_.end(), random_);
    wait(State::kReady);  // another thread may be the first to go on
  }

  const unsigned char* exchange(const void* mine, size_t bytes, const Place& place) {
    if (bytes > kMaxExchange) fail("too much for an exchange between lanes");
    Wave& wave = waves_[threadIdx.x / config_.wave];
    if (wave.arrived != 0 && (!same(place, wave.place) || wave.bytes != bytes)) {
      fail("lanes of a wave are in different operations", place, wave.place);
    }
    Thread& self = current();
    self.place = wave.place = place;
    wave.bytes = bytes;
    std::memcpy(&wave.in[threadIdx.x % config_.wave * kMaxExchange], mine, bytes);
    if (++wave.arrived < config_.wave) {
      wait(State::kInWave);
    } else {
      wave.arrived = 0;
      wave.out = wave.in;
      const uint32_t first = threadIdx.x / config_.wave * config_.wave;
      for (uint32_t t = first; t < first + config_.wave; ++t) states_[t] = State::kReady;
    }
    return wave.out.data();
  }

  void* shared_variable(const void* key, size_t bytes, size_t alignment) {
    auto [at, is_new] = variables_.try_emplace(key, Variable{nullptr, bytes});
    if (is_new) {
      const size_t begin = (arena_used_ + kCanaryBytes + alignment - 1) / alignment * alignment;
      if (begin + bytes + kCanaryBytes > kMaxSharedBytes) fail("too much static shared memory");
      arena_used_ = begin + bytes;
      at->second.data = arena_ + begin;
    }
    return at->second.data;
  }

  void* dynamic_shared() { return dynamic_; }

  void copy_async(const AsyncCopy& copy) {
    std::memset(copy.to, kPoison, copy.bytes);
    current().async.back().push_back(copy);
  }
  void commit_async() { current().async.emplace_back(); }
  void wait_async(size_t groups) {
    auto& async = current().async;
    while (async.size() > groups + 1) {
      for (const AsyncCopy& copy : async.front()) {
        std::memcpy(copy.to, copy.from, copy.valid);
        std::memset(static_cast<char*>(copy.to) + copy.valid, 0, copy.bytes - copy.valid);
      }
      async.erase(async.begin());
    }
  }

  // The fiber is left for good, so that nothing on its stack may own memory.
  [[noreturn]] void fail(const char* what) {
    failed_ = what + block_text();
    end();
  }
  [[noreturn]] void fail(const char* what, const Place& here, const Place& there) {
    failed_ = what + (", " + text(here) + " and " + text(there)) + block_text();
    end();
  }

 private:
  struct Variable {
    unsigned char* data;
    size_t bytes;
  };

  Machine() {
    arena_ = static_cast<unsigned char*>(allocate_guarded(kMaxSharedBytes));
    dynamic_area_ = static_cast<unsigned char*>(allocate_guarded(kMaxSharedBytes));
    if (arena_ == nullptr || dynamic_area_ == nullptr) std::abort();
    std::memset(arena_, kPoison, kMaxSharedBytes);
  }
  ~Machine() {
    free_guarded(arena_, kMaxSharedBytes);
    free_guarded(dynamic_area_, kMaxSharedBytes);
  }

  static std::string block_text() {
    return " (block " + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
           std::to_string(blockIdx.z) + ", thread " + std::to_string(threadIdx.x) + ")";
  }

  Thread& current() { return *threads_[threadIdx.x]; }

  void wait(State state) {
    const uint32_t self = threadIdx.x;
    states_[self] = state;
    threads_[self]->fiber.leave(false);
  }

  [[noreturn]] void end() {
    states_[threadIdx.x] = State::kEnded;
    current().fiber.leave(true);
    std::abort();
  }

  static void thread_main() {
    Machine& machine = own();
    (*machine.body_)();
    for (const auto& group : machine.current().async) {
      if (!group.empty()) machine.fail("a thread ends with copies on their way");
    }
    machine.end();
  }

  void run_block() {
    variables_.clear();
    std::memset(arena_, kPoison, std::min(arena_used_ + kCanaryBytes, kMaxSharedBytes));  // of the last block
    arena_used_ = 0;
    num_at_barrier_ = 0;
    // Ends at the guard, as far as its alignment allows.
    const size_t dynamic_bytes = (config_.shared_bytes + 15) / 16 * 16;
    dynamic_ = dynamic_area_ + kMaxSharedBytes - dynamic_bytes;
    std::memset(dynamic_, kPoison, dynamic_bytes);
    for (Wave& wave : waves_) wave.arrived = 0;
    order_.resize(config_.threads);
    states_.resize(config_.threads);
    for (uint32_t t = 0; t < config_.threads; ++t) {
      order_[t] = t;
      states_[t] = State::kReady;
      if (threads_[t]->async.size() != 1 || !threads_[t]->async[0].empty()) threads_[t]->async.assign(1, {});
      threads_[t]->fiber.start(&Machine::thread_main);
    }
    std::shuffle(order_.begin(), order_.end(), random_);
    for (bool moved = true; moved && failed_.empty();) {
      moved = false;
      for (size_t i = 0; i < config_.threads && failed_.empty(); ++i) {
        if (states_[order_[i]] != State::kReady) continue;
        threadIdx.x = order_[i];
        current().fiber.enter();
        moved = true;
      }
    }
    if (failed_.empty()) check_end();
  }

  // Nobody can go on: all must have ended, and the guards must be whole.
  void check_end() {
    uint32_t ended = 0;
    const Thread* waits = nullptr;
    for (uint32_t t = 0; t < config_.threads; ++t) {
      if (states_[t] == State::kEnded) {
        ++ended;
      } else {
        waits = threads_[t].get();
      }
    }
    if (waits != nullptr) {
      failed_ = std::to_string(config_.threads - ended) + " threads wait at " + text(waits->place) +
                " and elsewhere, " + std::to_string(ended) + " have ended";
      return;
    }
    if (variables_.empty()) return;
    std::vector<bool> used(arena_used_ + kCanaryBytes);
    for (const auto& [key, variable] : variables_) {
      std::fill_n(used.begin() + (variable.data - arena_), variable.bytes, true);
    }
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i] && arena_[i] != kPoison) {
        failed_ = "something was written beside a shared variable";
        return;
      }
    }
  }

  LaunchConfig config_ = {};
  const std::function<void()>* body_ = nullptr;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<State> states_;
  std::vector<uint32_t> order_;
  std::vector<Wave> waves_;
  uint32_t num_at_barrier_ = 0;
  Place barrier_;
  std::map<const void*, Variable> variables_;
  unsigned char* arena_;
  unsigned char* dynamic_area_;
  unsigned char* dynamic_ = nullptr;
  size_t arena_used_ = 0;
  std::string failed_;
};

}  // namespace

int launch(const LaunchConfig& config, void* stream, std::function<void()> thread) {
  const bool valid = config.threads >= 1 && config.threads <= kMaxThreads && config.threads % 64 == 0 &&
                     config.grid.x >= 1 && config.grid.x <= INT32_MAX && config.grid.y >= 1 &&
                     config.grid.y <= UINT16_MAX && config.grid.z >= 1 && config.grid.z <= UINT16_MAX &&
                     config.shared_bytes <= kMaxSharedBytes;
  if (!valid) return 1;
  const uint64_t launch_seed = seed.load() * 0x9E3779B97F4A7C15u + launches.fetch_add(1);
  const auto work = [config, thread = std::move(thread), launch_seed] {
    Machine::own().run(config, thread, launch_seed ^ replay_seed);
  };
  const Enqueue enqueue = enqueue_hook.load();
  if (enqueue != nullptr) return enqueue(stream, work);
  work();
  return 0;
}

void set_enqueue(Enqueue enqueue) { enqueue_hook.store(enqueue); }
void set_seed(uint64_t value) { seed.store(value); }
void set_replay(uint64_t value) { replay_seed = value; }
FaultHandler set_fault_handler(FaultHandler handler) { return fault_handler.exchange(handler); }

void sync_block(const Place& place) { Machine::own().sync_block(place); }
const unsigned char* exchange(const void* mine, size_t bytes, const Place& place) {
  return Machine::own().exchange(mine, bytes, place);
}
void* shared_variable(const void* key, size_t bytes, size_t alignment) {
  return Machine::own().shared_variable(key, bytes, alignment);
}
void* dynamic_shared() { return Machine::own().dynamic_shared(); }
void copy_async(void* to, const void* from, size_t bytes, size_t valid) {
  Machine::own().copy_async({to, from, bytes, valid});
}
void commit_async() { Machine::own().commit_async(); }
void wait_async(size_t groups) { Machine::own().wait_async(groups); }
void fault(const char* what) { Machine::own().fail(what); }

namespace {

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
// Of the mapping, without the guards.
size_t mapped_bytes(size_t bytes) { return (bytes + page_bytes() - 1) / page_bytes() * page_bytes(); }
size_t padding(size_t bytes) { return (mapped_bytes(bytes) - bytes) / 16 * 16; }

}  // namespace

void* allocate_guarded(size_t bytes) {
  const size_t inside = mapped_bytes(bytes), page = page_bytes();
  void* mapped =
      mmap(nullptr, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* first = static_cast<char*>(mapped) + page;
  if (inside != 0 && mprotect(first, inside, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapped, inside + 2 * page);
    return nullptr;
  }
  return first + padding(bytes);
}

void free_guarded(void* memory, size_t bytes) {
  if (memory == nullptr) return;
  munmap(static_cast<char*>(memory) - padding(bytes) - page_bytes(), mapped_bytes(bytes) + 2 * page_bytes());
}

}  // namespace kvc::gpu::emulator
