// SPDX-License-Identifier: Apache-2.0
// kvc-hoist-lookups: a gather that finds the same in each iteration of a loop is done once, before the loop.
#include "support.h"

namespace mlir::kvc {

#define GEN_PASS_DEF_KVCHOISTLOOKUPS
#include "Kvc.passes.h.inc"

namespace {

bool certainly_runs(scf::ForOp loop) {
  const auto first = getConstantIntValue(loop.getLowerBound()),
             end = getConstantIntValue(loop.getUpperBound());
  return first && end && *first < *end;
}

void hoist(scf::ForOp loop, LookupKvOp lookup) {
  if (certainly_runs(loop)) return lookup->moveBefore(loop);
  // A loop without an iteration looks up nothing: its slots may be wrong.
  OpBuilder b(loop);
  const Location loc = lookup.getLoc();
  const Value runs =
      b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, loop.getLowerBound(), loop.getUpperBound());
  auto branch = b.create<scf::IfOp>(
      loc, runs,
      [&](OpBuilder& then, Location at) { then.create<scf::YieldOp>(at, then.clone(*lookup)->getResults()); },
      [&](OpBuilder& otherwise, Location at) {
        otherwise.create<scf::YieldOp>(at, ValueRange{lookup.getKeys(), lookup.getValues()});
      });
  lookup->replaceAllUsesWith(branch.getResults());
  lookup->erase();
}

struct HoistLookups : impl::KvcHoistLookupsBase<HoistLookups> {
  // Inner loops come first, so that what leaves one may leave the next.
  void runOnOperation() override {
    getOperation()->walk([](scf::ForOp loop) {
      if (!only_reads(loop)) return;
      for (Operation& op : llvm::make_early_inc_range(*loop.getBody())) {
        auto lookup = dyn_cast<LookupKvOp>(op);
        if (!lookup || lookup->getNumResults() == 0) continue;
        if (llvm::all_of(op.getOperands(), [&](Value it) { return loop.isDefinedOutsideOfLoop(it); }))
          hoist(loop, lookup);
      }
    });
  }
};

}  // namespace
}  // namespace mlir::kvc
