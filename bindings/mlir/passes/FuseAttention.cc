// SPDX-License-Identifier: Apache-2.0
// kvc-fuse-attention: a gather of keys and values, with dense attention over them, becomes one op that reads
// the blocks.
//
//   keys, values = kvc.lookup_kv by a block table from 0
//   scores[h, q, t] = sum over d of queries[q, h, d] * keys[t, h / group, d]     f32
//   logits = scores times constants, and masked: plus 0 or -infinity, or a choice of -infinity
//   weights = softmax over t                                                     linalg.softmax
//   out[q, h, d] = sum over t of weights[h, q, t] * values[t, h / group, d]      f32
//
// The products are linalg.generic, linalg.batch_matmul or another op of linalg that is one, and dimensions
// may have any order: what only moves elements (transpositions, broadcasts, reshapes) is looked through. What
// happens to elements is read as one expression, whether it stands in ops on tensors or in bodies of linalg.
#include <mlir/Dialect/Affine/Utils.h>
#include <mlir/IR/Matchers.h>

#include <cmath>

#include "support.h"

namespace mlir::kvc {

#define GEN_PASS_DEF_KVCFUSEATTENTION
#include "Kvc.passes.h.inc"

namespace {

using linalg::LinalgOp;

// An element: of a tensor, at the indices that `map` gives; or with a body, a scalar in it, in the iteration
// that `map` gives. The dimensions of `map` are those of the scores, and in products behind them the summed
// one.
struct Expr {
  Value value;
  LinalgOp body;
  AffineMap map;

  Expr operand(unsigned i) const { return {value.getDefiningOp()->getOperand(i), body, map}; }
};

// Shown and hidden are of i1; added is 0 or -infinity where the program can be fused.
struct Mask {
  enum { kAdded, kShown, kHidden } kind;
  Expr expr;
};

struct Dense {
  LinalgOp out;
  linalg::SoftmaxOp softmax;
  LookupKvOp lookup;
  Value queries;
  AffineMap queries_map, out_map;  // to the scores' dimensions and, as the last one, d
  unsigned h = 0, q = 0, t = 0;    // which of the scores' dimensions
  float scale = 1.0f;
  SmallVector<Mask> masks;

  unsigned d() const { return 3; }
};

bool one_result(LinalgOp op) {
  return op.getNumDpsInits() == 1 && op->getNumResults() == 1 && op.hasPureTensorSemantics();
}

// ---- what only moves elements

// From the index in a dimension that reshaping makes, or takes, of several: the indices in those.
bool split(AffineExpr index, ArrayRef<int64_t> sizes, SmallVectorImpl<AffineExpr>& indices) {
  SmallVector<AffineExpr> reversed;
  const size_t outermost = llvm::find_if(sizes, [](int64_t size) { return size != 1; }) - sizes.begin();
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) {
      reversed.push_back(getAffineConstantExpr(0, index.getContext()));
    } else if (i == outermost) {
      reversed.push_back(index);
    } else {
      if (ShapedType::isDynamic(sizes[i]) || sizes[i] == 0) return false;
      reversed.push_back(index % sizes[i]);
      index = index.floorDiv(sizes[i]);
    }
  }
  llvm::append_range(indices, llvm::reverse(reversed));
  return true;
}

bool join(ArrayRef<AffineExpr> indices, ArrayRef<int64_t> sizes, AffineExpr& index) {
  index = indices[0];
  for (size_t i = 1; i < indices.size(); ++i) {
    if (ShapedType::isDynamic(sizes[i])) return false;
    index = index * sizes[i] + indices[i];
  }
  return true;
}

// Through one reshape, if sizes are known where they must be.
bool through_reshape(Expr& e) {
  SmallVector<AffineExpr> indices;
  Operation* op = e.value.getDefiningOp();
  if (auto collapse = dyn_cast_or_null<tensor::CollapseShapeOp>(op)) {
    for (const auto& [i, group] : llvm::enumerate(collapse.getReassociationIndices())) {
      if (!split(e.map.getResult(i), collapse.getSrcType().getShape().slice(group.front(), group.size()),
                 indices))
        return false;
    }
  } else if (auto expand = dyn_cast_or_null<tensor::ExpandShapeOp>(op)) {
    for (const auto& group : expand.getReassociationIndices()) {
      AffineExpr index;
      if (!join(e.map.getResults().slice(group.front(), group.size()),
                expand.getResultType().getShape().slice(group.front(), group.size()), index))
        return false;
      indices.push_back(index);
    }
  } else {
    return false;
  }
  e.value = op->getOperand(0);
  if (static_cast<int64_t>(indices.size()) != cast<RankedTensorType>(e.value.getType()).getRank())
    return false;
  e.map = simplifyAffineMap(AffineMap::get(e.map.getNumDims(), 0, indices, e.map.getContext()));
  return true;
}

