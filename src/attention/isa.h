// SPDX-License-Identifier: Apache-2.0
// Which kernels attend() uses: the widest that this processor and its operating system offer, chosen once,
// and not above what the environment variable KVC_KERNELS names. Thread-safe; force_kernels() is for tests
// and must not run beside attend().
#pragma once
#include <cstddef>

#include "attention/kernels.h"

namespace kvc {

// The i-th best of the kernels that run here; nullptr past the last one, which is always "scalar".
const Kernels* available_kernels(size_t i);

// The best that run here, from those called `limit` downwards; nullptr or an unknown name is no limit.
const Kernels& best_kernels(const char* limit);
const Kernels& chosen_kernels();
void force_kernels(const Kernels* kernels);  // nullptr = choose again

}  // namespace kvc
