// SPDX-License-Identifier: Apache-2.0
// The keys and values of a case in other memory: one of the storage's own layouts, or blocks far apart.
#pragma once
#include "attention/case.h"
#include "gpu/device.h"

namespace kvc::gpu::test {

class Relaid {
 public:
  // `block_bytes`: from one block to the next at least; 0 = side by side.
  Relaid(const kvc::AttentionArgs& from, uint32_t preset, uint64_t block_bytes) {
    const Layout& old = *from.layout;
    LayoutShape shape = {};
    shape.preset = preset, shape.dtype = old.k.dtype, shape.num_layers = old.num_layers;
    shape.num_heads = old.num_heads, shape.block_size = old.block_size, shape.num_blocks = old.num_blocks;
    shape.k_dim = old.k_dim, shape.v_dim = old.v_dim, shape.scale_group = old.scale_group;
    shape.asymmetric = old.asymmetric, shape.alignment = 64;
    layout_ = make_layout(shape);
    if (block_bytes != 0) {
      for (int p = 0; p < kNumPlanes; ++p) layout_.plane(p).block = block_bytes;
      layout_.slab_bytes = old.num_blocks * block_bytes;
      for (int p = 0; p < kNumPlanes; ++p) layout_.plane(p).layer = layout_.cell_bytes;
    }
    slab_ = static_cast<char*>(device_allocate(layout_.slab_bytes));
    for (int p = 0; p < kNumPlanes; ++p) copy_plane(from, old.plane(p), layout_.plane(p));
  }
  ~Relaid() { device_free(slab_, layout_.slab_bytes); }
  Relaid(const Relaid&) = delete;
  Relaid& operator=(const Relaid&) = delete;

  const Layout& layout() const { return layout_; }
  const char* slab() const { return slab_; }  // the device's

 private:
  void copy_plane(const kvc::AttentionArgs& from, const Plane& old, const Plane& plane) {
    if (!plane.exists()) return;
    for (uint64_t b = 0; b < layout_.num_blocks; ++b) {
      for (uint32_t h = 0; h < layout_.num_heads; ++h) {
        for (uint32_t t = 0; t < layout_.block_size; ++t) {
          copy_in(slab_ + plane.offset(from.layer, b, h, t), from.slab + old.offset(from.layer, b, h, t),
                  plane.row_bytes);
        }
      }
    }
  }

  Layout layout_;
  char* slab_;
};

}  // namespace kvc::gpu::test
