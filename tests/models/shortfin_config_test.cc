// SPDX-License-Identifier: Apache-2.0
// kvc_config_from_shortfin: files as sharktank writes them give the manager and the storages of their pages,
// with Shortfin's bytes; whatever else a file may hold gives an error that names key, value and remedy.
#include <gtest/gtest.h>
#include <kvcache/manager.h>
#include <kvcache/model.h>
#include <kvcache/storage.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvc {
namespace {

using ShortfinJson = nlohmann::json;

// Llama 3.1 8B on two devices: 20 and 12 layers.
constexpr const char* kTwoDevices = R"({
  "module_name": "module", "module_abi_version": 1, "max_seq_len": 131072, "attn_head_dim": 128,
  "prefill_batch_sizes": [1, 2, 4], "decode_batch_sizes": [4, 8], "transformer_block_count": 32,
  "logits_normalization": "log_softmax", "top_k": null, "has_prefill_position": true,
  "use_extend_attention": false, "attn_dtype": "float16",
  "paged_kv_cache": {"attention_head_count_kv": 8, "block_seq_stride": 32, "device_block_count": 512,
    "kv_cache_dtype": "bfloat16", "paged_kv_block_size_elements_per_device": [1310720, 786432]}})";

struct Read {
  kvc_manager_config manager = {};
  kvc_storage_config storage = {};
  uint32_t num_devices = 0;
};

kvc_status read_shortfin(const std::string& text, uint32_t device, Read* out) {
  out->manager.struct_size = sizeof out->manager, out->storage.struct_size = sizeof out->storage;
  return kvc_config_from_shortfin(text.data(), text.size(), device, &out->manager, &out->storage,
                                  &out->num_devices);
}

uint64_t block_bytes(const kvc_storage_config& config) {
  uint64_t bytes = 0;
  EXPECT_EQ(kvc_storage_size(&config, &bytes, nullptr), KVC_OK) << kvc_last_error();
  return bytes;
}

TEST(ShortfinConfig, GivesTheManagerAndTheStorageOfEachDevice) {
  const uint32_t layers[] = {20, 12};
  const uint64_t elements[] = {1310720, 786432};
  for (uint32_t device = 0; device < 2; ++device) {
    Read read;
    ASSERT_EQ(read_shortfin(kTwoDevices, device, &read), KVC_OK) << kvc_last_error();
    EXPECT_EQ(read.num_devices, 2u);
    EXPECT_EQ(read.manager.num_blocks, 512u);
    EXPECT_EQ(read.manager.block_size, 32u);
    EXPECT_EQ(read.manager.max_request_tokens, 131072u);
    EXPECT_EQ(read.storage.num_blocks, 512u);
    EXPECT_EQ(read.storage.block_size, 32u);
    EXPECT_EQ(read.storage.num_layers, layers[device]);
    EXPECT_EQ(read.storage.num_heads, 8u);
    EXPECT_EQ(read.storage.head_dim, 128u);
    EXPECT_EQ(read.storage.dtype, KVC_BFLOAT16);
    EXPECT_EQ(block_bytes(read.storage), elements[device] * 2) << "a page has other bytes than Shortfin's";
    kvc_manager* m = nullptr;
    ASSERT_EQ(kvc_manager_create(&read.manager, &m), KVC_OK) << kvc_last_error();
    kvc_manager_destroy(m);
  }
}

// Shortfin's page is [layer][key, value][head][token][element].
TEST(ShortfinConfig, AStorageHasShortfinsPages) {
  Read read;
  ASSERT_EQ(read_shortfin(kTwoDevices, 1, &read), KVC_OK) << kvc_last_error();
  read.storage.num_blocks = 3;
  kvc_storage* s = nullptr;
  ASSERT_EQ(kvc_storage_create(&read.storage, &s), KVC_OK) << kvc_last_error();
  kvc_storage_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_storage_properties(s, &info), KVC_OK);
  for (const int32_t plane : {KVC_PLANE_K, KVC_PLANE_V}) {
    for (const uint32_t layer : {0u, 11u}) {
      kvc_view view = {};
      ASSERT_EQ(kvc_storage_view(s, plane, layer, &view), KVC_OK) << kvc_last_error();
      const int64_t row = 128 * 2, head = 32 * row, half = 8 * head;
      EXPECT_EQ(static_cast<char*>(view.data) - static_cast<char*>(info.data), (2 * layer + plane) * half);
      EXPECT_EQ(std::vector<int64_t>(view.strides, view.strides + 4),
                (std::vector<int64_t>{12 * 2 * half, head, row, 2}));
    }
  }
  kvc_storage_destroy(s);
}

