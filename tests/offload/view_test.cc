// SPDX-License-Identifier: Apache-2.0
// What a store learns of a block that is copied while other threads use the manager.
#include "api/guard.h"
#include "manager/manager.h"
#include "manager/offload_view.h"
#include "offload/scene.h"

namespace kvc::test {
namespace {

using Content = OffloadView::Content;

class View : public ::testing::Test {
 protected:
  View() : scene({}), view(*scene.manager->impl) {}

  uint64_t admit(const std::vector<int32_t>& prompt) {
    const uint64_t id = scene.create(prompt);
    uint64_t cached = 0;
    EXPECT_EQ(kvc_manager_admit_request(scene.manager, id, &cached), KVC_OK) << kvc_last_error();
    return id;
  }
  void commit(uint64_t id) {
    EXPECT_EQ(kvc_manager_commit_tokens(scene.manager, id, tokens.size()), KVC_OK) << kvc_last_error();
  }
  void read(uint64_t id) { ASSERT_EQ(view.read_request(id, blocks, 4), 4u); }
  void expect(OffloadView::Moment since, Content expected) {
    Content content[4];
    view.recheck(blocks, 4, since, content);
    for (const Content each : content) EXPECT_EQ(each, expected);
  }
  OffloadView::Moment check(Content expected) {
    Content content[4];
    const OffloadView::Moment now = view.check(blocks, 4, content);
    for (const Content each : content) EXPECT_EQ(each, expected);
    return now;
  }

  const std::vector<int32_t> tokens = tokens_of(100, 4 * kBlock + 1);
  Scene scene;
  OffloadView view;
  StoredBlock blocks[4] = {};
};

TEST_F(View, BlocksThatStayAreThereWhateverElseHappens) {
  const uint64_t id = admit(tokens);
  commit(id);
  read(id);
  const OffloadView::Moment then = check(Content::kThere);
  scene.serve(tokens_of(500, 4 * kBlock + 1));
  expect(then, Content::kThere);
}

TEST_F(View, BlocksThatLeaveAreGone) {
  const uint64_t id = admit(tokens);
  commit(id);
  read(id);
  const OffloadView::Moment then = check(Content::kThere);
  ASSERT_EQ(kvc_manager_free_request(scene.manager, id), KVC_OK);
  scene.evict_all();
  expect(then, Content::kGone);
  check(Content::kGone);
}

TEST_F(View, BlocksThatComeMeanwhileAreForLater) {
  const uint64_t id = admit(tokens);
  const OffloadView::Moment before = view.check(blocks, 0, nullptr);
  commit(id);
  read(id);
  expect(before, Content::kLater);  // as if they had been there before and had come back
  expect(check(Content::kThere), Content::kThere);
}

// A copy of a position comes and leaves without an event.
TEST_F(View, CopiesThatComeMeanwhileAreForLater) {
  const uint64_t id = admit(tokens), other = admit(tokens);
  commit(id);
  read(id);
  const OffloadView::Moment then = check(Content::kThere);
  commit(other);
  expect(then, Content::kLater);
  expect(check(Content::kThere), Content::kThere);
}

TEST_F(View, BlocksAreForLaterIfEventsWereMissed) {
  const uint64_t id = admit(tokens);
  commit(id);
  read(id);
  const OffloadView::Moment then = check(Content::kThere);
  for (int32_t i = 0; i < 100; ++i) {
    scene.serve(tokens_of(1000 + 50 * i, 8 * kBlock + 1));
  }
  expect(then, Content::kLater);
}

}  // namespace
}  // namespace kvc::test
