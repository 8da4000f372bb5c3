// SPDX-License-Identifier: Apache-2.0
// Token arrays and extra keys of up to 1 MiB cost no more than in proportion to their size, whatever is in
// them. And positions that share a hash bucket, by an attacker who knows the seed, cost a look-up little, and
// copies of a position cost its holders little.
#include "hardening/cost.h"

#include <kvcache/prefix.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "api/create.h"
#include "base/hash.h"
#include "calls.h"
#include "property/random.h"

namespace kvc::test {
namespace {

constexpr size_t kMaxTokens = 1 << 19;

struct Owned {
  explicit Owned(kvc_manager* manager) : m(manager) {}
  ~Owned() { kvc_manager_destroy(m); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  kvc_manager* m;
};

std::shared_ptr<Owned> manager_of(uint64_t blocks, uint32_t block_size, uint64_t seed = 1,
                                  uint64_t mask = ~uint64_t{0}) {
  kvc_manager_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = blocks, config.block_size = block_size, config.max_request_tokens = kMaxTokens;
  config.seed = seed, config.max_requests = 1024;
  Env env = default_env();
  env.table_hash_mask = mask;
  kvc_manager* m = nullptr;
  EXPECT_EQ(create_manager(&config, env, &m), KVC_OK);
  return std::make_shared<Owned>(m);
}

// Everything that is done with a prompt: admitted, committed, probed, freed, admitted again from the cache.
void use_prompt(kvc_manager* m, const std::vector<int32_t>& tokens, const std::vector<kvc_extra_key>& keys) {
  for (int time = 0; time < 2; ++time) {
    uint64_t id = 0;
    ASSERT_EQ(
        kvc_manager_allocate_request(m, PROMPT(0, tokens.data(), tokens.size(), keys.data(), keys.size()),
                                     nullptr, &id, nullptr),
        KVC_OK)
        << kvc_last_error();
    ASSERT_EQ(kvc_manager_commit_tokens(m, id, tokens.size()), KVC_OK);
    kvc_probe_info info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(kvc_manager_probe(m, PROMPT(0, tokens.data(), tokens.size(), keys.data(), keys.size()), &info),
              KVC_OK);
    ASSERT_EQ(kvc_manager_free_request(m, id), KVC_OK);
  }
  uint64_t dropped = 0;
  ASSERT_EQ(
      kvc_manager_drop_prefix(m, PROMPT(0, tokens.data(), tokens.size(), keys.data(), keys.size()), &dropped),
      KVC_OK);
}

struct Shape {
  const char* name;
  uint32_t block_size;
  int32_t (*token)(size_t i);
};
const Shape kShapes[] = {
    {"equal tokens", 16, [](size_t) { return 7; }},
    {"equal tokens, blocks of 1", 1, [](size_t) { return 7; }},
    {"growing tokens", 16, [](size_t i) { return static_cast<int32_t>(i); }},
    {"tokens like complements", 16,
     [](size_t i) { return i % 4 < 2 ? INT32_MAX - static_cast<int32_t>(i) : static_cast<int32_t>(i); }},
};

TEST(Cost, OfTokensIsInProportionToTheirNumber) {
  for (const Shape& shape : kShapes) {
    expect_in_proportion(shape.name, 32, [&](size_t size) {
      std::vector<int32_t> tokens(size / sizeof(int32_t));
      for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = shape.token(i);
      return [m = manager_of(tokens.size() + 16, shape.block_size), tokens] { use_prompt(m->m, tokens, {}); };
    });
  }
}

TEST(Cost, OfExtraKeysIsInProportionToTheirNumber) {
  const auto prompt_with = [](size_t num_keys, uint64_t tokens_per_key, uint64_t span) {
    std::vector<int32_t> tokens(num_keys * tokens_per_key);
    std::vector<kvc_extra_key> keys(num_keys);
    for (size_t i = 0; i < num_keys; ++i) keys[i] = {i * tokens_per_key, span, {static_cast<uint8_t>(i)}};
    return [m = manager_of(tokens.size() + 16, 16), tokens, keys] { use_prompt(m->m, tokens, keys); };
  };
  expect_in_proportion("a key for each token", 32,
                       [&](size_t size) { return prompt_with(size / sizeof(kvc_extra_key), 1, 1); });
  expect_in_proportion("keys over block ends", 32,
                       [&](size_t size) { return prompt_with(size / sizeof(kvc_extra_key), 20, 17); });
  expect_in_proportion("one key over everything", 32, [&](size_t size) {
    return prompt_with(1, size / sizeof(int32_t), size / sizeof(int32_t));
  });
}

// Over each token as many keys as there may be: some over everything, others behind each other or shifted,
// and the last ones first.
TEST(Cost, OfKeysThatShareTokensIsInProportionToTheirNumber) {
  for (const uint64_t wide : {1u, 8u, KVC_MAX_KEYS_OF_TOKEN - 1u}) {
    const uint64_t shifted = KVC_MAX_KEYS_OF_TOKEN - wide;  // one begins at each token, so many lie over it
    expect_in_proportion((std::to_string(wide) + " keys over everything").c_str(), 32, [&](size_t size) {
      const size_t num_tokens = size / sizeof(kvc_extra_key);
      std::vector<int32_t> tokens(num_tokens);
      std::vector<kvc_extra_key> keys;
      for (uint64_t i = num_tokens; i-- > 0;)
        keys.push_back({i, std::min<uint64_t>(shifted, num_tokens - i), {static_cast<uint8_t>(i)}});
      for (uint64_t i = 0; i < wide; ++i) keys.push_back({i, num_tokens - 2 * i, {1}});
      return [m = manager_of(tokens.size() + 16, 16), tokens, keys] { use_prompt(m->m, tokens, keys); };
    });
  }
}

// Median time of a look-up of one block, in a manager with `prompts` cached.
double median_lookup(kvc_manager* m, const std::vector<std::vector<int32_t>>& prompts) {
  std::vector<double> times;
  kvc_probe_info info = {};
  info.struct_size = sizeof info;
  constexpr int kTimes = 64;  // calls of one measurement
  for (const std::vector<int32_t>& prompt : prompts) {
    const double begin = thread_ns();
    for (int time = 0; time < kTimes; ++time) {
      EXPECT_EQ(kvc_manager_probe(m, PROMPT(0, prompt.data(), prompt.size(), nullptr, 0), &info), KVC_OK);
    }
    times.push_back((thread_ns() - begin) / kTimes);
    EXPECT_EQ(info.num_cached, prompt.size() - 1) << "each is cached, under its own tokens";
  }
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

void cache(kvc_manager* m, const std::vector<int32_t>& prompt) {
  uint64_t id = 0;
  ASSERT_EQ(kvc_manager_allocate_request(m, PROMPT(0, prompt.data(), prompt.size(), nullptr, 0), nullptr, &id,
                                         nullptr),
            KVC_OK);
  ASSERT_EQ(kvc_manager_commit_tokens(m, id, prompt.size()), KVC_OK);
  ASSERT_EQ(kvc_manager_free_request(m, id), KVC_OK);
}

// An attacker who knows the seed chooses prompts whose hashes end in the same bits, those of an unknown
// bucket function perhaps: 256 prompts would share a bucket of a table that takes the low bits.
TEST(Cost, OfForgedBucketsIsAtMostTwiceThatOfALookUp) {
  constexpr uint64_t kSeed = 42, kBlocks = 4096;
  constexpr size_t kBlock = 16, kForged = 256;
  TableHash hash;
  hash.init(kSeed);
  Random random(1);
  std::vector<std::vector<int32_t>> forged, others;
  const uint64_t low_bits = (uint64_t{1} << 14) - 1;
  for (int tries = 0; tries < (1 << 24) && forged.size() < kForged; ++tries) {
    std::vector<int32_t> prompt(kBlock + 1);
    for (int32_t& token : prompt) token = static_cast<int32_t>(random.below(1 << 30));
    uint64_t end = 0;
    hash.blocks(hash.root(0, 0), prompt.data(), kBlock, 1, &end);
    if ((end & low_bits) == 0)
      forged.push_back(prompt);
    else if (others.size() < kForged)
      others.push_back(prompt);
  }
  ASSERT_EQ(forged.size(), kForged);
  const std::shared_ptr<Owned> attacked = manager_of(kBlocks, kBlock, kSeed),
                               usual = manager_of(kBlocks, kBlock, kSeed);
  for (const auto& prompt : forged) cache(attacked->m, prompt);
  for (const auto& prompt : others) cache(usual->m, prompt);
  const double ratio = least_ratio(2, [&](bool is_attacked) {
    return is_attacked ? median_lookup(attacked->m, forged) : median_lookup(usual->m, others);
  });
  std::printf("%zu prompts in one bucket: a look-up takes %.2f times as long\n", kForged, ratio);
  EXPECT_LE(ratio, 2);
}

// Frees requests that have computed the same prompt, or one each, first or last to come first. Processor time
// of one.
double ns_to_free(size_t num_requests, bool equal, bool forwards) {
  constexpr size_t kTokens = 1024;
  const std::shared_ptr<Owned> m = manager_of(num_requests * (kTokens / 16 + 1), 16);
  std::vector<uint64_t> ids(num_requests);
  for (size_t i = 0; i < num_requests; ++i) {
    const std::vector<int32_t> prompt(kTokens, equal ? 7 : static_cast<int32_t>(i));
    EXPECT_EQ(kvc_manager_allocate_request(m->m, PROMPT(0, prompt.data(), kTokens, nullptr, 0), nullptr,
                                           &ids[i], nullptr),
              KVC_OK);
  }
  for (const uint64_t id : ids) EXPECT_EQ(kvc_manager_commit_tokens(m->m, id, kTokens), KVC_OK);
  if (!forwards) std::reverse(ids.begin(), ids.end());
  const double begin = thread_ns();
  for (const uint64_t id : ids) EXPECT_EQ(kvc_manager_free_request(m->m, id), KVC_OK);
  return (thread_ns() - begin) / static_cast<double>(num_requests);
}

// A batch that begins with many equal prompts computes them all, and each position has as many copies.
TEST(Cost, OfFreeingOneOfManyEqualPrompts) {
  constexpr size_t kRequests = 1024;
  for (const bool forwards : {true, false}) {
    const double ratio = least_ratio(20, [&](bool equal) { return ns_to_free(kRequests, equal, forwards); });
    std::printf("%zu equal prompts: freeing one takes %.2f times as long as one of different ones\n",
                kRequests, ratio);
    EXPECT_LE(ratio, 20);
  }
}

}  // namespace
}  // namespace kvc::test
