// SPDX-License-Identifier: Apache-2.0
// What a query sees: windows, sinks, soft cap, ALiBi, bit and tree masks, empty rows; that nothing else
// reaches its output; and that prefill, decode, shared blocks and numbers of workers agree with each other.
#include "attention/expect.h"
#include "attention/visibility.h"
#include "rounds.h"

namespace kvc::test {
namespace {

constexpr int32_t kTypes[] = {KVC_FLOAT32, KVC_BFLOAT16};

std::vector<Options> stores() {
  std::vector<Options> all;
  for (int32_t dtype : kTypes) {
    for (int tiled = 0; tiled < 2; ++tiled) {
      for (uint32_t block_size : {4u, 16u}) {
        if (tiled != 0 && block_size == 4) continue;
        all.push_back({.dtype = dtype, .tiled = tiled != 0, .block_size = block_size});
      }
    }
  }
  for (const Options& o : std::vector<Options>{{.dtype = KVC_INT8},
                                               {.dtype = KVC_INT8, .scale_group = 32, .asymmetric = true},
                                               {.dtype = KVC_INT4, .block_size = 4},
                                               {.dtype = KVC_FLOAT8_E4M3}}) {
    all.push_back(o);
  }
  return all;
}

TEST(AttentionRules, WindowAndSinks) {
  Sample sample;
  for (Options o : stores()) {
    for (uint64_t window : {1, 7, 16, 33, 500}) {
      for (uint64_t sinks : {0, 1, 4, 16, 30}) {
        if (!sample.takes_next()) continue;
        o.window = window, o.sinks = sinks;
        o.kv_lens = {5, 64, 150, 333}, o.q_lens = {2, 17, 1, 3};
        o.causal = window != 7;
        expect_right(o);
      }
    }
  }
}

TEST(AttentionRules, WindowOfAnySizeDoesNotOverflow) {
  for (uint64_t window : {uint64_t{1} << 63, ~uint64_t{0}}) {
    expect_right({.kv_lens = {70}, .q_lens = {3}, .window = window, .sinks = ~uint64_t{0}});
    expect_right({.kv_lens = {70}, .q_lens = {3}, .window = window});
  }
}

TEST(AttentionRules, SoftCapAndAlibi) {
  for (Options o : stores()) {
    o.kv_lens = {100, 31}, o.q_lens = {3, 17};
    o.soft_cap = 5, o.q_scale = 5;
    expect_right(o);
    o.soft_cap = 50;
    expect_right(o);
    o.alibi = true;
    expect_right(o);
    o.soft_cap = 0;
    expect_right(o);
    o.kv_lens = {3000}, o.q_lens = {1};
    expect_right(o);
  }
}

TEST(AttentionRules, BitMaskAndTree) {
  for (Options o : stores()) {
    o.kv_lens = {100, 31, 16, 0}, o.q_lens = {3, 17, 1, 2};
    for (int percent : {1, 10, 50, 99, 100}) {
      o.mask_percent = percent;
      o.causal = percent != 50;
      expect_right(o);
    }
    o.tree = true, o.causal = false;
    expect_right(o);
    o.window = 20;
    expect_right(o);
  }
}

TEST(AttentionRules, AMaskOfTheTailHidesNothingBeforeIt) {
  Sample sample;
  for (Options o : stores()) {
    o.kv_lens = {100, 31, 16, 333, 64, 0}, o.q_lens = {3, 17, 1, 20, 64, 2}, o.tail = true;
    for (int percent : {1, 50, 100}) {
      if (!sample.takes_next()) continue;
      o.mask_percent = percent;
      o.causal = percent != 50;
      expect_right(o);
    }
    o.mask_percent = 0, o.tree = true;
    expect_right(o);
    o.window = 20, o.sinks = 3;
    expect_right(o);
  }
}

// Blocks that a head does not read hold NaN, or have no entry in the table.
TEST(AttentionRules, ABlockMaskPerHead) {
  Sample sample;
  for (Options o : stores()) {
    for (uint32_t block_size : {o.block_size, 24u, 64u}) {
      if (o.tiled && block_size == 24) continue;
      o.block_size = block_size, o.heads = 3;
      o.kv_lens = {5, 64, 150, 333, 0, 1500}, o.q_lens = {2, 17, 1, 3, 1, 1};
      for (int percent : {5, 50, 100}) {
        if (!sample.takes_next()) continue;
        o.block_percent = percent;
        o.window = percent == 50 ? 70 : 0, o.sinks = 5;
        o.mask_percent = percent == 5 ? 80 : 0;
        expect_right(o);
      }
      o.mask_percent = 0;
    }
  }
}

TEST(AttentionRules, AFullBlockMaskIsDenseBitForBit) {
  for (Options o : stores()) {
    o.kv_lens = {90, 1000}, o.q_lens = {9, 1}, o.block_percent = 100;
    Case c(o);
    EXPECT_TRUE(reads_all_blocks(c.args()));
    for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
      c.run(kernels);
      const std::vector<char> sparse = c.out();
      AttentionArgs dense = c.args();
      c.args().block_mask = nullptr;
      c.run(kernels);
      EXPECT_EQ(c.out(), sparse) << kernels->name << ": " << describe(o);
      c.args() = dense;
    }
  }
  EXPECT_TRUE(reads_all_blocks(Case({.kv_lens = {90, 50}, .q_lens = {9, 0}, .block_percent = 100}).args()));
}

TEST(AttentionRules, RowsThatSeeNothingAreZeroAndMinusInfinity) {
  for (Options o : stores()) {
    o.kv_lens = {0, 4, 20}, o.q_lens = {2, 7, 1};  // three queries of the second lie before its first token
    Case c(o);
    c.run_reference();
    for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
      for (size_t workers : {1, 3}) {
        c.run(kernels, workers);
        EXPECT_EQ(c.num_empty_rows(), 5u * o.heads * o.group);
        EXPECT_LE(c.distance(), 4e-3);
        EXPECT_LE(c.lse_distance(), 1e-3);
        for (float x : c.output(0, 0)) EXPECT_EQ(x, 0);
        for (float x : c.output(1, 2)) EXPECT_EQ(x, 0);
      }
    }
  }
}

