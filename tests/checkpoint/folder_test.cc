// SPDX-License-Identifier: Apache-2.0
// A folder of checkpoints: increments, compaction, what is kept and removed, and what is refused.
#include <fcntl.h>
#include <kvcache/device.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>
#include <tuple>

#include "base/status.h"
#include "calls_with_files.h"

namespace kvc {
namespace {

using test::Engine;
using test::Folder;
using test::Form;
using test::ids_of;
using test::say;
using test::Spoken;
namespace fs = std::filesystem;

Form large() {
  Form form;
  form.num_blocks = 400;
  return form;
}
size_t count_of(const std::string& folder, const char* ending) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) count += entry.path().extension() == ending;
  return count;
}
kvc_checkpoint_info new_info() {
  kvc_checkpoint_info info = {};
  info.struct_size = sizeof info;
  return info;
}
kvc_checkpoint_info validate(const std::string& folder, uint64_t id = 0) {
  kvc_checkpoint_info info = new_info();
  EXPECT_EQ(kvc_checkpoint_validate(folder.c_str(), id, &info), KVC_OK) << kvc_last_error();
  return info;
}
// What a new engine gets of a checkpoint.
std::string content_of(const std::string& folder, uint64_t id, const std::vector<Spoken>& prompts,
                       size_t* pages) {
  Engine fresh(large());
  fresh.restore(folder, 0, id);
  fresh.check();
  const std::string content = fresh.content();
  *pages = 0;
  for (const Spoken& prompt : prompts) *pages += fresh.check_pages(prompt, 0);
  EXPECT_EQ(fresh.wrong, 0u);
  return content;
}

TEST(Increments, WriteOnlyNewPagesAndRestoreEachByItself) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(large());
  std::vector<Spoken> prompts;
  std::vector<std::string> contents;
  for (uint64_t i = 0; i < 4; ++i) {
    prompts.push_back(say(i, 40 + 4 * i));
    old.run(prompts.back());
    const kvc_checkpoint_info saved = old.save(path, i == 0 ? 0u : uint32_t{KVC_CHECKPOINT_INCREMENT});
    EXPECT_EQ(saved.new_pages, 10 + i);
    EXPECT_EQ(saved.num_files, i + 1);
    EXPECT_EQ(saved.id, i + 1);
    contents.push_back(old.content());
  }
  EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{1, 2, 3, 4}));
  for (uint64_t i = 0; i < 4; ++i) {
    size_t pages = 0;
    EXPECT_EQ(content_of(path, i + 1, prompts, &pages), contents[i]);
    EXPECT_EQ(pages, 10 * (i + 1) + i * (i + 1) / 2);
    validate(path, i + 1);
  }
  // Nothing new: no data file.
  EXPECT_EQ(old.save(path).new_pages, 0u);
  EXPECT_EQ(count_of(path, ".kvcd"), 4u);
}

TEST(Increments, EqualAFullSaveAfterACompaction) {
  const Folder folder;
  const std::string path = folder / "c", other = folder / "full";
  Engine old(large());
  std::vector<Spoken> prompts;
  for (uint64_t i = 0; i < 4; ++i) {
    prompts.push_back(say(i, 40));
    old.run(prompts.back());
    if (i == 2) {  // and some blocks go
      size_t evicted = 0;
      ASSERT_EQ(kvc_manager_evict_blocks(old.m, -1, 3, &evicted), KVC_OK);
    }
    old.save(path);
  }
  old.save(other);
  kvc_checkpoint_config config = old.config(path);
  config.keep_last = 1;
  kvc_checkpoint_info compact = new_info();
  ASSERT_EQ(kvc_checkpoint_compact(&config, &compact), KVC_OK) << kvc_last_error();
  EXPECT_EQ(compact.num_files, 1u);
  EXPECT_EQ(compact.num_pages, 37u);
  EXPECT_EQ(compact.new_pages, 37u);
  EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{5}));
  EXPECT_EQ(count_of(path, ".kvcd"), 1u);
  const kvc_checkpoint_info a = validate(path), b = validate(other);
  EXPECT_EQ(a.page_bytes, b.page_bytes);
  EXPECT_EQ(a.file_bytes, b.file_bytes);
  EXPECT_EQ(std::memcmp(a.content, b.content, 32), 0);
  size_t pages[2] = {};
  EXPECT_EQ(content_of(path, 0, prompts, &pages[0]), content_of(other, 0, prompts, &pages[1]));
  EXPECT_EQ(pages[0], pages[1]);
  // And increments go on from there.
  old.run(say(9, 40));
  EXPECT_EQ(old.save(path, KVC_CHECKPOINT_INCREMENT).new_pages, 10u);
  validate(path);
}