// The same element, where it is computed or comes from.
Expr resolve(Expr e) {
  for (;;) {
    if (e.body) {
      auto argument = dyn_cast<BlockArgument>(e.value);
      if (!argument || argument.getOwner() != e.body.getBlock() ||
          argument.getArgNumber() >= e.body.getNumDpsInputs())
        return e;
      OpOperand* input = e.body.getDpsInputOperand(argument.getArgNumber());
      e = {input->get(), LinalgOp(), e.body.getMatchingIndexingMap(input).compose(e.map)};
      continue;
    }
    auto op = e.value.getDefiningOp<LinalgOp>();
    if (!op) {
      if (!through_reshape(e)) return e;
      continue;
    }
    if (!one_result(op) || op.getNumParallelLoops() != op.getNumLoops()) return e;
    const AffineMap out = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
    if (!out.isPermutation()) return e;
    e = {op.getBlock()->getTerminator()->getOperand(0), op, inversePermutation(out).compose(e.map)};
  }
}

std::optional<float> constant(const Expr& element) {
  const Expr e = resolve(element);
  Attribute attribute;
  if (!matchPattern(e.value, m_Constant(&attribute))) return {};
  if (auto splat = dyn_cast<SplatElementsAttr>(attribute)) attribute = splat.getSplatValue<Attribute>();
  auto number = dyn_cast<FloatAttr>(attribute);
  if (!number || !number.getType().isF32()) return {};
  return number.getValue().convertToFloat();
}

// ---- masks

// Computes an element of a mask for one query and one token; without a builder only tells whether that is
// possible: whether it is the same for all heads, and has no effect. `budget` bounds the work.
bool emit(const Expr& element, unsigned head, OpBuilder* b, ValueRange at, Value& result, int& budget) {
  Expr e = resolve(element);
  if (--budget < 0 || e.map.getNumSymbols() != 0) return false;
  Operation* op = e.value.getDefiningOp();
  Attribute attribute;
  if (op && matchPattern(op, m_Constant(&attribute))) {
    if (auto splat = dyn_cast<SplatElementsAttr>(attribute)) attribute = splat.getSplatValue<Attribute>();
    if (auto number = dyn_cast<TypedAttr>(attribute); number && number.getType().isIntOrIndexOrFloat()) {
      if (b) result = b->create<arith::ConstantOp>(op->getLoc(), number);
      return true;
    }
  }
  const auto index = [&](AffineExpr expr, Location loc) {
    return affine::expandAffineExpr(*b, loc, expr, at, {});
  };
  const bool tensor = isa<RankedTensorType>(e.value.getType());
  const bool inside = e.body && op && op->getBlock() == e.body.getBlock();
  if (auto counter = dyn_cast_or_null<linalg::IndexOp>(op); counter && inside) {
    const AffineExpr expr = e.map.getResult(counter.getDim());
    if (expr.isFunctionOfDim(head)) return false;
    if (b) result = index(expr, op->getLoc());
    return true;
  }
  if (op && op->getNumResults() == 1 && op->getNumRegions() == 0 && isPure(op) &&
      (inside ? !tensor : tensor && !e.body && OpTrait::hasElementwiseMappableTraits(op))) {
    SmallVector<Value> operands(op->getNumOperands());
    for (unsigned i = 0; i < operands.size(); ++i) {
      if (!emit(e.operand(i), head, b, at, operands[i], budget)) return false;
    }
    if (!b) return true;
    OperationState state(op->getLoc(), op->getName());
    state.addOperands(operands);
    state.addTypes(getElementTypeOrSelf(e.value));
    state.addAttributes(op->getAttrs());
    result = b->create(state)->getResult(0);
    return true;
  }
  if (tensor && !e.body) {
    if (llvm::any_of(e.map.getResults(), [&](AffineExpr it) { return it.isFunctionOfDim(head); }))
      return false;
    if (!b) return true;
    const Location loc = e.value.getLoc();
    SmallVector<Value> indices;
    for (const AffineExpr expr : e.map.getResults()) indices.push_back(index(expr, loc));
    result = b->create<tensor::ExtractOp>(loc, e.value, indices);
    return true;
  }
  // A number of the program around; an argument of the body would be what was in its result before.
  if (inside || (e.body && e.value.getParentBlock() == e.body.getBlock())) return false;
  result = e.value;
  return true;
}

