// SPDX-License-Identifier: Apache-2.0
// Sources, labels, buffers and latencies of kvcache/metrics.h. The text itself is for the Python tests.
#include <gtest/gtest.h>
#include <kvcache/manager.h>
#include <kvcache/metrics.h>
#include <kvcache/step.h>
#include <kvcache/tier.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "calls.h"
#include "tier_config.h"

namespace kvc::test {
namespace {

class Metrics : public testing::Test {
 protected:
  Metrics() {
    kvc_manager_config config = {};
    config.struct_size = sizeof config;
    config.num_blocks = 64, config.block_size = 4;
    EXPECT_EQ(kvc_manager_create(&config, &m_), KVC_OK);
    EXPECT_EQ(kvc_manager_create(&config, &other_), KVC_OK);
    const kvc_tier_config tier = test_tier_config("memory:?bytes=64KiB&threads=1", 64);
    EXPECT_EQ(kvc_tier_create(&tier, &tier_), KVC_OK) << kvc_last_error();
    source_.struct_size = sizeof source_, source_.manager = m_;
  }
  ~Metrics() override {
    kvc_tier_destroy(tier_);
    kvc_manager_destroy(m_);
    kvc_manager_destroy(other_);
  }

  static kvc_status render(const std::vector<kvc_metrics_source>& sources, std::string* text = nullptr) {
    std::string room(1 << 18, '?');
    size_t size = 12345;
    const kvc_status status =
        kvc_metrics_render(sources.data(), sources.size(), 0, room.data(), room.size(), &size);
    if (status != KVC_OK) {
      EXPECT_EQ(size, 12345u);
      EXPECT_EQ(room, std::string(room.size(), '?'));
    } else if (text != nullptr) {
      *text = room.substr(0, size);
    }
    return status;
  }
  // A source with one label.
  kvc_metrics_source labelled(const char* name, const char* value) {
    label_ = {name, value};
    kvc_metrics_source source = source_;
    source.labels = &label_, source.num_labels = 1;
    return source;
  }
  void refused(const std::vector<kvc_metrics_source>& sources, const char* words) {
    EXPECT_EQ(render(sources), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(kvc_last_error()).find(words), std::string::npos) << kvc_last_error();
  }
  void work(kvc_manager* m, size_t times) {
    const int32_t tokens[] = {1, 2, 3, 4, 5};
    for (size_t i = 0; i < times; ++i) {
      uint64_t request = 0, cached = 0;
      ASSERT_EQ(kvc_manager_allocate_request(m, PROMPT(0, tokens, 5, nullptr, 0), nullptr, &request, &cached),
                KVC_OK);
      ASSERT_EQ(kvc_manager_commit_tokens(m, request, 5), KVC_OK);
      ASSERT_EQ(kvc_manager_free_request(m, request), KVC_OK);
    }
  }
  static uint64_t digest(kvc_manager* m) {
    uint64_t value = 0;
    EXPECT_EQ(kvc_manager_digest(m, &value), KVC_OK);
    return value;
  }
  kvc_latency latency_of(uint32_t latency) {
    kvc_latency out = {};
    out.struct_size = sizeof out;
    EXPECT_EQ(kvc_metrics_read_latency(&source_, latency, &out), KVC_OK) << kvc_last_error();
    return out;
  }

