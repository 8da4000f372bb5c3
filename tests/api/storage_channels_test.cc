// SPDX-License-Identifier: Apache-2.0
// Keys with a scale per channel: against a model of open and sealed blocks after every call, and the promises
// of the header one by one.
#include <cmath>
#include <cstring>
#include <deque>
#include <thread>

#include "api/storage.h"

namespace kvc::test {
namespace {

float bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  std::memcpy(&x, &bits, 4);
  return x;
}

kvc_storage_config channel_config(int32_t dtype = KVC_INT8, uint32_t flags = 0) {
  kvc_storage_config c = base_config();
  c.dtype = dtype;
  c.flags = KVC_STORAGE_CHANNEL_KEYS | flags;
  return c;
}

std::vector<int64_t> slots_of_block(int64_t block, int64_t begin, int64_t end, int64_t block_size = 4) {
  std::vector<int64_t> slots;
  for (int64_t t = begin; t < end; ++t) slots.push_back(block * block_size + t);
  return slots;
}

void store(kvc_storage* s, const Rows& rows) {
  ASSERT_EQ(kvc_storage_store(s, &rows.rows, nullptr), KVC_OK) << kvc_last_error();
}

bool is_open(kvc_storage* s, int32_t block) {
  kvc_run runs[64];
  size_t count;
  return kvc_storage_runs(s, block, nullptr, runs, 64, &count) == KVC_ERROR_BUSY;
}

// Keys of all slots in one layer, as float.
std::vector<float> keys_of(kvc_storage* s, uint32_t layer) {
  const kvc_storage_info info = info_of(s);
  Rows out(info, KVC_FLOAT32, slots_of_block(0, 0, static_cast<int64_t>(info.num_blocks * info.block_size)),
           1);
  out.rows.first_layer = layer;
  EXPECT_EQ(kvc_storage_gather(s, &out.rows, nullptr), KVC_OK);
  const auto* k = reinterpret_cast<const float*>(out.k.data());
  return {k, k + out.k.size() / 4};
}

// One layer of a storage, written from the header: rows are [block][token][head][element].
class LayerModel {
 public:
  LayerModel(const kvc_storage_config& c) : c_(c), blocks_(c.num_blocks) {
    for (Block& block : blocks_) block.rows.assign(c.block_size * row(), 0);
  }
  size_t row() const { return size_t{c_.num_heads} * c_.head_dim; }

  // Tokens of one block that follow each other in a call; `tokens` are places in the block.
  void store(size_t b, const std::vector<size_t>& tokens, const float* rows) {
    Block& block = blocks_[b];
    std::vector<size_t> all(c_.block_size);
    for (size_t t = 0; t < all.size(); ++t) all[t] = t;
    if (tokens != all) {
      if (!block.open) {
        block.stored.assign(c_.block_size, false);
        const size_t first = *std::min_element(tokens.begin(), tokens.end());
        for (size_t t = 0; t < first && !block.empty; ++t) block.stored[t] = true;
        for (float& x : block.rows) x = bf16(x);
        make_room();
      }
      touch(b);
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
      for (size_t e = 0; e < row(); ++e) block.rows[tokens[i] * row() + e] = bf16(rows[i * row() + e]);
      if (tokens != all) block.stored[tokens[i]] = true;
    }
    if (tokens == all || std::count(block.stored.begin(), block.stored.end(), false) == 0) seal(b);
  }
  void store_all(const std::vector<int64_t>& slots, const float* rows) {
    for (size_t at = 0, end; at < slots.size(); at = end) {
      std::vector<size_t> tokens;
      for (end = at; end < slots.size() && slots[end] / 4 == slots[at] / 4 && slots[end] >= 0; ++end)
        tokens.push_back(static_cast<size_t>(slots[end] % 4));
      if (tokens.empty()) {
        ++end;
      } else {
        store(static_cast<size_t>(slots[at] / 4), tokens, rows + at * row());
      }
    }
  }
  void copy(size_t from, size_t to) {
    close(to);
    if (blocks_[from].open) {
      touch(from);
      make_room();
    }
    blocks_[to] = blocks_[from];
    if (blocks_[to].open) touch(to);
  }
  void zero(size_t b) {
    close(b);
    blocks_[b] = Block{};
    blocks_[b].rows.assign(c_.block_size * row(), 0);
  }
  void seal_if_open(size_t b) {
    if (blocks_[b].open) seal(b);
  }
  bool open(size_t b) const { return blocks_[b].open; }
  const std::vector<float>& rows(size_t b) const { return blocks_[b].rows; }

 private:
  struct Block {
    std::vector<float> rows;
    std::vector<bool> stored;
    bool open = false, empty = true;
  };