bool can_emit(const Expr& element, unsigned head) {
  int budget = 100;
  Value none;
  return emit(element, head, nullptr, {}, none, budget);
}

// ---- the chain

// Whether the op adds products of its two inputs to zeros, all of f32, in four loops of which one sums.
bool sums_products(LinalgOp op) {
  if (!op || !one_result(op) || op.getNumDpsInputs() != 2) return false;
  if (op.getNumLoops() != 4 || op.getNumReductionLoops() != 1 || op.getNumParallelLoops() != 3) return false;
  for (const Value operand : op->getOperands()) {
    if (!isa<RankedTensorType>(operand.getType()) || !getElementTypeOrSelf(operand).isF32()) return false;
  }
  const AffineMap out = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  SmallVector<unsigned> summed;
  op.getReductionDims(summed);
  if (!out.isProjectedPermutation() || out.getNumResults() != 3 || out.isFunctionOfDim(summed[0]))
    return false;
  auto fill = op.getDpsInits()[0].getDefiningOp<linalg::FillOp>();
  if (!fill || !matchPattern(fill.getInputs()[0], m_PosZeroFloat())) return false;
  Block& body = *op.getBlock();
  auto add = body.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  if (!add || !llvm::hasNItems(body, 3)) return false;
  const Value sum = body.getArgument(2);
  auto product = (add.getLhs() == sum ? add.getRhs() : add.getLhs()).getDefiningOp<arith::MulFOp>();
  if (!product || (add.getLhs() != sum && add.getRhs() != sum)) return false;
  const Value x = body.getArgument(0), y = body.getArgument(1);
  return (product.getLhs() == x && product.getRhs() == y) || (product.getLhs() == y && product.getRhs() == x);
}

bool is_dim(AffineExpr expr, unsigned position) {
  auto dim = dyn_cast<AffineDimExpr>(expr);
  return dim && dim.getPosition() == position;
}

// Whether the map is one from the dimensions to these three, in any order.
bool permutes(AffineMap map, std::array<unsigned, 3> dims) {
  return map.getNumResults() == 3 && llvm::all_of(dims, [&](unsigned dim) {
           return llvm::count_if(map.getResults(), [&](AffineExpr it) { return is_dim(it, dim); }) == 1;
         });
}

// A product's iteration, as a map from the scores' dimensions and its other one. `three` is the place of the
// scores' dimensions in it; null if they are not three loops.
AffineMap iteration(LinalgOp op, AffineMap three, AffineMap scores) {
  MLIRContext* context = op.getContext();
  SmallVector<AffineExpr> loops(4);
  for (unsigned i = 0; i < 3; ++i) {
    auto loop = dyn_cast<AffineDimExpr>(three.getResult(i));
    if (!loop || loops[loop.getPosition()]) return {};
    loops[loop.getPosition()] = scores.getResult(i);
  }
  for (AffineExpr& loop : loops) {
    if (!loop) loop = getAffineDimExpr(3, context);
  }
  return AffineMap::get(4, 0, loops, context);
}

Expr input(LinalgOp op, unsigned i, AffineMap loops) {
  OpOperand* operand = op.getDpsInputOperand(i);
  return {operand->get(), LinalgOp(), op.getMatchingIndexingMap(operand).compose(loops)};
}

// Whether rows are read as [t][kv head of h][d] of a result of the lookup.
bool reads_rows(const Expr& e, Dense& found, unsigned result) {
  if (e.body || e.value != found.lookup->getResult(result)) return false;
  const int64_t heads = cast<ShapedType>(found.softmax.getInput().getType()).getDimSize(found.h);
  const int64_t kv_heads = found.lookup.getCache().getType().getKvHeads();
  if (ShapedType::isDynamic(heads) || heads == 0 || heads % kv_heads != 0) return false;
  const AffineExpr h = getAffineDimExpr(found.h, e.map.getContext()), head = e.map.getResult(1);
  const bool only_one = kv_heads == 1 && head == getAffineConstantExpr(0, e.map.getContext());
  return is_dim(e.map.getResult(0), found.t) && (only_one || head == h.floorDiv(heads / kv_heads)) &&
         is_dim(e.map.getResult(2), found.d());
}

