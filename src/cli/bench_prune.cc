// SPDX-License-Identifier: Apache-2.0
// The JSON keys are an interface: add keys, do not rename them.
#include "cli/bench_prune.h"

#include <kvcache/attention.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/bench_dtype.h"
#include "cli/bench_json.h"
#include "cli/bench_peaked.h"
#include "cli/bench_subject.h"
#include "cli/dtype.h"
#include "cli/machine.h"
#include "cli/table.h"

namespace kvcli {
namespace {

// Of attention over the same blocks: float32 sums of float32 products.
constexpr double kLimit = 1e-3;

// Means, and the worst query.
struct Quality {
  double kept_blocks = 0;           // per KV head
  double mass = 0, least_mass = 1;  // probability of the kept blocks
  double block_recall = 0;          // part of the blocks with the most probability that is kept
  double error = 0, max_error = 0;  // L2 norm of the difference to dense attention / of that
  BenchCheck check = {.limit = kLimit};
};

struct PruneTimes {
  double choice, sparse, dense;  // seconds of a layer
};

// Requests with peaked attention in a storage; each layer holds the same.
class PruneSubject {
 public:
  PruneSubject(const BenchOptions& options, const Prune& prune);

  PruneTimes run();
  Quality quality();
  uint32_t layers() const { return config_.num_layers; }
  uint64_t blocks() const { return request_blocks_; }

 private:
  void fill(size_t r);
  void add_request(size_t r, Quality* quality);
  std::vector<bool> kept_of(size_t r, uint32_t kv_head) const;

