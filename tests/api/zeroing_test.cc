// SPDX-License-Identifier: Apache-2.0
// Clearing policies, proven by canaries: every namespace fills its blocks with its own bytes, and looks into
// each block that it is given. Without a policy it finds those of others: the control.
#include <gtest/gtest.h>
#include <kvcache/external.h>
#include <kvcache/manager.h>
#include <kvcache/storage.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "calls.h"

namespace {

constexpr uint32_t kBlock = 4, kBlocks = 24, kLayers = 2;
constexpr uint8_t kExternal = 99;  // canary of external holders

struct Found {
  uint64_t own = 0, foreign = 0, looks = 0;
};

// An engine with three namespaces and an external holder over one small pool, by single calls or by steps.
class Engine {
 public:
  Engine(uint32_t flags, uint32_t seed) : random_(seed) {
    kvc_manager_config mc = {};
    mc.struct_size = sizeof mc;
    mc.num_blocks = kBlocks, mc.block_size = kBlock, mc.flags = flags, mc.seed = 1, mc.max_requests = 32;
    EXPECT_EQ(kvc_manager_create(&mc, &m_), KVC_OK) << kvc_last_error();
    kvc_storage_config sc = {};
    sc.struct_size = sizeof sc;
    sc.num_blocks = kBlocks, sc.num_layers = kLayers, sc.num_heads = 1, sc.head_dim = 8;
    sc.block_size = kBlock, sc.layout = KVC_LAYOUT_BLHNC;
    EXPECT_EQ(kvc_storage_create(&sc, &s_), KVC_OK);
    info_.struct_size = sizeof info_;
    EXPECT_EQ(kvc_storage_properties(s_, &info_), KVC_OK);
    for (int i = 0; i < 3; ++i) {
      const char name = static_cast<char>('a' + i);
      kvc_namespace_config nc = {};
      nc.struct_size = sizeof nc;
      nc.tenant = &name, nc.tenant_size = 1;
      EXPECT_EQ(kvc_manager_open_namespace(m_, &nc, &namespaces_[i]), KVC_OK);
    }
  }
  ~Engine() {
    kvc_storage_destroy(s_);
    kvc_manager_destroy(m_);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      switch (random_() % 8) {
        case 0:
        case 1:
          begin();
          break;
        case 2:
        case 3:
          grow();
          break;
        case 4:
          fork();
          break;
        case 5:
          use_external();
          break;
        case 6:
          if (random_() % 8 == 0) compact();
          [[fallthrough]];
        default:
          end();
      }
    }
    ASSERT_EQ(kvc_manager_check(m_), KVC_OK) << kvc_last_error();
  }
  const Found& found() const { return found_; }

