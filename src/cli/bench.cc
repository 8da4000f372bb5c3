// SPDX-License-Identifier: Apache-2.0
// The JSON keys are an interface: they may be added to, never renamed.
#include "cli/bench.h"

#include <kvcache.h>

#include <algorithm>
#include <cstring>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "cli/dtype.h"
#include "cli/library.h"
#include "cli/machine.h"

namespace kvcli {
namespace {

using Json = nlohmann::ordered_json;

bool is_float(int32_t dtype) { return dtype == KVC_FLOAT32 || dtype == KVC_FLOAT16 || dtype == KVC_BFLOAT16; }

/// A filled storage, large enough that one pass over its layers finds nothing in a cache. Many queries read
/// what they have in a cache again and again: for them, fewer layers do.
class Subject {
 public:
  explicit Subject(const BenchOptions& options) : options_(options), dtype_(dtype_of(options.dtype)) {
    if (options.heads % options.kv_heads != 0) throw InputError("--heads must be a multiple of --kv-heads");
    if (options.queries > options.context) throw InputError("--queries must not be more than --context");
    kvc_storage_config config{};
    config.struct_size = sizeof config;
    config.num_blocks = (options.context + options.block_size - 1) / options.block_size;
    config.num_heads = options.kv_heads;
    config.head_dim = options.head_dim;
    config.block_size = options.block_size;
    config.num_threads = options.threads;
    config.dtype = dtype_;
    config.num_layers = 1;
    const bool tiled = options.what == "attention" && is_float(dtype_) && options.block_size % 16 == 0 &&
                       options.head_dim % 2 == 0;
    config.flags = tiled ? KVC_STORAGE_TILED_KEYS : 0;
    uint64_t layer_bytes = 0;
    check(kvc_storage_size(&config, nullptr, &layer_bytes), "kvc_storage_size");
    layers_ =
        static_cast<uint32_t>(std::clamp<uint64_t>(kColdBytes / options.queries / layer_bytes + 1, 1, 4096));
    config.num_layers = layers_;
    storage_ = create_storage(config);
    info_.struct_size = sizeof info_;
    check(kvc_storage_properties(storage_.get(), &info_), "kvc_storage_properties");
    table_.resize(config.num_blocks);
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), random_);
    fill();
  }

  uint32_t layers() const { return layers_; }
  double layer_bytes() const {
    return static_cast<double>(info_.token_bytes) / layers_ * static_cast<double>(options_.context);
  }

  /// Operations of a layer: two for each element of a key or value that a query head sees.
  double flops() const {
    const double queries = options_.queries, context = static_cast<double>(options_.context);
    const double pairs = queries * context - queries * (queries - 1) / 2;
    return 4 * pairs * options_.heads * options_.head_dim;
  }

  double attend_seconds() {
    const size_t row = size_t{options_.heads} * options_.head_dim;
    std::vector<float> q(options_.queries * row), out(q.size());
    std::normal_distribution<float> normal;
    for (float& x : q) x = normal(random_);
    std::vector<uint16_t> upper(q.size());  // halves of floats: bf16
    for (size_t i = 0; i < q.size(); ++i) {
      uint32_t bits;
      std::memcpy(&bits, &q[i], sizeof bits);
      upper[i] = static_cast<uint16_t>(bits >> 16);
    }
    const uint64_t offsets[] = {0, options_.queries};
    kvc_attention attention{};
    attention.struct_size = sizeof attention;
    attention.dtype = dtype_of(options_.query_dtype);
    attention.q = attention.dtype == KVC_BFLOAT16 ? static_cast<const void*>(upper.data()) : q.data();
    attention.out = out.data();
    attention.num_requests = 1;
    attention.num_q_heads = options_.heads;
    attention.q_offsets = offsets;
    attention.kv_lens = &options_.context;
    attention.block_tables = table_.data();
    attention.table_stride = table_.size();
    return median_seconds([&] {
             for (attention.layer = 0; attention.layer < layers_; ++attention.layer)
               check(kvc_storage_attend(storage_.get(), &attention, nullptr), "kvc_storage_attend");
           }) /
           layers_;
  }

  double move_seconds(bool store) {
    kvc_rows rows = rows_of(dtype_);
    return median_seconds([&] {
             for (rows.first_layer = 0; rows.first_layer < layers_; ++rows.first_layer) {
               check(store ? kvc_storage_store(storage_.get(), &rows, nullptr)
                           : kvc_storage_gather(storage_.get(), &rows, nullptr),
                     "kvc_storage_store or gather");
             }
           }) /
           layers_;
  }