TEST(ShortfinConfig, SetsItsFieldsAndNoOther) {
  Read read;
  read.manager.vocab_size = 1000, read.manager.max_requests = 7;
  read.storage.num_threads = 3, read.storage.alignment = 128, read.storage.device = "cpu";
  ASSERT_EQ(read_shortfin(kTwoDevices, 0, &read), KVC_OK) << kvc_last_error();
  EXPECT_EQ(read.manager.vocab_size, 1000u);
  EXPECT_EQ(read.manager.max_requests, 7u);
  EXPECT_EQ(read.storage.num_threads, 3u);
  EXPECT_EQ(read.storage.alignment, 128u);
  EXPECT_STREQ(read.storage.device, "cpu");
  const size_t size = std::strlen(kTwoDevices);
  EXPECT_EQ(kvc_config_from_shortfin(kTwoDevices, size, 0, nullptr, nullptr, nullptr), KVC_OK);
  read.storage.struct_size = 8;
  EXPECT_EQ(kvc_config_from_shortfin(kTwoDevices, size, 0, &read.manager, &read.storage, nullptr),
            KVC_ERROR_INVALID_ARGUMENT);
}

TEST(ShortfinConfig, OldFilesHaveOneDeviceAndTheTypeOfAttention) {
  ShortfinJson config = ShortfinJson::parse(kTwoDevices);
  config["paged_kv_cache"].erase("kv_cache_dtype");
  config["paged_kv_cache"]["paged_kv_block_size_elements_per_device"] = nullptr;
  config["attn_dtype"] = "float8_e5m2";
  Read read;
  ASSERT_EQ(read_shortfin(config.dump(), 0, &read), KVC_OK) << kvc_last_error();
  EXPECT_EQ(read.storage.dtype, KVC_FLOAT8_E5M2);
  EXPECT_EQ(read.storage.num_layers, 32u);
  EXPECT_EQ(read.num_devices, 1u);
  config.erase("attn_dtype");
  ASSERT_EQ(read_shortfin(config.dump(), 0, &read), KVC_OK) << kvc_last_error();
  EXPECT_EQ(read.storage.dtype, KVC_FLOAT16);
}

TEST(ShortfinConfig, IsAModelToo) {
  kvc_model model = {};
  model.struct_size = sizeof model;
  ASSERT_EQ(kvc_model_from_config(kTwoDevices, std::strlen(kTwoDevices), &model), KVC_OK) << kvc_last_error();
  EXPECT_STREQ(model.name, "module");
  EXPECT_EQ(model.num_layers, 32u);
  EXPECT_EQ(model.max_context, 131072u);
  kvc_memory_query query = {};
  query.struct_size = sizeof query, query.model = &model, query.dtype = KVC_BFLOAT16, query.block_size = 32;
  kvc_memory_estimate estimate = {};
  estimate.struct_size = sizeof estimate;
  ASSERT_EQ(kvc_estimate_memory(&query, &estimate), KVC_OK) << kvc_last_error();
  EXPECT_EQ(estimate.full_block_bytes, (1310720u + 786432u) * 2u);
}

struct Refusal {
  const char* path;   // of what changes
  const char* value;  // JSON; nullptr = the key is missing
  const char* text;   // in the error
};

