// SPDX-License-Identifier: Apache-2.0
#include "Llm.h"

#include <llvm/ADT/TypeSwitch.h>
#include <mlir/IR/DialectImplementation.h>

#include "Llm.dialect.cc.inc"
#define GET_TYPEDEF_CLASSES
#include "Llm.types.cc.inc"
#define GET_OP_CLASSES
#include "Llm.ops.cc.inc"

namespace mlir::llm {

void LlmDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "Llm.types.cc.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Llm.ops.cc.inc"
      >();
}

}  // namespace mlir::llm
