// SPDX-License-Identifier: Apache-2.0
// kvc-to-reference: caches become memrefs, and each op on them a call of a function that does it plainly. The
// functions are text: what the ops mean, in linalg, scf and memref. $T is the element type of the cache, $R
// that of the rows.
#include "support.h"

namespace mlir::kvc {

#define GEN_PASS_DEF_KVCTOREFERENCE
#include "Kvc.passes.h.inc"

namespace {

// The row of a token: block and offset of its slot; nothing if the slot is negative.
constexpr const char* kCopyRows = R"mlir(
func.func private @$NAME(%cache: $CACHE, %layer: index, %slots: $I64S, %table: $I32S, %first: index, %by_table: i1,
                         %k: $ROWS, %v: $ROWS) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %block_size = arith.constant $B : index
  %size = arith.constant $B : i64
  %tokens = memref.dim %k, %c0 : $ROWS
  scf.for %t = %c0 to %tokens step %c1 {
    %slot = scf.if %by_table -> i64 {
      %position = arith.addi %first, %t : index
      %entry = arith.divui %position, %block_size : index
      %offset = arith.remui %position, %block_size : index
      %block = memref.load %table[%entry] : $I32S
      %block64 = arith.extsi %block : i32 to i64
      %offset64 = arith.index_cast %offset : index to i64
      %start = arith.muli %block64, %size : i64
      %sum = arith.addi %start, %offset64 : i64
      scf.yield %sum : i64
    } else {
      %given = memref.load %slots[%t] : $I64S
      scf.yield %given : i64
    }
    %stored = arith.cmpi sge, %slot, %zero : i64
    scf.if %stored {
      %at = arith.index_cast %slot : i64 to index
      %b = arith.divui %at, %block_size : index
      %n = arith.remui %at, %block_size : index
      %row_k = memref.subview %k[%t, 0, 0] [1, $H, $D] [1, 1, 1] : $ROWS to $ROW
      %row_v = memref.subview %v[%t, 0, 0] [1, $H, $D] [1, 1, 1] : $ROWS to $ROW
      %cell_k = memref.subview %cache[%layer, %b, 0, 0, %n, 0] [1, 1, 1, $H, 1, $D] [1, 1, 1, 1, 1, 1] : $CACHE to $CELL
      %cell_v = memref.subview %cache[%layer, %b, 1, 0, %n, 0] [1, 1, 1, $H, 1, $D] [1, 1, 1, 1, 1, 1] : $CACHE to $CELL
      $COPY
    }
  }
  return
})mlir";

constexpr const char* kCopy = R"mlir(
      linalg.generic {indexing_maps = [affine_map<(h, d) -> (h, d)>, affine_map<(h, d) -> (h, d)>],
                      iterator_types = ["parallel", "parallel"]} ins(%$FROM : $FROM_TYPE) outs(%$TO : $TO_TYPE) {
      ^bb0(%in: $FROM_ELEMENT, %out: $TO_ELEMENT):
        $CONVERT
        linalg.yield %converted : $TO_ELEMENT
      })mlir";