 private:
  uint8_t* bytes(int32_t block) {
    return static_cast<uint8_t*>(info_.data) + static_cast<uint64_t>(block) * info_.block_bytes;
  }
  // What an engine does before it writes: copies, then clearing.
  void prepare() {
    kvc_block_copy copies[64];
    int32_t blocks[kBlocks];
    kvc_pending_work work = {sizeof work, copies, 64, 0, blocks, kBlocks, 0};
    ASSERT_EQ(kvc_manager_take_pending(m_, &work), KVC_OK);
    ASSERT_EQ(kvc_storage_copy_blocks(s_, copies, work.num_copies, nullptr), KVC_OK);
    ASSERT_EQ(kvc_storage_zero_blocks(s_, blocks, work.num_zero_blocks, nullptr), KVC_OK);
    const size_t count = work.num_zero_blocks;
    EXPECT_EQ(std::set<int32_t>(blocks, blocks + count).size(), count);
  }
  void look(int32_t block, uint8_t canary) {
    for (uint64_t i = 0; i < info_.block_bytes; ++i) {
      const uint8_t byte = bytes(block)[i];
      ++found_.looks;
      found_.own += byte == canary;
      found_.foreign += byte != 0 && byte != canary;
    }
  }
  void write(uint64_t request, uint8_t canary) {
    std::vector<int32_t>& known = blocks_[request];
    int32_t table[kBlocks];
    ASSERT_EQ(kvc_manager_export_tables(m_, &request, 1, 0, -1, table, kBlocks), KVC_OK);
    for (const int32_t block : table) {
      if (block < 0 || std::count(known.begin(), known.end(), block) != 0) continue;
      look(block, canary);
      std::memset(bytes(block), canary, info_.block_bytes);
      known.push_back(block);
    }
    kvc_request_info info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(kvc_manager_request_info(m_, request, &info), KVC_OK);
    ASSERT_EQ(kvc_manager_commit_tokens(m_, request, info.num_tokens), KVC_OK);
  }
  void begin() {
    const size_t ns = random_() % 3;
    std::vector<int32_t> tokens(1 + random_() % 14);
    const auto text = static_cast<int32_t>(random_() % 3);
    for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = text + static_cast<int32_t>(t);
    uint64_t request = 0, cached = 0;
    if (kvc_manager_allocate_request(m_, PROMPT(namespaces_[ns], tokens.data(), tokens.size(), nullptr, 0),
                                     nullptr, &request, &cached) != KVC_OK)
      return;
    live_[request] = static_cast<uint8_t>(ns + 1);
    if (random_() % 5 == 0) return end(request);  // given back before anything is done
    int32_t table[kBlocks];
    ASSERT_EQ(kvc_manager_export_tables(m_, &request, 1, 0, -1, table, kBlocks), KVC_OK);
    blocks_[request].assign(table, table + cached / kBlock);  // hits hold what they should
    prepare();
    write(request, live_[request]);
  }
  uint64_t any() {
    return live_.empty() ? 0
                         : std::next(live_.begin(), static_cast<ptrdiff_t>(random_() % live_.size()))->first;
  }
  void grow() {
    const uint64_t request = any();
    if (request == 0) return;
    const int32_t tokens[] = {7, 8, 9};
    if (kvc_manager_append_tokens(m_, request, tokens, 1 + random_() % 3) != KVC_OK) return;
    if (random_() % 5 == 0) return end(request);  // its copy may still wait
    prepare();
    write(request, live_[request]);
  }
  void fork() {
    const uint64_t request = any();
    uint64_t child = 0;
    if (request == 0 || kvc_manager_fork_request(m_, request, &child) != KVC_OK) return;
    live_[child] = live_[request];
    blocks_[child] = blocks_[request];
  }
  void use_external() {
    int32_t blocks[3];
    const size_t count = 1 + random_() % 3;
    if (kvc_manager_acquire_blocks(m_, 0, blocks, count) != KVC_OK) return;
    prepare();
    for (size_t i = 0; i < count; ++i) {
      look(blocks[i], kExternal);
      std::memset(bytes(blocks[i]), kExternal, info_.block_bytes);
    }
    ASSERT_EQ(kvc_manager_release_blocks(m_, blocks, count), KVC_OK);
  }
  void compact() {
    prepare();
    kvc_block_copy moves[kBlocks];
    size_t count = 0;
    ASSERT_EQ(kvc_manager_compact(m_, 0, moves, kBlocks, &count), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_storage_copy_blocks(s_, moves, count, nullptr), KVC_OK);
    for (auto& [request, known] : blocks_)
      for (int32_t& block : known)
        for (size_t i = 0; i < count; ++i)
          if (block == moves[i].source) {
            block = moves[i].destination;
            break;
          }
  }
  void end(uint64_t request = 0) {
    if (request == 0) request = any();
    if (request == 0) return;
    ASSERT_EQ(kvc_manager_free_request(m_, request), KVC_OK);
    live_.erase(request), blocks_.erase(request);
  }

  std::mt19937 random_;
  kvc_manager* m_ = nullptr;
  kvc_storage* s_ = nullptr;
  kvc_storage_info info_ = {};
  uint64_t namespaces_[3] = {};
  std::map<uint64_t, uint8_t> live_;                 // canary of a request
  std::map<uint64_t, std::vector<int32_t>> blocks_;  // those that it has looked at
  Found found_;
};

Found run(uint32_t flags) {
  Found sum;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    Engine engine(flags, seed);
    engine.run(3000);
    sum.own += engine.found().own, sum.foreign += engine.found().foreign, sum.looks += engine.found().looks;
  }
  EXPECT_GT(sum.looks, 1000000u);
  return sum;
}

TEST(Zeroing, WithoutAPolicyOthersContentsAreSeen) {
  const Found found = run(0);
  EXPECT_GT(found.foreign, found.looks / 10);
  EXPECT_GT(found.own, found.looks / 10);
}

TEST(Zeroing, BetweenNamespacesNothingIsSeenAndWithinOneNothingIsCleared) {
  const Found found = run(KVC_MANAGER_ZERO_CROSS_NAMESPACE);
  EXPECT_EQ(found.foreign, 0u);
  EXPECT_GT(found.own, found.looks / 10);
}

TEST(Zeroing, AlwaysMeansThatEveryNewBlockIsEmpty) {
  const Found found = run(KVC_MANAGER_ZERO_ALWAYS);
  EXPECT_EQ(found.foreign, 0u);
  EXPECT_LT(found.own, found.looks / 10) << "copies on write hold what they should";
}

