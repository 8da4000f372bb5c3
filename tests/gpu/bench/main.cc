// SPDX-License-Identifier: Apache-2.0
// What benchmarks of a GPU need its runtime for: `ceilings` of the device and of its link to the host, and
// `graph WHAT`, in which the calls of `kvcache bench WHAT` are captured in one CUDA graph, 32 layers of them
// or more, and replayed. Prints JSON; ends with 1 if results are wrong.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "api/engine.h"
#include "bench/ceilings.h"
#include "cli/bench_json.h"
#include "cli/bench_options.h"
#include "cli/bench_subject.h"
#include "cli/errors.h"

namespace {

using namespace kvcli;
namespace engine = kvc::test::engine;
using Json = nlohmann::ordered_json;

constexpr int kSeries = 7;
constexpr uint64_t kLinkBytes = uint64_t{256} << 20;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void done_or_throw(int error, const char* what) {
  if (error != 0) throw LibraryError(std::string(what) + ": error " + std::to_string(error));
}

struct EngineStream {
  void* const handle = engine::create_stream();
  ~EngineStream() { engine::destroy_stream(handle); }
};

Stream adopt(void* handle) {
  return Stream(ask<kvc_stream*>(kvc_stream_adopt, engine::device(), handle, 0u));
}

/// Seconds of one of `launches`, in the median series.
double seconds_of(const EngineStream& stream, int launches, const std::function<void()>& launch) {
  launch();
  std::vector<double> times;
  for (int i = 0; i < kSeries; ++i) {
    times.push_back(engine::seconds_of(stream.handle,
                                       [&] {
                                         for (int l = 0; l < launches; ++l) launch();
                                       }) /
                    launches);
  }
  return median(times);
}

// Numbers like those of keys and values, in all of the memory: what was never written may be read faster, and
// what is all the same takes less power. The first of them come from the host, the rest is copied from before
// it.
std::vector<float> fill(const BenchMemory& memory, uint64_t bytes, uint32_t processors,
                        const EngineStream& stream) {
  std::mt19937 random(1);
  std::vector<float> pattern(std::min<uint64_t>(bytes, 1 << 20) / sizeof(float));
  fill_normal(random, reinterpret_cast<char*>(pattern.data()), pattern.size());
  const uint64_t first = pattern.size() * sizeof(float);
  upload(adopt(stream.handle).get(), reinterpret_cast<const char*>(pattern.data()), memory.data<char>(),
         first);
  for (uint64_t done = first; done < bytes; done *= 2)
    done_or_throw(kvc::gpu::bench::launch_copy(memory.data() + done, memory.data(),
                                               std::min(done, bytes - done), processors, stream.handle),
                  "copying");
  return pattern;
}

/// Some of the memory, beside the pattern that is repeated in it.
BenchCheck check_pattern(const BenchMemory& memory, uint64_t bytes, const std::vector<float>& pattern) {
  BenchCheck check;
  const std::vector<uint64_t> rows = some_of(bytes / 16);
  std::vector<float> expected;
  for (const uint64_t row : rows)
    for (uint64_t i = 0; i < 4; ++i) expected.push_back(pattern[(row * 4 + i) % pattern.size()]);
  BenchArray array(engine::device(), memory.data(), bytes / 16, 1, 4, KVC_FLOAT32);
  compare_rows(array.read(rows), expected, 4, &check);
  return check;
}

/// Bytes per second of the link between host and device, each way, by the runtime's own copies of pinned
/// memory.
void add_link(Json* json, const BenchMemory& device, uint64_t bytes, const EngineStream& stream) {
  bytes = std::min(bytes, kLinkBytes);
  const BenchMemory host(engine::device(), KVC_MEMORY_PINNED, bytes);
  const auto rate = [&](void* to, const void* from) {
    return static_cast<double>(bytes) /
           seconds_of(stream, 2, [&] { engine::copy(to, from, bytes, stream.handle); }) / 1e9;
  };
  (*json)["link_bytes"] = bytes;
  (*json)["device_to_host_gb_per_s"] = rate(host.data(), device.data());
  (*json)["host_to_device_gb_per_s"] = rate(device.data(), host.data());
}

Json ceilings(uint64_t bytes, uint32_t steps) {
  const auto info = ask<kvc_device_info>(kvc_device_read_info, engine::device());
  bytes = std::min(bytes, info.free_bytes / 4) / 16 * 16;
  const BenchMemory from(engine::device(), KVC_MEMORY_DEVICE, bytes),
      to(engine::device(), KVC_MEMORY_DEVICE, bytes);
  const EngineStream stream;
  const uint32_t processors = info.num_processors;
  namespace bench = kvc::gpu::bench;
  const std::vector<float> pattern = fill(from, bytes, processors, stream);
  const double read = seconds_of(stream, 4, [&] {
    done_or_throw(bench::launch_read(from.data(), bytes, to.data(), processors, stream.handle), "reading");
  });
  const double copied = seconds_of(stream, 4, [&] {
    done_or_throw(bench::launch_copy(to.data(), from.data(), bytes, processors, stream.handle), "copying");
  });
  Json json;
  json["device"] = engine::device();
  json["name"] = info.name;
  json["free_bytes"] = info.free_bytes;
  json["bytes"] = bytes;
  json["read_gb_per_s"] = static_cast<double>(bytes) / read / 1e9;
  json["copy_gb_per_s"] = static_cast<double>(bytes) / copied / 1e9;
  json["check"] = check_json(check_pattern(to, bytes, pattern));
  add_link(&json, to, bytes, stream);
  if (const uint64_t flops = bench::product_flops(processors, steps); flops != 0) {
    const double seconds = seconds_of(stream, 4, [&] {
      done_or_throw(bench::launch_products(to.data<float>(), processors, steps, stream.handle), "products");
    });
    json["mma_tflops"] = static_cast<double>(flops) / seconds / 1e12;
  }
  return json;
}

Json graph(const BenchOptions& options, int replays) {
  check_options(options);
  const EngineStream stream;
  BenchSubject subject(options, adopt(stream.handle));
  uint32_t calls = 0;
  double again = 0;
  subject.set_timer([&](uint32_t layers, const std::function<void(uint32_t)>& work) {
    calls = (std::max(kModelLayers, layers) + layers - 1) / layers * layers;
    for (uint32_t call = 0; call < layers; ++call) work(call);
    engine::begin_capture(stream.handle);
    for (uint32_t call = 0; call < calls; ++call) work(call);
    void* const captured = engine::end_capture(stream.handle);
    if (captured == nullptr) throw LibraryError("the calls cannot be captured in a graph");
    std::vector<double> times, enqueued;
    const auto series = [&] {
      times.clear();
      for (int i = 0; i < replays; ++i) {
        times.push_back(engine::seconds_of(stream.handle, [&] {
          Stopwatch watch;
          watch.start();
          engine::launch_graph(captured, stream.handle);
          watch.stop();
          enqueued.push_back(watch.seconds());
        }));
      }
      return median(times) / calls;
    };
    const double first = series();
    again = series();
    engine::destroy_graph(captured);
    return BenchTimes{first, median(enqueued) / calls};
  });
  const BenchTimes times = subject.run();
  Json json;
  json["bench"] = "graph " + options.what;
  json["layers"] = subject.layers();
  json["calls_of_graph"] = calls;
  json["nodes_per_call"] = static_cast<double>(engine::captured_nodes()) / calls;  // kernels and copies
  json["replays"] = replays;
  if (is_attention(options)) json["own_plans"] = options.own_plans;
  json["us_per_layer"] = times.seconds * 1e6;
  json["us_per_layer_again"] = again * 1e6;
  json["enqueue_us_per_layer"] = times.enqueue_seconds * 1e6;
  json["gb_per_s"] = subject.layer_bytes() / times.seconds / 1e9;
  if (subject.traffic_bytes() != 0) json["traffic_gb_per_s"] = subject.traffic_bytes() / times.seconds / 1e9;
  if (is_attention(options)) json["gflops"] = subject.flops() / times.seconds / 1e9;
  if (options.check) json["check"] = check_json(subject.checked());
  return json;
}

int run(int argc, char** argv) {
  uint64_t bytes = uint64_t{4} << 30;
  uint32_t steps = 1 << 15;
  int replays = 50;
  BenchOptions options;
  CLI::App app("Benchmarks that need the runtime of a GPU", "gpu_bench");
  app.require_subcommand(1);
  CLI::App* device = app.add_subcommand("ceilings", "How fast the device reads, copies and multiplies");
  device->add_option("--bytes", bytes, "To read and to copy, a quarter of what is free at most")
      ->capture_default_str();
  device->add_option("--steps", steps, "Of the products")->capture_default_str();
  CLI::App* captured = app.add_subcommand("graph", "Calls of `kvcache bench` in one graph");
  add_bench_options(*captured, options);
  captured->add_option("--replays", replays, "In each of two series")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  if (engine::device() == nullptr) throw LibraryError("there is no device with graphs");
  options.device = engine::device();
  const Json json = app.got_subcommand("ceilings") ? ceilings(bytes, steps) : graph(options, replays);
  std::cout << json.dump(2) << '\n';
  return !json.contains("check") || json["check"]["right"] ? kExitOk : kExitFailure;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const InputError& error) {
    std::cerr << "gpu_bench: " << error.what() << '\n';
    return kExitUsage;
  } catch (const std::exception& error) {
    std::cerr << "gpu_bench: " << error.what() << '\n';
    return kExitFailure;
  }
}
