// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_subject.h"

#include <algorithm>
#include <numeric>

#include "cli/bench_dtype.h"
#include "cli/bench_rope.h"
#include "cli/dtype.h"
#include "cli/machine.h"

namespace kvcli {
namespace {

uint32_t layout_of(const std::string& name) {
  const std::vector<std::string> names = layout_names();
  return static_cast<uint32_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

}  // namespace

kvc_storage_config bench_config(const BenchOptions& options, const char* device) {
  if (options.heads % options.kv_heads != 0) throw InputError("--heads must be a multiple of --kv-heads");
  if (options.queries > options.context) throw InputError("--queries must not be more than --context");
  auto config = make<kvc_storage_config>();
  config.num_blocks = options.batch * ((options.context + options.block_size - 1) / options.block_size);
  config.num_heads = options.kv_heads;
  config.head_dim = options.head_dim;
  config.v_head_dim = options.v_head_dim;
  config.block_size = options.block_size;
  config.num_threads = options.threads;
  config.dtype = dtype_of(options.dtype);
  config.num_layers = 1;
  config.device = device;
  config.layout = layout_of(options.layout);
  const bool tiled = device == nullptr && is_attention(options) && is_float(config.dtype) &&
                     options.block_size % 16 == 0 && options.head_dim % 2 == 0 && !options.latent;
  config.flags = (tiled ? KVC_STORAGE_TILED_KEYS : 0) | (options.latent ? KVC_STORAGE_LATENT : 0);
  uint64_t layer_bytes = 0;
  check(kvc_storage_size(&config, nullptr, &layer_bytes));
  const uint64_t cold = kColdBytes / options.queries / layer_bytes + 1;
  config.num_layers =
      options.layers != 0 ? options.layers : static_cast<uint32_t>(std::clamp<uint64_t>(cold, 1, 4096));
  return config;
}

BenchSubject::BenchSubject(const BenchOptions& options, Stream stream)
    : options_(options),
      device_(options.device.empty() ? nullptr : options.device.c_str()),
      dtype_(dtype_of(options.dtype)),
      stream_(stream != nullptr ? std::move(stream) : create_stream(device_)) {
  request_blocks_ = (options.context + options.block_size - 1) / options.block_size;
  config_ = bench_config(options, device_);
  layers_ = config_.num_layers;
  storage_.reset(ask<kvc_storage*>(kvc_storage_create, &config_));
  info_ = ask<kvc_storage_info>(kvc_storage_properties, storage_.get());
  table_.resize(config_.num_blocks);
  std::iota(table_.begin(), table_.end(), 0);
  std::shuffle(table_.begin(), table_.end(), random_);
  source_ = std::make_unique<BenchSource>(random_, config_);
  fill();
}

double BenchSubject::layer_bytes() const {
  return static_cast<double>(info_.token_bytes) / layers_ * static_cast<double>(tokens());
}

double BenchSubject::flops() const {
  const double queries = options_.queries, context = static_cast<double>(options_.context);
  const double pairs = queries * context - queries * (queries - 1) / 2;
  return 2 * static_cast<double>(options_.batch) * pairs * options_.heads *
         (double{1} * options_.head_dim + value_dim());
}

double BenchSubject::traffic_bytes() const {
  if (options_.what == "copy") return 2 * layer_bytes();
  if (options_.what != "store" && options_.what != "gather") return 0;
  const double elements = options_.head_dim + (options_.latent ? 0.0 : value_dim());
  return layer_bytes() +
         static_cast<double>(tokens() * options_.kv_heads * width(row_dtype(dtype_))) * elements;
}

BenchTimes BenchSubject::run() {
  if (is_attention(options_)) return attend(options_.what == "step");
  if (is_swap(options_)) return swap(options_.what == "swap-out");
  if (options_.what == "copy") return copy();
  return move(options_.what == "store" ? Move::kStore : Move::kGather);
}

BenchTimes BenchSubject::time(const std::function<void(uint32_t call)>& work) {
  if (timer_) return timer_(layers_, work);
  const bool repeat = stream_ != nullptr && options_.layers == 0;
  const uint32_t passes = repeat ? (kModelLayers + layers_ - 1) / layers_ : 1;
  std::vector<double> enqueued;
  double seconds = median_seconds([&] {
    Stopwatch watch;
    watch.start();
    for (uint32_t i = 0; i < passes * layers_; ++i) work(i);
    watch.stop();
    enqueued.push_back(watch.seconds());
    if (stream_ != nullptr) check(kvc_stream_synchronize(stream_.get()));
  });
  const auto middle = enqueued.begin() + static_cast<std::ptrdiff_t>(enqueued.size() / 2);
  std::nth_element(enqueued.begin(), middle, enqueued.end());
  const double calls = double{1} * passes * layers_;
  return {seconds / calls, *middle / calls};
}

BenchMemory BenchSubject::place(const void* host, size_t bytes) {
  BenchMemory memory(device_, own_kind(device_), std::max<size_t>(bytes, 1));
  if (stream_ == nullptr)
    std::copy_n(static_cast<const char*>(host), bytes, memory.data<char>());  // also nothing from NULL
  else
    upload(stream_.get(), static_cast<const char*>(host), memory.data<char>(), bytes);
  return memory;
}

uint64_t BenchSubject::run_bytes() const {
  kvc_run run;
  size_t count = 0;
  const kvc_selection layer = {0, 1, 0, info_.num_heads, 0, info_.block_size};
  check(kvc_storage_runs(storage_.get(), 0, &layer, &run, 1, &count));
  return run.bytes;
}

kvc_rows BenchSubject::rows_of(int32_t dtype, uint64_t tokens, const BenchMemory& k,
                               const BenchMemory& v) const {
  auto rows = make<kvc_rows>();
  rows.k = k.data();
  rows.v = options_.latent ? nullptr : v.data();
  rows.dtype = dtype;
  rows.num_tokens = tokens;
  rows.block_table = table_.data();
  rows.block_table_size = table_.size();
  return rows;
}

BenchMemory BenchSubject::row_memory(const char* device, uint64_t tokens) const {
  const size_t elements = tokens * options_.kv_heads * std::max(options_.head_dim, value_dim());
  return BenchMemory(device, own_kind(device), elements * width(row_dtype(dtype_)));
}

BenchMemory BenchSubject::angles() { return place(rope_angles(options_)); }

void BenchSubject::fill() {
  const uint64_t all = table_.size() * options_.block_size;
  const BenchMemory k = place(source_->keys()), v = place(source_->values());
  kvc_rows rows = rows_of(KVC_FLOAT32, 0, k, v);
  for (rows.first_layer = 0; rows.first_layer < layers_; ++rows.first_layer)
    for (rows.first_token = 0; rows.first_token < all; rows.first_token += rows.num_tokens) {
      rows.num_tokens = std::min(source_->piece(), all - rows.first_token);
      rows.k = k.data() + source_->key_of(rows.first_layer, rows.first_token) * sizeof(float);
      if (source_->has_values())
        rows.v = v.data() + source_->value_of(rows.first_layer, rows.first_token) * sizeof(float);
      check(kvc_storage_store(storage_.get(), &rows, nullptr));
    }
}

}  // namespace kvcli
