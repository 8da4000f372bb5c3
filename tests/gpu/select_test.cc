// SPDX-License-Identifier: Apache-2.0
// Choosing blocks on a device gives the CPU's choice. Queries and bounds are small whole numbers, so that
// sums are exact in any order, and equal bounds are common.
#include "kernels/select.h"

#include "attention/select.h"
#include "base/checked.h"
#include "gpu/attention_device.h"

namespace kvc::gpu::test {
namespace {

struct Choice {
  uint64_t top_k, sink_blocks, recent_blocks;
  uint64_t ratio = 0;
  float threshold = 0;
};

// A random problem: requests, queries and bounds of all blocks.
struct Problem {
  Problem(const Options& options, std::mt19937& random)
      : scene(options, random()), layout(*scene.args().layout), args(scene.args()) {
    args.layout = &layout;
    const size_t rows = args.q_offsets[args.num_requests] * args.num_q_heads;
    q.resize(rows * layout.k_dim * dtype_bits(options.q_dtype) / 8);
    for (size_t i = 0; i < rows * layout.k_dim; ++i) {
      const auto x = static_cast<float>(static_cast<int>(random() % 5) - 2);
      from_float(options.q_dtype, &x, q.data() + i * dtype_bits(options.q_dtype) / 8, 1);
    }
    const kvc::test::RowStrides dense =
        kvc::test::strides_of(kvc::test::Rows::kContiguous, 0, options, layout.k_dim);
    args.q = q.data(), args.q_token_stride = dense.token, args.q_head_stride = dense.head;
    strides = kvc::test::strides_of(options.q_rows, args.q_offsets[args.num_requests], options, layout.k_dim);
    const float scales[] = {0.25f, 1, -2};
    args.scale = scales[random() % 3];
    bounds.resize(layout.num_blocks * layout.num_heads * 2 * layout.k_dim);
    const bool specials = random() % 4 == 0;
    for (uint16_t& bound : bounds) {
      constexpr uint16_t kSpecial[] = {0x7C00, 0xFC00, 0x7E00, 0x8000};  // infinities, NaN, -0
      const auto x = static_cast<float>(static_cast<int>(random() % 4) - 1);
      from_float(KVC_FLOAT16, &x, &bound, 1);
      if (specials && random() % 256 == 0) bound = kSpecial[random() % 4];
    }
    uint64_t longest = 0;
    for (const uint64_t len : options.kv_lens) longest = std::max(longest, len);
    stride = ceil_div(ceil_div(longest, layout.block_size), 8) + random() % 3;
    mask.resize(args.num_requests * layout.num_heads * stride + 1);
    for (uint8_t& byte : mask) byte = static_cast<uint8_t>(random());
  }

  // The queries as far apart as `strides` says, with NaN between them.
  std::vector<char> spread_queries() const {
    const uint64_t tokens = args.q_offsets[args.num_requests], bytes = dtype_bits(args.q_dtype) / 8;
    std::vector<char> spread(
        kvc::test::extent_of(tokens, strides.token, args.num_q_heads, strides.head, layout.k_dim) * bytes,
        '\xff');
    for (uint64_t token = 0; token < tokens; ++token) {
      for (uint64_t h = 0; h < args.num_q_heads; ++h) {
        std::memcpy(&spread[(token * strides.token + h * strides.head) * bytes],
                    &q[(token * args.num_q_heads + h) * layout.k_dim * bytes], layout.k_dim * bytes);
      }
    }
    return spread;
  }

  std::vector<uint8_t> on_cpu(const Choice& choice) const {
    std::vector<uint8_t> result = mask;
    const kvc_backend_selection own = {bounds.data(),
                                       choice.top_k,
                                       choice.ratio,
                                       choice.sink_blocks,
                                       choice.recent_blocks,
                                       result.data(),
                                       stride,
                                       choice.threshold,
                                       0};
    const ParallelFor serial = {[](void*, size_t count, void (*job)(void*, size_t, size_t), void* data) {
                                  for (size_t i = 0; i < count; ++i) job(data, i, 0);
                                },
                                nullptr, 1};
    std::vector<char> memory(selection_scratch_bytes(args) + 64);
    char* const scratch = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    select_blocks(args, own, serial, scratch);
    return result;
  }

