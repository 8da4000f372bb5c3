// SPDX-License-Identifier: Apache-2.0
// kvc-narrow-caches: a cache of f32 that holds nothing but rows of 16 bits becomes one of these 16 bits.
#include "Passes.h"

namespace mlir::kvc {

#define GEN_PASS_DEF_KVCNARROWCACHES
#include "Kvc.passes.h.inc"

namespace {

// The one element type of all rows that are appended; null if there are several, none, or ones that are not
// known because the cache is seen elsewhere: by a call, a branch, or through its memory.
Type type_of_rows(CreateCacheOp create) {
  Type rows;
  for (Operation* user : create->getUsers()) {
    if (auto append = dyn_cast<AppendKvOp>(user)) {
      const Type keys = getElementTypeOrSelf(append.getKeys()),
                 values = getElementTypeOrSelf(append.getValues());
      if (keys != values || (rows && rows != keys)) return {};
      rows = keys;
    } else if (!isa<LookupKvOp, PagedAttentionOp, DestroyCacheOp>(user)) {
      return {};
    }
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
