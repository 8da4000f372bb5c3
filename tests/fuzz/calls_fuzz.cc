// SPDX-License-Identifier: Apache-2.0
// Sequences of calls on a manager beside the reference model: the input makes the choices of the generator of
// tests/property.
#include <algorithm>

#include "fuzz/target.h"
#include "property/generator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Random random(data, std::min<size_t>(size, 4096));
  Setup setup = random_setup(random);
  setup.event_capacity =
      std::min<size_t>(setup.event_capacity, 256);  // making room for more takes longer than the calls
  World world(setup, 1, ~uint64_t{0});
  Generator generator(random, setup);
  for (int i = 0; !random.exhausted(); ++i) {
    const Op op = generator.next(world);
    const Verdict verdict = world.apply(op, i % 8 == 0);
    FUZZ_REQUIRE(verdict.error.empty(), (to_text(op) + verdict.error).c_str());
  }
  const std::string error = world.compare_all();
  FUZZ_REQUIRE(error.empty(), error.c_str());
  return 0;
}
