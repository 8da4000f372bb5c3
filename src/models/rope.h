// SPDX-License-Identifier: Apache-2.0
// The frequencies of a model's rotary embedding, and tables of cosines and sines, in double precision: a
// float32 angle is wrong in its third digit at position 100,000. Thread-safe.
#pragma once
#include <kvcache/model.h>

namespace kvc {

// Largest value of a model's numbers, factors and frequencies. Positive ones are at least its inverse. Within
// these limits nothing overflows.
inline constexpr double kMostRopeNumber = 1e30;

// Checks the fields of a model of full size that a layer's embedding uses. *dim: elements that rotate.
kvc_status check_rope_fields(const kvc_model& model, uint32_t layer, uint32_t* dim);
// The same, with the factors that LongRoPE needs.
kvc_status check_rope(const kvc_model& model, uint32_t layer, const double* factors, uint32_t* dim);

// For a checked model. frequencies [dim / 2]. Returns the attention factor.
double rope_frequencies(const kvc_model& model, uint32_t layer, uint64_t length, const double* factors,
                        uint32_t dim, double* frequencies);

// table [num_positions][2][count]; positions nullptr = 0, 1, ...
void rope_table(const double* frequencies, size_t count, double attention_factor, const int64_t* positions,
                size_t num_positions, float* table);

}  // namespace kvc
