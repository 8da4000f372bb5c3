// SPDX-License-Identifier: Apache-2.0
// A kvc_attention together with its kvc_attention_launch, and merging with the fields of its struct as
// arguments.
#pragma once
#include <kvcache/attention.h>

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

inline kvc_status merge_attention(const void* outs, const float* lses, size_t num_partials, size_t num_rows,
                                  uint32_t v_dim, int32_t dtype, void* out, float* lse) {
  const kvc_attention_partials partials = {
      sizeof(kvc_attention_partials), outs, lses, num_partials, num_rows, v_dim, dtype};
  return kvc_attention_merge(&partials, out, lse);
}
