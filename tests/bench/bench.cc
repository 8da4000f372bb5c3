// SPDX-License-Identifier: Apache-2.0
//
// Pools full of cached prompts, and how large they may be on this machine.
#include "bench.h"

#include <algorithm>
#include <string>

#include "calls.h"

namespace bench {
namespace {

uint64_t available_memory() {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/meminfo", "r"), std::fclose);
  char line[128];
  unsigned long long kib = 0;
  while (file && std::fgets(line, sizeof line, file.get()) != nullptr) {
    if (std::sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
  }
  return uint64_t{kib} << 10;
}

}  // namespace

Filled& filled(uint64_t num_blocks, bool full) {
  static Filled pool;
  if (pool.manager && pool.num_blocks == num_blocks && pool.full == full) return pool;
  pool = Filled{};
  pool.num_blocks = num_blocks;
  pool.full = full;
  pool.prompt_blocks = std::min<uint64_t>(kPromptBlocks, num_blocks / 4);
  pool.manager = make_manager(num_blocks);
  const uint64_t usable = num_blocks - (full ? 0 : pool.prompt_blocks + 1);
  pool.num_prompts = usable / pool.prompt_blocks;
  std::vector<int32_t> tokens(pool.prompt_blocks * kBlockSize);
  const uint64_t last =
      pool.num_prompts + (full ? 1 : 0);  // one more, so that the remainder is not free either
  for (; pool.next_prompt < last; ++pool.next_prompt) {
    make_prompt(pool.next_prompt, &tokens);
    uint64_t request = 0;
    kvc_manager* m = pool.manager.get();
    BENCH_CHECK(kvc_manager_allocate_request(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                             &request, nullptr));
    BENCH_CHECK(kvc_manager_commit_tokens(m, request, tokens.size()));
    BENCH_CHECK(kvc_manager_free_request(m, request));
  }
  return pool;
}

void pool_sizes(benchmark::internal::Benchmark* benchmark, int first, int last) {
  constexpr uint64_t kBytesPerBlock = 400;  // of metadata, with room to spare
  static const uint64_t available = available_memory();
  int64_t blocks = 1;
  for (int power = 0; power <= last; ++power, blocks *= 10) {
    if (power >= first && static_cast<uint64_t>(blocks) * kBytesPerBlock < available) benchmark->Arg(blocks);
  }
  benchmark->ArgName("pool")->UseManualTime()->Unit(benchmark::kMicrosecond);
}

}  // namespace bench
