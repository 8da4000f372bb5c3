/* SPDX-License-Identifier: Apache-2.0 */
/* Events: replaying them gives the index of what is findable, parents chain, tokens are those of the prompts,
 * a full ring loses the oldest and says so, a reset clears. That digests are SHA-256 over what the manual
 * says is checked elsewhere. */
#include <kvcache/prefix.h>

#include "../event_calls.h"
#include "check.h"

enum { kB = 4, kBlocks = 24, kMaxEvents = 4096 };

/* What a router keeps: a prefix position per entry. */
typedef struct Position {
  uint64_t node, parent, token_offset;
  uint8_t digest[32];
  int32_t block;
  uint32_t group;
} Position;

static Position index_[kMaxEvents];
static size_t num_positions_;
static uint64_t cursor_;

static Position* find(uint64_t node, uint32_t group) {
  for (size_t i = 0; i < num_positions_; ++i) {
    if (index_[i].node == node && index_[i].group == group) return &index_[i];
  }
  return NULL;
}

static void replay(kvc_manager* m) {
  static kvc_event events[kMaxEvents];
  static int32_t tokens[kMaxEvents * kB];
  size_t count = 0;
  const uint64_t asked = cursor_;
  OK(poll_events(m, &cursor_, events, sizeof *events, kMaxEvents, &count, tokens, kMaxEvents * kB));
  CHECK_EQ(cursor_, asked + count);
  for (size_t i = 0; i < count; ++i) {
    const kvc_event* e = &events[i];
    CHECK_EQ(e->sequence, asked + i);
    CHECK(e->time_ns > 1600000000u * (uint64_t)1000000000u);
    if (e->kind == KVC_EVENT_ALL_CLEARED) {
      CHECK(e->namespace_id == KVC_ALL_NAMESPACES && e->node == 0 && e->num_tokens == 0 && e->block == -1);
      num_positions_ = 0;
      continue;
    }
    CHECK(e->node != 0 && e->num_tokens == kB && e->block >= 0 && e->block < kBlocks &&
          e->token_offset % kB == 0);
    Position* known = find(e->node, e->group);
    if (e->kind == KVC_EVENT_REMOVED) {
      CHECK(known != NULL && memcmp(known->digest, e->digest, 32) == 0);
      *known = index_[--num_positions_];
      continue;
    }
    CHECK_EQ(e->kind, KVC_EVENT_STORED);
    CHECK(known == NULL);
    const Position* parent = find(e->parent_node, e->group);
    if (parent != NULL) { /* a parent may be gone, but never be another one */
      CHECK(memcmp(parent->digest, e->parent_digest, 32) == 0);
      CHECK_EQ(parent->token_offset + kB, e->token_offset);
    }
    CHECK((e->parent_node == 0) == (e->token_offset == 0));
    Position* p = &index_[num_positions_++];
    *p = (Position){.node = e->node,
                    .parent = e->parent_node,
                    .token_offset = e->token_offset,
                    .block = e->block,
                    .group = e->group};
    memcpy(p->digest, e->digest, 32);
  }
}

/* The index names exactly the positions that published blocks hang on. */
static void expect_index(kvc_manager* m) {
  replay(m);
  uint64_t positions = 0; /* in units of 1/2520: each block adds its share of a position */
  for (int32_t b = 0; b < kBlocks; ++b) {
    const kvc_block_info info = block_info(m, b);
    if (info.published == 0) continue;
    CHECK(info.num_copies >= 1 && info.num_copies <= 10);
    positions += 2520 / info.num_copies;
  }
  CHECK_EQ(positions, num_positions_ * 2520);
}

