// SPDX-License-Identifier: Apache-2.0
// What is saved is restored: into a manager of the same size, bit by bit; into others, as far as there is
// room.
#include <fcntl.h>
#include <sys/wait.h>

#include "world.h"

namespace kvc {
namespace {

using test::Engine;
using test::Folder;
using test::Form;
using test::Spoken;

struct NamedForm {
  const char* name;
  Form form;
};
Form with(void (*change)(Form&)) {
  Form form;
  change(form);
  return form;
}
const NamedForm kNamedForms[] = {
    {"OneGroup", {}},
    {"PageFirst", with([](Form& f) { f.layout = KVC_LAYOUT_BLHNC; })},
    {"Frequency", with([](Form& f) { f.policy = KVC_POLICY_FREQUENCY, f.num_blocks = 400; })},
    {"Fragmentation",
     with([](Form& f) { f.policy = KVC_POLICY_FRAGMENTATION, f.num_groups = 2, f.num_blocks = 400; })},
    {"Hints", with([](Form& f) { f.flags = KVC_MANAGER_HINTS; })},
    {"Int8WithScales", with([](Form& f) { f.dtype = KVC_INT8; })},
    {"Windows", with([](Form& f) { f.num_groups = 3, f.window = 10, f.num_blocks = 160; })},
    {"Chunks", with([](Form& f) { f.num_groups = 3, f.window = 10, f.chunk = 12, f.num_blocks = 160; })},
    {"PoolsOfTheirOwn", with([](Form& f) {
       f.num_groups = 3, f.window = 10, f.chunk = 12, f.num_blocks = 70, f.own_pools = true;
     })},
    {"NullBlockAndZeroing",
     with([](Form& f) { f.flags = KVC_MANAGER_NULL_BLOCK | KVC_MANAGER_ZERO_CROSS_NAMESPACE; })},
    {"PartialReuse", with([](Form& f) { f.flags = KVC_MANAGER_PARTIAL_REUSE; })},
    {"States", with([](Form& f) { f.num_groups = 2, f.last_kind = KVC_GROUP_STATE, f.num_blocks = 160; })},
    {"OneTokenBlocks", with([](Form& f) { f.block_size = 1, f.num_blocks = 100; })},
};

class RoundTrip : public testing::TestWithParam<NamedForm> {};

TEST_P(RoundTrip, GivesANewManagerTheSameDigestAndHits) {
  const Folder folder;
  const Form& form = GetParam().form;
  Engine old(form);
  const std::vector<Spoken> prompts = test::speak(old, test::test_seed(), 30);
  if ((form.flags & KVC_MANAGER_ZERO_CROSS_NAMESPACE) != 0) {  // the engine has cleared them
    int32_t blocks[256];
    kvc_pending_work work = {sizeof work, nullptr, 0, 0, blocks, 256, 0};
    ASSERT_EQ(kvc_manager_take_pending(old.m, &work), KVC_OK);
  }
  const uint64_t before = old.digest();
  const kvc_checkpoint_info saved = old.save(folder / "c");
  EXPECT_EQ(old.digest(), before) << "a save leaves no trace";
  old.check();
  EXPECT_GT(saved.num_pages, 20u);
  EXPECT_EQ(saved.lost_blocks, 0u);

  Engine fresh(form);
  const kvc_checkpoint_info restored = fresh.restore(folder / "c");
  EXPECT_EQ(restored.id, saved.id);
  EXPECT_EQ(restored.ids_kept, 1u);
  EXPECT_EQ(restored.left_out, 0u);
  fresh.check();
  if ((form.flags & KVC_MANAGER_ZERO_CROSS_NAMESPACE) == 0) {  // free blocks forget whose they were
    EXPECT_EQ(fresh.digest(), before);
  }
  EXPECT_EQ(fresh.content(), old.content());
  EXPECT_EQ(fresh.content(), std::string(reinterpret_cast<const char*>(saved.content), 32));
  for (const Spoken& prompt : prompts) {
    EXPECT_EQ(fresh.hit(prompt), old.hit(prompt));
    for (uint32_t g = 0; g < form.num_groups; ++g)
      EXPECT_EQ(fresh.check_pages(prompt, g), old.check_pages(prompt, g));
  }
  EXPECT_EQ(fresh.wrong + old.wrong, 0u);
  // Both go on alike.
  test::speak(old, 99, 10);
  test::speak(fresh, 99, 10);
  EXPECT_EQ(fresh.content(), old.content());
  fresh.check();
}

INSTANTIATE_TEST_SUITE_P(Forms, RoundTrip, testing::ValuesIn(kNamedForms),
                         [](const auto& at) { return std::string(at.param.name); });

TEST(Restore, KeepsTheHottestInASmallerPool) {
  const Folder folder;
  Engine old(Form{});
  Spoken cold, hot;
  cold.tokens = test::tokens_of(1, 80), hot.tokens = test::tokens_of(2, 40);
  old.run(cold);
  old.run(hot);
  old.save(folder / "c");
  for (const uint64_t blocks : {1u, 5u, 10u, 14u, 29u, 30u, 31u, 200u}) {
    SCOPED_TRACE(blocks);
    Form form;
    form.num_blocks = blocks;
    Engine small(form);
    const kvc_checkpoint_info restored = small.restore(folder / "c");
    EXPECT_EQ(restored.left_out, blocks < 30 ? 30 - blocks : 0u);
    small.check();
    EXPECT_EQ(small.check_pages(hot, 0), std::min<uint64_t>(blocks, 10));
    EXPECT_EQ(small.check_pages(cold, 0), blocks < 10 ? 0 : std::min<uint64_t>(blocks - 10, 20));
    EXPECT_EQ(small.wrong, 0u);
    test::speak(small, 5, 5, 1);
    small.check();
  }
}

TEST(Restore, LeavesOutWhatHasNoNode) {
  const Folder folder;
  Engine old(Form{});
  Spoken prompt;
  prompt.tokens = test::tokens_of(2, 80);
  old.run(prompt);
  old.save(folder / "c");
  Form few;
  few.max_nodes = 12;
  Engine fresh(few);
  EXPECT_EQ(fresh.restore(folder / "c").left_out, 8u);
  EXPECT_EQ(fresh.check_pages(prompt, 0), 12u);
  fresh.check();
}

TEST(Restore, ReadsAnyLayoutOfTheStorage) {
  const Folder folder;
  Engine old(Form{});
  const std::vector<Spoken> prompts = test::speak(old, 3, 20);
  old.save(folder / "c");
  for (const uint32_t layout :
       {KVC_LAYOUT_LBNHC, KVC_LAYOUT_LBHNC, KVC_LAYOUT_BLNHC, KVC_LAYOUT_BLHNC, KVC_LAYOUT_BHLNC}) {
    Form other;
    other.layout = layout;
    Engine fresh(other);
    fresh.restore(folder / "c");
    EXPECT_EQ(fresh.content(), old.content());
    for (const Spoken& prompt : prompts) fresh.check_pages(prompt, 0);
    EXPECT_EQ(fresh.wrong, 0u);
  }
}

TEST(Restore, MayHaveAnotherPolicy) {
  const Folder folder;
  Form form;
  form.policy = KVC_POLICY_FREQUENCY;
  Engine old(form);
  const std::vector<Spoken> prompts = test::speak(old, 3, 12, 3);
  old.save(folder / "c");
  for (const uint32_t policy : {KVC_POLICY_LRU, KVC_POLICY_FRAGMENTATION}) {
    Form other;
    other.policy = policy;
    other.flags = KVC_MANAGER_HINTS;
    Engine fresh(other);
    EXPECT_EQ(fresh.restore(folder / "c").left_out, 0u);
    fresh.check();
    for (const Spoken& prompt : prompts) EXPECT_EQ(fresh.hit(prompt), old.hit(prompt));
  }
  Engine plain(Form{});  // which counts no uses
  test::speak(plain, 3, 12, 3);
  plain.save(folder / "plain");
  Engine fresh(form);
  EXPECT_EQ(fresh.restore(folder / "plain").left_out, 0u);
  fresh.check();
}

TEST(Restore, IsTheSameInAnotherProcess) {
  const Folder folder;
  const std::string path = folder / "c", answer = folder / "answer";
  Form form;
  form.num_groups = 2, form.window = 9, form.num_blocks = 200;
  Engine old(form);
  test::speak(old, 17, 25);
  old.save(path);
  const pid_t child = fork();
  if (child == 0) {
    setenv("KVC_TEST_CHECKPOINT", path.c_str(), 1);
    setenv("KVC_TEST_ANSWER", answer.c_str(), 1);
    execl("/proc/self/exe", "test_checkpoint", "--gtest_also_run_disabled_tests",
          "--gtest_filter=OtherProcess.DISABLED_Restores", nullptr);
    _exit(9);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  struct {
    uint64_t digest;
    char content[32];
    uint64_t wrong, found;
  } got = {};
  const int file = open(answer.c_str(), O_RDONLY);
  ASSERT_EQ(read(file, &got, sizeof got), static_cast<ssize_t>(sizeof got));
  close(file);
  EXPECT_EQ(got.digest, old.digest());
  EXPECT_EQ(std::string(got.content, 32), old.content());
  EXPECT_EQ(got.wrong, 0u);
  EXPECT_GT(got.found, 20u);
}

// Run by the test above.
TEST(OtherProcess, DISABLED_Restores) {
  const char *path = getenv("KVC_TEST_CHECKPOINT"), *answer = getenv("KVC_TEST_ANSWER");
  if (path == nullptr || answer == nullptr) GTEST_SKIP() << "only for Restore.IsTheSameInAnotherProcess";
  Form form;
  form.num_groups = 2, form.window = 9, form.num_blocks = 200;
  Engine fresh(form);
  fresh.restore(path);
  struct {
    uint64_t digest;
    char content[32];
    uint64_t wrong, found;
  } got = {};
  got.digest = fresh.digest();
  std::memcpy(got.content, fresh.content().data(), 32);
  Engine same(form);  // what the other process was told
  for (const Spoken& prompt : test::speak(same, 17, 25)) got.found += fresh.check_pages(prompt, 0);
  got.wrong = fresh.wrong;
  const int file = open(answer, O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(write(file, &got, sizeof got), static_cast<ssize_t>(sizeof got));
  close(file);
}

TEST(Restore, GivesBlocksInUseAsTheHottest) {
  const Folder folder;
  Engine old(Form{});
  Spoken held, later;
  held.tokens = test::tokens_of(1, 41), later.tokens = test::tokens_of(2, 40);
  const uint64_t request = old.begin(held);
  old.run(later);
  const kvc_checkpoint_info saved = old.save(folder / "c");
  EXPECT_EQ(saved.num_pages, 20u);
  Form form;
  form.num_blocks = 10;
  Engine fresh(form);
  fresh.restore(folder / "c");
  EXPECT_EQ(fresh.check_pages(held, 0), 10u);
  EXPECT_EQ(fresh.check_pages(later, 0), 0u);
  old.end(request);
  old.check();
}

TEST(Restore, GivesRequestsBackAsWaitingOnes) {
  const Folder folder;
  Engine old(Form{});
  Spoken one, two, three;
  one.tokens = test::tokens_of(1, 43), two.tokens = test::tokens_of(2, 7),
  three.tokens = test::tokens_of(3, 18);
  kvc_extra_key key = {};
  key.first_token = 5, key.num_tokens = 4, key.digest[0] = 9;
  one.keys.push_back(key);
  three.tenant = 2;
  const uint64_t live = old.begin(one);
  const int32_t more[3] = {11, 12, 13};
  ASSERT_EQ(kvc_manager_append_tokens(old.m, live, more, 3), KVC_OK);
  one.tokens.insert(one.tokens.end(), more, more + 3);
  const kvc_prompt prompts[2] = {old.prompt_of(two), old.prompt_of(three)};
  uint64_t waiting[2] = {};
  kvc_request_config config = {};
  config.struct_size = sizeof config;
  config.user_data = 77;
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(kvc_manager_create_request(old.m, &prompts[i], &config, &waiting[i]), KVC_OK);
  EXPECT_EQ(old.save(folder / "without").num_requests, 0u);
  const kvc_checkpoint_info saved = old.save(folder / "c", KVC_CHECKPOINT_REQUESTS);
  EXPECT_EQ(saved.num_requests, 3u);
  EXPECT_EQ(saved.num_namespaces, 2u);

  Engine fresh(Form{});
  fresh.restore(folder / "c", KVC_CHECKPOINT_REQUESTS);
  ASSERT_EQ(fresh.request_pairs.size(), 3u);
  ASSERT_EQ(fresh.namespace_pairs.size(), 2u);
  for (const kvc_request_pair& pair : fresh.request_pairs) {
    kvc_request_info info = {}, was = {};
    info.struct_size = was.struct_size = sizeof info;
    ASSERT_EQ(kvc_manager_request_info(fresh.m, pair.new_id, &info), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_manager_request_info(old.m, pair.old_id, &was), KVC_OK);
    EXPECT_EQ(info.num_tokens, was.num_tokens);
    EXPECT_EQ(info.user_data, was.user_data);
    uint64_t cached = 0;
    ASSERT_EQ(kvc_manager_admit_request(fresh.m, pair.new_id, &cached), KVC_OK) << kvc_last_error();
    EXPECT_EQ(cached, pair.old_id == live ? 40u : 0u) << "its own blocks are hits";
    ASSERT_EQ(kvc_manager_commit_tokens(fresh.m, pair.new_id, info.num_tokens), KVC_OK);
  }
  fresh.check();
  // Others find them: the tokens, keys and namespaces are those of the old requests.
  fresh.tenants = {0, fresh.namespace_pairs[0].new_id, fresh.namespace_pairs[1].new_id};
  EXPECT_EQ(fresh.hit(one), 44u);
  EXPECT_EQ(fresh.hit(three), 16u);
}

// Keys of a request lie behind its tokens if it was cut, or if their tokens are still to come.
TEST(Restore, GivesRequestsBackWhoseKeysGoOnBehindTheirTokens) {
  const Folder folder;
  Engine old(Form{});
  const std::vector<int32_t> tokens = test::tokens_of(1, 62);
  const kvc_extra_key keys[] = {{5, 30, {9}}, {12, 30, {8}}}, later = {20, 8, {7}};
  uint64_t cut = 0;
  ASSERT_EQ(kvc_manager_create_request(old.m, PROMPT(0, tokens.data(), 62, keys, 2), nullptr, &cut), KVC_OK);
  ASSERT_EQ(kvc_manager_truncate_request(old.m, cut, 18), KVC_OK);
  ASSERT_EQ(kvc_manager_add_keys(old.m, cut, &later, 1), KVC_OK);
  old.save(folder / "c", KVC_CHECKPOINT_REQUESTS);
  Engine fresh(Form{});
  fresh.restore(folder / "c", KVC_CHECKPOINT_REQUESTS);
  ASSERT_EQ(fresh.request_pairs.size(), 1u);
  uint64_t cached[2];
  for (int side = 0; side < 2; ++side) {
    kvc_manager* const m = side == 0 ? old.m : fresh.m;
    const uint64_t id = side == 0 ? cut : fresh.request_pairs[0].new_id;
    uint64_t other = 0;
    ASSERT_EQ(kvc_manager_append_tokens(m, id, tokens.data() + 18, 44), KVC_OK);
    ASSERT_EQ(kvc_manager_admit_request(m, id, nullptr), KVC_OK);
    ASSERT_EQ(kvc_manager_commit_tokens(m, id, 62), KVC_OK);
    ASSERT_EQ(kvc_manager_allocate_request(m, PROMPT(0, tokens.data(), 62, keys, 2), nullptr, &other,
                                           &cached[side]),
              KVC_OK);
    EXPECT_EQ(cached[side], 4u) << "the block before the keys";
    ASSERT_EQ(kvc_manager_preempt_request(m, id), KVC_OK);
    ASSERT_EQ(kvc_manager_admit_request(m, id, &cached[side]), KVC_OK);
  }
  EXPECT_EQ(cached[0], cached[1]) << "its own blocks are hits";
  EXPECT_EQ(cached[0], 60u);
}

TEST(Restore, NamesAKeyThatTheNewManagerHasNoTokensFor) {
  const Folder folder;
  Engine old(Form{});
  const std::vector<int32_t> tokens = test::tokens_of(1, 10);
  const kvc_extra_key later = {20, 30, {7}};
  uint64_t id = 0;
  ASSERT_EQ(kvc_manager_create_request(old.m, PROMPT(0, tokens.data(), 10, nullptr, 0), nullptr, &id),
            KVC_OK);
  ASSERT_EQ(kvc_manager_add_keys(old.m, id, &later, 1), KVC_OK);
  const std::string path = folder / "c";
  old.save(path, KVC_CHECKPOINT_REQUESTS);
  Form small;
  small.max_request_tokens = 49;
  Engine fresh(small);
  const uint64_t before = fresh.digest();
  const kvc_checkpoint_config config = fresh.config(path, KVC_CHECKPOINT_REQUESTS);
  kvc_request_pair pairs[4];
  EXPECT_EQ(kvc_checkpoint_restore(fresh.m, fresh.storages.data(), 1, &config, nullptr, 0, pairs, 4, nullptr),
            KVC_ERROR_LIMIT);
  EXPECT_STREQ(
      kvc_last_error(),
      "request 0 of the checkpoint has an extra key at token 20, 30 tokens long, past max_request_tokens; "
      "create the manager with max_request_tokens 50 or more, or restore without requests");
  EXPECT_EQ(fresh.digest(), before);
  small.max_request_tokens = 50;
  Engine enough(small);
  enough.restore(path, KVC_CHECKPOINT_REQUESTS);
  EXPECT_EQ(enough.request_pairs.size(), 1u);
}

TEST(Restore, TellsHowManyNamespacesAndRequestsThereAre) {
  const Folder folder;
  Engine old(Form{});
  test::speak(old, 4, 10);
  old.save(folder / "c");
  Engine fresh(Form{});
  const std::string path = folder / "c";
  const kvc_checkpoint_config config = fresh.config(path);
  kvc_checkpoint_info info = {};
  info.struct_size = sizeof info;
  const uint64_t before = fresh.digest();
  EXPECT_EQ(kvc_checkpoint_restore(fresh.m, fresh.storages.data(), 1, &config, nullptr, 0, nullptr, 0, &info),
            KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(info.num_namespaces, 2u);
  EXPECT_EQ(fresh.digest(), before);
  EXPECT_EQ(fresh.restore(path).num_namespaces, 2u);
}

TEST(Restore, WantsANewManager) {
  const Folder folder;
  Engine old(Form{});
  Spoken prompt;
  prompt.tokens = test::tokens_of(1, 30);
  old.run(prompt);
  old.save(folder / "c");
  const uint64_t before = old.digest();
  kvc_checkpoint_info info;
  EXPECT_EQ(old.restore(old.config(folder / "c"), &info), KVC_ERROR_BUSY);
  EXPECT_EQ(old.digest(), before);
  Engine waits(Form{});
  const kvc_prompt given = waits.prompt_of(prompt);
  uint64_t id = 0;
  ASSERT_EQ(kvc_manager_create_request(waits.m, &given, nullptr, &id), KVC_OK);
  EXPECT_EQ(waits.restore(waits.config(folder / "c"), &info), KVC_ERROR_BUSY);
  waits.end(id);
  EXPECT_EQ(waits.restore(waits.config(folder / "c"), &info), KVC_OK) << kvc_last_error();
}

TEST(Restore, WithoutStoragesNeedsThePoolsAsTheyWere) {
  const Folder folder;
  Engine old(Form{});
  Spoken prompt;
  prompt.tokens = test::tokens_of(1, 30);
  old.run(prompt);
  const std::string path = folder / "c";
  kvc_storage* none[1] = {nullptr};
  kvc_checkpoint_config config = old.config(path);
  kvc_checkpoint_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_checkpoint_save(old.m, none, 1, &config, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(info.num_pages, 0u);
  EXPECT_EQ(info.num_blocks, 7u);
  Engine fresh(Form{});
  EXPECT_EQ(kvc_checkpoint_restore(fresh.m, none, 1, &config, nullptr, 0, nullptr, 0, &info),
            KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(kvc_checkpoint_restore(fresh.m, fresh.storages.data(), 1, &config, nullptr, 0, nullptr, 0, &info),
            KVC_ERROR_UNSUPPORTED);
  config.flags |= KVC_CHECKPOINT_BYTES_ELSEWHERE;
  Form other;
  other.num_blocks = 65;
  Engine larger(other);
  EXPECT_EQ(kvc_checkpoint_restore(larger.m, none, 1, &config, nullptr, 0, nullptr, 0, &info),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(larger.digest(), Engine(other).digest());
  ASSERT_EQ(kvc_checkpoint_restore(fresh.m, none, 1, &config, nullptr, 0, nullptr, 0, &info), KVC_OK)
      << kvc_last_error();
  EXPECT_EQ(fresh.digest(), old.digest());
}

}  // namespace
}  // namespace kvc
