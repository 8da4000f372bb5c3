// SPDX-License-Identifier: Apache-2.0
#include "manager/contents.h"

#include <algorithm>

#include "base/position_digest.h"

namespace kvc {
namespace {

template <typename T>
void add(Sha256* sha, const T& value) {
  sha->update(&value, sizeof value);
}

}  // namespace

std::vector<Digest256> Contents::position_digests() const {
  std::vector<Digest256> out(positions.size());
  if (out.empty()) return out;
  PositionDigests digests(block_size, tokens_of(0));
  for (size_t i = 0; i < positions.size(); ++i) {
    const Position& position = positions[i];
    Digest256 extra = {};
    if (position.num_spans != 0) {
      Sha256 sha;
      sha.update(spans_of(i).data, position.num_spans * sizeof(ExtraSpan));
      extra = sha.finish();
    }
    const Digest256& parent =
        position.parent < 0 ? namespaces[position.ns].digest : out[static_cast<size_t>(position.parent)];
    out[i] = digests.next(parent, extra, i + 1 == out.size() ? nullptr : tokens_of(i + 1));
  }
  return out;
}

Digest256 Contents::digest(const std::vector<Digest256>& digests) const {
  static constexpr char kLabel[] = "kvcache contents 1";
  Sha256 sha;
  sha.update(kLabel, sizeof kLabel);
  add(&sha, block_size);
  add(&sha, num_groups);
  std::vector<uint32_t> order(positions.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::memcmp(digests[a].bytes, digests[b].bytes, sizeof digests[a].bytes) < 0;
  });
  add(&sha, uint64_t{order.size()});
  for (const uint32_t i : order) {
    sha.update(digests[i].bytes, sizeof digests[i].bytes);
    add(&sha, positions[i].resident);
    add(&sha, positions[i].uses);
    add(&sha, positions[i].level);
  }
  for (const Pool& pool : pools) {
    add(&sha, uint64_t{pool.blocks.size()});
    for (const Cached& cached : pool.blocks) {
      sha.update(digests[cached.position].bytes, sizeof digests[0].bytes);
      add(&sha, cached.group);
    }
  }
  return sha.finish();
}

}  // namespace kvc
