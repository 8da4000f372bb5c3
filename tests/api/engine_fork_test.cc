// SPDX-License-Identifier: Apache-2.0
// Two streams that fork and join in one capture. The graph may do what both have enqueued at the same time,
// so that no call in one of them may use memory of a call in the other. In test_api on emulated devices, in
// test_gpu_cuda and test_gpu_hip on a GPU.
#include "api/engine_stream.h"
#include "attention_call.h"

namespace kvc::test {
namespace {

constexpr size_t kRequests = 3, kStride = 20, kQHeads = 2 * kHeads;  // blocks of a request
constexpr size_t kTokens = kRequests * kStride * kBlock;

// An array that host and device see.
template <typename T>
class Shared {
 public:
  explicit Shared(size_t size) : size_(size), memory_(engine::device(), size * sizeof(T), KVC_MEMORY_PINNED) {
    std::fill(begin(), end(), T{});
  }
  T* begin() { return memory_.as<T>(); }
  T* end() { return begin() + size_; }

 private:
  size_t size_;
  DeviceMemory memory_;
};

// Every kind of call that may be captured, on blocks and memory of its own: with host arrays, of which a
// graph keeps copies, and with arrays on the device.
class Branch {
 public:
  static constexpr size_t kBlocksEach = kRequests * kStride + 2;

  Branch(kvc_storage* s, size_t index) : s_(s) {
    std::mt19937 random(static_cast<uint32_t>(index) + 1);
    for (size_t i = 0; i < kBlocksEach; ++i) blocks_.push_back(static_cast<int32_t>(index * kBlocksEach + i));
    std::shuffle(blocks_.begin(), blocks_.end(), random);
    for (size_t i = 0; i < kTokens; ++i)
      slots_.push_back(int64_t{blocks_[i / kBlock]} * kBlock + static_cast<int64_t>(i % kBlock));
    std::copy_n(blocks_.begin(), kRequests * kStride, tables_.begin());
    std::normal_distribution<float> normal;
    for (Shared<float>* values : {&k_, &v_, &q_})
      for (float& x : *values) x = normal(random);
    for (size_t r = 0; r < kRequests; ++r) {
      offsets_.begin()[r + 1] = r + 1;
      lens_.begin()[r] = kStride * kBlock - 50 * r - 25 * index;
    }
  }

  void enqueue(kvc_stream* stream) {
    kvc_rows rows = {};
    rows.struct_size = sizeof rows;
    rows.k = k_.begin(), rows.v = v_.begin(), rows.num_tokens = kTokens, rows.slots = slots_.data();
    EXPECT_EQ(kvc_storage_store(s_, &rows, stream), KVC_OK) << kvc_last_error();
    const kvc_block_copy copies[] = {{blocks_[3], blocks_[kBlocksEach - 2]},
                                     {blocks_[5], blocks_[kBlocksEach - 1]}};
    EXPECT_EQ(kvc_storage_copy_blocks(s_, copies, 2, stream), KVC_OK) << kvc_last_error();
    EXPECT_EQ(kvc_storage_key_bounds(s_, 0, blocks_.data(), kRequests * kStride, bounds_.begin(), stream),
              KVC_OK)
        << kvc_last_error();
    AttentionCall a = attention();
    a.out = out_.begin();
    EXPECT_EQ(kvc_storage_attend(s_, &a, stream), KVC_OK) << kvc_last_error();
    kvc_block_choice choice = {};
    choice.struct_size = sizeof choice;
    choice.top_k = 5, choice.block_mask_stride = kMaskBytes;
    choice.bounds = bounds_.begin(), choice.block_mask = mask_.begin();
    EXPECT_EQ(kvc_storage_select_blocks(s_, &a, &choice, stream), KVC_OK) << kvc_last_error();
    a.block_mask = mask_.begin(), a.block_mask_stride = kMaskBytes, a.out = sparse_.begin();
    EXPECT_EQ(kvc_storage_attend(s_, &a, stream), KVC_OK) << kvc_last_error();
    rows.k = back_k_.begin(), rows.v = back_v_.begin();
    EXPECT_EQ(kvc_storage_gather(s_, &rows, stream), KVC_OK) << kvc_last_error();
  }

  // Whether attention of this batch is done in parts, which are merged: then more than the plan is in its
  // workspace.
  bool has_parts() {
    const AttentionCall a = attention();
    kvc_attention_info plan = {};
    plan.struct_size = sizeof plan;
    EXPECT_EQ(kvc_storage_explain(s_, &a, &plan), KVC_OK) << kvc_last_error();
    return plan.scratch_bytes > plan.plan_bytes;
  }

