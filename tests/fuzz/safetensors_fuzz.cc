// SPDX-License-Identifier: Apache-2.0
// Safetensors files: an input is refused with a text, or each tensor lies in the file and has what its shape
// says.
#include <sstream>

#include "../examples/safetensors.h"
#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  try {
    SafeTensors file(in);
    for (const auto& [name, tensor] : file.all()) {
      FUZZ_REQUIRE(tensor.begin <= tensor.end && tensor.end <= size, name.c_str());
      try {
        const size_t count = file.read(name).size();
        size_t expected = 1;
        for (const uint64_t n : tensor.shape) expected *= n;
        FUZZ_REQUIRE(count == expected && count <= size, name.c_str());
      } catch (const std::runtime_error& error) {
        FUZZ_REQUIRE(error.what()[0] != '\0', "an error without a text");
      }
    }
  } catch (const std::runtime_error& error) {
    FUZZ_REQUIRE(error.what()[0] != '\0', "an error without a text");
  }
  return 0;
}
