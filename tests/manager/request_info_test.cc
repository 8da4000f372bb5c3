// SPDX-License-Identifier: Apache-2.0
// kvc_manager_request_info reads no array that grows with the request, so that an engine may ask per token:
// their pages cannot be read meanwhile.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "calls.h"
#include "manager/manager_peer.h"

namespace kvc {
namespace {

// The whole pages inside of an array, but for the last: a window ends there.
class Unreadable {
 public:
  template <typename T>
  explicit Unreadable(const Buffer<T>& array) {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t begin = reinterpret_cast<uintptr_t>(array.data);
    const uintptr_t first = (begin + page - 1) / page * page,
                    end = (begin + array.capacity * sizeof(T)) / page * page;
    if (end < first + 2 * page) return;  // a short one
    pages_ = reinterpret_cast<void*>(first), bytes_ = end - first - page;
    EXPECT_EQ(mprotect(pages_, bytes_, PROT_NONE), 0);
  }
  ~Unreadable() {
    if (bytes_ == 0) return;
    EXPECT_EQ(mprotect(pages_, bytes_, PROT_READ | PROT_WRITE), 0);
  }
  size_t bytes() const { return bytes_; }
  Unreadable(const Unreadable&) = delete;
  Unreadable& operator=(const Unreadable&) = delete;

 private:
  void* pages_ = nullptr;
  size_t bytes_ = 0;
};

TEST(RequestInfo, ReadsNothingThatGrowsWithTheRequest) {
  constexpr size_t kTokens = 1 << 20;
  kvc_group_config groups[] = {full_group(), window_group(64, 32)};
  kvc_manager_config config = {};
  config.num_blocks = 4 * kTokens / 16;
  config.groups = groups;
  config.num_groups = 2;
  const ManagerOf manager(config);
  const std::vector<int32_t> tokens = tokens_from(0, kTokens);
  uint64_t id = 0;
  ASSERT_EQ(kvc_manager_allocate_request(manager.m, PROMPT(0, tokens.data(), kTokens, nullptr, 0), nullptr,
                                         &id, nullptr),
            KVC_OK);
  const auto expect_info = [&](uint64_t num_blocks) {
    const Request& request = ManagerPeer(manager.m).request(id);
    const Unreadable full(request.groups[0].blocks), window(request.groups[1].blocks), tail(request.tail),
        hashes(request.hashes);
    EXPECT_GT(std::min(full.bytes(), window.bytes()), kTokens / 16 * sizeof(BlockId) / 2);
    kvc_request_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_manager_request_info(manager.m, id, &info), KVC_OK);
    EXPECT_EQ(info.num_blocks, num_blocks);
  };
  expect_info(kTokens / 16 * 2);
  ASSERT_EQ(kvc_manager_commit_tokens(manager.m, id, kTokens), KVC_OK);
  // The window of 64 tokens reads 63 before the next one, in 4 blocks, and the sinks are 2.
  expect_info(kTokens / 16 + 4 + 2);
  EXPECT_EQ(kvc_manager_free_request(manager.m, id), KVC_OK);
}

}  // namespace
}  // namespace kvc
