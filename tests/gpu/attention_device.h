// SPDX-License-Identifier: Apache-2.0
// The CPU's attention arguments, run on the device: all arrays are copied there, the workspace holds NaNs,
// and results are copied back.
#pragma once
#include <deque>
#include <optional>

#include "attention/case.h"
#include "gpu/device.h"
#include "kernels/attention_config.h"

namespace kvc::gpu::test {

using kvc::test::Case;
using kvc::test::describe;
using kvc::test::latent_options;
using kvc::test::Options;

inline constexpr uint32_t kSharedBytes = 227 << 10;
inline constexpr float kUntouched = -12345.0f;  // what rows of lse hold before

struct DeviceOptions {
  bool mma = true;  // where the device has it
  bool invariant = false;
  uint32_t multiprocessors = 3;
  uint32_t shared_bytes = kSharedBytes;
  uint32_t out_offset = 0;  // bytes from an aligned address to the results
};

// Stored types that stand for the kernels there are: plain ones alone on some devices.
inline std::vector<int32_t> kernel_types() {
  if (!kHasMma) return {KVC_FLOAT32};
  return {KVC_FLOAT32, KVC_BFLOAT16, KVC_INT8};
}

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
  static_cast<kvc_backend_attention&>(args) = host;
  args.q = nullptr, args.out = nullptr, args.lse = nullptr;
  args.q_offsets = args.q_starts = args.kv_lens = args.mask_offsets = args.mask_starts = nullptr;
  args.block_tables = nullptr;
  args.alibi_slopes = args.sink_logits = nullptr;
  args.mask = args.block_mask = nullptr;
  describe_storage(*host.layout, nullptr, host.layer, &args);
  return args;
}

// On the device what the host has; of nothing nothing.
class Copies {
 public:
  template <typename T>
  T* of(const T* host, size_t count) {
    if (host == nullptr) return nullptr;
    const auto* bytes = reinterpret_cast<const char*>(host);
    return reinterpret_cast<T*>(
        all_.emplace_back(std::vector<char>(bytes, bytes + count * sizeof(T))).data());
  }

 private:
  std::deque<DeviceArray<char>> all_;
};

// A call whose arrays are on the device.
class DeviceCall {
 public:
  // `slab`: the storage's bytes, if they are on the device already.
  DeviceCall(const kvc::AttentionArgs& host, const DeviceOptions& options, const char* slab = nullptr)
      : args_(scalars_of(host)),
        limits_(limits_of(host, options)),
        out_offset_(options.out_offset),
        out_(out_offset_ + kvc::test::out_extent(host) * bytes(host)),
        lse_(host.q_offsets[host.num_requests] * host.num_q_heads) {
    if (slab == nullptr) slab = copies_.of(host.slab, host.layout->slab_bytes);
    describe_storage(*host.layout, slab, host.layer, &args_);
    args_.q = copies_.of(static_cast<const char*>(host.q), kvc::test::q_extent(host) * bytes(host));
    args_.out = out_.data() + out_offset_;
    args_.lse = lse_.data();
    args_.q_offsets = copies_.of(host.q_offsets, host.num_requests + 1);
    args_.q_starts = copies_.of(host.q_starts, host.num_requests);
    args_.kv_lens = copies_.of(host.kv_lens, host.num_requests);
    args_.block_tables = copies_.of(host.block_tables, host.num_requests * host.table_stride);
    args_.alibi_slopes = copies_.of(host.alibi_slopes, host.num_q_heads);
    args_.sink_logits = copies_.of(host.sink_logits, host.num_q_heads);
    args_.mask = copies_.of(host.mask, mask_bytes(host));
    args_.mask_offsets = copies_.of(host.mask == nullptr ? nullptr : host.mask_offsets, host.num_requests);
    args_.mask_starts = copies_.of(host.mask_starts, host.num_requests);
    args_.block_mask =
        copies_.of(host.block_mask, host.num_requests * host.layout->num_heads * host.block_mask_stride);
    config_ = configure_attention(args_, limits_);
    workspace_.emplace(config_.workspace_bytes);
    plan_.emplace(config_.plan_bytes);
  }

