// SPDX-License-Identifier: Apache-2.0
// Which blocks are worth reading, on a device: kvc_storage_select_blocks, with the bounds and the rules of
// the CPU's src/attention/select.h. Sums are rounded in another order, so that blocks whose bounds differ in
// the last bits may change places; equal bounds give equal sums, and the first of equal blocks are picked.
// Kernels, enqueued one after the other:
//
//   plan   counts the blocks of each request that have to be compared at all
//   bound  multiplies queries with the bounds of these
//   pick   finds the last bound of each request and KV head that is picked, and writes its row of the mask
//
// With a threshold, `bound` runs twice: it finds the best product of each query, and then which blocks are
// close to it; `pick` only writes the mask.
//
// All lengths are read on the device, as by attention (attention.h), and no choice depends on the batch.
#pragma once
#include "kernels/attention.h"

namespace kvc::gpu {

struct SelectionArgs : kvc_backend_selection {
  AttentionArgs attention;
};

// Of `limits`, num_multiprocessors and the bounds are read. Nothing is read or written for a request beyond
// these.
uint64_t selection_workspace_bytes(const SelectionArgs& args, const AttentionLimits& limits);
int launch_selection(const SelectionArgs& args, const AttentionLimits& limits, void* workspace,
                     Stream stream);

}  // namespace kvc::gpu
