// SPDX-License-Identifier: Apache-2.0
// Paged attention on the CPU: prefill and decode in one entry, with online softmax in float32.
// kvc_backend_attention says what it computes. Thread-safe: a call reads its arguments and writes only its
// own `out` and `lse`.
#pragma once
#include "storage/rows.h"

namespace kvc {

// A call on a storage.
struct AttentionArgs : kvc_backend_attention {
  const Layout* layout;
  const char* slab;
  const ResidualKeys* residual_keys;  // as in Stored
};

// A simple implementation in double precision, with which tests compare the others.
void attend_reference(const AttentionArgs& args);

// Scratch memory that attend() needs per worker, for any requests; a multiple of 64.
size_t attention_scratch_bytes(const Layout& layout, uint32_t num_q_heads);

// Runs job(data, i, worker) for all i < count, on any threads, and returns when all are done. Two jobs that
// run at the same time must differ in `worker`. run == nullptr: everything on the calling thread.
struct ParallelFor {
  void (*run)(void* context, size_t count, void (*job)(void* data, size_t i, size_t worker), void* data);
  void* context;
  size_t num_workers;  // job's `worker` is below this
};

// `scratch` has num_workers * attention_scratch_bytes() bytes, aligned to 64. The same
// arguments, number of workers and instruction set give the same bits, whoever works on what.
void attend(const AttentionArgs& args, const ParallelFor& parallel_for, void* scratch);

// How attend() does this call.
kvc_backend_attention_info explain_attention(const AttentionArgs& args, size_t num_workers);

}  // namespace kvc