  kvc_manager *m_ = nullptr, *other_ = nullptr;
  kvc_tier* tier_ = nullptr;
  kvc_metrics_source source_ = {};
  kvc_label label_ = {};
};

TEST_F(Metrics, WithoutSourcesIsAnEmptyText) {
  std::string text;
  EXPECT_EQ(render({}, &text), KVC_OK);
  EXPECT_EQ(text, "# EOF\n");
}

TEST_F(Metrics, SourcesHaveExactlyOneObject) {
  kvc_metrics_source none = source_, two = source_;
  none.manager = nullptr;
  two.tier = tier_;
  refused({source_, none}, "sources[1] has 0 objects");
  refused({two}, "sources[0] has 2 objects");
}

TEST_F(Metrics, SourcesOfOneKindHaveDifferentLabels) {
  kvc_metrics_source other = source_, tier = source_;
  other.manager = other_;
  tier.manager = nullptr, tier.tier = tier_;
  refused({source_, tier, other}, "sources[0] and sources[2]");
  const kvc_label ab[] = {{"a", "1"}, {"b", "2"}}, ba[] = {{"b", "2"}, {"a", "1"}};
  source_.labels = ab, other.labels = ba;
  source_.num_labels = other.num_labels = 2;
  refused({source_, other}, "equal labels");
  const kvc_label else_[] = {{"b", "2"}, {"a", "2"}};
  other.labels = else_;
  EXPECT_EQ(render({source_, tier, other}), KVC_OK) << kvc_last_error();
}

TEST_F(Metrics, LabelsAreChecked) {
  for (const char* name : {"", "1a", "__a", "a-b", "a b", "\xc3\xa9", "a\""}) {
    refused({labelled(name, "x")}, "labels[0].name");
  }
  for (const char* name : {"pool", "state", "le", "tier_index"})
    refused({labelled(name, "x")}, "choose another");
  for (const char* value :
       {"\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "a\xe2\x82"})
    refused({labelled("a", value)}, "not UTF-8");
  refused({labelled(nullptr, "x")}, "no name");
  refused({labelled("a", nullptr)}, "no value");
  const kvc_label twice[] = {{"a", "1"}, {"a", "2"}};
  source_.labels = twice, source_.num_labels = 2;
  refused({source_}, "two labels");
  source_.num_labels = 65;
  refused({source_}, "num_labels is 65");
  source_.labels = nullptr, source_.num_labels = 1;
  refused({source_}, "labels is NULL");
}

TEST_F(Metrics, LabelValuesAreEscaped) {
  std::string text;
  ASSERT_EQ(render({labelled("model", "a\"b\\c\nd\xe2\x82\xac")}, &text), KVC_OK) << kvc_last_error();
  EXPECT_NE(text.find("kvcache_preemptions_total{model=\"a\\\"b\\\\c\\nd\xe2\x82\xac\"} 0\n"),
            std::string::npos)
      << text;
}

TEST_F(Metrics, ABufferThatIsTooShortIsLeftAlone) {
  size_t needed = 0;
  EXPECT_EQ(kvc_metrics_render(&source_, 1, 0, nullptr, 0, &needed), KVC_ERROR_BUFFER_TOO_SMALL);
  std::string room(needed, '?');
  size_t size = 0;
  EXPECT_EQ(kvc_metrics_render(&source_, 1, 0, room.data(), needed - 1, &size), KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(size, needed);
  EXPECT_EQ(room, std::string(needed, '?'));
  EXPECT_EQ(kvc_metrics_render(&source_, 1, 0, room.data(), needed, &size), KVC_OK);
  EXPECT_EQ(room.substr(needed - 6), "# EOF\n");
}

TEST_F(Metrics, UnknownFlagsAndSizesAreRefused) {
  size_t size = 0;
  EXPECT_EQ(kvc_metrics_render(&source_, 1, 2, nullptr, 0, &size), KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(kvc_metrics_render(&source_, 65537, 0, nullptr, 0, &size), KVC_ERROR_INVALID_ARGUMENT);
  kvc_metrics_source two[] = {source_, source_};
  two[1].struct_size = 72;
  EXPECT_EQ(kvc_metrics_render(two, 2, 0, nullptr, 0, &size), KVC_ERROR_INVALID_ARGUMENT);
}

TEST_F(Metrics, ReadingChangesNothing) {
  work(m_, 3);
  const uint64_t before = digest(m_);
  kvc_stats stats = {}, later = {};
  stats.struct_size = later.struct_size = sizeof stats;
  ASSERT_EQ(kvc_manager_read_stats(m_, &stats), KVC_OK);
  std::string first, second;
  ASSERT_EQ(render({source_}, &first), KVC_OK);
  ASSERT_EQ(render({source_}, &second), KVC_OK);
  EXPECT_EQ(first, second);
  ASSERT_EQ(kvc_manager_read_stats(m_, &later), KVC_OK);
  EXPECT_EQ(memcmp(&stats, &later, sizeof stats), 0);
  EXPECT_EQ(digest(m_), before);
}

TEST_F(Metrics, LatenciesCountTheCallsAfterTheyWereEnabled) {
  work(m_, 2);
  kvc_latency latency = {};
  latency.struct_size = sizeof latency;
  EXPECT_EQ(kvc_metrics_read_latency(&source_, KVC_LATENCY_ADMIT, &latency), KVC_ERROR_BUSY);
  ASSERT_EQ(kvc_metrics_enable_latencies(&source_, 1), KVC_OK);
  EXPECT_EQ(latency_of(KVC_LATENCY_ADMIT).count, 0u);
  EXPECT_EQ(latency_of(KVC_LATENCY_ADMIT).p999_ns, 0u);
  work(m_, 10);
  ASSERT_EQ(kvc_metrics_enable_latencies(&source_, 1), KVC_OK);  // changes nothing
  uint64_t request = 0, cached = 0;
  EXPECT_NE(kvc_manager_allocate_request(m_, nullptr, nullptr, &request, &cached), KVC_OK);  // counts too
  latency = latency_of(KVC_LATENCY_ADMIT);
  EXPECT_EQ(latency.count, 11u);
  EXPECT_EQ(latency_of(KVC_LATENCY_STEP).count, 0u);
  EXPECT_GE(latency.sum_ns, latency.max_ns);
  EXPECT_GE(latency.max_ns, latency.p999_ns);
  EXPECT_GE(latency.p999_ns, latency.p99_ns);
  EXPECT_GE(latency.p99_ns, latency.p90_ns);
  EXPECT_GE(latency.p90_ns, latency.p50_ns);
  EXPECT_GT(latency.p50_ns, 0u);
  kvc_step step = {};
  step.struct_size = sizeof step;
  ASSERT_EQ(kvc_manager_step(m_, &step), KVC_OK) << kvc_last_error();
  EXPECT_EQ(latency_of(KVC_LATENCY_STEP).count, 1u);
  EXPECT_EQ(kvc_metrics_read_latency(&source_, KVC_LATENCY_PLAN, &latency), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_metrics_read_latency(&source_, 0, &latency), KVC_ERROR_INVALID_ARGUMENT);
}

TEST_F(Metrics, RecordedCallsAreMeasuredOnce) {
  kvc_manager_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = 64, config.block_size = 4, config.record_bytes = 1 << 16;
  kvc_manager* m = nullptr;
  ASSERT_EQ(kvc_manager_create(&config, &m), KVC_OK);
  source_.manager = m;
  ASSERT_EQ(kvc_metrics_enable_latencies(&source_, 1), KVC_OK);
  work(m, 4);
  EXPECT_EQ(latency_of(KVC_LATENCY_ADMIT).count, 4u);
  kvc_manager_destroy(m);
}

TEST_F(Metrics, MeasuringChangesNoState) {
  kvc_metrics_source other = source_;
  other.manager = other_;
  ASSERT_EQ(kvc_metrics_enable_latencies(&other, 1), KVC_OK);
  work(m_, 20);
  work(other_, 20);
  EXPECT_EQ(digest(m_), digest(other_));
}

TEST_F(Metrics, ThreadsReadWhileOthersWork) {
  kvc_metrics_source tier = source_;
  tier.manager = nullptr, tier.tier = tier_;
  const std::vector<kvc_metrics_source> sources = {source_, tier};
  ASSERT_EQ(kvc_metrics_enable_latencies(sources.data(), 2), KVC_OK);
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      EXPECT_EQ(render(sources), KVC_OK);
      kvc_memory_profile profile = {};
      profile.struct_size = sizeof profile;
      EXPECT_EQ(kvc_metrics_read_memory(sources.data(), 2, &profile), KVC_OK);
      latency_of(KVC_LATENCY_ADMIT);
    }
  });
  std::thread worker([&] { work(m_, 300); });
  char page[64] = {};
  for (uint8_t i = 0; i < 100; ++i) {
    kvc_tier_item item = {};
    item.key[0] = i, item.data = page, item.bytes = sizeof page;
    kvc_tier_job job = {};
    job.struct_size = sizeof job;
    job.items = &item, job.num_items = 1, job.kind = KVC_TIER_PUT, job.priority = KVC_TIER_STORE;
    uint64_t id = 0;
    ASSERT_EQ(kvc_tier_submit(tier_, &job, &id), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_tier_drain(tier_), KVC_OK);
    kvc_tier_completion completion = {};
    size_t count = 0;
    ASSERT_EQ(kvc_tier_poll(tier_, &completion, 1, &count), KVC_OK);
  }
  worker.join();
  done = true;
  reader.join();
  EXPECT_EQ(latency_of(KVC_LATENCY_ADMIT).count, 300u);
  kvc_latency puts = {};
  puts.struct_size = sizeof puts;
  ASSERT_EQ(kvc_metrics_read_latency(&tier, KVC_LATENCY_TIER_PUT, &puts), KVC_OK);
  EXPECT_EQ(puts.count, 100u);
}

}  // namespace
}  // namespace kvc::test
