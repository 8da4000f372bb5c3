// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_subject.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "cli/bench_rope.h"
#include "cli/dtype.h"
#include "cli/machine.h"

namespace kvcli {
namespace {

constexpr uint32_t kCallsPerWait = 32;  // the layers of a model

bool is_float(int32_t dtype) { return dtype == KVC_FLOAT32 || dtype == KVC_FLOAT16 || dtype == KVC_BFLOAT16; }
int32_t row_dtype(int32_t stored) { return is_float(stored) ? stored : KVC_FLOAT32; }
size_t width(int32_t dtype) { return dtype == KVC_FLOAT32 ? 4 : 2; }

uint32_t layout_of(const std::string& name) {
  const std::vector<std::string> names = layout_names();
  return static_cast<uint32_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

void fill_normal(std::mt19937& random, char* to, size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> pattern(65521);  // a prime: rows differ
  for (float& x : pattern) x = normal(random);
  for (size_t i = 0; i < count; ++i) std::memcpy(to + i * 4, &pattern[i % pattern.size()], 4);
}

}  // namespace

BenchSubject::BenchSubject(const BenchOptions& options, Stream stream)
    : options_(options),
      device_(options.device.empty() ? nullptr : options.device.c_str()),
      dtype_(dtype_of(options.dtype)),
      stream_(stream != nullptr ? std::move(stream) : create_stream(device_)) {
  if (options.heads % options.kv_heads != 0) throw InputError("--heads must be a multiple of --kv-heads");
  if (options.queries > options.context) throw InputError("--queries must not be more than --context");
  if (options.what == "step" && options.queries != 1)
    throw InputError("a step has one query of each request");
  if (options.rope && options.what != "store" && options.what != "step")
    throw InputError("--rope is for store and step: nothing else writes keys");
  if (options.rope && options.head_dim % 2 != 0) throw InputError("--rope needs an even --head-dim");
  request_blocks_ = (options.context + options.block_size - 1) / options.block_size;
  kvc_storage_config config{};
  config.struct_size = sizeof config;
  config.num_blocks = options.batch * request_blocks_;
  config.num_heads = options.kv_heads;
  config.head_dim = options.head_dim;
  config.block_size = options.block_size;
  config.num_threads = options.threads;
  config.dtype = dtype_;
  config.num_layers = 1;
  config.device = device_;
  config.layout = layout_of(options.layout);
  const bool tiled = device_ == nullptr && is_attention(options) && is_float(dtype_) &&
                     options.block_size % 16 == 0 && options.head_dim % 2 == 0;
  config.flags = tiled ? KVC_STORAGE_TILED_KEYS : 0;
  uint64_t layer_bytes = 0;
  check(kvc_storage_size(&config, nullptr, &layer_bytes), "kvc_storage_size");
  const uint64_t cold = kColdBytes / options.queries / layer_bytes + 1;
  layers_ = options.layers != 0 ? options.layers : static_cast<uint32_t>(std::clamp<uint64_t>(cold, 1, 4096));
  config.num_layers = layers_;
  storage_ = create_storage(config);
  info_.struct_size = sizeof info_;
  check(kvc_storage_properties(storage_.get(), &info_), "kvc_storage_properties");
  table_.resize(config.num_blocks);
  std::iota(table_.begin(), table_.end(), 0);
  std::shuffle(table_.begin(), table_.end(), random_);
  fill();
}

double BenchSubject::layer_bytes() const {
  return static_cast<double>(info_.token_bytes) / layers_ * static_cast<double>(tokens());
}

double BenchSubject::flops() const {
  const double queries = options_.queries, context = static_cast<double>(options_.context);
  const double pairs = queries * context - queries * (queries - 1) / 2;
  return 4 * static_cast<double>(options_.batch) * pairs * options_.heads * options_.head_dim;
}

BenchTimes BenchSubject::run() {
  if (is_attention(options_)) return attend(options_.what == "step");
  if (is_swap(options_)) return swap(options_.what == "swap-out");
  if (options_.what == "copy") return copy();
  return move(options_.what == "store" ? Move::kStore : Move::kGather);
}

std::vector<int64_t> BenchSubject::last_slots() const {
  const auto block_size = static_cast<int64_t>(options_.block_size);
  const auto last = static_cast<int64_t>(options_.context - 1);
  std::vector<int64_t> slots(options_.batch);
  for (size_t r = 0; r < slots.size(); ++r)
    slots[r] = table_[(r + 1) * request_blocks_ - 1] * block_size + last % block_size;
  return slots;
}

BenchTimes BenchSubject::time(const std::function<void(uint32_t layer)>& work) {
  if (timer_) return timer_(layers_, work);
  const bool repeat = stream_ != nullptr && options_.layers == 0;
  const uint32_t passes = repeat ? (kCallsPerWait + layers_ - 1) / layers_ : 1;
  std::vector<double> enqueued;
  double seconds = median_seconds([&] {
    Stopwatch watch;
    watch.start();
    for (uint32_t i = 0; i < passes * layers_; ++i) work(i % layers_);
    watch.stop();
    enqueued.push_back(watch.seconds());
    if (stream_ != nullptr) check(kvc_stream_synchronize(stream_.get()), "kvc_stream_synchronize");
  });
  const auto middle = enqueued.begin() + static_cast<std::ptrdiff_t>(enqueued.size() / 2);
  std::nth_element(enqueued.begin(), middle, enqueued.end());
  const double calls = double{1} * passes * layers_;
  return {seconds / calls, *middle / calls};
}

BenchMemory BenchSubject::place(const void* host, size_t bytes) {
  BenchMemory memory(device_, own_kind(device_), bytes);
  if (stream_ == nullptr)
    std::memcpy(memory.data(), host, bytes);
  else
    upload(stream_.get(), static_cast<const char*>(host), memory.data(), bytes);
  return memory;
}

BenchTimes BenchSubject::attend(bool stores_tokens) {
  const size_t queries = options_.batch * options_.queries;
  const size_t elements = queries * options_.heads * options_.head_dim;
  const int32_t dtype = dtype_of(options_.query_dtype);
  std::vector<char> q(elements * 4);
  fill_normal(random_, q.data(), elements);
  if (dtype == KVC_BFLOAT16)  // the upper halves of floats
    for (size_t i = 0; i < elements; ++i) std::memmove(&q[i * 2], &q[i * 4 + 2], 2);
  std::vector<uint64_t> offsets(options_.batch + 1), lens(options_.batch, options_.context);
  for (size_t r = 0; r < offsets.size(); ++r) offsets[r] = r * options_.queries;
  kvc_attention attention{};
  attention.struct_size = sizeof attention;
  attention.dtype = dtype;
  attention.num_requests = options_.batch;
  attention.num_q_heads = options_.heads;
  attention.table_stride = request_blocks_;
  if (stream_ != nullptr) {  // as in a graph: nothing of a call comes from the host
    attention.flags = KVC_ATTENTION_ON_DEVICE;
    attention.total_queries = queries;
    attention.max_queries = options_.queries;
    attention.max_kv_len = options_.context;
  }
  const BenchMemory out(device_, own_kind(device_), elements * width(dtype));
  const BenchMemory device_q = place(q.data(), elements * width(dtype));
  const BenchMemory device_offsets = place(offsets.data(), offsets.size() * sizeof offsets[0]);
  const BenchMemory device_lens = place(lens.data(), lens.size() * sizeof lens[0]);
  const BenchMemory device_table = place(table_.data(), table_.size() * sizeof table_[0]);
  attention.q = device_q.data();
  attention.out = out.data();
  attention.q_offsets = reinterpret_cast<const uint64_t*>(device_offsets.data());
  attention.kv_lens = reinterpret_cast<const uint64_t*>(device_lens.data());
  attention.block_tables = reinterpret_cast<const int32_t*>(device_table.data());
  const size_t row_bytes = options_.batch * options_.kv_heads * options_.head_dim * width(row_dtype(dtype_));
  const std::vector<int64_t> slots = last_slots();
  const BenchMemory device_slots = place(slots.data(), slots.size() * sizeof slots[0]);
  const BenchMemory k = place(q.data(), row_bytes),
                    v = place(q.data(), row_bytes);  // numbers like any others
  kvc_rows rows = rows_of(row_dtype(dtype_), options_.batch, k, v);
  rows.block_table = nullptr;
  rows.slots = reinterpret_cast<const int64_t*>(device_slots.data());
  rows.flags = stream_ != nullptr ? KVC_ROWS_ON_DEVICE : 0;
  const std::vector<int64_t> last(options_.batch, static_cast<int64_t>(options_.context) - 1);
  const BenchMemory positions = place(last.data(), last.size() * sizeof last[0]);
  std::optional<BenchMemory> table;
  if (options_.rope) turn_by(table.emplace(angles()), options_, positions.data(), &rows);
  return time([&](uint32_t layer) {
    rows.first_layer = attention.layer = layer;
    if (stores_tokens) check(kvc_storage_store(storage_.get(), &rows, stream_.get()), "kvc_storage_store");
    check(kvc_storage_attend(storage_.get(), &attention, stream_.get()), "kvc_storage_attend");
  });
}

BenchTimes BenchSubject::move(Move what) {
  const size_t elements = tokens() * options_.kv_heads * options_.head_dim;
  const size_t bytes = elements * width(row_dtype(dtype_));
  const BenchMemory k(device_, own_kind(device_), bytes), v(device_, own_kind(device_), bytes);
  kvc_rows rows = rows_of(row_dtype(dtype_), tokens(), k, v);
  check(kvc_storage_gather(storage_.get(), &rows, nullptr), "kvc_storage_gather");  // what is stored again
  std::vector<int64_t> positions(options_.rope ? tokens() : 0);
  for (size_t t = 0; t < positions.size(); ++t) positions[t] = static_cast<int64_t>(t % options_.context);
  std::optional<BenchMemory> table;
  kvc_rope_rows keys{};
  if (options_.rope) {
    turn_by(table.emplace(angles()), options_, positions.data(), &rows);
    keys = keys_of(rows, options_);
    if (what == Move::kTurnThenStore) rows.rope_table = nullptr;
  }
  return time([&](uint32_t layer) {
    rows.first_layer = layer;
    if (what == Move::kTurnThenStore) check(kvc_rope_apply(&keys), "kvc_rope_apply");
    check(what == Move::kGather ? kvc_storage_gather(storage_.get(), &rows, stream_.get())
                                : kvc_storage_store(storage_.get(), &rows, stream_.get()),
          "kvc_storage_store or gather");
  });
}

BenchTimes BenchSubject::copy() {
  std::vector<kvc_block_copy> copies;
  for (size_t i = 0; i + 1 < table_.size(); i += 2) copies.push_back({table_[i], table_[i + 1]});
  if (copies.empty()) throw InputError("--context must be at least two blocks");
  // A call copies all layers of half the blocks.
  const double calls = static_cast<double>(table_.size()) / static_cast<double>(copies.size());
  const BenchTimes times = time([&](uint32_t layer) {
    if (layer != 0) return;
    check(kvc_storage_copy_blocks(storage_.get(), copies.data(), copies.size(), stream_.get()),
          "kvc_storage_copy_blocks");
  });
  return {times.seconds * calls, times.enqueue_seconds * calls};
}

BenchTimes BenchSubject::swap(bool out) {
  std::vector<kvc_block_copy> copies(table_.size());
  const BenchMemory pages(device_, shared_kind(device_), table_.size() * info_.block_bytes);
  const auto run = [&](bool outward, kvc_stream* stream) {
    swap_blocks(storage_.get(), copies, outward, pages, table_.size() * info_.block_bytes, stream);
  };
  for (size_t i = 0; i < copies.size(); ++i) copies[i] = {table_[i], static_cast<int32_t>(i)};
  run(true, nullptr);  // pages that were written; and the device has measured what it measures once
  if (!out)
    for (kvc_block_copy& copy : copies) std::swap(copy.source, copy.destination);
  return time([&](uint32_t layer) {
    if (layer == 0) run(out, stream_.get());  // all layers at once
  });
}

uint64_t BenchSubject::run_bytes() const {
  kvc_run run;
  size_t count = 0;
  const kvc_selection layer = {0, 1, 0, info_.num_heads, 0, info_.block_size};
  check(kvc_storage_runs(storage_.get(), 0, &layer, &run, 1, &count), "kvc_storage_runs");
  return run.bytes;
}

kvc_rows BenchSubject::rows_of(int32_t dtype, uint64_t tokens, const BenchMemory& k,
                               const BenchMemory& v) const {
  kvc_rows rows{};
  rows.struct_size = sizeof rows;
  rows.k = k.data();
  rows.v = v.data();
  rows.dtype = dtype;
  rows.num_tokens = tokens;
  rows.block_table = table_.data();
  rows.block_table_size = table_.size();
  return rows;
}

BenchMemory BenchSubject::angles() {
  const std::vector<float> table = rope_angles(options_);
  return place(table.data(), table.size() * sizeof table[0]);
}

void BenchSubject::fill() {
  const uint64_t all = table_.size() * options_.block_size, piece = std::min<uint64_t>(all, 4096);
  const size_t elements = piece * options_.kv_heads * options_.head_dim;
  std::vector<char> values(elements * 4);
  const auto fresh = [&] {
    fill_normal(random_, values.data(), elements);
    return place(values.data(), values.size());
  };
  const BenchMemory k = fresh(), v = fresh();
  kvc_rows rows = rows_of(KVC_FLOAT32, piece, k, v);
  for (rows.first_layer = 0; rows.first_layer < layers_; ++rows.first_layer)
    for (rows.first_token = 0; rows.first_token < all; rows.first_token += piece) {
      rows.num_tokens = std::min(piece, all - rows.first_token);
      check(kvc_storage_store(storage_.get(), &rows, nullptr), "kvc_storage_store");
    }
}

}  // namespace kvcli
