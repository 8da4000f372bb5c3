/* SPDX-License-Identifier: Apache-2.0 */
/* Pages from C: the bytes do not depend on the layout; parts of ranks make up the whole; positions are those
 * of events; and whatever changes what the bytes mean changes the fingerprint. */
#include <kvcache/page.h>
#include <kvcache/storage.h>

#include "../event_calls.h"
#include "check.h"

enum { kLayers = 4, kHeads = 6, kDim = 8, kB = 16, kBlocks = 3, kMost = 1 << 20 };

static kvc_storage_config config_(void) {
  return (kvc_storage_config){.struct_size = sizeof(kvc_storage_config),
                              .num_blocks = kBlocks,
                              .num_layers = kLayers,
                              .num_heads = kHeads,
                              .head_dim = kDim,
                              .block_size = kB,
                              .dtype = KVC_FLOAT32};
}
static kvc_storage* open_storage(const kvc_storage_config* config) {
  kvc_storage* s = NULL;
  OK(kvc_storage_create(config, &s));
  return s;
}
static kvc_page_config source(void) {
  return (kvc_page_config){.struct_size = sizeof(kvc_page_config),
                           .model = "m",
                           .weights = "v1",
                           .model_size = 1,
                           .weights_size = 2};
}
static kvc_page_info info_of(kvc_storage* s, const kvc_page_config* config) {
  kvc_page_info info = {.struct_size = sizeof info};
  OK(kvc_storage_page_properties(s, config, &info));
  return info;
}

/* A whole page, whose bytes count up in 32-bit words. */
static void fill_page(void* page, uint64_t bytes) {
  uint32_t* words = page;
  for (uint32_t i = 0; i < bytes / 4; ++i) words[i] = i * 2654435761u >> 8;
}

static unsigned char page_[kMost], back_[kMost], part_[kMost], joined_[kMost];

static void test_equal_pages_of_all_layouts(void) {
  kvc_page_info first = {.struct_size = 0};
  for (uint32_t layout = KVC_LAYOUT_LBHNC; layout <= KVC_LAYOUT_BHLNC + 1u; ++layout) {
    const int tiled = layout > KVC_LAYOUT_BHLNC;
    kvc_storage_config config = config_();
    config.layout = tiled ? KVC_LAYOUT_LBHNC : layout;
    config.flags = tiled ? KVC_STORAGE_TILED_KEYS : 0;
    kvc_storage* s = open_storage(&config);
    const kvc_page_config named = source();
    const kvc_page_info info = info_of(s, &named);
    CHECK_EQ(info.page_bytes, 2 * kLayers * kHeads * kB * kDim * 4);
    CHECK_EQ(info.part_bytes, info.page_bytes);
    if (first.struct_size == 0) first = info;
    CHECK(memcmp(&first, &info, sizeof info) == 0);
    fill_page(page_, info.page_bytes);
    const int32_t blocks[] = {2, 0};
    memcpy(back_, page_, info.page_bytes);
    memset(back_ + info.page_bytes, 9, info.page_bytes);
    OK(kvc_storage_unpack_pages(s, blocks, 2, back_, 2 * info.page_bytes, 0));
    memset(back_, 0, sizeof back_);
    const uint64_t stride = info.page_bytes + 100;
    OK(kvc_storage_pack_pages(s, blocks, 2, back_, stride + info.page_bytes, stride));
    CHECK(memcmp(back_, page_, info.page_bytes) == 0);
    CHECK_EQ(back_[info.page_bytes], 0);
    CHECK_EQ(back_[stride], 9);
    kvc_storage_destroy(s);
  }
}

