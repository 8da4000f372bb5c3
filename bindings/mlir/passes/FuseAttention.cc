// SPDX-License-Identifier: Apache-2.0
// kvc-fuse-attention: a gather of keys and values, with dense attention over them, becomes one op that reads
// the blocks.
//
//   keys, values = kvc.lookup_kv by a block table from 0
//   scores[h, q, t] = sum over d of queries[q, h, d] * keys[t, h / group, d]     linalg.generic, f32
//   scaled = scores * constant                                                   arith.mulf, may be absent
//   weights = softmax over t                                                     linalg.softmax
//   out[q, h, d] = sum over t of weights[h, q, t] * values[t, h / group, d]      linalg.generic, f32
#include <mlir/IR/Matchers.h>

#include "support.h"

namespace mlir::kvc {

#define GEN_PASS_DEF_KVCFUSEATTENTION
#include "Kvc.passes.h.inc"

namespace {

struct Dense {
  linalg::GenericOp out, scores;
  linalg::SoftmaxOp softmax;
  arith::MulFOp scaled;  // or null
  LookupKvOp lookup;
  float scale = 1.0f;
};

// Whether the op adds products of its two inputs to zeros, all of f32.
bool sums_products(linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 2 || op.getNumDpsInits() != 1 || op->getNumResults() != 1) return false;
  for (const Value operand : op->getOperands()) {
    if (!isa<RankedTensorType>(operand.getType()) || !getElementTypeOrSelf(operand).isF32()) return false;
  }
  auto fill = op.getDpsInits()[0].getDefiningOp<linalg::FillOp>();
  if (!fill || !matchPattern(fill.getInputs()[0], m_PosZeroFloat())) return false;
  Block& body = *op.getBody();
  auto add = body.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  if (!add || !llvm::hasNItems(body, 3)) return false;
  const Value sum = body.getArgument(2);
  auto product = (add.getLhs() == sum ? add.getRhs() : add.getLhs()).getDefiningOp<arith::MulFOp>();
  if (!product || (add.getLhs() != sum && add.getRhs() != sum)) return false;
  const Value x = body.getArgument(0), y = body.getArgument(1);
  return (product.getLhs() == x && product.getRhs() == y) || (product.getLhs() == y && product.getRhs() == x);
}

// Whether the op runs over (h, q, t, d) with these maps, and sums over dimension `summed`.
bool runs_over(linalg::GenericOp op, ArrayRef<AffineMap> maps, size_t summed) {
  SmallVector<utils::IteratorType> types(4, utils::IteratorType::parallel);
  types[summed] = utils::IteratorType::reduction;
  return llvm::equal(op.getIndexingMapsArray(), maps) && op.getIteratorTypesArray() == types;
}

// Whether memory stays as it is from one op to the other.
bool only_reads_between(Operation* first, Operation* last) {
  if (first->getBlock() != last->getBlock()) return false;
  for (Operation* op = first; op != last; op = op->getNextNode()) {
    if (!only_reads(op)) return false;
  }
  return true;
}

// Finds the chain that ends in this op.
bool match(linalg::GenericOp out, Dense& found) {
  found.out = out;
  if (!sums_products(out)) return false;
  found.softmax = out.getDpsInputs()[0].getDefiningOp<linalg::SoftmaxOp>();
  const Value values = out.getDpsInputs()[1];
  found.lookup = values.getDefiningOp<LookupKvOp>();
  if (!found.softmax || found.softmax.getDimension() != 2 || !found.lookup || !found.lookup.getTable())
    return false;
  Value scores = found.softmax.getInput();
  found.scaled = scores.getDefiningOp<arith::MulFOp>();
  if (found.scaled) {
    DenseFPElementsAttr factor;
    const bool right = matchPattern(found.scaled.getRhs(), m_Constant(&factor));
    if (!right && !matchPattern(found.scaled.getLhs(), m_Constant(&factor))) return false;
    if (!factor.isSplat()) return false;
    found.scale = factor.getSplatValue<float>();
    scores = right ? found.scaled.getLhs() : found.scaled.getRhs();
  }
  found.scores = scores.getDefiningOp<linalg::GenericOp>();
  if (!found.scores || !sums_products(found.scores)) return false;
  // 0 means another scale to the op, and beyond 1e30 it refuses.
  if (found.scale == 0.0f || !(std::abs(found.scale) <= 1e30f)) return false;
  if (values != found.lookup->getResult(1) || found.scores.getDpsInputs()[1] != found.lookup->getResult(0))
    return false;
  if (!matchPattern(found.lookup.getFirst(), m_Zero())) return false;

  MLIRContext* context = out.getContext();
  const auto q_heads = cast<ShapedType>(found.scores.getDpsInputs()[0].getType()).getDimSize(1);
  const PagedCacheType cache = found.lookup.getCache().getType();
  if (ShapedType::isDynamic(q_heads) || q_heads == 0 || q_heads % cache.getKvHeads() != 0) return false;
  AffineExpr h, q, t, d;
  bindDims(context, h, q, t, d);
  const int64_t group = q_heads / cache.getKvHeads();
  const AffineExpr kv = group == 1 ? h : h.floorDiv(group);
  const auto map = [&](ArrayRef<AffineExpr> results) { return AffineMap::get(4, 0, results, context); };
  return runs_over(found.scores, {map({q, h, d}), map({t, kv, d}), map({h, q, t})}, /*summed=*/3) &&
         runs_over(out, {map({h, q, t}), map({t, kv, d}), map({q, h, d})}, /*summed=*/2) &&
         only_reads_between(found.lookup, out);
}

Value paged(OpBuilder& b, Dense& dense) {
  const Location loc = dense.out.getLoc();
  const Value queries = dense.scores.getDpsInputs()[0], table = dense.lookup.getTable();
  const auto type = cast<RankedTensorType>(dense.out->getResult(0).getType());
  const auto count = [&](Value tensor) {
    const Value size = b.createOrFold<tensor::DimOp>(loc, tensor, 0);
    return b.createOrFold<arith::IndexCastOp>(loc, b.getI64Type(), size);
  };
  const auto entries = cast<RankedTensorType>(table.getType()).getDimSize(0);
  const auto row = RankedTensorType::get({1, entries}, b.getI32Type());
  const ReassociationIndices both{0, 1};
  const Value tables = b.create<tensor::ExpandShapeOp>(loc, row, table, ArrayRef<ReassociationIndices>{both});
  const Value lens = b.create<tensor::FromElementsOp>(loc, ValueRange{count(dense.lookup.getKeys())});
  const Value zero = b.create<arith::ConstantIntOp>(loc, 0, 64);
  const Value offsets = b.create<tensor::FromElementsOp>(loc, ValueRange{zero, count(queries)});
  const Value out =
      b.create<tensor::EmptyOp>(loc, tensor::getMixedSizes(b, loc, queries), type.getElementType());
  auto attention = b.create<PagedAttentionOp>(
      loc, TypeRange{type}, queries, dense.lookup.getCache(), dense.lookup.getLayer(), tables, lens, offsets,
      Value(), Value(), Value(), out, b.getF32FloatAttr(dense.scale), b.getF32FloatAttr(0),
      b.getI64IntegerAttr(0), b.getI64IntegerAttr(0), b.getUnitAttr());
  return attention->getResult(0);
}

// The chain once more, in a branch.
Value dense_again(OpBuilder& b, Dense& dense) {
  IRMapping mapping;
  SmallVector<Operation*> chain{dense.lookup, dense.scores};
  if (dense.scaled) chain.push_back(dense.scaled);
  chain.append({dense.softmax, dense.out});
  for (Operation* op : chain) b.clone(*op, mapping);
  return mapping.lookup(dense.out->getResult(0));
}

void fuse(Dense& dense) {
  OpBuilder b(dense.out);
  const Location loc = dense.out.getLoc();
  const Value queries = dense.scores.getDpsInputs()[0], tokens = dense.lookup.getKeys();
  const auto num_queries = cast<ShapedType>(queries.getType()).getDimSize(0),
             num_tokens = cast<ShapedType>(tokens.getType()).getDimSize(0);
  Value result;
  if (!ShapedType::isDynamic(num_queries) && !ShapedType::isDynamic(num_tokens)) {
    if (num_queries > num_tokens) return;
    result = paged(b, dense);
  } else {
    // The op refuses more queries than tokens, which the chain takes.
    const Value fits = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::ule,
                                               b.createOrFold<tensor::DimOp>(loc, queries, 0),
                                               b.createOrFold<tensor::DimOp>(loc, tokens, 0));
    auto branch = b.create<scf::IfOp>(
        loc, fits, [&](OpBuilder& then, Location at) { then.create<scf::YieldOp>(at, paged(then, dense)); },
        [&](OpBuilder& otherwise, Location at) {
          otherwise.create<scf::YieldOp>(at, dense_again(otherwise, dense));
        });
    result = branch.getResult(0);
  }
  dense.out->getResult(0).replaceAllUsesWith(result);
  dense.out->erase();
  for (Operation* op : SmallVector<Operation*>{dense.softmax, dense.scaled, dense.scores, dense.lookup}) {
    if (op && isOpTriviallyDead(op)) op->erase();
  }
}

struct FuseAttention : impl::KvcFuseAttentionBase<FuseAttention> {
  void runOnOperation() override {
    SmallVector<linalg::GenericOp> all;
    getOperation()->walk([&](linalg::GenericOp op) { all.push_back(op); });
    for (linalg::GenericOp op : all) {
      Dense dense;
      if (match(op, dense)) fuse(dense);
    }
  }
};

}  // namespace
}  // namespace mlir::kvc
