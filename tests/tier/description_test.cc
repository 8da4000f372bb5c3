// SPDX-License-Identifier: Apache-2.0
// What pages are of, in words: which field differs, and that nobody's bytes are shown as they are.
#include "tier/description.h"

#include <gtest/gtest.h>

#include <random>

#include "stores.h"
#include "tier/hex.h"
#include "tier/page_file.h"

namespace kvc {
namespace {

using test::digest_of;
using test::Pages;

PageSource source_of(const std::string& model, const std::string& weights, const std::string& numerics = "") {
  return {model.data(), model.size(), weights.data(), weights.size(), numerics.data(), numerics.size()};
}

PageShape shape_of() {
  PageShape out = {};
  out.num_layers = 32, out.num_heads = 8, out.block_size = 16;
  for (int p = 0; p < 2; ++p) out.planes[p] = {KVC_BFLOAT16, 256, 128, 1};
  return out;
}

std::string text_of(const PageSource& source, const PageShape& shape) {
  return describe_pages(source, &shape, 1);
}

TEST(Description, SaysWhichFieldDiffersAndBothValues) {
  const std::string here = text_of(source_of("llama", "v2"), shape_of());
  EXPECT_EQ(describe_difference(here, here), "");
  const auto difference = [&](const PageSource& source, const PageShape& shape) {
    return describe_difference(text_of(source, shape), here);
  };
  EXPECT_EQ(difference(source_of("llama", "v1"), shape_of()), "weights is \"v1\" there and \"v2\" here");
  EXPECT_EQ(difference(source_of("qwen", "v2"), shape_of()), "model is \"qwen\" there and \"llama\" here");
  EXPECT_EQ(difference(source_of("llama", "v2", "flash"), shape_of()),
            "numerics is \"flash\" there and absent here");
  PageShape other = shape_of();
  other.planes[0].dtype = KVC_FLOAT16;
  EXPECT_EQ(
      difference(source_of("llama", "v2"), other),
      "keys is fp16 x 128, 256 bytes a row of 1 token there and bf16 x 128, 256 bytes a row of 1 token here");
  other = shape_of(), other.block_size = 32;
  EXPECT_EQ(difference(source_of("llama", "v2"), other), "block_size is 32 there and 16 here");
  other = shape_of(), other.num_heads = 4;
  EXPECT_EQ(difference(source_of("llama", "v2"), other), "heads is 4 there and 8 here");
  other = shape_of(), other.latent = true;
  EXPECT_EQ(difference(source_of("llama", "v2"), other), "latent is yes there and absent here");
  other = shape_of(), other.scale_group = 32;
  EXPECT_EQ(difference(source_of("llama", "v2"), other), "scale_group is 32 there and absent here");
  const std::string long_name(5000, 'a');
  EXPECT_NE(text_of(source_of(long_name, "v"), shape_of()),
            text_of(source_of(long_name + "b", "v"), shape_of()));
  PageShape groups[2] = {shape_of(), shape_of()};
  groups[1].num_heads = 2;
  EXPECT_EQ(describe_difference(describe_pages(source_of("llama", "v2"), groups, 2), here),
            "heads of group 1 is 2 there and absent here");
}

// What was cut is unknown, not absent.
TEST(Description, ThatWasCutSaysNothingOfTheFieldsThatItLacks) {
  const std::string here = "model: \"a\"\nlast: 1\n";
  std::string there = "model: \"a\"\n";
  EXPECT_EQ(describe_difference(there, here), "last is absent there and 1 here");
  for (int i = 0; i < 100; ++i) there += "field " + std::to_string(i) + ": 0123456789\n";
  const std::string cut = clean_description(there.data(), there.size());
  EXPECT_LT(cut.size(), kMostDescription);
  EXPECT_EQ(cut.substr(cut.size() - 5), "\n...\n");
  EXPECT_EQ(clean_description(cut.data(), cut.size()), cut);
  const std::string common = there.substr(0, cut.size() - 4) + "last: 1\n";
  EXPECT_EQ(describe_difference(cut, common), "last is unknown (the description was cut) there and 1 here");
  EXPECT_EQ(describe_difference(common, cut), "last is 1 there and unknown (the description was cut) here");
  EXPECT_EQ(describe_difference(cut, "more: 2\n" + common.substr(11) + "model: \"b\"\n"),
            "model is \"a\" there and \"b\" here")
      << "what differs comes first";
}

TEST(Description, TakesTheNearestOfSeveral) {
  const std::string here = text_of(source_of("llama", "v2"), shape_of());
  std::vector<PageDescription> there = {{digest_of(1), text_of(source_of("qwen", "v7"), shape_of())},
                                        {digest_of(2), text_of(source_of("llama", "v1"), shape_of())},
                                        {digest_of(3), here},
                                        {digest_of(4), ""}};
  EXPECT_EQ(describe_difference(there, digest_of(3), here), "weights is \"v1\" there and \"v2\" here");
  EXPECT_EQ(describe_difference({}, digest_of(3), here), "");
}

bool is_clean(const std::string& text) {
  for (const char c : text)
    if (c != '\n' && (c < ' ' || c > '~')) return false;
  return text.size() <= kMostDescription;
}

TEST(Description, OfAnyBytesIsPrintable) {
  std::mt19937_64 random(test::test_seed());
  const std::string here = text_of(source_of(std::string("\x1b[2J\n\0", 6), "v2\x80"), shape_of());
  EXPECT_NE(here.find("model: \"\\x1b[2J\\x0a\\x00\""), std::string::npos) << here;
  EXPECT_TRUE(is_clean(here));
  for (int i = 0; i < 3000; ++i) {
    std::string bytes(random() % 2000, 0);
    for (char& c : bytes)
      c = static_cast<char>(random() % 4 == 0 ? random() % 256 : "model: \nweights"[random() % 15]);
    const std::string text = clean_description(bytes.data(), bytes.size());
    ASSERT_TRUE(is_clean(text));
    const std::string difference = describe_difference(text, here);
    ASSERT_TRUE(is_clean(difference));
    ASSERT_EQ(difference.find('\n'), std::string::npos);
    ASSERT_LT(difference.size(), 256u);
  }
}

class Described : public testing::TestWithParam<const char*> {
 protected:
  void open(uint64_t fingerprint) {
    store_.reset();
    if (is_slab()) {
      SlabConfig config = test::slab_config(path_, 8, 5000);
      config.fingerprint = digest_of(fingerprint);
      ASSERT_EQ(open_slab_store(default_env(), system_files(), config, &store_), KVC_OK) << kvc_last_error();
    } else {
      DirectoryConfig config = test::directory_config(path_, 8, 5000);
      config.fingerprint = digest_of(fingerprint);
      ASSERT_EQ(open_directory_store(default_env(), system_files(), config, &store_), KVC_OK)
          << kvc_last_error();
    }
  }
  bool is_slab() const { return *GetParam() == 's'; }
  std::string text(const char* weights) const { return text_of(source_of("llama", weights), shape_of()); }

