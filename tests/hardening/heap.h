// SPDX-License-Identifier: Apache-2.0
// malloc and its relatives for a whole program, and so operator new, which calls malloc: counted, and failing
// when a test wants it, in whatever thread. Programs that link heap.cc have it, but none under a sanitizer,
// whose malloc it is then.
#pragma once
#include <cstdint>

namespace kvc::test::heap {

bool is_ours();

// Allocation `after` more fails; `sticky`: and all that follow.
void fail(int64_t after, bool sticky);
// Ends that. How many were refused.
int64_t stop_failing();

int64_t live();      // allocations that were not returned yet
int64_t calls();     // allocations so far
int64_t bytes();     // of the live ones, as malloc rounds them
void forget_peak();  // the peak is what is live now
int64_t peak_bytes();

}  // namespace kvc::test::heap
