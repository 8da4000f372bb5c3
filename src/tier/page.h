// SPDX-License-Identifier: Apache-2.0
// A page: the bytes of one block of one group in canonical order [layer][plane][head][token][content],
// without padding, in whatever layout and on however many ranks the block lies. Its name is a key: the
// chained digest of the position (base/position_digest.h), the group, and the fingerprint of what computed
// it.
//
// A rank has some layers and some heads of a block. Their bytes are runs of the page. Pure functions.
#pragma once
#include "base/ids.h"
#include "base/sha256.h"
#include "layout/layout.h"

namespace kvc {

/// What must be equal for two processes to use each other's pages. Texts may hold any bytes.
struct PageSource {
  const void* model;
  size_t model_size;
  const void* weights;  // the version of the weights
  size_t weights_size;
  const void* numerics;  // whatever else changes values: kernels, adapters in the weights; may be empty
  size_t numerics_size;
};

/// The whole block of a group, over all ranks.
struct PageShape {
  uint32_t num_layers, num_heads, block_size;
  struct {
    int32_t dtype;
    uint32_t row_bytes, num_elements, tokens_per_row;
  } planes[kNumPlanes];  // row_bytes 0: there is none
  bool latent, asymmetric, hadamard;
  uint32_t scale_group;
  float k_factor, v_factor;

  // Of one layer and head; of the page.
  uint64_t head_bytes(int plane) const {
    return planes[plane].row_bytes == 0
               ? 0
               : uint64_t{planes[plane].row_bytes} * (block_size / planes[plane].tokens_per_row);
  }
  uint64_t layer_bytes() const;
  uint64_t bytes() const { return layer_bytes() * num_layers; }
};

/// The layers and heads of a rank: [first, first + num), in those of the page.
struct PagePart {
  uint32_t first_layer, num_layers, first_head, num_heads;
};

/// Shape of the page of which a storage of this layout holds a part; INVALID_ARGUMENT if it would be too
/// large.
kvc_status make_page_shape(const Layout& layout, uint32_t num_layers, uint32_t num_heads, PageShape* out);

/// Fingerprint of a group's pages. INVALID_ARGUMENT without a model or a version of the weights: pages of
/// other weights would be found.
kvc_status page_fingerprint(const PageSource& source, const PageShape& shape, Digest256* out);
/// What the keys of a group's pages have in common.
Digest256 page_salt(GroupIndex group, const Digest256& fingerprint);
/// The key of a page: the digest of its position, to which the salt is added without carry. Positions and
/// salts are SHA-256, so two keys are equal by an accident as rare as two equal digests.
inline Digest256 page_key(const Digest256& position, const Digest256& salt) {
  Digest256 key;
  for (size_t i = 0; i < sizeof key.bytes; ++i)
    key.bytes[i] = static_cast<uint8_t>(position.bytes[i] ^ salt.bytes[i]);
  return key;
}

/// The part's bytes in the page as runs, ascending, adjacent ones joined. Writes at most `capacity` of them
/// and returns their number.
size_t page_runs(const PageShape& shape, const PagePart& part, kvc_run* runs, size_t capacity);
uint64_t part_bytes(const PageShape& shape, const PagePart& part);

/// Copies a block of a storage that holds `part` (layout.num_layers, num_heads) to the bytes of the part, run
/// behind run, and back. A part that is the whole page gives the page.
void pack_page(const Layout& layout, const char* slab, uint64_t block, char* out);
void unpack_page(const Layout& layout, const char* in, uint64_t block, char* slab);

}  // namespace kvc
