// SPDX-License-Identifier: Apache-2.0
// What a tier must outlive: a full disk, a folder that may only be read, leases that nobody ends, jobs that
// are cancelled at any time; and tenants that must not see each other through it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kvcache/manager.h>
#include <kvcache/page.h>

#include <random>
#include <set>

#include "calls.h"
#include "stores.h"
#include "tier/open_tier.h"

namespace kvc {
namespace {

using test::digest_of;
using test::Pages;

// ---- disks

// Writes fail as on a full disk, or on one that may only be read; reads do not.
struct NoWrites final : Files {
  int error = 0;
  int open(int folder, const char* path, int flags, unsigned mode) override {
    const bool makes = (flags & O_CREAT) != 0 || (error == -EROFS && (flags & O_ACCMODE) != O_RDONLY);
    return error != 0 && makes ? error : Files::open(folder, path, flags, mode);
  }
  int64_t write(int file, const void* data, size_t size, uint64_t offset) override {
    return error != 0 ? error : Files::write(file, data, size, offset);
  }
  int allocate(int file, uint64_t offset, uint64_t size) override {
    return error != 0 ? error : Files::allocate(file, offset, size);
  }
  int truncate(int file, uint64_t size) override {
    return error == -EROFS ? error : Files::truncate(file, size);
  }
  int touch(int file) override { return error == -EROFS ? error : Files::touch(file); }
  int rename(int folder, const char* from, const char* to) override {
    return error != 0 ? error : Files::rename(folder, from, to);
  }
  int remove(int folder, const char* path) override {
    return error == -EROFS ? error : Files::remove(folder, path);
  }
};

class Disk : public testing::TestWithParam<const char*> {
 protected:
  static constexpr size_t kBytes = 5000;
  kvc_status open() {
    store_.reset();
    const std::string path = folder_ / "tier";
    if (*GetParam() == 's')
      return open_slab_store(default_env(), files_, test::slab_config(path, 8, kBytes), &store_);
    return open_directory_store(default_env(), files_, test::directory_config(path, 8, kBytes), &store_);
  }
  test::Folder folder_;
  NoWrites files_;
  PageStorePtr store_;
};

TEST_P(Disk, ThatIsFullFailsPutsAloneUntilThereIsRoom) {
  ASSERT_EQ(open(), KVC_OK) << kvc_last_error();
  Pages pages(*store_);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(pages.put(digest_of(i), kBytes), KVC_PAGE_OK);
  files_.error = -ENOSPC;
  const int32_t refused = *GetParam() == 's' ? KVC_PAGE_FAILED : KVC_PAGE_NO_SPACE;  // a slab has its room
  for (uint64_t i = 4; i < 8; ++i) EXPECT_EQ(pages.put(digest_of(i), kBytes), refused);
  const uint64_t kept = *GetParam() == 's' ? 4 : 3;  // one of a folder gave way, which did not help
  const auto num_found = [](Pages& in) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < 4; ++i) found += in.get(digest_of(i), kBytes) == KVC_PAGE_OK;
    return found;
  };
  EXPECT_EQ(num_found(pages), kept);
  for (uint64_t i = 4; i < 8; ++i) EXPECT_EQ(pages.get(digest_of(i), kBytes), KVC_PAGE_MISS);
  EXPECT_EQ(store_->stats().last_errno, ENOSPC);
  EXPECT_GE(store_->stats().failures, 4u);
  files_.error = 0;
  for (uint64_t i = 4; i < 8; ++i) EXPECT_EQ(pages.put(digest_of(i), kBytes), KVC_PAGE_OK);
  ASSERT_EQ(open(), KVC_OK) << kvc_last_error();
  Pages again(*store_);
  EXPECT_EQ(num_found(again), kept);
  for (uint64_t i = 4; i < 8; ++i) EXPECT_EQ(again.get(digest_of(i), kBytes), KVC_PAGE_OK);
}

TEST_P(Disk, ThatIsFullRefusesANewTier) {
  files_.error = -ENOSPC;
  EXPECT_EQ(open(), KVC_ERROR_LIMIT) << kvc_last_error();
  EXPECT_NE(strstr(kvc_last_error(), (folder_ / "tier").c_str()), nullptr) << kvc_last_error();
  EXPECT_EQ(store_, nullptr);
  files_.error = 0;
  ASSERT_EQ(open(), KVC_OK) << kvc_last_error();
  Pages pages(*store_);
  EXPECT_EQ(pages.put(digest_of(1), kBytes), KVC_PAGE_OK);
}

