// SPDX-License-Identifier: Apache-2.0
// What an admission must have room for: what its request can hold at once. docs/SEMANTICS.md, "Admission".
#include <kvcache/step.h>

#include "conformance/fixture.h"
#include "rounds.h"

namespace conformance {
namespace {

constexpr uint64_t kPrompt = 60 * B + 3;

RequestOptions must_fit(uint64_t slots) {
  RequestOptions options = request_config(KVC_REQUEST_FULL_MUST_FIT);
  options.slots = slots;
  return options;
}

std::vector<kvc_group_config> kinds_that_let_go() {
  std::vector<kvc_group_config> out;
  for (const uint64_t window : {1u, 2u, 4u, 5u, 11u, 16u, 30u}) {
    for (const uint64_t retention : {0u, B}) {
      out.push_back(window_group(window, 0, retention, 1)),
          out.push_back(window_group(window, 5, retention, 1));
      out.push_back(chunk_group(window + 1, retention, 1));
    }
  }
  return out;
}

// Blocks of a window group that a request which grows in steps of so many tokens holds at once at most.
uint64_t most_held(const kvc_group_config& kind, uint64_t step) {
  const uint64_t window =
      kind.chunk_tokens != 0 ? kind.chunk_tokens : std::max<uint64_t>(kind.window_tokens, 2);
  const auto blocks = [](uint64_t tokens) { return (tokens + B - 1) / B; };
  return blocks(kind.num_sink_tokens) + blocks(window - 1) + blocks(step - 1) + 1;
}

// Computes a request that is admitted: the rest of its prompt in steps, then tokens one by one.
void compute_all(Cache& c, uint64_t id, uint64_t step, uint64_t length) {
  const auto commit = [&](uint64_t tokens) {
    ASSERT_EQ(c.verify(kvc_manager_commit_tokens(c.get(), id, tokens)), KVC_OK) << kvc_last_error();
  };
  const kvc_request_info info = c.request(id);
  commit(info.capacity);
  for (uint64_t done = info.capacity; done < info.num_tokens;) {
    done = std::min(done + step, info.num_tokens);
    ASSERT_EQ(c.try_reserve(id, done), KVC_OK) << kvc_last_error();
    commit(done);
  }
  for (uint64_t done = info.num_tokens; done < length; ++done) {
    c.append(id, {7});
    commit(done + 1);
  }
}

TEST(Admission, WhatMustFitIsOneWindowAndOneStep) {
  kvc::test::Sample sample;
  for (const kvc_group_config& kind : kinds_that_let_go()) {
    for (const uint64_t step : {1u, 3u, 4u, 5u, 16u, 17u}) {
      if (!sample.takes_next()) continue;
      SCOPED_TRACE(testing::Message() << "window " << kind.window_tokens << " chunk " << kind.chunk_tokens
                                      << " sinks " << kind.num_sink_tokens << " step " << step);
      const uint64_t most = most_held(kind, step);
      Admitted r;
      Cache small(shape(0, B), {full_group(), kind}, {70, most - 1});
      const kvc_status refused = small.try_allocate(text(1, kPrompt), &r, must_fit(step));
      EXPECT_TRUE(refused == KVC_ERROR_NO_SPACE || (step == 1 && refused == KVC_ERROR_NEVER_FITS)) << refused;
      Cache c(shape(0, B), {full_group(), kind}, {70, most});
      ASSERT_EQ(c.try_allocate(text(1, kPrompt), &r, must_fit(step)), KVC_OK) << kvc_last_error();
      compute_all(c, r.id, step, kPrompt + 2 * B);
    }
  }
}

// A hit's window is held only until the steps have left it.
TEST(Admission, TheHitCountsOnceToo) {
  for (const kvc_group_config& kind : kinds_that_let_go()) {
    for (const uint64_t step : {1u, 5u, 16u}) {
      const uint64_t most = most_held(kind, step);
      Cache c(shape(0, B), {full_group(), kind}, {70, most});
      const RequestOptions chunks = must_fit(step);
      const Admitted before = c.allocate(text(1, 20 * B), chunks);
      compute_all(c, before.id, step, 20 * B + 1);
      c.free(before.id);
      Admitted r;
      ASSERT_EQ(c.try_allocate(text(1, 20 * B) + text(2, 30 * B), &r, chunks), KVC_OK)
          << kvc_last_error() << " window " << kind.window_tokens << " step " << step;
      compute_all(c, r.id, step, 52 * B);
    }
  }
}

TEST(Admission, AProbeOfARequestAsksForTheSame) {
  kvc::test::Sample sample;
  for (const kvc_group_config& kind : kinds_that_let_go()) {
    for (const uint64_t step : {1u, 5u, 16u, 1000u}) {
      for (const uint64_t external : {0u, 7u, 20 * B, 30 * B + 1}) {
        if (!sample.takes_next()) continue;
        for (uint64_t room = 1; room < 70; ++room) {
          Cache c(shape(0, B), {full_group(), kind}, {70, room});
          RequestOptions options = must_fit(step == 1000 ? 0 : step);
          options.external_tokens = external;
          const Tokens tokens = text(1, kPrompt);
          uint64_t id = 0;
          ASSERT_EQ(kvc_manager_create_request(c.get(), PROMPT(0, tokens.data(), tokens.size(), nullptr, 0),
                                               &options, &id),
                    KVC_OK);
          kvc_probe_info info = sized<kvc_probe_info>();
          ASSERT_EQ(kvc_manager_probe_request(c.get(), id, &info), KVC_OK);
          const kvc_status status = kvc_manager_admit_request(c.get(), id, nullptr);
          ASSERT_EQ(status, info.fits == 1         ? KVC_OK
                            : info.never_fits == 1 ? KVC_ERROR_NEVER_FITS
                                                   : KVC_ERROR_NO_SPACE);
          if (status == KVC_OK) break;
        }
      }
    }
  }
}

TEST(Admission, ATransferTakesTheWindowBehindItsEnd) {
  for (const kvc_group_config& kind : kinds_that_let_go()) {
    for (const uint64_t external : {uint64_t{20 * B}, uint64_t{40 * B + 1}, uint64_t{41 * B - 1}}) {
      for (const bool alone : {false, true}) {
        SCOPED_TRACE(testing::Message() << "window " << kind.window_tokens << " chunk " << kind.chunk_tokens
                                        << " sinks " << kind.num_sink_tokens << " external " << external);
        kvc_group_config group = kind;
        group.pool = alone ? 0 : 1;
        const uint64_t most = most_held(kind, 5);
        kvc_manager_config config = shape(0, B);
        config.max_nodes = 200;
        Cache c(config, alone ? std::vector{group} : std::vector{full_group(), group},
                alone ? std::vector{most} : std::vector{uint64_t{70}, most});
        const uint32_t g = alone ? 0 : 1;
        RequestOptions options = must_fit(5);
        options.external_tokens = external;
        const Tokens tokens = text(1, kPrompt);
        Admitted r;
        ASSERT_EQ(c.try_allocate(tokens, &r, options), KVC_OK) << kvc_last_error();
        const Ids table = c.table(r.id, g);
        ASSERT_EQ(table.size(), (external + 5 + B - 1) / B);
        c.commit(r.id, external);
        const Ids after = c.table(r.id, g);
        for (size_t j = 0; j < after.size(); ++j) EXPECT_EQ(table[j], after[j]) << "it brings nothing else";
        compute_all(c, r.id, 5, kPrompt + B);
        c.free(r.id);
        if (alone && kind.chunk_tokens != 0 && 61 * B % kind.chunk_tokens == 0) continue;  // no block there
        EXPECT_EQ(c.whole_hit(tokens + Tokens(B, 7)), 61 * B);
      }
    }
  }
}

TEST(Admission, NothingGoesOnInsideATransferWithoutItsWindow) {
  Cache c(shape(0, B), {full_group(), window_group(8, 0, 0, 1)}, {70, 20});
  const Tokens tokens = text(1, kPrompt);
  c.store(first(tokens, 4 * B));
  RequestOptions options = request_config();
  options.external_tokens = 20 * B, options.slots = 1;
  const Admitted r = c.allocate(tokens, options);
  ASSERT_EQ(r.cached, 4u * B);
  const uint64_t end = r.cached + 20 * B;
  for (uint64_t inside = r.cached + 1; inside < end - 1; ++inside) {  // one token less reads the same blocks
    const uint64_t before = c.digest();
    EXPECT_EQ(kvc_manager_commit_tokens(c.get(), r.id, inside), KVC_ERROR_INVALID_ARGUMENT) << inside;
    EXPECT_EQ(c.try_truncate(r.id, inside), KVC_ERROR_UNSUPPORTED) << inside;
    EXPECT_EQ(c.digest(), before);
  }
  uint64_t child = 0;
  EXPECT_EQ(kvc_manager_fork_request(c.get(), r.id, &child), KVC_ERROR_BUSY);
  c.preempt(r.id);
  EXPECT_EQ(c.admit(r.id), 4u * B);
  c.commit(r.id, end);
  c.free(c.fork(r.id));
  c.free(r.id);
  EXPECT_EQ(c.whole_hit(first(tokens, end)), end);
}

// A transfer that runs in the order of steps may be in flight, too: it is committed as a whole.
TEST(Admission, ACommitAheadOfATransferKeepsItsWindow) {
  Cache c(shape(0, B), {full_group(), window_group(8, 0, 0, 1)}, {70, 40});
  RequestOptions options = request_config();
  options.external_tokens = 20 * B, options.slots = 2 * B;
  const Tokens tokens = text(1, kPrompt);
  const Admitted r = c.allocate(tokens, options);
  const Ids table = c.table(r.id, 1);
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_commit_ahead(c.get(), r.id, 19 * B, 0));
  EXPECT_EQ(c.verify(kvc_manager_commit_ahead(c.get(), r.id, 22 * B, 0)), KVC_OK) << kvc_last_error();
  EXPECT_EQ(c.table(r.id, 1), table);
  EXPECT_EQ(c.hit(tokens), 22u * B);
  c.commit(r.id, 22 * B);
  EXPECT_NE(c.table(r.id, 1), table);
  c.free(r.id);
}

// Where a failed step takes back what it was to write, nothing else may say that it is written.
TEST(Admission, NoCommitIsAheadOfWhatIsFilling) {
  kvc_manager_config config = shape(40, B);
  config.flags = KVC_MANAGER_FILLS;
  Cache c(config);
  const Admitted r = c.allocate(text(1, 2 * B));
  EXPECT_REFUSED(c, KVC_ERROR_UNSUPPORTED, kvc_manager_commit_ahead(c.get(), r.id, 2 * B, B));
  EXPECT_EQ(c.verify(kvc_manager_commit_ahead(c.get(), r.id, 2 * B, 2 * B)), KVC_OK);
}

// Nor do steps, which know requests that they have seen before.
TEST(Admission, AStepCommitsNoPartOfATransferEither) {
  Cache c(shape(0, B), {full_group(), window_group(8, 0, 0, 1)}, {70, 20});
  RequestOptions options = request_config();
  options.external_tokens = 20 * B;
  const Admitted r = c.allocate(text(1, 20 * B + 1), options);
  const uint64_t offsets[] = {0, 1};
  const int32_t token = 5;
  kvc_status status = KVC_OK;
  kvc_step step = sized<kvc_step>();
  step.num_requests = 1, step.requests = &r.id, step.status = &status;
  step.extend_offsets = offsets, step.extend_tokens = &token;
  ASSERT_EQ(c.verify(kvc_manager_step(c.get(), &step)), KVC_OK) << kvc_last_error();
  ASSERT_EQ(status, KVC_OK);
  for (uint64_t inside = 1; inside < 20 * B - 1; ++inside) {
    step.committed = &inside;
    ASSERT_EQ(c.verify(kvc_manager_step(c.get(), &step)), KVC_OK) << kvc_last_error();
    EXPECT_EQ(status, KVC_ERROR_INVALID_ARGUMENT) << inside;
    step.committed = nullptr;
    ASSERT_EQ(c.verify(kvc_manager_step(c.get(), &step)), KVC_OK) << kvc_last_error();
    if (c.request(r.id).num_tokens % B == 2) break;
  }
  const uint64_t end = 20 * B;
  step.committed = &end;
  ASSERT_EQ(c.verify(kvc_manager_step(c.get(), &step)), KVC_OK) << kvc_last_error();
  EXPECT_EQ(status, KVC_OK);
}

// Steps of 512 tokens in a window of 1,024: what headroom expects comes and goes there too.
TEST(Admission, HeadroomNeedsAWindowOnce) {
  const auto admits = [](uint64_t full_blocks, uint64_t window_blocks) {
    kvc_manager_config config = shape(0, 16);
    config.flags = KVC_MANAGER_HEADROOM;
    Cache c(config, {full_group(), window_group(1024, 0, 0, 1)}, {full_blocks, window_blocks});
    const Admitted ended = c.compute(text(1, 50));
    for (uint64_t n = 50; n < 150; ++n) {
      c.append(ended.id, {5});
      c.commit(ended.id, n + 1);
    }
    c.free(ended.id);
    c.compute(text(2, 50));  // it holds 4 blocks of each group
    RequestOptions options = request_config();
    options.slots = 512, options.headroom = KVC_HEADROOM_BALANCED;
    Admitted r;
    if (c.try_allocate(text(3, 20000), &r, options) != KVC_OK) return false;
    EXPECT_EQ(c.request(r.id).capacity, 512u);
    compute_all(c, r.id, 512, 20100);
    return true;
  };
  EXPECT_TRUE(admits(1257 + 4, 97 + 4));  // (20,000 tokens + 103) / 16
  EXPECT_FALSE(admits(1256 + 4, 97 + 4));
  EXPECT_FALSE(admits(1257 + 4, 96 + 4));
}

// A request that has grown longer than its window's pool comes back in steps of other lengths.
TEST(Admission, APreemptedRequestComesBackWithOtherSlots) {
  Cache c(shape(0, B), {full_group(), window_group(16, 0, 0, 1)}, {70, most_held(window_group(16), 8)});
  const Tokens tokens = text(1, kPrompt);
  const Admitted r = c.compute(first(tokens, 5), request_config(KVC_REQUEST_FULL_MUST_FIT));
  for (uint64_t n = 5; n < kPrompt; ++n) {
    c.append(r.id, {tokens[n]});
    c.commit(r.id, n + 1);
  }
  c.preempt(r.id);
  c.evict(1000);
  uint64_t cached = 7;
  EXPECT_EQ(kvc_manager_admit_request(c.get(), r.id, &cached), KVC_ERROR_NO_SPACE) << "all in one step";
  EXPECT_NE(std::string(kvc_last_error()).find("smaller steps (slots, kvc_step.admit_slots)"),
            std::string::npos);
  uint64_t slots = 8, admitted = 0;
  kvc_status status = KVC_OK;
  kvc_step step = sized<kvc_step>();
  step.num_admissions = 1, step.admit_requests = &r.id, step.admit_slots = &slots;
  step.admitted = &admitted, step.cached = &cached, step.status = &status;
  ASSERT_EQ(kvc_manager_step(c.get(), &step), KVC_OK) << kvc_last_error();
  ASSERT_EQ(status, KVC_OK) << kvc_last_error();
  EXPECT_EQ(admitted, r.id);
  EXPECT_EQ(c.request(r.id).capacity, 8u);
  ASSERT_EQ(kvc_manager_retire_step(c.get(), step.step_id), KVC_OK);
  compute_all(c, r.id, 8, kPrompt + 1);
}

}  // namespace
}  // namespace conformance