  const BenchOptions& options_;
  const kvc_storage_config config_;
  const uint64_t request_blocks_, mask_bytes_;
  const uint32_t value_dim_;
  std::mt19937 random_{1};
  Storage storage_;
  std::vector<int32_t> table_;
  std::vector<uint64_t> offsets_, lens_;
  std::vector<float> q_, out_;
  std::vector<std::vector<uint16_t>> bounds_;  // of each layer
  std::vector<uint8_t> mask_;
  kvc_attention attention_ = make<kvc_attention>();
  kvc_block_choice choice_ = make<kvc_block_choice>();
};

PruneSubject::PruneSubject(const BenchOptions& options, const Prune& prune)
    : options_(options),
      config_(bench_config(options, nullptr)),
      request_blocks_(config_.num_blocks / options.batch),
      mask_bytes_((request_blocks_ + 7) / 8),
      value_dim_(options.v_head_dim != 0 ? options.v_head_dim : options.head_dim),
      storage_(ask<kvc_storage*>(kvc_storage_create, &config_)),
      table_(config_.num_blocks),
      lens_(options.batch, options.context),
      out_(options.batch * options.queries * options.heads * value_dim_),
      bounds_(config_.num_layers),
      mask_(options.batch * options.kv_heads * mask_bytes_) {
  std::iota(table_.begin(), table_.end(), 0);
  std::shuffle(table_.begin(), table_.end(), random_);
  for (std::vector<uint16_t>& bounds : bounds_)
    bounds.resize(config_.num_blocks * options.kv_heads * 2 * options.head_dim);
  for (size_t r = 0; r <= options.batch; ++r) offsets_.push_back(r * options.queries);
  for (size_t r = 0; r < options.batch; ++r) fill(r);
  attention_.q = q_.data();
  attention_.out = out_.data();
  attention_.num_requests = options.batch;
  attention_.num_q_heads = options.heads;
  attention_.q_offsets = offsets_.data();
  attention_.kv_lens = lens_.data();
  attention_.block_tables = table_.data();
  attention_.table_stride = request_blocks_;
  attention_.block_mask_stride = mask_bytes_;
  if (prune.mode == "topk")
    choice_.top_k = static_cast<uint64_t>(prune.value);
  else
    (prune.mode == "ratio" ? choice_.ratio : choice_.threshold) = prune.value;
  choice_.block_mask = mask_.data();
  choice_.block_mask_stride = mask_bytes_;
}

void PruneSubject::fill(size_t r) {
  PeakedRequest request(options_, random_);
  q_.insert(q_.end(), request.queries.begin(), request.queries.end());
  const int32_t* table = &table_[r * request_blocks_];
  auto rows = make<kvc_rows>();
  rows.k = request.keys.data();
  rows.v = request.values.data();
  rows.dtype = KVC_FLOAT32;
  rows.num_tokens = options_.context;
  rows.block_table = table;
  rows.block_table_size = request_blocks_;
  const size_t full = options_.context / options_.block_size;
  for (rows.first_layer = 0; rows.first_layer < layers(); ++rows.first_layer) {
    check(kvc_storage_store(storage_.get(), &rows, nullptr));
    check(kvc_storage_key_bounds(storage_.get(), rows.first_layer, table, full,
                                 bounds_[rows.first_layer].data(), nullptr));
  }
}

PruneTimes PruneSubject::run() {
  const auto seconds = [&](auto&& call) {
    return median_seconds([&] {
             for (attention_.layer = 0; attention_.layer < layers(); ++attention_.layer) call();
           }) /
           layers();
  };
  const auto attend = [&] { check(kvc_storage_attend(storage_.get(), &attention_, nullptr)); };
  PruneTimes times = {};
  times.dense = seconds(attend);
  times.choice = seconds([&] {
    choice_.bounds = bounds_[attention_.layer].data();
    check(kvc_storage_select_blocks(storage_.get(), &attention_, &choice_, nullptr));
  });
  attention_.block_mask = mask_.data();
  times.sparse = seconds(attend);
  return times;
}

std::vector<bool> PruneSubject::kept_of(size_t r, uint32_t kv_head) const {
  const uint8_t* bits = &mask_[(r * options_.kv_heads + kv_head) * mask_bytes_];
  std::vector<bool> kept(request_blocks_);
  for (size_t block = 0; block < kept.size(); ++block) kept[block] = (bits[block / 8] >> block % 8 & 1) != 0;
  return kept;
}

// Compares with what the storage holds, so that the rounding of its type is no part of the error.
void PruneSubject::add_request(size_t r, Quality* quality) {
  std::vector<int64_t> slots(options_.context);
  for (size_t token = 0; token < slots.size(); ++token)
    slots[token] = int64_t{table_[r * request_blocks_ + token / options_.block_size]} * options_.block_size +
                   static_cast<int64_t>(token % options_.block_size);
  const BenchRows rows = gather_floats(nullptr, storage_.get(), layers() - 1, slots);
  const uint32_t group = options_.heads / options_.kv_heads;
  for (uint32_t kv_head = 0; kv_head < options_.kv_heads; ++kv_head) {
    const std::vector<bool> kept = kept_of(r, kv_head), all(request_blocks_, true);
    std::vector<double> masses(request_blocks_);
    for (uint64_t query = 0; query < options_.queries; ++query)
      for (uint32_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const size_t row = (r * options_.queries + query) * options_.heads + head;
        const PeakedAttention exact(options_, &q_[row * options_.head_dim], rows.keys, kv_head,
                                    options_.context - options_.queries + query + 1);
        double mass = 0;
        for (size_t block = 0; block < exact.blocks.size(); ++block) {
          masses[block] += exact.blocks[block];
          if (kept[block]) mass += exact.blocks[block];
        }
        quality->mass += mass;
        quality->least_mass = std::min(quality->least_mass, mass);
        const auto first = out_.begin() + static_cast<std::ptrdiff_t>(row * value_dim_);
        const std::vector<float> found(first, first + value_dim_);
        compare_rows(found, exact.result(options_, rows.values, kv_head, kept), value_dim_, &quality->check);
        BenchCheck dense;
        compare_rows(found, exact.result(options_, rows.values, kv_head, all), value_dim_, &dense);
        quality->error += dense.max_error;
        quality->max_error = std::max(quality->max_error, dense.max_error);
      }
    std::vector<size_t> order(request_blocks_);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return masses[a] > masses[b]; });
    const auto count = static_cast<size_t>(std::count(kept.begin(), kept.end(), true));
    const auto found = std::count_if(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count),
                                     [&](size_t block) { return kept[block]; });
    quality->kept_blocks += static_cast<double>(count);
    quality->block_recall += static_cast<double>(found) / static_cast<double>(count);
  }
}

Quality PruneSubject::quality() {
  Quality quality;
  for (size_t r = 0; r < options_.batch; ++r) add_request(r, &quality);
  const double heads = static_cast<double>(options_.batch) * options_.kv_heads;
  const double rows = static_cast<double>(options_.batch) * options_.queries * options_.heads;
  quality.kept_blocks /= heads;
  quality.block_recall /= heads;
  quality.mass /= rows;
  quality.error /= rows;
  return quality;
}

