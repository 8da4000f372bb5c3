// SPDX-License-Identifier: Apache-2.0
// Rotary embedding through the C API against stored vectors (rope_vectors.py): frequencies of every scaling,
// tables, and rows of every type, pairing and place.
#include <gtest/gtest.h>
#include <kvcache/model.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <random>

#include "models/rope_vectors.h"
#include "quant/convert.h"

namespace kvc::test {
namespace {

constexpr uint32_t kInterleaved = KVC_ROPE_ROWS_INTERLEAVED;

kvc_model model_of(const RopeVector& v) {
  kvc_model model = {};
  model.struct_size = sizeof model;
  model.num_layers = 1;
  model.head_dim = v.head_dim, model.rope_dim = v.rope_dim;
  model.max_context = v.context, model.rope_original_context = v.original;
  model.rope_scaling = v.scaling, model.rope_flags = v.flags;
  model.rope_theta = v.theta, model.rope_factor = v.factor;
  model.rope_low_rotations = v.slow, model.rope_high_rotations = v.fast,
  model.rope_attention_factor = v.attention;
  return model;
}

kvc_model preset(const char* name) {
  kvc_model model = {};
  model.struct_size = sizeof model;
  EXPECT_EQ(kvc_model_find(name, &model), KVC_OK) << kvc_last_error();
  return model;
}

struct Rope {
  explicit Rope(const kvc_model& model, uint32_t layer = 0, uint64_t length = 0,
                const double* factors = nullptr) {
    frequencies.resize(model.rope_dim / 2);
    EXPECT_EQ(kvc_model_rope(&model, layer, length, factors, frequencies.data(), frequencies.size(),
                             &attention_factor),
              KVC_OK)
        << kvc_last_error();
  }
  std::vector<float> table(const std::vector<int64_t>& positions) const {
    std::vector<float> out(positions.size() * frequencies.size() * 2);
    EXPECT_EQ(kvc_rope_table(frequencies.data(), frequencies.size(), attention_factor, positions.data(),
                             positions.size(), out.data()),
              KVC_OK)
        << kvc_last_error();
    return out;
  }
  std::vector<double> frequencies;
  double attention_factor = 0;
};

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted, double relative,
                 const char* name) {
  ASSERT_EQ(got.size(), wanted.size()) << name;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], relative * std::abs(wanted[i])) << name << ", pair " << i;
}

const RopeVector& vector_of(const char* name) {
  for (const RopeVector& v : kRopeVectors)
    if (std::strcmp(v.name, name) == 0) return v;
  ADD_FAILURE() << "no vector " << name;
  return kRopeVectors[0];
}

TEST(RopeFrequencies, EqualTheStoredVectors) {
  ASSERT_EQ(kRopeVectors.size(), 12u);
  for (const RopeVector& v : kRopeVectors) {
    const Rope rope(model_of(v), 0, v.length, v.factors.empty() ? nullptr : v.factors.data());
    expect_near(rope.frequencies, v.frequencies, 1e-13, v.name);
    EXPECT_NEAR(rope.attention_factor, v.attention_factor, 1e-14) << v.name;
    if (v.transformers.empty()) continue;
    expect_near(rope.frequencies, v.transformers, 4e-6, v.name);
    EXPECT_NEAR(rope.attention_factor, v.transformers_factor, 1e-14) << v.name;
  }
}

TEST(RopeFrequencies, OfThePresets) {
  for (const char* name : {"llama-3-8b", "deepseek-v3", "gpt-oss-20b", "llama-3.1-8b", "llama-3.2-1b"}) {
    const Rope rope(preset(name));
    expect_near(rope.frequencies, vector_of(name).frequencies, 1e-13, name);
    EXPECT_NEAR(rope.attention_factor, vector_of(name).attention_factor, 1e-14) << name;
  }
}

