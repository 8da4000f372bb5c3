// SPDX-License-Identifier: Apache-2.0
#include "api/row_args.h"

#include "layout/layout.h"

namespace kvc {
namespace {

constexpr uint64_t kMaxExtent = uint64_t{1} << 60;  // elements, of which the bytes are an int64_t

uint64_t magnitude(int64_t x) { return x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x); }

}  // namespace

kvc_status check_strides(const char* name, int64_t layer, size_t num_layers, int64_t token, size_t num_tokens,
                         int64_t head, size_t num_heads) {
  const size_t layers = product(magnitude(layer), num_layers), tokens = product(magnitude(token), num_tokens),
               heads = product(magnitude(head), num_heads);
  if (layers < kMaxExtent && tokens < kMaxExtent - layers && heads < kMaxExtent - layers - tokens)
    return KVC_OK;
  return invalid(
      "%s: strides %lld, %lld, %lld of %zu layers, %zu tokens, %zu heads; below 2^60 elements in all", name,
      static_cast<long long>(layer), static_cast<long long>(token), static_cast<long long>(head), num_layers,
      num_tokens, num_heads);
}

kvc_status check_rotary(const kvc_backend_rotary& rotary, uint32_t elements, size_t num_tokens,
                        bool on_device) {
  const size_t table_rows = rotary.table_rows;
  if (rotary.dim % 2 != 0 || rotary.first > elements || rotary.dim > elements - rotary.first) {
    return invalid("rope_dim is %u from element %u on, in rows of %u; it must be even and fit into a row",
                   rotary.dim, rotary.first, elements);
  }
  if (num_tokens == 0) return KVC_OK;
  KVC_REQUIRE_POINTER(rotary.table);
  KVC_REQUIRE_MEMORY(rotary.table, product(table_rows, rotary.dim));
  if (table_rows < (rotary.table_row == nullptr ? num_tokens : 1))
    return invalid("%zu tokens, but %zu rows of the table", num_tokens, table_rows);
  if (rotary.table_row == nullptr || on_device) return KVC_OK;
  for (size_t t = 0; t < num_tokens; ++t) {
    if (rotary.table_row[t] >= 0 && static_cast<uint64_t>(rotary.table_row[t]) < table_rows) continue;
    return invalid("token %zu: no row %lld of the table; it has %zu", t,
                   static_cast<long long>(rotary.table_row[t]), table_rows);
  }
  return KVC_OK;
}

}  // namespace kvc
