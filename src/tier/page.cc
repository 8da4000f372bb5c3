// SPDX-License-Identifier: Apache-2.0
#include "tier/page.h"

#include <cstring>

#include "base/checked.h"
#include "base/status.h"

namespace kvc {
namespace {

// Length-framed, so that no two lists of fields give the same bytes.
void add_field(Sha256* sha, const void* data, uint64_t size) {
  sha->update(&size, sizeof size);
  sha->update(data, size);
}
template <typename T>
void add_value(Sha256* sha, const T& value) {
  add_field(sha, &value, sizeof value);
}

// Calls move(byte in the part, plane, layer, head, row): for all rows, in the page's order.
template <typename Move>
void for_each_page_row(const Layout& layout, Move&& move) {
  uint64_t at = 0;
  for (uint32_t layer = 0; layer < layout.num_layers; ++layer) {
    for (int p = 0; p < kNumPlanes; ++p) {
      const Plane& plane = layout.plane(p);
      if (!plane.exists()) continue;
      const uint32_t rows = layout.block_size / layout.tokens_per_row(p);
      // Rows of a head that follow each other are one piece.
      const bool joined = !plane.tiled() && plane.token == plane.row_bytes;
      for (uint32_t head = 0; head < layout.num_heads; ++head) {
        const uint32_t pieces = joined ? 1 : rows;
        const uint64_t bytes = uint64_t{plane.row_bytes} * (joined ? rows : 1);
        for (uint32_t row = 0; row < pieces; ++row, at += bytes) move(at, plane, layer, head, row, bytes);
      }
    }
  }
}

}  // namespace

uint64_t PageShape::layer_bytes() const {
  uint64_t bytes = 0;
  for (int p = 0; p < kNumPlanes; ++p) bytes += head_bytes(p) * num_heads;
  return bytes;
}

kvc_status make_page_shape(const Layout& layout, uint32_t num_layers, uint32_t num_heads, PageShape* out) {
  if (num_layers < layout.num_layers || num_heads < layout.num_heads)
    return invalid("a page of %u layers and %u heads is smaller than the storage's %u and %u", num_layers,
                   num_heads, layout.num_layers, layout.num_heads);
  PageShape shape = {};
  shape.num_layers = num_layers;
  shape.num_heads = num_heads;
  shape.block_size = layout.block_size;
  for (int p = 0; p < kNumPlanes; ++p) {
    const Plane& plane = layout.plane(p);
    if (plane.exists())
      shape.planes[p] = {plane.dtype, plane.row_bytes, plane.num_elements, layout.tokens_per_row(p)};
  }
  shape.latent = layout.latent;
  shape.asymmetric = layout.asymmetric;
  shape.hadamard = layout.hadamard;
  shape.scale_group = layout.scale_group;
  shape.k_factor = layout.k_factor;
  shape.v_factor = layout.v_factor;
  size_t heads = 0, bytes = 0;
  for (int p = 0; p < kNumPlanes; ++p) heads += shape.head_bytes(p);
  if (!checked_mul(heads, num_heads, &bytes) || !checked_mul(bytes, num_layers, &bytes) ||
      bytes > PTRDIFF_MAX)
    return invalid("a page of %u layers and %u heads exceeds the address space", num_layers, num_heads);
  *out = shape;
  return KVC_OK;
}

kvc_status page_fingerprint(const PageSource& source, const PageShape& shape, Digest256* out) {
  if (source.model_size == 0 || source.weights_size == 0)
    return invalid("a fingerprint needs a model and a version of its weights; %s is empty",
                   source.model_size == 0 ? "the model" : "the version");
  static constexpr char kLabel[] = "kvcache fingerprint 1";
  Sha256 sha;
  add_value(&sha, kLabel);
  add_field(&sha, source.model, source.model_size);
  add_field(&sha, source.weights, source.weights_size);
  add_field(&sha, source.numerics, source.numerics_size);
  add_value(&sha, shape.num_layers);
  add_value(&sha, shape.num_heads);
  add_value(&sha, shape.block_size);
  for (const auto& plane : shape.planes) {
    add_value(&sha, plane.dtype);
    add_value(&sha, plane.row_bytes);
    add_value(&sha, plane.num_elements);
    add_value(&sha, plane.tokens_per_row);
  }
  add_value(&sha, uint32_t{shape.latent} | uint32_t{shape.asymmetric} << 1 | uint32_t{shape.hadamard} << 2);
  add_value(&sha, shape.scale_group);
  add_value(&sha, shape.k_factor);
  add_value(&sha, shape.v_factor);
  *out = sha.finish();
  return KVC_OK;
}

Digest256 page_salt(GroupIndex group, const Digest256& fingerprint) {
  static constexpr char kLabel[] = "kvcache page 1";
  Sha256 sha;
  sha.update(kLabel, sizeof kLabel);
  sha.update(&group, sizeof group);
  sha.update(fingerprint.bytes, sizeof fingerprint.bytes);
  return sha.finish();
}

size_t page_runs(const PageShape& shape, const PagePart& part, kvc_run* runs, size_t capacity) {
  size_t count = 0;
  kvc_run last = {0, 0};
  const auto add = [&](uint64_t offset, uint64_t bytes) {
    if (last.bytes != 0 && last.offset + last.bytes == offset) {
      last.bytes += bytes;
      return;
    }
    if (last.bytes != 0 && count++ < capacity) runs[count - 1] = last;
    last = {offset, bytes};
  };
  if (part.num_heads != 0) {
    for (uint32_t layer = part.first_layer; layer < part.first_layer + part.num_layers; ++layer) {
      uint64_t at = layer * shape.layer_bytes();
      for (int p = 0; p < kNumPlanes; ++p) {
        const uint64_t head = shape.head_bytes(p);
        if (head != 0) add(at + part.first_head * head, part.num_heads * head);
        at += shape.num_heads * head;
      }
    }
  }
  if (last.bytes != 0 && count++ < capacity) runs[count - 1] = last;
  return count;
}

uint64_t part_bytes(const PageShape& shape, const PagePart& part) {
  uint64_t heads = 0;
  for (int p = 0; p < kNumPlanes; ++p) heads += shape.head_bytes(p);
  return heads * part.num_heads * part.num_layers;
}

void pack_page(const Layout& layout, const char* slab, uint64_t block, char* out) {
  for_each_page_row(layout, [&](uint64_t at, const Plane& plane, uint32_t layer, uint32_t head, uint32_t row,
                                uint64_t bytes) {
    const char* from = slab + plane.offset(layer, block, head, row);
    if (plane.tiled()) {
      read_tiled(plane, from, row, plane.num_elements, out + at);
    } else {
      std::memcpy(out + at, from, bytes);
    }
  });
}

void unpack_page(const Layout& layout, const char* in, uint64_t block, char* slab) {
  for_each_page_row(layout, [&](uint64_t at, const Plane& plane, uint32_t layer, uint32_t head, uint32_t row,
                                uint64_t bytes) {
    char* to = slab + plane.offset(layer, block, head, row);
    if (plane.tiled()) {
      write_tiled(plane, in + at, plane.num_elements, row, to);
    } else {
      std::memcpy(to, in + at, bytes);
    }
  });
}

}  // namespace kvc
