// SPDX-License-Identifier: Apache-2.0
// The one place where the property tests make a manager, so that a test-only hook can be put in here.
#ifndef KVCACHE_TESTS_PROPERTY_CREATE_H_
#define KVCACHE_TESTS_PROPERTY_CREATE_H_

#include <kvcache/manager.h>

#include <cstdint>

// A manager whose table hash is ANDed with `hash_mask`: ~0 leaves it alone, 0 makes all hashes equal. nullptr
// on failure. What a window leaves behind more than `near_tokens` before an end leaves first. near_tokens:
// how far from an end what a window leaves behind leaves first.
kvc_manager* create_manager(const kvc_manager_config& config, uint64_t hash_mask, uint64_t near_tokens = 512);

// Is the mask really applied? Without it the runs with masks skip their demand for rejected candidates.
bool hash_mask_works();

#endif  // KVCACHE_TESTS_PROPERTY_CREATE_H_
