// SPDX-License-Identifier: Apache-2.0
// Attention of a BenchSubject.
#include <kvcache/attention.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "cli/bench_dtype.h"
#include "cli/bench_rope.h"
#include "cli/bench_subject.h"
#include "cli/dtype.h"

namespace kvcli {
namespace {

// Largest relative error of a query head's result against float32 on the CPU, by the type of queries and
// results: bfloat16 rounds results and probabilities to 0.002.
constexpr double kHalfError = 5e-3, kFloatError = 1e-3;
// Blocks of the requests that the CPU computes for comparison.
constexpr uint64_t kMostBenchTokens = uint64_t{1} << 16;

std::vector<char> random_queries(size_t elements, int32_t dtype, std::mt19937& random) {
  std::vector<char> q(elements * 4);
  fill_normal(random, q.data(), elements);
  if (dtype == KVC_BFLOAT16)  // the upper halves of floats
    for (size_t i = 0; i < elements; ++i) std::memmove(&q[i * 2], &q[i * 4 + 2], 2);
  q.resize(elements * width(dtype));
  return q;
}

std::vector<uint64_t> query_offsets(const BenchOptions& options) {
  std::vector<uint64_t> offsets(options.batch + 1);
  for (size_t r = 0; r < offsets.size(); ++r) offsets[r] = r * options.queries;
  return offsets;
}

/// As in a graph: no argument lies on the host.
kvc_attention_launch launch_on_device(const BenchOptions& options) {
  auto launch = make<kvc_attention_launch>();
  launch.flags = KVC_LAUNCH_ON_DEVICE;
  launch.total_queries = options.batch * options.queries;
  launch.max_queries = options.queries;
  launch.max_kv_len = options.context;
  return launch;
}

}  // namespace

std::vector<int64_t> BenchSubject::slots_at(uint64_t position) const {
  const uint64_t block = position / options_.block_size, offset = position % options_.block_size;
  std::vector<int64_t> slots(options_.batch);
  for (size_t r = 0; r < slots.size(); ++r)
    slots[r] =
        int64_t{table_[r * request_blocks_ + block]} * options_.block_size + static_cast<int64_t>(offset);
  return slots;
}

BenchTimes BenchSubject::attend(bool stores_tokens) {
  const size_t queries = options_.batch * options_.queries;
  const size_t result_bytes = queries * options_.heads * value_dim() * width(dtype_of(options_.query_dtype));
  const int32_t dtype = dtype_of(options_.query_dtype);
  const std::vector<char> q = random_queries(queries * options_.heads * options_.head_dim, dtype, random_);
  auto attention = make<kvc_attention>();
  auto launch = stream_ != nullptr ? launch_on_device(options_) : make<kvc_attention_launch>();
  attention.launch = &launch;
  attention.dtype = dtype;
  attention.num_requests = options_.batch;
  attention.num_q_heads = options_.heads;
  attention.table_stride = request_blocks_;
  const BenchMemory out(device_, own_kind(device_), result_bytes);
  const BenchMemory device_q = place(q.data(), q.size());
  const BenchMemory device_offsets = place(query_offsets(options_));
  const BenchMemory device_lens = place(std::vector<uint64_t>(options_.batch, options_.context));
  const BenchMemory device_table = place(table_);
  attention.q = device_q.data();
  attention.out = out.data();
  attention.q_offsets = device_offsets.data<uint64_t>();
  attention.kv_lens = device_lens.data<uint64_t>();
  attention.block_tables = device_table.data<int32_t>();
  const BenchMemory k = row_memory(device_, options_.batch), v = row_memory(device_, options_.batch);
  kvc_rows rows = rows_of(row_dtype(dtype_), options_.batch, k, v);
  rows.block_table = nullptr;
  // A step stores at the end of each request the request's first token of layer 0.
  const std::vector<int64_t> firsts = slots_at(0), slots = slots_at(options_.context - 1);
  rows.slots = firsts.data();
  check(kvc_storage_gather(storage_.get(), &rows, nullptr));
  const BenchMemory device_slots = place(slots);
  rows.slots = device_slots.data<int64_t>();
  rows.flags = stream_ != nullptr ? KVC_ROWS_ON_DEVICE : 0;
  const std::vector<int64_t> last(options_.batch, static_cast<int64_t>(options_.context) - 1);
  const BenchMemory positions = place(last);
  std::optional<BenchMemory> table;
  if (options_.rope) rotate_by(table.emplace(angles()).data<float>(), options_, positions.data(), &rows);
  const auto plan = ask<kvc_attention_info>(kvc_storage_explain, storage_.get(), &attention);
  const bool shares = plan.plan_bytes != 0 && !options_.own_plans;
  const BenchMemory plan_memory(device_, own_kind(device_), shares ? plan.plan_bytes : 1);
  launch.plan = shares ? plan_memory.data() : nullptr;
  launch.plan_bytes = plan.plan_bytes;
  const uint32_t flags = launch.flags;
  std::optional<BenchArray> results;
  if (options_.check) {
    results.emplace(device_, out.data(), queries, options_.heads, value_dim(), dtype);
    results->spoil(sampled_queries());
  }
  const BenchTimes times = time([&](uint32_t call) {
    rows.first_layer = attention.layer = layer_of(call);
    launch.flags = flags | (shares && call % kModelLayers != 0 ? KVC_LAUNCH_PLANNED : 0);
    if (stores_tokens) check(kvc_storage_store(storage_.get(), &rows, stream_.get()));
    check(kvc_storage_attend(storage_.get(), &attention, stream_.get()));
  });
  if (options_.check) {
    checked_.limit = dtype == KVC_FLOAT32 && dtype_ == KVC_FLOAT32 ? kFloatError : kHalfError;
    compare_rows(results->read(sampled_queries()), attend_on_the_cpu(q, stores_tokens), value_dim(),
                 &checked_);
  }
  return times;
}

std::vector<uint64_t> BenchSubject::sampled_requests() const {
  std::vector<uint64_t> requests = some_of(options_.batch);
  while (requests.size() > 1 && requests.size() * options_.context > kMostBenchTokens)
    requests.erase(requests.begin());
  return requests;
}

std::vector<BenchBlocks> BenchSubject::blocks_of(const std::vector<uint64_t>& requests,
                                                 uint64_t count) const {
  std::vector<BenchBlocks> blocks(requests.size());
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = {requests[i] * request_blocks_, count};
  return blocks;
}

std::vector<uint64_t> BenchSubject::sampled_queries() const {
  std::vector<uint64_t> queries;
  for (const uint64_t request : sampled_requests())
    for (const uint64_t query : some_of(options_.queries))
      queries.push_back(request * options_.queries + query);
  return queries;
}

// Stores the tokens of the step in a reference that holds these requests one after the other.
void BenchSubject::store_step_on_the_cpu(const std::vector<uint64_t>& requests,
                                         const BenchReference& reference) const {
  const BenchReference firsts(config_, *source_, blocks_of(requests, 1), 0, 1);
  const BenchMemory k = row_memory(nullptr, 1), v = row_memory(nullptr, 1);
  const int64_t last = static_cast<int64_t>(options_.context) - 1;
  const std::vector<float> table = options_.rope ? rope_angles(options_) : std::vector<float>();
  for (size_t i = 0; i < requests.size(); ++i) {
    kvc_rows row = rows_of(row_dtype(dtype_), 1, k, v);
    row.block_table = nullptr;
    int64_t slot = static_cast<int64_t>(i * options_.block_size);
    row.slots = &slot;
    check(kvc_storage_gather(firsts.storage(), &row, nullptr));
    slot = static_cast<int64_t>(i * request_blocks_ * options_.block_size) + last;
    if (options_.rope) rotate_by(table.data(), options_, &last, &row);
    check(kvc_storage_store(reference.storage(), &row, nullptr));
  }
}

// In the reference each sampled query is a request that ends with it.
std::vector<float> BenchSubject::attend_on_the_cpu(const std::vector<char>& q, bool stores_tokens) const {
  const std::vector<uint64_t> requests = sampled_requests(), queries = sampled_queries();
  const BenchReference reference(config_, *source_, blocks_of(requests, request_blocks_), layers_ - 1, 1);
  if (stores_tokens) store_step_on_the_cpu(requests, reference);
  const size_t elements = size_t{options_.heads} * options_.head_dim, n = queries.size();
  std::vector<float> q_rows(n * elements), results(n * options_.heads * value_dim());
  const size_t bytes = width(dtype_of(options_.query_dtype));
  for (size_t i = 0; i < n; ++i)
    for (size_t e = 0; e < elements; ++e)  // bfloat16 is the upper half of a float
      std::memcpy(reinterpret_cast<char*>(&q_rows[i * elements + e]) + 4 - bytes,
                  &q[(queries[i] * elements + e) * bytes], bytes);
  std::vector<uint64_t> offsets(n + 1), lens(n);
  std::vector<int32_t> tables;
  for (size_t i = 0; i < n; ++i) {
    offsets[i + 1] = i + 1;
    lens[i] = options_.context - options_.queries + queries[i] % options_.queries + 1;
    const auto first =
        reference.table().begin() + static_cast<std::ptrdiff_t>(i / (n / requests.size()) * request_blocks_);
    tables.insert(tables.end(), first, first + static_cast<std::ptrdiff_t>(request_blocks_));
  }
  auto attention = make<kvc_attention>();
  attention.q = q_rows.data();
  attention.out = results.data();
  attention.num_requests = n;
  attention.q_offsets = offsets.data();
  attention.kv_lens = lens.data();
  attention.block_tables = tables.data();
  attention.table_stride = request_blocks_;
  attention.num_q_heads = options_.heads;
  check(kvc_storage_attend(reference.storage(), &attention, nullptr));
  return results;
}

}  // namespace kvcli