TEST(Compaction, RemovesOnlyWhatItWasMadeFrom) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(large());
  std::vector<Spoken> prompts;
  for (uint64_t i = 0; i < 3; ++i) {
    prompts.push_back(say(i, 40));
    old.run(prompts.back());
    old.save(path);
  }
  kvc_checkpoint_config config = old.config(path);
  config.id = 2;
  kvc_checkpoint_info info = new_info();
  ASSERT_EQ(kvc_checkpoint_compact(&config, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{1, 3, 4}));
  size_t pages = 0;
  for (const auto& [id, wanted] : {std::pair{1, 10u}, {3, 30u}, {4, 20u}}) {
    content_of(path, static_cast<uint64_t>(id), prompts, &pages);
    EXPECT_EQ(pages, wanted);
  }
}

TEST(KeepLast, RemovesOldOnesAndTheirFiles) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(large());
  for (uint64_t i = 0; i < 6; ++i) {
    old.run(say(i, 40));
    kvc_checkpoint_config config = old.config(path, i == 3 ? uint32_t{KVC_CHECKPOINT_FULL} : 0u);
    config.keep_last = 2;
    kvc_checkpoint_info info;
    ASSERT_EQ(old.save(config, &info), KVC_OK) << kvc_last_error();
    EXPECT_EQ(info.not_removed, 0u);
    EXPECT_LE(count_of(path, ".kvcm"), 2u);
    for (const uint64_t id : ids_of(path)) validate(path, id);
  }
  EXPECT_EQ(ids_of(path), (std::vector<uint64_t>{5, 6}));
  EXPECT_EQ(count_of(path, ".kvcd"), 3u) << "those since the full one";
  EXPECT_EQ(count_of(path, ".part"), 0u);
}

TEST(Remove, LeavesFilesThatOthersNeed) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(large());
  old.run(say(1, 40));
  old.save(path);
  old.run(say(2, 40));
  old.save(path);
  EXPECT_EQ(kvc_checkpoint_remove(path.c_str(), 1), KVC_OK) << kvc_last_error();
  EXPECT_EQ(kvc_checkpoint_remove(path.c_str(), 1), KVC_ERROR_NOT_FOUND);
  validate(path, 2);
  EXPECT_EQ(count_of(path, ".kvcd"), 2u);
  EXPECT_EQ(kvc_checkpoint_remove(path.c_str(), 2), KVC_OK);
  EXPECT_EQ(count_of(path, ".kvcd"), 0u);
  EXPECT_TRUE(ids_of(path).empty());
}

TEST(Garbage, MakesTheNextSaveAFullOne) {
  const Folder folder;
  const std::string path = folder / "c";
  Form form = large();
  form.num_layers = 64, form.num_heads = 8, form.head_dim = 64;  // 512 KiB a page
  form.num_blocks = 64;
  Engine old(form);
  uint64_t most = 0;
  bool full = false;
  for (uint64_t i = 0; i < 8; ++i) {
    old.run(say(100 + i, 4 * 40));
    for (uint64_t hot = 0; hot <= i; ++hot) old.run(say(hot, 8));  // of each file a little stays
    kvc_checkpoint_config config = old.config(path);
    config.keep_last = 1;
    kvc_checkpoint_info info;
    ASSERT_EQ(old.save(config, &info), KVC_OK) << kvc_last_error();
    most = std::max(most, info.file_bytes);
    printf("%llu files %llu MB new %llu pages %llu\n", ull(info.num_files), ull(info.file_bytes >> 20),
           ull(info.new_pages), ull(info.num_pages));
    full = full || (i != 0 && info.num_files == 1);
    validate(path);
  }
  EXPECT_TRUE(full);
  EXPECT_LE(most, 5 * 64 * old.info.page_bytes);
}