TEST(AttentionRules, AQueryThatIsNotFiniteSpoilsItsOwnRowAlone) {
  for (Options o : stores()) {
    for (const uint64_t queries : {3, 20}) {  // few and many rows
      o.kv_lens = {50}, o.q_lens = {queries};
      ASSERT_NO_FATAL_FAILURE(expect_bad_query_alone(o));
    }
  }
}

TEST(AttentionRules, AQueryOfZerosGivesTheMeanOfWhatItSees) {
  for (Options o : stores()) {
    o.kv_lens = {50, 33}, o.q_lens = {20, 1};
    o.q_scale = 0;
    expect_right(o);
  }
}

TEST(AttentionRules, NothingToDo) {
  Case none({.kv_lens = {}, .q_lens = {}});
  none.run();
  Case no_queries({.kv_lens = {20}, .q_lens = {0}});
  no_queries.run(nullptr, 2);
}

TEST(AttentionRules, UnseenTokensNeverChangeABit) {
  for (Options o : stores()) {
    o.kv_lens = {90}, o.q_lens = {9}, o.window = 31, o.sinks = 3;
    Case c(o);
    for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
      c.run(kernels);
      const std::vector<char> before = c.out();
      int changed = 0;
      for (uint64_t j = 0; j < 90; ++j) {
        if (!c.seen_by_any(0, j) && c.has_block(0, j)) c.fill_token(0, j, false), ++changed;
      }
      c.run(kernels);
      EXPECT_GT(changed, 0);
      EXPECT_EQ(c.out(), before) << kernels->name << ": " << describe(o);
    }
  }
}

