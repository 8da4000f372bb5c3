/* SPDX-License-Identifier: Apache-2.0 */
/* A toy engine of some thousand random steps over a full-attention and a sliding-window group, with a fake KV
 * memory of one token id per slot. After each step, four things hold:
 * - only changed table entries were written: the whole table memory is poisoned before the call;
 * - the change list replayed onto a copy gives the table;
 * - every row equals kvc_manager_export_tables;
 * - reading each token of each request through its table gives what was written, copies executed as listed.
 * Now and then the engine forgets to set an id: that item is refused, and no other.
 */
#include <kvcache/step.h>

#include "check.h"

enum {
  kB = 4,
  kWindow = 10,
  kSinks = 3,
  kGroups = 2,
  kBlocks = 60,
  kRows = 12,
  kStride = 16,
  kMaxTokens = 60,
  kRunning = 8
};
enum { kUnwritten = -1000000 };

typedef struct Request {
  uint64_t id;
  int32_t length, committed; /* tokens with KV; tokens committed so far */
  int32_t row, waiting;
  int32_t shown_row, disturbed; /* row of its last step; cut or preempted since */
  int32_t tokens[kMaxTokens + 8];
} Request;

static kvc_manager* m;
static kvc_step* s;
static Request requests_[kRunning];
static int32_t kv_[kBlocks * kB], shadow_[kGroups][kRows][kStride], replayed_[kGroups][kRows][kStride];
static uint64_t row_owner_[kRows];
static uint64_t random_ = 12345;
static int32_t steps_with_copies_, steps_refused_, entries_written_, items_forgotten_;

static uint32_t roll(uint32_t below) {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(random_ >> 33) % below;
}

static void* array(int32_t which) {
  kvc_view view;
  OK(kvc_step_view(s, which, &view));
  return view.data;
}

static int32_t free_row(void) {
  for (;;) {
    const int32_t row = (int32_t)roll(kRows);
    int used = 0;
    for (int i = 0; i < kRunning; ++i) used |= requests_[i].id != 0 && requests_[i].row == row;
    if (!used) return row;
  }
}

/* Prompts share prefixes: a few stems, cut and continued at random. */
static int32_t make_prompt(int32_t* tokens) {
  const int32_t length = 5 + (int32_t)roll(28), stem = (int32_t)roll((uint32_t)length + 1);
  fill_tokens(tokens, (size_t)stem, 1 + roll(3));
  for (int32_t i = stem; i < length; ++i) tokens[i] = (int32_t)roll(1000);
  return length;
}

static void write_kv(const Request* r, int32_t group, int32_t first) {
  for (int32_t t = first; t < r->length; ++t) {
    const int32_t block = shadow_[group][r->row][t / kB];
    if (block >= 0) kv_[block * kB + t % kB] = r->tokens[t];
  }
}

static void check_kv(const Request* r) {
  for (int32_t g = 0; g < kGroups; ++g) {
    for (int32_t t = 0; t < r->length; ++t) {
      const int32_t block = shadow_[g][r->row][t / kB];
      const int read_by_next = g == 0 || t >= r->length - kWindow + 1 || t < kSinks;
      if (block < 0) CHECK(!read_by_next);
      if (read_by_next) CHECK_EQ(kv_[block * kB + t % kB], r->tokens[t]);
    }
  }
}

typedef struct Plan {
  int32_t frees, requests, admissions;
  int32_t item[2 * kRunning],
      extension[kRunning];   /* running requests, then admissions: index into requests_ */
  int32_t written[kRunning]; /* length before the step */
  int32_t
      forgotten[2 * kRunning]; /* not 0: an id of the item is not set: of an extension, the one before this */
} Plan;

