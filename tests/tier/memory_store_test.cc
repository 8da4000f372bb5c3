// SPDX-License-Identifier: Apache-2.0
// Memory tiers: what they do in their own way; store_test.cc has what all stores do.
#include "tier/memory_store.h"

#include <gtest/gtest.h>

#include "stores.h"

namespace kvc {
namespace {

using test::digest_of;
using test::page_of;
using test::Pages;

// Remembers the largest piece it gave: the pages.
struct Heap {
  char* pages = nullptr;
  size_t bytes = 0;
  bool refuses = false;
};
Env watched(Heap* heap) {
  Env env = default_env();
  env.allocator_data = heap;
  env.allocate = [](void* data, size_t size, size_t alignment) -> void* {
    auto* to = static_cast<Heap*>(data);
    if (to->refuses) return nullptr;
    void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (size > to->bytes) to->pages = static_cast<char*>(memory), to->bytes = size;
    return memory;
  };
  env.release = [](void*, void* memory, size_t, size_t) { std::free(memory); };
  return env;
}

TEST(MemoryStore, EachFlippedBitIsAMiss) {
  Heap heap;
  PageStorePtr store;
  ASSERT_EQ(make_memory_store(watched(&heap), 1024, 256, &store), KVC_OK);
  ASSERT_EQ(heap.bytes, 1024u);
  Pages pages(*store);
  for (size_t bit = 0; bit < 8 * 256; ++bit) {
    const Digest256 key = digest_of(bit);
    ASSERT_EQ(pages.put(key, 256), KVC_PAGE_OK);
    const std::vector<char> right = page_of(key, 256);
    char* at = heap.pages;
    while (std::memcmp(at, right.data(), 256) != 0) ASSERT_LT(at += 256, heap.pages + 1024);
    at[bit / 8] = static_cast<char>(at[bit / 8] ^ 1 << bit % 8);
    ASSERT_EQ(pages.get(key, 256), KVC_PAGE_MISS);
    ASSERT_EQ(pages.exists(key), KVC_PAGE_MISS) << "it does not come back";
  }
  EXPECT_EQ(store->stats().bad_payloads, 8u * 256);
}

TEST(MemoryStore, SaysWhatIsWrong) {
  PageStorePtr store;
  Heap heap;
  EXPECT_EQ(make_memory_store(default_env(), 100, 101, &store), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(make_memory_store(default_env(), 100, 0, &store), KVC_ERROR_INVALID_ARGUMENT);
  heap.refuses = true;
  EXPECT_EQ(make_memory_store(watched(&heap), 1024, 256, &store), KVC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(make_memory_store(default_env(), UINT64_MAX, 1, &store), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(strstr(kvc_last_error(), "at most 1073741823 pages"), nullptr) << kvc_last_error();
  EXPECT_EQ(store, nullptr);
}

}  // namespace
}  // namespace kvc