TEST(AttentionRules, TokensSeenByOtherQueriesNeverChangeABit) {
  for (Options o : stores()) {
    o.kv_lens = {90}, o.group = 3;
    expect_later_tokens_unseen(o);
  }
}

TEST(AttentionRules, DecodeIsTheLastRowOfPrefill) {
  for (Options o : stores()) {
    const double limit = o.dtype == KVC_FLOAT32 ? 1e-5 : 4e-3;
    o.kv_lens = {77}, o.q_lens = {77};
    Case prefill(o);
    prefill.run();
    const std::vector<float> last = prefill.output(0, 76);
    AttentionArgs args = prefill.args();
    const uint64_t offsets[] = {0, 1};
    const size_t width = size_t{args.num_q_heads} * o.k_dim;
    std::vector<float> out(last.size()), lse(args.num_q_heads);
    args.q = static_cast<const float*>(args.q) + 76 * width;
    args.q_offsets = offsets, args.out = out.data(), args.lse = lse.data();
    std::vector<char> scratch(attention_scratch_bytes(*args.layout, args.num_q_heads) + 64);
    attend(args, {}, scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64));
    double difference = 0, norm = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      difference += static_cast<double>((out[i] - last[i]) * (out[i] - last[i]));
      norm += static_cast<double>(last[i] * last[i]);
    }
    EXPECT_LE(std::sqrt(difference / norm), limit) << describe(o);
  }
}

TEST(AttentionRules, SharedBlocksOfSeveralRequests) {
  for (Options o : stores()) {
    o.kv_lens = {80, 80, 100, 33}, o.q_lens = {1, 3, 1, 17}, o.shared = true;
    expect_right(o);
  }
}

TEST(AttentionThreads, AnyNumberOfWorkersGivesTheSame) {
  Sample sample;
  for (Options o : stores()) {
    o.kv_lens = {2500, 500, 20, 0}, o.q_lens = {1, 20, 1, 1}, o.group = 4;
    o.window = o.tiled ? 1500 : 0, o.sinks = 5;
    o.block_percent = o.block_size == 4 ? 60 : 0;
    std::vector<size_t> numbers;
    for (const size_t workers : {2, 3, 8}) {
      if (sample.takes_next()) numbers.push_back(workers);
    }
    if (numbers.empty()) continue;
    Case c(o);
    c.run_reference();
    c.run();
    const std::vector<char> alone = c.out();
    for (const size_t workers : numbers) {
      c.run(nullptr, workers);
      EXPECT_LE(c.distance(), o.dtype == KVC_FLOAT32 ? 1e-5 : 4e-3) << describe(o);
      EXPECT_LE(c.lse_distance(), 1e-3) << describe(o);
      // Where tiles go together depends on the splits, and there values count to 2^-18.
      EXPECT_LE(c.distance(alone), o.dtype == KVC_FLOAT32 ? 4e-6 : 2e-3) << describe(o);
      const std::vector<char> first = c.out();
      c.run(nullptr, workers);
      EXPECT_EQ(c.out(), first) << "equal calls give equal bits";
    }
  }
}

TEST(AttentionIsa, TheScalarKernelsAlwaysRun) {
  size_t count = 0;
  while (available_kernels(count) != nullptr) ++count;
  ASSERT_GE(count, 1u);
  EXPECT_STREQ(available_kernels(count - 1)->name, "scalar");
  EXPECT_EQ(&chosen_kernels(), &best_kernels(std::getenv("KVC_KERNELS")));
}

TEST(AttentionIsa, ALimitIsNeverPassed) {
  EXPECT_EQ(&best_kernels(nullptr), available_kernels(0));
  EXPECT_EQ(&best_kernels("no such name"), available_kernels(0));
  EXPECT_STREQ(best_kernels("scalar").name, "scalar");
  for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i)
    EXPECT_EQ(&best_kernels(kernels->name), kernels);
}

}  // namespace
}  // namespace kvc::test