TEST(RopeFrequencies, LayersWithAWindowMayHaveABaseOfTheirOwn) {
  const kvc_model model = preset("gemma-3-4b");
  const Rope local(model, 0), full(model, 5);
  EXPECT_DOUBLE_EQ(local.frequencies[1], std::pow(1e4, -1.0 / 128));
  EXPECT_DOUBLE_EQ(full.frequencies[1], std::pow(1e6, -1.0 / 128) / 8);
  kvc_model one_base = model;
  one_base.rope_local_theta = 0;
  EXPECT_EQ(Rope(one_base, 0).frequencies, full.frequencies);
  kvc_model all_windows = model;  // no layer named: each has the window
  std::memset(all_windows.window_layers, 0, sizeof all_windows.window_layers);
  EXPECT_EQ(Rope(all_windows, 5).frequencies, local.frequencies);
  all_windows.window_tokens = 0;
  EXPECT_EQ(Rope(all_windows, 0).frequencies, full.frequencies);
}

TEST(RopeFrequencies, ARopeDimOf0IsTheHead) {
  kvc_model model = preset("llama-3-8b");
  model.rope_dim = 0;
  std::vector<double> frequencies(64);
  double factor = 0;
  ASSERT_EQ(kvc_model_rope(&model, 0, 0, nullptr, frequencies.data(), 64, &factor), KVC_OK);
  expect_near(frequencies, vector_of("llama-3-8b").frequencies, 1e-13, "llama-3-8b");
}

// A factor that stretches nothing leaves the frequencies as they are trained, and products as large.
TEST(RopeFrequencies, OfAFactorOfOneAreThoseWithoutScaling) {
  kvc_model model = preset("llama-3-8b");
  model.rope_dim = model.head_dim;
  const Rope plain(model);
  model.rope_factor = 1, model.rope_original_context = 4096;
  for (const uint32_t scaling : {KVC_ROPE_LINEAR, KVC_ROPE_DYNAMIC, KVC_ROPE_YARN, KVC_ROPE_LLAMA3}) {
    model.rope_scaling = scaling;
    const Rope scaled(model);
    EXPECT_EQ(scaled.attention_factor, 1);
    for (size_t i = 0; i < plain.frequencies.size(); ++i)
      EXPECT_DOUBLE_EQ(scaled.frequencies[i], plain.frequencies[i]) << "scaling " << scaling << ", " << i;
  }
}

// Llama 4: every fourth layer sees positions by its mask alone.
TEST(RopeFrequencies, OfLayersThatDoNotRotateAreZero) {
  const kvc_model model = preset("llama-4-scout");
  const Rope still(model, 3), rotating(model, 2);
  EXPECT_EQ(still.attention_factor, 1);
  EXPECT_EQ(still.frequencies, std::vector<double>(64, 0.0));
  // With equal ends of the ramp a pair is unchanged or divided by the factor.
  const double turns = 8192 / (2 * std::numbers::pi);
  for (size_t i = 0; i < rotating.frequencies.size(); ++i) {
    const double plain = std::pow(5e5, -static_cast<double>(i) / 64);
    EXPECT_DOUBLE_EQ(rotating.frequencies[i], turns * plain > 1 ? plain : plain / 16) << i;
  }
}

// The base of dynamic scaling grows from the trained context on, which may be called either way.
TEST(RopeFrequencies, OfDynamicScalingTakeTheContextFromEitherField) {
  kvc_model model = preset("llama-3-8b");
  model.rope_dim = model.head_dim;
  model.rope_scaling = KVC_ROPE_DYNAMIC, model.rope_factor = 2;
  model.max_context = 4096, model.rope_original_context = 0;
  const Rope from_context(model, 0, 8192);
  EXPECT_NE(from_context.frequencies, Rope(model, 0, 4096).frequencies);
  model.max_context = 100000, model.rope_original_context = 4096;
  EXPECT_EQ(from_context.frequencies, Rope(model, 0, 8192).frequencies);
}

// Where slowing down would begin and end at one pair, that pair and those before it are kept.
TEST(RopeFrequencies, OfYarnWithoutARampStayFinite) {
  kvc_model model = preset("llama-3-8b");
  model.rope_dim = model.head_dim;
  model.rope_scaling = KVC_ROPE_YARN, model.rope_factor = 4, model.rope_original_context = 6;
  const Rope rope(model);  // no pair turns once within six tokens: the ramp is empty
  for (const double frequency : rope.frequencies) EXPECT_TRUE(std::isfinite(frequency) && frequency > 0);
  model.rope_scaling = KVC_ROPE_NONE;
  const Rope plain(model);
  EXPECT_EQ(rope.frequencies[0], plain.frequencies[0]);
  EXPECT_DOUBLE_EQ(rope.frequencies[1], plain.frequencies[1] / 4);
}