static Plan plan_step(void) {
  static uint64_t *frees, *ids, *committed, *extend, *admit_ids, *admit;
  static int32_t *extend_tokens, *admit_tokens, *rows;
  if (frees == NULL) {
    frees = array(KVC_STEP_FREES), ids = array(KVC_STEP_REQUESTS), committed = array(KVC_STEP_COMMITTED);
    extend = array(KVC_STEP_EXTEND_OFFSETS), admit_ids = array(KVC_STEP_ADMIT_REQUESTS);
    admit = array(KVC_STEP_ADMIT_OFFSETS), extend_tokens = array(KVC_STEP_EXTEND_TOKENS);
    admit_tokens = array(KVC_STEP_ADMIT_TOKENS), rows = array(KVC_STEP_ROWS);
  }
  Plan p = {0};
  extend[0] = admit[0] = 0;
  for (int32_t i = 0; i < kRunning; ++i) {
    Request* r = &requests_[i];
    if (r->id == 0 || r->waiting) continue;
    if (r->length > kMaxTokens - 8 || roll(20) == 0) { /* done */
      frees[p.frees++] = r->id;
      r->id = 0;
      continue;
    }
    if (roll(8) == 0) continue; /* sits this step out */
    if (roll(30) == 0) r->row = free_row();
    const int32_t n = (int32_t)roll(4);
    ids[p.requests] = r->id;
    committed[p.requests] = (uint64_t)r->length;
    extend[p.requests + 1] = extend[p.requests] + (uint64_t)n;
    p.forgotten[p.requests] = n != 0 && roll(12) == 0 ? 1 + (int32_t)roll((uint32_t)n) : 0;
    for (int32_t t = 0; t < n; ++t) {
      r->tokens[r->length + t] = (int32_t)roll(1000);
      if (t + 1 != p.forgotten[p.requests])
        extend_tokens[extend[p.requests] + (uint64_t)t] = r->tokens[r->length + t];
    }
    rows[p.requests] = r->row;
    p.extension[p.requests] = n;
    p.written[p.requests] = r->length;
    p.item[p.requests++] = i;
  }
  for (int32_t i = 0; i < kRunning; ++i) {
    Request* r = &requests_[i];
    if ((r->id != 0 && !r->waiting) || roll(3) != 0) continue;
    const size_t at = (size_t)p.admissions;
    if (r->id == 0) {
      int freed_now = 0; /* its record holds a request that this very step frees: leave it for the next */
      for (int32_t f = 0; f < p.frees; ++f) freed_now |= roll(2) == 0;
      if (freed_now) continue;
      r->length = make_prompt(r->tokens);
      r->waiting = 0;
    }
    admit_ids[at] = r->id;
    const size_t n = r->id == 0 ? (size_t)r->length : 0;
    admit[at + 1] = admit[at] + n;
    memcpy(admit_tokens + admit[at], r->tokens, n * sizeof(int32_t));
    p.forgotten[p.requests + p.admissions] = n != 0 && roll(12) == 0;
    if (p.forgotten[p.requests + p.admissions]) admit_tokens[admit[at] + roll((uint32_t)n)] = -1;
    const uint64_t id = r->id;
    r->id = 1; /* so that free_row sees it */
    r->row = free_row();
    r->id = id;
    rows[p.requests + p.admissions] = r->row;
    p.item[p.requests + p.admissions++] = i;
    r->id = id == 0 ? UINT64_MAX : id;
  }
  s->num_frees = (size_t)p.frees;
  s->num_requests = (size_t)p.requests;
  s->num_admissions = (size_t)p.admissions;
  return p;
}

/* Takes over what was written among the poison; an entry below num_blocks must stand in the change list, and
 * only once. */
static void merge_written(const Plan* p) {
  int32_t listed[kGroups][kRows][kStride] = {{{0}}};
  for (size_t i = 0; i < s->num_changes; ++i) {
    const kvc_table_change c = s->changes[i];
    CHECK(c.group >= 0 && c.group < kGroups && c.row >= 0 && c.row < kRows && c.column >= 0 &&
          c.column < kStride);
    CHECK_EQ(listed[c.group][c.row][c.column]++, 0);
    replayed_[c.group][c.row][c.column] = c.block;
  }
  const size_t items = (size_t)(p->requests + p->admissions);
  for (int32_t g = 0; g < kGroups; ++g) {
    for (int32_t row = 0; row < kRows; ++row) {
      size_t item = 0; /* of this row in this step */
      while (item < items && requests_[p->item[item]].row != row) ++item;
      const uint64_t used = item < items ? s->num_blocks[(size_t)g * items + item] : 0;
      for (int32_t column = 0; column < kStride; ++column) {
        const int32_t value = s->block_tables[(g * kRows + row) * kStride + column];
        if (value == kUnwritten) {
          CHECK_EQ(listed[g][row][column], 0);
          continue;
        }
        CHECK(item < items); /* nothing is written to rows that are not in the step */
        const int changed = shadow_[g][row][column] != value;
        shadow_[g][row][column] = value;
        ++entries_written_;
        if ((uint64_t)column < used) {
          CHECK_EQ(listed[g][row][column], 1);
        } else {
          CHECK_EQ(value, s->fill_id);
          replayed_[g][row][column] = value;
        }
        const Request* r = &requests_[p->item[item]];
        const int whole =
            (s->flags & KVC_STEP_WHOLE_ROWS) != 0 || row_owner_[row] != r->id || r->shown_row != row;
        CHECK(changed || whole || r->disturbed); /* what is as before is written only with the whole row */
      }
    }
  }
  CHECK(memcmp(replayed_, shadow_, sizeof shadow_) == 0);
}