TEST_P(Disk, ThatMayOnlyBeReadStillGivesWhatItHas) {
  ASSERT_EQ(open(), KVC_OK);
  Pages pages(*store_);
  ASSERT_EQ(pages.put(digest_of(1), kBytes), KVC_PAGE_OK);
  files_.error = -EROFS;
  EXPECT_EQ(pages.get(digest_of(1), kBytes), KVC_PAGE_OK);
  EXPECT_EQ(pages.put(digest_of(2), kBytes), KVC_PAGE_FAILED);
  EXPECT_EQ(pages.remove(digest_of(1)), KVC_PAGE_FAILED);
  EXPECT_EQ(store_->stats().last_errno, EROFS);
  EXPECT_EQ(open(), KVC_ERROR_DEVICE) << "a tier that cannot store is refused";
  EXPECT_NE(strstr(kvc_last_error(), "errno 30"), nullptr) << kvc_last_error();
}

INSTANTIATE_TEST_SUITE_P(Of, Disk, testing::Values("slab", "dir"),
                         [](const auto& at) { return std::string(at.param); });

// ---- tenants

// Position digests of one prompt in namespaces of random models, adapters and salts.
class Tenants {
 public:
  Tenants() {
    kvc_manager_config config = {};
    config.struct_size = sizeof config, config.num_blocks = 16, config.block_size = 4;
    EXPECT_EQ(kvc_manager_create(&config, &m_), KVC_OK) << kvc_last_error();
    for (size_t i = 0; i < tokens_.size(); ++i) tokens_[i] = static_cast<int32_t>(i);
  }
  ~Tenants() { kvc_manager_destroy(m_); }
  std::vector<Digest256> keys_of(const std::string& model, const std::string& adapter,
                                 const std::string& salt) {
    kvc_namespace_config config = {};
    config.struct_size = sizeof config;
    const auto set = [](const void** text, size_t* size, const std::string& from) {
      *text = from.empty() ? nullptr : from.data(), *size = from.size();
    };
    set(&config.model, &config.model_size, model);
    set(&config.adapter, &config.adapter_size, adapter);
    set(&config.tenant, &config.tenant_size, salt);
    uint64_t ns = 0;
    EXPECT_EQ(kvc_manager_open_namespace(m_, &config, &ns), KVC_OK);
    std::vector<Digest256> out(tokens_.size() / 4);
    size_t count = 0;
    EXPECT_EQ(kvc_manager_position_digests(m_, PROMPT(ns, tokens_.data(), tokens_.size(), nullptr, 0),
                                           out[0].bytes, out.size(), &count),
              KVC_OK);
    EXPECT_EQ(count, out.size());
    for (Digest256& key : out) {
      const Digest256 position = key;
      EXPECT_EQ(kvc_page_key(position.bytes, 0, test::kFingerprint.bytes, key.bytes), KVC_OK);
    }
    EXPECT_TRUE(ns == 0 || kvc_manager_close_namespace(m_, ns) == KVC_OK);
    return out;
  }

 private:
  kvc_manager* m_ = nullptr;
  std::vector<int32_t> tokens_ = std::vector<int32_t>(24);
};

TEST(TenantsOfATier, NeverSeeEachOther) {
  std::mt19937_64 random(test::test_seed());
  const auto text = [&] {  // short, so that parts could run into each other
    std::string out(random() % 4, 'a');
    for (char& letter : out) letter = static_cast<char>("ab\0"[random() % 3]);
    return out;
  };
  Tenants tenants;
  std::set<std::tuple<std::string, std::string, std::string>> names;
  while (names.size() < 40) names.insert({text(), text(), text()});
  std::vector<std::vector<Digest256>> keys;
  std::set<std::string> different;
  for (const auto& [model, adapter, salt] : names) {
    keys.push_back(tenants.keys_of(model, adapter, salt));
    for (const Digest256& key : keys.back())
      different.insert(std::string(reinterpret_cast<const char*>(key.bytes), sizeof key.bytes));
  }
  EXPECT_EQ(different.size(), names.size() * keys[0].size());
  const test::Folder folder;
  for (const std::string& url : {std::string("memory:?bytes=1MiB"), "slab:" + (folder / "s") + "?bytes=4MiB",
                                 "dir:" + (folder / "d") + "?bytes=4MiB", std::string("faulty://host")}) {
    std::unique_ptr<Tier> tier;
    ASSERT_EQ(open_tier(default_env(), system_files(), url.c_str(), {test::kFingerprint, 64}, {}, &tier),
              KVC_OK)
        << kvc_last_error();
    const auto ok_of = [&](TierJobKind kind, const std::vector<Digest256>& some) {
      std::vector<kvc_tier_item> items(some.size());
      std::vector<std::vector<char>> data;
      for (size_t i = 0; i < some.size(); ++i) {
        data.push_back(test::page_of(some[i], 64));
        set_key(&items[i], some[i]);
        items[i].data = data[i].data(), items[i].bytes = 64;
      }
      TierJob job = {};
      job.kind = kind, job.items = items.data(), job.num_items = items.size();
      uint64_t id = 0;
      EXPECT_EQ(tier->submit(job, &id), KVC_OK);
      tier->drain();
      TierCompletion done = {};
      EXPECT_EQ(tier->poll(&done, 1), 1u);
      return done.num_ok;
    };
    for (size_t i = 0; i < keys.size(); i += 2) EXPECT_EQ(ok_of(TierJobKind::kPut, keys[i]), keys[i].size());
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(ok_of(TierJobKind::kExists, keys[i]), i % 2 == 0 ? keys[i].size() : 0u) << url;
      EXPECT_EQ(ok_of(TierJobKind::kGet, keys[i]), i % 2 == 0 ? keys[i].size() : 0u) << url;
    }
  }
}