  void close(size_t b) {
    blocks_[b].open = false;
    std::erase(opened_, b);
  }
  void touch(size_t b) {
    close(b);
    blocks_[b].open = true;
    opened_.push_back(b);
  }
  void make_room() {
    if (opened_.size() == c_.open_blocks) seal(opened_.front());
  }
  void seal(size_t b) {
    Block& block = blocks_[b];
    const size_t group = c_.channel_tokens == 0 ? c_.block_size : c_.channel_tokens;
    const bool offset = (c_.flags & KVC_STORAGE_ASYMMETRIC) != 0;
    const float top = c_.dtype == KVC_INT8 ? (offset ? 255.0f : 127.0f) : offset ? 15.0f : 7.0f;
    for (size_t from = 0; from < c_.block_size; from += group)
      for (size_t e = 0; e < row(); ++e) {
        float lo = block.rows[from * row() + e], hi = lo;
        for (size_t t = from; t < from + group; ++t) {
          lo = std::min(lo, block.rows[t * row() + e]), hi = std::max(hi, block.rows[t * row() + e]);
        }
        const float scale = offset ? (hi - lo) / top : std::max(hi, -lo) / top, zero = offset ? lo : 0;
        const float inverse = scale > 0 ? 1 / scale : 0;
        for (size_t t = from; t < from + group; ++t) {
          float& x = block.rows[t * row() + e];
          x = std::nearbyint((x - zero) * inverse) * scale + zero;
        }
      }
    close(b);
    block.empty = false;
  }

