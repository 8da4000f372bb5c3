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
  enum { kStorages = 16, kSources = 7 };
  kvc_storage_config c[kStorages];
  kvc_page_config n[kSources];
  for (int i = 0; i < kStorages; ++i) c[i] = config_();
  for (int i = 0; i < kSources; ++i) n[i] = source();
  c[1].num_layers = kLayers + 1;
  c[2].num_heads = kHeads + 1;
  c[3].head_dim = kDim * 2;
  c[4].v_head_dim = kDim * 2;
  c[5].block_size = kB * 2;
  c[6].dtype = KVC_FLOAT16;
  c[7].dtype = KVC_BFLOAT16;
  c[8].dtype = KVC_INT8;
  c[9].dtype = KVC_INT8, c[9].flags = KVC_STORAGE_ASYMMETRIC;
  c[10].dtype = KVC_INT8, c[10].flags = KVC_STORAGE_HADAMARD;
  c[11].dtype = KVC_INT8, c[11].scale_group = 4;
  c[12].dtype = KVC_FLOAT8_E4M3;
  c[13].dtype = KVC_INT4;
  c[14].dtype = KVC_FLOAT8_E4M3, c[14].k_scale = 0.5f;
  c[15].dtype = KVC_FLOAT8_E4M3, c[15].v_scale = 0.5f;
  n[0].model = "mv", n[0].model_size = 2, n[0].weights = "1", n[0].weights_size = 1;
  n[1].model = "n";
  n[2].weights = "v2";
  n[3].numerics = "x", n[3].numerics_size = 1;
  n[4].numerics = "y", n[4].numerics_size = 1;
  n[5].num_layers = kLayers * 2;
  n[6].num_heads = kHeads * 2;
  const kvc_page_config plain = source();
  uint8_t seen[kStorages + kSources][32];
  for (int i = 0; i < kStorages + kSources; ++i) {
    kvc_storage* s = open_storage(&c[i < kStorages ? i : 0]);
    const kvc_page_info info = info_of(s, i < kStorages ? &plain : &n[i - kStorages]);
    kvc_storage_destroy(s);
    for (int j = 0; j < i; ++j) CHECK(memcmp(seen[j], info.fingerprint, 32) != 0);
    memcpy(seen[i], info.fingerprint, 32);
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
  test_parts_of_ranks_join_to_the_page();
  test_fingerprint_flips_with_every_field();
  test_positions_are_those_of_events();
  test_refusals();
  puts("pages do as kvcache/page.h says");
  return 0;
}
