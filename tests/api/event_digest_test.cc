// SPDX-License-Identifier: Apache-2.0
//
// Digests of events, computed a second time with OpenSSL from what kvcache.h says they are: a router in
// another process must come to the same bytes from tokens and extra keys alone.
#include <gtest/gtest.h>
#include <kvcache/manager.h>

#include <array>
#include <cstring>
#include <vector>

#if defined(KVC_TEST_OPENSSL)
#include <openssl/evp.h>

#include "calls.h"
#include "event_calls.h"

namespace {

using Digest = std::array<uint8_t, 32>;

Digest sha256(const std::vector<uint8_t>& bytes) {
  Digest digest{};
  EXPECT_EQ(EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr), 1);
  return digest;
}

template <class T>
void append(std::vector<uint8_t>* bytes, const T& value) {  // the machine is little-endian
  const auto* data = reinterpret_cast<const uint8_t*>(&value);
  bytes->insert(bytes->end(), data, data + sizeof value);
}

Digest digest_of(const uint8_t* bytes) {
  Digest digest;
  std::memcpy(digest.data(), bytes, digest.size());
  return digest;
}

// Of the block of tokens [first, first + count).
Digest extra_digest(const std::vector<kvc_extra_key>& keys, uint64_t first, uint32_t count) {
  std::vector<uint8_t> bytes;
  for (const kvc_extra_key& key : keys) {  // in order of first token, length and digest
    if (key.first_token >= first + count || key.first_token + key.num_tokens <= first) continue;
    append(&bytes, static_cast<int64_t>(key.first_token) - static_cast<int64_t>(first));
    append(&bytes, key.num_tokens);
    append(&bytes, key.digest);
  }
  return bytes.empty() ? Digest{} : sha256(bytes);
}

class EventDigest : public testing::TestWithParam<uint32_t> {};

TEST_P(EventDigest, IsTheChainOverTokensAndKeys) {
  const uint32_t block_size = GetParam();
  kvc_manager_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = 64;
  config.block_size = block_size;
  config.event_capacity = 64;
  kvc_manager* m = nullptr;
  ASSERT_EQ(kvc_manager_create(&config, &m), KVC_OK) << kvc_last_error();

  std::vector<int32_t> tokens(10 * block_size + 1);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 2654435761u % 128000);
  std::vector<kvc_extra_key> keys(3);
  keys[0] = {1, 1, {1, 2, 3}};  // inside the first block, if it has two tokens
  keys[1] = {3 * uint64_t{block_size} - 1, block_size + 2, {4, 5}};  // over three blocks
  keys[2] = {
      keys[1].first_token + keys[1].num_tokens, 1, {6}};  // right behind, in a block with the one before
  keys.insert(keys.begin() + 2, keys[1]);
  keys[2].digest[0] = 5;  // over the same tokens
  keys.insert(keys.begin() + 3, keys[1]);
  keys[3].num_tokens = 5 * uint64_t{block_size}, keys[4].num_tokens = 5 * uint64_t{block_size} + 1;
  std::vector<kvc_extra_key> given(keys.rbegin(), keys.rend());
  given.push_back(keys[0]);  // once more
  uint64_t request = 0;
  ASSERT_EQ(
      kvc_manager_allocate_request(m, PROMPT(0, tokens.data(), tokens.size(), given.data(), given.size()),
                                   nullptr, &request, nullptr),
      KVC_OK)
      << kvc_last_error();
  ASSERT_EQ(kvc_manager_commit_tokens(m, request, tokens.size() / 2), KVC_OK);
  ASSERT_EQ(kvc_manager_commit_tokens(m, request, tokens.size()), KVC_OK);

  std::vector<kvc_event> events(64);
  std::vector<int32_t> read(64 * block_size);
  uint64_t cursor = 0;
  size_t count = 0;
  ASSERT_EQ(poll_events(m, &cursor, events.data(), sizeof(kvc_event), events.size(), &count, read.data(),
                        read.size()),
            KVC_OK);
  ASSERT_EQ(count, 10u);
  size_t with_keys = 0;
  Digest parent = digest_of(events[0].parent_digest);
  for (size_t i = 0; i < count; ++i) {
    const kvc_event& event = events[i];
    ASSERT_EQ(event.kind, static_cast<uint32_t>(KVC_EVENT_STORED));
    ASSERT_EQ(event.token_offset, i * block_size);
    EXPECT_EQ(digest_of(event.parent_digest), parent) << "block " << i;
    const Digest extra = extra_digest(keys, event.token_offset, event.num_tokens);
    EXPECT_EQ(digest_of(event.extra_digest), extra) << "block " << i;
    with_keys += extra != Digest{};
    std::vector<uint8_t> bytes;
    for (uint32_t t = 0; t < event.num_tokens; ++t) {
      EXPECT_EQ(read[i * block_size + t], tokens[i * block_size + t]);
      append(&bytes, tokens[i * block_size + t]);
    }
    append(&bytes, parent);
    if (extra != Digest{}) append(&bytes, extra);
    append(&bytes, event.num_tokens | uint32_t{extra != Digest{}} << 31);
    parent = sha256(bytes);
    EXPECT_EQ(digest_of(event.digest), parent) << "block " << i;
  }
  EXPECT_GE(with_keys, 3u);
  EXPECT_LT(with_keys, count);
  kvc_manager_destroy(m);
}

INSTANTIATE_TEST_SUITE_P(BlockSizes, EventDigest, testing::Values(2u, 3u, 4u, 16u, 64u, 1024u),
                         testing::PrintToStringParamName());

// Two processes with different seeds must agree.
TEST(EventDigestSeed, DoesNotMatter) {
  Digest digests[2];
  for (uint64_t seed = 0; seed < 2; ++seed) {
    kvc_manager_config config = {};
    config.struct_size = sizeof config;
    config.num_blocks = 4;
    config.event_capacity = 4;
    config.seed = seed + 1;
    kvc_manager* m = nullptr;
    ASSERT_EQ(kvc_manager_create(&config, &m), KVC_OK);
    const std::vector<int32_t> tokens(17, 5);
    uint64_t request = 0, cursor = 0;
    ASSERT_EQ(
        kvc_manager_allocate_request(m, PROMPT(0, tokens.data(), 17, nullptr, 0), nullptr, &request, nullptr),
        KVC_OK);
    ASSERT_EQ(kvc_manager_commit_tokens(m, request, 17), KVC_OK);
    kvc_event event;
    size_t count = 0;
    ASSERT_EQ(poll_events(m, &cursor, &event, sizeof event, 1, &count, nullptr, 0), KVC_OK);
    ASSERT_EQ(count, 1u);
    digests[seed] = digest_of(event.digest);
    kvc_manager_destroy(m);
  }
  EXPECT_EQ(digests[0], digests[1]);
}

}  // namespace

#else

TEST(EventDigest, NeedsOpenssl) { GTEST_SKIP() << "built without OpenSSL"; }

#endif