// Whether the element is a product of queries and the keys of the lookup.
bool is_product(const Expr& e, Dense& found) {
  auto op = e.value.getDefiningOp<LinalgOp>();
  if (e.body || !sums_products(op) || !permutes(e.map, {0, 1, 2})) return false;
  const AffineMap scores = AffineMap::get(4, 0, e.map.getResults(), e.map.getContext());
  const AffineMap loops = iteration(op, op.getMatchingIndexingMap(op.getDpsInitOperand(0)), scores);
  if (!loops) return false;
  for (const unsigned keys : {1u, 0u}) {
    const Expr rows = resolve(input(op, keys, loops)), queries = input(op, 1 - keys, loops);
    for (found.h = 0; found.h < 3; ++found.h) {
      found.q = 3 - found.t - found.h;
      if (found.h == found.t || !reads_rows(rows, found, 0)) continue;
      if (!permutes(queries.map, {found.q, found.h, found.d()})) continue;
      // The op takes no unknown number of heads.
      const auto sizes = cast<ShapedType>(queries.value.getType()).getShape();
      const size_t heads =
          llvm::find_if(queries.map.getResults(), [&](AffineExpr it) { return is_dim(it, found.h); }) -
          queries.map.getResults().begin();
      if (ShapedType::isDynamic(sizes[heads])) continue;
      found.queries = queries.value;
      found.queries_map = queries.map;
      return true;
    }
  }
  return false;
}

// Whether the element is such a product, scaled and masked.
bool is_logit(const Expr& element, Dense& found, int depth = 0) {
  const Expr e = resolve(element);
  Operation* op = e.value.getDefiningOp();
  if (!op || depth > 16) return false;
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  if (isa<arith::MulFOp, arith::DivFOp>(op)) {
    for (const unsigned other : {1u, 0u}) {
      std::optional<float> factor = constant(e.operand(other));
      if (!factor || (isa<arith::DivFOp>(op) && other == 0)) continue;
      if (APFloat inverse(0.0f); isa<arith::DivFOp>(op)) {
        if (!APFloat(*factor).getExactInverse(&inverse)) return false;
        factor = inverse.convertToFloat();
      }
      found.scale *= *factor;
      return is_logit(e.operand(1 - other), found, depth + 1);
    }
    return false;
  }
  // What scales a masked logit must leave -infinity as it is.
  const auto masked = [&](const Expr& logit, const Mask& mask) {
    Dense copy = found;
    if (!(found.scale > 0) || !is_logit(logit, copy, depth + 1)) return false;
    copy.masks.push_back(mask);
    found = copy;
    return true;
  };
  if (isa<arith::AddFOp>(op)) {
    return masked(e.operand(0), {Mask::kAdded, e.operand(1)}) ||
           masked(e.operand(1), {Mask::kAdded, e.operand(0)});
  }
  if (isa<arith::SelectOp>(op)) {
    if (constant(e.operand(2)) == kHidden) return masked(e.operand(1), {Mask::kShown, e.operand(0)});
    if (constant(e.operand(1)) == kHidden) return masked(e.operand(2), {Mask::kHidden, e.operand(0)});
    return false;
  }
  return is_product(e, found);
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
bool match(LinalgOp out, Dense& found) {
  found.out = out;
  if (!sums_products(out)) return false;
  for (const unsigned values : {1u, 0u}) {
    const AffineMap all = AffineMap::getMultiDimIdentityMap(4, out.getContext());
    const Expr weights = resolve(input(out, 1 - values, all));
    found.softmax = weights.value.getDefiningOp<linalg::SoftmaxOp>();
    if (weights.body || !found.softmax || weights.map.getNumResults() != 3) continue;
    found.t = found.softmax.getDimension();
    const AffineMap loops = iteration(out, weights.map, all);
    if (!loops) return false;
    const Expr rows = resolve(input(out, values, loops));
    found.lookup = rows.value.getDefiningOp<LookupKvOp>();
    if (!found.lookup || !found.lookup.getTable() || !matchPattern(found.lookup.getFirst(), m_Zero()))
      return false;
    const AffineMap scores = AffineMap::getMultiDimIdentityMap(3, out.getContext());
    if (!is_logit({found.softmax.getInput(), LinalgOp(), scores}, found) || !reads_rows(rows, found, 1))
      return false;
    found.out_map = out.getMatchingIndexingMap(out.getDpsInitOperand(0)).compose(loops);
    // 0 means another scale to the op, and beyond 1e30 it refuses.
    return permutes(found.out_map, {found.q, found.h, found.d()}) && found.scale != 0.0f &&
           std::abs(found.scale) <= 1e30f &&
           llvm::all_of(found.masks, [&](const Mask& it) { return can_emit(it.expr, found.h); }) &&
           only_reads_between(found.lookup, out);
  }
  return false;
}

// ---- the op in its place

// The tensor in the order [q][h][d], from one in the order of the map; or back.
Value reorder(OpBuilder& b, Location loc, Value tensor, AffineMap map, Dense& dense, bool back) {
  const unsigned wanted[] = {dense.q, dense.h, dense.d()};
  SmallVector<int64_t> order;  // element i of the result's shape is that of the tensor at order[i]
  for (unsigned i = 0; i < 3; ++i) {
    for (unsigned j = 0; j < 3; ++j) {
      if (is_dim(map.getResult(back ? i : j), wanted[back ? j : i])) order.push_back(j);
    }
  }
  if (llvm::equal(order, ArrayRef<int64_t>{0, 1, 2})) return tensor;
  const SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, tensor);
  const SmallVector<OpFoldResult> moved{sizes[order[0]], sizes[order[1]], sizes[order[2]]};
  const Value empty = b.create<tensor::EmptyOp>(loc, moved, getElementTypeOrSelf(tensor));
  return b.create<linalg::TransposeOp>(loc, tensor, empty, order)->getResult(0);
}

