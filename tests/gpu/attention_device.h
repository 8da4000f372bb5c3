// SPDX-License-Identifier: Apache-2.0
// The CPU's attention arguments, run on the device: all arrays are copied there, the workspace holds NaNs,
// and results are copied back.
#pragma once
#include <optional>

#include "attention/case.h"
#include "gpu/device.h"
#include "kernels/attention.h"

namespace kvc::gpu::test {

using kvc::test::Case;
using kvc::test::describe;
using kvc::test::Options;

inline constexpr uint32_t kSharedBytes = 227 << 10;

struct DeviceOptions {
  bool mma = true;  // where the device has it
  bool invariant = false;
  uint32_t multiprocessors = 3;
  uint32_t shared_bytes = kSharedBytes;
};

// An array of the device with what the host has, or none.
template <typename T>
class Upload {
 public:
  Upload(const T* host, size_t count) {
    if (host != nullptr) array_.emplace(std::vector<T>(host, host + count));
  }
  const T* get() { return array_ ? array_->data() : nullptr; }

 private:
  std::optional<DeviceArray<T>> array_;
};

inline uint64_t mask_bytes(const kvc::AttentionArgs& args) {
  uint64_t bits = 0;
  for (size_t r = 0; args.mask != nullptr && r < args.num_requests; ++r) {
    const uint64_t of_query = args.kv_lens[r] - (args.mask_starts != nullptr ? args.mask_starts[r] : 0);
    bits = std::max(bits, args.mask_offsets[r] + of_query * (args.q_offsets[r + 1] - args.q_offsets[r]));
  }
  return (bits + 7) / 8;
}

inline AttentionLimits limits_of(const kvc::AttentionArgs& args, const DeviceOptions& options) {
  AttentionLimits limits = {};
  limits.num_multiprocessors = options.multiprocessors;
  limits.shared_bytes = options.shared_bytes;
  limits.has_mma = options.mma && kHasMma ? 1 : 0;
  limits.invariant = options.invariant ? 1 : 0;
  limits.total_queries = args.q_offsets[args.num_requests];
  for (size_t r = 0; r < args.num_requests; ++r) {
    limits.max_queries = std::max(limits.max_queries, args.q_offsets[r + 1] - args.q_offsets[r]);
    limits.max_kv_len = std::max(limits.max_kv_len, args.kv_lens[r]);
  }
  return limits;
}

// The kernels that would run.
inline AttentionArgs scalars_of(const kvc::AttentionArgs& host) {
  AttentionArgs args = {};
  describe_storage(*host.layout, nullptr, host.layer, &args);
  args.num_q_heads = host.num_q_heads;
  args.q_dtype = host.q_dtype;
  args.num_requests = static_cast<uint32_t>(host.num_requests);
  args.causal = host.causal ? 1 : 0;
  args.table_stride = host.table_stride;
  args.window = host.window;
  args.sinks = host.sinks;
  args.scale = host.scale;
  args.soft_cap = host.soft_cap;
  args.block_mask_stride = host.block_mask_stride;
  return args;
}

// Returns the kernels that were used.
inline AttentionPath attend_on_device(const kvc::AttentionArgs& host, const DeviceOptions& options) {
  const size_t n = host.num_requests;
  const uint64_t rows = host.q_offsets[n] * host.num_q_heads, bytes = dtype_bits(host.q_dtype) / 8;
  const Layout& layout = *host.layout;
  Upload<char> slab(host.slab, layout.slab_bytes),
      q(static_cast<const char*>(host.q), rows * layout.k_dim * bytes);
  Upload<uint64_t> q_offsets(host.q_offsets, n + 1), q_starts(host.q_starts, n), kv_lens(host.kv_lens, n);
  Upload<int32_t> tables(host.block_tables, n * host.table_stride);
  Upload<float> slopes(host.alibi_slopes, host.num_q_heads);
  Upload<uint8_t> mask(host.mask, mask_bytes(host));
  Upload<uint64_t> mask_offsets(host.mask == nullptr ? nullptr : host.mask_offsets, n),
      mask_starts(host.mask_starts, n);
  Upload<uint8_t> block_mask(host.block_mask, n * layout.num_heads * host.block_mask_stride);
  DeviceArray<char> out(rows * layout.v_dim * bytes);
  DeviceArray<float> lse(rows);
  copy_in(out.data(), host.out, out.bytes());
  copy_in(lse.data(), host.lse, lse.bytes());

  AttentionArgs args = scalars_of(host);
  describe_storage(layout, slab.get(), host.layer, &args);
  args.q = q.get();
  args.out = out.data();
  args.lse = lse.data();
  args.q_offsets = q_offsets.get();
  args.q_starts = q_starts.get();
  args.kv_lens = kv_lens.get();
  args.block_tables = tables.get();
  args.alibi_slopes = slopes.get();
  args.mask = mask.get();
  args.mask_offsets = mask_offsets.get();
  args.mask_starts = mask_starts.get();
  args.block_mask = block_mask.get();

  const AttentionLimits limits = limits_of(host, options);
  const AttentionSupport support = attention_support(args, limits);
  if (support.path == AttentionPath::kUnsupported) return support.path;
  DeviceArray<char> workspace(std::vector<char>(attention_workspace_bytes(args, limits), '\xff'));
  EXPECT_EQ(launch_attention(args, limits, workspace.data(), nullptr), 0);
  synchronize();
  copy_out(host.out, out.data(), out.bytes());
  copy_out(host.lse, lse.data(), lse.bytes());
  return support.path;
}

// Runs the case against the reference, on the kernels `path` if it is given.
inline void expect_device_right(const Options& options, const DeviceOptions& device = {}) {
  Case c(options);
  c.run_reference();
  AttentionPath path{};
  c.run_by([&](const kvc::AttentionArgs& args) { path = attend_on_device(args, device); });
  ASSERT_NE(path, AttentionPath::kUnsupported) << describe(options);
  const bool exact = options.q_dtype == KVC_FLOAT32;
  EXPECT_LE(c.distance(), exact ? 1e-5 : 4e-3) << describe(options);
  EXPECT_LE(c.lse_distance(), 1e-3) << describe(options);
}

inline AttentionPath path_of(const Options& options, const DeviceOptions& device = {}) {
  Case c(options);
  return attention_support(scalars_of(c.args()), limits_of(c.args(), device)).path;
}

}  // namespace kvc::gpu::test