// ---- what is refused, by name

struct Refusal {
  const char* word;
  std::function<void(Form&)> change;
};

TEST(Restore, NamesTheFieldThatDiffers) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(Form{});
  old.run(say(1, 40));
  old.save(path);
  const Refusal refusals[] = {
      {"weights is \"w1\" in the checkpoint and \"w2\" here", [](Form& f) { f.weights = "w2"; }},
      {"num_heads is 2 in the checkpoint and 4 here", [](Form& f) { f.num_heads = 4; }},
      {"num_layers is 2 in the checkpoint and 3 here", [](Form& f) { f.num_layers = 3; }},
      {"head_dim is 8 in the checkpoint and 16 here", [](Form& f) { f.head_dim = 16; }},
      {"dtype of keys is 8 in the checkpoint and 7 here", [](Form& f) { f.dtype = KVC_FLOAT16; }},
      {"block_size is 4 in the checkpoint and 8 here", [](Form& f) { f.block_size = 8; }},
      {"1 groups and the manager 2", [](Form& f) { f.num_groups = 2; }},
      {"scale_group", [](Form& f) { f.dtype = KVC_INT8; }},
  };
  for (const Refusal& refusal : refusals) {
    Form form;
    refusal.change(form);
    Engine fresh(form);
    const uint64_t before = fresh.digest();
    kvc_checkpoint_info info;
    EXPECT_EQ(fresh.restore(fresh.config(path), &info), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(kvc_last_error()).find(refusal.word), std::string::npos) << kvc_last_error();
    EXPECT_EQ(fresh.digest(), before);
    fresh.check();
    // A save there begins anew, or says why it cannot go on.
    fresh.run(say(2, 40));
    EXPECT_EQ(fresh.save(fresh.config(path, KVC_CHECKPOINT_INCREMENT), &info), KVC_ERROR_INVALID_ARGUMENT);
  }
  Engine windows([] {
    Form form;
    form.num_groups = 2, form.window = 9;
    return form;
  }());
  windows.run(say(1, 40));
  windows.save(folder / "w");
  Form other = windows.form;
  other.window = 13;
  Engine fresh(other);
  kvc_checkpoint_info info;
  EXPECT_EQ(fresh.restore(fresh.config(folder / "w"), &info), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("window_tokens is 9"), std::string::npos) << kvc_last_error();
}

TEST(Restore, NamesTheFieldOfPagesThatDiffers) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(Form{});
  old.pages.num_layers = 4, old.pages.num_heads = 4;
  old.pages.numerics = "n1", old.pages.numerics_size = 2;
  old.run(say(1, 40));
  old.save(path);
  struct {
    const char* word;
    std::function<void(kvc_page_config&)> change;
  } const cases[] = {
      {"model is \"model\" in the checkpoint and \"mo\" here", [](auto& pages) { pages.model_size = 2; }},
      {"numerics is \"n1\" in the checkpoint and \"n\" here", [](auto& pages) { pages.numerics_size = 1; }},
      {"first_head is 0 in the checkpoint and 2 here", [](auto& pages) { pages.first_head = 2; }},
      {"first_layer is 0 in the checkpoint and 1 here", [](auto& pages) { pages.first_layer = 1; }},
  };
  for (const auto& [word, change] : cases) {
    Engine fresh(Form{});
    fresh.pages = old.pages;
    change(fresh.pages);
    const uint64_t before = fresh.digest();
    kvc_checkpoint_info info;
    EXPECT_EQ(fresh.restore(fresh.config(path), &info), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(kvc_last_error()).find(word), std::string::npos) << kvc_last_error();
    EXPECT_EQ(fresh.digest(), before);
  }
}

