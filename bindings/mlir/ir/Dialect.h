// SPDX-License-Identifier: Apache-2.0
// The kvc dialect in C++: what the build generates from Kvc.td, and what ops of it share.
#pragma once
#include <mlir/Bytecode/BytecodeOpInterface.h>
#include <mlir/IR/Builders.h>
#include <mlir/IR/BuiltinTypes.h>
#include <mlir/IR/Dialect.h>
#include <mlir/IR/OpDefinition.h>
#include <mlir/IR/OpImplementation.h>
#include <mlir/Interfaces/DestinationStyleOpInterface.h>
#include <mlir/Interfaces/SideEffectInterfaces.h>

#include "Kvc.dialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "Kvc.types.h.inc"
// The interface names the types.
#include "Kvc.interfaces.h.inc"
#define GET_OP_CLASSES
#include "Kvc.ops.h.inc"

namespace mlir::kvc {

// Lets one-shot bufferization turn the tensor-level ops into ops on memrefs.
void register_bufferization(DialectRegistry& registry);

}  // namespace mlir::kvc
