// SPDX-License-Identifier: Apache-2.0
// kvc-import-llm: LLMIR's ops become ops of kvc. Theirs allocate blocks and hide the positions of sequences;
// here an engine gives both to the function, as slots and block tables.
#include <llvm/ADT/TypeSwitch.h>
#include <mlir/IR/PatternMatch.h>

#include "Llm.h"
#include "Passes.h"

namespace mlir::kvc {

#define GEN_PASS_DEF_KVCIMPORTLLM
#include "Kvc.passes.h.inc"

namespace {

using llm::PagedKvCacheType;

// Imports one function, to which it adds the arguments `slots` and `tables`.
struct Import {
  IRRewriter b;
  func::FuncOp function;
  int64_t blocks;
  Value slots, tables;

  Import(func::FuncOp f, int64_t num_blocks) : b(f.getContext()), function(f), blocks(num_blocks) {}

  PagedCacheType imported(PagedKvCacheType type) {
    return PagedCacheType::getChecked(function.getLoc(), function.getContext(), type.getElementType(),
                                      type.getLayers(), type.getHeads(), type.getHeadDim(),
                                      type.getBlockSize(), blocks);
  }

  // A cache is the same value before and after an append.
  Value cache_of(Value cache) {
    while (auto append = cache.getDefiningOp<llm::AppendKvOp>()) cache = append.getCache();
    if (auto cast = cache.getDefiningOp<UnrealizedConversionCastOp>()) cache = cast.getOperand(0);
    return cache;
  }

  // Blocks that an append gave are the engine's; others are an argument of the program already.
  Value tables_of(Value indices) { return indices.getDefiningOp<llm::AppendKvOp>() ? tables : indices; }

  FailureOr<Value> layer_of(Operation* op, IntegerAttr layer, PagedKvCacheType type) {
    if (!layer && type.getLayers() != 1) {
      op->emitOpError() << "has no attribute `layer`, and its cache has " << type.getLayers()
                        << " layers; set it to 0 .. " << type.getLayers() - 1;
      return failure();
    }
    return b.create<arith::ConstantIndexOp>(op->getLoc(), layer ? layer.getInt() : 0).getResult();
  }

  LogicalResult agree(Operation* op, StringRef name, IntegerAttr attribute, int64_t wanted) {
    if (!attribute || attribute.getInt() == wanted) return success();
    return op->emitOpError() << name << " is " << attribute.getInt() << "; the type of its operand has "
                             << wanted;
  }

  // [batch][tokens][heads][head_dim] without the batch, and back.
  Value flat(Location loc, Value rows) {
    return b.create<tensor::CollapseShapeOp>(loc, rows, SmallVector<ReassociationIndices>{{0, 1}, {2}, {3}});
  }
  Value lengths(Location loc, Value lens) {
    auto type = cast<RankedTensorType>(lens.getType());
    return b.create<arith::ExtSIOp>(loc, type.clone(b.getI64Type()), lens);
  }

  LogicalResult append(llm::AppendKvOp op) {
    const PagedKvCacheType type = op.getCache().getType();
    if (failed(agree(op, "block_size", op.getBlockSizeAttr(), type.getBlockSize()))) return failure();
    const FailureOr<Value> layer = layer_of(op, op.getLayerAttr(), type);
    if (failed(layer)) return failure();
    const Location loc = op.getLoc();
    const Value keys = flat(loc, op.getKeys()), values = flat(loc, op.getValues());
    b.create<AppendKvOp>(loc, keys, values, cast<TypedValue<PagedCacheType>>(cache_of(op.getCache())), *layer,
                         slots, Value(), Value());
    return success();
  }

