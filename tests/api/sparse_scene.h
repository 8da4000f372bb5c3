// SPDX-License-Identifier: Apache-2.0
// A scene of attention with the bounds of its blocks, and the masks that a choice of blocks writes.
#pragma once
#include "api/attention_scene.h"
#include "attention_call.h"

namespace kvc::test {

inline float to_float(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const float fraction = static_cast<float>(half & 1023) / 1024;
  const float magnitude = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                          : exponent == 0 ? std::ldexp(fraction, -14)
                                          : std::ldexp(1 + fraction, exponent - 15);
  return half >> 15 != 0 ? -magnitude : magnitude;
}

// Bounds of all blocks that the tables name, and masks with room for every request.
struct Sparse {
  explicit Sparse(Scene& of) : scene(of) {
    bounds.assign(scene.num_blocks * block_bounds(), 0x7e00);  // NaN: what was not asked for stands out
    for (const int32_t block : scene.tables)
      if (block >= 0) blocks.push_back(block);
    std::sort(blocks.begin(), blocks.end());
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    EXPECT_EQ(kvc_storage_key_bounds(scene.storage.get(), Scene::kLayer, blocks.data(), blocks.size(),
                                     bounds.data(), nullptr),
              KVC_OK)
        << kvc_last_error();
    stride = scene.stride / 8 + 2;
    mask.assign(scene.lens.size() * scene.o.heads * stride, 0x55);
    choice.struct_size = sizeof choice;
    choice.bounds = bounds.data(), choice.block_mask = mask.data(), choice.block_mask_stride = stride;
  }

  size_t block_bounds() const { return size_t{scene.o.heads} * 2 * scene.o.dim; }
  const uint16_t* bounds_of(int32_t block, uint32_t head) const {
    return &bounds[static_cast<size_t>(block) * block_bounds() + head * 2 * size_t{scene.o.dim}];
  }
  uint64_t num_blocks(size_t r) const {
    return (scene.lens[r] + scene.o.block_size - 1) / scene.o.block_size;
  }
  bool bit(size_t r, uint32_t head, uint64_t block) const {
    return (mask[(r * scene.o.heads + head) * stride + block / 8] >> block % 8 & 1) != 0;
  }
  uint64_t count(size_t r, uint32_t head) const {
    uint64_t n = 0;
    for (uint64_t b = 0; b < num_blocks(r); ++b) n += bit(r, head, b);
    return n;
  }
  void select(uint64_t top_k, uint64_t sinks = 0, uint64_t recent = 0) {
    choice.top_k = top_k, choice.ratio = choice.threshold = 0;
    select_kept(sinks, recent);
  }
  void select_ratio(double ratio, uint64_t sinks = 0, uint64_t recent = 0) {
    choice.ratio = ratio, choice.top_k = 0, choice.threshold = 0;
    select_kept(sinks, recent);
  }
  void select_close(double threshold, uint64_t sinks = 0, uint64_t recent = 0) {
    choice.threshold = threshold, choice.top_k = 0, choice.ratio = 0;
    select_kept(sinks, recent);
  }
  void select_kept(uint64_t sinks, uint64_t recent) {
    choice.sink_blocks = sinks, choice.recent_blocks = recent;
    ASSERT_EQ(kvc_storage_select_blocks(scene.storage.get(), &scene.a, &choice, nullptr), KVC_OK)
        << kvc_last_error();
  }
  void attend() {
    scene.a.block_mask = mask.data(), scene.a.block_mask_stride = stride;
    scene.attend();
  }
  double distance() {
    return scene.distance(
        [&](size_t r, uint64_t, uint64_t j, uint32_t head) { return bit(r, head, j / scene.o.block_size); });
  }
  // The bound of one block in double precision, over all queries and query heads of a KV head.
  double bound(size_t r, uint32_t head, uint64_t block) const {
    double best = -INFINITY;
    for (uint64_t i = scene.offsets[r]; i < scene.offsets[r + 1]; ++i)
      for (uint32_t g = 0; g < scene.o.group; ++g)
        best = std::max(best, bound_of(i, r, head, head * scene.o.group + g, block));
    return best;
  }
  // The same of one query and query head.
  double bound_of(uint64_t query, size_t r, uint32_t head, uint32_t q_head, uint64_t block) const {
    const uint16_t* of = bounds_of(scene.tables[r * scene.stride + block], head);
    const float* q = &scene.q[(query * scene.q_heads + q_head) * scene.o.dim];
    double sum = 0;
    for (uint32_t e = 0; e < scene.o.dim; ++e) {
      const double x = double{q[e]};
      sum += std::max(x * double{to_float(of[e])}, x * double{to_float(of[scene.o.dim + e])});
    }
    return sum;
  }

  Scene& scene;
  std::vector<int32_t> blocks;
  std::vector<uint16_t> bounds;
  size_t stride;
  std::vector<uint8_t> mask;
  kvc_block_choice choice = {};
};

inline SceneOptions long_ones(int32_t dtype = KVC_FLOAT32, uint32_t flags = 0, uint32_t threads = 1) {
  return {.dtype = dtype, .flags = flags, .threads = threads, .lens = {500, 64, 1}, .queries = {1, 5, 1}};
}

}  // namespace kvc::test
