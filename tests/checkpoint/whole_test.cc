// SPDX-License-Identifier: Apache-2.0
// What a checkpoint has besides blocks and requests of a decoder: registered prompts with their pins, quotas,
// encoders. With all of it a new manager of the same form has the same digest.
#include <kvcache/quota.h>
#include <kvcache/request.h>

#include "calls_with_files.h"
#include "golden.h"
#include "manager/restore.h"

namespace kvc {
namespace {

using test::Engine;
using test::Folder;
using test::Form;
using test::say;
using test::Spoken;

void expect_text(const char* word) {
  EXPECT_NE(std::string(kvc_last_error()).find(word), std::string::npos) << kvc_last_error();
}
uint64_t add_prompt(Engine& engine, const char* name, const Spoken& spoken) {
  const kvc_prompt prompt = engine.prompt_of(spoken);
  uint64_t pinned = 0;
  EXPECT_EQ(kvc_manager_register_prompt(engine.m, name, &prompt, &pinned), KVC_OK) << kvc_last_error();
  return pinned;
}
void set_quota(Engine& engine, uint32_t tenant, uint64_t min, uint64_t max) {
  EXPECT_EQ(kvc_manager_set_quota(engine.m, engine.open_tenant(tenant), 0, min, max), KVC_OK)
      << kvc_last_error();
}
kvc_quota_info quota_of(Engine& engine, uint64_t ns) {
  kvc_quota_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_manager_quota_info(engine.m, ns, 0, &info), KVC_OK) << kvc_last_error();
  return info;
}
Spoken of_tenant(uint32_t tenant, uint64_t seed, size_t tokens) {
  Spoken spoken = say(seed, tokens);
  spoken.tenant = tenant;
  return spoken;
}

struct PromptCase {
  const char* name;
  uint32_t policy, flags;
  uint64_t window;
};
class Prompts : public testing::TestWithParam<PromptCase> {
 protected:
  Form form() const {
    Form out;
    out.policy = GetParam().policy, out.flags = GetParam().flags;
    if (GetParam().window != 0) out.num_groups = 2, out.window = GetParam().window;
    out.num_blocks = 200;
    return out;
  }
};

TEST_P(Prompts, ComeBackWithTheirPinsAndNames) {
  const Folder folder;
  Engine old(form());
  add_prompt(old, "gone", say(9, 8));
  const Spoken a = of_tenant(1, 1, 40), b = say(2, 30);
  old.run(a);
  add_prompt(old, "a", a);  // all of it is cached
  add_prompt(old, "b", b);  // nothing of it is
  add_prompt(old, "later", say(3, 20));
  old.run(say(3, 20));  // cached and not pinned: nobody asked for it by its name
  ASSERT_EQ(kvc_manager_unregister_prompt(old.m, "gone"), KVC_OK);
  uint64_t id = 0, cached = 0;
  ASSERT_EQ(kvc_manager_allocate_from_prompt(old.m, "b", nullptr, 0, nullptr, &id, &cached), KVC_OK)
      << kvc_last_error();
  ASSERT_EQ(kvc_manager_commit_tokens(old.m, id, 30), KVC_OK);
  old.end(id);  // now it is pinned
  test::speak(old, 4, 12);
  const uint64_t before = old.digest();
  old.save(folder / "c");
  EXPECT_EQ(old.digest(), before);

  Engine fresh(form());
  const kvc_checkpoint_info restored = fresh.restore(folder / "c");
  EXPECT_EQ(restored.ids_kept, 1u);
  fresh.check();
  EXPECT_EQ(fresh.digest(), before);
  EXPECT_EQ(fresh.content(), old.content());
  for (Engine* one : {&old, &fresh}) {  // pins stay, the rest goes
    while (one->evict(50) != 0) {
    }
    one->check();
    EXPECT_EQ(one->hit(b), 28u);
    EXPECT_EQ(one->hit(say(3, 20)), 0u);
  }
  EXPECT_EQ(fresh.digest(), old.digest());
  ASSERT_EQ(kvc_manager_allocate_from_prompt(fresh.m, "b", nullptr, 0, nullptr, &id, &cached), KVC_OK);
  EXPECT_EQ(cached, 28u);
  fresh.end(id);
  for (const char* name : {"a", "b", "later"})
    EXPECT_EQ(kvc_manager_unregister_prompt(fresh.m, name), KVC_OK) << kvc_last_error();
  fresh.check();
}

// What a request held comes back behind all others, and what a prompt pins leaves the order.
TEST_P(Prompts, BesideARequestKeepTheOrder) {
  const Folder folder;
  Engine old(form());
  const Spoken pinned = say(1, 40);
  old.run(pinned);
  add_prompt(old, "a", pinned);
  old.run(say(2, 30));
  const uint64_t live = old.begin(say(3, 40));
  old.save(folder / "c");
  Engine fresh(form());
  fresh.restore(folder / "c");
  fresh.check();
  old.end(live);
}

TEST_P(Prompts, MayBeLeftOut) {
  const Folder folder;
  Engine old(form());
  const Spoken a = say(1, 40);
  old.run(a);
  add_prompt(old, "a", a);
  old.save(folder / "c");
  Engine fresh(form());
  fresh.restore(folder / "c", KVC_CHECKPOINT_CACHE_ONLY);
  fresh.check();
  EXPECT_EQ(fresh.hit(a), 36u);
  EXPECT_EQ(kvc_manager_unregister_prompt(fresh.m, "a"), KVC_ERROR_NOT_FOUND);
  Engine has_one(form());
  add_prompt(has_one, "mine", a);
  const uint64_t before = has_one.digest();
  kvc_checkpoint_info info;
  EXPECT_EQ(has_one.restore(has_one.config(folder / "c"), &info), KVC_ERROR_BUSY);
  expect_text("1 registered prompts");
  EXPECT_EQ(has_one.digest(), before);
  has_one.restore(folder / "c", KVC_CHECKPOINT_CACHE_ONLY);
  has_one.check();
}

INSTANTIATE_TEST_SUITE_P(Forms, Prompts,
                         testing::Values(PromptCase{"Lru", KVC_POLICY_LRU, 0, 0},
                                         PromptCase{"Frequency", KVC_POLICY_FREQUENCY, 0, 0},
                                         PromptCase{"Fragmentation", KVC_POLICY_FRAGMENTATION, 0, 10},
                                         PromptCase{"Hints", KVC_POLICY_LRU, KVC_MANAGER_HINTS, 0},
                                         PromptCase{"Windows", KVC_POLICY_LRU, 0, 10}),
                         [](const auto& at) { return std::string(at.param.name); });

TEST(RestoredPrompts, AreThoseOfTheirRequests) {
  const Folder folder;
  Engine old(Form{});
  const Spoken a = say(1, 40);
  add_prompt(old, "a", a);
  uint64_t id = 0, cached = 0;
  ASSERT_EQ(kvc_manager_allocate_from_prompt(old.m, "a", nullptr, 0, nullptr, &id, &cached), KVC_OK);
  old.save(folder / "c", KVC_CHECKPOINT_REQUESTS);
  Engine fresh(Form{});
  fresh.restore(folder / "c", KVC_CHECKPOINT_REQUESTS);
  ASSERT_EQ(fresh.request_pairs.size(), 1u);
  id = fresh.request_pairs[0].new_id;
  ASSERT_EQ(kvc_manager_admit_request(fresh.m, id, &cached), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_manager_commit_tokens(fresh.m, id, 40), KVC_OK);
  fresh.end(id);
  EXPECT_EQ(fresh.evict(100), 0u) << "what the request computed is pinned by its prompt";
  EXPECT_EQ(fresh.hit(a), 36u);
  fresh.check();
}

TEST(Quotas, ComeBackWithTheirBlocks) {
  const Folder folder;
  Form form;
  form.max_quotas = 4;
  Engine old(form);
  set_quota(old, 1, 4, 8);
  set_quota(old, 2, 10, 0);
  set_quota(old, 3, 0, 20);
  set_quota(old, 1, 0, 0);  // ended: numbers have a gap
  for (uint64_t i = 0; i < 6; ++i) old.run(of_tenant(static_cast<uint32_t>(i % 4), i, 40));
  const uint64_t before = old.digest();
  old.save(folder / "c");
  Engine fresh(form);
  fresh.restore(folder / "c");
  fresh.check();
  EXPECT_EQ(fresh.digest(), before);
  ASSERT_EQ(fresh.namespace_pairs.size(), 3u);
  for (const kvc_namespace_pair& pair : fresh.namespace_pairs) {
    const kvc_quota_info a = quota_of(old, pair.old_id), b = quota_of(fresh, pair.new_id);
    EXPECT_EQ(a.min_blocks, b.min_blocks);
    EXPECT_EQ(a.max_blocks, b.max_blocks);
    EXPECT_EQ(a.cached, b.cached);
    EXPECT_EQ(a.available, b.available);
  }
}

TEST(Quotas, ThatDoNotFitAreRefusedByNameOrLeftOut) {
  const Folder folder;
  Form form;
  form.max_quotas = 2;
  Engine old(form);
  set_quota(old, 1, 30, 0);
  set_quota(old, 2, 20, 40);
  for (uint64_t i = 0; i < 6; ++i) old.run(of_tenant(static_cast<uint32_t>(i % 3), i, 40));
  old.save(folder / "c");
  const auto refuses = [&](uint64_t num_blocks, uint32_t max_quotas, kvc_status status, const char* word) {
    Form other = form;
    other.num_blocks = num_blocks, other.max_quotas = max_quotas;
    Engine fresh(other);
    const uint64_t before = fresh.digest();
    kvc_checkpoint_info info;
    EXPECT_EQ(fresh.restore(fresh.config(folder / "c"), &info), status) << kvc_last_error();
    expect_text(word);
    EXPECT_EQ(fresh.digest(), before);
    fresh.restore(folder / "c", KVC_CHECKPOINT_CACHE_ONLY);
    fresh.check();
    EXPECT_EQ(fresh.wrong, 0u);
  };
  refuses(64, 0, KVC_ERROR_LIMIT, "max_quotas of the manager is 0");
  refuses(64, 1, KVC_ERROR_LIMIT, "max_quotas of the manager is 1");
  refuses(45, 2, KVC_ERROR_INVALID_ARGUMENT, "minimums of 50 blocks");
  Form smaller = form;
  smaller.num_blocks = 52;
  Engine fresh(smaller);
  EXPECT_GT(fresh.restore(folder / "c").left_out, 0u);
  fresh.check();
  Engine has_one(form);
  set_quota(has_one, 1, 3, 0);
  kvc_checkpoint_info info;
  EXPECT_EQ(has_one.restore(has_one.config(folder / "c"), &info), KVC_ERROR_BUSY);
}

TEST(QuotasAndPrompts, OfTenantsComeBackTogether) {
  const Folder folder;
  Form form;
  form.max_quotas = 2, form.policy = KVC_POLICY_FREQUENCY, form.flags = KVC_MANAGER_HINTS;
  form.num_blocks = 400;  // the uses of what was evicted are not kept
  Engine old(form);
  set_quota(old, 1, 20, 200);
  old.run(of_tenant(1, 1, 40));
  add_prompt(old, "mine", of_tenant(1, 1, 40));
  add_prompt(old, "ours", say(2, 40));
  for (uint64_t i = 10; i < 19; ++i) old.run(of_tenant(static_cast<uint32_t>(i % 2), i, 24));
  old.save(folder / "c");
  Engine fresh(form);
  fresh.restore(folder / "c");
  fresh.check();
  EXPECT_EQ(fresh.digest(), old.digest());
  // In a pool that has room for the minimum alone nothing breaks.
  for (const uint64_t blocks : {200u, 201u, 240u}) {
    Form other = form;
    other.num_blocks = blocks;
    Engine small(other);
    small.restore(folder / "c");
    small.check();
    for (uint64_t i = 20; i < 26; ++i) small.run(of_tenant(static_cast<uint32_t>(i % 2), i, 24));
    small.check();
  }
}

// ---- encoders

struct Encoded {
  uint64_t id;
  uint64_t cached;
  std::vector<int32_t> table;
};
Encoded encode(Engine& engine, uint8_t digest, uint64_t tokens, const Spoken& spoken) {
  Encoded out = {};
  kvc_request_config config = {};
  config.struct_size = sizeof config;
  config.cross_tokens = tokens;
  config.cross_digest[0] = digest;
  const kvc_prompt prompt = engine.prompt_of(spoken);
  uint64_t hit = 0;
  EXPECT_EQ(kvc_manager_allocate_request(engine.m, &prompt, &config, &out.id, &hit), KVC_OK)
      << kvc_last_error();
  kvc_request_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_manager_request_info(engine.m, out.id, &info), KVC_OK);
  out.cached = info.num_cross_cached;
  out.table.resize((tokens + engine.form.block_size - 1) / engine.form.block_size);
  EXPECT_EQ(kvc_manager_export_tables(engine.m, &out.id, 1, 1, -1, out.table.data(), out.table.size()),
            KVC_OK);
  return out;
}
std::vector<char> encoded_page(const Engine& engine, uint8_t digest, size_t position) {
  std::vector<char> page(engine.info.page_bytes);
  for (size_t i = 0; i < page.size(); ++i) page[i] = static_cast<char>(digest * 31 + position * 7 + i * i);
  return page;
}
// A request whose encoder and decoder run.
void run_encoder(Engine& engine, uint8_t digest, uint64_t tokens, const Spoken& spoken) {
  const Encoded made = encode(engine, digest, tokens, spoken);
  for (size_t j = 0; made.cached == 0 && j < made.table.size(); ++j) {
    const std::vector<char> page = encoded_page(engine, digest, j);
    EXPECT_EQ(kvc_storage_unpack_pages(engine.storages[1], &made.table[j], 1, page.data(), page.size(), 0),
              KVC_OK);
  }
  EXPECT_EQ(kvc_manager_commit_tokens(engine.m, made.id, spoken.tokens.size()), KVC_OK) << kvc_last_error();
  engine.end(made.id);
}
Form with_encoder() {
  Form form;
  form.num_groups = 2, form.last_kind = KVC_GROUP_CROSS, form.num_blocks = 120;
  return form;
}