// One query and head after the other, in float64: logits, their largest one, the sum of exp, and the weighted
// values.
constexpr const char* kAttention = R"mlir(
func.func private @$NAME(%q: $ROWS, %cache: $CACHE, %layer: index, %tables: $TABLES, %lens: $I64S, %offsets: $I64S,
                         %has_offsets: i1, %mask: $I8S, %mask_offsets: $I64S, %has_mask: i1,
                         %mask_starts: $I64S, %has_mask_starts: i1, %sink_logits: $F32S, %has_sink_logits: i1,
                         %alibi_slopes: $F32S, %has_alibi_slopes: i1, %scale: f64, %soft_cap: f64, %window: index, %sinks: index, %causal: i1,
                         %out: $ROWS) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.0 : f64
  %lowest = arith.constant 0xFFF0000000000000 : f64
  %no_bit = arith.constant 0 : i8
  %one_bit = arith.constant 1 : i8
  %block_size = arith.constant $B : index
  %heads = arith.constant $Q : index
  %group = arith.constant $G : index
  %dim = arith.constant $D : index
  %requests = memref.dim %lens, %c0 : $I64S
  %has_cap = arith.cmpf one, %soft_cap, %zero : f64
  %has_window = arith.cmpi ne, %window, %c0 : index
  %sum_of = memref.alloc() : memref<$Dxf64>
  scf.for %r = %c0 to %requests step %c1 {
    %len64 = memref.load %lens[%r] : $I64S
    %len = arith.index_cast %len64 : i64 to index
    %next = arith.addi %r, %c1 : index
    %begin, %end = scf.if %has_offsets -> (index, index) {
      %b64 = memref.load %offsets[%r] : $I64S
      %e64 = memref.load %offsets[%next] : $I64S
      %b = arith.index_cast %b64 : i64 to index
      %e = arith.index_cast %e64 : i64 to index
      scf.yield %b, %e : index, index
    } else {
      scf.yield %r, %next : index, index
    }
    %queries = arith.subi %end, %begin : index
    %start = arith.subi %len, %queries : index
    %mask_start = scf.if %has_mask_starts -> index {
      %s64 = memref.load %mask_starts[%r] : $I64S
      %s = arith.index_cast %s64 : i64 to index
      scf.yield %s : index
    } else {
      scf.yield %c0 : index
    }
    %masked = arith.subi %len, %mask_start : index
    %logits = memref.alloc(%len) : memref<?xf64>
    scf.for %i = %c0 to %queries step %c1 {
      %t = arith.addi %begin, %i : index
      %position = arith.addi %start, %i : index
      scf.for %h = %c0 to %heads step %c1 {
        %kv_head = arith.divui %h, %group : index
        %slope = scf.if %has_alibi_slopes -> f64 {
          %s = memref.load %alibi_slopes[%h] : $F32S
          %s64 = arith.extf %s : f32 to f64
          scf.yield %s64 : f64
        } else {
          scf.yield %zero : f64
        }
        // The logits; -infinity where the query does not see the position.
        %largest_key = scf.for %j = %c0 to %len step %c1 iter_args(%largest = %lowest) -> f64 {
          %earlier = arith.cmpi ule, %j, %position : index
          %everything = arith.constant true
          %order = arith.select %causal, %earlier, %everything : i1
          %reach = arith.addi %j, %window : index
          %near = arith.cmpi ugt, %reach, %position : index
          %is_sink = arith.cmpi ult, %j, %sinks : index
          %near_or_sink = arith.ori %near, %is_sink : i1
          %in_window = arith.select %has_window, %near_or_sink, %everything : i1
          %after_start = arith.cmpi uge, %j, %mask_start : index
          %is_masked = arith.andi %has_mask, %after_start : i1
          %bit = scf.if %is_masked -> i1 {
            %first64 = memref.load %mask_offsets[%r] : $I64S
            %first = arith.index_cast %first64 : i64 to index
            %row = arith.muli %i, %masked : index
            %column = arith.subi %j, %mask_start : index
            %in_row = arith.addi %row, %column : index
            %at = arith.addi %first, %in_row : index
            %byte_at = arith.divui %at, %c8 : index
            %bit_at = arith.remui %at, %c8 : index
            %byte = memref.load %mask[%byte_at] : $I8S
            %shift32 = arith.index_cast %bit_at : index to i32
            %shift = arith.trunci %shift32 : i32 to i8
            %shifted = arith.shrui %byte, %shift : i8
            %low = arith.andi %shifted, %one_bit : i8
            %set = arith.cmpi ne, %low, %no_bit : i8
            scf.yield %set : i1
          } else {
            scf.yield %everything : i1
          }
          %rules = arith.andi %order, %in_window : i1
          %visible = arith.andi %rules, %bit : i1
          %logit = scf.if %visible -> f64 {
            %entry = arith.divui %j, %block_size : index
            %n = arith.remui %j, %block_size : index
            %block32 = memref.load %tables[%r, %entry] : $TABLES
            %block = arith.index_cast %block32 : i32 to index
            %dot = scf.for %d = %c0 to %dim step %c1 iter_args(%sum = %zero) -> f64 {
              %x = memref.load %q[%t, %h, %d] : $ROWS
              %y = memref.load %cache[%layer, %block, %c0, %kv_head, %n, %d] : $CACHE
              %x64 = arith.extf %x : $R to f64
              %y64 = arith.extf %y : $T to f64
              %product = arith.mulf %x64, %y64 : f64
              %more = arith.addf %sum, %product : f64
              scf.yield %more : f64
            }
            %scaled = arith.mulf %dot, %scale : f64
            %capped = scf.if %has_cap -> f64 {
              %part = arith.divf %scaled, %soft_cap : f64
              %bent = math.tanh %part : f64
              %back = arith.mulf %bent, %soft_cap : f64
              scf.yield %back : f64
            } else {
              scf.yield %scaled : f64
            }
            %distance = arith.subi %j, %position : index
            %distance64 = arith.index_cast %distance : index to i64
            %far = arith.sitofp %distance64 : i64 to f64
            %bias = arith.mulf %slope, %far : f64
            %biased = arith.addf %capped, %bias : f64
            scf.yield %biased : f64
          } else {
            scf.yield %lowest : f64
          }
          memref.store %logit, %logits[%j] : memref<?xf64>
          %larger = arith.maximumf %largest, %logit : f64
          scf.yield %larger : f64
        }
        %sink = scf.if %has_sink_logits -> f64 {
          %s = memref.load %sink_logits[%h] : $F32S
          %s64 = arith.extf %s : f32 to f64
          scf.yield %s64 : f64
        } else {
          scf.yield %lowest : f64
        }
        %largest_of_both = arith.maximumf %largest_key, %sink : f64
        %nothing = arith.cmpf oeq, %largest_of_both, %lowest : f64
        %shift_by = arith.select %nothing, %zero, %largest_of_both : f64
        linalg.fill ins(%zero : f64) outs(%sum_of : memref<$Dxf64>)
        %sink_shifted = arith.subf %sink, %shift_by : f64
        %sink_weight = math.exp %sink_shifted : f64
        %divisor = scf.for %j = %c0 to %len step %c1 iter_args(%sum = %sink_weight) -> f64 {
          %logit = memref.load %logits[%j] : memref<?xf64>
          %seen = arith.cmpf one, %logit, %lowest : f64
          %more = scf.if %seen -> f64 {
            %shifted = arith.subf %logit, %shift_by : f64
            %weight = math.exp %shifted : f64
            %entry = arith.divui %j, %block_size : index
            %n = arith.remui %j, %block_size : index
            %block32 = memref.load %tables[%r, %entry] : $TABLES
            %block = arith.index_cast %block32 : i32 to index
            scf.for %d = %c0 to %dim step %c1 {
              %y = memref.load %cache[%layer, %block, %c1, %kv_head, %n, %d] : $CACHE
              %y64 = arith.extf %y : $T to f64
              %weighted = arith.mulf %weight, %y64 : f64
              %old = memref.load %sum_of[%d] : memref<$Dxf64>
              %new = arith.addf %old, %weighted : f64
              memref.store %new, %sum_of[%d] : memref<$Dxf64>
            }
            %bigger = arith.addf %sum, %weight : f64
            scf.yield %bigger : f64
          } else {
            scf.yield %sum : f64
          }
          scf.yield %more : f64
        }
        scf.for %d = %c0 to %dim step %c1 {
          %sum = memref.load %sum_of[%d] : memref<$Dxf64>
          %mean = arith.divf %sum, %divisor : f64
          %sees_none = arith.cmpf oeq, %divisor, %zero : f64
          %result64 = arith.select %sees_none, %zero, %mean : f64
          $NARROW
          memref.store %result, %out[%t, %h, %d] : $ROWS
        }
      }
    }
    memref.dealloc %logits : memref<?xf64>
  }
  memref.dealloc %sum_of : memref<$Dxf64>
  return
})mlir";