  LogicalResult attention(llm::PagedAttentionOp op) {
    const PagedKvCacheType type = op.getCache().getType();
    const auto q = cast<RankedTensorType>(op.getQuery().getType());
    if (failed(agree(op, "num_heads", op.getNumHeadsAttr(), q.getDimSize(2))) ||
        failed(agree(op, "head_dim", op.getHeadDimAttr(), type.getHeadDim()))) {
      return failure();
    }
    const FailureOr<Value> layer = layer_of(op, op.getLayerAttr(), type);
    if (failed(layer)) return failure();
    const Location loc = op.getLoc();
    const SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, op.getQuery());
    const Value rows = flat(loc, op.getQuery());
    const Value out = b.create<tensor::EmptyOp>(loc, tensor::getMixedSizes(b, loc, rows), q.getElementType());
    // Request r of the batch has the queries from r * tokens on.
    const Value tokens = getValueOrCreateConstantIndexOp(b, loc, sizes[1]);
    const Value batch = getValueOrCreateConstantIndexOp(b, loc, sizes[0]);
    const Value one = b.create<arith::ConstantIndexOp>(loc, 1);
    const Value entries = b.create<arith::AddIOp>(loc, batch, one);
    const auto any = RankedTensorType::get({ShapedType::kDynamic}, b.getI64Type());
    const Value offsets = b.create<tensor::GenerateOp>(
        loc, any, ValueRange{entries}, [&](OpBuilder& inside, Location at, ValueRange index) {
          const Value first = inside.create<arith::MulIOp>(at, index[0], tokens);
          const Value number = inside.create<arith::IndexCastOp>(at, inside.getI64Type(), first);
          inside.create<tensor::YieldOp>(at, number);
        });
    const FloatAttr scale = op.getScaleAttr() ? op.getScaleAttr() : b.getF32FloatAttr(0);
    const FloatAttr off = b.getF32FloatAttr(0);
    const IntegerAttr none = b.getI64IntegerAttr(0);
    auto call = b.create<PagedAttentionOp>(
        loc, TypeRange{out.getType()}, rows, cast<TypedValue<PagedCacheType>>(cache_of(op.getCache())),
        *layer, tables_of(op.getBlockIndices()), lengths(loc, op.getSeqLens()), offsets, Value(), Value(),
        Value(), Value(), Value(), out, scale, off, none, none, UnitAttr());
    const Value result = b.create<tensor::ExpandShapeOp>(
        loc, q, call.getResult(0), SmallVector<ReassociationIndices>{{0, 1}, {2}, {3}}, sizes);
    b.replaceAllUsesWith(op.getOut(), result);
    return success();
  }

  // One sequence after the other; what is past its length is zero.
  LogicalResult lookup(llm::LookupKvOp op) {
    const PagedKvCacheType type = op.getCache().getType();
    const auto rows = cast<RankedTensorType>(op.getKeys().getType());
    if (failed(agree(op, "num_heads", op.getNumHeadsAttr(), type.getHeads())) ||
        failed(agree(op, "head_dim", op.getHeadDimAttr(), type.getHeadDim()))) {
      return failure();
    }
    if (rows != op.getValues().getType() || !rows.hasStaticShape()) {
      return op.emitOpError() << "has results " << rows << " and " << op.getValues().getType()
                              << "; they must be equal and static";
    }
    const FailureOr<Value> layer = layer_of(op, op.getLayerAttr(), type);
    if (failed(layer)) return failure();
    const Location loc = op.getLoc();
    const Value zero = b.create<arith::ConstantOp>(loc, b.getZeroAttr(rows));
    const Value c0 = b.create<arith::ConstantIndexOp>(loc, 0), c1 = b.create<arith::ConstantIndexOp>(loc, 1);
    const Value batch = b.create<arith::ConstantIndexOp>(loc, rows.getDimSize(0));
    const Value cache = cache_of(op.getCache()), all_tables = tables_of(op.getBlockIndices());
    auto loop = b.create<scf::ForOp>(loc, c0, batch, c1, ValueRange{zero, zero});
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      const Value r = loop.getInductionVar();
      const Value number = b.create<tensor::ExtractOp>(loc, op.getSeqLens(), ValueRange{r});
      const Value length = b.create<arith::IndexCastOp>(loc, b.getIndexType(), number);
      const OpFoldResult one = b.getIndexAttr(1), none = b.getIndexAttr(0);
      const auto table_type = RankedTensorType::get({ShapedType::kDynamic}, b.getI32Type());
      const OpFoldResult entries = tensor::getMixedSize(b, loc, all_tables, 1);
      const Value width = getValueOrCreateConstantIndexOp(b, loc, entries);
      const Value table = b.create<tensor::ExtractSliceOp>(
          loc, table_type, all_tables, ArrayRef<OpFoldResult>{r, none},
          ArrayRef<OpFoldResult>{one, OpFoldResult(width)}, ArrayRef<OpFoldResult>{one, one});
      const auto part = RankedTensorType::get({ShapedType::kDynamic, rows.getDimSize(2), rows.getDimSize(3)},
                                              rows.getElementType());
      const SmallVector<OpFoldResult> offsets{r, none, none, none}, ones(4, one);
      const SmallVector<OpFoldResult> sizes{one, length, b.getIndexAttr(rows.getDimSize(2)),
                                            b.getIndexAttr(rows.getDimSize(3))};
      SmallVector<Value> parts;
      for (const Value all : loop.getRegionIterArgs()) {
        parts.push_back(b.create<tensor::ExtractSliceOp>(loc, part, all, offsets, sizes, ones));
      }
      auto gather = b.create<LookupKvOp>(loc, TypeRange{part, part}, cast<TypedValue<PagedCacheType>>(cache),
                                         *layer, Value(), table, c0, parts[0], parts[1]);
      SmallVector<Value> next;
      for (const auto& [all, got] : llvm::zip(loop.getRegionIterArgs(), gather.getResults())) {
        next.push_back(b.create<tensor::InsertSliceOp>(loc, got, all, offsets, sizes, ones));
      }
      b.create<scf::YieldOp>(loc, next);
    }
    b.replaceAllUsesWith(op.getKeys(), loop.getResult(0));
    b.replaceAllUsesWith(op.getValues(), loop.getResult(1));
    return success();
  }