TEST(RopeFrequencies, BadModelsAreRefused) {
  std::vector<double> frequencies(64, -7);
  double factor = 98;
  std::vector<double> factors(48, 1);
  const auto refused = [&](const char* name, auto&& change, kvc_status status = KVC_ERROR_INVALID_ARGUMENT,
                           uint32_t layer = 0, bool give_factors = false) {
    kvc_model model = preset(name);
    change(model);
    EXPECT_EQ(kvc_model_rope(&model, layer, 0, give_factors ? factors.data() : nullptr, frequencies.data(),
                             64, &factor),
              status)
        << kvc_last_error();
    EXPECT_EQ(frequencies, std::vector<double>(64, -7));
    EXPECT_EQ(factor, 98);
  };
  using M = kvc_model;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused("llama-3-8b", [](M& m) { m.struct_size = 8; });
  refused(
      "llama-3-8b", [](M&) {}, KVC_ERROR_INVALID_ARGUMENT, 32);
  refused(
      "llama-3-8b", [](M& m) { m.num_layers = 1000; }, KVC_ERROR_INVALID_ARGUMENT, 600);
  refused("llama-3-8b", [](M& m) { m.rope_dim = 63; });
  refused("llama-3-8b", [](M& m) { m.rope_dim = m.head_dim = 0; });
  refused("llama-3-8b", [](M& m) { m.rope_dim = 65538; });
  for (const double bad : {0.0, -1.0, nan, HUGE_VAL, 1e308, 1e31, 1e-31, 5e-324}) {
    refused("llama-3-8b", [&](M& m) { m.rope_theta = bad; });
    if (bad != 0) refused("llama-3-8b", [&](M& m) { m.rope_attention_factor = bad; });
    if (bad != 0) refused("llama-3.1-8b", [&](M& m) { m.rope_high_rotations = bad; });
    for (const uint32_t scaling : {KVC_ROPE_LINEAR, KVC_ROPE_DYNAMIC, KVC_ROPE_YARN, KVC_ROPE_LLAMA3})
      refused("llama-3.1-8b", [&](M& m) { m.rope_scaling = scaling, m.rope_factor = bad; });
  }
  refused("gemma-3-4b", [&](M& m) { m.rope_local_theta = nan; });
  refused(
      "gemma-3-4b", [](M& m) { m.rope_factor = 0; }, KVC_ERROR_INVALID_ARGUMENT, 5);
  refused("llama-3-8b", [](M& m) { m.rope_attention_factor = -1; });
  refused(
      "llama-3-8b", [](M& m) { m.rope_scaling = 6; }, KVC_ERROR_UNSUPPORTED);
  refused(
      "llama-3-8b", [](M& m) { m.rope_flags = 4; }, KVC_ERROR_UNSUPPORTED);
  refused("llama-3.1-8b", [](M& m) { m.rope_original_context = 0; });
  refused("llama-3.1-8b", [](M& m) { m.rope_low_rotations = 5; });
  refused("llama-3.1-8b", [](M& m) { m.rope_high_rotations = -5; });
  refused("llama-3.1-8b", [&](M& m) { m.rope_low_rotations = nan; });
  refused("deepseek-v3", [](M& m) { m.rope_original_context = 1; });
  refused("deepseek-v3", [](M& m) { m.rope_theta = 1; });
  refused(
      "phi-4-mini", [](M&) {}, KVC_ERROR_UNSUPPORTED);
  factors[47] = HUGE_VAL;
  refused(
      "phi-4-mini", [](M&) {}, KVC_ERROR_INVALID_ARGUMENT, 0, true);
  factors[47] = 0;
  refused(
      "phi-4-mini", [](M&) {}, KVC_ERROR_INVALID_ARGUMENT, 0, true);
  refused("llama-3-8b",
          [](M& m) { m.rope_scaling = KVC_ROPE_DYNAMIC, m.rope_factor = 2, m.max_context = 0; });
  refused("llama-3-8b", [](M& m) { m.rope_scaling = KVC_ROPE_DYNAMIC, m.rope_factor = 2, m.rope_dim = 2; });

  const kvc_model model = preset("llama-3-8b");
  for (const size_t wrong : {0, 63, 65}) {
    EXPECT_EQ(kvc_model_rope(&model, 0, 0, nullptr, frequencies.data(), wrong, &factor),
              KVC_ERROR_INVALID_ARGUMENT);
  }
  EXPECT_EQ(frequencies, std::vector<double>(64, -7));
  EXPECT_EQ(kvc_model_rope(nullptr, 0, 0, nullptr, frequencies.data(), 64, &factor),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_model_rope(&model, 0, 0, nullptr, nullptr, 64, &factor), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_model_rope(&model, 0, 0, nullptr, frequencies.data(), 64, nullptr),
            KVC_ERROR_INVALID_ARGUMENT);
}

