// SPDX-License-Identifier: Apache-2.0
// How the host configures a call of attention: which kernels, the most pieces there can be, and how much
// memory. Explaining, counting bytes and launching read the same configuration. It depends on no length but
// the limits, and on addresses only in whether an array is given and how results are aligned: all layers of a
// step have the same one.
#pragma once
#include "kernels/attention.h"

namespace kvc::gpu {

// Totals of a plan: zero if the plan was made for other arguments, or never.
struct PlanTotals {
  uint64_t* words;  // pieces, units, key
  uint64_t key;
  KVC_DEVICE bool known() const { return words[2] == key; }
  KVC_DEVICE uint64_t operator[](uint32_t i) const { return known() ? words[i] : 0; }
};

// The plan of one class of requests: those with min_rows .. max_rows rows per KV head. Parts are in the
// workspace; all other arrays are in memory that several calls may share. In a configuration, arrays are not
// set.
struct Plan {
  PlanTotals totals;
  uint64_t* first_piece;  // [num_requests + 1]
  uint64_t* first_unit;   // [max_pieces + 1]
  uint32_t* request_of;   // [max_pieces]
  float* part_out;        // [max_parts][tile_rows][v_dim]
  float* part_lse;        // [max_parts][tile_rows] natural
  AttentionBounds bounds;
  uint64_t min_rows, max_rows;
  uint64_t max_pieces, max_parts;
  uint32_t tile_rows;
  uint32_t invariant;
  uint32_t num_blocks;  // of the attend kernel
  uint32_t is_first;    // of the classes: requests beyond the bounds are its own
};

struct Plans {
  Plan of_class[2];
};

// A kernel for tensor cores, as the host sees it.
struct MmaKernel {
  uint32_t rows;          // of a piece
  uint32_t blocks;        // of a multiprocessor
  uint32_t shared_bytes;  // of a block
  // nullptr: there is no such kernel.
  int (*launch)(const AttentionArgs& args, const Plan& plan, Stream stream);
};

struct AttentionConfig {
  AttentionSupport support;
  AttentionLimits limits;
  uint32_t num_classes;
  MmaKernel kernels[2];  // of each class, on tensor cores
  uint32_t plain_rows;   // of a piece, otherwise
  Plans plans;
  uint64_t plan_bytes, workspace_bytes;
};

// Of CascadeArgs: its two calls, and what belongs to neither.
struct CascadeConfig {
  AttentionConfig prefix, suffix;
  uint64_t rows;  // of results
  uint64_t plan_bytes, workspace_bytes;
};

}  // namespace kvc::gpu
