// SPDX-License-Identifier: Apache-2.0
// How fast the pairs of a rotary embedding turn, as a model asks for, and tables of cosines and sines. Double
// precision throughout: a float32 angle is wrong in its third digit at position 100,000. Pure functions: any
// thread may call them.
#pragma once
#include <kvcache.h>

namespace kvc {

// The limit of a model's numbers, factors and frequencies; those that must be positive are at least its
// inverse. Within it, nothing that is computed from them overflows.
inline constexpr double kMostRopeNumber = 1e30;

// Checks what is read of the model (at its full size) and finds the scaling of a layer. *dim: elements that
// turn.
kvc_status check_rope(const kvc_model& model, uint32_t layer, const double* factors, uint32_t* dim);

// Of a checked model: frequencies [dim / 2]; returns the attention factor.
double rope_frequencies(const kvc_model& model, uint32_t layer, uint64_t length, const double* factors,
                        uint32_t dim, double* frequencies);

// table [num_positions][2][count]; positions nullptr = 0, 1, ...
void rope_table(const double* frequencies, size_t count, double attention_factor, const int64_t* positions,
                size_t num_positions, float* table);

}  // namespace kvc