TEST(Restore, NamesTheScaleThatDiffers) {
  const Folder folder;
  const std::string path = folder / "c";
  const auto use_scales = [](Engine& engine, float k_scale, float v_scale) {
    kvc_storage_config config = {};
    config.struct_size = sizeof config;
    config.num_blocks = 64, config.num_layers = 2, config.num_heads = 2, config.head_dim = 8;
    config.block_size = 4;
    config.dtype = KVC_INT8;
    config.k_scale = k_scale, config.v_scale = v_scale;
    kvc_storage_destroy(engine.storages[0]);
    ASSERT_EQ(kvc_storage_create(&config, &engine.storages[0]), KVC_OK) << kvc_last_error();
  };
  Engine old(Form{});
  use_scales(old, 0.5F, 0.25F);
  old.save(path);
  for (const auto& [k_scale, v_scale, word] :
       {std::tuple{0.75F, 0.25F, "k_scale is 0.5 in the checkpoint and 0.75 here"},
        std::tuple{0.5F, 0.75F, "v_scale is 0.25 in the checkpoint and 0.75 here"}}) {
    Engine fresh(Form{});
    use_scales(fresh, k_scale, v_scale);
    kvc_checkpoint_info info;
    EXPECT_EQ(fresh.restore(fresh.config(path), &info), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(kvc_last_error()).find(word), std::string::npos) << kvc_last_error();
  }
}

TEST(Save, OfOtherWeightsBeginsAnew) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(Form{});
  old.run(say(1, 40));
  old.save(path);
  Form form;
  form.weights = "w2";
  Engine other(form);
  other.run(say(1, 40));
  EXPECT_EQ(other.save(path).new_pages, 10u);
  Engine fresh(form);
  fresh.restore(path);
  EXPECT_EQ(fresh.check_pages(say(1, 40), 0), 10u);
  EXPECT_EQ(fresh.wrong, 0u);
}

