// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/compare.h"

#include "base/status.h"

namespace kvc {
namespace {

std::string shown(const std::string& text) {
  std::string out = text.substr(0, 64);
  for (char& c : out) c = c >= ' ' && c <= '~' ? c : '?';
  return text.size() > 64 ? out + "..." : out;
}

kvc_status same_text(const char* name, const std::string& saved, const std::string& here) {
  if (saved == here) return KVC_OK;
  return invalid("%s is \"%s\" in the checkpoint and \"%s\" here; pages of one are wrong for the other", name,
                 shown(saved).c_str(), shown(here).c_str());
}

kvc_status same_number(size_t group, const char* name, uint64_t saved, uint64_t here) {
  if (saved == here) return KVC_OK;
  return invalid("group %zu: %s is %llu in the checkpoint and %llu here; they must be equal", group, name,
                 ull(saved), ull(here));
}

kvc_status same_factor(size_t group, const char* name, float saved, float here) {
  if (saved == here) return KVC_OK;
  return invalid("group %zu: %s is %g in the checkpoint and %g here; they must be equal", group, name,
                 static_cast<double>(saved), static_cast<double>(here));
}

kvc_status same_pages(size_t g, const Manifest::Group& saved, const Manifest::Group& here) {
  static constexpr const char* kPlanes[kNumPlanes][2] = {
      {"dtype of keys", "head_dim"},
      {"dtype of values", "v_head_dim"},
      {"dtype of key scales", "the number of key scales"},
      {"dtype of value scales", "the number of value scales"}};
  const PageShape &a = saved.shape, &b = here.shape;
  KVC_TRY(same_number(g, "num_layers", a.num_layers, b.num_layers));
  KVC_TRY(same_number(g, "num_heads", a.num_heads, b.num_heads));
  KVC_TRY(same_number(g, "first_layer", saved.part.first_layer, here.part.first_layer));
  KVC_TRY(same_number(g, "num_layers of the storage", saved.part.num_layers, here.part.num_layers));
  KVC_TRY(same_number(g, "first_head", saved.part.first_head, here.part.first_head));
  KVC_TRY(same_number(g, "num_heads of the storage", saved.part.num_heads, here.part.num_heads));
  KVC_TRY(same_number(g, "scale_group", a.scale_group, b.scale_group));
  KVC_TRY(same_number(g, "the latent layout", a.latent, b.latent));
  KVC_TRY(same_number(g, "asymmetric quantization", a.asymmetric, b.asymmetric));
  KVC_TRY(same_number(g, "the Hadamard transform", a.hadamard, b.hadamard));
  for (int p = 0; p < kNumPlanes; ++p) {
    KVC_TRY(same_number(g, kPlanes[p][0], static_cast<uint64_t>(a.planes[p].dtype),
                        static_cast<uint64_t>(b.planes[p].dtype)));
    KVC_TRY(same_number(g, kPlanes[p][1], a.planes[p].num_elements, b.planes[p].num_elements));
    KVC_TRY(same_number(g, "bytes of a row", a.planes[p].row_bytes, b.planes[p].row_bytes));
  }
  KVC_TRY(same_factor(g, "k_scale", a.k_factor, b.k_factor));
  KVC_TRY(same_factor(g, "v_scale", a.v_factor, b.v_factor));
  KVC_TRY(same_number(g, "bytes of a page", saved.part_bytes, here.part_bytes));
  if (saved.fingerprint == here.fingerprint) return KVC_OK;
  return invalid("group %zu: the fingerprints differ; pages of one are wrong for the other", g);
}

}  // namespace

void describe_source(const Manager& manager, const std::vector<GroupMemory>& groups,
                     const CheckpointOptions& options, Manifest* out) {
  const Shape& shape = manager.shape();
  out->model = options.model, out->weights = options.weights, out->numerics = options.numerics;
  out->contents.block_size = shape.block_size;
  out->contents.num_groups = shape.num_groups;
  out->groups.clear();
  for (uint32_t g = 0; g < shape.num_groups; ++g) {
    const GroupShape& group = shape.groups[g];
    Manifest::Group described = {};
    described.kind = group.kind;
    described.pool = group.pool;
    described.sinks = group.sinks;
    described.window = group.windowed() ? group.window : 0;
    if (groups[g].slab != nullptr) {
      described.has_pages = 1;
      described.shape = groups[g].shape;
      described.part = groups[g].part;
      described.part_bytes = part_bytes(groups[g].shape, groups[g].part);
      described.fingerprint = groups[g].fingerprint;
    }
    out->groups.push_back(described);
  }
}

kvc_status check_same_source(const Manifest& saved, const Manifest& here) {
  KVC_TRY(same_text("model", saved.model, here.model));
  KVC_TRY(same_text("weights", saved.weights, here.weights));
  KVC_TRY(same_text("numerics", saved.numerics, here.numerics));
  if (saved.contents.block_size != here.contents.block_size)
    return invalid("block_size is %u in the checkpoint and %u here; they must be equal",
                   saved.contents.block_size, here.contents.block_size);
  if (saved.groups.size() != here.groups.size())
    return invalid("the checkpoint has %zu groups and the manager %zu; they must be equal",
                   saved.groups.size(), here.groups.size());
  for (size_t g = 0; g < saved.groups.size(); ++g) {
    const Manifest::Group &a = saved.groups[g], &b = here.groups[g];
    KVC_TRY(same_number(g, "kind", a.kind, b.kind));
    KVC_TRY(same_number(g, "window_tokens", a.window, b.window));
    KVC_TRY(same_number(g, "positions of sinks", a.sinks, b.sinks));
    if (a.has_pages != 0 && b.has_pages != 0) KVC_TRY(same_pages(g, a, b));
  }
  return KVC_OK;
}

}  // namespace kvc
