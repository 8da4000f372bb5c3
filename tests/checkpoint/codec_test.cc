// SPDX-License-Identifier: Apache-2.0
// Codecs: pages become shorter and come back bit by bit, also those of files with another codec; a codec that
// is not there is named. Skips without the plug-ins.

#include "plugin/plugins.h"
#include "world.h"

namespace kvc {
namespace {

using test::Engine;
using test::Folder;
using test::Form;
using test::Spoken;

class Codecs : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (open_plugin(GetParam(), nullptr, &plugin_) != KVC_OK) GTEST_SKIP() << kvc_last_error();
  }
  const kvc_plugin* plugin_ = nullptr;
};

TEST_P(Codecs, MakePagesShorterAndGiveThemBack) {
  for (const int32_t level : {0, 1, 3, 9}) {
    const Folder folder;
    const std::string path = folder / "c";
    Form form;
    form.smooth = true, form.num_blocks = 200;
    Engine old(form);
    std::vector<Spoken> prompts = test::speak(old, 3, 10);
    kvc_checkpoint_config config = old.config(path);
    config.codec = GetParam(), config.level = level;
    kvc_checkpoint_info info;
    ASSERT_EQ(old.save(config, &info), KVC_OK) << kvc_last_error();
    EXPECT_LT(info.stored_bytes, info.page_bytes * 9 / 10);
    EXPECT_STREQ(info.codec, GetParam());
    // An increment without a codec, on top.
    for (const Spoken& more : test::speak(old, 4, 3)) prompts.push_back(more);
    EXPECT_STREQ(old.save(path).codec, "none");
    EXPECT_EQ(kvc_checkpoint_validate(path.c_str(), 0, nullptr), KVC_OK) << kvc_last_error();
    for (int round = 0; round < 2; ++round) {
      Engine fresh(form);
      fresh.restore(path);
      EXPECT_EQ(fresh.digest(), old.digest());
      for (const Spoken& prompt : prompts) fresh.check_pages(prompt, 0);
      EXPECT_EQ(fresh.wrong, 0u);
      info = {};
      info.struct_size = sizeof info;
      ASSERT_EQ(kvc_checkpoint_compact(&config, &info), KVC_OK) << kvc_last_error();
      EXPECT_EQ(info.num_files, 1u);
      EXPECT_LT(info.stored_bytes, info.page_bytes * 9 / 10);
    }
  }
}

TEST_P(Codecs, KeepRandomBytesAsTheyAre) {
  const Folder folder;
  Engine old(Form{});
  test::speak(old, 3, 10);
  const std::string path = folder / "c";
  kvc_checkpoint_config config = old.config(path);
  config.codec = GetParam();
  kvc_checkpoint_info info;
  ASSERT_EQ(old.save(config, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(info.stored_bytes, info.page_bytes);
  Engine fresh(Form{});
  fresh.restore(path);
  EXPECT_EQ(fresh.digest(), old.digest());
}

TEST_P(Codecs, RefuseWhatTheyHaveNotMade) {
  const kvc_codec& codec = *plugin_->codec;
  std::vector<char> plain(5000), packed(codec.bound(plain.size())), out(plain.size());
  for (size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<char>(i / 50);
  uint64_t size = 0;
  ASSERT_EQ(codec.compress(plain.data(), plain.size(), packed.data(), packed.size(), 0, &size), KVC_OK);
  ASSERT_EQ(codec.decompress(packed.data(), size, out.data(), out.size()), KVC_OK);
  EXPECT_EQ(out, plain);
  EXPECT_EQ(codec.decompress(packed.data(), size, out.data(), out.size() - 1), KVC_ERROR_CORRUPT);
  std::vector<char> larger(plain.size() + 1);
  EXPECT_EQ(codec.decompress(packed.data(), size, larger.data(), larger.size()), KVC_ERROR_CORRUPT);
  EXPECT_EQ(codec.decompress(packed.data(), size - 1, out.data(), out.size()), KVC_ERROR_CORRUPT);
  EXPECT_EQ(codec.decompress(packed.data(), 0, out.data(), out.size()), KVC_ERROR_CORRUPT);
  EXPECT_EQ(codec.compress(plain.data(), plain.size(), packed.data(), 3, 0, &size),
            KVC_ERROR_BUFFER_TOO_SMALL);
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {  // it may decompress to something, but never writes past the end
    std::vector<char> bad(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size));
    bad[random() % bad.size()] = static_cast<char>(random());
    static_cast<void>(codec.decompress(bad.data(), bad.size(), out.data(), out.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Plugins, Codecs, testing::Values("lz4", "zstd"),
                         [](const auto& at) { return std::string(at.param); });

}  // namespace
}  // namespace kvc