TEST(Encoders, ComeBackWithTheirBytes) {
  const Folder folder;
  Engine old(with_encoder());
  run_encoder(old, 1, 18, say(1, 13));
  run_encoder(old, 2, 16, say(1, 9));
  run_encoder(old, 1, 18, say(2, 21));
  const uint64_t before = old.digest();
  const kvc_checkpoint_info saved = old.save(folder / "c");
  EXPECT_EQ(old.digest(), before);
  EXPECT_EQ(kvc_checkpoint_validate((folder / "c").c_str(), 0, nullptr), KVC_OK) << kvc_last_error();
  Engine fresh(with_encoder());
  EXPECT_EQ(fresh.restore(folder / "c").num_pages, saved.num_pages);
  fresh.check();
  EXPECT_EQ(fresh.digest(), before);
  for (const auto& [digest, tokens] : {std::pair<uint8_t, uint64_t>{1, 18}, {2, 16}}) {
    const Encoded found = encode(fresh, digest, tokens, say(1, 13));
    EXPECT_EQ(found.cached, tokens);
    for (size_t j = 0; j < found.table.size(); ++j) {
      std::vector<char> page(fresh.info.page_bytes);
      EXPECT_EQ(kvc_storage_pack_pages(fresh.storages[1], &found.table[j], 1, page.data(), page.size(), 0),
                KVC_OK);
      EXPECT_TRUE(page == encoded_page(fresh, digest, j)) << j;
    }
    fresh.end(found.id);
  }
  const Encoded other = encode(fresh, 1, 17, say(1, 13));
  EXPECT_EQ(other.cached, 0u) << "another number of tokens is another encoder";
  fresh.end(other.id);
}

