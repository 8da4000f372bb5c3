// SPDX-License-Identifier: Apache-2.0
// Which kernels attend() uses: the widest that this processor and its operating system support, chosen once,
// and at most what the environment variable KVC_KERNELS names. Thread-safe; force_kernels() is for tests and
// must not run beside attend().
#pragma once
#include <cstddef>

#include "attention/kernels.h"

namespace kvc {

// The i-th best of the kernels that run here; the last one is always "scalar", then nullptr.
const Kernels* available_kernels(size_t i);

// The best kernels that run here and are not above those called `limit`; nullptr or an unknown name: no
// limit.
const Kernels& best_kernels(const char* limit);
const Kernels& chosen_kernels();
void force_kernels(const Kernels* kernels);  // nullptr = choose again

}  // namespace kvc
