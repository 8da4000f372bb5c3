// SPDX-License-Identifier: Apache-2.0
// The same as 01_hello.c in C++17: owners instead of frees, exceptions instead of status checks, and an
// answer instead of an error when there is no space.
#include <array>
#include <cstdio>
#include <kvcache.hpp>
#include <numeric>
#include <vector>

int main() try {
  kvc::Manager m(4);  // blocks of 16 tokens
  std::vector<int32_t> prompt(40);
  std::iota(prompt.begin(), prompt.end(), 1000);
  {
    kvc::Request request = m.allocate(prompt);
    std::array<int32_t, 4> table;
    request.table(table);
    std::printf("prompt of %zu tokens in blocks %d %d %d\n", prompt.size(), table[0], table[1], table[2]);
    // ... the model computes the prompt and writes its KV into those blocks ...
    request.commit(prompt.size());

    if (!request.append(std::array<int32_t, 1>{7})) return 1;
    std::array<int64_t, 1> slot;
    request.slots(slot, 40);
    request.commit(41);
    std::printf("next token: slot %d\n", static_cast<int>(slot[0]));

    kvc::Request other = m.allocate(std::vector<int32_t>(40, 5));  // one block is left, three are needed
    std::printf("another prompt meanwhile: %s\n", other ? "admitted" : "no space");
    if (other || slot[0] != 40) return 1;
  }  // the request frees itself; its full blocks stay findable
  kvc::Request again = m.allocate(prompt);
  std::printf("the same prompt again: %d of 40 tokens need no compute\n",
              static_cast<int>(again.info().num_cached));
  return again.info().num_cached == 32 ? 0 : 1;
} catch (const kvc::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
