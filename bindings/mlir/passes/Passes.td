// SPDX-License-Identifier: Apache-2.0
// The passes of the kvc dialect.
#ifndef KVC_PASSES_TD
#define KVC_PASSES_TD

include "mlir/Pass/PassBase.td"

def KvcToCalls : Pass<"kvc-to-calls", "::mlir::ModuleOp"> {
  let summary = "Lowers all kvc ops on memrefs to calls of the C interface.";
  let description = [{
    Handles and caches become pointers, requests their ids. Functions that the module calls are declared as the
    public headers declare them. Run it after bufferization.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def KvcToReference : Pass<"kvc-to-reference", "::mlir::ModuleOp"> {
  let summary = "Lowers caches to memrefs, and ops on them to loops: a reference that can be executed.";
  let description = [{
    Works in float64, one query after the other, and needs no library. Handles stay for `kvc-to-calls`. Caches have
    elements of f32, f16 or bf16. Run it after bufferization.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect", "::mlir::func::FuncDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

#endif  // KVC_PASSES_TD
