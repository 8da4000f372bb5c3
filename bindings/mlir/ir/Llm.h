// SPDX-License-Identifier: Apache-2.0
// The llm dialect in C++, as the build generates it from Llm.td. Only the importer uses it.
#pragma once
#include <mlir/Bytecode/BytecodeOpInterface.h>
#include <mlir/IR/Builders.h>
#include <mlir/IR/BuiltinTypes.h>
#include <mlir/IR/Dialect.h>
#include <mlir/IR/OpDefinition.h>
#include <mlir/IR/OpImplementation.h>

#include "Llm.dialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "Llm.types.h.inc"
#define GET_OP_CLASSES
#include "Llm.ops.h.inc"