TEST(Encoders, OfWaitingRequestsAreFoundAgain) {
  const Folder folder;
  Engine old(with_encoder());
  run_encoder(old, 5, 18, say(1, 13));
  const Encoded live = encode(old, 5, 18, say(1, 30));
  ASSERT_EQ(kvc_manager_commit_tokens(old.m, live.id, 30), KVC_OK);
  const Encoded alone = encode(old, 0, 10, say(3, 9));  // without a digest it is nobody else's
  const kvc_checkpoint_info saved = old.save(folder / "c", KVC_CHECKPOINT_REQUESTS);
  EXPECT_EQ(saved.num_requests, 2u);
  Engine fresh(with_encoder());
  fresh.restore(folder / "c", KVC_CHECKPOINT_REQUESTS);
  ASSERT_EQ(fresh.request_pairs.size(), 2u);
  for (const kvc_request_pair& pair : fresh.request_pairs) {
    uint64_t cached = 0;
    ASSERT_EQ(kvc_manager_admit_request(fresh.m, pair.new_id, &cached), KVC_OK) << kvc_last_error();
    kvc_request_info info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(kvc_manager_request_info(fresh.m, pair.new_id, &info), KVC_OK);
    EXPECT_EQ(info.num_cross_cached, pair.old_id == live.id ? 18u : 0u);
    EXPECT_EQ(cached, pair.old_id == live.id ? 28u : 0u);
    EXPECT_EQ(info.num_tokens, pair.old_id == live.id ? 30u : 9u);
  }
  fresh.check();
  EXPECT_NE(alone.id, 0u);
}

