// SPDX-License-Identifier: Apache-2.0
// Every refusal of a memory estimate: the text names the field, its value and the limit, and nothing is
// written.
#include <cmath>
#include <cstring>
#include <string>

#include "calls.h"
#include "models/memory_questions.h"

namespace kvc {
namespace {

class Refused : public ::testing::Test {
 protected:
  void expect_refused(const char* text, kvc_status status = KVC_ERROR_INVALID_ARGUMENT) {
    kvc_memory_estimate out;
    std::memset(&out, 0xee, sizeof out);
    out.struct_size = sizeof out;
    const kvc_memory_estimate before = out;
    EXPECT_EQ(kvc_estimate_memory(&query_, &out), status);
    EXPECT_NE(std::string(kvc_last_error()).find(text), std::string::npos) << kvc_last_error();
    EXPECT_EQ(std::memcmp(&out, &before, sizeof out), 0) << "a failed call writes nothing";
    model_ = grouped(32, 8, 128);
    query_ = question(model_);
  }
  kvc_model model_ = grouped(32, 8, 128);
  kvc_memory_query query_ = question(model_);
};

TEST_F(Refused, FieldsOutOfRange) {
  model_.num_layers = 0, expect_refused("model.num_layers is 0; it may be 1 .. 512");
  model_.num_layers = 513, expect_refused("513");
  model_.num_kv_heads = 0, expect_refused("model.num_kv_heads is 0");
  model_.num_kv_heads = 65'537, expect_refused("65537");
  model_.head_dim = 0, expect_refused("model.head_dim is 0");
  model_.v_head_dim = UINT32_MAX, expect_refused("model.v_head_dim is 4294967295; it may be 0 .. 65536");
  model_.latent_dim = 65'537, expect_refused("model.latent_dim");
  model_.latent_dim = 576, expect_refused("set it to 1");
  model_.num_q_heads = 12, expect_refused("multiple of num_kv_heads, 8");
  model_.window_layers[0] = 1, expect_refused("window_tokens is 0");
  model_.window_tokens = 9, model_.window_layers[0] = uint64_t{1} << 32, expect_refused("layer 32 of 32");
  model_.window_tokens = 9, model_.window_layers[7] = uint64_t{1} << 63, expect_refused("layer 511 of 32");
  model_.max_context = 0, expect_refused("query.tokens and model.max_context are both 0");
  query_.block_size = 1025, expect_refused("query.block_size is 1025; it may be 0 .. 1024");
  query_.dtype = KVC_INT32, expect_refused("query.dtype is 3 (int32)");
  query_.dtype = -1, expect_refused("query.dtype is -1");
  query_.dtype = KVC_UINT8, expect_refused("(uint8)");
  query_.dtype = KVC_INT64, expect_refused("(int64)");
  query_.dtype = KVC_UINT64, expect_refused("(uint64)");
  query_.dtype = KVC_FLOAT32, query_.scale_group = 8, expect_refused("fp32 has no scales");
  query_.dtype = KVC_FLOAT8_E5M2, query_.asymmetric = 1, expect_refused("no scales with fp8_e5m2: set");
  query_.scale_group = 64, expect_refused("fp16 has no scales");
  query_.asymmetric = 1, expect_refused("query.asymmetric is 1");
  query_.asymmetric = 2, expect_refused("query.asymmetric is 2");
  query_.dtype = KVC_FLOAT8_E4M3, query_.asymmetric = 1, expect_refused("set scale_group");
  query_.memory_fraction = -0.5f, expect_refused("query.memory_fraction is -0.5; above 0 and at most 1");
  query_.memory_fraction = 1.5f, expect_refused("query.memory_fraction is 1.5");
  query_.memory_fraction = std::nanf(""), expect_refused("query.memory_fraction is nan");
  query_.memory_fraction = 0.5f, query_.budget_bytes = 7, expect_refused("0.5 and query.budget_bytes 7");
  query_.memory_fraction = 0.5f, query_.device = "cpu:7", expect_refused("cpu:7", KVC_ERROR_NOT_FOUND);
  query_.tensor_scales = 2, expect_refused("query.tensor_scales is 2");
  query_.tensor_scales = 1, expect_refused("query.tensor_scales is 1");
  query_.dtype = KVC_INT8, query_.tensor_scales = 1, query_.scale_group = 8,
  expect_refused("no other scales");
  query_.dtype = KVC_INT8, query_.tensor_scales = 1, query_.asymmetric = 1, expect_refused("no other scales");
  query_.channel_keys = 2, expect_refused("query.channel_keys is 2");
  query_.channel_keys = 1, expect_refused("not fp16");
  query_.dtype = KVC_INT8, query_.channel_keys = 1, query_.tensor_scales = 1,
  expect_refused("no other scales");
  query_.dtype = KVC_INT8, query_.channel_tokens = 4, expect_refused("query.channel_tokens is 4");
  query_.dtype = KVC_INT8, query_.channel_keys = 1, query_.channel_tokens = 5,
  expect_refused("a divisor of block_size, 16");
  query_.dtype = KVC_INT8, query_.channel_keys = 1, model_.latent_dim = 64, model_.num_kv_heads = 1,
  expect_refused("without latent rows");
  query_.model = nullptr, expect_refused("model is NULL");
}

TEST_F(Refused, StateLayersThatContradict) {
  add_states(model_, uint64_t{1} << 32), expect_refused("state_layers names layer 32 of 32 layers");
  add_states(model_, 6), model_.window_tokens = 64, model_.window_layers[0] = 12,
                         expect_refused("state_layers and window_layers both name layer 2");
  add_states(model_, 1), model_.conv_elements = model_.recurrent_elements = 0,
                         expect_refused("names 1 layers, but conv_elements and recurrent_elements are 0");
  add_states(model_, 0), expect_refused("conv_elements is 30 and model.recurrent_elements 70, but");
  add_states(model_, 1), model_.conv_elements = (uint64_t{1} << 32) + 1,
                         expect_refused("model.conv_elements is 4294967297; it may be 0 .. 4294967296");
  add_states(model_, 1), model_.recurrent_elements = UINT64_MAX,
                         expect_refused("model.recurrent_elements is");
  add_states(model_, 0xffffffff), model_.window_tokens = 64,
                                  expect_refused("window_tokens is 64, but all 32 layers have a state");
  add_states(model_, 0x7fffffff), model_.head_dim = 0, expect_refused("model.head_dim is 0; it may be 1");
  add_states(model_, 0xffffffff), model_.num_kv_heads = 0, model_.num_q_heads = 4,
                                  expect_refused("num_q_heads is 4");
  add_states(model_, 1), query_.checkpoint_tokens = 24,
                         expect_refused("query.checkpoint_tokens is 24; 0 or a multiple of block_size, 16");
  model_.window_tokens = 64, query_.retention_tokens = 24,
  expect_refused("query.retention_tokens is 24; 0, a multiple of block_size, 16, or above 2^32 for none");
  add_states(model_, 1), query_.conv_dtype = KVC_INT8, expect_refused("query.conv_dtype is");
  add_states(model_, 1), query_.recurrent_dtype = -7,
                         expect_refused("query.recurrent_dtype is -7 (?); a state is stored as fp32");
}

TEST_F(Refused, CrossAttentionThatIsHalfGiven) {
  add_encoder(model_, 0), expect_refused("model.cross_tokens is 0 with num_cross_layers 32; it may be 1 ..");
  add_encoder(model_, 9), model_.cross_kv_heads = 0, expect_refused("cross_kv_heads is 0 with");
  add_encoder(model_, 9), model_.cross_kv_heads = 65'537, expect_refused("it may be 1 .. 65536");
  add_encoder(model_, 9), model_.cross_head_dim = 0, expect_refused("cross_head_dim is 0 with");
  add_encoder(model_, 9), model_.num_cross_layers = 0,
                          expect_refused("model.cross_tokens is 9, but num_cross_layers is 0; set both");
  model_.cross_kv_heads = 1, expect_refused("model.cross_kv_heads is 1, but");
  model_.cross_head_dim = 1, expect_refused("model.cross_head_dim is 1, but");
  model_.num_cross_layers = 513, expect_refused("num_cross_layers is 513; it may be 0 .. 512");
  model_.window_kind = 3, expect_refused("window_kind is 3; it is 0, 1", KVC_ERROR_UNSUPPORTED);
  add_encoder(model_, UINT64_MAX), expect_refused("fewer tokens");
}

TEST_F(Refused, ResultsPast64Bits) {
  query_.tokens = UINT64_MAX, expect_refused("18446744073709551615 tokens");
  query_.num_sequences = UINT64_MAX, expect_refused("18446744073709551615 sequences of 1073741824 bytes");
  query_.tokens = uint64_t{1} << 47, expect_refused("fewer tokens");
  query_.num_sequences = uint64_t{1} << 34, expect_refused("fewer sequences");
  // Each kind of layer alone is countable, both together are not; then those with a window alone are too
  // many.
  model_.window_tokens = uint64_t{1} << 60, model_.window_layers[0] = 0xffff;
  query_.tokens = uint64_t{1} << 47, expect_refused("fewer tokens");
  model_.window_tokens = uint64_t{1} << 60;
  query_.tokens = uint64_t{1} << 48, expect_refused("fewer tokens");
  // The keys of an open block are what is too much.
  model_.v_head_dim = 1;
  query_.dtype = KVC_INT8, query_.channel_keys = 1, query_.tokens = 16;
  const kvc_memory_estimate one = estimate(query_);
  ASSERT_LT(one.full_block_bytes, one.residual_bytes);
  query_.tokens = UINT64_MAX / one.full_block_bytes * 16, expect_refused("fewer tokens");
}

TEST_F(Refused, NothingElse) {
  model_.window_tokens = (uint64_t{1} << 63) + 1;  // spans more blocks than can be counted
  query_.block_size = 1, query_.chunk_tokens = uint64_t{1} << 63, query_.tokens = 100;
  EXPECT_EQ(estimate(query_).window_blocks, 100u);
  model_ = grouped(32, 8, 128);
  query_ = question(model_);
  query_.num_sequences = (uint64_t{1} << 34) - 1;
  EXPECT_EQ(estimate(query_).total_bytes, UINT64_MAX - 1'073'741'823u);
  model_ = grouped(512, 65'536, 65'536);
  query_ = question(model_);
  query_.dtype = KVC_INT8, query_.scale_group = 1, query_.asymmetric = 1;
  query_.block_size = 1024;
  query_.tokens = 1;
  EXPECT_EQ(estimate(query_).total_bytes, uint64_t{1024} * 512 * 65'536 * 2 * 65'536 * 9);
  kvc_memory_estimate out = {};
  out.struct_size = sizeof out;
  EXPECT_EQ(kvc_estimate_memory(nullptr, &out), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_estimate_memory(&query_, nullptr), KVC_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace kvc