  LogicalResult run() {
    SmallVector<Operation*> ops;
    function.walk([&](Operation* op) {
      if (isa<llm::LlmDialect>(op->getDialect())) ops.push_back(op);
    });
    const auto is_llm = llvm::IsaPred<PagedKvCacheType>;
    const bool has_results = llvm::any_of(function.getResultTypes(), is_llm);
    if (ops.empty() && !has_results && llvm::none_of(function.getArgumentTypes(), is_llm)) return success();
    if (function.isExternal())
      return function.emitOpError("has a cache of llm and no body; the importer needs it");
    for (Operation* op : ops) {
      for (const Value operand : op->getOperands()) {
        if (isa<PagedKvCacheType>(operand.getType()) && !isa<BlockArgument>(operand) &&
            !operand.getDefiningOp<llm::AppendKvOp>()) {
          return op->emitOpError(
              "has a cache that is neither an argument of its function nor that of an append");
        }
      }
    }
    // Arguments change their types; uses by other ops are refused below.
    Block& entry = function.getBody().front();
    for (BlockArgument argument : entry.getArguments()) {
      const auto type = dyn_cast<PagedKvCacheType>(argument.getType());
      if (!type) continue;
      const PagedCacheType cache = imported(type);
      if (!cache) return failure();
      for (Operation* user : argument.getUsers()) {
        if (!isa<llm::LlmDialect>(user->getDialect()) && !isa<func::ReturnOp>(user)) {
          return user->emitOpError("uses a cache of llm; inline it first");
        }
      }
      const Value old = cast_back(entry, argument, type);
      argument.replaceAllUsesExcept(old, old.getDefiningOp());
      argument.setType(cache);
    }
    const Location loc = function.getLoc();
    slots = entry.addArgument(RankedTensorType::get({ShapedType::kDynamic}, b.getI64Type()), loc);
    tables = entry.addArgument(
        RankedTensorType::get({ShapedType::kDynamic, ShapedType::kDynamic}, b.getI32Type()), loc);
    for (Operation* op : ops) {
      b.setInsertionPoint(op);
      const LogicalResult done =
          TypeSwitch<Operation*, LogicalResult>(op)
              .Case<llm::AppendKvOp>([&](auto it) { return append(it); })
              .Case<llm::PagedAttentionOp>([&](auto it) { return attention(it); })
              .Default([&](Operation* it) { return lookup(cast<llm::LookupKvOp>(it)); });
      if (failed(done)) return failure();
    }
    function.walk([&](func::ReturnOp op) {
      for (OpOperand& operand : op->getOpOperands()) {
        if (isa<PagedKvCacheType>(operand.get().getType())) operand.set(cache_of(operand.get()));
      }
    });
    for (Operation* op : llvm::reverse(ops)) {
      for (const Value result : op->getResults()) {
        if (!result.use_empty())
          return op->emitOpError("has a result that an op outside llm uses; it has no meaning in kvc");
      }
      b.eraseOp(op);
    }
    for (Operation& op : llvm::make_early_inc_range(entry)) {
      if (isa<UnrealizedConversionCastOp>(op) && op.use_empty()) b.eraseOp(&op);
    }
    SmallVector<Type> results;
    for (const Type type : function.getResultTypes()) {
      const auto cache = dyn_cast<PagedKvCacheType>(type);
      results.push_back(cache ? imported(cache) : type);
    }
    function.setType(b.getFunctionType(entry.getArgumentTypes(), results));
    return success();
  }

  // Stands for an argument of the old type until its users are imported.
  Value cast_back(Block& entry, BlockArgument argument, Type type) {
    b.setInsertionPointToStart(&entry);
    return b.create<UnrealizedConversionCastOp>(argument.getLoc(), type, argument).getResult(0);
  }
};

struct ImportLlm : impl::KvcImportLlmBase<ImportLlm> {
  using Base::Base;

  void runOnOperation() override {
    if (blocks < 1) {
      getOperation().emitError(
          "kvc-import-llm needs the option blocks: a cache of llm does not say how many it has");
      return signalPassFailure();
    }
    SmallVector<func::FuncOp> functions(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp function : functions) {
      if (failed(Import(function, blocks).run())) return signalPassFailure();
    }
  }
};

}  // namespace
}  // namespace mlir::kvc