// ---- leases

uint64_t now_ = 0;
uint64_t clock_() { return now_; }

TEST(Leases, OfWhoeverWentAwayEndByTheClockAndNothingIsLost) {
  for (const char* kind : {"memory", "slab"}) {
    const test::Folder folder;
    const std::string url = std::string(kind) + ":" + (*kind == 's' ? folder / "s" : std::string()) +
                            "?bytes=64KiB&threads=0&jobs=16";
    TierOptions options;
    options.clock_ns = clock_;
    std::unique_ptr<Tier> tier;
    ASSERT_EQ(
        open_tier(default_env(), system_files(), url.c_str(), {test::kFingerprint, 4096}, options, &tier),
        KVC_OK)
        << kvc_last_error();
    std::mt19937_64 random(test::test_seed());
    constexpr size_t kItems = 4, kJobs = 16, kKeys = 24;
    struct Slot {
      kvc_tier_item items[kItems];
      std::vector<char> data[kItems];
      uint64_t id = 0;
      bool open = false;
    };
    std::vector<Slot> slots(kJobs);
    uint64_t latest_lease = 0, submitted = 0, ended = 0;
    const auto take = [&] {
      TierCompletion done[8];
      for (size_t n = tier->poll(done, 8); n != 0; n = tier->poll(done, 8)) {
        for (size_t i = 0; i < n; ++i) {
          Slot& slot = slots[done[i].tag];
          EXPECT_TRUE(slot.open);
          slot.open = false, ++ended;
          for (const kvc_tier_item& item : slot.items) {
            EXPECT_NE(item.result, KVC_PAGE_WAITING);
            latest_lease = std::max(latest_lease, item.lease_until_ns);
          }
        }
      }
    };
    for (int step = 0; step < 4000; ++step) {
      Slot& slot = slots[random() % kJobs];
      const uint64_t action = random() % 8;
      if (action < 4 && !slot.open) {
        TierJob job = {};
        job.kind = static_cast<TierJobKind>(random() % 4);
        for (size_t i = 0; i < kItems; ++i) {
          slot.items[i] = {};
          const Digest256 key = digest_of(random() % kKeys);
          slot.data[i] = test::page_of(key, 4096);
          set_key(&slot.items[i], key);
          slot.items[i].data = slot.data[i].data(), slot.items[i].bytes = 4096;
        }
        job.items = slot.items, job.num_items = kItems, job.tag = static_cast<uint64_t>(&slot - slots.data());
        job.now_ns = now_, job.lease_ns = random() % 3 == 0 ? random() % 500 : 0;
        job.timeout_ns = random() % 3 == 0 ? 1 + random() % 50 : 0;
        if (tier->submit(job, &slot.id) == KVC_OK) slot.open = true, ++submitted;
      } else if (action == 4) {
        tier->cancel(slot.id);
      } else if (action == 5) {
        take();
      } else if (action == 6) {
        now_ += random() % 20;
      } else {
        tier->run_one();
      }
    }
    tier->drain();
    take();
    EXPECT_EQ(ended, submitted);
    TierStats stats = tier->stats();
    EXPECT_EQ(stats.waiting_jobs + stats.running_jobs + stats.done_jobs + stats.waiting_store_bytes, 0u);
    EXPECT_GT(stats.store.pages, 0u);
    now_ = std::max(now_, latest_lease);
    std::vector<kvc_tier_item> all(kKeys);
    for (size_t i = 0; i < kKeys; ++i) set_key(&all[i], digest_of(i));
    TierJob job = {};
    job.kind = TierJobKind::kRemove, job.items = all.data(), job.num_items = kKeys, job.now_ns = now_;
    uint64_t id = 0;
    ASSERT_EQ(tier->submit(job, &id), KVC_OK);
    tier->drain();
    for (const kvc_tier_item& item : all)
      EXPECT_TRUE(item.result == KVC_PAGE_OK || item.result == KVC_PAGE_MISS) << "held: " << item.result;
    EXPECT_EQ(tier->stats().store.pages, 0u) << "no page is held by anybody";
  }
}

}  // namespace
}  // namespace kvc
