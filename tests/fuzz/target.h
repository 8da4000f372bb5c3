// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share. Each <name>_fuzz.cc is one target: with Clang a libFuzzer program, else a
// program that runs the committed inputs (replay.cc). A target that is not satisfied ends the program.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#define FUZZ_REQUIRE(condition, text)                                                  \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, (text)); \
      std::abort();                                                                    \
    }                                                                                  \
  } while (false)