void refuse_others(const BenchOptions& options) {
  const std::string only = "--prune is for attention on the CPU with fp32 queries: leave out ";
  if (options.what != "attention") throw InputError(only + options.what);
  if (!options.device.empty()) throw InputError(only + "--device");
  if (options.latent) throw InputError(only + "--latent");
  if (options.rope) throw InputError(only + "--rope");
  if (options.query_dtype != "fp32") throw InputError(only + "--query-dtype " + options.query_dtype);
}

}  // namespace

Prune parse_prune(const std::string& text) {
  const auto wrong = [&](const std::string& limit) {
    throw InputError("--prune is " + text + "; give " + limit);
  };
  const size_t colon = text.find(':');
  Prune prune = {text.substr(0, colon)};
  const bool known = prune.mode == "topk" || prune.mode == "ratio" || prune.mode == "threshold";
  if (!known || colon == std::string::npos) wrong("topk:N, ratio:R or threshold:T, such as topk:8");
  const std::string number = text.substr(colon + 1);
  char* end = nullptr;
  prune.value = std::strtod(number.c_str(), &end);
  const bool whole = end == number.c_str() + number.size() && !number.empty();
  const double v = prune.value;
  if (prune.mode == "topk" && !(whole && v >= 1 && v <= double{1u << 31} && v == std::floor(v)))
    wrong("topk: and a whole number from 1 to 2^31");
  if (prune.mode == "ratio" && !(whole && v > 0 && v <= 1)) wrong("ratio: and a number above 0, at most 1");
  if (prune.mode == "threshold" && !(whole && v > 0)) wrong("threshold: and a number above 0, or inf");
  return prune;
}

bool print_prune(const BenchOptions& options, bool as_json, std::ostream& out) {
  const Prune prune = parse_prune(options.prune);
  refuse_others(options);
  PruneSubject subject(options, prune);
  const PruneTimes times = subject.run();
  const Quality quality = subject.quality();
  const double blocks = static_cast<double>(subject.blocks());
  const double speedup = times.dense / (times.choice + times.sparse);
  nlohmann::ordered_json json = setting_json(options, subject.layers()), kept;
  kept["mode"] = prune.mode;
  kept["value"] = prune.value;
  if (std::isinf(prune.value)) kept["value"] = "infinity";
  kept["blocks"] = subject.blocks();
  kept["kept_blocks"] = quality.kept_blocks;
  kept["kept_ratio"] = quality.kept_blocks / blocks;
  kept["mass"] = quality.mass;
  kept["least_mass"] = quality.least_mass;
  kept["block_recall"] = quality.block_recall;
  kept["error"] = quality.error;
  kept["max_error"] = quality.max_error;
  kept["choice_us_per_layer"] = times.choice * 1e6;
  kept["sparse_us_per_layer"] = times.sparse * 1e6;
  kept["dense_us_per_layer"] = times.dense * 1e6;
  kept["speedup"] = speedup;
  json["prune"] = kept;
  json["check"] = check_json(quality.check);
  if (as_json) {
    out << json.dump(2) << '\n';
    return quality.check.right();
  }
  out << std::fixed << std::setprecision(2) << "attention of " << counted(options.batch, "request") << " of "
      << options.context << " tokens, " << options.kv_heads << " KV heads of " << options.head_dim << ", "
      << options.dtype << ", " << counted(options.threads, "thread") << "\n  " << processor_name()
      << "\n  peaked attention over the blocks of " << options.prune << ": " << quality.kept_blocks << " of "
      << subject.blocks() << " blocks per KV head (" << quality.kept_blocks / blocks << ")\n  "
      << std::setprecision(4) << quality.mass << " of the probability is kept (least " << quality.least_mass
      << "), and " << quality.block_recall
      << " of the blocks with the most of it\n  relative error against dense "
      << "attention " << quality.error << " (largest " << quality.max_error << ")\n  " << std::setprecision(2)
      << times.choice * 1e6 << " us per layer to choose, " << times.sparse * 1e6 << " us to attend; dense "
      << times.dense * 1e6 << " us: " << speedup << " times as fast\n  " << quality.check.rows
      << " results compared with double precision over the same blocks: "
      << (quality.check.right() ? "right" : "WRONG") << ", largest relative error " << std::defaultfloat
      << quality.check.max_error << " (limit " << quality.check.limit << ")\n";
  return quality.check.right();
}

}  // namespace kvcli