TEST(Zeroing, TheListIsTakenWholeOrNotAtAll) {
  kvc_manager_config mc = {};
  mc.struct_size = sizeof mc;
  mc.num_blocks = 8, mc.block_size = kBlock, mc.flags = KVC_MANAGER_ZERO_ALWAYS;
  kvc_manager* m = nullptr;
  ASSERT_EQ(kvc_manager_create(&mc, &m), KVC_OK);
  int32_t external[3], out[3] = {-7, -7, -7};
  size_t count = 77;
  ASSERT_EQ(kvc_manager_acquire_blocks(m, 0, external, 3), KVC_OK);
  EXPECT_EQ(take_zero_blocks(m, out, 2, &count), KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(out[0], -7);
  kvc_block_copy moves[8];
  EXPECT_EQ(kvc_manager_compact(m, 0, moves, 8, &count), KVC_ERROR_BUSY);
  ASSERT_EQ(take_zero_blocks(m, out, 3, &count), KVC_OK);
  EXPECT_TRUE(std::equal(external, external + 3, out));
  ASSERT_EQ(take_zero_blocks(m, nullptr, 0, &count), KVC_OK);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(take_zero_blocks(m, out, 3, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(take_zero_blocks(m, nullptr, 3, &count), KVC_ERROR_INVALID_ARGUMENT);
  kvc_manager_destroy(m);
}

// Takes the only block for namespace `ns` and says how many blocks are to be cleared first.
size_t blocks_to_clear(kvc_manager* m, uint64_t ns) {
  const int32_t tokens[2] = {9, 9};
  uint64_t id, cached;
  EXPECT_EQ(kvc_manager_allocate_request(m, PROMPT(ns, tokens, 2, nullptr, 0), nullptr, &id, &cached), KVC_OK)
      << kvc_last_error();
  int32_t blocks[2];
  size_t count = 0;
  EXPECT_EQ(take_zero_blocks(m, blocks, 2, &count), KVC_OK);
  EXPECT_EQ(kvc_manager_check(m), KVC_OK) << kvc_last_error();
  return count;
}

// Publishing a external block says whose its content is, as long as it is published: its holder may write
// anything to it afterwards.
TEST(Zeroing, AnExternalBlockIsItsNamespacesOnlyWhileItIsPublished) {
  enum class Ends { kPublished, kUnpublished, kReset, kResetAll, kClosed, kUnpublishedAfterTheFirstRelease };
  for (const Ends ends : {Ends::kPublished, Ends::kUnpublished, Ends::kReset, Ends::kResetAll, Ends::kClosed,
                          Ends::kUnpublishedAfterTheFirstRelease}) {
    kvc_manager_config config = {};
    config.struct_size = sizeof config;
    config.num_blocks = 1, config.block_size = 4, config.flags = KVC_MANAGER_ZERO_CROSS_NAMESPACE;
    kvc_manager* m = nullptr;
    ASSERT_EQ(kvc_manager_create(&config, &m), KVC_OK);
    kvc_namespace_config tenant = {};
    tenant.struct_size = sizeof tenant;
    tenant.tenant = "A", tenant.tenant_size = 1;
    uint64_t ns, count;
    ASSERT_EQ(kvc_manager_open_namespace(m, &tenant, &ns), KVC_OK);
    int32_t block[2];
    const int32_t tokens[4] = {1, 2, 3, 4};
    size_t found;
    ASSERT_EQ(kvc_manager_acquire_blocks(m, 0, block, 1), KVC_OK);
    ASSERT_EQ(kvc_manager_publish_blocks(m, PROMPT(ns, tokens, 4, nullptr, 0), 0, block, 1), KVC_OK);
    switch (ends) {
      case Ends::kPublished:
        break;
      case Ends::kUnpublished:
        EXPECT_EQ(kvc_manager_unpublish_blocks(m, block, 1, &count), KVC_OK);
        break;
      case Ends::kReset:
        EXPECT_EQ(kvc_manager_reset_namespace(m, ns), KVC_OK);
        break;
      case Ends::kResetAll:
        EXPECT_EQ(kvc_manager_reset_all(m), KVC_OK);
        break;
      case Ends::kClosed:
        EXPECT_EQ(kvc_manager_close_namespace(m, ns), KVC_OK);
        ASSERT_EQ(kvc_manager_open_namespace(m, &tenant, &ns), KVC_OK);
        break;
      case Ends::kUnpublishedAfterTheFirstRelease:
        ASSERT_EQ(kvc_manager_acquire_prefix(m, PROMPT(ns, tokens, 4, nullptr, 0), 0, block + 1, 1, &found),
                  KVC_OK);
        EXPECT_EQ(kvc_manager_release_blocks(m, block, 1), KVC_OK);
        EXPECT_EQ(kvc_manager_unpublish_blocks(m, block, 1, &count), KVC_OK);
        break;
    }
    EXPECT_EQ(kvc_manager_release_blocks(m, block, 1), KVC_OK);
    EXPECT_EQ(blocks_to_clear(m, ns), ends == Ends::kPublished ? 0u : 1u) << static_cast<int>(ends);
    kvc_manager_destroy(m);
  }
}

}  // namespace