  AttentionPath path() const { return config_.support.path; }
  AttentionArgs& args() { return args_; }
  const AttentionLimits& limits() const { return limits_; }
  DeviceArray<char>& plan() { return *plan_; }
  void poison() {
    plan_->set(std::vector<char>(plan_->size(), '\xff'));
    poison_results();
  }
  void poison_results() {
    workspace_->set(std::vector<char>(workspace_->size(), '\xff'));
    out_.set(std::vector<char>(out_.size(), '\x7b'));
    lse_.set(std::vector<float>(lse_.size(), kUntouched));
  }
  // `planned`: by the plan of the launch before.
  int launch(bool planned = false) {
    return launch_attention(configure_attention(args_, limits_), args_,
                            {plan_->data(), workspace_->data(), planned ? 1u : 0u}, nullptr);
  }
  int launch_by_groups(const std::vector<uint64_t>& group_offsets, const std::vector<uint64_t>& prefix_lens,
                       bool planned = false) {
    DeviceArray<uint64_t> offsets(group_offsets), prefixes(prefix_lens);
    const CascadeArgs cascade{args_, static_cast<uint32_t>(prefix_lens.size()), offsets.data(),
                              prefixes.data()};
    const CascadeConfig config = configure_cascade(cascade, limits_);
    if (config.suffix.support.path == AttentionPath::kUnsupported) return -1;
    workspace_.emplace(std::vector<char>(config.workspace_bytes, '\xff'));
    if (!planned) plan_.emplace(std::vector<char>(config.plan_bytes, '\xff'));
    const int error =
        launch_cascade(config, cascade, {plan_->data(), workspace_->data(), planned ? 1u : 0u}, nullptr);
    synchronize();
    return error;
  }
  void set_lengths(const std::vector<uint64_t>& kv_lens, const std::vector<uint64_t>& q_offsets) {
    copy_in(const_cast<uint64_t*>(args_.kv_lens), kv_lens.data(), kv_lens.size() * sizeof kv_lens[0]);
    copy_in(const_cast<uint64_t*>(args_.q_offsets), q_offsets.data(), q_offsets.size() * sizeof q_offsets[0]);
  }
  void results(void* out, float* lse) {
    synchronize();
    copy_out(out, out_.data() + out_offset_, out_.bytes() - out_offset_);
    copy_out(lse, lse_.data(), lse_.bytes());
  }

 private:
  static uint64_t bytes(const kvc::AttentionArgs& host) { return dtype_bits(host.q_dtype) / 8; }
  AttentionArgs args_;
  AttentionLimits limits_;
  AttentionConfig config_ = {};
  const uint32_t out_offset_;
  Copies copies_;
  DeviceArray<char> out_;
  DeviceArray<float> lse_;
  std::optional<DeviceArray<char>> workspace_, plan_;
};

// The case's results, row by row, wherever they lie.
inline std::vector<float> rows_of(Case& c) {
  const kvc::AttentionArgs& args = c.args();
  const uint32_t dim = args.layout->v_dim;
  std::vector<float> rows(c.lse().size() * dim);
  for (size_t row = 0; row < c.lse().size(); ++row) {
    const uint64_t query = row / args.num_q_heads, head = row % args.num_q_heads;
    const uint64_t at = query * args.out_token_stride + head * args.out_head_stride;
    to_float(args.q_dtype, c.out().data() + at * dtype_bits(args.q_dtype) / 8, &rows[row * dim], dim);
  }
  return rows;
}

// Returns the kernels that were used.
inline AttentionPath attend_on_device(const kvc::AttentionArgs& host, const DeviceOptions& options,
                                      const char* slab = nullptr) {
  DeviceCall call(host, options, slab);
  if (call.path() == AttentionPath::kUnsupported) return call.path();
  call.poison();
  EXPECT_EQ(call.launch(), 0);
  call.results(host.out, host.lse);
  return call.path();
}

// The same problem with what goes with every other: by chance sink logits, and rows that are not contiguous.
inline Options with_extras(Options o) {
  static std::mt19937_64 random(kvc::test::test_seed());
  using kvc::test::Rows;
  const auto any_of = [&](std::initializer_list<Rows> rows) { return rows.begin()[random() % rows.size()]; };
  if (random() % 3 == 0) o.sink_logits = true;
  if (o.q_rows == Rows::kContiguous && random() % 2 == 0)
    o.q_rows = any_of({Rows::kFused, Rows::kPadded, Rows::kHeadMajor, Rows::kOverlapping});
  if (o.out_rows == Rows::kContiguous && random() % 2 == 0)  // not padded: that is for the plain kernel alone
    o.out_rows = any_of({Rows::kFused, Rows::kHeadMajor});
  return o;
}

// Runs the case, with_extras(), against the reference.
inline void expect_device_right(const Options& asked, const DeviceOptions& device = {}) {
  const Options options = with_extras(asked);
  Case c(options);
  c.run_reference();
  AttentionPath path{};
  c.run_by([&](const kvc::AttentionArgs& args) { path = attend_on_device(args, device); });
  ASSERT_NE(path, AttentionPath::kUnsupported) << describe(options);
  const bool exact = options.q_dtype == KVC_FLOAT32;
  EXPECT_LE(c.distance(), exact ? 1e-5 : 4e-3) << describe(options);
  EXPECT_LE(c.lse_distance(), 1e-3) << describe(options);
  EXPECT_EQ(c.num_bytes_beside_rows(), 0u) << describe(options);
}

inline AttentionPath path_of(const Options& options, const DeviceOptions& device = {}) {
  Case c(options);
  return configure_attention(scalars_of(c.args()), limits_of(c.args(), device)).support.path;
}

}  // namespace kvc::gpu::test
