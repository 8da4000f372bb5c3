// SPDX-License-Identifier: Apache-2.0
// kvc-narrow-caches: a cache of f32 that holds nothing but rows of 16 bits becomes one of these 16 bits.
#include "support.h"

namespace mlir::kvc {

#define GEN_PASS_DEF_KVCNARROWCACHES
#include "Kvc.passes.h.inc"

namespace {

// The one element type of all rows that are appended; null if there are several, none, or ones that are not
// known because the cache is seen elsewhere.
Type type_of_rows(CreateCacheOp create) {
  if (!seen_by_rows_alone(create)) return {};
  Type rows;
  for (Operation* user : create->getUsers()) {
    auto append = dyn_cast<AppendKvOp>(user);
    if (!append) continue;
    const Type keys = getElementTypeOrSelf(append.getKeys());
    if (rows && rows != keys) return {};
    rows = keys;
  }
  return rows;
}

struct NarrowCaches : impl::KvcNarrowCachesBase<NarrowCaches> {
  void runOnOperation() override {
    getOperation()->walk([](CreateCacheOp create) {
      const PagedCacheType wide = create.getCache().getType();
      const Type rows = type_of_rows(create);
      if (!wide.getElementType().isF32() || !rows || rows.getIntOrFloatBitWidth() != 16) return;
      create.getCache().setType(PagedCacheType::get(wide.getContext(), rows, wide.getLayers(),
                                                    wide.getKvHeads(), wide.getHeadDim(), wide.getBlockSize(),
                                                    wide.getNumBlocks()));
    });
  }
};

}  // namespace
}  // namespace mlir::kvc
