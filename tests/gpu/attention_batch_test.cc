// SPDX-License-Identifier: Apache-2.0
// What surrounds a request must not matter: other requests, the number of blocks, a plan that is replayed
// with other lengths, where in a large slab the bytes lie; and partial results merge into the whole.
#include <kvcache/storage.h>

#include <cstring>

#include "attention/merge.h"
#include "gpu/attention_device.h"
#include "gpu/attention_relaid.h"

namespace kvc::gpu::test {
namespace {

using AttentionBatch = KernelTest;

std::vector<float> output_of(Case& c, size_t request, const DeviceOptions& device) {
  c.run_by([&](const kvc::AttentionArgs& args) { attend_on_device(args, device); });
  return c.output(request, 0);
}

// The same request again, alone and at the end of a batch: its bytes, queries and positions are the same.
// The results of the last of four requests, in any batch and by any number of multiprocessors.
void expect_invariant(const Options& options) {
  Case c(options);
  const uint64_t queries = options.q_lens[3];
  const std::vector<float> expected = output_of(c, 3, {.invariant = true, .multiprocessors = 1});
  EXPECT_EQ(output_of(c, 3, {.invariant = true, .multiprocessors = 5}), expected);
  kvc::AttentionArgs& args = c.args();
  const uint64_t first = args.q_offsets[3], offsets[2] = {0, queries};
  const uint64_t bytes = dtype_bits(args.q_dtype) / 8 * args.num_q_heads * first;
  std::vector<char> out(queries * args.num_q_heads * args.layout->v_dim * sizeof(float));
  std::vector<float> lse(queries * args.num_q_heads);
  args.num_requests = 1, args.q_offsets = offsets, args.kv_lens += 3;
  args.block_tables += 3 * args.table_stride;
  args.q = static_cast<const char*>(args.q) + bytes * args.layout->k_dim;
  args.out = out.data(), args.lse = lse.data();
  attend_on_device(args, {.invariant = true});
  std::vector<float> alone(expected.size());
  to_float(args.q_dtype, out.data(), alone.data(), alone.size());
  EXPECT_EQ(alone, expected) << describe(options);
}

TEST_F(AttentionBatch, InvariantResultsDependOnTheRequestAlone) {
  for (const int32_t stored : kernel_types()) {
    for (const uint64_t queries : {1u, 9u}) {
      const uint32_t dim = stored == KVC_FLOAT32 ? 8 : 64;
      expect_invariant({.dtype = stored,
                        .q_dtype = stored == KVC_FLOAT32 ? KVC_FLOAT32 : KVC_BFLOAT16,
                        .k_dim = dim,
                        .v_dim = dim,
                        .heads = 1,
                        .kv_lens = {40, 300, 1, 2100},
                        .q_lens = {20, 1, 1, queries}});
    }
  }
  expect_invariant(latent_options(KVC_FLOAT8_E4M3, {40, 100, 1, 700}, {2, 1, 1, 3}));
}

TEST_F(AttentionBatch, InvariantResultsAreRight) {
  for (const int32_t stored : kernel_types()) {
    const uint32_t dim = stored == KVC_FLOAT32 ? 8 : 64;
    expect_device_right({.dtype = stored,
                         .q_dtype = stored == KVC_FLOAT32 ? KVC_FLOAT32 : KVC_BFLOAT16,
                         .k_dim = dim,
                         .v_dim = dim,
                         .heads = 1,
                         .kv_lens = {2047, 2049, 7, 0, 2300},
                         .q_lens = {1, 9, 1, 1, 3},
                         .window = 2100,
                         .sinks = 3},
                        {.invariant = true});
  }
}

// A graph keeps the arguments of launches; lengths, tables and queries are what the arrays hold by then.
TEST_F(AttentionBatch, APlanIsMadeOnTheDevice) {
  for (const int32_t stored : kernel_types()) {
    const Options options{
        .dtype = stored, .q_dtype = KVC_BFLOAT16, .kv_lens = {400, 90, 300}, .q_lens = {1, 12, 1}};
    Case c(options);
    DeviceCall call(c.args(), {});
    call.poison();
    EXPECT_EQ(call.launch(), 0);
    // The same launches again, with shorter lengths.
    const std::vector<uint64_t> lengths{170, 0, 299}, offsets{0, 1, 1, 2};
    const size_t heads = c.args().num_q_heads;
    c.args().kv_lens = lengths.data(), c.args().q_offsets = offsets.data();
    call.set_lengths(lengths, offsets);
    call.poison();
    EXPECT_EQ(call.launch(), 0);
    c.run_reference();
    c.run_by([&](const kvc::AttentionArgs& args) { call.results(args.out, args.lse); });
    const std::vector<float> lse = c.lse();
    for (size_t row = 0; row < 2 * heads; ++row) EXPECT_NEAR(lse[row], c.expected_lse()[row], 1e-3);
    EXPECT_EQ(lse[2 * heads], kUntouched);  // a query that there no longer is
  }
}

// The storage's own layouts, in which keys, values and scales of a block lie side by side.
TEST_F(AttentionBatch, EveryLayoutOfStorages) {
  for (const uint32_t preset :
       {KVC_LAYOUT_LBHNC, KVC_LAYOUT_LBNHC, KVC_LAYOUT_BLHNC, KVC_LAYOUT_BLNHC, KVC_LAYOUT_BHLNC}) {
    for (const int32_t stored : {KVC_FLOAT32, KVC_BFLOAT16, KVC_INT4}) {
      const Options options{.dtype = stored,
                            .q_dtype = KVC_BFLOAT16,
                            .k_dim = 128,
                            .v_dim = 128,
                            .kv_lens = {100, 33},
                            .q_lens = {1, 9}};
      Case c(options);
      c.run_reference();
      const Relaid relaid(c.args(), preset, 0);
      AttentionPath path{};
      c.run_by([&](kvc::AttentionArgs args) {
        args.layout = &relaid.layout();
        path = attend_on_device(args, {}, relaid.slab());
      });
      EXPECT_EQ(path, kHasMma && stored != KVC_FLOAT32 ? AttentionPath::kMma : AttentionPath::kPlain);
      EXPECT_LE(c.distance(), 4e-3) << describe(options) << ", layout " << preset;
      EXPECT_LE(c.lse_distance(), 1e-3) << describe(options) << ", layout " << preset;
    }
  }
}

TEST_F(AttentionBatch, BytesPastFourGigabytes) {
  for (const int32_t stored : kernel_types()) {
    const Options options{.dtype = stored, .q_dtype = KVC_BFLOAT16, .kv_lens = {50, 33}, .q_lens = {1, 20}};
    Case c(options);
    c.run_reference();
    // Blocks so far apart that the last one begins past 2^32.
    const Relaid relaid(c.args(), KVC_LAYOUT_LBHNC, uint64_t{1} << 30);
    c.run_by([&](kvc::AttentionArgs args) {
      args.layout = &relaid.layout();
      attend_on_device(args, {}, relaid.slab());
    });
    EXPECT_LE(c.distance(), 4e-3) << describe(options);
    EXPECT_LE(c.lse_distance(), 1e-3) << describe(options);
  }
}

TEST_F(AttentionBatch, PartialResultsMergeAsOnTheCpu) {
  constexpr uint32_t kDim = 40;
  constexpr size_t kRows = 23, kPartials = 3;
  for (const int32_t dtype : {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16}) {
    const size_t bytes = dtype_bits(dtype) / 8;
    std::vector<char> outs(kPartials * kRows * kDim * bytes), expected(kRows * kDim * bytes);
    std::vector<float> lses(kPartials * kRows), expected_lse(kRows);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < outs.size(); i += bytes) write_element(dtype, normal(random), &outs[i]);
    for (float& lse : lses) {
      lse = random() % 3 != 0 ? 10 * normal(random) : -std::numeric_limits<float>::infinity();
    }
    for (size_t row = 0; row < kPartials * kRows; ++row) {  // nothing is read of a part without keys
      if (std::isinf(lses[row])) std::memset(&outs[row * kDim * bytes], 0xff, kDim * bytes);
    }
    merge_partials(outs.data(), lses.data(), kPartials, kRows, kDim, dtype, expected.data(),
                   expected_lse.data());
    for (const bool in_place : {false, true}) {
      DeviceArray<char> device_outs(outs), out(expected.size());
      DeviceArray<float> device_lses(lses), lse(kRows);
      MergeArgs args = {};
      args.outs = device_outs.data(), args.lses = device_lses.data();
      args.num_partials = kPartials, args.num_rows = kRows, args.num_heads = 1;
      args.dim = kDim, args.dtype = dtype;
      args.out = in_place ? device_outs.data() : out.data(), args.out_token_stride = kDim;
      args.lse = in_place ? device_lses.data() : lse.data();
      EXPECT_EQ(launch_merge(args, nullptr), 0);
      const std::vector<char> merged = in_place ? device_outs.get() : out.get();
      const std::vector<float> merged_lse = in_place ? device_lses.get() : lse.get();
      for (size_t i = 0; i < expected.size(); i += bytes) {
        EXPECT_NEAR(read_element(dtype, &merged[i]), read_element(dtype, &expected[i]),
                    dtype == KVC_FLOAT32 ? 1e-5f : 2e-2f);
      }
      for (size_t row = 0; row < kRows; ++row) {
        if (std::isinf(expected_lse[row])) {
          EXPECT_EQ(merged_lse[row], expected_lse[row]);
        } else {
          EXPECT_NEAR(merged_lse[row], expected_lse[row], 1e-5f * (1 + std::abs(expected_lse[row])));
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvc::gpu::test
