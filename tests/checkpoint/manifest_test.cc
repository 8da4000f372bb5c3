// SPDX-License-Identifier: Apache-2.0
// A manifest with right checksums may come from anywhere: whatever it says that cannot be is refused by name.
#include "checkpoint/manifest.h"

#include <kvcache/quota.h>

#include <cmath>
#include <functional>
#include <source_location>

#include "manager/cross.h"
#include "world.h"

namespace kvc {
namespace {

using test::Engine;
using test::Folder;
using test::Form;
using test::Spoken;

class ManifestTest : public testing::Test {
 protected:
  // Two namespaces with quotas, a registered prompt, requests, extra keys, two groups in pools of their own.
  ManifestTest() {
    Form form;
    form.num_blocks = 16, form.num_groups = 2, form.own_pools = true, form.max_quotas = 2;
    Engine engine(form);
    const std::string path = folder_ / "c";
    for (uint32_t tenant = 0; tenant < 2; ++tenant) {
      Spoken spoken;
      spoken.tenant = tenant;
      spoken.tokens = test::tokens_of(5 + tenant, 14);
      kvc_extra_key key = {};
      key.first_token = 2, key.num_tokens = 5, key.digest[3] = 1;
      spoken.keys.push_back(key);
      key.first_token = 3, key.num_tokens = 2;
      spoken.keys.push_back(key);
      const kvc_prompt prompt = engine.prompt_of(spoken);
      EXPECT_EQ(kvc_manager_set_quota(engine.m, prompt.namespace_id, tenant, 1, 8), KVC_OK)
          << kvc_last_error();
      EXPECT_EQ(kvc_manager_register_prompt(engine.m, tenant == 0 ? "a" : "b", &prompt, nullptr), KVC_OK)
          << kvc_last_error();
      engine.begin(spoken);
    }
    engine.save(path, KVC_CHECKPOINT_REQUESTS);
    const std::string bytes = test::read_file(path + "/00000000000000000001.kvcm");
    EXPECT_EQ(decode_manifest("m", bytes.data(), bytes.size(), &sound_), KVC_OK) << kvc_last_error();
    EXPECT_EQ(check_manifest("m", sound_), KVC_OK) << kvc_last_error();
  }
  void refused(const char* what, const std::function<void(Manifest&)>& change,
               std::source_location at = std::source_location::current()) {
    const testing::ScopedTrace trace(__FILE__, static_cast<int>(at.line()), what);
    Manifest manifest = sound_;
    change(manifest);
    EXPECT_EQ(check_manifest("m", manifest), KVC_ERROR_CORRUPT);
    EXPECT_EQ(std::string(kvc_last_error()).rfind(std::string("m: ") + what + " ", 0), 0u)
        << kvc_last_error();
  }

