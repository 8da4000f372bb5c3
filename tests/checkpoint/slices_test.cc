// SPDX-License-Identifier: Apache-2.0
// Contents are read a slice at a time, and others change the manager in between: what is read can be, and
// every position has the way that it had. A request that was saved while it decoded goes on as if nothing had
// been.
#include <kvcache/quota.h>
#include <kvcache/retention.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "calls_with_files.h"
#include "checkpoint/commit.h"

namespace kvc {
namespace {

using test::Engine;
using test::Folder;
using test::Form;
using test::say;
using test::Spoken;

// The tokens of a position follow from its prompt's number and its depth.
constexpr int32_t kVocabulary = 64;
Spoken numbered(uint64_t number, size_t tokens, uint32_t tenant) {
  Spoken spoken;
  spoken.tenant = tenant;
  for (size_t i = 0; i < tokens; ++i)
    spoken.tokens.push_back(static_cast<int32_t>(number) * kVocabulary +
                            static_cast<int32_t>(i / 4 % kVocabulary));
  return spoken;
}

struct SliceCase {
  const char* name;
  uint32_t policy, flags;
};
class Slices : public testing::TestWithParam<SliceCase> {};

TEST_P(Slices, GiveContentsThatCanBe) {
  Form form;
  form.num_blocks = 600, form.policy = GetParam().policy, form.flags = GetParam().flags, form.max_quotas = 2;
  Engine engine(form);
  std::vector<Spoken> prompts;
  for (uint64_t i = 0; i < 150; ++i)
    prompts.push_back(numbered(i, 16 + i * 7 % 90, static_cast<uint32_t>(i % 3)));
  for (const Spoken& spoken : prompts) engine.run(spoken);
  constexpr uint64_t kMost = 400;  // of a quota; two are more than there is
  std::set<uint64_t> waiting;      // requests that outlive resets
  for (uint32_t tenant = 0; tenant < 3; ++tenant) {
    const kvc_prompt prompt = engine.prompt_of(prompts[tenant]);
    uint64_t id = 0;
    ASSERT_EQ(kvc_manager_create_request(engine.m, &prompt, nullptr, &id), KVC_OK) << kvc_last_error();
    waiting.insert(id);
  }
  std::atomic<bool> ends{false};
  std::thread others([&] {
    std::mt19937_64 random(test::test_seed());
    while (!ends) {
      const Spoken& spoken = prompts[random() % prompts.size()];
      const kvc_prompt prompt = engine.prompt_of(spoken);
      uint64_t id = 0;
      EXPECT_EQ(kvc_manager_allocate_request(engine.m, &prompt, nullptr, &id, nullptr), KVC_OK);
      EXPECT_EQ(kvc_manager_commit_tokens(engine.m, id, spoken.tokens.size()), KVC_OK);
      engine.end(id);
      if (random() % 8 == 0) engine.evict(random() % 60);
      if (random() % 40 == 0) {
        EXPECT_EQ(kvc_manager_reset_namespace(engine.m, engine.tenants[random() % 3]), KVC_OK);
      }
      if (random() % 10 == 0) {  // names move to the places of others
        for (const char* name : {"a", "b"}) kvc_manager_unregister_prompt(engine.m, name);
        const kvc_prompt long_one = engine.prompt_of(prompts[12]);
        for (const char* name : {"a", "b"})
          EXPECT_EQ(kvc_manager_register_prompt(engine.m, name, &long_one, nullptr), KVC_OK);
      }
      if (random() % 10 == 0) {  // a minimum goes from one to the other
        const size_t from = 1 + random() % 2;
        kvc_manager_set_quota(engine.m, engine.tenants[from], 0, 0, 0);
        kvc_manager_set_quota(engine.m, engine.tenants[3 - from], 0, kMost, 0);
      }
    }
  });
  for (int round = 0; round < 150; ++round) {
    Manifest manifest;
    manifest.id = 1;
    manifest.groups.resize(1);
    ASSERT_EQ(engine.m->impl->read_contents(true, &manifest.contents), KVC_OK);
    const Contents& contents = manifest.contents;
    EXPECT_LE(contents.longest_hold, SlicedHold::kSlice);
    uint64_t minimums = 0;
    for (const Contents::Quota& quota : contents.quotas) minimums += quota.min;
    EXPECT_LE(minimums, kMost);
    size_t found = 0;
    for (const Contents::WaitingRequest& request : contents.requests) found += waiting.count(request.id);
    EXPECT_EQ(found, waiting.size());
    for (const Contents::Pool& pool : contents.pools) {
      for (size_t i = 0; i < pool.blocks.size(); ++i)
        manifest.pages.push_back({{}, 0, 0, Manifest::kNoFile, 0, 0, 0});
    }
    ASSERT_EQ(check_manifest("contents", manifest), KVC_OK) << kvc_last_error();
    std::set<std::pair<int32_t, uint32_t>> once;
    std::vector<int32_t> number(contents.positions.size());
    for (size_t i = 0; i < number.size(); ++i) {
      const Contents::Position& position = contents.positions[i];
      const int32_t* const tokens = contents.tokens_of(i);
      number[i] = tokens[0] / kVocabulary;
      ASSERT_TRUE(once.emplace(number[i], position.depth).second) << "a position is there twice";
      ASSERT_EQ(tokens[0] % kVocabulary, static_cast<int32_t>(position.depth) % kVocabulary);
      if (position.parent >= 0) {
        ASSERT_EQ(number[i], number[static_cast<size_t>(position.parent)]);
      }
      ASSERT_EQ(position.ns, static_cast<uint32_t>(number[i] % 3));
    }
  }
  ends = true;
  others.join();
  engine.check();
}

INSTANTIATE_TEST_SUITE_P(Forms, Slices,
                         testing::Values(SliceCase{"Lru", KVC_POLICY_LRU, 0},
                                         SliceCase{"Hints", KVC_POLICY_LRU, KVC_MANAGER_HINTS},
                                         SliceCase{"Frequency", KVC_POLICY_FREQUENCY, 0},
                                         SliceCase{"Heads", KVC_POLICY_LRU, KVC_MANAGER_PARTIAL_REUSE}),
                         [](const auto& at) { return std::string(at.param.name); });

// What a restore no longer needs goes back to the manager's arena, from which other threads take.
// ThreadSanitizer sees who does so without the lock.
TEST(RestoreBesideProbes, TakesNothingFromThem) {
  const Folder folder;
  const std::string path = folder / "c";
  Form form;
  form.num_blocks = 16;
  Engine old(form);
  Spoken spoken;
  spoken.tokens = test::tokens_of(5, 40);
  for (uint64_t first = 0; first < 40; first += 4) {
    kvc_extra_key key = {};
    key.first_token = first, key.num_tokens = 2, key.digest[0] = 1;
    spoken.keys.push_back(key);
  }
  old.run(spoken);
  old.save(path);
  for (int round = 0; round < 30; ++round) {
    Engine fresh(form);
    std::atomic<bool> done{false};
    std::thread prober([&] {
      while (!done) fresh.hit(spoken);
    });
    fresh.restore(path);
    done = true;
    prober.join();
    EXPECT_EQ(fresh.content(), old.content());
    fresh.check();
  }
}

// Between two slices a minimum goes from a tenant that was read to one that was not, or back.
TEST(SlicesOfQuotas, AreOfOneMoment) {
  constexpr uint64_t kMost = 400, kTenants = 40;  // with the namespaces more than a slice
  Form form;
  form.num_blocks = 600, form.max_quotas = kTenants;
  Engine engine(form);
  engine.open_tenant(kTenants);
  const auto set = [&](size_t tenant, uint64_t minimum) {
    EXPECT_EQ(kvc_manager_set_quota(engine.m, engine.tenants[tenant], 0, minimum, 500), KVC_OK)
        << kvc_last_error();
  };
  for (size_t i = 1; i <= kTenants; ++i) set(i, 0);
  size_t holder = 1, moves = 0;
  set(holder, kMost);
  const auto move = [&] {
    set(holder, 0);
    holder = holder == 1 ? kTenants : 1;
    set(holder, kMost);
    ++moves;
  };
  Contents contents;
  ASSERT_EQ(engine.m->impl->read_contents(false, &contents, move), KVC_OK);
  EXPECT_GE(moves, 2u);
  EXPECT_EQ(contents.quotas.size(), kTenants);
  uint64_t minimums = 0;
  for (const Contents::Quota& quota : contents.quotas) minimums += quota.min;
  EXPECT_EQ(minimums, kMost);
}

// The first position of a prompt has no block from now on; it lives, as those behind it have. When it is
// computed again, it moves before its siblings.
void lose_first(Engine& engine, const Spoken& spoken) {
  const uint64_t id = engine.begin(spoken);
  std::vector<int32_t> table(spoken.tokens.size() / engine.form.block_size);
  EXPECT_EQ(kvc_manager_export_tables(engine.m, &id, 1, 0, -1, table.data(), table.size()), KVC_OK);
  uint64_t unpublished = 0;
  EXPECT_EQ(kvc_manager_unpublish_blocks(engine.m, table.data(), 1, &unpublished), KVC_OK);
  engine.end(id);
}

// A position that gets its first block moves before its siblings, and the walk that rests behind it comes by
// them once more.
TEST(SlicesOfHeads, HaveEachPositionOnce) {
  Form form;
  form.num_blocks = 600, form.flags = KVC_MANAGER_PARTIAL_REUSE;
  Engine engine(form);
  constexpr size_t kPrompts = 6, kDepth = 20;
  for (uint64_t i = 0; i < kPrompts; ++i) engine.run(numbered(i, kDepth * form.block_size, 0));
  const Spoken newest = numbered(kPrompts - 1, kDepth * form.block_size, 0);
  const Spoken second = numbered(kPrompts - 2, kDepth * form.block_size, 0);
  uint64_t holder = 0;
  const auto move = [&] {  // after the first slice: the newest prompt was read, and the second comes next
    if (holder != 0) return;
    lose_first(engine, newest);
    const Spoken other = numbered(kPrompts, form.block_size, 0);
    const kvc_prompt prompt = engine.prompt_of(other);  // it takes the block, so that another one comes
    EXPECT_EQ(kvc_manager_allocate_request(engine.m, &prompt, nullptr, &holder, nullptr), KVC_OK);
    engine.run(newest);
    lose_first(engine, second);
    engine.run(second);  // now it stands before the newest
  };
  Contents contents;
  ASSERT_EQ(engine.m->impl->read_contents(false, &contents, move), KVC_OK);
  std::map<std::pair<int32_t, uint32_t>, int> found;
  for (size_t i = 0; i < contents.positions.size(); ++i)
    ++found[{contents.tokens_of(i)[0] / kVocabulary, contents.positions[i].depth}];
  EXPECT_EQ(found.size(), kPrompts * kDepth);
  for (const auto& [position, times] : found)
    EXPECT_EQ(times, 1) << position.first << " at " << position.second;
  size_t blocks = 0;
  for (const Contents::Pool& pool : contents.pools) blocks += pool.blocks.size();
  EXPECT_EQ(blocks, kPrompts * kDepth);
  engine.end(holder);
  engine.check();
}

// The walk comes from the front, and does not come by what moves there from behind it.
TEST(SlicesOfHeads, HaveWhatComesToTheFront) {
  Form form;
  form.num_blocks = 600, form.flags = KVC_MANAGER_PARTIAL_REUSE;
  Engine engine(form);
  constexpr size_t kPrompts = 8, kDepth = 40;
  const auto prompt = [&](size_t i) { return numbered(i, kDepth * form.block_size, 0); };
  for (uint64_t i = 0; i < kPrompts; ++i) engine.run(prompt(i));
  size_t oldest = 0;
  const auto move = [&] {  // the oldest, or in the middle of the second oldest
    const Spoken spoken = prompt(oldest % 2);
    lose_first(engine, spoken);
    engine.run(spoken);
    ++oldest;
  };
  Contents contents;
  ASSERT_EQ(engine.m->impl->read_contents(false, &contents, move), KVC_OK);
  EXPECT_GT(oldest, 2u);
  EXPECT_LE(contents.longest_hold, 2 * kDepth + SlicedHold::kSlice) << "a slice, and one admission";
  std::map<std::pair<int32_t, uint32_t>, int> found;
  for (size_t i = 0; i < contents.positions.size(); ++i)
    ++found[{contents.tokens_of(i)[0] / kVocabulary, contents.positions[i].depth}];
  EXPECT_EQ(found.size(), kPrompts * kDepth);
  for (const auto& [position, times] : found)
    EXPECT_EQ(times, 1) << position.first << " at " << position.second;
  engine.check();
}

// Moves at the depth of long prompts read their way again, and cost other namespaces nothing.
TEST(SlicesOfHeads, AreWholeForAllNamespaces) {
  Form form;
  form.num_blocks = 2400, form.flags = KVC_MANAGER_PARTIAL_REUSE;
  Engine engine(form);
  constexpr size_t kDepth = 150, kOthers = 6, kMoved = 4;
  for (uint32_t i = 0; i < kOthers + kMoved; ++i)
    engine.run(numbered(i, kDepth * form.block_size, i < kMoved ? 0 : i));
  size_t count = 0;
  const auto move = [&] {
    const Spoken spoken = numbered(count++ % kMoved, kDepth * form.block_size, 0);
    lose_first(engine, spoken);
    engine.run(spoken);
  };
  Contents contents;
  ASSERT_EQ(engine.m->impl->read_contents(false, &contents, move), KVC_OK);
  EXPECT_EQ(contents.positions.size(), kDepth * (kOthers + kMoved));
}

// The dead that wait for their end make no slice longer, and may end while a reader rests among them.
TEST(SlicesOfTheDead, AreShort) {
  constexpr size_t kPrompts = 300, kDepth = 1 + 8 + 1;  // one in common; one more than a death goes up
  Form form;
  form.num_blocks = kPrompts * kDepth + 100;
  Engine engine(form);
  std::vector<int32_t> inner, last;
  for (size_t i = 0; i < kPrompts; ++i) {
    Spoken spoken = numbered(0, form.block_size, 0);
    const Spoken own = numbered(i + 1, (kDepth - 1) * form.block_size, 0);
    spoken.tokens.insert(spoken.tokens.end(), own.tokens.begin(), own.tokens.end());
    const uint64_t id = engine.begin(spoken);
    std::vector<int32_t> table(kDepth);
    EXPECT_EQ(kvc_manager_export_tables(engine.m, &id, 1, 0, -1, table.data(), kDepth), KVC_OK);
    engine.end(id);
    if (i % 100 == 0) continue;  // this one lives
    inner.insert(inner.end(), table.begin() + 1, table.end() - 1);
    last.push_back(table.back());
  }
  uint64_t unpublished = 0;
  for (const std::vector<int32_t>* blocks : {&inner, &last})
    ASSERT_EQ(kvc_manager_unpublish_blocks(engine.m, blocks->data(), blocks->size(), &unpublished), KVC_OK);
  size_t slices = 0;
  const auto come = [&] {  // each new position ends one of the dead: all of them, where the walk rests too
    if (++slices != 1) return;
    for (size_t i = 0; i < kPrompts / kDepth; ++i) engine.run(numbered(400 + i, kDepth * form.block_size, 1));
  };
  Contents contents;
  ASSERT_EQ(engine.m->impl->read_contents(false, &contents, come), KVC_OK);
  EXPECT_LE(contents.longest_hold, SlicedHold::kSlice);
  EXPECT_GE(slices, 2u);
  size_t of_the_living = 0;
  std::set<std::pair<int32_t, uint32_t>> once;
  for (size_t i = 0; i < contents.positions.size(); ++i) {
    const int32_t number = contents.tokens_of(i)[0] / kVocabulary;
    of_the_living += number % 100 == 1 && number < 400;
    EXPECT_TRUE(once.emplace(number, contents.positions[i].depth).second) << number;
  }
  EXPECT_EQ(of_the_living, kPrompts / 100 * (kDepth - 1));
  engine.check();
}

// The next token of a model that looks at all keys and values: a sum over the bytes of the full blocks, and
// the tokens behind them.
int32_t next_token(Engine& engine, uint64_t id, const Spoken& spoken) {
  const size_t count = spoken.tokens.size() / engine.form.block_size;
  std::vector<int32_t> table(count + 1, -1);
  EXPECT_EQ(kvc_manager_export_tables(engine.m, &id, 1, 0, -1, table.data(), table.size()), KVC_OK);
  std::vector<char> page(engine.info.page_bytes);
  uint64_t sum = 1;
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(kvc_storage_pack_pages(engine.storages[0], &table[i], 1, page.data(), page.size(), 0), KVC_OK);
    for (const char byte : page) sum = sum * 31 + static_cast<unsigned char>(byte);
  }
  for (size_t i = count * engine.form.block_size; i < spoken.tokens.size(); ++i)
    sum = sum * 31 + static_cast<uint64_t>(spoken.tokens[i]);
  return static_cast<int32_t>(sum % 30000);
}
// One step: the token comes, and the block that it fills is written.
void decode(Engine& engine, uint64_t id, Spoken* spoken) {
  const int32_t token = next_token(engine, id, *spoken);
  EXPECT_EQ(kvc_manager_append_tokens(engine.m, id, &token, 1), KVC_OK) << kvc_last_error();
  spoken->tokens.push_back(token);
  if (spoken->tokens.size() % engine.form.block_size == 0) {
    const size_t last = spoken->tokens.size() / engine.form.block_size - 1;
    std::vector<int32_t> table(last + 1, -1);
    EXPECT_EQ(kvc_manager_export_tables(engine.m, &id, 1, 0, -1, table.data(), table.size()), KVC_OK);
    const std::vector<char> page = engine.page_of_key(engine.keys_of(*spoken, 0)[last]);
    EXPECT_EQ(kvc_storage_unpack_pages(engine.storages[0], &table[last], 1, page.data(), page.size(), 0),
              KVC_OK);
  }
  EXPECT_EQ(kvc_manager_commit_tokens(engine.m, id, spoken->tokens.size()), KVC_OK) << kvc_last_error();
}

TEST(ARequest, OfAManagerWithFillsNeedsOne) {
  const Folder folder;
  Form form;
  form.flags = KVC_MANAGER_FILLS;
  Engine old(form), with(form), without(Form{});
  const Spoken spoken = say(4, 22);
  const kvc_prompt prompt = old.prompt_of(spoken);
  kvc_request_config config = {};
  config.struct_size = sizeof config, config.flags = KVC_REQUEST_SHARE_FILLING;
  uint64_t id = 0;
  ASSERT_EQ(kvc_manager_create_request(old.m, &prompt, &config, &id), KVC_OK) << kvc_last_error();
  old.save(folder / "c", KVC_CHECKPOINT_REQUESTS);
  kvc_checkpoint_info info;
  const uint64_t before = without.digest();
  EXPECT_EQ(without.restore(without.config(folder / "c", KVC_CHECKPOINT_REQUESTS), &info),
            KVC_ERROR_UNSUPPORTED);
  EXPECT_NE(std::string(kvc_last_error()).find("KVC_MANAGER_FILLS"), std::string::npos) << kvc_last_error();
  EXPECT_EQ(without.digest(), before);
  without.check();
  with.restore(folder / "c", KVC_CHECKPOINT_REQUESTS);
  with.check();
}

TEST(ARequest, GoesOnDecodingWithTheSameTokens) {
  const Folder folder;
  Engine old(Form{}), fresh(Form{});
  Spoken spoken = say(4, 22);
  const uint64_t id = old.begin(spoken);
  for (int i = 0; i < 7; ++i) decode(old, id, &spoken);
  old.save(folder / "c", KVC_CHECKPOINT_REQUESTS);
  fresh.restore(folder / "c", KVC_CHECKPOINT_REQUESTS);
  ASSERT_EQ(fresh.request_pairs.size(), 1u);
  const uint64_t again = fresh.request_pairs[0].new_id;
  EXPECT_EQ(fresh.request_pairs[0].num_tokens, 29u);
  EXPECT_EQ(fresh.request_pairs[0].num_committed, 29u);
  Contents contents;
  ASSERT_EQ(fresh.m->impl->read_contents(true, &contents), KVC_OK);
  ASSERT_EQ(contents.requests.size(), 1u);
  EXPECT_EQ(contents.requests[0].prompt_tokens, 22u) << "the others were generated";
  uint64_t cached = 0;
  ASSERT_EQ(kvc_manager_admit_request(fresh.m, again, &cached), KVC_OK) << kvc_last_error();
  EXPECT_EQ(cached, 28u) << "all of its full blocks; one token is computed again";
  ASSERT_EQ(kvc_manager_commit_tokens(fresh.m, again, spoken.tokens.size()), KVC_OK);
  Spoken other = spoken;
  for (int i = 0; i < 20; ++i) {
    decode(old, id, &spoken);
    decode(fresh, again, &other);
    ASSERT_EQ(other.tokens, spoken.tokens) << i;
  }
  fresh.check();
}

}  // namespace
}  // namespace kvc
