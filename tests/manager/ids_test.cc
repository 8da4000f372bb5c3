// SPDX-License-Identifier: Apache-2.0
// Numbers that run out: ids are never given twice, not even by another manager, and what a reset made stale
// stays so after 2^32 resets.
#include <kvcache/prefix.h>

#include <set>

#include "calls.h"
#include "manager/manager_peer.h"

namespace kvc {
namespace {

kvc_manager_config small(uint64_t max_requests = 2) {
  kvc_manager_config config = {};
  config.num_blocks = 8;
  config.block_size = 4;
  config.max_requests = max_requests;
  return config;
}

uint64_t compute(kvc_manager* m, uint64_t ns, const std::vector<int32_t>& tokens) {
  uint64_t id = 0, cached = 0;
  EXPECT_EQ(kvc_manager_allocate_request(m, PROMPT(ns, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                         &id, &cached),
            KVC_OK)
      << last_error();
  EXPECT_EQ(kvc_manager_commit_tokens(m, id, tokens.size()), KVC_OK);
  return id;
}

uint64_t hit(kvc_manager* m, uint64_t ns, const std::vector<int32_t>& tokens) {
  kvc_probe_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_manager_probe(m, PROMPT(ns, tokens.data(), tokens.size(), nullptr, 0), &info), KVC_OK);
  return info.num_cached;
}

uint64_t open_namespace(kvc_manager* m, const char* tenant) {
  kvc_namespace_config config = {};
  config.struct_size = sizeof config;
  config.tenant = tenant;
  config.tenant_size = 1;
  uint64_t id = 0;
  EXPECT_EQ(kvc_manager_open_namespace(m, &config, &id), KVC_OK) << last_error();
  return id;
}

// The next reset is the 2^32nd.
void age(ManagerPeer& peer, uint64_t ns) {
  peer.namespaces()[ns == 0 ? 0 : handle_index(ns)].resets = (uint64_t{1} << 32) - 1;
}

TEST(Epochs, NothingOldIsFoundAfterTwoToThe32Resets) {
  ManagerOf manager(small());
  ManagerPeer peer(manager.m);
  const auto tokens = tokens_from(1, 9);
  for (const uint64_t ns : {uint64_t{0}, open_namespace(manager.m, "a")}) {
    EXPECT_EQ(kvc_manager_free_request(manager.m, compute(manager.m, ns, tokens)), KVC_OK);
    EXPECT_EQ(hit(manager.m, ns, tokens), 8u);
    age(peer, ns);
    EXPECT_EQ(kvc_manager_reset_namespace(manager.m, ns), KVC_OK);
    EXPECT_EQ(hit(manager.m, ns, tokens), 0u);
    EXPECT_EQ(kvc_manager_check(manager.m), KVC_OK) << last_error();
    EXPECT_EQ(kvc_manager_free_request(manager.m, compute(manager.m, ns, tokens)), KVC_OK);
    EXPECT_EQ(hit(manager.m, ns, tokens), 8u);
    EXPECT_EQ(kvc_manager_check(manager.m), KVC_OK) << last_error();
  }
}

TEST(Epochs, ARequestOfAnOldEpochPublishesNothingAfterTwoToThe32Resets) {
  ManagerOf manager(small());
  ManagerPeer peer(manager.m);
  const auto tokens = tokens_from(1, 9);
  uint64_t id = 0, cached = 0;
  ASSERT_EQ(
      kvc_manager_allocate_request(manager.m, PROMPT(0, tokens.data(), 9, nullptr, 0), nullptr, &id, &cached),
      KVC_OK);
  age(peer, 0);
  EXPECT_EQ(kvc_manager_reset_all(manager.m), KVC_OK);
  EXPECT_EQ(kvc_manager_commit_tokens(manager.m, id, 9), KVC_OK);
  EXPECT_EQ(hit(manager.m, 0, tokens), 0u);
  EXPECT_EQ(kvc_manager_check(manager.m), KVC_OK) << last_error();
}

TEST(Epochs, EndWithAnErrorThatChangesNothing) {
  ManagerOf manager(small());
  ManagerPeer peer(manager.m);
  const auto tokens = tokens_from(1, 9);
  const uint64_t ns = open_namespace(manager.m, "a");
  peer.age_namespaces(NamespaceTable::kMaxResets - 1);
  EXPECT_EQ(kvc_manager_free_request(manager.m, compute(manager.m, ns, tokens)), KVC_OK);
  EXPECT_EQ(kvc_manager_reset_namespace(manager.m, ns), KVC_OK);
  EXPECT_EQ(hit(manager.m, ns, tokens), 0u);
  EXPECT_EQ(kvc_manager_free_request(manager.m, compute(manager.m, ns, tokens)), KVC_OK);
  for (const uint64_t which : {ns, uint64_t{0}})
    EXPECT_EQ(kvc_manager_reset_namespace(manager.m, which), KVC_ERROR_LIMIT);
  EXPECT_EQ(kvc_manager_reset_all(manager.m), KVC_ERROR_LIMIT);
  EXPECT_EQ(hit(manager.m, ns, tokens), 8u);
  EXPECT_EQ(kvc_manager_close_namespace(manager.m, ns), KVC_OK);
  EXPECT_EQ(kvc_manager_check(manager.m), KVC_OK) << last_error();
}

TEST(Ids, OfAllManagersOfAProcessDiffer) {
  std::set<uint64_t> seen;
  const auto tokens = tokens_from(1, 3);
  ManagerOf living(small());
  const uint64_t kept = compute(living.m, 0, tokens), ns = open_namespace(living.m, "a");
  uint64_t destroyed = 0, pin = 0, pinned = 0;
  for (int i = 0; i < 2 * 4095 + 10; ++i) {  // every tag comes back, and comes back again
    ManagerOf other(small());
    uint64_t id = 0;
    ASSERT_EQ(kvc_manager_create_request(other.m, PROMPT(0, tokens.data(), 3, nullptr, 0), nullptr, &id),
              KVC_OK);
    ASSERT_TRUE(seen.insert(id).second) << i;
    EXPECT_EQ(kvc_manager_free_request(other.m, kept), KVC_ERROR_NOT_FOUND) << i;
    EXPECT_EQ(kvc_manager_free_request(other.m, destroyed), KVC_ERROR_NOT_FOUND) << i;
    EXPECT_EQ(kvc_manager_reset_namespace(other.m, ns), KVC_ERROR_NOT_FOUND) << i;
    EXPECT_EQ(kvc_manager_pin_prefix(other.m, PROMPT(ns, tokens.data(), 3, nullptr, 0), &pin, &pinned),
              KVC_ERROR_NOT_FOUND);
    const uint64_t own = open_namespace(other.m, "a");
    ASSERT_TRUE(seen.insert(own).second) << i;
    destroyed = id;
  }
}

TEST(Ids, AManagerMoreThanThereAreTagsIsRefused) {
  std::vector<kvc_manager*> managers;
  kvc_manager_config config = small();
  config.struct_size = sizeof config;
  config.num_blocks = config.max_nodes = config.max_requests = 1;
  config.seed = 1;
  kvc_status status = KVC_OK;
  while (status == KVC_OK && managers.size() <= kMaxHandleTags) {
    kvc_manager* m = nullptr;
    status = create_manager(&config, default_env(), &m);
    if (status == KVC_OK) managers.push_back(m);
  }
  EXPECT_EQ(status, KVC_ERROR_LIMIT);
  EXPECT_EQ(managers.size(), kMaxHandleTags);
  EXPECT_NE(std::string(last_error()).find("4095"), std::string::npos) << last_error();
  for (kvc_manager* m : managers) kvc_manager_destroy(m);
  const ManagerOf again(small());
  EXPECT_NE(again.m, nullptr);
}

// A slot whose generations are used up is given to nobody any more.
TEST(Ids, EndWithTheirGenerations) {
  ManagerOf manager(small(1));
  ManagerPeer peer(manager.m);
  const auto tokens = tokens_from(1, 4);
  uint64_t id = compute(manager.m, 0, tokens);
  peer.request(id).generation = UINT32_MAX - 1;
  EXPECT_EQ(kvc_manager_free_request(manager.m, id), KVC_OK);
  const uint64_t last = compute(manager.m, 0, tokens);
  EXPECT_EQ(static_cast<uint32_t>(last), UINT32_MAX);
  EXPECT_EQ(kvc_manager_free_request(manager.m, last), KVC_OK);
  EXPECT_EQ(kvc_manager_create_request(manager.m, PROMPT(0, tokens.data(), 4, nullptr, 0), nullptr, &id),
            KVC_ERROR_LIMIT);
  EXPECT_EQ(kvc_manager_free_request(manager.m, last), KVC_ERROR_NOT_FOUND);

  uint64_t pin = 0, pinned = 0;
  peer.pins().at(0).generation = UINT32_MAX - 1;
  EXPECT_EQ(kvc_manager_pin_prefix(manager.m, PROMPT(0, tokens.data(), 4, nullptr, 0), &pin, &pinned),
            KVC_OK);
  EXPECT_EQ(kvc_manager_unpin_prefix(manager.m, pin), KVC_OK);
  EXPECT_EQ(kvc_manager_unpin_prefix(manager.m, pin), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_manager_pin_prefix(manager.m, PROMPT(0, tokens.data(), 4, nullptr, 0), &pin, &pinned),
            KVC_ERROR_LIMIT);

  const uint64_t ns = open_namespace(manager.m, "a");
  peer.namespaces()[handle_index(ns)].generation = UINT32_MAX;
  const uint64_t aged = peer.namespaces().id(handle_index(ns));
  EXPECT_EQ(kvc_manager_close_namespace(manager.m, aged), KVC_OK);
  EXPECT_NE(handle_index(open_namespace(manager.m, "a")), handle_index(ns));
  EXPECT_EQ(kvc_manager_reset_namespace(manager.m, aged), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_manager_check(manager.m), KVC_OK) << last_error();
}

}  // namespace
}  // namespace kvc
