// SPDX-License-Identifier: Apache-2.0
#include "storage/channel_keys.h"

#include "quant/quantize.h"

namespace kvc {
namespace {

QuantFormat format_of(const Layout& layout) { return {layout.k.dtype, 0, layout.asymmetric}; }

uint64_t scales_at(const Layout& layout, uint32_t layer, uint64_t block, uint32_t head, uint64_t token) {
  return layout.k_scale.offset(layer, block, head, token / layout.channel_tokens);
}

}  // namespace

void quantize_keys(const Layout& layout, char* slab, uint32_t layer, uint64_t block, uint32_t head,
                   const float* rows) {
  for (uint32_t t = 0; t < layout.block_size; t += layout.channel_tokens) {
    quantize_channels(format_of(layout), rows + size_t{t} * layout.k_dim, layout.channel_tokens, layout.k_dim,
                      slab + layout.k.offset(layer, block, head, t), layout.k.token,
                      reinterpret_cast<float*>(slab + scales_at(layout, layer, block, head, t)));
  }
}

void read_quantized_key(const Layout& layout, const char* slab, uint32_t layer, uint64_t block, uint32_t head,
                        uint64_t token, uint32_t count, float* out) {
  dequantize_channels(format_of(layout), slab + layout.k.offset(layer, block, head, token),
                      reinterpret_cast<const float*>(slab + scales_at(layout, layer, block, head, token)),
                      count, out);
}

}  // namespace kvc
