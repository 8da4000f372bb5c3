// SPDX-License-Identifier: Apache-2.0
// The passes of the kvc dialect, as the build generates them from Passes.td.
#pragma once
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/ControlFlow/IR/ControlFlowOps.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/Linalg/IR/Linalg.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/MemRef/IR/MemRef.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Pass/Pass.h>

#include "Dialect.h"

namespace mlir::kvc {

#define GEN_PASS_DECL
#include "Kvc.passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "Kvc.passes.h.inc"

}  // namespace mlir::kvc