std::string print(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

// Replaces $NAMES by words; longer names first, so that $ROWS is not $R.
std::string fill(std::string text, std::vector<std::pair<std::string, std::string>> words) {
  std::sort(words.begin(), words.end(),
            [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  for (const auto& [name, word] : words) {
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += word.size()) {
      text.replace(at, name.size(), word);
    }
  }
  return text;
}

std::string conversion(Type from, Type to) {
  const unsigned a = from.getIntOrFloatBitWidth(), b = to.getIntOrFloatBitWidth();
  if (from == to) return "%converted = arith.bitcast %in : " + print(from) + " to " + print(to);
  if (a < b) return "%converted = arith.extf %in : " + print(from) + " to " + print(to);
  if (a > b) return "%converted = arith.truncf %in : " + print(from) + " to " + print(to);
  return "%wide = arith.extf %in : " + print(from) +
         " to f32\n        %converted = arith.truncf %wide : f32 to " + print(to);
}

// A memref of any strides, except for the last dimension.
MemRefType strided(ArrayRef<int64_t> shape, Type element) {
  SmallVector<int64_t> strides(shape.size(), ShapedType::kDynamic);
  strides.back() = 1;
  return MemRefType::get(shape, element,
                         StridedLayoutAttr::get(element.getContext(), ShapedType::kDynamic, strides));
}

// Replaces ops on caches. An op's cache has become a memref in `in`.
class Calls {
 public:
  Calls(ConversionPatternRewriter& rewriter, Operation* op) : b_(rewriter), op_(op), loc_(op->getLoc()) {}

  Value number(int64_t value) { return b_.create<arith::ConstantIndexOp>(loc_, value); }
  Value flag(bool value) { return b_.create<arith::ConstantIntOp>(loc_, value, 1); }
  Value real(double value) {
    return b_.create<arith::ConstantFloatOp>(loc_, APFloat(value), b_.getF64Type());
  }
  Value as(Value value, MemRefType type) {
    if (value.getType() == type) return value;
    auto parts = b_.create<memref::ExtractStridedMetadataOp>(loc_, value);
    emit_contiguous_check(b_, op_, value, parts.getStrides().back());
    return b_.create<memref::CastOp>(loc_, type, value);
  }
  // An optional operand, or one element of memory that nobody reads.
  Value array(Value value, Type element) {
    const MemRefType type = strided({ShapedType::kDynamic}, element);
    if (!value) {  // at the function's beginning, so that a loop takes it once
      OpBuilder::InsertionGuard guard(b_);
      b_.setInsertionPointToStart(&op_->getParentOfType<func::FuncOp>().getBody().front());
      value = b_.create<memref::AllocaOp>(loc_, MemRefType::get({1}, element));
    }
    return as(value, type);
  }
  LogicalResult call(const std::string& name, const std::string& text, ValueRange arguments) {
    ModuleOp module = op_->getParentOfType<ModuleOp>();
    if (failed(insert_functions(module, text))) return failure();
    b_.create<func::CallOp>(loc_, name, TypeRange{}, arguments);
    return success();
  }
  ConversionPatternRewriter& builder() { return b_; }

 private:
  ConversionPatternRewriter& b_;
  Operation* op_;
  Location loc_;
};

std::string name_of(StringRef what, PagedCacheType cache, Type rows, int64_t heads) {
  std::string name = "kvc_reference_" + what.str() + "_" + print(cache.getElementType());
  for (const int64_t it : {cache.getLayers(), cache.getKvHeads(), cache.getHeadDim(), cache.getBlockSize(),
                           cache.getNumBlocks()}) {
    name += "_" + std::to_string(it);
  }
  return name + "_" + print(rows) + "_" + std::to_string(heads);
}

std::vector<std::pair<std::string, std::string>> words_of(const std::string& name, PagedCacheType cache,
                                                          Type row, int64_t heads) {
  const int64_t any = ShapedType::kDynamic;
  Builder b(row.getContext());
  return {{"$NAME", name},
          {"$CACHE", print(memref_of(cache))},
          {"$ROWS", print(strided({any, heads, cache.getHeadDim()}, row))},
          {"$TABLES", print(strided({any, any}, b.getI32Type()))},
          {"$I64S", print(strided({any}, b.getI64Type()))},
          {"$I32S", print(strided({any}, b.getI32Type()))},
          {"$I8S", print(strided({any}, b.getI8Type()))},
          {"$F32S", print(strided({any}, b.getF32Type()))},
          {"$B", std::to_string(cache.getBlockSize())},
          {"$H", std::to_string(cache.getKvHeads())},
          {"$D", std::to_string(cache.getHeadDim())},
          {"$Q", std::to_string(heads)},
          {"$G", std::to_string(heads / cache.getKvHeads())},
          {"$T", print(cache.getElementType())},
          {"$R", print(row)},
          // To 16 bits by way of f32: conversions from f64 would be calls of a compiler's library.
          {"$NARROW",
           row.isF32() ? "%result = arith.truncf %result64 : f64 to f32"
                       : "%result32 = arith.truncf %result64 : f64 to f32\n          %result = arith.truncf "
                         "%result32 : f32 to " +
                             print(row)}};
}

template <typename Op>
struct CopyPattern : OpConversionPattern<Op> {
  using OpConversionPattern<Op>::OpConversionPattern;

  LogicalResult matchAndRewrite(Op op, typename Op::Adaptor in,
                                ConversionPatternRewriter& rewriter) const override {
    constexpr bool store = std::is_same_v<Op, AppendKvOp>;
    const PagedCacheType cache = op.getCache().getType();
    const Type row = cast<MemRefType>(op.getKeys().getType()).getElementType(),
               element = cache.getElementType();
    emit_shape_checks(rewriter, op);
    const std::string name = name_of(store ? "append" : "lookup", cache, row, cache.getKvHeads());
    auto words = words_of(name, cache, row, cache.getKvHeads());
    const auto row_type = MemRefType::get(
        {cache.getKvHeads(), cache.getHeadDim()}, row,
        StridedLayoutAttr::get(op.getContext(), ShapedType::kDynamic, {ShapedType::kDynamic, 1}));
    const auto cell_type =
        MemRefType::get({cache.getKvHeads(), cache.getHeadDim()}, element,
                        StridedLayoutAttr::get(op.getContext(), ShapedType::kDynamic,
                                               {cache.getBlockSize() * cache.getHeadDim(), 1}));
    std::string copies;
    for (const std::string plane : {"k", "v"}) {
      const std::pair<std::string, Type> rows("row_" + plane, row_type), cells("cell_" + plane, cell_type);
      const auto& from = store ? rows : cells;
      const auto& to = store ? cells : rows;
      copies += fill(kCopy, {{"$FROM", from.first},
                             {"$FROM_TYPE", print(from.second)},
                             {"$FROM_ELEMENT", print(store ? row : element)},
                             {"$TO", to.first},
                             {"$TO_TYPE", print(to.second)},
                             {"$TO_ELEMENT", print(store ? element : row)},
                             {"$CONVERT", store ? conversion(row, element) : conversion(element, row)}});
    }
    words.push_back({"$COPY", copies});
    words.push_back({"$ROW", print(row_type)});
    words.push_back({"$CELL", print(cell_type)});
    Calls c(rewriter, op);
    const MemRefType rows = strided({ShapedType::kDynamic, cache.getKvHeads(), cache.getHeadDim()}, row);
    const Value first = in.getFirst() ? in.getFirst() : c.number(0);
    const SmallVector<Value> arguments{in.getCache(),
                                       in.getLayer(),
                                       c.array(in.getSlots(), rewriter.getI64Type()),
                                       c.array(in.getTable(), rewriter.getI32Type()),
                                       first,
                                       c.flag(bool(in.getTable())),
                                       c.as(in.getKeys(), rows),
                                       c.as(in.getValues(), rows)};
    if (failed(c.call(name, fill(kCopyRows, words), arguments))) return failure();
    rewriter.eraseOp(op);
    return success();
  }
};

struct AttentionPattern : OpConversionPattern<PagedAttentionOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult matchAndRewrite(PagedAttentionOp op, OpAdaptor in,
                                ConversionPatternRewriter& rewriter) const override {
    const PagedCacheType cache = op.getCache().getType();
    const auto queries = cast<MemRefType>(op.getQueries().getType());
    const int64_t heads = queries.getDimSize(1), any = ShapedType::kDynamic;
    emit_shape_checks(rewriter, op);
    const std::string name = name_of("attention", cache, queries.getElementType(), heads);
    const float scale = op.getScale().convertToFloat();
    Calls c(rewriter, op);
    const MemRefType rows = strided({any, heads, cache.getHeadDim()}, queries.getElementType());
    const SmallVector<Value> arguments{
        c.as(in.getQueries(), rows),
        in.getCache(),
        in.getLayer(),
        c.as(in.getTables(), strided({any, any}, rewriter.getI32Type())),
        c.array(in.getLens(), rewriter.getI64Type()),
        c.array(in.getOffsets(), rewriter.getI64Type()),
        c.flag(bool(in.getOffsets())),
        c.array(in.getMask(), rewriter.getI8Type()),
        c.array(in.getMaskOffsets(), rewriter.getI64Type()),
        c.flag(bool(in.getMask())),
        c.array(in.getMaskStarts(), rewriter.getI64Type()),
        c.flag(bool(in.getMaskStarts())),
        c.array(in.getSinkLogits(), rewriter.getF32Type()),
        c.flag(bool(in.getSinkLogits())),
        c.array(in.getAlibiSlopes(), rewriter.getF32Type()),
        c.flag(bool(in.getAlibiSlopes())),
        c.real(scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(cache.getHeadDim()))),
        c.real(op.getSoftCap().convertToFloat()),
        c.number(op.getWindow()),
        c.number(op.getSinks()),
        c.flag(!op.getBidirectional()),
        c.as(in.getOut(), rows)};
    const std::string text = fill(kAttention, words_of(name, cache, queries.getElementType(), heads));
    if (failed(c.call(name, text, arguments))) return failure();
    rewriter.eraseOp(op);
    return success();
  }
};