/* Two pipeline ranks of three tensor ranks each. */
static void test_parts_of_ranks_join_to_the_page(void) {
  kvc_page_config whole = source();
  kvc_storage_config config = config_();
  kvc_storage* s = open_storage(&config);
  const kvc_page_info all = info_of(s, &whole);
  kvc_storage_destroy(s);
  fill_page(page_, all.page_bytes);
  memset(joined_, 0, sizeof joined_);
  uint64_t covered = 0;
  for (uint32_t rank = 0; rank < 6; ++rank) {
    config = config_();
    config.num_layers = kLayers / 2, config.num_heads = kHeads / 3;
    config.layout = rank % 5;
    s = open_storage(&config);
    kvc_page_config own = source();
    own.num_layers = kLayers, own.num_heads = kHeads;
    own.first_layer = rank / 3 * (kLayers / 2), own.first_head = rank % 3 * (kHeads / 3);
    const kvc_page_info info = info_of(s, &own);
    CHECK(memcmp(info.fingerprint, all.fingerprint, 32) == 0);
    CHECK_EQ(info.page_bytes, all.page_bytes);
    CHECK_EQ(info.part_bytes, all.page_bytes / 6);
    kvc_run runs[64];
    size_t count = 0, again = 0;
    EXPECT(KVC_ERROR_BUFFER_TOO_SMALL, kvc_storage_page_runs(s, &own, NULL, 0, &count));
    CHECK_EQ(count, 2 * 2); /* two layers of keys and values: heads of one rank are adjacent */
    EXPECT(KVC_ERROR_BUFFER_TOO_SMALL, kvc_storage_page_runs(s, &own, runs, count - 1, &again));
    CHECK_EQ(again, count);
    OK(kvc_storage_page_runs(s, &own, runs, 64, &again));
    CHECK_EQ(again, count);
    /* Read the part of the page as a tier does, put it into block 1, and take it out again. */
    unsigned char* to = part_;
    for (size_t i = 0; i < count; ++i) {
      memcpy(to, page_ + runs[i].offset, runs[i].bytes);
      to += runs[i].bytes;
    }
    CHECK_EQ(to - part_, info.part_bytes);
    const int32_t block = 1;
    OK(kvc_storage_unpack_pages(s, &block, 1, part_, info.part_bytes, 0));
    memset(part_, 0, sizeof part_);
    OK(kvc_storage_pack_pages(s, &block, 1, part_, info.part_bytes, 0));
    to = part_;
    for (size_t i = 0; i < count; ++i) {
      memcpy(joined_ + runs[i].offset, to, runs[i].bytes);
      to += runs[i].bytes;
      covered += runs[i].bytes;
    }
    kvc_storage_destroy(s);
  }
  CHECK_EQ(covered, all.page_bytes);
  CHECK(memcmp(joined_, page_, all.page_bytes) == 0);
}

/* All layouts of a shape have one fingerprint; anything else that differs gives another. */
static void test_fingerprint_flips_with_every_field(void) {
  static uint8_t seen[64][32];
  size_t count = 0;
  for (int change = 0; change < 24; ++change) {
    kvc_storage_config config = config_();
    kvc_page_config named = source();
    switch (change) {
      case 1:
        config.num_layers = kLayers + 1;
        break;
      case 2:
        config.num_heads = kHeads + 1;
        break;
      case 3:
        config.head_dim = kDim * 2;
        break;
      case 4:
        config.v_head_dim = kDim * 2;
        break;
      case 5:
        config.block_size = kB * 2;
        break;
      case 6:
        config.dtype = KVC_FLOAT16;
        break;
      case 7:
        config.dtype = KVC_BFLOAT16;
        break;
      case 8:
        config.dtype = KVC_INT8;
        break;
      case 9:
        config.dtype = KVC_INT8, config.flags = KVC_STORAGE_ASYMMETRIC;
        break;
      case 10:
        config.dtype = KVC_INT8, config.flags = KVC_STORAGE_HADAMARD;
        break;
      case 11:
        config.dtype = KVC_INT8, config.scale_group = 4;
        break;
      case 12:
        config.dtype = KVC_FLOAT8_E4M3;
        break;
      case 13:
        config.dtype = KVC_FLOAT8_E5M2;
        break;
      case 14:
        named.model = "n";
        break;
      case 15:
        named.weights = "v2";
        break;
      case 16:
        named.numerics = "x", named.numerics_size = 1;
        break;
      case 17:
        named.numerics = "y", named.numerics_size = 1;
        break;
      case 18:
        named.num_layers = kLayers * 2;
        break;
      case 19:
        named.num_heads = kHeads * 2;
        break;
      case 20:
        named.model = "mv", named.model_size = 2, named.weights = "1", named.weights_size = 1;
        break;
      case 21:
        config.dtype = KVC_INT4;
        break;
      case 22:
        config.dtype = KVC_FLOAT8_E4M3, config.k_scale = 0.5f;
        break;
      case 23:
        config.dtype = KVC_FLOAT8_E4M3, config.v_scale = 0.5f;
        break;
      default:
        break;
    }
    kvc_storage* s = open_storage(&config);
    const kvc_page_info info = info_of(s, &named);
    kvc_storage_destroy(s);
    for (size_t i = 0; i < count; ++i) CHECK(memcmp(seen[i], info.fingerprint, 32) != 0);
    memcpy(seen[count++], info.fingerprint, 32);
  }
}