// The largest and smallest numbers that are taken give frequencies and tables of numbers.
TEST(ModelRope, NumbersAtTheLimitsGiveNumbers) {
  std::vector<double> frequencies(64);
  std::vector<float> table(128);
  const std::vector<double> factors(64, 1e-30);
  for (const uint32_t scaling :
       {KVC_ROPE_NONE, KVC_ROPE_LINEAR, KVC_ROPE_DYNAMIC, KVC_ROPE_YARN, KVC_ROPE_LLAMA3, KVC_ROPE_LONGROPE})
    for (const double theta : {1e-30, 1 + 1e-15, 5e5, 1e30})
      for (const double factor : {1e-30, 1.0, 8.0, 1e30})
        for (const uint32_t dim : {4u, 128u})
          for (const uint64_t length : {uint64_t{0}, uint64_t{100000}, UINT64_MAX}) {
            kvc_model model = preset("llama-3.1-8b");
            model.rope_scaling = scaling, model.rope_theta = theta, model.rope_factor = factor;
            model.rope_dim = dim;
            double attention;
            ASSERT_EQ(
                kvc_model_rope(&model, 0, length, factors.data(), frequencies.data(), dim / 2, &attention),
                KVC_OK)
                << kvc_last_error();
            EXPECT_TRUE(std::isfinite(attention));
            bool small = true;
            for (size_t i = 0; i < dim / 2; ++i) {
              EXPECT_TRUE(std::isfinite(frequencies[i])) << scaling << ' ' << theta << ' ' << factor;
              small = small && frequencies[i] <= 1e30;
            }
            const int64_t far = int64_t{1} << 40;
            if (!small) continue;
            ASSERT_EQ(kvc_rope_table(frequencies.data(), dim / 2, attention, &far, 1, table.data()), KVC_OK);
            for (size_t i = 0; i < dim; ++i) EXPECT_TRUE(std::isfinite(table[i]));
          }
}

TEST(RopeTable, CosinesAndSinesAtAnyPosition) {
  const Rope rope(preset("gpt-oss-20b"));
  const std::vector<int64_t> positions = {0, 1, 131071, 1000003, -5};
  const std::vector<float> table = rope.table(positions);
  for (size_t n = 0; n < positions.size(); ++n)
    for (size_t i = 0; i < 32; ++i) {
      const long double angle = static_cast<long double>(rope.frequencies[i]) * positions[n];
      EXPECT_NEAR(table[n * 64 + i], static_cast<double>(std::cos(angle)) * rope.attention_factor, 1e-7);
      EXPECT_NEAR(table[n * 64 + 32 + i], static_cast<double>(std::sin(angle)) * rope.attention_factor, 1e-7);
    }
  std::vector<float> first(3 * 64);
  ASSERT_EQ(kvc_rope_table(rope.frequencies.data(), 32, rope.attention_factor, nullptr, 3, first.data()),
            KVC_OK);
  EXPECT_EQ(first, rope.table({0, 1, 2}));
}

