// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <mlir/Dialect/Func/Transforms/FuncConversions.h>
#include <mlir/Dialect/SCF/Transforms/Patterns.h>
#include <mlir/Interfaces/SideEffectInterfaces.h>
#include <mlir/Parser/Parser.h>

namespace mlir::kvc {

LogicalResult insert_functions(ModuleOp module, StringRef text) {
  const ParserConfig config(module.getContext());
  OwningOpRef<ModuleOp> source = parseSourceString<ModuleOp>(text, config);
  if (!source) return failure();
  for (Operation& op : llvm::make_early_inc_range(*source->getBody())) {
    if (!module.lookupSymbol(SymbolTable::getSymbolName(&op))) {
      op.moveBefore(module.getBody(), module.getBody()->end());
    }
  }
  return success();
}

bool only_reads(Operation* op) {
  const auto effects = getEffectsRecursively(op);
  return effects && llvm::all_of(*effects, [](const MemoryEffects::EffectInstance& effect) {
           return isa<MemoryEffects::Read, MemoryEffects::Allocate>(effect.getEffect());
         });
}

bool seen_by_rows_alone(CreateCacheOp create) {
  return llvm::all_of(create->getUsers(), llvm::IsaPred<CacheOpInterface, DestroyCacheOp>);
}

LogicalResult check_placement(ModuleOp module) {
  const WalkResult result = module.walk([&](Operation* op) {
    if (!isa_and_nonnull<KvcDialect>(op->getDialect())) return WalkResult::advance();
    auto function = op->getParentOfType<func::FuncOp>();
    if (function && function->getParentOp() == module) return WalkResult::advance();
    op->emitOpError("must be in a func.func of the module that is lowered");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult insert_failure(ModuleOp module) {
  return insert_functions(module, R"mlir(
    llvm.mlir.global internal constant @kvc_failure_format("kvc: %s\0A\00")
    llvm.func @dprintf(i32, !llvm.ptr, ...) -> i32
    llvm.func @abort()
    llvm.func internal @kvc_failure(%text: !llvm.ptr) {
      %stderr = llvm.mlir.constant(2 : i32) : i32
      %format = llvm.mlir.addressof @kvc_failure_format : !llvm.ptr
      %written = llvm.call @dprintf(%stderr, %format, %text) vararg(!llvm.func<i32 (i32, ptr, ...)>)
          : (i32, !llvm.ptr, !llvm.ptr) -> i32
      llvm.call @abort() : () -> ()
      llvm.unreachable
    })mlir");
}

// A text as a constant of the module; equal texts are one.
static Value emit_text(OpBuilder& b, Location loc, const Twine& text) {
  auto module = b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  const std::string value = (text + Twine('\0')).str();
  std::string name;
  for (int i = 0;; ++i) {
    name = "kvc_text_" + std::to_string(i);
    Operation* found = module.lookupSymbol(name);
    if (!found) break;
    auto global = dyn_cast<LLVM::GlobalOp>(found);
    const auto same = global ? dyn_cast_or_null<StringAttr>(global.getValueAttr()) : StringAttr();
    if (same && same.getValue() == value) {
      return b.create<LLVM::AddressOfOp>(loc, LLVM::LLVMPointerType::get(b.getContext()), name);
    }
  }
  return LLVM::createGlobalString(loc, b, name, value, LLVM::Linkage::Internal);
}

void emit_check(OpBuilder& b, Location loc, Value condition, const Twine& text) {
  const Value yes = b.create<arith::ConstantIntOp>(loc, 1, 1);
  const Value wrong = b.create<arith::XOrIOp>(loc, condition, yes);
  const Value argument = emit_text(b, loc, text);
  auto branch = b.create<scf::IfOp>(loc, wrong, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  const auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {argument.getType()});
  b.create<LLVM::CallOp>(loc, type, "kvc_failure", ValueRange{argument});
}

void emit_contiguous_check(OpBuilder& b, Operation* op, Value memref, Value last_stride) {
  SmallVector<int64_t> strides;
  int64_t offset;
  const LogicalResult known = getStridesAndOffset(cast<MemRefType>(memref.getType()), strides, offset);
  if (succeeded(known) && strides.back() == 1) return;
  const Location loc = op->getLoc();
  const Value one = b.create<arith::ConstantIndexOp>(loc, 1);
  const Value contiguous = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, last_stride, one);
  emit_check(b, loc, contiguous,
             Twine(op->getName().getStringRef()) + ": the last dimension of a memref must be contiguous");
}

namespace {

// Emits the checks of one op.
struct ShapeChecks {
  OpBuilder& b;
  Operation* op;

  Location loc() const { return op->getLoc(); }
  Value index(int64_t value) { return b.create<arith::ConstantIndexOp>(loc(), value); }

  void equal(OpFoldResult a, OpFoldResult wanted, StringRef what) {
    const auto left = getConstantIntValue(a), right = getConstantIntValue(wanted);
    if (left && right) return;  // verified
    const Value same = b.create<arith::CmpIOp>(loc(), arith::CmpIPredicate::eq, value(a), value(wanted));
    emit_check(b, loc(), same, Twine(op->getName().getStringRef()) + ": " + what);
  }
  Value value(OpFoldResult it) { return getValueOrCreateConstantIndexOp(b, loc(), it); }
  OpFoldResult dim(Value memref, int64_t at) { return memref::getMixedSize(b, loc(), memref, at); }
  OpFoldResult number(int64_t value) { return b.getIndexAttr(value); }

  void layer(Value layer, PagedCacheType cache) {
    const Value inside =
        b.create<arith::CmpIOp>(loc(), arith::CmpIPredicate::ult, layer, index(cache.getLayers()));
    emit_check(
        b, loc(), inside,
        Twine(op->getName().getStringRef()) + ": the layer must be 0 .. " + Twine(cache.getLayers() - 1));
  }
  void row(Value rows, OpFoldResult heads, PagedCacheType cache, StringRef name) {
    equal(dim(rows, 1), heads, (name + " must have as many heads as the cache or the queries").str());
    equal(dim(rows, 2), number(cache.getHeadDim()), (name + " must have head_dim elements per head").str());
  }
};

template <typename Op>
void check_rows(ShapeChecks& checks, Op op) {
  const PagedCacheType cache = op.getCache().getType();
  checks.row(op.getKeys(), checks.number(cache.getKvHeads()), cache, "keys");
  checks.row(op.getValues(), checks.number(cache.getKvHeads()), cache, "values");
  checks.equal(checks.dim(op.getValues(), 0), checks.dim(op.getKeys(), 0),
               "values must have as many tokens as keys");
  if (op.getSlots()) {
    checks.equal(checks.dim(op.getSlots(), 0), checks.dim(op.getKeys(), 0),
                 "slots must have as many entries as keys have tokens");
  }
}

void check_attention(ShapeChecks& checks, PagedAttentionOp op) {
  const PagedCacheType cache = op.getCache().getType();
  const OpFoldResult heads = checks.dim(op.getQueries(), 1), requests = checks.dim(op.getLens(), 0);
  const OpFoldResult queries = checks.dim(op.getQueries(), 0);
  checks.row(op.getQueries(), heads, cache, "queries");
  checks.row(op.getOut(), heads, cache, "out");
  checks.equal(checks.dim(op.getOut(), 0), queries, "out must have as many rows as queries");
  checks.equal(checks.dim(op.getTables(), 0), requests, "tables must have as many rows as lens has entries");
  if (op.getMaskOffsets()) {
    checks.equal(checks.dim(op.getMaskOffsets(), 0), requests,
                 "mask_offsets must have as many entries as lens");
  }
  if (op.getMaskStarts()) {
    checks.equal(checks.dim(op.getMaskStarts(), 0), requests,
                 "mask_starts must have as many entries as lens");
  }
  if (op.getSinkLogits())
    checks.equal(checks.dim(op.getSinkLogits(), 0), heads, "sink_logits must have an entry per head");
  if (op.getAlibiSlopes())
    checks.equal(checks.dim(op.getAlibiSlopes(), 0), heads, "alibi_slopes must have an entry per head");
  if (!op.getOffsets()) {
    checks.equal(queries, requests, "without offsets there must be one query per request");
    return;
  }
  OpBuilder& b = checks.b;
  const Location loc = op.getLoc();
  const Value count = checks.value(requests);
  const Value entries = b.create<arith::AddIOp>(loc, count, checks.index(1));
  checks.equal(checks.dim(op.getOffsets(), 0), OpFoldResult(entries),
               "offsets must have one entry more than lens");
  const Value last = b.create<memref::LoadOp>(loc, op.getOffsets(), ValueRange{count});
  const Value end = b.create<arith::IndexCastOp>(loc, b.getIndexType(), last);
  const Value inside = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::ule, end, checks.value(queries));
  emit_check(b, loc, inside,
             "kvc.paged_attention: the last of offsets must be at most the number of queries");
}

}  // namespace

void emit_shape_checks(OpBuilder& b, CacheOpInterface op) {
  ShapeChecks checks{b, op};
  checks.layer(op.getLayer(), op.getCache().getType());
  if (auto append = dyn_cast<AppendKvOp>(*op)) check_rows(checks, append);
  if (auto lookup = dyn_cast<LookupKvOp>(*op)) check_rows(checks, lookup);
  if (auto attention = dyn_cast<PagedAttentionOp>(*op)) check_attention(checks, attention);
}

void add_structural_conversions(TypeConverter& types, RewritePatternSet& patterns, ConversionTarget& target) {
  const auto cast_to = [](OpBuilder& b, Type type, ValueRange values, Location loc) -> std::optional<Value> {
    return b.create<UnrealizedConversionCastOp>(loc, type, values).getResult(0);
  };
  types.addSourceMaterialization(cast_to);
  types.addTargetMaterialization(cast_to);
  types.addArgumentMaterialization(cast_to);
  populateFunctionOpInterfaceTypeConversionPattern<func::FuncOp>(patterns, types);
  populateCallOpTypeConversionPattern(patterns, types);
  populateReturnOpTypeConversionPattern(patterns, types);
  populateBranchOpInterfaceTypeConversionPattern(patterns, types);
  scf::populateSCFStructuralTypeConversionsAndLegality(types, patterns, target);
  target.markUnknownOpDynamicallyLegal([&types](Operation* op) {
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      return types.isSignatureLegal(function.getFunctionType()) && types.isLegal(&function.getBody());
    }
    return types.isLegal(op);
  });
}

MemRefType memref_of(PagedCacheType cache) {
  return MemRefType::get({cache.getLayers(), cache.getNumBlocks(), 2, cache.getKvHeads(),
                          cache.getBlockSize(), cache.getHeadDim()},
                         cache.getElementType());
}

}  // namespace mlir::kvc