static void test_positions_are_those_of_events(void) {
  kvc_manager_config config = small_config(64);
  config.event_capacity = 256;
  kvc_manager* m = make_manager(&config);
  int32_t tokens[14];
  fill_tokens(tokens, 14, 5);
  const kvc_extra_key keys[] = {{5, 1, {1}}, {6, 4, {2}}};
  kvc_namespace_config space = {.struct_size = sizeof space, .tenant = "salt", .tenant_size = 4};
  uint64_t id = 0, request = 0, cached = 0, cursor = 0;
  OK(kvc_manager_open_namespace(m, &space, &id));
  uint8_t all[3][3][32];
  for (int kind = 0; kind < 3; ++kind) { /* plain; with extra keys; in a namespace */
    const kvc_prompt* prompt =
        PROMPT(kind == 2 ? id : 0, tokens, 14, kind == 1 ? keys : NULL, kind == 1 ? 2 : 0);
    size_t count = 0, events_count = 0;
    const uint64_t before = digest(m);
    EXPECT(KVC_ERROR_BUFFER_TOO_SMALL, kvc_manager_position_digests(m, prompt, NULL, 0, &count));
    CHECK_EQ(count, 3);
    OK(kvc_manager_position_digests(m, prompt, all[kind][0], 3, &count));
    CHECK_EQ(digest(m), before);
    OK(kvc_manager_allocate_request(m, prompt, NULL, &request, &cached));
    OK(kvc_manager_commit_tokens(m, request, 14));
    kvc_event events[8];
    int32_t event_tokens[64];
    OK(poll_events(m, &cursor, events, sizeof *events, 8, &events_count, event_tokens, 64));
    CHECK_EQ(events_count, kind == 1 ? 2 : 3); /* the first block is there */
    for (size_t i = 0; i < events_count; ++i)
      CHECK(memcmp(events[i].digest, all[kind][3 - events_count + i], 32) == 0);
  }
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < a; ++b) CHECK(memcmp(all[a][2], all[b][2], 32) != 0);
  CHECK(memcmp(all[0][0], all[1][0], 32) == 0); /* the first block has no extra key */
  CHECK(memcmp(all[0][1], all[1][1], 32) != 0);
  CHECK(memcmp(all[0][0], all[2][0], 32) != 0); /* a namespace is in all of its positions */
  size_t count = 77;
  EXPECT(KVC_ERROR_NOT_FOUND,
         kvc_manager_position_digests(m, PROMPT(id + 1, tokens, 14, NULL, 0), all[0][0], 3, &count));
  tokens[1] = 1000;
  EXPECT(KVC_ERROR_INVALID_ARGUMENT,
         kvc_manager_position_digests(m, PROMPT(0, tokens, 14, NULL, 0), all[0][0], 3, &count));
  kvc_manager_destroy(m);
}