struct CreatePattern : OpConversionPattern<CreateCacheOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(CreateCacheOp op, OpAdaptor,
                                ConversionPatternRewriter& rewriter) const override {
    const MemRefType type = memref_of(op.getCache().getType());
    const Value memory = rewriter.create<memref::AllocOp>(op.getLoc(), type, rewriter.getI64IntegerAttr(64));
    const Value zero =
        rewriter.create<arith::ConstantOp>(op.getLoc(), rewriter.getZeroAttr(type.getElementType()));
    rewriter.create<linalg::FillOp>(op.getLoc(), zero, memory);
    rewriter.replaceOp(op, memory);
    return success();
  }
};

// Who frees the memory of a cache: it does if it created it. The value tells: an adopted memref is not freed.
struct DestroyPattern : OpConversionPattern<DestroyCacheOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(DestroyCacheOp op, OpAdaptor in,
                                ConversionPatternRewriter& rewriter) const override {
    if (op.getCache().getDefiningOp<CreateCacheOp>()) {
      rewriter.create<memref::DeallocOp>(op.getLoc(), in.getCache());
    } else if (!op.getCache().getDefiningOp<AdoptMemRefOp>()) {
      return op.emitOpError(
          "destroys a cache of which this function does not see who created it; the reference needs that");
    }
    rewriter.eraseOp(op);
    return success();
  }
};

