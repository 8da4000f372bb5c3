// SPDX-License-Identifier: Apache-2.0
// Keys with a scale per channel against a model of open and quantized blocks, after every call.
#include <cmath>
#include <deque>

#include "api/channels.h"

namespace kvc::test {
namespace {

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
    if (tokens == all || std::count(block.stored.begin(), block.stored.end(), false) == 0) quantize(b);
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
    if (blocks_[b].open) quantize(b);
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
    if (opened_.size() == c_.residual_blocks) quantize(opened_.front());
  }
  void quantize(size_t b) {
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
    uint32_t flags, channel_tokens, residual_blocks;
  } cases[] = {{KVC_INT8, 0, 0, 1},
               {KVC_INT8, KVC_STORAGE_ASYMMETRIC, 2, 2},
               {KVC_INT4, 0, 4, 3},
               {KVC_INT4, KVC_STORAGE_ASYMMETRIC, 0, 7}};
  size_t opened = 0, quantized = 0;
  for (const auto& test : cases)
    for (const uint32_t layout : kLayouts) {
      kvc_storage_config c = channel_config(test.dtype, test.flags);
      c.layout = layout, c.channel_tokens = test.channel_tokens, c.residual_blocks = test.residual_blocks;
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
          ASSERT_EQ(kvc_storage_quantize_blocks(s.get(), &block, 1, nullptr), KVC_OK);
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
        bool any_residual[7] = {};
        for (uint32_t l = 0; l < c.num_layers; ++l) {
          const std::vector<float> keys = keys_of(s.get(), l);
          for (size_t at = 0; at < c.num_blocks; ++at) {
            any_residual[at] = any_residual[at] || model[l].open(at);
            const std::vector<float>& wanted = model[l].rows(at);
            for (size_t e = 0; e < wanted.size(); ++e)
              ASSERT_NEAR(keys[at * wanted.size() + e], wanted[e], 1e-5)
                  << "step " << step << " layer " << l << " block " << at << " element " << e;
          }
        }
        for (int32_t at = 0; at < 7; ++at) {
          ASSERT_EQ(is_residual(s.get(), at), any_residual[at]) << "step " << step << " block " << at;
          (any_residual[at] ? opened : quantized) += 1;
        }
      }
    }
  EXPECT_GT(opened, 500u);
  EXPECT_GT(quantized, 500u);
}

}  // namespace
}  // namespace kvc::test