TEST(Save, ChecksItsArguments) {
  const Folder folder;
  Engine old(Form{});
  const std::string path = folder / "c", deep = folder / "a/b";
  kvc_checkpoint_info info;
  const auto is_refused = [&](kvc_checkpoint_config config, kvc_status status, const char* word) {
    EXPECT_EQ(old.save(config, &info), status) << kvc_last_error();
    EXPECT_NE(std::string(kvc_last_error()).find(word), std::string::npos) << kvc_last_error();
  };
  kvc_checkpoint_config config = old.config(path);
  config.folder = nullptr;
  is_refused(config, KVC_ERROR_INVALID_ARGUMENT, "folder is NULL");
  config.folder = "";
  is_refused(config, KVC_ERROR_INVALID_ARGUMENT, "folder is empty");
  is_refused(old.config(deep), KVC_ERROR_NOT_FOUND, "a/b");
  is_refused(old.config(path, KVC_CHECKPOINT_INCREMENT), KVC_ERROR_NOT_FOUND, "has no checkpoint");
  is_refused(old.config(path, KVC_CHECKPOINT_INCREMENT | KVC_CHECKPOINT_FULL), KVC_ERROR_INVALID_ARGUMENT,
             "one of them");
  is_refused(old.config(path, 1u << 20), KVC_ERROR_INVALID_ARGUMENT, "0x100008");
  config = old.config(path);
  config.pages = nullptr;
  is_refused(config, KVC_ERROR_INVALID_ARGUMENT, "pages is NULL");
  config = old.config(path);
  config.id = 3;
  is_refused(config, KVC_ERROR_INVALID_ARGUMENT, "id is 3");
  config = old.config(path);
  config.codec = "nosuch";
  is_refused(config, KVC_ERROR_NOT_FOUND, "nosuch");
  config = old.config(path);
  EXPECT_EQ(kvc_checkpoint_save(old.m, old.storages.data(), 2, &config, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("num_storages is 2"), std::string::npos);
  EXPECT_TRUE(!fs::exists(path) || ids_of(path).empty());
}

TEST(AStorageOfADevice, IsRefused) {
  kvc_device_info device = {};
  device.struct_size = sizeof device;
  if (kvc_device_read_info("emulated", &device) != KVC_OK) GTEST_SKIP() << kvc_last_error();
  const Folder folder;
  Engine engine(Form{});
  engine.run(say(1, 30));
  engine.save(folder / "c");
  kvc_storage_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = 64, config.num_layers = 2, config.num_heads = 2, config.head_dim = 8;
  config.block_size = 4;
  config.dtype = KVC_BFLOAT16;
  config.device = "emulated";
  kvc_storage* storage = nullptr;
  ASSERT_EQ(kvc_storage_create(&config, &storage), KVC_OK) << kvc_last_error();
  Engine fresh(Form{});
  for (Engine* one : {&engine, &fresh}) {
    std::swap(one->storages[0], storage);
    const uint64_t before = one->digest();
    kvc_checkpoint_info info;
    EXPECT_EQ(one->save(one->config(folder / "d"), &info), KVC_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(kvc_last_error()).find("group 0 is of emulated"), std::string::npos)
        << kvc_last_error();
    EXPECT_EQ(one->restore(one->config(folder / "c"), &info), KVC_ERROR_UNSUPPORTED);
    EXPECT_EQ(one->digest(), before);
    std::swap(one->storages[0], storage);
  }
  EXPECT_FALSE(fs::exists(folder / "d"));
  kvc_storage_destroy(storage);
}

TEST(Save, IsNotDueBeforeItsTime) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(Form{});
  old.run(say(1, 40));
  kvc_checkpoint_config config = old.config(path);
  config.interval_ns = 1000, config.last_ns = 5000, config.now_ns = 5999;
  kvc_checkpoint_info info;
  EXPECT_EQ(old.save(config, &info), KVC_OK);
  EXPECT_EQ(info.id, 0u);
  EXPECT_FALSE(fs::exists(path));
  config.now_ns = 0;  // forgotten: it would never be due
  EXPECT_EQ(old.save(config, &info), KVC_ERROR_INVALID_ARGUMENT);
  config.now_ns = 6000;
  EXPECT_EQ(old.save(config, &info), KVC_OK);
  EXPECT_EQ(info.id, 1u);
  for (const uint64_t begun_anew :
       {uint64_t{1}, uint64_t{4999}}) {  // a clock that was less before is no reason to wait
    config.now_ns = begun_anew;
    EXPECT_EQ(old.save(config, &info), KVC_OK);
    EXPECT_NE(info.id, 0u);
  }
  config.now_ns = 5000;
  EXPECT_EQ(old.save(config, &info), KVC_OK);
  EXPECT_EQ(info.id, 0u);
}

TEST(AnEmptyManager, HasACheckpointToo) {
  const Folder folder;
  Engine old(Form{});
  const kvc_checkpoint_info saved = old.save(folder / "c");
  EXPECT_EQ(saved.num_pages + saved.num_files, 0u);
  Engine fresh(Form{});
  fresh.restore(folder / "c");
  EXPECT_EQ(fresh.digest(), old.digest());
  validate(folder / "c");
}

TEST(OneFolder, HasOneWriterAtATime) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(Form{});
  old.run(say(1, 40));
  old.save(path);
  OpenFile lock(system_files());
  ASSERT_EQ(lock.open(AT_FDCWD, (path + "/lock").c_str(), O_RDWR), 0);
  ASSERT_EQ(system_files().lock(lock.fd()), 0);
  kvc_checkpoint_info info = new_info();
  EXPECT_EQ(old.save(old.config(path), &info), KVC_ERROR_BUSY);
  EXPECT_EQ(kvc_checkpoint_remove(path.c_str(), 1), KVC_ERROR_BUSY);
  const kvc_checkpoint_config config = old.config(path);
  EXPECT_EQ(kvc_checkpoint_compact(&config, &info), KVC_ERROR_BUSY);
  validate(path);  // readers do not wait
  Engine fresh(Form{});
  EXPECT_EQ(fresh.restore(path).num_pages, 10u);
}