  const kvc_storage_config c_;
  std::vector<Block> blocks_;
  std::deque<size_t> opened_;
};

TEST(ChannelKeys, BehaveAsTheModelInAnyOrderOfCalls) {
  std::mt19937 random(11);
  const auto below = [&](size_t n) { return random() % n; };
  const struct {
    int32_t dtype;
    uint32_t flags, channel_tokens, open_blocks;
  } cases[] = {{KVC_INT8, 0, 0, 1},
               {KVC_INT8, KVC_STORAGE_ASYMMETRIC, 2, 2},
               {KVC_INT4, 0, 4, 3},
               {KVC_INT4, KVC_STORAGE_ASYMMETRIC, 0, 7}};
  size_t opened = 0, sealed = 0;
  for (const auto& test : cases)
    for (const uint32_t layout : kLayouts) {
      kvc_storage_config c = channel_config(test.dtype, test.flags);
      c.layout = layout, c.channel_tokens = test.channel_tokens, c.open_blocks = test.open_blocks;
      c.head_dim = 5, c.num_threads = 1 + layout % 2;
      const StoragePtr s = make(c);
      const kvc_storage_info info = info_of(s.get());
      std::vector<LayerModel> model(c.num_layers, LayerModel(c));
      for (int step = 0; step < 120; ++step) {
        const size_t b = below(c.num_blocks), what = below(12);
        if (what == 0) {
          const auto block = static_cast<int32_t>(b);
          ASSERT_EQ(kvc_storage_zero_blocks(s.get(), &block, 1, nullptr), KVC_OK);
          for (LayerModel& layer : model) layer.zero(b);
        } else if (what == 1) {
          const auto block = static_cast<int32_t>(b);
          ASSERT_EQ(kvc_storage_seal_blocks(s.get(), &block, 1, nullptr), KVC_OK);
          for (LayerModel& layer : model) layer.seal_if_open(b);
        } else if (what < 4) {
          const kvc_block_copy copy = {static_cast<int32_t>(b), static_cast<int32_t>(below(c.num_blocks))};
          ASSERT_EQ(kvc_storage_copy_blocks(s.get(), &copy, 1, nullptr), KVC_OK);
          for (LayerModel& layer : model)
            if (copy.source != copy.destination) layer.copy(b, static_cast<size_t>(copy.destination));
        } else {  // runs in some blocks, in order or not, in some layers
          std::vector<int64_t> slots;
          for (size_t run = 0, count = 1 + below(4); run < count; ++run) {
            const size_t block = (b + run) % c.num_blocks, whole = below(3);
            const size_t from = whole == 0 ? 0 : below(4), to = whole == 0 ? 4 : from + 1 + below(4 - from);
            for (size_t t = from; t < to; ++t) slots.push_back(static_cast<int64_t>(block * 4 + t));
          }
          if (below(3) == 0) std::shuffle(slots.begin(), slots.end(), random);
          if (below(3) == 0) slots.insert(slots.begin() + static_cast<ptrdiff_t>(below(slots.size())), -1);
          const auto first = static_cast<uint32_t>(below(3));
          Rows rows(info, KVC_FLOAT32, slots, static_cast<uint32_t>(1 + below(3 - first)));
          rows.rows.first_layer = first;
          rows.fill(random);
          store(s.get(), rows);
          const auto* k = reinterpret_cast<const float*>(rows.k.data());
          for (uint32_t l = 0; l < rows.rows.num_layers; ++l)
            model[first + l].store_all(slots, k + l * slots.size() * model[0].row());
        }
        bool any_open[7] = {};
        for (uint32_t l = 0; l < c.num_layers; ++l) {
          const std::vector<float> keys = keys_of(s.get(), l);
          for (size_t at = 0; at < c.num_blocks; ++at) {
            any_open[at] = any_open[at] || model[l].open(at);
            const std::vector<float>& wanted = model[l].rows(at);
            for (size_t e = 0; e < wanted.size(); ++e)
              ASSERT_NEAR(keys[at * wanted.size() + e], wanted[e], 1e-5)
                  << "step " << step << " layer " << l << " block " << at << " element " << e;
          }
        }
        for (int32_t at = 0; at < 7; ++at) {
          ASSERT_EQ(is_open(s.get(), at), any_open[at]) << "step " << step << " block " << at;
          (any_open[at] ? opened : sealed) += 1;
        }
      }
    }
  EXPECT_GT(opened, 500u);
  EXPECT_GT(sealed, 500u);
}

TEST(ChannelKeys, AreTheSameBytesInOneCallAndTokenByToken) {
  std::mt19937 random(12);
  for (const uint32_t layout : kLayouts)
    for (const uint32_t flags : {0u, uint32_t{KVC_STORAGE_ASYMMETRIC}})
      for (const uint32_t threads : {1u, 3u}) {
        kvc_storage_config c = channel_config(KVC_INT4, flags);
        c.layout = layout, c.num_threads = threads, c.block_size = 8, c.channel_tokens = 4;
        c.num_blocks = 70;  // several passes
        const StoragePtr one = make(c), many = make(c);
        const kvc_storage_info info = info_of(one.get());
        Rows all(info, KVC_FLOAT32, slots_of_block(0, 0, 560), 2);
        all.fill(random);
        store(one.get(), all);
        for (int64_t t = 0; t < 560; t += 7) {
          Rows part = all;
          part.rows.slots = all.slots.data() + t;
          part.rows.num_tokens = 7;
          part.rows.k = part.k.data() + t * info.num_heads * info.head_dim * 4;
          part.rows.v = part.v.data() + t * info.num_heads * info.v_head_dim * 4;
          part.rows.k_layer_stride = 560 * info.num_heads * info.head_dim;
          part.rows.v_layer_stride = 560 * info.num_heads * info.v_head_dim;
          store(many.get(), part);
        }
        EXPECT_EQ(bytes_of(one.get()), bytes_of(many.get())) << "layout " << layout;
        EXPECT_FALSE(is_open(many.get(), 69));
      }
}

TEST(ChannelKeys, OfAnOpenBlockComeBackBitByBit) {
  std::mt19937 random(13);
  const StoragePtr s = make(channel_config());
  const kvc_storage_info info = info_of(s.get());
  Rows in(info, KVC_BFLOAT16, slots_of_block(5, 0, 3), 3), out(info, KVC_BFLOAT16, in.slots, 3);
  in.fill(random);
  store(s.get(), in);
  ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
  EXPECT_EQ(in.k, out.k);
  Rows last(info, KVC_BFLOAT16, slots_of_block(5, 3, 4), 3);
  last.fill(random);
  store(s.get(), last);
  ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
  EXPECT_NE(in.k, out.k) << "sealed, and so quantized";
}

TEST(ChannelKeys, OfATruncatedBlockAreQuantizedOnceMore) {
  std::mt19937 random(14);
  const StoragePtr s = make(channel_config());
  const kvc_storage_info info = info_of(s.get());
  Rows all(info, KVC_FLOAT32, slots_of_block(2, 0, 4), 3), end(info, KVC_FLOAT32, slots_of_block(2, 1, 4), 3);
  all.fill(random), end.fill(random);
  store(s.get(), all);
  EXPECT_FALSE(is_open(s.get(), 2));
  for (int64_t t = 1; t < 4; ++t) {
    Rows one = end;
    one.rows.slots = &end.slots[static_cast<size_t>(t - 1)], one.rows.num_tokens = 1;
    one.rows.k = one.k.data() + (t - 1) * info.num_heads * info.head_dim * 4;
    one.rows.v = one.v.data() + (t - 1) * info.num_heads * info.v_head_dim * 4;
    one.rows.k_layer_stride = 3 * info.num_heads * info.head_dim;
    one.rows.v_layer_stride = 3 * info.num_heads * info.v_head_dim;
    store(s.get(), one);
    EXPECT_EQ(is_open(s.get(), 2), t < 3);
  }
  Rows out(info, KVC_FLOAT32, slots_of_block(2, 0, 4), 3);
  ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
  const size_t token = info.num_heads * info.head_dim;
  const auto* x = reinterpret_cast<const float*>(out.k.data());
  for (size_t l = 0; l < 3; ++l)
    for (size_t i = 0; i < 4 * token; ++i) {
      const auto* kept = reinterpret_cast<const float*>(all.k.data());
      const auto* fresh = reinterpret_cast<const float*>(end.k.data());
      const float wanted = i < token ? kept[l * 4 * token + i] : fresh[l * 3 * token + i - token];
      EXPECT_NEAR(x[l * 4 * token + i], wanted, 2 * 5.0 / 254 + 0.02) << "twice half a step, and bf16";
    }
}

TEST(ChannelKeys, KeepAnOutlierChannelToItself) {
  std::mt19937 random(15);
  const auto snr_of = [&](uint32_t flags) {
    kvc_storage_config c = base_config();
    c.dtype = KVC_INT4, c.flags = flags, c.block_size = 16, c.head_dim = 32;
    const StoragePtr s = make(c);
    Rows in(info_of(s.get()), KVC_FLOAT32, slots_of_block(0, 0, 112), 3);
    in.fill(random);
    auto* k = reinterpret_cast<float*>(in.k.data());
    for (size_t i = 5; i < in.k.size() / 4; i += 32) k[i] *= 30;
    store(s.get(), in);
    for (size_t i = 5; i < in.k.size() / 4; i += 32) k[i] = std::nanf("");  // measure the others
    kvc_quant_metrics keys = {};
    keys.struct_size = sizeof keys;
    EXPECT_EQ(kvc_storage_measure(s.get(), &in.rows, &keys, nullptr), KVC_OK) << kvc_last_error();
    return keys.snr_db;
  };
  const double per_row = snr_of(0), per_channel = snr_of(KVC_STORAGE_CHANNEL_KEYS);
  EXPECT_LT(per_row, 5);
  EXPECT_GT(per_channel, 18);
}

TEST(ChannelKeys, TakeWhatTheInfoSays) {
  kvc_storage_config c = channel_config(KVC_INT4);
  c.block_size = 8, c.channel_tokens = 4, c.num_blocks = 100;
  const kvc_storage_info info = info_of(make(c).get());
  EXPECT_EQ(info.channel_tokens, 4u);
  EXPECT_EQ(info.open_blocks, 64u);
  EXPECT_EQ(info.open_bytes, 64u * 3 * 2 * 8 * 20 * 2);
  EXPECT_EQ(info.token_bytes, 3u * 2 * (10 + 20 * 4 / 4 + 6 + 4));
  c.num_blocks = 7, c.channel_tokens = 0;
  EXPECT_EQ(info_of(make(c).get()).open_blocks, 7u);
  EXPECT_EQ(info_of(make(c).get()).channel_tokens, 8u);
}

TEST(ChannelKeys, OfForeignMemoryAreTakenAsSealed) {
  std::mt19937 random(16);
  kvc_storage_config c = channel_config();
  uint64_t slab_bytes = 0;
  ASSERT_EQ(kvc_storage_size(&c, nullptr, &slab_bytes), KVC_OK);
  std::vector<char> memory(slab_bytes + 64);
  c.memory = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  c.memory_size = slab_bytes;
  std::vector<float> before;
  {
    const StoragePtr s = make(c);
    Rows in(info_of(s.get()), KVC_FLOAT32, slots_of_block(0, 0, 27), 3);  // the last one stays open
    in.fill(random);
    store(s.get(), in);
    const int32_t last = 6;
    ASSERT_EQ(kvc_storage_seal_blocks(s.get(), &last, 1, nullptr), KVC_OK);
    before = keys_of(s.get(), 1);
  }
  EXPECT_EQ(keys_of(make(c).get(), 1), before);
}

TEST(ChannelKeys, AreSealedInTheOrderOfTheirStream) {
  std::mt19937 random(18);
  const StoragePtr s = make(channel_config());
  const kvc_storage_info info = info_of(s.get());
  kvc_stream* stream = nullptr;
  ASSERT_EQ(kvc_stream_create("cpu", &stream), KVC_OK) << kvc_last_error();
  Rows in(info, KVC_FLOAT32, slots_of_block(3, 0, 2), 3);
  in.fill(random);
  int32_t block = 3;
  ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, stream), KVC_OK);
  ASSERT_EQ(kvc_stream_synchronize(stream), KVC_OK);
  EXPECT_TRUE(is_open(s.get(), 3));
  ASSERT_EQ(kvc_storage_seal_blocks(s.get(), &block, 1, stream), KVC_OK);
  block = 6;  // was copied at the call
  ASSERT_EQ(kvc_stream_synchronize(stream), KVC_OK);
  EXPECT_FALSE(is_open(s.get(), 3));
  kvc_stream_destroy(stream);
}

