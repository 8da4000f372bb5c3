// SPDX-License-Identifier: Apache-2.0
// Decisions: one trace on which the three modes differ, the rule of each reason, and the log.
#include <gtest/gtest.h>
#include <kvcache/sizing.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr uint64_t kSecond = 1'000'000'000;
using Needs = std::vector<double>;

struct Destroy {
  void operator()(kvc_sizer* sizer) const { kvc_sizer_destroy(sizer); }
};
using Sizer = std::unique_ptr<kvc_sizer, Destroy>;

kvc_sizer_config config_of(uint32_t mode) {
  kvc_sizer_config config = {};
  config.struct_size = sizeof config;
  config.mode = mode;
  config.max_blocks = 10000;
  config.num_blocks = 100;
  config.lead_time_ns = 30 * kSecond;
  config.half_life_ns = 20 * kSecond;
  config.window = 8;
  config.hysteresis = 0.1;
  return config;
}

Sizer make(const kvc_sizer_config& config) {
  kvc_sizer* sizer = nullptr;
  EXPECT_EQ(kvc_sizer_create(&config, &sizer), KVC_OK) << kvc_last_error();
  return Sizer(sizer);
}

kvc_sizing_decision decide(const Sizer& sizer, uint64_t second, double needed) {
  kvc_sizing_decision decision = {};
  decision.struct_size = sizeof decision;
  EXPECT_EQ(kvc_sizer_decide(sizer.get(), second * kSecond, needed, &decision), KVC_OK) << kvc_last_error();
  return decision;
}

kvc_sizing_decision last_of(uint32_t mode, const Needs& needs) {
  const Sizer sizer = make(config_of(mode));
  kvc_sizing_decision decision = {};
  for (size_t i = 0; i < needs.size(); ++i) decision = decide(sizer, 10 * (i + 1), needs[i]);
  return decision;
}

TEST(SizerTest, AGrowingNeedIsFollowedOrForeseen) {
  const Needs ramp = {100, 120, 140, 160, 180, 200};  // 2 blocks a second: 260 in 30 s
  const auto reactive = last_of(KVC_SIZING_REACTIVE, ramp);
  EXPECT_EQ(reactive.basis, KVC_SIZING_BY_LAST);
  EXPECT_EQ(reactive.wanted, 200);
  const auto predictive = last_of(KVC_SIZING_PREDICTIVE, ramp);
  EXPECT_EQ(predictive.basis, KVC_SIZING_BY_FORECAST);
  EXPECT_NEAR(predictive.forecast, 260, 1e-6);
  EXPECT_GT(predictive.to_blocks, reactive.to_blocks);
  EXPECT_EQ(last_of(KVC_SIZING_HYBRID, ramp).basis, KVC_SIZING_BY_FORECAST);  // the trend is significant
}

TEST(SizerTest, HybridTakesTheLargerInBurstsAndTheLevelInQuiet) {
  const Needs bursts = {100, 900, 100, 100, 100, 900};
  const auto burst = last_of(KVC_SIZING_HYBRID, bursts);
  EXPECT_GT(burst.variation, 0.5);
  EXPECT_EQ(burst.wanted, std::max(burst.needed, burst.forecast));
  const auto quiet = last_of(KVC_SIZING_HYBRID, {100, 101, 100, 99, 100, 101});
  EXPECT_LT(quiet.variation, 0.05);
  EXPECT_EQ(quiet.basis, KVC_SIZING_BY_LEVEL);
  EXPECT_EQ(quiet.wanted, quiet.level);
}

TEST(SizerTest, TheModesDecideDifferentlyOnOneTraceAndTheLogSaysWhy) {
  const Needs needs = {100, 130, 160, 190, 220, 100, 100, 100, 900, 100, 100};
  std::vector<uint64_t> sizes[3];
  for (const uint32_t mode : {KVC_SIZING_REACTIVE, KVC_SIZING_PREDICTIVE, KVC_SIZING_HYBRID}) {
    const Sizer sizer = make(config_of(mode));
    for (size_t i = 0; i < needs.size(); ++i)
      sizes[mode].push_back(decide(sizer, 10 * (i + 1), needs[i]).to_blocks);
    uint64_t size = 100;
    for (uint64_t i = 0; i < needs.size(); ++i) {
      kvc_sizing_decision logged = {};
      logged.struct_size = sizeof logged;
      ASSERT_EQ(kvc_sizer_read_log(sizer.get(), i, &logged), KVC_OK);
      EXPECT_EQ(logged.number, i);
      EXPECT_EQ(logged.mode, mode);
      EXPECT_EQ(logged.needed, needs[i]);
      EXPECT_EQ(logged.from_blocks, size);
      EXPECT_EQ(logged.to_blocks, size = sizes[mode][i]);
      const double by[] = {logged.needed, logged.forecast, logged.level};
      EXPECT_EQ(logged.wanted, by[logged.basis]);
      EXPECT_EQ(logged.action, logged.to_blocks > logged.from_blocks   ? KVC_SIZING_GROW
                               : logged.to_blocks < logged.from_blocks ? KVC_SIZING_SHRINK
                                                                       : KVC_SIZING_KEEP);
    }
  }
  EXPECT_NE(sizes[0], sizes[1]);
  EXPECT_NE(sizes[0], sizes[2]);
  EXPECT_NE(sizes[1], sizes[2]);
  EXPECT_EQ(sizes[0][8], 900u);
  EXPECT_GT(sizes[1][4], sizes[0][4]);  // foreseen
}