TEST(ShortfinConfig, WrongValuesAreRefusedWithTheirNameAndTheFix) {
  const char* elements = "/paged_kv_cache/paged_kv_block_size_elements_per_device";
  const Refusal refusals[] = {
      {"/max_seq_len", nullptr, "\"max_seq_len\" is missing"},
      {"/max_seq_len", "0", "\"max_seq_len\" is 0; give a whole number from 1 to 1073741824"},
      {"/max_seq_len", "\"long\"", "\"max_seq_len\" is \"long\""},
      {"/attn_head_dim", "128.5", "\"attn_head_dim\" is 128.5"},
      {"/attn_head_dim", "9000", "from 1 to 8192"},
      {"/transformer_block_count", "513",
       "\"transformer_block_count\" is 513; give a whole number from 1 to 512"},
      {"/transformer_block_count", "-1", "is -1"},
      {"/module_name", "3", "\"module_name\" is 3; give a string"},
      {"/paged_kv_cache", "[]", "\"paged_kv_cache\" is an array of 0; give an object"},
      {"/paged_kv_cache", "null", "\"paged_kv_cache\" is missing"},
      {"/paged_kv_cache/block_seq_stride", "1025", "\"paged_kv_cache.block_seq_stride\" is 1025"},
      {"/paged_kv_cache/block_seq_stride", nullptr, "\"paged_kv_cache.block_seq_stride\" is missing"},
      {"/paged_kv_cache/device_block_count", "2147483583", "from 1 to 2147483582"},
      {"/paged_kv_cache/device_block_count", "true", "is true"},
      {"/paged_kv_cache/attention_head_count_kv", "null",
       "\"paged_kv_cache.attention_head_count_kv\" is null"},
      {"/paged_kv_cache/kv_cache_dtype", "\"int8\"", "is \"int8\"; stored are float32, float16, bfloat16"},
      {"/paged_kv_cache/kv_cache_dtype", "\"float8_e4m3fnuz\"",
       "\"paged_kv_cache.kv_cache_dtype\" is \"float8_e4m3fnuz\""},
      {"/paged_kv_cache/kv_cache_dtype", "16", "is 16; give a string"},
      {elements, "1310720", "is 1310720; give the elements of a page for each of 1 .. 64 devices"},
      {elements, "[]", "is an array of 0"},
      {elements, "[1310720, 786433]", "_per_device[1]\" is 786433; give a multiple of the 65536 elements"},
      {elements, "[1310720, \"x\"]", "_per_device[1]\" is \"x\""},
      {elements, "[1310720]", "_per_device\" has 20 layers; give"},
      {elements, "[1310720, 851968]", "_per_device[1]\" is 851968"},
      {elements, "[1048576, 1048576, 0]", "_per_device[2]\" is 0"}};
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(std::string(refusal.path) + ": " + (refusal.value == nullptr ? "missing" : refusal.value));
    ShortfinJson config = ShortfinJson::parse(kTwoDevices);
    const ShortfinJson::json_pointer path(refusal.path);
    if (refusal.value == nullptr) {
      config[path.parent_pointer()].erase(path.back());
    } else {
      config[path] = ShortfinJson::parse(refusal.value);
    }
    Read read;
    EXPECT_EQ(read_shortfin(config.dump(), 0, &read), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(kvc_last_error()).find(refusal.text), std::string::npos) << kvc_last_error();
    EXPECT_EQ(read.manager.num_blocks + read.storage.num_layers + read.num_devices, 0u) << "it wrote";
  }
}

TEST(ShortfinConfig, NoPartOfAFileIsAFile) {
  const std::string whole = kTwoDevices;
  for (size_t size = 0; size < whole.size(); ++size) {
    Read read;
    ASSERT_EQ(read_shortfin(whole.substr(0, size), 0, &read), KVC_ERROR_INVALID_ARGUMENT) << size;
    ASSERT_NE(std::strstr(kvc_last_error(), "not JSON"), nullptr) << kvc_last_error();
  }
  Read read;
  EXPECT_EQ(read_shortfin("[1]", 0, &read), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(kvc_last_error(), "sharktank"), nullptr) << kvc_last_error();
  EXPECT_EQ(read_shortfin(kTwoDevices, 2, &read), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(kvc_last_error(), "device is 2; the file has 2 devices"), nullptr)
      << kvc_last_error();
  EXPECT_EQ(kvc_config_from_shortfin(nullptr, 1, 0, nullptr, nullptr, nullptr), KVC_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace kvc
