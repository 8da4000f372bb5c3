// SPDX-License-Identifier: Apache-2.0
// What `kvcache info` says of devices that swapped already: none does before, so their JSON is made up.
#include "cli/backends.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>

namespace {

std::string words_for(uint64_t out_bytes, uint64_t in_bytes, bool measured) {
  const nlohmann::ordered_json device = {{"device", "gpu:0"},
                                         {"name", "Tested"},
                                         {"architecture", ""},
                                         {"memory_bytes", 3 << 20},
                                         {"processors", 2},
                                         {"memory_kinds", {"device"}},
                                         {"reads_host_memory", false},
                                         {"managed_memory", true},
                                         {"swap_out_kernel_bytes", out_bytes},
                                         {"swap_in_kernel_bytes", in_bytes},
                                         {"swap_measured", measured}};
  nlohmann::ordered_json backend = {{"name", "gpu"}, {"installed", true}, {"remark", ""}};
  backend["devices"] = nlohmann::ordered_json::array({device});
  std::ostringstream out;
  kvcli::print_backends(nlohmann::ordered_json::array({backend}), out);
  return out.str();
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Backends, AnEngineAloneOrAKernelAloneNeedsNoNumber) {
  const std::string text = words_for(0, UINT64_MAX, true);
  EXPECT_TRUE(says(text, "Tested, 3 MiB, 2 processors\n")) << text;
  EXPECT_TRUE(says(text, "storages in device memory; has managed memory\n")) << text;
  EXPECT_TRUE(says(text, "swaps out by the copy engine, in by a kernel (measured)\n")) << text;
}

TEST(Backends, ATurningPointIsInBytesAndMayBeAGuess) {
  const std::string text = words_for(4096, 1 << 20, false);
  EXPECT_TRUE(says(text, "out by a kernel for runs below 4096 bytes")) << text;
  EXPECT_TRUE(says(text, "in by a kernel for runs below 1048576 bytes (estimated")) << text;
}

TEST(Backends, ADeviceThatCannotBeAskedSaysWhy) {
  nlohmann::ordered_json backend = {{"name", "gpu"}, {"installed", true}, {"remark", ""}};
  backend["devices"] = nlohmann::ordered_json::array({{{"device", "gpu:0"}, {"error", "it is lost"}}});
  std::ostringstream out;
  kvcli::print_backends(nlohmann::ordered_json::array({backend}), out);
  EXPECT_TRUE(says(out.str(), "gpu:0             it is lost\n")) << out.str();
}

}  // namespace
