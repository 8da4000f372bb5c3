// SPDX-License-Identifier: Apache-2.0
// What a checkpoint has besides blocks: hints and when they end, ages, namespaces. And what becomes of a save
// whose blocks are evicted meanwhile, and of a restore that fails late.
#include <cerrno>
#include <utility>

#include "calls_with_files.h"
#include "manager/restore.h"

namespace kvc {
namespace {

using test::Calls;
using test::Engine;
using test::Folder;
using test::Form;
using test::say;
using test::Spoken;

Form with_hints() {
  Form form;
  form.flags = KVC_MANAGER_HINTS;
  return form;
}

void hint(Engine& engine, const Spoken& spoken, uint32_t priority, uint64_t until) {
  const kvc_prompt prompt = engine.prompt_of(spoken);
  uint64_t hinted = 0;
  ASSERT_EQ(kvc_manager_set_prefix_priority(engine.m, &prompt, 0, priority, until, &hinted), KVC_OK)
      << kvc_last_error();
  EXPECT_EQ(hinted, 16u);
}

// In which order prompts leave, as digits. Until each has left, it is a hit as a whole.
std::string leaving(Engine& engine, const std::vector<Spoken>& prompts) {
  std::string order;
  std::vector<bool> gone(prompts.size(), false);
  while (engine.evict(4) == 4) {
    for (size_t i = 0; i < prompts.size(); ++i) {
      if (gone[i] || engine.hit(prompts[i]) == 16) continue;
      EXPECT_EQ(engine.hit(prompts[i]), 0u);
      gone[i] = true;
      order += static_cast<char>('0' + i);
    }
  }
  return order;
}

TEST(Hints, EndAfterAsMuchTimeAsTheyHadLeft) {
  const Folder folder;
  std::vector<Spoken> prompts;
  for (uint64_t i = 0; i < 4; ++i) prompts.push_back(say(i, 17));
  const auto begin = [&](Engine& engine) {
    engine.pass_time(1000);
    for (const Spoken& spoken : prompts) engine.run(spoken);
    hint(engine, prompts[0], 90, 5000);
    hint(engine, prompts[1], 80, 0);
    hint(engine, prompts[2], 3, UINT64_MAX - 7);  // as good as never
  };
  Engine old(with_hints());
  begin(old);
  old.save(folder / "c");
  std::string orders[2];
  for (const uint64_t later : {3999u, 4000u}) {
    SCOPED_TRACE(later);
    Engine fresh(with_hints()), same(with_hints());
    fresh.pass_time(700000);
    fresh.restore(folder / "c");
    fresh.check();
    fresh.pass_time(700000 + later);
    begin(same);
    same.pass_time(1000 + later);
    orders[later == 4000] = leaving(fresh, prompts);
    EXPECT_EQ(orders[later == 4000], leaving(same, prompts));
    fresh.check();
  }
  EXPECT_EQ(orders[0], "2310");
  EXPECT_NE(orders[0], orders[1]) << "the hint of prompt 0 has ended";
}

TEST(Ages, ThatCannotBeLeaveTheManagerSound) {
  Form form;
  form.policy = KVC_POLICY_FREQUENCY;
  Engine old(form);
  for (uint64_t i = 0; i < 5; ++i) {
    for (uint64_t uses = 0; uses <= i % 3; ++uses) old.run(say(i, 17));
  }
  Contents contents;
  ASSERT_EQ(old.m->impl->read_contents(false, &contents), KVC_OK);
  std::vector<Contents::Cached>& blocks = contents.pools[0].blocks;
  const std::vector<Contents::Cached> right = blocks;
  const auto restored = [&](auto&& age_of) {
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i].age = age_of(i);
    Engine fresh(form);
    {
      Restore restore(*fresh.m->impl, contents);
      EXPECT_EQ(restore.take(), KVC_OK) << kvc_last_error();
      EXPECT_EQ(restore.finish(), KVC_OK) << kvc_last_error();
    }
    fresh.check();
    for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(fresh.hit(say(i, 17)), 16u);
    while (fresh.evict(1) != 0) fresh.check();
    fresh.run(say(7, 30));
    fresh.check();
  };
  restored([&](size_t i) { return right[i].age; });
  restored([](size_t) { return 0; });
  restored([](size_t) { return 5; });
  restored([](size_t i) { return 1000 + i; });
  restored([](size_t i) { return i % 2 == 0 ? UINT64_MAX / 8 : 1; });
}

// The last entry of a request fails after everything else was done.
TEST(ARestoreThatFailsLate, LeavesTheManagerAsItWas) {
  Engine old(Form{});
  for (uint64_t i = 0; i < 3; ++i) {
    Spoken spoken = say(i, 16);
    spoken.tenant = static_cast<uint32_t>(i);
    old.run(spoken);
  }
  ASSERT_EQ(kvc_manager_reset_all(old.m), KVC_OK);
  old.run(say(9, 16));
  const Spoken waiting = say(1, 16);
  const kvc_prompt prompt = old.prompt_of(waiting);
  uint64_t request = 0;
  ASSERT_EQ(kvc_manager_create_request(old.m, &prompt, nullptr, &request), KVC_OK);
  Contents contents;
  ASSERT_EQ(old.m->impl->read_contents(true, &contents), KVC_OK);
  ASSERT_EQ(contents.namespaces.size(), 3u);
  ASSERT_EQ(contents.requests.size(), 1u);
  contents.requests.push_back(contents.requests[0]);
  contents.bonds.push_back(contents.bonds[0]);
  contents.requests[1].first_token = contents.request_tokens.size();
  contents.requests[1].num_tokens = 1;
  contents.request_tokens.push_back(-1);
  // A manager that knows nothing; one that has a namespace open; one that had some, and has closed them.
  for (int form = 0; form < 3; ++form) {
    SCOPED_TRACE(form);
    Engine fresh(Form{});
    if (form != 0) fresh.open_tenant(2);
    for (size_t i = 1; form == 2 && i < fresh.tenants.size(); ++i)
      ASSERT_EQ(kvc_manager_close_namespace(fresh.m, fresh.tenants[i]), KVC_OK);
    const uint64_t before = fresh.digest();
    for (int turn = 0; turn < 2; ++turn) {
      {
        Restore restore(*fresh.m->impl, contents);
        ASSERT_EQ(restore.take(), KVC_OK) << kvc_last_error();
        ASSERT_EQ(restore.finish(), KVC_ERROR_INVALID_ARGUMENT) << kvc_last_error();
      }
      EXPECT_EQ(fresh.digest(), before);
      fresh.check();
    }
    Contents good = contents;
    good.requests.pop_back();
    good.bonds.pop_back();
    Restore restore(*fresh.m->impl, good);
    ASSERT_EQ(restore.take(), KVC_OK) << kvc_last_error();
    ASSERT_EQ(restore.finish(), KVC_OK) << kvc_last_error();
    EXPECT_EQ(fresh.content(), old.content());
    fresh.check();
  }
}

// A folder in which a checkpoint appears after it was looked for.
class LateFiles : public Files {
 public:
  int open(int folder, const char* path, int flags, unsigned mode) override {
    if (std::strstr(path, ".kvcm") != nullptr && !std::exchange(looked_, true)) return -ENOENT;
    return Files::open(folder, path, flags, mode);
  }
  int list(int folder, void* data, void (*each)(void* data, const char* name)) override {
    return ++lists_ > 2 ? Files::list(folder, data, each) : 0;
  }