static void check_rows(const Plan* p) {
  int32_t row[kStride];
  for (int32_t i = 0; i < p->requests + p->admissions; ++i) {
    const Request* r = &requests_[p->item[i]];
    if (r->id == 0 || r->waiting) continue;
    for (uint32_t g = 0; g < kGroups; ++g) {
      OK(kvc_manager_export_tables(m, &r->id, 1, g, s->fill_id, row, kStride));
      for (int32_t c = 0; c < kStride; ++c) CHECK_EQ(shadow_[g][r->row][c], row[c]);
    }
  }
}

static void run_step(uint64_t lag) {
  const Plan p = plan_step();
  s->flags = roll(25) == 0 ? KVC_STEP_WHOLE_ROWS : 0;
  s->retired_step = s->step_id > lag ? s->step_id - lag : 0;
  for (size_t i = 0; i < kGroups * kRows * kStride; ++i) s->block_tables[i] = kUnwritten;
  OK(kvc_manager_step(m, s));

  for (size_t i = 0; i < s->num_copies; ++i) {
    memcpy(&kv_[s->copies[i].destination * kB], &kv_[s->copies[i].source * kB], kB * sizeof(int32_t));
  }
  steps_with_copies_ += s->num_copies > 0;
  steps_refused_ += s->num_refused > 0;
  for (int32_t i = 0; i < p.frees; ++i) CHECK_EQ(s->status[i], KVC_OK);
  const kvc_status* status = s->status + p.frees;
  for (int32_t i = 0; i < p.admissions; ++i) { /* ids first: merge_written asks who owns a row */
    Request* r = &requests_[p.item[p.requests + i]];
    const kvc_status st = status[p.requests + i];
    if (r->id == UINT64_MAX) r->id = 0;
    const int forgotten = p.forgotten[p.requests + i];
    CHECK((st == KVC_OK && !forgotten) || (st == KVC_ERROR_INVALID_ARGUMENT && forgotten) ||
          st == KVC_ERROR_NO_SPACE || st == KVC_ERROR_AGAIN || st == KVC_ERROR_SKIPPED);
    items_forgotten_ += st == KVC_ERROR_INVALID_ARGUMENT;
    if (st == KVC_OK) r->id = s->admitted[i];
    r->waiting = st != KVC_OK && r->id != 0;
    r->committed = (int32_t)s->cached[i];
  }
  merge_written(&p);
  for (int32_t i = 0; i < p.requests; ++i) {
    Request* r = &requests_[p.item[i]];
    if (p.forgotten[i] != 0) CHECK_EQ(status[i], KVC_ERROR_INVALID_ARGUMENT);
    items_forgotten_ += p.forgotten[i] != 0;
    CHECK(p.forgotten[i] != 0 || status[i] == KVC_OK || status[i] == KVC_ERROR_NO_SPACE ||
          status[i] == KVC_ERROR_AGAIN);
    r->committed = r->length;
    if (status[i] == KVC_OK) r->length += p.extension[i];
    row_owner_[r->row] = r->id;
    r->shown_row = r->row;
    r->disturbed = 0;
    for (int32_t g = 0; g < kGroups; ++g) { /* through the slots, as an attention kernel's writer does */
      const uint64_t first = s->extend_offsets[i];
      for (int32_t t = 0; t < p.extension[i]; ++t) {
        const int64_t slot = s->slots[(size_t)g * s->slot_capacity + first + (uint64_t)t];
        CHECK((slot >= 0) == (status[i] == KVC_OK));
        if (slot < 0) continue;
        const int32_t position = p.written[i] + t;
        CHECK_EQ(slot, shadow_[g][r->row][position / kB] * kB + position % kB);
        kv_[slot] = r->tokens[position];
      }
    }
  }
  for (int32_t i = 0; i < p.admissions; ++i) {
    Request* r = &requests_[p.item[p.requests + i]];
    if (status[p.requests + i] != KVC_OK) continue;
    row_owner_[r->row] = r->id;
    r->shown_row = r->row;
    r->disturbed = 0;
    for (int32_t g = 0; g < kGroups; ++g) write_kv(r, g, r->committed); /* the cached part is there already */
  }
  check_rows(&p);
  for (int32_t i = 0; i < p.requests + p.admissions; ++i) {
    const Request* r = &requests_[p.item[i]];
    if (r->id != 0 && !r->waiting) check_kv(r);
  }
}

