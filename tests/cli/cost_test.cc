// SPDX-License-Identifier: Apache-2.0
// Hostile files of up to 1 MiB cost no more than in proportion to their size, and no memory that they only
// claim.
#include "hardening/cost.h"

#include <kvcache/model.h>

#include <sstream>
#include <string>

#include "../examples/safetensors.h"
#include "cli/errors.h"
#include "cli/trace.h"

namespace kvcli {
namespace {

constexpr double kBytesPerByte = 64;  // a JSON value of two bytes becomes one of 16, in vectors that double

std::string repeated(const std::string& text, size_t size) {
  std::string out;
  while (out.size() + text.size() <= size) out += text;
  return out;
}

// Shapes of hostile JSON, of about `size` bytes.
struct Shape {
  const char* name;
  std::string (*make)(size_t size);
};
const Shape kShapes[] = {
    {"nested arrays", [](size_t size) { return std::string(size, '['); }},
    {"nested objects", [](size_t size) { return repeated("{\"a\":", size); }},
    {"nested and closed",
     [](size_t size) { return std::string(size / 2, '[') + std::string(size / 2, ']'); }},
    {"one string", [](size_t size) { return "{\"model_type\": \"" + std::string(size, 'x') + "\"}"; }},
    {"escapes", [](size_t size) { return "{\"model_type\": \"" + repeated("\\u0041", size) + "\"}"; }},
    {"bad UTF-8", [](size_t size) { return "{\"model_type\": \"" + std::string(size, '\xff') + "\"}"; }},
    {"one number", [](size_t size) { return "{\"num_hidden_layers\": " + std::string(size, '9') + "}"; }},
    {"one key again and again",
     [](size_t size) { return "{" + repeated("\"input_length\": 1,", size) + "\"hash_ids\": [1]}"; }},
    {"many keys",
     [](size_t size) {
       std::string out = "{";
       for (size_t i = 0; out.size() < size; ++i) out += "\"" + std::to_string(i) + "\":0,";
       return out + "\"z\":0}";
     }},
    {"many values",
     [](size_t size) {
       return "{\"input_length\":1,\"output_length\":1,\"hash_ids\":[1" + repeated(",0", size) + "]}";
     }},
    {"many empty arrays",
     [](size_t size) {
       return "{\"input_length\":1,\"output_length\":1,\"hash_ids\":[1" + repeated(",[]", size) + "]}";
     }},
    {"layer types",
     [](size_t size) {
       return "{\"model_type\":\"gemma2\",\"layer_types\":[\"x\"" + repeated(",\"full_attention\"", size) +
              "]}";
     }},
    {"spaces", [](size_t size) { return std::string(size, ' '); }},
    {"many lines", [](size_t size) { return repeated("\n", size); }},
};

TEST(Cost, OfTracesIsInProportionToTheirSize) {
  for (const Shape& shape : kShapes) {
    kvc::test::expect_in_proportion(shape.name, kBytesPerByte, [&](size_t size) {
      return [text = shape.make(size)] {
        std::istringstream in(text);
        try {
          read_trace(in, "input", 0);
        } catch (const InputError& error) {
          EXPECT_LT(std::string(error.what()).size(), 1000u);
        }
      };
    });
  }
  kvc::test::expect_in_proportion("requests", kBytesPerByte, [&](size_t size) {
    return [text = repeated("{\"input_length\":1,\"output_length\":1,\"hash_ids\":[1]}\n", size)] {
      std::istringstream in(text);
      EXPECT_GT(read_trace(in, "input", 0).requests.size(), 100u);
    };
  });
}

TEST(Cost, OfConfigsIsInProportionToTheirSize) {
  for (const Shape& shape : kShapes) {
    kvc::test::expect_in_proportion(shape.name, kBytesPerByte, [&](size_t size) {
      return [text = shape.make(size)] {
        kvc_model model{};
        model.struct_size = sizeof model;
        kvc_model_from_config(text.data(), text.size(), &model);
        EXPECT_LT(std::string(kvc_last_error()).size(), 1000u);
      };
    });
  }
}

std::string with_size(std::string header, uint64_t size) {
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(size >> (8 * i));
  return file + header;
}

TEST(Cost, OfSafetensorsIsInProportionToTheirSize) {
  const auto read = [](const std::string& file) {
    std::istringstream in(file);
    try {
      SafeTensors tensors(in);
    } catch (const std::runtime_error& error) {
      EXPECT_LT(std::string(error.what()).size(), 1000u);
    }
  };
  for (const Shape& shape : kShapes) {
    kvc::test::expect_in_proportion(shape.name, kBytesPerByte, [&](size_t size) {
      const std::string header = shape.make(size);
      return [file = with_size(header, header.size()), read] { read(file); };
    });
  }
  kvc::test::expect_in_proportion("tensors", kBytesPerByte, [&](size_t size) {
    std::string header = "{";
    for (size_t i = 0; header.size() < size; ++i) {
      header += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) +
                "\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}";
    }
    header += "}";
    return [file = with_size(header, header.size()) + "0000", read] { read(file); };
  });
  // A file that claims a large header takes none of it.
  for (const uint64_t claimed : {uint64_t{100} << 20, uint64_t{1} << 40, UINT64_MAX}) {
    const kvc::test::Cost cost = kvc::test::cost_of([&] { read(with_size("{}", claimed)); });
    EXPECT_LT(cost.peak_bytes, 1 << 16) << claimed;
  }
}

}  // namespace
}  // namespace kvcli