template <typename Op>
struct SameMemory : OpConversionPattern<Op> {
  using OpConversionPattern<Op>::OpConversionPattern;
  LogicalResult matchAndRewrite(Op op, typename Op::Adaptor in,
                                ConversionPatternRewriter& rewriter) const override {
    rewriter.replaceOp(op, in.getOperands()[0]);
    return success();
  }
};

struct ToReference : impl::KvcToReferenceBase<ToReference> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MLIRContext* context = &getContext();
    if (failed(check(module)) || failed(check_placement(module)) || failed(insert_failure(module)))
      return signalPassFailure();
    TypeConverter types;
    types.addConversion([](Type type) { return type; });
    types.addConversion([](PagedCacheType type) -> Type { return memref_of(type); });
    RewritePatternSet patterns(context);
    patterns.add<CopyPattern<AppendKvOp>, CopyPattern<LookupKvOp>, AttentionPattern, CreatePattern,
                 DestroyPattern, SameMemory<AdoptMemRefOp>, SameMemory<ExportMemRefOp>>(types, context);
    ConversionTarget target(*context);
    add_structural_conversions(types, patterns, target);
    target.addLegalOp<UnrealizedConversionCastOp>();
    if (failed(applyPartialConversion(module, target, std::move(patterns)))) signalPassFailure();
  }

  // What the reference cannot do, said before anything changes.
  LogicalResult check(ModuleOp module) {
    const WalkResult result = module.walk([](Operation* op) {
      for (const TypeRange types : {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())}) {
        for (const Type type : types) {
          const auto cache = dyn_cast<PagedCacheType>(type);
          if (cache && !cache.getElementType().isF32() && !cache.getElementType().isF16() &&
              !cache.getElementType().isBF16()) {
            op->emitOpError() << "has a cache of " << cache.getElementType()
                              << "; the reference has f32, f16 and bf16";
            return WalkResult::interrupt();
          }
        }
      }
      if (isa<CacheOfOp>(op)) {
        op->emitOpError("takes an engine's storage, which the reference cannot read; use kvc-to-calls");
        return WalkResult::interrupt();
      }
      if (isa<CacheOpInterface>(op) && llvm::any_of(op->getOperandTypes(), llvm::IsaPred<TensorType>)) {
        op->emitOpError("has tensors; run one-shot-bufferize before kvc-to-reference");
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }
};

}  // namespace
}  // namespace mlir::kvc