// The queries as [q][h][d]: as they were before a transposition, if that had this order.
Value rows_of_queries(OpBuilder& b, Dense& dense) {
  if (auto moved = dense.queries.getDefiningOp<linalg::TransposeOp>()) {
    const SmallVector<AffineMap> maps = moved.getIndexingMapsArray();
    const AffineMap before = maps[0].compose(inversePermutation(maps[1])).compose(dense.queries_map);
    if (is_dim(before.getResult(0), dense.q) && is_dim(before.getResult(1), dense.h)) return moved.getInput();
  }
  return reorder(b, dense.out.getLoc(), dense.queries, dense.queries_map, dense, /*back=*/false);
}

// Bits of the masks, and whether the op does with them what the chain does: what is added is 0 or -infinity,
// and each query sees a token, because of none softmax makes NaN and the op zeros.
struct Bits {
  Value bits, exact;
};

Bits bits_of(OpBuilder& b, Dense& dense, Value queries, Value tokens) {
  const Location loc = dense.out.getLoc();
  const Type i8 = b.getI8Type();
  const Value zero = b.create<arith::ConstantIndexOp>(loc, 0), one = b.create<arith::ConstantIndexOp>(loc, 1);
  const Value eight = b.create<arith::ConstantIndexOp>(loc, 8);
  const Value hidden = b.create<arith::ConstantIntOp>(loc, 0, 8),
              shown = b.create<arith::ConstantIntOp>(loc, 1, 8),
              other = b.create<arith::ConstantIntOp>(loc, 2, 8);
  const Value no = b.create<arith::ConstantIntOp>(loc, 0, 1), yes = b.create<arith::ConstantIntOp>(loc, 1, 1);
  const int64_t any = ShapedType::kDynamic;
  const Value states = b.create<tensor::GenerateOp>(
      loc, RankedTensorType::get({any, any}, i8), ValueRange{queries, tokens},
      [&](OpBuilder& g, Location at, ValueRange index) {
        SmallVector<Value> place(3, zero);
        place[dense.q] = index[0], place[dense.t] = index[1];
        Value sees = yes, exact = yes;
        for (const Mask& mask : dense.masks) {
          int budget = 100;
          Value element;
          emit(mask.expr, dense.h, &g, place, element, budget);
          if (mask.kind != Mask::kAdded) {
            if (mask.kind == Mask::kHidden) element = g.create<arith::XOrIOp>(at, element, yes);
            sees = g.create<arith::AndIOp>(at, sees, element);
            continue;
          }
          const auto equals = [&](float number) -> Value {
            const Value wanted = g.create<arith::ConstantOp>(at, g.getF32FloatAttr(number));
            return g.create<arith::CmpFOp>(at, arith::CmpFPredicate::OEQ, element, wanted);
          };
          const Value nothing = equals(0.0f), all = equals(-std::numeric_limits<float>::infinity());
          sees = g.create<arith::AndIOp>(at, sees, nothing);
          exact = g.create<arith::AndIOp>(at, exact, g.create<arith::OrIOp>(at, nothing, all));
        }
        const Value state = g.create<arith::SelectOp>(at, sees, shown, hidden);
        g.create<tensor::YieldOp>(at, g.create<arith::SelectOp>(at, exact, state, other));
      });
  const auto is = [&](OpBuilder& g, Location at, Value state, Value wanted) -> Value {
    return g.create<arith::CmpIOp>(at, arith::CmpIPredicate::eq, state, wanted);
  };
  auto rows = b.create<scf::ForOp>(
      loc, zero, queries, one, ValueRange{yes}, [&](OpBuilder& r, Location at, Value i, ValueRange so_far) {
        auto row = r.create<scf::ForOp>(
            at, zero, tokens, one, ValueRange{so_far[0], no},
            [&](OpBuilder& g, Location, Value j, ValueRange both) {
              const Value state = g.create<tensor::ExtractOp>(at, states, ValueRange{i, j});
              const Value fine = g.create<arith::XOrIOp>(at, is(g, at, state, other), yes);
              const Value exact = g.create<arith::AndIOp>(at, both[0], fine);
              const Value sees = g.create<arith::OrIOp>(at, both[1], is(g, at, state, shown));
              g.create<scf::YieldOp>(at, ValueRange{exact, sees});
            });
        const Value both = r.create<arith::AndIOp>(at, row.getResult(0), row.getResult(1));
        r.create<scf::YieldOp>(at, both);
      });
  const Value count = b.create<arith::MulIOp>(loc, queries, tokens);
  const Value seven = b.create<arith::ConstantIndexOp>(loc, 7);
  const Value more = b.create<arith::AddIOp>(loc, count, seven);
  const Value bytes = b.create<arith::DivUIOp>(loc, more, eight);
  const Value bits = b.create<tensor::GenerateOp>(
      loc, RankedTensorType::get({any}, i8), ValueRange{bytes},
      [&](OpBuilder& g, Location at, ValueRange index) {
        const Value first = g.create<arith::MulIOp>(at, index[0], eight);
        const Value rest = g.create<arith::SubIOp>(at, count, first);
        const Value end = g.create<arith::MinUIOp>(at, rest, eight);
        auto byte = g.create<scf::ForOp>(
            at, zero, end, one, ValueRange{hidden},
            [&](OpBuilder& k, Location, Value bit, ValueRange so_far) {
              const Value place = k.create<arith::AddIOp>(at, first, bit);
              const Value i = k.create<arith::DivUIOp>(at, place, tokens);
              const Value j = k.create<arith::RemUIOp>(at, place, tokens);
              const Value state = k.create<tensor::ExtractOp>(at, states, ValueRange{i, j});
              const Value sees = k.create<arith::SelectOp>(at, is(k, at, state, shown), shown, hidden);
              const Value shift = k.create<arith::IndexCastOp>(at, i8, bit);
              const Value moved = k.create<arith::ShLIOp>(at, sees, shift);
              k.create<scf::YieldOp>(at, ValueRange{k.create<arith::OrIOp>(at, so_far[0], moved)});
            });
        g.create<tensor::YieldOp>(at, byte.getResult(0));
      });
  return {bits, rows.getResult(0)};
}

