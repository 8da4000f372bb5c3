// SPDX-License-Identifier: Apache-2.0
// A page has the name of its tokens. After a reset or an unpublication the same tokens may have other bytes,
// and no save takes those from before.
#include <kvcache/external.h>
#include <kvcache/rebuild.h>
#include <kvcache/retention.h>

#include "calls_with_files.h"

namespace kvc {
namespace {

using test::Calls;
using test::Engine;
using test::Folder;
using test::Form;
using test::say;
using test::Spoken;

constexpr size_t kTokens = 40;

std::vector<int32_t> blocks_of(Engine& engine, uint64_t id) {
  std::vector<int32_t> table(kTokens / engine.form.block_size);
  EXPECT_EQ(kvc_manager_export_tables(engine.m, &id, 1, 0, -1, table.data(), table.size()), KVC_OK);
  return table;
}
// A request computes its tokens; all bytes of its blocks are this one.
void compute(Engine& engine, const Spoken& spoken, char byte) {
  const uint64_t id = engine.begin(spoken);
  const std::vector<int32_t> blocks = blocks_of(engine, id);
  const std::vector<char> pages(blocks.size() * engine.info.page_bytes, byte);
  EXPECT_EQ(kvc_storage_unpack_pages(engine.storages[0], blocks.data(), blocks.size(), pages.data(),
                                     pages.size(), 0),
            KVC_OK)
      << kvc_last_error();
  engine.end(id);
}
// What the newest checkpoint gives a new engine: its byte, or 0 if they are not all equal or not there.
char restored_byte(const std::string& folder, const Spoken& spoken) {
  Engine fresh(Form{});
  fresh.restore(folder);
  if (fresh.hit(spoken) + fresh.form.block_size < kTokens) return 0;
  const uint64_t id = fresh.begin(spoken);
  const std::vector<int32_t> blocks = blocks_of(fresh, id);
  std::vector<char> pages((blocks.size() - 1) * fresh.info.page_bytes);  // the last one is computed again
  EXPECT_EQ(kvc_storage_pack_pages(fresh.storages[0], blocks.data(), blocks.size() - 1, pages.data(),
                                   pages.size(), 0),
            KVC_OK)
      << kvc_last_error();
  fresh.end(id);
  for (const char byte : pages) {
    if (byte != pages[0]) return 0;
  }
  return pages[0];
}

enum class End { kResetOne, kResetAll, kUnpublish };
void end_content(Engine& engine, const Spoken& spoken, End how) {
  if (how != End::kUnpublish) {
    EXPECT_EQ(how == End::kResetAll
                  ? kvc_manager_reset_all(engine.m)
                  : kvc_manager_reset_namespace(engine.m, engine.open_tenant(spoken.tenant)),
              KVC_OK);
    return;
  }
  const uint64_t id = engine.begin(spoken);
  const std::vector<int32_t> blocks = blocks_of(engine, id);
  uint64_t count = 0;
  EXPECT_EQ(kvc_manager_unpublish_blocks(engine.m, blocks.data(), blocks.size(), &count), KVC_OK);
  EXPECT_EQ(count, blocks.size());
  engine.end(id);
}

class Ended : public testing::TestWithParam<End> {};

TEST_P(Ended, IsNotTakenFromTheCheckpointBefore) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(Form{});
  const Spoken spoken = say(3, kTokens), other = say(4, kTokens);
  compute(old, spoken, 1);
  old.save(path);
  end_content(old, spoken, GetParam());
  compute(old, spoken, 2);
  compute(old, other, 3);
  kvc_checkpoint_info info;
  EXPECT_EQ(old.save(old.config(path, KVC_CHECKPOINT_INCREMENT), &info), KVC_ERROR_NOT_FOUND);
  EXPECT_NE(std::string(kvc_last_error()).find("reset"), std::string::npos) << kvc_last_error();
  info = old.save(path);
  EXPECT_EQ(info.new_pages, info.num_pages);
  EXPECT_EQ(restored_byte(path, spoken), 2);
  EXPECT_EQ(restored_byte(path, other), 3);
  compute(old, say(5, kTokens), 4);
  info = old.save(path);  // from then on increments again
  EXPECT_EQ(info.new_pages, kTokens / old.form.block_size);
  // A restored manager goes on with increments, too.
  Engine fresh(Form{});
  fresh.restore(path);
  compute(fresh, say(6, kTokens), 5);
  EXPECT_EQ(fresh.save(path).new_pages, kTokens / old.form.block_size);
  EXPECT_EQ(restored_byte(path, spoken), 2);
}

INSTANTIATE_TEST_SUITE_P(By, Ended, testing::Values(End::kResetOne, End::kResetAll, End::kUnpublish),
                         [](const auto& at) {
                           return std::string(at.param == End::kResetOne   ? "ResetOfOne"
                                              : at.param == End::kResetAll ? "ResetOfAll"
                                                                           : "Unpublication");
                         });

// The same number of resets is another lineage in each manager.
TEST(Lineages, OfSeveralManagersDiffer) {
  const Folder folder;
  const std::string path = folder / "c";
  const Spoken spoken = say(3, kTokens);
  Engine a(Form{});
  compute(a, spoken, 1);
  a.save(path);
  end_content(a, spoken, End::kResetAll);
  compute(a, spoken, 2);
  a.save(path);
  Engine b(Form{});
  kvc_checkpoint_config first = b.config(path);
  first.id = 1;
  kvc_checkpoint_info info;
  ASSERT_EQ(b.restore(first, &info), KVC_OK) << kvc_last_error();
  end_content(b, spoken, End::kResetAll);
  compute(b, spoken, 3);
  EXPECT_EQ(b.save(path).new_pages, kTokens / b.form.block_size);
  EXPECT_EQ(restored_byte(path, spoken), 3);
  Engine c(Form{});
  end_content(c, spoken, End::kResetAll);
  compute(c, spoken, 4);
  EXPECT_EQ(c.save(path).new_pages, kTokens / c.form.block_size);
  EXPECT_EQ(restored_byte(path, spoken), 4);
}

TEST(Lineages, AreCarriedByARebuild) {
  Engine old(Form{});
  compute(old, say(3, kTokens), 1);
  end_content(old, say(3, kTokens), End::kResetAll);
  Contents before, after;
  ASSERT_EQ(old.m->impl->read_contents(false, &before), KVC_OK);
  EXPECT_FALSE(before.lineage == Lineage{});
  kvc_manager_config config = {};
  config.struct_size = sizeof config, config.num_blocks = 64, config.block_size = old.form.block_size;
  kvc_rebuild rebuild = {};
  rebuild.struct_size = sizeof rebuild;
  kvc_manager* made = nullptr;
  ASSERT_EQ(kvc_manager_rebuild(old.m, &config, &rebuild, &made), KVC_OK) << kvc_last_error();
  ASSERT_EQ(made->impl->read_contents(false, &after), KVC_OK);
  EXPECT_TRUE(after.lineage == before.lineage);
  kvc_manager_destroy(made);
}

// Content that ends while it is read: nothing is taken from a checkpoint.
TEST(Lineages, ThatChangeWhileTheyAreReadAreNoted) {
  Engine old(Form{});
  for (uint64_t i = 0; i < 5; ++i) compute(old, say(i, kTokens), 1);
  Contents contents;
  ASSERT_EQ(old.m->impl->read_contents(false, &contents, [] {}), KVC_OK);
  EXPECT_FALSE(contents.mixed);
  contents = {};
  ASSERT_EQ(
      old.m->impl->read_contents(false, &contents, [&] { EXPECT_EQ(kvc_manager_reset_all(old.m), KVC_OK); }),
      KVC_OK);
  EXPECT_TRUE(contents.mixed);
}

// Files without room behind so many bytes.
struct FullDisk : Files {
  explicit FullDisk(int64_t bytes) : left(bytes) {}
  int64_t write(int file, const void* data, size_t size, uint64_t offset) override {
    if ((left -= static_cast<int64_t>(size)) < 0) return -ENOSPC;
    return Files::write(file, data, size, offset);
  }
  int free_bytes(int, uint64_t*) override { return -ENOSYS; }
  int64_t left;
};

TEST(Leftovers, OfContentThatEndedAreNotTaken) {
  for (const uint32_t flags : {0u, uint32_t{KVC_CHECKPOINT_FULL}}) {
    SCOPED_TRACE(flags);
    const Folder folder;
    const std::string path = folder / "c";
    Form form;
    form.num_layers = 64, form.num_heads = 8, form.head_dim = 64;  // pages of 512 KiB
    Engine old(form);
    for (uint64_t i = 0; i < 4; ++i) compute(old, say(i, kTokens), 1);
    Calls calls(old, path);
    FullDisk disk(9 << 20);
    kvc_checkpoint_info info;
    ASSERT_EQ(calls.save(disk, &info), KVC_ERROR_LIMIT);
    if (flags == 0) {
      end_content(old, say(0, kTokens), End::kResetAll);
      for (uint64_t i = 0; i < 4; ++i) compute(old, say(i, kTokens), 2);
    }
    ASSERT_EQ(old.save(old.config(path, flags), &info), KVC_OK) << kvc_last_error();
    EXPECT_EQ(info.resumed_pages, 0u);
  }
}

}  // namespace
}  // namespace kvc