TEST(SizerTest, SmallChangesAndEarlyShrinksAreNotMade) {
  kvc_sizer_config config = config_of(KVC_SIZING_REACTIVE);
  config.cooldown_ns = 60 * kSecond;
  const Sizer sizer = make(config);
  EXPECT_EQ(decide(sizer, 1, 110).reason, KVC_SIZING_HYSTERESIS);
  EXPECT_EQ(decide(sizer, 2, 111).to_blocks, 111u);
  const auto early = decide(sizer, 61, 50);
  EXPECT_EQ(early.reason, KVC_SIZING_COOLDOWN);
  EXPECT_EQ(early.action, KVC_SIZING_KEEP);
  EXPECT_EQ(decide(sizer, 61 + 1, 50).action, KVC_SIZING_SHRINK);  // 60 s after the growth
  EXPECT_EQ(decide(sizer, 63, 500).action, KVC_SIZING_GROW);       // growing never waits
}

TEST(SizerTest, LimitsAndHeadroomHold) {
  kvc_sizer_config config = config_of(KVC_SIZING_REACTIVE);
  config.min_blocks = 80;
  config.max_blocks = 200;
  config.headroom = 0.25;
  const Sizer sizer = make(config);
  EXPECT_EQ(decide(sizer, 1, 120).to_blocks, 150u);
  const auto high = decide(sizer, 2, 1e15);
  EXPECT_EQ(high.to_blocks, 200u);
  EXPECT_EQ(high.reason, KVC_SIZING_LIMIT);
  const auto low = decide(sizer, 3, 0);
  EXPECT_EQ(low.to_blocks, 80u);
  EXPECT_EQ(low.reason, KVC_SIZING_LIMIT);
}

TEST(SizerTest, TheLogKeepsTheLast) {
  kvc_sizer_config config = config_of(KVC_SIZING_REACTIVE);
  config.log_capacity = 2;
  const Sizer sizer = make(config);
  kvc_sizing_decision logged = {};
  logged.struct_size = sizeof logged;
  EXPECT_EQ(kvc_sizer_read_log(sizer.get(), 0, &logged), KVC_ERROR_NOT_FOUND);
  for (uint64_t i = 1; i <= 3; ++i) decide(sizer, i, 100);
  EXPECT_EQ(kvc_sizer_read_log(sizer.get(), 0, &logged), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(std::string(kvc_last_error()), "no decision 0: the log has 1 .. 2");
  EXPECT_EQ(kvc_sizer_read_log(sizer.get(), 2, &logged), KVC_OK);
  EXPECT_EQ(logged.number, 2u);
}

TEST(SizerTest, BadInputIsRefusedAndChangesNothing) {
  const Sizer sizer = make(config_of(KVC_SIZING_HYBRID));
  decide(sizer, 5, 100);
  for (const double needed : {-1.0, std::nan(""), HUGE_VAL})
    EXPECT_EQ(kvc_sizer_decide(sizer.get(), 6 * kSecond, needed, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_sizer_decide(sizer.get(), 5 * kSecond, 1, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(decide(sizer, 6, 100).number, 1u);

  const auto refused = [](auto change, kvc_status status) {
    kvc_sizer_config config = config_of(KVC_SIZING_HYBRID);
    change(config);
    kvc_sizer* made = nullptr;
    EXPECT_EQ(kvc_sizer_create(&config, &made), status);
    EXPECT_EQ(made, nullptr);
  };
  refused([](auto& c) { c.mode = 3; }, KVC_ERROR_UNSUPPORTED);
  refused([](auto& c) { c.min_blocks = 101; }, KVC_ERROR_INVALID_ARGUMENT);
  refused([](auto& c) { c.max_blocks = 99; }, KVC_ERROR_INVALID_ARGUMENT);
  refused([](auto& c) { c.max_blocks = uint64_t{1} << 32; }, KVC_ERROR_INVALID_ARGUMENT);
  refused([](auto& c) { c.headroom = -0.1; }, KVC_ERROR_INVALID_ARGUMENT);
  refused([](auto& c) { c.hysteresis = std::nan(""); }, KVC_ERROR_INVALID_ARGUMENT);
  refused([](auto& c) { c.burst_threshold = 101; }, KVC_ERROR_INVALID_ARGUMENT);
  refused([](auto& c) { c.window = 1; }, KVC_ERROR_INVALID_ARGUMENT);
  refused([](auto& c) { c.log_capacity = 65537; }, KVC_ERROR_INVALID_ARGUMENT);
}

}  // namespace