Value paged(OpBuilder& b, Dense& dense, Value bits) {
  const Location loc = dense.out.getLoc();
  const Value queries = rows_of_queries(b, dense), table = dense.lookup.getTable();
  const auto type = cast<RankedTensorType>(queries.getType());
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
  const Value mask_offsets = bits ? b.create<tensor::FromElementsOp>(loc, ValueRange{zero}) : Value();
  const Value out =
      b.create<tensor::EmptyOp>(loc, tensor::getMixedSizes(b, loc, queries), type.getElementType());
  auto attention = b.create<PagedAttentionOp>(
      loc, TypeRange{type}, queries, dense.lookup.getCache(), dense.lookup.getLayer(), tables, lens, offsets,
      bits, mask_offsets, Value(), Value(), Value(), out, b.getF32FloatAttr(dense.scale),
      b.getF32FloatAttr(0), b.getI64IntegerAttr(0), b.getI64IntegerAttr(0), b.getUnitAttr());
  const Value result = reorder(b, loc, attention->getResult(0), dense.out_map, dense, /*back=*/true);
  const Type wanted = dense.out->getResult(0).getType();
  return result.getType() == wanted ? result : b.create<tensor::CastOp>(loc, wanted, result).getResult();
}

// The ops of the chain, in their order: those between the lookup and its end that need what it found.
SmallVector<Operation*> chain_of(Dense& dense) {
  Block* block = dense.out->getBlock();
  llvm::SmallDenseSet<Operation*> users;
  SmallVector<Operation*> chain;
  for (Operation* op = dense.lookup; op != dense.out->getNextNode(); op = op->getNextNode()) {
    const WalkResult needs = op->walk([&](Operation* inner) {
      const auto is_used = [&](Value it) { return users.contains(it.getDefiningOp()); };
      return WalkResult(llvm::any_of(inner->getOperands(), is_used) ? failure() : success());
    });
    if (op == dense.lookup || needs.wasInterrupted()) users.insert(op);
  }
  llvm::SmallDenseSet<Operation*> needed;
  for (Operation* op = dense.out; op != dense.lookup->getPrevNode(); op = op->getPrevNode()) {
    const auto is_needed = [&](Operation* user) {
      return needed.contains(block->findAncestorOpInBlock(*user));
    };
    if (op != dense.out && (!users.contains(op) || llvm::none_of(op->getUsers(), is_needed))) continue;
    needed.insert(op);
    chain.push_back(op);
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

void fuse(Dense& dense) {
  OpBuilder b(dense.out);
  const Location loc = dense.out.getLoc();
  const Value tokens = dense.lookup.getKeys();
  unsigned q = 0;
  while (!is_dim(dense.queries_map.getResult(q), dense.q)) ++q;
  const auto num_queries = cast<ShapedType>(dense.queries.getType()).getDimSize(q),
             num_tokens = cast<ShapedType>(tokens.getType()).getDimSize(0);
  const bool known = !ShapedType::isDynamic(num_queries) && !ShapedType::isDynamic(num_tokens);
  if (known && num_queries > num_tokens) return;
  const SmallVector<Operation*> chain = chain_of(dense);
  Value result;
  if (known && dense.masks.empty()) {
    result = paged(b, dense, {});
  } else {
    // The op refuses more queries than tokens, which the chain takes.
    const Value rows = b.createOrFold<tensor::DimOp>(loc, dense.queries, q);
    const Value columns = b.createOrFold<tensor::DimOp>(loc, tokens, 0);
    Value same;
    if (!known) same = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::ule, rows, columns);
    Bits masks;
    if (!dense.masks.empty()) {
      masks = bits_of(b, dense, rows, columns);
      same = same ? b.create<arith::AndIOp>(loc, same, masks.exact).getResult() : masks.exact;
    }
    auto branch = b.create<scf::IfOp>(
        loc, same,
        [&](OpBuilder& then, Location at) { then.create<scf::YieldOp>(at, paged(then, dense, masks.bits)); },
        [&](OpBuilder& otherwise, Location at) {
          IRMapping mapping;
          for (Operation* op : chain) otherwise.clone(*op, mapping);
          otherwise.create<scf::YieldOp>(at, mapping.lookup(dense.out->getResult(0)));
        });
    result = branch.getResult(0);
  }
  dense.out->getResult(0).replaceAllUsesWith(result);
  for (Operation* op : llvm::reverse(chain)) {
    if (isOpTriviallyDead(op)) op->erase();
  }
}

struct FuseAttention : impl::KvcFuseAttentionBase<FuseAttention> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<LinalgOp> all;
    getOperation()->walk([&](LinalgOp op) { all.push_back(op); });
    // What goes with a chain stands before its end: it was looked at already.
    for (LinalgOp op : all) {
      Dense dense;
      if (match(op, dense) && (dense.masks.empty() || finite_rows)) fuse(dense);
    }
  }
};

}  // namespace
}  // namespace mlir::kvc
