// SPDX-License-Identifier: Apache-2.0
// Plug-ins as tiers: which are refused, and that a store that lies or fails costs hits and never gives wrong
// bytes.
#include <gtest/gtest.h>

#include "plugin/plugins.h"
#include "plugin_stores.h"

namespace kvc {
namespace {

using test::digest_of;
using test::page_of;

kvc_status open(const char* name, const char* path = nullptr) { return kvc_plugin_open(name, path); }
bool says(const char* text) { return strstr(kvc_last_error(), text) != nullptr; }

TEST(Plugin, IsFoundByNameOrNamed) {
  const std::string folder = test::plugin_folder();
  ASSERT_FALSE(folder.empty()) << "set KVC_PLUGIN_PATH to the folder of the test plug-ins";
  const std::string file = folder + "/libkvcache_faulty.so";
  ASSERT_EQ(open("faulty"), KVC_OK) << kvc_last_error();
  EXPECT_EQ(open("faulty"), KVC_OK) << "again";
  EXPECT_EQ(open("faulty", folder.c_str()), KVC_OK) << kvc_last_error();
  EXPECT_EQ(open("faulty", file.c_str()), KVC_OK) << kvc_last_error();
  for (const std::string& other :
       {std::string("/elsewhere"), std::string("/"), folder.substr(0, folder.size() - 1)}) {
    EXPECT_EQ(open("faulty", other.c_str()), KVC_ERROR_BUSY) << other;
    EXPECT_TRUE(says(file.c_str())) << kvc_last_error();
  }
}

TEST(Plugin, ThatIsNowhereIsNotFoundAndThePlacesAreNamed) {
  EXPECT_EQ(open("nowhere"), KVC_ERROR_NOT_FOUND);
  EXPECT_TRUE(says("KVC_PLUGIN_PATH")) << kvc_last_error();
  EXPECT_TRUE(says((test::plugin_folder() + "/libkvcache_nowhere.so").c_str())) << kvc_last_error();
  EXPECT_EQ(open("nowhere", "/no/folder"), KVC_ERROR_NOT_FOUND);
  EXPECT_TRUE(says("/no/folder/libkvcache_nowhere.so")) << kvc_last_error();
  for (const char* bad : {"", "Redis", "a-b", "../x", "sixteenletters16", "a b"})
    EXPECT_EQ(open(bad), KVC_ERROR_INVALID_ARGUMENT) << bad;
  EXPECT_EQ(open(nullptr), KVC_ERROR_INVALID_ARGUMENT);
}

TEST(Plugin, ThatIsBrokenIsRefusedEachTime) {
  const struct {
    const char* name;
    kvc_status status;
    const char* text;
  } bad[] = {{"badabi", KVC_ERROR_UNSUPPORTED, "another version: its interface is 2, that of this library 1"},
             {"badsmall", KVC_ERROR_UNSUPPORTED, "another version"},
             {"badother", KVC_ERROR_UNSUPPORTED, "is the plug-in \"another\", not \"badother\""},
             {"badnoname", KVC_ERROR_UNSUPPORTED, "is the plug-in \"\", not \"badnoname\""},
             {"badget", KVC_ERROR_UNSUPPORTED, "its store lacks a function"},
             {"badstore", KVC_ERROR_UNSUPPORTED, "its store lacks a function"},
             {"badtransfer", KVC_ERROR_UNSUPPORTED, "its io engine lacks a function"},
             {"badbound", KVC_ERROR_UNSUPPORTED, "its codec lacks a function"},
             {"badpublish", KVC_ERROR_UNSUPPORTED, "its transport lacks a function"},
             {"badempty", KVC_ERROR_UNSUPPORTED, "it gives neither"},
             {"badnotable", KVC_ERROR_UNSUPPORTED, "it gives no table"},
             {"badtext", KVC_ERROR_LIMIT, "it has no licence"},
             {"badquiet", KVC_ERROR_INTERNAL, "failed without a text"},
             {"badnothing", KVC_ERROR_UNSUPPORTED, "kvc_plugin_entry_v1"},
             {"badfile", KVC_ERROR_UNSUPPORTED, "cannot be loaded"}};
  for (const auto& each : bad) {
    for (int i = 0; i < 2; ++i) EXPECT_EQ(open(each.name), each.status) << each.name << kvc_last_error();
    EXPECT_TRUE(says(each.text)) << each.name << ": " << kvc_last_error();
    std::unique_ptr<Tier> tier;
    EXPECT_EQ(open_tier(default_env(), system_files(), (std::string(each.name) + ":x").c_str(),
                        {test::kFingerprint, 64}, {}, &tier),
              each.status);
    EXPECT_EQ(tier, nullptr);
  }
}

class PluginStoreTest : public test::PluginTier {
 protected:
  void SetUp() override {
    ASSERT_EQ(PluginTier::open("faulty://somewhere?threads=0&jobs=40&its=own"), KVC_OK) << kvc_last_error();
  }
  void TearDown() override { faulty_.set(FAULTY_NONE, 0, 0); }
  void set(int mode) { faulty_.set(mode, 0, 0); }
  test::Faulty faulty_{"faulty"};
};

TEST_F(PluginStoreTest, StoresPages) {
  EXPECT_EQ(get(1), KVC_PAGE_MISS);
  EXPECT_EQ(exists(1), KVC_PAGE_MISS);
  EXPECT_EQ(put(1), KVC_PAGE_OK);
  EXPECT_EQ(put(1), KVC_PAGE_OK) << "twice";
  EXPECT_EQ(put(2), KVC_PAGE_OK);
  EXPECT_EQ(get(1), KVC_PAGE_OK);
  EXPECT_EQ(exists(2), KVC_PAGE_OK);
  EXPECT_EQ(tier_->stats().store.pages, 2u);
  EXPECT_EQ(remove(1), KVC_PAGE_OK);
  EXPECT_EQ(get(1), KVC_PAGE_MISS);
  EXPECT_EQ(tier_->options().max_jobs, 40u);
}

TEST_F(PluginStoreTest, ReadsPartsOfPages) {
  ASSERT_EQ(put(1), KVC_PAGE_OK);
  const std::vector<char> page = page_of(digest_of(1), kBytes);
  const kvc_run runs[] = {{0, 3}, {10, 0}, {100, 400}, {999, 1}};
  std::vector<char> part(404), right(page.begin(), page.begin() + 3);
  right.insert(right.end(), page.begin() + 100, page.begin() + 500);
  right.push_back(page[999]);
  EXPECT_EQ(one(TierJobKind::kGet, 1, part.data(), runs, 4), KVC_PAGE_OK);
  EXPECT_EQ(part, right);
  set(FAULTY_FLIP_DATA);  // outside of what is wanted
  EXPECT_EQ(one(TierJobKind::kGet, 1, part.data(), runs, 3), KVC_PAGE_MISS);
}

TEST_F(PluginStoreTest, LiesAreMissesAndAreCounted) {
  const struct {
    int mode;
    uint64_t headers, payloads;
  } lies[] = {{FAULTY_FLIP_DATA, 0, 1},   {FAULTY_FLIP_HEADER, 1, 0}, {FAULTY_OTHER_VALUE, 1, 0},
              {FAULTY_OTHER_DATA, 0, 1},  {FAULTY_SHORT, 0, 1},       {FAULTY_NOTHING, 1, 0},
              {FAULTY_OTHER_PLACE, 0, 1}, {FAULTY_ALWAYS_THERE, 1, 0}};
  for (const auto& lie : lies) {
    ASSERT_EQ(put(1), KVC_PAGE_OK);
    ASSERT_EQ(put(2), KVC_PAGE_OK);
    const StoreStats before = tier_->stats().store;
    set(lie.mode);
    const uint64_t number = lie.mode == FAULTY_ALWAYS_THERE ? 3 : 1;
    EXPECT_EQ(get(number), KVC_PAGE_MISS) << lie.mode;
    const StoreStats after = tier_->stats().store;
    EXPECT_EQ(after.bad_headers - before.bad_headers, lie.headers) << lie.mode;
    EXPECT_EQ(after.bad_payloads - before.bad_payloads, lie.payloads) << lie.mode;
    set(FAULTY_NONE);
    if (number == 1) {
      EXPECT_EQ(exists(1), KVC_PAGE_MISS) << "it was removed, so that it is stored anew";
    }
    EXPECT_EQ(get(2), KVC_PAGE_OK);
  }
}

TEST_F(PluginStoreTest, APutThatFailsHasNoGeneration) {
  std::vector<char> page = page_of(digest_of(1), kBytes);
  for (const int mode : {FAULTY_FAILED, FAULTY_NONE}) {
    set(mode);
    kvc_tier_item item = {};
    set_key(&item, digest_of(1)), item.data = page.data(), item.bytes = kBytes;
    TierJob job = {};
    job.kind = TierJobKind::kPut, job.items = &item, job.num_items = 1;
    uint64_t id = 0;
    ASSERT_EQ(tier_->submit(job, &id), KVC_OK);
    tier_->drain();
    EXPECT_EQ(item.generation, item.result == KVC_PAGE_OK);
  }
}

TEST_F(PluginStoreTest, AValueOfAnotherLengthIsAMiss) {
  ASSERT_EQ(put(1), KVC_PAGE_OK);
  std::vector<char> page(kBytes);
  EXPECT_EQ(one(TierJobKind::kGet, 1, page.data(), nullptr, 0, kBytes - 1), KVC_PAGE_MISS);
  EXPECT_EQ(get(1), KVC_PAGE_OK);
  const uint64_t calls = faulty_.counts().calls;
  std::vector<char> larger(kBytes + 1);
  EXPECT_EQ(one(TierJobKind::kPut, 4, larger.data(), nullptr, 0, kBytes + 1), KVC_PAGE_NO_SPACE);
  EXPECT_EQ(one(TierJobKind::kGet, 4, larger.data(), nullptr, 0, kBytes + 1), KVC_PAGE_MISS);
  EXPECT_EQ(one(TierJobKind::kExists, 4, nullptr, nullptr, 0, kBytes + 1), KVC_PAGE_MISS);
  EXPECT_EQ(faulty_.counts().calls, calls) << "it is not asked";
}

TEST_F(PluginStoreTest, ResultsThatAreNoneAreFailures) {
  ASSERT_EQ(put(1), KVC_PAGE_OK);
  for (const int mode : {FAULTY_UNKNOWN, FAULTY_SILENT, FAULTY_FAILED}) {
    set(mode);
    EXPECT_EQ(get(1), KVC_PAGE_FAILED);
    EXPECT_EQ(put(2), KVC_PAGE_FAILED);
    EXPECT_EQ(exists(1), KVC_PAGE_FAILED);
    EXPECT_EQ(remove(1), KVC_PAGE_FAILED);
  }
  EXPECT_EQ(tier_->stats().store.failures, 12u);
  EXPECT_EQ(tier_->stats().store.last_errno, 111);
  set(FAULTY_NONE);
  EXPECT_EQ(get(1), KVC_PAGE_OK) << "nothing leaves a store alone that is not REMOTE";
}

TEST_F(PluginStoreTest, BatchesOfKeysComeInPieces) {
  constexpr size_t kMany = 300;
  std::vector<kvc_tier_item> items(kMany);
  for (size_t i = 0; i < kMany; ++i) set_key(&items[i], digest_of(i));
  for (const size_t there : {0u, 63u, 64u, 299u}) ASSERT_EQ(put(there), KVC_PAGE_OK);
  TierJob job = {};
  job.kind = TierJobKind::kExists, job.items = items.data(), job.num_items = kMany;
  uint64_t id = 0;
  ASSERT_EQ(tier_->submit(job, &id), KVC_OK);
  tier_->drain();
  TierCompletion done;
  ASSERT_EQ(tier_->poll(&done, 1), 1u);
  EXPECT_EQ(done.num_ok, 4u);
  EXPECT_EQ(items[64].result, KVC_PAGE_OK);
  EXPECT_EQ(items[65].result, KVC_PAGE_MISS);
}

TEST(PluginStoreOpen, SaysWhatFailed) {
  std::unique_ptr<Tier> tier;
  const auto open = [&](const char* url) {
    return open_tier(default_env(), system_files(), url, {test::kFingerprint, 64}, {}, &tier);
  };
  EXPECT_EQ(open("faulty:?open=fail"), KVC_ERROR_DEVICE);
  EXPECT_STREQ(kvc_last_error(), "the test wanted it to fail");
  EXPECT_EQ(open("faulty:?open=quiet"), KVC_ERROR_LIMIT);
  EXPECT_TRUE(says("plug-in \"faulty\" cannot open it")) << kvc_last_error();
  EXPECT_EQ(open("faulty:?open=odd"), KVC_ERROR_DEVICE);
  EXPECT_EQ(open("faulty:?open=nothing"), KVC_ERROR_INTERNAL);
  for (const char* bad : {"faulty:?threads=257", "faulty:?threads=x", "faulty:?jobs=0", "faulty:?probe=0",
                          "faulty:?probe=3600001", "faulty:?jobs="})
    EXPECT_EQ(open(bad), KVC_ERROR_INVALID_ARGUMENT) << bad;
  EXPECT_EQ(tier, nullptr);
}

TEST(PluginStoreOpen, TheExampleOfTheDocumentationWorks) {
  std::unique_ptr<Tier> tier;
  ASSERT_EQ(
      open_tier(default_env(), system_files(), "example:?threads=2", {test::kFingerprint, 4096}, {}, &tier),
      KVC_OK)
      << kvc_last_error();
  std::vector<std::vector<char>> data;
  std::vector<kvc_tier_item> items(50);
  for (size_t i = 0; i < items.size(); ++i) {
    data.push_back(page_of(digest_of(i), 4096 - i));
    set_key(&items[i], digest_of(i));
    items[i].data = data[i].data(), items[i].bytes = data[i].size();
  }
  TierJob job = {};
  job.items = items.data(), job.num_items = items.size();
  TierCompletion done;
  for (const TierJobKind kind : {TierJobKind::kPut, TierJobKind::kExists, TierJobKind::kGet,
                                 TierJobKind::kPut, TierJobKind::kRemove}) {
    job.kind = kind;
    if (kind == TierJobKind::kGet)
      for (auto& page : data) page.assign(page.size(), 0);
    uint64_t id = 0;
    ASSERT_EQ(tier->submit(job, &id), KVC_OK);
    tier->drain();
    ASSERT_EQ(tier->poll(&done, 1), 1u);
    EXPECT_EQ(done.num_ok, items.size());
    for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(data[i], page_of(digest_of(i), 4096 - i));
  }
  EXPECT_EQ(tier->stats().store.pages, 0u);
  EXPECT_EQ(open_tier(default_env(), system_files(), "example:?size=3", {test::kFingerprint, 64}, {}, &tier),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("has no parameters of its own")) << kvc_last_error();
}

}  // namespace
}  // namespace kvc
