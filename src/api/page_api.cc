// SPDX-License-Identifier: Apache-2.0
// C functions of pages: what a block is outside the process.
#include "api/page_args.h"
#include "api/recording.h"
#include "api/storage_handle.h"

using namespace kvc;

namespace kvc {

namespace {

kvc_status check_text(const char* name, const void* text, size_t size) {
  if (text == nullptr && size != 0) return invalid("%s is NULL and %s_size is not 0", name, name);
  if (size <= 65536) return KVC_OK;
  return invalid("%s_size is %zu; it is at most 65536", name, size);
}

kvc_status check_range(const char* name, uint32_t first, uint32_t count, uint32_t all) {
  if (first <= all && count <= all - first) return KVC_OK;
  return invalid("first_%s is %u: the storage's %u go past the %u of a page", name, first, count, all);
}

}  // namespace

kvc_status check_page_config(const kvc_page_config& config) {
  KVC_TRY(check_text("model", config.model, config.model_size));
  KVC_TRY(check_text("weights", config.weights, config.weights_size));
  KVC_TRY(check_text("numerics", config.numerics, config.numerics_size));
  if (config.model_size != 0 && config.weights_size != 0) return KVC_OK;
  return invalid("a fingerprint needs a model and a version of its weights; %s is empty",
                 config.model_size == 0 ? "the model" : "the version");
}

kvc_status read_pages(const kvc_storage& storage, const kvc_page_config* config, Pages* out) {
  KVC_REQUIRE_POINTER(config);
  kvc_page_config own;
  KVC_TRY(read_struct(config, &own));
  KVC_TRY(check_page_config(own));
  const Layout& layout = storage.layout;
  if (layout.channel_tokens != 0)
    return fail(KVC_ERROR_UNSUPPORTED,
                "channel keys have bytes outside the blocks; their blocks are no pages");
  const uint32_t layers = own.num_layers == 0 ? layout.num_layers : own.num_layers;
  const uint32_t heads = own.num_heads == 0 ? layout.num_heads : own.num_heads;
  KVC_TRY(make_page_shape(layout, layers, heads, &out->shape));
  out->part = {own.first_layer, layout.num_layers, own.first_head, layout.num_heads};
  KVC_TRY(check_range("layer", own.first_layer, layout.num_layers, layers));
  KVC_TRY(check_range("head", own.first_head, layout.num_heads, heads));
  return page_fingerprint(
      {own.model, own.model_size, own.weights, own.weights_size, own.numerics, own.numerics_size}, out->shape,
      &out->fingerprint);
}

}  // namespace kvc

namespace {

// Calls move(block, bytes of its part) for each block.
template <typename Bytes, typename Move>
kvc_status move_pages(kvc_storage* s, const int32_t* blocks, size_t num_blocks, Bytes* pages,
                      size_t pages_size, uint64_t stride, Move&& move) {
  return on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    KVC_REQUIRE_MEMORY(blocks, num_blocks);
    KVC_REQUIRE_ARRAY(pages, num_blocks);
    const Layout& layout = storage.layout;
    if (std::strcmp(storage.backend->name, "cpu") != 0)
      return fail(KVC_ERROR_UNSUPPORTED, "a storage of %s: swap its blocks out to host memory first",
                  storage.backend->name);
    Pages shape;
    kvc_page_config names = {};
    names.struct_size = sizeof names;
    names.model = names.weights = "-", names.model_size = names.weights_size = 1;
    KVC_TRY(read_pages(storage, &names, &shape));
    const uint64_t bytes = part_bytes(shape.shape, shape.part);
    if (stride == 0) stride = bytes;
    if (stride < bytes) return invalid("stride is %llu; a part has %llu bytes", ull(stride), ull(bytes));
    if (num_blocks != 0 && (pages_size < bytes || (pages_size - bytes) / stride < num_blocks - 1))
      return invalid("pages_size is %zu; %zu parts need %llu bytes each", pages_size, num_blocks,
                     ull(stride));
    KVC_TRY(check_blocks(layout, blocks, num_blocks));
    storage.backend->storage_wait(storage.impl);
    for (size_t i = 0; i < num_blocks; ++i)
      move(storage, static_cast<uint64_t>(blocks[i]), static_cast<Bytes*>(pages) + i * stride);
    return KVC_OK;
  });
}

}  // namespace

extern "C" {

kvc_status kvc_storage_page_properties(kvc_storage* s, const kvc_page_config* config, kvc_page_info* info) {
  return on_storage(s, [&](kvc_storage& storage) {
    return answer(info, [&](kvc_page_info* out) -> kvc_status {
      Pages pages;
      KVC_TRY(read_pages(storage, config, &pages));
      std::memcpy(out->fingerprint, pages.fingerprint.bytes, sizeof out->fingerprint);
      out->page_bytes = pages.shape.bytes();
      out->part_bytes = part_bytes(pages.shape, pages.part);
      return KVC_OK;
    });
  });
}

kvc_status kvc_storage_page_runs(kvc_storage* s, const kvc_page_config* config, kvc_run* runs,
                                 size_t capacity, size_t* count) {
  return on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    KVC_REQUIRE_ARRAY(runs, capacity);
    KVC_REQUIRE_POINTER(count);
    Pages pages;
    KVC_TRY(read_pages(storage, config, &pages));
    const size_t needed = page_runs(pages.shape, pages.part, nullptr, 0);
    *count = needed;
    if (needed > capacity)
      return fail(KVC_ERROR_BUFFER_TOO_SMALL, "the part has %zu runs, the array room for %zu", needed,
                  capacity);
    page_runs(pages.shape, pages.part, runs, capacity);
    return KVC_OK;
  });
}

kvc_status kvc_storage_pack_pages(kvc_storage* s, const int32_t* blocks, size_t num_blocks, void* pages,
                                  size_t pages_size, uint64_t stride) {
  return move_pages(s, blocks, num_blocks, static_cast<char*>(pages), pages_size, stride,
                    [](kvc_storage& storage, uint64_t block, char* page) {
                      pack_page(storage.layout, storage.slab(), block, page);
                    });
}

kvc_status kvc_storage_unpack_pages(kvc_storage* s, const int32_t* blocks, size_t num_blocks,
                                    const void* pages, size_t pages_size, uint64_t stride) {
  return move_pages(s, blocks, num_blocks, static_cast<const char*>(pages), pages_size, stride,
                    [](kvc_storage& storage, uint64_t block, const char* page) {
                      unpack_page(storage.layout, page, block, storage.slab());
                    });
}

kvc_status kvc_manager_position_digests(kvc_manager* m, const kvc_prompt* prompt, uint8_t* digests,
                                        size_t capacity, size_t* count) {
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    TokenSpan span;
    KVC_TRY(read_prompt(prompt, &span));
    KVC_REQUIRE_ARRAY(digests, capacity);
    KVC_REQUIRE_POINTER(count);
    return manager.position_digests(span, reinterpret_cast<Digest256*>(digests), capacity, count);
  });
}

kvc_status kvc_page_key(const uint8_t* position, uint32_t group, const uint8_t* fingerprint, uint8_t* key) {
  KVC_REQUIRE_POINTER(position);
  KVC_REQUIRE_POINTER(fingerprint);
  KVC_REQUIRE_POINTER(key);
  Digest256 where, what;
  std::memcpy(where.bytes, position, sizeof where.bytes);
  std::memcpy(what.bytes, fingerprint, sizeof what.bytes);
  const Digest256 made = page_key(where, page_salt(group, what));
  std::memcpy(key, made.bytes, sizeof made.bytes);
  return KVC_OK;
}

}  // extern "C"
