// SPDX-License-Identifier: Apache-2.0
// kvc-remove-dead-lookups: what only reads a cache, and whose results nobody reads, goes.
#include <mlir/Interfaces/SideEffectInterfaces.h>

#include "Passes.h"

namespace mlir::kvc {

#define GEN_PASS_DEF_KVCREMOVEDEADLOOKUPS
#include "Kvc.passes.h.inc"

namespace {

// Whether the user only writes to the memory: a lookup or attention with it as a destination.
bool only_writes(OpOperand& use) {
  auto op = dyn_cast<CacheOpInterface>(use.getOwner());
  return op && !op.writesCache() && cast<DestinationStyleOpInterface>(use.getOwner()).isDpsInit(&use);
}

// Memory of this function that is written by cache ops and freed, and that nobody reads. Views of it count as
// readers.
bool nobody_reads(Value memory) {
  Operation* allocation = memory.getDefiningOp();
  if (!isa_and_nonnull<memref::AllocOp, memref::AllocaOp>(allocation)) return false;
  return llvm::all_of(memory.getUses(), [](OpOperand& use) {
    return isa<memref::DeallocOp>(use.getOwner()) || only_writes(use);
  });
}

// Removes one op that is dead. An op on memrefs is dead if nobody reads what it writes.
bool remove_one(Operation* root) {
  const WalkResult result = root->walk([](Operation* op) {
    auto cache_op = dyn_cast<CacheOpInterface>(op);
    if (!isa<LookupOp>(op) && (!cache_op || cache_op.writesCache())) return WalkResult::advance();
    bool dead = isOpTriviallyDead(op);
    if (!dead && cache_op && op->getNumResults() == 0) {
      dead = llvm::all_of(cast<DestinationStyleOpInterface>(op).getDpsInits(), nobody_reads);
    }
    if (!dead) return WalkResult::advance();
    op->erase();
    return WalkResult::interrupt();
  });
  return result.wasInterrupted();
}

struct RemoveDeadLookups : impl::KvcRemoveDeadLookupsBase<RemoveDeadLookups> {
  void runOnOperation() override {
    while (remove_one(getOperation())) {
    }
    // What is left of their memory.
    SmallVector<Operation*> unused;
    getOperation()->walk([&](Operation* op) {
      if (!isa<memref::AllocOp, memref::AllocaOp>(op)) return;
      const auto frees = [](Operation* user) { return isa<memref::DeallocOp>(user); };
      if (llvm::all_of(op->getUsers(), frees)) unused.push_back(op);
    });
    for (Operation* op : unused) {
      for (Operation* user : llvm::make_early_inc_range(op->getUsers())) user->erase();
      op->erase();
    }
  }
};

}  // namespace
}  // namespace mlir::kvc
