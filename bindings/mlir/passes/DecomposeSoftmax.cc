// SPDX-License-Identifier: Apache-2.0
// kvc-decompose-softmax: MLIR 19 can take linalg.softmax apart, and has no pass that does.
#include "Passes.h"

namespace mlir::kvc {

#define GEN_PASS_DEF_KVCDECOMPOSESOFTMAX
#include "Kvc.passes.h.inc"

namespace {

struct DecomposeSoftmax : impl::KvcDecomposeSoftmaxBase<DecomposeSoftmax> {
  void runOnOperation() override {
    SmallVector<linalg::SoftmaxOp> all;
    getOperation()->walk([&](linalg::SoftmaxOp op) {
      if (op.hasPureTensorSemantics()) all.push_back(op);
    });
    for (linalg::SoftmaxOp op : all) {
      OpBuilder b(op);
      const FailureOr<SmallVector<Value>> results = op.decomposeOperation(b);
      if (failed(results)) return signalPassFailure();
      op->replaceAllUsesWith(*results);
      op->erase();
    }
  }
};

}  // namespace
}  // namespace mlir::kvc