TEST(RopeTable, BadArgumentsAreRefused) {
  const double frequency = 1;
  float table[2] = {5, 5};
  int64_t position = (int64_t{1} << 40) + 1;
  EXPECT_EQ(kvc_rope_table(&frequency, 1, 1, &position, 1, table), KVC_ERROR_INVALID_ARGUMENT);
  position = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(kvc_rope_table(&frequency, 1, 1, &position, 1, table), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_rope_table(&frequency, 1, std::nan(""), nullptr, 1, table), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_rope_table(nullptr, 1, 1, nullptr, 1, table), KVC_ERROR_INVALID_ARGUMENT);
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e308, -1e31}) {
    EXPECT_EQ(kvc_rope_table(&bad, 1, 1, nullptr, 1, table), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(kvc_rope_table(&frequency, 1, bad, nullptr, 1, table), KVC_ERROR_INVALID_ARGUMENT);
  }
  EXPECT_EQ(table[0], 5);
  EXPECT_EQ(kvc_rope_table(&frequency, 1, 1, nullptr, 1, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_rope_table(nullptr, 0, 1, nullptr, 0, nullptr), KVC_OK);
}

kvc_rope_rows rows_of(void* x, const std::vector<float>& table, uint32_t rope_dim) {
  kvc_rope_rows rows = {};
  rows.struct_size = sizeof rows;
  rows.x = x, rows.table = table.data(), rows.table_rows = table.size() / rope_dim;
  rows.num_tokens = rows.num_heads = 1;
  rows.head_dim = rope_dim;
  return rows;
}

TEST(RopeApply, EqualsTheStoredVectors) {
  ASSERT_EQ(kRopeRows.size(), 4u);
  for (const RopeRow& row : kRopeRows)
    for (const bool interleaved : {false, true})
      for (const int32_t dtype : {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16}) {
        const std::vector<float> table = Rope(preset(row.name)).table({row.position});
        const size_t dim = row.x.size();
        std::vector<char> x(dim * 4);
        std::vector<float> values(row.x.begin(), row.x.end());
        from_float(dtype, values.data(), x.data(), dim);
        kvc_rope_rows rows = rows_of(x.data(), table, static_cast<uint32_t>(dim));
        rows.dtype = dtype, rows.flags = interleaved ? kInterleaved : 0;
        ASSERT_EQ(kvc_rope_apply(&rows), KVC_OK) << kvc_last_error();
        to_float(dtype, x.data(), values.data(), dim);
        const double limit = dtype == KVC_FLOAT32 ? 1e-6 : dtype == KVC_FLOAT16 ? 5e-3 : 4e-2;
        for (size_t i = 0; i < dim; ++i)
          EXPECT_NEAR(values[i], (interleaved ? row.interleaved : row.halves)[i], limit)
              << row.name << ' ' << interleaved << ' ' << dtype;
      }
}

// Each element apart, by the definition, for shapes of every kind: parts of rows, gaps, shuffled table rows.
TEST(RopeApply, TurnsWhatItShouldAndNothingElse) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const bool interleaved : {false, true})
    for (const uint32_t rope_dim : {2u, 6u, 64u, 96u})
      for (const uint32_t first : {0u, 3u, 512u})
        for (const bool gaps : {false, true})
          for (const int32_t dtype : {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16}) {
            const uint32_t head_dim = first + rope_dim + (first == 3 ? 5 : 0), heads = 3;
            const size_t tokens = 4, table_rows = 6, bytes = dtype == KVC_FLOAT32 ? 4 : 2;
            const int64_t head_stride = head_dim + (gaps ? 7 : 0),
                          token_stride = heads * head_stride + (gaps ? 11 : 0);
            std::vector<float> table(table_rows * rope_dim),
                values(tokens * static_cast<size_t>(token_stride));
            for (float& v : table) v = normal(random);
            for (float& v : values) v = normal(random);
            std::vector<char> x(values.size() * bytes);
            from_float(dtype, values.data(), x.data(), values.size());
            to_float(dtype, x.data(), values.data(), values.size());
            const int64_t table_row[] = {5, 0, 0, 3};
            kvc_rope_rows rows = rows_of(x.data(), table, rope_dim);
            rows.num_tokens = tokens, rows.num_heads = heads, rows.head_dim = head_dim,
            rows.rope_dim = rope_dim;
            rows.first_element = first, rows.dtype = dtype, rows.flags = interleaved ? kInterleaved : 0;
            if (gaps)
              rows.head_stride = head_stride, rows.token_stride = token_stride, rows.table_row = table_row;
            ASSERT_EQ(kvc_rope_apply(&rows), KVC_OK) << kvc_last_error();
            std::vector<float> wanted = values;
            for (size_t t = 0; t < tokens; ++t)
              for (uint32_t h = 0; h < heads; ++h)
                for (uint32_t i = 0; i < rope_dim / 2; ++i) {
                  const size_t row =
                      t * static_cast<size_t>(token_stride) + h * static_cast<size_t>(head_stride) + first;
                  const size_t a = row + (interleaved ? 2 * i : i),
                               b = row + (interleaved ? 2 * i + 1 : i + rope_dim / 2);
                  const float* at = &table[(gaps ? static_cast<size_t>(table_row[t]) : t) * rope_dim];
                  wanted[a] = values[a] * at[i] - values[b] * at[rope_dim / 2 + i];
                  wanted[b] = values[b] * at[i] + values[a] * at[rope_dim / 2 + i];
                }
            std::vector<char> wanted_bytes(x.size());
            from_float(dtype, wanted.data(), wanted_bytes.data(), wanted.size());
            ASSERT_EQ(x, wanted_bytes) << rope_dim << ' ' << first << ' ' << gaps << ' ' << dtype;
          }
}