TEST(ChannelKeys, ViewsShowSealedCodesAndTheirScales) {
  std::mt19937 random(17);
  kvc_storage_config c = channel_config();
  c.block_size = 8, c.channel_tokens = 4;
  for (const uint32_t layout : kLayouts) {
    c.layout = layout;
    const StoragePtr s = make(c);
    Rows in(info_of(s.get()), KVC_FLOAT32, slots_of_block(0, 0, 56), 3);
    in.fill(random);
    store(s.get(), in);
    const std::vector<float> keys = keys_of(s.get(), 1);
    kvc_view codes, scales;
    ASSERT_EQ(kvc_storage_view(s.get(), KVC_PLANE_K, 1, &codes), KVC_OK);
    ASSERT_EQ(kvc_storage_view(s.get(), KVC_PLANE_K_SCALE, 1, &scales), KVC_OK);
    EXPECT_EQ(scales.shape[2], 2);
    EXPECT_EQ(scales.shape[3], 20);
    for (int64_t i = 0; i < 7 * 2 * 8 * 20; ++i) {
      const int64_t e = i % 20, h = i / 20 % 2, t = i / 40 % 8, b = i / 320;
      const auto* code = static_cast<const signed char*>(codes.data) + b * codes.strides[0] +
                         h * codes.strides[1] + t * codes.strides[2] + e * codes.strides[3];
      float scale;
      std::memcpy(&scale,
                  static_cast<const char*>(scales.data) + b * scales.strides[0] + h * scales.strides[1] +
                      t / 4 * scales.strides[2] + e * scales.strides[3],
                  sizeof scale);
      ASSERT_EQ(*code * scale, keys[static_cast<size_t>(i)]) << "layout " << layout << " element " << i;
    }
  }
}