static void test_replay(void) {
  kvc_manager_config config = small_config(kBlocks);
  config.event_capacity = kMaxEvents;
  kvc_manager* m = make_manager(&config);
  cursor_ = 0;
  num_positions_ = 0;
  enum { kStems = 12, kLength = 32 };
  int32_t stems[kStems][kLength];
  uint64_t live[kStems] = {0};
  for (size_t i = 0; i < kStems; ++i) { /* threes are equal for 8 tokens */
    fill_tokens(stems[i], 8, i / 3 + 1);
    fill_tokens(stems[i] + 8, kLength - 8, i + 100);
  }
  uint64_t seed = 7;
  for (int round = 0; round < 1500; ++round) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const size_t which = (seed >> 33) % kStems, length = 5 + (seed >> 40) % 20;
    if (live[which] != 0) {
      OK(kvc_manager_free_request(m, live[which]));
      live[which] = 0;
    } else if (kvc_manager_allocate_request(m, PROMPT(0, stems[which], length, NULL, 0), NULL, &live[which],
                                            NULL) == KVC_OK) {
      OK(kvc_manager_commit_tokens(m, live[which], length));
    }
    if (round % 3 == 0) expect_index(m);
    if (round % 150 == 149) OK(kvc_manager_reset_all(m));
  }
  printf("%" PRIu64 " events, %" PRIu64 " evictions\n", cursor_, stats(m).evictions);
  CHECK(cursor_ > 300 && stats(m).evictions > 20);
  for (size_t i = 0; i < kStems; ++i) {
    if (live[i] != 0) OK(kvc_manager_free_request(m, live[i]));
  }
  size_t evicted = 0;
  OK(kvc_manager_evict_blocks(m, -1, kBlocks, &evicted));
  expect_index(m);
  CHECK_EQ(num_positions_, 0);
  end_manager(m);
}

/* Two readers; token room that ends reading; what a chain looks like, tokens included. */
static void test_chain_and_tokens(void) {
  kvc_manager_config config = small_config(kBlocks);
  config.event_capacity = 16;
  kvc_manager* m = make_manager(&config);
  int32_t tokens[13], read[12] = {0};
  kvc_event e[8];
  fill_tokens(tokens, 13, 1);
  cache_prompt(m, tokens, 13, 0);
  uint64_t first = 0, second = 0;
  size_t count = 0;
  OK(poll_events(m, &first, e, sizeof *e, 8, &count, read, 12));
  CHECK(count == 3 && first == 3 && memcmp(read, tokens, 12 * sizeof *read) == 0);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(e[i].kind == KVC_EVENT_STORED && e[i].group == 0 && e[i].namespace_id == 0 &&
          e[i].epoch == e[0].epoch);
    CHECK(e[i].token_offset == i * kB && e[i].block == (int32_t)i);
    static const uint8_t zero[32];
    CHECK(memcmp(e[i].extra_digest, zero, 32) == 0 && memcmp(e[i].digest, zero, 32) != 0);
    if (i > 0)
      CHECK(e[i].parent_node == e[i - 1].node && memcmp(e[i].parent_digest, e[i - 1].digest, 32) == 0);
  }
  OK(poll_events(m, &second, e, sizeof *e, 8, &count, read, 11)); /* the third's tokens do not fit */
  CHECK(count == 2 && second == 2);
  OK(poll_events(m, &second, e, sizeof *e, 8, &count, NULL, 0)); /* tokens not wanted */
  CHECK(count == 1 && second == 3 && e[0].sequence == 2);
  const uint64_t newest_node = e[0].node;
  OK(poll_events(m, &second, e, sizeof *e, 8, &count, NULL, 0));
  CHECK(count == 0 && second == 3);
  second = 1; /* room for no event is refused, and the cursor stays */
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, poll_events(m, &second, NULL, sizeof *e, 0, &count, NULL, 0),
                 "capacity is 0", "1 event");
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, poll_events(m, &second, e, sizeof *e, 8, &count, read, 3),
                 "token_capacity is 3", "4 tokens");
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, poll_events(m, &second, e, sizeof *e, 8, &count, read, 0),
                 "token_capacity is 0", "NULL");
  CHECK_EQ(second, 1);
  OK(poll_events(m, &second, e, sizeof *e, 8, &count, read, 4));
  CHECK(count == 1 && second == 2);
  OK(kvc_manager_reset_all(m));
  OK(poll_events(m, &first, e, sizeof *e, 8, &count, NULL, 0));
  CHECK(count == 1 && e[0].kind == KVC_EVENT_ALL_CLEARED && e[0].namespace_id == KVC_ALL_NAMESPACES);
  cache_prompt(m, tokens, 13,
               0); /* positions of a new epoch: new nodes, the same content digests' chain of another root */
  OK(poll_events(m, &first, e, sizeof *e, 8, &count, NULL, 0));
  CHECK(count == 3 && e[0].kind == KVC_EVENT_STORED && e[0].node > newest_node);
  end_manager(m);
}