// ---- version 2 of the format, with some of everything

TEST(FormatVersion2, IsRead) {
  Form form = with_encoder();
  form.max_quotas = 2, form.flags = KVC_MANAGER_HINTS;
  const auto fill = [](Engine& engine) {
    set_quota(engine, 1, 4, 40);
    run_encoder(engine, 1, 18, say(1, 13));
    add_prompt(engine, "system", say(2, 12));
    uint64_t id = 0, cached = 0;
    ASSERT_EQ(kvc_manager_allocate_from_prompt(engine.m, "system", nullptr, 0, nullptr, &id, &cached),
              KVC_OK);
    for (const Spoken& spoken : {of_tenant(1, 5, 9), say(6, 9)})  // without an encoder: the bytes are any
      engine.run(spoken);
  };
  Engine old(form);
  fill(old);
  const std::string golden = std::string(kGoldenFolder) + "/golden_v2";
  if (getenv("KVC_TEST_WRITE_GOLDEN") != nullptr) old.save(golden, KVC_CHECKPOINT_REQUESTS);
  Engine fresh(form);
  const kvc_checkpoint_info info = fresh.restore(golden, KVC_CHECKPOINT_REQUESTS);
  fresh.check();
  EXPECT_EQ(info.version, 2u);
  EXPECT_EQ(info.num_requests, 1u);
  EXPECT_EQ(fresh.content(), old.content());
  ASSERT_EQ(fresh.namespace_pairs.size(), 1u);
  EXPECT_EQ(quota_of(fresh, fresh.namespace_pairs[0].new_id).max_blocks, 40u);
  EXPECT_EQ(encode(fresh, 1, 18, say(1, 13)).cached, 18u);
  EXPECT_EQ(kvc_manager_unregister_prompt(fresh.m, "system"), KVC_OK) << kvc_last_error();
}

}  // namespace
}  // namespace kvc
