// SPDX-License-Identifier: Apache-2.0
// The passes of the kvc dialect.
#ifndef KVC_PASSES_TD
#define KVC_PASSES_TD

include "mlir/Pass/PassBase.td"

#endif  // KVC_PASSES_TD
