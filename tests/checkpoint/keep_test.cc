// SPDX-License-Identifier: Apache-2.0
// What is kept when old checkpoints are removed: never less than was asked for, whatever is damaged, and
// wherever the machine ends.
#include <filesystem>
#include <fstream>

#include "calls_with_files.h"

namespace kvc {
namespace {

using test::Engine;
using test::Folder;
using test::Form;
using test::say;
namespace fs = std::filesystem;

std::string name_of(const std::string& folder, uint64_t id, const char* ending) {
  char name[64];
  std::snprintf(name, sizeof name, "/%020llu%s", ull(id), ending);
  return folder + name;
}
std::vector<uint64_t> ids_of(const std::string& folder) {
  std::vector<uint64_t> ids(64);
  size_t count = 0;
  EXPECT_EQ(kvc_checkpoint_list(folder.c_str(), ids.data(), ids.size(), &count), KVC_OK) << kvc_last_error();
  ids.resize(count);
  return ids;
}
bool says(const std::string& text) { return std::strstr(kvc_last_error(), text.c_str()) != nullptr; }

class Keep : public testing::Test {
 protected:
  kvc_checkpoint_info save(uint32_t keep_last, uint32_t flags = 0) {
    engine.run(say(++saves, 30));
    kvc_checkpoint_config config = engine.config(path, flags);
    config.keep_last = keep_last;
    kvc_checkpoint_info info;
    EXPECT_EQ(engine.save(config, &info), KVC_OK) << kvc_last_error();
    return info;
  }
  void spoil(uint64_t id) { std::ofstream(name_of(path, id, ".kvcm")) << "no manifest"; }

  const Folder folder;
  const std::string path = folder / "c";
  Engine engine{Form{}};
  uint64_t saves = 0;
};

TEST_F(Keep, CountsOnlyCheckpointsThatCanBeRead) {
  for (int i = 0; i < 3; ++i) save(0, KVC_CHECKPOINT_FULL);
  spoil(2), spoil(3);
  uint64_t bytes = 7;
  EXPECT_EQ(kvc_checkpoint_collect(path.c_str(), 1, &bytes), KVC_ERROR_CORRUPT);
  EXPECT_TRUE(says("00000000000000000002.kvcm") && says("remove the checkpoint by its id, 2"))
      << kvc_last_error();
  EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{1, 2, 3})) << "the last good one stays";
  EXPECT_EQ(bytes, 7u);
  for (const uint64_t id : {1u, 2u, 3u}) EXPECT_TRUE(fs::exists(name_of(path, id, ".kvcd")));
  Engine fresh(Form{});
  fresh.restore(path, 0, 1);
  // A save counts itself and the good one.
  EXPECT_EQ(save(2).not_removed, 2u) << "the data files of the damaged ones";
  EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(save(2).not_removed, 3u);
  EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{2, 3, 4, 5}));
  // The way out that the text names.
  for (const uint64_t id : {2u, 3u}) EXPECT_EQ(kvc_checkpoint_remove(path.c_str(), id), KVC_OK);
  EXPECT_EQ(kvc_checkpoint_collect(path.c_str(), 2, &bytes), KVC_OK) << kvc_last_error();
  for (const uint64_t id : {1u, 2u, 3u}) EXPECT_FALSE(fs::exists(name_of(path, id, ".kvcd"))) << id;
  for (const uint64_t id : {4u, 5u})
    EXPECT_EQ(kvc_checkpoint_validate(path.c_str(), id, nullptr), KVC_OK) << kvc_last_error();
}

TEST_F(Keep, ACompactionCountsOnlyCheckpointsThatCanBeRead) {
  for (int i = 0; i < 3; ++i) save(0, KVC_CHECKPOINT_FULL);
  spoil(2);
  kvc_checkpoint_config config = engine.config(path);
  config.id = 3, config.keep_last = 2;
  kvc_checkpoint_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_checkpoint_compact(&config, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{1, 2, 4}));
  EXPECT_EQ(info.not_removed, 2u);
}

}  // namespace
}  // namespace kvc