 private:
  bool looked_ = false;
  int lists_ = 0;
};

TEST(Restore, OfACheckpointThatAppearsMeanwhileFindsItOrNone) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(Form{});
  old.run(say(1, 30));
  ASSERT_EQ(old.save(path).id, 1u);
  Engine fresh(Form{});
  Calls calls(fresh, path);
  calls.options.id = 1;
  LateFiles files;
  kvc_checkpoint_info info;
  EXPECT_EQ(calls.restore(files, &info), KVC_ERROR_NOT_FOUND);
  EXPECT_NE(std::strstr(kvc_last_error(), "checkpoint 1"), nullptr) << kvc_last_error();
  EXPECT_EQ(calls.restore(files, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(fresh.content(), old.content());
}

// Evicts blocks when the data file is made: after the positions were read, and before a block is held.
class EvictingFiles : public Files {
 public:
  EvictingFiles(Engine& engine, size_t blocks) : engine_(engine), blocks_(blocks) {}
  int open(int folder, const char* path, int flags, unsigned mode) override {
    if (std::strstr(path, ".kvcd.part") != nullptr && blocks_ != 0) {
      EXPECT_EQ(engine_.evict(blocks_), blocks_);
      blocks_ = 0;
      engine_.run(say(77, 12));  // takes some of them for other content
    }
    return Files::open(folder, path, flags, mode);
  }

 private:
  Engine& engine_;
  size_t blocks_;
};

TEST(Save, LeavesOutWhatIsEvictedBeforeItIsWritten) {
  const Folder folder;
  const std::string path = folder / "c";
  Form form;
  form.num_blocks = 40;
  Engine old(form);
  for (uint64_t i = 0; i < 10; ++i) old.run(say(i, 16));  // all 40 blocks, those of prompt 0 leave first
  Calls calls(old, path);
  EvictingFiles files(old, 10);
  kvc_checkpoint_info info;
  ASSERT_EQ(calls.save(files, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(info.lost_blocks, 10u);
  EXPECT_EQ(info.num_blocks, 30u);
  EXPECT_EQ(info.num_pages, 30u);
  old.check();
  Engine fresh(form);
  EXPECT_EQ(fresh.restore(path).num_blocks, 30u);
  fresh.check();
  for (uint64_t i = 0; i < 10; ++i) {
    const uint64_t left = i < 2 ? 0 : i == 2 ? 2 : 4;
    EXPECT_EQ(fresh.check_pages(say(i, 16), 0), left) << i;
  }
  EXPECT_EQ(fresh.check_pages(say(77, 12), 0), 0u) << "it came after the save had begun";
  EXPECT_EQ(fresh.wrong, 0u);
}

}  // namespace
}  // namespace kvc