  // All that was computed, and garbage in its place.
  struct Results {
    std::vector<float> floats;
    std::vector<uint8_t> mask;
  };
  Results take() {
    Results all;
    for (Shared<float>* part : {&out_, &sparse_, &back_k_, &back_v_}) {
      all.floats.insert(all.floats.end(), part->begin(), part->end());
      std::fill(part->begin(), part->end(), 99.0f);
    }
    all.mask.assign(mask_.begin(), mask_.end());
    std::fill(mask_.begin(), mask_.end(), uint8_t{0xA5});
    std::fill(bounds_.begin(), bounds_.end(), uint16_t{0x4142});
    return all;
  }

 private:
  static constexpr size_t kMaskBytes = (kStride + 7) / 8;

  AttentionCall attention() {
    AttentionCall a;
    a.q = q_.begin(), a.q_offsets = offsets_.begin(), a.kv_lens = lens_.begin(),
    a.block_tables = tables_.begin();
    a.table_stride = kStride, a.num_requests = kRequests, a.num_q_heads = kQHeads;
    a.run.flags = KVC_LAUNCH_ON_DEVICE, a.run.total_queries = kRequests, a.run.max_queries = 1;
    return a;
  }

  kvc_storage* const s_;
  std::vector<int32_t> blocks_;  // the tables of all requests, and two more
  std::vector<int64_t> slots_;
  Shared<int32_t> tables_{kRequests * kStride};
  Shared<uint64_t> offsets_{kRequests + 1}, lens_{kRequests};
  Shared<float> k_{kTokens * kHeads * kDim}, v_{kTokens * kHeads * kDim}, back_k_{kTokens * kHeads * kDim},
      back_v_{kTokens * kHeads * kDim};
  Shared<float> q_{kRequests * kQHeads * kDim}, out_{kRequests * kQHeads * kDim},
      sparse_{kRequests * kQHeads * kDim};
  Shared<uint16_t> bounds_{2 * kBlocksEach * kHeads * 2 * kDim};
  Shared<uint8_t> mask_{kRequests * kHeads * kMaskBytes};
};

void expect_same(const Branch::Results& got, const Branch::Results& expected, const std::string& what) {
  size_t wrong = 0;
  for (size_t i = 0; i < expected.floats.size(); ++i)
    wrong += std::abs(got.floats[i] - expected.floats[i]) <= 1e-4f ? 0 : 1;
  EXPECT_EQ(wrong, 0u) << what << ": values of " << expected.floats.size();
  EXPECT_TRUE(got.mask == expected.mask) << what << ": the choice of blocks";
}

class EngineFork : public testing::Test {
 protected:
  void SetUp() override {
    if (engine::device() == nullptr) GTEST_SKIP() << "there is no device with graphs";
  }
};

TEST_F(EngineFork, BranchesOfAGraphShareNoMemory) {
  for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16}) {
    kvc_storage_config c = small_config(engine::device());
    c.dtype = dtype, c.num_blocks = 2 * Branch::kBlocksEach;
    const StoragePtr s = make(c);
    Branch left(s.get(), 0), right(s.get(), 1);
    EXPECT_TRUE(left.has_parts()) << "without parts there is less that branches could share";
    const Adopted origin, other;
    std::vector<Branch::Results> expected;
    for (Branch* branch : {&left, &right}) {
      branch->take();
      branch->enqueue(nullptr);
      expected.push_back(branch->take());
    }
    kvc_stream_event* event = nullptr;
    ASSERT_EQ(kvc_stream_event_create(engine::device(), &event), KVC_OK) << kvc_last_error();
    const auto order = [&](const Adopted& before, const Adopted& after) {
      EXPECT_EQ(kvc_stream_event_record(event, before.stream.get()), KVC_OK) << kvc_last_error();
      EXPECT_EQ(kvc_stream_wait_event(after.stream.get(), event), KVC_OK) << kvc_last_error();
    };
    engine::begin_capture(origin.handle);
    order(origin, other);
    left.enqueue(origin.stream.get());
    right.enqueue(other.stream.get());
    order(other, origin);
    void* graph = engine::end_capture(origin.handle);
    ASSERT_NE(graph, nullptr) << "something in the branches cannot be captured";
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      engine::set_seed(seed);
      engine::launch_graph(graph, origin.handle);
      ASSERT_EQ(kvc_stream_synchronize(origin.stream.get()), KVC_OK) << kvc_last_error();
      const std::string what = "dtype " + std::to_string(dtype) + ", seed " + std::to_string(seed);
      expect_same(left.take(), expected[0], what + ", left");
      expect_same(right.take(), expected[1], what + ", right");
    }
    engine::destroy_graph(graph);
    kvc_stream_event_destroy(event);
  }
}

}  // namespace
}  // namespace kvc::test