  /// Every second block of the shuffled table to the one after it.
  double copy_seconds() {
    std::vector<kvc_block_copy> copies;
    for (size_t i = 0; i + 1 < table_.size(); i += 2) copies.push_back({table_[i], table_[i + 1]});
    if (copies.empty()) throw InputError("--context must be at least two blocks");
    return median_seconds([&] {
             check(kvc_storage_copy_blocks(storage_.get(), copies.data(), copies.size(), nullptr),
                   "kvc_storage_copy_blocks");
           }) *
           static_cast<double>(table_.size()) / static_cast<double>(copies.size()) / layers_;
  }

 private:
  /// The whole context in the caller's memory.
  kvc_rows rows_of(int32_t dtype) {
    const int32_t outside = is_float(dtype) ? dtype : KVC_FLOAT32;
    const size_t elements = options_.context * options_.kv_heads * options_.head_dim;
    const size_t width = outside == KVC_FLOAT32 ? 4 : 2;
    k_.resize(elements * width);
    v_.resize(elements * width);
    kvc_rows rows{};
    rows.struct_size = sizeof rows;
    rows.k = k_.data();
    rows.v = v_.data();
    rows.dtype = outside;
    rows.num_tokens = options_.context;
    rows.block_table = table_.data();
    rows.block_table_size = table_.size();
    return rows;
  }

  void fill() {
    kvc_rows rows = rows_of(KVC_FLOAT32);
    std::normal_distribution<float> normal;
    std::vector<float> pattern(65521);  // a prime: rows differ
    for (float& x : pattern) x = normal(random_);
    for (std::vector<char>* bytes : {&k_, &v_})
      for (size_t i = 0; i < bytes->size() / 4; ++i)
        std::memcpy(&(*bytes)[i * 4], &pattern[(i + (bytes == &v_)) % pattern.size()], 4);
    for (rows.first_layer = 0; rows.first_layer < layers_; ++rows.first_layer)
      check(kvc_storage_store(storage_.get(), &rows, nullptr), "kvc_storage_store");
  }

  const BenchOptions& options_;
  const int32_t dtype_;
  std::mt19937 random_{1};
  Storage storage_;
  kvc_storage_info info_{};
  uint32_t layers_ = 1;
  std::vector<int32_t> table_;
  std::vector<char> k_, v_;
};

}  // namespace

void print_bench(const BenchOptions& options, bool as_json, std::ostream& out) {
  Subject subject(options);
  const bool attention = options.what == "attention";
  const double seconds = attention                  ? subject.attend_seconds()
                         : options.what == "copy"   ? subject.copy_seconds()
                         : options.what == "gather" ? subject.move_seconds(false)
                                                    : subject.move_seconds(true);
  const double reached = subject.layer_bytes() / seconds / 1e9;
  const double machine = (attention ? read_bandwidth(options.threads)
                                    : copy_bandwidth(options.what == "copy" ? 1 : options.threads)) /
                         1e9;
  Json json;
  json["bench"] = options.what;
  json["context"] = options.context;
  if (attention) json["heads"] = options.heads;
  if (attention) json["queries"] = options.queries;
  if (attention) json["query_dtype"] = options.query_dtype;
  json["kv_heads"] = options.kv_heads;
  json["head_dim"] = options.head_dim;
  json["block_size"] = options.block_size;
  json["dtype"] = options.dtype;
  json["threads"] = options.threads;
  json["layers"] = subject.layers();
  json["us_per_layer"] = seconds * 1e6;
  json["gb_per_s"] = reached;
  json[attention ? "read_gb_per_s" : "copy_gb_per_s"] = machine;
  json["ratio"] = reached / machine;
  const double gflops = subject.flops() / seconds / 1e9;
  const double fma_gflops = attention ? peak_flops(options.threads) / 1e9 : 0;
  if (attention) {
    json["gflops"] = gflops;
    json["fma_gflops"] = fma_gflops;
    json["fma_ratio"] = gflops / fma_gflops;
  }
  if (as_json) {
    out << json.dump(2) << '\n';
    return;
  }
  out << std::fixed << std::setprecision(2) << options.what << " of " << options.context << " tokens, "
      << options.kv_heads << " KV heads of " << options.head_dim << ", " << options.dtype << ", "
      << options.threads << (options.threads == 1 ? " thread" : " threads") << "\n  " << seconds * 1e6
      << " us per layer, " << reached << " GB/s of keys and values\n  the machine "
      << (attention ? "reads " : "copies ") << machine << " GB/s with as many threads: " << reached / machine
      << " of it\n";
  if (!attention) return;
  out << "  " << gflops << " GFLOP/s for " << options.queries
      << (options.queries == 1 ? " query" : " queries") << "\n  the machine multiplies and adds "
      << fma_gflops << " GFLOP/s of fp32 in registers: " << gflops / fma_gflops << " of it\n";
}

}  // namespace kvcli
