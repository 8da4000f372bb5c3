// SPDX-License-Identifier: Apache-2.0
// Tiers on the plug-ins of tests/plugins/stores, one item at a time, with the bytes of each page checked; and
// the clock that tests set.
#pragma once
#include <dlfcn.h>

#include <memory>
#include <stdexcept>

#include "plugins/stores/faulty.h"
#include "stores.h"
#include "tier/open_tier.h"

namespace kvc::test {

inline std::atomic<uint64_t> told_ns{0};
inline uint64_t told_clock() { return told_ns; }

// The folder of the test plug-ins, first of KVC_PLUGIN_PATH.
inline std::string plugin_folder() {
  const char* path = getenv("KVC_PLUGIN_PATH");
  return path == nullptr ? "" : std::string(path, strcspn(path, ":"));
}

// The steering functions of an open plug-in.
struct Faulty {
  explicit Faulty(const std::string& name) {
    void* library = dlopen((plugin_folder() + "/libkvcache_" + name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      throw std::runtime_error("no plug-in " + name + " in the first folder of KVC_PLUGIN_PATH");
    set = reinterpret_cast<faulty_set_function*>(dlsym(library, "faulty_set"));
    read = reinterpret_cast<faulty_read_function*>(dlsym(library, "faulty_read"));
    set(FAULTY_NONE, 0, 0);
  }
  faulty_counts counts() const {
    faulty_counts out;
    read(&out);
    return out;
  }
  faulty_set_function* set = nullptr;
  faulty_read_function* read = nullptr;
};

class PluginTier : public testing::Test {
 protected:
  static constexpr size_t kBytes = 1000;

  kvc_status open(const std::string& url, bool real_clock = false) {
    tier_.reset();
    TierOptions options;
    if (!real_clock) options.clock_ns = told_clock;
    told_ns = 1;
    return open_tier(default_env(), system_files(), url.c_str(), {kFingerprint, kBytes}, options, &tier_);
  }
  // Does the job in this thread and returns the result of its only item.
  int32_t one(TierJobKind kind, uint64_t number, char* data, const kvc_run* runs = nullptr,
              size_t num_runs = 0, uint64_t bytes = kBytes, uint64_t timeout_ns = 0) {
    kvc_tier_item item = {};
    set_key(&item, digest_of(number));
    item.data = data, item.bytes = bytes, item.runs = runs, item.num_runs = num_runs;
    TierJob job = {};
    job.kind = kind, job.items = &item, job.num_items = 1, job.timeout_ns = timeout_ns;
    uint64_t id = 0;
    EXPECT_EQ(tier_->submit(job, &id), KVC_OK) << kvc_last_error();
    tier_->drain();
    TierCompletion done;
    while (tier_->poll(&done, 1) != 0) continue;
    return item.result;
  }
  int32_t put(uint64_t number) {
    std::vector<char> page = page_of(digest_of(number), kBytes);
    return one(TierJobKind::kPut, number, page.data());
  }
  int32_t get(uint64_t number, uint64_t timeout_ns = 0) {
    std::vector<char> page(kBytes);
    const int32_t result = one(TierJobKind::kGet, number, page.data(), nullptr, 0, kBytes, timeout_ns);
    EXPECT_TRUE(result != KVC_PAGE_OK || page == page_of(digest_of(number), kBytes)) << "wrong bytes";
    return result;
  }
  int32_t exists(uint64_t number) { return one(TierJobKind::kExists, number, nullptr); }
  int32_t remove(uint64_t number) { return one(TierJobKind::kRemove, number, nullptr); }

  std::unique_ptr<Tier> tier_;
};

}  // namespace kvc::test