  test::Folder folder_;
  const std::string path_ = folder_ / "tier";
  PageStorePtr store_;
};

TEST_P(Described, IsKeptBesideThePagesOfEachFingerprint) {
  for (uint64_t i = 0; i < 6; ++i) {
    open(100 + i);
    const std::string mine = text(std::to_string(i).c_str());
    if (i != 0) {
      EXPECT_EQ(store_->difference(mine).rfind("weights is \"", 0), 0u) << store_->difference(mine);
    }
    store_->describe(mine);
    store_->describe(mine);
    EXPECT_EQ(Pages(*store_).put(digest_of(1), 5000), KVC_PAGE_OK);
    if (i == 0) {
      EXPECT_EQ(store_->difference(mine), "") << "those of its own";
    }
    if (i == 1) {
      EXPECT_EQ(store_->difference(mine), "weights is \"0\" there and \"1\" here");
    }
    store_.reset();
    std::string file = path_;
    if (!is_slab()) file += std::string("/") + page_path(digest_of(100 + i), digest_of(1)).text;
    kvc_page_file_info info = {};
    uint32_t number = 0;
    do {
      info = {};
      ASSERT_EQ(describe_page_file_part(system_files(), file.c_str(), number++, false, &info), KVC_OK)
          << kvc_last_error();
    } while (std::memcmp(info.fingerprint, digest_of(100 + i).bytes, 32) != 0);
    EXPECT_EQ(info.description, mine);
  }
}

// A process may have opened a folder just now, and stored nothing yet.
TEST_P(Described, GoesWithItsLastPage) {
  const auto is_there = [&](uint64_t fingerprint) {
    return store_->difference(text("v2")).find("\"v" + std::to_string(fingerprint)) != std::string::npos;
  };
  const auto set_age = [&](uint64_t fingerprint, time_t age) {
    char digits[65];
    write_hex(digest_of(fingerprint), digits);
    const timespec times[2] = {{0, UTIME_OMIT}, {::time(nullptr) - age, 0}};
    return is_slab() || utimensat(AT_FDCWD, (path_ + "/" + digits + ".txt").c_str(), times, 0) == 0;
  };
  open(100);
  store_->describe(text("v100"));
  ASSERT_EQ(Pages(*store_).put(digest_of(1), 5000), KVC_PAGE_OK);
  ASSERT_TRUE(set_age(100, 90000));
  open(101);
  EXPECT_TRUE(is_there(100)) << "it has a page";
  open(100);
  ASSERT_EQ(Pages(*store_).remove(digest_of(1)), KVC_PAGE_OK);
  if (!is_slab()) {
    ASSERT_TRUE(set_age(100, 80000));
    open(101);
    EXPECT_TRUE(is_there(100)) << "not a day old";
    open(100);
    store_->describe(text("v100"));
    open(101);
    EXPECT_TRUE(is_there(100)) << "told again just now";
    ASSERT_TRUE(set_age(100, 90000));
  }
  open(101);
  EXPECT_FALSE(is_there(100));
  store_->describe(text("v101"));
  ASSERT_TRUE(set_age(101, 90000));
  open(101);
  EXPECT_EQ(store_->difference(text("v101")), "");
  open(102);
  EXPECT_FALSE(is_there(101));
}

// Whoever may write to the place may have written anything.
TEST_P(Described, HostileDescriptionsAreCleanOrLeftOut) {
  std::mt19937_64 random(test::test_seed());
  open(100);
  ASSERT_EQ(Pages(*store_).put(digest_of(1), 5000), KVC_PAGE_OK);
  store_->describe(text("v1"));
  char digits[65];
  write_hex(digest_of(100), digits);
  const std::string file = is_slab() ? path_ : path_ + "/" + digits + ".txt";
  for (int i = 0; i < 400; ++i) {
    const uint64_t at = is_slab() ? 128 + random() % (4096 - 128 - 64) : random() % 1000;
    char bytes[64];
    for (char& byte : bytes) byte = static_cast<char>(random());
    FILE* out = fopen(file.c_str(), "r+");
    fseek(out, static_cast<long>(at), SEEK_SET);
    fwrite(bytes, 1, 1 + random() % sizeof bytes, out);
    fclose(out);
    if (!is_slab() && i % 10 == 0) std::filesystem::resize_file(file, random() % 3000);
    open(101);
    EXPECT_TRUE(is_clean(store_->difference(text("v2"))));
    open(100);
    EXPECT_EQ(Pages(*store_).get(digest_of(1), 5000), KVC_PAGE_OK) << "it decides nothing";
    kvc_page_file_info info = {};
    std::string page = path_;
    if (!is_slab()) page += std::string("/") + page_path(digest_of(100), digest_of(1)).text;
    ASSERT_EQ(describe_page_file(system_files(), page.c_str(), true, &info), KVC_OK);
    ASSERT_TRUE(is_clean(info.description));
  }
  store_->describe(text("v1"));
  open(101);
  EXPECT_EQ(store_->difference(text("v2")), "weights is \"v1\" there and \"v2\" here") << "written anew";
}

INSTANTIATE_TEST_SUITE_P(Of, Described, testing::Values("slab", "dir"),
                         [](const auto& at) { return std::string(at.param); });

}  // namespace
}  // namespace kvc
