// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_ceiling.h"

#include <iomanip>

#include "cli/bench_memory.h"
#include "cli/machine.h"

namespace kvcli {
namespace {

// A storage of blocks of 2 MiB: as many as fit into `bytes`, and at least two.
struct LargeBlocks {
  Storage storage;
  size_t num_blocks;
  uint64_t block_bytes;
};

LargeBlocks large_blocks(const char* device, size_t bytes) {
  uint64_t block_bytes = 0;
  auto config = make<kvc_storage_config>();
  config.num_layers = config.num_heads = 1;
  config.head_dim = 512;
  config.block_size = 1024;
  config.dtype = KVC_BFLOAT16;
  config.device = device;
  config.num_blocks = 1;
  check(kvc_storage_size(&config, &block_bytes, nullptr));
  config.num_blocks = std::max<size_t>(bytes / block_bytes / 2, 1) * 2;
  return {Storage(ask<kvc_storage*>(kvc_storage_create, &config)), config.num_blocks, block_bytes};
}

// Bytes per second at which the device copies blocks of 2 MiB, each byte counted once. This is the fastest
// copy that the library can request.
double device_copy_bandwidth(const char* device, size_t bytes) {
  const LargeBlocks large = large_blocks(device, bytes);
  const size_t half = large.num_blocks / 2;
  const Stream stream = create_stream(device);
  std::vector<kvc_block_copy> copies(half);
  for (size_t i = 0; i < half; ++i) copies[i] = {static_cast<int32_t>(i), static_cast<int32_t>(half + i)};
  const double seconds = median_seconds([&] {
    check(kvc_storage_copy_blocks(large.storage.get(), copies.data(), half, stream.get()));
    check(kvc_stream_synchronize(stream.get()));
  });
  return static_cast<double>(half * large.block_bytes) / seconds;
}

// The same for swaps of such blocks: the bandwidth of the link between device and host.
double device_swap_bandwidth(const char* device, bool out, size_t bytes) {
  const LargeBlocks large = large_blocks(device, bytes);
  const Stream stream = create_stream(device);
  const BenchMemory pages(device, shared_kind(device), large.num_blocks * large.block_bytes);
  std::vector<kvc_block_copy> copies(large.num_blocks);
  for (size_t i = 0; i < large.num_blocks; ++i)
    copies[i].source = copies[i].destination = static_cast<int32_t>(i);
  const double seconds = median_seconds([&] {
    swap_blocks(large.storage.get(), copies, out, pages.data(), large.num_blocks * large.block_bytes,
                stream.get());
    check(kvc_stream_synchronize(stream.get()));
  });
  return static_cast<double>(large.num_blocks * large.block_bytes) / seconds;
}

}  // namespace

Ceiling ceiling_of(const BenchOptions& options) {
  const bool attention = is_attention(options);
  if (options.device.empty()) {
    if (attention) return {"read_gb_per_s", "reads", read_bandwidth(options.threads)};
    return {"copy_gb_per_s", "copies", copy_bandwidth(options.what == "copy" ? 1 : options.threads)};
  }
  const size_t bytes = options.layers == 0 ? kColdBytes : size_t{4} << 20;
  if (is_swap(options))
    return {"swap_gb_per_s", "swaps",
            device_swap_bandwidth(options.device.c_str(), options.what == "swap-out", bytes)};
  const double copied = device_copy_bandwidth(options.device.c_str(), bytes);
  // A copy reads and writes each byte.
  if (attention) return {"moved_gb_per_s", "moves", 2 * copied};
  return {"copy_gb_per_s", "copies", copied};
}

void print_ratio(const BenchOptions& options, const Ceiling& ceiling, double reached, std::ostream& out) {
  const bool on_device = !options.device.empty();
  out << std::fixed << std::setprecision(2) << (on_device ? "  the device " : "  the machine ")
      << ceiling.verb << ' ' << ceiling.bandwidth / 1e9 << " GB/s"
      << (on_device ? "" : " with as many threads") << ": " << reached / ceiling.bandwidth << " of it\n";
  if (reached > ceiling.bandwidth)
    out << "  ABOVE 1: a part was in a cache (leave out --layers), or other work disturbed the measurement "
           "of "
           "the machine (run it again)\n";
}

}  // namespace kvcli