/* Forks and cuts by single calls between steps; a parent without space makes room. */
static void disturb(void) {
  Request *r = &requests_[roll(kRunning)], *other = &requests_[roll(kRunning)];
  if (r->id == 0 || r->waiting) return;
  if (other->id == 0 && roll(2) == 0) {
    *other = *r;
    OK(kvc_manager_fork_request(m, r->id, &other->id));
    other->length = other->committed = (int32_t)request_info(m, other->id).num_tokens;
    other->row = other->shown_row = -1;
    other->row = free_row();
  } else if (roll(3) == 0) {
    OK(kvc_manager_preempt_request(m, r->id));
    r->waiting = r->disturbed = 1;
  } else if (roll(3) == 0) {
    const int32_t n = r->length - (int32_t)roll(6);
    const kvc_status status =
        n <= 0 ? KVC_ERROR_UNSUPPORTED : kvc_manager_truncate_request(m, r->id, (uint64_t)n);
    CHECK(status == KVC_OK || status == KVC_ERROR_UNSUPPORTED); /* the window may be gone */
    if (status == KVC_OK) r->length = n, r->disturbed = 1;
    if (status == KVC_OK && r->committed > n) r->committed = n;
  }
}

int main(void) {
  const kvc_group_config groups[kGroups] = {{.struct_size = sizeof *groups},
                                            {.struct_size = sizeof *groups,
                                             .kind = KVC_GROUP_SLIDING_WINDOW,
                                             .window_tokens = kWindow,
                                             .num_sink_tokens = kSinks}};
  kvc_manager_config config = small_config(kBlocks);
  config.groups = groups;
  config.num_groups = kGroups;
  m = make_manager(&config);
  const kvc_step_limits limits = {.struct_size = sizeof limits,
                                  .max_frees = kRunning,
                                  .max_requests = kRunning,
                                  .max_admissions = kRunning,
                                  .max_tokens = 4 * kRunning,
                                  .max_prompt_tokens = 64 * kRunning,
                                  .max_rows = kRows,
                                  .row_stride = kStride};
  OK(kvc_step_create(m, &limits, &s));
  for (size_t i = 0; i < kGroups * kRows * kStride; ++i)
    (&shadow_[0][0][0])[i] = (&replayed_[0][0][0])[i] = -1;
  for (int32_t i = 0; i < 4000; ++i) {
    run_step(i % 1000 < 500 ? 0 : roll(3)); /* synchronous, then with up to two steps in flight */
    if (roll(3) == 0) disturb();
    if (i % 64 == 0) OK(kvc_manager_check(m));
  }
  const kvc_stats st = stats(m);
  printf("%" PRIu64 " evictions, %d steps with copies, %d with refusals, %" PRIu64 " of %" PRIu64
         " blocks hit, %d entries\n",
         st.evictions, steps_with_copies_, steps_refused_, st.block_hits, st.block_queries, entries_written_);
  CHECK(st.evictions > 100 && steps_with_copies_ > 20 && steps_refused_ > 20 && st.block_hits > 100 &&
        items_forgotten_ > 500);
  kvc_step_destroy(s);
  end_manager(m);
  return 0;
}
