// SPDX-License-Identifier: Apache-2.0
// kvc_storage_measure: rows are gathered piece by piece into workspace and compared there with the caller's;
// the host adds up what the parts of the device have found.
#include <algorithm>

#include "backend/device_storage.h"
#include "base/carver.h"
#include "kernels/kernels.h"

namespace kvc::gpu {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

// Tokens of a call that are measured at once, and where.
struct Pieces {
  Pieces(const Layout& layout, const kvc_backend_rows& rows, void* workspace) {
    const uint64_t heads = uint64_t{layout.num_heads} * rows.num_layers;
    const uint64_t k_token = rows.k != nullptr ? heads * layout.k_dim : 0,
                   v_token = rows.v != nullptr ? heads * layout.v_dim : 0;
    tokens = std::clamp<uint64_t>(kPieceBytes / ((k_token + v_token) * sizeof(float)), 1, rows.num_tokens);
    num_sums = 2 * uint64_t{rows.num_layers} * kCompareParts;
    Carver<16> carver(workspace);
    carver.take(&k, tokens * k_token);
    carver.take(&v, tokens * v_token);
    carver.take(&sums, num_sums);
    bytes = carver.used();
  }
  uint64_t tokens, num_sums, bytes;
  float *k, *v;  // [num_layers][tokens][num_heads][dim]
  ErrorSums* sums;
};

kvc_backend_rows tokens_of(const kvc_backend_rows& rows, uint64_t first, uint64_t count) {
  const auto bytes = static_cast<int64_t>(rows.dtype == KVC_FLOAT32 ? 4 : 2);
  const auto forward = [&](void* at, int64_t stride) -> void* {
    return at == nullptr ? nullptr : static_cast<char*>(at) + static_cast<int64_t>(first) * stride * bytes;
  };
  kvc_backend_rows part = rows;
  part.k = forward(rows.k, rows.k_token_stride);
  part.v = forward(rows.v, rows.v_token_stride);
  part.num_tokens = count;
  if (rows.slots != nullptr) part.slots += first;
  part.first_token += first;
  return part;
}

// The same tokens, as floats without gaps.
kvc_backend_rows restored_of(const Layout& layout, const kvc_backend_rows& rows, const Pieces& pieces) {
  kvc_backend_rows out = rows;
  out.dtype = KVC_FLOAT32;
  out.k = rows.k != nullptr ? pieces.k : nullptr;
  out.v = rows.v != nullptr ? pieces.v : nullptr;
  out.k_head_stride = layout.k_dim, out.v_head_stride = layout.v_dim;
  out.k_token_stride = out.k_head_stride * layout.num_heads;
  out.v_token_stride = out.v_head_stride * layout.num_heads;
  out.k_layer_stride = out.k_token_stride * static_cast<int64_t>(rows.num_tokens);
  out.v_layer_stride = out.v_token_stride * static_cast<int64_t>(rows.num_tokens);
  return out;
}

kvc_backend_errors total(const ErrorSums* sums, uint64_t count, uint64_t dim, uint64_t row_bytes) {
  kvc_backend_errors all = {};
  for (uint64_t i = 0; i < count; ++i) {
    all.elements += sums[i].elements;
    all.finite += sums[i].finite;
    all.signal += sums[i].signal;
    all.noise += sums[i].noise;
    all.max_error = std::max(all.max_error, sums[i].max_error);
  }
  all.bytes = all.elements / dim * row_bytes;
  return all;
}

}  // namespace

kvc_status DeviceStorage::measure(const kvc_backend_rows& rows, kvc_backend_errors* keys,
                                  kvc_backend_errors* values) {
  kvc_backend_rows own = rows;
  if (keys == nullptr) own.k = nullptr;
  if (values == nullptr) own.v = nullptr;
  if (own.num_tokens == 0 || (own.k == nullptr && own.v == nullptr)) {
    for (kvc_backend_errors* none : {keys, values}) {
      if (none != nullptr) *none = {};
    }
    return KVC_OK;
  }
  Call call(device_, memory_, nullptr);
  KVC_TRY(call.begin());
  KVC_TRY(find_rows(call, &own));
  KVC_TRY(call.upload(Pieces(layout_, own, nullptr).bytes));
  const Pieces pieces(layout_, own, call.workspace());
  const uint64_t bytes = pieces.num_sums * sizeof(ErrorSums);
  Staging::Piece found;  // pinned
  KVC_TRY(memory_.staging.take(bytes, &found));

  runtime::Error error = runtime::fill(pieces.sums, 0, bytes, call.stream());
  for (uint64_t first = 0; first < own.num_tokens && error == 0; first += pieces.tokens) {
    const kvc_backend_rows part = tokens_of(own, first, std::min(pieces.tokens, own.num_tokens - first));
    error = gather_rows(layout_, address_, restored_of(layout_, part, pieces), call.stream());
    if (error == 0) error = compare_rows(layout_, part, pieces.k, pieces.v, pieces.sums, call.stream());
  }
  if (error == 0) error = runtime::copy(found.data, pieces.sums, bytes, call.stream());
  const kvc_status status = call.end(error, "measuring rows");
  if (status == KVC_OK) {
    const auto* sums = reinterpret_cast<const ErrorSums*>(found.data);
    const uint64_t half = pieces.num_sums / 2;
    if (keys != nullptr)
      *keys = total(sums, half, layout_.k_dim, layout_.k.row_bytes + layout_.k_scale.row_bytes);
    if (values != nullptr)
      *values = total(sums + half, half, layout_.v_dim, layout_.v.row_bytes + layout_.v_scale.row_bytes);
  }
  memory_.staging.give(found, call.stream());
  return status;
}

}  // namespace kvc::gpu