  Case scene;
  Layout layout;
  kvc::AttentionArgs args;
  std::vector<char> q;            // contiguous, as the CPU reads them
  kvc::test::RowStrides strides;  // on the device
  std::vector<uint16_t> bounds;
  std::vector<uint8_t> mask;  // as it is before
  size_t stride;
};

// The same on the device. `shifted`: bounds that are not aligned as vectors.
class DeviceChoice {
 public:
  DeviceChoice(const Problem& problem, const DeviceOptions& options, bool shifted)
      : limits_(limits_of(problem.args, options)), mask_(problem.mask) {
    const kvc::AttentionArgs& host = problem.args;
    AttentionArgs& a = args_.attention;
    a = scalars_of(host);
    const std::vector<char> q = problem.spread_queries();
    a.q = copies_.of(q.data(), q.size());
    a.q_token_stride = problem.strides.token, a.q_head_stride = problem.strides.head;
    a.q_offsets = copies_.of(host.q_offsets, host.num_requests + 1);
    a.q_starts = copies_.of(host.q_starts, host.num_requests);
    a.kv_lens = copies_.of(host.kv_lens, host.num_requests);
    a.block_tables = copies_.of(host.block_tables, host.num_requests * host.table_stride);
    std::vector<uint16_t> bounds = problem.bounds;
    if (shifted) bounds.insert(bounds.begin(), uint16_t{0x7E00});
    args_.bounds = copies_.of(bounds.data(), bounds.size()) + (shifted ? 1 : 0);
    args_.block_mask = mask_.data(), args_.block_mask_stride = problem.stride;
  }

  std::vector<uint8_t> choose(const Problem& problem, const Choice& choice) {
    mask_.set(problem.mask);
    args_.top_k = choice.top_k, args_.ratio = choice.ratio, args_.threshold = choice.threshold;
    args_.sink_blocks = choice.sink_blocks;
    args_.recent_blocks = choice.recent_blocks;
    if (!workspace_) workspace_.emplace(selection_workspace_bytes(args_, limits_));
    workspace_->set(std::vector<char>(workspace_->size(), '\xff'));
    EXPECT_EQ(launch_selection(args_, limits_, workspace_->data(), nullptr), 0);
    return mask_.get();
  }
  void set_lengths(const std::vector<uint64_t>& lens) {
    copy_in(const_cast<uint64_t*>(args_.attention.kv_lens), lens.data(), lens.size() * sizeof lens[0]);
  }

 private:
  SelectionArgs args_ = {};
  AttentionLimits limits_;
  Copies copies_;
  DeviceArray<uint8_t> mask_;
  std::optional<DeviceArray<char>> workspace_;
};

class SelectTest : public KernelTest {
 protected:
  uint64_t below(uint64_t n) { return random() % n; }

