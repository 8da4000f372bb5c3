// SPDX-License-Identifier: Apache-2.0
// kvc-choose-layout: keys that attention reads lie in tiles, if nobody can see where they lie.
#include "support.h"

namespace mlir::kvc {

#define GEN_PASS_DEF_KVCCHOOSELAYOUT
#include "Kvc.passes.h.inc"

namespace {

struct ChooseLayout : impl::KvcChooseLayoutBase<ChooseLayout> {
  void runOnOperation() override {
    getOperation()->walk([](CreateCacheOp create) {
      if (!create.getCache().getType().takesTiledKeys() || !seen_by_rows_alone(create)) return;
      if (llvm::any_of(create->getUsers(), llvm::IsaPred<PagedAttentionOp>)) create.setTiledKeys(true);
    });
  }
};

}  // namespace
}  // namespace mlir::kvc
