// SPDX-License-Identifier: Apache-2.0
// What programs may use beside kvc, and how they are lowered. Of kvc-opt and kvc-run.
#pragma once
#include <mlir/IR/DialectRegistry.h>

namespace mlir::kvc {

// kvc and the dialects of the core that a lowered model meets, with their interfaces for bufferization.
void register_dialects(DialectRegistry& registry);

// The passes of kvc, and those of the core that turn the rest of a program into LLVM's dialect; call it once.
void register_passes();

}  // namespace mlir::kvc