  Options any_options() {
    Options o;
    o.q_dtype = std::vector<int32_t>{KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16}[below(3)];
    o.k_dim = std::vector<uint32_t>{7, 8, 16, 20, 64, 72}[below(6)];
    o.v_dim = 4;
    using kvc::test::Rows;
    o.q_rows = std::vector<Rows>{Rows::kContiguous, Rows::kFused, Rows::kPadded, Rows::kHeadMajor}[below(4)];
    o.heads = 1 + static_cast<uint32_t>(below(3));
    o.group = std::vector<uint32_t>{1, 2, 3, 8, 11}[below(5)];
    o.block_size = std::vector<uint32_t>{1, 3, 16, 32}[below(4)];
    o.causal = below(4) != 0;
    if (below(3) == 0) o.window = 1 + below(40 * o.block_size), o.sinks = below(12 * o.block_size);
    o.kv_lens.clear(), o.q_lens.clear();
    const bool starts = below(3) == 0;
    for (uint64_t r = 0, n = 1 + below(4); r < n; ++r) {
      const uint64_t len = below(8) == 0 ? below(3) : below(150 * o.block_size);
      o.kv_lens.push_back(len);
      o.q_lens.push_back(below(6) == 0 ? below(20) : 1);
      if (starts) o.q_starts.push_back(below(len + 10));
      if (!starts && o.causal) o.q_lens[r] = std::min(o.q_lens[r], len);
    }
    return o;
  }
  Choice any_choice() {
    const uint64_t top_k = below(8) == 0 ? UINT64_MAX : below(8) == 0 ? 150 : 1 + below(40);
    Choice choice = {top_k, below(5) == 0 ? UINT64_MAX - below(2) : below(4),
                     below(9) == 0 ? UINT64_MAX : below(6)};
    const uint64_t ratios[] = {1, uint64_t{1} << 30, (uint64_t{1} << 32) - 1, uint64_t{1} << 32};
    const uint64_t mode = below(3);
    if (mode != 0) choice.top_k = 0;
    if (mode == 1) choice.ratio = below(2) == 0 ? ratios[below(4)] : 1 + below(uint64_t{1} << 32);
    if (mode == 2) choice.threshold = static_cast<float>(1 + below(40)) / 4;
    return choice;
  }
  void expect_same(Problem& problem, const std::string& text) {
    DeviceChoice device(problem, {.multiprocessors = 1 + static_cast<uint32_t>(below(4))}, below(3) == 0);
    for (int i = 0; i < 3; ++i) {
      const Choice choice = any_choice();
      ASSERT_EQ(device.choose(problem, choice), problem.on_cpu(choice))
          << text << ", top " << choice.top_k << ", ratio " << choice.ratio << " / 2^32, threshold "
          << choice.threshold << ", sinks " << choice.sink_blocks << ", recent " << choice.recent_blocks;
    }
  }
};

TEST_F(SelectTest, PicksWhatTheCpuPicks) {
  for (int i = 0; i < rounds(30); ++i) {
    const Options options = any_options();
    Problem problem(options, random);
    if (options.k_dim == 16 || options.k_dim == 64) problem.layout.hadamard = below(2) != 0;  // exact
    ASSERT_NO_FATAL_FAILURE(expect_same(problem, describe(options)));
  }
}

TEST_F(SelectTest, ManyBlocksAndManyQueries) {
  Options options;
  options.k_dim = 8, options.v_dim = 4, options.block_size = 1, options.heads = 1;
  options.kv_lens = {5000, 3, 700}, options.q_lens = {1, 1, 40};
  Problem problem(options, random);
  ASSERT_NO_FATAL_FAILURE(expect_same(problem, describe(options)));
}

TEST_F(SelectTest, RowsThatHardlyFitAreTakenOneByOne) {
  Options options;
  options.k_dim = 8192, options.v_dim = 4, options.block_size = 1, options.heads = 1;
  options.kv_lens = {90}, options.q_lens = {2};
  Problem problem(options, random);
  ASSERT_NO_FATAL_FAILURE(expect_same(problem, describe(options)));
}

// All bounds are equal, or all but one: the first blocks are picked, and what is better comes before them.
TEST_F(SelectTest, OfEqualBlocksTheFirstArePicked) {
  Options options;
  options.kv_lens = {160 * 16}, options.heads = 1;
  Problem problem(options, random);
  std::fill(problem.bounds.begin(), problem.bounds.end(), uint16_t{0x3C00});
  for (size_t i = 0; i < problem.q.size(); i += 4) std::memcpy(&problem.q[i], "\0\0\x80\x3f", 4);  // ones
  problem.args.scale = 1;
  const auto expect_picked = [&](auto&& expected) {
    const std::vector<uint8_t> mask = DeviceChoice(problem, {}, false).choose(problem, {40, 0, 1});
    for (uint64_t block = 0; block < 160; ++block)
      EXPECT_EQ((mask[block / 8] >> block % 8 & 1) != 0, expected(block)) << block;
  };
  expect_picked([](uint64_t block) { return block < 39 || block == 159; });
  const auto better = static_cast<size_t>(problem.args.block_tables[111]) * 2 * problem.layout.k_dim;
  problem.bounds[better] = 0x4000;
  expect_picked([](uint64_t block) { return block < 38 || block == 111 || block == 159; });
}

// What was launched may be launched again with other lengths, within those that there was room for.
TEST_F(SelectTest, LengthsAreReadWhenItRuns) {
  Options options;
  options.kv_lens = {1600, 900, 1200}, options.q_lens = {1, 1, 1}, options.k_dim = 16;
  Problem problem(options, random);
  DeviceChoice device(problem, {}, false);
  const Choice choice = {12, 1, 2};
  for (int i = 0; i < 5; ++i) {
    std::vector<uint64_t> lens = options.kv_lens;
    for (uint64_t& len : lens) len = 1 + below(len);
    problem.args.kv_lens = lens.data();
    device.set_lengths(lens);
    ASSERT_EQ(device.choose(problem, choice), problem.on_cpu(choice));
  }
}

// Of a request that is longer than there was room for nothing is read or written.
TEST_F(SelectTest, RequestsBeyondTheBoundsAreLeftAlone) {
  Options options;
  options.kv_lens = {1600, 900, 1200}, options.q_lens = {1, 1, 1}, options.k_dim = 16;
  Problem problem(options, random);
  DeviceChoice device(problem, {}, false);
  const Choice choice = {12, 1, 2};
  const std::vector<uint8_t> expected = problem.on_cpu(choice);
  const size_t of_request = problem.layout.num_heads * problem.stride;
  for (const uint64_t length : {uint64_t{1601}, uint64_t{1} << 31, ~uint64_t{0}}) {
    for (size_t r = 0; r < options.kv_lens.size(); ++r) {
      std::vector<uint64_t> lens = options.kv_lens;
      lens[r] = length;
      device.set_lengths(lens);
      const std::vector<uint8_t> mask = device.choose(problem, choice);
      for (size_t i = 0; i < mask.size(); ++i)
        ASSERT_EQ(mask[i], (i / of_request == r ? problem.mask : expected)[i])
            << "request " << r << ", byte " << i;
    }
  }
}

}  // namespace
}  // namespace kvc::gpu::test
