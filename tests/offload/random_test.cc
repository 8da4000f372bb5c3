// SPDX-License-Identifier: Apache-2.0
// Random engines with tiers that fail at random: no hit has a wrong byte, and nothing stays held.
// KVC_TEST_OPS: operations of each of the runs.
#include <cstdlib>

#include "base/status.h"
#include "offload/scene.h"
#include "rounds.h"
#include "seed.h"

namespace kvc::test {
namespace {

unsigned long long big(uint64_t value) { return value; }

struct Live {
  uint64_t id;
  std::vector<int32_t> tokens;
  bool admitted;
};

class Engine {
 public:
  Engine(const SceneConfig& config, uint64_t seed) : scene_(config), random_(seed) {}

  void run(uint64_t ops) {
    for (uint64_t i = 0; i < ops && !::testing::Test::HasFailure(); ++i) {
      step();
      scene_.check();
    }
    for (Weather& weather : scene_.weather) weather.fail_percent = weather.full = weather.down = 0;
    while (!live_.empty()) free(live_.size() - 1);
    scene_.settle();
    for (kvc_tier* tier : scene_.tiers) kvc_tier_drain(tier);  // questions of requests that are gone
    scene_.settle();
    EXPECT_EQ(scene_.held_blocks(), 0u) << "a hold stayed";
    EXPECT_EQ(scene_.stats().busy_lookups, 0u);
    EXPECT_EQ(scene_.stats().busy_pages, 0u) << "a staging page stayed";
    EXPECT_EQ(scene_.wrong_pages, 0u);
    EXPECT_GT(scene_.checked_pages, ops / 100);
    const bool few = ops < 12000;  // of which the shares scatter
    EXPECT_GT(loads(), ops / (few ? 200 : 100)) << "the run loaded next to nothing";
    EXPECT_GT(short_loads(), ops / (few ? 4000 : 1000));
  }
  Scene& scene() { return scene_; }
  uint64_t loads() const { return scene_.stats().loads + loads_before_; }
  uint64_t short_loads() const { return scene_.stats().short_loads + short_before_; }

 private:
  uint64_t draw(uint64_t n) { return random_() % n; }
  // Of few prefixes, so that there are hits.
  std::vector<int32_t> prompt() {
    std::vector<int32_t> tokens;
    const size_t blocks = 1 + draw(8);
    for (size_t b = 0; b < blocks; ++b) {
      const auto branch = static_cast<int32_t>(draw(b == 0 ? 6 : 2));
      for (uint32_t i = 0; i < kBlock; ++i) tokens.push_back(branch * 10 + static_cast<int32_t>(b));
    }
    for (uint64_t i = draw(kBlock); i > 0; --i) tokens.push_back(99);
    return tokens;
  }
  void free(size_t i) {
    EXPECT_EQ(kvc_manager_free_request(scene_.manager, live_[i].id), KVC_OK);
    live_.erase(live_.begin() + static_cast<long>(i));
  }
  void admit(Live& live) {
    uint64_t cached = 0;
    const kvc_status status = kvc_manager_admit_request(scene_.manager, live.id, &cached);
    if (status == KVC_ERROR_NO_SPACE || status == KVC_ERROR_AGAIN) return;
    ASSERT_EQ(status, KVC_OK) << kvc_last_error();
    live.admitted = true;
    scene_.compute(live.id, live.tokens, cached);
  }
  void decode(Live& live) {
    const size_t full = live.tokens.size() / kBlock * kBlock;
    for (uint64_t n = 1 + draw(5); n > 0; --n) {
      const auto token = static_cast<int32_t>(draw(2));
      if (live.tokens.size() == 40) return;
      const kvc_status status = kvc_manager_append_tokens(scene_.manager, live.id, &token, 1);
      if (status != KVC_OK) break;
      live.tokens.push_back(token);
    }
    scene_.compute(live.id, live.tokens, full);
  }
  void change_weather() {
    Weather& weather = scene_.weather[draw(scene_.tiers.size())];
    weather.fail_percent = draw(2) == 0 ? static_cast<uint32_t>(draw(60)) : 0;
    weather.full = draw(8) == 0;
    weather.down = draw(8) == 0;
  }
  void lookup(Live& live) {
    const kvc_status status = kvc_offload_lookup(scene_.offload, live.id, scene_.now);
    EXPECT_TRUE(status == KVC_OK || status == KVC_ERROR_LIMIT || (live.admitted && status == KVC_ERROR_BUSY))
        << kvc_last_error();
  }
  void change(Live& live) {
    switch (draw(6)) {
      case 0:
        if (live.admitted) decode(live);
        break;
      case 1: {
        uint64_t count = 0;
        EXPECT_EQ(kvc_offload_store_request(scene_.offload, live.id, &count), KVC_OK);
        break;
      }
      case 2:
        EXPECT_EQ(kvc_offload_cancel(scene_.offload, live.id), KVC_OK);
        break;
      case 3: {
        const size_t keep = 1 + draw(live.tokens.size() / kBlock + 1);
        if (scene_.num_groups != 1 || keep * kBlock >= live.tokens.size()) break;
        ASSERT_EQ(kvc_manager_truncate_request(scene_.manager, live.id, keep * kBlock), KVC_OK)
            << kvc_last_error();
        live.tokens.resize(keep * kBlock);
        break;
      }
      default:
        if (!live.admitted) break;
        ASSERT_EQ(kvc_manager_preempt_request(scene_.manager, live.id), KVC_OK) << kvc_last_error();
        live.admitted = false;
    }
  }
  void manage() {
    size_t count = 0;
    switch (draw(8)) {
      case 0:
        if (draw(4) != 0) break;
        ASSERT_EQ(kvc_manager_reset_all(scene_.manager), KVC_OK);
        break;
      case 1: {
        std::vector<kvc_block_copy> moves(64);
        ASSERT_EQ(kvc_manager_compact(scene_.manager, 0, moves.data(), moves.size(), &count), KVC_OK);
        ASSERT_EQ(kvc_storage_copy_blocks(scene_.storage, moves.data(), count, scene_.stream), KVC_OK);
        break;
      }
      case 2:
        if (draw(8) != 0) break;
        loads_before_ += scene_.stats().loads;
        short_before_ += scene_.stats().short_loads;
        scene_.close();
        scene_.open();
        break;
      case 3:
        scene_.now += draw(200000);
        break;
      default:
        ASSERT_EQ(kvc_manager_evict_blocks(scene_.manager, UINT32_MAX, draw(60), &count), KVC_OK);
    }
  }
  void step() {
    if (live_.empty() || (live_.size() < 6 && draw(5) == 0)) {
      std::vector<int32_t> tokens = prompt();
      const uint64_t id = scene_.create(tokens);
      live_.push_back({id, std::move(tokens), false});
      if (draw(5) != 0) lookup(live_.back());
      return;
    }
    const size_t at = draw(live_.size());
    Live& live = live_[at];
    switch (draw(12)) {
      case 0:
        change_weather();
        break;
      case 1:
        manage();
        break;
      case 2:
        if (draw(2) == 0) change(live);
        break;
      case 3:
        free(at);
        break;
      case 4:
        lookup(live);
        break;
      case 5:
      case 6:
      case 7: {
        const uint32_t state = scene_.info(live.id).state;
        const bool ready = state == KVC_OFFLOAD_NONE || state == KVC_OFFLOAD_READY;
        if (!live.admitted && (ready || draw(8) == 0)) admit(live);
        if (live.admitted && draw(2) == 0) decode(live);
        break;
      }
      default:
        // Threads that get no processor would leave nothing to load.
        for (kvc_tier* tier : scene_.tiers) {
          if (scene_.config_.threads != 0 && draw(4) != 0) kvc_tier_drain(tier);
        }
        scene_.poll();
    }
  }