// What rotary embedding is for: the product of a query and a key depends on how far apart they are alone.
TEST(RopeApply, ProductsDependOnDistancesAlone) {
  const Rope rope(preset("llama-3.1-8b"));
  const auto product = [&](int64_t at, int64_t apart, bool interleaved) {
    std::vector<float> x(256);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.7f * static_cast<float>(i));
    const std::vector<float> table = rope.table({at, at + apart});
    kvc_rope_rows rows = rows_of(x.data(), table, 128);
    rows.num_tokens = 2, rows.flags = interleaved ? kInterleaved : 0;
    EXPECT_EQ(kvc_rope_apply(&rows), KVC_OK);
    double sum = 0;
    for (size_t e = 0; e < 128; ++e) sum += double{x[e]} * double{x[128 + e]};
    return sum;
  };
  for (const bool interleaved : {false, true}) {
    EXPECT_NEAR(product(0, 100, interleaved), product(100000, 100, interleaved), 1e-4);
    EXPECT_GT(std::abs(product(0, 100, interleaved) - product(0, 101, interleaved)), 1e-2);
  }
}

TEST(RopeApply, BadRowsAreRefusedBeforeAnythingTurns) {
  std::vector<float> x(12, 2), table(12, 3);
  const std::vector<float> before = x;
  const int64_t past[] = {0, 2}, negative[] = {-1, 0};
  const auto refused = [&](auto&& change, kvc_status status = KVC_ERROR_INVALID_ARGUMENT) {
    kvc_rope_rows rows = rows_of(x.data(), table, 6);
    rows.num_tokens = 2;
    change(rows);
    EXPECT_EQ(kvc_rope_apply(&rows), status) << kvc_last_error();
    EXPECT_EQ(x, before);
  };
  using R = kvc_rope_rows;
  refused([](R& r) { r.struct_size = 1; });
  refused([](R& r) { r.x = nullptr; });
  refused([](R& r) { r.table = nullptr; });
  refused([](R& r) { r.table_rows = 1; });
  refused([&](R& r) { r.table_row = past; });
  refused([&](R& r) { r.table_row = negative; });
  refused([](R& r) { r.rope_dim = 5; });
  refused([](R& r) { r.rope_dim = 8; });
  refused([](R& r) { r.first_element = 1; });
  refused([](R& r) { r.first_element = UINT32_MAX; });
  refused([](R& r) { r.head_dim = 0; });
  refused([](R& r) { r.head_dim = 8194; });
  refused([](R& r) { r.dtype = KVC_INT8; });
  refused([](R& r) { r.token_stride = INT64_MAX; });
  refused([](R& r) { r.head_stride = INT64_MIN; });
  refused([](R& r) { r.num_heads = 4, r.head_stride = INT64_MAX / 2; });
  refused([](R& r) { r.flags = 2; }, KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(kvc_rope_apply(nullptr), KVC_ERROR_INVALID_ARGUMENT);
  kvc_rope_rows none = rows_of(x.data(), table, 6);
  none.num_tokens = 0, none.x = nullptr, none.table = nullptr;
  EXPECT_EQ(kvc_rope_apply(&none), KVC_OK) << kvc_last_error();
}

}  // namespace
}  // namespace kvc::test