/* Pages of tenants and adapters are disjoint, whatever the salts. */
static void test_keys(void) {
  uint8_t position[32] = {1}, fingerprint[32] = {2}, key[32], other[32];
  OK(kvc_page_key(position, 0, fingerprint, key));
  OK(kvc_page_key(position, 0, fingerprint, other));
  CHECK(memcmp(key, other, 32) == 0);
  OK(kvc_page_key(position, 1, fingerprint, other));
  CHECK(memcmp(key, other, 32) != 0);
  for (int bit = 0; bit < 256; ++bit) {
    position[bit / 8] ^= (uint8_t)(1 << bit % 8);
    OK(kvc_page_key(position, 0, fingerprint, other));
    CHECK(memcmp(key, other, 32) != 0);
    position[bit / 8] ^= (uint8_t)(1 << bit % 8);
    fingerprint[bit / 8] ^= (uint8_t)(1 << bit % 8);
    OK(kvc_page_key(position, 0, fingerprint, other));
    CHECK(memcmp(key, other, 32) != 0);
    fingerprint[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_page_key(NULL, 0, fingerprint, key));
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_page_key(position, 0, NULL, key));
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_page_key(position, 0, fingerprint, NULL));
}

#define REFUSED_TEXT(status, call, text)             \
  do {                                               \
    EXPECT(status, call);                            \
    check_text(text, "", #call, __FILE__, __LINE__); \
  } while (0)

static void test_refusals(void) {
  kvc_storage_config config = config_();
  kvc_storage* s = open_storage(&config);
  kvc_page_info info = {.struct_size = sizeof info};
  kvc_page_config named = source();
  named.model_size = 0;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_page_properties(s, &named, &info), "the model");
  named = source(), named.weights = NULL, named.weights_size = 0;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_page_properties(s, &named, &info), "version");
  named = source(), named.model = NULL;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_page_properties(s, &named, &info), "model is NULL");
  named = source(), named.weights_size = 65537;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_page_properties(s, &named, &info), "65537");
  named = source(), named.num_layers = kLayers - 1;
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_page_properties(s, &named, &info));
  named = source(), named.first_layer = 1;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_page_properties(s, &named, &info), "first_layer is 1");
  named = source(), named.first_head = UINT32_MAX;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_page_properties(s, &named, &info), "first_head");
  named = source(), named.num_layers = UINT32_MAX, named.num_heads = UINT32_MAX;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_page_properties(s, &named, &info), "address space");
  CHECK_EQ(info.page_bytes, 0);
  named = source();
  info = info_of(s, &named);

  /* Nothing is copied if anything is wrong. */
  memset(back_, 7, sizeof back_);
  int32_t blocks[] = {0, kBlocks};
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_pack_pages(s, blocks, 2, back_, sizeof back_, 0), "3");
  blocks[1] = -1;
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_pack_pages(s, blocks, 2, back_, sizeof back_, 0));
  blocks[1] = 1;
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_pack_pages(s, blocks, 2, back_, 2 * info.part_bytes - 1, 0));
  EXPECT(KVC_ERROR_INVALID_ARGUMENT,
         kvc_storage_pack_pages(s, blocks, 2, back_, sizeof back_, info.part_bytes - 1));
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_pack_pages(s, blocks, 2, back_, sizeof back_, UINT64_MAX));
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_pack_pages(s, blocks, 2, NULL, sizeof back_, 0));
  for (size_t i = 0; i < sizeof back_; ++i) CHECK_EQ(back_[i], 7);
  OK(kvc_storage_pack_pages(s, NULL, 0, NULL, 0, 0));
  kvc_storage_destroy(s);

  config.dtype = KVC_INT8, config.flags = KVC_STORAGE_CHANNEL_KEYS;
  s = open_storage(&config);
  REFUSED_TEXT(KVC_ERROR_UNSUPPORTED, kvc_storage_page_properties(s, &named, &info), "channel keys");
  EXPECT(KVC_ERROR_UNSUPPORTED, kvc_storage_pack_pages(s, blocks, 1, back_, sizeof back_, 0));
  kvc_storage_destroy(s);
}

int main(void) {
  test_equal_pages_of_all_layouts();
  test_parts_of_ranks_join_to_the_page();
  test_fingerprint_flips_with_every_field();
  test_positions_are_those_of_events();
  test_keys();
  test_refusals();
  puts("pages do as kvcache/page.h says");
  return 0;
}