  Scene scene_;
  std::mt19937_64 random_;
  std::vector<Live> live_;
  uint64_t loads_before_ = 0, short_before_ = 0;
};

uint64_t ops_of_a_run() {
  const char* given = std::getenv("KVC_TEST_OPS");
  return given != nullptr ? std::strtoull(given, nullptr, 0) : rounds<uint64_t>(3600);
}

TEST(OffloadRandom, NoHitHasAWrongByteAndNothingStaysHeld) {
  const uint32_t kAll = KVC_OFFLOAD_WRITE_THROUGH | KVC_OFFLOAD_SECOND_USE | KVC_OFFLOAD_BEFORE_EVICTION;
  for (uint32_t run = 0; run < 10; ++run) {
    SceneConfig config;
    config.windows = run % 3 == 1;
    config.num_blocks = run % 2 == 0 ? 24 : 48;
    config.threads = run % 4 == 3 ? 2 : 0;
    config.num_tiers = 1 + run % 2;
    config.num_pages = run % 5 == 0 ? 4 : 16;
    config.tier_pages = run % 3 == 0 ? 40 : 400;
    config.policy = run % 4 == 0   ? kAll
                    : run % 4 == 1 ? uint32_t{KVC_OFFLOAD_BEFORE_EVICTION}
                                   : uint32_t{KVC_OFFLOAD_WRITE_THROUGH};
    config.flags = run % 5 == 4 ? KVC_OFFLOAD_NO_PROMOTE : 0;
    kvc_device_info info = {};
    info.struct_size = sizeof info;
    if (run == 8 && kvc_device_read_info("emulated", &info) == KVC_OK) config.device = "emulated";
    config.stream = run == 5 || run == 8;
    config.manager_policy = run % 2 == 1 ? uint32_t{KVC_POLICY_FREQUENCY} : uint32_t{KVC_POLICY_LRU};
    config.manager_flags = run % 4 == 2 ? KVC_MANAGER_HINTS : 0;
    SCOPED_TRACE("run " + std::to_string(run));
    Engine engine(config, test_seed() * 100 + run);
    engine.run(ops_of_a_run());
    if (HasFailure()) return;
    std::printf("run %u: %llu pages checked, %llu wrong; %llu loads, %llu of them short\n", run,
                big(engine.scene().checked_pages), big(engine.scene().wrong_pages), big(engine.loads()),
                big(engine.short_loads()));
  }
}

}  // namespace
}  // namespace kvc::test
