// SPDX-License-Identifier: Apache-2.0
// One-shot bufferization of the tensor-level ops: tensors become memrefs; the cache is a reference already.
#include <mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h>
#include <mlir/Dialect/Bufferization/IR/DstBufferizableOpInterfaceImpl.h>
#include <mlir/Dialect/Utils/StructuredOpsUtils.h>

#include "Dialect.h"

namespace mlir::kvc {
namespace {

using namespace bufferization;

template <typename Op>
struct Bufferizable : DstBufferizableOpInterfaceExternalModel<Bufferizable<Op>, Op> {
  LogicalResult bufferize(Operation* op, RewriterBase& rewriter, const BufferizationOptions& options) const {
    rewriter.setInsertionPoint(op);
    SmallVector<Value> operands;
    for (const Value operand : op->getOperands()) {
      if (!isa<TensorType>(operand.getType())) {
        operands.push_back(operand);
        continue;
      }
      const FailureOr<Value> buffer = getBuffer(rewriter, operand, options);
      if (failed(buffer)) return failure();
      operands.push_back(*buffer);
    }
    auto buffers = cast<DestinationStyleOpInterface>(clone(rewriter, op, TypeRange{}, operands));
    SmallVector<Value> results;
    if (op->getNumResults() != 0) llvm::append_range(results, buffers.getDpsInits());
    replaceOpWithBufferizedValues(rewriter, op, results);
    return success();
  }
};

}  // namespace

void register_bufferization(DialectRegistry& registry) {
  registry.addExtension(+[](MLIRContext* context, KvcDialect*) {
    AppendKvOp::attachInterface<Bufferizable<AppendKvOp>>(*context);
    LookupKvOp::attachInterface<Bufferizable<LookupKvOp>>(*context);
    PagedAttentionOp::attachInterface<Bufferizable<PagedAttentionOp>>(*context);
  });
}

}  // namespace mlir::kvc
