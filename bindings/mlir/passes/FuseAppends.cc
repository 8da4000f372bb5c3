// SPDX-License-Identifier: Apache-2.0
// kvc-fuse-appends: one call of the library where a program has two. What is fused is certain; what may alias
// stays.
#include <mlir/IR/Matchers.h>
#include <mlir/IR/PatternMatch.h>
#include <mlir/Interfaces/SideEffectInterfaces.h>

#include "Passes.h"

namespace mlir::kvc {

#define GEN_PASS_DEF_KVCFUSEAPPENDS
#include "Kvc.passes.h.inc"

namespace {

// Whether `sum` is certainly `start` plus the tokens of `keys`.
bool continues(Value start, Value keys, Value sum) {
  const int64_t tokens = cast<RankedTensorType>(keys.getType()).getDimSize(0);
  APInt a, b;
  if (matchPattern(start, m_ConstantInt(&a)) && matchPattern(sum, m_ConstantInt(&b))) {
    return !ShapedType::isDynamic(tokens) && a.getSExtValue() + tokens == b.getSExtValue();
  }
  auto add = sum.getDefiningOp<arith::AddIOp>();
  if (!add || (add.getLhs() != start && add.getRhs() != start)) return false;
  const Value more = add.getLhs() == start ? add.getRhs() : add.getLhs();
  if (matchPattern(more, m_ConstantInt(&a))) return a.getSExtValue() == tokens;
  auto dim = more.getDefiningOp<tensor::DimOp>();
  return dim && dim.getSource() == keys && dim.getConstantIndex() == 0;
}

// Whether two arrays of slots are constants without a common slot.
bool differ(Value a, Value b) {
  DenseIntElementsAttr first, second;
  if (!matchPattern(a, m_Constant(&first)) || !matchPattern(b, m_Constant(&second))) return false;
  llvm::SmallDenseSet<int64_t> seen;
  for (const APInt& slot : first) {
    if (!slot.isNegative()) seen.insert(slot.getSExtValue());
  }
  return llvm::none_of(second, [&](const APInt& slot) { return seen.contains(slot.getSExtValue()); });
}

bool fusible(AppendKvOp a, AppendKvOp b) {
  if (!isa<RankedTensorType>(a.getKeys().getType()) || !isa<RankedTensorType>(b.getKeys().getType()))
    return false;
  if (a.getCache() != b.getCache() || a.getLayer() != b.getLayer()) return false;
  if (getElementTypeOrSelf(a.getKeys()) != getElementTypeOrSelf(b.getKeys())) return false;
  if (a.getTable() && b.getTable()) {
    return a.getTable() == b.getTable() && continues(a.getFirst(), a.getKeys(), b.getFirst());
  }
  return a.getSlots() && b.getSlots() && differ(a.getSlots(), b.getSlots());
}

// Two tensors behind each other in dimension 0.
Value concatenate(OpBuilder& b, Location loc, Value first, Value second) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, first);
  const SmallVector<OpFoldResult> first_sizes = sizes, second_sizes = tensor::getMixedSizes(b, loc, second);
  const auto n = getConstantIntValue(sizes[0]), more = getConstantIntValue(second_sizes[0]);
  if (n && more) {
    sizes[0] = b.getIndexAttr(*n + *more);
  } else {
    const Value x = getValueOrCreateConstantIndexOp(b, loc, sizes[0]);
    const Value y = getValueOrCreateConstantIndexOp(b, loc, second_sizes[0]);
    sizes[0] = b.create<arith::AddIOp>(loc, x, y).getResult();
  }
  const size_t rank = sizes.size();
  const SmallVector<OpFoldResult> ones(rank, b.getIndexAttr(1));
  SmallVector<OpFoldResult> offsets(rank, b.getIndexAttr(0));
  const Value empty = b.create<tensor::EmptyOp>(loc, sizes, getElementTypeOrSelf(first));
  const Value half = b.create<tensor::InsertSliceOp>(loc, first, empty, offsets, first_sizes, ones);
  offsets[0] = first_sizes[0];
  return b.create<tensor::InsertSliceOp>(loc, second, half, offsets, second_sizes, ones);
}

// In place of the second: what it needs exists there, and nothing between can see the difference.
AppendKvOp fuse(AppendKvOp a, AppendKvOp b) {
  OpBuilder builder(b);
  const Location loc = builder.getFusedLoc({a.getLoc(), b.getLoc()});
  const Value keys = concatenate(builder, loc, a.getKeys(), b.getKeys());
  const Value values = concatenate(builder, loc, a.getValues(), b.getValues());
  const Value slots = a.getSlots() ? concatenate(builder, loc, a.getSlots(), b.getSlots()) : Value();
  const auto fused = builder.create<AppendKvOp>(loc, keys, values, a.getCache(), a.getLayer(), slots,
                                                a.getTable(), a.getFirst());
  a.erase();
  b.erase();
  return fused;
}

void fuse_in(Block& block) {
  AppendKvOp last;
  for (Operation& op : llvm::make_early_inc_range(block)) {
    if (auto append = dyn_cast<AppendKvOp>(op)) {
      last = last && fusible(last, append) ? fuse(last, append) : append;
    } else if (!isMemoryEffectFree(&op)) {
      last = {};
    }
  }
}

struct FuseAppends : impl::KvcFuseAppendsBase<FuseAppends> {
  void runOnOperation() override {
    getOperation()->walk([](Block* block) { fuse_in(*block); });
  }
};

}  // namespace
}  // namespace mlir::kvc
