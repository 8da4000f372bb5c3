// SPDX-License-Identifier: Apache-2.0
//
// Decode attention over 32,768 cached tokens (32 query heads on 8 KV heads of 128, bf16, tiled keys, one
// thread, four layers in turn so that nothing is in a cache), dense and over the best blocks. A block has 16
// tokens. `choice` is the share of kvc_storage_select_blocks.
#include <kvcache/attention.h>
#include <kvcache/storage.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "bench.h"

namespace {

constexpr uint32_t kLayers = 4, kHeads = 8, kQHeads = 32, kDim = 128, kBlock = 16;
constexpr uint64_t kContext = 32768, kBlocks = kContext / kBlock;

class Subject {
 public:
  Subject() : table_(kBlocks), mask_(kHeads * kBlocks / 8), q_(kQHeads * kDim), out_(q_.size()) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), random);
    for (float& x : q_) x = normal(random);
    kvc_storage_config config = {};
    config.struct_size = sizeof config;
    config.num_blocks = kBlocks, config.num_layers = kLayers, config.num_heads = kHeads;
    config.head_dim = kDim, config.block_size = kBlock, config.flags = KVC_STORAGE_TILED_KEYS;
    BENCH_CHECK(kvc_storage_create(&config, &storage_));
    std::vector<float> k(1024 * kHeads * kDim), v(k.size());
    for (std::vector<float>* rows : {&k, &v})
      for (float& x : *rows) x = normal(random);
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      kvc_rows rows = {};
      rows.struct_size = sizeof rows;
      rows.k = k.data(), rows.v = v.data(), rows.num_tokens = 1024, rows.first_layer = layer;
      rows.block_table = table_.data(), rows.block_table_size = table_.size();
      for (; rows.first_token < kContext; rows.first_token += 1024)
        BENCH_CHECK(kvc_storage_store(storage_, &rows, nullptr));
      bounds_.emplace_back(kBlocks * kHeads * 2 * kDim);
      BENCH_CHECK(
          kvc_storage_key_bounds(storage_, layer, table_.data(), kBlocks, bounds_.back().data(), nullptr));
    }
    a_.struct_size = sizeof a_;
    a_.q = q_.data(), a_.out = out_.data(), a_.num_requests = 1, a_.q_offsets = offsets_,
    a_.kv_lens = &kContext;
    a_.block_tables = table_.data(), a_.table_stride = kBlocks, a_.num_q_heads = kQHeads;
    choice_.struct_size = sizeof choice_;
    choice_.sink_blocks = 1, choice_.recent_blocks = 4;
    choice_.block_mask = mask_.data(), choice_.block_mask_stride = kBlocks / 8;
  }
  ~Subject() { kvc_storage_destroy(storage_); }
  Subject(const Subject&) = delete;

  void choose(uint64_t top_k) {
    a_.layer = (a_.layer + 1) % kLayers;
    choice_.bounds = bounds_[a_.layer].data(), choice_.top_k = top_k;
    BENCH_CHECK(kvc_storage_select_blocks(storage_, &a_, &choice_, nullptr));
  }
  void attend(bool sparse) {
    if (!sparse) a_.layer = (a_.layer + 1) % kLayers;
    a_.block_mask = sparse ? mask_.data() : nullptr, a_.block_mask_stride = kBlocks / 8;
    BENCH_CHECK(kvc_storage_attend(storage_, &a_, nullptr));
  }

 private:
  kvc_storage* storage_ = nullptr;
  const uint64_t offsets_[2] = {0, 1};
  std::vector<int32_t> table_;
  std::vector<uint8_t> mask_;
  std::vector<float> q_, out_;
  std::vector<std::vector<uint16_t>> bounds_;
  kvc_attention a_ = {};
  kvc_block_choice choice_ = {};
};

void BM_DenseDecode(benchmark::State& state) {
  Subject subject;
  for (auto _ : state) subject.attend(false);
}

void BM_SparseDecode(benchmark::State& state) {
  Subject subject;
  bench::Stopwatch watch;
  double choosing = 0;
  for (auto _ : state) {
    choosing += watch.time([&] { subject.choose(static_cast<uint64_t>(state.range(0))); });
    subject.attend(true);
  }
  state.counters["choice_us"] = choosing / 1e3 / static_cast<double>(state.iterations());
}

BENCHMARK(BM_DenseDecode)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_SparseDecode)
    ->ArgName("top_k")
    ->Arg(32)
    ->Arg(64)
    ->Arg(128)
    ->Arg(256)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