static void test_lost_events(void) {
  kvc_manager_config config = small_config(kBlocks);
  config.event_capacity = 4;
  kvc_manager* m = make_manager(&config);
  int32_t tokens[41];
  fill_tokens(tokens, 41, 1);
  cache_prompt(m, tokens, 41, 0); /* ten STORED through a ring of four */
  kvc_event e[16];
  uint64_t cursor = 0;
  size_t count = 0;
  OK(poll_events(m, &cursor, e, sizeof *e, 16, &count, NULL, 0));
  CHECK(count > 0 && e[0].sequence > 0 && cursor == 10); /* a greater sequence than asked: some are lost */
  CHECK_EQ(e[count - 1].sequence, 9);
  CHECK_EQ(stats(m).events_dropped, 10 - count);
  const kvc_event last = e[count - 1];

  uint64_t at = 0, events = 0, listed = 0; /* all ten are there, in slices of three */
  do {
    int32_t read[12];
    kvc_event_batch batch = {.struct_size = sizeof batch,
                             .events = e,
                             .event_size = sizeof *e,
                             .capacity = 16,
                             .tokens = read,
                             .token_capacity = 3 * kB};
    OK(kvc_manager_list_prefixes(m, &at, &events, &batch));
    CHECK(batch.count <= 3 && (batch.count == 3 || at == 0));
    for (size_t i = 0; i < batch.count; ++i) {
      CHECK(e[i].kind == KVC_EVENT_STORED && e[i].sequence == 10 && e[i].num_tokens == kB);
      CHECK(memcmp(read + i * kB, tokens + e[i].token_offset, sizeof(int32_t) * kB) == 0);
      if (e[i].node != last.node) continue;
      CHECK(memcmp(e[i].digest, last.digest, sizeof last.digest) == 0);
      CHECK(memcmp(e[i].parent_digest, last.parent_digest, sizeof last.digest) == 0);
    }
    listed += batch.count;
  } while (at != 0);
  CHECK(listed == 10 && events == 10);
  kvc_event_batch none = {.struct_size = sizeof none, .event_size = sizeof *e};
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_list_prefixes(m, &at, &events, &none),
                 "capacity is 0", "1 event");
  none.events = e, none.capacity = 16;
  int32_t few[3];
  none.tokens = few, none.token_capacity = 3;
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_list_prefixes(m, &at, &events, &none),
                 "token_capacity is 3", "4 tokens");
  none.tokens = NULL;
  at = UINT64_MAX;
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_list_prefixes(m, &at, &events, &none),
                 "18446744073709551615", "begin with 0");
  end_manager(m);
}

static void test_namespaces(void) {
  kvc_manager_config config = small_config(kBlocks);
  config.event_capacity = 64;
  kvc_manager* m = make_manager(&config);
  uint64_t space[2] = {0}, r = 0, cursor = 0;
  size_t count = 0;
  int32_t tokens[5];
  kvc_event e[8];
  fill_tokens(tokens, 5, 1);
  for (int i = 0; i < 2; ++i) {
    const kvc_namespace_config n = {.struct_size = sizeof n, .tenant = i == 0 ? "a" : "b", .tenant_size = 1};
    OK(kvc_manager_open_namespace(m, &n, &space[i]));
    OK(kvc_manager_allocate_request(m, PROMPT(space[i], tokens, 5, NULL, 0), NULL, &r, NULL));
    OK(kvc_manager_commit_tokens(m, r, 5));
    OK(kvc_manager_free_request(m, r));
  }
  OK(kvc_manager_reset_namespace(m, space[0]));
  OK(poll_events(m, &cursor, e, sizeof *e, 8, &count, NULL, 0));
  CHECK(count == 3 && e[0].namespace_id == space[0] && e[1].namespace_id == space[1]);
  CHECK(memcmp(e[0].parent_digest, e[1].parent_digest, 32) != 0 && memcmp(e[0].digest, e[1].digest, 32) != 0);
  CHECK(e[2].kind == KVC_EVENT_NAMESPACE_CLEARED && e[2].namespace_id == space[0]);
  OK(kvc_manager_close_namespace(m, space[1]));
  OK(poll_events(m, &cursor, e, sizeof *e, 8, &count, NULL, 0));
  CHECK(count == 1 && e[0].kind == KVC_EVENT_NAMESPACE_CLEARED && e[0].namespace_id == space[1]);
  end_manager(m);
}

int main(void) {
  test_replay();
  test_chain_and_tokens();
  test_lost_events();
  test_namespaces();
  return 0;
}
