// SPDX-License-Identifier: Apache-2.0
// kvc_step.admit_slots: the step says how many slots an admission gets.
#include <gtest/gtest.h>
#include <kvcache/manager.h>
#include <kvcache/request.h>
#include <kvcache/step.h>

#include <vector>

namespace {

class AdmitSlotsTest : public testing::Test {
 protected:
  void SetUp() override {
    kvc_manager_config config = {};
    config.struct_size = sizeof config;
    config.num_blocks = 10, config.block_size = 4, config.max_request_tokens = 64;
    ASSERT_EQ(kvc_manager_create(&config, &manager_), KVC_OK) << kvc_last_error();
  }
  void TearDown() override { kvc_manager_destroy(manager_); }

  uint64_t create(size_t num_tokens, uint64_t slots) {
    std::vector<int32_t> tokens(num_tokens, 1);
    kvc_prompt prompt = {};
    prompt.struct_size = sizeof prompt;
    prompt.tokens = tokens.data(), prompt.num_tokens = num_tokens;
    kvc_request_config options = {};
    options.struct_size = sizeof options;
    options.slots = slots;
    uint64_t id = 0;
    EXPECT_EQ(kvc_manager_create_request(manager_, &prompt, &options, &id), KVC_OK) << kvc_last_error();
    return id;
  }
  // The status of the admission; of the call if that fails.
  kvc_status admit(uint64_t id, const uint64_t* slots) {
    kvc_status status = KVC_OK;
    uint64_t admitted = 0, cached = 0;
    kvc_step step = {};
    step.struct_size = sizeof step;
    step.num_admissions = 1, step.admit_requests = &id, step.admit_slots = slots;
    step.status = &status, step.admitted = &admitted, step.cached = &cached;
    const kvc_status call = kvc_manager_step(manager_, &step);
    if (call != KVC_OK) return call;
    EXPECT_EQ(kvc_manager_retire_step(manager_, step.step_id), KVC_OK);
    return status;
  }
  uint64_t capacity(uint64_t id) {
    kvc_request_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_manager_request_info(manager_, id, &info), KVC_OK);
    return info.capacity;
  }

  kvc_manager* manager_ = nullptr;
};

TEST_F(AdmitSlotsTest, ReplacesTheSlotsOfTheRequest) {
  const uint64_t id = create(20, 3), slots = 7, none = 0;
  ASSERT_EQ(admit(id, &slots), KVC_OK);
  EXPECT_EQ(capacity(id), 7u);
  ASSERT_EQ(kvc_manager_preempt_request(manager_, id), KVC_OK);
  ASSERT_EQ(admit(id, &none), KVC_OK);
  EXPECT_EQ(capacity(id), 7u) << "from then on";
}

TEST_F(AdmitSlotsTest, ZeroAndNullLeaveThem) {
  const uint64_t one = create(8, 3), other = create(8, 3), none = 0;
  ASSERT_EQ(admit(one, &none), KVC_OK);
  ASSERT_EQ(admit(other, nullptr), KVC_OK);
  EXPECT_EQ(capacity(one), 3u);
  EXPECT_EQ(capacity(other), 3u);
}

TEST_F(AdmitSlotsTest, ARefusedAdmissionChangesNothing) {
  const uint64_t id = create(60, 3), all = 60;
  uint64_t before, after;
  ASSERT_EQ(kvc_manager_digest(manager_, &before), KVC_OK);
  EXPECT_EQ(admit(id, &all), KVC_ERROR_NEVER_FITS);
  ASSERT_EQ(kvc_manager_digest(manager_, &after), KVC_OK);
  EXPECT_EQ(before, after);
  ASSERT_EQ(admit(id, nullptr), KVC_OK);
  EXPECT_EQ(capacity(id), 3u);
}

TEST_F(AdmitSlotsTest, ARefusedBatchLeavesThem) {
  const uint64_t ids[] = {create(20, 3), create(40, 40)}, slots[] = {7, 40};
  uint64_t admitted[2], cached[2];
  kvc_status status[2];
  kvc_step step = {};
  step.struct_size = sizeof step;
  step.flags = KVC_STEP_ADMIT_ALL_OR_NONE;
  step.num_admissions = 2, step.admit_requests = ids, step.admit_slots = slots;
  step.status = status, step.admitted = admitted, step.cached = cached;
  ASSERT_EQ(kvc_manager_step(manager_, &step), KVC_OK);
  ASSERT_EQ(kvc_manager_retire_step(manager_, step.step_id), KVC_OK);
  EXPECT_EQ(status[0], KVC_ERROR_SKIPPED);
  EXPECT_EQ(status[1], KVC_ERROR_NO_SPACE);
  ASSERT_EQ(admit(ids[0], nullptr), KVC_OK);
  EXPECT_EQ(capacity(ids[0]), 3u);
}

TEST_F(AdmitSlotsTest, RefusesMoreThanARequestMayHave) {
  const uint64_t id = create(8, 3), many = 65;
  EXPECT_EQ(admit(id, &many), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(kvc_last_error(), "admit_slots[0] is 65; at most max_request_tokens, 64");
}

}  // namespace