// Each thread has its own blocks, but they share the areas: a store of one seals what another has open.
TEST(ChannelKeys, OfThreadsWithBlocksOfTheirOwnStayRight) {
  kvc_storage_config c = channel_config();
  c.open_blocks = 2, c.num_blocks = 8, c.num_threads = 2, c.num_layers = 1;
  const StoragePtr s = make(c);
  const kvc_storage_info info = info_of(s.get());
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(static_cast<unsigned>(i));
      const std::vector<int64_t> slots = slots_of_block(0, 8 * i, 8 * i + 8);
      for (int round = 0; round < 30; ++round) {
        Rows in(info, KVC_FLOAT32, slots, 1), out(info, KVC_FLOAT32, slots, 1);
        in.fill(random);
        for (size_t t = 0; t < 8; ++t) {
          kvc_rows one = in.rows;
          one.slots += t, one.num_tokens = 1;
          one.k = in.k.data() + t * info.num_heads * info.head_dim * 4;
          one.v = in.v.data() + t * info.num_heads * info.v_head_dim * 4;
          ASSERT_EQ(kvc_storage_store(s.get(), &one, nullptr), KVC_OK);
        }
        ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
        for (size_t e = 0; e < in.k.size() / 4; ++e) {
          ASSERT_NEAR(reinterpret_cast<const float*>(out.k.data())[e],
                      reinterpret_cast<const float*>(in.k.data())[e], 0.15);
        }
        const uint64_t offsets[] = {0, 1}, length = 8;
        const int32_t table[] = {static_cast<int32_t>(2 * i), static_cast<int32_t>(2 * i + 1)};
        const std::vector<float> q(info.num_heads * info.head_dim, 0.1f);
        std::vector<float> result(info.num_heads * info.v_head_dim, std::nanf(""));
        kvc_attention a = {};
        a.struct_size = sizeof a, a.q = q.data(), a.out = result.data(), a.num_requests = 1;
        a.q_offsets = offsets, a.kv_lens = &length, a.block_tables = table, a.table_stride = 2;
        a.num_q_heads = info.num_heads;
        ASSERT_EQ(kvc_storage_attend(s.get(), &a, nullptr), KVC_OK) << kvc_last_error();
        for (const float x : result) ASSERT_LT(std::fabs(x), 5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kvc::test