  const Folder folder_;
  Manifest sound_;
};

TEST_F(ManifestTest, GroupsThatCannotBe) {
  refused("block_size", [](Manifest& m) { m.contents.block_size = 0; });
  refused("block_size", [](Manifest& m) { m.contents.block_size = UINT32_MAX; });
  refused("the number of groups", [](Manifest& m) { m.contents.num_groups = 0; });
  refused("the number of groups", [](Manifest& m) { m.contents.pools.clear(); });
  refused("has_levels", [](Manifest& m) { m.contents.lists.has_levels = 2; });
  refused("the weight of the policy", [](Manifest& m) { m.contents.lists.policy_weight = -1; });
  refused("the weight of the policy", [](Manifest& m) { m.contents.lists.policy_weight = 1e31; });
  refused("the weight of the policy", [](Manifest& m) { m.contents.lists.policy_weight = NAN; });
  refused("the pool of group", [](Manifest& m) { m.groups[1].pool = 2; });
  refused("the page of group", [](Manifest& m) { m.groups[1].part_bytes = 0; });
  refused("the page of group", [](Manifest& m) { m.groups[0].part_bytes = UINT64_MAX; });
}

TEST_F(ManifestTest, NamespacesThatCannotBe) {
  refused("the number of namespaces", [](Manifest& m) { m.contents.namespaces.clear(); });
  refused("the number of namespaces", [](Manifest& m) { m.contents.namespaces.resize(70000); });
  refused("namespace", [](Manifest& m) { m.contents.namespaces[0].identity = "x"; });
  refused("namespace", [](Manifest& m) { m.contents.namespaces[1].identity = "x"; });
  refused("namespace", [](Manifest& m) { m.contents.namespaces[1].opens = 0; });
  refused("namespace", [](Manifest& m) { m.contents.namespaces[0].epoch = UINT64_MAX; });
  refused("namespace", [](Manifest& m) { m.contents.namespaces.push_back(m.contents.namespaces[1]); });
  refused("the digest of namespace", [](Manifest& m) { m.contents.namespaces[1].digest.bytes[3] ^= 1; });
}

TEST_F(ManifestTest, PositionsThatCannotBe) {
  const auto last = [](Manifest& m) -> Contents::Position& { return m.contents.positions.back(); };
  refused("the number of tokens", [](Manifest& m) { m.contents.tokens.pop_back(); });
  refused("position", [&](Manifest& m) { last(m).ns = 2; });
  refused("position", [&](Manifest& m) { last(m).ns ^= 1; });
  refused("position", [&](Manifest& m) { last(m).parent = -2; });
  refused("position",
          [&](Manifest& m) { last(m).parent = static_cast<int32_t>(m.contents.positions.size()) - 1; });
  refused("position", [&](Manifest& m) { last(m).depth += 1; });
  refused("position", [&](Manifest& m) { last(m).resident |= 4; });
  refused("position", [&](Manifest& m) { last(m).level = 1000; });
  refused("position", [&](Manifest& m) { last(m).uses = 256; });
  refused("position", [&](Manifest& m) { last(m).spare = 1; });
  refused("position", [&](Manifest& m) {  // of an encoder, without a group for one
    for (size_t t = 0; t < m.contents.block_size; ++t)
      m.contents.tokens.rbegin()[static_cast<long>(t)] = kCrossToken;
  });
  refused("token", [](Manifest& m) { m.contents.tokens.back() = -5; });
  refused("the extra keys of position", [](Manifest& m) { m.contents.positions[0].first_span = 1000; });
  refused("the extra keys of position", [](Manifest& m) { m.contents.positions[0].num_spans = 1000; });
  refused("the extra keys of position", [](Manifest& m) { m.contents.spans[0].offset = -1; });
  refused("the extra keys of position", [](Manifest& m) { m.contents.spans[0].offset = 4; });
  refused("the extra keys of position", [](Manifest& m) { m.contents.spans[0].length = 0; });
  refused("the extra keys of position", [](Manifest& m) { m.contents.spans[0].length = uint64_t{1} << 32; });
  refused("the extra keys of position",
          [](Manifest& m) { std::swap(m.contents.spans[0], m.contents.spans[1]); });
  refused("the extra keys of position", [](Manifest& m) { m.contents.spans[1] = m.contents.spans[0]; });
}

TEST_F(ManifestTest, BlocksThatCannotBe) {
  const auto pool = [](Manifest& m) -> Contents::Pool& { return m.contents.pools[1]; };
  refused("pool", [&](Manifest& m) { pool(m).first = 0; });
  refused("pool", [&](Manifest& m) { pool(m).first = INT32_MAX; });
  refused("pool", [&](Manifest& m) { pool(m).size = uint64_t{1} << 31; });
  refused("pool", [&](Manifest& m) { pool(m).size = 1; });
  refused("a block of pool", [&](Manifest& m) { pool(m).blocks[0].position = 1000; });
  refused("a block of pool", [&](Manifest& m) { pool(m).blocks[0].group = 0; });
  refused("a block of pool", [&](Manifest& m) { pool(m).blocks[0].group = 2; });
  refused("a block of pool", [&](Manifest& m) { pool(m).blocks[0].level = 1000; });
  refused("a block of pool", [&](Manifest& m) { pool(m).blocks[0].shelf = 100000; });
  refused("a block of pool", [&](Manifest& m) { pool(m).blocks[0].in_use = 2; });
  refused("a block of pool",
          [&](Manifest& m) { pool(m).blocks[0].in_use = 1, pool(m).blocks.back().in_use = 0; });
  refused("a block of pool", [&](Manifest& m) { pool(m).blocks[0].age = UINT64_MAX; });
  refused("a block of pool", [&](Manifest& m) { pool(m).blocks[0].position = pool(m).blocks[1].position; });
  refused("a block id of pool", [&](Manifest& m) { pool(m).blocks[0].block = 0; });
  refused("a block id of pool", [&](Manifest& m) { pool(m).blocks[0].block = INT32_MAX; });
  refused("a block id of pool", [&](Manifest& m) { pool(m).blocks[0].block = pool(m).blocks[1].block; });
  refused("the blocks of position", [&](Manifest& m) { pool(m).blocks.pop_back(); });
}

TEST_F(ManifestTest, PagesThatCannotBe) {
  refused("data file", [](Manifest& m) { m.files[0].id = 0; });
  refused("data file", [](Manifest& m) { m.files[0].id = 2; });
  refused("data file", [](Manifest& m) { m.files[0].bytes = 0; });
  refused("data file", [](Manifest& m) { m.files[0].bytes += 1; });
  refused("data file", [](Manifest& m) { m.files[0].bytes = uint64_t{1} << 63; });
  refused("data file", [](Manifest& m) { m.files[0].reserved = 1; });
  refused("data file", [](Manifest& m) { m.codecs[0] = "sixteen letters."; });
  refused("data file", [](Manifest& m) { m.files.push_back(m.files[0]), m.codecs.push_back(""); });
  refused("page", [](Manifest& m) { m.pages[1].reserved = 1; });
  refused("page", [](Manifest& m) { m.pages[1].compressed = 2; });
  refused("page", [](Manifest& m) { m.pages[1].compressed = 1; });
  refused("page", [](Manifest& m) { m.pages[1].file = 1; });
  refused("page", [](Manifest& m) { m.pages[1].offset = 0; });
  refused("page", [](Manifest& m) { m.pages[1].offset = UINT64_MAX; });
  refused("page", [](Manifest& m) { m.pages[1].offset = m.files[0].bytes; });
  refused("page", [](Manifest& m) { m.pages[1].stored_bytes = 0; });
  refused("page", [](Manifest& m) { m.pages[1].stored_bytes -= 1; });
  refused("page", [](Manifest& m) { m.groups[0].has_pages = 0; });
  refused("the number of pages", [](Manifest& m) { m.pages.pop_back(); });
  refused("the number of pages", [](Manifest& m) { m.pages.push_back(m.pages[0]); });
  refused("the place of page", [](Manifest& m) { m.pages[1].offset = m.pages[0].offset; });
}

TEST_F(ManifestTest, PromptsThatCannotBe) {
  const auto prompt = [](Manifest& m) -> Contents::NamedPrompt& { return m.contents.prompts[1]; };
  refused("registered prompt", [&](Manifest& m) { prompt(m).name.clear(); });
  refused("registered prompt", [&](Manifest& m) { prompt(m).name.assign(100000, 'x'); });
  refused("registered prompt", [&](Manifest& m) { prompt(m).name[0] = '\0'; });
  refused("registered prompt", [&](Manifest& m) { prompt(m).name = m.contents.prompts[0].name; });
  refused("registered prompt", [&](Manifest& m) { prompt(m).index = m.contents.prompts[0].index; });
  refused("registered prompt", [&](Manifest& m) { prompt(m).ns = 2; });
  refused("registered prompt", [&](Manifest& m) { prompt(m).num_pinned = 4; });
}

TEST_F(ManifestTest, QuotasThatCannotBe) {
  const auto quota = [](Manifest& m) -> Contents::Quota& { return m.contents.quotas.back(); };
  refused("quota", [&](Manifest& m) { quota(m).ns = 2; });
  refused("quota", [&](Manifest& m) { quota(m).cls = 0; });
  refused("quota", [&](Manifest& m) { quota(m).cls = 100000; });
  refused("quota", [&](Manifest& m) { quota(m).pool = 2; });
  refused("quota", [&](Manifest& m) { quota(m).spare = 1; });
  refused("quota", [&](Manifest& m) { quota(m).min = uint64_t{1} << 31; });
  refused("quota", [&](Manifest& m) { quota(m).max = uint64_t{1} << 40; });
  refused("quota", [&](Manifest& m) { quota(m).min = 9; });
  refused("quota", [&](Manifest& m) { quota(m).cls = m.contents.quotas[0].cls; });
  refused("quota", [&](Manifest& m) { quota(m).ns = m.contents.quotas[0].ns; });
  refused("quota", [&](Manifest& m) { m.contents.quotas.push_back(quota(m)); });
}

TEST_F(ManifestTest, RequestsThatCannotBe) {
  const auto request = [](Manifest& m) -> Contents::WaitingRequest& { return m.contents.requests[1]; };
  refused("the number of bonds of requests", [](Manifest& m) { m.contents.bonds.pop_back(); });
  refused("the prompt of request", [](Manifest& m) { m.contents.bonds[1].prompt = 3; });
  refused("token", [](Manifest& m) { m.contents.request_tokens[2] = -1; });
  refused("request", [&](Manifest& m) { request(m).ns = 2; });
  refused("request", [&](Manifest& m) { request(m).first_token = 1000; });
  refused("request", [&](Manifest& m) { request(m).num_tokens = 1000; });
  refused("request", [&](Manifest& m) { request(m).first_key = 1000; });
  refused("request", [&](Manifest& m) { request(m).num_keys = 1000; });
  refused("request", [&](Manifest& m) { request(m).flags = 64; });
  refused("request", [&](Manifest& m) { request(m).headroom = 256; });
  refused("request", [&](Manifest& m) { request(m).prompt_tokens = 15; });
  refused("request", [&](Manifest& m) { request(m).committed = 15; });
  refused("request", [&](Manifest& m) { request(m).external_tokens = uint64_t{1} << 32; });
  refused("request", [&](Manifest& m) { request(m).slots = uint64_t{1} << 32; });
  refused("request", [&](Manifest& m) { request(m).lookahead = uint64_t{1} << 32; });
}

}  // namespace
}  // namespace kvc