TEST(AFolderThatIsReadOnly, CanBeReadAndNotWritten) {
  const Folder folder;
  const std::string path = folder / "c";
  Engine old(Form{});
  old.run(say(1, 40));
  old.save(path);
  const auto seen = static_cast<fs::perms>(0555);
  fs::permissions(path, seen);
  fs::permissions(path + "/lock", fs::perms::none);
  fs::permissions(path + "/..", seen);
  const bool superuser = geteuid() == 0;  // who may write to it
  if (superuser && seteuid(65534) != 0) GTEST_SKIP() << "the superuser may write to it";
  validate(path);
  Engine fresh(Form{});
  fresh.restore(path);
  EXPECT_EQ(fresh.digest(), old.digest());
  kvc_checkpoint_info info;
  EXPECT_EQ(old.save(old.config(path), &info), KVC_ERROR_DEVICE);
  EXPECT_NE(std::string(kvc_last_error()).find("errno 13"), std::string::npos) << kvc_last_error();
  if (superuser) {
    ASSERT_EQ(seteuid(0), 0);
  }
  fs::permissions(path + "/..", fs::perms::owner_all);
  fs::permissions(path, fs::perms::owner_all);
}

TEST(Missing, FoldersAndFilesAreNamed) {
  const Folder folder;
  const std::string path = folder / "none";
  size_t count = 0;
  kvc_checkpoint_info info = new_info();
  EXPECT_EQ(kvc_checkpoint_list(path.c_str(), nullptr, 0, &count), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_checkpoint_read_info(path.c_str(), 0, &info), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_checkpoint_remove(path.c_str(), 1), KVC_ERROR_NOT_FOUND);
  EXPECT_FALSE(fs::exists(path)) << "reading makes no folder";
  Engine old(Form{});
  old.run(say(1, 40));
  old.save(path);
  EXPECT_EQ(kvc_checkpoint_read_info(path.c_str(), 7, &info), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_checkpoint_list(path.c_str(), nullptr, 0, &count), KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(count, 1u);
  fs::remove(path + "/00000000000000000001.kvcd");
  EXPECT_EQ(kvc_checkpoint_validate(path.c_str(), 1, &info), KVC_ERROR_CORRUPT);
  EXPECT_NE(std::string(kvc_last_error()).find("00000000000000000001.kvcd is missing"), std::string::npos)
      << kvc_last_error();
}

TEST(WhileOthersUseTheManager, WhatIsSavedIsRight) {
  const Folder folder;
  const std::string path = folder / "c";
  Form form;
  form.num_blocks = 200;
  Engine old(form);
  std::atomic<bool> ends{false};
  std::atomic<uint64_t> served{0};
  std::vector<Spoken> prompts;
  for (uint64_t i = 0; i < 60; ++i) prompts.push_back(say(i, 8 + i % 40));
  // The others need most of what is left: a save that holds more than a small part of it refuses them.
  const uint64_t running = old.begin(say(1000, 150 * form.block_size));
  std::thread serving([&] {
    for (uint64_t i = 0; !ends; ++i, ++served) old.run(prompts[i * 7 % prompts.size()]);
  });
  for (int i = 0; i < 20; ++i) {
    for (const uint64_t before = served; served < before + 20;) std::this_thread::yield();
    old.save(path, i % 4 == 0 ? uint32_t{KVC_CHECKPOINT_FULL} : 0u);
    Engine fresh(form);
    fresh.restore(path);
    fresh.check();
    for (const Spoken& prompt : prompts) fresh.check_pages(prompt, 0);
    ASSERT_EQ(fresh.wrong, 0u);
  }
  ends = true;
  serving.join();
  old.end(running);
  old.check();
  // How much is still there when it is written depends on who is faster, but not once nobody else is there.
  const kvc_checkpoint_info saved = old.save(path, KVC_CHECKPOINT_FULL);
  EXPECT_GT(saved.num_pages, 100u);
  EXPECT_EQ(saved.lost_blocks, 0u);
}

}  // namespace
}  // namespace kvc
