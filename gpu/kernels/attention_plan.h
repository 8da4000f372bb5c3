// SPDX-License-Identifier: Apache-2.0
// How a call of attention is done, worked out by the host once: which kernels, the most pieces there can be,
// and how much memory. Explaining, counting bytes and launching read the same plan. It depends on no address,
// but for whether arrays are given and how results are aligned, and on no length, but for the limits: layers
// of a step have one plan.
#pragma once
#include "kernels/attention.h"

namespace kvc::gpu {

// How much there is: nothing, if the schedule was made for other arguments, or never.
struct ScheduleTotals {
  uint64_t* words;  // pieces, units, key
  uint64_t key;
  KVC_DEVICE bool known() const { return words[2] == key; }
  KVC_DEVICE uint64_t operator[](uint32_t i) const { return known() ? words[i] : 0; }
};

// One class of requests: those with min_rows .. max_rows rows per KV head. Parts are in the workspace, all
// other arrays in memory that several calls may share. A plan has no arrays.
struct Schedule {
  ScheduleTotals totals;
  uint64_t* first_piece;  // [num_requests + 1]
  uint64_t* first_unit;   // [max_pieces + 1]
  uint32_t* request_of;   // [max_pieces]
  float* part_out;        // [slots][tile_rows][v_dim]
  float* part_lse;        // [slots][tile_rows] natural
  AttentionBounds bounds;
  uint64_t min_rows, max_rows;
  uint64_t max_pieces, max_slots;
  uint32_t tile_rows;
  uint32_t invariant;
  uint32_t num_blocks;  // of the attend kernel
  uint32_t is_first;    // of the classes: requests beyond the bounds are its own
};

struct Schedules {
  Schedule of_class[2];
};

// A kernel on tensor cores, as the host sees it.
struct MmaKernel {
  uint32_t rows;          // of a piece
  uint32_t blocks;        // of a multiprocessor
  uint32_t shared_bytes;  // of a block
  int (*launch)(const AttentionArgs& args, const Schedule& schedule,
                Stream stream);  // nullptr: there is none
};

struct AttentionPlan {
  AttentionSupport support;
  AttentionLimits limits;
  uint32_t num_classes;
  MmaKernel kernels[2];  // of each class, on tensor cores
  uint32_t plain_rows;   // of a piece, otherwise
  Schedules schedules;
  uint64_t plan_bytes, workspace_bytes;
};

// Of CascadeArgs: its two calls, and what lies around them.
struct CascadePlan {
  AttentionPlan prefix, suffix;
  uint64_t rows;  // of results
  uint64_t plan_bytes, workspace_bytes;
};

}  // namespace kvc::gpu
