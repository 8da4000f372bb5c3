// SPDX-License-Identifier: Apache-2.0
// A stream of the engine's runtime, adopted for as long as it lives.
#pragma once
#include "api/emulated.h"
#include "api/engine.h"

namespace kvc::test {

struct Adopted {
  void* handle = engine::create_stream();
  StreamPtr stream;
  Adopted() {
    kvc_stream* made = nullptr;
    EXPECT_EQ(kvc_stream_adopt(engine::device(), handle, 0, &made), KVC_OK) << kvc_last_error();
    stream.reset(made);
  }
  ~Adopted() {
    stream.reset();
    engine::destroy_stream(handle);
  }
};

}  // namespace kvc::test
