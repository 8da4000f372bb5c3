// SPDX-License-Identifier: Apache-2.0
// A kvc_attention together with its kvc_attention_launch.
#pragma once
#include <kvcache.h>

struct AttentionCall : kvc_attention {
  kvc_attention_launch run{};

  AttentionCall() : kvc_attention{} {
    struct_size = sizeof(kvc_attention);
    run.struct_size = sizeof run;
    launch = &run;
  }
  AttentionCall(const AttentionCall& other) : kvc_attention(other), run(other.run) { launch = &run; }
  AttentionCall& operator=(const AttentionCall& other) {
    kvc_attention::operator=(other);
    run = other.run, launch = &run;
    return *this;
  }
};
