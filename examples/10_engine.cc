// SPDX-License-Identifier: Apache-2.0
// A serving engine: 32 requests arrive one after the other, share a prompt's beginning in groups, and are
// served together. The scheduler (kvcache/scheduler.h) plans each step, the manager says where keys and
// values go, the storage keeps them and computes attention, a tier of host memory takes what is preempted,
// prompt lookup drafts tokens, and tenants get shares by their weights. Runs with each feature off and on,
// and shows that every request gets the same tokens as when it is served alone.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <kvcache.hpp>
#include <memory>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "llama.h"

namespace {

constexpr uint32_t kBlockSize = 16, kRequests = 32, kNewTokens = 48, kDrafts = 4, kTenants = 4;
constexpr size_t kRequestBlocks = 12;  // of 192 tokens

struct Features {
  const char* name;
  bool batching, cache, chunks, tight, swap, drafts, tenants;
};

struct Request {
  std::vector<int32_t> tokens;  // prompt and answer
  size_t prompt = 0;
  double arrived = 0, first = 0, ended = 0;  // seconds
  uint64_t waited = 0;                       // plans until its first token
};

struct Result {
  std::vector<Request> requests;
  double seconds = 0;
  uint64_t plans = 0;
  kvc_scheduler_stats stats = kvc::make<kvc_scheduler_stats>();
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<int32_t> prompt_of(uint32_t number, size_t vocab) {
  std::vector<int32_t> prompt;  // the beginning is that of its group of eight
  for (uint32_t i = 0; i < 96; ++i)
    prompt.push_back(static_cast<int32_t>((i * i * 31 + number / 8 * 17 + 3) % vocab));
  for (uint32_t i = 0; i < 8 + number % 5 * 6; ++i)
    prompt.push_back(static_cast<int32_t>((number * 101 + i * 53 + 11) % vocab));
  return prompt;
}

class Engine {
 public:
  Engine(const llama::Model& model, const Features& features)
      : features_(features),
        blocks_(features.tight ? 72 : 32 * kRequestBlocks),
        manager_(manager_of(features, blocks_)),
        storage_(llama::Llama::storage_of(model, blocks_, kBlockSize)),
        llama_(model, storage_),
        vocab_(model.vocab) {
    if (features.swap) open_tier();
    auto config = kvc::make<kvc_scheduler_config>();
    config.manager = manager_.get();
    config.offload = offload_;
    config.max_running = features.tenants ? kRequests / 4 : features.batching ? kRequests : 1;
    config.max_tokens = features.chunks ? 96 : 4096;
    config.max_drafts = features.drafts ? kDrafts : 0;
    config.max_request_tokens = kRequestBlocks * kBlockSize;
    config.max_tenants = kTenants;
    if (features.tenants) config.policy = KVC_SCHEDULE_FAIR;
    kvc::check(kvc_scheduler_create(&config, &scheduler_));
    kvc::check(kvc_scheduler_set_weight(scheduler_, 0, 8));  // the others have 1
  }
  ~Engine() {
    kvc_scheduler_destroy(scheduler_);
    kvc_offload_destroy(offload_);
    kvc_tier_destroy(tier_);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Result serve() {
    Result result;
    result.requests.resize(kRequests);
    const double start = now();
    uint32_t arrived = 0, ended = 0;
    while (ended < kRequests) {
      for (int i = 0; i < 2 && arrived < kRequests; ++i) add(result.requests[arrived], arrived), ++arrived;
      if (offload_ != nullptr) kvc::check(kvc_offload_poll(offload_, nanoseconds(), nullptr));
      if (features_.drafts) propose(result);
      auto plan = kvc::make<kvc_plan>();
      kvc::check(kvc_scheduler_plan(scheduler_, nanoseconds(), &plan));
      for (size_t i = 0; i < plan.num_ended; ++i) throw std::runtime_error("a request does not fit");
      if (plan.num_items == 0) continue;  // a load is under way
      ended += compute(plan, result);
      result.plans = ++plans_;
    }
    result.seconds = now() - start;
    kvc::check(kvc_scheduler_read_stats(scheduler_, &result.stats));
    return result;
  }

 private:
  static kvc_manager_config manager_of(const Features& features, uint32_t blocks) {
    auto config = kvc::make<kvc_manager_config>();
    config.num_blocks = blocks;
    config.block_size = kBlockSize;
    config.flags = features.cache ? 0 : KVC_MANAGER_NO_PREFIX_CACHE;
    config.event_capacity = features.swap ? 4096 : 0;
    return config;
  }

  void open_tier() {
    auto names = kvc::make<kvc_page_config>();
    names.model = "example", names.model_size = 7;
    names.weights = "1", names.weights_size = 1;
    auto info = kvc::make<kvc_page_info>();
    kvc::check(kvc_storage_page_properties(storage_.get(), &names, &info));
    auto tier = kvc::make<kvc_tier_config>();
    tier.url = "memory:?bytes=64MiB";
    tier.page_bytes = info.page_bytes;
    std::memcpy(tier.fingerprint, info.fingerprint, sizeof tier.fingerprint);
    kvc::check(kvc_tier_create(&tier, &tier_));
    kvc_storage* storages[] = {storage_.get()};
    auto config = kvc::make<kvc_offload_config>();
    config.manager = manager_.get();
    config.storages = storages;
    config.tiers = &tier_, config.num_tiers = 1;
    config.pages = &names;
    config.policy = KVC_OFFLOAD_WRITE_THROUGH;
    kvc::check(kvc_offload_create(&config, &offload_));
  }

  static uint64_t nanoseconds() { return static_cast<uint64_t>(now() * 1e9); }

  void add(Request& request, uint32_t number) {
    request.tokens = prompt_of(number, vocab_);
    request.prompt = request.tokens.size();
    request.arrived = now(), request.waited = plans_;
    auto prompt = kvc::make<kvc_prompt>();
    prompt.tokens = request.tokens.data(), prompt.num_tokens = request.tokens.size();
    auto job = kvc::make<kvc_schedule_job>();
    job.prompt = &prompt;
    job.max_new_tokens = kNewTokens;
    job.tenant = number % kTenants;
    uint64_t id = 0;
    kvc::check(kvc_scheduler_add(scheduler_, &job, &id));
    numbers_[id] = number;
  }

  // Drafts for every request that decodes: what followed its last tokens before.
  void propose(Result& result) {
    drafts_.clear();
    for (const auto& [id, number] : numbers_) {
      const std::vector<int32_t>& tokens = result.requests[number].tokens;
      std::vector<int32_t> draft(kDrafts);
      size_t count = 0;
      kvc::check(kvc_draft_lookup(tokens.data(), tokens.size(), 2, 4, draft.data(), kDrafts, &count));
      if (count == 0) continue;
      const auto length = static_cast<uint32_t>(count);
      kvc::check(kvc_scheduler_set_drafts(scheduler_, &id, &length, 1));
      drafts_[id] = draft;
    }
  }

  // Runs the model on a plan, and tells the scheduler the tokens. How many requests ended.
  uint32_t compute(const kvc_plan& plan, Result& result) {
    if (plan.num_copies != 0) storage_.copy({plan.copies, plan.num_copies});
    llama::Batch batch;
    batch.stride = plan.row_stride;
    for (size_t i = 0; i < plan.num_items; ++i) {
      const std::vector<int32_t>& tokens = result.requests[numbers_.at(plan.requests[i])].tokens;
      const uint64_t count = plan.token_offsets[i + 1] - plan.token_offsets[i],
                     known = count - plan.num_drafts[i];
      for (uint64_t t = 0; t < count; ++t) {
        const uint64_t position = plan.first_tokens[i] + t;
        batch.tokens.push_back(t < known ? tokens[position] : drafts_.at(plan.requests[i])[t - known]);
        batch.positions.push_back(static_cast<int64_t>(position));
        batch.slots.push_back(plan.slots[plan.token_offsets[i] + t]);
        if (plan.samples[i] != 0 && t + 1 >= known) batch.asked.push_back(batch.tokens.size() - 1);
      }
      batch.end_request();
      const int32_t* row = plan.block_tables + static_cast<size_t>(plan.rows[i]) * plan.row_stride;
      batch.tables.insert(batch.tables.end(), row, row + plan.row_stride);
    }
    const std::vector<int32_t> likely = llama_.greedy(llama_.forward(batch));

    // Of the drafts those are accepted that the model would have said; then comes its own token.
    std::vector<uint64_t> offsets{0};
    std::vector<int32_t> sampled;
    const double time = now();
    for (size_t i = 0, row = 0; i < plan.num_items; ++i) {
      if (plan.samples[i] != 0) {
        Request& request = result.requests[numbers_.at(plan.requests[i])];
        uint32_t accepted = 0;
        while (accepted < plan.num_drafts[i] &&
               likely[row + accepted] == drafts_.at(plan.requests[i])[accepted])
          ++accepted;
        for (uint32_t k = 0; k <= accepted; ++k) {
          sampled.push_back(likely[row + k]);
          request.tokens.push_back(likely[row + k]);
        }
        row += plan.num_drafts[i] + 1;
        if (request.first == 0) request.first = time, request.waited = plans_ + 1 - request.waited;
        request.ended = time;
      }
      offsets.push_back(sampled.size());
    }
    std::vector<kvc_ended_request> ended(plan.num_items);
    auto done = kvc::make<kvc_plan_result>();
    done.plan_id = plan.plan_id, done.num_items = plan.num_items;
    done.token_offsets = offsets.data(), done.tokens = sampled.data();
    done.ended = ended.data();
    kvc::check(kvc_scheduler_finish(scheduler_, &done));
    for (size_t i = 0; i < done.num_ended; ++i) numbers_.erase(ended[i].request);
    return static_cast<uint32_t>(done.num_ended);
  }

  const Features features_;
  const uint32_t blocks_;
  kvc::Manager manager_;
  kvc::Storage storage_;
  llama::Llama llama_;
  const size_t vocab_;
  kvc_tier* tier_ = nullptr;
  kvc_offload* offload_ = nullptr;
  kvc_scheduler* scheduler_ = nullptr;
  uint64_t plans_ = 0;
  std::unordered_map<uint64_t, uint32_t> numbers_;  // of live requests
  std::unordered_map<uint64_t, std::vector<int32_t>> drafts_;
};

}  // namespace

int main() try {
  const llama::Model model = llama::random_model(1, 2, 0.5f);
  const Features all[] = {
      {"one at a time", false, false, false, false, false, false, false},
      {"continuous batching", true, false, false, false, false, false, false},
      {"+ shared prefixes", true, true, false, false, false, false, false},
      {"+ chunked prefill", true, true, true, false, false, false, false},
      {"+ prompt lookup", true, true, true, false, false, true, false},
      {"8 at once, by tenants", true, true, true, false, false, true, true},
      {"a tight pool", true, true, true, true, false, false, false},
      {"+ swap to host memory", true, true, true, true, true, false, false},
      {"+ prompt lookup", true, true, true, true, true, true, false},
  };
  std::vector<Request> alone;
  bool good = true;
  std::printf("%-22s %9s %9s %9s %6s %7s %8s %8s %14s  same tokens\n", "", "tokens/s", "TTFT ms", "TPOT ms",
              "steps", "cached", "preempts", "drafts", "tenants wait");
  for (const Features& features : all) {
    const Result result = Engine(model, features).serve();
    double ttft = 0, tpot = 0;
    uint64_t waited[kTenants] = {};
    bool same = true;
    for (size_t i = 0; i < kRequests; ++i) {
      const Request& request = result.requests[i];
      ttft += request.first - request.arrived;
      waited[i % kTenants] += request.waited;
      tpot += (request.ended - request.first) / (kNewTokens - 1);
      same &= alone.empty() || request.tokens == alone[i].tokens;
    }
    if (alone.empty()) alone = result.requests;
    good &= same;
    const auto mean = [&](uint32_t tenant) {
      return static_cast<double>(waited[tenant]) * kTenants / kRequests;
    };
    char waits[32];  // plans until the first token
    std::snprintf(waits, sizeof waits, "%.0f %.0f %.0f %.0f", mean(0), mean(1), mean(2), mean(3));
    std::printf("%-22s %9.0f %9.1f %9.2f %6llu %7llu %8llu %8llu %14s  %s\n", features.name,
                kRequests * kNewTokens / result.seconds, ttft * 1e3 / kRequests, tpot * 1e3 / kRequests,
                static_cast<unsigned long long>(result.plans),
                static_cast<unsigned long long>(result.stats.cached_tokens),
                static_cast<unsigned long long>(result.stats.preemptions),
                static_cast<unsigned long long>(result.stats.accepted_drafts), waits, same ? "yes" : "NO");
    good &= !features.tenants || (mean(0) < mean(1) && mean(0) < mean(2) && mean(0) < mean(3));
    good &= (result.stats.preemptions != 0) == features.tight;
    good &= (result.stats.accepted_drafts != 0) == features.drafts;
  }
  return good ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
